//! The tags of the cache: which page is in which frame.

use super::{Replacement, TierDesign};

/// A page of flash by its number, which is the device's logical page number as well as the physical one. Below 2^56.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct FlashPage(pub u64);

/// A frame of the cache: set times ways plus way. A page stays in its frame until it leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct FrameIndex(pub u32);

/// A page in its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    /// The page of flash that is resident.
    pub page: FlashPage,
    /// The frame that holds the page.
    pub frame: FrameIndex,
    /// Whether flash has older data.
    pub dirty: bool,
}

/// A frame that can be had, and the page that leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) frame: FrameIndex,
    pub(super) page: Option<FlashPage>,
    pub(super) dirty: bool,
}

/// Set-associative tags of 8 bytes, recency included:
///
/// ```text
///  63  60 59       58    57        56    55            0
/// +------+--------+-----+---------+-----+---------------+
/// | rank | unused | dirty| reserved| valid| page number  |
/// +------+--------+-----+---------+-----+---------------+
/// ```
///
/// A *reserved* way waits for the page that its tag names, which is not found there yet. For LRU the rank of a set's way is
/// the number of ways that were used since; for NRU it is 1 if the way was used recently.
///
/// A set is one host cache line or half of one, up to 8 ways; so a look-up, which is what every access of a program does,
/// touches one line. Ways that do not exist fill it up: they are never valid, and their ranks are the highest.
#[derive(Clone, Debug)]
pub struct TagArray {
    words: Vec<u64>,
    /// The first word that begins a host cache line, wherever the allocator put them. Changes nothing but speed.
    first: usize,
    /// Words of a set: 4, 8 or 16.
    stride: usize,
    ways: usize,
    set_mask: u64,
    index_shift: u32,
    replacement: Replacement,
}

const VALID: u64 = 1 << 56;
const RESERVED: u64 = 1 << 57;
const DIRTY: u64 = 1 << 58;
const RANK_SHIFT: u32 = 60;
const RANK_ONE: u64 = 1 << RANK_SHIFT;
const RANK: u64 = 0xf << RANK_SHIFT;
const PAGE: u64 = VALID - 1;

/// The bit of an NRU way that was used.
const USED: u64 = RANK_ONE;

impl TagArray {
    /// The most ways of a set: as many as ranks have bits for.
    pub const MOST_WAYS: u32 = 16;

    /// The empty tags of a design that was checked.
    pub(super) fn new(design: &TierDesign) -> Self {
        const LINE_WORDS: usize = 8;
        let ways = design.ways as usize;
        let stride = ways.next_power_of_two().max(4);
        let mut words: Vec<u64> = Vec::with_capacity(design.sets as usize * stride + LINE_WORDS);
        let first = words.as_ptr().align_offset(LINE_WORDS * size_of::<u64>()).min(LINE_WORDS);
        words.resize(first, 0);
        for _ in 0..design.sets {
            words.extend((0..stride).map(|way| match design.replacement {
                Replacement::Lru => (way as u64) << RANK_SHIFT,
                Replacement::Nru if way < ways => 0,
                Replacement::Nru => USED,
            }));
        }
        Self {
            words,
            first,
            stride,
            ways,
            set_mask: u64::from(design.sets - 1),
            index_shift: design.index_shift,
            replacement: design.replacement,
        }
    }

    /// Returns the set that a page belongs to.
    #[inline]
    pub fn set_of(&self, page: FlashPage) -> usize {
        (page.0 >> self.index_shift & self.set_mask) as usize
    }

    /// Returns the frame of a resident page and counts that as a use; a write makes the page dirty.
    #[inline]
    pub fn lookup(&mut self, page: FlashPage, write: bool) -> Option<FrameIndex> {
        match self.stride {
            4 => self.lookup_in::<4>(page, write),
            8 => self.lookup_in::<8>(page, write),
            _ => self.lookup_in::<16>(page, write),
        }
    }

    #[inline(always)]
    fn lookup_in<const N: usize>(&mut self, page: FlashPage, write: bool) -> Option<FrameIndex> {
        let set = self.set_of(page);
        let (ways, replacement) = (self.ways, self.replacement);
        let row: &mut [u64; N] =
            self.words[self.first + set * N..].first_chunk_mut().expect("every set has its words");
        let mut equal = 0;
        for (way, word) in row.iter().enumerate() {
            equal |= u32::from(word & (VALID | PAGE) == VALID | page.0) << way;
        }
        if equal == 0 {
            return None;
        }
        // Always below N: the remainder spares a bounds check.
        let way = equal.trailing_zeros() as usize % N;
        if write {
            row[way] |= DIRTY;
        }
        touch(row, way, ways, replacement);
        Some(FrameIndex((set * ways + way) as u32))
    }

    /// Returns the page if it is resident. This does not count as a use.
    pub fn peek(&self, page: FlashPage) -> Option<Resident> {
        let set = self.set_of(page);
        let found = self.row(set).iter().position(|word| word & (VALID | PAGE) == VALID | page.0)?;
        resident(self.row(set)[found], self.frame(set, found))
    }

    /// Returns the frame that a page of this set can have: a free way, the lowest; otherwise the way of the victim.
    /// `None` if all ways are reserved.
    pub(super) fn candidate(&self, set: usize) -> Option<Candidate> {
        let row = self.row(set);
        let way = match row.iter().position(|word| word & (VALID | RESERVED) == 0) {
            Some(free) => free,
            None => self.victim(row)?,
        };
        let before = resident(row[way], self.frame(set, way));
        Some(Candidate {
            frame: self.frame(set, way),
            page: before.map(|before| before.page),
            dirty: before.is_some_and(|before| before.dirty),
        })
    }

    fn victim(&self, row: &[u64]) -> Option<usize> {
        let mut there = (0..row.len()).filter(|&way| row[way] & RESERVED == 0);
        match self.replacement {
            Replacement::Lru => there.max_by_key(|&way| row[way] >> RANK_SHIFT),
            // All that are not reserved may have been used: those that were not are reserved.
            Replacement::Nru => there.clone().find(|&way| row[way] & USED == 0).or_else(|| there.next()),
        }
    }

    /// The frame's page leaves; the frame waits for another.
    pub(super) fn reserve(&mut self, frame: FrameIndex, page: FlashPage) {
        let word = self.word_mut(frame);
        debug_assert!(*word & RESERVED == 0, "{frame:?} is reserved already");
        *word = *word & RANK | RESERVED | page.0;
    }

    /// The page is in the frame, as the one that was used last.
    pub(super) fn install(&mut self, frame: FrameIndex, page: FlashPage, dirty: bool) {
        debug_assert!(page.0 & !PAGE == 0, "{page:?} is not below 2^56");
        let word = self.word_mut(frame);
        *word = *word & RANK | VALID | page.0 | if dirty { DIRTY } else { 0 };
        let (set, way) = (frame.0 as usize / self.ways, frame.0 as usize % self.ways);
        let (ways, replacement, at) = (self.ways, self.replacement, self.first + set * self.stride);
        touch(&mut self.words[at..at + self.stride], way, ways, replacement);
    }

    /// The page that the frame is reserved for.
    pub(super) fn reserved_for(&self, frame: FrameIndex) -> Option<FlashPage> {
        let word = self.row(frame.0 as usize / self.ways)[frame.0 as usize % self.ways];
        (word & RESERVED != 0).then_some(FlashPage(word & PAGE))
    }

    /// Frames that wait for a page.
    pub(super) fn reserved(&self) -> usize {
        (0..=self.set_mask as usize)
            .map(|set| self.row(set).iter().filter(|word| **word & RESERVED != 0).count())
            .sum()
    }

    /// Returns all resident pages, by frame.
    pub fn iter(&self) -> impl Iterator<Item = Resident> {
        (0..=self.set_mask as usize).flat_map(move |set| {
            self.row(set)
                .iter()
                .enumerate()
                .filter_map(move |(way, &word)| resident(word, self.frame(set, way)))
        })
    }

    /// The ways of a set that there are.
    fn row(&self, set: usize) -> &[u64] {
        let at = self.first + set * self.stride;
        &self.words[at..at + self.ways]
    }

    fn word_mut(&mut self, frame: FrameIndex) -> &mut u64 {
        let (set, way) = (frame.0 as usize / self.ways, frame.0 as usize % self.ways);
        &mut self.words[self.first + set * self.stride + way]
    }

    fn frame(&self, set: usize, way: usize) -> FrameIndex {
        FrameIndex((set * self.ways + way) as u32)
    }
}

fn resident(word: u64, frame: FrameIndex) -> Option<Resident> {
    let resident = Resident { page: FlashPage(word & PAGE), frame, dirty: word & DIRTY != 0 };
    (word & VALID != 0).then_some(resident)
}

/// Makes `way` the one that was used last. Nothing is stored if it was.
#[inline(always)]
fn touch(row: &mut [u64], way: usize, ways: usize, replacement: Replacement) {
    match replacement {
        Replacement::Lru => {
            let rank = row[way] & RANK;
            if rank == 0 {
                return;
            }
            for word in row.iter_mut() {
                *word += u64::from(*word & RANK < rank) << RANK_SHIFT;
            }
            row[way] &= !RANK;
        }
        Replacement::Nru => {
            if row[way] & USED != 0 {
                return;
            }
            row[way] |= USED;
            if row.iter().all(|word| word & USED != 0) {
                row[..ways].iter_mut().for_each(|word| *word &= !USED);
                row[way] |= USED;
            }
        }
    }
}
