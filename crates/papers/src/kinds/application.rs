//! Programs that experiments run, and what machines report of them.

use anyhow::Context as _;
use pagewalk_report::RunProgress;
use pagewalk_sim::machine::{Detail, Simulate, build};
use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::run::{RunError, RunOptions, run};
use pagewalk_sim::spec::MachineSpec;
use pagewalk_trace::{Source, Stoppable};
use pagewalk_workload::Workload;
use serde::Deserialize;

use super::Context;
use crate::host::Host;

/// A program, and how much of it runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplicationSpec {
    pub(super) workload: String,
    small: String,
    #[serde(default)]
    seed: u64,
    /// The phase to begin with; before it, pages are brought in.
    pub(super) begin: Option<String>,
    /// Accesses.
    limit: Option<u64>,
}

impl ApplicationSpec {
    /// Runs it once, on all machines.
    pub(super) fn run(
        &self,
        cx: &Context<'_>,
        machines: &[MachineSpec],
        detail: Detail,
    ) -> anyhow::Result<Vec<RunResult>> {
        let workload = if cx.small() { &self.small } else { &self.workload };
        let options = RunOptions { begin: self.begin.clone(), limit: self.limit, ..RunOptions::default() };
        pass(cx, workload, self.seed, machines, detail, options)
    }
}

/// Runs a workload once, on all machines.
pub(super) fn pass(
    cx: &Context<'_>,
    workload: &str,
    seed: u64,
    machines: &[MachineSpec],
    detail: Detail,
    options: RunOptions,
) -> anyhow::Result<Vec<RunResult>> {
    let executes = |spec: &MachineSpec| detail == Detail::Timed && spec.core.dataflow.is_some();
    let mut source = Workload::parse(workload, seed)?.blocks(machines.iter().any(executes));
    let info = source.info();
    let built = machines.iter().map(|spec| build(spec, detail, seed, &info));
    let built = built.collect::<Result<Vec<_>, _>>()?;
    let options = RunOptions { threads: cx.settings.threads, ..options };
    run_whole(cx.host, &mut source, built, options)
}

/// Runs a source on machines to its end: half of a run is no measurement.
///
/// # Errors
///
/// What the run refuses, and what ends it.
pub(super) fn run_whole(
    host: &dyn Host,
    source: &mut dyn Source,
    machines: Vec<Box<dyn Simulate>>,
    options: RunOptions,
) -> anyhow::Result<Vec<RunResult>> {
    let mut progress = RunProgress::new(&source.info(), None, host.progress());
    let ran = run(&mut Stoppable::new(source, host.stop()), machines, options, &mut progress);
    host.go_on()?;
    let mut ran = ran?;
    match ran.failed.is_empty() {
        true => Ok(ran.results),
        false => Err(RunError::from(ran.failed.swap_remove(0).1).into()),
    }
}

/// What a machine reports, by stage, metric and unit.
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
