//! The run loop: one pass over a source's events feeds any number of machines.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use pagewalk_trace::{Access, Batch, Event, Source, SourceError};
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

use crate::begin::Begin;
use crate::machine::{MachineError, Simulate};
use crate::metrics::RunResult;
use crate::reach::Reach;

/// The options of a pass over a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Worker threads that the machines are divided among; 1 runs them on the calling thread. Results do not
    /// depend on it.
    pub threads: usize,
    /// Until this phase begins, machines see only the first touch of every page.
    pub begin: Option<String>,
    /// Stop after so many accesses, counted from where that phase begins.
    pub limit: Option<u64>,
    /// Also measure how many misses TLBs of growing size would have.
    pub reach: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { threads: 1, begin: None, limit: None, reach: false }
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
    /// Accesses consumed, page-crossing ones counted once.
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
    let reach = options.reach.then(Reach::default);
    let begin = options.begin.as_deref().map(Begin::new);
    let mut pass = Pass {
        taken: 0,
        counted: 0,
        skipped: 0,
        begin,
        limit: options.limit,
        given_frames: false,
        progress,
        reach,
    };
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
    if let Some((phase, phases)) = pass.begin.as_ref().and_then(Begin::missing) {
        return Err(RunError::NoSuchPhase { name, phase: phase.to_owned(), phases: phases.to_vec() });
    }
    if pass.taken == 0 {
        return Err(RunError::NoAccesses(name));
    }
    if let Some(reach) = &mut pass.reach {
        let curve = reach.metrics();
        for RunResult { metrics, .. } in &mut results {
            // It belongs to the whole run, which stands before the phases.
            let end = metrics.iter().position(|row| row.phase.is_some()).unwrap_or(metrics.len());
            metrics.splice(end..end, curve.iter().cloned());
        }
    }
    let limited = options.limit.is_some_and(|limit| pass.counted >= limit);
    Ok(RunOutcome { results, failed, accesses: pass.taken, limited, given_frames: pass.given_frames })
}

type Ended = (Box<dyn Simulate>, Result<(), MachineError>);

fn run_here(
    source: &mut dyn Source,
    machines: Vec<Box<dyn Simulate>>,
    pass: &mut Pass<'_>,
) -> (Vec<Ended>, Result<(), SourceError>) {
    let mut machines: Vec<Ended> = machines.into_iter().map(|machine| (machine, Ok(()))).collect();
    let end = source.run(&mut |batch: &mut Batch| {
        let go_on = pass.take(batch);
        machines.iter_mut().for_each(|ended| feed(ended, batch));
        if is_left(&machines) { go_on } else { ControlFlow::Break(()) }
    });
    machines.iter_mut().for_each(finish);
    (machines, end)
}

/// Hands a batch to a machine that has not failed.
fn feed((machine, end): &mut Ended, batch: &Batch) {
    if end.is_ok() {
        *end = machine.batch(batch);
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
        let (mut senders, workers): (Vec<SyncSender<Arc<Batch>>>, Vec<_>) = shares
            .into_iter()
            .map(|share| {
                let (sender, receiver) = sync_channel(QUEUE);
                (sender, scope.spawn(move || work(share, &receiver)))
            })
            .unzip();
        let end = source.run(&mut |batch: &mut Batch| {
            let go_on = pass.take(batch);
            let batch = Arc::new(std::mem::replace(batch, Batch::new()));
            // A worker hangs up when all machines of its own have failed.
            senders.retain(|sender| sender.send(Arc::clone(&batch)).is_ok());
            if senders.is_empty() { ControlFlow::Break(()) } else { go_on }
        });
        drop(senders);
        let mut ended: Vec<(usize, Ended)> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        ended.sort_by_key(|(number, _)| *number);
        (ended.into_iter().map(|(_, ended)| ended).collect(), end)
    })
}

fn work(share: Vec<(usize, Box<dyn Simulate>)>, batches: &Receiver<Arc<Batch>>) -> Vec<(usize, Ended)> {
    let (numbers, mut machines): (Vec<usize>, Vec<Ended>) =
        share.into_iter().map(|(number, machine)| (number, (machine, Ok(())))).unzip();
    for batch in batches {
        machines.iter_mut().for_each(|ended| feed(ended, &batch));
        if !is_left(&machines) {
            break;
        }
    }
    machines.iter_mut().for_each(finish);
    numbers.into_iter().zip(machines).collect()
}

/// The work on every batch that is done once, before any machine sees the batch.
struct Pass<'a> {
    taken: u64,
    /// Of these, since the phase began that machines begin with.
    counted: u64,
    /// Left out until the phase that machines begin with.
    skipped: u64,
    begin: Option<Begin>,
    limit: Option<u64>,
    given_frames: bool,
    progress: &'a mut dyn Progress,
    reach: Option<Reach>,
}

impl Pass<'_> {
    fn take(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        if let Some(begin) = &mut self.begin {
            self.skipped += begin.take(batch);
        }
        let begun = self.begin.as_ref().is_none_or(|begin| begin.missing().is_none());
        if let (Some(limit), true) = (self.limit, begun) {
            truncate(batch, limit - self.counted);
        }
        self.taken += batch.accesses.len() as u64;
        self.counted += if begun { batch.accesses.len() as u64 } else { 0 };
        split_crossings(batch);
        if let Some(reach) = &mut self.reach {
            reach.take(batch);
        }
        self.given_frames |= batch.marks.iter().any(|mark| matches!(mark.event, Event::Frame(_)));
        let phase = batch.marks.iter().rev().find_map(|mark| match &mark.event {
            Event::Phase(name) => Some(name.as_str()),
            _ => None,
        });
        self.progress.advance(self.taken + self.skipped, phase);
        if self.limit.is_some_and(|limit| self.counted >= limit) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Cuts a batch to `most` accesses; the last instruction count is cut in proportion.
pub fn truncate(batch: &mut Batch, most: u64) {
    if batch.accesses.len() as u64 <= most {
        return;
    }
    let (before, most) = (batch.accesses.len() as u64, most as usize);
    batch.accesses.truncate(most);
    batch.marks.retain(|mark| (mark.at as usize) < most);
    let counted = batch.marks.iter_mut().rev().find_map(|mark| match &mut mark.event {
        Event::Instructions(count) => Some((mark.at, count)),
        _ => None,
    });
    if let Some((at, count)) = counted {
        let covered = (before - u64::from(at)).max(1);
        *count = (u128::from(*count) * (most as u128 - u128::from(at)) / u128::from(covered)) as u64;
    }
}

/// Makes every access touch one page: one that crosses a page boundary becomes two, and records that stand for
/// no access disappear.
fn split_crossings(batch: &mut Batch) {
    let crosses = |access: Access| (access.addr().0 & (PAGE_BYTES - 1)) + access.bytes() > PAGE_BYTES;
    if !batch.accesses.iter().any(|&access| crosses(access) || !access.is_some()) {
        return;
    }
    let before = std::mem::take(&mut batch.accesses);
    let mut marks = batch.marks.iter_mut().peekable();
    for (number, &access) in before.iter().enumerate() {
        while let Some(mark) = marks.next_if(|mark| mark.at as usize <= number) {
            mark.at = batch.accesses.len() as u32;
        }
        if crosses(access) {
            let (addr, write) = (access.addr(), access.is_write());
            let second = VirtAddr((addr.0 | (PAGE_BYTES - 1)) + 1);
            let first_bytes = second.0 - addr.0;
            batch.accesses.push(Access::new(addr, first_bytes as u32, write).within_page());
            batch.accesses.push(Access::new(second, (access.bytes() - first_bytes) as u32, write));
        } else if access.is_some() {
            batch.accesses.push(access);
        }
    }
    marks.for_each(|mark| mark.at = batch.accesses.len() as u32);
}

#[cfg(test)]
mod tests {
    use pagewalk_trace::Mark;

    use super::*;

    #[test]
    fn a_crossing_access_becomes_two_and_marks_keep_their_place() {
        let mut batch = Batch::new();
        batch.push(Access::load(VirtAddr(0x1000), 8));
        batch.push(Access::store(VirtAddr(0x1ffd), 8));
        batch.mark(Event::Exec);
        batch.push(Access::NONE);
        batch.mark(Event::ProcessEnd);
        batch.push(Access::load(VirtAddr(0x2ff8), 8));
        batch.mark(Event::Exec);
        split_crossings(&mut batch);
        let parts: Vec<_> = batch.accesses.iter().map(|a| (a.addr().0, a.bytes(), a.is_write())).collect();
        assert_eq!(parts, [(0x1000, 8, false), (0x1ffd, 2, true), (0x2000, 8, true), (0x2ff8, 8, false)]);
        let marks: Vec<_> = batch.marks.iter().map(|mark| mark.at).collect();
        assert_eq!(marks, [3, 3, 4]);
    }

    #[test]
    fn cutting_a_batch_cuts_its_instructions_in_proportion() {
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(1000));
        (0..100).for_each(|at| batch.push(Access::load(VirtAddr(0x1000 + at), 1)));
        truncate(&mut batch, 25);
        assert_eq!(batch.accesses.len(), 25);
        assert_eq!(batch.marks, [Mark { at: 0, event: Event::Instructions(250) }]);
    }
}
