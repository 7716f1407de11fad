//! A machine as it consumes events.

use std::sync::Arc;

use pagewalk_trace::{Batch, Event};
use pagewalk_vm::table::PageTable;

use super::simulate::Simulate;
use super::turns::{Turns, cross};
use crate::engine::{Engine, Then, pieces};
use crate::error::MachineError;
use crate::jobs::Jobs;
use crate::metrics::{Boundary, Phases, RunResult};
use crate::spec::settings::MachineSpec;
use crate::time::Clock;

/// A machine with page tables `T` and the clock `C`.
pub(crate) struct Machine<T: PageTable, C> {
    pub(super) spec: Arc<MachineSpec>,
    pub(super) engine: Engine<T, C>,
    /// The jobs of a timed machine that serves them.
    pub(super) jobs: Option<Jobs>,
    /// The work of several timed cores.
    pub(super) turns: Turns,
    pub(super) phases: Phases,
}

impl<T: PageTable, C: Clock> Simulate for Machine<T, C> {
    fn name(&self) -> &str {
        &self.spec.name
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), MachineError> {
        let Self { engine, jobs, turns, phases, .. } = self;
        // Only timed machines have jobs: the constant keeps their service from being compiled for the others.
        if C::TIMED
            && let Some(jobs) = jobs
        {
            return jobs.batch(engine, phases, batch);
        }
        if C::TIMED && engine.mmu.cores() > 1 {
            return turns.batch(engine, phases, batch);
        }
        for piece in pieces(batch) {
            engine.accesses(piece.accesses)?;
            match piece.then {
                Then::Segment { instructions, accesses } => engine.begin_segment(instructions, accesses),
                Then::Event(Event::Phase(name)) => cross(engine, phases, &Boundary::Phase(name.clone())),
                Then::Event(event) => engine.event(event)?,
                Then::End => {}
            }
        }
        Ok(())
    }

    fn measure(&mut self) -> Result<(), MachineError> {
        match &mut self.jobs {
            Some(jobs) => jobs.measure(),
            None => {
                self.turns.finish(&mut self.engine)?;
                cross(&mut self.engine, &mut self.phases, &Boundary::Measuring);
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), MachineError> {
        match &mut self.jobs {
            Some(jobs) if C::TIMED => jobs.end(&mut self.engine, &mut self.phases, &self.spec.name),
            _ => self.turns.finish(&mut self.engine),
        }
    }

    fn finish(&self, source: &str) -> RunResult {
        let latencies = self.jobs.as_ref().map(|jobs| &jobs.latencies);
        let end = self.engine.rows(|rows| latencies.into_iter().for_each(|of| of.rows(rows)));
        let of_jobs =
            |parts, phase: Option<&str>| latencies.map(|of| of.metrics(&parts, phase)).unwrap_or_default();
        let metrics = self.phases.metrics(&end, of_jobs);
        let (machine, spans) = (self.spec.name.clone(), self.engine.clock.spans());
        let result = RunResult { machine, source: source.to_owned(), metrics, spans };
        debug_assert_eq!(result.repeated(), None, "{}", self.spec.name);
        result
    }
}
