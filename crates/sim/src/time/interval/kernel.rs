//! What the kernel writes on a core whose caches hear of it.

use pagewalk_vm::addr::PhysAddr;

use super::IntervalClock;
use crate::time::MemoryReference;
use crate::time::cache::LINE_SHIFT;

impl IntervalClock {
    /// Returns when memory has handed over the lines to which the kernel writes so many bytes on a core, from `now_ps` on. The core knows
    /// that it writes whole lines, one behind the other: it asks for all of them at once, and goes on while the last are on their way.
    pub(super) fn written_ps(&mut self, core: usize, (to, bytes): (PhysAddr, u64), now_ps: u64) -> u64 {
        let (first, end) = (to.0 >> LINE_SHIFT, (to.0 + bytes).div_ceil(1 << LINE_SHIFT));
        let memory = &mut self.memory;
        if memory.tier().is_some() {
            // A page that comes from flash wakes the core that asked for it, and no core waits for these stores.
            return now_ps;
        }
        let mut queued_ps = 0;
        for line in first..end {
            let addr = PhysAddr(line << LINE_SHIFT);
            let Ok((level, latency_ps)) = memory.access(core, addr, MemoryReference::KernelStore, now_ps)
            else {
                break;
            };
            queued_ps = memory.queued_ps(level, latency_ps).max(queued_ps);
        }
        now_ps + queued_ps
    }
}
