//! The frames of a machine: which page gets a frame, and which page leaves for it.

mod given;

use std::collections::BTreeMap;

use arrayvec::ArrayVec;

use self::given::Given;
use super::sharing::{ObjectPage, SharedFrames, Victim};
use super::{HorizonLru, IcebergLru, Placed, Recency, TimestampDaemon, TwoListClock};
use crate::addr::{PAGE_BYTES, PageSize, Pfn};
use crate::frame::{Cpfn, CrowdCounts, CrowdedMemory, Iceberg, OWN_START, OutOfFrames, PageKey};
use crate::hash::PageHash;
use crate::space::ObjectId;

/// All frames of a machine.
///
/// Table nodes, shared and file pages and large pages take frames from the buddy allocator and keep them until they
/// give them back. Private anonymous 4 KiB pages (*movable* here: their contents can be kept elsewhere) do so too, or
/// have hash-placed frames of their own; with a policy they may have to leave.
///
/// A frame may have several pages ([`share`](PagePool::share)): they leave together.
#[derive(Clone, Debug)]
pub struct PagePool {
    ordinary: CrowdedMemory,
    movable: Movable,
    shared: SharedFrames,
    /// The given frames; `None` for a pool that has its own frames only.
    given: Option<Box<Given>>,
    evictions: u64,
}

#[derive(Clone, Debug)]
enum Movable {
    /// Pages stay in ordinary frames and never leave.
    Kept,
    /// Ordinary frames.
    Ordinary(Ordinary),
    /// Frames of their own.
    Placed(Box<HashPlaced>),
}

/// Movable pages in ordinary frames.
#[derive(Clone, Debug)]
struct Ordinary {
    order: Order,
    /// The page that has each frame, for as many frames as were ever taken. None for frames that are on no list.
    owners: Vec<Option<PageKey>>,
    /// Frames whose pages must not leave, and that are on no list.
    locked: BTreeMap<Pfn, PageKey>,
    /// Most of them at once.
    limit: u64,
    /// Frames that are taken for movable pages, but are on no list: kept ready, or of pages that are not booked.
    spares: u64,
}

/// The order in which pages leave ordinary frames.
#[derive(Clone, Debug)]
pub enum Order {
    /// The least recently used first.
    Lru(Recency),
    /// The clock over two lists that Linux uses.
    Clock(TwoListClock),
}

/// The order in which pages leave hash-placed frames.
#[derive(Clone, Debug)]
pub enum PlacedOrder {
    /// No page leaves: a page without a free frame is out of frames.
    NoEviction,
    /// Horizon LRU, by exact times of use.
    Horizon(HorizonLru),
    /// Horizon LRU, by times of use that a daemon estimates.
    SampledHorizon(HorizonLru, TimestampDaemon),
    /// Iceberg LRU, the policy that Horizon LRU is compared with.
    Iceberg(IcebergLru),
}

#[derive(Clone, Debug)]
struct HashPlaced {
    frames: Iceberg<PageHash>,
    order: PlacedOrder,
    first_conflict: Option<u64>,
    most_used: u64,
}

/// The frames that a page got, and the pages that left for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The first frame that the page got.
    pub frame: Pfn,
    /// The pages that left: their frames are no longer theirs.
    pub evicted: ArrayVec<Victim, MOST_EVICTED>,
}

/// Most pages that leave for one.
pub const MOST_EVICTED: usize = 8;
/// Movable pages leave the last ordinary frames to table nodes: a new page needs at most four.
const RESERVE: u64 = 8;

/// The uses of pages that a pool wants to hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uses {
    /// The pool wants to hear of no use.
    Nothing,
    /// The uses that take a page walk and set accessed bits.
    Walks,
    /// The first use after each allocation.
    FirstAfterAllocation,
    /// Every use that is not a repetition of the one before.
    Every,
}

impl PagePool {
    fn new(ordinary: CrowdedMemory, movable: Movable) -> Self {
        Self { ordinary, movable, shared: SharedFrames::default(), given: None, evictions: 0 }
    }

    /// Returns a pool in which no page ever leaves.
    pub fn kept(ordinary: CrowdedMemory) -> Self {
        Self::new(ordinary, Movable::Kept)
    }

    /// Returns a pool whose movable pages leave in this order: when there are more than `limit`, or no frames.
    pub fn ordered(ordinary: CrowdedMemory, order: Order, limit: u64) -> Self {
        let movable = Movable::Ordinary(Ordinary {
            order,
            owners: Vec::new(),
            locked: BTreeMap::new(),
            limit: limit.max(1),
            spares: 0,
        });
        Self::new(ordinary, movable)
    }

    /// Returns a pool whose movable pages have frames of their own.
    pub fn placed(ordinary: CrowdedMemory, frames: Iceberg<PageHash>, order: PlacedOrder) -> Self {
        let placed = HashPlaced { frames, order, first_conflict: None, most_used: 0 };
        Self::new(ordinary, Movable::Placed(Box::new(placed)))
    }

    /// Returns the uses that the pool wants to hear of.
    pub fn uses(&self) -> Uses {
        match &self.movable {
            Movable::Kept => Uses::Nothing,
            Movable::Ordinary(Ordinary { order: Order::Lru(_), .. }) => Uses::Every,
            Movable::Ordinary(Ordinary { order: Order::Clock(_), .. }) => Uses::Walks,
            Movable::Placed(placed) => match &placed.order {
                PlacedOrder::NoEviction => Uses::Nothing,
                PlacedOrder::Horizon(_) => Uses::FirstAfterAllocation,
                PlacedOrder::SampledHorizon(..) => Uses::Walks,
                PlacedOrder::Iceberg(_) => Uses::Every,
            },
        }
    }

    /// Takes contiguous memory for a page table: whole frames, as many as a power of two.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn take_table(&mut self, bytes: u64) -> Result<Pfn, OutOfFrames> {
        self.ordinary.alloc(table_order(bytes))
    }

    /// Gives a page table's memory back.
    pub fn give_table(&mut self, first: Pfn, bytes: u64) {
        self.ordinary.free(first, table_order(bytes));
    }

    /// Returns the share of free memory in blocks smaller than 2 MiB; `None` if no memory is free.
    pub fn fragmentation(&self) -> Option<f64> {
        self.ordinary.buddy().unusable_free_index(PageSize::Size2M.order())
    }

    /// Takes a block that stays until it is given back.
    ///
    /// # Errors
    ///
    /// No block of that size is free. No page leaves for a large block, as none does for a fault on Linux.
    pub fn take_kept(&mut self, size: PageSize) -> Result<Pfn, OutOfFrames> {
        match size {
            PageSize::Size4K => self.ordinary.alloc(0),
            PageSize::Size2M | PageSize::Size1G => self.ordinary.alloc_free(size.order()),
        }
    }

    /// Takes a frame for a movable page that has none.
    ///
    /// # Errors
    ///
    /// No frame is free, and no page may leave.
    pub fn take_movable(&mut self, key: PageKey) -> Result<Taken, OutOfFrames> {
        let mut evicted = ArrayVec::new();
        let frame = match &mut self.movable {
            Movable::Kept => self.ordinary.alloc_movable(key)?,
            Movable::Ordinary(pages) => {
                pages.make_room(&mut self.ordinary, &mut self.shared, &mut evicted);
                let frame = self.ordinary.alloc(0)?;
                pages.insert(frame, key);
                frame
            }
            Movable::Placed(placed) => {
                let Placed { frame, evicted: left } = placed.place(key)?;
                evicted.extend(left.map(|(frame, page)| {
                    let sharers = self.shared.take_others(placed.frames.pfn(frame), page);
                    Victim { page, sharers }
                }));
                placed.frames.pfn(frame)
            }
        };
        self.evictions += evicted.len() as u64;
        Ok(Taken { frame, evicted })
    }

    /// Takes a frame for a movable page that is not known yet, as an accelerator has it. Where pages have frames of
    /// their own, that can only be an ordinary one.
    ///
    /// # Errors
    ///
    /// No frame is free, and no page may leave.
    pub fn take_spare(&mut self) -> Result<Taken, OutOfFrames> {
        let mut evicted = ArrayVec::new();
        if let Movable::Ordinary(pages) = &mut self.movable {
            pages.make_room(&mut self.ordinary, &mut self.shared, &mut evicted);
            self.evictions += evicted.len() as u64;
        }
        let frame = self.ordinary.alloc(0)?;
        if let Movable::Ordinary(pages) = &mut self.movable {
            pages.spares += 1;
        }
        Ok(Taken { frame, evicted })
    }

    /// Gives back a frame that was taken for a page which is not known.
    pub fn give_spare(&mut self, frame: Pfn) {
        if let Movable::Ordinary(pages) = &mut self.movable {
            pages.spares -= 1;
        }
        self.ordinary.free(frame, 0);
    }

    /// Makes the page in a spare frame known, which may have to leave again from now on. Where it belongs into a
    /// frame of its own, the answer is that one, and the spare frame is given back.
    ///
    /// # Errors
    ///
    /// It must move, and there is no frame.
    pub fn adopt(&mut self, frame: Pfn, key: PageKey) -> Result<Taken, OutOfFrames> {
        match &mut self.movable {
            Movable::Kept => Ok(Taken { frame, evicted: ArrayVec::new() }),
            Movable::Ordinary(pages) => {
                pages.spares -= 1;
                pages.insert(frame, key);
                Ok(Taken { frame, evicted: ArrayVec::new() })
            }
            Movable::Placed(_) => {
                let taken = self.take_movable(key)?;
                self.ordinary.free(frame, 0);
                Ok(taken)
            }
        }
    }

    /// Returns the number of movable pages that there could be more before others have to leave; `None` where that
    /// depends on the page.
    pub fn headroom(&self) -> Option<u64> {
        match &self.movable {
            Movable::Ordinary(pages) => {
                let frames = self.ordinary.available_frames().saturating_sub(RESERVE);
                Some(pages.limit.saturating_sub(pages.resident()).min(frames))
            }
            Movable::Kept | Movable::Placed(_) => None,
        }
    }

    /// Returns the largest number of movable pages, where that is a number.
    pub fn limit(&self) -> Option<u64> {
        match &self.movable {
            Movable::Ordinary(pages) => Some(pages.limit.min(self.ordinary.buddy().total_frames())),
            Movable::Kept | Movable::Placed(_) => None,
        }
    }

    /// Evicts the page whose turn it is, though no other page needs its frame yet.
    pub fn evict_ahead(&mut self) -> Option<Victim> {
        let Movable::Ordinary(pages) = &mut self.movable else { return None };
        let (frame, page) = pages.evict()?;
        self.ordinary.free(frame, 0);
        self.evictions += 1;
        Some(Victim { page, sharers: self.shared.take_others(frame, page) })
    }

    /// Gives the frame of `page` to `other`, too: The frame stays where it is.
    pub fn share(&mut self, frame: Pfn, page: PageKey, other: PageKey) {
        if matches!(self.movable, Movable::Kept) {
            self.ordinary.pin(frame);
        }
        self.shared.share(frame, page, other);
    }

    /// Takes a frame that other pages have, too, from `page`. Tells whether they do; if not, it is the caller's to
    /// give back.
    pub fn leave(&mut self, frame: Pfn, page: PageKey) -> bool {
        let Some(heir) = self.shared.leave(frame, page) else { return false };
        if self.owner(frame) == Some(page) {
            self.give_to(frame, heir);
        }
        true
    }

    /// Puts a frame, which `page` alone has, into the page cache, as a page of an object. It stays there as long as any page
    /// has it.
    pub fn cache(&mut self, frame: Pfn, object_page: ObjectPage, page: PageKey) {
        self.shared.cache(frame, object_page, page);
    }

    /// Returns the frame of a page of an object, if any page has it.
    pub fn cached(&self, object_page: ObjectPage) -> Option<Pfn> {
        self.shared.cached(object_page)
    }

    /// Returns the frames of those of an object's 4 KiB pages `[first, end)` that any page has.
    pub fn cached_in(&self, object: ObjectId, first: u64, end: u64) -> impl Iterator<Item = Pfn> {
        self.shared.cached_in(object, first, end)
    }

    /// Returns whether a frame is in the page cache.
    pub fn is_cached(&self, frame: Pfn) -> bool {
        self.shared.is_cached(frame)
    }

    /// Returns the pages of a frame that more than one page has, or that is in the page cache; no page for any other
    /// frame.
    pub fn sharers(&self, frame: Pfn) -> &[PageKey] {
        self.shared.pages(frame)
    }

    /// Returns whether any frame is shared or in the page cache.
    pub fn shares_any(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Returns whether more than one page has the frame, or may have it:
    pub fn is_shared(&self, frame: Pfn) -> bool {
        !self.shared.pages(frame).is_empty()
    }

    /// Returns whether `page` can be in `frame`, as far as the pool keeps book.
    pub fn may_hold(&self, frame: Pfn, page: PageKey) -> bool {
        self.owner(frame).is_none_or(|owner| owner == page) || self.sharers(frame).contains(&page)
    }

    /// The book of a movable page's frame has another page.
    fn give_to(&mut self, frame: Pfn, key: PageKey) {
        match &mut self.movable {
            Movable::Kept => {}
            Movable::Ordinary(pages) => {
                let listed = pages.owners.get_mut(frame.0 as usize).and_then(Option::as_mut);
                if let Some(owner) = listed.or_else(|| pages.locked.get_mut(&frame)) {
                    *owner = key;
                }
            }
            Movable::Placed(placed) => {
                if let Some(frame) = placed.frames.frame(frame) {
                    placed.frames.give_to(frame, key);
                }
            }
        }
    }

    /// Lets the movable page in `frame` leave, whosever turn it is. Tells whether it may leave at all; a page that shares
    /// its frame may not.
    pub fn evict(&mut self, frame: Pfn) -> bool {
        if self.is_shared(frame) {
            return false;
        }
        match &mut self.movable {
            Movable::Ordinary(pages) if pages.owners.get(frame.0 as usize).is_some_and(Option::is_some) => {}
            Movable::Placed(placed)
                if placed.frames.frame(frame).is_some()
                    && !matches!(placed.order, PlacedOrder::NoEviction) => {}
            _ => return false,
        }
        self.give_page(frame, PageSize::Size4K);
        self.evictions += 1;
        true
    }

    /// Makes the movable page in `frame`, if it holds one, the next to leave.
    pub fn age(&mut self, frame: Pfn) {
        match &mut self.movable {
            Movable::Kept => {}
            Movable::Ordinary(pages) => pages.age(frame),
            Movable::Placed(placed) => {
                let Some(frame) = placed.frames.frame(frame) else { return };
                match &mut placed.order {
                    PlacedOrder::NoEviction => {}
                    PlacedOrder::Horizon(lru) => lru.age(frame),
                    PlacedOrder::SampledHorizon(lru, daemon) => {
                        lru.age(frame);
                        daemon.forget(frame);
                    }
                    PlacedOrder::Iceberg(lru) => lru.age(frame),
                }
            }
        }
    }

    /// Keeps the movable page in `frame` from leaving from now on, or lets it leave again. DEVIATION: a page in a
    /// frame of its own leaves all the same, because few frames are its neighbours' choice.
    pub fn lock(&mut self, frame: Pfn, is_locked: bool) {
        let Movable::Ordinary(pages) = &mut self.movable else { return };
        if is_locked == pages.locked.contains_key(&frame) {
            return;
        }
        let Some(owner) = pages.forget(frame) else { return };
        match is_locked {
            true => drop(pages.locked.insert(frame, owner)),
            false => pages.insert(frame, owner),
        }
    }

    /// Gives a page's block back.
    ///
    /// # Panics
    ///
    /// If it was not taken.
    pub fn give_page(&mut self, frame: Pfn, size: PageSize) {
        match &mut self.movable {
            Movable::Kept => {
                if let Some(given) = self.given.as_mut().filter(|_| frame < OWN_START) {
                    given.blocks.release(frame, size);
                    return;
                }
            }
            Movable::Ordinary(pages) => drop(pages.forget(frame)),
            Movable::Placed(placed) => {
                if let Some(frame) = placed.frames.frame(frame) {
                    placed.release(frame);
                    return;
                }
            }
        }
        self.ordinary.free(frame, size.order());
    }

    /// Gives the page `from` in `frame` the number `to` from now on. If that may not have this frame, the frame is
    /// given back, and the page needs a new one: the answer is no.
    pub fn rename(&mut self, frame: Pfn, from: PageKey, to: PageKey) -> bool {
        let is_given = self.is_given(frame);
        let is_placed =
            matches!(&self.movable, Movable::Placed(placed) if placed.frames.frame(frame).is_some());
        if self.is_shared(frame) {
            match is_placed {
                true => drop(self.leave(frame, from)),
                false => {
                    self.shared.rename(frame, from, to);
                    if self.owner(frame) == Some(from) {
                        self.give_to(frame, to);
                    }
                }
            }
            return !is_placed;
        }
        match &mut self.movable {
            // Its entry is not in the table now, where its new frame would have to be noted.
            Movable::Kept if is_given => {}
            Movable::Kept => self.ordinary.pin(frame),
            Movable::Ordinary(_) => self.give_to(frame, to),
            Movable::Placed(placed) => {
                if let Some(frame) = placed.frames.frame(frame) {
                    placed.release(frame);
                }
            }
        }
        !is_placed
    }

    /// Tells the allocator that a large block is several smaller ones from now on.
    pub fn split(&mut self, first: Pfn, from: PageSize, to: PageSize) {
        if let Some(given) = self.given.as_mut().filter(|_| first < OWN_START) {
            given.blocks.release(first, from);
            let parts = (0..from.base_pages()).step_by(to.base_pages() as usize);
            parts.for_each(|distance| given.blocks.take(first.add(distance), to));
            return;
        }
        self.ordinary.split(first, from.order(), to.order());
        self.shared.split(first, from, to);
    }

    /// Takes note that a page is used.
    #[inline]
    pub fn touch(&mut self, frame: Pfn) {
        match &mut self.movable {
            Movable::Kept => {}
            Movable::Ordinary(pages) => {
                if let Order::Lru(recency) = &mut pages.order
                    && pages.owners.get(frame.0 as usize).is_some_and(Option::is_some)
                {
                    recency.touch(frame.0 as u32);
                }
            }
            Movable::Placed(placed) => {
                let Some(frame) = placed.frames.frame(frame) else { return };
                match &mut placed.order {
                    PlacedOrder::NoEviction | PlacedOrder::SampledHorizon(..) => {}
                    PlacedOrder::Horizon(lru) => lru.touch(frame),
                    PlacedOrder::Iceberg(lru) => lru.touch(frame),
                }
            }
        }
    }

    /// Takes note that a walk used a page:
    #[inline]
    pub fn walked(&mut self, frame: Pfn) {
        match &mut self.movable {
            Movable::Ordinary(Ordinary { order: Order::Clock(clock), owners, .. })
                if owners.get(frame.0 as usize).is_some_and(Option::is_some) =>
            {
                clock.walked(frame.0 as u32);
            }
            Movable::Placed(placed) => {
                if let PlacedOrder::SampledHorizon(_, daemon) = &mut placed.order
                    && let Some(frame) = placed.frames.frame(frame)
                {
                    daemon.walked(frame);
                }
            }
            _ => {}
        }
    }

    /// Runs the timestamp daemon once, if there is one.
    pub fn scan(&mut self) {
        if let Movable::Placed(placed) = &mut self.movable
            && let PlacedOrder::SampledHorizon(lru, daemon) = &mut placed.order
        {
            daemon.scan(lru);
        }
    }

    /// Returns the code by which a page finds its hash-placed frame; `None` for a page in an ordinary frame.
    pub fn code(&self, key: PageKey, frame: Pfn) -> Option<Cpfn> {
        let Movable::Placed(placed) = &self.movable else { return None };
        placed.frames.cpfn(key, placed.frames.frame(frame)?)
    }

    /// Returns the frame that a code means for a page: what the hardware computes with one evaluation of the hash.
    ///
    /// # Panics
    ///
    /// If the pool places no pages or the code names no frame: page tables hold no such code.
    #[inline]
    pub fn decode(&self, key: PageKey, code: Cpfn) -> Pfn {
        let frame = self.placed_frame(key, code);
        debug_assert!(self.may_hold(frame, key), "{code:?} leads to another page's frame");
        frame
    }

    /// Returns what [`decode`](Self::decode) does, for a page that may have lost its frame just now.
    ///
    /// # Panics
    ///
    /// As [`decode`](Self::decode).
    #[inline]
    pub fn placed_frame(&self, key: PageKey, code: Cpfn) -> Pfn {
        let Movable::Placed(placed) = &self.movable else { panic!("{code:?} in a machine without codes") };
        let frame = placed.frames.translate(key, code);
        placed.frames.pfn(frame.unwrap_or_else(|| panic!("{code:?} of {key:?} names no frame")))
    }

    /// Returns the movable page in a frame, as far as the pool keeps book.
    pub fn owner(&self, frame: Pfn) -> Option<PageKey> {
        match &self.movable {
            Movable::Kept => None,
            Movable::Ordinary(pages) => {
                let listed = pages.owners.get(frame.0 as usize).copied().flatten();
                listed.or_else(|| pages.locked.get(&frame).copied())
            }
            Movable::Placed(placed) => placed.frames.owner(placed.frames.frame(frame)?),
        }
    }

    /// Returns the hash-placed frames, if the pool has any.
    pub fn hash_placed(&self) -> Option<&Iceberg<PageHash>> {
        match &self.movable {
            Movable::Placed(placed) => Some(&placed.frames),
            _ => None,
        }
    }

    /// Returns the policy of the hash-placed frames, if the pool has such frames.
    pub fn placed_order(&self) -> Option<&PlacedOrder> {
        match &self.movable {
            Movable::Placed(placed) => Some(&placed.order),
            _ => None,
        }
    }

    /// Returns the number of hash-placed frames in use when a page had to leave, or found no frame, for the first
    /// time.
    pub fn first_conflict(&self) -> Option<u64> {
        match &self.movable {
            Movable::Placed(placed) => placed.first_conflict,
            _ => None,
        }
    }

    /// Returns the most hash-placed frames that were in use at once.
    pub fn most_placed(&self) -> u64 {
        match &self.movable {
            Movable::Placed(placed) => placed.most_used,
            _ => 0,
        }
    }

    /// Returns the movable pages that had to go to other frames since the last call, to make room for a table:
    pub fn take_moved(&mut self) -> Vec<(PageKey, Pfn)> {
        self.ordinary.take_moved()
    }

    /// Returns what making room among other programs' pages has taken; `None` if there are no other programs.
    pub fn crowd_counts(&self) -> Option<&CrowdCounts> {
        self.ordinary.counts()
    }

    /// Frames of all kinds that are free now.
    pub fn free_frames(&self) -> u64 {
        self.ordinary.buddy().free_frames()
            + self.hash_placed().map_or(0, |placed| placed.shape().frames() - placed.used())
    }

    /// Frames of all kinds.
    pub fn total_frames(&self) -> u64 {
        self.ordinary.buddy().total_frames() + self.hash_placed().map_or(0, |placed| placed.shape().frames())
    }

    /// Pages that had to leave so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }
}

fn table_order(bytes: u64) -> u32 {
    bytes.div_ceil(PAGE_BYTES).next_power_of_two().trailing_zeros()
}

impl Ordinary {
    fn is_pressed(&self, frames: &CrowdedMemory) -> bool {
        self.resident() >= self.limit || frames.available_frames() <= RESERVE
    }

    fn resident(&self) -> u64 {
        let listed: u64 = match &self.order {
            Order::Lru(recency) => recency.len().into(),
            Order::Clock(clock) => clock.len().into(),
        };
        listed + self.spares + self.locked.len() as u64
    }

    /// Lets pages leave until there is room for one.
    fn make_room(
        &mut self,
        frames: &mut CrowdedMemory,
        shared: &mut SharedFrames,
        evicted: &mut ArrayVec<Victim, MOST_EVICTED>,
    ) {
        while self.is_pressed(frames) && !evicted.is_full() {
            let Some((frame, page)) = self.evict() else { break };
            frames.free(frame, 0);
            evicted.push(Victim { page, sharers: shared.take_others(frame, page) });
        }
    }

    fn insert(&mut self, frame: Pfn, key: PageKey) {
        let at = frame.0 as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, None);
        }
        self.owners[at] = Some(key);
        match &mut self.order {
            Order::Lru(recency) => recency.insert(at as u32),
            Order::Clock(clock) => clock.insert(at as u32),
        }
    }

    fn evict(&mut self) -> Option<(Pfn, PageKey)> {
        let frame = match &mut self.order {
            Order::Lru(recency) => {
                let oldest = recency.oldest()?;
                recency.remove(oldest);
                oldest
            }
            Order::Clock(clock) => clock.evict()?,
        };
        let owner = self.owners[frame as usize].take().expect("a frame of the list has a page");
        Some((Pfn(frame.into()), owner))
    }

    /// The page in `frame`, if it is one of these, is gone: which it was.
    fn forget(&mut self, frame: Pfn) -> Option<PageKey> {
        let Some(owner) = self.owners.get_mut(frame.0 as usize).and_then(Option::take) else {
            return if self.locked.is_empty() { None } else { self.locked.remove(&frame) };
        };
        match &mut self.order {
            Order::Lru(recency) => recency.remove(frame.0 as u32),
            Order::Clock(clock) => clock.remove(frame.0 as u32),
        }
        Some(owner)
    }

    /// The page in `frame`, if it is listed, is the next to leave.
    fn age(&mut self, frame: Pfn) {
        if self.owners.get(frame.0 as usize).is_none_or(Option::is_none) {
            return;
        }
        match &mut self.order {
            Order::Lru(recency) => {
                recency.remove(frame.0 as u32);
                recency.insert_oldest(frame.0 as u32);
            }
            Order::Clock(clock) => clock.age(frame.0 as u32),
        }
    }
}

impl HashPlaced {
    fn place(&mut self, key: PageKey) -> Result<Placed, OutOfFrames> {
        let before = self.frames.used();
        let placed = match &mut self.order {
            PlacedOrder::NoEviction => {
                self.frames.take_free(key).map(|frame| Placed { frame, evicted: None }).ok_or_else(|| {
                    OutOfFrames {
                        order: 0,
                        free_frames: self.frames.shape().frames() - before,
                        largest_free_order: Some(0),
                    }
                })
            }
            PlacedOrder::Horizon(lru) => Ok(lru.place(&mut self.frames, key)),
            PlacedOrder::SampledHorizon(lru, daemon) => {
                let placed = lru.place(&mut self.frames, key);
                if let Some((frame, _)) = placed.evicted {
                    daemon.forget(frame);
                }
                daemon.walked(placed.frame);
                Ok(placed)
            }
            PlacedOrder::Iceberg(lru) => Ok(lru.place(&mut self.frames, key)),
        };
        if self.first_conflict.is_none() && placed.as_ref().map_or(true, |placed| placed.evicted.is_some()) {
            self.first_conflict = Some(before);
        }
        self.most_used = self.most_used.max(self.frames.used());
        placed
    }

    fn release(&mut self, frame: u32) {
        match &mut self.order {
            PlacedOrder::NoEviction => drop(self.frames.release(frame)),
            PlacedOrder::Horizon(lru) => drop(lru.release(&mut self.frames, frame)),
            PlacedOrder::SampledHorizon(lru, daemon) => {
                lru.release(&mut self.frames, frame);
                daemon.forget(frame);
            }
            PlacedOrder::Iceberg(lru) => drop(lru.release(&mut self.frames, frame)),
        }
    }
}
