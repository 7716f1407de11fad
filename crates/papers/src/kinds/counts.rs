//! Counts of workloads on machines: alone, as ratios, as reductions and as shares.

use std::collections::BTreeMap;

use anyhow::Context as _;
use pagewalk_report::PaperRow;
use pagewalk_sim::machine::{Detail, build};
use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::run::RunOptions;
use pagewalk_sim::spec::MachineSpec;
use pagewalk_trace::Source;
use serde::Deserialize;

use super::Context;
use super::application::run_whole;
use crate::gated::{Gated, gated};
use crate::outcome::Outcome;

/// A workload at the published size, and a small stand-in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkloadSpec {
    spec: String,
    small: String,
    seed: u64,
}

gated! {
    /// One number.
    pub(crate) struct RowSpec {
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
    }
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

/// A workload that was read, with the machines that its rows name, and these.
pub(crate) struct Ready<'a> {
    workload: &'a WorkloadSpec,
    source: Box<dyn Source + Send>,
    machines: Vec<MachineSpec>,
    rows: Vec<&'a RowSpec>,
}

/// Reads every workload and machine before the first runs: a mistake in the last must not cost the others' time.
pub(crate) fn read<'a>(
    workloads: &'a BTreeMap<String, WorkloadSpec>,
    rows: &'a [RowSpec],
    cx: &Context<'_>,
) -> anyhow::Result<Vec<Ready<'a>>> {
    let ready = |(name, workload): (&String, &'a WorkloadSpec)| {
        let rows: Vec<&RowSpec> = rows.iter().filter(|row| row.workload == *name).collect();
        let machines = machines_of(&rows).into_iter().map(|name| cx.machines.get(name));
        let machines = machines.collect::<anyhow::Result<_>>()?;
        Ok(Ready { workload, source: workload.source(cx.small())?, machines, rows })
    };
    workloads.iter().map(ready).collect()
}

/// Runs each workload once, on all machines that its rows name, and judges these.
pub(crate) fn run(ready: Vec<Ready<'_>>, cx: &Context<'_>, out: &mut Outcome) -> anyhow::Result<()> {
    for Ready { workload, source, machines, rows } in ready {
        let results = workload.run(source, &machines, cx)?;
        for row in rows {
            out.rows.push(row.judge(&results, cx.small()).with_context(|| format!("item {}", row.item))?);
        }
    }
    Ok(())
}

impl RowSpec {
    /// Returns the workload that the row's number is of.
    pub(crate) fn workload(&self) -> &str {
        &self.workload
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
        cx: &Context<'_>,
    ) -> anyhow::Result<Vec<RunResult>> {
        let info = source.info();
        cx.host.note(format_args!("running {} on {} machines", info.name, machines.len()));
        let machines = machines
            .iter()
            .map(|spec| build(spec, Detail::Counts, self.seed, &info))
            .collect::<Result<Vec<_>, _>>()?;
        let options = RunOptions { threads: cx.settings.threads, ..RunOptions::default() };
        run_whole(cx.host, &mut *source, machines, options)
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
        Ok(self.judge_number(ours, unit, small))
    }
}
