//! Remote memory as the devices need it, and one inside the process.

use std::collections::VecDeque;

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::fault::PageId;
use rustc_hash::FxHashMap;

/// The data of a page.
pub type Page = [u8; PAGE_BYTES as usize];

/// An operation on a word of a remote page; numbers of bits and offsets as the memory blade's protocol has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordRequest {
    /// The number of the page.
    pub page: u64,
    /// The offset of the word in the page, in bytes.
    pub offset: u16,
    /// The base-2 logarithm of the bytes:
    pub size: u8,
    /// The operation on the word.
    pub operation: WordOperation,
}

/// An operation on a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordOperation {
    /// The word is read.
    Read,
    /// The word is written.
    Write(u64),
    /// A number is added; the answer is the old value.
    Add(u64),
    /// The word is replaced if it is what is expected; the answer is 1 if it was, and 0 if not.
    CompareAndSwap {
        /// The value that the word becomes.
        new: u64,
        /// The value that the word must have.
        expected: u64,
    },
}

/// The reason why remote memory did not do what it should.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The remote memory says that it cannot.
    #[error("remote memory refuses page {page}: {why}")]
    Refused {
        /// The number of the page in remote memory.
        page: u64,
        /// The reason, and what to do.
        why: String,
    },
    /// The remote memory does not answer.
    #[error("remote memory does not answer: {0}")]
    Unreachable(String),
}

/// Memory that lies somewhere else.
///
/// # Contract
///
/// A page reads as what was written to it by the last write that is finished; writes of one page finish in order. A page that
/// [`write_page`](Self::write_page) has written can be written again: remote memory has a place for it.
pub trait RemoteMemory {
    /// Reads a page, and waits for it.
    ///
    /// # Errors
    ///
    /// [`RemoteError`].
    fn read_page(&mut self, page: u64, into: &mut Page) -> Result<(), RemoteError>;

    /// Begins to write a page. It takes the data at once.
    ///
    /// # Errors
    ///
    /// [`RemoteError`].
    fn begin_write(&mut self, page: u64, data: &Page) -> Result<(), RemoteError>;

    /// A page whose write is finished, if there is one by now; with `wait`, if there will be one.
    ///
    /// # Errors
    ///
    /// [`RemoteError`], of any of the writes.
    fn finished_write(&mut self, wait: bool) -> Result<Option<u64>, RemoteError>;

    /// Writes a page, and waits until it is there. It is not among the [finished](Self::finished_write).
    ///
    /// # Errors
    ///
    /// [`RemoteError`].
    fn write_page(&mut self, page: u64, data: &Page) -> Result<(), RemoteError>;

    /// The program says where in the network remote memory is, an Ethernet address. What was begun ends where it was begun.
    /// Memory whose place is known otherwise has no use for it.
    ///
    /// # Errors
    ///
    /// [`RemoteError`], of any of the writes.
    fn turn_to(&mut self, _address: [u8; 6]) -> Result<(), RemoteError> {
        Ok(())
    }

    /// Does something to a word, and waits for the answer.
    ///
    /// # Errors
    ///
    /// [`RemoteError`].
    fn word(&mut self, request: WordRequest) -> Result<u64, RemoteError>;
}

/// The Ethernet address in a register: its first byte is the lowest; no address if all are 0.
pub(crate) fn address_of(register: u64) -> Option<[u8; 6]> {
    let [a, b, c, d, e, f, ..] = register.to_le_bytes();
    Some([a, b, c, d, e, f]).filter(|address| *address != [0; 6])
}

/// Remote memory in this process: it answers at once.
#[derive(Clone, Debug, Default)]
pub struct InProcess {
    pages: FxHashMap<u64, Box<Page>>,
    finished: VecDeque<u64>,
    /// Whether a page that was never written is refused, and not zeroes.
    strict: bool,
}

impl InProcess {
    /// Returns a memory whose pages are zeroes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the memory, which refuses pages that were never written from now on.
    #[must_use]
    pub fn strict(self) -> Self {
        Self { strict: true, ..self }
    }
}

/// Page numbers have 28 bits, here as on a blade.
fn check_number(page: u64) -> Result<(), RemoteError> {
    let last = (1 << PageId::BITS) - 1;
    if page <= last {
        return Ok(());
    }
    Err(RemoteError::Refused { page, why: format!("page numbers are 0 to {last}") })
}

fn never_written(page: u64) -> RemoteError {
    let why = "it was never written, and remote memory is strict (`--strict`)".to_owned();
    RemoteError::Refused { page, why }
}

impl RemoteMemory for InProcess {
    fn read_page(&mut self, page: u64, into: &mut Page) -> Result<(), RemoteError> {
        check_number(page)?;
        match self.pages.get(&page) {
            Some(data) => into.copy_from_slice(&data[..]),
            None if self.strict => return Err(never_written(page)),
            None => into.fill(0),
        }
        Ok(())
    }

    fn begin_write(&mut self, page: u64, data: &Page) -> Result<(), RemoteError> {
        self.pages.insert(page, Box::new(*data));
        self.finished.push_back(page);
        Ok(())
    }

    fn write_page(&mut self, page: u64, data: &Page) -> Result<(), RemoteError> {
        check_number(page)?;
        self.pages.insert(page, Box::new(*data));
        Ok(())
    }

    fn finished_write(&mut self, _: bool) -> Result<Option<u64>, RemoteError> {
        Ok(self.finished.pop_front())
    }

    fn word(&mut self, request: WordRequest) -> Result<u64, RemoteError> {
        let WordRequest { page, offset, size, operation } = request;
        let (offset, bytes) = (usize::from(offset), 1usize << size.min(3));
        if size > 3 || offset + bytes > PAGE_BYTES as usize {
            let why = format!("{bytes} bytes at offset {offset} do not lie in it");
            return Err(RemoteError::Refused { page, why });
        }
        check_number(page)?;
        if self.strict && !self.pages.contains_key(&page) {
            return Err(never_written(page));
        }
        let data = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES as usize]));
        let mask = u64::MAX >> (64 - 8 * bytes as u32);
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&data[offset..offset + bytes]);
        let old = u64::from_le_bytes(word);
        let (new, answer) = match operation {
            WordOperation::Read => (old, old),
            WordOperation::Write(value) => (value, 0),
            WordOperation::Add(value) => (old.wrapping_add(value), old),
            WordOperation::CompareAndSwap { new, expected } if old == expected & mask => (new, 1),
            WordOperation::CompareAndSwap { .. } => (old, 0),
        };
        data[offset..offset + bytes].copy_from_slice(&new.to_le_bytes()[..bytes]);
        Ok(answer)
    }
}
