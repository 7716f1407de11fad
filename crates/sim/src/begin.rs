//! Quickly to the phase that matters: until it begins, only what brings pages in.
//!
//! A program that builds its data for minutes and then works on it for seconds is not worth minutes of simulation. Until
//! the phase begins, machines see every change of the address space and the first touch of every page, in order: at the
//! phase's start, page tables and memory are as if they had seen all (but for what recency decides: reclaim, TLBs, caches).
//! Instructions of the accesses that are left out are left out, too.

use std::collections::HashSet;

use pagewalk_trace::{Access, Advice, Batch, Event, ProcessId};
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr, VirtRange, Vpn};
use rustc_hash::FxBuildHasher;

/// Leaves out what only repeats, until a phase begins.
#[derive(Debug)]
pub(crate) struct Begin {
    phase: String,
    process: ProcessId,
    /// Of the process whose heap changed last.
    heap_end: VirtAddr,
    touched: HashSet<(ProcessId, Vpn), FxBuildHasher>,
    /// From the first `fork` on, the pages stored to since their process last forked: the first store to each may copy it.
    written: Option<HashSet<(ProcessId, Vpn), FxBuildHasher>>,
    /// Pages touched lately, by their low bits: most accesses go to one of them.
    recent: Box<[Option<(ProcessId, Vpn)>]>,
    /// Names of the phases that have begun.
    phases: Vec<String>,
    begun: bool,
}

const RECENT: usize = 1 << 12;
/// An address above all addresses of programs.
const SPACE_END: VirtAddr = VirtAddr(1 << 63);

impl Begin {
    pub(crate) fn new(phase: &str) -> Self {
        Self {
            phase: phase.to_owned(),
            process: ProcessId(0),
            heap_end: VirtAddr(0),
            touched: HashSet::default(),
            written: None,
            recent: vec![None; RECENT].into_boxed_slice(),
            phases: Vec::new(),
            begun: false,
        }
    }

    /// Returns the names of all phases so far, if the one that is waited for is not among them.
    pub(crate) fn missing(&self) -> Option<(&str, &[String])> {
        (!self.begun).then_some((&self.phase, &self.phases[..]))
    }

    /// Thins out a batch; answers how many accesses it has left out.
    pub(crate) fn take(&mut self, batch: &mut Batch) -> u64 {
        if self.begun {
            return 0;
        }
        let all = batch.accesses.len();
        let before = std::mem::take(&mut batch.accesses);
        let mut done = 0;
        let mut marks = std::mem::take(&mut batch.marks);
        for mark in &mut marks {
            self.keep_first_touches(&before[done..mark.at as usize], &mut batch.accesses);
            done = mark.at as usize;
            mark.at = batch.accesses.len() as u32;
            if !self.begun {
                self.hear(&mut mark.event);
            }
        }
        batch.marks = marks;
        self.keep_first_touches(&before[done..], &mut batch.accesses);
        (all - batch.accesses.len()) as u64
    }

    fn keep_first_touches(&mut self, accesses: &[Access], kept: &mut Vec<Access>) {
        if self.begun {
            kept.extend_from_slice(accesses);
            return;
        }
        for &access in accesses {
            let page = (self.process, access.addr().page());
            let copies = match &mut self.written {
                Some(written) => access.is_write() && written.insert(page),
                None => false,
            };
            let recent = &mut self.recent[page.1.0 as usize % RECENT];
            let is_repeated = recent.replace(page) == Some(page);
            if copies || (!is_repeated && !self.touched.contains(&page)) {
                self.touched.insert(page);
                kept.push(access);
            }
        }
    }

    fn forget(&mut self, range: VirtRange) {
        let before = self.touched.len();
        let (process, pages) = (self.process, range.start.page()..range.end.align_up(PAGE_BYTES).page());
        let is_gone = |page: &(ProcessId, Vpn)| page.0 == process && pages.contains(&page.1);
        if pages.end.0 - pages.start.0 > self.touched.len() as u64 {
            self.touched.retain(|page| !is_gone(page));
        } else {
            for page in pages.start.0..pages.end.0 {
                self.touched.remove(&(process, Vpn(page)));
            }
        }
        if self.touched.len() == before {
            // Pages that were stored to, or touched lately, are among those that were touched.
            return;
        }
        if let Some(written) = &mut self.written {
            written.retain(|page| !is_gone(page));
        }
        self.recent
            .iter_mut()
            .filter(|page| page.as_ref().is_some_and(is_gone))
            .for_each(|page| *page = None);
    }

    fn hear(&mut self, event: &mut Event) {
        match event {
            Event::Phase(name) => {
                self.begun = *name == self.phase;
                self.phases.push(name.clone());
            }
            Event::Instructions(count) => *count = 0,
            // What is left of a job is none.
            Event::JobBegin { .. } | Event::JobEnd => *event = Event::Instructions(0),
            Event::Process(id) => self.process = *id,
            // Pages may be gone: the next touch counts as the first.
            Event::Unmap(range)
            | Event::Advise(range, Advice::DontNeed | Advice::Free | Advice::PageOut | Advice::Remove) => {
                self.forget(*range);
            }
            Event::Map(mapping) => self.forget(mapping.range),
            Event::Frame(given) => self.forget(given.range()),
            Event::Remap { from, to } => {
                self.forget(*from);
                self.forget(*to);
            }
            Event::Break(heap) => {
                let before = std::mem::replace(&mut self.heap_end, heap.end);
                self.forget(VirtRange::new(heap.end, before.max(heap.end)));
            }
            Event::Exec | Event::ProcessEnd => self.forget(VirtRange::new(VirtAddr(0), SPACE_END)),
            Event::Fork { .. } => {
                let process = self.process;
                self.written.get_or_insert_default().retain(|page| page.0 != process);
            }
            Event::Protect(..)
            | Event::Advise(..)
            | Event::Thread(_)
            | Event::ThreadEnd(_)
            | Event::ThreadStack(_)
            | Event::Unobserved(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::Mark;

    fn loads(batch: &Batch) -> Vec<u64> {
        batch.accesses.iter().map(|access| access.addr().0).collect()
    }

    fn load(batch: &mut Batch, addr: u64) {
        batch.push(Access::load(VirtAddr(addr), 1));
    }

    #[test]
    fn only_first_touches_pass_until_the_phase_begins_and_then_everything() {
        let mut begin = Begin::new("work");
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(50));
        [0x1000, 0x1008, 0x2000, 0x1010].into_iter().for_each(|addr| load(&mut batch, addr));
        batch.mark(Event::Phase("build".into()));
        [0x2008, 0x3000].into_iter().for_each(|addr| load(&mut batch, addr));
        assert_eq!(begin.take(&mut batch), 3);
        assert_eq!(loads(&batch), [0x1000, 0x2000, 0x3000]);
        assert_eq!(batch.marks[0], Mark { at: 0, event: Event::Instructions(0) });
        assert_eq!(batch.marks[1].at, 2);
        assert_eq!(begin.missing(), Some(("work", &["build".to_owned()][..])));

        let mut batch = Batch::new();
        load(&mut batch, 0x3008);
        batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(0x1000), 4096)));
        load(&mut batch, 0x1000);
        batch.mark(Event::Phase("work".into()));
        batch.mark(Event::Instructions(9));
        [0x1000, 0x1000].into_iter().for_each(|addr| load(&mut batch, addr));
        assert_eq!(begin.take(&mut batch), 1);
        assert_eq!(loads(&batch), [0x1000, 0x1000, 0x1000]);
        assert_eq!(batch.marks[2], Mark { at: 1, event: Event::Instructions(9) });
        assert_eq!(begin.missing(), None);
        assert_eq!(begin.take(&mut batch), 0);
    }

    /// The first store to a page after a fork copies it, also if the page was touched before.
    #[test]
    fn first_stores_after_a_fork_pass() {
        let mut begin = Begin::new("never");
        let mut batch = Batch::new();
        let store = |batch: &mut Batch, addr: u64| batch.push(Access::store(VirtAddr(addr), 1));
        (0..2).for_each(|_| store(&mut batch, 0x1000));
        batch.mark(Event::Fork { child: ProcessId(1) });
        load(&mut batch, 0x1000);
        (0..2).for_each(|_| store(&mut batch, 0x1000));
        batch.mark(Event::Process(ProcessId(1)));
        load(&mut batch, 0x1000);
        (0..2).for_each(|_| store(&mut batch, 0x1000));
        assert_eq!(begin.take(&mut batch), 4);
        let kinds: Vec<bool> = batch.accesses.iter().map(|access| access.is_write()).collect();
        assert_eq!(kinds, [true, true, false, true]);
    }

    /// Two processes have different pages of the same number.
    #[test]
    fn pages_are_a_processs_own() {
        let mut begin = Begin::new("never");
        let mut batch = Batch::new();
        load(&mut batch, 0x1000);
        batch.mark(Event::Process(ProcessId(1)));
        [0x1000, 0x1000].into_iter().for_each(|addr| load(&mut batch, addr));
        batch.mark(Event::Process(ProcessId(0)));
        load(&mut batch, 0x1000);
        assert_eq!(begin.take(&mut batch), 2);
    }
}
