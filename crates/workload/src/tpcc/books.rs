//! The books: the money of warehouses, districts and customers, and the orders of districts, with the standard's
//! consistency conditions 1 to 4 (clause 3.3.2).
//!
//! Of an order only the number of its lines is kept, and only while it is among the newest 3,000 of its district.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::tables::{DISTRICTS, HISTORY, LINES, LINES_AT_FIRST, NEW_ORDERS, ORDERS};
use crate::emit::Halt;

/// Year-to-date balances at first, in cents (clause 4.3.3.1).
const DISTRICT_CENTS: u64 = 3_000_000;
const WAREHOUSE_CENTS: u64 = DISTRICTS * DISTRICT_CENTS;
/// Lines of each of the orders that were there at first. DEVIATION: the standard draws 5 to 15.
const LINES_OF_FIRST: u8 = (LINES_AT_FIRST / ORDERS) as u8;

/// Bytes of the host for a district, a warehouse, and a customer who paid, in hash maps that have just grown: the new one
/// half as full as it may be, and the old one.
const DISTRICT_BYTES: u64 = 330;
const WAREHOUSE_BYTES: u64 = 60;
const CUSTOMER_BYTES: u64 = 60;
/// For an order, in a queue that may be half empty.
const ORDER_BYTES: u64 = 2;

/// The state that transactions changed.
#[derive(Default)]
pub(super) struct Books {
    warehouses: FxHashMap<u64, u64>,
    districts: FxHashMap<u64, District>,
    /// What customers paid, in cents.
    customers: FxHashMap<u64, u64>,
}

/// A district: columns of its row, and its part of the tables that transactions append to.
pub(super) struct District {
    /// The number of the next order, D_NEXT_O_ID. Orders are numbered from 1.
    next_order: u64,
    /// The payments in cents, D_YTD.
    cents: u64,
    /// Rows of the history so far.
    payments: u64,
    /// The newest order, and the lines of those that were added.
    newest_order: u64,
    lines_of: VecDeque<u8>,
    /// The newest of the new orders, the oldest, and how many there are.
    newest_new: u64,
    oldest_new: u64,
    new_orders: u64,
    /// The first order line of the oldest order, and the one to come.
    first_line: u64,
    next_line: u64,
}

impl District {
    /// As loaded: 3,000 orders, of which the newest 900 are not delivered.
    fn at_first() -> Self {
        Self {
            next_order: ORDERS + 1,
            cents: DISTRICT_CENTS,
            payments: HISTORY,
            newest_order: ORDERS,
            lines_of: VecDeque::new(),
            newest_new: ORDERS,
            oldest_new: ORDERS - NEW_ORDERS + 1,
            new_orders: NEW_ORDERS,
            first_line: 0,
            next_line: LINES_AT_FIRST,
        }
    }

    /// Takes the next number of an order.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order - 1
    }

    /// Adds a row to the orders; the oldest gives way with its lines.
    pub(super) fn add_order(&mut self, number: u64, lines: u8) {
        self.newest_order = number;
        self.lines_of.push_back(lines);
        let gone = match self.lines_of.len() as u64 > ORDERS {
            true => self.lines_of.pop_front().unwrap_or(LINES_OF_FIRST),
            false => LINES_OF_FIRST,
        };
        self.first_line += u64::from(gone);
    }

    /// Adds a row to the new orders; the oldest is delivered.
    pub(super) fn add_new_order(&mut self, number: u64) {
        self.newest_new = number;
        self.oldest_new += 1;
    }

    /// Adds an order line, and says which of the district's it is.
    pub(super) fn add_line(&mut self) -> u64 {
        self.next_line += 1;
        self.next_line - 1
    }

    /// Adds a payment, and says which of the district's it is.
    pub(super) fn add_payment(&mut self, cents: u64) -> u64 {
        self.cents += cents;
        self.payments += 1;
        self.payments - 1
    }

    /// Conditions 2, 3 and 4, and that the order lines have room.
    fn verify(&self) -> Result<(), String> {
        let last = self.next_order - 1;
        if last != self.newest_order || last != self.newest_new {
            return Err(format!(
                "the next order is {}, but the newest is {}, and the newest new one is {} (condition 2)",
                self.next_order, self.newest_order, self.newest_new
            ));
        }
        let range = self.newest_new - self.oldest_new + 1;
        if range != self.new_orders {
            return Err(format!(
                "{} new orders have numbers from {} to {} (condition 3)",
                self.new_orders, self.oldest_new, self.newest_new
            ));
        }
        let added: u64 = self.lines_of.iter().map(|&lines| u64::from(lines)).sum();
        let lines = added + (ORDERS - self.lines_of.len() as u64) * u64::from(LINES_OF_FIRST);
        let rows = self.next_line - self.first_line;
        if lines != rows || rows > LINES {
            return Err(format!(
                "the orders have {lines} lines, there are {rows} order lines, with room for {LINES} (condition 4)"
            ));
        }
        Ok(())
    }
}

impl Books {
    /// The bytes of the host after so many orders and payments, in so many warehouses.
    pub(super) fn host_bytes(orders: u64, payments: u64, warehouses: u64) -> u64 {
        let jobs = orders + payments;
        DISTRICT_BYTES * jobs.min(warehouses * DISTRICTS)
            + WAREHOUSE_BYTES * payments.min(warehouses)
            + CUSTOMER_BYTES * payments
            + ORDER_BYTES * orders
    }

    /// A district that is to be changed.
    #[inline]
    pub(super) fn district(&mut self, district: u64) -> &mut District {
        self.districts.entry(district).or_insert_with(District::at_first)
    }

    /// Books a payment in a warehouse and with a customer.
    pub(super) fn pay(&mut self, warehouse: u64, customer: u64, cents: u64) {
        *self.warehouses.entry(warehouse).or_insert(WAREHOUSE_CENTS) += cents;
        *self.customers.entry(customer).or_default() += cents;
    }

    /// Checks all that was touched.
    pub(super) fn verify(&self) -> Result<(), Halt> {
        let mut of_districts: FxHashMap<u64, u64> = FxHashMap::default();
        self.districts.iter().try_for_each(|(&number, district)| {
            *of_districts.entry(number / DISTRICTS).or_default() += district.cents - DISTRICT_CENTS;
            district.verify().map_err(|what| Halt::Wrong(format!("district {number}: {what}")))
        })?;
        // Districts that were not touched have what they had at first.
        self.warehouses.iter().try_for_each(|(number, &cents)| {
            let of_districts = WAREHOUSE_CENTS + of_districts.get(number).copied().unwrap_or_default();
            match cents == of_districts {
                true => Ok(()),
                false => Err(Halt::Wrong(format!(
                    "warehouse {number} took in {cents} cents, its districts {of_districts} (condition 1)"
                ))),
            }
        })?;
        let paid = self.customers.values().sum::<u64>();
        let taken = self.warehouses.values().map(|cents| cents - WAREHOUSE_CENTS).sum::<u64>();
        let by_districts = of_districts.values().sum::<u64>();
        match paid == taken && paid == by_districts {
            true => Ok(()),
            false => Err(Halt::Wrong(format!(
                "customers paid {paid} cents, warehouses took in {taken} and districts {by_districts}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(district: &mut District, lines: u8) {
        let number = district.take_number();
        district.add_order(number, lines);
        district.add_new_order(number);
        (0..lines).for_each(|_| _ = district.add_line());
    }

    fn busy() -> Books {
        let mut books = Books::default();
        for i in 0..8_000u64 {
            add(books.district(i % 2), 5 + (i * 7 % 11) as u8);
            books.district(3 + i % 20).add_payment(i);
            books.pay((3 + i % 20) / DISTRICTS, i % 100, i);
        }
        books
    }

    #[test]
    fn books_are_consistent_while_and_after_the_first_orders_give_way() {
        let mut district = District::at_first();
        for i in 0..2 * ORDERS + 5 {
            assert_eq!(district.verify(), Ok(()), "after {i} orders");
            add(&mut district, 5 + (i % 11) as u8);
        }
        assert_eq!(busy().verify(), Ok(()));
    }

    #[test]
    fn each_condition_is_checked() {
        let broken = |change: fn(&mut Books)| {
            let mut books = busy();
            change(&mut books);
            match books.verify() {
                Err(Halt::Wrong(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert!(broken(|books| books.district(4).cents += 1).contains("condition 1"));
        assert!(broken(|books| _ = books.district(1).take_number()).contains("condition 2"));
        assert!(broken(|books| books.district(1).newest_new -= 1).contains("condition 2"));
        assert!(broken(|books| books.district(0).oldest_new -= 1).contains("condition 3"));
        assert!(broken(|books| _ = books.district(0).add_line()).contains("condition 4"));
        assert!(broken(|books| *books.customers.get_mut(&5).unwrap() += 1).contains("customers paid"));
    }
}
