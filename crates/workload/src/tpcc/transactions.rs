//! The two transactions, row by row (clauses 2.4.2 and 2.5.2 of the standard).
//!
//! They run one after the other, without locks, versions or a log, as in servers that give each core warehouses of its own
//! (Stonebraker et al., "The End of an Architectural Era", VLDB 2007). Of a part of a row that a transaction copies, one access
//! is emitted for each line of the caches.

use pagewalk_vm::addr::VirtAddr;

use super::books::Books;
use super::index::{FIND_ACCESSES, FIND_INSTRUCTIONS};
use super::request::{Line, Order, Payment, customers_of_name, name_of};
use super::stock::Stock;
use super::tables::{DISTRICTS, Tables};
use crate::emit::Stop;
use crate::jobs::Job;
use crate::random::mix;

const LINE_BYTES: u64 = 64;

/// Where columns are: those that transactions change come first.
const YTD: u64 = 0;
const TAX: u64 = 8;
const NEXT_ORDER: u64 = 16;
const BALANCE: u64 = 0;
const BALANCE_BYTES: u32 = 24;
const DISCOUNT: u64 = 24;
const FIRST_NAME: u64 = 40;
const CUSTOMER_DATA: u64 = 192;
const CUSTOMER_DATA_BYTES: u64 = 500;
const QUANTITIES_BYTES: u32 = 32;
/// The texts of a stock row for each district.
const DISTRICT_TEXTS: u64 = 80;
const TEXT_BYTES: u64 = 24;
/// Price and name of an item.
const PRICE_BYTES: u32 = 32;
/// What is written of the rows that are appended.
const ORDER_BYTES: u32 = 32;
const ORDER_LINE_BYTES: u32 = 64;
const HISTORY_BYTES: u32 = 64;
/// One customer in ten has bad credit, and keeps a record of payments (clause 4.3.3.1).
const BAD_CREDIT: u64 = 10;

/// Instructions of a transaction, and of a line of an order, beside those of the indexes (assumed: a line compares texts,
/// formats a row and adds decimals).
const TRANSACTION_INSTRUCTIONS: u64 = 400;
const LINE_INSTRUCTIONS: u64 = 160;
const NAME_INSTRUCTIONS: u64 = 60;
/// Parts into which the work beside is cut: before, between and after the accesses of a transaction.
const PARTS: u64 = 16;

/// Of an order of average length, the accesses and the instructions; and those of a payment.
pub(super) const ORDER_ACCESSES: f64 = 5.0 + FIND_ACCESSES + 2.0 + AVERAGE_LINES * (5.2 + FIND_ACCESSES);
pub(super) const ORDER_INSTRUCTIONS: u64 =
    TRANSACTION_INSTRUCTIONS + FIND_INSTRUCTIONS + 10 * (LINE_INSTRUCTIONS + FIND_INSTRUCTIONS);
pub(super) const PAYMENT_ACCESSES: f64 = 4.0 + FIND_ACCESSES + 0.6 * 3.0 + 3.0 + 0.1 * 17.0;
pub(super) const PAYMENT_INSTRUCTIONS: u64 = TRANSACTION_INSTRUCTIONS + FIND_INSTRUCTIONS + NAME_INSTRUCTIONS;
const AVERAGE_LINES: f64 = 10.0;

/// What transactions work on.
pub(super) struct State {
    pub(super) tables: Tables,
    pub(super) books: Books,
    pub(super) stock: Stock,
}

impl State {
    /// A customer orders items. An order with an item that does not exist is found out before anything is changed.
    #[inline]
    pub(super) fn new_order(&mut self, order: &Order, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        let Self { tables, books, stock } = self;
        let district = order.district();
        stock.prefetch(order.lines().iter().map(Line::stock));
        job.compute(TRANSACTION_INSTRUCTIONS)?;
        job.compute_part(PARTS)?;
        job.load(tables.warehouse(district / DISTRICTS).add(TAX), 8)?;
        tables.customers.find(order.customer, job)?;
        job.load(tables.customer(order.customer).add(DISCOUNT), 16)?;
        job.compute_part(PARTS)?;
        let known = order.lines().len() - usize::from(order.is_rolled_back);
        for line in &order.lines()[..known] {
            job.load(tables.item(line.item), PRICE_BYTES)?;
        }
        if order.is_rolled_back {
            return Ok(());
        }
        let row = tables.district(district);
        job.load(row.add(TAX), 16)?;
        job.store(row.add(NEXT_ORDER), 8)?;
        let books = books.district(district);
        let number = books.take_number();
        books.add_order(number, order.lines().len() as u8);
        job.store(tables.order(district, number), ORDER_BYTES)?;
        books.add_new_order(number);
        job.store(tables.new_order(district, number), 8)?;
        for line in order.lines() {
            job.compute_part(PARTS)?;
            let of_item = line.stock();
            tables.stock.find(of_item, job)?;
            let row = tables.stock(of_item);
            job.compute(LINE_INSTRUCTIONS)?;
            job.load(row, QUANTITIES_BYTES)?;
            each_line(
                row.add(DISTRICT_TEXTS + district % DISTRICTS * TEXT_BYTES),
                TEXT_BYTES,
                |addr, bytes| job.load(addr, bytes),
            )?;
            job.store(row, QUANTITIES_BYTES)?;
            stock.take(of_item, line.quantity);
            job.store(tables.order_line(district, books.add_line()), ORDER_LINE_BYTES)?;
        }
        Ok(())
    }

    /// Does a payment transaction, in which a customer pays.
    #[inline]
    pub(super) fn payment(&mut self, payment: &Payment, job: &mut Job<'_, '_>) -> Result<(), Stop> {
        let Self { tables, books, .. } = self;
        let &Payment { district, customer, is_by_name, cents } = payment;
        let warehouse = district / DISTRICTS;
        job.compute(TRANSACTION_INSTRUCTIONS)?;
        for row in [tables.warehouse(warehouse), tables.district(district)] {
            job.compute_part(PARTS / 4)?;
            job.load(row.add(YTD), 8)?;
            job.store(row.add(YTD), 8)?;
        }
        if is_by_name {
            let name = name_of(customer);
            tables.names.find(name, job)?;
            job.compute(NAME_INSTRUCTIONS)?;
            for other in customers_of_name(name) {
                job.load(tables.customer(other).add(FIRST_NAME), 16)?;
            }
        } else {
            tables.customers.find(customer, job)?;
        }
        job.compute_part(PARTS / 4)?;
        let row = tables.customer(customer);
        job.load(row.add(BALANCE), BALANCE_BYTES)?;
        job.store(row.add(BALANCE), BALANCE_BYTES)?;
        if mix(customer).is_multiple_of(BAD_CREDIT) {
            // The newest payment is written in front of the others.
            each_line(row.add(CUSTOMER_DATA), CUSTOMER_DATA_BYTES, |addr, bytes| {
                job.load(addr, bytes)?;
                job.store(addr, bytes)
            })?;
        }
        books.pay(warehouse, customer, cents);
        let number = books.district(district).add_payment(cents);
        job.store(tables.history(district, number), HISTORY_BYTES)
    }
}

/// Does something with each part of a range that is in a line of its own.
#[inline]
fn each_line(
    start: VirtAddr,
    bytes: u64,
    mut each: impl FnMut(VirtAddr, u32) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let end = start.add(bytes);
    let mut addr = start;
    while addr < end {
        let next = addr.align_down(LINE_BYTES).add(LINE_BYTES).min(end);
        each(addr, (next.0 - addr.0) as u32)?;
        addr = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_lines() {
        let mut parts = Vec::new();
        each_line(VirtAddr(0x1030), 100, |addr, bytes| {
            parts.push((addr.0, bytes));
            Ok(())
        })
        .unwrap();
        assert_eq!(parts, [(0x1030, 16), (0x1040, 64), (0x1080, 20)]);
    }
}
