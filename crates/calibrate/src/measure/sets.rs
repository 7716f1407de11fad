//! Samples that were taken together, and which of them count.
//!
//! On a shared host another thread of the core, which may be another guest's, takes a part of it for seconds, and leaves it alone for
//! seconds. Each probe of a round is therefore between two looks at the additions that the core makes in a cycle; what was sampled while
//! another thread had a part of the core does not count, if there is enough of other times.

use std::collections::BTreeMap;

use super::quantity::{Measured, Quantity};
use super::samples::{Statistic, summary};

/// The least share of a core's additions per cycle with which measurements count: with less, another thread has a part of the core.
pub const OWN: f64 = 0.8;
/// The percentile of all looks that shows a core without another thread.
const ALONE: usize = 90;
/// If the samples of so many rounds count, those of the others are left out.
const ENOUGH: usize = 5;

/// Samples of a quantity that were taken together.
#[derive(Clone, PartialEq, Debug)]
struct Set {
    /// The additions that the core made in a cycle, before or behind: the fewer ones.
    additions: f64,
    samples: Vec<f64>,
}

/// The samples of all rounds, and the looks at the core.
#[derive(Default)]
pub(super) struct Sets {
    /// In order of time.
    sets: BTreeMap<Quantity, Vec<Set>>,
    looks: Vec<f64>,
}

impl Sets {
    /// Adds samples of a quantity, between two looks at the additions that the core makes in a cycle.
    pub(super) fn add(&mut self, quantity: Quantity, looks: [f64; 2], samples: Vec<f64>) {
        if !samples.is_empty() {
            let additions = looks[0].min(looks[1]);
            self.sets.entry(quantity).or_default().push(Set { additions, samples });
        }
    }

    /// Adds a look at the additions that the core makes in a cycle.
    pub(super) fn look(&mut self, additions: f64) {
        self.looks.push(additions);
    }

    /// Returns the share of the looks at which another thread had a part of the core.
    pub(super) fn shared(&self) -> f64 {
        let least = self.least_additions();
        let shared = self.looks.iter().filter(|additions| **additions < least).count();
        shared as f64 / self.looks.len().max(1) as f64
    }

    /// Returns of how many rounds samples count, of the quantity of which the fewest do.
    pub(super) fn counting(&self) -> usize {
        let least = self.least_additions();
        let counting = |sets: &Vec<Set>| sets.iter().filter(|set| set.additions >= least).count();
        self.sets.values().map(counting).min().unwrap_or(0)
    }

    /// Returns what stands for the samples of each quantity.
    pub(super) fn measured(&self) -> BTreeMap<Quantity, Measured> {
        let least = self.least_additions();
        let measured = |(&quantity, sets): (&Quantity, &Vec<Set>)| {
            let stands_for = |sets: &[&Set]| summary(samples(sets), quantity.statistic());
            let own: Vec<&Set> = sets.iter().filter(|set| set.additions >= least).collect();
            if own.len() < ENOUGH {
                return Some((quantity, stands_for(&sets.iter().collect::<Vec<_>>())?));
            }
            let (first, second) = own.split_at(own.len() / 2);
            let difference = stands_for(first).zip(stands_for(second)).map(|(first, second)| {
                let ratio = first.value / second.value;
                ratio.max(ratio.recip()) - 1.0
            });
            Some((quantity, Measured { difference, ..stands_for(&own)? }))
        };
        self.sets.iter().filter_map(measured).collect()
    }

    /// Returns the additions in a cycle below which another thread had a part of the core.
    fn least_additions(&self) -> f64 {
        let alone = summary(self.looks.clone(), Statistic::Percentile(ALONE));
        OWN * alone.map_or(0.0, |alone| alone.value)
    }
}

fn samples(sets: &[&Set]) -> Vec<f64> {
    sets.iter().flat_map(|set| &set.samples).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of one sample each, of which some were beside another thread.
    fn sets(rounds: &[(f64, bool)]) -> Sets {
        let mut sets = Sets::default();
        for &(sample, is_alone) in rounds {
            let additions = if is_alone { 3.9 } else { 2.1 };
            sets.look(additions);
            sets.add(Quantity::SecondCache, [3.9, additions], vec![sample]);
        }
        sets
    }

    #[test]
    fn what_another_thread_disturbed_does_not_count() {
        let disturbed = (0..10).flat_map(|round| [(12.0, true), (20.0 + f64::from(round), false)]);
        let sets = sets(&disturbed.collect::<Vec<_>>());
        let found = sets.measured()[&Quantity::SecondCache];
        assert_eq!((found.value, found.spread, found.difference), (12.0, 0.0, Some(0.0)));
        assert_eq!((sets.shared(), sets.counting()), (0.5, 10));
    }

    #[test]
    fn with_too_few_rounds_everything_counts_and_nothing_is_known_of_its_precision() {
        let few = sets(&[(12.0, true), (20.0, false), (22.0, false), (24.0, false)]);
        let found = few.measured()[&Quantity::SecondCache];
        assert_eq!((found.least, found.median, found.difference), (12.0, 22.0, None));
        assert_eq!((few.counting(), Sets::default().counting()), (1, 0));
        assert!(Sets::default().measured().is_empty());
    }

    #[test]
    fn the_halves_of_a_run_show_a_drift() {
        let drifting = (0..10).map(|round| (if round < 5 { 10.0 } else { 12.0 }, true));
        let found = sets(&drifting.collect::<Vec<_>>()).measured()[&Quantity::SecondCache];
        assert!((found.difference.expect("enough rounds") - 0.2).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn where_no_additions_are_known_everything_counts() {
        let mut sets = Sets::default();
        (0..6).for_each(|_| {
            sets.look(0.0);
            sets.add(Quantity::Cycle, [0.0; 2], vec![0.3]);
        });
        assert_eq!((sets.shared(), sets.counting()), (0.0, 6));
        assert_eq!(sets.measured()[&Quantity::Cycle].difference, Some(0.0));
    }
}
