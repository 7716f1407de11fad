//! The contents of rows: a value that follows from the key and from how often it was put.

use rustc_hash::FxHashMap;

use crate::emit::Halt;
use crate::random::mix;

/// Bytes of the host for a key that was put: it and its row in a hash map that grows, twice as large and the old one.
const CHANGED_BYTES: u64 = 86;

/// The rows of a run.
pub(super) struct Rows {
    seed: u64,
    changed: FxHashMap<u64, Row>,
    /// The number of all puts together.
    puts: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    value: u64,
    puts: u32,
}

impl Rows {
    /// Returns the rows as they are loaded.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: mix(!seed), changed: FxHashMap::default(), puts: 0 }
    }

    /// The bytes of the host for so many changed rows at most.
    pub(super) fn host_bytes(changed: u64) -> u64 {
        CHANGED_BYTES * changed
    }

    /// Reads the row of a key, checks it, and says how often it was put.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Result<u32, Halt> {
        match self.changed.get(&key) {
            Some(&row) => self.check(key, row).map(|()| row.puts),
            None => Ok(0),
        }
    }

    /// Puts a new row in the place of one that was put so often.
    pub(super) fn put(&mut self, key: u64, puts: u32) {
        let row = self.row(key, puts + 1);
        self.changed.insert(key, row);
        self.puts += 1;
    }

    /// Checks all rows that were put, and that no put was lost.
    pub(super) fn verify(&self) -> Result<(), Halt> {
        self.changed.iter().try_for_each(|(&key, &row)| self.check(key, row))?;
        let puts = self.changed.values().map(|row| u64::from(row.puts)).sum::<u64>();
        match puts == self.puts {
            true => Ok(()),
            false => Err(Halt::Wrong(format!("{} puts were made, rows hold {puts}", self.puts))),
        }
    }

    fn row(&self, key: u64, puts: u32) -> Row {
        Row { value: mix(key ^ self.seed ^ mix(u64::from(puts))), puts }
    }

    fn check(&self, key: u64, row: Row) -> Result<(), Halt> {
        match row == self.row(key, row.puts) {
            true => Ok(()),
            false => Err(Halt::Wrong(format!("key {key} has {row:?}, not {:?}", self.row(key, row.puts)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_other_keys_old_values_and_lost_puts_are_found() {
        let mut rows = Rows::new(5);
        for i in 0..100 {
            let puts = rows.get(i % 7).unwrap();
            rows.put(i % 7, puts);
        }
        assert_eq!(rows.get(0), Ok(15));
        assert_eq!((rows.get(9), rows.verify()), (Ok(0), Ok(())));
        let tampered = |change: fn(&mut Rows)| {
            let mut rows = Rows { changed: rows.changed.clone(), ..rows };
            change(&mut rows);
            (rows.get(3).is_err(), rows.verify().is_err())
        };
        assert_eq!(tampered(|_| ()), (false, false));
        assert_eq!(tampered(|rows| _ = rows.changed.insert(3, rows.changed[&4])), (true, true));
        assert_eq!(tampered(|rows| rows.changed.get_mut(&3).unwrap().puts += 1), (true, true));
        assert_eq!(tampered(|rows| _ = rows.changed.insert(3, rows.row(3, 2))), (false, true));
    }
}
