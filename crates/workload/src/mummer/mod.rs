//! MUMmer 3's search for maximal matches of two genomes (Kurtz et al., Genome Biology 2004), which the ME-HPT paper
//! runs as part of BioBench: a suffix tree of the reference, and the query streamed along it. Found are the stretches
//! that occur once in the reference and cannot be extended to either side (`mummer -mumreference`).
//!
//! The genomes are generated; clustering and extending the matches, the later steps of an alignment, are left out, and so
//! is the query's reverse complement.

mod genome;
mod matches;
mod sites;
mod tree;
mod verify;

use tree::{Text, Tree};

use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::space::{AddressSpace, mapping_bytes};
use crate::values::Values;

pub(crate) const ENTRY: Entry = Entry {
    name: "mummer",
    summary: "maximal unique matches of two genomes, by a suffix tree (MUMmer 3)",
    phases: &["build", "match"],
    parameters: &[
        Parameter {
            name: "reference",
            summary: "bases of the reference",
            kind: Kind::Count { min: 100, max: 1_000_000_000 },
            default: "1M",
        },
        Parameter {
            name: "query",
            summary: "bases of the query, a mutated copy of the reference",
            kind: Kind::Count { min: 1, max: 1_000_000_000 },
            default: "1M",
        },
        Parameter {
            name: "min",
            summary: "bases of the shortest match",
            kind: Kind::Count { min: 4, max: 1_000_000 },
            default: "20",
        },
    ],
    presets: &[
        Preset {
            name: "mummer-small",
            summary: "2 MiB, for tests",
            values: &[("reference", "100k"), ("query", "50k")],
        },
        Preset {
            name: "mummer-paper",
            summary: "0.7 GiB, what the ME-HPT paper's page tables of MUMmer span",
            values: &[("reference", "40M"), ("query", "40M")],
        },
    ],
    make: |values| Ok(Box::new(Mummer::new(values))),
};

/// Branching nodes per thousand bases (measured).
const NODES_PER_THOUSAND: u64 = 632;
/// Accesses per base of the reference and of the query (measured).
const BUILD_ACCESSES: u64 = 27;
const MATCH_ACCESSES: u64 = 17;

struct Mummer {
    reference: usize,
    query: usize,
    least: usize,
    seed: u64,
}

impl Mummer {
    fn new(values: &Values) -> Self {
        Self {
            reference: values.get("reference") as usize,
            query: values.get("query") as usize,
            least: values.get("min") as usize,
            seed: values.seed,
        }
    }
}

impl Program for Mummer {
    fn footprint_bytes(&self) -> u64 {
        let (reference, query) = (self.reference as u64, self.query as u64);
        [reference + 1, query + 1, 4 * (reference + 1)].map(mapping_bytes).iter().sum::<u64>()
            + tree::node_bytes(reference * NODES_PER_THOUSAND / 1000)
    }

    fn host_bytes(&self) -> u64 {
        // The genomes are there twice while they are read in; matches are few.
        self.reference as u64 * (2 + 4 + 14) + self.query as u64 * 4 + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        BUILD_ACCESSES * self.reference as u64 + MATCH_ACCESSES * self.query as u64
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("build")?;
        let mut space = AddressSpace::new(out);
        let reference = genome::reference(self.reference, self.seed);
        let query = genome::mutated(&reference, self.query, self.seed);
        let text = Text::new(&reference, &mut space, out)?;
        drop(reference);
        let tree = Tree::build(text, &mut space, out)?;

        out.phase("match")?;
        let query = Text::new(&query, &mut space, out)?;
        let found = matches::find(&tree, &query, self.least, out)?;
        verify::matches(tree.text().bases(), query.bases(), self.least, self.seed, &found)
            .map_err(Halt::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::matches::Match;
    use super::*;

    fn found(reference: &[u8], query: &[u8], least: usize) -> Vec<Match> {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let text = Text::new(reference, &mut space, &mut out).unwrap();
        let tree = Tree::build(text, &mut space, &mut out).unwrap();
        let query = Text::new(query, &mut space, &mut out).unwrap();
        matches::find(&tree, &query, least, &mut out).unwrap()
    }

    /// Every pair of places, extended as far as it goes.
    fn by_brute_force(reference: &[u8], query: &[u8], least: usize) -> Vec<Match> {
        let mut found = Vec::new();
        for at in 0..query.len() {
            let common = |start: usize| {
                query[at..].iter().zip(&reference[start..]).take_while(|(a, b)| a == b).count()
            };
            let lengths: Vec<usize> = (0..reference.len()).map(common).collect();
            let longest = *lengths.iter().max().unwrap();
            let places: Vec<usize> = (0..lengths.len()).filter(|&start| lengths[start] == longest).collect();
            let [start] = places[..] else { continue };
            let extends = at > 0 && start > 0 && query[at - 1] == reference[start - 1];
            if longest >= least && !extends {
                found.push(Match { query: at as u32, reference: start as u32, bases: longest as u32 });
            }
        }
        found
    }

    #[test]
    fn matches_are_those_of_brute_force() {
        for seed in 0..5 {
            let reference = genome::reference(700, seed);
            let query = genome::mutated(&reference, 650, seed);
            for least in [4, 8, 20] {
                let expected = by_brute_force(&reference, &query, least);
                assert!(expected.len() > 2);
                assert_eq!(found(&reference, &query, least), expected, "seed {seed}, least {least}");
            }
        }
    }

    #[test]
    fn corrupt_matches_are_found() {
        let reference = genome::reference(3000, 9);
        let query = genome::mutated(&reference, 3000, 9);
        let good = found(&reference, &query, 20);
        let check = |found: &[Match]| verify::matches(&reference, &query, 20, 9, found);
        assert_eq!(check(&good), Ok(()));
        let mut shifted = good.clone();
        shifted[3].reference += 1;
        assert!(check(&shifted).unwrap_err().contains("is no match"));
        let mut short = good.clone();
        short[3].bases -= 1;
        assert!(check(&short).unwrap_err().contains("can be extended"));
        let mut missing = good.clone();
        missing.remove(3);
        assert!(check(&missing).unwrap_err().contains("by words"));
    }
}
