//! A server under load: the latency of its jobs on several machines, from far below to near what the first of them can do.

use anyhow::Context;
use pagewalk_report::PaperRow;
use pagewalk_sim::machine::Detail;
use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::run::RunOptions;
use pagewalk_sim::spec::MachineSpec;
use serde::Deserialize;

use super::programs::{count, judged, pass};
use crate::say::note;

/// The phase that counts.
const PHASE: &str = "serve";

/// A workload at growing load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadsSpec {
    /// The beginning of the items' names.
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

/// The load at which a machine's latency is that of another one at another load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeetsRow {
    item: String,
    machine: String,
    other: String,
    at: f64,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

/// A machine's latency at a load, divided by another's at the same.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointRow {
    item: String,
    machine: String,
    over: String,
    at: f64,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

impl LoadsSpec {
    /// Returns whether its items begin so; all of them are made together.
    pub(super) fn has(&self, prefix: &str) -> bool {
        self.item.starts_with(prefix) || prefix.starts_with(&self.item)
    }

    /// Finds the baseline's throughput, then goes through the loads.
    pub(super) fn run(
        &self,
        machine: impl Fn(&str) -> anyhow::Result<MachineSpec>,
        small: bool,
        threads: usize,
        rows: &mut Vec<PaperRow>,
    ) -> anyhow::Result<()> {
        let workload = if small { &self.small } else { &self.workload };
        note!("finding what {} can do", self.baseline);
        let alone = self.pass(workload, &[machine(&self.baseline)?], threads)?;
        let elapsed_ps = metric(&alone, &self.baseline, "time", "elapsed", "ps")?;
        let jobs = metric(&alone, &self.baseline, "jobs", "finished", "count")?;
        let service_ns = metric(&alone, &self.baseline, "jobs", "service.mean", "ns")?;
        let machines = self.machines.iter().map(|name| machine(name)).collect::<anyhow::Result<Vec<_>>>()?;
        let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); machines.len()];
        rows.push(PaperRow::judged(
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
            let results = self.pass(&workload, &machines, threads)?;
            for (name, curve) in self.machines.iter().zip(&mut curves) {
                let latency = metric(&results, name, "jobs", "response.p99", "ns")? / service_ns;
                curve.push((load, latency));
                let item = format!("{}/{name}/{load}", self.item);
                rows.push(PaperRow::judged(item, None, Some(latency), "service times", None, ""));
            }
        }
        let curve = |name: &str| {
            let at = self.machines.iter().position(|known| known == name);
            at.map(|at| &curves[at]).with_context(|| format!("{}: no machine {name}", self.item))
        };
        for meets in &self.meets {
            let level = value_at(curve(&meets.other)?, meets.at);
            let ours = level.and_then(|level| load_at(curve(&meets.machine).ok()?, level));
            let (gate, note) = judged(small, meets.gate, &meets.note);
            rows.push(PaperRow::judged(&*meets.item, meets.published, ours, "load", gate, note));
        }
        for point in &self.row {
            let [ours, over] =
                [&point.machine, &point.over].map(|name| value_at(curve(name).ok()?, point.at));
            let ours = ours.zip(over).map(|(ours, over)| ours / over);
            let (gate, note) = judged(small, point.gate, &point.note);
            rows.push(PaperRow::judged(&*point.item, point.published, ours, "ratio", gate, note));
        }
        Ok(())
    }

    fn pass(
        &self,
        workload: &str,
        machines: &[MachineSpec],
        threads: usize,
    ) -> anyhow::Result<Vec<RunResult>> {
        note!("running {workload} on {} machines", machines.len());
        let options = RunOptions { threads, ..RunOptions::default() };
        pass(workload, self.seed, machines, Detail::Timed, options)
    }
}

/// Returns what a machine reports of the phase that counts.
fn metric(results: &[RunResult], machine: &str, stage: &str, name: &str, unit: &str) -> anyhow::Result<f64> {
    count(results, machine, (stage, name, unit), Some(PHASE))
}

/// Returns a curve's value at a load, on a straight line between its points.
fn value_at(curve: &[(f64, f64)], load: f64) -> Option<f64> {
    let above = curve.iter().position(|&(x, _)| x >= load)?;
    let (x, y) = curve[above];
    let (before, low) = curve[above.saturating_sub(1)];
    Some(if x == before { y } else { low + (y - low) * (load - before) / (x - before) })
}

/// Returns the highest load at which a curve does not exceed a level. Between its points, latencies are straight lines in
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
