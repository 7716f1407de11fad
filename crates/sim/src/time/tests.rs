//! The interval model against its own equations, at the tick.

use pagewalk_vm::addr::{Granule, PhysAddr, VirtAddr};
use pagewalk_vm::table::cuckoo::Policy;
use pagewalk_vm::table::hashed::HashedDesign;
use pagewalk_vm::table::{Waits, WalkRead};

use super::{Clock, CoreTime, IntervalClock, WalkBegin};
use crate::metrics::Rows;
use crate::metrics::names::time as names;
use crate::spec;
use crate::spec::settings::{CacheSpec, LineIndexing, MachineSpec, Replacement, TableKind, WalkerSpec};
use crate::spec::table::{HashedSpec, RadixSpec};

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
    let cache = CacheSpec {
        bytes: 1 << 20,
        ways: 16,
        latency_ps: 0,
        replacement: Replacement::Lru,
        indexing: LineIndexing::Modulo,
        prefetch: None,
    };
    spec.hierarchy.caches = vec![
        CacheSpec { bytes: 64 * 64, ways: 1, latency_ps: L1, ..cache.clone() },
        CacheSpec { latency_ps: L2, ..cache },
    ];
    spec.hierarchy.memory.latency_ps = DRAM;
    spec.translation.walker.enters = 1;
    spec
}

/// The time of accesses at the given lines, so many instructions each.
fn time(lines: &[(u64, bool)], instructions_each: u64) -> (u64, u64, u64) {
    let mut clock = clock_of(&machine());
    clock.segment(0, Some(instructions_each * lines.len() as u64), lines.len() as u64);
    for &(line, write) in lines {
        clock.begin(0);
        clock.data(0, (VirtAddr(0), PhysAddr(line * 64)), write);
    }
    let mut rows = Rows::default();
    clock.rows(&mut rows);
    let [elapsed, parts @ ..] = [names::ELAPSED, names::COMPUTE, names::MEMORY, names::WALK, names::FAULT]
        .map(|name| rows.value(&name).expect("a row"));
    assert_eq!(elapsed, parts.iter().sum());
    (elapsed, parts[0], parts[1])
}

fn clock_of(spec: &MachineSpec) -> IntervalClock {
    IntervalClock::new(spec, PhysAddr(spec.paging.frames.memory_bytes()), false)
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

/// The walk's references, from the second cache level on: the line, and what waits for it.
fn walked(reads: &[(u64, Waits)], table: TableKind) -> u64 {
    walked_on(reads, &[], table)
}

/// The same where the walker goes on in a second table, if that has references.
fn walked_on(reads: &[(u64, Waits)], second: &[(u64, Waits)], table: TableKind) -> u64 {
    let mut spec = machine();
    spec.translation.table = table;
    spec.translation.walker = WalkerSpec { count: 1, enters: 2, start_ps: 0, retry_ps: 0 };
    let mut clock = clock_of(&spec);
    clock.segment(0, Some(1), 1);
    // The last line is in the second level already.
    clock.data(0, (VirtAddr(0), PhysAddr(9 * 64)), true);
    let tlb = spec.translation.tlb.last().expect("a TLB").latency_ps;
    clock.begin(0);
    let read = |&(line, waits): &(u64, Waits)| WalkRead { addr: PhysAddr(line * 64), level: 0, waits };
    clock.walk(0, reads.iter().map(read), WalkBegin::WalkCaches);
    if !second.is_empty() {
        clock.walk(0, second.iter().map(read), WalkBegin::Continued);
    }
    clock.data(0, (VirtAddr(0), PhysAddr(9 * 64)), false);
    clock.settle();
    let mut rows = Rows::default();
    clock.rows(&mut rows);
    let elapsed = rows.value(&names::ELAPSED).expect("a row");
    elapsed - CYCLE - tlb
}

/// One after the other takes the sum; at once, as long as the one that decides, or the longest; a refill nothing.
#[test]
fn a_walk_takes_as_long_as_what_it_waits_for() {
    let radix = || TableKind::from(RadixSpec { levels: 4, granule: Granule::Size4K });
    let lookup = machine().translation.walk_cache.expect("walk caches").latency_ps;
    let near = 9;
    let [turn, found, other, refill] = [
        Waits::InTurn,
        Waits::Together { decides: true },
        Waits::Together { decides: false },
        Waits::Background,
    ];
    assert_eq!(walked(&[(1, turn), (2, turn)], radix()), lookup + 2 * DRAM);
    assert_eq!(walked(&[(1, other), (near, found), (2, other)], radix()), lookup + L2);
    assert_eq!(walked(&[(near, other), (1, other)], radix()), lookup + DRAM);
    assert_eq!(walked(&[(near, found), (1, refill)], radix()), lookup + L2);
    let policy = Policy::MEMORY_EFFICIENT;
    let design = HashedDesign { policy, chunk_bytes: Vec::new(), crc: true };
    let slow = HashedSpec { design, latency_ps: lookup + 77 }.into();
    assert_eq!(walked(&[(near, found)], slow), lookup + 77 + L2, "the slower of both look-ups");
}

/// The walker of tables of contents goes on in the ordinary table where the first walk ended: the TLBs and the walk caches, which
/// have already missed, are not asked again.
#[test]
fn a_second_table_adds_its_references_and_nothing_else() {
    let radix = || TableKind::from(RadixSpec { levels: 4, granule: Granule::Size4K });
    let lookup = machine().translation.walk_cache.expect("walk caches").latency_ps;
    let reads = [1, 2, 3].map(|line| (line, Waits::InTurn));
    assert_eq!(walked_on(&reads[..1], &reads[1..], radix()), lookup + 3 * DRAM);
    assert_eq!(walked_on(&reads[..2], &reads[2..], radix()), walked(&reads, radix()));
}

/// In the background, too, and the access does not wait.
#[test]
fn a_second_table_in_the_background_follows_the_first() {
    let mut spec = machine();
    spec.translation.walker = WalkerSpec { count: 2, enters: 1, start_ps: 0, retry_ps: 0 };
    let mut clock = clock_of(&spec);
    clock.segment(0, Some(1), 1);
    clock.begin(0);
    let read =
        |line: u64| std::iter::once(WalkRead { addr: PhysAddr(line * 64), level: 0, waits: Waits::InTurn });
    clock.walk_beside(0, read(1), WalkBegin::WalkCaches);
    clock.walk_beside(0, read(2), WalkBegin::Continued);
    // The access's own walk finds both walkers busy, one of them until the first walk has ended.
    clock.walk(0, read(3), WalkBegin::Continued);
    clock.data(0, (VirtAddr(0), PhysAddr(1 << 20)), true);
    clock.settle();
    let mut rows = Rows::default();
    clock.rows(&mut rows);
    let miss = spec.translation.tlb.last().expect("a TLB").latency_ps;
    let lookup = spec.translation.walk_cache.expect("walk caches").latency_ps;
    assert_eq!(rows.value(&names::ELAPSED), Some(CYCLE + miss + lookup + 2 * DRAM));
}

#[test]
fn a_second_level_hit_costs_its_latency_once() {
    // Lines 0 and 64 share a set of the one-way first level; both stay in the second.
    let warm = [(0, false), (64, false), (0, false)];
    let (three, ..) = time(&warm, 10);
    let (two, ..) = time(&warm[..2], 10);
    assert_eq!(three - two, L2);
}
