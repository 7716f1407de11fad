//! Every key of a machine file: one row each, with its kind, limits, default and meaning.
//!
//! The reader, the merge of `extends`, the defaults, `show` and the reference in `machines/README.md` all walk
//! these rows; a new key is a row here and its use in `resolve`; the words of a key are a table of
//! [`Words`] beside it.

mod persistent;
mod server;

pub(super) use persistent::FILE_PAGES;
use persistent::{FILES, FILES_COMMON, PERSISTENT};
pub(super) use server::{
    COLLECTIONS, DISTRIBUTIONS, NOTICES, ON_MISS, SCHEDULES, TABLE_PLACES, TIER_REPLACEMENTS, WEAR,
};
use server::{DRAM, FLASH, MESH, THREADS, TIER_COMMON, TIERS};

use super::settings::{AllocationSpec, HashKind, HugePagePolicy, Replacement};
use super::tlb;
use super::variant::Choices;
use super::words::{WordList, Words};
use pagewalk_vm::addr::PageSize;
use pagewalk_vm::frame::BackRanges;
use pagewalk_vm::table::cuckoo::{FirstWay, Scope};

/// What stands behind a key.
pub(super) enum Shape {
    /// A single value.
    Value(Kind),
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table with common keys and exactly one of the variants, each an own table; in a file
    /// `[common.variant]`. The default applies when the whole table is left out.
    Variants { common: &'static [Key], variants: &'static dyn Choices, default: Option<&'static str> },
    /// Tables of one shape under names.
    Named { names: Names, noun: &'static str, each: &'static Shape },
}

/// The names that a [`Shape::Named`] takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// `l1` to `lN`, without gaps.
    Levels(usize),
    /// Free names, at most so many.
    Free(usize),
}

/// What a value is, and its limits.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A whole number.
    Integer { min: u64, max: u64 },
    /// A whole number of ways, or `"full"` for as many as there are entries.
    Ways { max: u64 },
    /// One whole number for all, or a list of them.
    Integers { max: u64, max_count: usize },
    /// A list of sizes, ascending, or `"whole"` for none.
    Sizes { min: u64, max: u64, max_count: usize },
    /// A size with a unit.
    Bytes { min: u64, max: u64 },
    /// A time with a unit.
    Time { max_ps: u64 },
    /// A frequency with a unit.
    Frequency { min_hz: u64, max_hz: u64 },
    /// One of these words.
    Word(&'static dyn WordList),
    /// A list of different words out of these, at least one.
    Words(&'static dyn WordList),
    /// A machine's name.
    Name,
    /// One line of text.
    Line { max_chars: usize },
    /// Text of any number of lines.
    Text { max_chars: usize },
}

/// Whether a key must be there.
#[derive(Clone, Copy)]
pub(super) enum Presence {
    /// The file or its base gives it.
    Required,
    /// Without it, this value, written as in a file.
    Default(&'static str),
    /// Without it, nothing. A table of this presence is a stage that a machine may lack: `"none"` says so.
    Optional,
    /// A table that is always there; its own keys have defaults.
    Always,
    /// One of the variants of its table.
    Variant,
}

/// One key.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) presence: Presence,
    /// What it means, for the reference.
    pub(super) meaning: &'static str,
}

impl Key {
    pub(super) const fn value(
        name: &'static str,
        kind: Kind,
        presence: Presence,
        meaning: &'static str,
    ) -> Self {
        Self { name, shape: Shape::Value(kind), presence, meaning }
    }

    pub(super) const fn table(
        name: &'static str,
        keys: &'static [Key],
        presence: Presence,
        meaning: &'static str,
    ) -> Self {
        Self { name, shape: Shape::Table(keys), presence, meaning }
    }
}

use Presence::{Always, Default, Optional, Required, Variant};

/// A file's size in bytes at most.
pub(super) const MAX_FILE_BYTES: usize = 1 << 20;
/// TLB entries at most.
pub(super) const MAX_ENTRIES: u64 = 1 << 20;
/// Ways at most, unless fully associative.
pub(super) const MAX_WAYS: u64 = 64;
/// Entries of a walk cache's level at most.
const MAX_WALK_CACHE_ENTRIES: u64 = 4_096;
pub(super) const MILLISECOND_PS: u64 = 1_000_000_000;

pub(super) static PAGES: Words<PageSize> = Words(&[
    ("4KiB", PageSize::Size4K, "base pages"),
    ("2MiB", PageSize::Size2M, "huge pages"),
    ("1GiB", PageSize::Size1G, "giant pages"),
]);
pub(super) static REPLACEMENTS: Words<Replacement> = Words(&[
    ("lru", Replacement::Lru, "the least recently used"),
    ("fifo", Replacement::Fifo, "the first that came"),
    ("tree-plru", Replacement::TreePlru, "where a tree of bits points"),
    ("nru", Replacement::Nru, "one whose reference bit is clear"),
    ("random", Replacement::Random, "a random one"),
]);
pub(super) static TRANSPARENT: Words<HugePagePolicy> = Words(&[
    ("never", HugePagePolicy::Never, "no huge pages"),
    ("madvise", HugePagePolicy::Madvise, "where the program advised them"),
    ("always", HugePagePolicy::Always, "wherever an aligned range is untouched"),
]);
/// By word, the number of the cache level.
pub(super) static ENTERS: Words<u32> =
    Words(&[("l1", 1, "first"), ("l2", 2, "second"), ("l3", 3, "third"), ("l4", 4, "fourth")]);
/// The names of levels.
pub(super) const LEVELS: &[&str] = &["l1", "l2", "l3", "l4"];

/// The keys of the whole file.
pub(super) static FILE: &[Key] = &[
    Key::value("name", Kind::Name, Required, "the machine's name; not inherited"),
    Key::value(
        "description",
        Kind::Line { max_chars: 200 },
        Default("\"\""),
        "one line for lists and reports; not inherited",
    ),
    Key::value(
        "extends",
        Kind::Line { max_chars: 200 },
        Optional,
        "a file beside this one or a built-in machine, itself without `extends`: every key not given here is taken from it",
    ),
    Key::table("core", CORE, Always, "the core"),
    Key {
        name: "tlb",
        shape: Shape::Named { names: Names::Levels(3), noun: "TLB level", each: &tlb::LEVEL },
        presence: Optional,
        meaning: "TLB levels, nearest the core first; without any, every access walks",
    },
    Key::table(
        "walk-cache",
        WALK_CACHE,
        Optional,
        "page-walk caches; without them, every walk starts at the root",
    ),
    Key {
        name: "table",
        shape: Shape::Variants { common: &[], variants: &TABLES, default: Some("radix") },
        presence: Always,
        meaning: "the page table",
    },
    Key {
        name: "frames",
        shape: Shape::Variants { common: &[], variants: &FRAMES, default: Some("buddy") },
        presence: Always,
        meaning: "the frame allocator",
    },
    Key {
        name: "reclaim",
        shape: Shape::Variants { common: RECLAIM_COMMON, variants: &RECLAIM, default: None },
        presence: Optional,
        meaning: "who leaves a full memory, among private anonymous 4 KiB pages; without it, the run ends there",
    },
    Key {
        name: "swap",
        shape: Shape::Variants { common: SWAP_COMMON, variants: &SWAP, default: Some("block") },
        presence: Always,
        meaning: "the device that pages leave to",
    },
    Key::table(
        "accelerator",
        ACCELERATOR,
        Optional,
        "a page-fault accelerator, which brings pages from the device without the kernel; needs [reclaim]",
    ),
    Key::table("huge-pages", HUGE_PAGES, Always, "huge pages"),
    Key::table("kernel", KERNEL, Always, "costs of the kernel, charged to the faulting core (timed runs)"),
    Key {
        name: "caches",
        shape: Shape::Named { names: Names::Levels(4), noun: "cache level", each: &CACHE_LEVEL },
        presence: Optional,
        meaning: "data caches with lines of 64 bytes, nearest the core first; the last is shared (timed runs)",
    },
    Key::table("walker", WALKER, Always, "page walkers (timed runs)"),
    Key::table("memory", MEMORY, Always, "DRAM (timed runs)"),
    Key::table(
        "mesh",
        MESH,
        Optional,
        "a mesh of tiles, a core and a slice of the last cache in each, controllers at the corners (timed runs); \
         without it, the way is in the latencies",
    ),
    Key {
        name: "tier",
        shape: Shape::Variants { common: TIER_COMMON, variants: &TIERS, default: None },
        presence: Optional,
        meaning: "DRAM as a cache of 4 KiB pages over flash, which is then the memory under [frames]; needs \
                  [memory.dram] and [flash] (timed runs)",
    },
    Key::table("flash", FLASH, Optional, "the flash under the [tier] (timed runs)"),
    Key::table(
        "threads",
        THREADS,
        Optional,
        "threads that serve jobs, scheduled in user mode on every core: what a workload marks as jobs arrives and is \
         served, and what comes before takes no time (timed runs)",
    ),
    Key::table("persistent", PERSISTENT, Optional, "persistent memory, beside DRAM (operations on files)"),
    Key {
        name: "files",
        shape: Shape::Variants { common: FILES_COMMON, variants: &FILES, default: None },
        presence: Optional,
        meaning: "a file system in persistent memory; needs [persistent] and [frames.buddy] (operations on files)",
    },
];

static CORE: &[Key] = &[
    Key::value(
        "count",
        Kind::Integer { min: 1, max: 256 },
        Default("1"),
        "cores; threads are placed round-robin",
    ),
    Key::value(
        "frequency",
        Kind::Frequency { min_hz: 10_000_000, max_hz: 20_000_000_000 },
        Default("\"3 GHz\""),
        "clock; a cycle is rounded to a whole picosecond",
    ),
    Key::value(
        "width",
        Kind::Integer { min: 1, max: 64 },
        Default("6"),
        "instructions dispatched and retired per cycle",
    ),
    Key::value(
        "window",
        Kind::Integer { min: 1, max: 65_536 },
        Default("512"),
        "reorder-buffer entries, at least `width`",
    ),
    Key::value(
        "outstanding",
        Kind::Integer { min: 1, max: 4_096 },
        Default("16"),
        "outstanding cache misses (MSHRs)",
    ),
];

static WALK_CACHE: &[Key] = &[
    Key::value(
        "entries",
        Kind::Integers { max: MAX_WALK_CACHE_ENTRIES, max_count: 8 },
        Required,
        "entries per level of the table but the last, root first, 0 to leave one out; one number for all; for hashed tables, those of the PUD and of the PMD walk table",
    ),
    Key::value("ways", Kind::Ways { max: MAX_WAYS }, Default("\"full\""), "ways of each level's cache"),
    Key::value(
        "latency",
        Kind::Time { max_ps: MILLISECOND_PS },
        Default("\"0 cycles\""),
        "time of a look-up, all levels in parallel",
    ),
    Key::value(
        "unit",
        Kind::Word(&UNITS),
        Default("\"line\""),
        "for hashed tables: whether an entry is a line of 64 sections or one (16 MiB, 8 GiB)",
    ),
];

static TABLES: &[Key] = &[
    Key::table("radix", RADIX, Variant, "the x86-64 radix tree"),
    Key::table(
        "toc",
        &[],
        Variant,
        "a four-level radix tree whose leaves are tables of contents: two bytes a page, for hash-placed frames",
    ),
    Key::table(
        "hashed",
        HASHED,
        Variant,
        "cuckoo hash tables, one for each page size, of 64-byte lines of eight entries (ECPT, ME-HPT)",
    ),
    Key::table(
        "open-addressing",
        CLASSIC,
        Variant,
        "a hash table with linear probing for each page size, tried one after the other; 8 entries a slot",
    ),
    Key::table(
        "chained",
        CLASSIC,
        Variant,
        "a hash table with chains for each page size, tried one after the other; 4 entries a node",
    ),
];
static CLASSIC: &[Key] = &[
    Key::value(
        "first-slots",
        Kind::Integer { min: 1, max: 1 << 30 },
        Default("512"),
        "slots or buckets at first: a power of two",
    ),
    Key::value(
        "upsize-above",
        Kind::Integer { min: 1, max: 95 },
        Default("60"),
        "percent of slots or buckets with something in them above which the table is rebuilt at twice its size",
    ),
    Key::value(
        "latency",
        Kind::Time { max_ps: MILLISECOND_PS },
        Default("\"2 cycles\""),
        "from a page's number to the first address: the hash (timed runs)",
    ),
];
/// What grows together, given how many ways may at once.
pub(super) static RESIZES: Words<fn(usize) -> Scope> = Words(&[
    ("table", |_| Scope::Table, "all ways together"),
    ("way", |at_once| Scope::Way { at_once }, "a way by itself"),
]);
/// Whether a table of the new size is where the old one is.
pub(super) static NEW_SIZES: Words<bool> =
    Words(&[("elsewhere", false, "another array"), ("in-place", true, "the same array")]);
pub(super) static FIRST_WAYS: Words<FirstWay> = Words(&[
    ("any", FirstWay::Uniform, "each as likely"),
    ("by-free-slots", FirstWay::ByFreeSlots, "in proportion to free slots"),
]);
/// Whether lines are hashed by CRC.
pub(super) static TABLE_HASHES: Words<bool> =
    Words(&[("mixed", false, "by multiplication"), ("crc", true, "by a CRC, as hardware does")]);
/// Whether an entry of a hashed table's walk caches is a section.
pub(super) static UNITS: Words<bool> =
    Words(&[("line", false, "a line of 64 sections"), ("section", true, "one section")]);
pub(super) static ALLOCATIONS: Words<AllocationSpec> = Words(&[
    ("zeroing", AllocationSpec::Zeroing, "zeroing it"),
    ("fragmented", AllocationSpec::Fragmented, "as measured in fragmented memory"),
]);
static HASHED: &[Key] = &[
    Key::value("ways", Kind::Integer { min: 2, max: 4 }, Default("3"), "ways, each with a hash of its own"),
    Key::value(
        "first-slots",
        Kind::Integer { min: 1, max: 1 << 20 },
        Default("128"),
        "lines of a way at first, and the fewest: a power of two",
    ),
    Key::value(
        "resizes",
        Kind::Word(&RESIZES),
        Default("\"way\""),
        "what grows and shrinks: the table, or a way that is no larger than any other",
    ),
    Key::value(
        "at-once",
        Kind::Integer { min: 1, max: 4 },
        Default("1"),
        "ways that may resize at the same time, with `resizes = \"way\"`",
    ),
    Key::value(
        "new-size",
        Kind::Word(&NEW_SIZES),
        Default("\"in-place\""),
        "where a resize puts lines: another array hashed anew, or the same with one bit of the hash more or less",
    ),
    Key::value(
        "first-way",
        Kind::Word(&FIRST_WAYS),
        Default("\"by-free-slots\""),
        "the way that a new line tries first: any, or in proportion to free slots",
    ),
    Key::value(
        "chunks",
        Kind::Sizes { min: 4_096, max: 1 << 30, max_count: 8 },
        Default("[\"8KiB\", \"1MiB\", \"8MiB\", \"64MiB\"]"),
        "sizes of the pieces that a way is made of, powers of two; \"whole\" if it is one piece of any size",
    ),
    Key::value(
        "upsize-above",
        Kind::Integer { min: 1, max: 95 },
        Default("60"),
        "percent of slots in use above which to grow",
    ),
    Key::value(
        "downsize-below",
        Kind::Integer { min: 0, max: 47 },
        Default("20"),
        "percent of slots in use below which to shrink; 0 for never",
    ),
    Key::value(
        "growth",
        Kind::Integer { min: 2, max: 16 },
        Default("2"),
        "how many times larger a table gets",
    ),
    Key::value(
        "steps",
        Kind::Integer { min: 1, max: 64 },
        Default("2"),
        "slots of a resize that every insertion and removal visits; with 1 and doubling, tables fill up",
    ),
    Key::value("hash", Kind::Word(&TABLE_HASHES), Default("\"crc\""), "how lines are hashed"),
    Key::value(
        "latency",
        Kind::Time { max_ps: MILLISECOND_PS },
        Default("\"4 cycles\""),
        "from a page's number to its slots: hash and chunk table, beside the walk caches' look-up (timed runs)",
    ),
];
static RADIX: &[Key] =
    &[Key::value("levels", Kind::Integer { min: 4, max: 5 }, Default("4"), "levels of the tree")];

static FRAMES: &[Key] = &[
    Key::table("buddy", BUDDY, Variant, "the binary buddy allocator"),
    Key::table(
        "iceberg",
        ICEBERG,
        Variant,
        "frames placed by Iceberg hashing for private anonymous 4 KiB pages, and a buddy allocator for all else",
    ),
];
static BUDDY: &[Key] = &[
    Key::value(
        "memory",
        Kind::Bytes { min: 1 << 20, max: 1 << 50 },
        Default("\"64GiB\""),
        "physical memory, a multiple of 4KiB",
    ),
    Key::value(
        "fragmentation",
        Kind::Integer { min: 0, max: 100 },
        Default("0"),
        "percent of free memory in blocks smaller than 2 MiB at the start (FMFI); other programs have the rest of them",
    ),
];

pub(super) static RANGES: Words<BackRanges> = Words(&[
    ("disjoint", BackRanges::Disjoint, "a part of memory for each choice"),
    ("common", BackRanges::Common, "all memory for every choice"),
]);
pub(super) static HASHES: Words<HashKind> = Words(&[
    ("xxh64", HashKind::Xxh64, "with a seed for each member"),
    ("tabulation", HashKind::Tabulation, "with probing"),
    ("low-bits", HashKind::LowBits, "of the page number"),
]);
static ICEBERG: &[Key] = &[
    Key::value(
        "memory",
        Kind::Bytes { min: 1 << 20, max: 1 << 43 },
        Default("\"4GiB\""),
        "hash-placed memory, a multiple of a bucket: (front + back) * 4KiB",
    ),
    Key::value(
        "ordinary",
        Kind::Bytes { min: 1 << 20, max: 1 << 50 },
        Default("\"60GiB\""),
        "the buddy allocator's memory, a multiple of 4KiB",
    ),
    Key::value("front", Kind::Integer { min: 1, max: 255 }, Default("56"), "frames of a bucket's front"),
    Key::value(
        "back",
        Kind::Integer { min: 0, max: 255 },
        Default("8"),
        "frames of a bucket's back; 0 with `choices = 0` for a memory of sets",
    ),
    Key::value(
        "choices",
        Kind::Integer { min: 0, max: 16 },
        Default("6"),
        "back buckets that a page may choose from",
    ),
    Key::value(
        "ranges",
        Kind::Word(&RANGES),
        Default("\"disjoint\""),
        "whether each choice has a part of memory of its own, or all choices lie anywhere",
    ),
    Key::value(
        "hash",
        Kind::Word(&HASHES),
        Default("\"xxh64\""),
        "the family of hash functions; `low-bits` with `choices = 0` takes the set from the page number",
    ),
];

const LIMIT: Key = Key::value(
    "limit",
    Kind::Bytes { min: 1 << 20, max: 1 << 50 },
    Optional,
    "most memory for such pages, as a control group's limit; without it, all of it",
);
static RECLAIM_COMMON: &[Key] = &[Key::value(
    "background",
    Kind::Integer { min: 0, max: 50 },
    Default("0"),
    "percent of memory that a daemon keeps free, as kswapd: it wakes at half of that; 0 for none",
)];
static RECLAIM: &[Key] = &[
    Key::table("lru", &[LIMIT], Variant, "the least recently used of all, exactly; for `frames.buddy`"),
    Key::table("clock", &[LIMIT], Variant, "an active and an inactive list, as in Linux; for `frames.buddy`"),
    Key::table(
        "horizon-lru",
        HORIZON_LRU,
        Variant,
        "the least recently used, as far as a page's few frames allow; for `frames.iceberg`",
    ),
    Key::table("iceberg-lru", ICEBERG_LRU, Variant, "keeps a share of memory ready; for `frames.iceberg`"),
];
/// Whether a daemon guesses the times of use.
pub(super) static TIMES: Words<bool> =
    Words(&[("exact", false, "at each access"), ("daemon", true, "by scans of accessed bits")]);
static HORIZON_LRU: &[Key] = &[
    Key::value(
        "times",
        Kind::Word(&TIMES),
        Default("\"exact\""),
        "whether times of use are exact or guessed by a daemon that scans accessed bits",
    ),
    Key::value(
        "interval",
        Kind::Integer { min: 1_000, max: 1 << 50 },
        Default("100000000"),
        "accesses between two scans of the daemon; they stand for a second",
    ),
];
/// Whether ripe pages leave at once.
pub(super) static VERSIONS: Words<bool> =
    Words(&[("lazy", false, "when their frame is wanted"), ("strict", true, "at once")]);
static ICEBERG_LRU: &[Key] = &[
    Key::value(
        "live",
        Kind::Integer { min: 1, max: 100 },
        Default("87"),
        "percent of memory for pages that must stay; the others are ripe",
    ),
    Key::value(
        "version",
        Kind::Word(&VERSIONS),
        Default("\"lazy\""),
        "whether ripe pages leave when their frame is wanted, or at once",
    ),
];

static SWAP_COMMON: &[Key] = &[
    Key::value("size", Kind::Bytes { min: 4_096, max: 1 << 50 }, Default("\"64GiB\""), "capacity"),
    Key::value(
        "readahead",
        Kind::Integer { min: 1, max: 64 },
        Default("1"),
        "pages that a fault brings, itself included: those whose copies lie in the same aligned run; a power of two",
    ),
];
static SWAP: &[Key] = &[
    Key::table(
        "block",
        BLOCK,
        Variant,
        "a disk, that the faulting thread waits for asleep; 8 pages of read-ahead are usual",
    ),
    Key::table(
        "memory",
        LOCAL_MEMORY,
        Variant,
        "memory of the machine itself: the processor copies pages, or compresses and expands them",
    ),
    Key::table("blade", BLADE, Variant, "memory across a network, that the faulting core waits for awake"),
];
static BLOCK: &[Key] = &[
    Key::value(
        "latency",
        Kind::Time { max_ps: 1_000 * MILLISECOND_PS },
        Default("\"80 us\""),
        "from a request to its first byte (timed runs)",
    ),
    Key::value(
        "bandwidth",
        Kind::Bytes { min: 1 << 20, max: 1 << 50 },
        Default("\"3GiB\""),
        "bytes a second, reads and writes together (timed runs)",
    ),
    Key::value(
        "queue",
        Kind::Integer { min: 1, max: 65_536 },
        Default("32"),
        "requests under way at once (timed runs)",
    ),
];
static LOCAL_MEMORY: &[Key] = &[
    kernel_cost("in", "\"250 ns\"", "bringing a page: copying 4 KiB, or expanding them"),
    kernel_cost("out", "\"250 ns\"", "taking a page away: copying 4 KiB, or compressing them"),
];
/// Whether a page is away only when the blade has said so.
pub(super) static COMPLETIONS: Words<bool> =
    Words(&[("sent", false, "away when sent"), ("acknowledged", true, "away when the blade has said so")]);
static BLADE: &[Key] = &[
    Key::value(
        "link-latency",
        Kind::Time { max_ps: 1_000 * MILLISECOND_PS },
        Default("\"4 us\""),
        "one way, switches included",
    ),
    Key::value(
        "bandwidth",
        Kind::Bytes { min: 1 << 20, max: 1 << 50 },
        Default("\"25000000000B\""),
        "bytes a second, each way",
    ),
    Key::value(
        "payload",
        Kind::Bytes { min: 64, max: 4_096 },
        Default("\"1368B\""),
        "most bytes of a page in a packet",
    ),
    Key::value(
        "header",
        Kind::Bytes { min: 1, max: 256 },
        Default("\"58B\""),
        "bytes of a packet beside: Ethernet with preamble, checksum and gap, and the request's",
    ),
    kernel_cost("service", "\"0 ns\"", "the blade's own time for a request"),
    Key::value(
        "servers",
        Kind::Integer { min: 1, max: 1_024 },
        Default("1"),
        "requests that the blade serves at once",
    ),
    Key::value(
        "complete",
        Kind::Word(&COMPLETIONS),
        Default("\"acknowledged\""),
        "whether a page that leaves is away when it is sent, or when the blade has said so",
    ),
];

static ACCELERATOR: &[Key] = &[
    Key::value("free-queue", QUEUE, Default("64"), "frames that wait for pages, at most"),
    Key::value("new-queue", QUEUE, Default("64"), "pages that came and are not booked, at most"),
    Key::value("evict-queue", QUEUE, Default("64"), "pages on their way out, at most"),
    Key::value(
        "fetches",
        Kind::Integer { min: 1, max: 256 },
        Default("1"),
        "pages on their way in at once, of several cores",
    ),
    Key::value(
        "evicts",
        Kind::Word(&EVICTS),
        Default("\"waiting\""),
        "whether the system waits for a page to be away, or goes on and lets its frame follow",
    ),
    kernel_cost("detect", "\"113 ns\"", "finding out that an entry is remote, and going on afterwards"),
    kernel_cost("request", "\"244 ns\"", "having the network card send a request, and taking its answer"),
    kernel_cost("book", "\"2090 ns\"", "the system's books of a page, many pages at a time"),
    kernel_cost("evict", "\"1 us\"", "choosing a page that leaves and its entry, many pages at a time"),
    Key::table(
        "daemon",
        ACCELERATOR_DAEMON,
        Optional,
        "the daemon that refills and empties the queues in time",
    ),
];
const QUEUE: Kind = Kind::Integer { min: 1, max: 65_536 };
/// Whether evictions are waited for.
pub(super) static EVICTS: Words<bool> =
    Words(&[("waiting", true, "until the page is away"), ("going-on", false, "its frame follows")]);
static ACCELERATOR_DAEMON: &[Key] = &[
    kernel_cost("first", "\"10 ms\"", "how long it sleeps at first"),
    kernel_cost("longer", "\"100 us\"", "how much longer after a run"),
    kernel_cost("shorter", "\"1 ms\"", "how much shorter after a fault that found a queue full or empty"),
    kernel_cost("least", "\"5 ms\"", "how long it sleeps at least"),
    Key::value(
        "most",
        Kind::Time { max_ps: 1_000_000 * MILLISECOND_PS },
        Default("\"100000 ms\""),
        "how long it sleeps at most",
    ),
    kernel_cost("slack", "\"10 ms\"", "how much later it may wake: half of it is taken"),
];

static HUGE_PAGES: &[Key] = &[Key::value(
    "transparent",
    Kind::Word(&TRANSPARENT),
    Default("\"never\""),
    "transparent huge pages, as in /sys/kernel/mm/transparent_hugepage/enabled",
)];

/// Whether daemons take the time of the program's core.
pub(super) static DAEMONS: Words<bool> =
    Words(&[("beside", false, "on a core of their own"), ("between", true, "on the program's core")]);
static KERNEL: &[Key] = &[
    kernel_cost("minor-fault", "\"500 ns\"", "a minor fault without zeroing its frame"),
    kernel_cost("zero-page", "\"100 ns\"", "zeroing 4 KiB"),
    kernel_cost("zero-huge-page", "\"100 us\"", "zeroing 2 MiB; 1 GiB is 512 of them"),
    kernel_cost("shootdown", "\"2 us\"", "a TLB shootdown on unmap, protect or remap of resident pages"),
    Key::value(
        "allocation",
        Kind::Word(&ALLOCATIONS),
        Default("\"zeroing\""),
        "memory for page tables costs zero-page for each 4 KiB, or what was measured at a fragmentation index of 0.7: 2 us \
         for 4 KiB, 375 us for 1 MiB, 60 ms for 64 MiB",
    ),
    kernel_cost("trap", "\"200 ns\"", "into the kernel for a page that has left, and back"),
    kernel_cost("find", "\"300 ns\"", "its mapping, its entry and the swap cache"),
    kernel_cost("allocate", "\"400 ns\"", "a frame for it"),
    kernel_cost("request", "\"300 ns\"", "asking the device for it, or handing it one"),
    kernel_cost("enter", "\"300 ns\"", "its entry, and the TLB"),
    kernel_cost("book", "\"500 ns\"", "lists of pages, accounting, reverse mapping"),
    kernel_cost("evict", "\"1 us\"", "choosing a page that leaves, its entry, and the shootdown"),
    kernel_cost("switch", "\"1 us\"", "to another thread, where one sleeps until a device is done"),
    Key::value(
        "daemons",
        Kind::Word(&DAEMONS),
        Default("\"beside\""),
        "whether daemons run on a core of their own, or take the time of the program's",
    ),
    kernel_cost("visit-line", "\"10 ns\"", "looking at a slot of a hashed table that is resized"),
    kernel_cost("move-line", "\"100 ns\"", "taking a line of a hashed table to another slot"),
];

const fn kernel_cost(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key::value(name, Kind::Time { max_ps: 1_000 * MILLISECOND_PS }, Default(default), meaning)
}

static CACHE_LEVEL: Shape = Shape::Table(&[
    Key::value(
        "size",
        Kind::Bytes { min: 64, max: 1 << 40 },
        Required,
        "capacity; size / (64 B * ways) is a power of two",
    ),
    Key::value("ways", Kind::Integer { min: 1, max: MAX_WAYS }, Required, "ways of a set"),
    Key::value(
        "latency",
        Kind::Time { max_ps: MILLISECOND_PS },
        Required,
        "load-to-use time of a hit, from the core; grows with the level",
    ),
]);

static WALKER: &[Key] = &[
    Key::value("count", Kind::Integer { min: 1, max: 64 }, Default("1"), "walks under way at once, per core"),
    Key::value(
        "enters",
        Kind::Word(&ENTERS),
        Default("\"l1\""),
        "the cache level that a walk's references enter",
    ),
];

static MEMORY: &[Key] = &[
    Key::value(
        "latency",
        Kind::Time { max_ps: MILLISECOND_PS },
        Default("\"90 ns\""),
        "load-to-use time of an access that misses every cache, above the last cache's; with `dram`, without the time there",
    ),
    Key::table("dram", DRAM, Optional, "controllers, banks and rows; without them, DRAM is a latency"),
];

/// The patterns of all tables that hold `name` as a key, in the order of the file: `tlb.lN.mosaic`.
pub(super) fn tables_with_key(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    visit_file(&mut |path, key| {
        if key.name == name && !path.is_empty() && !found.iter().any(|other| other == path) {
            found.push(path.to_owned());
        }
    });
    found
}

/// Rows as the passes over a tree take them.
pub(super) fn rows(keys: &'static [Key]) -> Vec<&'static Key> {
    keys.iter().collect()
}

/// The rows of a table with variants: what all have, and the variants.
pub(super) fn variant_rows(common: &'static [Key], variants: &dyn Choices) -> Vec<&'static Key> {
    common.iter().chain(variants.keys()).collect()
}

/// Calls `row` with every key of a machine file, parents before children, and the pattern of the table that holds it.
pub(super) fn visit_file(row: &mut dyn FnMut(&str, &'static Key)) {
    visit(rows(FILE), "", row);
}

fn visit(keys: Vec<&'static Key>, path: &str, row: &mut dyn FnMut(&str, &'static Key)) {
    for key in keys {
        row(path, key);
        visit_shape(&key.shape, &join(path, key.name), row);
    }
}

fn visit_shape(shape: &'static Shape, path: &str, row: &mut dyn FnMut(&str, &'static Key)) {
    match shape {
        Shape::Value(_) => {}
        Shape::Table(keys) => visit(rows(keys), path, row),
        Shape::Variants { common, variants, .. } => visit(variant_rows(common, *variants), path, row),
        Shape::Named { names, each, .. } => {
            let pattern = if matches!(names, Names::Levels(_)) { "lN" } else { "NAME" };
            visit_shape(each, &join(path, pattern), row);
        }
    }
}

/// `path.name`, or `name` at the top.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
