//! Loads and stores of a mapped file, and what persists of them and when.

use std::io;
use std::sync::atomic::{Ordering, compiler_fence};

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{Checkpoints, NotPersistent, PersistentMemory, Remapped};
use rustix::mm::MsyncFlags;

use crate::memory::lines::{
    self, MOST_FORESEEN, PAST_CACHES, copy_and_ask_for_more, copy_out, copy_past_caches, order_stores,
};
use crate::memory::mapped::Mapped;
use crate::memory::missing::Failure;
use crate::memory::single_threaded::is_single_threaded;
use crate::memory::survives::Survives;

#[allow(unsafe_code)]
impl PersistentMemory for Mapped {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.word(at).map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)))
    }

    #[inline]
    fn store(&self, at: u64, word: u64) {
        if let Some(place) = self.word(at) {
            place.store(word.to_le(), Ordering::Relaxed);
        }
    }

    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) {
        let Some(place) = self.place(at, into.len() as u64) else { return into.fill(0) };
        // SAFETY: (1) all of it lies within the mapping; (2) no thread writes these bytes meanwhile, by the trait's contract.
        unsafe { copy_out(place.as_ptr(), into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    fn write(&self, at: u64, bytes: &[u8]) {
        let Some(place) = self.place(at, bytes.len() as u64) else { return };
        // SAFETY: as for `read`; no thread reads them either.
        unsafe { copy_past_caches(bytes.as_ptr(), place.as_ptr(), bytes.len()) }
    }

    /// Past the caches if no thread waits for that: the only thread goes on meanwhile, others wait at the next lock. What has to leave the
    /// caches at once had better pass them, too.
    #[inline]
    fn append(&self, at: u64, bytes: &[u8]) {
        let least = if is_single_threaded() { PAST_CACHES } else { MOST_FORESEEN + 1 };
        if bytes.len() >= least || self.survives == Survives::PowerFailureOfDax {
            return self.write(at, bytes);
        }
        let Some(place) = self.place(at, bytes.len() as u64) else { return };
        // SAFETY: as for `write`.
        unsafe { copy_and_ask_for_more(bytes.as_ptr(), place.as_ptr(), bytes.len()) }
    }

    #[inline]
    fn read_mapped(&self, page: Vpn, offset: u64, into: &mut [u8]) -> bool {
        let Some(place) = self.place_of(page, offset, into.len()) else { return false };
        // SAFETY: as for `read`.
        unsafe { copy_out(place.as_ptr(), into.as_mut_ptr(), into.len()) };
        true
    }

    #[inline]
    fn write_mapped(&self, page: Vpn, offset: u64, bytes: &[u8]) -> bool {
        let Some(place) = self.place_of(page, offset, bytes.len()) else { return false };
        // SAFETY: as for `write`.
        unsafe { copy_past_caches(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
        match self.survives {
            // Stores past the caches need no flush, but not all of them go past.
            Survives::PowerFailureOfDax => lines::write_back(place.as_ptr(), bytes.len()),
            _ => self.flush(0, 0),
        }
        true
    }

    fn remapped(&self, change: Remapped) {
        if let Some(view) = &self.view {
            view.follow(change);
        }
    }

    fn zero(&self, at: u64, bytes: u64) {
        let Some(place) = self.place(at, bytes) else { return };
        // SAFETY: as for `write`.
        unsafe { std::ptr::write_bytes(place.as_ptr(), 0, bytes as usize) }
    }

    #[inline]
    fn flush(&self, at: u64, bytes: u64) {
        match self.survives {
            Survives::ProcessCrash | Survives::Synced => {}
            Survives::PowerFailure => {
                self.flushed.ask();
            }
            Survives::PowerFailureOfDax => self.write_lines_back(at, bytes),
        }
    }

    #[inline]
    fn fence(&self) {
        match self.survives {
            // Whenever the process ends, what it has stored before that is stored, and nothing behind: the processor takes an
            // interrupt between two instructions, whatever order memory sees their stores in.
            Survives::ProcessCrash | Survives::Synced => compiler_fence(Ordering::SeqCst),
            Survives::PowerFailure => {
                order_stores();
                self.write_back();
            }
            Survives::PowerFailureOfDax => order_stores(),
        }
    }

    fn provide(&self, at: u64, bytes: u64) -> bool {
        self.room.as_ref().is_none_or(|room| room.get(self.file(), at, bytes))
    }

    #[inline]
    fn has_failed(&self) -> bool {
        self.health.has_failed()
    }

    fn persist(&self, at: u64, bytes: u64) -> Result<(), NotPersistent> {
        order_stores();
        if self.survives == Survives::PowerFailureOfDax {
            self.write_lines_back(at, bytes);
            order_stores();
            return Ok(());
        }
        let (first, end) = (at / PAGE_BYTES * PAGE_BYTES, at + bytes);
        let start = self.place(first, end - first).ok_or(NotPersistent)?.as_ptr().cast();
        // SAFETY: the range lies in the mapping, which lives as long as `self`.
        let done = unsafe { rustix::mm::msync(start, (end - first) as usize, MsyncFlags::SYNC) };
        if done.is_err() {
            self.health.fail(Failure::NotWritten);
        }
        // A page of zeroes that took a missing one's place is no part of the file.
        if self.has_failed() { Err(NotPersistent) } else { Ok(()) }
    }

    #[inline]
    fn checkpoints(&self) -> Option<&Checkpoints> {
        self.checkpoints.as_deref()
    }

    fn identity(&self) -> u64 {
        self.identity
    }

    #[inline]
    fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}

impl Mapped {
    /// The same as `fdatasync` of the file, without a descriptor of it.
    #[allow(unsafe_code)]
    fn write_back_mapping(&self) -> io::Result<()> {
        // SAFETY: the mapping is this value's, and what it holds stays the same.
        unsafe {
            rustix::mm::msync(self.start.as_ptr().cast(), self.bytes as usize, rustix::mm::MsyncFlags::SYNC)?
        };
        Ok(())
    }

    /// Whatever was flushed until now is on the disk when this returns, whichever thread writes it back, or the store has failed.
    #[cold]
    fn write_back(&self) {
        let synced = self.flushed.take(|| match &self.file {
            Some(file) => file.sync_data(),
            None => self.write_back_mapping(),
        });
        // What cannot be written back is not promised.
        if synced.is_err() {
            self.health.fail(Failure::NotWritten);
        }
    }
}
