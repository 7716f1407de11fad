//! Red-black tree: a job looks up a key, gives it a new value, or inserts one.
//!
//! Loaded nodes lie in the order of their keys, perfectly balanced ([`shape`]); inserted ones lie behind them, in the order
//! of insertion, and the tree is balanced again as ever ([`tree`]). New keys come between loaded ones, and most of them near
//! popular keys.

mod shape;
mod tree;
mod verify;

use pagewalk_vm::addr::PAGE_BYTES;

use self::shape::Shape;
use self::tree::{Found, GAP_LOG2, NODE_BYTES, Tree, VALUE, VALUE_BYTES};
use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::jobs::{self, Contents, Job, Jobs, Popularity, Server};
use crate::program::Program;

pub(crate) const ENTRY: Entry = Entry {
    name: "red-black-tree",
    summary: "a server whose jobs look up keys in a red-black tree",
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
            summary: "share of jobs that give a key a new value",
            kind: Kind::Decimal { min: 0, max: 1000 },
            default: "0.05",
        },
        Parameter {
            name: "inserts",
            summary: "share of jobs that insert a key",
            kind: Kind::Decimal { min: 0, max: 1000 },
            default: "0.01",
        },
    ],
    presets: &[Preset {
        name: "red-black-tree-small",
        summary: "4 MiB, for tests",
        values: &[("dataset", "4MiB"), ("jobs", "3k"), ("settle", "500"), ("warm", "4k")],
    }],
    make: |values| {
        let [updates, inserts] = ["updates", "inserts"].map(|name| values.get(name));
        if updates + inserts > 1000 {
            return Err("updates and inserts together are more than all jobs".to_owned());
        }
        Ok(Box::new(RedBlackTree { jobs: Jobs::new(values), updates, inserts }))
    },
};

/// Instructions of a job beside the search: the loop that takes requests (assumed).
const REQUEST_INSTRUCTIONS: u64 = 40;
/// Parts into which the work beside is cut: before, between and after the search and the copy.
const PARTS: u64 = 3;
/// Bytes of the host for an inserted node with what changes around it, and to verify all that.
const INSERTED_BYTES: u64 = 400;

struct RedBlackTree {
    jobs: Jobs,
    /// In thousandths of all jobs.
    updates: u64,
    inserts: u64,
}

impl RedBlackTree {
    fn nodes(&self) -> u64 {
        self.jobs.dataset_bytes / NODE_BYTES
    }

    /// Room for inserted nodes.
    fn room(&self) -> u64 {
        if self.inserts > 0 { self.jobs.share(self.inserts) } else { 0 }
    }

    fn nodes_bytes(&self) -> u64 {
        ((self.nodes() + self.room()) * NODE_BYTES).next_multiple_of(PAGE_BYTES)
    }
}

impl Program for RedBlackTree {
    fn footprint_bytes(&self) -> u64 {
        self.nodes_bytes() + PAGE_BYTES + self.jobs.stack_bytes()
    }

    fn host_bytes(&self) -> u64 {
        let written = self.jobs.share(self.updates + self.inserts).min(self.nodes() + self.room());
        Contents::host_bytes(written) + INSERTED_BYTES * self.room()
    }

    fn expected_accesses(&self) -> u64 {
        let height = f64::from(Shape::new(self.nodes()).height());
        // Key and link of each node on the way, which ends above the lowest level half of the time; the root, the value.
        let own = 2.0 * (height - 1.0) + 3.0;
        // The upper levels are pages of their own, the last six are one page.
        let thin = 2.0 + (height - 6.5).max(0.0) + 3.0 * self.inserts as f64 / 1000.0;
        self.jobs.expected_accesses(own, 50 + 5 * height as u64, thin)
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        self.jobs.run(out, |space, out| {
            let nodes = space.map(self.nodes_bytes(), out).start;
            let head = space.map(PAGE_BYTES, out).start;
            Ok(Searches {
                tree: Tree::new(Shape::new(self.nodes()), self.room(), nodes, head),
                contents: Contents::new(self.jobs.seed),
                popularity: self.jobs.popularity(self.nodes()),
                updates: self.updates,
                inserts: self.inserts,
            })
        })
    }
}

struct Searches {
    tree: Tree,
    contents: Contents,
    popularity: Popularity,
    updates: u64,
    inserts: u64,
}

impl Server for Searches {
    fn serve(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt> {
        let node = self.popularity.draw(&mut job.random);
        let choice = job.random.below(1000);
        let is_update = choice < self.updates;
        let is_insert = !is_update && choice < self.updates + self.inserts && self.tree.has_room();
        let mut key = Tree::loaded_key(node);
        if is_insert {
            key += 1 + job.random.below((1 << GAP_LOG2) - 1);
        }
        job.compute(REQUEST_INSTRUCTIONS)?;
        job.compute_part(PARTS)?;
        let found = self.tree.find(key, job)?;
        job.compute_part(PARTS)?;
        match found {
            Found::Place(place) if is_insert => {
                let node = self.tree.insert(place, job)?;
                self.contents.write_or_check(node, true, job.number)
            }
            Found::Place(_) => Err(Halt::Wrong(format!("key {key} was not found"))),
            // A key that was to be inserted but is there already is given a new value.
            Found::Node(node) => {
                let is_write = is_update || is_insert;
                job.copy(self.tree.addr(node).add(VALUE), VALUE_BYTES, is_write)?;
                self.contents.write_or_check(node, is_write, job.number)
            }
        }
    }

    fn verify(&self, jobs: u64) -> Result<(), Halt> {
        self.tree.verify()?;
        self.contents.verify(jobs)
    }
}
