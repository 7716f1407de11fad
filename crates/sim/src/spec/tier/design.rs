//! What a manager of tiered memory says of itself.

use pagewalk_vm::tier::MissStatusShape;

use crate::spec::design::{Design, Settings, from_settings};
use crate::spec::memory::TagSpec;

/// The manager that brings pages in and out.
pub type ManagerKind = Design<dyn ManagerDesign>;

/// The limits of the controllers of DRAM under a manager.
#[derive(Clone, Debug)]
pub struct ControllerSpec {
    /// The pages that may be on their way at once.
    pub miss_status: MissStatusShape,
    /// The misses that may wait for the backside controller.
    pub queue: u32,
    /// The tags in the rows of DRAM.
    pub tags: TagSpec,
}

/// A manager that brings pages in and out: the controllers of DRAM, or the kernel.
pub trait ManagerDesign: Settings {
    /// Returns the limits of each controller.
    fn controllers(&self) -> ControllerSpec;

    /// Returns the time of a backside controller for each of its commands.
    fn command_ps(&self) -> u64 {
        0
    }

    /// Returns the time that a TLB shootdown takes of every other core, if the kernel brings pages in and out by page faults;
    /// none if the controllers do.
    fn kernel_interrupt_ps(&self) -> Option<u64> {
        None
    }
}

from_settings!(ManagerDesign);
