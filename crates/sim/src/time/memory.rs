//! The kinds of memory behind the last cache.

use super::bandwidth::Bandwidth;
use super::dram::PagedDram;
use super::refresh::Refresh;
use super::tiered::TieredMemory;
use crate::spec::settings::{MachineSpec, MemorySpec};

/// The memory behind the last cache.
#[derive(Clone, Debug)]
pub(super) enum Memory {
    /// A memory with a fixed latency.
    Plain(Option<Refresh>),
    /// The same, of which so much is had in a time.
    Limited(Option<Refresh>, Box<Ways>),
    /// DRAM with controllers, banks and rows.
    Dram(Box<PagedDram>),
    /// DRAM as a cache over flash.
    Tiered(Box<TieredMemory>),
}

/// The ways to and from memory, each of which has so much room in a time.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    reads: Bandwidth,
    /// None if writes share the way of reads.
    writes: Option<Bandwidth>,
}

impl Ways {
    /// Reads a line at `from_ps` at the earliest; returns when it begins.
    #[inline]
    pub(super) fn read(&mut self, from_ps: u64) -> u64 {
        self.reads.take(from_ps)
    }

    /// Writes a line, for which nothing waits.
    pub(super) fn write(&mut self, from_ps: u64) {
        self.writes.as_mut().unwrap_or(&mut self.reads).take(from_ps);
    }
}

impl Memory {
    pub(super) fn new(spec: &MachineSpec) -> Self {
        let MemorySpec { dram, line_ps, write_line_ps, refresh, .. } = &spec.hierarchy.memory;
        let refresh = refresh.as_ref().map(Refresh::new);
        match (dram, &spec.tier, line_ps) {
            (Some(dram), Some(tier), _) => Self::Tiered(Box::new(TieredMemory::new(dram, tier))),
            (Some(dram), None, _) => Self::Dram(Box::new(PagedDram::new(dram))),
            (None, _, Some(line_ps)) => {
                let (reads, writes) = (Bandwidth::new(*line_ps), write_line_ps.map(Bandwidth::new));
                Self::Limited(refresh, Box::new(Ways { reads, writes }))
            }
            (None, _, None) => Self::Plain(refresh),
        }
    }
}
