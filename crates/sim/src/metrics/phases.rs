//! The phases of a run: what was counted when each of them began.

use super::{Metric, Rows, metrics_of, share};

/// The phases of a run so far.
#[derive(Default)]
pub(crate) struct Phases {
    /// The counts at the beginning of each phase, with its name.
    starts: Vec<(String, Rows)>,
}

impl Phases {
    /// Begins a phase with these counts. Its name gets a number if the program had one of that name before.
    pub(crate) fn begin(&mut self, name: &str, rows: Rows) {
        let is_new = |name: &String| self.starts.iter().all(|(other, _)| other != name);
        let mut names = (2..).map(|time| format!("{name} ({time})"));
        let unique = Some(name.to_owned()).filter(is_new).or_else(|| names.find(is_new));
        self.starts.push((unique.expect("there is always a larger number"), rows));
    }

    /// Returns the number of phases that have begun.
    pub(crate) fn begun(&self) -> usize {
        self.starts.len()
    }

    /// Returns the metrics of the run that has counted `end`: of all of it, and of each phase. `of_jobs` gives what does not
    /// follow from counts: for the whole run, and for the phase that began as number 1, 2, ...
    pub(crate) fn metrics(
        &self,
        end: &Rows,
        of_jobs: impl Fn(Option<(usize, &str)>) -> Vec<Metric>,
    ) -> Vec<Metric> {
        let mut metrics = metrics_of(end, None);
        metrics.extend(of_jobs(None));
        for (number, (name, start)) in self.starts.iter().enumerate() {
            let end = self.starts.get(number + 1).map_or(end, |(_, next)| next);
            metrics.extend(metrics_of(&share(start, end), Some(name)));
            metrics.extend(of_jobs(Some((number + 1, name))));
        }
        metrics
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

    #[test]
    fn a_phase_has_what_was_counted_in_it_and_one_of_the_same_name_has_a_number() {
        let mut phases = Phases::default();
        for (name, accesses) in [("update", 10), ("look", 30), ("update", 60)] {
            phases.begin(name, counted(accesses));
        }
        assert_eq!(phases.begun(), 3);
        let metrics = phases.metrics(&counted(100), |_| Vec::new());
        let accesses = metrics.iter().filter(|metric| program::ACCESSES.is_of(metric));
        let accesses: Vec<_> =
            accesses.map(|metric| (metric.phase.as_deref().unwrap_or("all"), metric.value)).collect();
        let expected = [("all", 100), ("update", 20), ("look", 30), ("update (2)", 40)];
        assert_eq!(accesses, expected.map(|(phase, count)| (phase, Some(Number::Count(count)))));
    }
}
