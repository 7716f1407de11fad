//! The contents of records whose value says whose it is, and when it was written.

use rustc_hash::FxHashMap;

use crate::emit::Halt;
use crate::random::mix;

/// Bytes of the host for a record that was changed: key and value in a hash map that grows, twice as large and the old one.
pub(crate) const CHANGED_BYTES: u64 = 60;

/// The values of numbered records.
pub(crate) struct Contents {
    seed: u64,
    /// The records that a job wrote.
    changed: FxHashMap<u64, u64>,
}

impl Contents {
    /// Returns the contents as they are loaded.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, changed: FxHashMap::default() }
    }

    /// The bytes of the host that so many changed records take at most.
    pub(crate) fn host_bytes(changed: u64) -> u64 {
        CHANGED_BYTES * changed
    }

    /// What a job finds or leaves in the record that it came to.
    #[inline]
    pub(crate) fn write_or_check(&mut self, record: u64, is_write: bool, job: u64) -> Result<(), Halt> {
        if is_write {
            let value = self.value(record, job + 1);
            self.changed.insert(record, value);
            return Ok(());
        }
        let value = self.changed.get(&record).copied().unwrap_or_else(|| self.value(record, 0));
        self.check(record, value, job)
    }

    /// Each value that was written is one that one of the first `jobs` jobs writes to this record.
    pub(crate) fn verify(&self, jobs: u64) -> Result<(), Halt> {
        self.changed.iter().try_for_each(|(&record, &value)| self.check(record, value, jobs))
    }

    /// What job `version` - 1 writes; version 0 is what was loaded.
    fn value(&self, record: u64, version: u64) -> u64 {
        mix(record ^ self.seed).wrapping_add(version)
    }

    fn check(&self, record: u64, value: u64, jobs: u64) -> Result<(), Halt> {
        match value.wrapping_sub(self.value(record, 0)) <= jobs {
            true => Ok(()),
            false => {
                Err(Halt::Wrong(format!("record {record} holds {value:#x}, which none of {jobs} jobs wrote")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_for_their_record_and_their_time() {
        let mut contents = Contents::new(7);
        assert_eq!(contents.write_or_check(5, false, 0), Ok(()));
        contents.write_or_check(5, true, 10).unwrap();
        assert_eq!(contents.write_or_check(5, false, 11), Ok(()));
        assert_eq!(contents.verify(11), Ok(()));
        // From a later job, and another record's.
        assert!(contents.write_or_check(5, false, 10).is_err());
        let value = contents.changed[&5];
        contents.changed.insert(6, value);
        let answer = contents.verify(11);
        assert!(matches!(&answer, Err(Halt::Wrong(text)) if text.contains("record 6")), "{answer:?}");
    }
}
