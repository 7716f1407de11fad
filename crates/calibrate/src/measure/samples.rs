//! Samples of a quantity, and the value that stands for them.

/// A measured quantity, in the unit of its [`Quantity`](super::Quantity).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// The value to use; see [`Statistic`].
    pub value: f64,
    /// The least of the samples.
    pub least: f64,
    /// The median of the samples.
    pub median: f64,
    /// The interquartile range over the median, a fraction.
    pub spread: f64,
}

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
}

impl Statistic {
    /// Returns the part of the samples that lie below the statistic, in percent.
    fn percentile(self) -> usize {
        match self {
            Self::LowerQuartile => 25,
            Self::UpperQuartile => 75,
            Self::Highest => 95,
            Self::Median => 50,
        }
    }
}

impl Measured {
    /// Returns what stands for samples; none for no samples. Those that are not positive and finite are left out.
    pub fn of(mut samples: Vec<f64>, statistic: Statistic) -> Option<Self> {
        samples.retain(|sample| sample.is_finite() && *sample > 0.0);
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        let at = |percent: usize| samples[(last * percent + 50) / 100];
        let spread = (at(75) - at(25)) / at(50);
        Some(Self { value: at(statistic.percentile()), least: at(0), median: at(50), spread })
    }
}

/// Returns the lower quartile of samples.
pub(super) fn quartile(samples: &[f64]) -> Option<f64> {
    Measured::of(samples.to_vec(), Statistic::LowerQuartile).map(|measured| measured.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_stands_for_the_samples() {
        let samples: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let of = |statistic| Measured::of(samples.clone(), statistic).expect("samples");
        let spread = 50.0 / 51.0;
        let expected = Measured { value: 26.0, least: 1.0, median: 51.0, spread };
        assert_eq!(of(Statistic::LowerQuartile), expected);
        let values =
            [Statistic::UpperQuartile, Statistic::Highest, Statistic::Median].map(|each| of(each).value);
        assert_eq!(values, [76.0, 96.0, 51.0]);
    }

    #[test]
    fn one_sample_has_no_spread_and_none_has_no_value() {
        let measured = Measured::of(vec![3.0], Statistic::Highest).expect("a sample");
        assert_eq!(measured, Measured { value: 3.0, least: 3.0, median: 3.0, spread: 0.0 });
        assert_eq!(Measured::of(vec![], Statistic::Median), None);
        assert_eq!(Measured::of(vec![f64::NAN, 0.0, -1.0, f64::INFINITY], Statistic::Median), None);
        assert_eq!(quartile(&[2.0, 1.0, 3.0, 4.0, 5.0]), Some(2.0));
    }
}
