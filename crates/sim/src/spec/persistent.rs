//! Persistent memory and file systems in it.

use super::error::Diagnostic;
use super::frames::FrameKind;
use super::quantity::SECOND_PS;
use super::section::{MILLISECOND_PS, Registry, Resolver, Table, Words, section};

/// Bytes of a line.
const LINE_BYTES: u64 = 64;

/// The time of a line, by a bandwidth.
fn line_ps(bytes_a_second: u64) -> u64 {
    LINE_BYTES * SECOND_PS / bytes_a_second
}

section! {
    /// The settings of persistent memory.
    pub struct PersistentSpec {
        bytes: u64 = "capacity" bytes(1 << 21, 1 << 40), "how much there is";
        read_random_ps: u64 = "read-random" time(MILLISECOND_PS), "a line whose neighbour was not read before it";
        read_sequential_ps: u64 = "read-sequential" time(MILLISECOND_PS), "the line behind the one before";
        write_ps: u64 = "write" time(MILLISECOND_PS), "a line, until it persists";
        modules: u32 = "modules" integer(1, 64) or "1", "modules that the memory is spread over";
        interleave_shift: u32 = "interleave" bytes(64, 1 << 30) or "\"4KiB\"" as u64::trailing_zeros, "bytes of one module before the next one's, a power of two";
        module_read_ps: u64 = "read-bandwidth" bytes(1 << 20, 1 << 50) or "\"64GiB\"" as line_ps, "of each module, in a second";
        module_write_ps: u64 = "write-bandwidth" bytes(1 << 20, 1 << 50) or "\"64GiB\"" as line_ps, "the same for writes";
        buffer_lines: u64 = "buffer" bytes(64, 1 << 30) or "\"16KiB\"" as |bytes| bytes / LINE_BYTES, "written bytes that a module takes in ahead of its bandwidth";
    }
}

/// Persistent memory whose modules address bits choose.
pub(super) fn memory(table: &Table, resolver: &mut Resolver<'_>) -> Option<PersistentSpec> {
    let (interleave, capacity) = (table.bytes("interleave")?, table.bytes("capacity")?);
    if !interleave.is_power_of_two() {
        let message = format!("persistent: an interleave of {interleave} bytes is no power of two");
        let wrong = Diagnostic::new(&table.leaf("interleave")?.origin, message);
        return resolver.errors.report(wrong.help("address bits choose a module"));
    }
    if !capacity.is_multiple_of(2 << 20) {
        let message = format!("persistent: {capacity} bytes are no whole number of 2MiB");
        return resolver.refuse(message, "write a multiple of 2MiB", table, &["capacity"]);
    }
    PersistentSpec::resolve(table, resolver)
}

/// A file system in persistent memory.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesSpec {
    /// From the program into it and back.
    pub call_ps: u64,
    /// The index by which it finds bytes.
    pub index: FileIndex,
}

/// The index by which a file system finds bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum FileIndex {
    /// An extent tree and a journal, in the kernel.
    ExtentTree {
        /// From a range of a file to an address, without the index itself.
        map_ps: u64,
        /// A step of the journal: a handle, or a block of metadata that joins its transaction.
        journal_ps: u64,
    },
    /// The page table is the index.
    PageTable {
        /// Whether a process maps pages of 2 MiB where the persistent table has them.
        large: bool,
    },
}

/// All file systems, in the order of the reference.
pub(super) static FILES: Registry<FileIndex> = Registry(&[EXTENT_TREE, PAGE_TABLE]);

section! {
    fn extent_tree(table, resolver) -> FileIndex;
    const EXTENT_TREE_KEYS {
        map_ps = "map" time(MILLISECOND_PS), "from a range of a file to an address, without the index itself";
        journal_ps = "journal" time(MILLISECOND_PS), "a step of the journal: beginning and ending a handle, or a block of metadata that joins its transaction";
    }
    { Some(FileIndex::ExtentTree { map_ps: map_ps?, journal_ps: journal_ps? }) }
    const EXTENT_TREE: FileIndex =
        "extent-tree", "a kernel's file system with an index of extents and a journal, without a page cache (ext4-DAX)";
}

/// Whether a process maps pages of 2 MiB.
static PAGES: Words<bool> =
    Words(&[("4KiB", false, "base pages"), ("2MiB", true, "huge pages where it can")]);

section! {
    fn page_table(table, resolver) -> FileIndex;
    const PAGE_TABLE_KEYS {
        large = "pages" word(&PAGES) or "\"2MiB\"", "the largest page that a process maps; the persistent table has pages of 2 MiB where it can";
    }
    { Some(FileIndex::PageTable { large: large? }) }
    const PAGE_TABLE: FileIndex =
        "page-table", "each file in one range of pages: the page table is the index; needs [table.radix] of 4 levels (ctFS)";
}

section! {
    /// The file system.
    pub(super) fn files(table, resolver, tree: &Table, maps_files: bool, frames: Option<&FrameKind>) -> FilesSpec;
    pub(super) const FILES_COMMON {
        call_ps = "call" time(MILLISECOND_PS), "from the program into the file system and back, with what it checks and locks there";
    }
    {
        if tree.section("persistent")?.is_none() {
            let help = "write a [persistent] section";
            return resolver.refuse_section(table, "files that persist need memory that does", help);
        }
        if frames.is_none_or(|frames| frames.hash_placed().is_some()) {
            let message = "files lie in memory that the buddy allocator divides";
            return resolver.refuse_section(table, message, "write [frames.buddy]");
        }
        let call_ps = call_ps?;
        let index = FILES.resolve(table, resolver)?;
        if matches!(index, FileIndex::PageTable { .. }) && !maps_files {
            let message = "files as ranges of pages are mapped by a radix table of 4 levels";
            return resolver.refuse_section(table, message, "write [table.radix] with levels = 4");
        }
        Some(FilesSpec { call_ps, index })
    }
}
