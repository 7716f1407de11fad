//! The accesses of Silo: Tu, Zheng, Kohler, Liskov, Madden, "Speedy Transactions in Multicore In-Memory Databases", SOSP 2013.
//!
//! A job is a transaction like those of the paper's YCSB: it reads some records of 100 bytes and updates the first of them.
//! Records are found by a B+-tree over 8-byte keys ([`store`], [`crate::packed_tree`]); each has a version ([`records`]).
//! The commit has the paper's three phases (section 4.4):
//!
//! 1. lock the records to be written, in the order of their addresses, then read the epoch;
//! 2. read the versions of all records that were read: none may have changed, none be locked by others;
//! 3. choose an identifier above all that were seen; write the values and, with it as version, unlock.
//!
//! Jobs run one after the other here, so validation must always succeed; that is checked. DEVIATION: logging, garbage
//! collection and snapshots are left out; an epoch is a number of transactions.

mod records;
mod store;

use pagewalk_vm::addr::VirtAddr;

use self::records::{LOADED, Record, Records, is_locked, tid_after, unlocked};
use self::store::{
    NODE_ACCESSES, NODE_INSTRUCTIONS, READ_ACCESSES, READ_INSTRUCTIONS, RecordTree, mapped_bytes,
    pages_of_ways, records_in,
};
use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::jobs::{self, Job, Jobs, Popularity, Server};
use crate::packed_tree::Shape;
use crate::program::Program;

pub(crate) const ENTRY: Entry = Entry {
    name: "silo",
    summary: "a server whose jobs are optimistic transactions over a B+-tree",
    phases: jobs::PHASES,
    parameters: &[
        jobs::dataset("64MiB"),
        jobs::SKEW,
        jobs::JOBS,
        jobs::SETTLE,
        jobs::WARM,
        jobs::INTERVAL,
        jobs::work("2800"),
        Parameter {
            name: "reads",
            summary: "records that a transaction reads",
            kind: Kind::Count { min: 1, max: 100 },
            default: "3",
        },
        Parameter {
            name: "writes",
            summary: "how many of these it updates",
            kind: Kind::Count { min: 0, max: 100 },
            default: "1",
        },
    ],
    presets: &[Preset {
        name: "silo-small",
        summary: "4 MiB, for tests",
        values: &[("dataset", "4MiB"), ("jobs", "3k"), ("settle", "500"), ("warm", "4k")],
    }],
    make: |values| {
        let [reads, writes] = ["reads", "writes"].map(|name| values.get(name));
        if writes > reads {
            return Err(format!("writes={writes} is more than reads={reads}; what is written is read first"));
        }
        Ok(Box::new(Silo { jobs: Jobs::new(values), reads, writes }))
    },
};

/// Transactions of an epoch, which has 40 ms (section 4.1), if one takes two microseconds.
const EPOCH_TRANSACTIONS: u64 = 20_000;
/// Instructions of a transaction beside its reads and writes, and of one record in each phase of the commit (assumed).
const TRANSACTION_INSTRUCTIONS: u64 = 120;
const PHASE_INSTRUCTIONS: u64 = 12;

struct Silo {
    jobs: Jobs,
    reads: u64,
    writes: u64,
}

impl Silo {
    fn records(&self) -> u64 {
        records_in(self.jobs.dataset_bytes)
    }
}

impl Program for Silo {
    fn footprint_bytes(&self) -> u64 {
        mapped_bytes(self.records()) + self.jobs.stack_bytes()
    }

    fn host_bytes(&self) -> u64 {
        Records::host_bytes((self.jobs.total() * self.writes).min(self.records()))
    }

    fn expected_accesses(&self) -> u64 {
        let levels = u64::from(Shape::new(self.records()).levels());
        // Way, content, validation; lock, value and version.
        let own = self.reads * (levels * NODE_ACCESSES + READ_ACCESSES + 1) + 1 + self.writes * 5;
        let read = levels * NODE_INSTRUCTIONS + READ_INSTRUCTIONS + PHASE_INSTRUCTIONS;
        let write = READ_INSTRUCTIONS + PHASE_INSTRUCTIONS;
        let instructions = TRANSACTION_INSTRUCTIONS + self.reads * read + self.writes * write;
        let pages = pages_of_ways(self.records(), self.reads) + (self.reads + self.writes + 1) as f64;
        self.jobs.expected_accesses(own as f64, instructions, pages)
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        let records = self.records();
        self.jobs.run(out, |space, out| {
            Ok(Database {
                store: RecordTree::new(records, self.jobs.seed, space, out),
                popularity: self.jobs.popularity(records),
                reads: self.reads,
                writes: self.writes as usize,
                records: Records::default(),
                last: LOADED,
                transactions: 0,
                read_set: Vec::new(),
                write_set: Vec::new(),
            })
        })
    }
}

/// A record that a transaction read.
#[derive(Clone, Copy)]
struct Seen {
    addr: VirtAddr,
    key: u64,
    record: Record,
}

struct Database {
    store: RecordTree,
    popularity: Popularity,
    reads: u64,
    writes: usize,
    records: Records,
    /// The identifier of the last transaction.
    last: u64,
    transactions: u64,
    /// What the transaction at hand read, and what it is going to update.
    read_set: Vec<Seen>,
    write_set: Vec<Seen>,
}

impl Server for Database {
    #[inline]
    fn serve(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt> {
        job.compute(TRANSACTION_INSTRUCTIONS)?;
        self.read_set.clear();
        self.write_set.clear();
        for _ in 0..self.reads {
            job.compute_part(self.reads + 1)?;
            let key = self.popularity.draw(&mut job.random);
            let addr = self.store.find(key, job)?;
            self.store.read(addr, job)?;
            let seen = Seen { addr, key, record: self.records.read(key)? };
            self.read_set.push(seen);
            // A record that is read twice is updated once.
            if self.write_set.len() < self.writes && self.write_set.iter().all(|other| other.key != key) {
                self.write_set.push(seen);
            }
        }
        self.commit(job)
    }

    fn verify(&self, _: u64) -> Result<(), Halt> {
        self.records.verify(self.last)
    }
}

impl Database {
    #[inline]
    fn commit(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt> {
        self.write_set.sort_unstable_by_key(|seen| seen.addr);
        for seen in &self.write_set {
            job.compute(PHASE_INSTRUCTIONS)?;
            job.load(seen.addr, 8)?;
            job.store(seen.addr, 8)?;
            self.records.lock(seen.key)?;
        }
        job.load(self.store.epoch, 8)?;
        let epoch = 1 + self.transactions / EPOCH_TRANSACTIONS;
        let mut newest = self.last;
        for seen in &self.read_set {
            job.compute(PHASE_INSTRUCTIONS)?;
            job.load(seen.addr, 8)?;
            let now = self.records.get(seen.key).tid;
            let is_own = self.write_set.iter().any(|own| own.key == seen.key);
            if unlocked(now) != seen.record.tid || is_locked(now) != is_own {
                return Err(Halt::Wrong(format!(
                    "validation of transaction {}: record {} had version {:#x} and has {now:#x}",
                    self.transactions, seen.key, seen.record.tid
                )));
            }
            newest = newest.max(seen.record.tid);
        }
        self.last = tid_after(newest, epoch);
        self.transactions += 1;
        for seen in &self.write_set {
            self.store.write(seen.addr, job)?;
            self.records.install(seen.key, seen.record, self.last)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;
    use crate::jobs::with_job;
    use crate::space::AddressSpace;

    fn database() -> Database {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        Database {
            store: RecordTree::new(1000, 3, &mut space, &mut out),
            popularity: Popularity::new(1000, 0, 3),
            reads: 3,
            writes: 1,
            records: Records::default(),
            last: LOADED,
            transactions: 0,
            read_set: Vec::new(),
            write_set: Vec::new(),
        }
    }

    /// A transaction that reads two records and updates the first.
    fn read(database: &mut Database, keys: [u64; 2], job: &mut Job<'_, '_>) {
        database.read_set = keys
            .map(|key| Seen {
                addr: database.store.find(key, job).unwrap(),
                key,
                record: database.records.read(key).unwrap(),
            })
            .to_vec();
        database.write_set = vec![database.read_set[0]];
    }

    #[test]
    fn a_transaction_whose_reads_were_overtaken_is_not_valid() {
        with_job(|job| {
            let mut database = database();
            read(&mut database, [5, 7], job);
            assert_eq!(database.commit(job), Ok(()));
            let first = database.last;
            read(&mut database, [5, 7], job);
            assert_eq!(database.commit(job), Ok(()));
            assert!(database.last > first && database.verify(2).is_ok());
            // Another transaction updates record 5 between the reads and the commit of one that updates record 7.
            read(&mut database, [7, 5], job);
            let sets = (database.read_set.clone(), database.write_set.clone());
            read(&mut database, [5, 8], job);
            assert_eq!(database.commit(job), Ok(()));
            (database.read_set, database.write_set) = sets;
            let answer = database.commit(job);
            assert!(matches!(&answer, Err(Halt::Wrong(text)) if text.contains("record 5 had")), "{answer:?}");
        });
    }
}
