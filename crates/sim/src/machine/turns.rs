//! Several cores, in order of time.
//!
//! Between two changes of an address space, each core has its own accesses, in the program's order. The core whose clock is
//! earliest goes on, until another one's is; of equal ones, the first. So what cores share (memory, devices, the kernel's
//! locks) sees their requests in order of time, as far as one access at a time can give it.
//!
//! A recording has long stretches of one thread, whose core would be far ahead of the others at the end of each. So work is held
//! over the ends of batches: a core goes on only as long as the next work of each other core is known. A thread that waits has
//! none; when as much is held as a recorder's longest stretches of several threads have, the others go on without it, until there is
//! work of it again.
//!
//! DEVIATION: cores know nothing of the program's own locks, and what is known of an address space when it changes is done before
//! the change. When threads begin, and what waits for their end, `engine/threads.rs` says.

use std::collections::VecDeque;
use std::sync::Arc;

use pagewalk_trace::{Batch, Event};
use pagewalk_vm::table::PageTable;

use crate::engine::{Accesses, Engine, Place, Then, pieces};
use crate::error::MachineError;
use crate::metrics::{Boundary, Phases};
use crate::time::Clock;

/// Accesses and blocks that are held for cores which may come first: 32 MiB of them. Valgrind lets a thread run for 100,000 blocks, some
/// 300,000 accesses, before another one.
const MOST_HELD: usize = 1 << 22;

/// The work of each core.
pub(super) struct Turns {
    cores: Vec<CoreWork>,
    /// How many accesses and blocks are held, and how many at most.
    held: usize,
    pub(super) most_held: usize,
}

/// What a core has to do, in order.
#[derive(Default)]
struct CoreWork {
    turns: VecDeque<Turn>,
    /// Whether the others go on without it: it has had no work for long.
    is_away: bool,
}

/// Accesses of one core that follow each other.
struct Turn {
    /// Instructions and accesses of their segment, if one begins here.
    segment: Option<(u64, u64)>,
    batch: Arc<Batch>,
    /// Where in the batch they are.
    place: Place,
    /// An event of the core's thread behind them, which other cores do not wait for.
    then: Option<Event>,
}

/// How far cores go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until one that may come first has no work.
    Known,
    /// Until none has work.
    Done,
}

impl Default for Turns {
    fn default() -> Self {
        Self { cores: Vec::new(), held: 0, most_held: MOST_HELD }
    }
}

impl Turns {
    /// Consumes a batch, core by core; some of it may be held.
    pub(super) fn batch<T: PageTable, C: Clock>(
        &mut self,
        engine: &mut Engine<T, C>,
        phases: &mut Phases,
        batch: &Batch,
    ) -> Result<(), MachineError> {
        let batch = &Arc::new(batch.clone());
        self.cores.resize_with(engine.mmu.cores(), CoreWork::default);
        let (mut core, mut segment) = (engine.core, None);
        for piece in pieces(batch) {
            let then = match piece.then {
                Then::Event(event @ Event::KernelWrite(_)) => Some(event.clone()),
                _ => None,
            };
            self.add(core, batch, piece.accesses, (segment.take(), then));
            match piece.then {
                Then::Segment { instructions, accesses } => {
                    engine.counts.instructions += instructions;
                    segment = Some((instructions, accesses));
                    engine.segment = segment;
                }
                Then::Event(Event::Thread(thread)) => {
                    if !engine.threads.has_begun(*thread) {
                        self.finish(engine)?;
                        let from_ps = engine.threads.begin(*thread, |core| engine.clock.time(core));
                        engine.clock.idle(engine.threads.core(*thread), from_ps);
                    }
                    core = engine.threads.core(*thread);
                    segment = engine.segment.filter(|&(_, accesses)| accesses > 0);
                }
                Then::Event(Event::ThreadEnd(thread)) => {
                    self.finish(engine)?;
                    let ended_ps = engine.clock.time(engine.threads.core(*thread));
                    if let Some((alone, from_ps)) = engine.threads.end(*thread, ended_ps) {
                        engine.clock.idle(engine.threads.core(alone), from_ps);
                    }
                }
                Then::Event(
                    Event::KernelWrite(_)
                    | Event::Unobserved(_)
                    | Event::JobBegin { .. }
                    | Event::JobEnd
                    | Event::ThreadStack(_),
                ) => {}
                // The code of a block comes before its first execution, and may come earlier.
                Then::Event(event @ Event::Code(_)) => engine.event(event)?,
                Then::Event(event) => {
                    self.finish(engine)?;
                    engine.core = core;
                    engine.threads.event(event);
                    match event {
                        Event::Phase(name) => cross(engine, phases, &Boundary::Phase(name.clone())),
                        event => engine.event(event)?,
                    }
                }
                Then::End => {}
            }
        }
        self.go_on(engine)?;
        engine.core = core;
        Ok(())
    }

    /// Lets cores go on until none has anything to do.
    pub(super) fn finish<T: PageTable, C: Clock>(
        &mut self,
        engine: &mut Engine<T, C>,
    ) -> Result<(), MachineError> {
        self.take(engine, Until::Done)
    }

    /// Adds accesses of a core, with the segment that begins with them and the event behind them.
    fn add(
        &mut self,
        core: usize,
        batch: &Arc<Batch>,
        accesses: Accesses<'_>,
        (segment, then): (Option<(u64, u64)>, Option<Event>),
    ) {
        if accesses.is_empty() && segment.is_none() && then.is_none() {
            return;
        }
        let place = accesses.place();
        self.held += place.len();
        let CoreWork { turns, is_away } = &mut self.cores[core];
        turns.push_back(Turn { segment, batch: Arc::clone(batch), place, then });
        *is_away = false;
    }

    /// Lets cores go on as far as each one's next work is known; where too much is held, without those that have none.
    fn go_on<T: PageTable, C: Clock>(&mut self, engine: &mut Engine<T, C>) -> Result<(), MachineError> {
        self.take(engine, Until::Known)?;
        while self.held > self.most_held {
            self.cores.iter_mut().for_each(|work| work.is_away |= work.turns.is_empty());
            self.take(engine, Until::Known)?;
        }
        Ok(())
    }

    fn take<T: PageTable, C: Clock>(
        &mut self,
        engine: &mut Engine<T, C>,
        until: Until,
    ) -> Result<(), MachineError> {
        while let Some((core, until_ps)) = self.next_core(engine, until) {
            engine.core = core;
            let Self { cores, held, .. } = self;
            let turns = &mut cores[core].turns;
            while engine.clock.time(core) <= until_ps
                && let Some(turn) = turns.front_mut()
            {
                if let Some((instructions, accesses)) = turn.segment.take() {
                    engine.clock.segment(core, Some(instructions), accesses);
                }
                let accesses = turn.place.of(&turn.batch);
                // Alone, it has all the time there is.
                let left = accesses.list.len();
                let most = if until_ps == u64::MAX { left } else { left.min(1) };
                let (now, rest) = accesses.split_at(most);
                *held -= turn.place.len();
                if now.is_empty() {
                    engine.accesses(rest)?;
                    let then = turns.pop_front().and_then(|turn| turn.then);
                    then.map_or(Ok(()), |event| engine.event(&event))?;
                } else {
                    turn.place = rest.place();
                    *held += turn.place.len();
                    engine.accesses(now)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the earliest core that has something to do, and until when it is the earliest; none if one that may come first has nothing.
    fn next_core<T: PageTable, C: Clock>(&self, engine: &Engine<T, C>, until: Until) -> Option<(usize, u64)> {
        let (mut first, mut second) = (None, None);
        for (core, work) in self.cores.iter().enumerate() {
            let is_awaited = || until == Until::Known && !work.is_away && engine.threads.are_on(core);
            if work.turns.is_empty() && !is_awaited() {
                continue;
            }
            let time = (engine.clock.time(core), core);
            if first.is_none_or(|first| time < first) {
                second = first.replace(time);
            } else if second.is_none_or(|second| time < second) {
                second = Some(time);
            }
        }
        let (_, core) = first.filter(|&(_, core)| !self.cores[core].turns.is_empty())?;
        Some((core, second.map_or(u64::MAX, |(time_ps, _)| time_ps)))
    }
}

/// Crosses a boundary on a machine without jobs.
pub(super) fn cross<T: PageTable, C: Clock>(
    engine: &mut Engine<T, C>,
    phases: &mut Phases,
    boundary: &Boundary,
) {
    // Otherwise a wait that this snapshot counts could still be hidden by what comes after it.
    engine.clock.settle();
    phases.begin(boundary, engine.rows(|_| ()));
}
