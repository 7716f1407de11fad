//! The places of the rows of the nine tables: each table is one array, and a row's number says where.
//!
//! | table | rows of a warehouse | bytes of a row in the standard | here |
//! |---|---|---|---|
//! | warehouse | 1 | 89 | 128 |
//! | district | 10 | 95 | 128 |
//! | customer | 30,000 | 655 | 704 |
//! | history | 30,000 | 46 | 64 |
//! | new-order | 9,000 | 8 | 8 |
//! | order | 30,000 | 24 | 32 |
//! | order-line | 300,000 on average | 54 | 64 |
//! | stock | 100,000 | 306 | 320 |
//! | item | 100,000 for all warehouses | 82 | 128 |
//!
//! Numbers run over all warehouses: district 17 is the seventh of the warehouse 1. Rows are rounded up to lines of the
//! caches, or to a part of one, as in servers that keep their data in memory.
//!
//! Each district has its own part of the four tables that transactions append to. DEVIATION: it is a ring, in which a new row
//! takes the place of the oldest. So the standard's cardinalities stay; what the ring loses are orders long delivered.

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

use super::index::{Index, index_bytes};
use crate::emit::Emitter;
use crate::random::mix;
use crate::space::AddressSpace;

pub(super) const DISTRICTS: u64 = 10;
/// The numbers of a district's rows.
pub(super) const CUSTOMERS: u64 = 3_000;
pub(super) const ORDERS: u64 = 3_000;
pub(super) const NEW_ORDERS: u64 = 900;
pub(super) const HISTORY: u64 = 3_000;
/// Order lines of a district at first.
pub(super) const LINES_AT_FIRST: u64 = 30_000;
/// Room for order lines of a district: 3,000 orders have 30,000 on average, with a deviation of 173.
pub(super) const LINES: u64 = 31_000;
pub(super) const ITEMS: u64 = 100_000;
/// Last names of customers of a district, each that of three (clause 4.3.2.3 of the standard has a thousand, too).
pub(super) const NAMES: u64 = 1_000;

const WAREHOUSE_BYTES: u64 = 128;
const DISTRICT_BYTES: u64 = 128;
const CUSTOMER_BYTES: u64 = 704;
const HISTORY_BYTES: u64 = 64;
const NEW_ORDER_BYTES: u64 = 8;
const ORDER_BYTES: u64 = 32;
const LINE_BYTES: u64 = 64;
const STOCK_BYTES: u64 = 320;
const ITEM_BYTES: u64 = 128;
/// An entry of an index: a key and where the row is; of the names: a key and three customers.
const ENTRY_BYTES: u64 = 16;
const NAME_BYTES: u64 = 32;

/// The bytes of each table of so many warehouses, in the order of the addresses.
const fn table_bytes(warehouses: u64) -> [u64; 9] {
    let districts = warehouses * DISTRICTS;
    [
        warehouses * WAREHOUSE_BYTES,
        districts * DISTRICT_BYTES,
        districts * CUSTOMERS * CUSTOMER_BYTES,
        districts * HISTORY * HISTORY_BYTES,
        districts * NEW_ORDERS * NEW_ORDER_BYTES,
        districts * ORDERS * ORDER_BYTES,
        districts * LINES * LINE_BYTES,
        warehouses * ITEMS * STOCK_BYTES,
        ITEMS * ITEM_BYTES,
    ]
}

/// The bytes that so many warehouses map.
pub(super) fn mapped_bytes(warehouses: u64) -> u64 {
    let districts = warehouses * DISTRICTS;
    let indexes = index_bytes(districts * CUSTOMERS, ENTRY_BYTES)
        + index_bytes(districts * NAMES, NAME_BYTES)
        + index_bytes(warehouses * ITEMS, ENTRY_BYTES);
    table_bytes(warehouses).map(|bytes| bytes.next_multiple_of(PAGE_BYTES)).iter().sum::<u64>() + indexes
}

/// How many warehouses fit into a dataset, at least one.
pub(super) fn warehouses_in(dataset_bytes: u64) -> u64 {
    // Pages that are rounded up make the first guess too large by one at most.
    let (first, second) = (mapped_bytes(1), mapped_bytes(2));
    let guess = 1 + dataset_bytes.saturating_sub(first) / (second - first);
    if mapped_bytes(guess) > dataset_bytes { (guess - 1).max(1) } else { guess }
}

/// The tables, and the indexes over those whose keys are not dense or whose rows are many.
pub(super) struct Tables {
    bases: [VirtAddr; 9],
    pub(super) customers: Index,
    /// By district and last name.
    pub(super) names: Index,
    pub(super) stock: Index,
}

impl Tables {
    pub(super) fn new(warehouses: u64, seed: u64, space: &mut AddressSpace, out: &mut Emitter<'_>) -> Self {
        let districts = warehouses * DISTRICTS;
        let mut index = |keys, entry_bytes, salt| Index::new(keys, entry_bytes, mix(seed ^ salt), space, out);
        let customers = index(districts * CUSTOMERS, ENTRY_BYTES, 1);
        let names = index(districts * NAMES, NAME_BYTES, 2);
        let stock = index(warehouses * ITEMS, ENTRY_BYTES, 3);
        let bases =
            table_bytes(warehouses).map(|bytes| space.map(bytes.next_multiple_of(PAGE_BYTES), out).start);
        Self { bases, customers, names, stock }
    }

    pub(super) fn warehouse(&self, warehouse: u64) -> VirtAddr {
        self.bases[0].add(warehouse * WAREHOUSE_BYTES)
    }

    pub(super) fn district(&self, district: u64) -> VirtAddr {
        self.bases[1].add(district * DISTRICT_BYTES)
    }

    pub(super) fn customer(&self, customer: u64) -> VirtAddr {
        self.bases[2].add(customer * CUSTOMER_BYTES)
    }

    /// Row `payment` of a district's history.
    pub(super) fn history(&self, district: u64, payment: u64) -> VirtAddr {
        self.bases[3].add((district * HISTORY + payment % HISTORY) * HISTORY_BYTES)
    }

    pub(super) fn new_order(&self, district: u64, order: u64) -> VirtAddr {
        self.bases[4].add((district * NEW_ORDERS + order % NEW_ORDERS) * NEW_ORDER_BYTES)
    }

    pub(super) fn order(&self, district: u64, order: u64) -> VirtAddr {
        self.bases[5].add((district * ORDERS + order % ORDERS) * ORDER_BYTES)
    }

    /// Row `line` of a district's order lines.
    pub(super) fn order_line(&self, district: u64, line: u64) -> VirtAddr {
        self.bases[6].add((district * LINES + line % LINES) * LINE_BYTES)
    }

    /// The row of stock `warehouse` * [`ITEMS`] + item.
    pub(super) fn stock(&self, stock: u64) -> VirtAddr {
        self.bases[7].add(stock * STOCK_BYTES)
    }

    /// Items have no index: their numbers are dense, and the same for all warehouses.
    pub(super) fn item(&self, item: u64) -> VirtAddr {
        self.bases[8].add(item * ITEM_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    #[test]
    fn rows_of_all_tables_lie_apart() {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let warehouses = 3;
        let tables = Tables::new(warehouses, 5, &mut space, &mut out);
        let districts = warehouses * DISTRICTS;
        // The first and the last row of each table, and where that ends.
        let last = districts - 1;
        let mut rows = vec![
            (tables.warehouse(0), tables.warehouse(warehouses - 1), WAREHOUSE_BYTES),
            (tables.district(0), tables.district(last), DISTRICT_BYTES),
            (tables.customer(0), tables.customer(districts * CUSTOMERS - 1), CUSTOMER_BYTES),
            (tables.history(0, 0), tables.history(last, HISTORY - 1), HISTORY_BYTES),
            (tables.new_order(0, 0), tables.new_order(last, NEW_ORDERS - 1), NEW_ORDER_BYTES),
            (tables.order(0, 0), tables.order(last, ORDERS - 1), ORDER_BYTES),
            (tables.order_line(0, 0), tables.order_line(last, LINES - 1), LINE_BYTES),
            (tables.stock(0), tables.stock(warehouses * ITEMS - 1), STOCK_BYTES),
            (tables.item(0), tables.item(ITEMS - 1), ITEM_BYTES),
        ];
        rows.sort();
        for pair in rows.windows(2) {
            assert!(pair[0].1.add(pair[0].2) <= pair[1].0, "{pair:?}");
        }
        let lowest_index = [tables.customers, tables.names, tables.stock].map(|index| index.range().start);
        assert!(rows.iter().all(|row| lowest_index.iter().all(|&start| row.1.add(row.2) <= start)));
        // Rings come back to where they began, districts do not run into each other.
        assert_eq!(tables.order(1, 0), tables.order(1, ORDERS));
        assert_eq!(tables.order_line(0, LINES - 1).add(LINE_BYTES), tables.order_line(1, 0));
    }

    #[test]
    fn a_dataset_is_filled_with_warehouses() {
        for dataset in [100 << 20, 1 << 30, 256 << 30, 1 << 40] {
            let warehouses = warehouses_in(dataset);
            assert!(
                mapped_bytes(warehouses) <= dataset && mapped_bytes(warehouses + 1) > dataset,
                "{dataset}"
            );
        }
        assert_eq!(warehouses_in(1), 1);
        assert_eq!(warehouses_in(256 << 30), 3509);
    }
}
