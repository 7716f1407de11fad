//! The file systems in persistent memory that machine files can ask for.

mod extent_tree;
mod page_table;

use super::frames::FrameKind;
use super::section::{MILLISECOND_PS, Table, section};
use super::settings::{FileIndexKind, FilesSpec};
use super::variant::Registry;

/// All file systems: a new one is a file with its keys and its design, and a row here.
pub(super) static FILES: Registry<FileIndexKind> = Registry(&[
    // In the order of the reference.
    extent_tree::VARIANT,
    page_table::VARIANT,
]);

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
        if index.needs_mapping() && !maps_files {
            let message = "files as ranges of pages are mapped by a radix table of 4 levels";
            return resolver.refuse_section(table, message, "write [table.radix] with levels = 4");
        }
        Some(FilesSpec { call_ps, index })
    }
}
