//! A program's executed blocks and data accesses as a stream of events, so that any program is a trace source.

use std::ops::ControlFlow;
use std::sync::Arc;

use pagewalk_trace::{Access, Batch, BlockId, Code, Event, Isa, ProcessId, Sink};
use pagewalk_vm::addr::{Asid, Pfn, VirtAddr};
use rustc_hash::FxHashMap;

use crate::code::Block;
use crate::csr::Scheme;
use crate::end::End;
use crate::machine::Machine;

/// Blocks whose numbers are kept at most; then all are forgotten, and get new numbers.
const MOST_BLOCKS: usize = 1 << 18;
/// The bits of an address that a trace holds.
const ADDR_MASK: u64 = (1 << Access::ADDR_BITS) - 1;

/// What addresses mean: physical ones, or those of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    Physical,
    Virtual(Scheme, Pfn, Asid),
}

/// The numbers of the blocks that were executed.
#[derive(Default)]
struct Numbers {
    /// By the address of a block, and by the place of its bytes in memory as long as these are the same.
    by_place: FxHashMap<(u64, (u64, u64)), BlockId>,
    /// By address and bytes.
    by_bytes: FxHashMap<(u64, Arc<[u8]>), BlockId>,
    /// The number of the next block.
    next: u32,
}

/// Turns blocks and accesses into batches. Every address space is a process of the trace, numbered in order of appearance; physical
/// addresses are one, too.
pub(crate) struct Recording {
    sink: Box<dyn Sink>,
    batch: Batch,
    numbers: Numbers,
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
        let mut recording = Self {
            sink,
            batch,
            numbers: Numbers::default(),
            spaces,
            current: 0,
            count_mark: 0,
            counted: retired,
            is_stopped: false,
        };
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
        self.make_room(retired);
        self.follow(space, retired);
        self.batch.push(access);
    }

    /// Notes that a block is executed, whose instructions are described when its number is new.
    pub(crate) fn execute(
        &mut self,
        space: Space,
        pc: u64,
        place: Option<(u64, u64)>,
        bytes: impl FnOnce() -> Vec<u8>,
        retired: u64,
    ) {
        if self.is_stopped {
            return;
        }
        self.make_room(retired);
        self.follow(space, retired);
        let (number, code) = self.numbers.number(pc & ADDR_MASK, place, bytes);
        if let Some(code) = code {
            self.batch.mark(Event::Code(code));
        }
        self.batch.execute(number);
    }

    fn make_room(&mut self, retired: u64) {
        // Marks take memory as accesses do: a program may change its address space all the time.
        if self.batch.is_full() || self.batch.marks.len() >= Batch::FULL {
            self.hand_on(retired);
        }
    }

    /// Lets what follows be of an address space.
    fn follow(&mut self, space: Space, retired: u64) {
        if self.spaces[self.current] != space {
            self.end_count(retired);
            self.enter(space);
            self.begin_count();
        }
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

impl Numbers {
    /// Returns the number of a block, and its description if the number is new.
    fn number(
        &mut self,
        addr: u64,
        place: Option<(u64, u64)>,
        bytes: impl FnOnce() -> Vec<u8>,
    ) -> (BlockId, Option<Code>) {
        if let Some(place) = place
            && let Some(&known) = self.by_place.get(&(addr, place))
        {
            return (known, None);
        }
        if self.by_place.len() >= MOST_BLOCKS {
            self.by_place.clear();
        }
        if self.by_bytes.len() >= MOST_BLOCKS {
            self.by_bytes.clear();
        }
        let key = (addr, Arc::from(bytes()));
        let (number, is_new) = match self.by_bytes.get(&key) {
            Some(&known) => (known, false),
            None => (BlockId(self.next), true),
        };
        if let Some(place) = place {
            self.by_place.insert((addr, place), number);
        }
        if !is_new {
            return (number, None);
        }
        self.next += 1;
        let code = Code { block: number, addr: VirtAddr(addr), isa: Isa::Riscv64, bytes: Arc::clone(&key.1) };
        self.by_bytes.insert(key, number);
        (number, Some(code))
    }
}

impl Machine {
    /// Hands every executed block, and every load and store of memory from now on to `sink`, until
    /// [`Machine::finish_recording`]. Accesses to devices are not among them; an atomic operation is a load and a store. The run
    /// ends with [`End::RecordingStopped`] when the sink breaks.
    pub fn record(&mut self, sink: Box<dyn Sink>) {
        self.mmu.forget_pages();
        self.recording = Some(Box::new(Recording::new(sink, self.retired)));
    }

    /// Hands on what was recorded last.
    pub fn finish_recording(&mut self) {
        if let Some(mut recording) = self.recording.take()
            && !recording.is_stopped
        {
            recording.hand_on(self.retired);
        }
    }

    /// Notes an access that was made.
    #[inline]
    pub(crate) fn record_access(&mut self, addr: u64, bytes: u64, write: bool) {
        let Some(recording) = &mut self.recording else { return };
        let access = Access::new(VirtAddr(addr), bytes as u32, write);
        recording.access(self.mmu.data_space(), access, self.retired);
        self.heed_recording();
    }

    /// Notes the block that is executed next.
    pub(crate) fn record_block(&mut self, block: Block) {
        let Some(recording) = &mut self.recording else { return };
        let code = &self.code;
        recording.execute(
            self.mmu.fetch_space(),
            self.pc,
            code.place(block),
            || code.bytes(block),
            self.retired,
        );
        self.heed_recording();
    }

    /// Ends the run if the recording has been stopped.
    fn heed_recording(&mut self) {
        if self.recording.as_ref().is_some_and(|recording| recording.is_stopped) {
            self.end.get_or_insert(End::RecordingStopped);
            self.attention = true;
            self.leave_block = true;
        }
    }
}
