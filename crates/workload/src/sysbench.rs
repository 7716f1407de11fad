//! The memory test of sysbench 1.0: one block of memory, gone through word by word, over and over.
//!
//! An event is a pass over the block with as many accesses of 8 bytes as it has words, in order or at random places;
//! events follow until `total` bytes have been accessed. Nothing depends on what a write leaves behind, so the host
//! holds no block: what a word contains is a formula. The sum over all accesses of what was read or written is
//! computed along the way, and again in another way.
//!
//! DEVIATION: a word holds its own index at first, not zero, and a write stores how many words and events came before,
//! not the thread's number: the sum then tells which words were accessed.
//! DEVIATION: `total` may end inside an event. If it is too small for a pass of each thread, all events are equally
//! short. With `init=off` nothing stores the first contents.

use pagewalk_code::{Class, Register};
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

use crate::code::{Op, Site, r};
use crate::emit::{Emitter, Halt, Stop};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::random::SplitMix64;
use crate::space::AddressSpace;
use crate::values::Values;

pub(crate) const ENTRY: Entry = Entry {
    name: "sysbench",
    summary: "reads or writes of a block, in order or at random (sysbench memory)",
    phases: &["init", "access"],
    parameters: &[
        Parameter {
            name: "block",
            summary: "bytes of the block",
            kind: Kind::Size { min: 4 << 10, max: 1 << 40, power_of_two: true },
            default: "256MiB",
        },
        Parameter {
            name: "total",
            summary: "bytes to access, over all events",
            kind: Kind::Size { min: 8, max: 1 << 50, power_of_two: false },
            default: "512MiB",
        },
        Parameter {
            name: "oper",
            summary: "what an access does",
            kind: Kind::Choice(&["read", "write"]),
            default: "write",
        },
        Parameter {
            name: "access",
            summary: "in order, or at random",
            kind: Kind::Choice(&["seq", "rnd"]),
            default: "seq",
        },
        Parameter {
            name: "init",
            summary: "whether the block is cleared first",
            kind: Kind::Choice(&["off", "on"]),
            default: "on",
        },
        Parameter::THREADS,
    ],
    presets: &[
        Preset {
            name: "sysbench-small",
            summary: "4 MiB, for tests",
            values: &[("block", "4MiB"), ("total", "8MiB")],
        },
        Preset {
            name: "sysbench-paper",
            summary: "the ME-HPT paper's 64 GiB, at random: touches about 1.5 M of 2.1 M groups of 8 pages",
            values: &[("block", "64GiB"), ("total", "20312KiB"), ("access", "rnd"), ("init", "off")],
        },
        Preset {
            name: "sysbench-64g",
            summary: "all words of 64 GiB, in order, once: 8.6 G writes",
            values: &[("block", "64GiB"), ("total", "64GiB"), ("init", "off")],
        },
    ],
    make: |values| Ok(Box::new(Sysbench::new(values))),
};

/// Bytes of a word, and of a store of the loop that clears the block.
const WORD_BYTES: u64 = 8;
const CLEAR_BYTES: u64 = 32;

/// Accesses that a thread makes before the next one has its turn.
const TURN: u64 = 16;

/// Instructions per store that clears, per access in order, and more per random number (estimated by hand from the
/// compiled loops).
const CLEAR_INSTRUCTIONS: u64 = 2;
const ACCESS_INSTRUCTIONS: u64 = 4;
const RANDOM_INSTRUCTIONS: u64 = 14;

/// The place in the block, the number of a word, a sum, and what is loaded.
const AT: Register = r(0);
const WORD: Register = r(1);
const SUM: Register = r(2);
const LOADED: Register = r(3);

/// Clears 32 bytes of the block: as many are compared with its end as the count says.
static CLEAR: Site = Site::new(&[Op::store(32, &[AT], &[])]).repeats().of(CLEAR_INSTRUCTIONS);
/// Reads and writes words in order.
static READ: Site =
    Site::new(&[Op::load(LOADED, 8, &[AT]), Op::integer(SUM, &[SUM, LOADED]), Op::integer(AT, &[AT])])
        .repeats()
        .of(ACCESS_INSTRUCTIONS);
static WRITE: Site =
    Site::new(&[Op::store(8, &[AT], &[SUM]), Op::integer(SUM, &[SUM]), Op::integer(AT, &[AT])])
        .repeats()
        .of(ACCESS_INSTRUCTIONS);
/// Draws the number of a word, and reads or writes it.
static READ_RANDOM: Site = Site::new(&[
    Op::integer(AT, &[AT]),
    Op::new(Class::Multiply, WORD, &[AT]),
    Op::new(Class::Shift, WORD, &[WORD]),
    Op::new(Class::Multiply, WORD, &[WORD]),
    Op::new(Class::Multiply, WORD, &[WORD]),
    Op::load(LOADED, 8, &[WORD]),
    Op::integer(SUM, &[SUM, LOADED]),
])
.repeats()
.of(ACCESS_INSTRUCTIONS + RANDOM_INSTRUCTIONS);
static WRITE_RANDOM: Site = Site::new(&[
    Op::integer(AT, &[AT]),
    Op::new(Class::Multiply, WORD, &[AT]),
    Op::new(Class::Shift, WORD, &[WORD]),
    Op::new(Class::Multiply, WORD, &[WORD]),
    Op::new(Class::Multiply, WORD, &[WORD]),
    Op::store(8, &[WORD], &[SUM]),
    Op::integer(SUM, &[SUM]),
])
.repeats()
.of(ACCESS_INSTRUCTIONS + RANDOM_INSTRUCTIONS);

struct Sysbench {
    words: u64,
    accesses: u64,
    write: bool,
    random: bool,
    init: bool,
    threads: u32,
    seed: u64,
}

impl Sysbench {
    fn new(values: &Values) -> Self {
        Self {
            words: values.get("block") / WORD_BYTES,
            accesses: values.get("total") / WORD_BYTES,
            write: values.get("oper") == 1,
            random: values.get("access") == 1,
            init: values.get("init") == 1,
            threads: values.get("threads") as u32,
            seed: values.seed,
        }
    }

    /// The accesses of an event: a pass, unless there are too few for one of each thread.
    fn event(&self) -> u64 {
        self.words.min(self.accesses.div_ceil(self.threads.into()))
    }

    /// The word of a random access.
    #[inline(always)]
    fn place(&self, number: u64) -> u64 {
        SplitMix64::of_item(self.seed, number).below(self.words)
    }

    /// What an access to a word reads or writes in an event, both counted from 0.
    #[inline(always)]
    fn value(&self, word: u64, event: u64) -> u64 {
        if self.write { (word + 1).wrapping_mul(event + 1) } else { word }
    }

    fn clear(&self, block: VirtAddr, out: &mut Emitter<'_>) -> Result<(), Stop> {
        for at in (0..self.words * WORD_BYTES).step_by(CLEAR_BYTES as usize) {
            out.block(&CLEAR)?;
            out.store(block.add(at), CLEAR_BYTES as u32)?;
        }
        Ok(())
    }

    /// All accesses; answers the sum of what they read or wrote.
    fn access<const WRITE: bool, const RANDOM: bool>(
        &self,
        block: VirtAddr,
        out: &mut Emitter<'_>,
    ) -> Result<u64, Stop> {
        out.divide(self.threads);
        let (mut sum, words) = (0u64, self.event());
        let events = self.accesses.div_ceil(words);
        let mut access = |event: u64, step: u64, out: &mut Emitter<'_>| {
            out.block(match (WRITE, RANDOM) {
                (false, false) => &READ,
                (true, false) => &self::WRITE,
                (false, true) => &READ_RANDOM,
                (true, true) => &WRITE_RANDOM,
            })?;
            let word = if RANDOM { self.place(event * words + step) } else { step };
            let addr = block.add(word * WORD_BYTES);
            sum = sum.wrapping_add(self.value(word, event));
            if WRITE { out.store(addr, WORD_BYTES as u32) } else { out.load(addr, WORD_BYTES as u32) }
        };
        // Each thread has an event, and they take turns; of one thread, a turn is the whole event.
        let turn = if self.threads == 1 { words } else { TURN };
        for first in (0..events).step_by(self.threads as usize) {
            for from in (0..words).step_by(turn as usize) {
                for event in first..events.min(first + u64::from(self.threads)) {
                    let end = words.min(from + turn).min(self.accesses - event * words);
                    (from..end).try_for_each(|step| access(event, step, out))?;
                    out.next_thread();
                }
            }
        }
        out.join();
        Ok(sum)
    }

    /// Compares with the sum in closed form, or for random accesses from the last to the first.
    fn verify(&self, sum: u64) -> Result<(), Halt> {
        let words = self.event();
        let expected = match self.random {
            true => (0..self.accesses)
                .rev()
                .fold(0u64, |sum, i| sum.wrapping_add(self.value(self.place(i), i / words))),
            false => {
                let (events, rest) = (self.accesses / words, self.accesses % words);
                if self.write {
                    // A pass of event e is e + 1 times the sum of 1 to the words.
                    let all = triangle(events).wrapping_mul(triangle(words));
                    all.wrapping_add((events + 1).wrapping_mul(triangle(rest)))
                } else {
                    let below = |words: u64| triangle(words.saturating_sub(1));
                    events.wrapping_mul(below(words)).wrapping_add(below(rest))
                }
            }
        };
        match sum == expected {
            true => Ok(()),
            false => Err(Halt::Wrong(format!("all words accessed sum up to {sum:#x}, not {expected:#x}"))),
        }
    }
}

/// The sum of 1 to `n`, modulo 2^64.
fn triangle(n: u64) -> u64 {
    (u128::from(n) * (u128::from(n) + 1) / 2) as u64
}

impl Program for Sysbench {
    fn footprint_bytes(&self) -> u64 {
        (self.words * WORD_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn host_bytes(&self) -> u64 {
        4 << 20
    }

    fn expected_accesses(&self) -> u64 {
        let init = if self.init { self.words * WORD_BYTES / CLEAR_BYTES } else { 0 };
        init + self.accesses
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("init")?;
        let mut space = AddressSpace::new(out);
        let block = space.map(self.footprint_bytes(), out).start;
        if self.init {
            self.clear(block, out)?;
        }
        out.phase("access")?;
        let sum = match (self.write, self.random) {
            (false, false) => self.access::<false, false>(block, out)?,
            (false, true) => self.access::<false, true>(block, out)?,
            (true, false) => self.access::<true, false>(block, out)?,
            (true, true) => self.access::<true, true>(block, out)?,
        };
        self.verify(sum)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn both_sums_agree_and_a_word_left_out_is_found() {
        for (write, random) in [(false, false), (false, true), (true, false), (true, true)] {
            for accesses in [1, 511, 512, 513, 5000] {
                let bench = Sysbench { words: 512, accesses, write, random, init: true, threads: 1, seed: 3 };
                let mut addresses = Vec::new();
                let mut sink = |batch: &mut Batch| {
                    addresses.extend_from_slice(&batch.accesses);
                    ControlFlow::Continue(())
                };
                let mut out = Emitter::new(&mut sink);
                bench.run(&mut out).unwrap();
                out.finish().unwrap();
                assert_eq!(addresses.len() as u64, bench.expected_accesses());
                // The sum by the addresses that were emitted.
                let first = addresses[0].addr().0;
                let sum = addresses[128..].iter().zip(0..).fold(0u64, |sum, (access, i)| {
                    assert_eq!(access.is_write(), write);
                    sum.wrapping_add(bench.value((access.addr().0 - first) / 8, i / 512))
                });
                assert_eq!(bench.verify(sum), Ok(()));
                let Err(Halt::Wrong(text)) = bench.verify(sum.wrapping_sub(77)) else {
                    panic!("{write} {random} {accesses}");
                };
                assert!(text.contains("sum up to"), "{text}");
            }
        }
    }
}
