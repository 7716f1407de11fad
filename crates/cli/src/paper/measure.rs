//! Programs on machines, and what is made of them: numbers of several of their metrics (sums, shares, quotients of two
//! machines), and time lines.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use pagewalk_report::{Drawn, Figure, Moment, PaperRow, timeline_rows};
use pagewalk_sim::machine::Detail;
use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::spec::MachineSpec;
use serde::Deserialize;

use super::programs::{ApplicationSpec, judged};
use crate::say::note;

/// The measured part of an experiment file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasureSpec {
    application: BTreeMap<String, ApplicationSpec>,
    #[serde(default)]
    row: Vec<MeasureRow>,
    #[serde(default)]
    mean: Vec<MeanRow>,
    /// The time lines: what happened when.
    #[serde(default)]
    timeline: Vec<TimelineSpec>,
}

/// The mean of rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeanRow {
    item: String,
    /// The beginning of the names of the rows' items.
    of: String,
    /// Whether it is the geometric mean and not the arithmetic one.
    #[serde(default)]
    geometric: bool,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

/// One number: `scale * top / bottom`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasureRow {
    item: String,
    application: String,
    /// The phase that counts; without it the whole run.
    phase: Option<String>,
    top: Term,
    bottom: Option<Term>,
    #[serde(default = "one")]
    scale: f64,
    unit: String,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

fn one() -> f64 {
    1.0
}

/// A picture of the last steps of some machines' kernels and accelerators.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimelineSpec {
    item: String,
    title: String,
    about: String,
    application: String,
    /// From top to bottom.
    machines: Vec<NamedMachine>,
    window_us: u64,
    /// Which of the steps.
    moment: Moment,
}

/// A machine, and what it is called in a picture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedMachine {
    machine: String,
    name: String,
}

/// Metrics of a machine, each as `"stage metric"`: a sum, less another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Term {
    machine: String,
    sum: Vec<String>,
    #[serde(default)]
    less: Vec<String>,
}

impl MeasureSpec {
    pub(super) fn keep(&mut self, prefix: &str) {
        self.mean.retain(|mean| mean.of.starts_with(prefix));
        self.row.retain(|row| row.item.starts_with(prefix));
        self.timeline.retain(|timeline| timeline.item.starts_with(prefix));
        let (rows, timelines) = (&self.row, &self.timeline);
        self.application.retain(|name, _| {
            rows.iter().any(|row| row.application == *name)
                || timelines.iter().any(|timeline| timeline.application == *name)
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty() && self.timeline.is_empty()
    }

    /// Runs every application once, on all machines that its rows and time lines name. The answer is the time lines.
    pub(super) fn run(
        &self,
        machine: impl Fn(&str) -> anyhow::Result<MachineSpec>,
        small: bool,
        threads: usize,
        into: &mut Vec<PaperRow>,
    ) -> anyhow::Result<Vec<Figure>> {
        let (mut results, mut ended) = (BTreeMap::new(), Ok(()));
        for (name, application) in &self.application {
            let machines = self.machines(name);
            note!("running {name} on {} machines", machines.len());
            let specs = machines.into_iter().map(&machine).collect::<anyhow::Result<Vec<_>>>()?;
            let ran = application.run(small, &specs, Detail::Timed, threads);
            match ran.with_context(|| format!("application {name}")) {
                Ok(ran) => drop(results.insert(&**name, ran)),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        let mut rows = Vec::new();
        for row in &self.row {
            match results.get(&*row.application) {
                Some(results) => {
                    rows.push(row.judge(results, small).with_context(|| format!("item {}", row.item))?)
                }
                // It has not run.
                None if ended.is_err() => {}
                None => bail!("item {}: there is no application {}", row.item, row.application),
            }
        }
        if ended.is_err() {
            into.extend(rows);
            return ended.map(|()| Vec::new());
        }
        let means: Vec<PaperRow> = self.mean.iter().map(|mean| mean.judge(&rows, small)).collect();
        into.extend(rows.into_iter().chain(means));
        let draw = |timeline: &TimelineSpec| match results.get(&*timeline.application) {
            Some(results) => timeline.draw(results).with_context(|| format!("item {}", timeline.item)),
            None => bail!("item {}: there is no application {}", timeline.item, timeline.application),
        };
        self.timeline.iter().map(draw).collect()
    }

    /// Returns all machines that rows and time lines of an application name, each once.
    fn machines(&self, application: &str) -> Vec<&str> {
        let rows = self.row.iter().filter(|row| row.application == application);
        let terms = rows.flat_map(|row| [&row.top].into_iter().chain(&row.bottom));
        let timelines = self.timeline.iter().filter(|timeline| timeline.application == application);
        let named = timelines.flat_map(|timeline| &timeline.machines);
        let mut machines: Vec<&str> = Vec::new();
        for machine in terms.map(|term| &*term.machine).chain(named.map(|named| &*named.machine)) {
            if !machines.contains(&machine) {
                machines.push(machine);
            }
        }
        machines
    }
}

impl MeasureRow {
    fn judge(&self, results: &[RunResult], small: bool) -> anyhow::Result<PaperRow> {
        let phase = self.phase.as_deref();
        let top = self.top.of(results, phase)?;
        let bottom = self.bottom.as_ref().map_or(Ok(1.0), |bottom| bottom.of(results, phase))?;
        let ours = (bottom != 0.0).then(|| self.scale * top / bottom);
        let (gate, note) = judged(small, self.gate, &self.note);
        Ok(PaperRow::judged(&*self.item, self.published, ours, &*self.unit, gate, note))
    }
}

impl MeanRow {
    fn judge(&self, rows: &[PaperRow], small: bool) -> PaperRow {
        let rows: Vec<&PaperRow> = rows.iter().filter(|row| row.item.starts_with(&self.of)).collect();
        let term = |ours: f64| if self.geometric { ours.ln() } else { ours };
        let sum: Option<f64> = rows.iter().map(|row| row.ours.map(term)).sum();
        let mean = sum.map(|sum| sum / rows.len() as f64);
        let ours = if self.geometric { mean.map(f64::exp) } else { mean };
        let unit = rows.first().map_or("", |row| &row.unit);
        let (gate, note) = judged(small, self.gate, &self.note);
        PaperRow::judged(&*self.item, self.published, ours, unit, gate, note)
    }
}

impl TimelineSpec {
    fn draw(&self, results: &[RunResult]) -> anyhow::Result<Figure> {
        const PS_PER_US: u64 = 1_000_000;
        let mut rows = Vec::new();
        for NamedMachine { machine, name } in &self.machines {
            let result = result_of(results, machine)?;
            rows.extend(timeline_rows(name, &result.spans, self.window_us * PS_PER_US, self.moment));
        }
        Ok(Figure {
            title: self.title.clone(),
            about: self.about.clone(),
            unit: "us".into(),
            series: Vec::new(),
            drawn: Drawn::Timeline { rows },
        })
    }
}

fn result_of<'a>(results: &'a [RunResult], machine: &str) -> anyhow::Result<&'a RunResult> {
    let result = results.iter().find(|result| result.machine == machine);
    result.with_context(|| format!("no machine {machine}"))
}

impl Term {
    fn of(&self, results: &[RunResult], phase: Option<&str>) -> anyhow::Result<f64> {
        let result = result_of(results, &self.machine)?;
        let metric = |name: &String| -> anyhow::Result<f64> {
            let (stage, metric) = name.split_once(' ').context("a metric is written as \"stage metric\"")?;
            let mut metrics = result.metrics.iter();
            let found = metrics.find(|row| {
                (&*row.stage, &*row.metric, row.phase.as_deref()) == (stage, metric, phase)
                    && matches!(&*row.unit, "count" | "ps" | "bytes" | "ns")
            });
            let value = found.and_then(|row| row.value);
            Ok(value.with_context(|| format!("machine {} reports no {name}", self.machine))?.as_f64())
        };
        let total = |names: &[String]| names.iter().map(metric).sum::<anyhow::Result<f64>>();
        Ok(total(&self.sum)? - total(&self.less)?)
    }
}
