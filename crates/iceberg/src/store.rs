//! The memory of the first two levels, and the vector comparison: the one file of this crate with unsafe code.
//!
//! A [`Part`] is an array of blocks. What is known about a block's slots (fingerprints, filter, locks) is in two
//! arrays of its own, of 128 and 24 bytes a block; the slots of all blocks are two further arrays, uninitialised until
//! an item comes. Safe code would need an `Option` per slot, which makes 24 bytes of 16, and would have to write all of
//! a part's memory when it is added: that would be the long pause which a resize must not have.
//!
//! ```text
//!  first    | lock 1, 7 | chain 8 | filter 23 | doublings 1 | planes 24 || tags 64 |    128 bytes each: two cache lines
//!  second   | lock 1 | doublings 1 | tags 8 | 6 |                                     16 bytes each
//!  items    | item 0 | item 1 | ...                          | item 63 |              64 items each, first level
//!  items    | item 0 | ...     | item 7 |                                             8 items each, second level
//! ```
//!
//! Everything here rests on one invariant, which only [`Yard::put`] and [`Yard::take`] touch:
//!
//! **(I)** A slot of a yard holds an item if and only if its fingerprints say that it is used.
//!
//! and on one fact: **(L)** the only way to a yard's fingerprints and slots is a [`Yard`], which is made here alone, holds
//! the guard of that yard's lock, and knows the slots of that very yard. Whoever has a `Yard` has all that alone.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::num::NonZeroU8;

use crate::chain::Chain;
use crate::filter::Filter;
use crate::lock::{Guard, Lock};
use crate::place::Print;
use crate::sync::NEW_IS_ZERO;
use crate::tags::{Prints, PrintsAndPlanes, Slots};

/// Slots of a block's first level.
pub(crate) const FIRST_SLOTS: usize = 64;
/// Slots of a block's second level.
pub(crate) const SECOND_SLOTS: usize = 8;
/// Slots of a block.
pub(crate) const BLOCK_SLOTS: usize = FIRST_SLOTS + SECOND_SLOTS;

/// What a yard's lock protects: what is known of its slots, here, and the slots, elsewhere.
#[repr(C)]
pub(crate) struct Known<P, X> {
    /// What else is known.
    pub(crate) head: X,
    prints: P,
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
    pub(crate) fn is_all(&self, spill: NonZeroU8) -> bool {
        self.chain.is_empty() && !self.filter.may_hold(spill)
    }
}

/// What is known about a block's second level.
pub(crate) struct SecondHead {
    /// As in [`FirstHead`].
    pub(crate) doublings: u8,
}

type KnownFirst<T> = Known<PrintsAndPlanes<FIRST_SLOTS>, FirstHead<T>>;
type KnownSecond = Known<[u8; SECOND_SLOTS], SecondHead>;

/// A block's first level without its slots: a pair of cache lines, which processors fetch together. The second one is
/// the tags.
#[repr(align(128))]
struct First<T>(Lock<KnownFirst<T>>);

/// A block's second level without its slots. Four of them are in a cache line.
#[repr(align(16))]
struct Second(Lock<KnownSecond>);

impl<T> First<T> {
    fn new() -> Self {
        let head = FirstHead { chain: Chain::EMPTY, filter: Filter::EMPTY, doublings: 0 };
        Self(Lock::new(Known { head, prints: PrintsAndPlanes::EMPTY }))
    }
}

impl Second {
    fn new() -> Self {
        Self(Lock::new(Known { head: SecondHead { doublings: 0 }, prints: [0; SECOND_SLOTS] }))
    }
}

/// One level of a block, locked.
pub(crate) struct Yard<'a, T, P, X> {
    known: Guard<'a, Known<P, X>>,
    slots: *mut T,
    /// Neither longer nor shorter lifetimes in `T`: items come in and go out.
    part: PhantomData<&'a Part<Invariant<T>>>,
}

/// Takes and gives `T`s.
type Invariant<T> = fn(T) -> T;

pub(crate) type FirstYard<'a, T> = Yard<'a, T, PrintsAndPlanes<FIRST_SLOTS>, FirstHead<T>>;
pub(crate) type SecondYard<'a, T> = Yard<'a, T, [u8; SECOND_SLOTS], SecondHead>;

impl<T> FirstYard<'_, T> {
    /// A free slot, near `home` if possible.
    #[inline(always)]
    pub(crate) fn free_near(&self, home: usize) -> Option<usize> {
        // The first slot of the line of `home`.
        let in_line = (64 / size_of::<T>().max(1)).max(1);
        self.free().lowest_from(home - home % in_line)
    }
}

impl<T, P: Prints, X> Yard<'_, T, P, X> {
    #[inline(always)]
    pub(crate) fn head(&self) -> &X {
        &self.known.head
    }

    /// Slots with items.
    pub(crate) fn used(&self) -> Slots {
        self.free().others(P::SLOTS)
    }

    /// Slots without.
    #[inline(always)]
    pub(crate) fn free(&self) -> Slots {
        self.known.prints.free()
    }

    /// The item in a slot.
    #[inline(always)]
    pub(crate) fn get(&self, slot: usize) -> Option<&T> {
        // SAFETY: (1) a used slot is one of the yard's; (2) it holds an item, by (I); (3) by (L) nobody writes to it
        // while `self` is borrowed.
        self.known.prints.is_used(slot).then(|| unsafe { &*self.slots.add(slot) })
    }

    /// The first item with that fingerprint that `wanted` is true of, and its slot.
    #[inline(always)]
    pub(crate) fn find(&self, print: Print, mut wanted: impl FnMut(&T) -> bool) -> Option<(usize, &T)> {
        self.known.prints.equal(print).find_map(|slot| {
            // SAFETY: as in `get`: (1) and (2) `equal` names used slots alone; (3) by (L). (`get` itself would look
            // at the slot's fingerprint again, in the hottest of loops.)
            let item = unsafe { &*self.slots.add(slot) };
            wanted(item).then_some((slot, item))
        })
    }

    #[inline(always)]
    pub(crate) fn head_mut(&mut self) -> &mut X {
        &mut self.known.head
    }

    /// The item in a slot.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        // SAFETY: (1) and (2) as in `get`; (3) by (L) nobody else reads or writes it, and `self` is borrowed
        // for as long as the item.
        self.known.prints.is_used(slot).then(|| unsafe { &mut *self.slots.add(slot) })
    }

    /// Puts an item into a free slot.
    ///
    /// # Panics
    ///
    /// If the yard has no such slot, or it is not free.
    #[inline(always)]
    pub(crate) fn put(&mut self, slot: usize, print: Print, item: T) {
        assert!(slot < P::SLOTS && !self.known.prints.is_used(slot), "slot {slot} is taken");
        // SAFETY: (1) the yard has so many slots; (2) by (I) there is no item that would be overwritten; (3) by (L)
        // nobody else reads or writes it. The fingerprint makes (I) true again.
        unsafe { self.slots.add(slot).write(item) };
        self.known.prints.set(slot, print);
    }

    /// Takes the item out of a slot.
    #[inline(always)]
    pub(crate) fn take(&mut self, slot: usize) -> Option<T> {
        // SAFETY: (1) a slot that was used is one of the yard's; (2) there was an item, by (I), and as the slot is not
        // used any more, it is read only once; (3) by (L) nobody else reads or writes it.
        self.known.prints.clear(slot).then(|| unsafe { self.slots.add(slot).read() })
    }
}

/// Blocks that were added together.
pub(crate) struct Part<T> {
    first: *mut First<T>,
    second: *mut Second,
    first_slots: *mut T,
    second_slots: *mut T,
    count: usize,
    /// Where all that is.
    _areas: [Area; 4],
}

// SAFETY: (1) a part owns its memory, and its items as a vector would: sending it sends `T`s.
unsafe impl<T: Send> Send for Part<T> {}
// SAFETY: (1) a shared part lets several threads put items in, use them and take them out, hence `T: Send`; (2) one at
// a time, as a mutex would, so that `T` need not be `Sync`: it stands behind the blocks' locks (L).
unsafe impl<T: Send> Sync for Part<T> {}

impl<T> Part<T> {
    /// So many empty blocks. On the usual systems this takes the same time for any number: memory comes zeroed.
    pub(crate) fn new(count: usize) -> Self {
        let [first, second, first_slots, second_slots] = Self::layouts(count);
        let areas = [
            Area::filled(first, count, First::<T>::new),
            Area::filled(second, count, Second::new),
            Area::new(first_slots),
            Area::new(second_slots),
        ];
        let [first, second, first_slots, second_slots] = areas.each_ref().map(|area| area.start);
        Self {
            first: first.cast(),
            second: second.cast(),
            first_slots: first_slots.cast(),
            second_slots: second_slots.cast(),
            count,
            _areas: areas,
        }
    }

    /// Of the blocks' first levels, second levels, and the slots of each.
    fn layouts(count: usize) -> [Layout; 4] {
        // Slots on cache line boundaries: then no item that fits in a line is in two.
        let slots = |of: usize| Layout::array::<T>(count * of).and_then(|layout| layout.align_to(64));
        [
            Layout::array::<First<T>>(count),
            Layout::array::<Second>(count),
            slots(FIRST_SLOTS),
            slots(SECOND_SLOTS),
        ]
        .map(|layout| layout.expect("a table of fewer bytes than the address space has"))
    }

    /// The memory that a part of so many blocks takes.
    pub(crate) fn bytes(count: usize) -> usize {
        Self::layouts(count).iter().map(Layout::size).sum()
    }

    #[inline(always)]
    fn first(&self, at: usize) -> (&Lock<KnownFirst<T>>, *mut T) {
        assert!(at < self.count, "block {at} of {}", self.count);
        let block = self.first.wrapping_add(at);
        // Whoever has the lock looks at the tags next. The atomic operation that takes the lock would let that wait until
        // its own line is there.
        prefetch(block.cast::<u8>().wrapping_add(64));
        // SAFETY: (1) `at` is below the number of blocks; (2) all blocks are initialised by `new` (where they are only
        // zeroed, by what `Area::filled` says of zeros), and are changed only behind their locks, until `drop` has the part alone.
        (unsafe { &(*block).0 }, self.first_slots.wrapping_add(at * FIRST_SLOTS))
    }

    #[inline(always)]
    fn second(&self, at: usize) -> (&Lock<KnownSecond>, *mut T) {
        assert!(at < self.count, "block {at} of {}", self.count);
        // SAFETY: (1) and (2) as in `first`.
        let block = unsafe { &*self.second.add(at) };
        (&block.0, self.second_slots.wrapping_add(at * SECOND_SLOTS))
    }

    #[inline(always)]
    pub(crate) fn lock_first(&self, at: usize) -> FirstYard<'_, T> {
        let (block, slots) = self.first(at);
        Yard { known: block.lock(), slots, part: PhantomData }
    }

    /// Lets the processor fetch the line of a first-level slot, while it waits for what is known about the block.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, at: usize, slot: usize) {
        prefetch(self.first_slots.wrapping_add(at * FIRST_SLOTS + slot).cast());
    }

    /// Only if nobody has it.
    pub(crate) fn try_lock_first(&self, at: usize) -> Option<FirstYard<'_, T>> {
        let (block, slots) = self.first(at);
        Some(Yard { known: block.try_lock()?, slots, part: PhantomData })
    }

    #[inline(always)]
    pub(crate) fn lock_second(&self, at: usize) -> SecondYard<'_, T> {
        let (block, slots) = self.second(at);
        Yard { known: block.lock(), slots, part: PhantomData }
    }

    /// Lets the processor fetch what is known about a block's second level.
    #[inline(always)]
    pub(crate) fn prefetch_second(&self, at: usize) {
        prefetch(self.second.wrapping_add(at).cast());
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

    /// `count` values, each as `new` makes it.
    fn filled<B>(layout: Layout, count: usize, new: fn() -> B) -> Self {
        // Then all of a new block is zero: its lock, its empty chain (a null pointer), an empty filter, no doublings,
        // no fingerprints. Nothing needs to be written.
        if NEW_IS_ZERO {
            return Self::zeroed(layout);
        }
        let area = Self::new(layout);
        for at in 0..count {
            // SAFETY: (1) the layout is an array of `count` `B`s, and the area is aligned for it; (2) nobody else
            // knows the memory.
            unsafe { area.start.cast::<B>().add(at).write(new()) };
        }
        area
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
                let mut first = self.lock_first(at);
                first.used().for_each(|slot| drop(first.take(slot)));
                let mut second = self.lock_second(at);
                second.used().for_each(|slot| drop(second.take(slot)));
            }
            // SAFETY: (1) the blocks are initialised and in bounds; (2) `self` is borrowed mutably, and no `Yard` can
            // live, as it borrows the part; (3) they are dropped this once.
            unsafe {
                self.first.add(at).drop_in_place();
                self.second.add(at).drop_in_place();
            }
        }
    }
}
