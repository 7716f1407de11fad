//! Transactions over a store.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{ROOT_WORDS, Store, StoreError, root, root_place};
use crate::addr::{PAGE_BYTES, Pfn, PhysAddr, Vpn};
use crate::file::checkpoint::Checkpoints;
use crate::file::journal::{LogFull, Runs, WORD_BYTES};
use crate::file::memory::{PersistentMemory, Remapped};
use crate::file::translation_cache::concerns;
use crate::table::cuckoo::NoChunk;
use crate::table::{ContiguousMemory, TableMemory, TableWords};

/// Words of a transaction whose room the next one gets, at most.
const MOST_SPARE: usize = 1_024;

/// Bytes of a line, by which a transaction remembers roughly where it has changed something.
const LINE_BYTES: u64 = 64;

/// The empty collections of the last transaction, for the next one: allocating them takes longer than most changes.
#[derive(Debug, Default)]
pub(super) struct Spare {
    words: FxHashMap<u64, u64>,
    order: Vec<u64>,
    runs: Runs,
    taken: Vec<(Pfn, u32)>,
    given: Vec<Pfn>,
    remapped: Vec<Remapped>,
}

impl<M: PersistentMemory> Store<M> {
    /// Begins a transaction, which changes nothing unless it is committed.
    pub fn begin(&mut self) -> Transaction<'_, M> {
        if !self.waiting.is_empty() {
            self.free_waiting();
        }
        let Spare { words, order, runs, taken, given, remapped } = std::mem::take(&mut self.spare);
        Transaction {
            store: self,
            words,
            order,
            runs,
            places: BTreeMap::new(),
            taken,
            given,
            remapped,
            net_pages: 0,
            is_committed: false,
            pages: FxHashSet::default(),
            lines: Lines::default(),
        }
    }
}

/// Changes that become visible together. Reads see what was written before in the same transaction.
#[derive(Debug)]
pub struct Transaction<'a, M: PersistentMemory> {
    store: &'a mut Store<M>,
    words: FxHashMap<u64, u64>,
    /// Addresses in the order of their first change, so that a run can be repeated.
    order: Vec<u64>,
    /// Bytes that are not among the words, as the log has them, and where there from which address on.
    runs: Runs,
    places: BTreeMap<u64, Range<usize>>,
    taken: Vec<(Pfn, u32)>,
    given: Vec<Pfn>,
    pub(in crate::file) remapped: Vec<Remapped>,
    pub(in crate::file) net_pages: i64,
    is_committed: bool,
    /// Pages that it changes, where that is limited.
    pages: FxHashSet<u64>,
    lines: Lines,
}

/// A filter of the lines that a transaction has changed, 256 bits. Nearly all words that a transaction loads lie in other lines, on its ways
/// through tables above all: for those the filter saves the look-up among the changed words.
#[derive(Clone, Copy, Debug, Default)]
struct Lines([u64; 4]);

impl Lines {
    /// The word and the bit that stand for a line.
    #[inline]
    fn place(line: u64) -> (usize, u64) {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let bit = line.wrapping_mul(GOLDEN) >> 56;
        (bit as usize / 64, 1 << (bit % 64))
    }

    #[inline]
    fn add(&mut self, bytes: &Range<u64>) {
        if bytes.end - bytes.start >= 256 * LINE_BYTES {
            self.0 = [u64::MAX; 4];
            return;
        }
        for line in bytes.start / LINE_BYTES..=(bytes.end - 1) / LINE_BYTES {
            let (word, bit) = Self::place(line);
            self.0[word] |= bit;
        }
    }

    #[inline]
    fn may_have(self, at: u64) -> bool {
        let (word, bit) = Self::place(at / LINE_BYTES);
        self.0[word] & bit != 0
    }
}

impl<M: PersistentMemory> Transaction<'_, M> {
    /// Returns the memory itself, for the bytes of frames that are not in use yet.
    pub fn memory(&self) -> &M {
        &self.store.memory
    }

    /// Words that it changes so far.
    pub fn changed(&self) -> u64 {
        let in_runs: usize = self.places.values().map(|place| place.len() / 8).sum();
        (self.order.len() + in_runs) as u64
    }

    /// Words that it may still change, wherever they lie.
    pub fn room(&self) -> u64 {
        let in_log = self.store.journal.capacity().saturating_sub(self.logged()) / WORD_BYTES;
        let enough = self.store.memory.checkpoints().and_then(Checkpoints::enough_pages);
        if enough.is_some_and(|enough| self.pages.len() >= enough) { 0 } else { in_log }
    }

    /// Pages that it maps, less those that it unmaps, without the pages that hold headers of partitions.
    pub fn net_pages(&self) -> i64 {
        self.net_pages
    }

    /// Bytes of the log that its changes take at most.
    fn logged(&self) -> u64 {
        self.runs.len() + WORD_BYTES * self.order.len() as u64
    }

    pub(in crate::file) fn log_full(&self) -> LogFull {
        LogFull { bytes: self.logged(), capacity: self.store.journal.capacity() }
    }

    /// Returns the word at an aligned address.
    #[inline]
    pub fn load(&self, at: u64) -> u64 {
        let changed = if self.lines.may_have(at) { self.changed_word(at) } else { None };
        changed.unwrap_or_else(|| self.store.memory.load(at))
    }

    /// A word that it has changed.
    fn changed_word(&self, at: u64) -> Option<u64> {
        let in_runs = || self.place_in_runs(at).map(|place| self.runs.word(place));
        self.words.get(&at).copied().or_else(in_runs)
    }

    /// Changes the word at an aligned address.
    #[inline]
    pub fn set(&mut self, at: u64, word: u64) {
        if let Some(place) = self.place_in_runs(at) {
            self.runs.set_word(place, word);
        } else if self.words.insert(at, word).is_none() {
            self.order.push(at);
            self.note(at..at + 8);
        }
    }

    /// Remembers what it has changed, and counts the pages, where that is limited.
    #[inline]
    fn note(&mut self, range: Range<u64>) {
        self.lines.add(&range);
        if self.store.memory.checkpoints().is_some() {
            self.pages.extend(range.start / PAGE_BYTES..=(range.end - 1) / PAGE_BYTES);
        }
    }

    /// Returns the place of a word among the runs.
    #[inline]
    fn place_in_runs(&self, at: u64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let (first, place) = self.places.range(..=at).next_back()?;
        Some(place.start + (at - first) as usize).filter(|start| *start < place.end)
    }

    /// Changes bytes, wherever they begin and end.
    pub fn set_bytes(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len() as u64;
        let (first, last) = (at & !7, end.next_multiple_of(8));
        // What lies beside them in the first and last word.
        let [before, behind] = [first, last - 8].map(|at| self.load(at).to_le_bytes());
        let parts = [&before[..(at - first) as usize], bytes, &behind[8 - (last - end) as usize..]];
        if self.changes_any(first..last) {
            for (at, word) in (first..).step_by(8).zip(parts.concat().as_chunks().0) {
                self.set(at, u64::from_le_bytes(*word));
            }
        } else {
            let place = self.runs.push(first, parts);
            self.places.insert(first, place);
            self.note(first..last);
        }
    }

    /// Whether a word of a range is one that it changes.
    fn changes_any(&self, range: Range<u64>) -> bool {
        let before = self.places.range(..range.end).next_back();
        before.is_some_and(|(first, place)| first + place.len() as u64 > range.start)
            || self.order.iter().any(|at| range.contains(at))
    }

    /// Returns the frame of a page that holds the file system's own data, from the store's cache if this transaction
    /// has not remapped the page.
    #[inline]
    pub fn frame_of(&self, page: Vpn) -> Option<Pfn> {
        let walk = |page| Some(self.find(page)?.frame);
        if self.remapped.iter().any(|&change| concerns(change, page)) {
            return walk(page);
        }
        self.store.translations.frame(page, walk)
    }

    /// Returns a word of the layer above.
    pub fn root_word(&self, index: u64) -> u64 {
        assert!(index < ROOT_WORDS, "{index} of {ROOT_WORDS} words");
        self.load(root_place(root::ABOVE + index))
    }

    /// Changes a word of the layer above.
    pub fn set_root_word(&mut self, index: u64, word: u64) {
        assert!(index < ROOT_WORDS, "{index} of {ROOT_WORDS} words");
        self.set(root_place(root::ABOVE + index), word);
    }

    pub(in crate::file) fn table_root(&self) -> Pfn {
        Pfn(self.load(root_place(root::TABLE)))
    }

    /// Takes `1 << order` frames in one piece, with whatever they hold.
    ///
    /// # Errors
    ///
    /// There is no such piece.
    pub fn take_frames(&mut self, order: u32) -> Result<Pfn, StoreError> {
        let first = match self.store.frames.alloc(order) {
            Ok(first) => first,
            // What others gave back waits for a checkpoint. Nothing of this transaction is in the store yet.
            Err(_) if self.store.waiting.is_empty() || self.store.checkpoint().is_err() => {
                return Err(StoreError::NoFrames);
            }
            Err(_) => self.store.frames.alloc(order).map_err(|_| StoreError::NoFrames)?,
        };
        // Each is given back by itself.
        if self.take(first, order) { Ok(first) } else { Err(StoreError::NoFrames) }
    }

    /// Takes the same number of frames at an aligned one, if all of them are free; whether they were.
    pub fn take_frames_at(&mut self, first: Pfn, order: u32) -> bool {
        first.0.is_multiple_of(1 << order)
            && self.store.frames.alloc_at(first, order)
            && self.take(first, order)
    }

    /// Makes frames that are allocated this transaction's, unless there is no room for them below.
    fn take(&mut self, first: Pfn, order: u32) -> bool {
        if !self.store.memory.provide(first.addr().0, PAGE_BYTES << order) {
            self.store.frames.free(first, order);
            return false;
        }
        self.store.frames.split(first, order, 0);
        if let Some(checkpoints) = self.store.memory.checkpoints() {
            checkpoints.taken(first, 1 << order);
        }
        self.taken.push((first, order));
        self.mark(first, 1 << order, true);
        true
    }

    /// Gives frames back to the store. No other file gets them before the transaction is committed: what they hold is
    /// needed if it is not.
    pub fn give_frames(&mut self, first: Pfn, count: u64) {
        self.mark(first, count, false);
        self.given.extend((0..count).map(|at| first.add(at)));
    }

    fn mark(&mut self, first: Pfn, count: u64, used: bool) {
        let mut frame = first.0;
        let end = first.0 + count;
        while frame < end {
            let at = self.store.bitmap_word(Pfn(frame));
            let bits = (end - frame).min(64 - frame % 64);
            let mask = (u64::MAX >> (64 - bits)) << (frame % 64);
            let word = self.load(at);
            debug_assert!(
                word & mask == if used { 0 } else { mask } || self.store.memory.has_failed(),
                "frames {frame}, {bits}: {word:#x}"
            );
            self.set(at, if used { word | mask } else { word & !mask });
            frame += bits;
        }
    }

    /// Commits the transaction: its changes persist when this returns. What was written to frames beside it and
    /// flushed persists before it counts.
    ///
    /// # Errors
    ///
    /// - [`StoreError::LogFull`] or [`StoreError::ReadOnly`]: nothing has changed.
    /// - [`StoreError::NotPersistent`]: the memory has failed.
    pub fn commit(mut self) -> Result<(), StoreError> {
        if self.store.memory.is_read_only() {
            return Err(StoreError::ReadOnly);
        }
        self.order.iter().for_each(|at| self.runs.push_word(*at, self.words[at]));
        let Store { memory, journal, frames, commits, waiting, translations, .. } = &mut *self.store;
        journal.commit(memory, &self.runs)?;
        *commits += 1;
        for change in self.remapped.drain(..) {
            translations.forget(change);
            memory.remapped(change);
        }
        match memory.checkpoints().filter(|checkpoints| checkpoints.is_running()) {
            Some(checkpoints) if !self.given.is_empty() => {
                let next = checkpoints.next();
                waiting.extend(self.given.drain(..).map(|frame| (next, frame)));
            }
            _ => self.given.drain(..).for_each(|frame| frames.free(frame, 0)),
        }
        self.is_committed = true;
        Ok(())
    }
}

impl<M: PersistentMemory> Drop for Transaction<'_, M> {
    fn drop(&mut self) {
        if !self.is_committed {
            for &(first, order) in &self.taken {
                (0..1 << order).for_each(|at| self.store.frames.free(first.add(at), 0));
            }
        }
        if self.order.len() <= MOST_SPARE && self.runs.len() <= WORD_BYTES * MOST_SPARE as u64 {
            self.words.clear();
            self.order.clear();
            self.runs.clear();
            self.taken.clear();
            self.given.clear();
            self.remapped.clear();
            self.store.spare = Spare {
                words: std::mem::take(&mut self.words),
                order: std::mem::take(&mut self.order),
                runs: std::mem::take(&mut self.runs),
                taken: std::mem::take(&mut self.taken),
                given: std::mem::take(&mut self.given),
                remapped: std::mem::take(&mut self.remapped),
            };
        }
    }
}

/// Tables of pages lie in the memory itself.
impl<M: PersistentMemory> TableWords for Transaction<'_, M> {
    fn read(&self, addr: PhysAddr) -> u64 {
        self.load(addr.0)
    }
}

impl<M: PersistentMemory> TableMemory for Transaction<'_, M> {
    fn write(&mut self, addr: PhysAddr, word: u64) {
        self.set(addr.0, word);
    }

    /// Zeroes the frame without the log: no reader sees the frame before the transaction counts.
    fn zero_frame(&mut self, frame: Pfn) {
        self.store.memory.clear_frame(frame);
    }

    fn release_frame(&mut self, _: Pfn) {}
}

impl<M: PersistentMemory> ContiguousMemory for Transaction<'_, M> {
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk> {
        debug_assert_eq!(bytes, PAGE_BYTES, "a radix table's node");
        let frame = self.take_frames(0).map_err(|_| NoChunk { bytes })?;
        self.store.memory.clear_frame(frame);
        Ok(frame.addr())
    }

    fn free(&mut self, base: PhysAddr, bytes: u64) {
        self.give_frames(base.frame(), bytes / PAGE_BYTES);
    }
}
