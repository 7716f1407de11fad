//! Controllers of DRAM as managers.

use pagewalk_vm::tier::MissStatusShape;

use super::design::{ControllerSpec, ManagerDesign, ManagerKind};
use crate::spec::memory::TagSpec;
use crate::spec::section::{MILLISECOND_PS, section};

section! {
    /// Controllers that bring pages in and out.
    pub struct HardwareManager {
        sets: u32 = "miss-status-sets" integer(1, 65_536) or "256", "sets of the miss-status row of a controller, a power of two";
        ways: u32 = "miss-status-ways" integer(1, 64) or "8", "its ways";
        queue: u32 = "queue" integer(1, 65_536) or "16", "misses that wait for the backside controller before the frontside controller stalls";
        columns: u32 = "tag-columns" integer(1, 8) or "1", "columns read for a set's tags";
        compare_ps: u64 = "compare" time(MILLISECOND_PS) or "\"1 cycle\"", "comparing tags";
        command_ps: u64 = "backside-command" time(MILLISECOND_PS) or "\"3 cycles\"", "the backside controller's time for each of its commands";
    }
    const VARIANT: ManagerKind = "hardware", "controllers with tags in the rows bring pages in and out";
}

impl ManagerDesign for HardwareManager {
    fn controllers(&self) -> ControllerSpec {
        ControllerSpec {
            miss_status: MissStatusShape { sets: self.sets, ways: self.ways },
            queue: self.queue,
            tags: TagSpec { columns: self.columns, compare_ps: self.compare_ps },
        }
    }

    fn command_ps(&self) -> u64 {
        self.command_ps
    }
}
