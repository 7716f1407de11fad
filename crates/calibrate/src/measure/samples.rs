//! Samples of a quantity, and the value that stands for them.

use super::quantity::Measured;

/// The statistic that stands for samples of a quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// The lower quartile, for a time: other programs and other guests of a host only add to it.
    LowerQuartile,
    /// The upper quartile, for a bandwidth or a window, from which they only take.
    UpperQuartile,
    /// The 95th percentile, for what a core does per cycle: its sibling thread, whose programs may be another guest's, takes up to half
    /// of that for seconds.
    Highest,
    /// The median, for what disturbances make larger or smaller.
    Median,
    /// The value which so many percent of the samples do not exceed.
    Percentile(usize),
}

impl Statistic {
    /// Returns the part of the samples that lie below the statistic, in percent.
    fn percentile(self) -> usize {
        match self {
            Self::LowerQuartile => 25,
            Self::UpperQuartile => 75,
            Self::Highest => 95,
            Self::Median => 50,
            Self::Percentile(percent) => percent,
        }
    }
}

/// Returns what stands for samples; none for no samples. Those that are not positive and finite are left out. Nothing is known of the halves
/// of the run.
pub(super) fn summary(mut samples: Vec<f64>, statistic: Statistic) -> Option<Measured> {
    samples.retain(|sample| sample.is_finite() && *sample > 0.0);
    samples.sort_by(f64::total_cmp);
    let last = samples.len().checked_sub(1)?;
    let at = |percent: usize| samples[(last * percent + 50) / 100];
    let spread = (at(75) - at(25)) / at(50);
    Some(Measured {
        value: at(statistic.percentile()),
        least: at(0),
        median: at(50),
        spread,
        difference: None,
    })
}

/// Returns the lower quartile of samples.
pub(super) fn quartile(samples: &[f64]) -> Option<f64> {
    summary(samples.to_vec(), Statistic::LowerQuartile).map(|measured| measured.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_stands_for_the_samples() {
        let samples: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let of = |statistic| summary(samples.clone(), statistic).expect("samples");
        let spread = 50.0 / 51.0;
        let expected = Measured { value: 26.0, least: 1.0, median: 51.0, spread, difference: None };
        assert_eq!(of(Statistic::LowerQuartile), expected);
        let values =
            [Statistic::UpperQuartile, Statistic::Highest, Statistic::Median].map(|each| of(each).value);
        assert_eq!(values, [76.0, 96.0, 51.0]);
    }

    #[test]
    fn one_sample_has_no_spread_and_none_has_no_value() {
        let measured = summary(vec![3.0], Statistic::Highest).expect("a sample");
        let expected = Measured { value: 3.0, least: 3.0, median: 3.0, spread: 0.0, difference: None };
        assert_eq!(measured, expected);
        assert_eq!(summary(vec![], Statistic::Median), None);
        assert_eq!(summary(vec![f64::NAN, 0.0, -1.0, f64::INFINITY], Statistic::Median), None);
        assert_eq!(quartile(&[2.0, 1.0, 3.0, 4.0, 5.0]), Some(2.0));
    }
}
