//! TATP: the transactions of the home location register of a mobile network.
//!
//! After "TATP Benchmark Description" (S. Neuvonen, A. Wolski, M. Manner, V. Raatikka; IBM, version 1.0, 2009): four
//! tables, seven transactions, and their shares. Rows lie in arrays, subscriber after subscriber: `s_id` counts
//! them, so that it is a place, and a subscriber's row says where its others begin. Only `sub_nbr` needs a hash index. A transaction that finds no row to change or to return fails, and
//! leaves everything as it was.
//!
//! DEVIATION: subscribers are chosen by Zipf's law, not by the description's own uneven law.
//! DEVIATION: a special facility has places for its three call forwarding rows beside each other, so that these need no index.
//! DEVIATION: there is neither a log nor are there locks: jobs do not overlap.

mod database;
mod population;
mod request;
mod verify;

use self::database::{Database, database_bytes, subscribers};
use self::population::{BLOCK, Population};
use self::request::{Mix, Request};
use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::jobs::{self, CHANGED_BYTES, Job, Jobs, Popularity, Server};
use crate::program::Program;

pub(crate) const ENTRY: Entry = Entry {
    name: "tatp",
    summary: "a server whose jobs are transactions of a mobile network's subscriber database",
    phases: jobs::PHASES,
    parameters: &[
        jobs::dataset("64MiB"),
        jobs::SKEW,
        jobs::JOBS,
        jobs::SETTLE,
        jobs::WARM,
        jobs::INTERVAL,
        jobs::work("5k"),
        Parameter {
            name: "mix",
            summary: "one transaction only, or all seven in the standard's shares",
            kind: Kind::Choice(&["update-subscriber", "standard"]),
            default: "update-subscriber",
        },
    ],
    presets: &[Preset {
        name: "tatp-small",
        summary: "4 MiB, for tests",
        values: &[("dataset", "4MiB"), ("jobs", "3k"), ("settle", "500"), ("warm", "4k")],
    }],
    make: |values| {
        let mix = if values.get("mix") == 0 { Mix::UpdateSubscriber } else { Mix::Standard };
        Ok(Box::new(Tatp { jobs: Jobs::new(values), mix }))
    },
};

struct Tatp {
    jobs: Jobs,
    mix: Mix,
}

impl Tatp {
    fn subscribers(&self) -> u64 {
        subscribers(self.jobs.dataset_bytes)
    }
}

impl Program for Tatp {
    fn footprint_bytes(&self) -> u64 {
        database_bytes(self.subscribers()) + self.jobs.stack_bytes()
    }

    fn host_bytes(&self) -> u64 {
        // A subscriber and a facility of each job, or of all subscribers; and what is looked at to verify it.
        let changed = self.jobs.total().min(self.subscribers() * 10 / BLOCK);
        2 * CHANGED_BYTES * changed + verify::host_bytes(changed)
    }

    fn expected_accesses(&self) -> u64 {
        // Counted on runs.
        match self.mix {
            Mix::UpdateSubscriber => self.jobs.expected_accesses(12.0, 180, 4.0),
            Mix::Standard => self.jobs.expected_accesses(9.0, 140, 3.0),
        }
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        self.jobs.run(out, |space, out| {
            let population = Population::new(self.subscribers(), self.jobs.seed);
            Ok(Transactions {
                database: Database::new(population, self.jobs.seed, space, out),
                popularity: self.jobs.popularity(self.subscribers()),
                mix: self.mix,
                jobs: self.jobs,
            })
        })
    }
}

struct Transactions {
    database: Database,
    popularity: Popularity,
    mix: Mix,
    jobs: Jobs,
}

impl Server for Transactions {
    fn serve(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt> {
        let subscriber = self.popularity.draw(&mut job.random);
        let request = Request::draw(self.mix, &mut job.random);
        self.database.execute(subscriber, request, job)?;
        Ok(())
    }

    fn verify(&self, jobs: u64) -> Result<(), Halt> {
        let again = (0..jobs).map(|number| {
            let mut random = self.jobs.random_of(number);
            (self.popularity.draw(&mut random), Request::draw(self.mix, &mut random))
        });
        verify::verify(&self.database, jobs, again)
    }
}
