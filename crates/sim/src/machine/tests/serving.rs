//! Machines that serve jobs: against sums, against queues, and against what may never happen.

use pagewalk_vm::addr::PhysAddr;
use pagewalk_vm::sched::{Notification, Policy, Ticket};

use super::*;
use crate::metrics::KernelStep;
use crate::queueing::Servers;
use crate::spec::settings::{KernelManager, TierSpec};
use crate::time::{CoreTime, Requester, TierTime, Waiter};

/// Microseconds in the machines' picoseconds.
const US: u64 = 1_000_000;
/// An instruction takes so long: 2 GHz, 4 at once.
const INSTRUCTION_PS: u64 = 125;

type Timed = Machine<Plain, IntervalClock>;

/// One of the shipped machines, with a smaller cache and fewer cores; a mesh holds as many as it has tiles.
fn smaller(name: &str, cores: u32, sets: u32) -> MachineSpec {
    let mut spec = spec(name);
    spec.core.count = cores;
    spec.hierarchy.mesh = None;
    if let Some(TierSpec { design, .. }) = &mut spec.tier {
        (design.sets, design.ways) = (sets, 4);
    }
    spec
}

fn timed(spec: &MachineSpec) -> Timed {
    machine(spec, 1, &announced()).unwrap()
}

fn phase_value(result: &RunResult, phase: &str, stage: &str, metric: &str) -> f64 {
    let mut rows = result.metrics.iter();
    let row = rows.find(|m| m.stage == stage && m.metric == metric && m.phase.as_deref() == Some(phase));
    row.and_then(|row| row.value).unwrap_or_else(|| panic!("no {stage} {metric} in {phase}")).as_f64()
}

/// A job: accesses to these pages, each after so much work.
fn job(batch: &mut Batch, arrival_ps: Option<u64>, pages: &[(u64, bool)], work_ps: u64) {
    batch.mark(Event::JobBegin { arrival_ps });
    batch.mark(Event::Instructions(work_ps * pages.len() as u64 / INSTRUCTION_PS));
    for &(page, write) in pages {
        batch.push(Access::new(VirtAddr(BASE + page * PAGE), 8, write));
    }
    batch.mark(Event::JobEnd);
}

const PAGE: u64 = 4_096;
/// All pages that tests use.
const PAGES: u64 = 1 << 16;

/// A server with its memory mapped, and pages `0..warm` in DRAM.
fn server(spec: &MachineSpec, warm: u64) -> Timed {
    let mut machine = timed(spec);
    let mut batch = Batch::new();
    map(&mut batch, BASE, PAGES * PAGE);
    (0..warm).for_each(|page| batch.push(Access::load(VirtAddr(BASE + page * PAGE), 8)));
    machine.batch(&batch).unwrap();
    machine
}

/// Serves jobs of random pages until all are done.
fn serve(machine: &mut Timed, jobs: u64, seed: u64, accesses: usize, work_ps: u64, writes: u64) -> RunResult {
    let mut random = Random(seed);
    for at in (0..jobs).step_by(100) {
        let mut batch = Batch::new();
        if at == 0 {
            batch.mark(Event::Phase("serve".into()));
        }
        for _ in at..jobs.min(at + 100) {
            let pages: Vec<_> =
                (0..accesses).map(|_| (random.below(PAGES), random.below(100) < writes)).collect();
            job(&mut batch, None, &pages, work_ps);
        }
        machine.batch(&batch).unwrap();
    }
    machine.end().unwrap();
    machine.finish("jobs")
}

#[test]
fn a_core_that_waits_for_flash_is_as_fast_as_the_sum_says() {
    // Hardly a page comes twice: every access waits.
    let mut machine = server(&smaller("flash-sync", 4, 16), 0);
    let result = serve(&mut machine, 4_000, 3, 1, 10 * US, 0);
    let misses = value(&result, "tier", "misses");
    assert!(misses > 3_850, "{misses}");
    let elapsed = phase_value(&result, "serve", "time", "elapsed");
    // Work; and for each miss flash, and less than a microsecond for all that goes there and back.
    let each = (elapsed * 4.0 / US as f64 - 40_000.0) / misses as f64;
    assert!((50.0..51.0).contains(&each), "{each} us a miss");
    assert_eq!(value(&result, "jobs", "finished"), 4_000);
}

#[test]
fn a_core_that_goes_over_to_other_jobs_loses_no_more_than_the_switches() {
    let spec = smaller("astriflash", 4, 16);
    let switch_ps = spec.threads.as_ref().unwrap().switch_ps;
    let mut machine = server(&spec, 0);
    let result = serve(&mut machine, 8_000, 3, 1, 10 * US, 0);
    let elapsed = phase_value(&result, "serve", "time", "elapsed");
    let each = elapsed * 4.0 / 8_000.0 / US as f64;
    assert!((10.1..10.8).contains(&each), "{each} us a job");
    // Away at the miss, and back where a job was not gone over to at another's miss.
    let switches = value(&result, "time", "fault.switch") as f64 / switch_ps as f64;
    let misses = value(&result, "jobs", "misses") as f64;
    assert!((misses..=2.0 * misses).contains(&switches), "{switches} switches for {misses} misses");
}

#[test]
fn kernels_pay_for_every_page_and_every_other_core() {
    let mut spec = smaller("os-swap", 4, 16);
    spec.tier.as_mut().unwrap().manager = KernelManager { interrupt_ps: US }.into();
    let paging = spec.kernel.paging.clone();
    let mut machine = server(&spec, 256);
    let result = serve(&mut machine, 4_000, 3, 1, 10 * US, 50);
    let left = value(&result, "tier", "clean-evictions") + value(&result, "tier", "dirty-evictions");
    assert_eq!(value(&result, "kernel", "shootdowns"), left);
    assert_eq!(value(&result, "time", "fault.evict"), left * paging.evict_ps);
    let misses = value(&result, "fault", "major");
    assert_eq!(misses, value(&result, "jobs", "misses"));
    assert_eq!(value(&result, "time", "fault.trap"), misses * paging.trap_ps);
    assert_eq!(value(&result, "time", "fault.book"), misses * paging.book_ps);
    let interrupted = value(&result, "time", "fault.shootdown") as f64 / (left * 3 * US) as f64;
    assert!((0.98..=1.0).contains(&interrupted), "three cores notice each shootdown: {interrupted}");
}

#[test]
fn every_job_is_served_once_by_every_machine_whatever_stands_in_its_way() {
    for name in [
        "flash-dram-only",
        "astriflash",
        "astriflash-ideal",
        "astriflash-fifo",
        "astriflash-age",
        "astriflash-no-partition",
        "flash-sync",
        "os-swap",
    ] {
        // 128 pages for 65,536; an evict buffer and a queue that are nearly always full.
        let mut spec = smaller(name, 4, 8);
        if let Some(tier) = &mut spec.tier {
            (tier.design.evict_buffer, tier.design.queue) = (2, 2);
            tier.design.miss_status.sets = 2;
            tier.design.miss_status.ways = 2;
        }
        let run = || {
            let mut machine = server(&spec, 128);
            serve(&mut machine, 3_000, 7, 4, 200_000, 60)
        };
        let result = run();
        assert_eq!(value(&result, "jobs", "finished"), 3_000, "{name}");
        assert_eq!(value(&result, "program", "accesses"), 12_000, "{name}");
        assert_eq!(result.metrics, run().metrics, "{name} is deterministic");
        if spec.tier.is_some() {
            let moved = value(&result, "tier", "pages-in") + value(&result, "tier", "restores");
            assert!(moved > 6_000, "{name}: {moved} pages came");
            assert_eq!(value(&result, "flash", "reads"), value(&result, "tier", "pages-in"), "{name}");
        }
    }
}

/// More threads than ways, all in one set: without the forward-progress bit none would have to get on.
#[test]
fn every_core_thrashing_one_set_comes_to_an_end() {
    for notification in [Notification::Arrival, Notification::Age] {
        let mut spec = smaller("astriflash", 8, 1);
        spec.threads.as_mut().unwrap().design.notification = notification;
        let mut machine = server(&spec, 0);
        let mut batch = Batch::new();
        for number in 0..400u64 {
            // Of one controller, and that has one set.
            let pages: Vec<_> = (0..3).map(|at| (4 * ((number * 3 + at) % 4_000), true)).collect();
            job(&mut batch, None, &pages, 10_000);
        }
        machine.batch(&batch).unwrap();
        machine.end().unwrap();
        let result = machine.finish("thrash");
        assert_eq!(value(&result, "jobs", "finished"), 400);
        assert!(value(&result, "tier", "blocked-by-ways") > 0);
    }
}

#[test]
fn priority_spares_waiting_jobs_what_the_order_of_arrival_costs_them() {
    let p99 = |policy| {
        let mut spec = smaller("astriflash", 2, 256);
        spec.threads.as_mut().unwrap().design.policy = policy;
        let mut machine = server(&spec, 1);
        let (mut batch, mut random) = (Batch::new(), Random(77));
        for number in 0..10_000 {
            // One in five needs flash.
            let page = if random.below(5) == 0 { 1 + number } else { 0 };
            job(&mut batch, None, &[(page, false)], 10 * US);
        }
        machine.batch(&batch).unwrap();
        machine.end().unwrap();
        let result = machine.finish("jobs");
        let p99 = result.metrics.iter().find(|m| m.metric == "service.p99" && m.phase.is_none()).unwrap();
        p99.value.unwrap().as_f64()
    };
    let (priority, fifo) = (p99(Policy::Priority), p99(Policy::Fifo));
    assert!(priority < 81_000.0, "the page, and the rest of another's job: {priority} ns");
    assert!(fifo > 3.0 * priority, "{fifo} ns");
}

/// Jobs of fixed length at random times on one core: M/D/1, whose mean wait is half of M/M/1's.
#[test]
fn jobs_that_arrive_at_random_wait_as_queues_do() {
    const JOBS: u64 = 60_000;
    for load in [0.3f64, 0.7] {
        let mut machine = server(&smaller("flash-dram-only", 1, 16), 0);
        let (mut random, mut now_ps) = (pagewalk_vm::random::SplitMix64::new(11), 0.0);
        for _ in 0..JOBS / 100 {
            let mut batch = Batch::new();
            for _ in 0..100 {
                now_ps -= (10 * US) as f64 / load * (1.0 - random.unit()).ln();
                job(&mut batch, Some(now_ps as u64), &[(1, false)], 10 * US);
            }
            machine.batch(&batch).unwrap();
        }
        machine.end().unwrap();
        let result = machine.finish("queue");
        let of = |name: &str| {
            let mut rows = result.metrics.iter();
            let row = rows.find(|m| m.metric == name && m.phase.is_none()).unwrap();
            row.value.unwrap().as_f64()
        };
        let wait = (of("response.mean") - of("service.mean")) / 10_000.0;
        let server = Servers { count: 1, service: 10.0 };
        let expected = server.waits(load / 10.0) / (1.0 - load) / 2.0;
        assert!((wait / expected - 1.0).abs() < 0.06, "at {load}: {wait}, not {expected}");
    }
}

#[test]
fn walks_wait_for_flash_only_without_a_partition() {
    let run = |name| {
        let mut machine = server(&smaller(name, 2, 1_024), PAGES / 4);
        serve(&mut machine, 3_000, 9, 2, 5 * US, 0)
    };
    let (with, without) = (run("astriflash"), run("astriflash-no-partition"));
    assert_eq!(value(&with, "tier", "walk-misses"), 0);
    let misses = value(&without, "tier", "walk-misses");
    // 128 leaf tables, and few above.
    assert!((100..2_000).contains(&misses), "{misses}");
    assert_eq!(value(&without, "jobs", "finished"), 3_000);
}

#[test]
fn every_thread_has_a_stack_of_its_own() {
    let stack = VirtRange::sized(VirtAddr(0x7000_0000_0000), 2 * PAGE);
    let pages_used = |name| {
        let mut machine = server(&smaller(name, 1, 16), 0);
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping::anonymous(stack)));
        batch.mark(Event::ThreadStack(stack));
        for number in 0..50u64 {
            batch.mark(Event::JobBegin { arrival_ps: None });
            batch.push(Access::store(stack.start.add(64), 8));
            batch.push(Access::load(VirtAddr(BASE + number * PAGE), 8));
            batch.mark(Event::JobEnd);
        }
        machine.batch(&batch).unwrap();
        machine.end().unwrap();
        let result = machine.finish("stacks");
        value(&result, "frames", "resident") / PAGE - 50
    };
    assert_eq!(pages_used("flash-sync"), 1, "one thread does it all");
    assert!(pages_used("astriflash") > 20, "while some wait, others have theirs");
}

#[test]
fn a_source_without_jobs_is_refused() {
    let mut machine = server(&smaller("astriflash", 1, 16), 8);
    let error = machine.end().unwrap_err().to_string();
    assert!(error.contains("serves jobs, and the source has none"), "{error}");
}

#[test]
fn a_program_without_jobs_waits_for_flash_on_a_machine_without_threads() {
    let mut spec = smaller("flash-sync", 1, 16);
    spec.threads = None;
    let mut machine = timed(&spec);
    let mut batch = Batch::new();
    map(&mut batch, BASE, PAGES * PAGE);
    (0..1_000).for_each(|page| batch.push(Access::store(VirtAddr(BASE + page * PAGE), 8)));
    machine.batch(&batch).unwrap();
    let result = machine.finish("program");
    assert_eq!(value(&result, "tier", "misses"), 1_000);
    let each = value(&result, "time", "elapsed") as f64 / 1_000.0 / US as f64;
    assert!((50.0..53.0).contains(&each), "{each} us a page");
    assert!(value(&result, "flash", "writes") > 700);
}

/// Walks that wait for a walker, and reads that wait for a register, wait for a busy bank once.
#[test]
fn waiting_for_memory_does_not_count_twice() {
    for (walkers, registers) in [(1, 64), (64, 2)] {
        let mut spec = smaller("flash-dram-only", 1, 16);
        let dram = spec.hierarchy.memory.dram.as_mut().unwrap();
        // One bank for all, far too slow; a window holds all of a job's accesses.
        (dram.channels, dram.banks, dram.ras_ps, dram.cas_ps) = (1, 1, US / 2, US / 2);
        (spec.core.window, spec.core.outstanding, spec.translation.walker.count) =
            (1_024, registers, walkers);
        // No page is new: a fault would wait for all that is in flight.
        let mut machine = server(&spec, PAGES);
        let requests = value(&machine.finish("warm"), "dram", "requests");
        let result = serve(&mut machine, 300, 21, 40, INSTRUCTION_PS, 0);
        let elapsed = phase_value(&result, "serve", "time", "elapsed");
        let each = elapsed / (value(&result, "dram", "requests") - requests) as f64 / US as f64;
        assert!((0.9..1.1).contains(&each), "{walkers} walkers: {each} us a request that takes one");
    }
}

/// The first store to a page may hit in the TLB, behind a load.
#[test]
fn a_kernel_writes_pages_that_were_read_before_they_were_written() {
    let mut machine = server(&smaller("os-swap", 1, 16), 0);
    let mut batch = Batch::new();
    for page in 0..1_000 {
        job(&mut batch, None, &[(page, false), (page, true)], 1_000);
    }
    machine.batch(&batch).unwrap();
    machine.end().unwrap();
    let result = machine.finish("load, then store");
    assert_eq!(value(&result, "tier", "clean-evictions"), 0);
    assert!(value(&result, "tier", "dirty-evictions") > 700);
}

/// A load that hits, behind which a miss is heard of at once.
#[test]
fn a_core_switches_when_everything_older_has_retired() {
    let mut machine = server(&smaller("astriflash", 1, 16), 16);
    let busy = (0..1 << 12).map(|frame| PhysAddr(frame * PAGE));
    let hit = busy.into_iter().any(|addr| {
        machine.engine.clock.begin(0);
        let hit = machine.engine.clock.data(0, (VirtAddr(0), addr), false).is_none();
        hit && machine.engine.clock.retired(0) > machine.engine.clock.time(0)
    });
    assert!(hit, "one of the pages that were prepared is in DRAM, and takes its time");
    let retired_ps = machine.engine.clock.retired(0);
    machine.engine.clock.wait(0, KernelStep::Miss, 0);
    assert_eq!(machine.engine.clock.time(0), retired_ps, "whenever it heard of the miss");
}

#[test]
fn a_store_that_missed_and_was_not_made_again_leaves_no_trace() {
    let addr = PhysAddr(60_000 * PAGE);
    let writes = |store: &mut dyn FnMut(&mut Timed)| {
        let mut machine = server(&smaller("astriflash", 1, 64), 0);
        let waiter = Waiter { core: 0, ticket: Ticket { place: 0, run: 0 } };
        machine.engine.clock.request_as(0, Requester { waiter, must_complete: false, granted: None });
        store(&mut machine);
        let result = serve(&mut machine, 20_000, 7, 4, 1_000, 0);
        value(&result, "memory", "writes") + value(&result, "tier", "dirty-evictions")
    };
    let arrive = |machine: &mut Timed| {
        while machine.engine.clock.memory_next_ps() < u64::MAX {
            let _ = machine.engine.clock.memory_advance(machine.engine.clock.memory_next_ps());
        }
    };
    let none = writes(&mut |_| {});
    let aborted = writes(&mut |machine| {
        machine.engine.clock.begin(0);
        assert!(machine.engine.clock.data(0, (VirtAddr(0), addr), true).is_some(), "it misses");
        arrive(machine);
    });
    let made = writes(&mut |machine| {
        machine.engine.clock.begin(0);
        assert!(machine.engine.clock.data(0, (VirtAddr(0), addr), true).is_some());
        arrive(machine);
        machine.engine.clock.begin_again(0);
        assert!(machine.engine.clock.data(0, (VirtAddr(0), addr), true).is_none(), "made again, it hits");
    });
    assert_eq!(aborted, none);
    assert!(made > none, "{made}: a store that was made is written back");
}
