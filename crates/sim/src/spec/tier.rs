//! DRAM as a cache over flash, and threads that serve jobs.

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::sched::{Notification, Policy, Response, SchedulerDesign};
use pagewalk_vm::tier::{MissStatusShape, Partition, Replacement, TierDesign};

use super::flash::{FlashSpec, flash};
use super::frames::FrameKind;
use super::memory::{MemorySpec, TagSpec};
use super::section::{MILLISECOND_PS, Registry, Table, Words, section};

/// DRAM as a cache of pages over flash.
#[derive(Clone, Debug, PartialEq)]
pub struct TierSpec {
    /// The parameters of each controller's share.
    pub design: TierDesign,
    /// Whether page tables are in a part of DRAM of their own.
    pub tables_in_dram: bool,
    /// Whether a core runs another thread while a page is on its way.
    pub switches: bool,
    /// The manager that brings pages in and out.
    pub manager: TierManager,
    /// The flash that pages come from.
    pub flash: FlashSpec,
}

/// The manager that brings pages in and out.
#[derive(Clone, Debug, PartialEq)]
pub enum TierManager {
    /// The controllers bring pages in and out.
    Hardware {
        /// The backside controller's time for each of its commands.
        command_ps: u64,
    },
    /// The kernel, by page faults.
    Kernel {
        /// The time that a TLB shootdown takes of every other core.
        interrupt_ps: u64,
    },
}

/// What a manager brings along.
pub(super) struct Managed {
    manager: TierManager,
    miss_status: MissStatusShape,
    queue: u32,
    tags: TagSpec,
}

/// All managers, in the order of the reference.
pub(super) static TIERS: Registry<Managed> = Registry(&[HARDWARE, KERNEL]);

section! {
    fn hardware(table, resolver) -> Managed;
    const HARDWARE_KEYS {
        sets = "miss-status-sets" integer(1, 65_536) or "256", "sets of the miss-status row of a controller, a power of two";
        ways = "miss-status-ways" integer(1, 64) or "8", "its ways";
        queue = "queue" integer(1, 65_536) or "16", "misses that wait for the backside controller before the frontside controller stalls";
        columns = "tag-columns" integer(1, 8) or "1", "columns read for a set's tags";
        compare_ps = "compare" time(MILLISECOND_PS) or "\"1 cycle\"", "comparing tags";
        command_ps = "backside-command" time(MILLISECOND_PS) or "\"3 cycles\"", "the backside controller's time for each of its commands";
    }
    {
        Some(Managed {
            manager: TierManager::Hardware { command_ps: command_ps? },
            miss_status: MissStatusShape { sets: sets?, ways: ways? },
            queue: queue?,
            tags: TagSpec { columns: columns?, compare_ps: compare_ps? },
        })
    }
    const HARDWARE: Managed = "hardware", "controllers with tags in the rows bring pages in and out";
}

section! {
    fn kernel(table, resolver) -> Managed;
    const KERNEL_KEYS {
        interrupt_ps = "interrupt" time(MILLISECOND_PS) or "\"200 ns\"", "what a TLB shootdown takes of every other core";
    }
    {
        let manager = TierManager::Kernel { interrupt_ps: interrupt_ps? };
        // The kernel's lists have no limits that matter.
        let miss_status = MissStatusShape { sets: 4_096, ways: 32 };
        Some(Managed { manager, miss_status, queue: 1 << 16, tags: TagSpec::default() })
    }
    const KERNEL: Managed = "kernel", "the kernel does, by page faults; [kernel] has what its steps cost";
}

static REPLACEMENTS: Words<Replacement> = Words(&[
    ("lru", Replacement::Lru, "the least recently used"),
    ("nru", Replacement::Nru, "one whose reference bit is clear"),
]);
/// Whether page tables are in a part of DRAM of their own.
static TABLE_PLACES: Words<bool> =
    Words(&[("dram", true, "a part of DRAM"), ("cache", false, "flash and its cache")]);
/// Whether a core runs another thread while a page is on its way.
static ON_MISS: Words<bool> = Words(&[("switch", true, "run another thread"), ("wait", false, "wait")]);

section! {
    /// The tier, with tags in the rows of its DRAM if its controllers keep them there.
    pub(super) fn tier(table, resolver, tree: &Table, memory: Option<&mut MemorySpec>, frames: Option<&FrameKind>) -> TierSpec;
    pub(super) const TIER_COMMON {
        capacity = "capacity" bytes(1 << 16, 1 << 44), "DRAM for pages; capacity / (controllers * ways * 4KiB) is a power of two";
        ways = "ways" integer(1, 8) or "4", "pages of a set";
        replacement = "replacement" word(&REPLACEMENTS) or "\"lru\"", "the page that leaves a full set";
        tables_in_dram = "page-tables" word(&TABLE_PLACES) or "\"dram\"", "where page tables are: in a part of DRAM of their own, or in flash and its cache like everything else";
        switches = "on-miss" word(&ON_MISS) or "\"switch\"", "what a core does while a page is on its way: run another thread (needs [threads]), or wait";
        evict_buffer = "evict-buffer" integer(1, 65_536) or "32", "pages of a controller on their way to flash";
    }
    {
        let managed = TIERS.resolve(table, resolver);
        let Some(flash_table) = tree.section("flash")? else {
            return resolver.refuse_section(table, "a tier of DRAM needs flash behind it", "write a [flash] section");
        };
        let Some(dram) = memory.and_then(|memory| memory.dram.as_mut()) else {
            let message = "a tier needs DRAM with controllers";
            return resolver.refuse_section(table, message, "write a [memory.dram] section");
        };
        let Some(frames) = frames.filter(|frames| frames.hash_placed().is_none()) else {
            let message = "pages of flash are placed by the buddy allocator only";
            return resolver.refuse_section(table, message, "write [frames.buddy]");
        };
        for (name, why) in
            [("reclaim", "pages leave for flash by themselves"), ("accelerator", "the tier fetches pages")]
        {
            if tree.get(name).is_some() {
                let message = format!("a tier does not go with [{name}]: {why}");
                return resolver.refuse_section(table, message, format!("write {name} = \"none\""));
            }
        }
        let switches = switches?;
        if switches && tree.section("threads")?.is_none() {
            let help = "write a [threads] section, or on-miss = \"wait\"";
            return resolver.refuse_section(table, "there is no other thread to run on a miss", help);
        }
        let flash = flash(flash_table, resolver, frames.memory_bytes())?;
        let (ways, capacity, controllers) = (ways?, capacity?, dram.channels);
        let sets = capacity / PAGE_BYTES / u64::from(controllers) / u64::from(ways);
        let whole = sets * u64::from(ways) * u64::from(controllers) * PAGE_BYTES == capacity;
        if !whole || !sets.is_power_of_two() {
            let message =
                format!("tier: {sets} sets of {ways} pages for each of {controllers} controllers are no power of two");
            let help = "capacity / (controllers * ways * 4KiB) is the number of sets";
            return resolver.refuse(message, help, table, &["capacity", "ways"]);
        }
        let Managed { manager, miss_status, queue, tags } = managed?;
        dram.tags = tags;
        let design = TierDesign {
            sets: u32::try_from(sets).ok()?,
            ways,
            index_shift: controllers.trailing_zeros(),
            replacement: replacement?,
            miss_status,
            evict_buffer: evict_buffer?,
            queue,
            partition: Partition::default(),
        };
        if let Err(wrong) = design.check() {
            return resolver.refuse_section(table, wrong.to_string(), "choose a value that is allowed");
        }
        let tables_in_dram = tables_in_dram? || matches!(manager, TierManager::Kernel { .. });
        Some(TierSpec { design, tables_in_dram, switches, manager, flash })
    }
}

/// Threads that serve jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadsSpec {
    /// The number of threads of each core.
    pub per_core: u32,
    /// The parameters of each core's scheduler.
    pub design: SchedulerDesign,
    /// From a thread to another.
    pub switch_ps: u64,
    /// Refilling the pipeline after a miss.
    pub flush_ps: u64,
}

static SCHEDULES: Words<Policy> = Words(&[
    ("priority", Policy::Priority, "before new jobs, after every job"),
    ("fifo", Policy::Fifo, "after a miss only"),
]);
static NOTICES: Words<Notification> = Words(&[
    ("arrival", Notification::Arrival, "when its page is there"),
    ("age", Notification::Age, "after the average time of flash"),
]);

section! {
    /// The threads.
    pub(super) fn threads(table, resolver, flash: Option<&Table>) -> ThreadsSpec;
    pub(super) const THREADS {
        per_core = "per-core" integer(1, 4_096) or "48", "threads of a core";
        policy = "schedule" word(&SCHEDULES) or "\"priority\"", "whether a job whose page is there comes before new ones after every job, or only after a miss";
        notification = "notice" word(&NOTICES) or "\"arrival\"", "when a waiting job may go on: when its page is there, or after the average time of flash";
        switch_ps = "switch" time(MILLISECOND_PS) or "\"100 ns\"", "from a thread to another";
        flush_ps = "flush" time(MILLISECOND_PS) or "\"32 cycles\"", "refilling the pipeline after a miss: window / width";
        new_capacity = "queue" integer(1, 1 << 24) or "1000000", "jobs that wait for a core to begin with them; beyond, they are refused";
    }
    {
        let per_core = per_core?;
        // Where the average begins: what the device says of itself.
        let start = match flash {
            Some(flash) => resolver.time(flash, "read")?.max(1),
            None => 50_000_000,
        };
        Some(ThreadsSpec {
            per_core,
            design: SchedulerDesign {
                new_capacity: new_capacity?,
                pending_capacity: per_core - 1,
                policy: policy?,
                notification: notification?,
                response: Response::Measured { start },
            },
            switch_ps: switch_ps?,
            flush_ps: flush_ps?,
        })
    }
}
