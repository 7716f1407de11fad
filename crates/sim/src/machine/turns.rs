//! Several cores, in order of time.
//!
//! Between two changes of an address space, each core has its own accesses, in the program's order. The core whose clock is
//! earliest goes on, until another one's is; of equal ones, the first. So what cores share (memory, devices, the kernel's
//! locks) sees their requests in order of time, as far as one access at a time can give it.
//!
//! DEVIATION: cores run ahead within a batch of events only, and know nothing of the program's own locks.

use std::collections::VecDeque;

use pagewalk_trace::{Access, Batch, Event, Mark};
use pagewalk_vm::table::PageTable;

use super::{Machine, MachineError, accesses_of_segment};
use crate::time::Clock;

/// What a core is to do, for each of them.
struct Turns<'a> {
    pieces: Vec<VecDeque<Piece<'a>>>,
}

/// Accesses of one core that follow each other.
struct Piece<'a> {
    /// Instructions and accesses of their segment, if one begins here.
    segment: Option<(u64, u64)>,
    accesses: &'a [Access],
}

impl<T: PageTable, C: Clock> Machine<T, C> {
    /// Consumes a batch, core by core.
    pub(super) fn batch_by_time(&mut self, batch: &Batch) -> Result<(), MachineError> {
        let mut turns = Turns { pieces: self.cores.iter().map(|_| VecDeque::new()).collect() };
        let mut core = self.core;
        let (mut done, mut segment) = (0, None);
        for (number, Mark { at, event }) in batch.marks.iter().enumerate() {
            let accesses = &batch.accesses[done..*at as usize];
            turns.pieces[core].push_back(Piece { segment: segment.take(), accesses });
            done = *at as usize;
            match event {
                Event::Instructions(count) => {
                    self.counts.instructions += count;
                    segment = Some((*count, accesses_of_segment(batch, number)));
                    self.segment = segment;
                }
                Event::Thread(thread) => {
                    core = thread.0 as usize % self.cores.len();
                    segment = self.segment.filter(|&(_, accesses)| accesses > 0);
                }
                Event::ThreadEnd(_)
                | Event::Unobserved(_)
                | Event::JobBegin { .. }
                | Event::JobEnd
                | Event::ThreadStack(_) => {}
                event => {
                    self.take_turns(&mut turns)?;
                    self.core = core;
                    self.event(event)?;
                }
            }
        }
        turns.pieces[core].push_back(Piece { segment, accesses: &batch.accesses[done..] });
        self.take_turns(&mut turns)?;
        self.core = core;
        Ok(())
    }

    /// Lets cores go on until none has anything to do.
    fn take_turns(&mut self, turns: &mut Turns<'_>) -> Result<(), MachineError> {
        while let Some((core, until_ps)) = self.next_core(turns) {
            self.core = core;
            while self.clock.time(core) <= until_ps
                && let Some(piece) = turns.pieces[core].front_mut()
            {
                if let Some((instructions, accesses)) = piece.segment.take() {
                    self.clock.segment(core, Some(instructions), accesses);
                }
                // Alone, it has all the time there is.
                let most = if until_ps == u64::MAX { piece.accesses.len() } else { 1 };
                match piece.accesses.split_at_checked(most).filter(|_| !piece.accesses.is_empty()) {
                    Some((now, rest)) => {
                        piece.accesses = rest;
                        self.accesses(now)?;
                    }
                    None => drop(turns.pieces[core].pop_front()),
                }
            }
        }
        Ok(())
    }

    /// The earliest core that has something to do, and how long it is the earliest.
    fn next_core(&self, turns: &Turns<'_>) -> Option<(usize, u64)> {
        let busy = turns.pieces.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty());
        let times = busy.map(|(core, _)| (self.clock.time(core), core));
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
