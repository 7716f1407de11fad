//! The variation of a device's times.

use std::f64::consts::TAU;

use pagewalk_vm::random::SplitMix64;

use crate::spec::settings::Distribution;

/// Random factors of mean 1.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    distribution: Distribution,
    random: SplitMix64,
}

impl Latency {
    pub(super) fn new(distribution: Distribution, seed: u64) -> Self {
        Self { distribution, random: SplitMix64::new(seed) }
    }

    /// Returns the next factor. A fixed one takes no random number.
    pub(super) fn factor(&mut self) -> f64 {
        match self.distribution {
            Distribution::Fixed => 1.0,
            Distribution::Exponential => self.exponential(),
            Distribution::LogNormal { sigma_percent } => {
                let sigma = f64::from(sigma_percent) / 100.0;
                // Box and Muller, 1958. exp(sigma normal) has the mean exp(sigma^2 / 2).
                let normal = (2.0 * self.exponential()).sqrt() * (TAU * self.random.unit()).cos();
                (sigma * normal - sigma * sigma / 2.0).exp()
            }
        }
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.random.unit()).ln()
    }
}

/// Returns a time, `factor` times as long.
pub(super) fn scale(ps: u64, factor: f64) -> u64 {
    match factor {
        1.0 => ps,
        _ => (ps as f64 * factor).round() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_keeps_the_mean() {
        const MEAN_PS: u64 = 50_000_000;
        let log_normal = |sigma_percent| Distribution::LogNormal { sigma_percent };
        for (distribution, variance) in [
            (Distribution::Fixed, 0.0),
            (Distribution::Exponential, 1.0),
            (log_normal(10), 0.1f64.powi(2).exp_m1()),
            (log_normal(50), 0.5f64.powi(2).exp_m1()),
        ] {
            let mut latency = Latency::new(distribution, 1);
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..1_000_000 {
                let time = scale(MEAN_PS, latency.factor()) as f64 / MEAN_PS as f64;
                (sum, squares) = (sum + time, squares + (time - 1.0).powi(2));
            }
            let (mean, spread) = (sum / 1e6, squares / 1e6);
            assert!((mean - 1.0).abs() < 0.003, "{distribution:?}: mean {mean}");
            assert!((spread - variance).abs() <= 0.02 * variance, "{distribution:?}: variance {spread}");
        }
    }
}
