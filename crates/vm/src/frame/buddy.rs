//! The binary buddy allocator (Knowlton, CACM 1965), as the Linux kernel's page allocator uses it.
//!
//! A block of order `k` is split into two *buddies* of order `k - 1`, whose block numbers differ in the last
//! bit; a freed block is merged with its buddy while that is free as a whole.
//!
//! An allocation takes the smallest free block that is large enough and, among equals, the one with the lowest
//! address: deterministic, and it fills memory from the bottom. Linux takes from the head of a list instead
//! (`DEVIATION:` the address order of frames differs, which block sizes are available does not), and it keeps
//! per-CPU lists of single frames in front, which we leave out. On a system that has run for some time, such lists lead
//! anywhere: a [scattered](BuddyAllocator::scattered) allocator draws one of the equals.
//!
//! There is no record per frame, only two bits per possible block (free; handed out), in memory that the host
//! provides when it is first touched: 1 TiB of simulated memory reserves 130 MiB and touches a few KiB until
//! frames are taken.

use super::bit_tree::BitTree;
use super::{FrameAllocator, OutOfFrames};
use crate::addr::{PAGE_BYTES, Pfn};
use crate::random::SplitMix64;

/// The order of the largest block: 2^18 frames, 1 GiB.
pub const MAX_ORDER: u32 = 18;
/// The largest memory that an allocator manages, 1 TiB.
pub const MAX_MEMORY_BYTES: u64 = 1 << 40;

/// Every frame below this one is reserved.
const FIRST_FRAME: u64 = 1;

/// A memory size that cannot be managed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "memory of {memory_bytes} bytes cannot be managed; it must be a multiple of 4 KiB, at least 8 KiB \
     (frame 0 is reserved) and at most 1 TiB"
)]
pub struct MemorySizeError {
    /// The size that was asked for.
    pub memory_bytes: u64,
}

/// A binary buddy allocator over one contiguous physical memory that begins at address 0.
#[derive(Clone, Debug)]
pub struct BuddyAllocator {
    orders: Box<[Order]>,
    /// Bit `k` is set if there is a free block of order `k`.
    orders_with_free: u32,
    free_frames: u64,
    /// All frames, the reserved one included.
    frames: u64,
    /// Draws one of several blocks; none if the one with the lowest address is taken.
    scattered: Option<SplitMix64>,
}

/// All blocks of one order, numbered from address 0.
#[derive(Clone, Debug)]
struct Order {
    /// The free blocks of the order. A free block is in the set of its own order only, not in those of its parts.
    free: BitTree,
    /// The ones that were handed out with this order: one bit each. This is what catches a wrong `free`.
    taken: Box<[u64]>,
}

impl BuddyAllocator {
    /// Creates an allocator over `memory_bytes`, all free but for frame 0.
    ///
    /// The size need not be a power of two; what lies behind the last whole block of an order serves smaller
    /// orders.
    ///
    /// # Errors
    ///
    /// `memory_bytes` is not a multiple of 4 KiB, below 8 KiB or above [`MAX_MEMORY_BYTES`].
    pub fn new(memory_bytes: u64) -> Result<Self, MemorySizeError> {
        let frames = memory_bytes / PAGE_BYTES;
        if !memory_bytes.is_multiple_of(PAGE_BYTES)
            || frames <= FIRST_FRAME
            || memory_bytes > MAX_MEMORY_BYTES
        {
            return Err(MemorySizeError { memory_bytes });
        }
        let orders = (0..=MAX_ORDER).map(|order| Order::new(frames >> order)).collect();
        let mut allocator = Self { orders, orders_with_free: 0, free_frames: 0, frames, scattered: None };
        let mut first = FIRST_FRAME;
        while first < frames {
            let order = first.trailing_zeros().min((frames - first).ilog2()).min(MAX_ORDER);
            allocator.insert_free((first >> order) as usize, order);
            allocator.free_frames += 1 << order;
            first += 1 << order;
        }
        Ok(allocator)
    }

    /// Lets an allocator draw one of several free blocks that are equally good.
    #[must_use]
    pub fn scattered(self, seed: u64) -> Self {
        Self { scattered: Some(SplitMix64::new(seed)), ..self }
    }

    /// Takes a block of `2^order` frames and answers its first frame, a multiple of `2^order`.
    ///
    /// # Errors
    ///
    /// There is no free block of that order or a higher one; orders above [`MAX_ORDER`] never succeed.
    #[inline]
    pub fn alloc(&mut self, order: u32) -> Result<Pfn, OutOfFrames> {
        let large_enough = self.orders_with_free & u32::MAX.checked_shl(order).unwrap_or(0);
        if large_enough == 0 {
            return Err(self.out_of_frames(order));
        }
        let from = large_enough.trailing_zeros();
        let free = &mut self.orders[from as usize].free;
        let found = match &mut self.scattered {
            None => free.first(),
            Some(random) => free.any(random),
        };
        let mut block = found.expect("the order has a free block");
        self.remove_free(block, from);
        // Keep the lower half, give the upper one back, until the block is as small as wanted.
        for smaller in (order..from).rev() {
            block <<= 1;
            self.insert_free(block + 1, smaller);
        }
        self.free_frames -= 1 << order;
        self.orders[order as usize].set_taken(block);
        Ok(Pfn((block as u64) << order))
    }

    /// Takes the block of `2^order` frames at `first`, if all of it is there and free; answers whether it was.
    ///
    /// # Panics
    ///
    /// If `first` is not aligned to the order.
    pub fn alloc_at(&mut self, first: Pfn, order: u32) -> bool {
        assert!(
            order <= MAX_ORDER && first.0.is_multiple_of(1 << order),
            "no block {first} of order {order}"
        );
        let block_at = |order: u32| (first.0 >> order) as usize;
        // Behind the last whole block of an order there may be smaller ones.
        let is_there = |at: &u32| (block_at(*at) as u64 + 1) << at <= self.frames;
        let is_free = |at: &u32| self.orders[*at as usize].free.contains(block_at(*at));
        let Some(from) = (order..=MAX_ORDER).take_while(is_there).find(is_free) else { return false };
        self.remove_free(block_at(from), from);
        // Of each half, the one that is not wanted is free again.
        for smaller in (order..from).rev() {
            self.insert_free(block_at(smaller) ^ 1, smaller);
        }
        self.free_frames -= 1 << order;
        self.orders[order as usize].set_taken(block_at(order));
        true
    }

    /// Gives the block of `2^order` frames at `first` back and merges it with its buddies.
    ///
    /// # Panics
    ///
    /// If `alloc(order)` did not answer `first`, or the block was given back since.
    #[inline]
    pub fn free(&mut self, first: Pfn, order: u32) {
        let mut block = self.clear_taken(first, order);
        self.free_frames += 1 << order;
        let mut order = order;
        while order < MAX_ORDER && self.orders[order as usize].free.contains(block ^ 1) {
            self.remove_free(block ^ 1, order);
            block >>= 1;
            order += 1;
        }
        self.insert_free(block, order);
    }

    /// Turns a block that was handed out with order `from` into blocks of order `to`, each to be freed by itself:
    /// what splitting a large page does to its frame.
    ///
    /// # Panics
    ///
    /// If `first` is not the first frame of a block that was handed out with order `from`, or `to` is above it.
    pub fn split(&mut self, first: Pfn, from: u32, to: u32) {
        assert!(to <= from, "a block of order {from} cannot be split into order {to}");
        let first_part = self.clear_taken(first, from) << (from - to);
        for part in first_part..first_part + (1 << (from - to)) {
            self.orders[to as usize].set_taken(part);
        }
    }

    /// Frames that are free now.
    #[inline]
    pub fn free_frames(&self) -> u64 {
        self.free_frames
    }

    /// Frames that can be handed out: all but the reserved one.
    #[inline]
    pub fn total_frames(&self) -> u64 {
        self.frames - FIRST_FRAME
    }

    /// Returns the number of free blocks of exactly this order:
    pub fn free_blocks(&self, order: u32) -> u64 {
        self.orders[order as usize].free.len()
    }

    /// Returns the order of the largest free block; `None` if no block is free.
    pub fn largest_free_order(&self) -> Option<u32> {
        self.orders_with_free.checked_ilog2()
    }

    /// Returns the share of free memory that lies in blocks too small for an allocation of `order`: 0 if all of it
    /// can be used, 1 if none can; none if nothing is free.
    ///
    /// This is the *unusable free space index* of Gorman and Whitcroft, "The What, The Why and the Where To of
    /// Anti-Fragmentation", Linux Symposium 2006: `(free - sum over i >= order of 2^i * blocks_i) / free`. It is
    /// the index that Ingens (OSDI 2016) and ME-HPT (HPCA 2023) call FMFI, free memory fragmentation index, for
    /// order 9.
    pub fn unusable_free_index(&self, order: u32) -> Option<f64> {
        let usable: u64 = (order..=MAX_ORDER).map(|order| self.free_blocks(order) << order).sum();
        (self.free_frames > 0).then(|| (self.free_frames - usable) as f64 / self.free_frames as f64)
    }

    /// Returns the reason why an allocation of `order` would fail:
    ///
    /// The *fragmentation index* of the same article: `1 - (free / 2^order) / blocks`, where `blocks` counts the
    /// free blocks of all orders. (Linux's `extfrag_index` adds one to `free / 2^order`.)
    pub fn fragmentation_index(&self, order: u32) -> Option<f64> {
        if self.free_frames == 0 || self.largest_free_order() >= Some(order) {
            return None;
        }
        let blocks: u64 = self.orders.iter().map(|order| order.free.len()).sum();
        let wanted_frames = 2f64.powi(order as i32);
        Some(1.0 - self.free_frames as f64 / wanted_frames / blocks as f64)
    }

    /// Marks a block as not handed out and answers its number in its order; panics if it was not handed out so.
    #[inline]
    fn clear_taken(&mut self, first: Pfn, order: u32) -> usize {
        if order > MAX_ORDER || first.0 & ((1 << order) - 1) != 0 || first.0 >= self.frames {
            self.reject_free(first, order);
        }
        let block = (first.0 >> order) as usize;
        if !self.orders[order as usize].clear_taken(block) {
            self.reject_free(first, order);
        }
        block
    }

    #[inline]
    fn insert_free(&mut self, block: usize, order: u32) {
        self.orders[order as usize].free.insert(block);
        self.orders_with_free |= 1 << order;
    }

    #[inline]
    fn remove_free(&mut self, block: usize, order: u32) {
        let free = &mut self.orders[order as usize].free;
        free.remove(block);
        self.orders_with_free &= !(u32::from(free.len() == 0) << order);
    }

    #[cold]
    fn out_of_frames(&self, order: u32) -> OutOfFrames {
        OutOfFrames { order, free_frames: self.free_frames, largest_free_order: self.largest_free_order() }
    }

    /// Panics with what is known about a block that cannot be freed.
    #[cold]
    fn reject_free(&self, first: Pfn, order: u32) -> ! {
        assert!(order <= MAX_ORDER, "free of frame {first}: order {order} is above {MAX_ORDER}");
        assert!(first.0 < self.frames, "free of frame {first}: memory has {:#x} frames", self.frames);
        assert!(
            first.0.is_multiple_of(1 << order),
            "free of frame {first}: not aligned to order {order} ({} frames)",
            1u64 << order
        );
        for other in 0..=first.0.trailing_zeros().min(MAX_ORDER) {
            let taken = self.orders[other as usize].is_taken((first.0 >> other) as usize);
            assert!(!taken, "free of frame {first} with order {order}: it was taken with order {other}");
        }
        panic!("free of frame {first} with order {order}: no block was taken there (freed twice?)");
    }
}

impl FrameAllocator for BuddyAllocator {
    #[inline]
    fn alloc(&mut self, order: u32) -> Result<Pfn, OutOfFrames> {
        self.alloc(order)
    }

    fn alloc_at(&mut self, first: Pfn, order: u32) -> bool {
        self.alloc_at(first, order)
    }

    #[inline]
    fn free(&mut self, first: Pfn, order: u32) {
        self.free(first, order);
    }

    fn split(&mut self, first: Pfn, from: u32, to: u32) {
        self.split(first, from, to);
    }

    fn free_frames(&self) -> u64 {
        self.free_frames()
    }

    fn total_frames(&self) -> u64 {
        self.total_frames()
    }

    fn unusable_free_index(&self, order: u32) -> Option<f64> {
        self.unusable_free_index(order)
    }
}

impl Order {
    fn new(blocks: u64) -> Self {
        Self { free: BitTree::new(blocks), taken: vec![0; (blocks as usize).div_ceil(64)].into_boxed_slice() }
    }

    #[inline]
    fn set_taken(&mut self, block: usize) {
        let word = &mut self.taken[block >> 6];
        debug_assert_eq!(*word >> (block & 63) & 1, 0, "block {block} is handed out twice");
        *word |= 1 << (block & 63);
    }

    /// Whether it was set.
    #[inline]
    fn clear_taken(&mut self, block: usize) -> bool {
        // A block beyond the last whole one of its order has no bit: it was never handed out.
        let Some(word) = self.taken.get_mut(block >> 6) else { return false };
        let was_taken = *word >> (block & 63) & 1 != 0;
        *word &= !(1 << (block & 63));
        was_taken
    }

    fn is_taken(&self, block: usize) -> bool {
        self.taken.get(block >> 6).is_some_and(|word| word >> (block & 63) & 1 != 0)
    }
}

#[cfg(test)]
mod tests;
