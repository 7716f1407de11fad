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
    Limited(Option<Refresh>, Box<Bandwidth>),
    /// DRAM with controllers, banks and rows.
    Dram(Box<PagedDram>),
    /// DRAM as a cache over flash.
    Tiered(Box<TieredMemory>),
}

impl Memory {
    pub(super) fn new(spec: &MachineSpec) -> Self {
        let MemorySpec { dram, line_ps, refresh, .. } = &spec.hierarchy.memory;
        let refresh = refresh.as_ref().map(Refresh::new);
        match (dram, &spec.tier, line_ps) {
            (Some(dram), Some(tier), _) => Self::Tiered(Box::new(TieredMemory::new(dram, tier))),
            (Some(dram), None, _) => Self::Dram(Box::new(PagedDram::new(dram))),
            (None, _, Some(line_ps)) => Self::Limited(refresh, Box::new(Bandwidth::new(*line_ps))),
            (None, _, None) => Self::Plain(refresh),
        }
    }
}
