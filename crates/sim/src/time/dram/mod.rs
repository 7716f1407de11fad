//! DRAM banks behind memory controllers, command by command.
//!
//! After the frontside controller of Gupta et al., "AstriFlash: A Flash-Based System for Online Services", HPCA 2023,
//! sections IV.B and V.A: a set of the DRAM cache is a row that has tags and data, so that a look-up opens a row,
//! reads the tags, compares, and reads the data from the row that is open now. The times of a request, on an idle
//! bank:
//!
//! ```text
//! line    [precharge] [command RAS]                            command CAS 7*burst  command
//! hit     [precharge] [command RAS] command CAS tags compare   command CAS 7*burst  command
//! miss    [precharge] [command RAS] command CAS tags compare                        command
//! page    [precharge] [command RAS]                            command CAS 511*burst
//! status  [precharge] [command RAS]                            command CAS
//!          another    the row is                                                    response,
//!          row open   not open                                                      or the miss
//! ```
//!
//! The banks of a channel share its data bus, which each 8 bytes hold for `burst`; a column command waits until its
//! bytes will find the bus free.
//!
//! DEVIATION from DRAM: no refresh, no limits between row commands of different banks, and commands never wait for
//! each other; reading and writing take the same time.

mod bank;
mod paged;
#[cfg(test)]
mod tests;

pub(super) use self::paged::PagedDram;

use self::bank::{Bank, Times};
use super::calendar::Calendar;
use crate::spec::settings::DramSpec;

/// The kind of a request to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DramRequest {
    /// A line of 64 bytes of a row without tags.
    Line,
    /// A line of 64 bytes whose tag is there.
    Hit,
    /// The tags, to find that a line is not there. The request is done when the miss has been handed on; the answer takes
    /// another command, after the controller has taken the miss. Without tags nothing can be missing.
    Miss,
    /// A page, in or out.
    Page,
    /// 8 bytes for a controller's own use: an entry of the miss status row.
    Status,
}

/// The counts of DRAM requests since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DramCounts {
    /// All requests to DRAM.
    pub requests: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Requests that another one overtook, once for each, after they had been told a time.
    pub overtaken: u64,
    /// By how much these were told too early, together.
    pub early_ps: u64,
}

/// All channels, their banks, and what these are going to do.
///
/// Requests are served in FR-FCFS order (Rixner et al., "Memory Access Scheduling", ISCA 2000): those to the open row
/// first, then the oldest. An answer is given at once all the same: every bank keeps a schedule of what it has not
/// finished, and a new request goes right behind the last one to the same row, ahead of what has not started by its
/// arrival; these start later than planned.
///
/// DEVIATION: the requesters of those were told a time already, which turns out to be too early;
/// [`counts`](Self::counts) tell how often and by how much. A request that later ones have overtaken
/// [`overtakes`](DramSpec::overtakes) times is overtaken no more: a request that would overtake it goes to the end.
///
/// # Contract
///
/// Requests come in nearly non-decreasing order of time: one from before the last one of its channel overtakes nothing
/// that had started by then.
#[derive(Clone, Debug)]
pub struct Dram {
    channels: Vec<Channel>,
    /// Of channel 0, then of channel 1.
    banks: Vec<Bank>,
    banks_a_channel: usize,
    times: Times,
    counts: DramCounts,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    bus: Calendar,
    now_ps: u64,
}

impl Dram {
    /// Returns idle banks with no row open.
    ///
    /// # Panics
    ///
    /// If there are no banks, or 8 bytes take longer than their column.
    pub fn new(spec: &DramSpec) -> Self {
        assert!(spec.channels > 0 && spec.banks > 0, "DRAM without banks: {spec:?}");
        assert!(spec.burst_ps <= spec.cas_ps, "burst_ps is a part of cas_ps, not more: {spec:?}");
        let banks = (0..spec.channels * spec.banks).map(|_| Bank::default()).collect();
        let channels = (0..spec.channels).map(|_| Channel::default()).collect();
        let counts = DramCounts::default();
        Self { channels, banks, banks_a_channel: spec.banks as usize, times: Times::new(spec), counts }
    }

    /// Makes a request at `at_ps`; returns when it is done.
    #[inline]
    pub fn access(&mut self, at_ps: u64, channel: usize, bank: usize, row: u64, request: DramRequest) -> u64 {
        debug_assert!(bank < self.banks_a_channel, "bank {bank} of {}", self.banks_a_channel);
        debug_assert!(request != DramRequest::Miss || self.times.has_tags(), "a miss, and no tags to tell");
        let bank = &mut self.banks[channel * self.banks_a_channel + bank];
        let Channel { bus, now_ps } = &mut self.channels[channel];
        *now_ps = at_ps.max(*now_ps);
        bus.forget(*now_ps);
        bank.finish(*now_ps);
        self.counts.requests += 1;
        bank.schedule(at_ps, *now_ps, row, request, &self.times, bus, &mut self.counts)
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> DramCounts {
        self.counts
    }
}
