//! Which bank and row of DRAM a page is in.

use pagewalk_vm::addr::PAGE_BYTES;

use super::{Dram, DramRequest};
use crate::metrics::Rows;
use crate::metrics::names::dram as names;
use crate::spec::settings::DramSpec;

/// DRAM, addressed by pages.
///
/// ```text
///  page number:  | row  | bank | page of the row | controller |        memory
///  set number:   | row  | bank |                                       a cache of pages: a set is a row
/// ```
#[derive(Clone, Debug)]
pub(crate) struct PagedDram {
    dram: Dram,
    controller_bits: u32,
    bank_bits: u32,
    row_bits: u32,
}

impl PagedDram {
    pub(crate) fn new(spec: &DramSpec) -> Self {
        Self {
            dram: Dram::new(spec),
            controller_bits: spec.channels.trailing_zeros(),
            bank_bits: spec.banks.trailing_zeros(),
            row_bits: (u64::from(spec.row_bytes) / PAGE_BYTES).max(1).ilog2(),
        }
    }

    /// Returns the controller of a page.
    pub(crate) fn controller(&self, page: u64) -> usize {
        (page & ((1 << self.controller_bits) - 1)) as usize
    }

    /// Requests a line of a page that is at its own place in memory; returns when it is there.
    #[inline]
    pub(crate) fn line(&mut self, at_ps: u64, page: u64) -> u64 {
        let set = page >> (self.controller_bits + self.row_bits);
        self.set(at_ps, self.controller(page), set as usize, DramRequest::Line)
    }

    /// Makes a request to a set of a controller; returns when it is done.
    #[inline]
    pub(crate) fn set(&mut self, at_ps: u64, controller: usize, set: usize, request: DramRequest) -> u64 {
        let bank = set & ((1 << self.bank_bits) - 1);
        self.dram.access(at_ps, controller, bank, (set >> self.bank_bits) as u64, request)
    }

    pub(crate) fn rows(&self, rows: &mut Rows) {
        let counts = self.dram.counts();
        rows.sum(names::REQUESTS, counts.requests);
        rows.sum(names::ROW_HITS, counts.row_hits);
        rows.sum(names::OVERTAKEN, counts.overtaken);
        rows.sum(names::TOLD_EARLY, counts.early_ps);
    }
}
