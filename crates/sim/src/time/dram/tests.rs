//! DRAM in four layers: the closed forms, what is legal one tick early, what a checker of the whole schedule finds,
//! and the order.

use pagewalk_vm::random::SplitMix64;

use super::bank::Planned;
use super::*;
use crate::spec::settings::TagSpec;

/// Times in cycles. RAS and CAS: Gupta et al., Table I.
const SPEC: DramSpec = DramSpec {
    channels: 1,
    banks: 1,
    row_bytes: 16_384,
    ras_ps: 55,
    cas_ps: 3,
    burst_ps: 1,
    precharge_ps: 20,
    command_ps: 1,
    tags: TagSpec { columns: 1, compare_ps: 1 },
    overtakes: u32::MAX,
};

use DramRequest::{Hit, Line, Miss, Page, Status};

const ALL: [DramRequest; 5] = [Line, Hit, Miss, Page, Status];

#[test]
fn idle_banks_take_the_closed_forms() {
    let idle = |spec: &DramSpec| ALL.map(|request| Dram::new(spec).access(1_000, 0, 0, 7, request) - 1_000);
    let open = 1 + 55;
    assert_eq!(
        idle(&SPEC),
        [
            open + (1 + 3) + 7 + 1,
            open + (1 + 3) + 1 + (1 + 3) + 7 + 1,
            open + (1 + 3) + 1 + 1,
            open + (1 + 3) + 511,
            open + (1 + 3),
        ]
    );
    let four_tags = idle(&DramSpec { tags: TagSpec { columns: 4, ..SPEC.tags }, ..SPEC });
    assert_eq!(four_tags.map(i128::from), [68, 73 + 3, 62 + 3, 571, 60], "three more columns of tags");
    let no_tags = DramSpec { tags: TagSpec { columns: 0, ..SPEC.tags }, ..SPEC };
    assert_eq!(Dram::new(&no_tags).access(0, 0, 0, 0, Hit), 68, "a line");
}

#[test]
fn an_open_row_saves_its_opening_and_another_row_costs_its_closing() {
    for request in ALL {
        let mut dram = Dram::new(&SPEC);
        let idle = dram.access(0, 0, 0, 7, request);
        assert_eq!(dram.access(10_000, 0, 0, 7, request) - 10_000, idle - 56, "{request:?}: the row is open");
        assert_eq!(dram.access(20_000, 0, 0, 8, request) - 20_000, idle + 20, "{request:?}: another is");
        assert_eq!(dram.counts().row_hits, 1);
    }
}

/// A bank and the bus are free at a tick and not one before.
#[test]
fn nothing_starts_a_tick_early() {
    // The bank is free with the last byte, before the response.
    for (at, start) in [(66, 67), (67, 67), (68, 68)] {
        let mut dram = Dram::new(&SPEC);
        assert_eq!(dram.access(0, 0, 0, 7, Line), 68);
        assert_eq!(dram.access(at, 0, 0, 7, Line), start + 12, "made at {at}");
    }
    // Another bank's bytes would be on the bus from 59 + `late` on; the first bank's are until 67.
    for (late, wait) in [(0, 8), (1, 7), (7, 1), (8, 0), (9, 0)] {
        let mut dram = Dram::new(&DramSpec { banks: 2, ..SPEC });
        dram.access(0, 0, 0, 7, Line);
        assert_eq!(dram.access(late, 0, 1, 7, Line), late + wait + 68, "{late} later");
    }
    // Another channel has a bus of its own.
    let mut dram = Dram::new(&DramSpec { channels: 2, ..SPEC });
    assert_eq!([0, 1].map(|channel| dram.access(0, channel, 0, 7, Line)), [68, 68]);
}

#[test]
fn requests_to_the_open_row_go_first_and_the_others_were_told_too_little() {
    let mut dram = Dram::new(&SPEC);
    assert_eq!(dram.access(0, 0, 0, 1, Line), 68);
    let other = dram.access(1, 0, 0, 2, Line);
    assert_eq!(other, 67 + 20 + 68);
    assert_eq!(dram.access(2, 0, 0, 1, Line), 67 + 12, "behind its row");
    assert_eq!(dram.counts(), DramCounts { requests: 3, row_hits: 1, overtaken: 1, early_ps: 11 });
    // At 78 the second row's request has started, and nothing passes it.
    assert_eq!(dram.access(78, 0, 0, 1, Line), 78 + 20 + 67 + 20 + 68);
    assert_eq!(dram.counts().overtaken, 1);
}

/// How a request of the tests went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Served {
    number: u64,
    row: u64,
    start_ps: u64,
    end_ps: u64,
}

fn served(planned: &Planned) -> Served {
    let Planned { number, row, plan, .. } = *planned;
    Served { number, row, start_ps: plan.start_ps, end_ps: plan.end_ps }
}

/// Everything that `dram` did, bank by bank.
fn replay(mut dram: Dram) -> Vec<Vec<Planned>> {
    dram.banks.iter_mut().for_each(|bank| bank.finish(u64::MAX));
    dram.banks.into_iter().map(|bank| bank.finished).collect()
}

/// Requests at random times to a few rows, about as many as the banks bear.
fn traffic(random: &mut SplitMix64, requests: u64, gap: u64) -> Vec<(u64, u64, DramRequest)> {
    let mut now = 0;
    let request = |_| {
        now += random.below(gap);
        let kinds = [Line, Hit, Miss, Status, Line, Hit, Miss, Page];
        (now, random.below(4), kinds[random.below(kinds.len() as u64) as usize])
    };
    (0..requests).map(request).collect()
}

/// The rules, written down a second time and checked over all that was done: one request at a time in a bank, one byte
/// at a time on a bus, every command after the one before it.
fn check(spec: &DramSpec, banks: &[Vec<Planned>]) {
    let mut on_bus = Vec::new();
    for bank in banks {
        let (mut free, mut open) = (0, None);
        for Planned { row, request, at_ps, plan, .. } in bank {
            assert!(plan.start_ps >= free.max(*at_ps), "a command while the bank is busy: {plan:?}");
            let opening = match open {
                Some(open) if open == *row => 0,
                Some(_) => spec.precharge_ps + spec.command_ps + spec.ras_ps,
                None => spec.command_ps + spec.ras_ps,
            };
            let (tags, data) = match request {
                Line => (0, 8),
                Hit => (spec.tags.columns, 8),
                Miss => (spec.tags.columns, 0),
                Page => (0, 512),
                Status => (0, 1),
            };
            let mut ready = plan.start_ps + opening;
            for (columns, first_ps, then_ps) in
                [(tags, plan.tags_ps, spec.tags.compare_ps), (data, plan.data_ps, 0)]
            {
                if columns > 0 {
                    let soonest = ready + spec.command_ps + spec.cas_ps - spec.burst_ps;
                    assert!(first_ps >= soonest, "bytes before their column: {plan:?}");
                    ready = first_ps + u64::from(columns) * spec.burst_ps;
                    on_bus.push((first_ps, ready));
                    assert!(plan.end_ps >= ready, "the bank is free before its bytes have left: {plan:?}");
                    ready += then_ps;
                }
            }
            (free, open) = (plan.end_ps, Some(*row));
        }
    }
    on_bus.sort_unstable();
    assert!(on_bus.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two on the bus at once");
}

#[test]
fn a_checker_finds_nothing_under_random_traffic() {
    let mut random = SplitMix64::new(11);
    for round in 0..300 {
        let spec = DramSpec {
            banks: 1 + random.below(4) as u32,
            cas_ps: 1 + random.below(9),
            burst_ps: random.below(2),
            tags: TagSpec { columns: 1 + random.below(4) as u32, ..SPEC.tags },
            overtakes: random.below(6) as u32,
            ..SPEC
        };
        let mut dram = Dram::new(&spec);
        let requests = traffic(&mut random, 300, 100 / u64::from(spec.banks) * (1 + round % 3));
        for &(at, row, request) in &requests {
            // Nearly in order: some come a little late.
            let at = at.saturating_sub(random.below(8) * random.below(8));
            dram.access(at, 0, random.below(u64::from(spec.banks)) as usize, row, request);
        }
        let banks = replay(dram);
        assert_eq!(banks.iter().map(Vec::len).sum::<usize>(), requests.len(), "each is done once");
        check(&spec, &banks);
    }
}

/// FR-FCFS as it is: when the bank is free, the oldest request to the open row, or the oldest of all.
fn first_ready(requests: &[(u64, u64, DramRequest)]) -> Vec<Served> {
    let mut waiting: Vec<(u64, &(u64, u64, DramRequest))> = (0..).zip(requests).collect();
    let (mut served, mut free, mut open) = (Vec::new(), 0, None);
    while !waiting.is_empty() {
        // A scheduler that finds nothing takes what comes; else it knows of what came before.
        let known = |&&(_, &(at, ..)): &&(u64, &(u64, u64, DramRequest))| at < free;
        let count = waiting.iter().filter(known).count().max(1);
        let hit = waiting[..count].iter().position(|&(_, &(_, row, _))| open == Some(row));
        let (number, &(at, row, request)) = waiting.remove(hit.unwrap_or(0));
        let start_ps = free.max(at);
        let opening = match open {
            Some(open) if open == row => 0,
            Some(_) => 76,
            None => 56,
        };
        let column = match request {
            Line => 11,
            Hit => 16,
            Miss => 4,
            Page => 515,
            Status => 4,
        };
        (free, open) = (start_ps + opening + column, Some(row));
        served.push(Served { number, row, start_ps, end_ps: free });
    }
    served
}

#[test]
fn a_bank_serves_in_the_order_and_at_the_times_of_a_first_ready_scheduler() {
    let mut random = SplitMix64::new(5);
    let (mut overtaken, mut in_order) = (0, 0);
    for round in 0..2_000 {
        let requests = traffic(&mut random, 40, 40 << (round % 5));
        let mut dram = Dram::new(&SPEC);
        let told: Vec<u64> =
            requests.iter().map(|&(at, row, request)| dram.access(at, 0, 0, row, request)).collect();
        let counts = dram.counts();
        let done = replay(dram).remove(0);
        let expected = first_ready(&requests);
        assert_eq!(done.iter().map(served).collect::<Vec<_>>(), expected, "round {round}");
        // What was told is what happens, but for the time of those that came later and went first.
        let answer = |request| match request {
            Line | Hit => 1,
            Miss => 2,
            Page | Status => 0,
        };
        let early: u64 =
            done.iter().map(|one| one.plan.end_ps + answer(one.request) - told[one.number as usize]).sum();
        assert_eq!(early, counts.early_ps, "round {round}");
        overtaken += counts.overtaken;
        in_order += u64::from(counts.overtaken == 0);
    }
    assert!(overtaken > 1_000 && in_order > 100, "both kinds of rounds: {overtaken}, {in_order}");
}

#[test]
fn no_request_is_overtaken_more_often_than_allowed() {
    let mut random = SplitMix64::new(6);
    for limit in [0, 1, 3, 8] {
        let mut most = 0;
        for _ in 0..200 {
            let mut dram = Dram::new(&DramSpec { overtakes: limit, ..SPEC });
            for &(at, row, request) in &traffic(&mut random, 100, 30) {
                dram.access(at, 0, 0, row, request);
            }
            let done = replay(dram).remove(0);
            for (place, one) in done.iter().enumerate() {
                let passed = done[..place].iter().filter(|other| other.number > one.number).count();
                assert!(passed <= limit as usize, "{one:?} was overtaken {passed} times");
                assert_eq!(passed as u32, one.overtaken);
                most = most.max(passed);
            }
        }
        assert_eq!(most, limit as usize, "the limit is reached");
    }
}

/// A schedule holds what has not finished, and nothing else.
#[test]
fn memory_is_bounded_by_what_is_under_way() {
    let mut dram = Dram::new(&DramSpec { banks: 4, ..SPEC });
    let mut random = SplitMix64::new(2);
    for now in 0..20_000 {
        dram.access(now * 60, 0, random.below(4) as usize, random.below(8), Hit);
        assert!(dram.banks.iter().all(|bank| bank.planned() < 30));
    }
}

/// Backside controllers run ahead of cores, by far if they are overloaded; then requests come from before the channel's time.
#[test]
fn requests_from_before_the_last_one_find_their_places() {
    for seed in 0..600 {
        let mut random = SplitMix64::new(seed);
        let spec = DramSpec {
            banks: 4,
            overtakes: 16,
            precharge_ps: 20 * random.below(2),
            tags: TagSpec { columns: 1 + random.below(2) as u32, ..SPEC.tags },
            ..SPEC
        };
        let mut dram = Dram::new(&spec);
        let (mut now, step, ahead) = (10_000, 1 + random.below(400), 1 + random.below(30_000));
        for _ in 0..600 {
            now += random.below(step);
            let at = now + if random.below(3) == 0 { random.below(ahead) } else { 0 };
            let request = ALL[random.below(5) as usize];
            let done = dram.access(at, 0, random.below(4) as usize, random.below(3), request);
            assert!(done > at);
        }
    }
}
