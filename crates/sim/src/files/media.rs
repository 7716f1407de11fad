//! Persistent memory, DRAM and the caches over both, as one core uses them, and where its time goes.
//!
//! Loads of metadata wait, one after the other. Copies run ahead: as many lines are under way as the core has line fill buffers,
//! and stores of data go past the caches through as many buffers that combine them. A module of persistent memory takes in
//! so many written lines at once; beyond, its bandwidth counts. Physical addresses begin with persistent memory, DRAM follows.

use pagewalk_vm::addr::PhysAddr;

use super::file::{Part, Parts};
use crate::spec::settings::{MachineSpec, PersistentSpec};
use crate::time::{MemoryHierarchy, MemoryReference};

/// Bytes of a line.
pub(super) const LINE_BYTES: u64 = 64;

/// When a module is free again.
#[derive(Clone, Copy, Debug, Default)]
struct Module {
    read_ps: u64,
    write_ps: u64,
}

/// The times at which what is under way is done, one for each buffer.
#[derive(Clone, Debug)]
struct Buffers(Vec<u64>);

impl Buffers {
    fn new(count: u32) -> Self {
        Self(vec![0; count as usize])
    }

    /// The one that is free first, and when.
    fn first_free(&self) -> (usize, u64) {
        let (at, &free_ps) =
            self.0.iter().enumerate().min_by_key(|&(_, done_ps)| done_ps).expect("one at least");
        (at, free_ps)
    }

    fn all_done_ps(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

/// One core's memory.
#[derive(Debug)]
pub(super) struct Media {
    caches: MemoryHierarchy,
    of: PersistentSpec,
    dram_ps: u64,
    cycle_ps: u64,
    loads: Buffers,
    stores: Buffers,
    modules: Vec<Module>,
    /// The line that was read last from persistent memory.
    last_line: u64,
    now_ps: u64,
    accounts: Accounts,
}

/// Where time goes to.
#[derive(Debug)]
struct Accounts {
    /// What is being done.
    part: Part,
    parts: Parts,
    /// What is done takes no time: a file is made ready.
    is_free: bool,
}

impl Media {
    pub(super) fn new(spec: &MachineSpec, of: &PersistentSpec) -> Self {
        // The caches see both memories.
        let end = PhysAddr(of.bytes + spec.paging.frames.memory_bytes());
        Self {
            caches: MemoryHierarchy::new(spec, end),
            of: of.clone(),
            dram_ps: spec.hierarchy.memory.latency_ps,
            cycle_ps: spec.core.cycle_ps,
            loads: Buffers::new(spec.core.outstanding),
            stores: Buffers::new(spec.core.outstanding),
            modules: vec![Module::default(); of.modules as usize],
            last_line: u64::MAX - 1,
            now_ps: 0,
            accounts: Accounts { part: Part::Call, parts: Parts::default(), is_free: false },
        }
    }

    /// Where DRAM begins.
    pub(super) fn dram(&self) -> PhysAddr {
        PhysAddr(self.of.bytes)
    }

    /// What the time goes to from now on.
    pub(super) fn part(&mut self, part: Part) {
        self.accounts.part = part;
    }

    /// From now on nothing takes time, or everything does and counts.
    pub(super) fn set_free(&mut self, is_free: bool) {
        self.accounts.is_free = is_free;
        self.accounts.parts = Parts::default();
    }

    pub(super) fn parts(&self) -> Parts {
        self.accounts.parts
    }

    fn until(&mut self, then_ps: u64) {
        let taken = then_ps.saturating_sub(self.now_ps);
        self.now_ps += taken;
        self.accounts.parts.add(self.accounts.part, taken);
    }

    /// Time that no memory is part of.
    pub(super) fn spend(&mut self, ps: u64) {
        if !self.accounts.is_free {
            self.until(self.now_ps + ps);
        }
    }

    fn module(&mut self, line: u64) -> &mut Module {
        let number = ((line * LINE_BYTES) >> self.of.interleave_shift) % u64::from(self.of.modules);
        &mut self.modules[number as usize]
    }

    /// When a line is there that is asked for at this time, and whether it comes from a memory.
    fn line_ps(&mut self, addr: PhysAddr, kind: MemoryReference, at_ps: u64) -> (u64, bool) {
        let (level, latency_ps) =
            self.caches.access(0, addr, kind, at_ps).expect("there is no flash behind this memory");
        if level < self.caches.levels() {
            return (at_ps + latency_ps, false);
        }
        if addr >= self.dram() {
            return (at_ps + self.dram_ps, true);
        }
        let line = addr.0 / LINE_BYTES;
        let latency_ps = match line == self.last_line + 1 {
            true => self.of.read_sequential_ps,
            false => self.of.read_random_ps,
        };
        self.last_line = line;
        let line_ps = self.of.module_read_ps;
        let module = self.module(line);
        module.read_ps = module.read_ps.max(at_ps) + line_ps;
        (module.read_ps.max(at_ps + latency_ps), true)
    }

    /// Reads a word and waits for it.
    pub(super) fn load(&mut self, addr: PhysAddr) {
        self.reference(addr, MemoryReference::Load);
    }

    /// The same by a page walker.
    pub(super) fn walk(&mut self, addr: PhysAddr) {
        self.reference(addr, MemoryReference::Walk);
    }

    fn reference(&mut self, addr: PhysAddr, kind: MemoryReference) {
        if !self.accounts.is_free {
            let (done_ps, _) = self.line_ps(addr, kind, self.now_ps);
            self.until(done_ps);
        }
    }

    /// Changes a word in the caches; the core does not wait for its line.
    pub(super) fn store(&mut self, addr: PhysAddr) {
        if !self.accounts.is_free {
            self.line_ps(addr, MemoryReference::Store, self.now_ps);
            self.until(self.now_ps + self.cycle_ps);
        }
    }

    /// Lets the lines of a range persist by the next fence.
    pub(super) fn flush(&mut self, at: u64, bytes: u64) {
        if !self.accounts.is_free {
            for line in at / LINE_BYTES..(at + bytes).div_ceil(LINE_BYTES) {
                self.write_line(line, self.now_ps);
            }
        }
    }

    /// Waits until all that was written or flushed persists.
    pub(super) fn fence(&mut self) {
        if !self.accounts.is_free {
            self.until(self.stores.all_done_ps());
        }
    }

    /// A line goes out, not before `from_ps`.
    fn write_line(&mut self, line: u64, from_ps: u64) {
        let (buffer, free_ps) = self.stores.first_free();
        let issue_ps = self.now_ps.max(from_ps).max(free_ps);
        let PersistentSpec { module_write_ps, buffer_lines, write_ps, .. } = self.of;
        let module = self.module(line);
        let taken_in_ps = issue_ps.max(module.write_ps.saturating_sub(buffer_lines * module_write_ps));
        module.write_ps = module.write_ps.max(taken_in_ps) + module_write_ps;
        self.stores.0[buffer] = taken_in_ps + write_ps;
        self.until(issue_ps + self.cycle_ps);
    }

    /// Asks for a line ahead of its use, as soon as a buffer is free; when it is there.
    fn fetch(&mut self, addr: PhysAddr, kind: MemoryReference, from_ps: u64) -> u64 {
        let (buffer, free_ps) = self.loads.first_free();
        let (there_ps, takes_buffer) = self.line_ps(addr, kind, from_ps.max(free_ps));
        if takes_buffer {
            self.loads.0[buffer] = there_ps;
        }
        there_ps
    }

    /// Writes data past the caches: from a buffer in DRAM, or zeroes.
    pub(super) fn write_data(&mut self, at: PhysAddr, bytes: u64, from: Option<PhysAddr>) {
        if self.accounts.is_free {
            return;
        }
        let begin_ps = self.now_ps;
        for (offset, line) in (0..bytes).step_by(LINE_BYTES as usize).zip(at.0 / LINE_BYTES..) {
            let there_ps = match from {
                Some(from) => self.fetch(from.add(offset), MemoryReference::Load, begin_ps),
                None => begin_ps,
            };
            self.write_line(line, there_ps);
        }
    }

    /// Reads data into a buffer in DRAM.
    pub(super) fn read_data(&mut self, at: PhysAddr, bytes: u64, into: PhysAddr) {
        if self.accounts.is_free {
            return;
        }
        let begin_ps = self.now_ps;
        for offset in (0..bytes).step_by(LINE_BYTES as usize) {
            let there_ps = self.fetch(at.add(offset), MemoryReference::Load, begin_ps);
            // The core goes on when the data is there; the line that it is stored into may come later.
            self.fetch(into.add(offset), MemoryReference::Store, begin_ps);
            self.until(there_ps.max(self.now_ps + self.cycle_ps));
        }
    }
}
