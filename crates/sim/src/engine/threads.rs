//! When threads begin, and what waits for their end.
//!
//! A source does not say which thread began another one, nor when. A thread of the program begins no earlier than the core that is
//! least far of those whose threads are there; otherwise it would run before the program had come to it. And a thread that is left alone goes on
//! when the last of the others has ended: a program that divides work among threads waits for all of them.

use std::collections::BTreeSet;

use pagewalk_trace::{Event, ProcessId, ThreadId};

/// The thread of a source that has not named one, and the name that it has later: numbers begin with 1.
const UNNAMED: (ProcessId, ThreadId) = (ProcessId(0), ThreadId(0));
const FIRST: (ProcessId, ThreadId) = (ProcessId(0), ThreadId(1));

/// The threads that have begun, and not ended.
#[derive(Debug)]
pub(crate) struct Threads {
    process: ProcessId,
    there: BTreeSet<(ProcessId, ThreadId)>,
    /// When the last of the threads that have ended was done.
    ended_ps: u64,
}

impl Threads {
    pub(super) fn new() -> Self {
        Self { process: UNNAMED.0, there: BTreeSet::from([UNNAMED]), ended_ps: 0 }
    }

    /// Returns whether a thread of the current process has begun.
    pub(crate) fn has_begun(&self, thread: ThreadId) -> bool {
        self.there.contains(&(self.process, thread))
    }

    /// Notes that a thread of the current process begins; returns from when on it can run, where each core has come so far.
    pub(crate) fn begin(&mut self, thread: ThreadId, cores: usize, time: impl Fn(usize) -> u64) -> u64 {
        let time_of = |&(_, thread): &(ProcessId, ThreadId)| time(thread.0 as usize % cores);
        if time_of(&UNNAMED) == 0 {
            // It has done nothing: the source names all.
            self.there.remove(&UNNAMED);
        }
        let from_ps = self.there.iter().map(time_of).min().unwrap_or(0);
        let named = (self.process, thread);
        self.there.insert(named);
        if named == FIRST {
            self.there.remove(&UNNAMED);
        }
        from_ps
    }

    /// Takes the end of a thread of the current process, at a time; returns the thread that is left alone, and from when on it can go on.
    pub(crate) fn end(&mut self, thread: ThreadId, at_ps: u64) -> Option<(ThreadId, u64)> {
        self.there.remove(&(self.process, thread));
        self.ended_ps = self.ended_ps.max(at_ps);
        let mut left = self.there.iter().filter(|(process, _)| *process == self.process);
        match (left.next(), left.next()) {
            (Some(&(_, alone)), None) => Some((alone, self.ended_ps)),
            _ => None,
        }
    }

    /// Takes changes of process.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Process(process) => self.process = *process,
            Event::ProcessEnd => {
                let ended = self.process;
                self.there.retain(|&(process, _)| process != ended);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_begins_where_the_least_far_of_the_others_is() {
        let (mut threads, times) = (Threads::new(), [0, 70, 50, 90]);
        let begin = |threads: &mut Threads, thread| threads.begin(ThreadId(thread), 4, |core| times[core]);
        // The first core has run nothing, and the first thread begins at once.
        assert_eq!(begin(&mut threads, 1), 0);
        assert_eq!((begin(&mut threads, 3), begin(&mut threads, 2), begin(&mut threads, 5)), (70, 70, 50));
        assert_eq!(threads.end(ThreadId(2), 60), None);
        assert_eq!((threads.has_begun(ThreadId(2)), begin(&mut threads, 4)), (false, 70));
        // A child is another process, whose threads have the same numbers.
        threads.event(&Event::Process(ProcessId(1)));
        assert_eq!((threads.has_begun(ThreadId(1)), begin(&mut threads, 1)), (false, 0));
        threads.event(&Event::Process(ProcessId(0)));
        threads.event(&Event::ProcessEnd);
        assert_eq!((begin(&mut threads, 2), begin(&mut threads, 3)), (70, 50));
        assert_eq!(threads.end(ThreadId(2), 55), Some((ThreadId(3), 60)));
    }

    #[test]
    fn a_thread_that_was_not_named_at_first_is_the_first() {
        let (mut threads, times) = (Threads::new(), [40, 0, 50, 90]);
        let begin = |threads: &mut Threads, thread| threads.begin(ThreadId(thread), 4, |core| times[core]);
        assert_eq!([2, 3, 1].map(|thread| begin(&mut threads, thread)), [40; 3]);
        assert_eq!(threads.end(ThreadId(3), 90), None);
        assert_eq!(threads.end(ThreadId(2), 50), Some((ThreadId(1), 90)));
    }
}
