//! The ages of evicted pages, by policy.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pagewalk_vm::addr::Pfn;
use pagewalk_vm::frame::{Iceberg, IcebergShape};
use pagewalk_vm::hash::Xxh64;
use pagewalk_vm::reclaim::{HorizonLru, IcebergLru, Ripeness, evicted_ages};
use serde::Deserialize;

/// A policy that evicts pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Policy {
    HorizonLru,
    IcebergLru,
}

/// The share of memory that Iceberg LRU keeps for pages that must stay, in percent.
const LIVE_PERCENT: u64 = 87;

impl Policy {
    fn ages(self, frames: u32, pages: u32) -> anyhow::Result<Vec<f64>> {
        let shape = IcebergShape::mosaic(frames / 64);
        let mut place = Iceberg::new(shape, Pfn(1), Xxh64::new(0))?;
        let frames = shape.frames();
        Ok(match self {
            Self::HorizonLru => {
                let mut policy = HorizonLru::new(frames);
                evicted_ages(pages, frames, |page| policy.place(&mut place, page))
            }
            Self::IcebergLru => {
                let mut policy = IcebergLru::new(frames, frames * LIVE_PERCENT / 100, Ripeness::Lazy);
                evicted_ages(pages, frames, |page| policy.place(&mut place, page))
            }
        })
    }
}

/// The ages of what policies have evicted, each computed once.
#[derive(Default)]
pub(crate) struct Ages(BTreeMap<(Policy, u32, u32), Vec<f64>>);

impl Ages {
    pub(crate) fn of(&mut self, policy: Policy, frames: u32, pages: u32) -> anyhow::Result<&[f64]> {
        Ok(match self.0.entry((policy, frames, pages)) {
            Entry::Occupied(done) => done.into_mut(),
            Entry::Vacant(new) => new.insert(policy.ages(frames, pages)?),
        })
    }
}
