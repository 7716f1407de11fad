//! A block device: so many requests at once, one bus.

use super::pool::Pool;
use crate::spec::settings::SwapSpec;

/// The swap device's time.
///
/// A request takes the queue's first free place, waits the device's latency, and then the bus for as long as its
/// page takes:
///
/// ```text
/// start  = max(now, earliest free place)
/// finish = max(start + latency, earliest free bus) + page
/// ```
#[derive(Clone, Debug)]
pub(super) struct BlockDevice {
    places: Pool,
    bus_free_ps: u64,
    latency_ps: u64,
    page_ps: u64,
}

impl BlockDevice {
    pub(super) fn new(spec: &SwapSpec) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_overlap_and_transfers_do_not() {
        let spec = SwapSpec { bytes: 1 << 20, latency_ps: 100, page_ps: 10, queue: 3 };
        let mut device = BlockDevice::new(&spec);
        assert_eq!([0, 0, 0].map(|now| device.transfer(now)), [110, 120, 130]);
        // The fourth waits for the first place, the fifth for the second.
        assert_eq!([0, 115].map(|now| device.transfer(now)), [220, 230]);
        assert_eq!(device.transfer(1_000), 1_110);
    }
}
