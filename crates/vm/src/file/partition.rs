//! Partitions: ranges of pages in ten sizes, each cut into eight of the next smaller size.
//!
//! ```text
//!  level    L9      L8     L7    L6    L5      L4     L3    L2      L1     L0
//!  size   512 GiB 64 GiB 8 GiB 1 GiB 128 MiB 16 MiB 2 MiB 256 KiB 32 KiB 4 KiB
//! ```
//!
//! A partition is empty, allocated to one file, or cut; where it is cut, its first page is its header. The header pages of
//! nested first parts are one page, in which every level has its own place. An L3 is cut into parts of one size only, L2, L1
//! or L0, and loses the first of them to its header. A header also knows what is free below it, so that an allocation looks
//! into at most eight headers at each level.
//!
//! ```text
//!  63     51 50 48 47       40 39        32 31           16 15            0
//! +---------+-----+-----------+------------+---------------+---------------+
//! |    0    |small| available | 0xa0, level| kinds (of L4) |    states     |
//! +---------+-----+-----------+------------+---------------+---------------+
//! ```
//!
//! Two bits for each part: 0 empty, 1 allocated, 2 cut; and of an L4's, into what. `available` is one more than the highest
//! level of which a part below is free, `small` has a bit for L0, L1 and L2. Of an L3: level 3, its kind in the lowest bits,
//! and a bit for each part in the eight words behind.

use super::error::StoreError;
use super::mapping::SPACE_END;
use super::memory::PersistentMemory;
use super::store::{Store, Transaction, root};
use crate::addr::{PhysAddr, Vpn};
use crate::table::TableWords;

/// The size of a partition: 8^n pages for level n.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Level(u8);

impl Level {
    /// The smallest partition: one page of 4 KiB.
    pub const L0: Self = Self(0);
    /// A partition of 2 MiB: smaller ones are cut out of one of these.
    pub const L3: Self = Self(3);
    /// The largest partition: 512 GiB.
    pub const L9: Self = Self(9);

    /// Returns the level of this number, 0 to 9.
    pub fn new(number: u8) -> Option<Self> {
        (number <= 9).then_some(Self(number))
    }

    /// Returns the number of the level, 0 to 9.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the smallest level that holds so many bytes, of which there is at least one page.
    pub fn of_bytes(bytes: u64) -> Option<Self> {
        (0..=9).map(Self).find(|level| bytes <= level.bytes())
    }

    /// Returns the size of such a partition in pages.
    pub fn pages(self) -> u64 {
        1 << (3 * self.0)
    }

    /// Returns the size of such a partition in bytes.
    pub fn bytes(self) -> u64 {
        self.pages() << 12
    }

    pub(super) fn below(self) -> Self {
        Self(self.0 - 1)
    }
}

/// A range of pages that belongs to one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Partition {
    /// The level, which gives the partition's size.
    pub level: Level,
    /// The first page of the partition, a multiple of its size.
    pub first: Vpn,
}

impl Partition {
    /// Returns the page behind the last one of the partition.
    pub fn end(self) -> Vpn {
        Vpn(self.first.0 + self.level.pages())
    }
}

/// The L9 partitions that there are; the first is not for files.
const LARGEST: u64 = SPACE_END.0 >> 27;
/// The place of an L9's header in its page; each smaller one's lies 32 bytes further.
const HEADER_BYTES: u64 = 32;
/// The place of an L3's header in its page.
const SMALL_HEADER: u64 = 256;

const EMPTY: u64 = 0;
const ALLOCATED: u64 = 1;
const CUT: u64 = 2;

/// The state of a part of the hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// No file has the part: it is free.
    Empty,
    /// One file has the whole part.
    Allocated,
    /// The part is cut into smaller ones.
    Cut,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header(u64);

impl Header {
    fn new(level: Level) -> Self {
        Self(u64::from(0xa0 | level.0) << 32)
    }

    fn is_of(self, level: Level) -> bool {
        self.0 >> 32 & 0xff == u64::from(0xa0 | level.0)
    }

    fn state(self, part: u64) -> u64 {
        self.0 >> (2 * part) & 3
    }

    fn with_state(self, part: u64, state: u64) -> Self {
        Self(self.0 & !(3 << (2 * part)) | state << (2 * part))
    }

    /// Returns the level that an L3 of an L4 is cut into.
    fn kind(self, part: u64) -> Level {
        Level((self.0 >> (16 + 2 * part) & 3) as u8)
    }

    fn with_kind(self, part: u64, kind: Level) -> Self {
        let at = 16 + 2 * part;
        Self(self.0 & !(3 << at) | u64::from(kind.0) << at)
    }

    fn free(self) -> Free {
        Free { available: (self.0 >> 40 & 0xff) as u8, small: (self.0 >> 48 & 7) as u8 }
    }

    fn with_free(self, free: Free) -> Self {
        Self(self.0 & !(0x7ff << 40) | u64::from(free.available) << 40 | u64::from(free.small) << 48)
    }
}

/// The room that is free in a partition that is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Free {
    /// The highest level of an empty part, plus one; 0 if no part is empty.
    available: u8,
    /// A bit for each level below L3: set if there is a free part of that size in an L3 that is cut into them.
    small: u8,
}

impl Free {
    fn of_empty(level: Level) -> Self {
        Self { available: level.0 + 1, small: 0 }
    }

    fn with(self, other: Self) -> Self {
        Self { available: self.available.max(other.available), small: self.small | other.small }
    }

    fn has(self, level: Level) -> bool {
        self.available > level.0.max(3) || level < Level::L3 && self.small >> level.0 & 1 != 0
    }
}

/// Parts of an L3 by their level: the first is its header's.
fn slots(kind: Level) -> u64 {
    Level::L3.pages() / kind.pages()
}

/// Words as they are inside or outside of a transaction.
trait Words {
    fn word(&self, at: u64) -> u64;
    fn page(&self, page: Vpn) -> Option<u64>;

    /// Returns the address of the header of a cut partition.
    fn header_place(&self, level: Level, first: Vpn) -> Result<u64, StoreError> {
        let offset = if level == Level::L3 { SMALL_HEADER } else { u64::from(9 - level.0) * HEADER_BYTES };
        let place = self.page(first).map(|page| page + offset);
        place.filter(|&at| Header(self.word(at)).is_of(level)).ok_or(StoreError::Damaged { page: first })
    }

    fn header(&self, level: Level, first: Vpn) -> Result<Header, StoreError> {
        Ok(Header(self.word(self.header_place(level, first)?)))
    }

    fn largest(&self, number: u64) -> u64 {
        let (at, shift) = largest_place(number);
        self.word(at) >> shift & 3
    }

    /// Returns what is free in a partition that is cut, from what its parts say.
    fn free_in(&self, level: Level, first: Vpn) -> Result<Free, StoreError> {
        let header = self.header(level, first)?;
        let mut free = Free::default();
        for part in 0..8 {
            let (below, at) = part_of(level, first, part);
            free = free.with(match header.state(part) {
                EMPTY => Free::of_empty(below),
                CUT => self.free_of_cut(below, at, header.kind(part))?,
                _ => Free::default(),
            });
        }
        Ok(free)
    }

    /// Returns what the header of a part that is cut says of free room.
    fn free_of_cut(&self, level: Level, first: Vpn, kind: Level) -> Result<Free, StoreError> {
        if level > Level::L3 {
            return Ok(self.header(level, first)?.free());
        }
        let has_room = self.free_slot(first, kind)?.is_some();
        Ok(Free { available: 0, small: u8::from(has_room) << kind.0 })
    }

    /// The first free part of an L3.
    fn free_slot(&self, first: Vpn, kind: Level) -> Result<Option<u64>, StoreError> {
        let place = self.header_place(Level::L3, first)?;
        if kind >= Level::L3 || self.word(place) & 3 != u64::from(kind.0) {
            return Err(StoreError::Damaged { page: first });
        }
        for at in 0..slots(kind).div_ceil(64) {
            let free = !self.word(place + 8 + 8 * at) & bits_below((slots(kind) - 64 * at).min(64));
            if free != 0 {
                return Ok(Some(64 * at + u64::from(free.trailing_zeros())));
            }
        }
        Ok(None)
    }

    /// Whether nothing below is allocated.
    fn is_unused(&self, level: Level, first: Vpn) -> Result<bool, StoreError> {
        if level == Level::L3 {
            let place = self.header_place(level, first)?;
            let others = (1..8).all(|at| self.word(place + 8 + 8 * at) == 0);
            return Ok(others && self.word(place + 8) == 1);
        }
        let header = self.header(level, first)?;
        if header.state(0) != CUT {
            return Err(StoreError::Damaged { page: first });
        }
        Ok((1..8).all(|part| header.state(part) == EMPTY) && self.is_unused(level.below(), first)?)
    }
}

fn bits_below(count: u64) -> u64 {
    u64::MAX >> (64 - count)
}

/// A part's level and first page.
fn part_of(level: Level, first: Vpn, part: u64) -> (Level, Vpn) {
    (level.below(), Vpn(first.0 + part * level.below().pages()))
}

/// Returns the place of the state of an L9.
fn largest_place(number: u64) -> (u64, u64) {
    (super::store::root_place(root::PARTITIONS + number / 32), number % 32 * 2)
}

impl<M: PersistentMemory> Words for Store<M> {
    fn word(&self, at: u64) -> u64 {
        self.pages().read(PhysAddr(at))
    }

    fn page(&self, page: Vpn) -> Option<u64> {
        self.frame_of(page).map(|frame| frame.addr().0)
    }
}

impl<M: PersistentMemory> Words for Transaction<'_, M> {
    fn word(&self, at: u64) -> u64 {
        self.load(at)
    }

    fn page(&self, page: Vpn) -> Option<u64> {
        self.frame_of(page).map(|frame| frame.addr().0)
    }
}

impl<M: PersistentMemory> Transaction<'_, M> {
    /// Allocates a partition in which nothing is mapped. Nothing in it is mapped.
    ///
    /// # Errors
    ///
    /// There is none left of that size, or no frame for a header; the transaction is not to be committed then.
    pub fn allocate(&mut self, level: Level) -> Result<Partition, StoreError> {
        let fits = |this: &Self, number: u64| -> Result<bool, StoreError> {
            Ok(match this.largest(number) {
                CUT if level < Level::L9 => this.header(Level::L9, largest_first(number))?.free().has(level),
                _ => false,
            })
        };
        for number in 1..LARGEST {
            if fits(self, number)? {
                let first = self.allocate_in(Level::L9, largest_first(number), level)?;
                return Ok(Partition { level, first });
            }
        }
        let number =
            (1..LARGEST).find(|&number| self.largest(number) == EMPTY).ok_or(StoreError::NoPartition)?;
        let first = largest_first(number);
        if level == Level::L9 {
            self.set_largest(number, ALLOCATED);
            return Ok(Partition { level, first });
        }
        self.set_largest(number, CUT);
        self.cut(Level::L9, first, level)?;
        let first = self.allocate_in(Level::L9, first, level)?;
        Ok(Partition { level, first })
    }

    fn set_largest(&mut self, number: u64, state: u64) {
        let (at, shift) = largest_place(number);
        let word = self.load(at);
        self.set(at, word & !(3 << shift) | state << shift);
    }

    /// Cuts an empty partition, for a part of a size that is wanted.
    fn cut(&mut self, level: Level, first: Vpn, wanted: Level) -> Result<(), StoreError> {
        let frame = self.take_frames(0)?;
        self.memory().clear_frame(frame);
        self.map(first, frame, false)?;
        self.net_pages -= 1;
        let page = frame.addr().0;
        // An L3 that no caller asked for gets some size; they take turns.
        let kind = if wanted < Level::L3 { wanted } else { Level((first.0 / (8 * 512) % 3) as u8) };
        // The first part's first page is the same header page, down to the smallest.
        self.set(page + SMALL_HEADER, Header::new(Level::L3).0 | u64::from(kind.0));
        self.set(page + SMALL_HEADER + 8, 1);
        for number in 4..=level.0 {
            let header = Header::new(Level(number)).with_state(0, CUT);
            let header = if number == 4 { header.with_kind(0, kind) } else { header };
            self.set(page + u64::from(9 - number) * HEADER_BYTES, header.0);
        }
        for number in 4..=level.0 {
            self.update_free(Level(number), first)?;
        }
        Ok(())
    }

    /// Writes down what is free in a partition; whether that has changed.
    fn update_free(&mut self, level: Level, first: Vpn) -> Result<bool, StoreError> {
        let free = self.free_in(level, first)?;
        let place = self.header_place(level, first)?;
        let header = Header(self.load(place));
        if header.free() == free {
            return Ok(false);
        }
        self.set(place, header.with_free(free).0);
        Ok(true)
    }

    /// The same for all cut partitions around a page, inner ones first; above `least` it ends where nothing has changed.
    fn refresh(&mut self, page: Vpn, least: Level) -> Result<(), StoreError> {
        let mut around = vec![(Level::L9, largest_first(page.0 / Level::L9.pages()))];
        while let Some(&(level, first)) = around.last()
            && level > Level(4)
        {
            let (below, at) = part_of(level, first, (page.0 - first.0) / level.below().pages());
            if self.header(level, first)?.state((page.0 - first.0) / below.pages()) != CUT {
                break;
            }
            around.push((below, at));
        }
        for (level, first) in around.into_iter().rev() {
            if !self.update_free(level, first)? && level >= least {
                break;
            }
        }
        Ok(())
    }

    /// Allocates a part of a cut partition that has one.
    fn allocate_in(&mut self, level: Level, first: Vpn, wanted: Level) -> Result<Vpn, StoreError> {
        let (mut level, mut first) = (level, first);
        // The outermost whose parts have changed.
        let mut changed = Level(4);
        let mut has_cut = false;
        loop {
            let place = self.header_place(level, first)?;
            let header = Header(self.load(place));
            let below = level.below();
            // What is cut already is used up first, so that large parts stay whole.
            let mut found = None;
            for part in 0..8 {
                let at = part_of(level, first, part).1;
                if below > wanted
                    && header.state(part) == CUT
                    && self.free_of_cut(below, at, header.kind(part))?.has(wanted)
                {
                    found = Some(part);
                    break;
                }
            }
            let found = found.or_else(|| (0..8).find(|&part| header.state(part) == EMPTY));
            let part = found.ok_or(StoreError::Damaged { page: first })?;
            let at = part_of(level, first, part).1;
            if below == wanted {
                self.set(place, header.with_state(part, ALLOCATED).0);
                self.refresh(at, changed.max(level))?;
                return Ok(at);
            }
            if header.state(part) == EMPTY {
                let header = header.with_state(part, CUT);
                let header = if below == Level::L3 { header.with_kind(part, wanted) } else { header };
                self.set(place, header.0);
                self.cut(below, at, wanted)?;
                changed = changed.max(level);
                has_cut = true;
            }
            if below == Level::L3 {
                let slot = self.free_slot(at, wanted)?.ok_or(StoreError::Damaged { page: at })?;
                self.set_slot(at, slot, true)?;
                // The headers above say the same as before if no partition was cut and another slot is free.
                if has_cut || self.free_slot(at, wanted)?.is_none() {
                    self.refresh(at, changed.max(level))?;
                }
                return Ok(Vpn(at.0 + slot * wanted.pages()));
            }
            (level, first) = (below, at);
        }
    }

    fn set_slot(&mut self, first: Vpn, slot: u64, taken: bool) -> Result<(), StoreError> {
        let at = self.header_place(Level::L3, first)? + 8 + 8 * (slot / 64);
        let (word, bit) = (self.load(at), 1 << (slot % 64));
        if (word & bit != 0) == taken {
            return Err(StoreError::Damaged { page: first });
        }
        self.set(at, word ^ bit);
        Ok(())
    }

    /// Says that no partition is allocated or cut; their headers are still mapped.
    pub(super) fn forget_partitions(&mut self) {
        (1..LARGEST).for_each(|number| self.set_largest(number, EMPTY));
    }

    /// Allocates a certain partition, which must be free. What an L3 is cut into that becomes the first part of a cut one is
    /// answered by `kind_at`, if that matters.
    pub(super) fn allocate_at(
        &mut self,
        partition: Partition,
        kind_at: &dyn Fn(Vpn) -> Option<Level>,
    ) -> Result<(), StoreError> {
        let Partition { level: wanted, first: target } = partition;
        let number = target.0 / Level::L9.pages();
        if wanted == Level::L9 {
            self.set_largest(number, ALLOCATED);
            return Ok(());
        }
        let (mut level, mut first) = (Level::L9, largest_first(number));
        if self.largest(number) == EMPTY {
            self.set_largest(number, CUT);
            self.cut(level, first, kind_at(first).unwrap_or(Level::L3))?;
        }
        loop {
            let place = self.header_place(level, first)?;
            let header = Header(self.load(place));
            let part = (target.0 - first.0) / level.below().pages();
            let (below, at) = part_of(level, first, part);
            if below == wanted {
                self.set(place, header.with_state(part, ALLOCATED).0);
                break;
            }
            if header.state(part) == EMPTY {
                let kind = if below == Level::L3 { wanted } else { kind_at(at).unwrap_or(Level::L3) };
                let header = header.with_state(part, CUT);
                let header = if below == Level::L3 { header.with_kind(part, kind) } else { header };
                self.set(place, header.0);
                self.cut(below, at, kind)?;
            }
            if below == Level::L3 {
                self.set_slot(at, (target.0 - at.0) / wanted.pages(), true)?;
                break;
            }
            (level, first) = (below, at);
        }
        self.refresh(target, Level::L9)
    }

    /// Gives a partition back. Nothing in it may be mapped any more.
    ///
    /// # Errors
    ///
    /// It is not allocated.
    pub fn free_partition(&mut self, partition: Partition) -> Result<(), StoreError> {
        let Partition { level, first } = partition;
        let damaged = StoreError::Damaged { page: first };
        let number = first.0 / Level::L9.pages();
        if !(1..LARGEST).contains(&number) || !first.0.is_multiple_of(level.pages()) {
            return Err(damaged);
        }
        if level == Level::L9 {
            if self.largest(number) != ALLOCATED {
                return Err(damaged);
            }
            self.set_largest(number, EMPTY);
            return Ok(());
        }
        let mut at = if level < Level::L3 {
            let around = Vpn(first.0 / Level::L3.pages() * Level::L3.pages());
            let slot = (first.0 - around.0) / level.pages();
            let place = self.header_place(Level::L3, around)?;
            if slot == 0 || self.load(place) & 3 != u64::from(level.0) {
                return Err(damaged);
            }
            let had_room = self.free_slot(around, level)?.is_some();
            self.set_slot(around, slot, false)?;
            // The headers above say the same as before if another slot was free and one is still taken.
            if had_room && !self.is_unused(Level::L3, around)? {
                return Ok(());
            }
            Level::L3
        } else {
            let (place, header, part) = self.part(level, first)?;
            if header.state(part) != ALLOCATED {
                return Err(damaged);
            }
            self.set(place, header.with_state(part, EMPTY).0);
            Level(level.0 + 1)
        };
        // What has become empty is whole again, unless its first page is the header of what is around it.
        let mut changed = at.max(Level(4));
        while at < Level::L9 {
            let here = Vpn(first.0 / at.pages() * at.pages());
            if !self.is_unused(at, here)? {
                break;
            }
            let (place, header, part) = self.part(at, here)?;
            at = Level(at.0 + 1);
            if part != 0 {
                self.uncut(here)?;
                self.set(place, header.with_state(part, EMPTY).0);
                changed = at;
            }
        }
        let top = largest_first(number);
        if at == Level::L9 && self.is_unused(at, top)? {
            self.uncut(top)?;
            self.set_largest(number, EMPTY);
            return Ok(());
        }
        self.refresh(first, changed)
    }

    /// The header around a partition, and which part of it it is.
    fn part(&self, level: Level, first: Vpn) -> Result<(u64, Header, u64), StoreError> {
        let around = Level(level.0 + 1);
        let start = Vpn(first.0 / around.pages() * around.pages());
        let place = self.header_place(around, start)?;
        Ok((place, Header(self.load(place)), (first.0 - start.0) / level.pages()))
    }

    /// The header page goes.
    fn uncut(&mut self, first: Vpn) -> Result<(), StoreError> {
        if self.unmap(first, Vpn(first.0 + 1)) == first {
            return Err(self.log_full().into());
        }
        self.net_pages += 1;
        Ok(())
    }
}

fn largest_first(number: u64) -> Vpn {
    Vpn(number * Level::L9.pages())
}

impl<M: PersistentMemory> Store<M> {
    /// Visits all partitions, outer ones before those in them, in the order of their addresses; what is inside of an L3 that
    /// is cut comes with its size. A caller that looks for damage gets impossible states, too.
    ///
    /// # Errors
    ///
    /// A header is missing or is none.
    pub fn visit_partitions(&self, visit: &mut dyn FnMut(Partition, Part)) -> Result<(), StoreError> {
        for number in 1..LARGEST {
            self.visit_part(Level::L9, largest_first(number), self.largest(number), Level::L0, visit)?;
        }
        Ok(())
    }

    fn visit_part(
        &self,
        level: Level,
        first: Vpn,
        state: u64,
        kind: Level,
        visit: &mut dyn FnMut(Partition, Part),
    ) -> Result<(), StoreError> {
        match state {
            EMPTY => visit(Partition { level, first }, Part::Empty),
            ALLOCATED => visit(Partition { level, first }, Part::Allocated),
            CUT if level == Level::L3 => {
                visit(Partition { level, first }, Part::Cut);
                self.free_slot(first, kind)?;
                let place = self.header_place(level, first)? + 8;
                let is_taken = |slot: u64| self.word(place + slot / 64 * 8) >> (slot % 64) & 1 != 0;
                // The first is the header's, and there are no more than so many.
                if !is_taken(0) || (slots(kind)..512).any(is_taken) {
                    return Err(StoreError::Damaged { page: first });
                }
                for slot in 1..slots(kind) {
                    let taken = is_taken(slot);
                    let part = Partition { level: kind, first: Vpn(first.0 + slot * kind.pages()) };
                    visit(part, if taken { Part::Allocated } else { Part::Empty });
                }
            }
            CUT => {
                visit(Partition { level, first }, Part::Cut);
                let header = self.header(level, first)?;
                if header.state(0) != CUT {
                    return Err(StoreError::Damaged { page: first });
                }
                for part in 0..8 {
                    let (below, at) = part_of(level, first, part);
                    self.visit_part(below, at, header.state(part), header.kind(part), visit)?;
                }
            }
            _ => return Err(StoreError::Damaged { page: first }),
        }
        Ok(())
    }

    /// Returns whether the headers around a partition say that the partition is allocated.
    pub fn is_allocated(&self, partition: Partition) -> bool {
        let Partition { level: wanted, first: target } = partition;
        let number = target.0 / Level::L9.pages();
        if !(1..LARGEST).contains(&number) || !target.0.is_multiple_of(wanted.pages()) {
            return false;
        }
        let (mut level, mut first) = (Level::L9, largest_first(number));
        let (mut state, mut kind) = (self.largest(number), Level::L0);
        while level > wanted && state == CUT {
            if level == Level::L3 {
                let slot = (target.0 - first.0) / wanted.pages();
                let Ok(place) = self.header_place(level, first) else { return false };
                let is_taken = self.word(place + 8 + slot / 64 * 8) >> (slot % 64) & 1 != 0;
                return kind == wanted && self.word(place) & 3 == u64::from(kind.0) && slot > 0 && is_taken;
            }
            let Ok(header) = self.header(level, first) else { return false };
            let part = (target.0 - first.0) / level.below().pages();
            (state, kind) = (header.state(part), header.kind(part));
            (level, first) = part_of(level, first, part);
        }
        level == wanted && state == ALLOCATED
    }

    /// Checks that every header says of what is free below what its parts say; returns the first one that does not.
    ///
    /// # Errors
    ///
    /// As [`Store::visit_partitions`].
    pub fn wrong_availability(&self) -> Result<Option<Partition>, StoreError> {
        let mut cut = Vec::new();
        self.visit_partitions(&mut |partition, part| {
            if part == Part::Cut && partition.level > Level::L3 {
                cut.push(partition);
            }
        })?;
        for partition in cut {
            let Partition { level, first } = partition;
            if self.free_in(level, first)? != self.header(level, first)?.free() {
                return Ok(Some(partition));
            }
        }
        Ok(None)
    }
}
