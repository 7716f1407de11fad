//! The kernel on a processor that writes down what it is told.

use std::sync::Arc;

use pagewalk_trace::{Event, Mapping, ProcessId, Protection};
use pagewalk_vm::addr::{Asid, PAGE_BYTES, PhysAddr, VirtAddr, VirtRange, Vpn};
use pagewalk_vm::frame::{BuddyAllocator, CrowdedMemory};
use pagewalk_vm::reclaim::{PagePool, Recency};
use pagewalk_vm::table::{Levels, Radix, X86_64};
use pagewalk_vm::tier::FlashPage;

use super::*;
use crate::spec;
use crate::time::Transfer;

const BASE: VirtAddr = VirtAddr(0x5555_0000_0000);

/// What a processor was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Work(KernelStep, u64),
    SwapIn(u64),
    SwapOut(u64),
    Invalidate(Asid, Vpn),
    Flush(Asid),
    FlushWalkCaches(Asid),
    ForgetRepetitions,
}

/// A processor whose work takes the time that it is told, and whose swap device takes `device_ps`.
#[derive(Default)]
struct Recorder {
    told: Vec<Told>,
    now_ps: u64,
    device_ps: u64,
}

impl Recorder {
    /// Takes what it was told, but for the steps that take no time.
    fn take(&mut self) -> Vec<Told> {
        self.told.retain(|told| !matches!(told, Told::Work(_, 0)));
        std::mem::take(&mut self.told)
    }
}

impl Processor for Recorder {
    fn cores(&self) -> usize {
        1
    }

    fn core(&self) -> usize {
        0
    }

    fn run_as(&mut self, worker: Worker) {
        assert_eq!(worker, Worker::Program, "no daemon has anything to do");
    }

    fn work(&mut self, step: KernelStep, ps: u64) {
        self.now_ps += ps;
        self.told.push(Told::Work(step, ps));
    }

    fn write(&mut self, step: KernelStep, _: (PhysAddr, u64), ps: u64) {
        self.work(step, ps);
    }

    fn now(&mut self) -> u64 {
        self.now_ps
    }

    fn swap_in(&mut self, now_ps: u64) -> Transfer {
        self.told.push(Told::SwapIn(now_ps));
        Transfer { done_ps: now_ps + self.device_ps, holds_core: false }
    }

    fn swap_out(&mut self, now_ps: u64) -> Transfer {
        self.told.push(Told::SwapOut(now_ps));
        Transfer { done_ps: now_ps + self.device_ps, holds_core: false }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        self.told.push(Told::Invalidate(asid, vpn));
    }

    fn flush(&mut self, asid: Asid) {
        self.told.push(Told::Flush(asid));
    }

    fn flush_walk_caches(&mut self, asid: Asid) {
        self.told.push(Told::FlushWalkCaches(asid));
    }

    fn forget_repetitions(&mut self) {
        self.told.push(Told::ForgetRepetitions);
    }

    fn is_in_memory(&mut self, _: FlashPage, _: bool) -> bool {
        true
    }

    fn fetch(&mut self, _: FlashPage, _: Waiter) {
        unreachable!("the kernel manages no tier")
    }

    fn take_left(&mut self) -> Vec<FlashPage> {
        Vec::new()
    }
}

/// A kernel whose pages leave in order of use when there are more than `limit`, and its processor.
fn kernel(limit: u64) -> (Kernel<Radix<X86_64>>, Recorder) {
    let mut spec = spec::load("x86-64").expect("a built-in machine");
    spec.paging.swap.bytes = 64 * PAGE_BYTES;
    spec.paging.swap.readahead = 1;
    let memory = CrowdedMemory::alone(BuddyAllocator::new(64 << 20).expect("a size that there may be"));
    let frames = PagePool::ordered(memory, Box::new(Recency::new(u32::MAX)), limit);
    let mut kernel = Kernel::new(&Arc::new(spec), Levels(4), frames, 1, true, true);
    let mut processor = Recorder { device_ps: 10_000_000, ..Recorder::default() };
    kernel.start(&mut processor).expect("memory for a page table");
    processor.take();
    (kernel, processor)
}

fn page(number: u64) -> VirtAddr {
    BASE.add(number * PAGE_BYTES)
}

fn range(pages: u64) -> VirtRange {
    VirtRange::sized(BASE, pages * PAGE_BYTES)
}

fn map_and_touch(kernel: &mut Kernel<Radix<X86_64>>, processor: &mut Recorder, pages: u64) {
    kernel.change(processor, &Event::Map(Mapping::anonymous(range(pages)))).unwrap();
    for number in 0..pages {
        assert!(kernel.fault(processor, page(number), true).is_ok());
    }
    processor.take();
}

#[test]
fn a_first_touch_costs_a_fault_and_the_zeroes_and_tells_no_core() {
    let (mut kernel, mut processor) = kernel(16);
    kernel.change(&mut processor, &Event::Map(Mapping::anonymous(range(1)))).unwrap();
    assert_eq!(processor.take(), [], "nothing was resident");
    assert!(kernel.fault(&mut processor, page(0), true).is_ok());
    let costs = kernel.state.spec.kernel.clone();
    let told = processor.take();
    assert_eq!(told[0], Told::Work(KernelStep::FirstTouch, costs.minor_fault_ps));
    assert_eq!(told.last(), Some(&Told::Work(KernelStep::Zero, costs.zero_page_ps)));
    assert!(told.iter().all(|told| matches!(told, Told::Work(..))), "{told:?}");
    assert_eq!(kernel.state.resident_bytes(), PAGE_BYTES);
}

#[test]
fn few_pages_are_shot_down_one_by_one_and_many_with_their_address_space() {
    let (mut kernel, mut processor) = kernel(100);
    let asid = kernel.asid();
    for (pages, by_page) in [(33, true), (34, false)] {
        map_and_touch(&mut kernel, &mut processor, pages);
        let read_only = Protection { write: false, ..Protection::READ_WRITE };
        kernel.change(&mut processor, &Event::Protect(range(pages), read_only)).unwrap();
        let told = processor.take();
        let invalidated = told.iter().filter(|told| matches!(told, Told::Invalidate(..))).count() as u64;
        assert_eq!(invalidated, if by_page { pages } else { 0 }, "{told:?}");
        assert_eq!(told.contains(&Told::Flush(asid)), !by_page);
        kernel.change(&mut processor, &Event::Unmap(range(pages))).unwrap();
        assert_eq!(kernel.state.resident_bytes(), 0);
    }
}

/// The page whose turn it is leaves for another, is written once, and is read when it is wanted again.
#[test]
fn a_page_leaves_for_another_and_comes_back_from_the_device() {
    let (mut kernel, mut processor) = kernel(2);
    map_and_touch(&mut kernel, &mut processor, 2);
    kernel.change(&mut processor, &Event::Map(Mapping::anonymous(range(3)))).unwrap();
    assert_eq!(kernel.state.resident_bytes(), 0, "a new mapping in the old one's place");
    map_and_touch(&mut kernel, &mut processor, 2);
    kernel
        .change(&mut processor, &Event::Map(Mapping::anonymous(VirtRange::sized(page(2), PAGE_BYTES))))
        .unwrap();
    assert!(kernel.fault(&mut processor, page(2), true).is_ok());
    let told = processor.take();
    let asid = kernel.asid();
    assert!(told.contains(&Told::Invalidate(asid, page(0).page())), "the oldest leaves: {told:?}");
    assert_eq!(told.iter().filter(|told| matches!(told, Told::SwapOut(_))).count(), 1);
    // Its write is over, so that it has to be read.
    processor.now_ps += 100_000_000;
    assert!(kernel.fault(&mut processor, page(0), false).is_ok());
    let told = processor.take();
    let read_at =
        told.iter().find_map(|told| if let Told::SwapIn(at_ps) = told { Some(*at_ps) } else { None });
    assert!(read_at.is_some(), "{told:?}");
    let waited = told.iter().any(|told| matches!(told, Told::Work(KernelStep::Read, ps) if *ps > 0));
    assert!(waited, "the program waits for the device: {told:?}");
    assert_eq!(kernel.state.counts.resident.pages[0], 2);
}

/// Copies on the swap device belong to pages: they go when the pages go, and move when the pages move.
#[test]
fn a_change_of_the_address_space_tells_the_swap_device() {
    let (mut kernel, mut processor) = kernel(2);
    map_and_touch(&mut kernel, &mut processor, 4);
    assert_eq!(kernel.state.swap.space.used(), 2, "two pages have left");
    let to = VirtRange::sized(BASE.add(1 << 30), 4 * PAGE_BYTES);
    kernel.change(&mut processor, &Event::Remap { from: range(4), to }).unwrap();
    let (asid, start, end) = (kernel.asid(), to.start.page(), to.end.page());
    assert_eq!(kernel.state.swap.space.pages(asid, start, end), [start, Vpn(start.0 + 1)], "they have moved");
    kernel.change(&mut processor, &Event::Fork { child: ProcessId(1) }).unwrap();
    kernel.change(&mut processor, &Event::Unmap(to)).unwrap();
    assert_eq!(kernel.state.swap.space.used(), 2, "the child has them");
    kernel.change(&mut processor, &Event::Process(ProcessId(1))).unwrap();
    kernel.change(&mut processor, &Event::Exec).unwrap();
    assert_eq!((kernel.state.swap.space.used(), kernel.state.resident_bytes()), (0, 0));
}
