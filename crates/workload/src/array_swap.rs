//! Array swap: a job exchanges two elements of an array of 8-byte numbers.
//!
//! Element i holds a number that is its own, a bijection of i, until a job changes it. However elements are exchanged, those
//! that were touched hold together what they held at first; that is checked at the end.

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};
use rustc_hash::FxHashMap;

use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Preset};
use crate::jobs::{self, CHANGED_BYTES, Job, Jobs, Popularity, Server};
use crate::program::Program;
use crate::random::mix;

pub(crate) const ENTRY: Entry = Entry {
    name: "array-swap",
    summary: "a server whose jobs exchange two elements of an array",
    phases: jobs::PHASES,
    parameters: &[
        jobs::dataset("64MiB"),
        jobs::SKEW,
        jobs::JOBS,
        jobs::SETTLE,
        jobs::WARM,
        jobs::INTERVAL,
        jobs::work("2k"),
    ],
    presets: &[Preset {
        name: "array-swap-small",
        summary: "4 MiB, for tests",
        values: &[("dataset", "4MiB"), ("jobs", "3k"), ("settle", "500"), ("warm", "4k")],
    }],
    make: |values| Ok(Box::new(ArraySwap { jobs: Jobs::new(values) })),
};

const ELEMENT_BYTES: u64 = 8;
/// Instructions of an exchange: two addresses, two loads, two stores, and the loop that takes requests (assumed).
const SWAP_INSTRUCTIONS: u64 = 40;
/// Parts into which the work beside is cut: before, between and after the accesses.
const PARTS: u64 = 4;

struct ArraySwap {
    jobs: Jobs,
}

impl ArraySwap {
    fn elements(&self) -> u64 {
        self.jobs.dataset_bytes / ELEMENT_BYTES
    }
}

impl Program for ArraySwap {
    fn footprint_bytes(&self) -> u64 {
        self.jobs.dataset_bytes.next_multiple_of(PAGE_BYTES) + self.jobs.stack_bytes()
    }

    fn host_bytes(&self) -> u64 {
        CHANGED_BYTES * (2 * self.jobs.total()).min(self.elements())
    }

    fn expected_accesses(&self) -> u64 {
        self.jobs.expected_accesses(4.0, SWAP_INSTRUCTIONS, 4.0)
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        self.jobs.run(out, |space, out| {
            Ok(Array {
                base: space.map(self.jobs.dataset_bytes.next_multiple_of(PAGE_BYTES), out).start,
                seed: self.jobs.seed,
                changed: FxHashMap::default(),
                popularity: self.jobs.popularity(self.elements()),
            })
        })
    }
}

struct Array {
    base: VirtAddr,
    seed: u64,
    /// The elements that a job stored to.
    changed: FxHashMap<u64, u64>,
    popularity: Popularity,
}

impl Array {
    /// What an element holds at first; no two hold the same.
    fn at_first(&self, element: u64) -> u64 {
        mix(element ^ self.seed)
    }

    fn addr(&self, element: u64) -> VirtAddr {
        self.base.add(element * ELEMENT_BYTES)
    }
}

impl Server for Array {
    #[inline]
    fn serve(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt> {
        let [a, b] = [(); 2].map(|()| self.popularity.draw(&mut job.random));
        job.compute(SWAP_INSTRUCTIONS / 2)?;
        job.compute_part(PARTS)?;
        job.seek()?;
        job.load(self.addr(a), 8)?;
        let first = self.at_first(a);
        let in_a = *self.changed.entry(a).or_insert(first);
        job.compute_part(PARTS)?;
        job.seek()?;
        job.load(self.addr(b), 8)?;
        let first = self.at_first(b);
        let in_b = self.changed.insert(b, in_a).unwrap_or(first);
        job.compute_part(PARTS)?;
        job.compute(SWAP_INSTRUCTIONS / 2)?;
        job.store(self.addr(a), 8)?;
        self.changed.insert(a, in_b);
        Ok(job.store(self.addr(b), 8)?)
    }

    fn verify(&self, _: u64) -> Result<(), Halt> {
        // A sum of mixed numbers says whether two collections hold the same, in whatever order they are looked through.
        let sum = |numbers: &mut dyn Iterator<Item = u64>| {
            numbers
                .fold((0u64, 0u64), |(plain, mixed), x| (plain.wrapping_add(x), mixed.wrapping_add(mix(!x))))
        };
        let now = sum(&mut self.changed.values().copied());
        let at_first = sum(&mut self.changed.keys().map(|&element| self.at_first(element)));
        match now == at_first {
            true => Ok(()),
            false => Err(Halt::Wrong(format!(
                "the {} elements that were exchanged do not hold what they held at first",
                self.changed.len()
            ))),
        }
    }
}
