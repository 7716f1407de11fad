//! The way out: accesses and marks into batches, batches to the sink, instructions counted on the way.

use std::ops::ControlFlow;

use pagewalk_trace::{Access, Batch, Event, Executed, Mark, Sink, ThreadId};
use pagewalk_vm::addr::VirtAddr;

use crate::code::{Site, Text};
use crate::thin::Thin;

/// The sink asked the program to stop; `?` unwinds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop;

/// Why a program ended before its time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The sink asked for it.
    Stopped,
    /// A check of the program's own answer failed: what was wrong.
    Wrong(String),
}

impl From<Stop> for Halt {
    fn from(_: Stop) -> Self {
        Self::Stopped
    }
}

/// Collects what a program does and hands it on.
///
/// # Contract
///
/// The sink is asked only when a batch is handed over, so a program that passes every [`Stop`] on ends within
/// one batch of the sink's break. After a `Stop` nothing more may be emitted.
///
/// The batch's vector is kept at full length and overwritten in place; one comparison per access is then both
/// the bounds check and the test for a full batch. Between [`Emitter::begin_thin`] and [`Emitter::end_thin`] accesses come
/// in as ever, and what does not remain of a job is taken out again when it ends.
pub(crate) struct Emitter<'a> {
    batch: Batch,
    len: usize,
    /// The instructions since the segment began, counted from [`WITH_BLOCKS`] on if the executed blocks are of interest: the addition
    /// that counts is then also the test.
    instructions: u64,
    segment: Segment,
    /// The program's code, if the executed blocks are of interest.
    text: Option<Box<Text>>,
    threads: Threads,
    /// While only the pages of jobs are of interest.
    thin: Option<Box<Thin>>,
    sink: &'a mut dyn Sink,
}

/// The count of instructions begins here if the executed blocks are of interest; no segment has as many.
const WITH_BLOCKS: u64 = 1 << 63;

/// Iterations of a loop that a thread takes at a time.
const ITERATIONS: usize = 16;

/// The threads that divide the work, and which of them does what follows.
#[derive(Clone, Copy)]
struct Threads {
    count: u32,
    current: u32,
}

impl Threads {
    /// The thread that began the program alone.
    const ONE: Self = Self { count: 1, current: 0 };

    /// The name of a thread, of which the first has number 0.
    fn id(number: u32) -> ThreadId {
        ThreadId(number + 1)
    }
}

/// The beginning of a segment, of which the instructions are counted: its places among the accesses, the blocks and the marks.
#[derive(Clone, Copy, Default)]
struct Segment {
    accesses: u32,
    blocks: u32,
    mark: usize,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(sink: &'a mut dyn Sink) -> Self {
        let mut batch = Batch::new();
        batch.accesses.resize(Batch::FULL, Access::NONE);
        let (segment, threads) = (Segment::default(), Threads::ONE);
        Self { batch, len: 0, instructions: 0, segment, text: None, threads, thin: None, sink }
    }

    /// Lets the executed blocks be handed on, too.
    pub(crate) fn with_blocks(self) -> Self {
        Self { text: Some(Box::default()), instructions: WITH_BLOCKS, ..self }
    }

    /// Appends one access.
    #[inline(always)]
    pub(crate) fn push(&mut self, access: Access) -> Result<(), Stop> {
        match self.batch.accesses.get_mut(self.len) {
            Some(slot) => {
                *slot = access;
                self.len += 1;
                Ok(())
            }
            None => self.push_when_full(access),
        }
    }

    /// Appends several accesses, with one comparison for all.
    #[inline(always)]
    pub(crate) fn push_all<const N: usize>(&mut self, accesses: [Access; N]) -> Result<(), Stop> {
        match self.batch.accesses.get_mut(self.len..self.len + N) {
            Some(slots) => {
                slots.copy_from_slice(&accesses);
                self.len += N;
                Ok(())
            }
            None => accesses.into_iter().try_for_each(|access| self.push(access)),
        }
    }

    #[cold]
    #[inline(never)]
    fn push_when_full(&mut self, access: Access) -> Result<(), Stop> {
        self.make_thin();
        if self.len == Batch::FULL {
            self.hand_over()?;
        }
        self.batch.accesses[self.len] = access;
        self.len += 1;
        Ok(())
    }

    /// A load of `bytes` at `addr`.
    #[inline(always)]
    pub(crate) fn load(&mut self, addr: VirtAddr, bytes: u32) -> Result<(), Stop> {
        self.push(Access::load(addr, bytes))
    }

    /// A store of `bytes` at `addr`.
    #[inline(always)]
    pub(crate) fn store(&mut self, addr: VirtAddr, bytes: u32) -> Result<(), Stop> {
        self.push(Access::store(addr, bytes))
    }

    /// Counts `instructions` executed; call it once per basic operation, beside that operation's accesses.
    #[inline(always)]
    pub(crate) fn work(&mut self, instructions: u64) {
        self.instructions += instructions;
    }

    /// Executes the instructions of a site, whose accesses follow: counts them, and hands the block on if blocks are of interest.
    #[inline(always)]
    pub(crate) fn block(&mut self, site: &'static Site) -> Result<(), Stop> {
        self.work(site.instructions());
        self.enter(site)
    }

    /// Executes a site so many times in a row.
    #[inline(always)]
    pub(crate) fn blocks(&mut self, site: &'static Site, times: u64) -> Result<(), Stop> {
        self.work(times * site.instructions());
        if self.wants_blocks() { (0..times).try_for_each(|_| self.execute(site)) } else { Ok(()) }
    }

    /// Executes sites one behind the other, which the caller counts, or has counted; the accesses are those of the last one.
    #[inline(always)]
    pub(crate) fn path(&mut self, sites: &[&'static Site]) -> Result<(), Stop> {
        if self.wants_blocks() { sites.iter().try_for_each(|site| self.execute(site)) } else { Ok(()) }
    }

    /// Returns whether the executed blocks are of interest.
    #[inline(always)]
    pub(crate) fn wants_blocks(&self) -> bool {
        self.instructions >= WITH_BLOCKS
    }

    /// Executes the instructions of a site, which the caller counts, or has counted, with [`Emitter::work`].
    #[inline(always)]
    pub(crate) fn enter(&mut self, site: &'static Site) -> Result<(), Stop> {
        if self.wants_blocks() { self.execute(site) } else { Ok(()) }
    }

    /// Hands on the execution of a block, with its code if it is the first one. While only pages are of interest, there are none.
    #[cold]
    #[inline(never)]
    fn execute(&mut self, site: &'static Site) -> Result<(), Stop> {
        if self.thin.is_some() {
            return Ok(());
        }
        let Some(text) = &mut self.text else { return Ok(()) };
        let (block, code) = text.block(site);
        if let Some(code) = code {
            self.mark(Event::Code(code));
        }
        self.batch.blocks.push(Executed { at: self.len as u32, block });
        // As late as is allowed: so batches end where they end without blocks, and their counts are the same.
        if self.batch.blocks.len() == Batch::MAX {
            return self.hand_over();
        }
        Ok(())
    }

    /// Appends a mark behind the accesses and blocks so far.
    pub(crate) fn mark(&mut self, event: Event) {
        self.make_thin();
        let (at, blocks) = (self.len as u32, self.batch.blocks.len() as u32);
        self.batch.marks.push(Mark { at, blocks, event });
    }

    /// From here on so many threads divide the work: each piece of it ends with [`Emitter::next_thread`].
    pub(crate) fn divide(&mut self, threads: u32) {
        self.threads.count = threads;
    }

    /// What follows is a piece of the work of the next thread, in turn.
    #[inline(always)]
    pub(crate) fn next_thread(&mut self) {
        if self.threads.count > 1 {
            self.switch_thread((self.threads.current + 1) % self.threads.count);
        }
    }

    /// An iteration of a loop begins that is divided: threads take so many at a time.
    #[inline(always)]
    pub(crate) fn iteration(&mut self, number: usize) {
        if number.is_multiple_of(ITERATIONS) {
            self.next_thread();
        }
    }

    /// The work is done: all threads end but the first, which goes on alone.
    pub(crate) fn join(&mut self) {
        if self.threads.current != 0 {
            self.switch_thread(0);
        }
        for number in 1..self.threads.count {
            self.mark(Event::ThreadEnd(Threads::id(number)));
        }
        self.threads = Threads::ONE;
    }

    #[inline(never)]
    fn switch_thread(&mut self, number: u32) {
        self.threads.current = number;
        self.end_segment();
        self.mark(Event::Thread(Threads::id(number)));
        self.begin_segment();
    }

    /// From here on of each job only the first access and the first store to each page are handed on: neither that
    /// there is a job, nor how many instructions it takes. Call it at the begin of a phase.
    pub(crate) fn begin_thin(&mut self) {
        self.thin = Some(Box::new(Thin::new(self.len)));
    }

    /// From here on everything is handed on again.
    pub(crate) fn end_thin(&mut self) -> Result<(), Stop> {
        self.hand_over()?;
        self.thin = None;
        Ok(())
    }

    /// Takes out what does not remain of the job so far.
    fn make_thin(&mut self) {
        if let Some(thin) = &mut self.thin {
            self.len = thin.compact(&mut self.batch.accesses, self.len);
        }
    }

    /// A job begins; its instructions are counted apart from others'.
    pub(crate) fn begin_job(&mut self, arrival_ps: Option<u64>) {
        if let Some(thin) = &mut self.thin {
            return thin.next_job();
        }
        self.end_segment();
        self.mark(Event::JobBegin { arrival_ps });
        self.begin_segment();
    }

    /// The job is done.
    pub(crate) fn end_job(&mut self) {
        if self.thin.is_some() {
            return self.make_thin();
        }
        self.end_segment();
        self.mark(Event::JobEnd);
        self.begin_segment();
    }

    fn begin_segment(&mut self) {
        let (accesses, blocks) = (self.len as u32, self.batch.blocks.len() as u32);
        self.segment = Segment { accesses, blocks, mark: self.batch.marks.len() };
    }

    /// Writes down how many instructions there were since the segment began.
    fn end_segment(&mut self) {
        let Segment { accesses: at, blocks, mark } = self.segment;
        let instructions = if self.thin.is_some() { 0 } else { self.instructions & !WITH_BLOCKS };
        if self.len as u32 > at || instructions > 0 {
            let count = Mark { at, blocks, event: Event::Instructions(instructions) };
            self.batch.marks.insert(mark, count);
        }
        self.instructions &= WITH_BLOCKS;
    }

    /// Begins a phase, in a batch of its own: no batch's instruction count covers two phases, and none comes
    /// before the mark of its phase.
    pub(crate) fn phase(&mut self, name: &str) -> Result<(), Stop> {
        self.hand_over()?;
        self.mark(Event::Phase(name.to_owned()));
        self.hand_over()
    }

    /// Hands over what is left.
    pub(crate) fn finish(mut self) -> Result<(), Stop> {
        self.hand_over()
    }

    fn hand_over(&mut self) -> Result<(), Stop> {
        self.make_thin();
        self.batch.accesses.truncate(self.len);
        self.end_segment();
        if self.batch.is_empty() {
            self.batch.accesses.resize(Batch::FULL, Access::NONE);
            self.begin_segment();
            return Ok(());
        }
        let answer = self.sink.batch(&mut self.batch);
        // The sink may have swapped the vectors for others, of any length.
        self.batch.marks.clear();
        self.batch.blocks.clear();
        self.batch.accesses.resize(Batch::FULL, Access::NONE);
        self.len = 0;
        if let Some(thin) = &mut self.thin {
            thin.done = 0;
        }
        self.begin_segment();
        match answer {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop),
        }
    }
}

#[cfg(test)]
mod tests {
    use pagewalk_code::model::general;

    use super::*;
    use crate::code::Op;

    #[test]
    fn batches_are_full_begin_with_their_instructions_and_keep_their_marks() {
        let mut batches = Vec::new();
        let mut sink = |batch: &mut Batch| {
            batches.push(std::mem::take(batch));
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        out.phase("first").unwrap();
        for i in 0..Batch::FULL as u64 + 3 {
            out.work(2);
            out.load(VirtAddr(0x1000 + i), 1).unwrap();
        }
        out.phase("second").unwrap();
        out.store(VirtAddr(0x9000), 8).unwrap();
        out.finish().unwrap();

        let lens: Vec<_> = batches.iter().map(|b| b.accesses.len()).collect();
        assert_eq!(lens, [0, Batch::FULL, 3, 0, 1]);
        assert_eq!(batches[0].marks, [Mark::at(0, Event::Phase("first".into()))]);
        assert_eq!(batches[3].marks, [Mark::at(0, Event::Phase("second".into()))]);
        assert_eq!(batches[4].accesses, [Access::store(VirtAddr(0x9000), 8)]);
        let counted: u64 = batches
            .iter()
            .filter(|b| !b.accesses.is_empty())
            .map(|b| match b.marks[0].event {
                Event::Instructions(n) => n,
                ref other => panic!("{other:?} instead of instructions"),
            })
            .sum();
        assert_eq!(counted, 2 * (Batch::FULL as u64 + 3));
    }

    #[test]
    fn a_job_has_its_own_instructions() {
        let mut marks = Vec::new();
        let mut sink = |batch: &mut Batch| {
            marks.extend(batch.marks.iter().map(|mark| (mark.at, mark.event.clone())));
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        out.work(5);
        out.load(VirtAddr(0x1000), 8).unwrap();
        for job in 1..3 {
            out.begin_job(None);
            out.work(10 * job);
            (0..job).for_each(|_| out.load(VirtAddr(0x2000), 8).unwrap());
            out.end_job();
        }
        out.finish().unwrap();
        use Event::{Instructions, JobEnd};
        let begin = Event::JobBegin { arrival_ps: None };
        let first = [(0, Instructions(5)), (1, begin.clone()), (1, Instructions(10)), (2, JobEnd)];
        let second = [(2, begin), (2, Instructions(20)), (4, JobEnd)];
        assert_eq!(marks, [&first[..], &second[..]].concat());
    }

    #[test]
    fn a_thin_job_is_its_pages() {
        let (mut accesses, mut marks) = (Vec::new(), Vec::new());
        let mut sink = |batch: &mut Batch| {
            accesses.extend_from_slice(&batch.accesses);
            marks.extend(batch.marks.iter().map(|mark| (mark.at, mark.event.clone())));
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        out.begin_thin();
        for job in 1..3 {
            out.begin_job(None);
            out.work(100);
            // More than a batch holds, in two pages of each job's own.
            for i in 0..10_000 {
                out.load(VirtAddr((job << 13) + i % 8192), 1).unwrap();
            }
            out.store(VirtAddr(job << 13), 1).unwrap();
            out.mark(Event::ThreadStack(Default::default()));
            out.load(VirtAddr(job << 13), 1).unwrap();
            out.end_job();
        }
        out.end_thin().unwrap();
        out.begin_job(None);
        out.work(7);
        (0..2).for_each(|_| out.load(VirtAddr(0x1000), 1).unwrap());
        out.end_job();
        out.finish().unwrap();
        let pages = |job: u64| {
            let page = |i: u64| Access::load(VirtAddr(job << 13 | i << 12), 1);
            [page(0), page(1), Access::store(VirtAddr(job << 13), 1)]
        };
        let whole = Access::load(VirtAddr(0x1000), 1);
        assert_eq!(accesses, [&pages(1)[..], &pages(2), &[whole, whole]].concat());
        use Event::{Instructions, JobEnd, ThreadStack};
        let begin = Event::JobBegin { arrival_ps: None };
        let stack = |at| (at, ThreadStack(Default::default()));
        let thin = [(0, Instructions(0)), stack(3), stack(6)];
        assert_eq!(marks, [&thin[..], &[(0, begin.clone()), (0, Instructions(7)), (2, JobEnd)]].concat());
    }

    #[test]
    fn threads_take_turns_and_have_their_own_instructions() {
        let (mut marks, mut accesses) = (Vec::new(), 0);
        let mut sink = |batch: &mut Batch| {
            marks.extend(batch.marks.iter().map(|mark| (accesses + mark.at, mark.event.clone())));
            accesses += batch.accesses.len() as u32;
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        let iterate = |out: &mut Emitter<'_>, iterations: usize| {
            for number in 0..iterations {
                out.iteration(number);
                out.work(3);
                out.load(VirtAddr(0x1000), 8).unwrap();
            }
        };
        iterate(&mut out, 5);
        out.divide(2);
        iterate(&mut out, ITERATIONS + 2);
        out.next_thread();
        out.next_thread();
        out.join();
        out.finish().unwrap();
        use Event::{Instructions, Thread, ThreadEnd};
        let [one, other] = [0, 1].map(Threads::id);
        let divided = 5 + ITERATIONS as u32;
        let expected = [
            (0, Instructions(15)),
            (5, Thread(other)),
            (5, Instructions(3 * ITERATIONS as u64)),
            (divided, Thread(one)),
            (divided, Instructions(6)),
            (divided + 2, Thread(other)),
            (divided + 2, Thread(one)),
            (divided + 2, ThreadEnd(other)),
        ];
        assert_eq!(marks, expected);
    }

    /// Two loads, and as many again.
    static LOADS: Site =
        Site::new(&[Op::load(general(0), 8, &[general(1)]), Op::load(general(0), 8, &[general(1)])])
            .repeats();

    #[test]
    fn a_site_is_described_once_and_comes_before_its_accesses() {
        let mut batches = Vec::new();
        let mut sink = |batch: &mut Batch| {
            batches.push(std::mem::take(batch));
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink).with_blocks();
        for _ in 0..Batch::FULL / 2 + 1 {
            out.block(&LOADS).unwrap();
            (0..2).for_each(|_| out.load(VirtAddr(0x1000), 8).unwrap());
        }
        // Of jobs of which only the pages are of interest, there are no blocks.
        out.begin_thin();
        out.block(&LOADS).unwrap();
        out.end_thin().unwrap();
        out.finish().unwrap();
        let [full, rest] = &batches[..] else { panic!("{} batches", batches.len()) };
        assert_eq!((full.check(), rest.check()), (Ok(()), Ok(())));
        let executed = |batch: &Batch| batch.blocks.iter().map(|block| block.at).collect::<Vec<_>>();
        let places = |end: u32| (0..=end).step_by(2).collect::<Vec<_>>();
        // The last block's accesses did not fit.
        assert_eq!((executed(full), executed(rest)), (places(Batch::FULL as u32), vec![]));
        let [counted, code] = &full.marks[..] else { panic!("{:?}", full.marks) };
        assert_eq!(counted.event, Event::Instructions(3 * (Batch::FULL as u64 / 2 + 1)));
        assert!(matches!(&code.event, Event::Code(code) if code.bytes.len() == 12));
    }

    #[test]
    fn several_at_once_fill_batches_too() {
        let mut lens = Vec::new();
        let mut next = 0x1000;
        let mut sink = |batch: &mut Batch| {
            for access in &batch.accesses {
                assert_eq!(*access, Access::load(VirtAddr(next), 1));
                next += 1;
            }
            lens.push(batch.accesses.len());
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        for i in 0..Batch::FULL as u64 {
            out.push_all([0, 1, 2].map(|j| Access::load(VirtAddr(0x1000 + 3 * i + j), 1))).unwrap();
        }
        out.finish().unwrap();
        assert_eq!(lens, [Batch::FULL; 3]);
    }

    #[test]
    fn a_break_of_the_sink_is_the_next_answer() {
        let mut calls = 0;
        let mut sink = |_: &mut Batch| {
            calls += 1;
            ControlFlow::Break(())
        };
        let mut out = Emitter::new(&mut sink);
        let mut pushed = 0;
        while out.load(VirtAddr(0x1000), 8).is_ok() {
            pushed += 1;
        }
        assert_eq!((pushed, calls), (Batch::FULL, 1));
    }
}
