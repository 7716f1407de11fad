//! The time of a library's operations: reads and writes of bytes, apart from everything else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewalk_vm::addr::Vpn;
use pagewalk_vm::file::{PersistentMemory, Remapped};

use crate::core::volume::Volume;
use crate::memory::sharing::SharedMemory;

/// The measure of how closely accesses to bytes are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// Accesses are not looked at.
    Away,
    /// A write is looked at until its bytes are written.
    Waiting,
    /// The clock is asked before and behind, too.
    Timing,
}

/// A memory that can time the reads and writes of bytes, and the first fence behind a write, which waits until the bytes have left
/// the processor: loads and stores of words are the file system's own.
#[derive(Debug)]
pub struct Timed<M> {
    memory: M,
    is_waiting: AtomicBool,
    is_timing: AtomicBool,
    has_written: AtomicBool,
    nanoseconds: AtomicU64,
    calls: AtomicU64,
}

impl<M> Timed<M> {
    /// Wraps a memory whose accesses are not looked at yet.
    pub fn new(memory: M) -> Self {
        let [is_waiting, is_timing, has_written] = [(); 3].map(|()| false.into());
        let [nanoseconds, calls] = [0, 0].map(AtomicU64::new);
        Self { memory, is_waiting, is_timing, has_written, nanoseconds, calls }
    }

    /// Times what was done to bytes, if it was. Not more than one thread is timed.
    fn timed(&self, act: impl FnOnce(&M) -> bool) -> bool {
        if !self.is_timing.load(Ordering::Relaxed) {
            return act(&self.memory);
        }
        let begun = Instant::now();
        let is_done = act(&self.memory);
        if is_done {
            let taken = begun.elapsed().as_nanos() as u64;
            for (sum, more) in [(&self.nanoseconds, taken), (&self.calls, 1)] {
                sum.store(sum.load(Ordering::Relaxed) + more, Ordering::Relaxed);
            }
        }
        is_done
    }
}

// SAFETY: (1) and (2) as the memory; it also asks the clock and counts in atomic words.
#[allow(unsafe_code)]
unsafe impl<M: SharedMemory> SharedMemory for Timed<M> {}

impl<M: SharedMemory> Volume<Timed<M>> {
    /// Sets how accesses to bytes are looked at; how long the clock has been seen to run since the last time, and how often.
    pub fn look_at_data(&self, look: Look) -> (Duration, u64) {
        let system = self.shared();
        let memory = system.store.memory();
        memory.is_waiting.store(look != Look::Away, Ordering::Relaxed);
        memory.is_timing.store(look == Look::Timing, Ordering::Relaxed);
        memory.has_written.store(false, Ordering::Relaxed);
        let nanoseconds = memory.nanoseconds.swap(0, Ordering::Relaxed);
        (Duration::from_nanos(nanoseconds), memory.calls.swap(0, Ordering::Relaxed))
    }
}

impl<M: PersistentMemory> PersistentMemory for Timed<M> {
    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    fn load(&self, at: u64) -> u64 {
        self.memory.load(at)
    }

    fn store(&self, at: u64, word: u64) {
        self.memory.store(at, word);
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.timed(|memory| {
            memory.read(at, into);
            true
        });
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.timed(|memory| {
            memory.write(at, bytes);
            true
        });
        self.has_written.store(true, Ordering::Relaxed);
    }

    fn append(&self, at: u64, bytes: &[u8]) {
        self.timed(|memory| {
            memory.append(at, bytes);
            true
        });
        self.has_written.store(true, Ordering::Relaxed);
    }

    fn read_mapped(&self, page: Vpn, offset: u64, into: &mut [u8]) -> bool {
        self.timed(|memory| memory.read_mapped(page, offset, into))
    }

    fn write_mapped(&self, page: Vpn, offset: u64, bytes: &[u8]) -> bool {
        let is_done = self.timed(|memory| memory.write_mapped(page, offset, bytes));
        // A plain store: one that reads, too, would wait for the bytes.
        if is_done {
            self.has_written.store(true, Ordering::Relaxed);
        }
        is_done
    }

    fn is_read_only(&self) -> bool {
        self.memory.is_read_only()
    }

    fn remapped(&self, change: Remapped) {
        self.memory.remapped(change);
    }

    fn provide(&self, at: u64, bytes: u64) -> bool {
        self.memory.provide(at, bytes)
    }

    fn has_failed(&self) -> bool {
        self.memory.has_failed()
    }

    fn zero(&self, at: u64, bytes: u64) {
        self.memory.zero(at, bytes);
    }

    fn flush(&self, at: u64, bytes: u64) {
        self.memory.flush(at, bytes);
    }

    fn fence(&self) {
        if self.is_waiting.load(Ordering::Relaxed) && self.has_written.load(Ordering::Relaxed) {
            self.has_written.store(false, Ordering::Relaxed);
            self.timed(|memory| {
                memory.fence();
                // A fence of stores lets instructions behind it go on. What waits in the end is the next one that needs all stores
                // done, which is a lock's soon: it is made to wait here.
                std::sync::atomic::fence(Ordering::SeqCst);
                true
            });
        } else {
            self.memory.fence();
        }
    }
}
