//! The Kronecker generator of the Graph500 specification (version 2): an edge falls level by level into one of
//! four quadrants of the adjacency matrix, with probabilities A, B, C and D; then vertices are renamed.

use crate::random::SplitMix64;

/// Probability of the quadrant (0, 0).
const A: f64 = 0.57;
/// Probability of the quadrant (0, 1).
const B: f64 = 0.19;
/// Probability of the quadrant (1, 0).
const C: f64 = 0.19;

/// A probability as a bound on 32 random bits.
const fn bound(probability: f64) -> u32 {
    (probability * 4_294_967_296.0) as u32
}

/// A generator of edges; edge `i` is a function of seed and `i`.
pub(crate) struct Kronecker {
    scale: u32,
    seed: u64,
    names: Renaming,
}

impl Kronecker {
    pub(crate) fn new(scale: u32, seed: u64) -> Self {
        Self { scale, seed, names: Renaming::new(scale, seed) }
    }

    /// The two ends of edge `index`.
    #[inline]
    pub(crate) fn edge(&self, index: u64) -> [u32; 2] {
        let mut random = SplitMix64::of_item(self.seed, index);
        let (mut row, mut column) = (0, 0);
        let mut level = 0;
        while level < self.scale {
            // 32 of the 64 bits decide a level.
            let bits = random.next();
            for draw in [bits as u32, (bits >> 32) as u32].into_iter().take((self.scale - level) as usize) {
                let [r, c] = quadrant(draw);
                row = row << 1 | r;
                column = column << 1 | c;
                level += 1;
            }
        }
        [self.names.rename(row), self.names.rename(column)]
    }
}

/// The quadrant's row and column, without branches: the outcome is not predictable.
#[inline(always)]
fn quadrant(draw: u32) -> [u32; 2] {
    const TO_A: u32 = bound(A);
    const TO_B: u32 = bound(A + B);
    const TO_C: u32 = bound(A + B + C);
    let [not_a, not_b, not_c] = [TO_A, TO_B, TO_C].map(|bound| (draw >= bound) as u32);
    // A: 000, B: 100, C: 110, D: 111.
    [not_b, not_a ^ not_b ^ not_c]
}

/// A permutation of the vertex numbers below 2^scale, without a table: each step is a bijection.
struct Renaming {
    mask: u32,
    shift: u32,
    /// Odd factors and arbitrary summands.
    rounds: [(u32, u32); 3],
}

impl Renaming {
    fn new(scale: u32, seed: u64) -> Self {
        let mut random = SplitMix64::of_item(seed, u64::MAX);
        let rounds = std::array::from_fn(|_| (random.next() as u32 | 1, random.next() as u32));
        Self { mask: ((1u64 << scale) - 1) as u32, shift: scale.div_ceil(2).max(1), rounds }
    }

    #[inline(always)]
    fn rename(&self, vertex: u32) -> u32 {
        self.rounds.iter().fold(vertex, |v, &(factor, summand)| {
            let v = v.wrapping_mul(factor).wrapping_add(summand) & self.mask;
            v ^ v >> self.shift
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renaming_is_a_permutation() {
        for scale in [1, 2, 5, 10, 13] {
            let names = Renaming::new(scale, 3);
            let mut seen = vec![false; 1 << scale];
            for v in 0..1 << scale {
                assert!(!std::mem::replace(&mut seen[names.rename(v) as usize], true), "{scale}: {v}");
            }
        }
    }

    #[test]
    fn quadrants_have_their_probabilities() {
        let mut counts = [[0u32; 2]; 2];
        let mut random = SplitMix64::of_item(11, 0);
        for _ in 0..1_000_000 {
            let [r, c] = quadrant(random.next() as u32);
            counts[r as usize][c as usize] += 1;
        }
        // Six standard deviations of a binomial of a million are below 0.003.
        for (count, expected) in counts.as_flattened().iter().zip([A, B, C, 1.0 - A - B - C]) {
            assert!((f64::from(*count) / 1e6 - expected).abs() < 0.003, "{counts:?}");
        }
    }

    #[test]
    fn edges_stay_below_the_vertex_count_for_odd_and_even_scales() {
        for scale in [1, 6, 7] {
            let kronecker = Kronecker::new(scale, 1);
            let mut highest = 0;
            for i in 0..10_000 {
                highest = kronecker.edge(i).into_iter().fold(highest, u32::max);
            }
            assert_eq!(highest, (1 << scale) - 1);
        }
    }
}
