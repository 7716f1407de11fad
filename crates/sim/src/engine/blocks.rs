//! The blocks of instructions that make the references.

use pagewalk_trace::{Access, BlockId};
use pagewalk_vm::table::PageTable;

use super::fetch::fetch;
use super::{Accesses, Engine};
use crate::error::MachineError;
use crate::time::Clock;

impl<T: PageTable, C: Clock> Engine<T, C> {
    /// Makes the references of a timed run; a core that executes instructions hears of each block before its accesses.
    #[inline(always)]
    pub(super) fn steps(&mut self, accesses: Accesses<'_>) -> Result<(), MachineError> {
        if !self.clock.follows_blocks() {
            return accesses.list.iter().try_for_each(|&access| self.step(access));
        }
        self.blocks(accesses)
    }

    /// The same for a core that executes or fetches instructions. Apart from the other one, which is shorter without this.
    #[inline(never)]
    pub(super) fn blocks(&mut self, accesses: Accesses<'_>) -> Result<(), MachineError> {
        let (before, blocks) = accesses.by_block();
        of_block(self, before)?;
        for execution in blocks {
            begin_block(self, execution.block, execution.count)?;
            of_block(self, execution.accesses)?;
        }
        Ok(())
    }

    /// Makes one reference, or a further part of the one before.
    #[inline(always)]
    fn part_or_step(&mut self, access: Access) -> Result<(), MachineError> {
        if !access.is_continued() {
            return self.step(access);
        }
        let (addr, write) = (access.addr(), access.is_write());
        self.counts.stores += u64::from(write);
        self.clock.begin_part(self.core);
        self.dispatched(addr, write)
    }
}

/// Returns whether the blocks that a source says are of use.
pub(crate) fn follows_blocks<T: PageTable, C: Clock>(engine: &Engine<T, C>) -> bool {
    engine.clock.follows_blocks() || engine.fetching.is_some()
}

/// Lets the running core begin a block, which makes the next so many accesses.
#[inline(always)]
pub(crate) fn begin_block<T: PageTable, C: Clock>(
    engine: &mut Engine<T, C>,
    block: BlockId,
    accesses: usize,
) -> Result<(), MachineError> {
    engine.clock.execute(engine.core, block, accesses);
    fetch(engine, block)
}

/// Makes the references of a block.
#[inline(always)]
fn of_block<T: PageTable, C: Clock>(
    engine: &mut Engine<T, C>,
    accesses: &[Access],
) -> Result<(), MachineError> {
    if !C::TIMED {
        return engine.untimed(accesses);
    }
    // A loop, because the compiler does not inline the closure of an iterator of this size.
    for &access in accesses {
        engine.part_or_step(access)?;
    }
    Ok(())
}
