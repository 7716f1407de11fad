//! A generated genome: random contigs whose k-mers are all different, and the text of those k-mers.

use std::collections::HashSet;

use super::table::{base, packed};
use crate::random::{SplitMix64, mix};

/// K-mers of a contig on average, one to almost twice as many (assumed).
pub(crate) const MEAN_KMERS: u64 = 500;
/// The extension where a contig ends.
pub(crate) const CONTIG_END: u8 = b'F';
/// Numbers of the seed's streams.
const BASES: u64 = 1;
const ORDER: u64 = 2;

/// What the order of contigs does not change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Contigs {
    count: u64,
    bases: u64,
    mixed: u64,
}

impl Contigs {
    pub(crate) fn add(&mut self, bases: &[u8]) {
        self.count += 1;
        self.bases += bases.len() as u64;
        let hash = bases
            .iter()
            .fold(bases.len() as u64, |hash, &base| mix(hash << 8 ^ hash >> 56 ^ u64::from(base)));
        self.mixed = self.mixed.wrapping_add(hash);
    }
}

/// The lines of the text, in its order.
pub(crate) struct Lines {
    k: usize,
    lines: Vec<Line>,
}

struct Line {
    kmer: u64,
    left: u8,
    right: u8,
}

impl Lines {
    /// The lines of a genome with so many k-mers, in random order, and its contigs.
    pub(crate) fn of_genome(kmers: usize, k: usize, seed: u64) -> (Self, Contigs) {
        let mut random = SplitMix64::of_item(seed, BASES);
        let mut known = HashSet::with_capacity(kmers);
        let mut lines = Vec::with_capacity(kmers);
        let mut contigs = Contigs::default();
        while lines.len() < kmers {
            let most = (1 + random.below(2 * MEAN_KMERS - 1) as usize).min(kmers - lines.len());
            let contig = contig(k, most, &mut known, &mut random);
            contigs.add(&contig);
            let ends = contig.len() - k;
            lines.extend((0..=ends).map(|at| Line {
                kmer: packed(&contig[at..at + k]),
                left: if at == 0 { CONTIG_END } else { contig[at - 1] },
                right: if at == ends { CONTIG_END } else { contig[at + k] },
            }));
        }
        drop(known);
        shuffle(&mut lines, seed);
        (Self { k, lines }, contigs)
    }

    /// Writes the text to a buffer of its size.
    pub(crate) fn write(&self, text: &mut [u8]) {
        for (line, text) in self.lines.iter().zip(text.chunks_exact_mut(self.k + 4)) {
            for (i, byte) in text[..self.k].iter_mut().enumerate() {
                *byte = base(line.kmer >> (2 * (self.k - 1 - i)));
            }
            text[self.k..].copy_from_slice(&[b'\t', line.left, line.right, b'\n']);
        }
    }
}

/// A random contig of at most so many k-mers, none of them known before. One that is known ends the contig.
fn contig(k: usize, most: usize, known: &mut HashSet<u64>, random: &mut SplitMix64) -> Vec<u8> {
    let mut contig: Vec<u8> = loop {
        let first: Vec<u8> = (0..k).map(|_| base(random.below(4))).collect();
        if known.insert(packed(&first)) {
            break first;
        }
    };
    for _ in 1..most {
        contig.push(base(random.below(4)));
        if !known.insert(packed(&contig[contig.len() - k..])) {
            contig.pop();
            break;
        }
    }
    contig
}

/// Fisher and Yates' shuffle.
fn shuffle(lines: &mut [Line], seed: u64) {
    let mut random = SplitMix64::of_item(seed, ORDER);
    for at in (1..lines.len()).rev() {
        lines.swap(at, random.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kmers_are_different_and_a_known_one_ends_a_contig() {
        // So many of 4^6 that repetitions are certain.
        let (lines, contigs) = Lines::of_genome(2000, 6, 1);
        let kmers: HashSet<u64> = lines.lines.iter().map(|line| line.kmer).collect();
        assert_eq!((lines.lines.len(), kmers.len()), (2000, 2000));
        assert!(contigs.count > 2000 / MEAN_KMERS * 5, "{contigs:?}");
        assert_eq!(contigs.bases, 2000 + 5 * contigs.count);
    }

    #[test]
    fn the_text_has_a_line_per_kmer() {
        let (lines, _) = Lines::of_genome(1, 13, 5);
        let mut text = vec![0; 17];
        lines.write(&mut text);
        assert!(text[..13].iter().all(|base| b"ACGT".contains(base)));
        assert_eq!(text[13..], *b"\tFF\n");
    }
}
