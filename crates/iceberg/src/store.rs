//! The memory of the first two levels, and the vector comparison: the one file of this crate with unsafe code.
//!
//! A [`Part`] is an array of blocks. What is known about a block's slots (tags, filter, lock) is in 128 bytes of its
//! own; the slots of all blocks are two further arrays, uninitialised until an item comes. Safe code would need an
//! `Option` per slot, which makes 24 bytes of 16, and would have to write all of a part's memory when it is added:
//! that would be the long pause which a resize must not have.
//!
//! ```text
//!  blocks  | lock 8 | chain 8 | filter 23 | doublings 1 | tags 64 || lock 8 | doublings 8 | tags 8 |  128 bytes each
//!  first   | item 0 | item 1 | ...                                             | item 63 |          64 items each
//!  second  | item 0 | ...     | item 7 |                                                             8 items each
//! ```
//!
//! Everything here rests on one invariant, which only [`Yard::put`] and [`Yard::take`] touch:
//!
//! **(I)** Slot `n` of a yard holds an item if and only if tag `n` is not zero.
//!
//! and on one fact: **(L)** the only way to a yard's tags and slots is a [`Yard`], which is made here alone, holds
//! the guard of that yard's lock, and knows the slots of that very yard. Whoever has a `Yard` with a read guard shares
//! tags and items with readers only; whoever has one with a write guard has them alone.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::ops::{Deref, DerefMut};

use crate::chain::Chain;
use crate::filter::Filter;
use crate::sync::{ReadGuard, RwLock, UNLOCKED_IS_ZERO, WriteGuard};
use crate::tags::{Slots, equal};

/// Slots of a block's first level.
pub(crate) const FIRST_SLOTS: usize = 64;
/// Slots of a block's second level.
pub(crate) const SECOND_SLOTS: usize = 8;
/// Slots of a block.
pub(crate) const BLOCK_SLOTS: usize = FIRST_SLOTS + SECOND_SLOTS;

/// What a yard's lock protects: its tags, here, and its slots, elsewhere.
pub(crate) struct Tagged<const N: usize, X> {
    tags: [u8; N],
    /// What else is known.
    pub(crate) head: X,
}

/// What is known about a block's first level.
pub(crate) struct FirstHead<T> {
    /// The third level.
    pub(crate) chain: Chain<T>,
    pub(crate) filter: Filter,
    /// The number of doublings whose items are here. A block of a new part has zero until it gets its items.
    pub(crate) doublings: u8,
}

impl<T> FirstHead<T> {
    /// Whether a key that is not in the first level is nowhere.
    #[inline(always)]
    pub(crate) fn is_all(&self, spill: u16) -> bool {
        self.chain.is_empty() && !self.filter.may_hold(spill)
    }
}

/// What is known about a block's second level.
pub(crate) struct SecondHead {
    /// As in [`FirstHead`].
    pub(crate) doublings: u64,
}

type FirstTags<T> = Tagged<FIRST_SLOTS, FirstHead<T>>;
type SecondTags = Tagged<SECOND_SLOTS, SecondHead>;

/// A block without its slots: a pair of cache lines, which processors fetch together.
#[repr(C, align(128))]
struct Block<T> {
    first: RwLock<FirstTags<T>>,
    second: RwLock<SecondTags>,
}

impl<T> Block<T> {
    fn new() -> Self {
        let head = FirstHead { chain: Chain::EMPTY, filter: Filter::EMPTY, doublings: 0 };
        Self {
            first: RwLock::new(Tagged { tags: [0; FIRST_SLOTS], head }),
            second: RwLock::new(Tagged { tags: [0; SECOND_SLOTS], head: SecondHead { doublings: 0 } }),
        }
    }

    /// Whether zeroed memory is a new block.
    fn new_is_zero() -> bool {
        const BYTES: usize =
            size_of::<usize>() * 2 + 23 + 1 + FIRST_SLOTS + size_of::<usize>() + 8 + SECOND_SLOTS;
        if !UNLOCKED_IS_ZERO || size_of::<Self>() != BYTES {
            return false;
        }
        let new = Self::new();
        // SAFETY: (1) `new` is live for the whole borrow, and bytes need no alignment; (2) its fields' sizes sum up
        // to its own, compared above, so that it has no padding and every byte is initialised; (3) the locks inside
        // are changed by nobody meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const new).cast::<u8>(), size_of::<Self>()) };
        bytes.iter().all(|&byte| byte == 0)
    }
}

/// A yard in use: one level of a block, its lock held by the guard `G`.
pub(crate) struct Yard<'a, T, G> {
    tagged: G,
    slots: *mut T,
    /// Neither longer nor shorter lifetimes in `T`: items come in and go out.
    part: PhantomData<&'a Part<Invariant<T>>>,
}

/// Takes and gives `T`s.
type Invariant<T> = fn(T) -> T;

pub(crate) type FirstRead<'a, T> = Yard<'a, T, ReadGuard<'a, FirstTags<T>>>;
pub(crate) type FirstWrite<'a, T> = Yard<'a, T, WriteGuard<'a, FirstTags<T>>>;
pub(crate) type SecondRead<'a, T> = Yard<'a, T, ReadGuard<'a, SecondTags>>;
pub(crate) type SecondWrite<'a, T> = Yard<'a, T, WriteGuard<'a, SecondTags>>;

impl<T, G, const N: usize, X> Yard<'_, T, G>
where
    G: Deref<Target = Tagged<N, X>>,
{
    #[inline(always)]
    pub(crate) fn head(&self) -> &X {
        &self.tagged.head
    }

    /// Slots with items.
    pub(crate) fn used(&self) -> Slots {
        equal(&self.tagged.tags, 0).others::<N>()
    }

    /// Slots without.
    #[inline(always)]
    pub(crate) fn free(&self) -> Slots {
        equal(&self.tagged.tags, 0)
    }

    /// The item in a slot and its tag.
    #[inline(always)]
    pub(crate) fn get(&self, slot: usize) -> Option<(u8, &T)> {
        let tag = *self.tagged.tags.get(slot)?;
        // SAFETY: (1) `slot < N`, so that the place is inside the yard's slots; (2) it holds an item, by (I); (3) by
        // (L) nobody writes to it while `self` is borrowed.
        (tag != 0).then(|| (tag, unsafe { &*self.slots.add(slot) }))
    }

    /// The first item with that tag that `wanted` is true of, and its slot.
    #[inline(always)]
    pub(crate) fn find(&self, tag: u8, mut wanted: impl FnMut(&T) -> bool) -> Option<(usize, &T)> {
        if tag == 0 {
            return None;
        }
        let mut slots = equal(&self.tagged.tags, tag);
        // Of four keys that are not here, one has a tag that is; of eight that are, one has another's before its own.
        // Then both items come from memory at once.
        if let (Some(_), Some(second)) = (slots.next(), slots.lowest()) {
            prefetch(self.slots.wrapping_add(second).cast());
        }
        equal(&self.tagged.tags, tag).find_map(|slot| {
            // SAFETY: (1) `equal` names slots below `N`; (2) the slot's tag is `tag`, which is not zero: it holds an
            // item, by (I); (3) as in `get`. (`get` itself would compare the tag again, in the hottest of loops.)
            let item = unsafe { &*self.slots.add(slot) };
            wanted(item).then_some((slot, item))
        })
    }
}

impl<T, G, const N: usize, X> Yard<'_, T, G>
where
    G: DerefMut<Target = Tagged<N, X>>,
{
    #[inline(always)]
    pub(crate) fn head_mut(&mut self) -> &mut X {
        &mut self.tagged.head
    }

    /// The item in a slot.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        let tag = *self.tagged.tags.get(slot)?;
        // SAFETY: (1) and (2) as in `get`; (3) by (L) nobody else reads or writes it: the guard is a writer's, and
        // `self` is borrowed for as long as the item.
        (tag != 0).then(|| unsafe { &mut *self.slots.add(slot) })
    }

    /// Puts an item into a free slot.
    ///
    /// # Panics
    ///
    /// If the slot is not free, or the tag is zero.
    #[inline(always)]
    pub(crate) fn put(&mut self, slot: usize, tag: u8, item: T) {
        assert!(tag != 0 && self.tagged.tags[slot] == 0, "slot {slot} is taken");
        // SAFETY: (1) `slot < N`, checked by the index above; (2) by (I) there is no item that would be overwritten;
        // (3) by (L) nobody else reads or writes it. The tag makes (I) true again.
        unsafe { self.slots.add(slot).write(item) };
        self.tagged.tags[slot] = tag;
    }

    /// Takes the item out of a slot.
    #[inline(always)]
    pub(crate) fn take(&mut self, slot: usize) -> Option<T> {
        let tag = self.tagged.tags.get_mut(slot)?;
        if std::mem::take(tag) == 0 {
            return None;
        }
        // SAFETY: (1) `slot < N`; (2) by (I) there was an item, and as its tag is zero now, it is read only once;
        // (3) by (L) nobody else reads or writes it.
        Some(unsafe { self.slots.add(slot).read() })
    }
}

/// Blocks that were added together.
pub(crate) struct Part<T> {
    blocks: *mut Block<T>,
    first: *mut T,
    second: *mut T,
    count: usize,
    /// Where all that is.
    _areas: [Area; 3],
}

// SAFETY: (1) a part owns its memory, and its items as a vector would: sending it sends `T`s.
unsafe impl<T: Send> Send for Part<T> {}
// SAFETY: (1) a shared part gives `&T` to several threads at once, hence `T: Sync`; (2) it lets each of them put
// items in and take them out, hence `T: Send`; (3) everything else that is shared stands behind the blocks' locks (L).
unsafe impl<T: Send + Sync> Sync for Part<T> {}

impl<T> Part<T> {
    /// So many empty blocks. On the usual systems this takes the same time for any number: memory comes zeroed.
    pub(crate) fn new(count: usize) -> Self {
        let [blocks, first, second] = Self::layouts(count);
        let zero = Block::<T>::new_is_zero();
        let areas = [
            if zero { Area::zeroed(blocks) } else { Area::new(blocks) },
            Area::new(first),
            Area::new(second),
        ];
        let [blocks, first, second] = areas.each_ref().map(|area| area.start);
        let part =
            Self { blocks: blocks.cast(), first: first.cast(), second: second.cast(), count, _areas: areas };
        if !zero {
            for at in 0..count {
                // SAFETY: (1) `at < count` blocks were allocated with their alignment; (2) nobody else knows them.
                unsafe { part.blocks.add(at).write(Block::new()) };
            }
        }
        part
    }

    /// Of blocks, first-level slots, second-level slots.
    fn layouts(count: usize) -> [Layout; 3] {
        // Slots on cache line boundaries: then no item that fits in a line is in two.
        let slots = |of: usize| Layout::array::<T>(count * of).and_then(|layout| layout.align_to(64));
        [Layout::array::<Block<T>>(count), slots(FIRST_SLOTS), slots(SECOND_SLOTS)]
            .map(|layout| layout.expect("a table of fewer bytes than the address space has"))
    }

    /// The memory that a part of so many blocks takes.
    pub(crate) fn bytes(count: usize) -> usize {
        Self::layouts(count).iter().map(Layout::size).sum()
    }

    #[inline(always)]
    fn block(&self, at: usize) -> &Block<T> {
        assert!(at < self.count, "block {at} of {}", self.count);
        // SAFETY: (1) `at` is below the number of blocks; (2) all blocks are initialised by `new`, and are changed
        // only behind their locks, until `drop` has the part alone.
        unsafe { &*self.blocks.add(at) }
    }

    #[inline(always)]
    fn first_slots(&self, at: usize) -> *mut T {
        debug_assert!(at < self.count);
        self.first.wrapping_add(at * FIRST_SLOTS)
    }

    #[inline(always)]
    fn second_slots(&self, at: usize) -> *mut T {
        debug_assert!(at < self.count);
        self.second.wrapping_add(at * SECOND_SLOTS)
    }

    #[inline(always)]
    pub(crate) fn read_first(&self, at: usize) -> FirstRead<'_, T> {
        let tagged = self.block(at).first.read();
        Yard { tagged, slots: self.first_slots(at), part: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn write_first(&self, at: usize) -> FirstWrite<'_, T> {
        let tagged = self.block(at).first.write();
        Yard { tagged, slots: self.first_slots(at), part: PhantomData }
    }

    /// Only if nobody has it.
    pub(crate) fn try_write_first(&self, at: usize) -> Option<FirstWrite<'_, T>> {
        let tagged = self.block(at).first.try_write()?;
        Some(Yard { tagged, slots: self.first_slots(at), part: PhantomData })
    }

    #[inline(always)]
    pub(crate) fn read_second(&self, at: usize) -> SecondRead<'_, T> {
        let tagged = self.block(at).second.read();
        Yard { tagged, slots: self.second_slots(at), part: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn write_second(&self, at: usize) -> SecondWrite<'_, T> {
        let tagged = self.block(at).second.write();
        Yard { tagged, slots: self.second_slots(at), part: PhantomData }
    }

    /// Lets the processor fetch what is known about a block's second level: that is in the block's second line.
    #[inline(always)]
    pub(crate) fn prefetch_second(&self, at: usize) {
        prefetch(self.blocks.wrapping_add(at).cast::<u8>().wrapping_add(64));
    }
}

/// Lets the processor fetch a cache line.
#[inline(always)]
fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: (1) SSE is part of x86-64; (2) a prefetch reads nothing as far as the program can see, and any
        // address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Bit `n` tells whether `lanes[n]` equals `wanted`. The compiler turns the portable loop into many times as many
/// instructions.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn equal_16(lanes: &[u8; 16], wanted: u8) -> u16 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: (1) SSE2 is part of x86-64; (2) `lanes` is 16 live bytes, read by one unaligned load.
    unsafe {
        let lanes = _mm_loadu_si128(std::ptr::from_ref(lanes).cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(lanes, _mm_set1_epi8(wanted as i8))) as u16
    }
}

/// Memory as the allocator has given it, and where in it the layout's alignment is.
struct Area {
    memory: *mut u8,
    allocated: Layout,
    start: *mut u8,
}

impl Area {
    fn new(layout: Layout) -> Self {
        Self::from(layout, layout, alloc)
    }

    /// All zero. The standard library zeroes memory of large alignment byte by byte, while the system has plenty that
    /// is zero anyway; hence the small alignment, and room to align within.
    fn zeroed(layout: Layout) -> Self {
        let wider = Layout::from_size_align(layout.size() + layout.align(), 8).expect("room to align");
        Self::from(layout, wider, alloc_zeroed)
    }

    fn from(layout: Layout, allocated: Layout, allocate: unsafe fn(Layout) -> *mut u8) -> Self {
        if layout.size() == 0 {
            let start = std::ptr::without_provenance_mut(layout.align());
            return Self { memory: std::ptr::null_mut(), allocated, start };
        }
        // SAFETY: (1) the size is not zero; (2) `allocate` is `alloc` or `alloc_zeroed`.
        let memory = unsafe { allocate(allocated) };
        if memory.is_null() {
            handle_alloc_error(allocated);
        }
        let skipped = memory.align_offset(layout.align());
        assert!(skipped + layout.size() <= allocated.size(), "room to align");
        Self { memory, allocated, start: memory.wrapping_add(skipped) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if !self.memory.is_null() {
            // SAFETY: (1) allocated with this layout in `from`; (2) an area is dropped after what stands in it.
            unsafe { dealloc(self.memory, self.allocated) };
        }
    }
}

impl<T> Drop for Part<T> {
    fn drop(&mut self) {
        for at in 0..self.count {
            if needs_drop::<T>() {
                let mut first = self.write_first(at);
                first.used().for_each(|slot| drop(first.take(slot)));
                let mut second = self.write_second(at);
                second.used().for_each(|slot| drop(second.take(slot)));
            }
            // SAFETY: (1) the block is initialised and in bounds; (2) `self` is borrowed mutably, and no `Yard` can
            // live, as it borrows the part; (3) it is dropped this once.
            unsafe { self.blocks.add(at).drop_in_place() };
        }
    }
}
