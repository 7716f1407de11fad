//! Programs that are written here.

use crate::emit::{Emitter, Halt};

/// A program written here.
///
/// # Contract
///
/// `run` computes everything anew each time, emits the same events each time, announces memory before it is
/// touched, verifies its own answer (without events) before it returns, and passes every `Stop` on.
pub(crate) trait Program: Send {
    /// The bytes of address space that it maps at most, by arithmetic on its parameters.
    fn footprint_bytes(&self) -> u64;

    /// The bytes of real memory that a run takes at most, verification included.
    fn host_bytes(&self) -> u64;

    /// About how many accesses it emits.
    fn expected_accesses(&self) -> u64;

    /// Whether it emits the blocks of instructions that it executes ([`Emitter::block`]): all of its accesses are theirs, but for those
    /// of a phase of which only pages are of interest.
    fn gives_blocks(&self) -> bool {
        false
    }

    /// Runs the program, and emits its accesses.
    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt>;
}
