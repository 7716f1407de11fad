//! Messages of many processes and threads become one stream of batches. Pure: no system calls.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use pagewalk_trace::{
    Advice, Batch, BlockId, Code, Event, Mapping, ObjectId, ObjectPages, ProcessId, Sink, ThreadId,
};
use pagewalk_vm::addr::{VirtAddr, VirtRange};
use pagewalk_vm::space::ADDRESS_LIMIT;

use crate::protocol::{BlockCode, Body, File, KnownBlock, Message, ProtocolError, Records};

/// Marks after which a batch is handed on, however few its accesses.
const MARKS_FULL: usize = 4_096;

/// Numbers the processes, says whose the following accesses are, and cuts the stream into batches.
///
/// # Contract
///
/// Batches follow the contract of [`Batch`]: one with accesses begins with an instruction mark if the front-end
/// counts instructions. Every process that appeared has ended in the stream once [`Assembler::finish`] was called.
#[derive(Debug, Default)]
pub struct Assembler {
    batch: Batch,
    /// The live processes by the system's number.
    live: BTreeMap<u32, ProcessId>,
    /// Announced forks whose child has not spoken yet, by the parent's number and the ticket.
    forks: BTreeMap<(u32, u64), ProcessId>,
    /// Files in the order in which they were first mapped, by the system's numbers.
    objects: BTreeMap<(u64, u64), ObjectId>,
    /// What becomes of new mappings of processes that lock all of theirs.
    locks_future: BTreeMap<ProcessId, Advice>,
    /// The blocks of each process by its own numbers.
    blocks: BTreeMap<ProcessId, Vec<KnownBlock>>,
    /// The number of all blocks so far.
    block_count: u32,
    counts_instructions: bool,
    process: ProcessId,
    thread: Option<ThreadId>,
    processes: u32,
    accesses: u64,
    instructions: u64,
    /// Whether the first process said that it ended.
    first_ended: bool,
}

impl Assembler {
    /// Creates an assembler that has seen nothing so far. `counts_instructions` says whether the front-end counts
    /// them.
    pub fn new(counts_instructions: bool) -> Self {
        Self { batch: Batch::new(), counts_instructions, thread: Some(ThreadId(1)), ..Self::default() }
    }

    /// Returns the number of accesses so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Instructions so far; 0 if the front-end does not count them.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Returns the number of processes so far.
    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// Returns whether the first process announced its end.
    pub fn first_ended(&self) -> bool {
        self.first_ended
    }

    /// Returns the processes that have not announced their end, in order. Once the stream is over, each of them was
    /// killed, or executed a program that is not observed, or was announced by its parent and never heard of.
    pub fn unended(&self) -> Vec<ProcessId> {
        let mut unended: Vec<ProcessId> = self.forks.values().chain(self.live.values()).copied().collect();
        unended.sort_unstable();
        unended
    }

    /// Returns the process that this number of the system's belongs to now.
    pub fn process(&self, pid: u32) -> Option<ProcessId> {
        self.live.get(&pid).copied()
    }

    /// Notes in the stream what was not observed of a process, and why.
    pub fn note(&mut self, process: ProcessId, text: String) {
        self.make_current(process);
        self.batch.mark(Event::Unobserved(text));
    }

    /// Takes one message; full batches go to `sink`.
    ///
    /// # Errors
    ///
    /// Messages that contradict each other.
    pub fn take(
        &mut self,
        message: &Message<'_>,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>, ProtocolError> {
        match message.body {
            Body::Start => self.start(message.pid),
            Body::ForkChild { parent, ticket } => self.fork_child(message.pid, parent, ticket)?,
            _ => {
                let Some(&process) = self.live.get(&message.pid) else {
                    return Err(ProtocolError::UnknownProcess { pid: message.pid });
                };
                return self.speak(process, message, sink);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Ends what has not ended and hands over the last batch.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> ControlFlow<()> {
        for process in self.unended() {
            self.end(process);
        }
        (self.forks, self.live) = Default::default();
        self.hand_over(sink)
    }

    fn start(&mut self, pid: u32) {
        if let Some(&process) = self.live.get(&pid) {
            self.switch(process, ThreadId(1));
            self.locks_future.remove(&process);
            self.blocks.remove(&process);
            self.batch.mark(Event::Exec);
        } else {
            let process = self.new_process();
            self.live.insert(pid, process);
        }
    }

    fn fork_child(&mut self, pid: u32, parent: u32, ticket: u64) -> Result<(), ProtocolError> {
        let child =
            self.forks.remove(&(parent, ticket)).ok_or(ProtocolError::UnknownFork { pid, parent, ticket })?;
        // The system reuses numbers; an earlier process of this one was killed before it could say so.
        if let Some(killed) = self.live.insert(pid, child) {
            self.end(killed);
        }
        Ok(())
    }

    fn speak(
        &mut self,
        process: ProcessId,
        message: &Message<'_>,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>, ProtocolError> {
        let thread = ThreadId(message.thread);
        if let Body::Records { instructions, records } = message.body {
            return self.records(process, thread, instructions, records, sink);
        }
        if let Body::Code(code) = message.body {
            self.code(process, code)?;
            return Ok(self.hand_over_marks(sink));
        }
        self.switch(process, thread);
        match message.body {
            Body::ThreadEnd => self.batch.mark(Event::ThreadEnd(thread)),
            Body::Fork { ticket } => {
                let child = self.new_process();
                self.forks.insert((message.pid, ticket), child);
                if let Some(blocks) = self.blocks.get(&process) {
                    self.blocks.insert(child, blocks.clone());
                }
                self.batch.mark(Event::Fork { child });
            }
            Body::ForkFailed { ticket } => {
                if let Some(child) = self.forks.remove(&(message.pid, ticket)) {
                    self.end(child);
                }
            }
            Body::End => {
                self.live.remove(&message.pid);
                self.first_ended |= process == ProcessId(0);
                self.end(process);
            }
            Body::Map { mapping, file, residence } => self.map(mapping, file, residence),
            Body::Lock(range, advice) => self.batch.mark(Event::Advise(range, advice)),
            Body::LockAll { current, future } => self.lock_all(current, future),
            Body::Unmap(range) => self.batch.mark(Event::Unmap(range)),
            Body::Protect(range, protection) => self.batch.mark(Event::Protect(range, protection)),
            Body::Advise(range, Some(advice)) => self.batch.mark(Event::Advise(range, advice)),
            Body::Advise(_, None) => {}
            Body::Remap { from, to, keeps_old } => self.remap(from, to, keeps_old),
            Body::Break(range) => {
                self.batch.mark(Event::Break(range));
                self.lock_new(range);
            }
            Body::Exec(_) | Body::Spawn(..) | Body::Filter(_) => {}
            Body::Start | Body::ForkChild { .. } | Body::Records { .. } | Body::Code(_) => {
                unreachable!("handled above")
            }
        }
        Ok(self.hand_over_marks(sink))
    }

    /// Hands the batch over if it has many marks: a program that does nothing but map memory must not fill ours.
    fn hand_over_marks(&mut self, sink: &mut dyn Sink) -> ControlFlow<()> {
        if self.batch.marks.len() >= MARKS_FULL { self.hand_over(sink) } else { ControlFlow::Continue(()) }
    }

    fn code(&mut self, process: ProcessId, code: BlockCode<'_>) -> Result<(), ProtocolError> {
        let BlockCode { number, addr, isa, instructions, bytes } = code;
        let blocks = self.blocks.entry(process).or_default();
        if number as usize != blocks.len() {
            return Err(ProtocolError::BlockOrder { number, blocks: blocks.len() });
        }
        let block = BlockId(self.block_count);
        self.block_count = self.block_count.checked_add(1).ok_or(ProtocolError::TooManyBlocks)?;
        blocks.push(KnownBlock { block, instructions });
        self.batch.mark(Event::Code(Code { block, addr, isa, bytes: bytes.into() }));
        Ok(())
    }

    fn map(&mut self, mut mapping: Mapping, file: Option<File>, residence: Option<Advice>) {
        mapping.object = file.map(|File { identity, first_page }| {
            let fresh = ObjectId(self.objects.len() as u64);
            ObjectPages { object: *self.objects.entry(identity).or_insert(fresh), first: first_page }
        });
        self.batch.mark(Event::Map(mapping));
        match residence {
            Some(advice) => self.batch.mark(Event::Advise(mapping.range, advice)),
            None => self.lock_new(mapping.range),
        }
    }

    /// A range of the current process is new: `mlockall` may have been about it.
    fn lock_new(&mut self, range: VirtRange) {
        if let Some(&advice) = self.locks_future.get(&self.process) {
            self.batch.mark(Event::Advise(range, advice));
        }
    }

    fn lock_all(&mut self, current: Option<Advice>, future: Option<Advice>) {
        if let Some(advice) = current {
            let all = VirtRange::new(VirtAddr(0), ADDRESS_LIMIT);
            self.batch.mark(Event::Advise(all, advice));
        }
        match future {
            Some(advice) => drop(self.locks_future.insert(self.process, advice)),
            None => drop(self.locks_future.remove(&self.process)),
        }
    }

    fn remap(&mut self, from: VirtRange, to: VirtRange, keeps_old: bool) {
        if from.is_empty() {
            // An old length of zero maps a shared mapping a second time.
            self.batch.mark(Event::Map(Mapping { shared: true, ..Mapping::anonymous(to) }));
            return;
        }
        self.batch.mark(Event::Remap { from, to });
        if keeps_old {
            self.batch.mark(Event::Map(Mapping::anonymous(from)));
        }
    }

    fn records(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        instructions: u64,
        records: Records<'_>,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>, ProtocolError> {
        // A batch with accesses begins with its instruction mark: other marks go ahead in a batch of their own.
        if self.counts_instructions
            && self.batch.accesses.is_empty()
            && self.batch.blocks.is_empty()
            && !self.batch.marks.is_empty()
            && self.hand_over(sink).is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let count = self.batch.marks.len();
        if self.counts_instructions {
            self.batch.mark(Event::Instructions(0));
        }
        self.switch(process, thread);
        let before = self.batch.accesses.len();
        let blocks = self.blocks.get(&process).map_or(&[][..], Vec::as_slice);
        let of_blocks = records.append_to(&mut self.batch, blocks)?;
        if self.counts_instructions {
            let instructions = instructions.saturating_add(of_blocks);
            self.batch.marks[count].event = Event::Instructions(instructions);
            self.instructions = self.instructions.saturating_add(instructions);
        }
        self.accesses += (self.batch.accesses.len() - before) as u64;
        match self.batch.is_full() {
            true => Ok(self.hand_over(sink)),
            false => Ok(self.hand_over_marks(sink)),
        }
    }

    fn new_process(&mut self) -> ProcessId {
        let process = ProcessId(self.processes);
        self.processes += 1;
        process
    }

    /// Makes `process` and `thread` current, with marks where they were not.
    fn switch(&mut self, process: ProcessId, thread: ThreadId) {
        self.make_current(process);
        if self.thread != Some(thread) {
            self.thread = Some(thread);
            self.batch.mark(Event::Thread(thread));
        }
    }

    fn make_current(&mut self, process: ProcessId) {
        if self.process != process {
            self.process = process;
            self.thread = None;
            self.batch.mark(Event::Process(process));
        }
    }

    fn end(&mut self, process: ProcessId) {
        self.make_current(process);
        self.locks_future.remove(&process);
        self.blocks.remove(&process);
        self.batch.mark(Event::ProcessEnd);
    }

    fn hand_over(&mut self, sink: &mut dyn Sink) -> ControlFlow<()> {
        if self.batch.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = sink.batch(&mut self.batch);
        self.batch.clear();
        flow
    }
}
