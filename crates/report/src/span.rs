//! Looking metrics up: a run is cut into spans, the whole run first, then its phases in order.

use std::collections::BTreeSet;

use pagewalk_sim::metrics::{Metric, RunResult};

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
    /// The number.
    Value(f64),
}

impl Reading {
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

/// The whole run, then the phases. A phase that is entered twice in a row is two spans: its rows repeat.
pub(crate) fn spans(run: &RunResult) -> Vec<Span<'_>> {
    let mut starts = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, row) in run.metrics.iter().enumerate() {
        let continues = at > 0 && run.metrics[at - 1].phase == row.phase;
        if !continues || seen.contains(&key(row)) {
            starts.push(at);
            seen.clear();
        }
        seen.insert(key(row));
    }
    let mut spans: Vec<Span<'_>> = starts
        .iter()
        .enumerate()
        .map(|(number, &start)| {
            let end = starts.get(number + 1).copied().unwrap_or(run.metrics.len());
            Span { phase: run.metrics[start].phase.as_deref(), metrics: &run.metrics[start..end] }
        })
        .collect();
    if spans.first().is_none_or(|first| first.phase.is_some()) {
        spans.insert(0, Span { phase: None, metrics: &[] });
    }
    spans
}

/// What makes a row unique in its span.
pub(crate) fn key(row: &Metric) -> (&str, &str, &str) {
    (&row.stage, &row.metric, &row.unit)
}

impl<'a> Span<'a> {
    /// A row by stage, metric and unit.
    pub(crate) fn row(&self, stage: &str, metric: &str, unit: &str) -> Option<&'a Metric> {
        self.metrics.iter().find(|row| key(row) == (stage, metric, unit))
    }

    /// Its value.
    pub(crate) fn read(&self, stage: &str, metric: &str, unit: &str) -> Reading {
        match self.row(stage, metric, unit) {
            None => Reading::Absent,
            Some(row) => row.value.map_or(Reading::Undefined, |number| Reading::Value(number.as_f64())),
        }
    }

    /// The rows of a stage and unit, in their order.
    pub(crate) fn stage(&self, stage: &str, unit: &str) -> impl Iterator<Item = &'a Metric> {
        self.metrics.iter().filter(move |row| row.stage == stage && row.unit == unit)
    }

    /// The value of a row of unit `count`.
    pub(crate) fn count(&self, stage: &str, metric: &str) -> Reading {
        self.read(stage, metric, "count")
    }

    /// How many numbered rows there are: `f(1)`, `f(2)`, ... up to the first that is absent.
    pub(crate) fn numbered(&self, first: usize, read: impl Fn(&Self, usize) -> Reading) -> usize {
        (first..).take_while(|&number| read(self, number) != Reading::Absent).count()
    }

    /// TLB levels.
    pub(crate) fn tlb_levels(&self) -> usize {
        self.numbered(1, |span, level| span.count(&format!("tlb.l{level}"), "misses"))
    }
}

/// The phases that all runs have in common, each with its span in every run (none where a run lacks it). A name
/// that comes again is numbered: `update`, `update (2)`.
pub(crate) fn phases<'a>(runs: &[Vec<Span<'a>>]) -> Vec<(String, Vec<Option<Span<'a>>>)> {
    let names = |spans: &[Span<'a>]| -> Vec<(String, Span<'a>)> {
        let mut earlier: Vec<&str> = Vec::new();
        spans
            .iter()
            .filter_map(|span| span.phase.map(|phase| (phase, *span)))
            .map(|(phase, span)| {
                let times = 1 + earlier.iter().filter(|&&name| name == phase).count();
                earlier.push(phase);
                (if times == 1 { phase.to_owned() } else { format!("{phase} ({times})") }, span)
            })
            .collect()
    };
    let runs: Vec<Vec<(String, Span<'a>)>> = runs.iter().map(|spans| names(spans)).collect();
    let Some(longest) = runs.iter().max_by_key(|run| run.len()) else { return Vec::new() };
    longest
        .iter()
        .map(|(name, _)| {
            let of = |run: &Vec<(String, Span<'a>)>| {
                run.iter().find(|(other, _)| other == name).map(|(_, span)| *span)
            };
            (name.clone(), runs.iter().map(of).collect())
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
    use super::*;
    use crate::samples;

    #[test]
    fn a_run_is_cut_into_the_whole_and_its_phases() {
        let run = samples::with_phases("a", 1.0, &["load", "update", "update"]);
        let names: Vec<_> = spans(&run).iter().map(|span| span.phase).collect();
        assert_eq!(names, [None, Some("load"), Some("update"), Some("update")]);
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
        assert_eq!(spans[0].count("walk", "walks"), Reading::Absent);
    }
}
