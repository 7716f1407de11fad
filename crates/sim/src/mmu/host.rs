//! The host below a guest: the second dimension of its page walks.

use pagewalk_vm::addr::{PhysAddr, Vpn};
use pagewalk_vm::table::{GuestWalk, Host, HostFault, Leaf, PageTable, WalkEnd, WalkOutcome, WalkRead};

use super::{Core, Finished, WalkCounts, WalkListener, Walked};
use crate::metrics::Rows;
use crate::metrics::names::host as names;
use crate::time::WalkBegin;

/// The host of a machine that is a guest.
pub(crate) struct Below {
    host: Box<dyn Host>,
    /// Levels of the guest's page tables.
    guest_levels: u32,
    /// The time of an exit to the host for a page that it has not given yet, which it zeroes.
    fault_ps: u64,
    /// Scratch space for the references of a walk.
    reads: Vec<WalkRead>,
}

impl Below {
    pub(crate) fn new(host: Box<dyn Host>, guest_levels: u32, fault_ps: u64) -> Self {
        Self { host, guest_levels, fault_ps, reads: Vec::new() }
    }

    /// Returns the first address of the host beyond all that it can ever use.
    pub(crate) fn end(&self) -> PhysAddr {
        self.host.end().addr()
    }

    /// Walks to a page through both tables; an exit to the host begins the walk anew.
    pub(super) fn walk<T: PageTable, L: WalkListener>(
        &mut self,
        (number, core): (usize, &mut Core<T::Caches>),
        counts: &mut WalkCounts,
        walked: &Walked<'_, T>,
        vpn: Vpn,
        listener: &mut L,
    ) -> Finished<T::Walk> {
        loop {
            let before = self.host.counts().references;
            let (walk, end) = self.attempt(number, core.walk_cache.as_mut(), walked, vpn);
            counts.walks += 1;
            // A walk that leaves the guest has not read all of its table.
            let of_host = self.host.counts().references - before;
            counts.of_host += of_host;
            counts.count(walk.reads().take(self.reads.len() - of_host as usize));
            end.iter().for_each(|&end| listener.leads_to(end));
            if let Some(stop) = listener.reads(self.reads(), WalkBegin::after_miss(core.walk_cache.is_some()))
            {
                return Finished { walk, end: Err(stop) };
            }
            match end {
                Ok(end) => return Finished { walk, end: Ok(end) },
                Err(HostFault(frame)) => {
                    self.host.give(frame);
                    listener.exits(self.fault_ps);
                }
            }
        }
    }

    /// Walks to a page through both tables, once; [`Below::reads`] are the references.
    pub(super) fn attempt<T: PageTable>(
        &mut self,
        core: usize,
        caches: Option<&mut T::Caches>,
        walked: &Walked<'_, T>,
        vpn: Vpn,
    ) -> (T::Walk, Result<WalkEnd, HostFault>) {
        let walk = walked.table.walk(walked.memory, walked.asid, vpn, caches);
        let begins_below_root = walk.reads().next().is_some_and(|read| read.level + 1 < self.guest_levels);
        let guest =
            GuestWalk { reads: walk.reads(), begins_below_root, end: walk.end(), granule: T::GRANULE };
        self.reads.clear();
        let end = guest.through(vpn, core, &mut *self.host, &mut self.reads);
        (walk, end)
    }

    /// Returns the references of the last walk, with the host's addresses.
    pub(super) fn reads(&self) -> impl Iterator<Item = WalkRead> {
        self.reads.iter().copied()
    }

    /// Returns the neighbour of a page that a walk has found, if the host's page around that one has both: its place in the host.
    pub(super) fn neighbour(&self, page: Leaf, leaf: Leaf) -> Option<Leaf> {
        let found = self.host.find(leaf.frame)?;
        let first = |frame: u64| frame & !(found.size.base_pages() - 1);
        (first(found.frame.0) == first(page.frame.0)).then_some(Leaf { frame: found.frame, ..leaf })
    }

    /// Adds the host's counts to the rows.
    pub(super) fn rows(&self, rows: &mut Rows) {
        let counts = self.host.counts();
        rows.sum(names::LOOKUPS, counts.lookups);
        rows.sum(names::TLB_HITS, counts.tlb_hits);
        rows.sum(names::WALKS, counts.walks);
        rows.sum(names::REFERENCES, counts.references);
        for (part, hits) in self.host.walk_cache_hits() {
            rows.sum(names::walk_cache_hits(&part), hits);
        }
        rows.sum(names::FAULTS, counts.faults);
        rows.level(names::GIVEN, self.host.given_bytes());
    }
}
