//! The run loop: one pass over a source's events feeds any number of machines.

mod cut;
mod first_touches;
mod pass;
mod reach;
mod stretch;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use pagewalk_trace::{Batch, Source, SourceError};

pub use self::cut::truncate;
use self::pass::{Machines, Pass};
pub use self::stretch::Length;
use crate::machine::{MachineError, Simulate};
use crate::metrics::RunResult;

/// The options of a pass over a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Worker threads that the machines are divided among; 1 runs them on the calling thread. Results do not
    /// depend on it.
    pub threads: usize,
    /// Until this phase begins, machines see only the first touch of every page.
    pub begin: Option<String>,
    /// The same for so much of the program from there on.
    pub skip: Option<Length>,
    /// Machines see so much of the program from there on, and do not count it.
    pub warm_up: Option<Length>,
    /// Stop after so many accesses, counted from there on.
    pub limit: Option<u64>,
    /// Also measure how many misses TLBs of growing size would have.
    pub reach: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { threads: 1, begin: None, skip: None, warm_up: None, limit: None, reach: false }
    }
}

/// Hears how far a pass is.
pub trait Progress {
    /// Reports that so many accesses were consumed so far; a new phase may have begun.
    fn advance(&mut self, accesses: u64, phase: Option<&str>);
}

/// A progress report that does nothing.
impl Progress for () {
    fn advance(&mut self, _: u64, _: Option<&str>) {}
}

/// The outcome of a pass over a source.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// One result a machine that ran to the end, in the machines' order.
    pub results: Vec<RunResult>,
    /// The machines that could not go on, by their names; the others went on without them.
    pub failed: Vec<(String, MachineError)>,
    /// Accesses of the program that were skipped, page-crossing ones counted once: machines saw those that touched a page first.
    pub skipped: u64,
    /// Accesses of the warm-up, counted in the same way.
    pub warm_up: u64,
    /// Accesses that were measured, counted in the same way.
    pub accesses: u64,
    /// Whether the limit ended the pass before the source did.
    pub limited: bool,
    /// Whether the source said of any page which frame it has.
    pub given_frames: bool,
}

/// The reasons for which a pass fails.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source could not go on.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A machine could not go on.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The source brought no access.
    #[error(
        "{0} produced no memory access at all; a program for the call-out front-end must be built with it, and a \
         trace must not be empty"
    )]
    NoAccesses(String),
    /// The phase to begin with never began.
    #[error("{name} has no phase `{phase}`{}", listed(.phases))]
    NoSuchPhase {
        /// The name of the source.
        name: String,
        /// The phase that was waited for.
        phase: String,
        /// The phases that the source had.
        phases: Vec<String>,
    },
    /// The source ended before measuring began.
    #[error(
        "{name} ended after {accesses} accesses and {instructions} instructions, before {stretch} was over"
    )]
    TooShort {
        /// The name of the source.
        name: String,
        /// The stretch that did not end: `the warm-up of 100 accesses`.
        stretch: String,
        /// The accesses of the source.
        accesses: u64,
        /// The instructions that the source counted.
        instructions: u64,
    },
}

fn listed(phases: &[String]) -> String {
    if phases.is_empty() { String::new() } else { format!("; its phases are {}", phases.join(", ")) }
}

/// Feeds every event of `source` to every machine. A machine that cannot go on drops out, and costs the others nothing.
///
/// # Errors
///
/// The first machine's error in the machines' order if all fail, otherwise the source's.
pub fn run(
    source: &mut dyn Source,
    machines: Vec<Box<dyn Simulate>>,
    options: RunOptions,
    progress: &mut dyn Progress,
) -> Result<RunOutcome, RunError> {
    let name = source.info().name;
    let threads = options.threads.clamp(1, machines.len().max(1));
    let mut pass = Pass::new(&options, progress);
    let (machines, source_end) = if threads == 1 {
        run_here(source, machines, &mut pass)
    } else {
        run_on(threads, source, machines, &mut pass)
    };
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    for (machine, end) in machines {
        match end {
            Ok(()) => results.push(machine.finish(&name)),
            Err(error) => failed.push((machine.name().to_owned(), error)),
        }
    }
    if results.is_empty() && !failed.is_empty() {
        return Err(failed.swap_remove(0).1.into());
    }
    source_end?;
    pass.check(&name)?;
    if let Some(curve) = pass.reach_metrics() {
        for RunResult { metrics, .. } in &mut results {
            // It belongs to the whole run, which stands before the phases.
            let end = metrics.iter().position(|row| row.phase.is_some()).unwrap_or(metrics.len());
            metrics.splice(end..end, curve.iter().cloned());
        }
    }
    Ok(pass.outcome(results, failed))
}

type Ended = (Box<dyn Simulate>, Result<(), MachineError>);

fn run_here(
    source: &mut dyn Source,
    machines: Vec<Box<dyn Simulate>>,
    pass: &mut Pass<'_>,
) -> (Vec<Ended>, Result<(), SourceError>) {
    let mut machines: Vec<Ended> = machines.into_iter().map(|machine| (machine, Ok(()))).collect();
    let end = source.run(&mut |batch: &mut Batch| pass.take(batch, &mut Here(&mut machines)));
    machines.iter_mut().for_each(finish);
    (machines, end)
}

/// Machines of the calling thread.
struct Here<'a>(&'a mut [Ended]);

impl Machines for Here<'_> {
    fn batch(&mut self, batch: &mut Batch) {
        self.0.iter_mut().for_each(|ended| feed(ended, batch));
    }

    fn measure(&mut self) {
        self.0.iter_mut().for_each(measure);
    }

    fn are_left(&self) -> bool {
        is_left(self.0)
    }
}

/// What a worker's machines are told.
enum Told {
    /// The next batch.
    Batch(Arc<Batch>),
    /// Measuring begins.
    Measure,
}

/// Ways to the workers; a worker hangs up when all machines of its own have failed.
struct Workers(Vec<SyncSender<Told>>);

impl Machines for Workers {
    fn batch(&mut self, batch: &mut Batch) {
        let batch = Arc::new(std::mem::replace(batch, Batch::new()));
        self.0.retain(|sender| sender.send(Told::Batch(Arc::clone(&batch))).is_ok());
    }

    fn measure(&mut self) {
        self.0.retain(|sender| sender.send(Told::Measure).is_ok());
    }

    fn are_left(&self) -> bool {
        !self.0.is_empty()
    }
}

/// Hands a batch to a machine that has not failed.
fn feed((machine, end): &mut Ended, batch: &Batch) {
    if end.is_ok() {
        *end = machine.batch(batch);
    }
}

/// Tells a machine that has not failed that measuring begins.
fn measure((machine, end): &mut Ended) {
    if end.is_ok() {
        *end = machine.measure();
    }
}

/// Tells a machine that has not failed that the source has ended.
fn finish((machine, end): &mut Ended) {
    if end.is_ok() {
        *end = machine.end();
    }
}

/// Returns whether there is anything to run for: a machine that has not failed, or no machine at all.
fn is_left(machines: &[Ended]) -> bool {
    machines.is_empty() || machines.iter().any(|(_, end)| end.is_ok())
}

/// Runs the machines on workers: each owns every `threads`-th machine and sees every batch, in order.
fn run_on(
    threads: usize,
    source: &mut dyn Source,
    machines: Vec<Box<dyn Simulate>>,
    pass: &mut Pass<'_>,
) -> (Vec<Ended>, Result<(), SourceError>) {
    /// Batches on their way to a worker: enough to even out bursts, little enough to bound memory.
    const QUEUE: usize = 32;
    let mut shares: Vec<Vec<(usize, Box<dyn Simulate>)>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, machine) in machines.into_iter().enumerate() {
        shares[number % threads].push((number, machine));
    }
    std::thread::scope(|scope| {
        let (senders, workers): (Vec<SyncSender<Told>>, Vec<_>) = shares
            .into_iter()
            .map(|share| {
                let (sender, receiver) = sync_channel(QUEUE);
                (sender, scope.spawn(move || work(share, &receiver)))
            })
            .unzip();
        let mut senders = Workers(senders);
        let end = source.run(&mut |batch: &mut Batch| pass.take(batch, &mut senders));
        drop(senders);
        let mut ended: Vec<(usize, Ended)> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        ended.sort_by_key(|(number, _)| *number);
        (ended.into_iter().map(|(_, ended)| ended).collect(), end)
    })
}

fn work(share: Vec<(usize, Box<dyn Simulate>)>, told: &Receiver<Told>) -> Vec<(usize, Ended)> {
    let (numbers, mut machines): (Vec<usize>, Vec<Ended>) =
        share.into_iter().map(|(number, machine)| (number, (machine, Ok(())))).unzip();
    for told in told {
        match told {
            Told::Batch(batch) => machines.iter_mut().for_each(|ended| feed(ended, &batch)),
            Told::Measure => machines.iter_mut().for_each(measure),
        }
        if !is_left(&machines) {
            break;
        }
    }
    machines.iter_mut().for_each(finish);
    numbers.into_iter().zip(machines).collect()
}
