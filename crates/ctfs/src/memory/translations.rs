//! The translations of the store's page table that a process beside the owner remembers, as a processor's TLB does.
//!
//! An entry is what one entry of the table maps, 2 MiB. The owner counts how often it has had the store to itself: what was
//! remembered before that may not be so any more. Only a process with one thread remembers anything: entries have no locks.

use std::sync::atomic::{AtomicU64, Ordering};

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, Vpn};
use pagewalk_vm::file::LARGE_ORDER;

const CHUNK_BYTES: u64 = PAGE_BYTES << LARGE_ORDER;
/// Directly mapped: enough for 2 GiB in one piece.
const ENTRIES: usize = 1_024;
/// The mark of chunks that several entries of the table map.
const IN_PIECES: u64 = u64::MAX;

/// Words that one thread uses.
struct Entry {
    chunk: AtomicU64,
    since: AtomicU64,
    /// Bytes from the store's begin on.
    place: AtomicU64,
}

pub(crate) struct Translations {
    now: AtomicU64,
    entries: Box<[Entry]>,
}

impl std::fmt::Debug for Translations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Translations").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Translations {
    pub(crate) fn new() -> Self {
        let entry = || Entry {
            chunk: AtomicU64::new(u64::MAX),
            since: AtomicU64::new(0),
            place: AtomicU64::new(IN_PIECES),
        };
        Self { now: AtomicU64::new(0), entries: std::iter::repeat_with(entry).take(ENTRIES).collect() }
    }

    /// How often the owner has had the store to itself: what was remembered at another number is forgotten.
    #[inline]
    pub(crate) fn keep_since(&self, number: u64) {
        self.now.store(number, Ordering::Relaxed);
    }

    /// Where bytes behind a page lie in the store, if they lie in one piece of 2 MiB.
    #[inline]
    pub(crate) fn at(
        &self,
        page: Vpn,
        offset: u64,
        bytes: u64,
        find: impl FnOnce(Vpn) -> Option<Pfn>,
    ) -> Option<u64> {
        let first = page.0 * PAGE_BYTES + offset;
        let (chunk, inside) = (first / CHUNK_BYTES, first % CHUNK_BYTES);
        if inside + bytes > CHUNK_BYTES {
            return None;
        }
        let entry = &self.entries[chunk as usize % ENTRIES];
        let is_known = entry.chunk.load(Ordering::Relaxed) == chunk
            && entry.since.load(Ordering::Relaxed) == self.now.load(Ordering::Relaxed);
        let place = if is_known { entry.place.load(Ordering::Relaxed) } else { self.fill(chunk, find) };
        (place != IN_PIECES).then(|| place + inside)
    }

    #[cold]
    fn fill(&self, chunk: u64, find: impl FnOnce(Vpn) -> Option<Pfn>) -> u64 {
        let place = find(Vpn(chunk << LARGE_ORDER)).map_or(IN_PIECES, |frame| frame.addr().0);
        let entry = &self.entries[chunk as usize % ENTRIES];
        entry.chunk.store(chunk, Ordering::Relaxed);
        entry.since.store(self.now.load(Ordering::Relaxed), Ordering::Relaxed);
        entry.place.store(place, Ordering::Relaxed);
        place
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_was_looked_up_is_remembered_until_the_owner_was_there() {
        let translations = Translations::new();
        let walks = Cell::new(0);
        let frame = Cell::new(Some(Pfn(1_024)));
        let at = |page, offset, bytes| {
            translations.at(Vpn(page), offset, bytes, |page| {
                walks.set(walks.get() + 1);
                assert_eq!(page.0 % 512, 0);
                frame.get()
            })
        };
        translations.keep_since(1);
        assert_eq!(at(512, 0, 1), Some(1_024 * 4_096));
        assert_eq!(at(513, 5, 4_096), Some(1_025 * 4_096 + 5));
        assert_eq!(at(0, CHUNK_BYTES + 7, CHUNK_BYTES - 7), Some(1_024 * 4_096 + 7));
        assert_eq!(walks.get(), 1);
        assert_eq!(at(513, 5, CHUNK_BYTES), None, "two chunks");
        frame.set(None);
        assert_eq!(at(512, 0, 1), Some(1_024 * 4_096), "the chunk was not known");
        translations.keep_since(2);
        assert_eq!(at(512, 0, 1), None);
        assert_eq!(at(700, 0, 1), None, "that is remembered, too");
        assert_eq!(walks.get(), 2);
        // Another chunk in the same place.
        frame.set(Some(Pfn(0)));
        assert_eq!(at((ENTRIES as u64 + 1) * 512, 3, 1), Some(3));
        assert_eq!(at(512, 0, 1), Some(0));
        assert_eq!(walks.get(), 4);
    }
}
