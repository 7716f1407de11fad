//! What memory and devices do beside the cores.

use pagewalk_vm::tier::FlashPage;

use super::IntervalClock;
use crate::time::device::Transfer;
use crate::time::tiered::{Requester, Waiter, Woken};
use crate::time::{CoreTime, Devices, TierTime};

impl Devices for IntervalClock {
    fn swap_in(&mut self, now_ps: u64) -> Transfer {
        self.swap.read(now_ps)
    }

    fn swap_out(&mut self, now_ps: u64) -> Transfer {
        self.swap.write(now_ps)
    }
}

impl TierTime for IntervalClock {
    fn request_as(&mut self, core: usize, who: Requester) {
        self.memory.request_as(core, who);
    }

    #[inline]
    fn memory_next_ps(&self) -> u64 {
        self.memory.tier().map_or(u64::MAX, |tier| tier.next_ps())
    }

    fn memory_advance(&mut self, until_ps: u64) -> Option<(u64, Woken)> {
        self.memory.tier_mut()?.advance(until_ps)
    }

    fn touch(&mut self, page: FlashPage, write: bool) {
        if let Some(tier) = self.memory.tier_mut() {
            tier.touch(page, write);
        }
    }

    fn is_in_memory(&mut self, page: FlashPage, write: bool) -> bool {
        match self.memory.tier_mut() {
            Some(tier) if tier.is_by_kernel() => tier.uses(page, write),
            _ => true,
        }
    }

    fn fetch(&mut self, core: usize, page: FlashPage, waiter: Waiter) {
        let now_ps = self.now(core);
        if let Some(tier) = self.memory.tier_mut() {
            tier.fetch(now_ps, page, waiter);
        }
    }

    fn take_left(&mut self) -> Vec<FlashPage> {
        self.memory.tier_mut().map(|tier| tier.take_left()).unwrap_or_default()
    }
}
