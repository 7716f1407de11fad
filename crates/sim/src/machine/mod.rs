//! A memory system, built from its machine file.
//!
//! A machine consumes events: an access goes to the engine (`engine/`), everything else that a program does to the
//! engine's kernel. Three orders decide which access is next: the source's own; that of the cores' time, with several cores
//! (`turns.rs`); and that of a scheduler, with jobs (`jobs/`). A machine with few addresses gets those of a program relocated
//! (`relocation.rs`).

pub(crate) mod assemble;
mod events;
mod relocation;
pub(crate) mod simulate;
#[cfg(test)]
pub(crate) mod tests;
mod turns;

use pagewalk_trace::SourceInfo;

use self::relocation::Relocated;
pub use crate::error::MachineError;
use crate::spec::settings::{BuildRequest, MachineSpec};

pub use assemble::tlbs;
pub use simulate::{Detail, Simulate};

/// Builds the machine of `spec` for a source.
///
/// `seed` feeds random replacement, the hash functions that place pages, the timestamp daemon's choices, the cores that jobs
/// arrive at and how long flash takes.
///
/// # Errors
///
/// Its memory does not even hold the first page table.
///
/// # Panics
///
/// If `spec` was not checked (specs from [`crate::spec`] were).
pub fn build(
    spec: &MachineSpec,
    detail: Detail,
    seed: u64,
    source: &SourceInfo,
) -> Result<Box<dyn Simulate>, MachineError> {
    let table = &spec.translation.table;
    let machine = (table.assembly().build)(&BuildRequest { spec, detail, seed, source })?;
    Ok(match table.program_space() {
        Some(space) => Box::new(Relocated::new(machine, space)),
        None => machine,
    })
}
