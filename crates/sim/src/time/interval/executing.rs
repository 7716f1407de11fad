//! A core that executes instructions. Apart from the interval model, whose functions are shorter without this.

use pagewalk_vm::addr::{PhysAddr, VirtAddr};

use super::IntervalClock;
use crate::time::dataflow::Reference;
use crate::time::followed::{Followed, Found};

impl IntervalClock {
    /// Goes on to the next line of instructions.
    #[inline]
    pub(super) fn ask_for_line(&mut self, core: usize) {
        if let Some(dataflow) = &mut self.dataflow {
            self.cores[core].translated_ps = dataflow.fetch_ps(core);
        }
    }

    /// Fetches that line, whose address has been translated.
    #[inline]
    pub(super) fn fetch_line(&mut self, core: usize, addr: PhysAddr) {
        if let Some(dataflow) = &mut self.dataflow {
            let translated_ps = self.cores[core].translated_ps;
            let latency_ps = self.memory.fetch(core, addr, translated_ps);
            dataflow.fetched(core, translated_ps, translated_ps + latency_ps);
        }
    }

    /// Dispatches the next access, with the instructions before it.
    #[inline(never)]
    pub(super) fn issue(&mut self, core: usize) {
        let Some(dataflow) = &mut self.dataflow else { return };
        let clock = &mut self.cores[core];
        (clock.translated_ps, clock.now_ps) = dataflow.issue_ps(core);
    }

    /// Completes an access that went out at `at_ps` and was found at a level, after so long.
    #[inline(never)]
    pub(super) fn complete(
        &mut self,
        core: usize,
        (from, addr, write): (VirtAddr, PhysAddr, bool),
        at_ps: u64,
        (level, latency_ps): (usize, u64),
    ) {
        let Self { dataflow: Some(dataflow), memory, cores, .. } = self else { return };
        dataflow.complete(core, |instruction, issued_ps| {
            let clock = &mut cores[core];
            let translation_ps = clock.translated_ps.saturating_sub(issued_ps);
            let page = from.page().0;
            let found = Found { instruction, page, addr, at_ps, translation_ps, level, latency_ps };
            let Followed { latency_ps, queued_ps, earlier_ps } = memory.follow(core, &found);
            let translated_ps = clock.translated_ps - earlier_ps;
            let mut ready_ps = translated_ps;
            if level > 0 {
                ready_ps = clock.registers.take(ready_ps, |start_ps| start_ps + latency_ps);
            }
            let done_ps = ready_ps + latency_ps;
            let alone_ps = found.latency_ps.saturating_sub(queued_ps);
            Reference { addr: addr.0, write, level, alone_ps, translated_ps, done_ps, queued_ps }
        });
    }
}
