//! The page table as the index.

use crate::files::contiguous::ContiguousFile;
use crate::files::file::{FileError, IndexedFile};
use crate::spec::section::{Words, section};
use crate::spec::settings::{FileIndexDesign, FileIndexKind, FileRequest};

/// Whether a process maps pages of 2 MiB.
static PAGES: Words<bool> =
    Words(&[("4KiB", false, "base pages"), ("2MiB", true, "huge pages where it can")]);

section! {
    /// Each file in one range of pages.
    pub(super) struct PageTableSpec {
        large: bool = "pages" word(&PAGES) or "\"2MiB\"", "the largest page that a process maps; the persistent table has pages of 2 MiB where it can";
    }
    const VARIANT: FileIndexKind =
        "page-table", "each file in one range of pages: the page table is the index; needs [table.radix] of 4 levels (ctFS)";
}

impl FileIndexDesign for PageTableSpec {
    fn needs_mapping(&self) -> bool {
        true
    }

    fn create(&self, request: &FileRequest<'_>) -> Result<Box<dyn IndexedFile>, FileError> {
        Ok(Box::new(ContiguousFile::new(request, self.large)?))
    }
}
