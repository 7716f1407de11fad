//! Zipf's law: rank k of n is drawn with probability proportional to 1 / k^skew.
//!
//! Rejection-inversion (Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 6(3), 1996): a point under the continuous curve x^-skew is found by inversion and its x
//! rounded; what the rounding makes too likely is rejected, which is rare. One draw costs the same for any n.
//!
//! Written here because the sequence must be the same on every machine: ranks up to 2^40 show the last bits of the
//! logarithm, and a C library computes those differently on processors with and without fused multiply-add.

use libm::{exp, expm1, log, log1p};

use crate::random::SplitMix64;

/// The distribution over the ranks 1 to n. Names of fields follow the paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    ranks: f64,
    skew: f64,
    /// The integral H of the curve at 3/2, less the whole of rank 1, and at n + 1/2: between them points are drawn.
    h_first: f64,
    h_last: f64,
    /// A point at most this far below its rank is never rejected.
    sure: f64,
}

impl Zipf {
    /// The distribution over 1 to `ranks`, from 1 to 2^40, with an exponent from 0 (uniform) to 4.
    pub(crate) fn new(ranks: u64, skew: f64) -> Self {
        assert!((1..=1 << 40).contains(&ranks), "Zipf's law over {ranks} ranks");
        assert!((0.0..=4.0).contains(&skew), "Zipf's law with exponent {skew}");
        Self {
            ranks: ranks as f64,
            skew,
            h_first: integral(1.5, skew) - 1.0,
            h_last: integral(ranks as f64 + 0.5, skew),
            sure: 2.0 - inverse(integral(2.5, skew) - curve(2.0, skew), skew),
        }
    }

    /// Draws a rank by Zipf's law.
    #[inline]
    pub(crate) fn draw(&self, random: &mut SplitMix64) -> u64 {
        loop {
            let u = self.h_last + random.unit() * (self.h_first - self.h_last);
            let x = inverse(u, self.skew);
            let k = (x + 0.5).floor().clamp(1.0, self.ranks);
            if k - x <= self.sure || u >= integral(k + 0.5, self.skew) - curve(k, self.skew) {
                return k as u64;
            }
        }
    }
}

/// The curve: x^-skew.
fn curve(x: f64, skew: f64) -> f64 {
    exp(-skew * log(x))
}

/// Its integral from 1 to x: (x^(1 - skew) - 1) / (1 - skew), or ln x for an exponent of 1.
fn integral(x: f64, skew: f64) -> f64 {
    let ln = log(x);
    let t = (1.0 - skew) * ln;
    // The limit, and its neighbourhood by the series, where the quotient would lose digits.
    let quotient = if t.abs() > 1e-8 { expm1(t) / t } else { 1.0 + t / 2.0 };
    quotient * ln
}

/// The x at which the integral is `u`.
fn inverse(u: f64, skew: f64) -> f64 {
    // Rounding can lead below the pole.
    let t = (u * (1.0 - skew)).max(-1.0);
    let quotient = if t.abs() > 1e-8 { log1p(t) / t } else { 1.0 - t / 2.0 };
    exp(quotient * u)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEWS: [f64; 9] = [0.0, 0.3, 0.7, 0.999, 1.0, 1.001, 1.5, 2.0, 4.0];

    #[test]
    fn small_ranges_follow_the_law() {
        const DRAWS: u32 = 200_000;
        for ranks in [1, 2, 3, 10, 300] {
            for skew in SKEWS {
                let (zipf, mut random) = (Zipf::new(ranks, skew), SplitMix64::of_item(5, ranks));
                let mut drawn = vec![0u32; ranks as usize];
                (0..DRAWS).for_each(|_| drawn[zipf.draw(&mut random) as usize - 1] += 1);
                let total: f64 = (1..=ranks).map(|k| (k as f64).powf(-skew)).sum();
                // Cells of at least ten expected draws; the last may have less and is joined to the one before.
                let mut cells = vec![(0.0, 0.0)];
                for (k, &count) in (1..).zip(&drawn) {
                    let last = cells.last_mut().unwrap();
                    *last = (
                        last.0 + f64::from(DRAWS) * f64::powf(k as f64, -skew) / total,
                        last.1 + f64::from(count),
                    );
                    if last.0 >= 10.0 && k < ranks {
                        cells.push((0.0, 0.0));
                    }
                }
                if cells.len() > 1 && cells[cells.len() - 1].0 < 10.0 {
                    let (expected, count) = cells.pop().unwrap();
                    let last = cells.last_mut().unwrap();
                    *last = (last.0 + expected, last.1 + count);
                }
                let chi_square: f64 = cells.iter().map(|(e, n)| (n - e).powi(2) / e).sum();
                let freedom = cells.len() as f64 - 1.0;
                // Mean and deviation of chi-square; four deviations, and a little for few degrees.
                let most = freedom + 4.0 * (2.0 * freedom).sqrt() + 3.0;
                assert!(chi_square < most, "{ranks} ranks, skew {skew}: {chi_square} of {freedom}");
            }
        }
    }

    /// The sum of k^power over 1 to n: the first thousand one by one, the rest by the integral.
    fn sum(ranks: f64, power: f64) -> f64 {
        let rest = integral(ranks + 0.5, -power) - integral(1000.5, -power);
        (1..=1000).map(|k| f64::from(k).powf(power)).sum::<f64>() + rest
    }

    #[test]
    fn large_ranges_have_the_mean_of_the_law() {
        const DRAWS: u32 = 100_000;
        for ranks in [1u64 << 20, (1 << 32) - 5, 1 << 40] {
            for skew in [0.0, 0.5, 0.9, 1.0, 1.1] {
                let (zipf, mut random) = (Zipf::new(ranks, skew), SplitMix64::of_item(6, ranks));
                let total: f64 = (0..DRAWS).map(|_| zipf.draw(&mut random) as f64).sum();
                let [zeroth, first, second] = [0.0, 1.0, 2.0].map(|m| sum(ranks as f64, m - skew));
                let (mean, square) = (first / zeroth, second / zeroth);
                let deviation = ((square - mean * mean) / f64::from(DRAWS)).sqrt();
                let off = (total / f64::from(DRAWS) - mean) / deviation;
                assert!(off.abs() < 4.0, "{ranks} ranks, skew {skew}: {off} deviations from {mean}");
            }
        }
    }

    #[test]
    fn the_sequence_is_pinned() {
        let (zipf, mut random) = (Zipf::new(1 << 40, 0.9), SplitMix64::new(1));
        assert_eq!([(); 4].map(|()| zipf.draw(&mut random)), PINNED);
    }

    const PINNED: [u64; 4] = [539_827_487, 6_092_272, 25, 4_884_572_506];
}
