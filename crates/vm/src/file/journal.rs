//! The redo log: any number of runs of bytes change together, or none does.
//!
//! ```text
//!   word 0        word 1        word 2          from byte 64 on
//!  +-------------+-------------+---------------+-----------------------------+----
//!  | sequence    | bytes       | checksum      | place and length, new bytes | ...
//!  +-------------+-------------+---------------+-----------------------------+----
//! ```
//!
//! A run is a word with its address in the lower 44 bits and its length in bytes in the upper 20, both multiples of eight, and the
//! bytes behind it; a word that changes alone is a run of eight. The head's second word says how many bytes all of that takes.
//!
//! A commit fences what was flushed before. It writes the runs and their head, which is what makes them count: the checksum is
//! of all of it, so that one fence is enough for both. Then the bytes are written to their places, behind another fence the head
//! is cleared. A crash before the first fence leaves everything as it was (the head may be there and its checksum is wrong), one
//! behind it leaves a log that recovery applies again, however often.
//!
//! The article keeps the old values of a swap and a flag; the new values of everything that an operation changes are more
//! general: the flag of a swap is one of the words. The format is ours.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::checkpoint::NotPersistent;
use super::error::StoreError;
use super::memory::PersistentMemory;
use crate::addr::PAGE_BYTES;
use crate::hash::xxh64_of_word;

/// Bytes of the head, a cache line.
const HEAD_BYTES: u64 = 64;
/// A word of a run before its bytes.
const RUN_HEAD_BYTES: u64 = 8;
/// Bits of an address there: more than the largest store has.
const ADDRESS_BITS: u32 = 44;
/// The bytes that a word which changes alone takes in the log.
pub(super) const WORD_BYTES: u64 = RUN_HEAD_BYTES + 8;
/// The length in bytes from which runs are copied at once; shorter ones, as of inodes and tables, are stored word by
/// word.
const COPIED_FROM: usize = 512;

/// More than the log holds; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what changes at once takes {bytes} bytes in the log, which holds {capacity}")]
pub struct LogFull {
    /// The bytes that the change takes, with eight for each run.
    pub bytes: u64,
    /// The bytes that the log can hold.
    pub capacity: u64,
}

/// Runs of bytes as the log has them, one behind the other. No two of them meet.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    bytes: Vec<u8>,
    /// The place where the last run begins, and the address behind the run.
    last: usize,
    end: u64,
}

impl Runs {
    /// Returns the bytes that the runs take in the log.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Forgets all of them, and keeps the room.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        (self.last, self.end) = (0, 0);
    }

    /// Adds a run at an aligned address, of parts that are whole words together; where among [`Runs::bytes`] it lies.
    pub(super) fn push(&mut self, at: u64, parts: [&[u8]; 3]) -> Range<usize> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(at.is_multiple_of(8) && length.is_multiple_of(8), "{at:#x}, {length}");
        (self.last, self.end) = (self.bytes.len(), at + length as u64);
        self.bytes.extend_from_slice(&(at | (length as u64) << ADDRESS_BITS).to_le_bytes());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.last + RUN_HEAD_BYTES as usize..self.bytes.len()
    }

    /// Adds a word, to the last run if it lies behind that.
    pub(super) fn push_word(&mut self, at: u64, word: u64) {
        if self.bytes.is_empty() || self.end != at {
            self.push(at, [&word.to_le_bytes(), &[], &[]]);
            return;
        }
        // A run that is longer than the head can say is not committed: the log does not hold it either.
        let head = self.word(self.last).wrapping_add(8 << ADDRESS_BITS);
        self.set_word(self.last, head);
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self.end += 8;
    }

    /// A word among them.
    pub(super) fn word(&self, place: usize) -> u64 {
        word_of(&self.bytes[place..])
    }

    /// Changes a word among them.
    pub(super) fn set_word(&mut self, place: usize, word: u64) {
        self.bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// The runs that the log has in these bytes, whole words; one that cannot be is `None`.
fn runs(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u64, &[u8])>> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk()?;
        let head = u64::from_le_bytes(*head);
        let (at, length) = (head & ((1 << ADDRESS_BITS) - 1), (head >> ADDRESS_BITS) as usize);
        let is_run = at.is_multiple_of(8) && length.is_multiple_of(8) && length > 0;
        let run = rest.split_at_checked(length).filter(|_| is_run);
        bytes = run.map_or(&[], |(_, rest)| rest);
        Some(run.map(|(run, _)| (at, run)))
    })
}

fn word_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("whole words"))
}

/// Writes whole words to an aligned address.
fn put(memory: &impl PersistentMemory, at: u64, bytes: &[u8]) {
    if bytes.len() >= COPIED_FROM {
        memory.write(at, bytes);
        return;
    }
    for (at, word) in (at..).step_by(8).zip(bytes.chunks_exact(8)) {
        memory.store(at, word_of(word));
    }
}

/// The log, in its place.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    at: u64,
    capacity: u64,
    sequence: u64,
    /// The head has not been cleared yet: what was committed would be applied again.
    is_live: bool,
}

/// The result of the recovery from a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovered {
    /// The log held nothing that had to be applied.
    Nothing,
    /// The log held so many words, which have been applied.
    Applied(u64),
    /// A power failure had happened since the last checkpoint: so many pages were taken back to what they were then.
    Restored(u64),
}

impl Journal {
    /// The log that lies in so many frames from an address on; [`Journal::recover`] must come before anything else.
    pub(super) fn new(at: u64, frames: u64) -> Self {
        Self { at, capacity: frames * PAGE_BYTES - HEAD_BYTES, sequence: 0, is_live: false }
    }

    /// Bytes that it holds: of runs, and eight for each.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Makes an empty log.
    pub(super) fn format(&self, memory: &impl PersistentMemory) {
        memory.zero(self.at, HEAD_BYTES);
        memory.flush(self.at, HEAD_BYTES);
        memory.fence();
    }

    /// Applies what was committed before a crash. Runs that lie beyond the memory or in the log, or meet, are no log of ours and
    /// change nothing.
    pub(super) fn recover(&mut self, memory: &impl PersistentMemory) -> Recovered {
        let recovered = self.apply_committed(memory);
        // A log of which a crash left a part must not become whole when the next commit stores the words of its head that are missing.
        let is_clear = [8, 16].into_iter().all(|offset| memory.load(self.at + offset) == 0);
        if recovered == Recovered::Nothing && !is_clear && !memory.has_failed() {
            self.clear(memory);
        }
        recovered
    }

    fn apply_committed(&mut self, memory: &impl PersistentMemory) -> Recovered {
        let [sequence, bytes, checksum] = [0, 8, 16].map(|offset| memory.load(self.at + offset));
        self.sequence = sequence;
        if sequence == 0 || bytes == 0 || bytes > self.capacity || !bytes.is_multiple_of(8) {
            return Recovered::Nothing;
        }
        let mut changes = vec![0; bytes as usize];
        memory.read(self.at + HEAD_BYTES, &mut changes);
        if checksum_of(sequence, &changes) != checksum {
            return Recovered::Nothing;
        }
        let Some(runs) = runs(&changes).collect::<Option<Vec<_>>>().filter(|runs| self.is_ours(memory, runs))
        else {
            return Recovered::Nothing;
        };
        apply(memory, runs.iter().copied());
        self.is_live = true;
        self.settle(memory);
        Recovered::Applied(runs.iter().map(|(_, bytes)| bytes.len() as u64 / 8).sum())
    }

    /// Whether each of these bytes may change, once.
    fn is_ours(&self, memory: &impl PersistentMemory, runs: &[(u64, &[u8])]) -> bool {
        let end_of_log = self.at + HEAD_BYTES + self.capacity;
        let mut places: Vec<(u64, u64)> = vec![(self.at, end_of_log)];
        places.extend(runs.iter().map(|(at, bytes)| (*at, at + bytes.len() as u64)));
        places.sort_unstable();
        places.is_sorted_by(|before, behind| before.1 <= behind.0)
            && places.last().is_some_and(|last| last.1 <= memory.bytes())
    }

    /// Makes all runs persist together and writes them. What was flushed before persists before they do.
    ///
    /// # Errors
    ///
    /// - [`LogFull`]: nothing has changed.
    /// - [`NotPersistent`]: the memory has failed. All runs count, or none does; which, the next recovery says.
    pub(super) fn commit(
        &mut self,
        memory: &impl PersistentMemory,
        changes: &Runs,
    ) -> Result<(), StoreError> {
        let bytes = changes.len();
        if bytes > self.capacity {
            return Err(LogFull { bytes, capacity: self.capacity }.into());
        }
        // What was flushed until now persists before the runs do, which make it count; and the last commit's runs must
        // not count any more when they are overwritten.
        if self.is_live {
            self.settle(memory);
        } else {
            memory.fence();
        }
        if let Some(checkpoints) = memory.checkpoints() {
            let pages = runs(&changes.bytes)
                .flatten()
                .flat_map(|(at, bytes)| at / PAGE_BYTES..=(at + bytes.len() as u64 - 1) / PAGE_BYTES);
            checkpoints.before_change(memory, pages);
        }
        // What the runs make count was stored before: all of it must be there.
        if memory.has_failed() {
            return Err(NotPersistent.into());
        }
        if bytes == 0 {
            return Ok(());
        }
        // Whatever a damaged head said: 0 is no commit's.
        self.sequence = self.sequence.wrapping_add(1).max(1);
        put(memory, self.at + HEAD_BYTES, &changes.bytes);
        let checksum = checksum_of(self.sequence, &changes.bytes);
        for (offset, word) in [(0, self.sequence), (8, bytes), (16, checksum)] {
            memory.store(self.at + offset, word);
        }
        memory.flush(self.at, HEAD_BYTES + bytes);
        memory.fence();
        self.is_live = true;
        // A run whose copy in the log is lost must not reach its place before the others.
        if memory.has_failed() {
            return Err(NotPersistent.into());
        }
        apply(memory, runs(&changes.bytes).flatten());
        // Runs that did not reach their places are applied again by the next recovery, which needs the head.
        if memory.has_failed() { Err(NotPersistent.into()) } else { Ok(()) }
    }

    /// Clears the head, unless the memory has failed. Must come before a word that was committed is stored without the log.
    #[inline]
    pub(super) fn settle(&mut self, memory: &impl PersistentMemory) {
        if self.is_live && !memory.has_failed() {
            self.clear(memory);
            self.is_live = false;
        }
    }

    /// Clears the length and the checksum: with either of them alone the next commit could bring the last one back, if a crash lost all
    /// of the next one but its length.
    fn clear(&self, memory: &impl PersistentMemory) {
        memory.store(self.at + 8, 0);
        memory.store(self.at + 16, 0);
        memory.flush(self.at + 8, 16);
        memory.fence();
    }
}

/// Writes runs to their places, and waits until they persist there.
fn apply<'a>(memory: &impl PersistentMemory, runs: impl Iterator<Item = (u64, &'a [u8])>) {
    for (at, bytes) in runs {
        put(memory, at, bytes);
        memory.flush(at, bytes.len() as u64);
    }
    memory.fence();
}

fn checksum_of(sequence: u64, changes: &[u8]) -> u64 {
    xxh64_of_word(xxh3_64(changes), xxh64_of_word(changes.len() as u64, sequence))
}

#[cfg(test)]
mod tests {
    use super::super::Recording;
    use super::*;

    const MEMORY: u64 = 16 * PAGE_BYTES;
    const LOG: u64 = 3 * PAGE_BYTES;
    const LOG_FRAMES: u64 = 2;
    const LOG_END: u64 = LOG + LOG_FRAMES * PAGE_BYTES;

    /// A memory whose log has these words behind its head, which fits them.
    fn forged(words: &[u64]) -> Recording {
        let memory = Recording::new(vec![0; MEMORY as usize]);
        let changes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(LOG + HEAD_BYTES, &changes);
        for (offset, word) in [(0, 7), (8, changes.len() as u64), (16, checksum_of(7, &changes))] {
            memory.store(LOG + offset, word);
        }
        memory
    }

    fn recover(memory: &Recording) -> Recovered {
        Journal::new(LOG, LOG_FRAMES).recover(memory)
    }

    fn head(at: u64, bytes: u64) -> u64 {
        at | bytes << ADDRESS_BITS
    }

    fn runs_of(at: u64, word: u64) -> Runs {
        let mut runs = Runs::default();
        runs.push_word(at, word);
        runs
    }

    /// The head's words are stored in any order. Once a later commit's length alone made the last commit count again, over what had
    /// been stored without the log meanwhile.
    #[test]
    fn a_commit_that_is_done_does_not_come_back() {
        let memory = Recording::new(vec![0; MEMORY as usize]);
        let mut journal = Journal::new(LOG, LOG_FRAMES);
        journal.commit(&memory, &runs_of(8, 1)).unwrap();
        journal.settle(&memory);
        memory.store(8, 2);
        memory.flush(8, 8);
        // The length of the next commit, which is as long; everything else of it is lost.
        memory.store(LOG + 8, WORD_BYTES);
        assert_eq!((recover(&memory), memory.load(8)), (Recovered::Nothing, 2));
    }

    /// A log of which a crash left all but one word of the head once became whole with the next commit.
    #[test]
    fn a_part_of_a_log_does_not_become_whole_later() {
        for missing in [0, 8, 16] {
            let memory = Recording::new(vec![0; MEMORY as usize]);
            let mut journal = Journal::new(LOG, LOG_FRAMES);
            let before = memory.load(LOG + missing);
            journal.commit(&memory, &runs_of(8, 1)).unwrap();
            memory.store(8, 0);
            let word = memory.load(LOG + missing);
            memory.store(LOG + missing, before);
            assert_eq!(recover(&memory), Recovered::Nothing);
            // The missing word arrives with the next commit, and nothing else of that.
            memory.store(LOG + missing, word);
            assert_eq!((recover(&memory), memory.load(8)), (Recovered::Nothing, 0), "{missing}");
        }
    }

    #[test]
    fn a_log_that_cannot_be_ours_changes_nothing() {
        for (words, is_ours) in [
            (vec![head(8, 8), 1], true),
            (vec![head(0, 24), 1, 2, 3, head(24, 8), 4], true),
            (vec![head(MEMORY - 16, 16), 1, 2, head(LOG - 8, 8), 3, head(LOG_END, 8), 4], true),
            // Beyond the memory, or half so.
            (vec![head(MEMORY, 8), 1], false),
            (vec![head(MEMORY - 8, 16), 1, 2], false),
            (vec![head((1 << ADDRESS_BITS) - 8, 8), 1], false),
            // Between words, and with a length that is none.
            (vec![head(12, 8), 1], false),
            (vec![head(8, 12), 1, 2], false),
            (vec![head(8, 0), 1], false),
            (vec![head(8, 8), 1, head(16, 0)], false),
            // Cut off.
            (vec![head(8, 24), 1, 2], false),
            (vec![head(8, 8), 1, head(16, 8)], false),
            // Twice, in part, and in another order.
            (vec![head(8, 8), 1, head(8, 8), 1], false),
            (vec![head(8, 24), 1, 2, 3, head(24, 8), 3], false),
            (vec![head(64, 8), 1, head(0, 16), 1, 2, head(48, 24), 1, 2, 3], false),
            // The log itself.
            (vec![head(LOG, 8), 1], false),
            (vec![head(LOG - 8, 16), 1, 2], false),
            (vec![head(LOG_END - 8, 8), 1], false),
        ] {
            let memory = forged(&words);
            let before = memory.image();
            let recovered = recover(&memory);
            assert_eq!(matches!(recovered, Recovered::Applied(_)), is_ours, "{words:x?}");
            // But for its own length and checksum.
            let head = LOG as usize + 8..LOG as usize + 24;
            let without_head = |mut image: Vec<u8>| {
                image[head.clone()].fill(0);
                image
            };
            assert_eq!(without_head(memory.image()) == without_head(before), !is_ours, "{words:x?}");
        }
    }

    #[test]
    fn every_bit_of_a_log_is_looked_at() {
        let words: Vec<u64> = std::iter::once(head(64, 800)).chain(100..200).collect();
        let image = forged(&words).image();
        let end = HEAD_BYTES as usize + 8 * words.len();
        for byte in (0..24).chain(HEAD_BYTES as usize..end) {
            for bit in 0..8 {
                let mut image = image.clone();
                image[LOG as usize + byte] ^= 1 << bit;
                assert_eq!(recover(&Recording::new(image)), Recovered::Nothing, "byte {byte}, bit {bit}");
            }
        }
        assert_eq!(recover(&Recording::new(image)), Recovered::Applied(100));
    }

    #[test]
    fn words_behind_one_another_are_one_run() {
        let mut changes = Runs::default();
        for (at, word) in [(64, 1), (72, 2), (80, 3), (96, 4), (0, 5), (8, 6)] {
            changes.push_word(at, word);
        }
        let place = changes.push(16, [&[7; 3], &[7; 12], &[7]]);
        changes.push_word(32, 8);
        changes.set_word(place.end - 8, 9);
        let found: Vec<(u64, Vec<u64>)> = runs(&changes.bytes)
            .map(|run| run.map(|(at, bytes)| (at, bytes.chunks(8).map(word_of).collect())).unwrap())
            .collect();
        let sevens = u64::from_le_bytes([7; 8]);
        assert_eq!(
            found,
            [(64, vec![1, 2, 3]), (96, vec![4]), (0, vec![5, 6]), (16, vec![sevens, 9, 8])],
            "in their order"
        );
    }

    #[test]
    fn a_log_holds_as_much_as_it_says_and_counts_on_from_any_sequence() {
        let memory = Recording::new(vec![0; MEMORY as usize]);
        memory.store(LOG, u64::MAX);
        let mut journal = Journal::new(LOG, LOG_FRAMES);
        assert_eq!(journal.recover(&memory), Recovered::Nothing);
        let capacity = LOG_FRAMES * PAGE_BYTES - HEAD_BYTES;
        assert_eq!(journal.capacity(), capacity);
        let mut most = Runs::default();
        most.push(LOG_END, [&[], &vec![5; (capacity - RUN_HEAD_BYTES) as usize], &[]]);
        assert_eq!(journal.commit(&memory, &most), Ok(()));
        assert_eq!(memory.load(LOG_END + capacity - 16), u64::from_le_bytes([5; 8]));
        // As after a crash.
        memory.zero(LOG_END, capacity);
        assert_eq!(recover(&memory), Recovered::Applied((capacity - RUN_HEAD_BYTES) / 8));
        assert_eq!(memory.load(LOG_END), u64::from_le_bytes([5; 8]));
        most.push_word(0, 1);
        let full = LogFull { bytes: capacity + WORD_BYTES, capacity };
        let before = memory.image();
        assert_eq!(journal.commit(&memory, &most), Err(full.into()));
        assert!(memory.image() == before);
    }
}
