//! The stock: how many of an item a warehouse has, and how many of it were ordered.
//!
//! An order touches ten rows, so that a long run changes a hundred million of them. They are kept in 8 bytes each, in tables
//! that grow one by one and by half, so that a row takes 16 bytes at most. A table has the rows of one warehouse, or of
//! several if there are very many: the rows of an order are near each other in the host's memory.
//!
//! ```text
//!  63                                    31 30      24 23                  0
//! +----------------------------------------+----------+---------------------+
//! |               row + 1                  | quantity |   ordered mod 2^24  |
//! +----------------------------------------+----------+---------------------+
//! ```

use rustc_hash::FxHashMap;

use super::tables::ITEMS;
use crate::emit::Halt;
use crate::random::mix;

/// The least quantity that a row has at first and after each order, and the number of different ones: 10 to 100
/// (clauses 4.3.3.1 and 2.4.2.2).
const LEAST: u64 = 10;
const QUANTITIES: u64 = 91;
/// Where the parts of an entry are.
const ROW_SHIFT: u32 = 31;
const QUANTITY_SHIFT: u32 = 24;
const QUANTITY_MASK: u64 = 0x7f;
const ORDERED_MASK: u64 = (1 << QUANTITY_SHIFT) - 1;
/// Rows are below this: entries that hold 0 are free.
pub(super) const MOST_ROWS: u64 = (1 << (64 - ROW_SHIFT)) - 1;

const TABLES: usize = 4096;
const ENTRIES_AT_FIRST: usize = 16;
/// A table is at most three quarters full; then it grows by half, and is half full. The rest is what outgrown tables leave
/// free between others.
const ROW_BYTES: u64 = 18;

/// The rows that orders changed.
pub(super) struct Stock {
    seed: u64,
    tables: Vec<Table>,
    /// How often the ordered items of a row passed 2^24; hardly any do.
    carries: FxHashMap<u64, u64>,
    /// The items of all orders.
    ordered: u64,
}

#[derive(Clone, Default)]
struct Table {
    entries: Vec<u64>,
    used: usize,
}

impl Stock {
    pub(super) fn new(seed: u64) -> Self {
        let tables = vec![Table::default(); TABLES];
        Self { seed: mix(!seed), tables, carries: FxHashMap::default(), ordered: 0 }
    }

    /// The bytes of the host for `rows` changed rows at most.
    pub(super) fn host_bytes(rows: u64) -> u64 {
        let tables = TABLES * (size_of::<Table>() + ENTRIES_AT_FIRST * 8);
        ROW_BYTES * rows + tables as u64
    }

    /// Takes an order of `quantity` items, 1 to 10, from a row.
    #[inline]
    pub(super) fn take(&mut self, row: u64, quantity: u64) {
        self.ordered += quantity;
        let first = self.at_first(row);
        let entry = self.entry(row, first);
        let had = *entry >> QUANTITY_SHIFT & QUANTITY_MASK;
        // Clause 2.4.2.2: what is less than 10 afterwards is filled up by 91.
        let has = if had >= quantity + LEAST { had - quantity } else { had + QUANTITIES - quantity };
        let ordered = (*entry & ORDERED_MASK) + quantity;
        *entry = (row + 1) << ROW_SHIFT | has << QUANTITY_SHIFT | ordered & ORDERED_MASK;
        if ordered > ORDERED_MASK {
            *self.carries.entry(row).or_default() += 1;
        }
    }

    /// Has the host load the entries of rows that are going to be taken from: it waits for them together, not one by one.
    #[inline]
    pub(super) fn prefetch(&self, rows: impl Iterator<Item = u64>) {
        let entries = rows.map(|row| {
            let table = &self.tables[table_of(row)];
            table.entries.get(table.place(mix(row))).copied().unwrap_or_default()
        });
        std::hint::black_box(entries.fold(0, |all, entry| all ^ entry));
    }

    fn at_first(&self, row: u64) -> u64 {
        LEAST + mix(row ^ self.seed) % QUANTITIES
    }

    /// The entry of a row; a new one has its quantity at first.
    #[inline]
    fn entry(&mut self, row: u64, at_first: u64) -> &mut u64 {
        debug_assert!(row < MOST_ROWS);
        let hash = mix(row);
        let table = &mut self.tables[table_of(row)];
        if table.used * 4 >= table.entries.len() * 3 {
            table.grow();
        }
        let at = table.find(row, hash);
        let entry = &mut table.entries[at];
        if *entry == 0 {
            table.used += 1;
            *entry = (row + 1) << ROW_SHIFT | at_first << QUANTITY_SHIFT;
        }
        entry
    }

    /// Checks that each row has what orders left, and that all orders are there.
    pub(super) fn verify(&self) -> Result<(), Halt> {
        let mut ordered = self.carries.values().sum::<u64>() << QUANTITY_SHIFT;
        for &entry in self.tables.iter().flat_map(|table| &table.entries).filter(|&&entry| entry > 0) {
            let row = (entry >> ROW_SHIFT) - 1;
            let carries = self.carries.get(&row).copied().unwrap_or_default();
            let of_row = (carries << QUANTITY_SHIFT) + (entry & ORDERED_MASK);
            let has = entry >> QUANTITY_SHIFT & QUANTITY_MASK;
            // Filling up by 91 keeps the remainder.
            let left = (self.at_first(row) - LEAST + QUANTITIES - of_row % QUANTITIES) % QUANTITIES + LEAST;
            if has != left {
                return Err(Halt::Wrong(format!(
                    "stock row {row} has {has} items, but {of_row} were ordered, which leave {left}"
                )));
            }
            ordered += entry & ORDERED_MASK;
        }
        match ordered == self.ordered {
            true => Ok(()),
            false => Err(Halt::Wrong(format!(
                "the stock says that {ordered} items were ordered, the orders say {}",
                self.ordered
            ))),
        }
    }
}

fn table_of(row: u64) -> usize {
    (row / ITEMS) as usize % TABLES
}

impl Table {
    /// Where a row of this hash would like to be.
    fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.entries.len() as u128) >> 64) as usize
    }

    /// Where a row is, or the free entry where it belongs.
    #[inline]
    fn find(&self, row: u64, hash: u64) -> usize {
        let entries = self.entries.len();
        let mut at = self.place(hash);
        while self.entries[at] != 0 && self.entries[at] >> ROW_SHIFT != row + 1 {
            at += 1;
            if at == entries {
                at = 0;
            }
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let entries = vec![0; (self.entries.len() / 2 * 3).max(ENTRIES_AT_FIRST)];
        let old = std::mem::replace(&mut self.entries, entries);
        for entry in old.into_iter().filter(|&entry| entry > 0) {
            let row = (entry >> ROW_SHIFT) - 1;
            let at = self.find(row, mix(row));
            self.entries[at] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn quantities_follow_the_standard_whatever_was_ordered() {
        let (mut stock, mut random) = (Stock::new(3), SplitMix64::new(1));
        let mut model = std::collections::BTreeMap::new();
        for _ in 0..100_000 {
            let (row, quantity) = (random.below(20_000) * 99_991, 1 + random.below(10));
            stock.take(row, quantity);
            let has = model.entry(row).or_insert_with(|| stock.at_first(row));
            *has -= quantity.min(*has);
            let entry = *stock.entry(row, 0);
            let now = entry >> QUANTITY_SHIFT & QUANTITY_MASK;
            assert!((10..=100).contains(&now));
            *has = now;
        }
        assert_eq!(stock.verify(), Ok(()));
        let bytes: usize = stock.tables.iter().map(|table| table.entries.len() * 8).sum();
        assert!(bytes as u64 <= Stock::host_bytes(model.len() as u64), "{bytes}");
    }

    #[test]
    fn many_orders_of_one_row_are_counted() {
        let mut stock = Stock::new(3);
        (0..4_000_000).for_each(|_| stock.take(7, 10));
        assert_eq!(stock.carries[&7], 2);
        assert_eq!(stock.verify(), Ok(()));
    }

    #[test]
    fn a_wrong_quantity_and_a_lost_order_are_found() {
        let changed = |change: fn(&mut Stock)| {
            let mut stock = Stock::new(3);
            (0..1000).for_each(|i| stock.take(i * i, 1 + i % 10));
            assert_eq!(stock.verify(), Ok(()));
            change(&mut stock);
            match stock.verify() {
                Err(Halt::Wrong(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert!(changed(|stock| *stock.entry(9, 0) ^= 1 << QUANTITY_SHIFT).contains("stock row 9 has"));
        assert!(changed(|stock| stock.ordered += 1).contains("the orders say"));
    }
}
