//! The state that the kernel of a machine keeps.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use pagewalk_trace::{ObjectId, ProcessId};
use pagewalk_vm::addr::Asid;
use pagewalk_vm::reclaim::PagePool;
use pagewalk_vm::space::AddressSpace;
use pagewalk_vm::table::Upkeep;

use super::accelerator::Accelerated;
use super::counts::KernelCounts;
use super::page_tables::TableShape;
use super::swap::Swap;
use super::tables::TableSpace;
use crate::spec::settings::MachineSpec;
use crate::time::EventQueue;

/// The state of a machine's kernel, but for the page tables of its processes.
pub(crate) struct State {
    pub(crate) spec: Arc<MachineSpec>,
    /// Whether work takes time.
    pub(super) is_timed: bool,
    pub(crate) processes: Processes,
    pub(crate) table_space: TableSpace,
    pub(crate) frames: PagePool,
    pub(crate) swap: Swap,
    pub(super) accelerator: Option<Accelerated>,
    /// The actions of daemons, in order of time.
    pub(super) due: EventQueue<Due>,
    /// Whether the reclaim daemon is letting pages leave.
    pub(super) is_reclaiming: bool,
    pub(crate) counts: KernelCounts,
}

impl State {
    /// Returns what all page tables have in common.
    #[inline]
    pub(super) fn shape(&self) -> TableShape {
        self.table_space.shape
    }
}

/// The action of a daemon when its time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// The reclaim daemon lets the next page leave.
    Reclaim,
    /// The accelerator's daemon wakes up.
    AcceleratorDaemon,
}

/// The processes, and what new ones are made of.
pub(crate) struct Processes {
    pub(super) list: Vec<Process>,
    pub(super) seed: u64,
    /// Whether the source announces the mappings of its processes.
    pub(super) announces_mappings: bool,
    /// The number of pieces of shared memory so far whose sources do not tell which they are.
    objects: u64,
}

/// A process: its address space, as the kernel sees it.
pub(crate) struct Process {
    pub(super) id: ProcessId,
    pub(crate) asid: Asid,
    pub(super) space: AddressSpace,
    /// The part of the table's upkeep that was charged.
    pub(super) paid: Upkeep,
}

impl Processes {
    pub(super) fn new(seed: u64, announces_mappings: bool) -> Self {
        Self { list: Vec::new(), seed, announces_mappings, objects: 0 }
    }

    /// Returns the place of the process with an address-space identifier that a page in memory names.
    pub(super) fn of(&self, asid: Asid) -> usize {
        self.find(asid).expect("a page in memory has a process")
    }

    /// Returns the place of the process with an address-space identifier.
    pub(super) fn find(&self, asid: Asid) -> Option<usize> {
        self.list.iter().position(|process| process.asid == asid)
    }

    /// Returns the number of processes.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns an object that no mapping shows yet.
    pub(super) fn new_object(&mut self) -> ObjectId {
        const OWN: u64 = 1 << 63;
        self.objects += 1;
        ObjectId(OWN | (self.objects - 1))
    }
}

impl Index<usize> for Processes {
    type Output = Process;

    #[inline(always)]
    fn index(&self, at: usize) -> &Process {
        &self.list[at]
    }
}

impl IndexMut<usize> for Processes {
    #[inline(always)]
    fn index_mut(&mut self, at: usize) -> &mut Process {
        &mut self.list[at]
    }
}
