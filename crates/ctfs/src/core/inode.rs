//! Inodes: 128 bytes each, in a table in the store's first 512 GiB, which has frames where it is used.
//!
//! ```text
//!  word 0   mode (bits 0-31), level of the partition plus one (32-39), 0 if it has none
//!  word 1   size in bytes                      word 8   inode that holds the extended attributes
//!  word 2   first page of the partition        word 9   next inode that has no name and is open
//!  word 3   links                              word 10  parent, of a directory
//!  word 4   uid (0-31), gid (32-63)            word 11  device number
//!  word 5-7 access, modification and change    word 12  generation: how often the number was used
//!           time, nanoseconds since 1970       word 14  epochs of access (0-31) and modification (32-63)
//! ```
//!
//! A word of nanoseconds reaches from 1677 to 2262. The times that programs set may lie anywhere: their *epochs*, signed, are what is left
//! of them in units of 2^64 nanoseconds, 584 years. They are 0 in stores that were made before there were any. A time of change is the
//! clock's, and has none.

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{Level, Partition, PersistentMemory, Store, Transaction};
use rustix::io::Errno;

use crate::core::error::{Result, of_store};

/// An inode's number; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ino(pub u64);

impl Ino {
    /// The directory that all paths begin at.
    pub const ROOT: Self = Self(1);
    pub(crate) const NONE: Self = Self(0);
}

/// The bitmap of inodes that are used, and the table: where the article's code has them.
const BITMAP: Vpn = Vpn((512 << 10) / PAGE_BYTES);
const TABLE: Vpn = Vpn((512 << 20) / PAGE_BYTES);
pub(crate) const INODE_BYTES: u64 = 128;
/// As many as the bitmap has bits for before the table begins.
pub(crate) const MOST_INODES: u64 = (TABLE.0 - BITMAP.0) * PAGE_BYTES * 8;

/// Words of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Field {
    Mode = 0,
    Size = 1,
    First = 2,
    Links = 3,
    Owner = 4,
    Accessed = 5,
    Modified = 6,
    Changed = 7,
    Attributes = 8,
    NextOrphan = 9,
    Parent = 10,
    Device = 11,
    Generation = 12,
    Epochs = 14,
}

impl Field {
    /// Where among the epochs that of a time lies, if it has one.
    #[inline]
    fn epoch_shift(self) -> Option<u32> {
        match self {
            Self::Accessed => Some(0),
            Self::Modified => Some(32),
            _ => None,
        }
    }
}

/// The word of epochs, when a time gets one.
#[inline]
pub(crate) fn with_epoch(epochs: u64, time: Field, epoch: i32) -> u64 {
    match time.epoch_shift() {
        Some(shift) => epochs & !(u64::from(u32::MAX) << shift) | u64::from(epoch as u32) << shift,
        None => epochs,
    }
}

/// A time in nanoseconds as a word and an epoch; nothing if its seconds do not fit into 64 bits.
fn time_parts(nanoseconds: i128) -> Option<(u64, i32)> {
    i64::try_from(nanoseconds.div_euclid(NANOSECONDS)).ok()?;
    let word = nanoseconds as i64;
    Some((word as u64, i32::try_from((nanoseconds - i128::from(word)) >> 64).ok()?))
}

/// The number of nanoseconds of a second.
pub(crate) const NANOSECONDS: i128 = 1_000_000_000;

/// Kinds of files, as they stand in a mode.
pub(crate) mod kind {
    pub(crate) const MASK: u32 = 0o170_000;
    pub(crate) const DIRECTORY: u32 = 0o040_000;
    pub(crate) const FILE: u32 = 0o100_000;
    pub(crate) const SYMLINK: u32 = 0o120_000;
    const FIFO: u32 = 0o010_000;
    pub(crate) const CHARACTERS: u32 = 0o020_000;
    const BLOCKS: u32 = 0o060_000;
    const SOCKET: u32 = 0o140_000;

    /// Whether a mode is of one of the kinds that there are.
    pub(crate) fn is_one(mode: u32) -> bool {
        [DIRECTORY, FILE, SYMLINK, FIFO, CHARACTERS, BLOCKS, SOCKET].contains(&(mode & MASK))
    }
}

/// An inode as it was when it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub(crate) words: [u64; 15],
}

impl Inode {
    pub(crate) fn get(&self, field: Field) -> u64 {
        self.words[field as usize]
    }

    pub(crate) fn mode(&self) -> u32 {
        self.get(Field::Mode) as u32
    }

    /// Its permissions without those that let the program that runs it act as its owner or group, if it has any. A group that may not run it is
    /// none of those.
    pub(crate) fn without_privileges(&self) -> Option<u32> {
        const AS_OWNER: u32 = 0o4000;
        const AS_GROUP: u32 = 0o2000;
        const GROUP_RUNS: u32 = 0o0010;
        let mode = self.mode() & 0o7777;
        let as_group = if mode & GROUP_RUNS != 0 { AS_GROUP } else { 0 };
        let kept = mode & !(AS_OWNER | as_group);
        (!self.is(kind::DIRECTORY) && kept != mode).then_some(kept)
    }

    pub(crate) fn is(&self, kind: u32) -> bool {
        self.mode() & kind::MASK == kind
    }

    /// A time in nanoseconds since 1970.
    pub(crate) fn time(&self, field: Field) -> i128 {
        let epoch = field.epoch_shift().map_or(0, |shift| (self.get(Field::Epochs) >> shift) as i32);
        (i128::from(epoch) << 64) + i128::from(self.get(field) as i64)
    }

    /// The times that lie where no program can set them.
    pub(crate) fn impossible_times(&self) -> impl Iterator<Item = Field> {
        let is_impossible = |field: &Field| time_parts(self.time(*field)).is_none();
        [Field::Accessed, Field::Modified].into_iter().filter(is_impossible)
    }

    pub(crate) fn size(&self) -> u64 {
        self.get(Field::Size)
    }

    pub(crate) fn links(&self) -> u64 {
        self.get(Field::Links)
    }

    pub(crate) fn partition(&self) -> Option<Partition> {
        partition_of(self.get(Field::Mode), self.get(Field::First))
    }
}

/// The partition that the words for the mode and the first page name.
#[inline]
pub(crate) fn partition_of(mode: u64, first: u64) -> Option<Partition> {
    let number = (mode >> 32 & 0xff).checked_sub(1)?;
    Some(Partition { level: Level::new(number as u8)?, first: Vpn(first) })
}

/// The words that say where a file's bytes are.
pub(crate) fn place_words(mode: u32, partition: Option<Partition>) -> [(Field, u64); 2] {
    let (level, first) =
        partition.map_or((0, 0), |partition| (u64::from(partition.level.number()) + 1, partition.first.0));
    [(Field::Mode, u64::from(mode) | level << 32), (Field::First, first)]
}

/// The page of the table, and the offset in it.
fn place(ino: Ino) -> (Vpn, u64) {
    let at = ino.0 * INODE_BYTES;
    (Vpn(TABLE.0 + at / PAGE_BYTES), at % PAGE_BYTES)
}

/// The page of the bitmap, and the offset of the word in it.
fn bit_place(ino: Ino) -> (Vpn, u64) {
    let at = ino.0 / 64 * 8;
    (Vpn(BITMAP.0 + at / PAGE_BYTES), at % PAGE_BYTES)
}

/// Where an inode lies, if its part of the table has a frame.
pub(crate) fn address<M: PersistentMemory>(store: &Store<M>, ino: Ino) -> Option<u64> {
    if ino.0 >= MOST_INODES {
        return None;
    }
    let (page, offset) = place(ino);
    Some(store.frame_of(page)?.addr().0 + offset)
}

/// Whether the bitmap says that an inode is used.
pub(crate) fn is_used<M: PersistentMemory>(store: &Store<M>, ino: Ino) -> bool {
    let (page, offset) = bit_place(ino);
    ino.0 < MOST_INODES
        && store
            .frame_of(page)
            .is_some_and(|frame| store.memory().load(frame.addr().0 + offset) >> (ino.0 % 64) & 1 != 0)
}

/// An inode that is used.
pub(crate) fn read<M: PersistentMemory>(store: &Store<M>, ino: Ino) -> Result<Inode> {
    if !is_used(store, ino) {
        return Err(Errno::STALE);
    }
    let at = address(store, ino).ok_or(Errno::IO)?;
    Ok(Inode { words: std::array::from_fn(|word| store.memory().load(at + 8 * word as u64)) })
}

/// Changes in a transaction.
pub(crate) trait Inodes {
    /// Where an inode lies.
    fn inode_address(&self, ino: Ino) -> Result<u64>;
    /// A word of it.
    fn field(&self, ino: Ino, field: Field) -> Result<u64>;
    /// Changes words of it. A time is one of the clock's then.
    fn set_fields<const FIELDS: usize>(&mut self, ino: Ino, words: [(Field, u64); FIELDS]) -> Result<()>;
    /// Changes a word of it.
    fn set_field(&mut self, ino: Ino, field: Field, word: u64) -> Result<()> {
        self.set_fields(ino, [(field, word)])
    }
    /// Changes a time, in nanoseconds since 1970.
    fn set_time(&mut self, ino: Ino, field: Field, nanoseconds: i128) -> Result<()>;
    /// Says that it is used, or not; all its words are 0 then, but for the generation.
    fn mark_inode(&mut self, ino: Ino, used: bool) -> Result<()>;
}

impl<M: PersistentMemory> Inodes for Transaction<'_, M> {
    fn inode_address(&self, ino: Ino) -> Result<u64> {
        let (page, offset) = place(ino);
        Ok(self.frame_of(page).ok_or(Errno::IO)?.addr().0 + offset)
    }

    fn field(&self, ino: Ino, field: Field) -> Result<u64> {
        Ok(self.load(self.inode_address(ino)? + 8 * field as u64))
    }

    fn set_fields<const FIELDS: usize>(&mut self, ino: Ino, words: [(Field, u64); FIELDS]) -> Result<()> {
        let inode = self.inode_address(ino)?;
        let epochs = self.load(inode + 8 * Field::Epochs as u64);
        let of_clock = words.iter().fold(epochs, |epochs, &(field, _)| with_epoch(epochs, field, 0));
        let mut set = |field: Field, word| {
            let at = inode + 8 * field as u64;
            if self.load(at) != word {
                self.set(at, word);
            }
        };
        words.into_iter().for_each(|(field, word)| set(field, word));
        if of_clock != epochs {
            set(Field::Epochs, of_clock);
        }
        Ok(())
    }

    fn set_time(&mut self, ino: Ino, field: Field, nanoseconds: i128) -> Result<()> {
        let (word, epoch) = time_parts(nanoseconds).ok_or(Errno::INVAL)?;
        self.set_field(ino, field, word)?;
        let epochs = self.field(ino, Field::Epochs)?;
        self.set_field(ino, Field::Epochs, with_epoch(epochs, field, epoch))
    }

    fn mark_inode(&mut self, ino: Ino, used: bool) -> Result<()> {
        let (bit_page, bit_offset) = bit_place(ino);
        for page in [bit_page, place(ino).0] {
            if self.frame_of(page).is_none() {
                let frame = self.take_frames(0).map_err(of_store)?;
                self.memory().clear_frame(frame);
                self.map(page, frame, false).map_err(of_store)?;
            }
        }
        let at = self.frame_of(bit_page).ok_or(Errno::IO)?.addr().0 + bit_offset;
        let (word, bit) = (self.load(at), 1 << (ino.0 % 64));
        self.set(at, if used { word | bit } else { word & !bit });
        let at = self.inode_address(ino)?;
        for word in (0..Field::Generation as u64).chain([Field::Epochs as u64]) {
            if self.load(at + 8 * word) != 0 {
                self.set(at + 8 * word, 0);
            }
        }
        let generation = at + 8 * Field::Generation as u64;
        self.set(generation, self.load(generation).wrapping_add(used.into()));
        Ok(())
    }
}

/// Where the word lies that says whether an inode is used, and the bit in it, if that part of the bitmap has a frame.
pub(crate) fn bit_address<M: PersistentMemory>(store: &Store<M>, ino: Ino) -> Option<(u64, u64)> {
    let (page, offset) = bit_place(ino);
    Some((store.frame_of(page)?.addr().0 + offset, 1 << (ino.0 % 64)))
}

/// The pages that an inode cannot do without: of the bitmap, and of the table.
pub(crate) fn pages(ino: Ino) -> [Vpn; 2] {
    [bit_place(ino).0, place(ino).0]
}

/// Visits all inodes whose part of the table has a frame, used or not, with what they hold.
pub(crate) fn visit_table<M: PersistentMemory>(store: &Store<M>, visit: &mut dyn FnMut(Ino, Inode)) {
    let per_page = PAGE_BYTES / INODE_BYTES;
    let (mut page, end) = (TABLE, Vpn(TABLE.0 + MOST_INODES / per_page));
    while page < end {
        match store.find_or_gap(page) {
            Err(gap) => page = Vpn((page.0 / gap + 1) * gap),
            Ok(mapped) => {
                for index in 0..per_page {
                    let at = mapped.frame.addr().0 + index * INODE_BYTES;
                    let words = std::array::from_fn(|word| store.memory().load(at + 8 * word as u64));
                    visit(Ino((page.0 - TABLE.0) * per_page + index), Inode { words });
                }
                page = Vpn(page.0 + 1);
            }
        }
    }
}

/// The first inode that is free from `hint` on, and from the beginning then.
pub(crate) fn find_free<M: PersistentMemory>(store: &Store<M>, hint: Ino) -> Option<Ino> {
    let free_in = |from: u64, to: u64| {
        let mut at = from;
        while at < to {
            let (page, offset) = bit_place(Ino(at));
            // Where the bitmap has no frame, no inode is used.
            let Some(frame) = store.frame_of(page) else { return Some(Ino(at)) };
            let word = store.memory().load(frame.addr().0 + offset) >> (at % 64);
            let free = u64::from(word.trailing_ones());
            if free < 64 - at % 64 {
                return Some(Ino(at + free)).filter(|ino| ino.0 < to);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    };
    free_in(hint.0.max(1), MOST_INODES).or_else(|| free_in(1, hint.0))
}

/// Visits all inodes that are used.
pub(crate) fn visit<M: PersistentMemory>(store: &Store<M>, visit: &mut dyn FnMut(Ino)) {
    let mut page = BITMAP;
    while page < TABLE {
        match store.find_or_gap(page) {
            Err(gap) => page = Vpn((page.0 / gap + 1) * gap),
            Ok(mapped) => {
                for word in 0..PAGE_BYTES / 8 {
                    let mut bits = store.memory().load(mapped.frame.addr().0 + 8 * word);
                    while bits != 0 {
                        let bit = u64::from(bits.trailing_zeros());
                        bits &= bits - 1;
                        visit(Ino((page.0 - BITMAP.0) * PAGE_BYTES * 8 + word * 64 + bit));
                    }
                }
                page = Vpn(page.0 + 1);
            }
        }
    }
}
