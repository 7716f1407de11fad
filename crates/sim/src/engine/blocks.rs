//! The blocks of instructions that make the references.

use pagewalk_vm::table::PageTable;

use super::{Accesses, Engine};
use crate::error::MachineError;
use crate::time::Clock;

impl<T: PageTable, C: Clock> Engine<T, C> {
    /// Makes the references of a timed run; a core that executes instructions hears of each block before its accesses.
    pub(super) fn steps(&mut self, accesses: Accesses<'_>) -> Result<(), MachineError> {
        if !self.clock.follows_blocks() {
            return accesses.list.iter().try_for_each(|&access| self.step(access));
        }
        let (before, blocks) = accesses.by_block();
        before.iter().try_for_each(|&access| self.step(access))?;
        for execution in blocks {
            self.clock.execute(self.core, execution.block, execution.count);
            execution.accesses.iter().try_for_each(|&access| self.step(access))?;
        }
        Ok(())
    }
}
