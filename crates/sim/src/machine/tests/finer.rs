//! The parts that walks and memory are divided into on cores that execute instructions.

use super::dataflow::{CHASE, LINE, LOADS, ROUNDS, assert_near, cycles_of_loop, cycles_of_part, load, zen3};
use super::*;

/// A line of each of so many pages in turn, in other sets of the caches for each.
fn line_of_page(round: u64, pages: u64) -> u64 {
    let page = round % pages;
    page * 64 + page % 64
}

#[test]
fn translations_of_a_farther_tlb_are_told_from_walks() {
    let spec = zen3();
    let cycles = |part, pages: u64| {
        cycles_of_part(part, &spec, pages * 4096, CHASE, |round| load(line_of_page(round, pages)))
    };
    // The first TLB has 64 entries, the second 2,048; a hit in it takes 7 cycles more.
    assert_near(cycles("walk.tlb", 256), 7.0, "a hit in the second TLB");
    assert_eq!(cycles("walk.tables", 256), 0.0);
    assert_eq!(cycles("walk.tlb", 8192), 0.0);
    assert!(cycles("walk.tables", 8192) > 7.0 + 4.0, "a walk");
}

#[test]
fn a_chain_waits_for_no_other_line_and_loads_at_once_wait_for_each_other() {
    // A line takes 20 cycles, and the latency is that of 24 of them.
    let spec = changed(zen3(), |spec| {
        spec.hierarchy.memory.line_ps = Some(20 * spec.core.cycle_ps);
        spec.hierarchy.memory.latency_ps = 480 * spec.core.cycle_ps;
    });
    let bytes = 2 * ROUNDS * LINE;
    let cycles = |part, code| cycles_of_part(part, &spec, bytes, code, load);
    assert_eq!(cycles("memory.bandwidth", CHASE), 0.0);
    assert!(cycles("memory.dram", CHASE) > 450.0);
    let near = changed(spec.clone(), |spec| spec.hierarchy.memory.latency_ps = 20 * spec.core.cycle_ps);
    let (all, queue) = (
        cycles_of_loop(&near, bytes, LOADS, load),
        cycles_of_part("memory.bandwidth", &near, bytes, LOADS, load),
    );
    assert_near(all, 20.0, "a line");
    assert!(queue > 0.0 && queue < all, "{queue} of {all} cycles");
}
