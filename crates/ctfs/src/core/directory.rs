//! Directories: files of 64-byte slots, and an index of their names that is made when one is first used.
//!
//! ```text
//!  byte 0           8      9      10      11          16
//! +----------------+------+------+-------+-----------+---------------------
//! | inode, 0: free | len  | kind | slots |     0     | name, in as many slots as it takes
//! +----------------+------+------+-------+-----------+---------------------
//! ```
//!
//! The slots alone are the directory; the index is not in the store. What is free says for how many slots, so that a scan
//! never takes a part of a name for an entry.

use std::collections::BTreeMap;

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{Partition, PersistentMemory, Transaction};
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use crate::core::error::Result;
use crate::core::inode::Ino;

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 64;
const HEAD_BYTES: u64 = 16;
/// Where in a head's second word the number of slots lies, and the highest.
const SLOTS_SHIFT: u32 = 16;
const MOST_SLOTS_OF_PART: u64 = 255;
/// Bytes of a name at most.
pub const MOST_NAME_BYTES: usize = 255;

/// An entry, as the index has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) ino: Ino,
    /// The highest four bits of the mode.
    pub(crate) kind: u8,
    pub(crate) slot: u64,
    pub(crate) slots: u64,
}

/// What is known of a directory's slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    names: FxHashMap<Box<[u8]>, Entry>,
    /// By place: names in the order in which they are listed.
    places: BTreeMap<u64, Box<[u8]>>,
    /// Runs of free slots, by their first.
    free: BTreeMap<u64, u64>,
}

/// Slots that a name takes.
pub(crate) fn slots_of(name: &[u8]) -> u64 {
    (HEAD_BYTES + name.len() as u64).div_ceil(SLOT_BYTES)
}

/// Whether a name can be one.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" => Err(Errno::NOENT),
        b"." | b".." => Err(Errno::EXIST),
        _ if name.len() > MOST_NAME_BYTES => Err(Errno::NAMETOOLONG),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

impl Directory {
    /// Makes the index of a directory's bytes. What cannot be an entry is an error: the store is damaged.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Self> {
        let mut directory = Self::default();
        let end = bytes.len() as u64 / SLOT_BYTES;
        let mut slot = 0;
        while slot < end {
            let at = (slot * SLOT_BYTES) as usize;
            let ino = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            let [length, kind, slots] = [0, 1, 2].map(|byte| bytes[at + 8 + byte]);
            let slots = u64::from(slots).max(1);
            if ino == 0 {
                // Slots that no name has used yet are one by one.
                directory.add_free(slot, slots.min(end - slot));
            } else {
                let name = bytes.get(at + 16..at + 16 + usize::from(length)).ok_or(Errno::IO)?;
                if slots != slots_of(name) || slot + slots > end || check_name(name).is_err() {
                    return Err(Errno::IO);
                }
                let entry = Entry { ino: Ino(ino), kind, slot, slots };
                if directory.names.insert(name.into(), entry).is_some() {
                    return Err(Errno::IO);
                }
                directory.places.insert(slot, name.into());
            }
            slot += slots;
        }
        Ok(directory)
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<Entry> {
        self.names.get(name).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Names from a slot on, in the order of their slots.
    pub(crate) fn entries_from(&self, slot: u64) -> impl Iterator<Item = (&[u8], Entry)> {
        self.places.range(slot..).map(|(_, name)| (&**name, self.names[name]))
    }

    /// Where a name of so many slots has room, and in how many free ones.
    pub(crate) fn room(&self, slots: u64) -> Option<(u64, u64)> {
        self.free.iter().find(|&(_, &run)| run >= slots).map(|(&slot, &run)| (slot, run))
    }

    pub(crate) fn add_free(&mut self, slot: u64, slots: u64) {
        let (mut first, mut end) = (slot, slot + slots);
        if let Some((&before, &run)) = self.free.range(..slot).next_back()
            && before + run == slot
        {
            first = before;
        }
        if let Some(run) = self.free.remove(&end) {
            end += run;
        }
        self.free.insert(first, end - first);
    }

    /// Takes note of a new entry, which was put into a free run.
    pub(crate) fn insert(&mut self, name: &[u8], entry: Entry) {
        let Entry { slot, slots, .. } = entry;
        let run = self.free.remove(&slot).expect("it was a run's beginning");
        if run > slots {
            self.free.insert(slot + slots, run - slots);
        }
        self.names.insert(name.into(), entry);
        self.places.insert(slot, name.into());
    }

    /// An entry is another file's now.
    pub(crate) fn replace(&mut self, name: &[u8], ino: Ino, kind: u8) {
        let entry = self.names.get_mut(name).expect("it is there");
        (entry.ino, entry.kind) = (ino, kind);
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        let Entry { slot, slots, .. } = self.names.remove(name).expect("it is there");
        self.places.remove(&slot);
        self.add_free(slot, slots);
    }
}

/// Where a slot lies.
fn place<M: PersistentMemory>(
    transaction: &Transaction<'_, M>,
    partition: Partition,
    slot: u64,
) -> Result<u64> {
    let at = slot * SLOT_BYTES;
    let page = Vpn(partition.first.0 + at / PAGE_BYTES);
    Ok(transaction.find(page).ok_or(Errno::IO)?.frame.addr().0 + at % PAGE_BYTES)
}

fn head(length: usize, kind: u8, slots: u64) -> u64 {
    length as u64 | u64::from(kind) << 8 | slots << SLOTS_SHIFT
}

/// Writes an entry into a run of free slots.
pub(crate) fn put<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    partition: Partition,
    name: &[u8],
    entry: Entry,
    run: u64,
) -> Result<()> {
    let Entry { ino, kind, slot, slots } = entry;
    // What is free there says so in parts; of the last one that it takes something is left.
    let mut end_of_part = slot;
    while end_of_part < slot + slots {
        let head = transaction.load(place(transaction, partition, end_of_part)? + 8);
        end_of_part += (head >> SLOTS_SHIFT & MOST_SLOTS_OF_PART).max(1);
    }
    let mut bytes = vec![0; (slots * SLOT_BYTES) as usize];
    bytes[..8].copy_from_slice(&ino.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&head(name.len(), kind, slots).to_le_bytes());
    bytes[16..16 + name.len()].copy_from_slice(name);
    for (slot, part) in (slot..).zip(bytes.chunks_exact(SLOT_BYTES as usize)) {
        let at = place(transaction, partition, slot)?;
        for (offset, word) in (0..).step_by(8).zip(part.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            if transaction.load(at + offset) != word {
                transaction.set(at + offset, word);
            }
        }
    }
    // A damaged directory says that it has more than there is.
    let end_of_part = end_of_part.min(slot + run);
    if end_of_part > slot + slots {
        set_free(transaction, partition, slot + slots, end_of_part - slot - slots)?;
    }
    Ok(())
}

/// Says that a run of slots is free. A run can be longer than what one says; then several do.
pub(crate) fn set_free<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    partition: Partition,
    slot: u64,
    slots: u64,
) -> Result<()> {
    let mut slot = slot;
    let end = slot + slots;
    while slot < end {
        let part = (end - slot).min(MOST_SLOTS_OF_PART);
        let at = place(transaction, partition, slot)?;
        transaction.set(at, 0);
        transaction.set(at + 8, head(0, 0, part));
        slot += part;
    }
    Ok(())
}

/// Makes an entry another file's.
pub(crate) fn redirect<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    partition: Partition,
    entry: Entry,
    name: &[u8],
    (ino, kind): (Ino, u8),
) -> Result<()> {
    let at = place(transaction, partition, entry.slot)?;
    transaction.set(at, ino.0);
    transaction.set(at + 8, head(name.len(), kind, entry.slots));
    Ok(())
}
