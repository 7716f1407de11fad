//! De-novo genome assembly by a hash table of k-mers: the benchmark Gen of the page-fault accelerator, which is an
//! exercise of Berkeley's course on parallel computing (CS267, after Meraculous: Georganas et al., SC 2014), here with
//! one thread.
//!
//! The input is a text with a line for each distinct k-mer, a stretch of k bases: the k-mer, a tab, and the bases before
//! and behind it, or `F` where a contig ends. All k-mers go to the table; then each contig is walked from its first
//! k-mer, whose successor's name is its own last bases and the one behind it, until `F`.
//!
//! DEVIATION: the genome is generated, and contigs are written one behind the other to memory, not printed.
//! DEVIATION: the kernel's copy of the text to the program's buffer is emitted, as stores of 64 bytes by the program; of
//! its loads from the page cache nothing is.

mod genome;
mod table;

use genome::{Contigs, Lines};
use table::{Shape, Table};

use crate::code::{Op, Site, by_size, r};
use crate::emit::{Emitter, Halt, Stop};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::space::{AddressSpace, chunk_bytes, mapping_bytes};
use crate::traced::Traced;
use crate::values::Values;
use pagewalk_code::Register;
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

pub(crate) const ENTRY: Entry = Entry {
    name: "assembler",
    summary: "a genome from its k-mers, by a hash table (Gen of the page-fault accelerator)",
    phases: &["load", "insert", "assemble"],
    parameters: &[
        Parameter {
            name: "kmers",
            summary: "distinct k-mers of the genome",
            kind: Kind::Count { min: 1, max: 1_000_000_000 },
            // 64 MiB at the peak, the thesis' size.
            default: "1395k",
        },
        Parameter {
            name: "k",
            summary: "bases of a k-mer",
            kind: Kind::Count { min: 13, max: 31 },
            default: "19",
        },
    ],
    presets: &[Preset { name: "assembler-small", summary: "2 MiB, for tests", values: &[("kmers", "50k")] }],
    make: |values| Ok(Box::new(Assembler::new(values)?)),
};

/// Of all 4^k k-mers, one in this many may be in the genome, so that contigs do not end by chance.
const RARITY: u64 = 16;
/// Bytes of a store of the kernel's copy.
const COPY_BYTES: usize = 64;
/// Bytes of a member of the list of first k-mers: a pointer to the k-mer, one to the next.
const START_BYTES: u64 = 16;

/// Instructions of the kernel per 64 bytes copied (assumed), and per base walked beside the look-up.
const COPY_INSTRUCTIONS: u64 = 4;
const BASE_INSTRUCTIONS: u64 = 13;

/// The entry at hand, the text and the place in it, and a base.
const ENTRY_AT_HAND: Register = r(0);
const TEXT: Register = r(1);
const PLACE: Register = r(2);
const BASE: Register = r(3);
/// The member of the list of first k-mers.
const MEMBER: Register = r(10);

/// Copies 64 bytes of the file, or the rest, by the base-2 logarithm of the size.
static COPY: [Site; 7] = by_size!(1 2 4 8 16 32 64: BYTES =>
    Site::new(&[Op::store(BYTES, &[TEXT, PLACE], &[BASE]), Op::integer(PLACE, &[PLACE])])
        .repeats()
        .of(COPY_INSTRUCTIONS));
/// Adds an entry to the list of first k-mers; begins with the contig of a member.
static START: Site =
    Site::new(&[Op::store(8, &[MEMBER], &[ENTRY_AT_HAND]), Op::store(8, &[MEMBER], &[MEMBER])]);
static BEGIN: Site = Site::new(&[Op::load(ENTRY_AT_HAND, 8, &[MEMBER])]);
/// Appends a base to a contig, and goes on to the look-up; ends a contig.
static APPEND: Site = Site::new(&[Op::store(1, &[TEXT, PLACE], &[BASE]), Op::integer(PLACE, &[PLACE])])
    .of(BASE_INSTRUCTIONS - 3);
static END: Site = Site::new(&[Op::store(1, &[TEXT, PLACE], &[BASE]), Op::load(MEMBER, 8, &[MEMBER])]);

/// Bytes of text, one a character.
type Text = Traced<u8, 1>;

struct Assembler {
    kmers: usize,
    shape: Shape,
    seed: u64,
}

/// A contig's first k-mer: the table's entry, and where the list's member lies.
struct Start {
    entry: u32,
    member: VirtAddr,
}

impl Assembler {
    fn new(values: &Values) -> Result<Self, String> {
        let (kmers, k) = (values.get("kmers"), values.get("k"));
        let most = (1 << (2 * k)) / RARITY;
        if kmers > most {
            return Err(format!(
                "kmers={kmers} is more than k={k} can tell apart; {most} at most, or a larger k"
            ));
        }
        Ok(Self { kmers: kmers as usize, shape: Shape::new(k as usize), seed: values.seed })
    }

    /// Bytes of a line: the k-mer, a tab, two extensions, the line's end.
    fn line_bytes(&self) -> usize {
        self.shape.k() + 4
    }

    /// About how many contigs there are.
    fn contigs(&self) -> u64 {
        (self.kmers as u64).div_ceil(genome::MEAN_KMERS)
    }

    /// `read` of the whole file.
    fn load(&self, lines: &Lines, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Result<Text, Stop> {
        let mut text = Text::mapped(self.kmers * self.line_bytes(), 0, space, out);
        lines.write(text.untraced_mut());
        for at in (0..text.len()).step_by(COPY_BYTES) {
            let bytes = COPY_BYTES.min(text.len() - at);
            out.block(&COPY[bytes.next_power_of_two().ilog2() as usize])?;
            text.store_part(at, 0, bytes as u32, out)?;
        }
        Ok(text)
    }

    /// Puts all k-mers into the table; answers those that begin a contig, the last first.
    fn insert(
        &self,
        text: &Text,
        table: &mut Table,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Vec<Start>, Stop> {
        let mut starts = Vec::new();
        for line in (0..text.len()).step_by(self.line_bytes()) {
            let (entry, left) = table.insert(text, line, out)?;
            if left == genome::CONTIG_END {
                let member = space.malloc(START_BYTES, out)?;
                out.enter(&START)?;
                out.store(member, 8)?;
                out.store(member.add(8), 8)?;
                starts.push(Start { entry, member });
            }
        }
        starts.reverse();
        Ok(starts)
    }

    /// Walks all contigs; answers their bases, a line each.
    fn assemble(
        &self,
        starts: &[Start],
        table: &mut Table,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Text, Halt> {
        // A contig of n k-mers has n + k - 1 bases and the line's end.
        let k = self.shape.k();
        let mut contigs = Text::new(self.kmers + starts.len() * k, 0, space, out)?;
        let mut at = 0;
        for start in starts {
            out.enter(&BEGIN)?;
            out.load(start.member, 8)?;
            table.unpack(start.entry, &mut contigs, at, out)?;
            at += k;
            let mut entry = start.entry;
            loop {
                out.work(BASE_INSTRUCTIONS);
                let right = table.visit(entry, out)?;
                if right == genome::CONTIG_END {
                    break;
                }
                out.enter(&APPEND)?;
                contigs.store(at, right, out)?;
                at += 1;
                entry = table.find(&contigs, at - k, out)?;
            }
            out.enter(&END)?;
            contigs.store(at, b'\n', out)?;
            at += 1;
            out.load(start.member.add(8), 8)?;
        }
        Ok(contigs)
    }
}

/// Compares what was assembled with the genome that was cut up.
fn verify(text: &[u8], table: &Table, genome: &Contigs) -> Result<(), Halt> {
    let mut contigs = Contigs::default();
    text.split(|&byte| byte == b'\n').filter(|bases| !bases.is_empty()).for_each(|bases| contigs.add(bases));
    if let Some(kmer) = table.first_unvisited() {
        return Err(Halt::Wrong(format!("k-mer {kmer} of the table is in no contig")));
    }
    match contigs == *genome {
        true => Ok(()),
        false => Err(Halt::Wrong(format!("assembled {contigs:?} from {genome:?}"))),
    }
}

impl Program for Assembler {
    fn gives_blocks(&self) -> bool {
        true
    }

    fn footprint_bytes(&self) -> u64 {
        let (kmers, k) = (self.kmers as u64, self.shape.k() as u64);
        let text = (kmers * self.line_bytes() as u64).next_multiple_of(PAGE_BYTES);
        let contigs = mapping_bytes(kmers + self.contigs() * k);
        text + self.shape.table_bytes(kmers) + contigs + self.contigs() * chunk_bytes(START_BYTES)
    }

    fn host_bytes(&self) -> u64 {
        // Text and lines or text, table and contigs; k-mers known while the genome is drawn are fewer bytes.
        self.kmers as u64 * (self.line_bytes() as u64 + 28) + (8 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        let (kmers, k) = (self.kmers as u64, self.shape.k() as u64);
        let read = kmers * self.line_bytes() as u64 / COPY_BYTES as u64;
        let walked = kmers - self.contigs().min(kmers);
        let begun = self.contigs() * (2 * k + 10);
        read + kmers * self.shape.insert_accesses() + walked * (self.shape.find_accesses() + 2) + begun
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("load")?;
        let mut space = AddressSpace::new(out);
        let (lines, genome) = Lines::of_genome(self.kmers, self.shape.k(), self.seed);
        let text = self.load(&lines, &mut space, out)?;
        drop(lines);

        out.phase("insert")?;
        let mut table = Table::new(self.kmers, self.shape, &mut space, out)?;
        let starts = self.insert(&text, &mut table, &mut space, out)?;

        out.phase("assemble")?;
        let contigs = self.assemble(&starts, &mut table, &mut space, out)?;
        verify(contigs.untraced(), &table, &genome)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    fn assembler(kmers: usize, k: usize, seed: u64) -> Assembler {
        Assembler { kmers, shape: Shape::new(k), seed }
    }

    /// Runs all phases on a text that was changed in between; the verdict.
    fn assembled(assembler: &Assembler, change: impl FnOnce(&mut [u8])) -> Result<(), Halt> {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let (lines, genome) = Lines::of_genome(assembler.kmers, assembler.shape.k(), assembler.seed);
        let mut text = assembler.load(&lines, &mut space, &mut out)?;
        change(text.untraced_mut());
        let mut table = Table::new(assembler.kmers, assembler.shape, &mut space, &mut out)?;
        let starts = assembler.insert(&text, &mut table, &mut space, &mut out)?;
        let contigs = assembler.assemble(&starts, &mut table, &mut space, &mut out)?;
        verify(contigs.untraced(), &table, &genome)
    }

    #[test]
    fn genomes_of_any_size_come_back() {
        for k in 13..=31 {
            for kmers in [1, 2, 17, 3000] {
                assert_eq!(assembled(&assembler(kmers, k, k as u64), |_| ()), Ok(()), "{kmers} {k}-mers");
            }
        }
    }

    #[test]
    fn every_fault_of_the_text_is_found() {
        let assembler = assembler(5000, 19, 4);
        let inner = |text: &[u8]| {
            let line = text.chunks(23).position(|line| line[20] != b'F' && line[21] != b'F').unwrap();
            23 * line
        };
        let verdict = |change: &dyn Fn(&mut [u8], usize)| {
            let answer = assembled(&assembler, |text| {
                let line = inner(text);
                change(text, line);
            });
            match answer {
                Err(Halt::Wrong(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        let other = |base: u8| if base == b'A' { b'C' } else { b'A' };
        assert!(verdict(&|text, at| text[at] = other(text[at])).contains("is not in the table"));
        assert!(verdict(&|text, at| text[at + 21] = other(text[at + 21])).contains("is not in the table"));
        assert!(verdict(&|text, at| text[at + 21] = b'F').contains("is in no contig"));
        assert!(verdict(&|text, at| text[at + 20] = b'F').contains("is visited twice"));
    }
}
