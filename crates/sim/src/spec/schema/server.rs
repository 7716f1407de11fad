//! The keys of machines that serve jobs over flash: DRAM and its controllers, the mesh, the tier, flash and threads.

use super::Presence::{Default, Required, Variant};
use super::{Key, Kind, MILLISECOND_PS, Words};
use crate::spec::settings::{CollectionHolds, Distribution};
use pagewalk_vm::sched::{Notification, Policy};
use pagewalk_vm::tier::Replacement;

const fn dram_time(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key::value(name, Kind::Time { max_ps: MILLISECOND_PS }, Default(default), meaning)
}

pub(super) static DRAM: &[Key] = &[
    Key::value(
        "controllers",
        Kind::Integer { min: 1, max: 64 },
        Default("4"),
        "memory controllers, a power of two; the low bits of a page's number choose one",
    ),
    Key::value(
        "banks",
        Kind::Integer { min: 1, max: 1_024 },
        Default("16"),
        "banks of a controller, a power of two",
    ),
    Key::value(
        "row",
        Kind::Bytes { min: 4_096, max: 1 << 20 },
        Default("\"16KiB\""),
        "bytes of a row, a power of two; with a tier, a set of its cache",
    ),
    dram_time("ras", "\"55 cycles\"", "opening a row"),
    dram_time("cas", "\"3 cycles\"", "a column of 8 bytes"),
    dram_time("burst", "\"1 cycle\"", "each further column of a line or page"),
    dram_time("precharge", "\"0 ns\"", "closing a row before another is opened"),
    dram_time("command", "\"1 cycle\"", "issuing a row command, a column command, a response"),
    Key::value(
        "overtakes",
        Kind::Integer { min: 0, max: 1 << 20 },
        Default("16"),
        "how many later requests to an open row may go before one (FR-FCFS)",
    ),
];

pub(super) static MESH: &[Key] = &[
    Key::value("columns", Kind::Integer { min: 1, max: 64 }, Default("4"), "tiles in a row"),
    Key::value(
        "rows",
        Kind::Integer { min: 1, max: 64 },
        Default("4"),
        "rows of tiles; as many tiles as cores",
    ),
    dram_time("hop", "\"3 cycles\"", "from a tile to the next"),
    Key::value(
        "flit",
        Kind::Bytes { min: 1, max: 4_096 },
        Default("\"16B\""),
        "bytes that a link moves in a cycle",
    ),
];

pub(in crate::spec) static TIER_REPLACEMENTS: Words<Replacement> = Words(&[
    ("lru", Replacement::Lru, "the least recently used"),
    ("nru", Replacement::Nru, "one whose reference bit is clear"),
]);
/// Whether page tables are in a part of DRAM of their own.
pub(in crate::spec) static TABLE_PLACES: Words<bool> =
    Words(&[("dram", true, "a part of DRAM"), ("cache", false, "flash and its cache")]);
/// Whether a core runs another thread while a page is on its way.
pub(in crate::spec) static ON_MISS: Words<bool> =
    Words(&[("switch", true, "run another thread"), ("wait", false, "wait")]);
pub(super) static TIER_COMMON: &[Key] = &[
    Key::value(
        "capacity",
        Kind::Bytes { min: 1 << 16, max: 1 << 44 },
        Required,
        "DRAM for pages; capacity / (controllers * ways * 4KiB) is a power of two",
    ),
    Key::value("ways", Kind::Integer { min: 1, max: 8 }, Default("4"), "pages of a set"),
    Key::value("replacement", Kind::Word(&TIER_REPLACEMENTS), Default("\"lru\""), "who leaves"),
    Key::value(
        "page-tables",
        Kind::Word(&TABLE_PLACES),
        Default("\"dram\""),
        "where page tables are: in a part of DRAM of their own, or in flash and its cache like everything else",
    ),
    Key::value(
        "on-miss",
        Kind::Word(&ON_MISS),
        Default("\"switch\""),
        "what a core does while a page is on its way: run another thread (needs [threads]), or wait",
    ),
    Key::value(
        "evict-buffer",
        Kind::Integer { min: 1, max: 65_536 },
        Default("32"),
        "pages of a controller on their way to flash",
    ),
];
pub(super) static TIERS: &[Key] = &[
    Key::table(
        "hardware",
        TIER_HARDWARE,
        Variant,
        "controllers with tags in the rows bring pages in and out",
    ),
    Key::table(
        "kernel",
        TIER_KERNEL,
        Variant,
        "the kernel does, by page faults; [kernel] has what its steps cost",
    ),
];
static TIER_HARDWARE: &[Key] = &[
    Key::value(
        "miss-status-sets",
        Kind::Integer { min: 1, max: 65_536 },
        Default("256"),
        "sets of the miss-status row of a controller, a power of two",
    ),
    Key::value("miss-status-ways", Kind::Integer { min: 1, max: 64 }, Default("8"), "its ways"),
    Key::value(
        "queue",
        Kind::Integer { min: 1, max: 65_536 },
        Default("16"),
        "misses that wait for the backside controller before the frontside controller stalls",
    ),
    Key::value(
        "tag-columns",
        Kind::Integer { min: 1, max: 8 },
        Default("1"),
        "columns read for a set's tags",
    ),
    dram_time("compare", "\"1 cycle\"", "comparing tags"),
    dram_time("backside-command", "\"3 cycles\"", "the backside controller's time for each of its commands"),
];
static TIER_KERNEL: &[Key] =
    &[dram_time("interrupt", "\"200 ns\"", "what a TLB shootdown takes of every other core")];

/// How long flash takes, given the standard deviation of the logarithm in percent.
pub(in crate::spec) static DISTRIBUTIONS: Words<fn(u32) -> Distribution> = Words(&[
    ("fixed", |_| Distribution::Fixed, "always the mean"),
    ("exponential", |_| Distribution::Exponential, "exponentially"),
    ("lognormal", |sigma_percent| Distribution::LogNormal { sigma_percent }, "its logarithm normally"),
]);
/// Whether flash begins as long use leaves it.
pub(in crate::spec) static WEAR: Words<bool> =
    Words(&[("fresh", false, "all spare blocks erased"), ("worn", true, "as long use leaves it")]);
/// What garbage collection holds, if there is any.
pub(in crate::spec) static COLLECTIONS: Words<Option<CollectionHolds>> = Words(&[
    ("none", None, "no collection"),
    ("plane", Some(CollectionHolds::Plane), "the plane"),
    ("channel", Some(CollectionHolds::Channel), "its channel"),
]);
pub(super) static FLASH: &[Key] = &[
    Key::value(
        "capacity",
        Kind::Bytes { min: 1 << 20, max: 1 << 50 },
        Required,
        "bytes of its logical pages",
    ),
    Key::value("plane", Kind::Bytes { min: 1 << 20, max: 1 << 44 }, Default("\"4GiB\""), "bytes of a plane"),
    Key::value("channels", Kind::Integer { min: 1, max: 4_096 }, Default("16"), "channels that planes share"),
    Key::value("read", Kind::Time { max_ps: 1_000 * MILLISECOND_PS }, Default("\"50 us\""), "reading a page"),
    Key::value("write", Kind::Time { max_ps: 1_000 * MILLISECOND_PS }, Default("\"100 us\""), "writing one"),
    Key::value(
        "read-holds-plane",
        Kind::Time { max_ps: 1_000 * MILLISECOND_PS },
        Default("\"0 ns\""),
        "how long of a read its plane does nothing else",
    ),
    Key::value(
        "write-holds-plane",
        Kind::Time { max_ps: 1_000 * MILLISECOND_PS },
        Default("\"0 ns\""),
        "the same of a write",
    ),
    Key::value(
        "channel-bandwidth",
        Kind::Bytes { min: 1 << 20, max: 1 << 50 },
        Default("\"4GiB\""),
        "of each channel, in a second",
    ),
    Key::value(
        "bandwidth",
        Kind::Bytes { min: 1 << 20, max: 1 << 50 },
        Default("\"64GiB\""),
        "of all, in a second",
    ),
    Key::value(
        "latency",
        Kind::Word(&DISTRIBUTIONS),
        Default("\"fixed\""),
        "how the time of a read is distributed; its mean is `read`",
    ),
    Key::value(
        "collection",
        Kind::Word(&COLLECTIONS),
        Default("\"none\""),
        "garbage collection: none, or what it holds while it works",
    ),
    Key::value(
        "begins",
        Kind::Word(&WEAR),
        Default("\"worn\""),
        "with collection: with every page in its place and all spare blocks erased, or as long use leaves it",
    ),
    Key::value(
        "free-blocks",
        Kind::Integer { min: 1, max: 1_024 },
        Default("2"),
        "erased blocks of a plane below which it collects",
    ),
    Key::value(
        "writes-waiting",
        Kind::Integer { min: 1, max: 65_536 },
        Default("64"),
        "writes that a plane lets wait for reads; one more, and the oldest goes first",
    ),
    Key::value(
        "spread",
        Kind::Integer { min: 1, max: 300 },
        Default("50"),
        "with `latency = \"lognormal\"`: the standard deviation of the logarithm, in percent",
    ),
    Key::value(
        "spare",
        Kind::Integer { min: 1, max: 100 },
        Default("7"),
        "percent of flash beyond the logical pages (over-provisioning)",
    ),
    Key::value("block", Kind::Integer { min: 8, max: 65_536 }, Default("256"), "pages of a block"),
    Key::value(
        "erase",
        Kind::Time { max_ps: 1_000 * MILLISECOND_PS },
        Default("\"3 ms\""),
        "erasing a block",
    ),
];

pub(in crate::spec) static SCHEDULES: Words<Policy> = Words(&[
    ("priority", Policy::Priority, "before new jobs, after every job"),
    ("fifo", Policy::Fifo, "after a miss only"),
]);
pub(in crate::spec) static NOTICES: Words<Notification> = Words(&[
    ("arrival", Notification::Arrival, "when its page is there"),
    ("age", Notification::Age, "after the average time of flash"),
]);
pub(super) static THREADS: &[Key] = &[
    Key::value("per-core", Kind::Integer { min: 1, max: 4_096 }, Default("48"), "threads of a core"),
    Key::value(
        "schedule",
        Kind::Word(&SCHEDULES),
        Default("\"priority\""),
        "whether a job whose page is there comes before new ones after every job, or only after a miss",
    ),
    Key::value(
        "notice",
        Kind::Word(&NOTICES),
        Default("\"arrival\""),
        "when a waiting job may go on: when its page is there, or after the average time of flash",
    ),
    Key::value(
        "switch",
        Kind::Time { max_ps: MILLISECOND_PS },
        Default("\"100 ns\""),
        "from a thread to another",
    ),
    Key::value(
        "flush",
        Kind::Time { max_ps: MILLISECOND_PS },
        Default("\"32 cycles\""),
        "refilling the pipeline after a miss: window / width",
    ),
    Key::value(
        "queue",
        Kind::Integer { min: 1, max: 1 << 24 },
        Default("1000000"),
        "jobs that wait for a core to begin with them; beyond, they are refused",
    ),
];
