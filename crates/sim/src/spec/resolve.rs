//! The keys of a whole machine file, and the [`MachineSpec`] that their values make: units become numbers, and what must go
//! together is checked.

use std::sync::Arc;

use pagewalk_vm::addr::{Granule, PageSize};

use super::accelerator::{ACCELERATOR, accelerator};
use super::core::{CoreSpec, WALK_CACHE, WalkerSpec, check_core, check_walker, walk_cache};
use super::error::{Diagnostics, SourceFile, either};
use super::fetch::{FETCH, fetch};
use super::files::{FILES, FILES_COMMON, files};
use super::flash::FLASH;
use super::frames::{BuddySpec, FRAMES, FrameKind};
use super::host::{HOST, host};
use super::kernel::{HUGE_PAGES, HugePagePolicy, KernelSpec, check_fault_around, huge_pages};
use super::key::LEVELS;
use super::memory::{CACHE_LEVEL, MESH, MemorySpec, caches, memory, mesh};
use super::persistent::{self, PersistentSpec};
use super::reclaim::{RECLAIM, RECLAIM_COMMON, ReclaimKind, background};
use super::section::{Resolver, Table, section};
use super::settings::{HierarchySpec, MachineSpec, PagingSpec, StorageSpec, TableKind, TranslationSpec};
use super::swap::{SWAP, SWAP_COMMON, swap};
use super::table::TABLES;
use super::threads::{THREADS, threads};
use super::tier::{TIER_COMMON, TIERS, tier};
use super::tlb::{self, TlbLevelSpec};

/// Builds the machine; `file` is the one that the user named.
pub(super) fn machine(tree: &Table, file: &Arc<SourceFile>, errors: &mut Diagnostics) -> Option<MachineSpec> {
    let mut resolver = Resolver { file, cycle_ps: 0, errors };
    let core = tree.table("core").and_then(|table| {
        check_core(table, &mut resolver);
        CoreSpec::resolve(table, &resolver)
    });
    // A broken clock must not hide what is wrong elsewhere.
    resolver.cycle_ps = core.as_ref().map_or(1_000, |core| core.cycle_ps);
    sections(tree, &mut resolver, core)
}

section! {
    fn sections(tree, resolver, core_spec: Option<CoreSpec>) -> MachineSpec;
    pub(super) const FILE {
        name = "name" name(), "the machine's name; not inherited";
        description = "description" line(200) or "\"\"", "one line for lists and reports; not inherited";
        _extends = "extends" maybe_line(200), "a file beside this one or a built-in machine, itself without `extends`: every key not given here is taken from it";
        core_table = "core" always(CoreSpec::KEYS), "the core";
        tlb = "tlb" levels(3, "TLB level", &tlb::LEVEL), "TLB levels, nearest the core first; without any, every access walks";
        prefetch_table = "tlb-prefetch" any_of(tlb::PREFETCH_COMMON, &tlb::PREFETCHERS),
            "a prefetcher of translations for each core: what it guesses at a miss of the last TLB level is walked to in the background, \
             and waits in a buffer beside the TLBs";
        walk_cache_table = "walk-cache" optional(WALK_CACHE), "page-walk caches; without them, every walk starts at the root";
        table = "table" one_of(&[], &TABLES) or "radix", "the page table";
        frames = "frames" one_of(&[], &FRAMES) or "buddy", "the frame allocator";
        reclaim_table = "reclaim" any_of(RECLAIM_COMMON, &RECLAIM), "the policy by which private anonymous 4 KiB pages leave a full memory; without it, the run ends there";
        swap_table = "swap" one_of(SWAP_COMMON, &SWAP) or "block", "the device that pages leave to";
        accelerator_table = "accelerator" optional(ACCELERATOR), "a page-fault accelerator, which brings pages from the device without the kernel; needs [reclaim]";
        huge_pages_table = "huge-pages" always(HUGE_PAGES), "huge pages";
        host_table = "host" optional(HOST), "the host of a guest in a virtual machine, through whose page table each page walk goes; all else in this file is the guest's";
        kernel = "kernel" always(KernelSpec::KEYS), "costs of the kernel, charged to the faulting core (timed runs)";
        cache_levels = "caches" levels(4, "cache level", &CACHE_LEVEL), "data caches with lines of 64 bytes, nearest the core first; the last is shared (timed runs)";
        walker = "walker" always(WalkerSpec::KEYS), "page walkers (timed runs)";
        fetch_table = "fetch" optional(FETCH),
            "instruction fetch, where the source says which blocks of instructions are executed: timed runs with [core.dataflow], and counts \
             with `--fetch`; without it, instructions are there";
        memory_table = "memory" always(MemorySpec::KEYS), "DRAM (timed runs)";
        mesh_table = "mesh" optional(MESH),
            "a mesh of tiles, a core and a slice of the last cache in each, controllers at the corners (timed runs); \
             without it, the way is in the latencies";
        tier_table = "tier" any_of(TIER_COMMON, &TIERS),
            "DRAM as a cache of 4 KiB pages over flash, which is then the memory under [frames]; needs \
             [memory.dram] and [flash] (timed runs)";
        flash = "flash" optional(FLASH), "the flash under the [tier] (timed runs)";
        threads_table = "threads" optional(THREADS),
            "threads that serve jobs, scheduled in user mode on every core: what a workload marks as jobs arrives and is \
             served, and what comes before takes no time (timed runs)";
        persistent = "persistent" optional(PersistentSpec::KEYS), "persistent memory, beside DRAM (operations on files)";
        files_table = "files" any_of(FILES_COMMON, &FILES), "a file system in persistent memory; needs [persistent] and [frames.buddy] (operations on files)";
    }
    {
        let tlb = tlb::levels(tlb, resolver);
        let huge_pages = huge_pages_table.and_then(|table| huge_pages(table, resolver));
        let table = table.and_then(|table| TABLES.resolve(table, resolver));
        check_huge_pages(tree, huge_pages, tlb.as_deref(), table.as_ref(), resolver);
        let arrays = tlb.as_ref().map(|levels| levels.iter().flat_map(TlbLevelSpec::all_arrays).collect());
        let prefetch = optional(prefetch_table, |own| tlb::prefetch(own, resolver, tree, arrays));
        let shape = table.as_ref().map(|table| table.walk_caches());
        let walk_cache = optional(walk_cache_table, |own| walk_cache(own, resolver, tree, shape));
        let frames = frames.and_then(|table| FRAMES.resolve(table, resolver));
        let host = optional(host_table, |own| host(own, resolver, tree, table.as_ref(), frames.as_ref()));
        let reclaim = optional(reclaim_table, |own| RECLAIM.resolve(own, resolver));
        let background_percent = optional(reclaim_table, |own| background(own, resolver)).map(Option::unwrap_or_default);
        let swap = swap_table.and_then(|table| swap(table, resolver));
        let accelerator = optional(accelerator_table, |own| accelerator(own, resolver, tree));
        let policy = reclaim.as_ref().and_then(Option::as_ref);
        check_table(tree, table.as_ref(), frames.as_ref(), huge_pages, resolver);
        check_reclaim(tree, policy, frames.as_ref(), huge_pages, resolver);
        check_threads(tree, table.as_ref(), threads_table, resolver);
        let granule = table.as_ref().map_or(Granule::Size4K, |table| table.granule());
        check_granule(tree, granule, tlb.as_deref(), frames.as_ref(), huge_pages, resolver);
        let kernel = kernel.and_then(|table| {
            check_fault_around(table, resolver)?;
            KernelSpec::resolve(table, resolver)
        });
        let caches = caches(cache_levels, resolver);
        let walker = walker.and_then(|own| {
            check_walker(own, caches.as_ref()?.len(), resolver)?;
            WalkerSpec::resolve(own, resolver)
        });
        let mut memory = memory_table.and_then(|own| memory(own, caches.as_deref()?, resolver));
        let mesh = optional(mesh_table, |own| mesh(own, resolver, core_table, core_spec.as_ref()));
        let threads = optional(threads_table, |own| threads(own, resolver, flash?));
        let tier = optional(tier_table, |own| tier(own, resolver, tree, memory.as_mut(), frames.as_ref()));
        let fetch = optional(fetch_table, |own| fetch(own, resolver, tlb.as_deref(), tier.as_ref()?.as_ref()));
        let persistent = optional(persistent, |own| persistent::memory(own, resolver));
        let maps_files = table.as_ref().is_some_and(|table| table.maps_files());
        let files = optional(files_table, |own| files(own, resolver, tree, maps_files, frames.as_ref()));
        Some(MachineSpec {
            name: name?,
            description: description?,
            core: core_spec?,
            translation: TranslationSpec {
                tlb: tlb?,
                fetch: fetch?,
                prefetch: prefetch?,
                walk_cache: walk_cache?,
                table: table?,
                huge_pages: huge_pages?,
                walker: walker?,
                host: host?,
            },
            paging: PagingSpec {
                frames: frames?,
                reclaim: reclaim?,
                background_percent: background_percent?,
                swap: swap?,
                accelerator: accelerator?,
            },
            kernel: kernel?,
            hierarchy: HierarchySpec { caches: caches?, memory: memory?, mesh: mesh? },
            tier: tier?,
            threads: threads?,
            storage: StorageSpec { persistent: persistent?, files: files? },
        })
    }
}

/// The settings of a section that may be absent. The outer option: whether it could be read.
fn optional<T>(
    section: Option<Option<&Table>>,
    resolve: impl FnOnce(&Table) -> Option<T>,
) -> Option<Option<T>> {
    match section? {
        None => Some(None),
        Some(table) => resolve(table).map(Some),
    }
}

/// Some array holds the huge pages.
fn check_huge_pages(
    tree: &Table,
    policy: Option<HugePagePolicy>,
    tlb: Option<&[TlbLevelSpec]>,
    table: Option<&TableKind>,
    resolver: &mut Resolver<'_>,
) {
    let (Some(policy), Some(levels), Some(section)) = (policy, tlb, tree.table("huge-pages")) else { return };
    let large = table.map_or(Granule::Size4K, |table| table.granule()).large();
    let (size, key, kind) = match policy {
        HugePagePolicy::Never => return,
        HugePagePolicy::Madvise | HugePagePolicy::Always => (large, "transparent", "never"),
        HugePagePolicy::Explicit(size) => (size, "explicit", "none"),
    };
    let mut arrays = levels.iter().flat_map(|level| &level.arrays);
    if !levels.is_empty() && !arrays.any(|array| array.kind.serves(size)) {
        let message = format!("{key} huge pages, but no TLB array holds {size} pages");
        let help = format!("add \"{size}\" to the `pages` of an array, or write {key} = \"{kind}\"");
        resolver.refuse::<()>(message, help, section, &[key]);
    }
}

/// Reports what is wrong with the variant of a section.
fn blame_variant(tree: &Table, section: &str, message: &str, help: &str, resolver: &mut Resolver<'_>) {
    if let Some((_, table)) = tree.table(section).and_then(|section| section.tables().next()) {
        resolver.refuse_section::<()>(table, message, help);
    }
}

/// What takes huge pages off a machine.
const NO_HUGE_PAGES: &str = "write transparent = \"never\" and explicit = \"none\" in [huge-pages]";

/// Tables that name hash-placed frames, and frames that they can name.
fn check_table(
    tree: &Table,
    table: Option<&TableKind>,
    frames: Option<&FrameKind>,
    huge_pages: Option<HugePagePolicy>,
    resolver: &mut Resolver<'_>,
) {
    let (Some(table), Some(frames)) = (table, frames) else { return };
    if !table.names_placed_frames() {
        return;
    }
    let mut blame = |section, message, help| blame_variant(tree, section, message, help, resolver);
    match frames.hash_placed() {
        None => blame(
            "table",
            "tables of contents name hash-placed frames, and this machine has none",
            "write [frames.iceberg], or [table.radix]",
        ),
        Some(shape) if shape.codec().bits() > 8 => blame(
            "frames",
            "a table of contents has 8 bits for a frame's code; these frames need more",
            "take fewer or smaller buckets: 56, 8 and 6 need 7 bits",
        ),
        Some(_) => {}
    }
    if huge_pages.is_some_and(|policy| policy != HugePagePolicy::Never) {
        let help = format!("{NO_HUGE_PAGES}, or [table.radix]");
        blame("table", "tables of contents hold 4 KiB pages only, not huge pages", &help);
    }
}

/// The stacks of the threads stand above all addresses of a program.
fn check_threads(
    tree: &Table,
    table: Option<&TableKind>,
    threads: Option<Option<&Table>>,
    resolver: &mut Resolver<'_>,
) {
    if table.is_some_and(|table| table.program_space().is_some()) && threads.flatten().is_some() {
        let message = "the threads of [threads] have their stacks where this table has no addresses";
        blame_variant(tree, "table", message, "write more `levels`, or leave [threads] out", resolver);
    }
}

/// A granule and what goes with it: TLBs that hold its pages, and, above 4 KiB, no mechanism that is about pages of 4 KiB.
fn check_granule(
    tree: &Table,
    granule: Granule,
    tlb: Option<&[TlbLevelSpec]>,
    frames: Option<&FrameKind>,
    huge_pages: Option<HugePagePolicy>,
    resolver: &mut Resolver<'_>,
) {
    let (base, sizes) = (granule.base(), granule.sizes());
    for (name, level) in LEVELS.iter().zip(tlb.unwrap_or_default()) {
        let holds = |size: &PageSize| level.arrays.iter().any(|array| array.kind.holds(*size));
        let other = PageSize::EVERY.iter().find(|size| holds(size) && !sizes.contains(size));
        let message = match other {
            Some(other) => format!("TLB `{name}` holds {other} pages, and the page table has none"),
            None if !holds(&base) => {
                format!("TLB `{name}` holds no {base} pages, the page table's base pages")
            }
            None => continue,
        };
        let names: Vec<String> = sizes.iter().map(|size| format!("\"{size}\"")).collect();
        let help = format!("`pages` are {} with a granule of {base}", either(&names));
        if let Some(section) = tree.table("tlb").and_then(|levels| levels.table(name)) {
            resolver.refuse_section::<()>(section, message, help);
        }
    }
    if granule == Granule::Size4K {
        return;
    }
    let of_buddy =
        |of: fn(&BuddySpec) -> bool| frames.and_then(|frames| frames.settings::<BuddySpec>()).is_some_and(of);
    let refused = [
        (frames.is_some_and(|of| of.hash_placed().is_some()), "[frames.iceberg]", "write [frames.buddy]"),
        (of_buddy(|of| of.fragmentation > 0), "`fragmentation`", "write fragmentation = 0 in [frames.buddy]"),
        (of_buddy(BuddySpec::is_shared), "`free-blocks`", "write free-blocks = [0] in [frames.buddy]"),
        (tree.table("reclaim").is_some(), "[reclaim]", "write reclaim = \"none\""),
        (tree.table("tier").is_some(), "[tier]", "write tier = \"none\""),
        (tree.table("threads").is_some(), "[threads]", "write threads = \"none\""),
        (
            matches!(huge_pages, Some(HugePagePolicy::Explicit(_))),
            "`explicit`",
            "write explicit = \"none\" in [huge-pages]",
        ),
    ];
    for (is_there, what, help) in refused {
        if is_there {
            let message =
                format!("{what} is about pages of 4KiB, and the base pages of this table are of {base}");
            blame_variant(tree, "table", &message, &format!("{help}, or granule = \"4KiB\""), resolver);
        }
    }
}

/// Policies that choose among the frames that there are, of pages that can leave.
fn check_reclaim(
    tree: &Table,
    policy: Option<&ReclaimKind>,
    frames: Option<&FrameKind>,
    huge_pages: Option<HugePagePolicy>,
    resolver: &mut Resolver<'_>,
) {
    let (Some(policy), Some(frames)) = (policy, frames) else { return };
    let mut blame = |message, help| blame_variant(tree, "reclaim", message, help, resolver);
    let is_placed = frames.hash_placed().is_some();
    match (policy.is_for_hash_placed(), is_placed) {
        (false, true) => blame(
            "this policy chooses among all frames, but a page may have only few of [frames.iceberg]",
            "write [reclaim.horizon-lru] or [reclaim.iceberg-lru], or [frames.buddy]",
        ),
        (true, false) => blame(
            "this policy chooses among the few frames that a page may have, and here it may have any",
            "write [reclaim.lru] or [reclaim.clock], or [frames.iceberg]",
        ),
        _ => {}
    }
    if huge_pages.is_some_and(|policy| policy != HugePagePolicy::Never) {
        blame("only 4 KiB pages can leave, but this machine has huge pages", NO_HUGE_PAGES);
    }
    let section = tree.table("reclaim");
    if let Some(section) = section.filter(|_| is_placed)
        && section.integer("background").is_some_and(|percent| percent > 0)
    {
        let message = "no daemon can keep hash-placed frames free: the page that needs a frame decides which page leaves";
        let help = "write background = 0, or [frames.buddy]";
        resolver.refuse::<()>(message, help, section, &["background"]);
    }
}
