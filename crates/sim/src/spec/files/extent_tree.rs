//! Extent trees.

use crate::files::extents::ExtentFile;
use crate::files::file::{FileError, IndexedFile};
use crate::spec::section::{MILLISECOND_PS, section};
use crate::spec::settings::{FileIndexDesign, FileIndexKind, FileRequest};

section! {
    /// An extent tree and a journal, in the kernel.
    pub(super) struct ExtentTreeSpec {
        map_ps: u64 = "map" time(MILLISECOND_PS), "from a range of a file to an address, without the index itself";
        journal_ps: u64 = "journal" time(MILLISECOND_PS), "a step of the journal: beginning and ending a handle, or a block of metadata that joins its transaction";
    }
    const VARIANT: FileIndexKind =
        "extent-tree", "a kernel's file system with an index of extents and a journal, without a page cache (ext4-DAX)";
}

impl FileIndexDesign for ExtentTreeSpec {
    fn create(&self, request: &FileRequest<'_>) -> Result<Box<dyn IndexedFile>, FileError> {
        Ok(Box::new(ExtentFile::new(request, self.map_ps, self.journal_ps)))
    }
}
