//! The time of swapping two ranges of pages on this machine, in three ways, as in Figure 6 of Li et al., ";login: 2022".
//!
//! - [`TableSwap`]: the entries of a store's persistent page table, by its log. This is the half that lasts.
//! - [`ViewSwap`]: what a process has mapped, moved by three calls of `mremap`. The kernel moves whole tables of its own where both
//!   ranges are aligned, 2 MiB and 1 GiB at once.
//! - [`CopyTwice`]: the bytes, into a log and to their place.
//!
//! None holds as much memory as it swaps: a table of the kernel that moves whole needs one page that is there, and copies repeat the
//! same [`COPIED_BYTES`], more than caches hold.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, PersistentMemory, Store, StoreError, SwapCounts};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

use crate::memory::reserved::Reserved;

/// Alignment of both ranges: what an entry of the third level covers.
const ALIGNED_BYTES: u64 = 1 << 30;
const LARGE_PAGES: u64 = 1 << LARGE_ORDER;
/// Bytes that [`CopyTwice`] copies again and again, and as many of log.
pub const COPIED_BYTES: u64 = 64 << 20;
/// Bytes of a memory that holds the store of a [`TableSwap`].
pub const TABLE_STORE_BYTES: u64 = 32 << 20;

/// Two ranges of pages in a store, mapped.
#[derive(Debug)]
pub struct TableSwap<M> {
    store: Store<M>,
    most_pages: u64,
}

impl<M: PersistentMemory> TableSwap<M> {
    const A: Vpn = Vpn(1 << 27);
    const B: Vpn = Vpn(1 << 28);

    /// Makes a store of two ranges of so many pages, mapped by pages of 2 MiB. There is nothing in these: only the table is used.
    ///
    /// # Errors
    ///
    /// The memory is too small for the table.
    ///
    /// # Panics
    ///
    /// If the memory cannot be a store at all.
    pub fn new(memory: M, most_pages: u64) -> Result<Self, StoreError> {
        let mut store = Store::format(memory).expect("a size that a store may have");
        for (first, frames) in [(Self::A, 1 << 27), (Self::B, 1 << 28)] {
            for at in (0..most_pages).step_by(LARGE_PAGES as usize) {
                let mut transaction = store.begin();
                transaction.map(Vpn(first.0 + at), Pfn(frames + at), true)?;
                transaction.commit()?;
            }
        }
        Ok(Self { store, most_pages })
    }

    /// Swaps the first so many pages; the entries that took, and the time.
    ///
    /// # Errors
    ///
    /// The memory is too small for another table.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn swap(&mut self, pages: u64) -> Result<(SwapCounts, Duration), StoreError> {
        assert!(pages <= self.most_pages, "{pages} of {} pages", self.most_pages);
        let begun = Instant::now();
        let counts = self.store.swap(Self::A, Self::B, pages, None)?;
        Ok((counts, begun.elapsed()))
    }

    /// Returns where pages of both ranges are mapped.
    pub fn frames(&self, page: u64) -> [Option<Pfn>; 2] {
        [Self::A, Self::B].map(|first| self.store.find(Vpn(first.0 + page)).map(|mapped| mapped.frame))
    }
}

/// Two ranges of addresses of this process, each a part of one file in memory.
#[derive(Debug)]
pub struct ViewSwap {
    /// A, B and room to move through.
    window: Reserved,
    range_bytes: usize,
}

impl ViewSwap {
    /// Maps two ranges of so many pages. They take memory only where they are touched.
    ///
    /// # Errors
    ///
    /// The kernel gives no such file or addresses.
    #[allow(unsafe_code)]
    pub fn new(most_pages: u64) -> io::Result<Self> {
        let range_bytes = (most_pages * PAGE_BYTES).next_multiple_of(ALIGNED_BYTES);
        let file = File::from(rustix::fs::memfd_create("pagewalk-swap", MemfdFlags::CLOEXEC)?);
        file.set_len(2 * range_bytes)?;
        let window = Reserved::new(3 * range_bytes, ALIGNED_BYTES)?;
        let own = Self { window, range_bytes: range_bytes as usize };
        for (number, from) in [(0, 0), (1, range_bytes)] {
            let (protection, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
            // SAFETY: (1) it replaces a part of the reservation above, of which no other thread knows; (2) the file has these bytes.
            unsafe {
                rustix::mm::mmap(own.range(number).cast(), own.range_bytes, protection, how, &file, from)?
            };
        }
        Ok(own)
    }

    /// Where a range begins: A, B, or the room.
    fn range(&self, number: usize) -> *mut u8 {
        self.window.start().as_ptr().wrapping_add(number * self.range_bytes)
    }

    #[allow(unsafe_code)]
    fn word(&self, range: usize, page: u64) -> *mut u64 {
        let at = page * PAGE_BYTES;
        assert!(at < self.range_bytes as u64, "page {page}");
        self.range(range).wrapping_add(at as usize).cast()
    }

    /// The pages that must be there for so many to move as if all were: the first of each 2 MiB that moves whole, and each page
    /// that moves alone.
    fn touched(pages: u64) -> impl Iterator<Item = u64> {
        let alone = pages / LARGE_PAGES * LARGE_PAGES;
        (0..alone).step_by(LARGE_PAGES as usize).chain(alone..pages)
    }

    /// Writes the numbers of its pages into the first range, and others into the second.
    #[allow(unsafe_code)]
    pub fn touch(&mut self, pages: u64) {
        for page in Self::touched(pages) {
            for range in [0, 1] {
                // SAFETY: the word lies in a range, which is mapped and no other thread's.
                unsafe { self.word(range, page).write_volatile(Self::mark(range, page)) };
            }
        }
    }

    fn mark(range: usize, page: u64) -> u64 {
        page << 1 | range as u64
    }

    /// Returns whether the first so many pages are swapped (or, if not, where they were); `None` if neither.
    #[allow(unsafe_code)]
    pub fn is_swapped(&self, pages: u64) -> Option<bool> {
        let found = |swapped: usize| {
            Self::touched(pages).all(|page| {
                // SAFETY: as in `touch`.
                [0, 1].into_iter().all(|range| unsafe {
                    self.word(range, page).read_volatile() == Self::mark(range ^ swapped, page)
                })
            })
        };
        match (found(0), found(1)) {
            (true, false) => Some(false),
            (false, true) => Some(true),
            _ => None,
        }
    }

    /// Swaps the first so many pages; the time that took.
    ///
    /// # Errors
    ///
    /// The kernel refuses to move them.
    pub fn swap(&mut self, pages: u64) -> io::Result<Duration> {
        let bytes = (pages * PAGE_BYTES) as usize;
        assert!(bytes <= self.range_bytes, "{pages} pages");
        let begun = Instant::now();
        for (from, to) in [(0, 2), (1, 0), (2, 1)] {
            self.move_range(from, to, bytes)?;
        }
        let taken = begun.elapsed();
        // The room is to stay this process's.
        self.reserve_room(bytes)?;
        Ok(taken)
    }

    #[allow(unsafe_code)]
    fn move_range(&mut self, from: usize, to: usize, bytes: usize) -> io::Result<()> {
        let (from, to) = (self.range(from).cast(), self.range(to).cast());
        // What is left behind stays mapped until something else is mapped there: in a gap another thread could get memory of its own.
        let how = MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP;
        // SAFETY: (1) both lie in the window, of which no other thread knows; (2) no reference into it exists: it is only used through
        // `word`; (3) what was at `to` has moved away or is the reservation.
        unsafe { rustix::mm::mremap_fixed(from, bytes, bytes, how, to)? };
        Ok(())
    }

    #[allow(unsafe_code)]
    fn reserve_room(&mut self, bytes: usize) -> io::Result<()> {
        let how = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the room lies in the window, and what was there has moved away.
        unsafe { rustix::mm::mmap_anonymous(self.range(2).cast(), bytes, ProtFlags::empty(), how)? };
        Ok(())
    }
}

/// Bytes, a log, and where they belong.
#[derive(Debug)]
pub struct CopyTwice {
    from: Vec<u8>,
    log: Vec<u8>,
    to: Vec<u8>,
}

impl Default for CopyTwice {
    fn default() -> Self {
        // Every page is there before anything is timed.
        let [from, log, to] = [1, 2, 3].map(|byte| vec![byte; COPIED_BYTES as usize]);
        Self { from, log, to }
    }
}

impl CopyTwice {
    /// Copies so many pages into the log and out of it; the time that took.
    pub fn copy(&mut self, pages: u64) -> Duration {
        let begun = Instant::now();
        let mut left = pages * PAGE_BYTES;
        while left > 0 {
            let bytes = left.min(COPIED_BYTES) as usize;
            self.log[..bytes].copy_from_slice(&self.from[..bytes]);
            std::hint::black_box(&mut self.log);
            self.to[..bytes].copy_from_slice(&self.log[..bytes]);
            std::hint::black_box(&mut self.to);
            left -= bytes as u64;
        }
        begun.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_vm::file::Recording;

    #[test]
    fn a_view_swaps_whole_tables_and_single_pages() {
        let most = 3 * 262_144;
        let mut view = ViewSwap::new(most).expect("the kernel has addresses");
        for pages in [1, 7, 511, 512, 513, 262_143, 262_144, 262_658] {
            view.touch(pages);
            assert_eq!(view.is_swapped(pages), Some(false), "{pages}");
            for expected in [true, false, true] {
                view.swap(pages).expect("it moves");
                assert_eq!(view.is_swapped(pages), Some(expected), "{pages}");
            }
        }
    }

    #[test]
    fn a_table_swaps_by_the_law() {
        let mut table =
            TableSwap::new(Recording::new(vec![0; TABLE_STORE_BYTES as usize]), 263_168).expect("room");
        let frames = table.frames(5);
        for (pages, entries) in [(1, 1), (511, 511), (512, 1), (262_143, 1_022), (262_144, 1), (262_658, 4)] {
            let (counts, _) = table.swap(pages).expect("room");
            assert_eq!(counts.total(), entries, "{pages}");
            assert_eq!(counts.0.iter().sum::<u64>(), entries);
        }
        // Page 5 has been swapped by five of the six.
        assert_eq!(table.frames(5), [frames[1], frames[0]]);
    }

    #[test]
    fn bytes_arrive_by_the_log() {
        let mut copy = CopyTwice::default();
        copy.copy(3);
        let bytes = 3 * PAGE_BYTES as usize;
        assert!(copy.to[..bytes].iter().all(|&byte| byte == 1) && copy.to[bytes] == 3);
        assert!(copy.log[..bytes].iter().all(|&byte| byte == 1) && copy.log[bytes] == 2);
    }
}
