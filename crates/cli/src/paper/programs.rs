//! A paper's programs on machines with and without what it proposes: times and sizes, a row for each and their mean.

use std::collections::BTreeMap;

use anyhow::Context;
use pagewalk_report::PaperRow;
use pagewalk_sim::machine::{Detail, MachineError, build};
use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::run::{RunError, RunOptions};
use pagewalk_sim::spec::{self, MachineSpec};
use serde::Deserialize;

use super::experiment::run_whole;
use crate::say::note;

/// The programs of an experiment file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProgramsSpec {
    application: BTreeMap<String, ApplicationSpec>,
    /// Applications by the name of what they have in common.
    #[serde(default)]
    group: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    row: Vec<ProgramRow>,
    #[serde(default)]
    end: Vec<EndRow>,
}

/// A program, and how much of it runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplicationSpec {
    workload: String,
    small: String,
    #[serde(default)]
    seed: u64,
    /// The phase to begin with; before it, pages are brought in.
    begin: Option<String>,
    /// The most accesses that are simulated.
    limit: Option<u64>,
}

/// A number of every application, and their geometric mean.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramRow {
    item: String,
    /// The applications, by their group's name.
    of: String,
    machine: String,
    /// The machine that `machine` is compared with.
    baseline: Option<String>,
    stage: String,
    metric: String,
    /// A metric of the same stage to take away from it.
    minus: Option<String>,
    /// As the run reports it.
    metric_unit: String,
    /// Whether only what came after the beginning counts.
    #[serde(default)]
    from_begin: bool,
    /// The phase that counts; without it the whole run.
    phase: Option<String>,
    /// A count that the number is divided by.
    divided_by: Option<Divisor>,
    /// Whether the mean is the arithmetic one, and not the geometric.
    #[serde(default)]
    arithmetic: bool,
    /// Whether a row's note is what the application ran.
    #[serde(default)]
    says_workload: bool,
    value: Value,
    /// The number is in so many units.
    #[serde(default = "one")]
    per: f64,
    unit: String,
    /// By application, and `mean`.
    #[serde(default)]
    published: BTreeMap<String, f64>,
    /// By application, and `mean`.
    #[serde(default)]
    gate: BTreeMap<String, [f64; 2]>,
    #[serde(default)]
    note: String,
}

/// A count of a machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Divisor {
    machine: String,
    stage: String,
    metric: String,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// The count of the machine.
    Plain,
    /// The count of `baseline` over that of `machine`.
    Speedup,
    /// The count of `machine` over that of `baseline`.
    Ratio,
}

/// Whether a run ends well (1) or for want of contiguous memory (0).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndRow {
    item: String,
    application: String,
    machine: String,
    published: f64,
    gate: [f64; 2],
    #[serde(default)]
    note: String,
}

impl ProgramsSpec {
    pub(super) fn keep(&mut self, prefix: &str) {
        self.row.retain(|row| row.item.starts_with(prefix) || prefix.starts_with(&format!("{}/", row.item)));
        self.end.retain(|row| row.item.starts_with(prefix));
        // `figure-9/steady/bfs` is one application's.
        let named = self.row.iter().find_map(|row| prefix.strip_prefix(&format!("{}/", row.item)));
        if let Some(name) = named.filter(|name| *name != MEAN) {
            self.group.values_mut().for_each(|group| group.retain(|known| known.starts_with(name)));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty() && self.end.is_empty()
    }

    pub(super) fn run(
        &self,
        machine: impl Fn(&str) -> anyhow::Result<MachineSpec>,
        small: bool,
        threads: usize,
        rows: &mut Vec<PaperRow>,
    ) -> anyhow::Result<()> {
        for end in &self.end {
            rows.push(self.end(end, small)?);
        }
        if self.row.is_empty() {
            return Ok(());
        }
        let mut needed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for row in &self.row {
            for name in
                self.group.get(&row.of).with_context(|| format!("{}: no group {}", row.item, row.of))?
            {
                let machines = needed.entry(name).or_default();
                let divisor = row.divided_by.iter().map(|divisor| &divisor.machine);
                for machine in row.baseline.iter().chain([&row.machine]).chain(divisor) {
                    if !machines.contains(&machine.as_str()) {
                        machines.push(machine);
                    }
                }
            }
        }
        let (mut results, mut ended) = (BTreeMap::new(), Ok(()));
        for (name, machines) in needed {
            let application = self.application.get(name);
            let application = application.with_context(|| format!("there is no application {name}"))?;
            note!("running {name} on {} machines", machines.len());
            let machines = machines.into_iter().map(&machine).collect::<anyhow::Result<Vec<_>>>()?;
            let ran = application.run(small, &machines, Detail::Timed, threads);
            match ran.with_context(|| format!("application {name}")) {
                Ok(ran) => drop(results.insert(name, (application, ran))),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        for row in &self.row {
            let group = &self.group[&row.of];
            let results: Vec<_> =
                group.iter().filter_map(|name| Some((name.as_str(), results.get(name.as_str())?))).collect();
            let is_whole = results.len() == group.len();
            row.judge(&results, is_whole, small, rows).with_context(|| format!("item {}", row.item))?;
        }
        ended
    }

    fn end(&self, row: &EndRow, small: bool) -> anyhow::Result<PaperRow> {
        let application = self.application.get(&row.application);
        let application = application.with_context(|| format!("{}: no such application", row.item))?;
        note!("running {} on {}", row.application, row.machine);
        let ended = application.run(small, &[spec::load(&row.machine)?], Detail::Counts, 1);
        let is_well = match ended {
            Ok(_) => true,
            Err(error) => match error.downcast_ref::<RunError>() {
                Some(RunError::Machine(MachineError::OutOfContiguousMemory { .. })) => false,
                _ => return Err(error),
            },
        };
        let (gate, note) = judged(small, Some(row.gate), &row.note);
        let (ours, published) = (Some(f64::from(u8::from(is_well))), Some(row.published));
        Ok(PaperRow::judged(row.item.clone(), published, ours, "completes", gate, note))
    }
}

/// Returns the gate and the note of a row; a small input is not judged.
pub(super) fn judged(small: bool, gate: Option<[f64; 2]>, note: &str) -> (Option<[f64; 2]>, String) {
    match small {
        true => (None, format!("small input, not judged. {note}").trim_end().to_owned()),
        false => (gate, note.to_owned()),
    }
}

impl ApplicationSpec {
    /// Runs it once, on all machines.
    pub(super) fn run(
        &self,
        small: bool,
        machines: &[MachineSpec],
        detail: Detail,
        threads: usize,
    ) -> anyhow::Result<Vec<RunResult>> {
        let workload = if small { &self.small } else { &self.workload };
        let options =
            RunOptions { threads, begin: self.begin.clone(), limit: self.limit, ..RunOptions::default() };
        pass(workload, self.seed, machines, detail, options)
    }
}

/// Runs a workload once, on all machines.
pub(super) fn pass(
    workload: &str,
    seed: u64,
    machines: &[MachineSpec],
    detail: Detail,
    options: RunOptions,
) -> anyhow::Result<Vec<RunResult>> {
    let mut source = pagewalk_workload::parse(workload, seed)?;
    let info = source.info();
    let built = machines.iter().map(|spec| build(spec, detail, seed, &info));
    let built = built.collect::<Result<Vec<_>, _>>()?;
    run_whole(&mut *source, built, options)
}

/// The row of all applications.
const MEAN: &str = "mean";

impl ProgramRow {
    /// Returns a row for each application that has run, and their mean if all have.
    fn judge(
        &self,
        results: &[(&str, &(&ApplicationSpec, Vec<RunResult>))],
        is_whole: bool,
        small: bool,
        rows: &mut Vec<PaperRow>,
    ) -> anyhow::Result<()> {
        let mut numbers = Vec::new();
        for (name, (application, results)) in results {
            let phase = application.begin.as_deref().filter(|_| self.from_begin).or(self.phase.as_deref());
            let of = |machine: &str| -> anyhow::Result<f64> {
                let minus = self.minus.iter().map(|metric| self.metric(results, machine, metric, phase));
                Ok(self.metric(results, machine, &self.metric, phase)?
                    - minus.sum::<anyhow::Result<f64>>()?)
            };
            let baseline = || {
                let baseline = self.baseline.as_deref();
                of(baseline.context("it is compared with nothing: no baseline")?)
            };
            let ours = match self.value {
                Value::Plain => of(&self.machine)? / self.per,
                Value::Speedup => baseline()? / of(&self.machine)?,
                Value::Ratio => of(&self.machine)? / baseline()?,
            };
            let divisor = match &self.divided_by {
                Some(Divisor { machine, stage, metric }) => {
                    count(results, machine, (stage, metric, "count"), phase)?
                }
                None => 1.0,
            };
            numbers.push((*name, ours / divisor));
        }
        let term = |number: f64| if self.arithmetic { number } else { number.ln() };
        let sum: f64 = numbers.iter().map(|&(_, number)| term(number)).sum();
        let mean = sum / numbers.len() as f64;
        let mean = (MEAN, if self.arithmetic { mean } else { mean.exp() });
        // One that was asked for by name stands for itself.
        let mean = (numbers.len() > 1 && is_whole).then_some(mean);
        for (name, ours) in numbers.into_iter().chain(mean) {
            let ran = results.iter().find(|(known, _)| *known == name && self.says_workload);
            let note = match ran {
                Some((_, (application, _))) => &*application.workload,
                None if name == MEAN => &*self.note,
                None => "",
            };
            let (gate, note) = judged(small, self.gate.get(name).copied(), note);
            let published = self.published.get(name).copied();
            let item = format!("{}/{name}", self.item);
            rows.push(PaperRow::judged(item, published, Some(ours), &*self.unit, gate, note));
        }
        Ok(())
    }

    fn metric(
        &self,
        results: &[RunResult],
        machine: &str,
        metric: &str,
        phase: Option<&str>,
    ) -> anyhow::Result<f64> {
        count(results, machine, (&self.stage, metric, &self.metric_unit), phase)
    }
}

/// Returns what a machine reports, by stage, metric and unit.
pub(super) fn count(
    results: &[RunResult],
    machine: &str,
    (stage, metric, unit): (&str, &str, &str),
    phase: Option<&str>,
) -> anyhow::Result<f64> {
    let rows = results.iter().filter(|result| result.machine == machine).flat_map(|result| &result.metrics);
    let row = rows.into_iter().find(|row| {
        (&*row.stage, &*row.metric, &*row.unit) == (stage, metric, unit) && row.phase.as_deref() == phase
    });
    let missing = || format!("machine {machine} reports no {stage} {metric} in {unit}");
    Ok(row.and_then(|row| row.value).with_context(missing)?.as_f64())
}
