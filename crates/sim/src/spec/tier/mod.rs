//! DRAM as a cache over flash, and the managers that bring pages in and out.

mod design;
mod hardware;
mod kernel;

pub use design::{ControllerSpec, ManagerDesign, ManagerKind};
pub use hardware::HardwareManager;
pub use kernel::KernelManager;

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::tier::{Partition, Replacement, TierDesign};

use super::flash::{FlashSpec, flash};
use super::frames::FrameKind;
use super::memory::MemorySpec;
use super::section::{Table, Words, section};
use super::variant::Registry;

/// All managers: a new one is a file with its keys and its design, and a row here.
pub(super) static TIERS: Registry<ManagerKind> = Registry(&[
    // In the order of the reference.
    hardware::VARIANT,
    kernel::VARIANT,
]);

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
    pub manager: ManagerKind,
    /// The flash that pages come from.
    pub flash: FlashSpec,
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
        let manager = TIERS.resolve(table, resolver);
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
        let manager = manager?;
        let ControllerSpec { miss_status, queue, tags } = manager.controllers();
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
        let tables_in_dram = tables_in_dram? || manager.kernel_interrupt_ps().is_some();
        Some(TierSpec { design, tables_in_dram, switches, manager, flash })
    }
}
