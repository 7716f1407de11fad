//! The part of a core's translation hardware that is for instructions.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::table::{PageTable, WalkCaching};
use pagewalk_vm::tlb::{LevelCounts, Tlb};

use super::filter::FrontFilter;
use super::side::InstructionSide;
use super::{Core, Mmu};
use crate::metrics::Rows;
use crate::metrics::names::fetch;

impl<W: WalkCaching> Core<W> {
    /// Returns the core with a first TLB level for instructions; `classes` as in [`Core::new`].
    pub(crate) fn with_instructions(mut self, first: Tlb, base: PageSize, classes: usize) -> Self {
        let front = match classes {
            0 => FrontFilter::never(),
            _ => FrontFilter::new(Some(&first), base, classes),
        };
        self.tlbs = self.tlbs.with_first_level_for_instructions(first);
        Self { instructions: Some(Box::new(InstructionSide::new(front))), ..self }
    }

    /// Exchanges the parts for data and for instructions.
    fn exchange(&mut self) -> Option<&mut InstructionSide> {
        let side = &mut **self.instructions.as_mut()?;
        self.tlbs.exchange_for_instructions();
        std::mem::swap(&mut self.front, &mut side.front);
        std::mem::swap(&mut self.looked_up, &mut side.looked_up);
        Some(side)
    }
}

impl<T: PageTable> Mmu<T> {
    /// Returns the front filter of a core's instructions.
    #[inline(always)]
    pub(crate) fn front_of_instructions(&self, core: usize) -> &FrontFilter {
        let core = &self.cores[core];
        core.instructions.as_ref().map_or(&core.front, |side| &side.front)
    }

    /// Counts a line that a core fetches.
    #[inline]
    pub(crate) fn count_fetch(&mut self, core: usize) {
        if let Some(side) = &mut self.cores[core].instructions {
            side.fetched += 1;
        }
    }

    /// Lets the look-ups and fills of a core be of instructions, up to [`end_fetch`](Self::end_fetch).
    pub(crate) fn begin_fetch(&mut self, core: usize) {
        let walks = self.counts.walks;
        if let Some(side) = self.cores[core].exchange() {
            side.walks_before = walks;
        }
    }

    /// Lets the look-ups and fills of a core be of data again.
    pub(crate) fn end_fetch(&mut self, core: usize) {
        let walks = self.counts.walks;
        if let Some(side) = self.cores[core].exchange() {
            side.walks += walks - side.walks_before;
        }
    }

    /// Adds the counts of instructions to the rows, if the cores fetch them.
    pub(super) fn instruction_rows(&self, rows: &mut Rows) {
        let sides = || self.cores.iter().filter_map(|core| Some((core, core.instructions.as_ref()?)));
        if sides().next().is_none() {
            return;
        }
        let mut counts = LevelCounts::default();
        for (core, side) in sides() {
            counts += core.tlbs.counts_of_instructions();
            counts.hits += side.fetched - side.looked_up;
        }
        rows.sum(fetch::TLB_ACCESSES, counts.hits + counts.misses);
        rows.sum(fetch::TLB_HITS, counts.hits);
        rows.sum(fetch::TLB_MISSES, counts.misses);
        rows.sum(fetch::WALKS, sides().map(|(_, side)| side.walks).sum());
    }
}
