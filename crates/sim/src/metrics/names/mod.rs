//! The names of all metrics, by stage.
//!
//! The comments of a constant say what it counts where its words do not.

mod paging;
mod timing;
mod translation;

use std::borrow::Cow;

pub use paging::{accelerator, fault, frames, kernel, reclaim, swap, table};
pub use timing::{cache, dram, flash, jobs, memory, tier, time};
pub use translation::{fetch, host, reach, tlb, tlb_prefetch, walk, walk_cache};

use super::result::{Fidelity, Metric, Number};

/// The identity of a metric: where in the machine it is measured, what is measured, in which unit, and how it is obtained.
///
/// Stage and metric together are unique; the unit is `count`, `bytes`, `ps`, `ns`, `fraction`, or says of what a ratio is.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The stage of the machine: `tlb.l1`, `walk`, `frames`, `time`, ...
    pub stage: Cow<'static, str>,
    /// The measured quantity: `misses`, `references.level0`, ...
    pub metric: Cow<'static, str>,
    /// The unit of its values.
    pub unit: &'static str,
    /// The way in which its values are obtained.
    pub fidelity: Fidelity,
}

impl Name {
    const fn new(stage: &'static str, metric: &'static str, unit: &'static str, fidelity: Fidelity) -> Self {
        Self { stage: Cow::Borrowed(stage), metric: Cow::Borrowed(metric), unit, fidelity }
    }

    /// Returns a name of one of many numbered or named parts, each with a metric of its own.
    fn part(stage: &'static str, metric: String) -> Self {
        Self { metric: Cow::Owned(metric), ..count(stage, "") }
    }

    /// Returns a name of one of several levels, each with a stage of its own.
    fn of_level(stage: &str, level: usize, metric: &'static str) -> Self {
        Self { stage: Cow::Owned(format!("{stage}.l{level}")), ..count("", metric) }
    }

    fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Makes a metric of a value; `phase` is none for the whole run.
    pub fn metric(&self, phase: Option<&str>, value: Option<Number>) -> Metric {
        Metric {
            stage: self.stage.clone().into_owned(),
            phase: phase.map(str::to_owned),
            metric: self.metric.clone().into_owned(),
            unit: self.unit.to_owned(),
            value,
            fidelity: self.fidelity,
        }
    }

    /// Returns whether a metric has this name.
    pub fn is_of(&self, metric: &Metric) -> bool {
        self.stage == metric.stage && self.metric == metric.metric
    }
}

const fn count(stage: &'static str, metric: &'static str) -> Name {
    Name::new(stage, metric, "count", Fidelity::Modelled)
}

const fn bytes(stage: &'static str, metric: &'static str) -> Name {
    Name::new(stage, metric, "bytes", Fidelity::Modelled)
}

/// Counts of the program itself, which are the same on every machine.
pub mod program {
    use super::{Fidelity, Name};

    const fn observed(metric: &'static str) -> Name {
        Name::new("program", metric, "count", Fidelity::Observed)
    }

    /// The program's accesses to memory.
    pub const ACCESSES: Name = observed("accesses");
    /// The accesses that read memory.
    pub const LOADS: Name = observed("loads");
    /// The accesses that write memory.
    pub const STORES: Name = observed("stores");
    /// Instructions; zero if the source does not count them.
    pub const INSTRUCTIONS: Name = observed("instructions");
}
