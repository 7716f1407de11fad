//! One experiment file: workloads, machines, and rows of numbers.

use std::collections::BTreeMap;

use anyhow::Context;
use pagewalk_report::{Figure, PaperRow, RunProgress};
use pagewalk_sim::machine::{Detail, Simulate, build};
use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::run::{RunError, RunOptions, run};
use pagewalk_sim::spec::{self, MachineSpec};
use pagewalk_trace::{Source, Stoppable};
use pagewalk_vm::addr::PAGE_BYTES;
use serde::Deserialize;

use super::circuit::{self, CircuitSpec};
use super::figure::FigureSpec;
use super::files::FilesSpec;
use super::knee::KneeSpec;
use super::loads::LoadsSpec;
use super::measure::MeasureSpec;
use super::precision::{self, Ages, AgesSpec, PrecisionSpec};
use super::programs::{ProgramsSpec, judged};
use super::queueing::QueueingSpec;
use super::solve::SolveSpec;
use super::swap::SwapSpec;
use super::tables::TablesSpec;
use crate::args::PaperArguments;
use crate::ending;
use crate::say::{self, note};

/// Workloads, and rows to be measured on them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experiment {
    /// By the name that rows use.
    #[serde(default)]
    workload: BTreeMap<String, WorkloadSpec>,
    /// Machines of this experiment alone, as machine files, by name; rows may name built-in ones, too.
    #[serde(default)]
    machine: BTreeMap<String, String>,
    /// Machines that differ from others in how much memory there is for the program.
    #[serde(default)]
    variant: BTreeMap<String, VariantSpec>,
    #[serde(default)]
    row: Vec<RowSpec>,
    #[serde(default)]
    precision: Vec<PrecisionSpec>,
    #[serde(default)]
    circuit: Vec<CircuitSpec>,
    /// Page tables by themselves.
    #[serde(default)]
    tables: TablesSpec,
    /// The paper's programs on its machines.
    #[serde(default)]
    programs: ProgramsSpec,
    /// Programs on machines of this file, or built-in ones.
    #[serde(default)]
    measure: MeasureSpec,
    /// A server under load.
    #[serde(default)]
    loads: Vec<LoadsSpec>,
    /// Where curves of rows flatten.
    #[serde(default)]
    knee: Vec<KneeSpec>,
    /// Servers as queues.
    queueing: Option<QueueingSpec>,
    /// Operations on files.
    files: Option<FilesSpec>,
    /// Ranges of pages that are swapped.
    swap: Option<SwapSpec>,
    /// What parameters have to be.
    #[serde(default)]
    solve: Vec<SolveSpec>,
    /// Whether it takes minutes.
    #[serde(default)]
    long: bool,
    /// Whether it only runs if an item of it is asked for.
    #[serde(default)]
    on_request: bool,
    #[serde(default)]
    figure: Vec<FigureSpec>,
    #[serde(default)]
    ages: Vec<AgesSpec>,
}

/// What came of experiment files so far.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) rows: Vec<PaperRow>,
    pub(super) figures: Vec<Figure>,
}

/// A workload at the published size, and a small stand-in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadSpec {
    spec: String,
    small: String,
    seed: u64,
}

/// A machine with another limit, or another cache over flash.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariantSpec {
    of: String,
    limit_mib: Option<u64>,
    capacity_mib: Option<u64>,
}

/// A workload that was read, with the machines that its rows name, and these.
type Ready<'a> = (&'a WorkloadSpec, Box<dyn Source + Send>, Vec<MachineSpec>, Vec<&'a RowSpec>);

/// One number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowSpec {
    item: String,
    workload: String,
    /// The phase of the workload that counts; without it the whole run.
    phase: Option<String>,
    stage: String,
    metric: String,
    value: Value,
    machine: String,
    /// What `machine` is compared with.
    baseline: Option<String>,
    /// For a share: the metric of the same stage and machine that is the whole.
    of: Option<String>,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

/// How a row's number comes from the counts of `machine` and `baseline`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// 1 - machine / baseline.
    Reduction,
    /// machine / baseline.
    Ratio,
    /// machine alone.
    Count,
    /// Of machine alone: metric / `of`.
    Share,
}

impl Experiment {
    /// Reads a file, and keeps the rows whose item begins with `prefix`.
    pub(super) fn parse(text: &str, prefix: &str) -> anyhow::Result<Self> {
        let mut experiment: Self = toml::from_str(text)?;
        experiment.row.retain(|row| row.item.starts_with(prefix));
        experiment.precision.retain(|row| row.item.starts_with(prefix));
        experiment.circuit.retain(|row| row.item.starts_with(prefix));
        experiment.tables.keep(prefix);
        experiment.programs.keep(prefix);
        experiment.measure.keep(prefix);
        experiment.knee.retain(|knee| knee.has(prefix));
        experiment.loads.retain(|loads| loads.has(prefix));
        experiment.solve.retain_mut(|solve| solve.keep(prefix));
        if let Some(files) = &mut experiment.files {
            files.keep(prefix);
        }
        experiment.files = experiment.files.filter(|files| !files.is_empty());
        if let Some(swap) = &mut experiment.swap {
            swap.keep(prefix);
        }
        experiment.swap = experiment.swap.filter(|swap| !swap.is_empty());
        if let Some(queueing) = &mut experiment.queueing {
            queueing.keep(prefix);
        }
        experiment.queueing = experiment.queueing.filter(|queueing| !queueing.is_empty());
        let rows = &experiment.row;
        experiment.workload.retain(|name, _| rows.iter().any(|row| row.workload == *name));
        Ok(experiment)
    }

    /// Whether it has no row.
    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty()
            && self.precision.is_empty()
            && self.circuit.is_empty()
            && self.tables.is_empty()
            && self.programs.is_empty()
            && self.measure.is_empty()
            && self.loads.is_empty()
            && self.solve.is_empty()
            && self.queueing.is_none()
            && self.files.is_none()
            && self.swap.is_none()
    }

    /// Whether it takes minutes.
    pub(super) fn is_long(&self) -> bool {
        self.long
    }

    /// Whether it only runs if an item of it is asked for.
    pub(super) fn is_on_request(&self) -> bool {
        self.on_request
    }

    /// Runs every workload once, on all machines that its rows name, judges the rows and draws them, into `outcome`.
    ///
    /// # Errors
    ///
    /// A mistake in the file, or `Interrupted`: `outcome` then has the rows whose numbers were there by then, and no figures of
    /// this file.
    pub(super) fn run(&self, arguments: &PaperArguments, outcome: &mut Outcome) -> anyhow::Result<()> {
        let small = arguments.small;
        let circuit = circuit::judge(&self.circuit, arguments)?;
        let mut ready = Vec::new();
        // All are read before the first runs: a mistake in the last must not cost the others' time.
        for (name, workload) in &self.workload {
            let rows: Vec<&RowSpec> = self.row.iter().filter(|row| row.workload == *name).collect();
            let machines = machines_of(&rows).into_iter().map(|name| self.machine(name));
            ready.push((workload, workload.source(small)?, machines.collect::<Result<Vec<_>, _>>()?, rows));
        }
        let first = outcome.rows.len();
        let measured = self.measure_all(ready, arguments, outcome);
        outcome.rows.extend(circuit);
        let (timelines, mut ages) = measured?;
        let measured = &mut outcome.rows;
        let own = &measured[first..];
        let knees: Vec<PaperRow> = self.knee.iter().filter_map(|knee| knee.judge(own, small)).collect();
        measured.extend(knees);
        let figures = &mut outcome.figures;
        figures.extend(timelines);
        figures.extend(self.figure.iter().filter_map(|figure| figure.draw(&measured[first..])));
        if !self.precision.is_empty() {
            for spec in &self.ages {
                figures.push(spec.draw(&mut ages)?);
            }
        }
        Ok(())
    }

    /// Measures part by part. Each part puts a row into `outcome` as soon as its number is known: those of an interrupted part
    /// count.
    fn measure_all(
        &self,
        ready: Vec<Ready<'_>>,
        arguments: &PaperArguments,
        outcome: &mut Outcome,
    ) -> anyhow::Result<(Vec<Figure>, Ages)> {
        let (small, threads) = (arguments.small, crate::run::threads(arguments.threads));
        let measured = &mut outcome.rows;
        for (workload, source, machines, rows) in ready {
            let results = workload.run(source, &machines, threads)?;
            for row in rows {
                measured.push(row.judge(&results, small).with_context(|| format!("item {}", row.item))?);
            }
        }
        let mut ages = Ages::default();
        precision::run(&self.precision, &mut ages, measured)?;
        self.tables.run(small, threads, measured)?;
        self.programs.run(|name| self.machine(name), small, threads, measured)?;
        let timelines = self.measure.run(|name| self.machine(name), small, threads, measured)?;
        for loads in &self.loads {
            loads.run(|name| self.machine(name), small, threads, measured)?;
        }
        for solve in &self.solve {
            solve.run(|name| self.machine(name), small, threads, measured)?;
        }
        if let Some(queueing) = &self.queueing {
            queueing.run(small, measured)?;
        }
        if let Some(swap) = &self.swap {
            swap.run(small, measured)?;
        }
        if let Some(files) = &self.files {
            let sizes = (small, arguments.quick);
            files.run(|name| self.machine(name), sizes, threads, measured)?;
        }
        Ok((timelines, ages))
    }

    /// A machine of this file, or a built-in one.
    fn machine(&self, name: &str) -> anyhow::Result<MachineSpec> {
        if let Some(variant) = self.variant.get(name) {
            // One of a built-in machine may have its name.
            let base = if variant.of == name { spec::load(name)? } else { self.machine(&variant.of)? };
            let mut machine = MachineSpec { name: name.to_owned(), ..base };
            if let Some(capacity_mib) = variant.capacity_mib {
                let tier = machine.tier.as_mut().with_context(|| format!("machine {name} has no tier"))?;
                let pages = (capacity_mib << 20) / PAGE_BYTES;
                let sets_times_ways = u32::try_from(pages >> tier.design.index_shift)?;
                // As many ways as it had, or a few more, so that there is a power of two of sets.
                let ways = (tier.design.ways..2 * tier.design.ways).find(|ways| {
                    sets_times_ways.is_multiple_of(*ways) && (sets_times_ways / ways).is_power_of_two()
                });
                tier.design.ways =
                    ways.with_context(|| format!("machine {name}: no power of two of sets"))?;
                tier.design.sets = sets_times_ways / tier.design.ways;
            }
            let Some(limit_mib) = variant.limit_mib else { return Ok(machine) };
            let limited = machine.paging.reclaim.and_then(|policy| policy.limited(limit_mib << 20));
            machine.paging.reclaim = Some(
                limited.with_context(|| format!("machine {name}: {} has no limit to change", variant.of))?,
            );
            return Ok(machine);
        }
        Ok(match self.machine.get(name) {
            Some(text) => spec::parse(&format!("name = \"{name}\"\n{text}"), name)?,
            None => spec::load(name)?,
        })
    }
}

fn machines_of<'a>(rows: &[&'a RowSpec]) -> Vec<&'a str> {
    let mut machines = Vec::new();
    for row in rows {
        for machine in row.baseline.iter().chain([&row.machine]) {
            if !machines.contains(&machine.as_str()) {
                machines.push(machine);
            }
        }
    }
    machines
}

impl WorkloadSpec {
    fn source(&self, small: bool) -> anyhow::Result<Box<dyn Source + Send>> {
        Ok(pagewalk_workload::parse(if small { &self.small } else { &self.spec }, self.seed)?)
    }

    fn run(
        &self,
        mut source: Box<dyn Source + Send>,
        machines: &[MachineSpec],
        threads: usize,
    ) -> anyhow::Result<Vec<RunResult>> {
        let info = source.info();
        note!("running {} on {} machines", info.name, machines.len());
        let machines = machines
            .iter()
            .map(|spec| build(spec, Detail::Counts, self.seed, &info))
            .collect::<Result<Vec<_>, _>>()?;
        run_whole(&mut *source, machines, RunOptions { threads, ..RunOptions::default() })
    }
}

/// Runs a source on machines to its end: half of a run is no measurement.
///
/// # Errors
///
/// What the run refuses, and `Interrupted`.
pub(super) fn run_whole(
    source: &mut dyn Source,
    machines: Vec<Box<dyn Simulate>>,
    options: RunOptions,
) -> anyhow::Result<Vec<RunResult>> {
    let mut progress = RunProgress::new(&source.info(), None, say::progress(false));
    let ran = run(&mut Stoppable::new(source, ending::stop()), machines, options, &mut progress);
    ending::go_on()?;
    let mut ran = ran?;
    match ran.failed.is_empty() {
        true => Ok(ran.results),
        false => Err(RunError::from(ran.failed.swap_remove(0).1).into()),
    }
}

impl RowSpec {
    fn judge(&self, results: &[RunResult], small: bool) -> anyhow::Result<PaperRow> {
        let metric = |machine: &str, name: &str| -> anyhow::Result<f64> {
            let result = results.iter().find(|result| result.machine == machine);
            let metric = result.and_then(|result| {
                result.metrics.iter().find(|metric| {
                    metric.stage == self.stage
                        && metric.metric == name
                        && metric.unit == "count"
                        && metric.phase == self.phase
                })
            });
            let value = metric.and_then(|metric| metric.value);
            let missing = || format!("machine {machine} has no count {} {name}", self.stage);
            Ok(value.with_context(missing)?.as_f64())
        };
        let count = |machine: &str| metric(machine, &self.metric);
        let ours = count(&self.machine)?;
        let whole = self.of.as_deref().map(|of| metric(&self.machine, of)).transpose()?;
        let baseline = self.baseline.as_deref().map(count).transpose()?;
        let (ours, unit) = match (self.value, baseline) {
            (Value::Count, _) => (Some(ours), "count"),
            (Value::Share, _) => (whole.filter(|&whole| whole > 0.0).map(|whole| ours / whole), "fraction"),
            (Value::Ratio, baseline) => (baseline.filter(|&b| b > 0.0).map(|b| ours / b), "ratio"),
            (Value::Reduction, baseline) => {
                (baseline.filter(|&b| b > 0.0).map(|b| 1.0 - ours / b), "fraction")
            }
        };
        let (gate, note) = judged(small, self.gate, &self.note);
        Ok(PaperRow::judged(self.item.clone(), self.published, ours, unit, gate, note))
    }
}
