//! The pages that a blade keeps, in memory or in a file.

mod file;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::codec::{PAGE_BYTES, Page, Word};
use file::FileStore;

/// Page numbers have 28 bits, as the accelerator's page ids have: a blade knows pages 0 to one less than this, whatever its
/// capacity.
pub const PAGE_NUMBERS: u64 = 1 << 28;

/// The largest capacity, in pages: one for each page number, 1 TiB.
pub const MAX_CAPACITY_PAGES: u64 = PAGE_NUMBERS;

/// The content of a page that was never written.
static ZEROES: Page = [0; PAGE_BYTES];

/// The parameters of a store: how many pages can be stored, and whether pages that were never written can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoreDesign {
    /// The number of different pages that can be stored. Which ones is up to the clients: page numbers go up to
    /// [`PAGE_NUMBERS`].
    pub capacity_pages: u64,
    /// Whether reading a page that was never written, or acting on a word of it, is an error. Otherwise it is all zeroes.
    pub strict: bool,
}

impl StoreDesign {
    /// Returns the design of a store of so many pages; those that were never written are all zeroes.
    pub fn new(capacity_pages: u64) -> Self {
        Self { capacity_pages, strict: false }
    }

    /// Returns the design of a store where pages that were never written are refused, or not.
    #[must_use]
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }
}

/// The pages of a blade: in memory, which is taken only for pages that were written, or in a file.
#[derive(Debug)]
pub struct PageStore {
    design: StoreDesign,
    pages: Pages,
}

#[derive(Debug)]
enum Pages {
    Memory(FxHashMap<u64, Box<Page>>),
    File(FileStore),
}

/// The reason why a page cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The page's number is out of range.
    #[error("there is no page {0}; page numbers are 0 to {last}", last = PAGE_NUMBERS - 1)]
    Beyond(u64),
    /// The page was never written, and as many others as there is room for were.
    #[error("there is no room for page {page}: {capacity_pages} others are stored")]
    Full {
        /// The number of the page that was to be written.
        page: u64,
        /// The number of pages that the store has room for.
        capacity_pages: u64,
    },
    /// The blade is strict, and the page was never written.
    #[error("page {0} was never written")]
    NeverWritten(u64),
    /// The file of the store failed.
    #[error("the store's file failed: {0}")]
    Io(std::io::Error),
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// The reason why a store's file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system refused something.
    #[error("cannot {verb} {}: {reason}", path.display())]
    Io {
        /// The operation that was being done.
        verb: &'static str,
        /// The path of the store's file.
        path: PathBuf,
        /// The system's answer: part of the text, and therefore not a source.
        reason: std::io::Error,
    },
    /// The file is not a store of this kind.
    #[error("{}: {what}", path.display())]
    Format {
        /// The path of the store's file.
        path: PathBuf,
        /// The defect of the file, and what to do.
        what: String,
    },
    /// No store can be so large, or so small.
    #[error("a capacity of {0} pages; a blade has 1 to {MAX_CAPACITY_PAGES}")]
    Capacity(u64),
}

impl PageStore {
    /// Pages in memory, lost when the process ends.
    pub fn in_memory(design: StoreDesign) -> Result<Self, OpenError> {
        check(design)?;
        Ok(Self { design, pages: Pages::Memory(FxHashMap::default()) })
    }

    /// Pages in a file, which is created if it does not exist.
    ///
    /// Whatever [`Self::commit`] returned for survives the end of the process, however sudden. With `sync` it also survives a
    /// power failure, at the price of a wait for the disk at every commit. A page that was being written when the power
    /// failed may be part old and part new; no client was told that it was written.
    pub fn in_file(design: StoreDesign, path: &Path, sync: bool) -> Result<Self, OpenError> {
        check(design)?;
        let file = FileStore::open(path, design.capacity_pages, sync)?;
        Ok(Self { design, pages: Pages::File(file) })
    }

    /// Returns the number of pages that can be stored.
    pub fn capacity_pages(&self) -> u64 {
        self.design.capacity_pages
    }

    /// Returns the number of pages that were ever written.
    pub fn written_pages(&self) -> u64 {
        match &self.pages {
            Pages::Memory(pages) => pages.len() as u64,
            Pages::File(file) => file.written_pages(),
        }
    }

    /// Returns whether this page exists and was ever written.
    pub fn is_written(&self, page: u64) -> bool {
        match &self.pages {
            Pages::Memory(pages) => pages.contains_key(&page),
            Pages::File(file) => file.is_written(page),
        }
    }

    /// Says whether a page can be read.
    ///
    /// # Errors
    ///
    /// [`StoreError::Beyond`]; of a strict store [`StoreError::NeverWritten`].
    pub fn check_read(&self, page: u64) -> Result<(), StoreError> {
        check_number(page)?;
        if self.design.strict && !self.is_written(page) {
            return Err(StoreError::NeverWritten(page));
        }
        Ok(())
    }

    /// Says whether a page can be written.
    ///
    /// # Errors
    ///
    /// [`StoreError::Beyond`], [`StoreError::Full`].
    pub fn check_write(&self, page: u64) -> Result<(), StoreError> {
        check_number(page)?;
        let capacity_pages = self.design.capacity_pages;
        if self.written_pages() >= capacity_pages && !self.is_written(page) {
            return Err(StoreError::Full { page, capacity_pages });
        }
        Ok(())
    }

    /// Returns the content of a page.
    pub fn read(&self, page: u64) -> Result<Page, StoreError> {
        self.read_with(page, |content| *content)
    }

    /// Returns what `use_it` makes of a page's content, without a copy where that is possible.
    pub fn read_with<R>(&self, page: u64, use_it: impl FnOnce(&Page) -> R) -> Result<R, StoreError> {
        self.check_read(page)?;
        Ok(match &self.pages {
            Pages::Memory(pages) => use_it(pages.get(&page).map_or(&ZEROES, |content| content)),
            Pages::File(file) => use_it(&file.read(page)?),
        })
    }

    /// Replaces a page's content.
    pub fn write(&mut self, page: u64, content: Box<Page>) -> Result<(), StoreError> {
        self.check_write(page)?;
        match &mut self.pages {
            Pages::Memory(pages) => {
                pages.insert(page, content);
                Ok(())
            }
            Pages::File(file) => Ok(file.write(page, 0, &*content)?),
        }
    }

    /// Returns a word's value, extended with zeroes.
    pub fn read_word(&self, page: u64, word: Word) -> Result<u64, StoreError> {
        self.check_read(page)?;
        match &self.pages {
            Pages::Memory(pages) => Ok(pages.get(&page).map_or(0, |content| word.load(content))),
            Pages::File(file) => Ok(word.load(&file.read(page)?)),
        }
    }

    /// Sets a word to as much of `value` as it holds.
    pub fn write_word(&mut self, page: u64, word: Word, value: u64) -> Result<(), StoreError> {
        self.check_read(page)?;
        self.check_write(page)?;
        match &mut self.pages {
            Pages::Memory(pages) => {
                word.store(pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES])), value);
                Ok(())
            }
            Pages::File(file) => {
                let bytes = value.to_le_bytes();
                Ok(file.write(page, usize::from(word.offset()), &bytes[..word.size().bytes()])?)
            }
        }
    }

    /// Adds to a word, modulo its size; answers what it was.
    pub fn add(&mut self, page: u64, word: Word, value: u64) -> Result<u64, StoreError> {
        let old = self.read_word(page, word)?;
        self.write_word(page, word, old.wrapping_add(value))?;
        Ok(old)
    }

    /// Sets a word to `new` if it is `expected`, both cut to its size; answers whether it was.
    pub fn compare_and_swap(
        &mut self,
        page: u64,
        word: Word,
        new: u64,
        expected: u64,
    ) -> Result<bool, StoreError> {
        let equal = self.read_word(page, word)? == expected & word.size().mask();
        if equal {
            self.write_word(page, word, new)?;
        }
        Ok(equal)
    }

    /// Returns whether [`Self::commit`] takes the time of a disk.
    pub fn waits_for_disk(&self) -> bool {
        matches!(&self.pages, Pages::File(file) if file.waits_for_disk())
    }

    /// As if the disk had failed.
    #[cfg(test)]
    pub(crate) fn fail(&mut self) {
        if let Pages::File(file) = &mut self.pages {
            file.fail();
        }
    }

    /// Returns when what was written is as safe as this store makes it.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        match &mut self.pages {
            Pages::Memory(_) => Ok(()),
            Pages::File(file) => Ok(file.commit()?),
        }
    }
}

fn check_number(page: u64) -> Result<(), StoreError> {
    if page < PAGE_NUMBERS { Ok(()) } else { Err(StoreError::Beyond(page)) }
}

fn check(design: StoreDesign) -> Result<(), OpenError> {
    let possible = (1..=MAX_CAPACITY_PAGES).contains(&design.capacity_pages);
    if possible { Ok(()) } else { Err(OpenError::Capacity(design.capacity_pages)) }
}
