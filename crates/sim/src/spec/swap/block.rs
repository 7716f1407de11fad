//! Disks.

use pagewalk_vm::addr::PAGE_BYTES;

use super::design::{SwapDesign, SwapKind};
use crate::spec::quantity::SECOND_PS;
use crate::spec::section::{STEP_PS, section};
use crate::time::device::block::{BlockDevice, BlockSpec};
use crate::time::device::store::BackingStore;

section! {
    fn resolve(table, resolver) -> BlockSpec;
    const KEYS {
        latency_ps = "latency" time(STEP_PS) or "\"80 us\"", "from a request to its first byte (timed runs)";
        bytes_a_second = "bandwidth" bytes(1 << 20, 1 << 50) or "\"3GiB\"", "bytes a second, reads and writes together (timed runs)";
        queue = "queue" integer(1, 65_536) or "32", "requests under way at once (timed runs)";
    }
    {
        let page_ps = PAGE_BYTES * SECOND_PS / bytes_a_second?;
        Some(BlockSpec { latency_ps: latency_ps?, page_ps, queue: queue? })
    }
    const VARIANT: SwapKind =
        "block", "a disk, that the faulting thread waits for asleep; 8 pages of read-ahead are usual";
}

impl SwapDesign for BlockSpec {
    fn build(&self) -> Box<dyn BackingStore> {
        Box::new(BlockDevice::new(self))
    }
}
