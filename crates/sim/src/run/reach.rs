//! The size of TLB that a program wants: the misses of eight TLBs of growing size, in the same pass.
//!
//! A property of the program, not of a machine: 8-way LRU TLBs for 4 KiB pages, one thread of events, empty at
//! every switch of process. Unmapped pages stay until they are evicted.

use pagewalk_trace::{Batch, Event};
use pagewalk_vm::tlb::LruBank;

use crate::metrics::names::reach as names;
use crate::metrics::{Metric, Number};

/// The miss curve of everything taken since measuring began.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    bank: LruBank,
    /// Accesses, and misses of each TLB, before measuring began.
    before: (u64, [u64; 8]),
}

impl Reach {
    pub(super) fn take(&mut self, batch: &Batch) {
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

    /// Begins to measure; the TLBs keep what they hold.
    pub(super) fn measure(&mut self) {
        self.before = (self.bank.accesses(), self.bank.curve().map(|(_, misses)| misses));
    }

    /// Returns a row for each size, `misses.ENTRIES`, and the same per access, `miss-rate.ENTRIES`.
    pub(super) fn metrics(&mut self) -> Vec<Metric> {
        let (accesses, misses) = self.before;
        let accesses = self.bank.accesses() - accesses;
        let mut misses = misses.into_iter();
        let curve = self.bank.curve().map(|(entries, all)| (entries, all - misses.next().unwrap_or(0)));
        let counts =
            curve.map(|(entries, misses)| names::misses(entries).metric(None, Some(Number::Count(misses))));
        let rates = curve.map(|(entries, misses)| {
            let rate = (accesses > 0).then(|| Number::Ratio(misses as f64 / accesses as f64));
            names::miss_rate(entries).metric(None, rate)
        });
        counts.into_iter().chain(rates).collect()
    }
}
