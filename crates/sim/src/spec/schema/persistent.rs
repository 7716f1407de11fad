//! The keys of machines with persistent memory: the memory, and what file operations on it cost.

use super::Presence::{Default, Required, Variant};
use super::{Key, Kind, MILLISECOND_PS, Words};

const fn time(name: &'static str, meaning: &'static str) -> Key {
    Key::value(name, Kind::Time { max_ps: MILLISECOND_PS }, Required, meaning)
}

const fn bandwidth(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key::value(name, Kind::Bytes { min: 1 << 20, max: 1 << 50 }, Default(default), meaning)
}

pub(super) static PERSISTENT: &[Key] = &[
    Key::value("capacity", Kind::Bytes { min: 1 << 21, max: 1 << 40 }, Required, "how much there is"),
    time("read-random", "a line whose neighbour was not read before it"),
    time("read-sequential", "the line behind the one before"),
    time("write", "a line, until it persists"),
    Key::value(
        "modules",
        Kind::Integer { min: 1, max: 64 },
        Default("1"),
        "modules that the memory is spread over",
    ),
    Key::value(
        "interleave",
        Kind::Bytes { min: 64, max: 1 << 30 },
        Default("\"4KiB\""),
        "bytes of one module before the next one's, a power of two",
    ),
    bandwidth("read-bandwidth", "\"64GiB\"", "of each module, in a second"),
    bandwidth("write-bandwidth", "\"64GiB\"", "the same for writes"),
    Key::value(
        "buffer",
        Kind::Bytes { min: 64, max: 1 << 30 },
        Default("\"16KiB\""),
        "written bytes that a module takes in ahead of its bandwidth",
    ),
];

pub(super) static FILES_COMMON: &[Key] =
    &[time("call", "from the program into the file system and back, with what it checks and locks there")];

pub(super) static FILES: &[Key] = &[
    Key::table(
        "extent-tree",
        EXTENT_TREE,
        Variant,
        "a kernel's file system with an index of extents and a journal, without a page cache (ext4-DAX)",
    ),
    Key::table(
        "page-table",
        PAGE_TABLE,
        Variant,
        "each file in one range of pages: the page table is the index; needs [table.radix] of 4 levels (ctFS)",
    ),
];

static EXTENT_TREE: &[Key] = &[
    time("map", "from a range of a file to an address, without the index itself"),
    time(
        "journal",
        "a step of the journal: beginning and ending a handle, or a block of metadata that joins its transaction",
    ),
];

/// Whether a process maps pages of 2 MiB.
pub(in crate::spec) static FILE_PAGES: Words<bool> =
    Words(&[("4KiB", false, "base pages"), ("2MiB", true, "huge pages where it can")]);

static PAGE_TABLE: &[Key] = &[Key::value(
    "pages",
    Kind::Word(&FILE_PAGES),
    Default("\"2MiB\""),
    "the largest page that a process maps; the persistent table has pages of 2 MiB where it can",
)];
