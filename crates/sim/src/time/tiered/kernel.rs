//! The tier where the kernel manages it: pages are looked up by walks, and asked for by faults.

use pagewalk_vm::tier::{Completion, Event, FlashPage};

use super::{Request, TieredMemory, Waiter};

impl TieredMemory {
    /// Returns whether the kernel, and not hardware, brings pages in and out.
    pub(in crate::time) fn is_by_kernel(&self) -> bool {
        self.manner.by_kernel
    }

    /// Uses a page for a walk or a first store; returns whether it is in memory.
    pub(in crate::time) fn uses(&mut self, page: FlashPage, write: bool) -> bool {
        let number = self.controller_of(page);
        let is_there = self.controllers[number].tier.lookup(page, write).is_some();
        *if is_there { &mut self.counts.hits } else { &mut self.counts.misses } += 1;
        is_there
    }

    /// Asks for a page at `now_ps` for the kernel.
    pub(in crate::time) fn fetch(&mut self, now_ps: u64, page: FlashPage, waiter: Waiter) {
        let number = self.controller_of(page);
        let completes = Completion::Later;
        match self.controllers[number].tier.blocked() {
            // The kernel learns which page leaves for this one before it goes on.
            None => self.backside(now_ps, number, Event::Miss { page, waiter, completes }),
            Some(_) => self.ask(number, now_ps, Request { page, waiter, completes }),
        }
    }

    /// Pages that left since the last call: their translations must go.
    pub(in crate::time) fn take_left(&mut self) -> Vec<FlashPage> {
        std::mem::take(&mut self.left)
    }
}
