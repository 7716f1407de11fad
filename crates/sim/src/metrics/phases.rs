//! The phases of a run: what was counted when each of them began.

use super::{Metric, Rows, metrics_of, share};

/// A place in a run from which on rows are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// A phase of this name begins.
    Phase(String),
    /// Measuring begins: nothing before counts.
    Measuring,
}

/// Parts of a run, by number: 0 is what comes before the first boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// All that is measured.
    From(usize),
    /// A phase.
    One(usize),
}

/// The phases of a run so far.
#[derive(Default)]
pub(crate) struct Phases {
    /// The counts at each boundary, with the name of the phase that begins or goes on there, if it is in one.
    starts: Vec<(Option<String>, Rows)>,
    /// The part with which measuring begins.
    first: usize,
}

impl Phases {
    /// Begins the part behind a boundary with these counts. The name of a phase gets a number if the program had one of that name
    /// before.
    pub(crate) fn begin(&mut self, boundary: &Boundary, rows: Rows) {
        match boundary {
            Boundary::Phase(name) => {
                let name = self.unique(name);
                self.starts.push((Some(name), rows));
            }
            Boundary::Measuring => {
                let name = self.starts.last().and_then(|(name, _)| name.clone());
                self.starts.push((name, rows));
                self.first = self.starts.len();
            }
        }
    }

    fn unique(&self, name: &str) -> String {
        let is_new = |name: &String| self.starts.iter().all(|(other, _)| other.as_ref() != Some(name));
        let mut names = (2..).map(|time| format!("{name} ({time})"));
        let unique = Some(name.to_owned()).filter(is_new).or_else(|| names.find(is_new));
        unique.expect("there is always a larger number")
    }

    /// Returns the number of the part that the run is in.
    pub(crate) fn part(&self) -> usize {
        self.starts.len()
    }

    /// Returns the metrics of the run that has counted `end`: of all that was measured, and of each phase in it. `of_jobs` gives
    /// what does not follow from counts, of some parts under the name of a phase.
    pub(crate) fn metrics(
        &self,
        end: &Rows,
        of_jobs: impl Fn(Parts, Option<&str>) -> Vec<Metric>,
    ) -> Vec<Metric> {
        let mut metrics = match self.first.checked_sub(1) {
            Some(start) => metrics_of(&share(&self.starts[start].1, end), None),
            None => metrics_of(end, None),
        };
        metrics.extend(of_jobs(Parts::From(self.first), None));
        for (at, (name, start)) in self.starts.iter().enumerate().skip(self.first.saturating_sub(1)) {
            let Some(name) = name else { continue };
            let end = self.starts.get(at + 1).map_or(end, |(_, next)| next);
            metrics.extend(metrics_of(&share(start, end), Some(name)));
            metrics.extend(of_jobs(Parts::One(at + 1), Some(name)));
        }
        metrics
    }
}

impl Parts {
    /// Returns whether a part is one of these.
    pub(crate) fn contain(&self, part: usize) -> bool {
        match self {
            Self::From(first) => part >= *first,
            Self::One(one) => part == *one,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Number;
    use crate::metrics::names::program;

    fn counted(accesses: u64) -> Rows {
        let mut rows = Rows::default();
        rows.sum(program::ACCESSES, accesses);
        rows
    }

    /// The accesses of all and of each phase, of a run of 100.
    fn accesses(phases: &Phases) -> Vec<(String, u64)> {
        let metrics = phases.metrics(&counted(100), |_, _| Vec::new());
        let accesses = metrics.iter().filter(|metric| program::ACCESSES.is_of(metric));
        let named = accesses.map(|metric| {
            let Some(Number::Count(count)) = metric.value else { panic!("no count: {metric:?}") };
            (metric.phase.clone().unwrap_or("all".into()), count)
        });
        named.collect()
    }

    fn phase(name: &str) -> Boundary {
        Boundary::Phase(name.into())
    }

    fn expected<const ROWS: usize>(rows: [(&str, u64); ROWS]) -> Vec<(String, u64)> {
        rows.map(|(name, count)| (name.to_owned(), count)).into()
    }

    #[test]
    fn a_phase_has_what_was_counted_in_it_and_one_of_the_same_name_has_a_number() {
        let mut phases = Phases::default();
        for (name, accesses) in [("update", 10), ("look", 30), ("update", 60)] {
            phases.begin(&phase(name), counted(accesses));
        }
        assert_eq!(phases.part(), 3);
        let all = expected([("all", 100), ("update", 20), ("look", 30), ("update (2)", 40)]);
        assert_eq!(accesses(&phases), all);
    }

    #[test]
    fn what_comes_before_measuring_does_not_count_and_a_phase_goes_on() {
        let mut phases = Phases::default();
        phases.begin(&Boundary::Measuring, counted(5));
        assert_eq!(accesses(&phases), expected([("all", 95)]));
        phases.begin(&phase("build"), counted(10));
        phases.begin(&phase("update"), counted(20));
        phases.begin(&Boundary::Measuring, counted(40));
        phases.begin(&phase("update"), counted(90));
        assert_eq!(accesses(&phases), expected([("all", 60), ("update", 50), ("update (2)", 10)]));
        assert!(Parts::From(4).contain(5) && !Parts::From(4).contain(3) && !Parts::One(4).contain(5));
    }
}
