//! The materials of the Hoogenboom-Martin reactor (M&C 2009), "large" fuel, as XSBench models it: how many
//! nuclides each contains and how often a look-up falls into it.
//!
//! DEVIATION: which structural nuclides a material holds is assumed here (consecutive ones from a fixed start);
//! only the numbers of nuclides and their sharing of a small set matter to memory.

use crate::random::SplitMix64;

/// Nuclides of the large problem.
pub(crate) const NUCLIDES: usize = 355;

/// One material and its nuclides.
pub(crate) struct Material {
    /// Where a look-up comes to be.
    #[expect(dead_code, reason = "documents the table")]
    pub(crate) name: &'static str,
    /// The share of look-ups that fall into it.
    pub(crate) probability: f64,
    /// Its nuclides, as ranges of nuclide numbers.
    nuclides: &'static [(u32, u32)],
}

/// The materials of the reactor. Actinides are 0 to 33, structural nuclides 34 to 67, fission products 68 to 354.
pub(crate) const MATERIALS: [Material; 12] = [
    material("fuel", 0.140, &[(0, 34), (68, 355)]),
    material("cladding", 0.052, &[(58, 63)]),
    material("cold borated water", 0.275, &[(64, 68)]),
    material("hot borated water", 0.134, &[(64, 68)]),
    material("reactor pressure vessel", 0.154, &[(34, 61)]),
    material("lower radial reflector", 0.064, &[(40, 61)]),
    material("upper radial reflector", 0.066, &[(40, 61)]),
    material("bottom plate", 0.055, &[(40, 61)]),
    material("bottom nozzle", 0.008, &[(40, 61)]),
    material("top nozzle", 0.015, &[(40, 61)]),
    material("top of fuel assemblies", 0.025, &[(58, 67)]),
    material("bottom of fuel assemblies", 0.013, &[(58, 67)]),
];

const fn material(name: &'static str, probability: f64, nuclides: &'static [(u32, u32)]) -> Material {
    Material { name, probability, nuclides }
}

impl Material {
    /// The numbers of its nuclides.
    pub(crate) fn nuclides(&self) -> impl Iterator<Item = u32> {
        self.nuclides.iter().flat_map(|&(first, end)| first..end)
    }
}

/// The material of a look-up for a uniform draw from [0, 1).
#[inline]
pub(crate) fn pick(draw: f64) -> usize {
    let mut sum = 0.0;
    // Rounding of the sum leaves the last material.
    MATERIALS[..MATERIALS.len() - 1]
        .iter()
        .position(|material| {
            sum += material.probability;
            draw < sum
        })
        .unwrap_or(MATERIALS.len() - 1)
}

/// Nuclides of a look-up, on average.
pub(crate) fn mean_nuclides() -> f64 {
    MATERIALS.iter().map(|material| material.probability * material.nuclides().count() as f64).sum()
}

/// A concentration for each nuclide of each material, drawn from [0, 1).
pub(crate) fn concentrations(seed: u64) -> Vec<Vec<f64>> {
    let concentration = |(m, material): (usize, &Material)| {
        let mut random = SplitMix64::of_item(seed, u64::MAX - m as u64);
        material.nuclides().map(|_| random.unit()).collect()
    };
    MATERIALS.iter().enumerate().map(concentration).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_shares_are_those_of_the_large_problem() {
        let counts: Vec<_> = MATERIALS.iter().map(|m| m.nuclides().count()).collect();
        assert_eq!(counts, [321, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9]);
        let total: f64 = MATERIALS.iter().map(|m| m.probability).sum();
        assert!((total - 1.001).abs() < 1e-9, "{total}");
        assert!(MATERIALS.iter().all(|m| m.nuclides().all(|n| (n as usize) < NUCLIDES)));
    }

    #[test]
    fn picks_follow_the_shares() {
        let mut random = SplitMix64::of_item(5, 0);
        let mut counts = [0.0; MATERIALS.len()];
        for _ in 0..100_000 {
            counts[pick(random.unit())] += 1e-5;
        }
        for (count, material) in counts.iter().zip(&MATERIALS) {
            assert!((count - material.probability).abs() < 0.006, "{counts:?}");
        }
        assert_eq!(pick(0.999_999_999), MATERIALS.len() - 1);
    }
}
