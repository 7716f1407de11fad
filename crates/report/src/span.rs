//! Looking metrics up: a run is cut into spans, the whole run first, then its phases in order.

use pagewalk_sim::metrics::names::tlb;
use pagewalk_sim::metrics::{Metric, Name, RunResult};

/// The metrics of the whole run or of one phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    /// The phase; none for the whole run.
    pub(crate) phase: Option<&'a str>,
    /// Its rows, in the result's order.
    pub(crate) metrics: &'a [Metric],
}

/// What a span says of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    /// The machine has no such row: the stage does not exist there, or the run was not timed.
    Absent,
    /// A ratio with a zero denominator.
    Undefined,
    /// The reading is this number.
    Value(f64),
}

impl Reading {
    /// What a row says, if there is one.
    pub(crate) fn of(row: Option<&Metric>) -> Self {
        let number = |row: &Metric| row.value.map_or(Self::Undefined, |number| Self::Value(number.as_f64()));
        row.map_or(Self::Absent, number)
    }

    /// The number, if there is one.
    pub(crate) fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Undefined => None,
        }
    }

    /// `scale * self / below`, undefined for a zero denominator, absent if either is.
    pub(crate) fn over(self, below: Self, scale: f64) -> Self {
        match (self, below) {
            (Self::Absent, _) | (_, Self::Absent) => Self::Absent,
            (Self::Value(top), Self::Value(bottom)) if bottom > 0.0 => Self::Value(scale * top / bottom),
            _ => Self::Undefined,
        }
    }
}

/// The whole run, then the phases.
pub(crate) fn spans(run: &RunResult) -> Vec<Span<'_>> {
    let pieces = run.metrics.chunk_by(|one, next| one.phase == next.phase);
    let mut spans: Vec<Span<'_>> =
        pieces.map(|metrics| Span { phase: metrics[0].phase.as_deref(), metrics }).collect();
    if spans.first().is_none_or(|first| first.phase.is_some()) {
        spans.insert(0, Span { phase: None, metrics: &[] });
    }
    spans
}

/// What makes a row unique in its span.
pub(crate) fn key(row: &Metric) -> (&str, &str) {
    (&row.stage, &row.metric)
}

impl<'a> Span<'a> {
    /// A row by stage and metric.
    pub(crate) fn row(&self, stage: &str, metric: &str) -> Option<&'a Metric> {
        self.metrics.iter().find(|row| key(row) == (stage, metric))
    }

    /// The value under a name.
    pub(crate) fn read(&self, name: &Name) -> Reading {
        Reading::of(self.row(&name.stage, &name.metric))
    }

    /// The rows of a stage whose metric begins like that, with the rest of its name.
    pub(crate) fn parts(&self, stage: &str, prefix: &str) -> impl Iterator<Item = (&'a str, &'a Metric)> {
        let rows = self.metrics.iter().filter(move |row| row.stage == stage);
        rows.filter_map(move |row| Some((row.metric.strip_prefix(prefix)?, row)))
    }

    /// How many numbered rows there are: `f(1)`, `f(2)`, ... up to the first that is absent.
    pub(crate) fn numbered(&self, first: usize, read: impl Fn(&Self, usize) -> Reading) -> usize {
        (first..).take_while(|&number| read(self, number) != Reading::Absent).count()
    }

    /// Returns the number of TLB levels.
    pub(crate) fn tlb_levels(&self) -> usize {
        self.numbered(1, |span, level| span.read(&tlb::misses(level)))
    }
}

/// The phases of the run that has most, each with its span in every run (none where a run lacks it).
pub(crate) fn phases<'a>(runs: &[Vec<Span<'a>>]) -> Vec<(String, Vec<Option<Span<'a>>>)> {
    let Some(longest) = runs.iter().max_by_key(|run| run.len()) else { return Vec::new() };
    let names = longest.iter().filter_map(|span| span.phase);
    names
        .map(|name| {
            let of = |run: &Vec<Span<'a>>| run.iter().find(|span| span.phase == Some(name)).copied();
            (name.to_owned(), runs.iter().map(of).collect())
        })
        .collect()
}

/// The runs of a document by source, in order of appearance: only runs of one source compare.
pub(crate) fn by_source(runs: &[RunResult]) -> Vec<(&str, Vec<&RunResult>)> {
    let mut groups: Vec<(&str, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(source, _)| *source == run.source) {
            Some((_, group)) => group.push(run),
            None => groups.push((&run.source, vec![run])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pagewalk_sim::metrics::names::walk;

    use super::*;
    use crate::samples;

    #[test]
    fn a_run_is_cut_into_the_whole_and_its_phases() {
        let run = samples::with_phases("a", 1.0, &["load", "update", "update (2)"]);
        let names: Vec<_> = spans(&run).iter().map(|span| span.phase).collect();
        assert_eq!(names, [None, Some("load"), Some("update"), Some("update (2)")]);
        let phases = phases(&[spans(&run)]);
        let names: Vec<_> = phases.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["load", "update", "update (2)"]);
        let lengths: BTreeSet<_> = spans(&run).iter().map(|span| span.metrics.len()).collect();
        assert_eq!(lengths.len(), 1, "every span has the same rows");
    }

    #[test]
    fn a_phase_that_one_run_lacks_is_a_gap_there() {
        let (long, short) =
            (samples::with_phases("a", 1.0, &["load", "update"]), samples::with_phases("b", 1.0, &["load"]));
        let phases = phases(&[spans(&long), spans(&short)]);
        assert!(phases[0].1[1].is_some() && phases[1].1[1].is_none());
    }

    #[test]
    fn an_empty_result_has_an_empty_whole() {
        let run = RunResult { machine: "a".into(), source: "s".into(), metrics: vec![], spans: vec![] };
        let spans = spans(&run);
        assert_eq!(spans.len(), 1);
        assert_eq!(spans[0].read(&walk::WALKS), Reading::Absent);
    }
}
