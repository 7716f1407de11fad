//! When threads begin, and what waits for their end.
//!
//! A source does not say which thread began another one, nor when. So a thread begins no earlier than the
//! earliest of the cores that have a thread which has begun and not ended; otherwise it would run before the program had come to it.
//! A thread that is left alone goes on when the last of the others has ended: a program that divides work among threads waits for
//! all of them.

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
    /// How many there are on each core.
    on_core: Vec<u32>,
    /// When the last of the threads that have ended was done.
    ended_ps: u64,
}

impl Threads {
    pub(super) fn new(cores: usize) -> Self {
        let mut threads =
            Self { process: UNNAMED.0, there: BTreeSet::new(), on_core: vec![0; cores], ended_ps: 0 };
        threads.insert(UNNAMED);
        threads
    }

    /// Returns whether a thread of the current process has begun.
    pub(crate) fn has_begun(&self, thread: ThreadId) -> bool {
        self.there.contains(&(self.process, thread))
    }

    /// Notes that a thread of the current process begins; returns from when on it can run, where each core has come so far.
    pub(crate) fn begin(&mut self, thread: ThreadId, time: impl Fn(usize) -> u64) -> u64 {
        if time(self.core(UNNAMED.1)) == 0 {
            // It has done nothing: the source names all.
            self.remove(UNNAMED);
        }
        let busy = self.on_core.iter().enumerate().filter(|(_, threads)| **threads > 0);
        let from_ps = busy.map(|(core, _)| time(core)).min().unwrap_or(0);
        let named = (self.process, thread);
        self.insert(named);
        if named == FIRST {
            self.remove(UNNAMED);
        }
        from_ps
    }

    /// Takes the end of a thread of the current process, at a time; returns the thread that is left alone, and from when on it can go on.
    pub(crate) fn end(&mut self, thread: ThreadId, at_ps: u64) -> Option<(ThreadId, u64)> {
        self.remove((self.process, thread));
        self.ended_ps = self.ended_ps.max(at_ps);
        let mut left = self.there_of(self.process);
        match (left.next(), left.next()) {
            (Some(alone), None) => Some((alone, self.ended_ps)),
            _ => None,
        }
    }

    /// Takes changes of process.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Process(process) => self.process = *process,
            Event::ProcessEnd => {
                let ended: Vec<ThreadId> = self.there_of(self.process).collect();
                ended.into_iter().for_each(|thread| self.remove((self.process, thread)));
            }
            _ => {}
        }
    }

    /// Returns whether threads are on a core that have begun, and not ended.
    #[inline]
    pub(crate) fn are_on(&self, core: usize) -> bool {
        self.on_core[core] > 0
    }

    /// Returns the core of a thread: they are placed on cores round-robin by their number.
    pub(crate) fn core(&self, thread: ThreadId) -> usize {
        thread.0 as usize % self.on_core.len()
    }

    fn there_of(&self, process: ProcessId) -> impl Iterator<Item = ThreadId> {
        let all = (process, ThreadId(0))..=(process, ThreadId(u32::MAX));
        self.there.range(all).map(|&(_, thread)| thread)
    }

    fn insert(&mut self, thread: (ProcessId, ThreadId)) {
        if self.there.insert(thread) {
            let core = self.core(thread.1);
            self.on_core[core] += 1;
        }
    }

    fn remove(&mut self, thread: (ProcessId, ThreadId)) {
        if self.there.remove(&thread) {
            let core = self.core(thread.1);
            self.on_core[core] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_begins_where_the_earliest_of_the_others_is() {
        let (mut threads, times) = (Threads::new(4), [0, 70, 50, 90]);
        let begin = |threads: &mut Threads, thread| threads.begin(ThreadId(thread), |core| times[core]);
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
        let (mut threads, times) = (Threads::new(4), [40, 0, 50, 90]);
        let begin = |threads: &mut Threads, thread| threads.begin(ThreadId(thread), |core| times[core]);
        assert_eq!([2, 3, 1].map(|thread| begin(&mut threads, thread)), [40; 3]);
        assert_eq!(threads.end(ThreadId(3), 90), None);
        assert_eq!(threads.end(ThreadId(2), 50), Some((ThreadId(1), 90)));
    }
}
