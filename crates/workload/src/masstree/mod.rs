//! The accesses of Masstree: Mao, Kohler, Morris, "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012.
//!
//! A trie whose nodes are B+-trees: each of these, a layer, decides by eight bytes of the key ([`layers`]). A job gets the
//! row of a key, or puts a new one ([`rows`]). A put locks the border node, writes the new row beside the old one, sets the
//! link to it, and unlocks.

mod layers;
mod rows;

use self::layers::{GROUP_KEYS, Layers, ROW_BYTES, groups_in, mapped_bytes, pages_of_way, way_cost};
use self::rows::Rows;
use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::jobs::{self, Job, Jobs, Popularity, Server};
use crate::program::Program;

pub(crate) const ENTRY: Entry = Entry {
    name: "masstree",
    summary: "a server whose jobs get and put rows in a trie of B+-trees",
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
            name: "puts",
            summary: "share of jobs that put a new row",
            kind: Kind::Decimal { min: 0, max: 1000 },
            default: "0.1",
        },
    ],
    presets: &[Preset {
        name: "masstree-small",
        summary: "4 MiB, for tests",
        values: &[("dataset", "4MiB"), ("jobs", "3k"), ("settle", "500"), ("warm", "4k")],
    }],
    make: |values| {
        let jobs = Jobs::new(values);
        Ok(Box::new(Masstree { groups: groups_in(jobs.dataset_bytes), jobs, puts: values.get("puts") }))
    },
};

/// Instructions of a job beside its way: the request, its key, and the copy of a row (assumed); and of a put beside that.
const REQUEST_INSTRUCTIONS: u64 = 100;
const PUT_INSTRUCTIONS: u64 = 60;
/// Accesses of a put beside the load of the old row: lock, new row, link, unlock.
const PUT_ACCESSES: f64 = 5.0;
/// Parts into which the work beside is cut: before, between and after the way and the row.
const PARTS: u64 = 3;

struct Masstree {
    groups: u64,
    jobs: Jobs,
    /// In thousandths of all jobs.
    puts: u64,
}

impl Masstree {
    fn keys(&self) -> u64 {
        self.groups * GROUP_KEYS
    }
}

impl Program for Masstree {
    fn footprint_bytes(&self) -> u64 {
        mapped_bytes(self.groups) + self.jobs.stack_bytes()
    }

    fn host_bytes(&self) -> u64 {
        Rows::host_bytes(self.jobs.share(self.puts).min(self.keys()))
    }

    fn expected_accesses(&self) -> u64 {
        let puts = self.puts as f64 / 1000.0;
        let (accesses, instructions) = way_cost(self.groups);
        let own = accesses + 1.0 + puts * PUT_ACCESSES;
        // The row's page is touched, too, and by puts the border node's and the row's are stored to.
        let pages = pages_of_way(self.groups) + 1.0 + 2.0 * puts;
        self.jobs.expected_accesses(own, instructions + REQUEST_INSTRUCTIONS, pages)
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        self.jobs.run(out, |space, out| {
            Ok(MasstreeServer {
                layers: Layers::new(self.groups, space, out),
                rows: Rows::new(self.jobs.seed),
                popularity: self.jobs.popularity(self.keys()),
                puts: self.puts,
            })
        })
    }
}

struct MasstreeServer {
    layers: Layers,
    rows: Rows,
    popularity: Popularity,
    puts: u64,
}

impl Server for MasstreeServer {
    #[inline]
    fn serve(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt> {
        let key = self.popularity.draw(&mut job.random);
        let is_put = job.random.below(1000) < self.puts;
        job.compute(REQUEST_INSTRUCTIONS)?;
        job.compute_part(PARTS)?;
        let found = self.layers.find(key, job)?;
        job.compute_part(PARTS)?;
        let puts = self.rows.get(key)?;
        // A put takes over those columns that it does not change.
        job.load(found.row(puts), ROW_BYTES as u32)?;
        if is_put {
            job.compute(PUT_INSTRUCTIONS)?;
            job.load(found.border, 8)?;
            job.store(found.border, 8)?;
            job.store(found.row(puts + 1), ROW_BYTES as u32)?;
            job.store(found.link, 8)?;
            job.store(found.border, 8)?;
            self.rows.put(key, puts);
        }
        Ok(())
    }

    fn verify(&self, _: u64) -> Result<(), Halt> {
        self.rows.verify()
    }
}
