//! Records with their versions. A version word is a transaction's identifier (TID; section 4.2 of the paper):
//!
//! ```text
//!  63            32 31           3    2        1        0
//! +----------------+--------------+--------+--------+--------+
//! |     epoch      |   sequence   | absent | latest |  lock  |
//! +----------------+--------------+--------+--------+--------+
//! ```
//!
//! Of a record's bytes two things are kept: how often it was updated, and a sum of that, its key and its version. A record
//! that was written in part, or by a transaction that was not told of another's update, does not add up.

use rustc_hash::FxHashMap;

use crate::emit::Halt;
use crate::random::mix;

const LOCK: u64 = 1;
const LATEST: u64 = 2;
/// What separates two TIDs of an epoch.
const NEXT: u64 = 8;
const EPOCH_SHIFT: u32 = 32;
/// The version of all records as loaded: in epoch 1.
pub(super) const LOADED: u64 = 1 << EPOCH_SHIFT | LATEST;

/// Bytes of the host for a changed record: key and content in a hash map that grows, twice as large and the old one.
const CHANGED_BYTES: u64 = 86;

/// What a record holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) tid: u64,
    updates: u32,
    sum: u32,
}

impl Record {
    fn new(key: u64, tid: u64, updates: u32) -> Self {
        let sum = mix(key ^ mix(tid ^ mix(u64::from(updates)))) as u32;
        Self { tid, updates, sum }
    }

    fn is_of(&self, key: u64) -> bool {
        *self == Self::new(key, self.tid, self.updates)
    }
}

/// The records of a run.
#[derive(Default)]
pub(super) struct Records {
    changed: FxHashMap<u64, Record>,
    /// How many updates were installed.
    updates: u64,
}

impl Records {
    /// The bytes of the host for so many changed records at most.
    pub(super) fn host_bytes(changed: u64) -> u64 {
        CHANGED_BYTES * changed
    }

    /// What a record holds, be it locked or not.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Record {
        self.changed.get(&key).copied().unwrap_or_else(|| Record::new(key, LOADED, 0))
    }

    /// Reads a record in a transaction. No transaction may have locked the record, and its fields must add up.
    #[inline]
    pub(super) fn read(&self, key: u64) -> Result<Record, Halt> {
        let record = self.get(key);
        match record.is_of(key) && !is_locked(record.tid) {
            true => Ok(record),
            false => Err(Halt::Wrong(format!("record {key} is read as {record:?}"))),
        }
    }

    /// Locks the record of a key.
    pub(super) fn lock(&mut self, key: u64) -> Result<(), Halt> {
        let record = self.changed.entry(key).or_insert_with(|| Record::new(key, LOADED, 0));
        if is_locked(record.tid) {
            return Err(Halt::Wrong(format!("record {key} is locked twice")));
        }
        record.tid |= LOCK;
        Ok(())
    }

    /// Installs an update of what was read of a locked record, with a new version, which unlocks it.
    pub(super) fn install(&mut self, key: u64, read: Record, tid: u64) -> Result<(), Halt> {
        let old = self.changed.insert(key, Record::new(key, tid, read.updates + 1));
        self.updates += 1;
        match old {
            Some(old) if old.tid == read.tid | LOCK && tid > read.tid => Ok(()),
            _ => Err(Halt::Wrong(format!(
                "transaction {tid:#x} updates record {key}, read as {read:?}, but it was {old:?}"
            ))),
        }
    }

    /// Checks that each changed record adds up and has been left unlocked, none by a transaction after `last`, and that no
    /// update was lost.
    pub(super) fn verify(&self, last: u64) -> Result<(), Halt> {
        self.changed.iter().try_for_each(|(key, record)| {
            match record.is_of(*key) && !is_locked(record.tid) && record.tid <= last {
                true => Ok(()),
                false => Err(Halt::Wrong(format!(
                    "record {key} is left as {record:?}, the last transaction was {last:#x}"
                ))),
            }
        })?;
        let updates = self.changed.values().map(|record| u64::from(record.updates)).sum::<u64>();
        match updates == self.updates {
            true => Ok(()),
            false => Err(Halt::Wrong(format!("{} updates were made, records hold {updates}", self.updates))),
        }
    }
}

/// The identifier after `newest`, in this epoch or a later one.
pub(super) fn tid_after(newest: u64, epoch: u64) -> u64 {
    (newest + NEXT).max(epoch << EPOCH_SHIFT | LATEST)
}

pub(super) fn is_locked(tid: u64) -> bool {
    tid & LOCK != 0
}

/// The version, whether locked or not.
pub(super) fn unlocked(tid: u64) -> u64 {
    tid & !LOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_grow_within_an_epoch_and_with_it() {
        let mut last = LOADED;
        for epoch in [1, 1, 1, 2, 2, 5] {
            let next = tid_after(last, epoch);
            assert!(next > last && next & 7 == LATEST && next >> EPOCH_SHIFT == epoch);
            last = next;
        }
    }

    fn updated() -> (Records, u64) {
        let (mut records, mut last) = (Records::default(), LOADED);
        for i in 0..1000 {
            let key = i * i % 37;
            let read = records.read(key).unwrap();
            records.lock(key).unwrap();
            last = tid_after(last, 1 + i / 100);
            records.install(key, read, last).unwrap();
        }
        assert_eq!(records.verify(last), Ok(()));
        (records, last)
    }

    #[test]
    fn what_was_tampered_with_is_found() {
        let found = |change: fn(&mut Records)| {
            let (mut records, last) = updated();
            change(&mut records);
            match records.verify(last) {
                Err(Halt::Wrong(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        // A new version with the old content.
        assert!(
            found(|records| records.changed.get_mut(&4).unwrap().tid += NEXT).contains("record 4 is left")
        );
        assert!(found(|records| records.lock(9).unwrap()).contains("record 9 is left"));
        // A lost update: what is there adds up, but is that of an earlier transaction.
        let lost = found(|records| {
            let old = Record::new(16, LOADED, 1);
            records.changed.insert(16, old);
        });
        assert!(lost.contains("1000 updates were made"), "{lost}");
        let (mut records, last) = updated();
        records.changed.get_mut(&4).unwrap().sum ^= 1;
        assert!(records.read(4).is_err() && records.read(5).is_ok());
        // A record that changed since it was read.
        let read = records.read(9).unwrap();
        records.lock(9).unwrap();
        records.install(9, read, last + NEXT).unwrap();
        records.lock(9).unwrap();
        assert!(records.install(9, read, last + 2 * NEXT).is_err());
    }
}
