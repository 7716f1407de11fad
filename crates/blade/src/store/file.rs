//! Pages in a file.
//!
//! ```text
//!  0         4096                     4096 + table, rounded up to pages
//! +---------+------------------------+--------+--------+---
//! | header  | table: slots' pages    | slot 0 | slot 1 | ...      sparse: holes are zeroes
//! +---------+------------------------+--------+--------+---
//!
//!  table: eight bytes for each slot: the number of the page in it, plus 1; 0 if the slot is free
//!  header: magic 8, version 4, page bytes 4, capacity in pages 8, XXH3-64 of these 24 bytes 8; then zeroes
//! ```
//!
//! Written with `pwrite`, not through a mapping: a full disk is then an error in the answer instead of a signal, and what
//! `pwrite` returned for is the kernel's, whatever becomes of this process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::{OpenError, PAGE_NUMBERS};
use crate::codec::{PAGE_BYTES, Page};
use crate::temporary;

const MAGIC: [u8; 8] = *b"PWBLADE\0";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 32;
/// Where the table begins.
const TABLE_OFFSET: u64 = PAGE_BYTES as u64;
/// How much of the table is read at once.
const TABLE_READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct FileStore {
    file: File,
    /// The slot of each page that was written.
    slots: FxHashMap<u64, u64>,
    /// Slots below `next_slot` that hold no page: a power failure may leave some.
    free_slots: Vec<u64>,
    next_slot: u64,
    pages_offset: u64,
    sync: bool,
    /// Whether anything was written since the last commit.
    dirty: bool,
    /// After a failed commit it is unknown what is on the disk, and the system reports it only once.
    failed: bool,
}

impl FileStore {
    pub(super) fn open(path: &Path, capacity_pages: u64, sync: bool) -> Result<Self, OpenError> {
        let io = |verb| move |reason| OpenError::Io { verb, path: path.to_owned(), reason };
        let refuse = |what: String| OpenError::Format { path: path.to_owned(), what };
        let pages_offset = TABLE_OFFSET + (8 * capacity_pages).next_multiple_of(PAGE_BYTES as u64);
        let total = pages_offset + capacity_pages * PAGE_BYTES as u64;
        if !path.try_exists().map_err(io("look for"))? {
            create(path, capacity_pages, total).map_err(io("create"))?;
        }
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(io("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(refuse("another blade uses it; end that one, or name another file".into()));
            }
            Err(TryLockError::Error(reason)) => return Err(io("lock")(reason)),
        }
        let found = read_header(&file).map_err(io("read"))?.map_err(refuse)?;
        if found != capacity_pages {
            let what = format!(
                "it has {found} pages, not {capacity_pages}; ask for that many, or name another file"
            );
            return Err(refuse(what));
        }
        let length = file.metadata().map_err(io("examine"))?.len();
        if length != total {
            return Err(refuse(format!(
                "it has {length} bytes where there must be {total}: it was cut or extended"
            )));
        }
        let mut store = Self {
            file,
            slots: FxHashMap::default(),
            free_slots: Vec::new(),
            next_slot: 0,
            pages_offset,
            sync,
            dirty: false,
            failed: false,
        };
        store.read_table(capacity_pages).map_err(io("read"))?.map_err(refuse)?;
        Ok(store)
    }

    /// Reads which page is in which slot, or says what is wrong with that.
    fn read_table(&mut self, capacity_pages: u64) -> io::Result<Result<(), String>> {
        let mut buffer = vec![0; TABLE_READ_BYTES];
        let mut slot = 0;
        while slot < capacity_pages {
            let bytes = buffer.len().min(8 * (capacity_pages - slot) as usize);
            self.file.read_exact_at(&mut buffer[..bytes], TABLE_OFFSET + 8 * slot)?;
            for (slot, entry) in (slot..).zip(buffer[..bytes].as_chunks().0) {
                let Some(page) = u64::from_le_bytes(*entry).checked_sub(1) else { continue };
                if page >= PAGE_NUMBERS || self.slots.insert(page, slot).is_some() {
                    return Ok(Err(format!("it is damaged: slot {slot} cannot hold page {page}")));
                }
                self.free_slots.extend(self.next_slot..slot);
                self.next_slot = slot + 1;
            }
            slot += bytes as u64 / 8;
        }
        Ok(Ok(()))
    }

    pub(super) fn written_pages(&self) -> u64 {
        self.slots.len() as u64
    }

    pub(super) fn is_written(&self, page: u64) -> bool {
        self.slots.contains_key(&page)
    }

    pub(super) fn read(&self, page: u64) -> io::Result<Page> {
        let mut content = [0; PAGE_BYTES];
        if let Some(&slot) = self.slots.get(&page) {
            self.file.read_exact_at(&mut content, self.place(slot))?;
        }
        Ok(content)
    }

    /// Writes within a page. A new page gets its slot only after the whole of it was written: what a write that was cut short
    /// left in the file never shows. The caller has checked that there is a slot.
    pub(super) fn write(&mut self, page: u64, offset: usize, bytes: &[u8]) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write was lost; restart the blade"));
        }
        self.dirty = true;
        if let Some(&slot) = self.slots.get(&page) {
            return self.file.write_all_at(bytes, self.place(slot) + offset as u64);
        }
        let slot = self.free_slots.last().copied().unwrap_or(self.next_slot);
        let mut content = [0; PAGE_BYTES];
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.file.write_all_at(&content, self.place(slot))?;
        self.file.write_all_at(&(page + 1).to_le_bytes(), TABLE_OFFSET + 8 * slot)?;
        if self.free_slots.pop().is_none() {
            self.next_slot += 1;
        }
        self.slots.insert(page, slot);
        Ok(())
    }

    pub(super) fn commit(&mut self) -> io::Result<()> {
        if self.sync && std::mem::take(&mut self.dirty) {
            // Stays so if this returns early.
            self.failed = true;
            self.file.sync_data()?;
            self.failed = false;
        }
        Ok(())
    }

    pub(super) fn waits_for_disk(&self) -> bool {
        self.sync
    }

    #[cfg(test)]
    pub(super) fn fail(&mut self) {
        // Takes writes, and cannot be synced.
        self.file = OpenOptions::new().read(true).write(true).open("/dev/null").expect("a device");
    }

    fn place(&self, slot: u64) -> u64 {
        self.pages_offset + slot * PAGE_BYTES as u64
    }
}

/// Under its name there is either a whole store or none: it is made under another, and then linked.
fn create(path: &Path, capacity_pages: u64, total: u64) -> io::Result<()> {
    let temporary = temporary::beside(path)?;
    let file = temporary.as_file();
    file.set_len(total)?;
    file.write_all_at(&header(capacity_pages), 0)?;
    file.sync_all()?;
    temporary.persist_noclobber(path)?;
    File::open(temporary::folder_of(path))?.sync_all()
}

fn header(capacity_pages: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(PAGE_BYTES as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&capacity_pages.to_le_bytes());
    let sum = xxh3_64(&bytes[..24]);
    bytes[24..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The capacity, or what is wrong.
fn read_header(file: &File) -> io::Result<Result<u64, String>> {
    let mut bytes = [0; HEADER_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        other => other?,
    }
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    Ok(if bytes[..8] != MAGIC {
        Err("it is no blade's store; name another file, which will be created".to_owned())
    } else if u32_at(8) != VERSION {
        Err(format!(
            "its version is {}; this program reads version {VERSION}; name another file, which will be created",
            u32_at(8)
        ))
    } else if u64_at(24) != xxh3_64(&bytes[..24]) {
        Err("its header is damaged: the checksum is wrong".to_owned())
    } else if u32_at(12) as usize != PAGE_BYTES {
        Err(format!("its pages have {} bytes; this program's have {PAGE_BYTES}", u32_at(12)))
    } else {
        Ok(u64_at(16))
    })
}
