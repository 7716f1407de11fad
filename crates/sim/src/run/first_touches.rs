//! Quickly to the part that matters: of what is skipped, only what brings pages in.
//!
//! A program that builds its data for minutes and then works on it for seconds is not worth minutes of simulation. Of what is
//! skipped, machines see every change of the address space and the first touch of every page, in order: at its end, page tables
//! and memory are as if they had seen all (but for what recency decides: reclaim, TLBs, caches). Instructions of the accesses that
//! are left out are left out, too.

use std::collections::HashSet;

use pagewalk_trace::{Access, Advice, Batch, Event, Mark, ProcessId};
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr, VirtRange, Vpn};
use rustc_hash::FxBuildHasher;

/// Leaves out what only repeats.
#[derive(Debug)]
pub(super) struct FirstTouches {
    process: ProcessId,
    /// Of the process whose heap changed last.
    heap_end: VirtAddr,
    touched: HashSet<(ProcessId, Vpn), FxBuildHasher>,
    /// From the first `fork` on, the pages stored to since their process last forked: the first store to each may copy it.
    written: Option<HashSet<(ProcessId, Vpn), FxBuildHasher>>,
    /// Pages touched lately, by their low bits: most accesses go to one of them.
    recent: Box<[Option<(ProcessId, Vpn)>]>,
}

const RECENT: usize = 1 << 12;
/// An address above all addresses of programs.
const SPACE_END: VirtAddr = VirtAddr(1 << 63);

impl Default for FirstTouches {
    fn default() -> Self {
        Self {
            process: ProcessId(0),
            heap_end: VirtAddr(0),
            touched: HashSet::default(),
            written: None,
            recent: vec![None; RECENT].into_boxed_slice(),
        }
    }
}

impl FirstTouches {
    /// Thins out a batch; returns how many accesses are left out. No block remains.
    pub(super) fn thin(&mut self, batch: &mut Batch) -> u64 {
        let before = std::mem::take(&mut batch.accesses);
        batch.blocks.clear();
        let mut done = 0;
        for Mark { at, blocks, event } in &mut batch.marks {
            self.keep(&before[done..*at as usize], &mut batch.accesses);
            done = *at as usize;
            (*at, *blocks) = (batch.accesses.len() as u32, 0);
            self.hear(event);
        }
        self.keep(&before[done..], &mut batch.accesses);
        (before.len() - batch.accesses.len()) as u64
    }

    fn keep(&mut self, accesses: &[Access], kept: &mut Vec<Access>) {
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
            Event::Phase(_)
            | Event::KernelWrite(_)
            | Event::Protect(..)
            | Event::Advise(..)
            | Event::Thread(_)
            | Event::ThreadEnd(_)
            | Event::ThreadStack(_)
            | Event::Code(_)
            | Event::Unobserved(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(batch: &Batch) -> Vec<u64> {
        batch.accesses.iter().map(|access| access.addr().0).collect()
    }

    fn load(batch: &mut Batch, addr: u64) {
        batch.push(Access::load(VirtAddr(addr), 1));
    }

    #[test]
    fn only_first_touches_pass_and_a_page_that_was_unmapped_is_new() {
        let mut touches = FirstTouches::default();
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(50));
        [0x1000, 0x1008, 0x2000, 0x1010].into_iter().for_each(|addr| load(&mut batch, addr));
        batch.mark(Event::Phase("build".into()));
        [0x2008, 0x3000].into_iter().for_each(|addr| load(&mut batch, addr));
        assert_eq!(touches.thin(&mut batch), 3);
        assert_eq!(loads(&batch), [0x1000, 0x2000, 0x3000]);
        assert_eq!(batch.marks[0], Mark::at(0, Event::Instructions(0)));
        assert_eq!(batch.marks[1].at, 2);

        let mut batch = Batch::new();
        load(&mut batch, 0x3008);
        batch.mark(Event::Unmap(VirtRange::sized(VirtAddr(0x1000), 4096)));
        load(&mut batch, 0x1000);
        assert_eq!(touches.thin(&mut batch), 1);
        assert_eq!(loads(&batch), [0x1000]);
    }

    /// The first store to a page after a fork copies it, also if the page was touched before.
    #[test]
    fn first_stores_after_a_fork_pass() {
        let mut batch = Batch::new();
        let store = |batch: &mut Batch, addr: u64| batch.push(Access::store(VirtAddr(addr), 1));
        (0..2).for_each(|_| store(&mut batch, 0x1000));
        batch.mark(Event::Fork { child: ProcessId(1) });
        load(&mut batch, 0x1000);
        (0..2).for_each(|_| store(&mut batch, 0x1000));
        batch.mark(Event::Process(ProcessId(1)));
        load(&mut batch, 0x1000);
        (0..2).for_each(|_| store(&mut batch, 0x1000));
        assert_eq!(FirstTouches::default().thin(&mut batch), 4);
        let kinds: Vec<bool> = batch.accesses.iter().map(|access| access.is_write()).collect();
        assert_eq!(kinds, [true, true, false, true]);
    }

    /// Two processes have different pages of the same number.
    #[test]
    fn pages_are_a_processs_own() {
        let mut batch = Batch::new();
        load(&mut batch, 0x1000);
        batch.mark(Event::Process(ProcessId(1)));
        [0x1000, 0x1000].into_iter().for_each(|addr| load(&mut batch, addr));
        batch.mark(Event::Process(ProcessId(0)));
        load(&mut batch, 0x1000);
        assert_eq!(FirstTouches::default().thin(&mut batch), 2);
    }
}
