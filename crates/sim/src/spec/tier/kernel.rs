//! The kernel as the manager.

use pagewalk_vm::tier::MissStatusShape;

use super::design::{ControllerSpec, ManagerDesign, ManagerKind};
use crate::spec::memory::TagSpec;
use crate::spec::section::{MILLISECOND_PS, section};

section! {
    /// A kernel that brings pages in and out by page faults.
    pub struct KernelManager {
        interrupt_ps: u64 = "interrupt" time(MILLISECOND_PS) or "\"200 ns\"", "what a TLB shootdown takes of every other core";
    }
    const VARIANT: ManagerKind =
        "kernel", "the kernel does, by page faults; [kernel] has what its steps cost";
}

impl ManagerDesign for KernelManager {
    fn controllers(&self) -> ControllerSpec {
        // The kernel's lists have no limits that matter.
        let miss_status = MissStatusShape { sets: 4_096, ways: 32 };
        ControllerSpec { miss_status, queue: 1 << 16, tags: TagSpec::default() }
    }

    fn kernel_interrupt_ps(&self) -> Option<u64> {
        Some(self.interrupt_ps)
    }
}
