//! The simulator beside a driver of virtual time that has nothing of it: the same scheduler and the same cache make the same
//! hits, evictions and decisions, at the same times.

use std::cell::RefCell;

use pagewalk_vm::random::SplitMix64;
use pagewalk_vm::sched::{Notification, Policy, SchedulerDesign};
use pagewalk_vm::table::{PageTable, WalkEnd, WalkOutcome};

use super::*;
use crate::spec::settings::HardwareManager;
use crate::witness;

#[allow(dead_code)] // Its other user has other wishes.
#[path = "../../../../vm/tests/virtual_time/driver.rs"]
mod driver;

const READ_NS: u64 = 50_021;
const WRITE_NS: u64 = 100_003;
const WORK_NS: u64 = 1_999;
const JOBS: u32 = 400;
const ACCESSES: u32 = 9;
const PAGES: u64 = 1_024;
const PAGE: u64 = 4_096;

thread_local! {
    /// Where the machine's pages are on flash.
    static PLACES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Three of four accesses go to the first eighth; a quarter write.
fn draw(random: &mut SplitMix64) -> (u64, bool) {
    let near = random.below(4) > 0;
    (random.below(if near { PAGES / 8 } else { PAGES }), random.below(4) == 0)
}

/// One core on which nothing takes time but work and flash.
fn bare(policy: Policy, notification: Notification) -> MachineSpec {
    let mut spec = spec("astriflash");
    spec.core = CoreSpec { count: 1, cycle_ps: 1_000, width: 1, window: 1, outstanding: 1, dataflow: None };
    (spec.translation.tlb, spec.translation.walk_cache, spec.hierarchy.caches, spec.hierarchy.mesh) =
        (Vec::new(), None, Vec::new(), None);
    spec.hierarchy.memory.latency_ps = 0;
    let dram = spec.hierarchy.memory.dram.as_mut().unwrap();
    (dram.ras_ps, dram.cas_ps, dram.burst_ps, dram.command_ps, dram.tags.compare_ps) = (0, 0, 0, 0, 0);
    let tier = spec.tier.as_mut().unwrap();
    let manager = tier.manager.settings::<HardwareManager>().expect("controllers manage it");
    tier.manager = HardwareManager { command_ps: 0, ..manager.clone() }.into();
    (tier.design.sets, tier.design.evict_buffer, tier.design.queue) = (16, 8, 16);
    tier.design.miss_status.sets = 4;
    tier.design.miss_status.ways = 4;
    let flash = &mut tier.flash;
    (flash.times.read_ps, flash.times.write_ps) = (READ_NS * 1_000, WRITE_NS * 1_000);
    (flash.times.channel_page_ps, flash.times.bus_page_ps) = (0, 0);
    let threads = spec.threads.as_mut().unwrap();
    (threads.switch_ps, threads.flush_ps, threads.per_core) = (0, 0, 16);
    threads.design = SchedulerDesign { policy, notification, ..SchedulerDesign::of_threads(16, 50_000_000) };
    spec
}

#[test]
fn the_simulator_makes_the_hits_evictions_and_decisions_of_a_driver_without_it() {
    for (policy, notification) in [
        (Policy::Priority, Notification::Arrival),
        (Policy::Priority, Notification::Age),
        (Policy::Fifo, Notification::Arrival),
        (Policy::Fifo, Notification::Age),
    ] {
        let spec = bare(policy, notification);
        let mut machine: Machine<Plain, IntervalClock> = machine(&spec, 1, &announced()).unwrap();
        let mut batch = Batch::new();
        map(&mut batch, BASE, PAGES * PAGE);
        (0..PAGES).for_each(|page| batch.push(Access::load(VirtAddr(BASE + page * PAGE), 8)));
        machine.batch(&batch).unwrap();
        let places: Vec<u64> = (0..PAGES)
            .map(|page| {
                let Kernel { state, tables, .. } = &machine.engine.kernel;
                let vpn = VirtAddr(BASE + page * PAGE).page();
                match tables.list[0].walk(&state.table_space.memory, state.processes[0].asid, vpn, None).end()
                {
                    WalkEnd::Leaf { leaf, .. } => leaf.frame.0,
                    WalkEnd::Empty { .. } => unreachable!("it was touched"),
                }
            })
            .collect();

        witness::begin();
        let mut batch = Batch::new();
        for job in 0..u64::from(JOBS) {
            batch.mark(Event::JobBegin { arrival_ps: None });
            for at in 0..u64::from(ACCESSES) {
                let mut random = SplitMix64::of_item(5, job * u64::from(ACCESSES) + at);
                let (page, write) = draw(&mut random);
                // Work comes after each access, the last one too.
                batch.mark(Event::Instructions(if at == 0 { 0 } else { WORK_NS }));
                batch.push(Access::new(VirtAddr(BASE + page * PAGE), 8, write));
            }
            batch.mark(Event::Instructions(WORK_NS));
            batch.mark(Event::JobEnd);
        }
        machine.batch(&batch).unwrap();
        machine.end().unwrap();
        let simulated = witness::end();

        PLACES.with_borrow_mut(|of| *of = places.clone());
        // Its unit is whatever it is given.
        let mut virtual_time = driver::Machine::new(driver::Setup {
            cores: 1,
            tier: spec.tier.as_ref().unwrap().design.clone(),
            scheduler: spec.threads.as_ref().unwrap().design,
            read_ns: READ_NS * 1_000,
            write_ns: WRITE_NS * 1_000,
            work_ns: WORK_NS * 1_000,
            jobs: JOBS,
            clients: JOBS,
            accesses: ACCESSES,
            access: |random, _| {
                let (page, write) = draw(random);
                (PLACES.with_borrow(|of| of[page as usize]), write)
            },
            seed: 5,
        });
        virtual_time.warm(places.into_iter());
        let (outcome, expected) = virtual_time.run();
        assert!(outcome.misses > 500 && outcome.hits > 1_000, "{outcome:?}");
        for (number, (ours, theirs)) in simulated.iter().zip(&expected).enumerate() {
            let before = number.saturating_sub(14);
            assert_eq!(
                ours,
                theirs,
                "event {number} with {policy:?}, {notification:?}: {:?}, not {:?}",
                &simulated[before..number + 2],
                &expected[before..number + 2]
            );
        }
        assert_eq!(simulated.len(), expected.len());
    }
}
