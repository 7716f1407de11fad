//! Persistent memory and file systems in it: from a tree to settings.

use super::error::Diagnostic;
use super::options::Table;
use super::resolve::{Resolver, bytes, integer};
use super::schema::FILE_PAGES;
use super::settings::{FileIndex, FilesSpec, FrameSpec, PersistentSpec, TableSpec};
use super::tiers::{SECOND_PS, refuse, section};

/// Bytes of a line.
const LINE_BYTES: u64 = 64;

pub(super) fn memory(tree: &Table, resolver: &mut Resolver<'_>) -> Option<Option<PersistentSpec>> {
    let Some(table) = section(tree, "persistent")? else { return Some(None) };
    let interleave = table.leaf("interleave")?;
    if !bytes(interleave)?.is_power_of_two() {
        let message = format!("persistent: an interleave of {} bytes is no power of two", bytes(interleave)?);
        return resolver.errors.report(
            Diagnostic::new(&interleave.origin, message).help("address bits choose a module".to_owned()),
        );
    }
    let line_ps = |name| Some(LINE_BYTES * SECOND_PS / bytes(table.leaf(name)?)?);
    let capacity = table.leaf("capacity")?;
    if !bytes(capacity)?.is_multiple_of(2 << 20) {
        let message = format!("persistent: {} bytes are no whole number of 2MiB", bytes(capacity)?);
        resolver.blame(message, "write a multiple of 2MiB".to_owned(), &[("capacity", capacity)]);
        return None;
    }
    Some(Some(PersistentSpec {
        bytes: bytes(capacity)?,
        read_random_ps: resolver.time(table, "read-random")?,
        read_sequential_ps: resolver.time(table, "read-sequential")?,
        write_ps: resolver.time(table, "write")?,
        modules: integer(table, "modules")?,
        interleave_shift: bytes(interleave)?.trailing_zeros(),
        module_read_ps: line_ps("read-bandwidth")?,
        module_write_ps: line_ps("write-bandwidth")?,
        buffer_lines: bytes(table.leaf("buffer")?)? / LINE_BYTES,
    }))
}

pub(super) fn files(
    tree: &Table,
    page_table: Option<&TableSpec>,
    frames: Option<&FrameSpec>,
    resolver: &mut Resolver<'_>,
) -> Option<Option<FilesSpec>> {
    let Some(table) = section(tree, "files")? else { return Some(None) };
    if section(tree, "persistent")?.is_none() {
        let help = "write a [persistent] section";
        return refuse(table, resolver, "files that persist need memory that does", help);
    }
    if !matches!(frames, Some(FrameSpec::Buddy { .. })) {
        let message = "files lie in memory that the buddy allocator divides";
        return refuse(table, resolver, message, "write [frames.buddy]");
    }
    let call_ps = resolver.time(table, "call")?;
    let (variant, own) = table.tables().next()?;
    let index = match variant {
        "extent-tree" => FileIndex::ExtentTree {
            map_ps: resolver.time(own, "map")?,
            journal_ps: resolver.time(own, "journal")?,
        },
        "page-table" => {
            if !matches!(page_table, Some(TableSpec::Radix { levels: 4 })) {
                let message = "files as ranges of pages are mapped by a radix table of 4 levels";
                return refuse(table, resolver, message, "write [table.radix] with levels = 4");
            }
            FileIndex::PageTable { large: FILE_PAGES.value(own, "pages")? }
        }
        _ => return None,
    };
    Some(Some(FilesSpec { call_ps, index }))
}
