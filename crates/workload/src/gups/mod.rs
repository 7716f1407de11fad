//! GUPS: the RandomAccess benchmark of HPC Challenge (Luszczek et al., SC 2006).
//!
//! A table of 8-byte words, `table[i] = i`, then updates `table[a mod words] ^= a` with `a` from the generator
//! x^n mod (x^64 + x^2 + x + 1) over GF(2), run as 128 streams that start equally far apart. With `pair=on`
//! every update touches a second word, `words - e` beside `e`, as in the Mosaic artifact.
//!
//! DEVIATION: the artifact's second word of `e = 0` lies one beyond the table; here it is word 0 itself.
//! DEVIATION: the original generator has no seed. Seed 0 is the original; another seed starts the streams
//! elsewhere in the same sequence.
//! DEVIATION: threads divide the streams of each round, so more than 128 have nothing to do.
//! DEVIATION: with `init=off` nothing stores the first values: a word that was never updated is taken to be its
//! index, as if the kernel filled fresh pages so. Only the pages that updates reach are then touched, and the host
//! keeps only the words that have changed. With `init=pages` a loop stores one first value a page.

mod table;

use pagewalk_code::{Class, Register};

use crate::code::{Op, Site, r};
use crate::emit::{Emitter, Halt, Stop};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::random::mix;
use crate::space::{AddressSpace, mapping_bytes};
use crate::traced::Traced;
use crate::values::Values;

use table::{Changes, Table, Whole};

pub(crate) const ENTRY: Entry = Entry {
    name: "gups",
    summary: "random updates of a table (HPC Challenge RandomAccess, 128 streams)",
    phases: &["init", "updates"],
    parameters: &[
        Parameter {
            name: "table",
            summary: "bytes of the table",
            kind: Kind::Size { min: 4 << 10, max: 1 << 40, power_of_two: true },
            default: "256MiB",
        },
        Parameter {
            name: "updates",
            summary: "updates, over all streams",
            kind: Kind::Count { min: 1, max: 1_000_000_000_000 },
            default: "4M",
        },
        Parameter {
            name: "pair",
            summary: "whether an update touches a second word, as in the Mosaic artifact",
            kind: Kind::Choice(&["off", "on"]),
            default: "off",
        },
        Parameter {
            name: "init",
            summary: "whether a loop stores the first values, of all words or of one a page; off, words are born with them",
            kind: Kind::Choice(&["off", "on", "pages"]),
            default: "on",
        },
        Parameter::THREADS,
    ],
    presets: &[
        Preset {
            name: "gups-small",
            summary: "16 MiB, for tests",
            values: &[("table", "16MiB"), ("updates", "256k")],
        },
        Preset {
            name: "gups-paper",
            summary: "the Mosaic paper's footprint, 8 GiB; 2^25 updates of two words (2^29 / 16)",
            values: &[("table", "8GiB"), ("updates", "33554432"), ("pair", "on")],
        },
        Preset {
            name: "gups-64g",
            summary: "the ME-HPT paper's footprint, 64 GiB; its updates touch about 1.5 M of 2.1 M groups of 8 pages",
            // 2.6 M random ones would do; the original sequence, of seed 0, begins with words that are alike.
            values: &[("table", "64GiB"), ("updates", "3M"), ("init", "off")],
        },
    ],
    make: |values| Ok(Box::new(Gups::new(values))),
};

/// Streams of the generator.
const STREAMS: usize = 128;
/// The feedback of the generator: x^64 = x^2 + x + 1.
const POLYNOMIAL: u64 = 7;
/// The generator's period, as published with HPC Challenge.
const PERIOD: u64 = 1_317_624_576_693_539_401;

/// The place in the table or in the list of states, the end of it, a state, its feedback, the number of a word.
const AT: Register = r(0);
const END: Register = r(1);
const STATE: Register = r(2);
const FEEDBACK: Register = r(3);
const WORD: Register = r(4);
/// The table and the number of its words, which stay.
const TABLE: Register = r(5);
const WORDS: Register = r(6);

/// Stores the first value of a word: `table[i] = i`.
static INIT: Site =
    Site::new(&[Op::store(8, &[AT], &[WORD]), Op::integer(AT, &[AT]), Op::compare(&[AT, END])]).repeats();
/// Steps a state, and toggles the word that it names.
static UPDATE: Site = Site::new(&UPDATE_OPS).repeats();
/// The same without the end of the loop, which is that of the other word.
static STEP: Site = Site::new(UPDATE_OPS.split_at(10).0);
/// Toggles the other word.
static PARTNER: Site = Site::new(&[
    Op::new(Class::Move, FEEDBACK, &[WORDS]),
    Op::integer(FEEDBACK, &[FEEDBACK, WORD]),
    Op::new(Class::Move, WORD, &[WORDS]),
    Op::integer(WORD, &[WORD, FEEDBACK]),
    Op::modify(8, &[TABLE, WORD], &[STATE]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT, END]),
])
.branches(&STEP);

const UPDATE_OPS: [Op; 12] = [
    Op::load(STATE, 8, &[AT]),
    Op::new(Class::Move, FEEDBACK, &[STATE]),
    Op::new(Class::Lea, STATE, &[STATE]),
    Op::new(Class::Shift, FEEDBACK, &[FEEDBACK]),
    Op::integer(FEEDBACK, &[FEEDBACK]),
    Op::integer(STATE, &[STATE, FEEDBACK]),
    Op::store(8, &[AT], &[STATE]),
    Op::new(Class::Move, WORD, &[WORDS]),
    Op::integer(WORD, &[WORD, STATE]),
    Op::modify(8, &[TABLE, WORD], &[STATE]),
    Op::integer(AT, &[AT]),
    Op::compare(&[AT, END]),
];

/// Which first values are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Init {
    Off,
    On,
    Pages,
}

/// Words of a page.
const PAGE_WORDS: usize = 512;

struct Gups {
    words: usize,
    updates: u64,
    pair: bool,
    init: Init,
    threads: u32,
    /// Where in the generator's sequence the first stream starts.
    origin: u64,
}

impl Gups {
    fn new(values: &Values) -> Self {
        Self {
            words: (values.get("table") / 8) as usize,
            updates: values.get("updates"),
            pair: values.get("pair") == 1,
            init: [Init::Off, Init::On, Init::Pages][values.get("init") as usize],
            threads: values.get("threads") as u32,
            origin: mix(values.seed) % PERIOD,
        }
    }

    /// The first state of every stream.
    fn streams(&self) -> Vec<u64> {
        let apart = self.updates.div_ceil(STREAMS as u64) % PERIOD;
        (0..STREAMS as u64).map(|j| start_of((self.origin + j * apart) % PERIOD)).collect()
    }

    /// The two words of an update; the same one twice unless pairs are on.
    #[inline(always)]
    fn partner(&self, e: usize) -> usize {
        (self.words - e) & (self.words - 1)
    }

    /// How many words change at most.
    fn most_changes(&self) -> u64 {
        self.updates.saturating_mul(if self.pair { 2 } else { 1 }).min(self.words as u64)
    }

    /// Whether the host is better off with the changed words alone.
    fn holds_changes(&self) -> bool {
        self.init != Init::On && Changes::host_bytes(self.most_changes()) < self.words as u64 * 8
    }

    fn initialise(&self, table: &mut impl Table, out: &mut Emitter<'_>) -> Result<(), Stop> {
        let step = match self.init {
            Init::Off => return Ok(()),
            Init::On => 1,
            Init::Pages => PAGE_WORDS,
        };
        for index in (0..self.words).step_by(step) {
            out.block(&INIT)?;
            table.store_first(index, out)?;
        }
        Ok(())
    }

    fn update<const PAIR: bool>(
        &self,
        table: &mut impl Table,
        streams: &mut Traced<u64, 8>,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let mut left = self.updates;
        let streams_of_thread = STREAMS.div_ceil(self.threads as usize);
        out.divide(self.threads);
        while left > 0 {
            let round = left.min(STREAMS as u64);
            // The host waits for all words of a round together instead of one after the other.
            for &state in &streams.untraced()[..round as usize] {
                let e = step(state) as usize & (self.words - 1);
                table.bring_in(e);
                if PAIR {
                    table.bring_in(self.partner(e));
                }
            }
            for j in 0..round as usize {
                if j.is_multiple_of(streams_of_thread) {
                    out.next_thread();
                }
                out.block(if PAIR { &STEP } else { &UPDATE })?;
                out.work(if PAIR { PARTNER.instructions() } else { 0 });
                let a = step(streams.load(j, out)?);
                streams.store(j, a, out)?;
                let e = a as usize & (self.words - 1);
                let word = table.load(e, out)?;
                table.store(e, word ^ a, out)?;
                if PAIR {
                    out.enter(&PARTNER)?;
                    let e = self.partner(e);
                    let word = table.load(e, out)?;
                    table.store(e, word ^ a, out)?;
                }
            }
            left -= round;
        }
        out.join();
        Ok(())
    }

    fn update_and_verify(
        &self,
        mut table: impl Table,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<(), Halt> {
        out.phase("updates")?;
        let mut streams = Traced::local(self.streams(), space);
        match self.pair {
            false => self.update::<false>(&mut table, &mut streams, out)?,
            true => self.update::<true>(&mut table, &mut streams, out)?,
        }
        self.verify(&mut table)
    }

    /// Applies all updates again, which undoes them, and compares with the initial table.
    fn verify(&self, table: &mut impl Table) -> Result<(), Halt> {
        let mut streams = self.streams();
        let mut left = self.updates;
        while left > 0 {
            let round = left.min(STREAMS as u64);
            for state in &mut streams[..round as usize] {
                *state = step(*state);
                let e = *state as usize & (self.words - 1);
                table.apply(e, *state);
                if self.pair {
                    table.apply(self.partner(e), *state);
                }
            }
            left -= round;
        }
        match table.first_changed() {
            None => Ok(()),
            Some((i, word)) => Err(Halt::Wrong(format!(
                "word {i} of the table is {word:#x} after applying the updates twice, not {i:#x}"
            ))),
        }
    }
}

impl Program for Gups {
    fn footprint_bytes(&self) -> u64 {
        mapping_bytes(self.words as u64 * 8)
    }

    fn host_bytes(&self) -> u64 {
        let table = match self.holds_changes() {
            true => Changes::host_bytes(self.most_changes()),
            false => self.words as u64 * 8,
        };
        table + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        let init = match self.init {
            Init::Off => 0,
            Init::On => self.words as u64,
            Init::Pages => self.words.div_ceil(PAGE_WORDS) as u64,
        };
        init + self.updates * if self.pair { 6 } else { 4 }
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("init")?;
        let mut space = AddressSpace::new(out);
        if self.holds_changes() {
            let mut table = Changes::new(self.words, self.most_changes(), &mut space, out)?;
            self.initialise(&mut table, out)?;
            return self.update_and_verify(table, &mut space, out);
        }
        let mut table = Whole::new(self.words, 0, &mut space, out)?;
        if self.init != Init::On {
            table.untraced_mut().iter_mut().zip(0..).for_each(|(word, index)| *word = index);
        }
        self.initialise(&mut table, out)?;
        self.update_and_verify(table, &mut space, out)
    }
}

/// The generator's next state: multiplies by x.
#[inline(always)]
const fn step(a: u64) -> u64 {
    (a << 1) ^ if (a as i64) < 0 { POLYNOMIAL } else { 0 }
}

/// State `n` of the generator, x^n, by squaring.
fn start_of(n: u64) -> u64 {
    let mut power = 1;
    for bit in (0..u64::BITS).rev() {
        power = product(power, power);
        if n >> bit & 1 == 1 {
            power = step(power);
        }
    }
    power
}

/// The product of two polynomials modulo the generator's.
fn product(a: u64, b: u64) -> u64 {
    (0..u64::BITS).rev().fold(0, |sum, bit| step(sum) ^ if b >> bit & 1 == 1 { a } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn streams_start_where_stepping_would_lead() {
        let mut state = 1;
        for n in 0..1000 {
            assert_eq!(start_of(n), state, "{n}");
            state = step(state);
        }
        assert_eq!(start_of(PERIOD), 1);
        assert_ne!(start_of(PERIOD / 2), 1);
    }

    fn gups(updates: u64, pair: bool) -> Gups {
        Gups { words: 1 << 15, updates, pair, init: Init::On, threads: 1, origin: 0 }
    }

    fn accesses(gups: &Gups) -> u64 {
        let mut count = 0;
        let mut sink = |batch: &mut Batch| {
            count += batch.accesses.len() as u64;
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        gups.run(&mut out).unwrap();
        out.finish().unwrap();
        count
    }

    #[test]
    fn counts_are_exact() {
        for (updates, pair) in [(1, false), (127, false), (10_000, false), (10_000, true)] {
            let gups = gups(updates, pair);
            // One more for the header of the table's block.
            assert_eq!(accesses(&gups), gups.expected_accesses() + 1);
        }
    }

    #[test]
    fn without_initialisation_only_updates_touch_memory_however_the_table_is_held() {
        for (updates, changes) in [(1_000, true), (100_000, false)] {
            for init in [Init::Off, Init::Pages] {
                let gups = Gups { init, ..gups(updates, true) };
                assert_eq!(gups.holds_changes(), changes);
                assert_eq!(accesses(&gups), gups.expected_accesses() + 1);
            }
        }
    }

    /// Runs the updates on a table and gives it back.
    fn updated<T: Table>(gups: &Gups, make: impl FnOnce(&mut AddressSpace, &mut Emitter<'_>) -> T) -> T {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let mut table = make(&mut space, &mut out);
        let mut streams = Traced::local(gups.streams(), &mut space);
        gups.update::<true>(&mut table, &mut streams, &mut out).unwrap();
        table
    }

    #[test]
    fn one_corrupt_word_is_found() {
        let gups = gups(5_000, true);
        let whole = || {
            updated(&gups, |space, out| {
                let mut table = Whole::new(gups.words, 0, space, out).unwrap();
                gups.initialise(&mut table, out).unwrap();
                table
            })
        };
        let changes = || updated(&gups, |space, out| Changes::new(gups.words, 10_000, space, out).unwrap());
        assert_eq!(gups.verify(&mut whole()), Ok(()));
        assert_eq!(gups.verify(&mut changes()), Ok(()));
        fn corrupt(gups: &Gups, mut table: impl Table) {
            table.apply(1234, 1 << 40);
            let answer = gups.verify(&mut table);
            assert!(matches!(&answer, Err(Halt::Wrong(text)) if text.contains("word 1234")), "{answer:?}");
        }
        corrupt(&gups, whole());
        corrupt(&gups, changes());
    }
}
