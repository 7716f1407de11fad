//! A machine's TLB misses against a list that a reader can check by eye, on the streams of real programs.

use std::collections::BTreeSet;

use pagewalk_sim::machine::{Detail, build};
use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::run::{RunOptions, run};
use pagewalk_sim::spec;
use pagewalk_trace::{Batch, Event};

use crate::record;

/// A single-level Mosaic TLB as lists: each set holds (run, valid pages), newest first. Arity 1 is a plain TLB.
struct NaiveTlb {
    sets: Vec<Vec<(u64, BTreeSet<u64>)>>,
    ways: usize,
    arity: u64,
    mapped: BTreeSet<u64>,
    misses: u64,
}

impl NaiveTlb {
    fn new(entries: usize, ways: usize, arity: u64) -> Self {
        Self { sets: vec![vec![]; entries / ways], ways, arity, mapped: BTreeSet::new(), misses: 0 }
    }

    fn access(&mut self, page: u64) {
        self.mapped.insert(page);
        let run = page / self.arity;
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(run % count) as usize];
        if let Some(place) = set.iter().position(|(resident, _)| *resident == run) {
            let mut entry = set.remove(place);
            self.misses += u64::from(entry.1.insert(page));
            set.insert(0, entry);
            return;
        }
        self.misses += 1;
        let valid = self.mapped.range(run * self.arity..(run + 1) * self.arity).copied().collect();
        set.insert(0, (run, valid));
        set.truncate(self.ways);
    }
}

fn misses(result: &RunResult) -> u64 {
    let row =
        result.metrics.iter().find(|m| m.stage == "tlb.l1" && m.metric == "misses" && m.unit == "count");
    row.and_then(|row| row.value).expect("a count of misses").as_f64() as u64
}

#[test]
fn misses_on_real_streams_equal_the_naive_list_batch_by_batch() {
    let shapes = [
        ("gem5-plain", 8, 1),
        ("gem5-mosaic-4", 8, 4),
        ("gem5-mosaic-8-direct", 1, 8),
        ("gem5-mosaic-64", 8, 64),
        ("gem5-plain-full", 1024, 1),
        ("gem5-mosaic-4-full", 1024, 4),
    ];
    for workload in ["graph500:scale=13", "btree-small", "xsbench-small"] {
        let recorded = record(workload, 700_000);
        // Workloads keep their memory while they run; unmapping would need a naive page table, too.
        let unmaps = |batch: &Batch| batch.marks.iter().any(|mark| matches!(mark.event, Event::Unmap(_)));
        let until = recorded.batches.iter().position(unmaps).unwrap_or(recorded.batches.len());
        for (name, ways, arity) in shapes {
            let spec = spec::load(name).expect("a built-in machine");
            let mut machine = build(&spec, Detail::Counts, 0, &recorded.info).expect("a machine");
            let mut naive = NaiveTlb::new(1024, ways, arity);
            for (number, batch) in recorded.batches[..until].iter().enumerate() {
                machine.batch(batch).expect("memory enough");
                for access in &batch.accesses {
                    naive.access(access.addr().0 >> 12);
                }
                let ours = misses(&machine.finish(workload));
                assert_eq!(ours, naive.misses, "{workload} on {name}, batch {number}");
            }
            assert!(naive.misses > 0);
        }
    }
}

#[test]
fn worker_threads_change_nothing() {
    let mut recorded = record("graph500-small", 400_000);
    let names = ["x86-64", "mosaic-4", "x86-64-thp", "gem5-plain", "x86-64-la57"];
    let mut results = |threads| {
        let machines = names.map(|name| {
            let spec = spec::load(name).expect("a built-in machine");
            build(&spec, Detail::Timed, 3, &recorded.info).expect("a machine")
        });
        let options = RunOptions { threads, ..RunOptions::default() };
        run(&mut recorded, machines.into(), options, &mut ()).expect("a run").results
    };
    let one = results(1);
    assert_eq!(one.iter().map(|result| result.machine.as_str()).collect::<Vec<_>>(), names);
    for threads in [2, 3, 9] {
        assert_eq!(results(threads), one, "{threads} threads");
    }
}
