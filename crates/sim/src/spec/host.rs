//! The host of a guest.

use pagewalk_vm::addr::{PAGE_BYTES, PageSize, Pfn};
use pagewalk_vm::table::{Geometry, Giving, HostDesign, Levels, RadixHost, X86_64};

use super::frames::FrameKind;
use super::kernel::KernelSpec;
use super::section::{STEP_PS, Table, Words, section};
use super::settings::TableKind;
use crate::mmu::Below;

/// The settings of the host of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Levels of the host's radix tree.
    pub levels: u32,
    /// The pages that the host gives to the guest.
    pub pages: PageSize,
    /// When the host gives them.
    pub giving: Giving,
    /// The time of an exit to the host and back for a page that it has not given yet, without zeroing it.
    pub fault_ps: u64,
    /// Entries of the TLB for guest-physical pages, fully associative; 0 for none.
    pub tlb_entries: u32,
    /// Entries of the walk caches by level, root first and fully associative; none for no walk caches.
    pub walk_cache: Option<Vec<u32>>,
}

static PAGES: Words<PageSize> = Words(&[
    ("4KiB", PageSize::Size4K, "base pages"),
    ("2MiB", PageSize::Size2M, "huge pages"),
    ("1GiB", PageSize::Size1G, "giant pages"),
]);

static GIVING: Words<Giving> = Words(&[
    ("at-first-touch", Giving::AtFirstTouch, "when the guest first touches them, in that order"),
    (
        "before",
        Giving::Before,
        "before the program began, from anywhere in the host's memory: an exit is never needed",
    ),
]);

section! {
    /// The host, whose tables the guest's walks can go through.
    pub(super) fn host(
        table, resolver, tree: &Table, guests: Option<&TableKind>, frames: Option<&FrameKind>
    ) -> HostSpec;
    pub(super) const HOST {
        levels = "levels" integer(3, 5) or "4", "levels of the host's radix tree";
        pages = "pages" word(&PAGES) or "\"4KiB\"", "pages that the host gives to the guest";
        giving = "given" word(&GIVING) or "\"at-first-touch\"", "when the host gives its pages";
        fault_ps = "fault" time(STEP_PS) or "\"2 us\"", "an exit to the host and back for a page that it has not given yet, without zeroing it";
        tlb_entries = "tlb" integer(0, 4_096) or "0", "entries of the TLB from guest-physical to host-physical pages, fully associative; 0 for none";
        walk_cache = "walk-cache" integers(4_096, 8) or "[0]", "entries per level of the host's table but the last, root first, 0 to leave one out; one number for all; [0] for none";
    }
    {
        let (levels, guests, frames) = (levels?, guests?, frames?);
        if !guests.can_be_guests() {
            let message = "a host's table lies below a guest's, and walks of this machine's table cannot go through it";
            return resolver.refuse_section(table, message, "write [table.radix], or leave this section out");
        }
        if frames.hash_placed().is_some() {
            let message = "the host chooses a guest's frames, and this guest places its pages by hashing";
            return resolver.refuse_section(table, message, "write [frames.buddy], or leave this section out");
        }
        for (name, what) in [("reclaim", "pages that leave memory"), ("tier", "DRAM that is a cache over flash")] {
            if tree.get(name).is_some() {
                let message = format!("a guest with {what} is not modelled");
                let help = format!("leave [{name}] out, or this section");
                return resolver.refuse_section(table, message, help);
            }
        }
        let (pages, base) = (pages?, guests.granule().base());
        if pages < base {
            let message = format!("the host's pages of {pages} are smaller than the guest's base pages of {base}");
            return resolver.refuse_section(table, message, "write pages = \"2MiB\"");
        }
        let reach_bytes = X86_64::end(Levels(levels)).0 * PAGE_BYTES;
        if frames.memory_bytes() > reach_bytes {
            let message = format!("a host's table of {levels} levels maps less than the guest's memory");
            return resolver.refuse(message, "write more levels, or give the guest less memory", table, &["levels"]);
        }
        let wanted = levels as usize - 1;
        let entries = walk_cache?.integers(wanted)?;
        let has_any = entries.iter().any(|entries| *entries > 0);
        if has_any && entries.len() != wanted {
            let message = format!("walk cache: {} levels for a host's table of {levels}", entries.len());
            let help = format!("list {wanted} numbers, root first: every level of the table but the last");
            return resolver.refuse(message, help, table, &["levels", "walk-cache"]);
        }
        Some(HostSpec {
            levels,
            pages,
            giving: giving?,
            fault_ps: fault_ps?,
            tlb_entries: tlb_entries?,
            walk_cache: has_any.then_some(entries),
        })
    }
}

impl HostSpec {
    /// Builds the host of a guest whose page tables have so many levels, and whose memory is `[start, end)`.
    pub(crate) fn build(
        &self,
        cores: usize,
        guest_levels: u32,
        kernel: &KernelSpec,
        (start, end): (Pfn, Pfn),
    ) -> Below {
        let design = HostDesign {
            levels: Levels(self.levels),
            pages: self.pages,
            giving: self.giving,
            tlb_entries: self.tlb_entries,
            walk_cache: self.walk_cache.clone(),
            cores,
            start,
            end,
        };
        let host = RadixHost::<X86_64>::new(&design).expect("the machine file was checked");
        Below::new(Box::new(host), guest_levels, self.fault_ps + kernel.zero_ps(self.pages))
    }
}
