//! Frames that the trace gives: pages lie where they lay when the program ran, and are as large as they were.
//!
//! What the trace does not say is the machine's own choice, in memory of its own above all given frames: other pages, and page
//! tables. A page that a child of `fork` inherits is one of these as long as the trace does not say where the child has it.

use pagewalk_trace::PageFrame;
use pagewalk_vm::addr::{PageSize, Pfn, VirtAddr, Vpn};
use pagewalk_vm::space::FaultPlan;
use pagewalk_vm::table::{Leaf, PageTable};

use super::{Machine, MachineError};
use crate::time::Clock;

/// Accesses have 48 bits of address.
const ACCESS_END: VirtAddr = VirtAddr(1 << 48);

impl<T: PageTable, C: Clock> Machine<T, C> {
    /// The trace says where a page is. If it is somewhere else now, it goes, and the next touch brings it to the new place.
    pub(super) fn learn_frame(&mut self, given: PageFrame) -> Result<(), MachineError> {
        // No access reaches beyond, and no table does.
        if !self.frames.takes_given() || given.range().end > ACCESS_END {
            return Ok(());
        }
        let asid = self.processes[self.process].asid;
        if !self.frames.learn(asid, given) {
            return Ok(());
        }
        let is_elsewhere = |&(page, leaf, _): &(Vpn, Leaf, u32)| given.frame_of(page) != leaf.frame;
        if self.entries(given.range()).iter().any(is_elsewhere) {
            self.drop_range(given.range())?;
        }
        Ok(())
    }

    /// The frame that the trace gives to a page that has none: in a block as large as the page was, or in a part of it if the
    /// table has no such pages, has something else in the slot already, or the mapping ends within.
    pub(super) fn take_given(&mut self, vpn: Vpn, plan: &FaultPlan) -> Option<PageFrame> {
        let process = &self.processes[self.process];
        let given = self.frames.given(process.asid, vpn)?;
        let is_possible = |size: &PageSize| {
            let (level, part) = (*size as u32, given.part(vpn, *size));
            // A source that announces no mappings has those that its accesses imply, of 2 MiB each.
            let is_mapped = !self.announces_mappings || plan.vma.range.covers(part.range());
            let is_vacant = || process.table.is_vacant(&self.tables.memory, part.page(), level);
            level <= T::MAX_LEAF_LEVEL && is_mapped && is_vacant()
        };
        let large = PageSize::ALL[1..=given.size() as usize].iter().rev().copied().find(is_possible);
        let part = given.part(vpn, large.unwrap_or_default());
        self.frames.take_given(part);
        Some(part)
    }

    /// The current process has no longer a block, which no other page shares.
    pub(super) fn give_block(&mut self, frame: Pfn, size: PageSize) {
        self.frames.give_page(frame, size);
        if !self.frames.is_given(frame) {
            self.counts.resident_pages[size as usize] -= 1;
        }
    }

    /// Resident pages by size; a given block counts once, however many pages have it.
    pub(super) fn resident_pages(&self) -> [u64; 3] {
        let (own, given) = (self.counts.resident_pages, self.frames.given_resident());
        std::array::from_fn(|size| own[size] + given[size])
    }
}
