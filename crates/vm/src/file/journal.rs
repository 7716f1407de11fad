//! The redo log: any number of words change together, or none does.
//!
//! ```text
//!   word 0        word 1        word 2          from byte 64 on
//!  +-------------+-------------+---------------+---------------------+----
//!  | sequence    | count       | checksum      | address, new value  | ...
//!  +-------------+-------------+---------------+---------------------+----
//! ```
//!
//! A commit fences what was flushed before. It writes the records and their head, which is what makes them count: the checksum is
//! of all of it, so that one fence is enough for both. Then the words are stored in their places, behind another fence the head is cleared. A crash before the
//! first fence leaves everything as it was (the head may be there and its checksum is wrong), one behind it leaves a log
//! that recovery applies again, however often.
//!
//! The article keeps the old values of a swap and a flag; the new values of everything that an operation changes are more
//! general: the flag of a swap is one of the words. The format is ours.

use super::memory::PersistentMemory;
use crate::addr::PAGE_BYTES;
use crate::hash::xxh64_of_word;

/// Bytes of the head, a cache line.
const HEAD_BYTES: u64 = 64;
/// An address and a value.
const RECORD_BYTES: u64 = 16;

/// More words than the log holds; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{words} words change at once, and the log holds {capacity}")]
pub struct LogFull {
    /// How many.
    pub words: u64,
    /// How many may.
    pub capacity: u64,
}

/// The log, in its place.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    at: u64,
    capacity: u64,
    sequence: u64,
    /// The head has not been cleared yet: words that were committed would be applied again.
    is_live: bool,
}

/// What a log was found to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovered {
    /// Nothing that counts.
    Nothing,
    /// So many words, which have been applied.
    Applied(u64),
}

impl Journal {
    /// The log that lies in so many frames from an address on; [`Journal::recover`] must come before anything else.
    pub(super) fn new(at: u64, frames: u64) -> Self {
        let capacity = (frames * PAGE_BYTES - HEAD_BYTES) / RECORD_BYTES;
        Self { at, capacity, sequence: 0, is_live: false }
    }

    /// Words that may change at once.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Makes an empty log.
    pub(super) fn format(&self, memory: &impl PersistentMemory) {
        memory.zero(self.at, HEAD_BYTES);
        memory.flush(self.at, HEAD_BYTES);
        memory.fence();
    }

    fn record(&self, index: u64) -> u64 {
        self.at + HEAD_BYTES + index * RECORD_BYTES
    }

    /// Applies what was committed before a crash. Addresses beyond the memory are no log of ours and change nothing.
    pub(super) fn recover(&mut self, memory: &impl PersistentMemory) -> Recovered {
        let [sequence, count, checksum] = [0, 8, 16].map(|offset| memory.load(self.at + offset));
        self.sequence = sequence;
        if sequence == 0 || count == 0 || count > self.capacity {
            return Recovered::Nothing;
        }
        let records =
            || (0..count).map(|index| (memory.load(self.record(index)), memory.load(self.record(index) + 8)));
        let is_ours = |at: u64| at.is_multiple_of(8) && at < memory.bytes();
        if checksum_of(sequence, count, records()) != checksum || !records().all(|(at, _)| is_ours(at)) {
            return Recovered::Nothing;
        }
        for (at, word) in records() {
            memory.store(at, word);
            memory.flush(at, 8);
        }
        memory.fence();
        self.is_live = true;
        self.settle(memory);
        Recovered::Applied(count)
    }

    /// Makes all words persist together and stores them. What was flushed before persists before they do.
    ///
    /// # Errors
    ///
    /// [`LogFull`].
    pub(super) fn commit(
        &mut self,
        memory: &impl PersistentMemory,
        words: &[(u64, u64)],
    ) -> Result<(), LogFull> {
        let count = words.len() as u64;
        if count > self.capacity {
            return Err(LogFull { words: count, capacity: self.capacity });
        }
        // What was flushed until now persists before the records do, which make it count; and the last commit's records must
        // not count any more when they are overwritten.
        if self.is_live {
            self.settle(memory);
        } else {
            memory.fence();
        }
        if count == 0 {
            return Ok(());
        }
        self.sequence += 1;
        for (index, &(at, word)) in (0..).zip(words) {
            memory.store(self.record(index), at);
            memory.store(self.record(index) + 8, word);
        }
        let checksum = checksum_of(self.sequence, count, words.iter().copied());
        for (offset, word) in [(0, self.sequence), (8, count), (16, checksum)] {
            memory.store(self.at + offset, word);
        }
        memory.flush(self.at, HEAD_BYTES + count * RECORD_BYTES);
        memory.fence();
        self.is_live = true;
        for &(at, word) in words {
            memory.store(at, word);
            memory.flush(at, 8);
        }
        memory.fence();
        Ok(())
    }

    /// Clears the head. Must come before a word that was committed is stored without the log.
    #[inline]
    pub(super) fn settle(&mut self, memory: &impl PersistentMemory) {
        if self.is_live {
            memory.store(self.at + 8, 0);
            memory.flush(self.at + 8, 8);
            memory.fence();
            self.is_live = false;
        }
    }
}

fn checksum_of(sequence: u64, count: u64, records: impl Iterator<Item = (u64, u64)>) -> u64 {
    records
        .fold(xxh64_of_word(count, sequence), |sum, (at, word)| xxh64_of_word(word, xxh64_of_word(at, sum)))
}
