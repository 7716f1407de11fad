//! The size of TLB that a program wants: the misses of eight TLBs of growing size, in the same pass.
//!
//! A property of the program, not of a machine: 8-way LRU TLBs for 4 KiB pages, one thread of events, empty at
//! every switch of process. Unmapped pages stay until they are evicted.

use pagewalk_trace::{Batch, Event};
use pagewalk_vm::tlb::LruBank;

use crate::metrics::names::reach as names;
use crate::metrics::{Metric, Number};

/// The miss curve of everything taken so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    bank: LruBank,
}

impl Reach {
    pub(crate) fn take(&mut self, batch: &Batch) {
        let mut done = 0;
        for mark in &batch.marks {
            if matches!(mark.event, Event::Process(_) | Event::Exec) {
                self.pages(batch, done, mark.at as usize);
                done = mark.at as usize;
                self.bank.flush();
            }
        }
        self.pages(batch, done, batch.accesses.len());
    }

    fn pages(&mut self, batch: &Batch, start: usize, end: usize) {
        self.bank.access(&batch.accesses[start..end], |access| access.addr().page());
    }

    /// Returns a row for each size, `misses.ENTRIES`, and the same per access, `miss-rate.ENTRIES`.
    pub(crate) fn metrics(&mut self) -> Vec<Metric> {
        let accesses = self.bank.accesses();
        let curve = self.bank.curve();
        let counts =
            curve.map(|(entries, misses)| names::misses(entries).metric(None, Some(Number::Count(misses))));
        let rates = curve.map(|(entries, misses)| {
            let rate = (accesses > 0).then(|| Number::Ratio(misses as f64 / accesses as f64));
            names::miss_rate(entries).metric(None, rate)
        });
        counts.into_iter().chain(rates).collect()
    }
}
