//! A file mapped into memory as persistent memory.
//!
//! ```text
//!   files  persistence    how a store's file is made, opened and made longer; what loads and stores do
//!   Mapped                the mapping, and where bytes lie in it
//! ```

mod files;
mod persistence;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{Checkpoints, Pages};
use rustix::mm::{MapFlags, ProtFlags};

use crate::memory::lines;
use crate::memory::medium::{self, Medium};
use crate::memory::missing::{Failure, Health, Source, Watched};
use crate::memory::reserved::Reserved;
use crate::memory::room::Room;
use crate::memory::single_threaded::is_single_threaded;
use crate::memory::survives::Survives;
use crate::memory::translations::Translations;
use crate::memory::turns::Turns;
use crate::memory::view::View;

/// The host's huge pages.
const HUGE_BYTES: u64 = 2 << 20;
/// `MADV_COLLAPSE`, since Linux 6.1.
const MADV_COLLAPSE: i32 = 25;

/// A file, mapped whole, that no other process maps.
#[derive(Debug)]
pub struct Mapped {
    /// Before what is watched goes.
    _watched: Watched,
    /// The owner's: a process beside it closes its descriptor, by which all of the store could be written.
    file: Option<File>,
    start: NonNull<u8>,
    bytes: u64,
    /// What the mapping lies in.
    _reserved: Reserved,
    /// Files where the hardware finds them, if that is worth it.
    view: Option<View>,
    /// The translations that a process beside the owner remembers.
    translations: Option<Translations>,
    survives: Survives,
    /// The thread that flushes asks for what is written back.
    flushed: Turns,
    health: Health,
    /// The owner's, of a file whose blocks may be missing.
    room: Option<Room>,
    /// The owner's, where programs ask for what is to survive power failures.
    checkpoints: Option<Arc<Checkpoints>>,
    identity: u64,
    /// What is stored stays in this process, and is to be what recovery stores only.
    is_read_only: bool,
}

// SAFETY: the mapping belongs to this value and lives as long. Threads do not share it by itself: two of them could use the same bytes.
#[allow(unsafe_code)]
unsafe impl Send for Mapped {}

impl Mapped {
    /// The owner's file, for the handler of faults.
    fn source(&self) -> Source {
        Source::new(self.health.clone(), self.file.as_ref(), self.bytes, false)
    }

    /// Returns what has made the store fail, if anything has: then every operation of the store answers `EIO`.
    pub fn failure(&self) -> Option<Failure> {
        self.health.failure()
    }

    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// Bytes of the store for which the disk has no room now.
    pub(crate) fn without_room(&self) -> u64 {
        let Some(missing) = self.room.as_ref().map(Room::missing).filter(|&missing| missing > 0) else {
            return 0;
        };
        let free =
            rustix::fs::fstatvfs(self.file()).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        missing.saturating_sub(free)
    }

    /// Pieces of 2 MiB that the hardware finds by itself, and how many there may be; nothing where it does not.
    pub fn mappings(&self) -> Option<(usize, usize)> {
        self.view.as_ref().map(View::counts)
    }

    /// Lets the hardware find no more than so many pieces.
    #[cfg(test)]
    pub(crate) fn limit_mappings(&mut self, limit: usize) {
        self.view = Some(View::with_limit(self.source(), limit));
    }

    /// Where bytes behind a page are in one piece, if the hardware finds all of them, or it was found before.
    #[inline(always)]
    pub(crate) fn place_of(&self, page: Vpn, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = bytes as u64;
        let find = |page| Pages(self).find(page).filter(|mapped| mapped.large).map(|mapped| mapped.frame);
        match (&self.view, &self.translations) {
            (Some(view), _) => view.at(page, offset, bytes, self.file(), find),
            (None, Some(translations)) if is_single_threaded() => {
                translations.at(page, offset, bytes, find).and_then(|at| self.place(at, bytes))
            }
            _ => None,
        }
    }

    /// Beside the owner: how often it has had the store to itself.
    #[inline]
    pub(crate) fn keep_translations_since(&self, number: u64) {
        if let Some(translations) = &self.translations {
            translations.keep_since(number);
        }
    }

    /// Lets the host have the file in huge pages, where its file system can (tmpfs): then the hardware's translations are those that
    /// the store's own table describes. Without, everything is the same and slower. It takes some seconds per GiB; says how many bytes are
    /// done.
    #[allow(unsafe_code)]
    pub fn make_huge_pages(&self, mut done: impl FnMut(u64)) {
        for at in (0..self.bytes / HUGE_BYTES).map(|chunk| chunk * HUGE_BYTES) {
            let Some(start) = self.place(at, HUGE_BYTES) else { break };
            // SAFETY: the range lies in the mapping; what it holds stays the same.
            let made = unsafe { libc::madvise(start.as_ptr().cast(), HUGE_BYTES as usize, MADV_COLLAPSE) };
            // A page that another thread holds for a moment is left as it is.
            let error = io::Error::last_os_error().raw_os_error();
            if made != 0 && !matches!(error, Some(libc::EAGAIN | libc::EBUSY)) {
                break;
            }
            done(at + HUGE_BYTES);
        }
    }

    /// The owner's file, to let another process map it.
    pub(crate) fn file(&self) -> &File {
        self.file.as_ref().expect("the owner keeps it")
    }

    /// Whether an address lies in the mapping.
    pub(crate) fn has_address(&self, address: usize) -> bool {
        (self.start.as_ptr() as usize..).contains(&address)
            && address - (self.start.as_ptr() as usize) < self.bytes as usize
    }

    /// Returns what the store survives.
    pub(crate) fn survives(&self) -> Survives {
        self.survives
    }

    fn map(file: File, survives: Survives) -> io::Result<Self> {
        let mapped = Self::map_shared(&file, survives, Health::default(), Some(&file))?;
        Ok(Self { file: Some(file), ..mapped })
    }

    fn map_shared(file: &File, survives: Survives, health: Health, kept: Option<&File>) -> io::Result<Self> {
        // Nothing else can be written back there.
        let survives = if Medium::of(file)? == Medium::Dax { Survives::PowerFailureOfDax } else { survives };
        let map = |how| Self::map_as(file, survives, how, health, kept);
        if survives != Survives::PowerFailureOfDax {
            return map(MapFlags::SHARED);
        }
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // The kernel refuses this unless what is stored is in the memory that persists.
        let how = MapFlags::SHARED_VALIDATE | MapFlags::from_bits_retain(libc::MAP_SYNC as u32);
        map(how).map_err(|error| match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => {
                io::Error::new(io::ErrorKind::Unsupported, "the file does not lie in persistent memory (DAX)")
            }
            _ => error,
        })
    }

    /// Maps a file; `kept` is its descriptor, if that stays open as long as the mapping.
    #[allow(unsafe_code)]
    fn map_as(
        file: &File,
        survives: Survives,
        how: MapFlags,
        health: Health,
        kept: Option<&File>,
    ) -> io::Result<Self> {
        let identity = medium::identity(file);
        let bytes = medium::length(file)? / PAGE_BYTES * PAGE_BYTES;
        if bytes == 0 {
            let message = "the file has less than 4,096 bytes: there is no store in it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Aligned as the file is: huge pages can be mapped as such.
        let reserved = Reserved::new(bytes, HUGE_BYTES)?;
        let start = reserved.start();
        let fixed = how | MapFlags::FIXED;
        // SAFETY: this replaces what was just reserved.
        unsafe { rustix::mm::mmap(start.as_ptr().cast(), bytes as usize, protection, fixed, file, 0)? };
        let source = Source::new(health.clone(), kept, bytes, how.contains(MapFlags::PRIVATE));
        Ok(Self {
            _watched: Watched::new(start.as_ptr(), bytes, false, &source),
            file: None,
            start,
            bytes,
            _reserved: reserved,
            view: None,
            translations: None,
            survives,
            flushed: Turns::default(),
            health,
            room: None,
            checkpoints: None,
            identity,
            is_read_only: false,
        })
    }

    /// Where bytes lie; `None` for what [`Mapped::is_nowhere`] is about.
    #[inline]
    #[allow(unsafe_code)]
    fn place(&self, at: u64, bytes: u64) -> Option<NonNull<u8>> {
        if at > self.bytes || bytes > self.bytes - at {
            return self.is_nowhere(at, bytes);
        }
        // SAFETY: it lies within the mapping.
        Some(unsafe { self.start.add(at as usize) })
    }

    #[inline]
    #[allow(unsafe_code)]
    fn word(&self, at: u64) -> Option<&AtomicU64> {
        // There is a whole number of words.
        if at >= self.bytes || !at.is_multiple_of(8) {
            return self.is_nowhere(at, 8);
        }
        // SAFETY: (1) it lies within the mapping, which lives as long as `self`; (2) it is aligned.
        Some(unsafe { self.start.add(at as usize).cast::<AtomicU64>().as_ref() })
    }

    /// Lets the caches write back the lines that bytes lie in.
    #[inline]
    fn write_lines_back(&self, at: u64, bytes: u64) {
        if let Some(place) = self.place(at, bytes) {
            lines::write_back(place.as_ptr(), bytes as usize);
        }
    }

    /// An address outside of the memory, or between two words, is the caller's mistake, and ends the program. But where the memory has failed
    /// the caller may have taken it from a page of zeroes that replaced a missing one, or from what such a page led to: then nothing lies
    /// there, zeroes are read, and stores are lost, as in that page itself. Kept apart: what a message needs is not to be made ready for
    /// each word.
    #[cold]
    #[inline(never)]
    fn is_nowhere<T>(&self, at: u64, bytes: u64) -> Option<T> {
        assert!(self.health.has_failed(), "{bytes} bytes at {at:#x} of {:#x}", self.bytes);
        None
    }
}
