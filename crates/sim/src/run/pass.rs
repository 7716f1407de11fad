//! The work on every batch that is done once, before any machine sees the batch.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use pagewalk_trace::{Batch, Event};

use super::cut::{segments, split_crossings, split_off, truncate};
use super::first_touches::FirstTouches;
use super::reach::Reach;
use super::stretch::{End, Length};
use super::{Progress, RunError, RunOptions, RunOutcome};
use crate::machine::MachineError;
use crate::metrics::{Metric, RunResult};

/// The machines that a pass feeds.
pub(super) trait Machines {
    /// Hands a batch to every machine; what is left of it is of no use.
    fn batch(&mut self, batch: &mut Batch);

    /// Tells every machine that measuring begins.
    fn measure(&mut self);

    /// Returns whether there is anything to run for: a machine that has not failed, or no machine at all.
    fn are_left(&self) -> bool;
}

/// A stretch at the program's beginning.
struct Stretch {
    end: End,
    /// Its length or its end, for messages.
    named: String,
    /// Whether machines see only what brings pages in.
    is_skipped: bool,
}

/// A pass over a source.
pub(super) struct Pass<'a> {
    /// What lies ahead of the part that is measured.
    stretches: VecDeque<Stretch>,
    first_touches: Option<FirstTouches>,
    counts: Counts,
    /// The names of all phases before measuring began.
    phases: Vec<String>,
    limit: Option<u64>,
    given_frames: bool,
    progress: &'a mut dyn Progress,
    reach: Option<Reach>,
}

/// Accesses of the program, page-crossing ones counted once, and the instructions of what was not measured.
#[derive(Default)]
struct Counts {
    skipped: u64,
    warm_up: u64,
    measured: u64,
    instructions: u64,
}

impl<'a> Pass<'a> {
    pub(super) fn new(options: &RunOptions, progress: &'a mut dyn Progress) -> Self {
        let of_length = |length: Option<Length>, what: &str, is_skipped: bool| {
            let named = |length| format!("the {what} of {length}");
            length.map(|length| Stretch { end: End::Length(length), named: named(length), is_skipped })
        };
        let phase = options.begin.as_ref().map(|phase| Stretch {
            end: End::Phase(phase.clone()),
            named: phase.clone(),
            is_skipped: true,
        });
        let skip = of_length(options.skip, "skipped part", true);
        let warm_up = of_length(options.warm_up, "warm-up", false);
        let stretches: VecDeque<Stretch> = [phase, skip, warm_up].into_iter().flatten().collect();
        Self {
            first_touches: stretches.iter().any(|stretch| stretch.is_skipped).then(FirstTouches::default),
            stretches,
            counts: Counts::default(),
            phases: Vec::new(),
            limit: options.limit,
            given_frames: false,
            progress,
            reach: options.reach.then(Reach::default),
        }
    }

    /// Takes a batch of the source; returns whether more are wanted.
    pub(super) fn take(&mut self, batch: &mut Batch, machines: &mut impl Machines) -> ControlFlow<()> {
        while let Some(stretch) = self.stretches.front_mut() {
            let rest = stretch.end.place_in(batch).map(|place| split_off(batch, place));
            let (is_skipped, is_phase) = (stretch.is_skipped, matches!(stretch.end, End::Phase(_)));
            self.before_measuring(batch, is_skipped, machines);
            let Some(rest) = rest else { return self.goes_on(machines) };
            *batch = rest;
            self.stretches.pop_front();
            // A phase has rows of its own, beside those of the whole run.
            if !is_phase {
                machines.measure();
                self.reach.iter_mut().for_each(Reach::measure);
            }
        }
        if let Some(limit) = self.limit {
            truncate(batch, limit - self.counts.measured);
        }
        self.counts.measured += batch.accesses.len() as u64;
        self.hand_on(batch, machines);
        self.goes_on(machines)
    }

    /// Takes a batch that is not measured.
    fn before_measuring(&mut self, batch: &mut Batch, is_skipped: bool, machines: &mut impl Machines) {
        let accesses = batch.accesses.len() as u64;
        self.counts.instructions += segments(batch).map(|part| part.instructions).sum::<u64>();
        self.phases.extend(batch.marks.iter().filter_map(|mark| phase(&mark.event)).map(str::to_owned));
        match &mut self.first_touches {
            Some(first_touches) if is_skipped => {
                self.counts.skipped += accesses;
                first_touches.thin(batch);
            }
            _ => self.counts.warm_up += accesses,
        }
        self.hand_on(batch, machines);
    }

    fn hand_on(&mut self, batch: &mut Batch, machines: &mut impl Machines) {
        split_crossings(batch);
        if let Some(reach) = &mut self.reach {
            reach.take(batch);
        }
        self.given_frames |= batch.marks.iter().any(|mark| matches!(mark.event, Event::Frame(_)));
        let begun = batch.marks.iter().rev().find_map(|mark| phase(&mark.event));
        self.progress.advance(self.counts.all(), begun);
        machines.batch(batch);
    }

    fn goes_on(&self, machines: &impl Machines) -> ControlFlow<()> {
        if self.is_limited() || !machines.are_left() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn is_limited(&self) -> bool {
        self.limit.is_some_and(|limit| self.counts.measured >= limit)
    }

    /// Checks, after the source has ended, that something was measured.
    pub(super) fn check(&self, name: &str) -> Result<(), RunError> {
        let name = name.to_owned();
        match self.stretches.front() {
            Some(Stretch { end: End::Phase(phase), .. }) => {
                Err(RunError::NoSuchPhase { name, phase: phase.clone(), phases: self.phases.clone() })
            }
            _ if self.counts.all() == 0 => Err(RunError::NoAccesses(name)),
            Some(Stretch { named, .. }) => Err(RunError::TooShort {
                name,
                stretch: named.clone(),
                accesses: self.counts.all(),
                instructions: self.counts.instructions,
            }),
            None => Ok(()),
        }
    }

    /// Returns the miss curve of what was measured, if it was asked for.
    pub(super) fn reach_metrics(&mut self) -> Option<Vec<Metric>> {
        self.reach.as_mut().map(Reach::metrics)
    }

    /// Returns the outcome of the pass with these results.
    pub(super) fn outcome(&self, results: Vec<RunResult>, failed: Vec<(String, MachineError)>) -> RunOutcome {
        let Counts { skipped, warm_up, measured, .. } = self.counts;
        let (limited, given_frames) = (self.is_limited(), self.given_frames);
        RunOutcome { results, failed, skipped, warm_up, accesses: measured, limited, given_frames }
    }
}

impl Counts {
    fn all(&self) -> u64 {
        self.skipped + self.warm_up + self.measured
    }
}

fn phase(event: &Event) -> Option<&str> {
    match event {
        Event::Phase(name) => Some(name),
        _ => None,
    }
}
