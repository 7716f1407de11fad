//! A clock for runs without time.

use pagewalk_trace::{BlockId, Code};
use pagewalk_vm::addr::{PhysAddr, VirtAddr};
use pagewalk_vm::table::WalkRead;
use pagewalk_vm::tier::FlashPage;

use super::{Clock, CoreTime, Devices, Missed, Requester, TierTime, Transfer, Waiter, WalkBegin, Woken};
use crate::metrics::{KernelStep, Rows, Span};
use crate::spec::settings::MachineSpec;

/// No time at all: every call compiles to nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoClock;

impl Clock for NoClock {
    const TIMED: bool = false;

    fn new(_: &MachineSpec, _: PhysAddr, _: bool) -> Self {
        Self
    }

    fn rows(&self, _: &mut Rows) {}

    fn spans(&self) -> Vec<Span> {
        Vec::new()
    }
}

impl CoreTime for NoClock {
    #[inline(always)]
    fn segment(&mut self, _: usize, _: Option<u64>, _: u64) {}
    fn code(&mut self, _: &Code) {}
    fn follows_blocks(&self) -> bool {
        false
    }
    fn execute(&mut self, _: usize, _: BlockId, _: usize) {}
    fn execute_from(&mut self, _: usize, _: BlockId, _: usize, _: usize) {}
    fn abandon(&mut self, _: usize) {}
    fn refill_ps(&self) -> Option<u64> {
        None
    }
    #[inline(always)]
    fn begin_fetch(&mut self, _: usize) {}
    #[inline(always)]
    fn fetched(&mut self, _: usize, _: PhysAddr) {}
    #[inline(always)]
    fn begin(&mut self, _: usize) {}
    fn modifies(&self, _: usize) -> bool {
        false
    }
    #[inline(always)]
    fn begin_part(&mut self, _: usize) {}
    fn begin_again(&mut self, _: usize) {}
    #[inline(always)]
    fn tlb_hit(&mut self, _: usize, _: usize) {}
    #[inline(always)]
    fn expect(&self, _: usize, _: PhysAddr) {}
    #[inline(always)]
    fn walk(&mut self, _: usize, _: impl Iterator<Item = WalkRead>, _: WalkBegin) -> Option<Missed> {
        None
    }
    #[inline(always)]
    fn walk_beside(&mut self, _: usize, _: impl Iterator<Item = WalkRead>, _: WalkBegin) {}
    #[inline(always)]
    fn data(&mut self, _: usize, _: (VirtAddr, PhysAddr), _: bool) -> Option<Missed> {
        None
    }
    #[inline(always)]
    fn kernel(&mut self, _: usize, _: KernelStep, _: u64) {}
    #[inline(always)]
    fn wait(&mut self, _: usize, _: KernelStep, _: u64) {}
    fn kernel_write(&mut self, _: usize, _: KernelStep, _: (PhysAddr, u64), _: u64) {}
    fn idle(&mut self, _: usize, _: u64) {}
    fn daemon(&mut self, _: Option<usize>, _: u64, _: KernelStep, _: u64) -> u64 {
        0
    }
    #[inline(always)]
    fn now(&mut self, _: usize) -> u64 {
        0
    }
    fn time(&self, _: usize) -> u64 {
        0
    }
    fn retired(&self, _: usize) -> u64 {
        0
    }
    #[inline(always)]
    fn is_due(&self, _: usize, _: u64) -> bool {
        false
    }
    fn settle(&mut self) {}
}

impl Devices for NoClock {
    fn swap_in(&mut self, _: u64) -> Transfer {
        Transfer::default()
    }
    fn swap_out(&mut self, _: u64) -> Transfer {
        Transfer::default()
    }
}

impl TierTime for NoClock {
    fn request_as(&mut self, _: usize, _: Requester) {}
    fn memory_next_ps(&self) -> u64 {
        u64::MAX
    }
    fn memory_advance(&mut self, _: u64) -> Option<(u64, Woken)> {
        None
    }
    fn touch(&mut self, _: FlashPage, _: bool) {}
    #[inline(always)]
    fn is_in_memory(&mut self, _: FlashPage, _: bool) -> bool {
        true
    }
    fn fetch(&mut self, _: usize, _: FlashPage, _: Waiter) {}
    fn take_left(&mut self) -> Vec<FlashPage> {
        Vec::new()
    }
}
