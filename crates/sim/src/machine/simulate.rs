//! What every machine does, whatever it is made of.

use pagewalk_trace::Batch;

use crate::error::MachineError;
use crate::metrics::RunResult;

/// The part of a machine that is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Translation, allocation and paging: counts only.
    #[default]
    Counts,
    /// Also caches, DRAM and cores: time.
    Timed,
}

/// A machine that consumes events: any geometry, with or without time.
///
/// # Contract
///
/// Batches come in order. After an error the machine takes no more batches. A machine of jobs begins to measure with the next job
/// that starts. One of several timed
/// cores may hold work until it has more, or until `end`. `finish` may be called at any batch boundary and changes nothing; it does not know
/// of work that is held.
pub trait Simulate: Send {
    /// Returns the machine's name.
    fn name(&self) -> &str;

    /// Consumes a batch.
    ///
    /// # Errors
    ///
    /// The machine cannot run this program.
    fn batch(&mut self, batch: &Batch) -> Result<(), MachineError>;

    /// Begins to measure: what was counted before does not count.
    ///
    /// # Errors
    ///
    /// As for a batch.
    fn measure(&mut self) -> Result<(), MachineError>;

    /// Finishes what is under way, because the source has ended.
    ///
    /// # Errors
    ///
    /// As for a batch.
    fn end(&mut self) -> Result<(), MachineError>;

    /// Returns what was measured.
    fn finish(&self, source: &str) -> RunResult;
}
