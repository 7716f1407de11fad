//! Generated genomes: random bases with copies of earlier stretches in between, and a mutated copy of the whole.
//! All rates are assumed; they are those of no particular species.

use crate::random::SplitMix64;

/// A copied stretch: how long, and how many bases lie between two on average.
const COPY_BASES: usize = 300;
const BETWEEN_COPIES: u64 = 3000;
/// One base in this many differs between a copied stretch and its origin.
const COPY_MUTATIONS: u64 = 10;
/// In the mutated copy: one base in this many is another; as many times this, some are inserted or left out.
const SUBSTITUTIONS: u64 = 100;
const INSERTIONS: u64 = 1000;
/// Up to so many bases are inserted or left out at once.
const LONGEST_INSERTION: u64 = 10;
/// Numbers of the seed's streams.
const REFERENCE: u64 = 1;
const QUERY: u64 = 2;

/// A genome of `bases` bases, each 0 to 3.
pub(crate) fn reference(bases: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::of_item(seed, REFERENCE);
    let mut genome = Vec::with_capacity(bases);
    while genome.len() < bases {
        let origin = random.below(genome.len() as u64 + 1) as usize;
        let copied = genome.len() > COPY_BASES && random.below(BETWEEN_COPIES) == 0;
        let stretch = if copied { COPY_BASES.min(genome.len() - origin) } else { 0 };
        for at in origin..origin + stretch.min(bases - genome.len()) {
            let base =
                if random.below(COPY_MUTATIONS) == 0 { other(genome[at], &mut random) } else { genome[at] };
            genome.push(base);
        }
        if stretch == 0 {
            genome.push(random.below(4) as u8);
        }
    }
    genome
}

/// The first `bases` bases of a mutated copy of a genome; random ones behind its end.
pub(crate) fn mutated(genome: &[u8], bases: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::of_item(seed, QUERY);
    let mut copy = Vec::with_capacity(bases);
    let mut at = 0;
    while copy.len() < bases {
        let Some(&base) = genome.get(at) else {
            copy.push(random.below(4) as u8);
            continue;
        };
        at += 1;
        copy.push(if random.below(SUBSTITUTIONS) == 0 { other(base, &mut random) } else { base });
        if random.below(INSERTIONS) == 0 {
            let count = 1 + random.below(LONGEST_INSERTION) as usize;
            match random.below(2) {
                0 => at += count,
                _ => (0..count.min(bases - copy.len())).for_each(|_| copy.push(random.below(4) as u8)),
            }
        }
    }
    copy
}

/// One of the three other bases.
fn other(base: u8, random: &mut SplitMix64) -> u8 {
    (base + 1 + random.below(3) as u8) % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genomes_have_their_length_and_only_bases() {
        let genome = reference(10_000, 1);
        let copy = mutated(&genome, 9_990, 1);
        assert_eq!((genome.len(), copy.len()), (10_000, 9_990));
        assert!(genome.iter().chain(&copy).all(|&base| base < 4));
        // Alike at the start, but not the same.
        let same = genome.iter().zip(&copy).take(500).filter(|(a, b)| a == b).count();
        assert!((100..500).contains(&same), "{same}");
        assert_ne!(genome, reference(10_000, 2));
    }
}
