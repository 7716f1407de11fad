//! A block device: so many requests at once, one bus.

use super::store::{BackingStore, Transfer};
use crate::time::pool::Pool;

/// The settings of a solid-state disk.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSpec {
    /// From a request to its first byte.
    pub latency_ps: u64,
    /// Time to transfer 4 KiB.
    pub page_ps: u64,
    /// Requests under way at once.
    pub queue: u32,
}

/// A solid-state disk's time.
///
/// A request takes the queue's first free place, waits the device's latency, and then the bus for as long as its
/// page takes:
///
/// ```text
/// start  = max(now, earliest free place)
/// finish = max(start + latency, earliest free bus) + page
/// ```
#[derive(Clone, Debug)]
pub(crate) struct BlockDevice {
    places: Pool,
    bus_free_ps: u64,
    latency_ps: u64,
    page_ps: u64,
}

impl BlockDevice {
    pub(crate) fn new(spec: &BlockSpec) -> Self {
        Self {
            places: Pool::new(spec.queue),
            bus_free_ps: 0,
            latency_ps: spec.latency_ps,
            page_ps: spec.page_ps,
        }
    }

    /// Reads or writes a page; returns when that is done.
    pub(super) fn transfer(&mut self, now_ps: u64) -> u64 {
        let Self { places, bus_free_ps, latency_ps, page_ps } = self;
        places.take(now_ps, |start_ps| {
            *bus_free_ps = (start_ps + *latency_ps).max(*bus_free_ps) + *page_ps;
            *bus_free_ps
        });
        self.bus_free_ps
    }
}

impl BackingStore for BlockDevice {
    fn read(&mut self, now_ps: u64) -> Transfer {
        Transfer { done_ps: self.transfer(now_ps), holds_core: false }
    }

    fn write(&mut self, now_ps: u64) -> Transfer {
        Transfer { done_ps: self.transfer(now_ps), holds_core: false }
    }
}
