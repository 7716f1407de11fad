//! Hash table: a job looks up a record by its key, or gives it a new value.
//!
//! Records are nodes of 64 bytes in chains, one bucket a record ([`index`]). The value of a record is a function of its key
//! and of how it was last written, so that each answer can be checked.

mod index;

use self::index::BEHIND_KEY;
pub(crate) use self::index::{BUCKET_BYTES, Index, index_bytes};
use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::jobs::{self, Contents, Job, Jobs, Popularity, Server};
use crate::program::Program;

pub(crate) const ENTRY: Entry = Entry {
    name: "hash-table",
    summary: "a server whose jobs look up records in a hash table of chains",
    phases: jobs::PHASES,
    parameters: &[
        jobs::dataset("64MiB"),
        jobs::SKEW,
        jobs::JOBS,
        jobs::SETTLE,
        jobs::WARM,
        jobs::INTERVAL,
        jobs::work("2k"),
        Parameter {
            name: "updates",
            summary: "share of jobs that give a record a new value",
            kind: Kind::Decimal { min: 0, max: 1000 },
            default: "0.05",
        },
    ],
    presets: &[Preset {
        name: "hash-table-small",
        summary: "4 MiB, for tests",
        values: &[("dataset", "4MiB"), ("jobs", "3k"), ("settle", "500"), ("warm", "4k")],
    }],
    make: |values| Ok(Box::new(HashTable { jobs: Jobs::new(values), updates: values.get("updates") })),
};

const NODE_BYTES: u64 = 64;
/// What a node has behind its key.
const VALUE_BYTES: u64 = NODE_BYTES - BEHIND_KEY;
/// Instructions of a job beside the look-up and the copy of a value: the loop that takes requests (assumed).
const REQUEST_INSTRUCTIONS: u64 = 40;
/// Parts into which the work beside is cut: before, between and after the look-up and the copy.
const PARTS: u64 = 3;

struct HashTable {
    jobs: Jobs,
    /// In thousandths of all jobs.
    updates: u64,
}

impl HashTable {
    fn records(&self) -> u64 {
        self.jobs.dataset_bytes / (NODE_BYTES + BUCKET_BYTES)
    }
}

impl Program for HashTable {
    fn footprint_bytes(&self) -> u64 {
        index_bytes(self.records(), NODE_BYTES) + self.jobs.stack_bytes()
    }

    fn host_bytes(&self) -> u64 {
        Contents::host_bytes(self.jobs.share(self.updates).min(self.records()))
    }

    fn expected_accesses(&self) -> u64 {
        // A bucket; key and link of half a node of others' on average; key and value.
        let own = 1.0 + 0.5 * 2.0 + 1.0 + 3.0;
        // The page of the bucket, and of each node; that of the record once more if it is stored to.
        let thin = 2.5 + self.updates as f64 / 1000.0;
        self.jobs.expected_accesses(own, 80, thin)
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        let (records, seed) = (self.records(), self.jobs.seed);
        self.jobs.run(out, |space, out| {
            Ok(Table {
                index: Index::new((records, seed), (NODE_BYTES, 8), space, out),
                contents: Contents::new(seed),
                popularity: self.jobs.popularity(records),
                updates: self.updates,
            })
        })
    }
}

struct Table {
    index: Index,
    contents: Contents,
    popularity: Popularity,
    updates: u64,
}

impl Server for Table {
    #[inline]
    fn serve(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt> {
        let key = self.popularity.draw(&mut job.random);
        let is_update = job.random.below(1000) < self.updates;
        job.compute(REQUEST_INSTRUCTIONS)?;
        job.compute_part(PARTS)?;
        let value = self.index.find(key, job)?.add(BEHIND_KEY);
        job.compute_part(PARTS)?;
        job.copy(value, VALUE_BYTES, is_update)?;
        self.contents.write_or_check(key, is_update, job.number)
    }

    fn verify(&self, jobs: u64) -> Result<(), Halt> {
        self.contents.verify(jobs)
    }
}
