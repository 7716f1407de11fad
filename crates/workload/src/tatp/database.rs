//! The database at work: tables and indexes in memory, and the transactions.
//!
//! ```text
//! subscriber        96 bytes  0 version  8 s_id  16 sub_nbr (15)  31 bit_1..10  41 hex_1..10  52 byte2_1..10
//!                             72 msc_location  76 vlr_location  80 first access info (4)  84 first facility (4)
//! access info       32 bytes  0 version  8 s_id  16 data1  18 data2  20 ai_type  21 data3 (3)  24 data4 (5)
//! special facility  32 bytes  0 version  8 s_id  16 error_cntrl  18 data_a  20 sf_type  21 is_active  22 data_b (5)
//! call forwarding   48 bytes  0 version  8 s_id  16 numberx (15)  31 sf_type  32 start_time  33 end_time
//! index node        32 bytes  0 next  8 sub_nbr (16)  24 row
//! ```

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};
use rustc_hash::FxHashMap;

use super::population::{BLOCK, BLOCK_ROWS, Forwarding, Population, STARTS, Subscriber, Table};
use super::request::Request;
use crate::emit::{Emitter, Halt, Stop};
use crate::hash_table::{BUCKET_BYTES, Index, index_bytes};
use crate::jobs::Job;
use crate::space::AddressSpace;

const SUBSCRIBER_BYTES: u64 = 96;
const ROW_BYTES: u64 = 32;
const FORWARDING_BYTES: u64 = 48;
const NODE_BYTES: u64 = 32;
/// Bytes of four subscribers with all that is theirs.
const BLOCK_BYTES: u64 = BLOCK * SUBSCRIBER_BYTES
    + 2 * BLOCK_ROWS * ROW_BYTES
    + STARTS * BLOCK_ROWS * FORWARDING_BYTES
    + BLOCK * (NODE_BYTES + BUCKET_BYTES);

/// Columns that are read or written by themselves.
const S_ID: u64 = 8;
const SUB_NBR: u64 = 16;
const BIT_1: u64 = 31;
const VLR_LOCATION: u64 = 76;
const FIRST_ACCESS: u64 = 80;
const FIRST_FACILITY: u64 = 84;
const DATA_1: u64 = 16;
const DATA_BYTES: u64 = 13;
const DATA_A: u64 = 18;
const TYPE: u64 = 20;
const IS_ACTIVE: u64 = 21;
const NUMBERX: u64 = 16;
const START_TIME: u64 = 32;
const END_TIME: u64 = 33;

/// Instructions of a transaction's begin and end, of reaching a row, and of looking at one of several (assumed).
const TRANSACTION_INSTRUCTIONS: u64 = 80;
const ROW_INSTRUCTIONS: u64 = 20;
const SCAN_INSTRUCTIONS: u64 = 8;
/// Parts into which the work beside is cut: at the begin, and for each row that is reached.
const PARTS: u64 = 4;

/// How many subscribers make a dataset of so many bytes.
pub(super) const fn subscribers(dataset_bytes: u64) -> u64 {
    dataset_bytes / BLOCK_BYTES * BLOCK
}

const fn tables_bytes(subscribers: u64) -> [u64; 4] {
    let rows = subscribers / BLOCK * BLOCK_ROWS;
    [subscribers * SUBSCRIBER_BYTES, rows * ROW_BYTES, rows * ROW_BYTES, STARTS * rows * FORWARDING_BYTES]
}

/// The bytes that a database of so many subscribers maps.
pub(super) fn database_bytes(subscribers: u64) -> u64 {
    let tables = tables_bytes(subscribers).map(|bytes| bytes.next_multiple_of(PAGE_BYTES));
    index_bytes(subscribers, NODE_BYTES) + tables.iter().sum::<u64>()
}

/// Rows that were changed since they were loaded.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) subscribers: FxHashMap<u64, Subscriber>,
    /// `data_a` of special facilities, by row.
    pub(super) data: FxHashMap<u64, u8>,
    /// Call forwarding rows that came, went, or came back; by three times the facility's row, and the start.
    pub(super) forwardings: FxHashMap<u64, Option<Forwarding>>,
}

/// The database of TATP in memory.
pub(super) struct Database {
    pub(super) population: Population,
    pub(super) changes: Changes,
    /// Call forwarding rows.
    pub(super) inserted: u64,
    pub(super) deleted: u64,
    /// The index by `sub_nbr`.
    number_index: Index,
    subscribers: VirtAddr,
    accesses: VirtAddr,
    facilities: VirtAddr,
    forwardings: VirtAddr,
}

impl Database {
    pub(super) fn new(
        population: Population,
        seed: u64,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Self {
        let subscribers = population.subscribers();
        let number_index = Index::new((subscribers, seed ^ 2), (NODE_BYTES, 16), space, out);
        let [subscribers, accesses, facilities, forwardings] =
            tables_bytes(subscribers).map(|bytes| space.map(bytes.next_multiple_of(PAGE_BYTES), out).start);
        Self {
            population,
            changes: Changes::default(),
            inserted: 0,
            deleted: 0,
            number_index,
            subscribers,
            accesses,
            facilities,
            forwardings,
        }
    }

    /// Executes a transaction; whether it succeeded.
    pub(super) fn execute(
        &mut self,
        subscriber: u64,
        request: Request,
        job: &mut Job<'_, '_>,
    ) -> Result<bool, Halt> {
        job.compute(TRANSACTION_INSTRUCTIONS / 2)?;
        job.compute_part(PARTS)?;
        let answer = match request {
            Request::GetSubscriberData => {
                let row = self.find_subscriber(subscriber, job)?;
                job.load(row.add(S_ID), 8)?;
                job.copy(row.add(SUB_NBR), SUBSCRIBER_BYTES - SUB_NBR, false)?;
                true
            }
            Request::GetNewDestination { facility, start, end } => {
                self.get_new_destination(subscriber, (facility, start, end), job)?
            }
            Request::GetAccessData { access } => {
                let row = self.find_row(Table::AccessInfo, subscriber, access, job)?;
                if let Some(row) = row {
                    job.copy(self.accesses.add(row * ROW_BYTES + DATA_1), DATA_BYTES, false)?;
                }
                row.is_some()
            }
            Request::UpdateSubscriberData { bit, facility, data } => {
                self.update_subscriber_data(subscriber, bit, (facility, data), job)?
            }
            Request::UpdateLocation { location } => {
                let row = self.find_number(subscriber, job)?;
                self.subscriber_mut(subscriber).location = location;
                store_column(row, VLR_LOCATION, 4, job)?;
                true
            }
            Request::InsertCallForwarding { facility, start, end, number } => {
                self.insert_forwarding(subscriber, (facility, start), Forwarding { end, number }, job)?
            }
            Request::DeleteCallForwarding { facility, start } => {
                self.delete_forwarding(subscriber, (facility, start), job)?
            }
        };
        job.compute(TRANSACTION_INSTRUCTIONS / 2)?;
        Ok(answer)
    }

    fn get_new_destination(
        &mut self,
        subscriber: u64,
        (facility, start, end): (u8, u8, u8),
        job: &mut Job<'_, '_>,
    ) -> Result<bool, Halt> {
        let Some(facility) = self.find_row(Table::SpecialFacility, subscriber, facility, job)? else {
            return Ok(false);
        };
        job.load(self.facility_addr(facility).add(IS_ACTIVE), 1)?;
        if !self.population.is_active(facility) {
            return Ok(false);
        }
        let mut is_found = false;
        for from in 0..=u64::from(start) {
            let addr = self.reach_forwarding(facility, from, job)?;
            let Some(row) = self.forwarding(facility, from) else { continue };
            job.load(addr.add(START_TIME), 1)?;
            job.load(addr.add(END_TIME), 1)?;
            job.decide(end < row.end)?;
            if end < row.end {
                job.copy(addr.add(NUMBERX), 15, false)?;
                is_found = true;
            }
        }
        Ok(is_found)
    }

    fn update_subscriber_data(
        &mut self,
        subscriber: u64,
        bit: bool,
        (facility, data): (u8, u8),
        job: &mut Job<'_, '_>,
    ) -> Result<bool, Halt> {
        let row = self.find_subscriber(subscriber, job)?;
        job.load(row.add(BIT_1), 1)?;
        let old = std::mem::replace(&mut self.subscriber_mut(subscriber).bit, bit);
        store_column(row, BIT_1, 1, job)?;
        let Some(facility) = self.find_row(Table::SpecialFacility, subscriber, facility, job)? else {
            // All or nothing.
            self.subscriber_mut(subscriber).bit = old;
            store_column(row, BIT_1, 1, job)?;
            return Ok(false);
        };
        self.changes.data.insert(facility, data);
        store_column(self.facility_addr(facility), DATA_A, 2, job)?;
        Ok(true)
    }

    fn insert_forwarding(
        &mut self,
        subscriber: u64,
        (facility, start): (u8, u8),
        row: Forwarding,
        job: &mut Job<'_, '_>,
    ) -> Result<bool, Halt> {
        let from = u64::from(start);
        self.find_number(subscriber, job)?;
        let Some(facility) = self.find_row(Table::SpecialFacility, subscriber, facility, job)? else {
            return Ok(false);
        };
        let addr = self.reach_forwarding(facility, from, job)?;
        if self.forwarding(facility, from).is_some() {
            return Ok(false);
        }
        self.changes.forwardings.insert(facility * STARTS + from, Some(row));
        self.inserted += 1;
        job.copy(addr, FORWARDING_BYTES, true)?;
        Ok(true)
    }

    fn delete_forwarding(
        &mut self,
        subscriber: u64,
        (facility, start): (u8, u8),
        job: &mut Job<'_, '_>,
    ) -> Result<bool, Halt> {
        let from = u64::from(start);
        self.find_number(subscriber, job)?;
        let Some(facility) = self.find_row(Table::SpecialFacility, subscriber, facility, job)? else {
            return Ok(false);
        };
        let addr = self.reach_forwarding(facility, from, job)?;
        if self.forwarding(facility, from).is_none() {
            return Ok(false);
        }
        self.changes.forwardings.insert(facility * STARTS + from, None);
        self.deleted += 1;
        job.store(addr, 8)?;
        Ok(true)
    }

    /// A subscriber's row by `s_id`, which says where it is.
    fn find_subscriber(&self, subscriber: u64, job: &mut Job<'_, '_>) -> Result<VirtAddr, Halt> {
        self.reach(self.subscribers.add(subscriber * SUBSCRIBER_BYTES), job)
    }

    /// A subscriber's row by `sub_nbr`, of which it also gives `s_id`.
    fn find_number(&self, subscriber: u64, job: &mut Job<'_, '_>) -> Result<VirtAddr, Halt> {
        let node = self.number_index.find(subscriber, job)?;
        job.follow(node.add(24), 8)?;
        let row = self.reach(self.subscribers.add(subscriber * SUBSCRIBER_BYTES), job)?;
        job.load(row.add(S_ID), 8)?;
        Ok(row)
    }

    /// A subscriber's row of a type: its own row says where the first is, the others are behind that.
    fn find_row(
        &self,
        table: Table,
        subscriber: u64,
        kind: u8,
        job: &mut Job<'_, '_>,
    ) -> Result<Option<u64>, Halt> {
        let (first, base) = match table {
            Table::AccessInfo => (FIRST_ACCESS, self.accesses),
            Table::SpecialFacility => (FIRST_FACILITY, self.facilities),
        };
        job.seek()?;
        job.follow(self.subscribers.add(subscriber * SUBSCRIBER_BYTES + first), 4)?;
        let rows = self.population.rows_of(table, subscriber);
        for (row, is) in rows.iter() {
            let addr = base.add(row * ROW_BYTES);
            job.compute(SCAN_INSTRUCTIONS)?;
            job.load(addr.add(S_ID), 8)?;
            job.load(addr.add(TYPE), 1)?;
            job.decide(is >= kind)?;
            if is >= kind {
                if is > kind {
                    return Ok(None);
                }
                self.reach(addr, job)?;
                return Ok(Some(row));
            }
        }
        let behind = rows.first + rows.count();
        if behind < self.population.rows() {
            // Another subscriber's.
            job.load(base.add(behind * ROW_BYTES + S_ID), 8)?;
        }
        Ok(None)
    }

    /// Begins to work with a row: its version says whether it is there, and whether it changes meanwhile.
    fn reach(&self, row: VirtAddr, job: &mut Job<'_, '_>) -> Result<VirtAddr, Halt> {
        job.compute(ROW_INSTRUCTIONS)?;
        job.compute_part(PARTS)?;
        job.load(row, 8)?;
        Ok(row)
    }

    fn reach_forwarding(&self, facility: u64, from: u64, job: &mut Job<'_, '_>) -> Result<VirtAddr, Stop> {
        let addr = self.forwardings.add((facility * STARTS + from) * FORWARDING_BYTES);
        job.compute(SCAN_INSTRUCTIONS)?;
        job.load(addr, 8)?;
        Ok(addr)
    }

    fn facility_addr(&self, row: u64) -> VirtAddr {
        self.facilities.add(row * ROW_BYTES)
    }

    pub(super) fn forwarding(&self, facility: u64, from: u64) -> Option<Forwarding> {
        match self.changes.forwardings.get(&(facility * STARTS + from)) {
            Some(&row) => row,
            None => self.population.forwarding(facility, from),
        }
    }

    fn subscriber_mut(&mut self, number: u64) -> &mut Subscriber {
        let population = &self.population;
        self.changes.subscribers.entry(number).or_insert_with(|| population.subscriber(number))
    }
}

/// Stores a column, and the row's new version.
fn store_column(row: VirtAddr, column: u64, bytes: u32, job: &mut Job<'_, '_>) -> Result<(), Stop> {
    job.store(row.add(column), bytes)?;
    job.store(row, 8)
}
