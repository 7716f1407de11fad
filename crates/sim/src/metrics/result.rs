//! The result of a run: the rows of the JSON document, of the terminal table and of the report's plots.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::span::Span;

/// One measured number of a run, and its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The stage of the machine it belongs to: `tlb.l1`, `walk`, `frames`, `time`, ...
    pub stage: String,
    /// The phase of the program it covers; none for the whole run. A phase that comes again has a number: `update (2)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The measured quantity: `misses`, `references.level0`, ...
    pub metric: String,
    /// `count`, `bytes`, `ps`, `fraction`, `per-kilo-instruction`, ...
    pub unit: String,
    /// The number; none where a ratio's denominator is zero.
    pub value: Option<Number>,
    /// The way in which the number was obtained.
    pub fidelity: Fidelity,
}

/// A metric's value: a whole count or a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// A count of whole events or units.
    Count(u64),
    /// A ratio of counts.
    Ratio(f64),
}

impl Number {
    /// Returns the value as a floating-point number.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Ratio(ratio) => ratio,
        }
    }
}

/// The way in which a number was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// Counted in the event stream: exact for the program as observed.
    Observed,
    /// The outcome of a modelled mechanism: exact for the machine as described.
    Modelled,
    /// Depends on timing constants and on what the timing model leaves out.
    Estimated,
}

/// One machine's result over one source. Each phase, stage and metric occur together once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The name of the machine.
    pub machine: String,
    /// The name of the source that it ran: [`SourceInfo::name`](pagewalk_trace::SourceInfo::name).
    pub source: String,
    /// All metrics, whole run first, then by phase.
    pub metrics: Vec<Metric>,
    /// The last steps of the kernel and of hardware in its place, for pictures; none without time.
    #[serde(skip)]
    pub spans: Vec<Span>,
}

impl RunResult {
    /// Returns a phase, stage and metric that occur together more than once, which is a mistake of a mechanism.
    pub(crate) fn repeated(&self) -> Option<(Option<&str>, &str, &str)> {
        let mut seen = BTreeSet::new();
        let triples = self.metrics.iter().map(|row| (row.phase.as_deref(), &*row.stage, &*row.metric));
        triples.into_iter().find(|triple| !seen.insert(*triple))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::names::walk;

    #[test]
    fn a_repeated_row_is_found_and_one_of_another_phase_is_none() {
        let row = |phase| walk::WALKS.metric(phase, None);
        let result = |metrics| RunResult { machine: "a".into(), source: "s".into(), metrics, spans: vec![] };
        assert_eq!(result(vec![row(None), row(Some("p"))]).repeated(), None);
        let twice = result(vec![row(None), row(Some("p")), row(Some("p"))]);
        assert_eq!(twice.repeated(), Some((Some("p"), "walk", "walks")));
    }
}
