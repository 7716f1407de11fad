//! The requests of clients: the inputs of the two transactions (clauses 2.4.1 and 2.5.1 of the standard).
//!
//! Customers of all warehouses are drawn by Zipf's law, and so are items. The customer says which warehouse and which
//! district a transaction is for. DEVIATION: the standard draws warehouses and districts evenly, and within them customers and
//! items by a law of its own (`NURand`); last names follow that law, too, where here each is that of three customers.

use super::items::Items;
use super::tables::{CUSTOMERS, DISTRICTS, ITEMS, NAMES};
use crate::jobs::{Jobs, Popularity};
use crate::random::{SplitMix64, mix};

/// The most lines of an order, and the fewest.
const MOST_LINES: usize = 15;
const FEWEST_LINES: u64 = 5;
/// Items of a line at most.
const MOST_QUANTITY: u64 = 10;
/// One in so many orders names an item that does not exist, one in so many lines is supplied by another warehouse.
const ROLLED_BACK: u64 = 100;
const REMOTE_LINE: u64 = 100;
/// Of a hundred payments, those for a customer of another warehouse, and those that name a customer by last name.
const REMOTE_PAYMENTS: u64 = 15;
const BY_NAME: u64 = 60;
/// The least and the largest payment, in cents.
const LEAST_PAYMENT: u64 = 100;
const MOST_PAYMENT: u64 = 500_000;

/// The input of a new-order transaction.
pub(super) struct Order {
    pub(super) customer: u64,
    lines: [Line; MOST_LINES],
    count: usize,
    /// Whether its last item does not exist.
    pub(super) is_rolled_back: bool,
}

/// A line of an order.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    pub(super) item: u64,
    /// The warehouse that supplies it.
    pub(super) supplier: u64,
    pub(super) quantity: u64,
}

impl Line {
    /// The row of the stock that it takes from.
    pub(super) fn stock(&self) -> u64 {
        self.supplier * ITEMS + self.item
    }
}

impl Order {
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines[..self.count]
    }

    pub(super) fn district(&self) -> u64 {
        self.customer / CUSTOMERS
    }
}

/// The input of a payment transaction.
pub(super) struct Payment {
    /// The district where it is made.
    pub(super) district: u64,
    pub(super) customer: u64,
    pub(super) is_by_name: bool,
    pub(super) cents: u64,
}

/// The generator of requests.
pub(super) struct Requests {
    warehouses: u64,
    customers: Popularity,
    items: Items,
}

impl Requests {
    pub(super) fn new(warehouses: u64, jobs: &Jobs) -> Self {
        let customers = jobs.popularity(warehouses * DISTRICTS * CUSTOMERS);
        Self { warehouses, customers, items: Items::new(jobs.skew, jobs.seed) }
    }

    pub(super) fn order(&self, random: &mut SplitMix64) -> Order {
        let customer = self.customers.draw(random);
        let home = customer / CUSTOMERS / DISTRICTS;
        let count = (FEWEST_LINES + random.below(MOST_LINES as u64 - FEWEST_LINES + 1)) as usize;
        let is_rolled_back = random.below(ROLLED_BACK) == 0;
        let mut lines = [Line::default(); MOST_LINES];
        for line in &mut lines[..count] {
            let item = self.items.draw(random);
            let quantity = 1 + random.below(MOST_QUANTITY);
            let supplier = if random.below(REMOTE_LINE) == 0 { self.another(home, random) } else { home };
            *line = Line { item, supplier, quantity };
        }
        Order { customer, lines, count, is_rolled_back }
    }

    pub(super) fn payment(&self, random: &mut SplitMix64) -> Payment {
        let customer = self.customers.draw(random);
        let is_remote = random.below(100) < REMOTE_PAYMENTS;
        let is_by_name = random.below(100) < BY_NAME;
        let cents = LEAST_PAYMENT + random.below(MOST_PAYMENT - LEAST_PAYMENT + 1);
        let own = customer / CUSTOMERS;
        let district = match is_remote {
            true => self.another(own / DISTRICTS, random) * DISTRICTS + random.below(DISTRICTS),
            false => own,
        };
        let customer = if is_by_name { middle_of_name(customer) } else { customer };
        Payment { district, customer, is_by_name, cents }
    }

    /// A warehouse other than `home`, if there is one.
    fn another(&self, home: u64, random: &mut SplitMix64) -> u64 {
        match self.warehouses {
            1 => home,
            n => (home + 1 + random.below(n - 1)) % n,
        }
    }
}

/// The number of a customer's last name, as the index over names has it.
pub(super) fn name_of(customer: u64) -> u64 {
    customer / CUSTOMERS * NAMES + customer % CUSTOMERS % NAMES
}

/// The three customers of a last name, in the order of their first names.
pub(super) fn customers_of_name(name: u64) -> [u64; 3] {
    let first = name / NAMES * CUSTOMERS + name % NAMES;
    let mut customers = [first, first + NAMES, first + 2 * NAMES];
    customers.sort_by_key(|&customer| mix(customer));
    customers
}

/// The one whom a payment by last name is for: the middle one of those who have it (clause 2.5.2.2).
fn middle_of_name(customer: u64) -> u64 {
    customers_of_name(name_of(customer))[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_customers_of_a_district_share_a_name() {
        for customer in [0, 999, 1000, 2999, 3000, 123_456_789] {
            let customers = customers_of_name(name_of(customer));
            assert!(customers.contains(&customer), "{customer}: {customers:?}");
            assert!(customers.iter().all(|other| other / CUSTOMERS == customer / CUSTOMERS));
            assert!(customers.iter().all(|&other| name_of(other) == name_of(customer)));
        }
    }
}
