//! Misses of a core whose TLBs have a prefetcher.

use pagewalk_vm::addr::VirtAddr;
use pagewalk_vm::reclaim::Uses;
use pagewalk_vm::table::PageTable;
use pagewalk_vm::tlb::Translation;

use super::{Engine, Stopped, walked};
use crate::time::Clock;

impl<T: PageTable, C: Clock> Engine<T, C> {
    /// Translates an address that no TLB translates: from the prefetch buffer, or else by the walker. Then the prefetcher hears of
    /// the miss.
    #[cold]
    pub(super) fn translate_by_prefetch(
        &mut self,
        addr: VirtAddr,
        write: bool,
    ) -> Result<Translation, Stopped> {
        let (asid, vpn) = (self.kernel.asid(), addr.page());
        let translation = match self.mmu.take_prefetched(self.core, asid, vpn) {
            Some((level, translation)) => {
                self.clock.tlb_hit(self.core, level);
                if self.kernel.uses == Uses::Walks {
                    // A prefetch sets no accessed bit: the first use does.
                    let frame = self.decompressed(asid, vpn, translation).frame_of(vpn);
                    self.kernel.state.frames.walked(frame);
                }
                translation
            }
            None => self.walk_and_fill(addr, write)?,
        };
        let Self { mmu, kernel, clock, core, .. } = self;
        mmu.prefetch(*core, &walked(kernel), vpn, translation, &mut |reads, begins| {
            clock.walk_beside(*core, reads, begins);
        });
        Ok(translation)
    }
}
