//! What the kernel writes on a core whose caches hear of it.

use pagewalk_vm::addr::PhysAddr;

use super::IntervalClock;
use crate::time::MemoryReference;
use crate::time::cache::LINE_SHIFT;

impl IntervalClock {
    /// Returns when a core has the lines to which the kernel writes so many bytes, from `now_ps` on. Nothing else is in flight, and the stores
    /// depend on nothing: each goes out once there is a register for its miss.
    pub(super) fn written_ps(&mut self, core: usize, (to, bytes): (PhysAddr, u64), now_ps: u64) -> u64 {
        let (first, end) = (to.0 >> LINE_SHIFT, (to.0 + bytes).div_ceil(1 << LINE_SHIFT));
        let Self { memory, cores, .. } = self;
        if memory.tier().is_some() {
            // A page that comes from flash wakes the core that asked for it, and no core waits for these stores.
            return now_ps;
        }
        let registers = &mut cores[core].registers;
        let mut done_ps = now_ps;
        for line in first..end {
            let at_ps = now_ps.max(registers.next_free_ps());
            let addr = PhysAddr(line << LINE_SHIFT);
            let Ok((level, latency_ps)) = memory.access(core, addr, MemoryReference::KernelStore, at_ps)
            else {
                break;
            };
            if level > 0 {
                let start_ps = registers.take(now_ps, |start_ps| start_ps + latency_ps);
                done_ps = done_ps.max(start_ps + latency_ps);
            }
        }
        done_ps
    }
}
