//! What it takes to bring lines into the first cache, in closed forms: the cache takes a line in so many cycles, and lines of one set drive each
//! other out.

use super::dataflow::{LINE, LOADS, assert_near, cycles_of_loop, zen3};
use super::*;

/// mov %rax, (%rdi); dec %rcx; jne: no store waits for another.
const STORES: &[u8] = &[0x48, 0x89, 0x07, 0x48, 0xff, 0xc9, 0x75, 0xf8];
/// Bytes from a line to the next one of its set in the first cache of Zen 3: 64 sets of eight ways.
const SET: u64 = 4096;

#[test]
fn the_first_cache_takes_a_line_in_so_many_cycles() {
    const LINES: u64 = 1_024;
    for (fill, expected) in [(2, 2.0), (3, 3.0), (5, 5.0)] {
        let spec =
            changed(zen3(), |spec| spec.core.dataflow.as_mut().expect("a dataflow core").line_fill = fill);
        let loads = |round: u64| vec![Access::load(VirtAddr(BASE + round % LINES * LINE), 8)];
        let stores = |round: u64| vec![Access::store(VirtAddr(BASE + round % LINES * LINE), 8)];
        let bytes = LINES * LINE;
        assert_near(cycles_of_loop(&spec, bytes, LOADS, loads), expected, "loads that the second cache has");
        assert_near(cycles_of_loop(&spec, bytes, STORES, stores), expected, "stores to lines that it has");
        let few = |round: u64| vec![Access::load(VirtAddr(BASE + round % 256 * LINE), 8)];
        assert_near(cycles_of_loop(&spec, bytes, LOADS, few), 1.0, "loads that hit");
    }
}

/// As the factors of a Fourier transform of 16,384 numbers do, which lie 4 KiB apart in one of its stages.
#[test]
fn loads_of_more_lines_of_a_set_than_it_has_wait_for_each_other() {
    // More than are in the window at once: a load of a line that is under way takes no further one.
    const LINES: u64 = 100;
    for (fill, sets, expected) in [(10, 1, 10.0), (10, 2, 5.0), (7, 1, 7.0), (10, 16, 2.0), (0, 1, 2.0)] {
        let spec = changed(zen3(), |spec| {
            let own = spec.core.dataflow.as_mut().expect("a dataflow core");
            (own.line_fill, own.set_fill) = (2, fill);
            spec.hierarchy.caches.iter_mut().for_each(|cache| cache.prefetch = None);
        });
        let line = |round: u64| round / sets % LINES * SET + round % sets * LINE;
        let loads = |round: u64| vec![Access::load(VirtAddr(BASE + line(round)), 8)];
        let cycles = cycles_of_loop(&spec, LINES * SET, LOADS, loads);
        assert_near(cycles, expected, &format!("{sets} sets that take a line in {fill} cycles"));
    }
}

/// Twenty stores 4 KiB apart: the interpreter of HotSpot 17 makes them in front of each call, to find the end of the stack.
#[test]
fn stores_to_more_lines_of_a_set_than_it_has_wait_for_each_of_them() {
    let spec = zen3();
    let cycles = |lines: u64, apart: u64| {
        let store = |round: u64| vec![Access::store(VirtAddr(BASE + round % lines * apart), 8)];
        cycles_of_loop(&spec, lines * apart, STORES, store)
    };
    let [first, second] = [0, 1].map(|level| spec.hierarchy.caches[level].latency_ps / spec.core.cycle_ps);
    assert_near(cycles(8, SET), 1.0, "as many lines as the set has");
    assert_near(cycles(20, SET), (second - first) as f64, "more lines than the set has");
    assert_near(cycles(9, SET), (second - first) as f64, "one more");
    assert_near(cycles(20, SET + LINE), 1.0, "as many in sets of their own");
}

/// The first cache takes a line in two cycles, so the lines of a burst of stores wait for each other; asked for again, one by one, they do not.
#[test]
fn a_line_that_is_asked_for_again_does_not_wait_for_the_lines_before() {
    const ROUND: u64 = 128;
    const BURST: u64 = 20;
    let spec = changed(zen3(), |spec| spec.core.dataflow.as_mut().expect("a dataflow core").line_fill = 2);
    let store = |round: u64| {
        let at = match round % ROUND {
            burst if burst < BURST => burst * SET,
            other => (1 + other % 32) * LINE,
        };
        vec![Access::store(VirtAddr(BASE + at), 8)]
    };
    let [first, second] = [0, 1].map(|level| &spec.hierarchy.caches[level]);
    let latency = (second.latency_ps - first.latency_ps) / spec.core.cycle_ps;
    let again = BURST - u64::from(first.ways);
    let expected = (ROUND - again + again * latency) as f64 / ROUND as f64;
    assert_near(cycles_of_loop(&spec, BURST * SET, STORES, store), expected, "a burst in each round");
}
