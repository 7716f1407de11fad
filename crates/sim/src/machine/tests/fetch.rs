//! Instruction fetch against closed forms: loops of blocks that lie apart, and the TLBs and caches that they go through.

use super::dataflow::{Script, zen3};
use super::*;
use crate::spec::settings::FetchSpec;

/// nop; jmp to whatever comes next.
const JUMP: &[u8] = &[0x90, 0xeb, 0x00];
const CODE: u64 = 0x40_0000;
const PAGE: u64 = 4096;
const ROUNDS: u64 = 20;

fn fetch(spec: &mut MachineSpec) -> &mut FetchSpec {
    spec.translation.fetch.as_mut().expect("zen3 fetches instructions")
}

/// A program of so many blocks, a distance apart, which executes all of them in turn, so many rounds, and loads a byte in each.
fn program(blocks: u64, apart: u64, rounds: u64) -> Script {
    let mut script = Script::new(PAGE);
    map(script.batch(), CODE, blocks * apart + PAGE);
    let blocks: Vec<_> = (0..blocks).map(|block| script.block(CODE + block * apart, JUMP)).collect();
    for _ in 0..rounds {
        blocks.iter().for_each(|&block| script.execute(block, &[]));
    }
    script
}

/// What so many rounds add to a count, once as many have been made.
fn of_rounds(run: impl Fn(u64) -> RunResult, stage: &str, metric: &str) -> u64 {
    let [first, both] = [ROUNDS, 2 * ROUNDS].map(|rounds| value(&run(rounds), stage, metric));
    both - first
}

#[test]
fn pages_of_code_miss_in_the_tlb_for_instructions_once_they_are_more_than_its_entries() {
    let spec = zen3();
    for (pages, misses) in [(1, 0), (60, 0), (64, 0), (65, 65), (200, 200)] {
        // Lines of different sets, too.
        let run = |rounds| program(pages, PAGE + 64, rounds).run_counts(&spec);
        let of = |stage, metric| of_rounds(run, stage, metric);
        assert_eq!(of("fetch", "lines"), ROUNDS * if pages == 1 { 0 } else { pages }, "{pages} pages");
        assert_eq!(of("fetch", "tlb.misses"), ROUNDS * misses, "{pages} pages");
        assert_eq!(of("tlb.l2", "hits"), ROUNDS * misses, "{pages} pages: the second level has them");
        assert_eq!(of("fetch", "walks"), 0);
        assert_eq!(of("tlb.l1", "misses"), 0, "data has entries of its own");
    }
}

#[test]
fn code_is_walked_to_and_faults_once_a_page() {
    let spec = zen3();
    // More pages than both levels have entries.
    let run = |rounds| program(3_000, PAGE, rounds).run_counts(&spec);
    assert_eq!(of_rounds(run, "fetch", "walks"), ROUNDS * 3_000);
    let once = run(1);
    assert_eq!(value(&once, "fault", "minor.4KiB") - 1, 3_000);
    let walks = |stage, metric| value(&once, stage, metric);
    assert_eq!(walks("fetch", "walks"), 6_000, "one that finds nothing, and one after the fault");
    assert_eq!(walks("walk", "walks"), 6_002, "the program's one page of data, too");
    let timed = program(3_000, PAGE, 1).run(&spec);
    for (stage, metric) in [("fetch", "walks"), ("fault", "minor.4KiB"), ("fetch", "tlb.misses")] {
        assert_eq!(value(&timed, stage, metric), value(&once, stage, metric), "{stage} {metric}");
    }
}

#[test]
fn a_core_among_others_fetches_as_one_alone() {
    let run = |count| program(200, PAGE + 64, ROUNDS).run(&changed(zen3(), |spec| spec.core.count = count));
    let (one, two) = (run(1), run(2));
    for (stage, metric) in
        [("fetch", "lines"), ("fetch", "tlb.misses"), ("time", "fetch"), ("time", "elapsed")]
    {
        assert_ne!(value(&one, stage, metric), 0, "{stage} {metric}");
        assert_eq!(value(&two, stage, metric), value(&one, stage, metric), "{stage} {metric}");
    }
}

/// The cycles of a block, in a loop of blocks that lie apart.
fn cycles_of_block(spec: &MachineSpec, part: &str, blocks: u64, apart: u64) -> f64 {
    let ps = of_rounds(|rounds| program(blocks, apart, rounds).run(spec), "time", part);
    ps as f64 / (ROUNDS * blocks * spec.core.cycle_ps) as f64
}

/// Jumps that the branch target buffer does not know cost more than what is tested.
fn with_known_branches() -> MachineSpec {
    changed(zen3(), |spec| {
        spec.core.dataflow.as_mut().expect("it executes").are_branches_predicted = false;
    })
}

#[test]
fn a_line_that_the_cache_for_instructions_has_not_costs_its_part_of_the_latency() {
    let spec = with_known_branches();
    // 32 KiB of lines are there; 64 KiB of them, in turn, never are, and come from the second cache.
    // The front end goes over to one other line in a cycle.
    assert_eq!(cycles_of_block(&spec, "elapsed", 512, 64), 1.0);
    assert_eq!(of_rounds(|rounds| program(512, 64, rounds).run(&spec), "fetch", "cache.misses"), 0);
    for ahead in [1, 3, 7] {
        let spec = changed(spec.clone(), |spec| fetch(spec).ahead = ahead);
        // Beyond a hit in the first cache, of 4 cycles; so many lines more are under way at once.
        let expected = (12.0 - 4.0) / f64::from(ahead + 1);
        let found = cycles_of_block(&spec, "elapsed", 1024, 64);
        assert!(
            (found - expected.max(1.0)).abs() < 0.15 * expected.max(1.0),
            "{ahead}: {found}, and not {expected}"
        );
    }
    let spec = changed(spec, |spec| fetch(spec).ahead = 1);
    let part = cycles_of_block(&spec, "fetch", 1024, 64) / cycles_of_block(&spec, "elapsed", 1024, 64);
    assert!(part > 0.6, "{part} of the time");
    let lines = cycles_of_block(&spec, "fetch.lines", 1024, 64);
    assert_eq!(lines, cycles_of_block(&spec, "fetch", 1024, 64), "the first TLB has all translations");
}

#[test]
fn lines_of_pages_that_the_first_tlb_for_instructions_has_not_wait_for_the_second() {
    let spec = changed(with_known_branches(), |spec| fetch(spec).ahead = 1);
    // A line of each page, in other sets of the caches for each.
    let part = |part| cycles_of_block(&spec, part, 256, PAGE + 64);
    // The second TLB takes 7 cycles more, for two lines at once, of which one is dispatched in the last of them.
    assert_eq!(["elapsed", "fetch", "fetch.translation", "fetch.lines"].map(part), [3.5, 3.0, 3.0, 0.0]);
}

#[test]
fn what_was_just_fetched_is_fetched_once() {
    let spec = zen3();
    // Two blocks in a line, and one across its end.
    let mut script = Script::new(PAGE);
    map(script.batch(), CODE, PAGE);
    let [first, second, across] = [0, 30, 62].map(|offset| script.block(CODE + offset, JUMP));
    for block in [first, second, first, across, second, across] {
        script.execute(block, &[]);
    }
    let result = script.run_counts(&spec);
    // The line; for the third block the next one; back; the next one again.
    assert_eq!(value(&result, "fetch", "lines"), 4);
    assert_eq!(value(&result, "fetch", "tlb.accesses"), 4);
    assert_eq!(value(&result, "fetch", "tlb.misses"), 1);
}

#[test]
fn instructions_count_the_same_with_and_without_a_filter() {
    for replacement in ["lru", "tree-plru", "random"] {
        let text = format!(
            "name = \"m\"\nextends = \"zen3\"\n[fetch.tlb.set-associative]\nentries = 16\nways = 4\nreplacement = \"{replacement}\"\n\
             pages = [\"4KiB\"]\n"
        );
        let spec = crate::spec::parse(&text, "m.toml").unwrap_or_else(|error| panic!("{error}"));
        let script = program(23, PAGE + 64, 50);
        assert_eq!(script.run_counts(&spec).metrics, script.run_counts_without_filters(&spec).metrics);
    }
}

#[test]
fn code_where_no_program_can_be_is_executed_and_not_fetched() {
    let spec = zen3();
    let mut script = Script::new(PAGE);
    for addr in [u64::MAX, u64::MAX - 1, 1 << 47, (1 << 47) - 1, 0xffff_ffff_ff60_0000] {
        let block = script.block(addr, JUMP);
        script.execute(block, &[]);
        script.execute(block, &[]);
    }
    for result in [script.run(&spec), script.run_counts(&spec)] {
        assert_eq!(value(&result, "fetch", "lines"), 0);
    }
}
