//! When things happen, against sums of what they are made of.

use pagewalk_vm::sched::Ticket;
use pagewalk_vm::tier::{MissStatusShape, TierDesign};

use super::*;
use crate::spec::settings::{Distribution, FlashSpec, FlashTimes, HardwareManager, KernelManager, TagSpec};

const COMMAND: u64 = 500;
const RAS: u64 = 27_500;
const CAS: u64 = 1_500;
const BURST: u64 = 500;
const COMPARE: u64 = 500;
const BACKSIDE: u64 = 1_500;
const READ: u64 = 50_000_000;
const WRITE: u64 = 100_000_000;

/// The paper's times (Table I and section V-A at 2 GHz) and a small cache: one controller, 8 sets of 2 pages.
fn memory(queue: u32, by_kernel: bool) -> TieredMemory {
    let dram = DramSpec {
        channels: 1,
        banks: 16,
        row_bytes: 16 << 10,
        ras_ps: RAS,
        cas_ps: CAS,
        burst_ps: BURST,
        precharge_ps: 0,
        command_ps: COMMAND,
        tags: TagSpec { columns: 1, compare_ps: COMPARE },
        overtakes: 16,
    };
    let flash = FlashSpec {
        pages: 1 << 20,
        planes: 4,
        channels: 2,
        writes_waiting: 64,
        garbage: None,
        latency: Distribution::Fixed,
        seed: 0,
        times: FlashTimes {
            read_ps: READ,
            plane_read_ps: 0,
            write_ps: WRITE,
            plane_write_ps: 0,
            channel_page_ps: 0,
            bus_page_ps: 0,
        },
    };
    let hardware =
        HardwareManager { sets: 4, ways: 4, queue, columns: 1, compare_ps: 0, command_ps: BACKSIDE };
    let manager = if by_kernel { KernelManager { interrupt_ps: 0 }.into() } else { hardware.into() };
    let design = TierDesign {
        sets: 8,
        ways: 2,
        index_shift: 0,
        miss_status: MissStatusShape { sets: 4, ways: 4 },
        evict_buffer: 4,
        queue,
        ..TierDesign::default()
    };
    let spec = TierSpec { design, tables_in_dram: true, switches: true, manager, flash };
    TieredMemory::new(&dram, &spec)
}

fn waiter(core: u32) -> Waiter {
    Waiter { core, ticket: Ticket { place: 0, run: 0 } }
}

fn switching(core: u32) -> Requester {
    Requester { waiter: waiter(core), must_complete: false, granted: None }
}

fn page(number: u64) -> PhysAddr {
    PhysAddr(number << 12)
}

/// Everything that happens, in order.
fn drain(memory: &mut TieredMemory) -> Vec<(u64, Woken)> {
    std::iter::from_fn(|| memory.advance(u64::MAX - 1)).collect()
}

const TAG_CHECK: u64 = COMMAND + RAS + COMMAND + CAS + COMPARE;

#[test]
fn a_hit_opens_its_row_reads_tags_and_then_the_line() {
    let mut memory = memory(4, false);
    memory.touch(FlashPage(3), false);
    let hit = TAG_CHECK + COMMAND + CAS + 7 * BURST + COMMAND;
    assert_eq!(memory.read(0, page(3), false, false, switching(0)), Ok(hit));
    // Its row is open now.
    let again = memory.read(1_000_000, page(3), false, false, switching(0)).unwrap();
    assert_eq!(again, 1_000_000 + hit - COMMAND - RAS);
    // A page table has no tags.
    let walk = memory.read(2_000_000, page(4), false, true, switching(0)).unwrap();
    assert_eq!(walk, 2_000_000 + COMMAND + RAS + COMMAND + CAS + 7 * BURST + COMMAND);
}

#[test]
fn a_miss_is_told_after_the_tag_check_and_its_page_is_there_after_flash() {
    let mut memory = memory(4, false);
    let missed = memory.read(0, page(3), false, false, switching(7)).unwrap_err();
    let told = TAG_CHECK + COMMAND;
    assert_eq!(missed, Missed { page: FlashPage(3), signal_ps: told, kind: MissKind::Away });
    // The miss-status row, a command to flash, the read; a command, and the page into its row.
    let asked = told + BACKSIDE + (COMMAND + RAS + COMMAND + CAS) + BACKSIDE;
    let installed = asked + READ + BACKSIDE + (COMMAND + CAS + 511 * BURST);
    let woken = Woken { waiter: waiter(7), is_synchronous: false, page: FlashPage(3) };
    let [(at_ps, who)] = drain(&mut memory)[..] else { panic!("one is woken") };
    assert_eq!(who, woken);
    // The status row may be the page's own bank's, or not.
    assert!(at_ps == installed || at_ps == installed + COMMAND + RAS, "{at_ps}, not {installed}");
    assert!(memory.read(at_ps, page(3), false, false, switching(7)).is_ok());
}

#[test]
fn misses_to_one_page_are_one_read_and_all_are_woken_at_once() {
    let mut memory = memory(16, false);
    for core in 0..5 {
        assert!(memory.read(u64::from(core) * 1_000_000, page(3), false, false, switching(core)).is_err());
    }
    let woken = drain(&mut memory);
    assert_eq!(woken.iter().map(|(_, woken)| woken.waiter.core).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(woken.iter().all(|(at_ps, _)| *at_ps == woken[0].0));
    assert_eq!(memory.flash.counts().reads, 1);
}

#[test]
fn the_frontside_stalls_exactly_while_the_queue_is_full() {
    let mut memory = memory(2, false);
    let kind = |result: Result<u64, Missed>| result.map_err(|missed| missed.kind);
    // The first is taken out by the backside at once, but not before time goes on.
    for (number, expected) in [(0, MissKind::Away), (1, MissKind::Away), (2, MissKind::Stalled)] {
        let core = number as u32;
        let answer = memory.read(0, page(number), false, false, switching(core));
        assert_eq!(kind(answer), Err(expected), "page {number}");
    }
    // With it stalls whatever else comes, a hit too.
    memory.touch_anyway(FlashPage(9));
    assert_eq!(kind(memory.read(10, page(9), false, false, switching(3))), Err(MissKind::Stalled));
    let (at_ps, first) = memory.advance(u64::MAX - 1).unwrap();
    let (_, second) = memory.advance(at_ps).unwrap();
    assert_eq!([first.waiter.core, second.waiter.core], [2, 3], "both try again when a miss is taken");
    assert!(at_ps < 1_000_000, "which is long before the page is there");
    assert_eq!(kind(memory.read(at_ps, page(2), false, false, switching(2))), Err(MissKind::Away));
    assert!(memory.read(at_ps, page(9), false, false, switching(3)).is_ok(), "nothing holds it up");
    assert_eq!(
        kind(memory.read(at_ps, page(4), false, false, switching(4))),
        Err(MissKind::Stalled),
        "full again"
    );
}

#[test]
fn a_synchronous_access_has_its_page_though_another_takes_the_frame() {
    let mut memory = memory(8, false);
    let who = Requester { must_complete: true, ..switching(0) };
    let missed = memory.read(0, page(8), true, false, who).unwrap_err();
    assert_eq!(missed.kind, MissKind::Synchronous);
    let (at_ps, woken) = memory.advance(u64::MAX - 1).unwrap();
    assert!(woken.is_synchronous);
    let granted = Requester { granted: Some(woken.page), ..who };
    assert_eq!(memory.read(at_ps, page(8), true, false, granted), Ok(at_ps));
    // It is dirty: two others in its set push it out, to flash.
    for (at_ps, number) in [(at_ps, 16), (at_ps + 1, 24)] {
        let other = memory.read(at_ps, page(number), false, false, switching(1));
        assert!(other.is_err());
    }
    drain(&mut memory);
    assert_eq!(memory.flash.counts().writes, 1);
}

#[test]
fn a_line_of_a_page_that_has_left_brings_it_back() {
    let mut memory = memory(8, false);
    memory.write_back(0, page(5));
    assert_eq!(drain(&mut memory), [], "and no core is woken");
    assert!(memory.read(1 << 40, page(5), false, false, switching(0)).is_ok());
    assert_eq!((memory.flash.counts().reads, memory.counts.orphans), (1, 1));
}

#[test]
fn a_kernel_hears_at_once_which_page_leaves_and_later_which_came() {
    let mut memory = memory(8, true);
    for number in [0, 8] {
        memory.touch(FlashPage(number), false);
    }
    assert!(memory.uses(FlashPage(8), true) && memory.uses(FlashPage(0), false));
    assert!(!memory.uses(FlashPage(16), false));
    memory.fetch(1_000, FlashPage(16), waiter(2));
    assert_eq!(memory.take_left(), [FlashPage(8)], "least recently used, dirty");
    let (at_ps, woken) = memory.advance(u64::MAX - 1).unwrap();
    assert_eq!((woken.waiter.core, memory.uses(FlashPage(16), false)), (2, true));
    assert!((READ..READ + 1_000_000).contains(&at_ps), "{at_ps}");
    drain(&mut memory);
    assert_eq!(memory.flash.counts().writes, 1);
}

impl TieredMemory {
    /// A page comes without time although others are pending.
    fn touch_anyway(&mut self, page: FlashPage) {
        let number = self.controller_of(page);
        let waiter = NO_WAITER;
        let completes = Completion::Later;
        let mut effects = Vec::new();
        let tier = &mut self.controllers[number].tier;
        tier.step(Event::Miss { page, waiter, completes }, &mut effects).unwrap();
        tier.step(Event::Arrived { page }, &mut effects).unwrap();
    }
}
