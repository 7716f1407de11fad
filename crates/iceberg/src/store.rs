//! The memory of the first two levels, and the vector comparison: the unsafe code of this crate.
//!
//! A [`Part`] is an array of blocks, or rather seven arrays, by what is needed together: for each level the locks, which
//! are so small that caches hold them, what is known about its items, and the items' slots, uninitialised until an item
//! comes; and chains, which are seldom needed. Safe code would need an `Option` per slot, which makes 24 bytes of 16, and
//! would have to write all of a part's memory when it is added: that would be the long pause which a resize must not have.
//!
//! ```text
//!           locks       known: a cache line                                        another      slots
//!  first    | lock 2 |  | doublings 1 | spill 31 | tags, the finer bits 32 |    | bytes 64 |    | item 0 | ... | item 63 |
//!  second   | lock 2 |  | doublings 1 | tags, the finer bits 4 | bytes 8 |                      | item 0 | ... | item 7 |
//!  third    | chain 8 |
//! ```
//!
//! Looking something up writes to the lock alone, so that what is known about a block need not go back to memory.
//!
//! Everything here rests on one invariant, which only [`Yard::put`] and [`Yard::take`] touch:
//!
//! **(I)** Slot `n` of a yard holds an item if and only if byte `n` of the tags is not zero.
//!
//! and on one fact: **(L)** the only way to what is known in a yard, its chain and its slots is a [`Yard`], which is made
//! here alone, holds the guard of that yard's lock, and knows the slots of that very yard. The owner of a `Yard` has all
//! that alone.

use std::alloc::{Layout, LayoutError, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, needs_drop};
use std::num::NonZeroU8;

use crate::chain::Chain;
use crate::filter::Filter;
use crate::lock::{Guard, Lock};
use crate::sync::NEW_IS_ZERO;
use crate::tags::{Slots, Tag, Tags};

/// Slots of a block's first level.
pub(crate) const FIRST_SLOTS: usize = 64;
/// Slots of a block's second level.
pub(crate) const SECOND_SLOTS: usize = 8;
/// Slots of a block.
pub(crate) const BLOCK_SLOTS: usize = FIRST_SLOTS + SECOND_SLOTS;

/// What is known about the items of a level. All zeros say that there are none.
#[repr(C)]
struct Known<const N: usize, const HALF: usize, S> {
    /// The number of doublings whose items are here. A block of a new part has zero until it gets its items.
    doublings: u8,
    spill: S,
    tags: Tags<N, HALF>,
}

/// What is known of a block beyond its first level.
#[repr(C)]
pub(crate) struct Spill {
    /// Whether there is anything in the third level.
    chained: bool,
    /// The filter of what there is in the second level.
    filter: Filter,
    /// Then the tags' bytes are a cache line.
    _spare: u8,
}

/// One level of a block, locked.
pub(crate) struct Yard<'a, T, const N: usize, const HALF: usize, S> {
    lock: Guard<'a>,
    known: *mut Known<N, HALF, S>,
    slots: *mut T,
    /// The part with the chain, which is seldom needed.
    part: &'a Part<T>,
    at: usize,
    /// Neither longer nor shorter lifetimes in `T`: items come in and go out.
    items: PhantomData<Invariant<T>>,
}

/// Takes and gives `T`s.
type Invariant<T> = fn(T) -> T;

pub(crate) type FirstYard<'a, T> = Yard<'a, T, FIRST_SLOTS, { FIRST_SLOTS / 2 }, Spill>;
pub(crate) type SecondYard<'a, T> = Yard<'a, T, SECOND_SLOTS, { SECOND_SLOTS / 2 }, ()>;

impl<T> FirstYard<'_, T> {
    /// False if a key that is not in the first level is nowhere.
    #[inline(always)]
    pub(crate) fn may_spill(&self, spill: NonZeroU8) -> bool {
        self.filter().may_hold(spill) | self.is_chained()
    }

    /// Whether there is anything in the third level.
    #[inline(always)]
    pub(crate) fn is_chained(&self) -> bool {
        self.known().spill.chained
    }

    /// Returns the filter of the items that there may be in the second level.
    #[inline(always)]
    pub(crate) fn filter(&self) -> &Filter {
        &self.known().spill.filter
    }

    #[inline(always)]
    pub(crate) fn filter_mut(&mut self) -> &mut Filter {
        &mut self.known_mut().spill.filter
    }

    #[inline(always)]
    pub(crate) fn chain(&self) -> &Chain<T> {
        // SAFETY: (1) the part has so many live chains; (2) by (L) no other thread writes to it while `self` is borrowed.
        unsafe { &*self.part.chains.add(self.at) }
    }

    /// Changes which items are in the third level.
    pub(crate) fn change_chain<R>(&mut self, change: impl FnOnce(&mut Chain<T>) -> R) -> R {
        // SAFETY: (1) as in `chain`; (2) by (L) no other thread reads or writes it, and `self` is borrowed for as long.
        let chain = unsafe { &mut *self.part.chains.add(self.at) };
        let result = change(chain);
        self.known_mut().spill.chained = !chain.is_empty();
        result
    }

    /// An item of the third level.
    pub(crate) fn chained_mut(&mut self, number: u32) -> Option<&mut T> {
        // SAFETY: as in `change_chain`. Which items there are does not change.
        unsafe { &mut *self.part.chains.add(self.at) }.get_mut(number)
    }
}

impl<T, const N: usize, const HALF: usize, S> Yard<'_, T, N, HALF, S> {
    /// Returns whether all slots have items. That stands in the lock: the caller need not wait for the tags.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.lock.number()) == N
    }

    /// A free slot, near `home` if possible.
    #[inline(always)]
    pub(crate) fn free_near(&self, home: usize) -> Option<usize> {
        self.known().tags.free_from(line_of::<T>(home % N))
    }

    /// The number of doublings whose items are here.
    #[inline(always)]
    pub(crate) fn doublings(&self) -> u32 {
        self.known().doublings.into()
    }

    pub(crate) fn set_doublings(&mut self, doublings: u32) {
        self.known_mut().doublings = doublings as u8;
    }

    #[inline(always)]
    fn known(&self) -> &Known<N, HALF, S> {
        // SAFETY: (1) the pointer is to what is known, alive; (2) by (L) no other thread writes to it while `self` is borrowed.
        unsafe { &*self.known }
    }

    #[inline(always)]
    fn known_mut(&mut self) -> &mut Known<N, HALF, S> {
        // SAFETY: (1) as in `known`; (2) by (L) no other thread reads or writes it, and `self` is borrowed for as long.
        unsafe { &mut *self.known }
    }

    /// Whether a slot is one of the yard's and holds an item.
    #[inline(always)]
    fn is_used(&self, slot: usize) -> bool {
        self.known().tags.is_used(slot)
    }

    /// Returns the slots with items.
    pub(crate) fn used(&self) -> Slots {
        self.free().others::<N>()
    }

    /// Returns the slots without items.
    #[inline(always)]
    pub(crate) fn free(&self) -> Slots {
        self.known().tags.free()
    }

    /// The item in a slot.
    #[inline(always)]
    pub(crate) fn get(&self, slot: usize) -> Option<&T> {
        // SAFETY: (1) a used slot is one of the yard's; (2) it holds an item, by (I); (3) by (L) no other thread writes to it
        // while `self` is borrowed.
        self.is_used(slot).then(|| unsafe { &*self.slots.add(slot) })
    }

    /// Whether there is an item with that tag.
    #[inline(always)]
    pub(crate) fn holds(&self, tag: Tag) -> bool {
        self.known().tags.holds(tag)
    }

    /// The first item with that tag that `wanted` is true of, and its slot.
    #[inline(always)]
    pub(crate) fn find(&self, tag: Tag, mut wanted: impl FnMut(&T) -> bool) -> Option<(usize, &T)> {
        let mut slots = self.known().tags.equal(tag);
        while let Some(slot) = slots.lowest() {
            // SAFETY: as in `get`: (1) and (2) `equal` names used slots alone; (3) by (L). (`get` itself would look
            // at the slot's tag again, in the hottest of loops.)
            let item = unsafe { &*self.slots.add(slot) };
            if wanted(item) {
                return Some((slot, item));
            }
            slots.next();
        }
        None
    }

    /// The item in a slot.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        // SAFETY: (1) and (2) as in `get`; (3) by (L) no other thread reads or writes it, and `self` is borrowed
        // for as long as the item.
        self.is_used(slot).then(|| unsafe { &mut *self.slots.add(slot) })
    }

    /// Puts an item into a free slot.
    ///
    /// # Panics
    ///
    /// If the yard has no such slot, or it is not free.
    #[inline(always)]
    pub(crate) fn put(&mut self, slot: usize, tag: Tag, item: T) {
        assert!(slot < N && !self.is_used(slot), "slot {slot} is taken");
        // SAFETY: (1) the yard has so many slots; (2) by (I) there is no item that would be overwritten; (3) by (L)
        // no other thread reads or writes it. The tag makes (I) true again.
        unsafe { self.slots.add(slot).write(item) };
        self.known_mut().tags.set(slot, tag);
        self.lock.set_number(self.lock.number() + 1);
    }

    /// Takes the item out of a slot.
    #[inline(always)]
    pub(crate) fn take(&mut self, slot: usize) -> Option<T> {
        // SAFETY: (1) a slot that was used is one of the yard's; (2) there was an item, by (I), and as the slot is not
        // used any more, it is read only once; (3) by (L) no other thread reads or writes it.
        let item = self.known_mut().tags.clear(slot).then(|| unsafe { self.slots.add(slot).read() })?;
        self.lock.set_number(self.lock.number() - 1);
        Some(item)
    }
}

#[cfg(test)]
impl<T> FirstYard<'_, T> {
    /// Returns the address of the tags' bytes.
    pub(crate) fn address_of_tags(&self) -> usize {
        self.known().tags.address()
    }
}

type FirstKnown = Known<FIRST_SLOTS, { FIRST_SLOTS / 2 }, Spill>;
type SecondKnown = Known<SECOND_SLOTS, { SECOND_SLOTS / 2 }, ()>;

/// Blocks that were added together.
pub(crate) struct Part<T> {
    count: usize,
    first_locks: *mut Lock,
    first_known: *mut FirstKnown,
    first_slots: *mut [MaybeUninit<T>; FIRST_SLOTS],
    second_locks: *mut Lock,
    second_known: *mut SecondKnown,
    second_slots: *mut [MaybeUninit<T>; SECOND_SLOTS],
    chains: *mut Chain<T>,
    /// The memory of each array.
    areas: [Area; 7],
}

// SAFETY: (1) a part owns its memory, and its items as a vector would: sending it sends `T`s.
unsafe impl<T: Send> Send for Part<T> {}
// SAFETY: (1) a shared part lets several threads put items in, use them and take them out, hence `T: Send`; (2) one at
// a time, as a mutex would, so that `T` need not be `Sync`: it stands behind the blocks' locks (L).
unsafe impl<T: Send> Sync for Part<T> {}

impl<T> Part<T> {
    /// Creates so many empty blocks. On the usual systems this takes the same time for any number: memory comes
    /// zeroed.
    ///
    /// # Panics
    ///
    /// If that is more than the address space. Memory's end is the program's.
    pub(crate) fn new(count: usize) -> Self {
        let layouts = Self::layouts(count).expect("a table of fewer bytes than the address space has");
        Self::try_new(count).unwrap_or_else(|| handle_alloc_error(layouts[2]))
    }

    /// The same; `None` if there is no such memory. What there was for the first areas goes back.
    pub(crate) fn try_new(count: usize) -> Option<Self> {
        let [locks, first_known, first_slots, second_known, second_slots, chains] =
            Self::layouts(count).ok()?;
        let areas = [
            Area::filled(locks, count, Lock::new)?,
            Area::zeroed(first_known)?,
            Area::new(first_slots)?,
            Area::filled(locks, count, Lock::new)?,
            Area::zeroed(second_known)?,
            Area::new(second_slots)?,
            Area::zeroed(chains)?,
        ];
        let [first_locks, first_known, first_slots, second_locks, second_known, second_slots, chains] =
            areas.each_ref().map(|area| area.start);
        Some(Self {
            count,
            first_locks: first_locks.cast(),
            first_known: first_known.cast(),
            first_slots: first_slots.cast(),
            second_locks: second_locks.cast(),
            second_known: second_known.cast(),
            second_slots: second_slots.cast(),
            chains: chains.cast(),
            areas,
        })
    }

    /// Asks the system for large pages where there is room for them: one fault instead of 512, shorter page walks. Not
    /// for parts that a table adds when it grows: the system zeroes a large page at its first use, and an insertion would
    /// have to wait for that.
    pub(crate) fn ask_for_large_pages(&self) {
        self.areas.iter().for_each(Area::ask_for_large_pages);
    }

    /// Returns the layouts of a level's locks, of what is known in both levels and of their slots, and of the chains,
    /// of which an empty one is a null pointer.
    fn layouts(count: usize) -> Result<[Layout; 6], LayoutError> {
        // On cache line boundaries: then no first level's tags and no item that fits in a line are in two.
        let aligned = |layout: Result<Layout, LayoutError>| layout.and_then(|layout| layout.align_to(64));
        Ok([
            Layout::array::<Lock>(count)?,
            aligned(Layout::array::<FirstKnown>(count))?,
            aligned(Layout::array::<[MaybeUninit<T>; FIRST_SLOTS]>(count))?,
            aligned(Layout::array::<SecondKnown>(count))?,
            aligned(Layout::array::<[MaybeUninit<T>; SECOND_SLOTS]>(count))?,
            Layout::array::<Chain<T>>(count)?,
        ])
    }

    /// The memory that a part of so many blocks takes.
    pub(crate) fn bytes(count: usize) -> usize {
        let layouts = Self::layouts(count).expect("a part that is there");
        layouts.iter().chain([&layouts[0]]).map(Layout::size).sum()
    }

    #[inline(always)]
    fn check(&self, at: usize) {
        #[cold]
        #[inline(never)]
        fn out_of_bounds<T>(part: &Part<T>, at: usize) -> ! {
            panic!("block {at} of {}", part.count)
        }
        if at >= self.count {
            out_of_bounds(self, at);
        }
    }

    /// A block's first level but for its lock. The processor is to fetch a slot's line while it waits for what is known
    /// about the block.
    #[inline(always)]
    fn first<'a>(
        &'a self,
        at: usize,
        guessed: Option<usize>,
    ) -> (&'a Lock, impl FnOnce(Guard<'a>) -> FirstYard<'a, T>) {
        self.check(at);
        let (known, slots) =
            (self.first_known.wrapping_add(at), self.first_slots.wrapping_add(at).cast::<T>());
        if let Some(slot) = guessed {
            prefetch(slots.cast::<u8>().wrapping_add(slot * size_of::<T>()));
        }
        // The thread that has the lock looks at both lines next. The atomic operation that takes the lock would let that wait until
        // the lock is there.
        prefetch(known.cast());
        prefetch(known.cast::<u8>().wrapping_add(64));
        // SAFETY: (1) checked above; (2) all are initialised by `new` (where they are only zeroed, by what
        // `Area::filled` says of zeros), and are changed only behind their locks, until `drop` has them alone.
        let lock = unsafe { &*self.first_locks.add(at) };
        (lock, move |lock| Yard { lock, known, slots, part: self, at, items: PhantomData })
    }

    #[inline(always)]
    pub(crate) fn lock_first(&self, at: usize, guessed: Option<usize>) -> FirstYard<'_, T> {
        let (lock, yard) = self.first(at, guessed);
        yard(lock.lock())
    }

    /// Locks a block's first level only if no other thread has it.
    pub(crate) fn try_lock_first(&self, at: usize) -> Option<FirstYard<'_, T>> {
        let (lock, yard) = self.first(at, None);
        lock.try_lock().map(yard)
    }

    #[inline(always)]
    pub(crate) fn lock_second(&self, at: usize) -> SecondYard<'_, T> {
        self.check(at);
        // SAFETY: (1) and (2) as in `first`.
        let lock = unsafe { &*self.second_locks.add(at) }.lock();
        let (known, slots) = (self.second_known.wrapping_add(at), self.second_slots.wrapping_add(at).cast());
        Yard { lock, known, slots, part: self, at, items: PhantomData }
    }

    /// Returns all items of the part, to be changed. No lock is needed: the part is the caller's alone.
    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let (first_known, first_slots) = (self.first_known, self.first_slots);
        let (second_known, second_slots) = (self.second_known, self.second_slots);
        let chains = self.chains;
        (0..self.count).flat_map(move |at| {
            // SAFETY: (1) the block is in bounds, and all that is known about it is initialised; (2) `self` is borrowed mutably for
            // as long as the items, and no `Yard` can live, as it borrows the part; (3) each chain is named once.
            let (first, second, chain) = unsafe {
                (
                    (*first_known.add(at)).tags.free(),
                    (*second_known.add(at)).tags.free(),
                    &mut *chains.add(at),
                )
            };
            // SAFETY: (1) the block is in bounds, and a used slot one of its slots; (2) it holds an item, by (I); (3) as above.
            let of_first = move |slot| unsafe { &mut *first_slots.add(at).cast::<T>().add(slot) };
            // SAFETY: as for the first level.
            let of_second = move |slot| unsafe { &mut *second_slots.add(at).cast::<T>().add(slot) };
            let in_first = first.others::<FIRST_SLOTS>().map(of_first);
            in_first.chain(second.others::<SECOND_SLOTS>().map(of_second)).chain(chain.iter_mut())
        })
    }

    /// Returns the number of items that a block's first level has, or had a moment ago.
    #[inline(always)]
    pub(crate) fn count_first(&self, at: usize) -> usize {
        self.check(at);
        // SAFETY: (1) and (2) as in `first`.
        unsafe { &*self.first_locks.add(at) }.number().into()
    }

    /// Returns the number of items that a block's second level has, or had a moment ago.
    #[inline(always)]
    pub(crate) fn count_second(&self, at: usize) -> usize {
        self.check(at);
        // SAFETY: (1) and (2) as in `first`.
        unsafe { &*self.second_locks.add(at) }.number().into()
    }

    /// Lets the processor fetch a block's second level, of its slots those near `home`.
    #[inline(always)]
    pub(crate) fn prefetch_second(&self, at: usize, home: usize) {
        prefetch(self.second_locks.wrapping_add(at).cast());
        prefetch(self.second_known.wrapping_add(at).cast());
        prefetch(self.second_slots.wrapping_add(at).cast::<T>().wrapping_add(home % SECOND_SLOTS).cast());
    }
}

/// The first slot in the cache line of a slot.
#[inline(always)]
fn line_of<T>(slot: usize) -> usize {
    let in_line = (64 / size_of::<T>().max(1)).max(1);
    slot - slot % in_line
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

/// Sixteen bytes, each all ones or all zeros in what compares: what SSE2 does at once. The compiler turns portable loops
/// into many times as many instructions.
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_max_epu8, _mm_movemask_epi8,
        _mm_or_si128, _mm_set1_epi8, _mm_xor_si128,
    };

    #[derive(Clone, Copy)]
    pub(crate) struct Lanes(__m128i);

    // SAFETY of all: (1) SSE2 is part of x86-64.
    impl Lanes {
        #[inline(always)]
        pub(crate) fn load(bytes: &[u8; 16]) -> Self {
            // SAFETY: (2) 16 live bytes, read by one unaligned load.
            Self(unsafe { _mm_loadu_si128(std::ptr::from_ref(bytes).cast()) })
        }

        #[inline(always)]
        pub(crate) fn all(byte: u8) -> Self {
            // SAFETY: (1).
            Self(unsafe { _mm_set1_epi8(byte as i8) })
        }

        #[inline(always)]
        pub(crate) fn equal(self, other: Self) -> Self {
            // SAFETY: (1).
            Self(unsafe { _mm_cmpeq_epi8(self.0, other.0) })
        }

        #[inline(always)]
        pub(crate) fn and(self, other: Self) -> Self {
            // SAFETY: (1).
            Self(unsafe { _mm_and_si128(self.0, other.0) })
        }

        #[inline(always)]
        pub(crate) fn or(self, other: Self) -> Self {
            // SAFETY: (1).
            Self(unsafe { _mm_or_si128(self.0, other.0) })
        }

        #[inline(always)]
        pub(crate) fn xor(self, other: Self) -> Self {
            // SAFETY: (1).
            Self(unsafe { _mm_xor_si128(self.0, other.0) })
        }

        /// The larger one of each two.
        #[inline(always)]
        pub(crate) fn max(self, other: Self) -> Self {
            // SAFETY: (1).
            Self(unsafe { _mm_max_epu8(self.0, other.0) })
        }

        /// The top bit of each.
        #[inline(always)]
        pub(crate) fn mask(self) -> u64 {
            // SAFETY: (1).
            u64::from(unsafe { _mm_movemask_epi8(self.0) } as u16)
        }
    }
}

/// The size of a large page on most systems.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// Memory as the allocator has given it, and where in it the layout's alignment is.
struct Area {
    memory: *mut u8,
    allocated: Layout,
    start: *mut u8,
}

impl Area {
    /// `None` if there is no such memory, here and below.
    fn new(layout: Layout) -> Option<Self> {
        Self::from(layout, layout, alloc)
    }

    /// `count` values, each as `new` makes it.
    fn filled<B>(layout: Layout, count: usize, new: impl Fn() -> B) -> Option<Self> {
        // Then all of a new lock is zero: not taken. Nothing needs to be written.
        if NEW_IS_ZERO {
            return Self::zeroed(layout);
        }
        let area = Self::new(layout)?;
        for at in 0..count {
            // SAFETY: (1) the layout is an array of `count` `B`s, and the area is aligned for it; (2) no other code
            // knows the memory.
            unsafe { area.start.cast::<B>().add(at).write(new()) };
        }
        Some(area)
    }

    /// Allocates an area that is all zero. The standard library zeroes memory of large alignment byte by byte, while
    /// the system has plenty that is zero anyway; hence the small alignment, and room to align within.
    fn zeroed(layout: Layout) -> Option<Self> {
        let wider = Layout::from_size_align(layout.size().checked_add(layout.align())?, 8).ok()?;
        Self::from(layout, wider, alloc_zeroed)
    }

    /// Does what [`Part::ask_for_large_pages`] says. For no more than lies within this area.
    fn ask_for_large_pages(&self) {
        #[cfg(target_os = "linux")]
        {
            use rustix::mm::{Advice, madvise};
            let skipped = self.memory.align_offset(LARGE_PAGE);
            if let Some(left) = self.allocated.size().checked_sub(skipped)
                && left >= LARGE_PAGE
            {
                // SAFETY: (1) the pages lie within this area; (2) the advice changes nothing that a program sees. It may
                // be refused: then there are small pages.
                let _ = unsafe {
                    madvise(
                        self.memory.wrapping_add(skipped).cast(),
                        left - left % LARGE_PAGE,
                        Advice::LinuxHugepage,
                    )
                };
            }
        }
    }

    fn from(layout: Layout, allocated: Layout, allocate: unsafe fn(Layout) -> *mut u8) -> Option<Self> {
        if layout.size() == 0 {
            let start = std::ptr::without_provenance_mut(layout.align());
            return Some(Self { memory: std::ptr::null_mut(), allocated, start });
        }
        // SAFETY: (1) the size is not zero; (2) `allocate` is `alloc` or `alloc_zeroed`.
        let memory = unsafe { allocate(allocated) };
        if memory.is_null() {
            return None;
        }
        let skipped = memory.align_offset(layout.align());
        assert!(skipped + layout.size() <= allocated.size(), "room to align");
        Some(Self { memory, allocated, start: memory.wrapping_add(skipped) })
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
                let mut first = self.lock_first(at, None);
                first.used().for_each(|slot| drop(first.take(slot)));
                let mut second = self.lock_second(at);
                second.used().for_each(|slot| drop(second.take(slot)));
            }
            // SAFETY: (1) the block is in bounds, and all that is known about it is initialised; (2) `self` is borrowed
            // mutably, and no `Yard` can live, as it borrows the part; (3) it is dropped this once. Tags need no drop.
            unsafe {
                self.first_locks.add(at).drop_in_place();
                self.second_locks.add(at).drop_in_place();
                self.chains.add(at).drop_in_place();
            }
        }
    }
}
