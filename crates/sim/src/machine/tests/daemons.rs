//! Tests of what happens at the same time: daemons (what they learn, spare the program and cost), and cores.

use pagewalk_vm::addr::PAGE_BYTES;

use super::paging::{accelerated, check_frames, small};
use super::*;
use crate::spec::settings::{AcceleratorDaemonSpec, AcceleratorSpec};

type Timed = Machine<Plain, IntervalClock>;

const PAGES: u64 = 4 * 2_048;
/// Between two fetches, nearly.
const WORK_PS: u64 = 300_000_000;

/// The thesis' machine with the constants of the thesis' daemon, or without it.
fn machine_with(daemon: bool, shares_core: bool) -> MachineSpec {
    let daemon = daemon.then_some(AcceleratorDaemonSpec {
        first_ps: 10_000_000_000,
        longer_ps: 100_000_000,
        shorter_ps: 1_000_000_000,
        least_ps: 5_000_000_000,
        most_ps: 100_000_000_000_000,
        slack_ps: 10_000_000_000,
    });
    let mut spec = accelerated(small("rocket-accelerator"));
    spec.kernel.daemons_share_core = shares_core;
    spec.paging.accelerator = spec.paging.accelerator.map(|of| AcceleratorSpec { daemon, ..of });
    spec
}

/// All pages once, and then `touches` more in the same order: each is a fetch, after so much work.
fn steady(machine: &mut Timed, touches: u64) {
    let mut first = Batch::new();
    map(&mut first, BASE, PAGES * PAGE_BYTES);
    (0..PAGES).for_each(|page| first.push(Access::store(VirtAddr(BASE + page * PAGE_BYTES), 8)));
    machine.batch(&first).unwrap();
    touch(machine, 0, touches);
}

fn touch(machine: &mut Timed, first: u64, touches: u64) {
    let cycle_ps = machine.spec.core.cycle_ps;
    for number in first..first + touches {
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(WORK_PS / cycle_ps));
        batch.push(Access::load(VirtAddr(BASE + number % PAGES * PAGE_BYTES), 8));
        machine.batch(&batch).unwrap();
    }
}

fn timed(spec: &MachineSpec) -> Timed {
    machine(spec, 1, &announced()).unwrap()
}

#[test]
fn the_accelerators_daemon_learns_how_long_the_queues_last_and_backs_off_when_idle() {
    let mut machine = timed(&machine_with(true, false));
    steady(&mut machine, 60_000);
    let before = machine.finish("s");
    touch(&mut machine, 60_000, 30_000);
    let result = machine.finish("s");
    let gained = |metric: &str| value(&result, "accelerator", metric) - value(&before, "accelerator", metric);
    assert_eq!(gained("fetches"), 30_000);
    let (runs, services) = (gained("daemon-runs"), gained("service-faults"));
    assert!(services * 8 < runs && services > 0, "{services} faults beside {runs} runs");
    // A fetch and the work before it, 64 times.
    let elapsed = value(&result, "time", "elapsed") - value(&before, "time", "elapsed");
    let full_ps = 64 * elapsed / 30_000;
    let sleep = value(&result, "accelerator", "daemon-sleep") as f64 / full_ps as f64;
    assert!((0.85..1.01).contains(&sleep), "it sleeps for {sleep} of the time in which the queues fill");

    let mut idle = Batch::new();
    idle.mark(Event::Instructions(100_000_000_000_000 / machine.spec.core.cycle_ps));
    machine.batch(&idle).unwrap();
    touch(&mut machine, 0, 1);
    let after = machine.finish("s");
    assert!(
        value(&after, "accelerator", "daemon-sleep") > 5 * value(&result, "accelerator", "daemon-sleep"),
        "100 s without work"
    );
    assert!(
        value(&after, "accelerator", "service-faults") <= value(&result, "accelerator", "service-faults") + 1
    );
}

#[test]
fn a_daemon_on_its_own_core_spares_the_program_nearly_all_interruptions() {
    let run = |daemon, shares_core| {
        let mut machine = timed(&machine_with(daemon, shares_core));
        steady(&mut machine, 40_000);
        check_frames(&mut machine);
        machine.finish("s")
    };
    let (without, beside, between) = (run(false, false), run(true, false), run(true, true));
    let services = |result: &RunResult| value(result, "accelerator", "service-faults");
    // Before the daemon has learned, and as often as it has to learn again.
    assert!(services(&beside) * 5 < services(&without), "{} of {}", services(&beside), services(&without));
    let fault = |result: &RunResult| value(result, "time", "fault") as f64;
    assert!(fault(&beside) < 0.75 * fault(&without), "{} of {}", fault(&beside), fault(&without));
    // Where it takes the program's time, it costs its switches and spares the traps.
    let ratio = fault(&between) / fault(&without);
    assert!((0.97..1.02).contains(&ratio), "busy cores: {ratio}");
    assert_eq!(value(&without, "time", "daemons"), 0);
    assert!(value(&beside, "time", "daemons") > 0);
}

#[test]
fn pages_are_booked_before_their_mapping_changes_and_remote_ones_get_its_new_permissions() {
    let mut machine = timed(&machine_with(false, false));
    steady(&mut machine, 10);
    let address = |page: u64| VirtAddr(BASE + page * PAGE_BYTES);
    let refused = |machine: &Timed| value(&machine.finish("s"), "fault", "protection");
    let drains = |machine: &Timed| value(&machine.finish("s"), "accelerator", "early-drains");
    let change = |machine: &mut Timed, pages: std::ops::Range<u64>, protection: Protection| {
        let mut batch = Batch::new();
        let range = VirtRange::sized(address(pages.start), (pages.end - pages.start) * PAGE_BYTES);
        batch.mark(Event::Protect(range, protection));
        machine.batch(&batch).unwrap();
    };
    let read_only = Protection { write: false, ..Protection::READ_WRITE };
    // Pages 0 to 9 have come and are not booked; the others of the first half are remote.
    change(&mut machine, 100..200, read_only);
    assert_eq!(drains(&machine), 0, "no page of that range has come");
    change(&mut machine, 5..20, read_only);
    assert_eq!(drains(&machine), 1);
    change(&mut machine, 0..20, read_only);
    assert_eq!(drains(&machine), 1, "all are booked");
    let mut stores = Batch::new();
    (0..20).chain(100..110).for_each(|page| stores.push(Access::store(address(page), 8)));
    machine.batch(&stores).unwrap();
    assert_eq!(refused(&machine), 30);
    let fetched = value(&machine.finish("s"), "accelerator", "fetches");
    assert_eq!(fetched, 10 + 10 + 10, "a page without the permission is fetched all the same");
    // Given back while some are remote, some are here and some are not booked.
    change(&mut machine, 0..200, Protection::READ_WRITE);
    machine.batch(&stores).unwrap();
    assert_eq!((refused(&machine), drains(&machine)), (30, 2));
    let mut end = Batch::new();
    end.mark(Event::Unmap(VirtRange::sized(address(0), PAGES * PAGE_BYTES)));
    machine.batch(&end).unwrap();
    check_frames(&mut machine);
    assert_eq!((machine.state().counts.resident.pages[0], machine.state().swap.space.used()), (0, 0));
}

#[test]
fn background_reclaim_keeps_the_program_from_waiting_for_room() {
    let run = |percent: u32, shares_core: bool| {
        let mut spec = small("linux-swap");
        spec.paging.background_percent = percent;
        spec.kernel.daemons_share_core = shares_core;
        let mut machine = timed(&spec);
        let mut batch = Batch::new();
        map(&mut batch, BASE, PAGES * PAGE_BYTES);
        for number in 0..3 * PAGES {
            batch.mark(Event::Instructions(60_000));
            batch.push(Access::store(VirtAddr(BASE + number % PAGES * PAGE_BYTES), 8));
        }
        machine.batch(&batch).unwrap();
        check_frames(&mut machine);
        machine.finish("s")
    };
    let (direct, beside, between) = (run(0, false), run(10, false), run(10, true));
    let time = |result: &RunResult, step: &str| value(result, "time", step);
    let ahead = |result: &RunResult| value(result, "reclaim", "ahead");
    assert_eq!(ahead(&direct), 0);
    assert!(ahead(&beside) > 3 * PAGES / 2, "{}", ahead(&beside));
    assert!(time(&beside, "fault.evict") * 10 < time(&direct, "fault.evict"), "the daemon lets pages leave");
    assert!(time(&beside, "daemons") > 0 && time(&direct, "daemons") == 0);
    assert!(time(&beside, "elapsed") < time(&direct, "elapsed"));
    assert!(time(&between, "elapsed") > time(&beside, "elapsed"), "the program pays");
}

#[test]
fn pages_that_were_read_ahead_are_found_in_memory() {
    let run = |readahead: u32| {
        let mut spec = small("linux-swap");
        spec.paging.swap.readahead = readahead;
        let mut machine = timed(&spec);
        let mut batch = Batch::new();
        map(&mut batch, BASE, PAGES * PAGE_BYTES);
        (0..2 * PAGES).for_each(|number| {
            batch.push(Access::store(VirtAddr(BASE + number % PAGES * PAGE_BYTES), 8));
        });
        machine.batch(&batch).unwrap();
        check_frames(&mut machine);
        machine.finish("s")
    };
    let (without, with) = (run(1), run(8));
    let major = |result: &RunResult| value(result, "fault", "major");
    assert_eq!(major(&without) + value(&without, "fault", "swap-cache"), PAGES);
    assert!(major(&with) * 7 < major(&without), "in order, seven of eight were read ahead: {}", major(&with));
    assert_eq!(value(&with, "swap", "read-ahead-unused"), 0);
    assert!(value(&with, "time", "swap-wait") * 3 < value(&without, "time", "swap-wait"));
}

/// Four threads with pages of their own, on four cores, in front of a device for many. Each thread does so many pages at a time; all that
/// is one batch, or each run is one.
fn four_threads(order: &[u32], run: usize, in_one_batch: bool) -> RunResult {
    let mut spec = small("linux-swap");
    spec.core.count = 4;
    spec.paging.swap = super::spec("rocket-swap").paging.swap;
    let mut machine = timed(&spec);
    let address = |thread: u32, page: u64| VirtAddr(BASE + (u64::from(thread) * 1_024 + page) * PAGE_BYTES);
    let mut first = Batch::new();
    map(&mut first, BASE, 4 * 1_024 * PAGE_BYTES);
    (0..4).for_each(|thread| (0..1_024).for_each(|page| first.push(Access::store(address(thread, page), 8))));
    machine.batch(&first).unwrap();
    cross(&mut machine.engine, &mut machine.phases, &Boundary::Phase("touch".into()));
    let mut batch = Batch::new();
    // All are there before the first of them goes on.
    order.iter().for_each(|&thread| batch.mark(Event::Thread(ThreadId(thread))));
    for begin in (0..512).step_by(run) {
        for &thread in order {
            batch.mark(Event::Thread(ThreadId(thread)));
            batch.mark(Event::Instructions(run as u64 * 10_000));
            (begin..begin + run).for_each(|page| batch.push(Access::load(address(thread, page as u64), 8)));
            if !in_one_batch {
                machine.batch(&std::mem::take(&mut batch)).unwrap();
            }
        }
    }
    machine.batch(&batch).unwrap();
    machine.end().unwrap();
    machine.finish("s")
}

#[test]
fn cores_go_on_in_order_of_time_whatever_the_order_of_their_threads_and_batches() {
    let elapsed = |result: &RunResult| {
        let row = result.metrics.iter().find(|row| {
            (&*row.stage, &*row.metric, row.phase.as_deref()) == ("time", "elapsed", Some("touch"))
        });
        row.and_then(|row| row.value).expect("it has a phase").as_f64()
    };
    let one_by_one = four_threads(&[0, 1, 2, 3], 1, true);
    for (order, run) in [([0, 1, 2, 3], 512), ([3, 1, 0, 2], 64), ([2, 3, 1, 0], 1)] {
        for in_one_batch in [true, false] {
            let other = four_threads(&order, run, in_one_batch);
            let ratio = elapsed(&other) / elapsed(&one_by_one);
            assert!((0.98..1.02).contains(&ratio), "{order:?} in runs of {run}, {in_one_batch}: {ratio}");
            assert_eq!(value(&other, "fault", "major"), value(&one_by_one, "fault", "major"));
        }
    }
    let alone = four_threads(&[1], 512, true);
    let ratio = elapsed(&one_by_one) / elapsed(&alone);
    assert!((1.0..1.3).contains(&ratio), "four cores share the blade: {ratio} of one's time");
}

/// Accesses of threads on two cores, each in a batch of its own; returns how many have been made behind each batch, and at the end.
fn made(most_held: usize, threads: &[(u32, u64)]) -> Vec<u64> {
    let mut machine = timed(&changed(super::spec("x86-64"), |spec| spec.core.count = 2));
    machine.turns.most_held = most_held;
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 20);
    // The second thread begins when the first has its page.
    batch.mark(Event::Thread(ThreadId(1)));
    batch.push(Access::load(VirtAddr(BASE), 8));
    batch.mark(Event::Thread(ThreadId(2)));
    machine.batch(&batch).unwrap();
    let before = machine.engine.mmu.accesses();
    let mut all = Vec::new();
    for &(thread, count) in threads {
        let mut batch = Batch::new();
        batch.mark(Event::Thread(ThreadId(thread)));
        (0..count).for_each(|_| batch.push(Access::load(VirtAddr(BASE), 8)));
        machine.batch(&batch).unwrap();
        all.push(machine.engine.mmu.accesses() - before);
    }
    machine.end().unwrap();
    all.push(machine.engine.mmu.accesses() - before);
    all
}

#[test]
fn a_core_waits_until_the_work_of_others_is_known_or_too_much_is_held() {
    let held = made(1_000, &[(1, 100), (2, 50), (1, 10)]);
    assert_eq!((held[0], held[1], held[3]), (0, held[2], 160));
    assert!((95..=105).contains(&held[1]), "both have made some 50: {held:?}");
    // The other is away until it has work again.
    assert_eq!(made(80, &[(1, 100), (1, 10), (2, 50), (1, 60), (1, 60)]), [100, 110, 160, 160, 280, 280]);
}
