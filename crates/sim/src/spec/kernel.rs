//! What the kernel of a machine file does with huge pages, and what its steps cost.

use pagewalk_vm::addr::PageSize;

use super::section::{Resolver, STEP_PS, Table, Words, section};

/// Huge pages for anonymous memory: transparent ones as in `/sys/kernel/mm/transparent_hugepage/enabled`, or explicit ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePagePolicy {
    /// No memory gets huge pages but what asks for explicit ones.
    Never,
    /// Only where the program advised it.
    Madvise,
    /// Wherever an aligned 2 MiB range of a mapping is untouched, unless the program advised against it.
    Always,
    /// All private anonymous memory, in explicit pages of this size.
    Explicit(PageSize),
}

impl From<HugePagePolicy> for pagewalk_vm::space::HugePagePolicy {
    fn from(policy: HugePagePolicy) -> Self {
        match policy {
            HugePagePolicy::Never => Self::Never,
            HugePagePolicy::Madvise => Self::Madvise,
            HugePagePolicy::Always => Self::Always,
            HugePagePolicy::Explicit(size) => Self::Explicit(size),
        }
    }
}

static TRANSPARENT: Words<HugePagePolicy> = Words(&[
    ("never", HugePagePolicy::Never, "no huge pages"),
    ("madvise", HugePagePolicy::Madvise, "where the program advised them"),
    ("always", HugePagePolicy::Always, "wherever an aligned range is untouched"),
]);

static EXPLICIT: Words<Option<PageSize>> = Words(&[
    ("none", None, "only what the program maps with `MAP_HUGETLB`"),
    ("2MiB", Some(PageSize::Size2M), "all of it, in pages of 2 MiB"),
    ("1GiB", Some(PageSize::Size1G), "all of it, in pages of 1 GiB"),
]);

section! {
    /// Huge pages.
    pub(super) fn huge_pages(table, resolver) -> HugePagePolicy;
    pub(super) const HUGE_PAGES {
        transparent = "transparent" word(&TRANSPARENT) or "\"never\"", "transparent huge pages, as in /sys/kernel/mm/transparent_hugepage/enabled";
        explicit = "explicit" word(&EXPLICIT) or "\"none\"", "private anonymous memory in explicit huge pages, as hugetlbfs has them: the first touch takes a whole one";
    }
    {
        match (transparent?, explicit?) {
            (transparent, None) => Some(transparent),
            (HugePagePolicy::Never, Some(size)) => Some(HugePagePolicy::Explicit(size)),
            _ => {
                let message = "huge pages: no memory is left for transparent ones, because all of it is in explicit ones";
                let help = "write transparent = \"never\", or explicit = \"none\"";
                resolver.refuse(message, help, table, &["transparent", "explicit"])
            }
        }
    }
}

/// The price of finding and zeroing contiguous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationSpec {
    /// The time to zero it.
    Zeroing,
    /// As published for a memory of fragmentation index 0.7.
    Fragmented,
}

static ALLOCATIONS: Words<AllocationSpec> = Words(&[
    ("zeroing", AllocationSpec::Zeroing, "zeroing it"),
    ("fragmented", AllocationSpec::Fragmented, "as measured in fragmented memory"),
]);
/// Whether daemons take the time of the program's core.
static DAEMONS: Words<bool> =
    Words(&[("beside", false, "on a core of their own"), ("between", true, "on the program's core")]);

/// Whether a page that was loaded from first faults again at its first store.
static FIRST_STORES: Words<bool> = Words(&[
    ("free", false, "none"),
    ("fault", true, "another fault, as on Linux, where such a page shows zeroes that all have in common"),
]);

/// What caches hear of the kernel's writes to pages.
static WRITES: Words<bool> = Words(&[
    ("unseen", false, "nothing"),
    (
        "cached",
        true,
        "all of it, as of stores: the core waits for lines that memory gives, and finds them in its caches afterwards",
    ),
]);

section! {
    /// Kernel costs, charged serially to the faulting core.
    pub struct KernelSpec {
        minor_fault_ps: u64 = "minor-fault" time(STEP_PS) or "\"500 ns\"", "a minor fault without zeroing its frame";
        zero_page_ps: u64 = "zero-page" time(STEP_PS) or "\"100 ns\"", "zeroing 4 KiB";
        zero_huge_page_ps: u64 = "zero-huge-page" time(STEP_PS) or "\"100 us\"", "zeroing 2 MiB; 1 GiB is 512 of them";
        copy_page_ps: u64 = "copy-page" time(STEP_PS) or "\"0 ns\"", "reading 4 KiB for a copy in another page, which takes zero-page besides";
        file_fault_ps: Option<u64> = "file-fault" maybe_time(STEP_PS), "a fault for a page of a file that is not copied; without it, minor-fault and zero-page";
        fault_around_bytes: u64 = "fault-around" bytes(4_096, 2 << 20) or "\"4KiB\"", "what a load's fault for a page of a file enters around it, an aligned power of two: Linux has 64KiB";
        first_stores_fault: bool = "first-stores" word(&FIRST_STORES) or "\"free\"", "what the first store to a page of private memory takes, if a load came before it";
        writes_are_cached: bool = "writes" word(&WRITES) or "\"unseen\"", "what caches hear of zeroing and copying pages, and of what system calls write, which then takes zero-page for each 4 KiB";
        unmap_page_ps: u64 = "unmap-page" time(STEP_PS) or "\"0 ns\"", "taking a page of less than 2 MiB out of an address space, by munmap or at the end of a process";
        unmap_huge_page_ps: u64 = "unmap-huge-page" time(STEP_PS) or "\"0 ns\"", "the same of a page of 2 MiB; 1 GiB is 512 of them";
        change_mapping_ps: u64 = "change-mapping" time(STEP_PS) or "\"0 ns\"", "a call that maps, unmaps, moves or protects an area or moves the break, beside its system call, pages and shootdowns";
        shootdown_ps: u64 = "shootdown" time(STEP_PS) or "\"2 us\"", "a TLB shootdown on unmap, protect or remap of resident pages";
        system_call_ps: u64 = "system-call" time(STEP_PS) or "\"100 ns\"", "an instruction that the kernel or microcode executes (with `core.dataflow`, where the source says which blocks are executed)";
        allocation: AllocationSpec = "allocation" word(&ALLOCATIONS) or "\"zeroing\"",
            "memory for page tables costs zero-page for each 4 KiB, or what was measured at a fragmentation index of 0.7: 2 us \
             for 4 KiB, 375 us for 1 MiB, 60 ms for 64 MiB";
        paging: FaultSteps = "" group(FaultSteps), "the steps of a fault for a page that has left";
        daemons_share_core: bool = "daemons" word(&DAEMONS) or "\"beside\"", "whether daemons run on a core of their own, or take the time of the program's";
        visit_line_ps: u64 = "visit-line" time(STEP_PS) or "\"10 ns\"", "looking at a slot of a hashed table that is resized";
        move_line_ps: u64 = "move-line" time(STEP_PS) or "\"100 ns\"", "taking a line of a hashed table to another slot";
    }
}

/// Faults enter aligned powers of two of bytes.
pub(super) fn check_fault_around(table: &Table, resolver: &mut Resolver<'_>) -> Option<()> {
    let bytes = table.bytes("fault-around")?;
    if !bytes.is_power_of_two() {
        let message = format!("kernel: faults enter {bytes} bytes, which is no power of two");
        return resolver.refuse(message, "Linux enters 64KiB", table, &["fault-around"]);
    }
    Some(())
}

impl KernelSpec {
    /// Returns the time to copy a page.
    pub(crate) fn copy_ps(&self, size: PageSize) -> u64 {
        self.zero_ps(size) + size.base_pages() * self.copy_page_ps
    }

    /// Returns the time to zero a page.
    pub(crate) fn zero_ps(&self, size: PageSize) -> u64 {
        match size < PageSize::Size2M {
            true => size.base_pages() * self.zero_page_ps,
            false => size.bytes() / PageSize::Size2M.bytes() * self.zero_huge_page_ps,
        }
    }

    /// Returns the time to take a page out of an address space.
    pub(crate) fn unmap_ps(&self, size: PageSize) -> u64 {
        match size < PageSize::Size2M {
            true => self.unmap_page_ps,
            false => size.bytes() / PageSize::Size2M.bytes() * self.unmap_huge_page_ps,
        }
    }
}

section! {
    /// The steps of a fault for a page that has left, and of another page's leaving.
    pub struct FaultSteps {
        trap_ps: u64 = "trap" time(STEP_PS) or "\"200 ns\"", "into the kernel for a page that has left, and back";
        find_ps: u64 = "find" time(STEP_PS) or "\"300 ns\"", "its mapping, its entry and the swap cache";
        allocate_ps: u64 = "allocate" time(STEP_PS) or "\"400 ns\"", "a frame for it";
        request_ps: u64 = "request" time(STEP_PS) or "\"300 ns\"", "asking the device for it, or handing it one";
        enter_ps: u64 = "enter" time(STEP_PS) or "\"300 ns\"", "its entry, and the TLB";
        book_ps: u64 = "book" time(STEP_PS) or "\"500 ns\"", "lists of pages, accounting, reverse mapping";
        evict_ps: u64 = "evict" time(STEP_PS) or "\"1 us\"", "choosing a page that leaves, its entry, and the shootdown";
        switch_ps: u64 = "switch" time(STEP_PS) or "\"1 us\"", "to another thread, where one sleeps until a device is done";
    }
}
