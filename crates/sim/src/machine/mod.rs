//! A memory system, built from its machine file.
//!
//! A `Machine` consumes events: an access goes to the `Engine`, everything else that a program does to the
//! engine's kernel. Three orders decide which access is next: the source's own; that of the cores' time, with several cores
//! (`turns.rs`); and that of a scheduler, with jobs (`Jobs`).

mod build;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;

use pagewalk_trace::{Batch, Event};
use pagewalk_vm::table::PageTable;

use crate::engine::{Engine, Then, pieces};
pub use crate::error::MachineError;
use crate::jobs::Jobs;
use crate::metrics::{Phases, RunResult};
use crate::spec::settings::MachineSpec;
use crate::time::Clock;

pub(crate) use build::tlbs;
pub use build::{Detail, build};

/// A machine that consumes events: any geometry, with or without time.
///
/// # Contract
///
/// Batches come in order. After an error the machine takes no more batches. `finish` may be called at any batch
/// boundary and changes nothing.
pub trait Simulate: Send {
    /// Returns the machine's name.
    fn name(&self) -> &str;

    /// Consumes a batch of events.
    ///
    /// # Errors
    ///
    /// The machine cannot run this program.
    fn batch(&mut self, batch: &Batch) -> Result<(), MachineError>;

    /// Finishes what is under way, because the source has ended.
    ///
    /// # Errors
    ///
    /// As for a batch.
    fn end(&mut self) -> Result<(), MachineError>;

    /// Returns what was measured.
    fn finish(&self, source: &str) -> RunResult;
}

/// A machine with page tables `T` and the clock `C`.
struct Machine<T: PageTable, C> {
    spec: Arc<MachineSpec>,
    engine: Engine<T, C>,
    /// The jobs of a timed machine that serves them.
    jobs: Option<Jobs>,
    phases: Phases,
}

impl<T: PageTable, C: Clock> Simulate for Machine<T, C> {
    fn name(&self) -> &str {
        &self.spec.name
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), MachineError> {
        let Self { engine, jobs, phases, .. } = self;
        if let Some(jobs) = jobs {
            return jobs.batch(engine, phases, batch);
        }
        if C::TIMED && engine.mmu.cores() > 1 {
            return turns::batch(engine, phases, batch);
        }
        for piece in pieces(batch) {
            engine.accesses(piece.accesses)?;
            match piece.then {
                Then::Segment { instructions, accesses } => engine.begin_segment(instructions, accesses),
                Then::Event(Event::Phase(name)) => begin_phase(engine, phases, name),
                Then::Event(event) => engine.event(event)?,
                Then::End => {}
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), MachineError> {
        match &mut self.jobs {
            Some(jobs) => jobs.end(&mut self.engine, &mut self.phases, &self.spec.name),
            None => Ok(()),
        }
    }

    fn finish(&self, source: &str) -> RunResult {
        let latencies = self.jobs.as_ref().map(|jobs| &jobs.latencies);
        let end = self.engine.rows(|rows| latencies.into_iter().for_each(|of| of.rows(rows)));
        // Before the first phase is number 0.
        let metrics =
            self.phases.metrics(&end, |phase| latencies.map(|of| of.metrics(phase)).unwrap_or_default());
        let (machine, spans) = (self.spec.name.clone(), self.engine.clock.spans());
        let result = RunResult { machine, source: source.to_owned(), metrics, spans };
        debug_assert_eq!(result.repeated(), None, "{}", self.spec.name);
        result
    }
}

/// Begins a phase of a machine without jobs.
fn begin_phase<T: PageTable, C: Clock>(engine: &mut Engine<T, C>, phases: &mut Phases, name: &str) {
    // Otherwise a wait that this snapshot counts could still be hidden by what comes after it.
    engine.clock.settle();
    phases.begin(name, engine.rows(|_| ()));
}
