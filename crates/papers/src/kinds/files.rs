//! Operations on files in persistent memory, simulated.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::files::{Pattern, PatternRun, run};
use anyhow::{Context as _, ensure};
use pagewalk_sim::files::Part;
use pagewalk_sim::spec::MachineSpec;
use serde::Deserialize;

use super::{Context, Kind};
use crate::gated::{Gated, gated};
use crate::outcome::Outcome;

/// MiB of a small stand-in for the file.
const SMALL_MIB: u64 = 128;

/// Patterns of operations on machines with file systems.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilesSpec {
    /// How large the file is.
    gib: u64,
    /// With `--quick`.
    quick_gib: u64,
    #[serde(default)]
    seed: u64,
    row: Vec<FilesRow>,
}

gated! {
    /// A number.
    struct FilesRow {
        machine: String,
        /// What `machine` is compared with.
        baseline: Option<String>,
        /// Patterns; of several, the mean.
        of: Vec<String>,
        value: Value,
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// The share of time that goes to the index.
    Index,
    /// The share that goes to zeroes, a part of that.
    Zero,
    /// The share that goes to the bytes.
    Data,
    /// The time of the baseline over that of the machine.
    Speedup,
    /// An operation, in microseconds.
    Operation,
    /// Walks for each operation.
    Walks,
    /// The most entries that a growing file swapped.
    MostEntries,
}

type Runs = BTreeMap<(String, String), PatternRun>;

impl Kind for FilesSpec {
    fn keep(&mut self, prefix: &str) -> bool {
        self.row.retain(|row| row.begins(prefix));
        !self.row.is_empty()
    }

    fn run(&self, cx: &Context<'_>, out: &mut Outcome) -> anyhow::Result<()> {
        let mib = if cx.small() {
            SMALL_MIB
        } else if cx.settings.quick {
            self.quick_gib << 10
        } else {
            self.gib << 10
        };
        let mut work: Vec<((String, String), MachineSpec, Pattern)> = Vec::new();
        for row in &self.row {
            for name in row.baseline.iter().chain([&row.machine]) {
                for pattern in &row.of {
                    let known = Pattern::ALL.iter().find(|(_, known)| known == pattern);
                    let (known, _) = known.with_context(|| format!("there is no pattern `{pattern}`"))?;
                    let key = (name.clone(), pattern.clone());
                    if !work.iter().any(|(other, ..)| *other == key) {
                        work.push((key, cx.machines.get(name)?, *known));
                    }
                }
            }
        }
        let (runs, ended) = self.simulate(work, mib, cx);
        for row in self.row.iter().filter(|row| row.has_run(&runs)) {
            let ours = row.number(&runs).with_context(|| format!("item {}", row.item))?;
            out.rows.push(row.judge_number(Some(ours), row.value.unit(), cx.small()));
        }
        ended
    }
}

impl FilesSpec {
    /// Every machine with every pattern that rows want, each by itself; those that had run when it ended, and how.
    fn simulate(
        &self,
        work: Vec<((String, String), MachineSpec, Pattern)>,
        mib: u64,
        cx: &Context<'_>,
    ) -> (Runs, anyhow::Result<()>) {
        let (count, steps) = (work.len(), cx.host.steps());
        let (work, runs) = (Mutex::new(work), Mutex::new(BTreeMap::new()));
        let worker = || -> anyhow::Result<()> {
            loop {
                cx.host.go_on()?;
                let Some((key, machine, pattern)) = work.lock().expect("no thread panics").pop() else {
                    return Ok(());
                };
                let ran = run(&machine, pattern, mib << 20, self.seed, cx.host.stop());
                cx.host.go_on()?;
                let result = ran.with_context(|| format!("machine {}, pattern {}", key.0, key.1))?;
                let mut runs = runs.lock().expect("no thread panics");
                runs.insert(key, result);
                steps.show(format_args!("files of {mib} MiB: {} of {count} simulated", runs.len()));
            }
        };
        let ended = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..cx.settings.threads.clamp(1, count.max(1))).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
        });
        (runs.into_inner().expect("no thread panics"), ended)
    }
}

impl FilesRow {
    /// Whether everything that its number is made of has run.
    fn has_run(&self, runs: &Runs) -> bool {
        let mut machines = self.baseline.iter().chain([&self.machine]);
        machines.all(|name| self.of.iter().all(|of| runs.contains_key(&(name.clone(), of.clone()))))
    }

    fn number(&self, runs: &Runs) -> anyhow::Result<f64> {
        ensure!(!self.of.is_empty(), "of no pattern");
        let run = |machine: &str, pattern: &str| &runs[&(machine.to_owned(), pattern.to_owned())];
        let value = |pattern: &String| {
            let own = run(&self.machine, pattern);
            let (total, operations) = (own.parts.total() as f64, own.operations as f64);
            Ok(match self.value {
                Value::Index => own.parts.index() as f64 / total,
                Value::Zero => own.parts.of(Part::Zero) as f64 / total,
                Value::Data => own.parts.of(Part::Data) as f64 / total,
                Value::Operation => total / operations / 1e6,
                Value::Walks => own.counts.walks as f64 / operations,
                Value::MostEntries => own.counts.most_entries as f64,
                Value::Speedup => {
                    let baseline = self.baseline.as_deref().context("compared with nothing")?;
                    run(baseline, pattern).parts.total() as f64 / total
                }
            })
        };
        let values = self.of.iter().map(value).collect::<anyhow::Result<Vec<f64>>>()?;
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    }
}

impl Value {
    fn unit(self) -> &'static str {
        match self {
            Self::Index | Self::Zero | Self::Data => "of run time",
            Self::Speedup => "times",
            Self::Operation => "us",
            Self::Walks => "each operation",
            Self::MostEntries => "entries",
        }
    }
}
