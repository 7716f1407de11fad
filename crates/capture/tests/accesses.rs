//! Tests of the loads and stores that the front-ends report: counts, sizes, directions, threads.

use std::collections::{BTreeMap, BTreeSet};

use pagewalk_trace::{Access, Event, ThreadId};

use crate::common::{self, Build, builds, compile, compile_for, program, record};

const BASE: u64 = 0x8_0000_0000;
const PART: u64 = 65_536;

fn sizes_of(build: Build) -> common::Stream {
    record(program(&compile("sizes", build), &[], build.frontend())).0
}

#[test]
fn loads_and_stores_of_every_size_are_counted_exactly() {
    for build in builds() {
        let stream = sizes_of(build);
        let mut expected = BTreeMap::from([
            ((1, false), 101),
            ((1, true), 102),
            ((2, false), 201),
            ((2, true), 202),
            ((4, false), 401),
            ((4, true), 402),
            ((8, false), 8_001),
            ((8, true), 20_002),
            ((16, false), 601),
            ((16, true), 602),
        ]);
        if matches!(build, Build::Plain | Build::Qemu) {
            expected.extend([((32, false), 701), ((32, true), 702)]);
        }
        assert_eq!(stream.counts(BASE, PART), expected, "{build:?}");
    }
}

#[test]
fn an_atomic_operation_is_a_load_and_a_store() {
    for build in builds() {
        let stream = sizes_of(build);
        let both = |bytes, count| BTreeMap::from([((bytes, false), count), ((bytes, true), count)]);
        assert_eq!(stream.counts(BASE + 3 * PART, PART), both(8, 1_000), "fetch-add, {build:?}");
        assert_eq!(stream.counts(BASE + 4 * PART, PART), both(4, 300), "compare-and-swap, {build:?}");
    }
}

#[test]
fn what_an_instruction_reads_and_writes_is_a_load_and_then_a_store() {
    for build in
        builds().into_iter().filter(|build| matches!(build, Build::Plain | Build::Static | Build::Qemu))
    {
        let stream = sizes_of(build);
        let each = [(2, 150), (4, 150), (8, 150 + 70)];
        let expected = each.into_iter().flat_map(|(bytes, n)| [((bytes, false), n), ((bytes, true), n)]);
        assert_eq!(stream.counts(BASE + 5 * PART, PART), expected.collect(), "{build:?}");
        for (n, (_, _, access)) in stream.accesses.iter().enumerate() {
            let place = access.addr().0.wrapping_sub(BASE + 3 * PART);
            let is_copy = place >= 2 * PART + 1_024;
            if access.is_write() && place < 3 * PART && !is_copy {
                let (_, _, before) = stream.accesses[n - 1];
                assert_eq!(before, Access::load(access.addr(), access.bytes() as u32), "{build:?}");
            }
        }
    }
}

#[test]
fn masked_lanes_wide_swaps_and_helper_effects_are_recorded_as_they_happen() {
    let stream = sizes_of(Build::Plain);
    let counts = stream.counts(BASE + PART, PART);
    assert_eq!(counts.get(&(4, false)), Some(&300), "three of eight lanes, 100 times: {counts:?}");
    assert_eq!((counts.get(&(16, false)), counts.get(&(16, true))), (Some(&50), Some(&50)), "cmpxchg16b");
    let lanes: BTreeSet<u64> = stream
        .accesses
        .iter()
        .map(|(_, _, a)| a.addr().0.wrapping_sub(BASE + PART))
        .filter(|&offset| 0 < offset && offset < PART)
        .collect();
    assert_eq!(lanes, BTreeSet::from([12, 24]), "only enabled lanes have addresses, the first aside");
    // fxsave writes 512 bytes, in pieces of the most that a record holds.
    assert_eq!(stream.counts(BASE + 2 * PART, PART), BTreeMap::from([((64, true), 80)]), "fxsave");
}

/// VEX's optimiser removes a load into a register that is written again before it is read; the processor does not.
#[test]
fn a_load_whose_value_is_not_used_is_a_load() {
    for build in [Build::Plain, Build::Qemu] {
        if build == Build::Qemu && !common::is_installed("qemu-x86_64") {
            continue;
        }
        let expected = BTreeMap::from([((4, false), 120), ((8, false), 60)]);
        assert_eq!(sizes_of(build).counts(BASE + 6 * PART, PART), expected, "{build:?}");
    }
}

#[test]
fn no_record_of_a_thread_is_lost_or_given_to_another() {
    for build in builds() {
        let (stream, outcome) = record(program(&compile("threads", build), &[], build.frontend()));
        assert!(outcome.status.success());
        let mut owners = BTreeSet::new();
        for t in 0..4 {
            let page = BASE + t * 4096;
            assert_eq!(stream.counts(page, 4096), BTreeMap::from([((8, true), 100_000 + t)]), "{build:?}");
            let threads: BTreeSet<ThreadId> = stream
                .accesses
                .iter()
                .filter(|(_, _, a)| a.addr().0.wrapping_sub(page) < 4096)
                .map(|&(_, thread, _)| thread)
                .collect();
            assert_eq!(threads.len(), 1, "{build:?}: page {t} was written by {threads:?}");
            owners.extend(threads);
        }
        let added = BTreeMap::from([((8, false), 4_000), ((8, true), 4_000)]);
        assert_eq!(stream.counts(BASE + 4 * 4096, 4096), added, "{build:?}: atomic additions");
        assert_eq!(owners.len(), 4, "{build:?}");
        assert!(!owners.contains(&ThreadId(1)), "the first thread only waits");
        let ended = stream
            .events
            .iter()
            .filter(|(_, _, _, e)| matches!(e, Event::ThreadEnd(t) if owners.contains(t)));
        assert_eq!(ended.count(), 4, "{build:?}");
    }
}

/// Programs for other processors, by the one front-end that takes them; the second half runs after an exec of itself.
#[test]
fn programs_of_other_instruction_sets_are_observed_under_qemu() {
    let targets = [
        ("riscv64", "-march=rv64gc"),
        ("aarch64", "-march=armv8-a"),
        // The oldest form: QEMU 7.2 has none of its vectors.
        ("loongarch64", "-march=loongarch64"),
    ];
    for (target, march) in targets {
        let Some(path) = compile_for("foreign.c", target, march) else { continue };
        let (stream, outcome) = record(program(&path, &[], Build::Qemu.frontend()));
        assert_eq!((outcome.status.code(), outcome.processes), (Some(7), 1), "{target}");
        let expected =
            BTreeMap::from([((1, false), 101), ((2, true), 202), ((4, false), 303), ((8, true), 404)]);
        assert_eq!(stream.counts(BASE, 4096), expected, "{target}");
        assert_eq!(stream.counts(BASE + 4096, 4096), BTreeMap::from([((8, true), 401)]), "{target}");
        let instructions = outcome.instructions;
        assert!((2 * 1_411..20 * 1_411).contains(&instructions), "{target}: {instructions} instructions");
        let events: Vec<&Event> = stream.events.iter().map(|(_, _, _, event)| event).collect();
        let is_map = |e: &Event| matches!(e, Event::Map(mapping) if mapping.range.start.0 == BASE);
        let [first, Event::Exec, second, Event::ProcessEnd] = events[..] else {
            panic!("{target}: {events:?}")
        };
        assert!(is_map(first) && is_map(second), "{target}: {events:?}");
    }
}
