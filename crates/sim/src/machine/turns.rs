//! Several cores, in order of time.
//!
//! Between two changes of an address space, each core has its own accesses, in the program's order. The core whose clock is
//! earliest goes on, until another one's is; of equal ones, the first. So what cores share (memory, devices, the kernel's
//! locks) sees their requests in order of time, as far as one access at a time can give it.
//!
//! DEVIATION: each batch of events is consumed whole, so a core that a batch keeps busy for long, as a page fault that fills a
//! large page table does, begins the next batch ahead of the others. The bandwidth of memory (`time/bandwidth.rs`) keeps their
//! times apart; banks of DRAM, links and devices do not, and a core that is behind waits for what one ahead of it has taken of
//! them. Cores know nothing of the program's own locks. When threads begin, and what waits for their end,
//! `engine/threads.rs` says.

use std::collections::VecDeque;

use pagewalk_trace::{Batch, Event};
use pagewalk_vm::table::PageTable;

use crate::engine::{Accesses, Engine, Then, pieces};
use crate::error::MachineError;
use crate::metrics::{Boundary, Phases};
use crate::time::Clock;

/// The work of each core.
struct Turns<'a> {
    pieces: Vec<VecDeque<Turn<'a>>>,
}

/// Accesses of one core that follow each other.
struct Turn<'a> {
    /// Instructions and accesses of their segment, if one begins here.
    segment: Option<(u64, u64)>,
    accesses: Accesses<'a>,
    /// An event of the core's thread behind them, which other cores do not wait for.
    then: Option<&'a Event>,
}

/// Consumes a batch, core by core.
pub(super) fn batch<T: PageTable, C: Clock>(
    engine: &mut Engine<T, C>,
    phases: &mut Phases,
    batch: &Batch,
) -> Result<(), MachineError> {
    let cores = engine.mmu.cores();
    let mut turns = Turns { pieces: (0..cores).map(|_| VecDeque::new()).collect() };
    let (mut core, mut segment) = (engine.core, None);
    for piece in pieces(batch) {
        turns.pieces[core].push_back(Turn { segment: segment.take(), accesses: piece.accesses, then: None });
        match piece.then {
            Then::Segment { instructions, accesses } => {
                engine.counts.instructions += instructions;
                segment = Some((instructions, accesses));
                engine.segment = segment;
            }
            Then::Event(Event::Thread(thread)) => {
                if !engine.threads.has_begun(*thread) {
                    turns.take(engine)?;
                    let from_ps = engine.threads.begin(*thread, |core| engine.clock.time(core));
                    engine.clock.idle(engine.threads.core(*thread), from_ps);
                }
                core = engine.threads.core(*thread);
                segment = engine.segment.filter(|&(_, accesses)| accesses > 0);
            }
            Then::Event(Event::ThreadEnd(thread)) => {
                turns.take(engine)?;
                let ended_ps = engine.clock.time(engine.threads.core(*thread));
                if let Some((alone, from_ps)) = engine.threads.end(*thread, ended_ps) {
                    engine.clock.idle(engine.threads.core(alone), from_ps);
                }
            }
            Then::Event(
                Event::Unobserved(_) | Event::JobBegin { .. } | Event::JobEnd | Event::ThreadStack(_),
            ) => {}
            // The code of a block comes before its first execution, and may come earlier.
            Then::Event(Event::Code(code)) => engine.clock.code(code),
            Then::Event(event @ Event::KernelWrite(_)) => {
                turns.pieces[core].back_mut().expect("it was added above").then = Some(event);
            }
            Then::Event(event) => {
                turns.take(engine)?;
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
    turns.take(engine)?;
    engine.core = core;
    Ok(())
}

impl Turns<'_> {
    /// Lets cores go on until none has anything to do.
    fn take<T: PageTable, C: Clock>(&mut self, engine: &mut Engine<T, C>) -> Result<(), MachineError> {
        while let Some((core, until_ps)) = self.next_core(&engine.clock) {
            engine.core = core;
            while engine.clock.time(core) <= until_ps
                && let Some(piece) = self.pieces[core].front_mut()
            {
                if let Some((instructions, accesses)) = piece.segment.take() {
                    engine.clock.segment(core, Some(instructions), accesses);
                }
                // Alone, it has all the time there is.
                let left = piece.accesses.list.len();
                let most = if until_ps == u64::MAX { left } else { left.min(1) };
                let (now, rest) = piece.accesses.split_at(most);
                if now.is_empty() {
                    engine.accesses(rest)?;
                    let then = piece.then;
                    self.pieces[core].pop_front();
                    then.map_or(Ok(()), |event| engine.event(event))?;
                } else {
                    piece.accesses = rest;
                    engine.accesses(now)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the earliest core that has something to do, and until when it is the earliest.
    fn next_core(&self, clock: &impl Clock) -> Option<(usize, u64)> {
        let busy = self.pieces.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty());
        let times = busy.map(|(core, _)| (clock.time(core), core));
        let (mut first, mut second) = (None, None);
        for time in times {
            if first.is_none_or(|first| time < first) {
                second = first.replace(time);
            } else if second.is_none_or(|second| time < second) {
                second = Some(time);
            }
        }
        Some((first?.1, second.map_or(u64::MAX, |(time_ps, _)| time_ps)))
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
