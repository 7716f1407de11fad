//! A server under load: the latency of its jobs on several machines, from far below to near what the first of them can do.

use anyhow::Context as _;
use pagewalk_report::PaperRow;
use pagewalk_sim::machine::Detail;
use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::run::RunOptions;
use pagewalk_sim::spec::MachineSpec;
use serde::Deserialize;

use super::application::{count, pass};
use super::{Context, Kind};
use crate::gated::{Gated, gated};
use crate::outcome::Outcome;

/// The phase that counts.
const PHASE: &str = "serve";

/// A workload at growing load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadsSpec {
    /// What items begin with.
    item: String,
    workload: String,
    small: String,
    #[serde(default)]
    seed: u64,
    /// The machine whose throughput with jobs always waiting is a load of 1, and whose mean service time is the unit.
    baseline: String,
    /// All machines, the baseline included if it is to be seen.
    machines: Vec<String>,
    /// Shares of that throughput.
    loads: Vec<f64>,
    #[serde(default)]
    meets: Vec<MeetsRow>,
    #[serde(default)]
    row: Vec<PointRow>,
}

gated! {
    /// The load at which a machine's latency is that of another one at another load.
    struct MeetsRow {
        machine: String,
        other: String,
        at: f64,
    }
}

gated! {
    /// A machine's latency at a load, divided by another's at the same.
    struct PointRow {
        machine: String,
        over: String,
        at: f64,
    }
}

impl Kind for LoadsSpec {
    /// All items are made together.
    fn keep(&mut self, prefix: &str) -> bool {
        self.item.starts_with(prefix) || prefix.starts_with(&self.item)
    }

    /// Finds the baseline's throughput, then goes through the loads.
    fn run(&self, cx: &Context<'_>, out: &mut Outcome) -> anyhow::Result<()> {
        let workload = if cx.small() { &self.small } else { &self.workload };
        cx.host.note(format_args!("finding what {} can do", self.baseline));
        let alone = self.pass(cx, workload, &[cx.machines.get(&self.baseline)?])?;
        let elapsed_ps = metric(&alone, &self.baseline, "time", "elapsed", "ps")?;
        let jobs = metric(&alone, &self.baseline, "jobs", "finished", "count")?;
        let service_ns = metric(&alone, &self.baseline, "jobs", "service.mean", "ns")?;
        let machines =
            self.machines.iter().map(|name| cx.machines.get(name)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); machines.len()];
        out.rows.push(PaperRow::judged(
            format!("{}/jobs-a-second", self.item),
            None,
            Some(jobs / elapsed_ps * 1e12),
            "jobs/s",
            None,
            format!("a load of 1; {service_ns:.0} ns a job on {}", self.baseline),
        ));
        for &load in &self.loads {
            let interval_ns = elapsed_ps / jobs / load / 1e3;
            let workload = format!("{workload},interval={interval_ns:.3}");
            let results = self.pass(cx, &workload, &machines)?;
            for (name, curve) in self.machines.iter().zip(&mut curves) {
                let latency = metric(&results, name, "jobs", "response.p99", "ns")? / service_ns;
                curve.push((load, latency));
                let item = format!("{}/{name}/{load}", self.item);
                out.rows.push(PaperRow::judged(item, None, Some(latency), "service times", None, ""));
            }
        }
        let curve = |name: &str| {
            let at = self.machines.iter().position(|known| known == name);
            at.map(|at| &curves[at]).with_context(|| format!("{}: no machine {name}", self.item))
        };
        for meets in &self.meets {
            let level = value_at(curve(&meets.other)?, meets.at);
            let ours = level.and_then(|level| load_at(curve(&meets.machine).ok()?, level));
            out.rows.push(meets.judge_number(ours, "load", cx.small()));
        }
        for point in &self.row {
            let [ours, over] =
                [&point.machine, &point.over].map(|name| value_at(curve(name).ok()?, point.at));
            let ours = ours.zip(over).map(|(ours, over)| ours / over);
            out.rows.push(point.judge_number(ours, "ratio", cx.small()));
        }
        Ok(())
    }
}

impl LoadsSpec {
    fn pass(
        &self,
        cx: &Context<'_>,
        workload: &str,
        machines: &[MachineSpec],
    ) -> anyhow::Result<Vec<RunResult>> {
        cx.host.note(format_args!("running {workload} on {} machines", machines.len()));
        pass(cx, workload, self.seed, machines, Detail::Timed, RunOptions::default())
    }
}

/// What a machine reports of the phase that counts.
fn metric(results: &[RunResult], machine: &str, stage: &str, name: &str, unit: &str) -> anyhow::Result<f64> {
    count(results, machine, (stage, name, unit), Some(PHASE))
}

/// A curve's value at a load, on a straight line between its points.
fn value_at(curve: &[(f64, f64)], load: f64) -> Option<f64> {
    let above = curve.iter().position(|&(x, _)| x >= load)?;
    let (x, y) = curve[above];
    let (before, low) = curve[above.saturating_sub(1)];
    Some(if x == before { y } else { low + (y - low) * (load - before) / (x - before) })
}

/// The highest load at which a curve does not exceed a level. Between its points, latencies are straight lines in
/// `1 / (1 - load)`, as those of queues are; loads are below 1.
fn load_at(curve: &[(f64, f64)], level: f64) -> Option<f64> {
    let last = curve.iter().rposition(|&(_, y)| y <= level)?;
    let Some(&(next, high)) = curve.get(last + 1) else { return Some(curve[last].0) };
    let (load, low) = curve[last];
    let (from, to) = (1.0 / (1.0 - load), 1.0 / (1.0 - next));
    let place = from + (to - from) * (level - low) / (high - low);
    Some(1.0 - 1.0 / place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_meets_a_level_where_its_formula_says() {
        let curve: Vec<(f64, f64)> = [0.5, 0.8, 0.9].map(|load| (load, 4.6 / (1.0 - load))).to_vec();
        assert!((load_at(&curve, 4.6 / 0.15).unwrap() - 0.85).abs() < 1e-9);
        assert_eq!(load_at(&curve, 1.0), None, "never so low");
        assert_eq!(load_at(&curve, 1e3), Some(0.9), "no further than it was measured");
        assert!((value_at(&curve, 0.8).unwrap() - curve[1].1).abs() < 1e-9);
        assert_eq!(value_at(&curve, 0.95), None);
        let middle = value_at(&curve, 0.85).unwrap();
        assert!((middle - (curve[1].1 + curve[2].1) / 2.0).abs() < 1e-9);
    }
}
