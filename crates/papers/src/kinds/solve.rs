//! The value of a workload's parameter at which something measured reaches a goal.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use pagewalk_report::PaperRow;
use pagewalk_sim::machine::Detail;
use pagewalk_sim::run::RunOptions;
use serde::Deserialize;

use super::application::{count, pass};
use super::{Context, Kind};
use crate::gated::judged;
use crate::outcome::Outcome;

/// The phase that counts.
const PHASE: &str = "serve";

/// A parameter of workloads, solved for the time between two misses of a core.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SolveSpec {
    item: String,
    /// By name; without the parameter.
    workload: BTreeMap<String, String>,
    small: BTreeMap<String, String>,
    #[serde(default)]
    seed: u64,
    parameter: String,
    /// The interval grows with it from below the goal to above.
    between: [f64; 2],
    /// Each halves what is left.
    steps: u32,
    /// The machine whose cores' time counts, and whose misses.
    time_of: String,
    misses_of: String,
    /// The interval to be reached, in microseconds.
    goal_us: f64,
}

impl Kind for SolveSpec {
    /// Keeps the workloads whose rows begin so; whether there are any.
    fn keep(&mut self, prefix: &str) -> bool {
        self.workload.retain(|name, _| format!("{}/{name}", self.item).starts_with(prefix));
        !self.workload.is_empty()
    }

    /// Halves the range of each workload's parameter until it is narrow enough.
    fn run(&self, cx: &Context<'_>, out: &mut Outcome) -> anyhow::Result<()> {
        let machines = [cx.machines.get(&self.time_of)?, cx.machines.get(&self.misses_of)?];
        let cores = f64::from(machines[0].core.count);
        for name in self.workload.keys() {
            let workload = if cx.small() { &self.small } else { &self.workload };
            let workload = workload.get(name).with_context(|| format!("{name} has no small stand-in"))?;
            let mut reached_us = 0.0;
            let solved = bisect(self.between, self.steps, |value| {
                let workload = format!("{workload},{}={value:.3}", self.parameter);
                let options = RunOptions::default();
                let results = pass(cx, &workload, self.seed, &machines, Detail::Timed, options)?;
                let of = |machine, metric| count(&results, machine, metric, Some(PHASE));
                let elapsed_ps = of(&self.time_of, ("time", "elapsed", "ps"))?;
                let misses = of(&self.misses_of, ("tier", "misses", "count"))?;
                reached_us = elapsed_ps * cores / misses.max(1.0) / 1e6;
                cx.host.note(format_args!("{workload}: a miss in {reached_us:.2} us of each core"));
                Ok(reached_us >= self.goal_us)
            })?;
            let note = format!("a miss in {reached_us:.2} us at the last step; {} us wanted", self.goal_us);
            let (_, note) = judged(cx.small(), None, &note);
            let item = format!("{}/{name}", self.item);
            out.rows.push(PaperRow::judged(item, None, Some(solved), &*self.parameter, None, note));
        }
        Ok(())
    }
}

/// Returns the number at which `is_above` begins to hold.
fn bisect(
    [mut low, mut high]: [f64; 2],
    steps: u32,
    mut is_above: impl FnMut(f64) -> anyhow::Result<bool>,
) -> anyhow::Result<f64> {
    ensure!(low < high, "nothing is between {low} and {high}");
    for _ in 0..steps {
        let middle = (low + high) / 2.0;
        match is_above(middle)? {
            true => high = middle,
            false => low = middle,
        }
    }
    Ok((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_the_place() {
        let mut asked = 0;
        let found = bisect([1.0, 2.0], 10, |value| {
            asked += 1;
            Ok(value * value >= 2.0)
        });
        assert!((found.unwrap() - 2f64.sqrt()).abs() < 1.0 / 1_024.0);
        assert_eq!(asked, 10);
        assert!(bisect([2.0, 1.0], 1, |_| Ok(true)).is_err());
    }
}
