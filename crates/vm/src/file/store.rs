//! The store: what lies where in persistent memory, and transactions over it.
//!
//! ```text
//!  frame 0      superblock: magic, version, sizes, places, checksum
//!  frame 1      its mirror
//!  frame 2      roots: the page table's, states of the largest partitions, words of the layer above
//!  frames 3...  redo log
//!  then         a bit for every frame
//!  then         frames: tables of pages, and whatever is mapped
//! ```
//!
//! A store that grows gets a new bitmap, in the first of its new frames, and the old one's frames are free. Until a superblock names
//! the new bitmap, all of that is behind the store's end: a crash leaves the old store or the new one.

mod transaction;

use std::collections::VecDeque;
use std::ops::Range;

use super::checkpoint::{self, Checkpoints, NotPersistent};
use super::error::StoreError;
use super::journal::{Journal, Recovered};
use super::memory::PersistentMemory;
use super::translation_cache::TranslationCache;
use crate::addr::{PAGE_BYTES, Pfn, Vpn};
use crate::frame::BuddyAllocator;
use crate::hash::xxh64_of_word;
use transaction::Spare;
pub use transaction::Transaction;

/// The word that a store's file, and its second page, begin with: "pwctfs".
pub const STORE_MAGIC: u64 = u64::from_le_bytes(*b"pwctfs\0\0");
/// The format of stores as they are made. Before it the log had words instead of runs of bytes.
pub const VERSION: u64 = 2;
/// The format of stores that have grown: the bitmap is where a superblock says, and the superblock names the page table's root.
pub const GROWN_VERSION: u64 = 3;
/// The frames of the superblocks, and their names.
const SUPERBLOCKS: [(Pfn, &str); 2] =
    [(Pfn(0), "the superblock (frame 0)"), (Pfn(1), "the superblock's mirror (frame 1)")];
const ROOTS: Pfn = Pfn(2);
const LOG: Pfn = Pfn(3);
/// The first frame of the bitmap in a store that has not grown.
const FIRST_BITMAP: u64 = LOG.0 + LOG_FRAMES;
/// Frames of the redo log: 65,532 words that lie apart, or one run of 1,048,504 bytes. A swap of any two ranges takes at most 4,088
/// words and two for each GiB.
pub const LOG_FRAMES: u64 = 256;
/// Frames of the smallest store: it holds a few small files.
pub const LEAST_FRAMES: u64 = 512;
/// The buddy allocator's limit, 1 TiB.
pub const MOST_FRAMES: u64 = 1 << 28;
/// The base-2 logarithm of the number of frames of a large page, 2 MiB.
pub const LARGE_ORDER: u32 = 9;

/// Words of the root frame.
pub(super) mod root {
    /// The root of the persistent page table: a frame.
    pub(in crate::file) const TABLE: u64 = 0;
    /// States of the largest partitions, 32 to a word.
    pub(in crate::file) const PARTITIONS: u64 = 1;
    /// Words of the layer above.
    pub(in crate::file) const ABOVE: u64 = 64;
}

/// Words of the root frame that the layer above may use.
pub const ROOT_WORDS: u64 = 448;

/// A memory that holds no store, or one that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The memory holds no store.
    #[error("neither superblock is one: there is no store here, or it is damaged beyond use")]
    NoStore,
    /// Made by another version.
    #[error("the store has format {found}; known are {VERSION} and {GROWN_VERSION}")]
    Version {
        /// The version of the store's format.
        found: u64,
    },
    /// The store is larger than the memory that holds it.
    #[error("the store has {frames} frames of 4 KiB, and there is room for {room}")]
    Truncated {
        /// The number of frames that the superblock names.
        frames: u64,
        /// The number of frames that there is room for.
        room: u64,
    },
    /// A size that cannot be.
    #[error("{frames} frames of 4 KiB; allowed: {LEAST_FRAMES} to {MOST_FRAMES}")]
    Size {
        /// The number of frames that was asked for.
        frames: u64,
    },
    /// A part of the store is used twice, or lies outside.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The disk has no room for the frames that are in use.
    #[error(
        "the disk has no room for the frames that the store uses; free {bytes} bytes or move the store to a larger disk"
    )]
    NoRoom {
        /// The number of bytes that are missing.
        bytes: u64,
    },
    /// The memory failed to make what was written persistent.
    #[error(transparent)]
    NotPersistent(#[from] NotPersistent),
}

/// The reason why a store is as large as before.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The store would become smaller and lose frames.
    #[error("the store has {has} bytes and cannot become smaller: {wanted} bytes", has = .frames * PAGE_BYTES, wanted = .wanted * PAGE_BYTES)]
    Smaller {
        /// The number of frames that the store has.
        frames: u64,
        /// The number of frames that the store was to have.
        wanted: u64,
    },
    /// The new frames have no room for the new bitmap.
    #[error("the store has {has} bytes and would grow to {least} bytes or more, as it gets a new bitmap", has = .frames * PAGE_BYTES, least = .least * PAGE_BYTES)]
    TooLittle {
        /// The number of frames that the store has.
        frames: u64,
        /// The smallest number of frames that the store can grow to.
        least: u64,
    },
    /// No store has such a size.
    #[error("{0} frames of 4 KiB; allowed: up to {MOST_FRAMES}")]
    Size(u64),
    /// The memory holds no store, or the store cannot be written.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// The places of the parts of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) frames: u64,
    pub(super) bitmap: u64,
    pub(super) bitmap_frames: u64,
    /// The page table's root, which stays where it is.
    pub(super) table: u64,
}

impl Layout {
    fn of(frames: u64) -> Result<Self, OpenError> {
        if !(LEAST_FRAMES..=MOST_FRAMES).contains(&frames) {
            return Err(OpenError::Size { frames });
        }
        let bitmap_frames = frames.div_ceil(8 * PAGE_BYTES);
        Ok(Self { frames, bitmap: FIRST_BITMAP, bitmap_frames, table: FIRST_BITMAP + bitmap_frames })
    }

    /// The same store with more frames: the bitmap of all lies in the first of the new ones. Nothing if it has so many already.
    fn grown(&self, frames: u64) -> Result<Option<Self>, GrowError> {
        if frames > MOST_FRAMES {
            return Err(GrowError::Size(frames));
        }
        if frames < self.frames {
            return Err(GrowError::Smaller { frames: self.frames, wanted: frames });
        }
        if frames == self.frames {
            return Ok(None);
        }
        let grown =
            Self { frames, bitmap: self.frames, bitmap_frames: frames.div_ceil(8 * PAGE_BYTES), ..*self };
        if grown.bitmap + grown.bitmap_frames >= frames {
            let least = grown.bitmap + grown.bitmap_frames + 1;
            return Err(GrowError::TooLittle { frames: self.frames, least });
        }
        Ok(Some(grown))
    }

    fn has_grown(&self) -> bool {
        self.bitmap != FIRST_BITMAP
    }

    /// Whether some of these frames are the store's own, which no page and no table of pages has, or there are no such frames.
    pub(super) fn is_own(&self, first: Pfn, count: u64) -> bool {
        let Some(end) = first.0.checked_add(count).filter(|&end| end <= self.frames) else { return true };
        first.0 < FIRST_BITMAP || first.0 < self.bitmap + self.bitmap_frames && self.bitmap < end
    }

    /// Returns the words of a superblock.
    fn words(&self) -> [u64; 6] {
        let (version, last) =
            if self.has_grown() { (GROWN_VERSION, self.table) } else { (VERSION, self.bitmap_frames) };
        let words = [STORE_MAGIC, version, self.frames, self.bitmap, last];
        let sum = words.iter().fold(0, |sum, &word| xxh64_of_word(word, sum));
        [words[0], words[1], words[2], words[3], words[4], sum]
    }

    fn read(memory: &impl PersistentMemory, frame: Pfn) -> Result<Self, OpenError> {
        // The smallest files have no room for the mirror, or for any superblock.
        if memory.bytes() < frame.addr().0 + PAGE_BYTES {
            return Err(OpenError::NoStore);
        }
        Self::of_words(std::array::from_fn(|at| memory.load(frame.addr().0 + 8 * at as u64)))
    }

    fn of_words(words: [u64; 6]) -> Result<Self, OpenError> {
        if words[0] != STORE_MAGIC {
            return Err(OpenError::NoStore);
        }
        // Everything follows from the size.
        let layout = Self::of(words[2]);
        let layout = match words[1] {
            VERSION => layout?,
            GROWN_VERSION => Self { bitmap: words[3], table: words[4], ..layout? },
            found => return Err(OpenError::Version { found }),
        };
        let has_place = |first: u64, count: u64| {
            first >= FIRST_BITMAP && first.checked_add(count).is_some_and(|end| end <= layout.frames)
        };
        let is_possible =
            has_place(layout.bitmap, layout.bitmap_frames) && !layout.is_own(Pfn(layout.table), 1);
        if is_possible && layout.words() == words { Ok(layout) } else { Err(OpenError::NoStore) }
    }
}

/// A store in persistent memory.
#[derive(Debug)]
pub struct Store<M> {
    memory: M,
    layout: Layout,
    journal: Journal,
    /// The allocator over the bitmap's free frames.
    frames: BuddyAllocator,
    commits: u64,
    spare: Spare,
    /// Frames of pages that hold headers and inodes.
    translations: TranslationCache,
    /// Frames that were given back, and the number of the checkpoint with which they become free; the least first.
    waiting: VecDeque<(u64, Pfn)>,
}

impl<M: PersistentMemory> Store<M> {
    /// Makes an empty store of all of the memory.
    ///
    /// # Errors
    ///
    /// It is too small or too large.
    pub fn format(memory: M) -> Result<Self, OpenError> {
        let layout = Layout::of(memory.bytes() / PAGE_BYTES)?;
        // Until both superblocks are there, there is no store.
        for frame in [Pfn(0), Pfn(1)] {
            memory.clear_frame(frame);
        }
        memory.fence();
        let journal = Journal::new(LOG.addr().0, LOG_FRAMES);
        journal.format(&memory);
        memory.clear_frame(ROOTS);
        let bitmap = Pfn(layout.bitmap).addr().0;
        memory.zero(bitmap, layout.bitmap_frames * PAGE_BYTES);
        // The frames so far, the page table's root behind them, and those that there are not.
        let table = layout.table;
        let beyond = layout.bitmap_frames * 8 * PAGE_BYTES;
        for frame in (0..=table).chain(layout.frames..beyond) {
            let at = bitmap + frame / 64 * 8;
            memory.store(at, memory.load(at) | 1 << (frame % 64));
        }
        memory.flush(bitmap, layout.bitmap_frames * PAGE_BYTES);
        memory.clear_frame(Pfn(table));
        memory.store(ROOTS.addr().0 + 8 * root::TABLE, table);
        memory.flush(ROOTS.addr().0, 8);
        memory.fence();
        for frame in [Pfn(1), Pfn(0)] {
            write_superblock(&memory, &layout, frame);
        }
        Self::open(memory).map(|(store, _)| store)
    }

    /// Opens a store, and applies what a crash left in its log. A superblock that is damaged is made good from the other.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(memory: M) -> Result<(Self, Recovered), OpenError> {
        let (layout, journal, recovered) = recover(&memory)?;
        Ok((Self::of_layout(memory, layout, journal)?, recovered))
    }

    /// Opens a store, and lets it have so many frames of the memory. A crash leaves it with as many as before, or with all of them.
    ///
    /// The store may be open already, in the same memory by another way, if it is used no more after this has answered a store: its log
    /// must be settled ([`Store::settle`]), and its checkpoints must have ended ([`Checkpoints::end`]).
    ///
    /// # Errors
    ///
    /// [`GrowError`]; the store is as large as before.
    pub fn grow(memory: M, frames: u64) -> Result<Self, GrowError> {
        let (old, journal, _) = recover(&memory)?;
        let Some(new) = old.grown(frames)? else { return Ok(Self::of_layout(memory, old, journal)?) };
        let room = memory.bytes() / PAGE_BYTES;
        if frames > room {
            return Err(OpenError::Truncated { frames, room }.into());
        }
        provide(&memory, Pfn(new.bitmap), new.bitmap_frames)?;
        let on_disk = |error: NotPersistent| GrowError::Open(error.into());
        checkpoint::erase(&memory, old.frames).map_err(on_disk)?;
        write_grown_bitmap(&memory, &old, &new).map_err(on_disk)?;
        // The first frame counts before its mirror does: it comes last.
        let store = Self::of_layout(memory, new, journal)?;
        let written = SUPERBLOCKS.iter().rev().try_for_each(|(frame, _)| {
            write_superblock(&store.memory, &new, *frame);
            store.memory.persist(frame.addr().0, PAGE_BYTES)
        });
        // In memory the new size counts from now on: the next `fsync` says that the disk does not know.
        if let (Err(NotPersistent), Some(checkpoints)) = (written, store.memory.checkpoints()) {
            checkpoints.fail();
        }
        Ok(store)
    }

    /// Returns whether the store can have so many frames, and has fewer.
    ///
    /// # Errors
    ///
    /// [`GrowError`], as of [`Store::grow`].
    pub fn can_grow(&self, frames: u64) -> Result<bool, GrowError> {
        Ok(self.layout.grown(frames)?.is_some())
    }

    /// The store that lies in a memory so, its log applied.
    pub(super) fn of_layout(memory: M, layout: Layout, journal: Journal) -> Result<Self, OpenError> {
        let frames = sure(&memory, read_bitmap(&memory, &layout))?;
        provide_used(&memory, &layout)?;
        if let Some(checkpoints) = memory.checkpoints() {
            checkpoints.begin(&memory, layout.frames)?;
        }
        let (spare, translations, waiting) = Default::default();
        let store = Self { memory, layout, journal, frames, commits: 0, spare, translations, waiting };
        let table = store.table_root();
        sure(&store.memory, Ok(()))?;
        if layout.is_own(table, 1) {
            return Err(OpenError::Damaged(format!("the page table's root is frame {table}")));
        }
        Ok(store)
    }

    /// Returns the memory that the store lies in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Gives the memory back.
    pub fn into_memory(self) -> M {
        self.memory
    }

    /// Returns the number of all frames and the number of free ones.
    pub fn frame_counts(&self) -> (u64, u64) {
        (self.layout.frames, self.frames.free_frames() + self.waiting.len() as u64)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Transactions that were committed since it was opened.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// Returns whether the bitmap says that a frame is used.
    pub fn is_used(&self, frame: Pfn) -> bool {
        self.memory.load(self.bitmap_word(frame)) >> (frame.0 % 64) & 1 != 0
    }

    fn bitmap_word(&self, frame: Pfn) -> u64 {
        Pfn(self.layout.bitmap).addr().0 + frame.0 / 64 * 8
    }

    pub(super) fn table_root(&self) -> Pfn {
        Pfn(self.memory.load(root_place(root::TABLE)))
    }

    /// Returns the frame of a page that holds the file system's own data, from a cache: for pages that are looked up
    /// again and again.
    #[inline]
    pub fn frame_of(&self, page: Vpn) -> Option<Pfn> {
        self.translations.frame(page, |page| Some(self.find(page)?.frame))
    }

    /// Returns a word of the layer above.
    pub fn root_word(&self, index: u64) -> u64 {
        assert!(index < ROOT_WORDS, "{index} of {ROOT_WORDS} words");
        self.memory.load(root_place(root::ABOVE + index))
    }

    /// Makes what the last transaction wrote safe to write over. Must be called before a word is stored that a
    /// transaction may have written.
    #[inline]
    pub fn settle(&mut self) {
        self.journal.settle(&self.memory);
    }

    /// Makes everything persist, where fences do not: see [`Checkpoints`]. Other threads may go on to change the store when `begun` is
    /// called.
    ///
    /// # Errors
    ///
    /// [`NotPersistent`].
    pub fn checkpoint(&mut self) -> Result<(), NotPersistent> {
        let made = match self.memory.checkpoints() {
            Some(checkpoints) => checkpoints.checkpoint(&self.memory, None),
            None => Ok(()),
        };
        self.free_waiting();
        made
    }

    /// Frames that no power failure leads back to are free.
    fn free_waiting(&mut self) {
        let durable = self.memory.checkpoints().map_or(u64::MAX, Checkpoints::durable);
        while let Some((_, frame)) = self.waiting.pop_front_if(|(number, _)| *number <= durable) {
            self.frames.free(frame, 0);
        }
    }
}

/// Returns the address of a word of the root frame.
pub(super) fn root_place(index: u64) -> u64 {
    ROOTS.addr().0 + 8 * index
}

/// Frames of the store whose first two frames begin with these words; nothing where there is none.
pub fn frames_of_store(superblocks: [[u64; 6]; 2]) -> Option<u64> {
    superblocks.into_iter().find_map(|words| Layout::of_words(words).ok()).map(|layout| layout.frames)
}

/// Both superblocks, as they were read, and the layout that counts: the first superblock's, or its mirror's.
type Superblocks = ([Result<Layout, OpenError>; 2], Layout);

fn read_superblocks(memory: &impl PersistentMemory) -> Result<Superblocks, OpenError> {
    let both = SUPERBLOCKS.map(|(frame, _)| Layout::read(memory, frame));
    let layout = match &both {
        [Ok(layout), _] | [Err(_), Ok(layout)] => *layout,
        [Err(OpenError::NoStore), Err(error)] | [Err(error), Err(_)] => return Err(error.clone()),
    };
    Ok((both, layout))
}

/// Returns the superblocks of a memory that are not what they must be, by name, while the other one can be read. A
/// store that is opened has both again.
///
/// # Errors
///
/// [`OpenError::NoStore`] or [`OpenError::Version`]: no superblock can be read.
pub fn damaged_superblocks(memory: &impl PersistentMemory) -> Result<Vec<&'static str>, OpenError> {
    let (both, layout) = sure(memory, read_superblocks(memory))?;
    let is_damaged = |(_, found): &(_, &Result<Layout, OpenError>)| found.as_ref() != Ok(&layout);
    Ok(SUPERBLOCKS.iter().zip(&both).filter(is_damaged).map(|((_, name), _)| *name).collect())
}

/// Finds out what is where, makes both superblocks good, and applies what a crash left in the log.
pub(super) fn recover(memory: &impl PersistentMemory) -> Result<(Layout, Journal, Recovered), OpenError> {
    sure(memory, recover_present(memory))
}

/// Returns what was found, unless the memory has failed: it may be what a missing page reads as.
fn sure<T>(memory: &impl PersistentMemory, found: Result<T, OpenError>) -> Result<T, OpenError> {
    if memory.has_failed() { Err(NotPersistent.into()) } else { found }
}

fn recover_present(memory: &impl PersistentMemory) -> Result<(Layout, Journal, Recovered), OpenError> {
    let (both, layout) = read_superblocks(memory)?;
    let room = memory.bytes() / PAGE_BYTES;
    if layout.frames > room {
        return Err(OpenError::Truncated { frames: layout.frames, room });
    }
    provide(memory, Pfn(0), FIRST_BITMAP)?;
    provide(memory, Pfn(layout.bitmap), layout.bitmap_frames)?;
    let restored = checkpoint::restore(memory, layout.frames, LOG.addr().0)?;
    let mut journal = Journal::new(LOG.addr().0, LOG_FRAMES);
    let recovered = match (journal.recover(memory), restored) {
        (Recovered::Nothing, Some(pages)) => Recovered::Restored(pages),
        (recovered, _) => recovered,
    };
    for ((frame, _), found) in SUPERBLOCKS.iter().zip(&both) {
        if found.as_ref() != Ok(&layout) {
            write_superblock(memory, &layout, *frame);
        }
    }
    Ok((layout, journal, recovered))
}

/// Lets frames that are in use have room.
fn provide(memory: &impl PersistentMemory, first: Pfn, frames: u64) -> Result<(), OpenError> {
    let bytes = frames * PAGE_BYTES;
    if memory.provide(first.addr().0, bytes) { Ok(()) } else { Err(OpenError::NoRoom { bytes }) }
}

fn write_superblock(memory: &impl PersistentMemory, layout: &Layout, frame: Pfn) {
    let at = frame.addr().0;
    for (offset, word) in (0..).step_by(8).zip(layout.words()) {
        memory.store(at + offset, word);
    }
    memory.flush(at, 64);
    memory.fence();
}

/// The bitmap of a store that grows, in frames that are new: what the old one says, the old one's own frames free, and the new frames.
fn write_grown_bitmap(
    memory: &impl PersistentMemory,
    old: &Layout,
    new: &Layout,
) -> Result<(), NotPersistent> {
    let place = |layout: &Layout, index: u64| Pfn(layout.bitmap).addr().0 + 8 * index;
    let bitmap_of = |layout: &Layout| layout.bitmap..layout.bitmap + layout.bitmap_frames;
    for index in 0..new.bitmap_frames * PAGE_BYTES / 8 {
        let bits = |frames: Range<u64>| bits_in(&frames, 64 * index);
        let known = bits(0..old.frames);
        let used =
            if known == 0 { 0 } else { memory.load(place(old, index)) & known & !bits(bitmap_of(old)) };
        memory.store(place(new, index), used | bits(bitmap_of(new)) | bits(new.frames..u64::MAX));
    }
    let bytes = new.bitmap_frames * PAGE_BYTES;
    memory.flush(place(new, 0), bytes);
    memory.fence();
    memory.persist(place(new, 0), bytes)
}

/// The bits of a range among the 64 from one on.
fn bits_in(range: &Range<u64>, first: u64) -> u64 {
    let [from, to] = [range.start, range.end].map(|end| end.clamp(first, first + 64) - first);
    if from < to { u64::MAX >> (64 - (to - from)) << from } else { 0 }
}

fn read_bitmap(memory: &impl PersistentMemory, layout: &Layout) -> Result<BuddyAllocator, OpenError> {
    let mut buddy = BuddyAllocator::new(layout.frames * PAGE_BYTES).expect("the size was looked at");
    let bitmap = Pfn(layout.bitmap).addr().0;
    for at in 0..layout.frames.div_ceil(64) {
        let mut word = memory.load(bitmap + 8 * at);
        while word != 0 {
            let frame = 64 * at + u64::from(word.trailing_zeros());
            word &= word - 1;
            // The allocator keeps frame 0 to itself.
            if frame != 0 && frame < layout.frames {
                buddy.alloc_at(Pfn(frame), 0);
            }
        }
    }
    let own = (1..FIRST_BITMAP).chain(layout.bitmap..layout.bitmap + layout.bitmap_frames);
    let kept = own.into_iter().find(|&frame| buddy.alloc_at(Pfn(frame), 0));
    match kept {
        Some(frame) => Err(OpenError::Damaged(format!("frame {frame} of the store's own is marked free"))),
        None => Ok(buddy),
    }
}

/// Lets all frames that are in use have room. All frames of a word of the bitmap count as used if one of them is: room is got in larger
/// pieces anyway.
fn provide_used(memory: &impl PersistentMemory, layout: &Layout) -> Result<(), OpenError> {
    let bitmap = Pfn(layout.bitmap).addr().0;
    let words = layout.frames.div_ceil(64);
    let mut at = 0;
    while at < words {
        let run = (at..words).take_while(|at| memory.load(bitmap + 8 * at) != 0).count() as u64;
        if run > 0 {
            let first = 64 * at;
            provide(memory, Pfn(first), (64 * run).min(layout.frames - first))?;
        }
        at += run.max(1);
    }
    Ok(())
}
