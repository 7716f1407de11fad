//! Objects of a managed language: many small ones that refer to each other, a mutator that follows and changes references,
//! and a copying collector.
//!
//! Records lie in a hash table of chains: field 0 of a record is the next one of its chain, field 1 its value, an object of
//! its own, and the others are links to records, popular ones above all. An operation finds a record, follows up to four
//! links, and then replaces the value of where it has come to by a new object (half of all), or a link (a quarter), or
//! only reads. Records stay, so that what lives has always about the same size; values are the garbage. All shares and
//! sizes are assumed: they are those of no particular program.
//!
//! DEVIATION: allocation never fails half-way: an operation begins with a collection if the largest value would not fit.
//! DEVIATION: there are neither generations nor barriers; the pointer to free memory stays in a register, and memory is not
//! cleared ahead of allocation.

mod heap;
mod sites;

use heap::{HEADER_WORDS, Heap, NULL, Object};

use crate::emit::{Emitter, Halt, Stop};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::random::SplitMix64;
use crate::space::{AddressSpace, mapping_bytes};
use crate::traced::Traced;
use crate::values::Values;

pub(crate) const ENTRY: Entry = Entry {
    name: "objects",
    summary: "small objects that refer to each other, changed, and copied by a collector",
    phases: &["build", "run"],
    parameters: &[
        Parameter {
            name: "bytes",
            summary: "bytes of live objects, a quarter of the heap",
            kind: Kind::Size { min: 64 << 10, max: 64 << 30, power_of_two: false },
            default: "16MiB",
        },
        Parameter {
            name: "operations",
            summary: "operations; each leaves 24 bytes of garbage on average",
            kind: Kind::Count { min: 1, max: 1_000_000_000_000 },
            default: "4M",
        },
    ],
    presets: &[Preset {
        name: "objects-small",
        summary: "2 MiB, for tests",
        values: &[("bytes", "512KiB"), ("operations", "60k")],
    }],
    make: |values| Ok(Box::new(Objects::new(values))),
};

/// Fields of an object, and of a record those that are no links: the next record of its chain, and the value.
const LEAST_FIELDS: usize = 2;
const MOST_FIELDS: usize = 6;
const NEXT: usize = 0;
const VALUE: usize = 1;
const LINKS: usize = 2;
/// Bytes of a record and its value on average.
const RECORD_BYTES: u64 = 96;
/// Of what an operation leaves behind on average: a value, every second time.
const GARBAGE_BYTES: u64 = 24;
/// Records of a chain on average.
const CHAIN: usize = 4;
/// Objects that an operation sees at most: the record it finds, and those behind links.
const PATH: usize = 5;

/// Instructions per record built besides its fields, per field set, and per link to a popular record that is drawn; per
/// record found, and per one of its chain; per operation, per object on its way, and per new value besides its fields.
const RECORD_INSTRUCTIONS: u64 = 53;
const FIELD_INSTRUCTIONS: u64 = 6;
const LINK_INSTRUCTIONS: u64 = 42;
const FIND_INSTRUCTIONS: u64 = 7;
const CHAIN_INSTRUCTIONS: u64 = 3;
const OPERATION_INSTRUCTIONS: u64 = 63;
const VISIT_INSTRUCTIONS: u64 = 14;
const VALUE_INSTRUCTIONS: u64 = 30;

struct Objects {
    records: u64,
    operations: u64,
    half_bytes: u64,
    seed: u64,
}

impl Objects {
    fn new(values: &Values) -> Self {
        let bytes = values.get("bytes");
        Self {
            records: bytes / RECORD_BYTES,
            operations: values.get("operations"),
            half_bytes: Heap::half_bytes(2 * bytes),
            seed: values.seed,
        }
    }

    fn chains(&self) -> usize {
        self.records as usize / CHAIN
    }

    fn roots_bytes(&self) -> u64 {
        self.chains() as u64 * 8
    }

    /// About how many collections there are.
    fn collections(&self) -> u64 {
        self.operations * GARBAGE_BYTES / (self.half_bytes - self.records * RECORD_BYTES)
    }
}

impl Program for Objects {
    fn footprint_bytes(&self) -> u64 {
        2 * self.half_bytes + mapping_bytes(self.roots_bytes())
    }

    fn host_bytes(&self) -> u64 {
        // The heap, and to verify it a bit per word and a stack of all objects.
        self.footprint_bytes() + self.half_bytes / 32 + 2 * self.records * 8 + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        // Counted on runs: per record built and linked, per operation, per record and value that a collection copies.
        self.records * 28 + self.operations * 21 + self.collections() * self.records * 57
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("build")?;
        let mut space = AddressSpace::new(out);
        let mut mutator = Mutator::new(self, &mut space, out)?;
        mutator.build(out)?;
        mutator.link(out)?;
        out.phase("run")?;
        for _ in 0..self.operations {
            if mutator.heap.room() < HEADER_WORDS + MOST_FIELDS {
                mutator.collect(out)?;
            }
            mutator.operate(out)?;
        }
        // Collections compare with what was before; this is what must be there at all.
        mutator.verify_records()
    }
}

/// The program at work.
struct Mutator {
    heap: Heap,
    /// The first record of each chain.
    roots: Traced<Object, 8>,
    /// What the operation has seen, on the stack.
    path: Traced<Object, 8>,
    records: u64,
    /// The identity of the next value; records have their numbers.
    next_value: u64,
    random: SplitMix64,
}

impl Mutator {
    fn new(objects: &Objects, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Self, Stop> {
        Ok(Self {
            heap: Heap::new(objects.half_bytes, space, out),
            roots: Traced::new(objects.chains(), NULL, space, out)?,
            path: Traced::local(vec![NULL; PATH], space),
            records: objects.records,
            next_value: objects.records,
            random: SplitMix64::of_item(objects.seed, 0),
        })
    }

    /// Allocates all records with their values; links lead nowhere else yet.
    fn build(&mut self, out: &mut Emitter<'_>) -> Result<(), Stop> {
        for number in 0..self.records {
            out.work(RECORD_INSTRUCTIONS);
            out.enter(&sites::BUILD)?;
            let mut bits = Bits(self.random.next());
            let fields = bits.fields();
            let record = self.heap.allocate(number, fields, out)?;
            out.enter(&sites::KEEP)?;
            let value = self.allocate_value(bits.fields(), out)?;
            out.enter(&sites::ENCHAIN)?;
            let chain = (number % self.roots.len() as u64) as usize;
            let next = self.roots.load(chain, out)?;
            self.heap.set(record, NEXT, next, out)?;
            self.roots.store(chain, record, out)?;
            self.heap.set(record, VALUE, value.0, out)?;
            for field in LINKS..fields {
                out.block(&sites::SET_LINK)?;
                self.heap.set(record, field, record, out)?;
            }
            for field in 0..value.1 {
                out.block(&sites::SET_BACK)?;
                self.heap.set(value.0, field, record, out)?;
            }
        }
        Ok(())
    }

    /// Draws the links of all records.
    fn link(&mut self, out: &mut Emitter<'_>) -> Result<(), Stop> {
        for chain in 0..self.roots.len() {
            out.enter(&sites::BEGIN_CHAIN)?;
            let mut record = self.roots.load(chain, out)?;
            while record != NULL {
                out.work(CHAIN_INSTRUCTIONS);
                out.enter(&sites::BEGIN_LINKS)?;
                for field in LINKS..self.heap.fields(record, out)? {
                    out.work(LINK_INSTRUCTIONS);
                    let target = self.find_popular(out)?;
                    out.enter(&sites::SET_TARGET)?;
                    self.heap.set(record, field, target, out)?;
                }
                out.enter(&sites::NEXT_SOURCE)?;
                record = self.heap.get(record, NEXT, out)?;
            }
        }
        Ok(())
    }

    fn operate(&mut self, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.work(OPERATION_INSTRUCTIONS);
        out.enter(&sites::OPERATE)?;
        let mut record = self.find_popular(out)?;
        out.enter(&sites::DRAW_BITS)?;
        let mut bits = Bits(self.random.next());
        let mut seen = 0;
        let links = loop {
            out.work(VISIT_INSTRUCTIONS);
            out.enter(&sites::VISIT)?;
            self.path.store(seen, record, out)?;
            seen += 1;
            let links = self.heap.fields(record, out)? - LINKS;
            if links == 0 || seen == PATH {
                break links;
            }
            out.enter(&sites::FOLLOW)?;
            record = self.heap.get(record, LINKS + bits.below(links), out)?;
        };
        match bits.below(4) {
            0 => {
                out.path(&[&sites::IS_VALUE, &sites::IS_READ, &sites::READ])?;
                let value = self.heap.get(record, VALUE, out)?;
                self.heap.identity(value, out)?;
            }
            1 if links > 0 => {
                out.path(&[&sites::IS_VALUE, &sites::IS_READ, &sites::IS_LINK, &sites::CHANGE])?;
                let first = self.path.load(0, out)?;
                self.heap.set(record, LINKS + bits.below(links), first, out)?;
            }
            1 => out.path(&[&sites::IS_VALUE, &sites::IS_READ, &sites::IS_LINK])?,
            _ => {
                out.work(VALUE_INSTRUCTIONS);
                out.path(&[&sites::IS_VALUE, &sites::VALUE])?;
                let (value, fields) = self.allocate_value(bits.fields(), out)?;
                for field in 0..fields {
                    out.block(&sites::SET_FIELD)?;
                    let target = self.path.load(field.min(seen - 1), out)?;
                    self.heap.set(value, field, target, out)?;
                }
                out.enter(&sites::REPLACE)?;
                self.heap.set(record, VALUE, value, out)?;
            }
        }
        Ok(())
    }

    /// A new value, with its number of fields.
    fn allocate_value(&mut self, fields: usize, out: &mut Emitter<'_>) -> Result<(Object, usize), Stop> {
        self.next_value += 1;
        Ok((self.heap.allocate(self.next_value - 1, fields, out)?, fields))
    }

    /// Finds a record at random, low ranks above all: of rank r or less with probability (r / records)^(1/3). Ranks are
    /// scattered over the records by a prime.
    fn find_popular(&mut self, out: &mut Emitter<'_>) -> Result<Object, Stop> {
        const PRIME: u64 = 2_654_435_761;
        let rank = (self.random.unit().powi(3) * self.records as f64) as u64;
        let number = rank.wrapping_mul(PRIME) % self.records;
        out.work(FIND_INSTRUCTIONS);
        out.enter(&sites::FIND)?;
        let mut record = self.roots.load((number % self.roots.len() as u64) as usize, out)?;
        loop {
            out.work(CHAIN_INSTRUCTIONS);
            out.enter(&sites::IS_OTHER)?;
            if self.heap.identity(record, out)? == number {
                return Ok(record);
            }
            out.enter(&sites::NEXT)?;
            record = self.heap.get(record, NEXT, out)?;
        }
    }

    /// Collects, and checks that what can be reached is what could be before, and all there is.
    fn collect(&mut self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        let before = self.heap.reachable(self.roots.untraced());
        self.heap.collect(&mut self.roots, out)?;
        let after = self.heap.reachable(self.roots.untraced());
        if before != after {
            return Err(Halt::Wrong(format!("a collection made {after:?} of {before:?}")));
        }
        match self.heap.used_words() == after.words() {
            true => Ok(()),
            false => {
                Err(Halt::Wrong(format!("a collection left {} words for {after:?}", self.heap.used_words())))
            }
        }
    }

    /// All records and their values can be reached, and nothing else.
    fn verify_records(&self) -> Result<(), Halt> {
        let reachable = self.heap.reachable(self.roots.untraced());
        match reachable.objects() == 2 * self.records {
            true => Ok(()),
            false => Err(Halt::Wrong(format!("{} records became {reachable:?}", self.records))),
        }
    }
}

/// Random bits, eight for a choice.
struct Bits(u64);

impl Bits {
    fn below(&mut self, bound: usize) -> usize {
        let choice = ((self.0 & 0xff) as usize * bound) >> 8;
        self.0 >>= 8;
        choice
    }

    fn fields(&mut self) -> usize {
        LEAST_FIELDS + self.below(MOST_FIELDS - LEAST_FIELDS + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    fn with_mutator<R>(f: impl FnOnce(&mut Mutator, &mut Emitter<'_>) -> R) -> R {
        let objects =
            Objects { records: 1000, operations: 0, half_bytes: Heap::half_bytes(192_000), seed: 2 };
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let mut mutator = Mutator::new(&objects, &mut space, &mut out).unwrap();
        mutator.build(&mut out).unwrap();
        mutator.link(&mut out).unwrap();
        f(&mut mutator, &mut out)
    }

    #[test]
    fn collections_keep_what_is_reachable_and_nothing_else() {
        with_mutator(|mutator, out| {
            for _ in 0..10 {
                // Enough for a few links, and for values to become garbage.
                (0..1000).for_each(|_| mutator.operate(out).unwrap());
                let used = mutator.heap.used_words();
                assert_eq!(mutator.collect(out), Ok(()));
                assert!(mutator.heap.used_words() < used);
                assert_eq!(mutator.verify_records(), Ok(()));
            }
        });
    }

    #[test]
    fn popular_records_are_found_more_often() {
        with_mutator(|mutator, out| {
            let mut found = vec![0; 1000];
            for _ in 0..10_000 {
                let record = mutator.find_popular(out).unwrap();
                found[mutator.heap.identity(record, out).unwrap() as usize] += 1;
            }
            // Rank 0 has a tenth, and the first 125 ranks have a half of all.
            assert!((900..1100).contains(&found[0]), "{}", found[0]);
            found.sort_unstable();
            let first: i32 = found[1000 - 125..].iter().sum();
            assert!((4500..5700).contains(&first), "{first}");
        });
    }

    #[test]
    fn a_lost_value_is_found() {
        with_mutator(|mutator, out| {
            let record = mutator.roots.load(7, out).unwrap();
            mutator.heap.set(record, VALUE, record, out).unwrap();
            let answer = mutator.verify_records();
            assert!(matches!(&answer, Err(Halt::Wrong(text)) if text.contains("1000 records")), "{answer:?}");
        });
    }
}
