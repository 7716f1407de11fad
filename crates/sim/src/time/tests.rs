//! The interval model against its own equations, at the tick.

use pagewalk_vm::addr::PhysAddr;

use super::{Clock, IntervalClock};
use crate::machine::CountRow;
use crate::spec;
use crate::spec::settings::{CacheSpec, MachineSpec};

const CYCLE: u64 = 500;
const L1: u64 = 2_000;
const L2: u64 = 7_000;
const DRAM: u64 = 100_000;

/// One instruction a cycle, a window of 10, 2 outstanding misses; a one-line-per-set first level.
fn machine() -> MachineSpec {
    let mut spec = spec::load("x86-64").expect("a built-in machine");
    spec.core.cycle_ps = CYCLE;
    spec.core.width = 1;
    spec.core.window = 10;
    spec.core.outstanding = 2;
    spec.caches = vec![
        CacheSpec { bytes: 64 * 64, ways: 1, latency_ps: L1 },
        CacheSpec { bytes: 1 << 20, ways: 16, latency_ps: L2 },
    ];
    spec.memory.latency_ps = DRAM;
    spec.walker.enters = 1;
    spec
}

/// The time of accesses at the given lines, so many instructions each.
fn time(lines: &[(u64, bool)], instructions_each: u64) -> (u64, u64, u64) {
    let mut clock = IntervalClock::new(&machine());
    clock.segment(0, Some(instructions_each * lines.len() as u64), lines.len() as u64);
    for &(line, write) in lines {
        clock.begin(0);
        clock.data(0, PhysAddr(line * 64), write);
    }
    let mut rows: Vec<CountRow> = Vec::new();
    clock.rows(&mut rows);
    let value = |metric: &str| rows.iter().find(|row| row.is("time", metric)).expect("a row").value();
    assert_eq!(value("elapsed"), value("compute") + value("walk") + value("memory") + value("fault"));
    (value("elapsed"), value("compute"), value("memory"))
}

#[test]
fn hits_of_the_first_level_cost_dispatch_only() {
    let hits = [(0, false); 100];
    let (elapsed, compute, memory) = time(&hits, 4);
    // The first access, instruction 4, goes to DRAM; instruction 16 is the first that is a window behind it.
    assert_eq!(compute, 400 * CYCLE);
    assert_eq!(memory, DRAM - 12 * CYCLE);
    assert_eq!(elapsed, compute + memory);
}

#[test]
fn misses_within_one_window_overlap_and_those_a_window_apart_do_not() {
    // Two misses, one instruction each: both in flight together.
    let (together, ..) = time(&[(0, false), (1, false)], 1);
    assert_eq!(together, 2 * CYCLE + DRAM);
    // A window apart, the second is dispatched only when the first has finished.
    let (apart, ..) = time(&[(0, false), (1, false)], 10);
    assert_eq!(apart, 10 * CYCLE + DRAM + DRAM);
    // One instruction less than a window apart they still overlap.
    let (nearly, ..) = time(&[(0, false), (1, false)], 9);
    assert_eq!(nearly, 18 * CYCLE + DRAM);
}

#[test]
fn a_third_miss_waits_for_one_of_two_registers() {
    let (two, ..) = time(&[(0, false), (1, false)], 1);
    let (three, ..) = time(&[(0, false), (1, false), (2, false)], 1);
    assert_eq!(three, CYCLE + DRAM + DRAM, "the third starts when the first has finished");
    assert!(three > two);
}

#[test]
fn a_store_is_not_waited_for() {
    let (elapsed, compute, memory) = time(&[(0, true), (1, true)], 10);
    assert_eq!((elapsed, memory), (compute, 0));
}

#[test]
fn a_second_level_hit_costs_its_latency_once() {
    // Lines 0 and 64 share a set of the one-way first level; both stay in the second.
    let warm = [(0, false), (64, false), (0, false)];
    let (three, ..) = time(&warm, 10);
    let (two, ..) = time(&warm[..2], 10);
    assert_eq!(three - two, L2);
}
