//! Memory that persists, and the order in which it does.

use super::checkpoint::{Checkpoints, NotPersistent};
use crate::addr::{PAGE_BYTES, Pfn, Vpn};

/// The way in which a transaction has changed the page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remapped {
    /// Pages are mapped that were not, or the other way round.
    Changed {
        /// The first page that changed.
        first: Vpn,
        /// The number of pages that changed.
        pages: u64,
    },
    /// Two ranges have swapped what they are mapped to.
    Swapped {
        /// The first page of one.
        a: Vpn,
        /// The first page of the other.
        b: Vpn,
        /// The number of pages of each range.
        pages: u64,
    },
}

/// One piece of persistent memory, from address 0 on.
///
/// # Contract
///
/// A word of eight bytes at an aligned address is stored whole or not at all. Nothing that was stored need persist until it
/// was flushed and a fence came behind the flush; without these it may persist at any time, in any order. What was flushed
/// before a fence persists before anything that is stored behind it.
///
/// Everything takes `&self`: a caller that shares the memory between threads makes sure that no two of them use the same
/// bytes, or uses words only. The memory starts no thread itself.
pub trait PersistentMemory {
    /// Returns the size of the memory in bytes, a multiple of 4 KiB.
    fn bytes(&self) -> u64;
    /// Reads the word at an aligned address.
    fn load(&self, at: u64) -> u64;
    /// Stores the word at an aligned address.
    fn store(&self, at: u64, word: u64);
    /// Copies bytes out of the memory.
    fn read(&self, at: u64, into: &mut [u8]);
    /// Copies bytes into the memory.
    fn write(&self, at: u64, bytes: &[u8]);
    /// Copies bytes in, behind which more will be written soon.
    fn append(&self, at: u64, bytes: &[u8]) {
        self.write(at, bytes);
    }
    /// Stores zeroes to a range of the memory.
    fn zero(&self, at: u64, bytes: u64);
    /// Makes this range persist at the next fence.
    fn flush(&self, at: u64, bytes: u64);
    /// Returns when everything that was flushed persists.
    fn fence(&self);

    /// Returns when everything that was stored in a range persists. Where [`PersistentMemory::checkpoints`] answers, this alone does
    /// that, and neither a flush nor a fence.
    ///
    /// # Errors
    ///
    /// [`NotPersistent`]: the memory cannot be written back, or has failed before.
    fn persist(&self, at: u64, bytes: u64) -> Result<(), NotPersistent> {
        self.flush(at, bytes);
        self.fence();
        Ok(())
    }

    /// Makes sure that a range has room in what holds the memory, where room is got on demand. Must come before the first store to frames
    /// that had no use. Answers whether there is room.
    fn provide(&self, _at: u64, _bytes: u64) -> bool {
        true
    }

    /// Whether bytes of the memory are lost: a load found none, a store reached nothing that persists, or the memory could not be
    /// written back. Once this is so it stays so. A caller that has loaded or stored may use what it found, and call done what it did, only
    /// if this is not so *behind* that.
    fn has_failed(&self) -> bool {
        false
    }

    /// The checkpoints that a power failure leads back to, for a memory in which fences do not wait.
    fn checkpoints(&self) -> Option<&Checkpoints> {
        None
    }

    /// A number of what holds everything that was stored, whether it persists or not, as the host's memory does until it loses its
    /// power; another number behind that. 0 is none.
    fn identity(&self) -> u64 {
        0
    }

    /// Whether what is stored stays in this process: what the memory was opened from keeps what it holds. No transaction is committed
    /// in a store there; what a crash left in the log is applied all the same.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Zeroes a frame and flushes it.
    fn clear_frame(&self, frame: Pfn) {
        self.zero(frame.addr().0, PAGE_BYTES);
        self.flush(frame.addr().0, PAGE_BYTES);
    }

    /// Reads bytes behind a page from where the hardware finds them by itself, if it finds all of them.
    fn read_mapped(&self, _page: Vpn, _offset: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Writes bytes behind a page to where the hardware finds them by itself, if it finds all of them.
    fn write_mapped(&self, _page: Vpn, _offset: u64, _bytes: &[u8]) -> bool {
        false
    }

    /// The page table of the store in this memory has changed: what the hardware finds by itself is to follow.
    fn remapped(&self, _change: Remapped) {}
}
