//! A program's data accesses as a stream of events, so that any program is a trace source.

use std::ops::ControlFlow;

use pagewalk_trace::{Access, Batch, Event, ProcessId, Sink};
use pagewalk_vm::addr::{Asid, Pfn};

use crate::csr::Scheme;

/// What addresses mean: physical ones, or those of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    Physical,
    Virtual(Scheme, Pfn, Asid),
}

/// Turns accesses into batches. Every address space is a process of the trace, numbered in order of appearance; physical
/// addresses are one, too.
pub(crate) struct Recording {
    sink: Box<dyn Sink>,
    batch: Batch,
    spaces: Vec<Space>,
    current: usize,
    /// Which mark of the batch counts the instructions now.
    count_mark: usize,
    /// Instructions that have been counted.
    counted: u64,
    pub(crate) is_stopped: bool,
}

impl Recording {
    pub(crate) fn new(sink: Box<dyn Sink>, retired: u64) -> Self {
        // Programs begin in machine mode.
        let spaces = vec![Space::Physical];
        let batch = Batch::new();
        let mut recording =
            Self { sink, batch, spaces, current: 0, count_mark: 0, counted: retired, is_stopped: false };
        recording.begin_count();
        recording
    }

    fn begin_count(&mut self) {
        self.count_mark = self.batch.marks.len();
        self.batch.mark(Event::Instructions(0));
    }

    /// Counts the instructions until now.
    fn end_count(&mut self, retired: u64) {
        self.batch.marks[self.count_mark].event = Event::Instructions(retired - self.counted);
        self.counted = retired;
    }

    pub(crate) fn access(&mut self, space: Space, access: Access, retired: u64) {
        if self.is_stopped {
            return;
        }
        // Marks take memory as accesses do: a program may change its address space all the time.
        if self.batch.is_full() || self.batch.marks.len() >= Batch::FULL {
            self.hand_on(retired);
        }
        if self.spaces[self.current] != space {
            self.end_count(retired);
            self.enter(space);
            self.begin_count();
        }
        self.batch.push(access);
    }

    fn enter(&mut self, space: Space) {
        self.current = match self.spaces.iter().position(|&known| known == space) {
            Some(known) => known,
            None => {
                self.spaces.push(space);
                self.spaces.len() - 1
            }
        };
        self.batch.mark(Event::Process(ProcessId(self.current as u32)));
    }

    pub(crate) fn hand_on(&mut self, retired: u64) {
        self.end_count(retired);
        if self.sink.batch(&mut self.batch) == ControlFlow::Break(()) {
            self.is_stopped = true;
        }
        self.batch.clear();
        self.begin_count();
    }
}
