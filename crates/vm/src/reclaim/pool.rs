//! The frames of a machine: which page gets a frame, and which page leaves for it.

mod given;
mod ordinary;
mod placed;

use arrayvec::ArrayVec;

pub use self::given::GivenFrames;
use self::ordinary::Ordinary;
pub use self::placed::HashPlaced;
use super::sharing::{ObjectPage, SharedFrames, Victim};
use super::{EvictionOrder, HashedFrames, Placed, PlacementPolicy, Uses};
use crate::addr::{PAGE_BYTES, PageSize, Pfn};
use crate::frame::{CrowdedMemory, OWN_START, OutOfFrames, PageKey};

/// All frames of a machine.
///
/// Table nodes, shared and file pages and large pages take frames from the buddy allocator and keep them until they
/// give them back. Private anonymous 4 KiB pages (*movable* here: their contents can be kept elsewhere) do so too, or
/// have hash-placed frames of their own; with a policy they may have to leave. *Where* a page may be is decided by the
/// memory ([`CrowdedMemory`], [`HashPlaced`], [`GivenFrames`]), *which* page leaves by an [`EvictionOrder`] or a
/// [`PlacementPolicy`]; the pool joins them.
///
/// A frame may have several pages ([`share`](PagePool::share)): they leave together.
#[derive(Debug)]
pub struct PagePool {
    ordinary: CrowdedMemory,
    movable: Movable,
    shared: SharedFrames,
    /// The given frames; `None` for a pool that has its own frames only.
    given: Option<Box<GivenFrames>>,
    evictions: u64,
}

#[derive(Debug)]
enum Movable {
    /// Pages stay in ordinary frames and never leave.
    Kept,
    /// Ordinary frames.
    Ordinary(Ordinary),
    /// Frames of their own.
    Placed(Box<HashPlaced>),
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

impl PagePool {
    fn new(ordinary: CrowdedMemory, movable: Movable) -> Self {
        Self { ordinary, movable, shared: SharedFrames::default(), given: None, evictions: 0 }
    }

    /// Returns a pool in which no page ever leaves.
    pub fn kept(ordinary: CrowdedMemory) -> Self {
        Self::new(ordinary, Movable::Kept)
    }

    /// Returns a pool whose movable pages leave in this order: when there are more than `limit`, or no frames.
    pub fn ordered(ordinary: CrowdedMemory, order: Box<dyn EvictionOrder>, limit: u64) -> Self {
        Self::new(ordinary, Movable::Ordinary(Ordinary::new(order, limit)))
    }

    /// Returns a pool whose movable pages have frames of their own.
    pub fn placed(ordinary: CrowdedMemory, frames: HashedFrames, policy: Box<dyn PlacementPolicy>) -> Self {
        Self::new(ordinary, Movable::Placed(Box::new(HashPlaced::new(frames, policy))))
    }

    /// Returns the pool, which takes given frames from now on; its own frames are above all of these.
    ///
    /// # Panics
    ///
    /// If its pages may have to leave, or are placed by hashing: then frames change hands.
    pub fn with_given(self) -> Self {
        assert!(matches!(self.movable, Movable::Kept), "pages that leave, or that are placed by hashing");
        Self { ordinary: self.ordinary.starting_at(OWN_START), given: Some(Box::default()), ..self }
    }

    /// Returns the uses of pages that the pool wants to hear of.
    pub fn uses(&self) -> Uses {
        match &self.movable {
            Movable::Kept => Uses::Nothing,
            Movable::Ordinary(pages) => pages.order().uses(),
            Movable::Placed(placed) => placed.policy().uses(),
        }
    }

    /// Returns the memory of the ordinary frames.
    pub fn ordinary(&self) -> &CrowdedMemory {
        &self.ordinary
    }

    /// Returns the memory of the ordinary frames, of which a caller may take blocks that never leave.
    pub fn ordinary_mut(&mut self) -> &mut CrowdedMemory {
        &mut self.ordinary
    }

    /// Returns the hash-placed frames, if the pool has any.
    #[inline]
    pub fn hash_placed(&self) -> Option<&HashPlaced> {
        match &self.movable {
            Movable::Placed(placed) => Some(placed),
            Movable::Kept | Movable::Ordinary(_) => None,
        }
    }

    /// Returns the given frames, if the pool takes any.
    pub fn given(&self) -> Option<&GivenFrames> {
        self.given.as_deref()
    }

    /// Returns the given frames, if the pool takes any.
    pub fn given_mut(&mut self) -> Option<&mut GivenFrames> {
        self.given.as_deref_mut()
    }

    /// Returns whether the frame is a given one, and not the pool's own.
    #[inline]
    pub fn is_given(&self, frame: Pfn) -> bool {
        self.given.is_some() && frame < OWN_START
    }

    /// Returns the frames that several pages have, or that are in the page cache.
    pub fn shared(&self) -> &SharedFrames {
        &self.shared
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

    /// Takes a block that stays until it is given back.
    ///
    /// # Errors
    ///
    /// No block of that size is free. No page leaves for a large block, as none does for a fault on Linux.
    pub fn take_kept(&mut self, size: PageSize) -> Result<Pfn, OutOfFrames> {
        match size {
            PageSize::Size4K => self.ordinary.alloc(0),
            _ => self.ordinary.alloc_free(size.order()),
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
                    let sharers = self.shared.take_others(placed.frames().pfn(frame), page);
                    Victim { page, sharers }
                }));
                placed.frames().pfn(frame)
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
            pages.count_spare(true);
        }
        Ok(Taken { frame, evicted })
    }

    /// Gives back a frame that was taken for a page which is not known.
    pub fn give_spare(&mut self, frame: Pfn) {
        if let Movable::Ordinary(pages) = &mut self.movable {
            pages.count_spare(false);
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
                pages.count_spare(false);
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
            Movable::Ordinary(pages) => Some(pages.headroom(&self.ordinary)),
            Movable::Kept | Movable::Placed(_) => None,
        }
    }

    /// Returns the largest number of movable pages, where that is a number.
    pub fn limit(&self) -> Option<u64> {
        match &self.movable {
            Movable::Ordinary(pages) => Some(pages.limit(&self.ordinary)),
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

    /// Returns whether `page` can be in `frame`, as far as the pool keeps book.
    pub fn may_hold(&self, frame: Pfn, page: PageKey) -> bool {
        self.owner(frame).is_none_or(|owner| owner == page) || self.shared.pages(frame).contains(&page)
    }

    /// The book of a movable page's frame has another page.
    fn give_to(&mut self, frame: Pfn, key: PageKey) {
        match &mut self.movable {
            Movable::Kept => {}
            Movable::Ordinary(pages) => pages.give_to(frame, key),
            Movable::Placed(placed) => placed.give_to(frame, key),
        }
    }

    /// Lets the movable page in `frame` leave, whosever turn it is. Tells whether it may leave at all; a page that shares
    /// its frame may not.
    pub fn evict(&mut self, frame: Pfn) -> bool {
        let may_leave = match &self.movable {
            Movable::Kept => false,
            Movable::Ordinary(pages) => pages.is_listed(frame),
            Movable::Placed(placed) => placed.holds(frame) && placed.policy().evicts(),
        };
        if !may_leave || self.shared.is_shared(frame) {
            return false;
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
            Movable::Placed(placed) => placed.age(frame),
        }
    }

    /// Keeps the movable page in `frame` from leaving from now on, or lets it leave again. DEVIATION: a page in a
    /// frame of its own leaves all the same, because few frames are its neighbours' choice.
    pub fn lock(&mut self, frame: Pfn, is_locked: bool) {
        if let Movable::Ordinary(pages) = &mut self.movable {
            pages.lock(frame, is_locked);
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
                    given.give(frame, size);
                    return;
                }
            }
            Movable::Ordinary(pages) => drop(pages.forget(frame)),
            Movable::Placed(placed) => {
                if placed.release(frame) {
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
        let is_placed = self.hash_placed().is_some_and(|placed| placed.holds(frame));
        if self.shared.is_shared(frame) {
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
            Movable::Placed(placed) => drop(placed.release(frame)),
        }
        !is_placed
    }

    /// Tells the allocator that a large block is several smaller ones from now on.
    pub fn split(&mut self, first: Pfn, from: PageSize, to: PageSize) {
        if let Some(given) = self.given.as_mut().filter(|_| first < OWN_START) {
            given.split(first, from, to);
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
            Movable::Ordinary(pages) => pages.touch(frame),
            Movable::Placed(placed) => placed.touch(frame),
        }
    }

    /// Takes note that a walk used a page:
    #[inline]
    pub fn walked(&mut self, frame: Pfn) {
        match &mut self.movable {
            Movable::Kept => {}
            Movable::Ordinary(pages) => pages.walked(frame),
            Movable::Placed(placed) => placed.walked(frame),
        }
    }

    /// Runs the policy's daemon once, if there is one.
    pub fn scan(&mut self) {
        if let Movable::Placed(placed) = &mut self.movable {
            placed.scan();
        }
    }

    /// Returns the movable page in a frame, as far as the pool keeps book.
    pub fn owner(&self, frame: Pfn) -> Option<PageKey> {
        match &self.movable {
            Movable::Kept => None,
            Movable::Ordinary(pages) => pages.owner(frame),
            Movable::Placed(placed) => placed.owner(frame),
        }
    }

    /// Frames of all kinds that are free now.
    pub fn free_frames(&self) -> u64 {
        let placed = self.hash_placed().map(HashPlaced::frames);
        self.ordinary.allocator().free_frames()
            + placed.map_or(0, |frames| frames.shape().frames() - frames.used())
    }

    /// Frames of all kinds.
    pub fn total_frames(&self) -> u64 {
        let placed = self.hash_placed().map(HashPlaced::frames);
        self.ordinary.allocator().total_frames() + placed.map_or(0, |frames| frames.shape().frames())
    }

    /// Pages that had to leave so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }
}

fn table_order(bytes: u64) -> u32 {
    bytes.div_ceil(PAGE_BYTES).next_power_of_two().trailing_zeros()
}
