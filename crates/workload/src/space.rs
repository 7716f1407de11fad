//! The address space of a workload: where a C program under Linux would have had its data.
//!
//! ```text
//!  0x5555_5555_9000  heap, grown upwards by brk in steps of 132 KiB and more (malloc below 128 KiB)
//!  0x7fff_f7c0_0000  mappings, downwards, each below the last (malloc from 128 KiB on)
//!  0x7fff_ffff_f000  top of the stack, 132 KiB
//! ```
//!
//! These are the addresses that x86-64 Linux gives a position-independent program without address-space
//! randomisation. They are synthetic: the data itself lives in ordinary vectors, so a run is the same everywhere.
//!
//! `malloc` follows glibc 2.36: chunks of 16 bytes' granularity with an 8-byte header, 32 bytes at least; freed
//! chunks are reused last in, first out, by size; the rest is cut from the top chunk. Its accesses to headers and
//! to the per-thread cache at the heap's start are emitted. Left out: the arena structure in libc's own data,
//! coalescing, the limit of seven chunks per cache bin, and the growth of the mmap threshold on frees.

use pagewalk_code::Register;
use pagewalk_trace::{Event, Mapping};
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr, VirtRange};

use crate::code::{Op, SHARED, Site, r};
use crate::emit::{Emitter, Stop};

/// Where the heap begins.
pub(crate) const HEAP_START: VirtAddr = VirtAddr(0x5555_5555_9000);
/// The first address above the mappings.
const MMAP_TOP: VirtAddr = VirtAddr(0x7fff_f7c0_0000);
/// The first address above the stack.
const STACK_TOP: VirtAddr = VirtAddr(0x7fff_ffff_f000);
/// What the kernel maps for a stack at first: 33 pages.
const STACK_BYTES: u64 = 33 * PAGE_BYTES;
/// glibc's `M_MMAP_THRESHOLD`: from here on malloc maps.
const MMAP_THRESHOLD: u64 = 128 << 10;
/// glibc's `M_TOP_PAD`: how much more than needed brk asks for.
const TOP_PAD: u64 = 128 << 10;
/// The per-thread cache, the heap's first chunk.
const CACHE_CHUNK_BYTES: u64 = 0x290;
/// Instructions of a malloc that cuts from the top chunk, of one that the per-thread cache serves, of a free into
/// that cache, and of a malloc or free by a mapping without the kernel's part (assumed).
const CUT_INSTRUCTIONS: u64 = 150;
const REUSE_INSTRUCTIONS: u64 = 25;
const FREE_INSTRUCTIONS: u64 = 25;
const MAP_INSTRUCTIONS: u64 = 200;

/// The block that `malloc` answered, and that `free` is given.
pub(crate) const ALLOCATED: Register = r(SHARED);
/// The per-thread cache, what is loaded from it, and the header of the top chunk.
const CACHE: Register = r(SHARED + 1);
const LOADED: Register = r(SHARED + 2);
const TOP: Register = r(SHARED + 3);

/// The beginning of `malloc`: looks whether the per-thread cache has a chunk; there is no cache yet; it has none of this size.
static LOOK: Site = Site::new(&[Op::load(LOADED, 2, &[CACHE]), Op::compare(&[LOADED])]).branches(&REUSE);
static FIRST: Site = Site::new(&[Op::store(8, &[TOP], &[])]).of(LOOK.instructions());
static LARGE: Site = Site::new(&[]).of(LOOK.instructions());
/// Cuts a chunk from the top chunk, whose header moves.
static CUT: Site = Site::new(&[
    Op::integer(ALLOCATED, &[TOP]),
    Op::store(8, &[ALLOCATED], &[]),
    Op::integer(TOP, &[TOP]),
    Op::store(8, &[TOP], &[]),
])
.of(CUT_INSTRUCTIONS - LOOK.instructions());
/// Takes the first chunk of a list of the per-thread cache.
static REUSE: Site = Site::new(&[
    Op::load(ALLOCATED, 8, &[CACHE]),
    Op::load(LOADED, 8, &[ALLOCATED]),
    Op::store(8, &[CACHE], &[LOADED]),
    Op::store(8, &[ALLOCATED], &[]),
])
.of(REUSE_INSTRUCTIONS - LOOK.instructions());
/// Puts a chunk into a list of the per-thread cache, after a look at its header.
static FREE: Site = Site::new(&[
    Op::load(LOADED, 8, &[ALLOCATED]),
    Op::load(LOADED, 8, &[CACHE]),
    Op::store(8, &[ALLOCATED], &[LOADED]),
    Op::store(8, &[ALLOCATED], &[CACHE]),
    Op::store(8, &[CACHE], &[ALLOCATED]),
])
.of(FREE_INSTRUCTIONS);
/// A block with a mapping of its own: stores its header; loads it before it is unmapped.
static MAP: Site =
    Site::new(&[Op::integer(ALLOCATED, &[TOP]), Op::store(8, &[ALLOCATED], &[])]).of(MAP_INSTRUCTIONS);
static UNMAP: Site = Site::new(&[Op::load(LOADED, 8, &[ALLOCATED])]).of(MAP_INSTRUCTIONS);

/// Size classes of the per-thread cache: chunks of 32, 48, ... 1040 bytes.
const CACHE_BINS: u64 = 64;

/// A process's address space: hands out addresses and announces every change.
pub(crate) struct AddressSpace {
    heap: VirtRange,
    /// The header of the top chunk.
    top: u64,
    mmap_floor: VirtAddr,
    stack_pointer: VirtAddr,
    /// Freed chunks by size class, (chunk bytes - 32) / 16; addresses of the payloads.
    free: Vec<Vec<VirtAddr>>,
    mapped_bytes: u64,
    peak_bytes: u64,
}

/// The bytes a chunk takes for a request of `bytes`.
pub(crate) const fn chunk_bytes(bytes: u64) -> u64 {
    let padded = (bytes + 8 + 15) & !15;
    if padded < 32 { 32 } else { padded }
}

/// The bytes that `alloc(bytes)` maps at most, a page of slack included; for footprint arithmetic.
pub(crate) const fn mapping_bytes(bytes: u64) -> u64 {
    (bytes + 16).next_multiple_of(PAGE_BYTES)
}

impl AddressSpace {
    /// A fresh process: a stack, and no heap yet.
    pub(crate) fn new(out: &mut Emitter<'_>) -> Self {
        let stack = VirtRange::new(VirtAddr(STACK_TOP.0 - STACK_BYTES), STACK_TOP);
        out.mark(Event::Map(Mapping::anonymous(stack)));
        Self {
            heap: VirtRange::sized(HEAP_START, 0),
            top: HEAP_START.0,
            mmap_floor: MMAP_TOP,
            // Environment, arguments and the frames of `main` and its callers.
            stack_pointer: VirtAddr(STACK_TOP.0 - 0x2000),
            free: Vec::new(),
            mapped_bytes: stack.bytes(),
            peak_bytes: stack.bytes(),
        }
    }

    /// The most bytes that were mapped at once: heap, mappings and stack.
    #[cfg(test)]
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// A local variable of `bytes`, 16-byte aligned, on the stack.
    pub(crate) fn local(&mut self, bytes: u64) -> VirtAddr {
        self.stack_pointer = VirtAddr(self.stack_pointer.0 - bytes.next_multiple_of(16));
        assert!(
            self.stack_pointer.0 > STACK_TOP.0 - STACK_BYTES,
            "locals of {bytes} bytes overflow the stack"
        );
        self.stack_pointer
    }

    /// Leaves addresses unused below the mappings so far.
    pub(crate) fn leave_free(&mut self, bytes: u64) {
        self.mmap_floor = VirtAddr(self.mmap_floor.0 - bytes);
    }

    /// `malloc(bytes)`: a mapping of its own from 128 KiB on, a chunk of the heap below.
    pub(crate) fn malloc(&mut self, bytes: u64, out: &mut Emitter<'_>) -> Result<VirtAddr, Stop> {
        if bytes >= MMAP_THRESHOLD {
            out.block(&MAP)?;
            let range = self.map(mapping_bytes(bytes), out);
            out.store(range.start.add(8), 8)?;
            return Ok(range.start.add(16));
        }
        let chunk = chunk_bytes(bytes);
        let class = ((chunk - 32) / 16) as usize;
        if (class as u64) < CACHE_BINS && self.top > HEAP_START.0 {
            out.enter(&LOOK)?;
            out.load(cache_count(class), 2)?;
        } else if self.top > HEAP_START.0 {
            out.enter(&LARGE)?;
        }
        if let Some(payload) = self.free.get_mut(class).and_then(Vec::pop) {
            return self.reuse(payload, class, out).map(|()| payload);
        }
        self.cut_from_top(chunk, out)
    }

    /// `free` of what `malloc(bytes)` gave.
    pub(crate) fn free(&mut self, payload: VirtAddr, bytes: u64, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.enter(if bytes < MMAP_THRESHOLD { &FREE } else { &UNMAP })?;
        out.load(VirtAddr(payload.0 - 8), 8)?;
        if bytes >= MMAP_THRESHOLD {
            out.work(MAP_INSTRUCTIONS);
            self.unmap(VirtRange::sized(VirtAddr(payload.0 - 16), mapping_bytes(bytes)), out);
            return Ok(());
        }
        let class = ((chunk_bytes(bytes) - 32) / 16) as usize;
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(payload);
        out.work(FREE_INSTRUCTIONS);
        // The links of the free list lie in the freed chunk itself.
        out.load(cache_entry(class), 8)?;
        out.store(payload, 8)?;
        out.store(payload.add(8), 8)?;
        out.store(cache_entry(class), 8)
    }

    fn reuse(&mut self, payload: VirtAddr, class: usize, out: &mut Emitter<'_>) -> Result<(), Stop> {
        out.work(REUSE_INSTRUCTIONS);
        out.enter(&REUSE)?;
        out.load(cache_entry(class), 8)?;
        out.load(payload, 8)?;
        out.store(cache_entry(class), 8)?;
        out.store(payload.add(8), 8)
    }

    fn cut_from_top(&mut self, chunk: u64, out: &mut Emitter<'_>) -> Result<VirtAddr, Stop> {
        if self.top == HEAP_START.0 {
            out.enter(&FIRST)?;
            self.grow_heap(CACHE_CHUNK_BYTES, out);
            self.top += CACHE_CHUNK_BYTES;
            out.store(HEAP_START.add(8), 8)?;
        }
        // The top chunk keeps at least the header of an empty chunk.
        if self.top + chunk + 32 > self.heap.end.0 {
            self.grow_heap(chunk, out);
        }
        out.work(CUT_INSTRUCTIONS);
        out.enter(&CUT)?;
        let header = VirtAddr(self.top + 8);
        self.top += chunk;
        out.store(header, 8)?;
        out.store(VirtAddr(self.top + 8), 8)?;
        Ok(header.add(8))
    }

    fn grow_heap(&mut self, chunk: u64, out: &mut Emitter<'_>) {
        let wanted = VirtAddr(self.top + chunk + 32 + TOP_PAD).align_up(PAGE_BYTES);
        self.account(wanted.0 - self.heap.end.0);
        self.heap.end = wanted;
        out.mark(Event::Break(self.heap));
    }

    /// An anonymous mapping of whole pages.
    pub(crate) fn map(&mut self, bytes: u64, out: &mut Emitter<'_>) -> VirtRange {
        let range = VirtRange::new(VirtAddr(self.mmap_floor.0 - bytes), self.mmap_floor);
        assert!(range.start > self.heap.end, "a mapping of {bytes} bytes runs into the heap");
        self.mmap_floor = range.start;
        self.account(bytes);
        out.mark(Event::Map(Mapping::anonymous(range)));
        range
    }

    /// Unmaps; only the lowest mapping's place is used again.
    fn unmap(&mut self, range: VirtRange, out: &mut Emitter<'_>) {
        if range.start == self.mmap_floor {
            self.mmap_floor = range.end;
        }
        self.mapped_bytes -= range.bytes();
        out.mark(Event::Unmap(range));
    }

    fn account(&mut self, bytes: u64) {
        self.mapped_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.mapped_bytes);
    }
}

/// The 2-byte count of a bin of the per-thread cache.
fn cache_count(class: usize) -> VirtAddr {
    HEAP_START.add(16 + 2 * class as u64)
}

/// The 8-byte head of a bin of the per-thread cache.
fn cache_entry(class: usize) -> VirtAddr {
    HEAP_START.add(16 + 2 * CACHE_BINS + 8 * (class as u64).min(CACHE_BINS - 1))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    fn with_space<R>(f: impl FnOnce(&mut AddressSpace, &mut Emitter<'_>) -> R) -> R {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        f(&mut space, &mut out)
    }

    #[test]
    fn chunks_follow_glibc() {
        assert_eq!([0, 1, 16, 24, 25, 40, 60, 128].map(chunk_bytes), [32, 32, 32, 32, 48, 48, 80, 144]);
        with_space(|space, out| {
            // What a first malloc(16) of a C program answers, relative to the heap's start.
            assert_eq!(space.malloc(16, out).unwrap(), HEAP_START.add(0x2a0));
            assert_eq!(space.malloc(40, out).unwrap(), HEAP_START.add(0x2c0));
            assert_eq!(space.malloc(1, out).unwrap(), HEAP_START.add(0x2f0));
        });
    }

    #[test]
    fn freed_chunks_come_back_last_first_and_only_for_their_size() {
        with_space(|space, out| {
            let [a, b] = [16, 20].map(|bytes| space.malloc(bytes, out).unwrap());
            space.free(a, 16, out).unwrap();
            space.free(b, 20, out).unwrap();
            let other = space.malloc(40, out).unwrap();
            assert!(other > b);
            assert_eq!(space.malloc(24, out).unwrap(), b);
            assert_eq!(space.malloc(8, out).unwrap(), a);
        });
    }

    #[test]
    fn large_blocks_are_mapped_downwards_and_the_lowest_place_is_reused() {
        with_space(|space, out| {
            let a = space.malloc(1 << 20, out).unwrap();
            let b = space.malloc(1 << 20, out).unwrap();
            assert_eq!(a.0 - b.0, (1 << 20) + PAGE_BYTES);
            assert_eq!(a.0 % PAGE_BYTES, 16);
            let peak = space.peak_bytes();
            space.free(b, 1 << 20, out).unwrap();
            assert_eq!(space.malloc(1 << 20, out).unwrap(), b);
            assert_eq!(space.peak_bytes(), peak);
            assert_eq!(peak, STACK_BYTES + 2 * ((1 << 20) + PAGE_BYTES));
        });
    }
}
