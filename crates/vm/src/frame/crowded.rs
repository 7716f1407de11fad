//! Memory in which other programs have pages, here and there: large blocks are rare, and have to be made.
//!
//! ```text
//!  2 MiB blocks    | half taken, a random half of its frames | ... a run of 80 MiB on average | free | free | half taken ...
//! ```
//!
//! The share of free memory that lies in half-taken blocks is the fragmentation index (FMFI: the [unusable free
//! index](FrameAllocator::unusable_free_index) for 2 MiB). Of the others' frames most hold pages that can be moved; one in
//! [`PINNED`] cannot (kernel memory, pages under input or output).
//!
//! When a block is wanted and none is free, memory is *compacted*: of the aligned ranges of that size the next is
//! taken in which nothing has to stay, and the pages there go to free frames elsewhere: those of others, and those of the
//! simulated programs that were taken with a name ([`alloc_movable`](CrowdedMemory::alloc_movable)), whose owner hears of
//! it ([`take_moved`](CrowdedMemory::take_moved)). If there are no free frames, pages of the others are *reclaimed*: they
//! are page cache, and can be read again.
//!
//! DEVIATION: Linux looks for pages to move from one end of memory and for free frames from the other; here free frames
//! are the allocator's next ones.

use super::bit_tree::BitTree;
use super::{FrameAllocator, OutOfFrames, PageKey};
use crate::addr::{PageSize, Pfn};
use crate::random::SplitMix64;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// The number of frames of other programs of which one cannot be moved. Assumed.
const PINNED: u64 = 64;

/// The number of 2 MiB blocks in a row that are half taken, on average.
///
/// Assumed, such that the 64 MiB pieces that an elastic table for 64 GiB needs can be had up to an index of 0.7, and not
/// above: what the ME-HPT paper (HPCA 2023, section III) observed on a server. Which other sizes can be had, and what has
/// to be moved for them, follows.
const HALF_TAKEN_RUN: f64 = 40.0;

const BLOCK_ORDER: u32 = PageSize::Size2M.order();
const BLOCK_FRAMES: u64 = 1 << BLOCK_ORDER;

/// An allocator's memory, alone or shared with other programs.
#[derive(Debug)]
pub struct CrowdedMemory {
    frames: Box<dyn FrameAllocator>,
    others: Option<Box<Others>>,
    /// The first frame in physical memory; inside, frames count from 0.
    start: Pfn,
}

/// The frames of other programs.
#[derive(Clone, Debug)]
struct Others {
    /// Frames whose pages can be moved.
    movable: BitTree,
    /// Frames whose pages have a name, and can be moved too.
    named: FxHashMap<Pfn, PageKey>,
    /// The frames to which these named pages have gone.
    moved: Vec<(PageKey, Pfn)>,
    /// All frames that are in use and stay so until they are freed: a bit each.
    stuck: Box<[u64]>,
    /// The place where the last range was found.
    cursor: u64,
    counts: CrowdCounts,
}

/// The counts of what making room has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CrowdCounts {
    /// Blocks that were made by moving pages.
    pub compactions: u64,
    /// Blocks that could not be made: something had to stay in every range.
    pub failures: u64,
    /// Pages that were moved, whosever they were.
    pub migrated: u64,
    /// Pages that others lost.
    pub reclaimed: u64,
}

impl CrowdedMemory {
    /// Returns a memory that no other program uses.
    pub fn alone(frames: impl FrameAllocator + 'static) -> Self {
        Self { frames: Box::new(frames), others: None, start: Pfn(0) }
    }

    /// Returns all memory of an allocator, with other programs in it that leave it fragmented to an index of `percent`
    /// hundredths, or nearly so.
    ///
    /// # Panics
    ///
    /// If `percent` is above 100, or something was taken before.
    pub fn fragmented(mut allocator: impl FrameAllocator + 'static, percent: u32, seed: u64) -> Self {
        assert!(percent <= 100 && allocator.free_frames() == allocator.total_frames());
        if percent == 0 {
            return Self::alone(allocator);
        }
        let frames = allocator.total_frames() + 1;
        let (mut others, mut random) = (Others::new(frames), SplitMix64::new(seed));
        // Half of a half-taken block is free: index = (taken / 2) / (taken / 2 + free).
        let index = f64::from(percent) / 100.0;
        let taken_share = 2.0 * index / (1.0 + index);
        let free_run = HALF_TAKEN_RUN * (1.0 - taken_share) / taken_share;
        let mut is_taken = random.unit() < taken_share;
        for block in 0..frames / BLOCK_FRAMES {
            if is_taken {
                others.settle(&mut allocator, block * BLOCK_FRAMES, &mut random);
            }
            // A run ends with the probability that makes it so long on average.
            let run = if is_taken { HALF_TAKEN_RUN } else { free_run };
            if random.unit() * run < 1.0 {
                is_taken = if percent == 100 { true } else { !is_taken };
            }
        }
        Self { frames: Box::new(allocator), others: Some(Box::new(others)), start: Pfn(0) }
    }

    /// Returns all memory of an allocator, in which other programs leave so many free blocks of each order, from single frames on, or as
    /// many as there is room for; they are smaller than 2 MiB. Such a block lies anywhere, and the others have as much next to it.
    ///
    /// # Panics
    ///
    /// If a block is not smaller than 2 MiB, or something was taken before.
    pub fn with_free_blocks(mut allocator: impl FrameAllocator + 'static, counts: &[u32], seed: u64) -> Self {
        assert!(counts.len() <= BLOCK_ORDER as usize && allocator.free_frames() == allocator.total_frames());
        let mut left: Vec<u64> = counts.iter().copied().map(u64::from).collect();
        let mut all: u64 = left.iter().sum();
        if all == 0 {
            return Self::alone(allocator);
        }
        let frames = allocator.total_frames() + 1;
        let (mut others, mut random) = (Others::new(frames), SplitMix64::new(seed));
        // Without the block that has the reserved frame.
        let mut blocks: Vec<u64> = (1..frames / BLOCK_FRAMES).collect();
        let (mut at, mut end) = (0, 0);
        while all > 0 {
            let mut drawn = random.below(all);
            let order = left.iter().position(|count| {
                let is_here = drawn < *count;
                drawn = drawn.saturating_sub(*count);
                is_here
            });
            let order = order.expect("as many as there are in all");
            (left[order], all) = (left[order] - 1, all - 1);
            // One half is free, and the others have the other half: it cannot be merged.
            let half = 1 << order;
            let mut first = u64::next_multiple_of(at, 2 * half);
            if first + 2 * half > end {
                if blocks.is_empty() {
                    break;
                }
                others.take(&mut allocator, at..end, &mut random);
                first = blocks.swap_remove(random.below(blocks.len() as u64) as usize) * BLOCK_FRAMES;
                (at, end) = (first, first + BLOCK_FRAMES);
            }
            let free = first + random.below(2) * half;
            others.take(&mut allocator, at..free, &mut random);
            others.take(&mut allocator, free + half..first + 2 * half, &mut random);
            at = first + 2 * half;
        }
        others.take(&mut allocator, at..end, &mut random);
        Self { frames: Box::new(allocator), others: Some(Box::new(others)), start: Pfn(0) }
    }

    /// Returns the same memory at other physical addresses.
    ///
    /// # Panics
    ///
    /// If that is no multiple of the largest page's size.
    pub fn starting_at(self, start: Pfn) -> Self {
        assert!(start.0.is_multiple_of(PageSize::Size1G.base_pages()), "memory at frame {start}");
        Self { start, ..self }
    }

    /// Returns the first frame of the memory.
    pub fn start(&self) -> Pfn {
        self.start
    }

    fn inside(&self, frame: Pfn) -> Pfn {
        Pfn(frame.0 - self.start.0)
    }

    /// Takes a block of `2^order` frames, which others may have to make room for.
    ///
    /// # Errors
    ///
    /// There is none, and none can be made.
    #[inline]
    pub fn alloc(&mut self, order: u32) -> Result<Pfn, OutOfFrames> {
        self.alloc_inside(order).map(|first| self.start.add(first.0))
    }

    #[inline]
    fn alloc_inside(&mut self, order: u32) -> Result<Pfn, OutOfFrames> {
        let taken = self.frames.alloc(order);
        let Some(others) = &mut self.others else { return taken };
        let first = match taken {
            Ok(first) => first,
            Err(full) => others.make_room(&mut *self.frames, order).ok_or(full)?,
        };
        others.set_stuck(first, order, true);
        Ok(first)
    }

    /// Takes a frame for a page that can be moved.
    ///
    /// # Errors
    ///
    /// There is none.
    #[inline]
    pub fn alloc_movable(&mut self, key: PageKey) -> Result<Pfn, OutOfFrames> {
        let frame = self.alloc_inside(0)?;
        if let Some(others) = &mut self.others {
            others.set_stuck(frame, 0, false);
            others.named.insert(frame, key);
        }
        Ok(self.start.add(frame.0))
    }

    /// Keeps a page in its frame from now on.
    pub fn pin(&mut self, frame: Pfn) {
        let frame = self.inside(frame);
        if let Some(others) = &mut self.others
            && others.named.remove(&frame).is_some()
        {
            others.set_stuck(frame, 0, true);
        }
    }

    /// Returns the pages with names that were moved since the last time, and their new frames, in order.
    pub fn take_moved(&mut self) -> Vec<(PageKey, Pfn)> {
        let start = self.start;
        let moved = self.others.as_mut().map_or_else(Vec::new, |others| std::mem::take(&mut others.moved));
        moved.into_iter().map(|(key, frame)| (key, start.add(frame.0))).collect()
    }

    /// Takes a block of `2^order` frames that is free as it is: a page fault does not wait for room.
    ///
    /// # Errors
    ///
    /// There is none.
    #[inline]
    pub fn alloc_free(&mut self, order: u32) -> Result<Pfn, OutOfFrames> {
        let first = self.frames.alloc(order)?;
        if let Some(others) = &mut self.others {
            others.set_stuck(first, order, true);
        }
        Ok(self.start.add(first.0))
    }

    /// Gives a block back.
    ///
    /// # Panics
    ///
    /// As [`FrameAllocator::free`].
    #[inline]
    pub fn free(&mut self, first: Pfn, order: u32) {
        let first = self.inside(first);
        self.frames.free(first, order);
        if let Some(others) = &mut self.others
            && others.named.remove(&first).is_none()
        {
            others.set_stuck(first, order, false);
        }
    }

    /// Splits a block, as [`FrameAllocator::split`] does.
    pub fn split(&mut self, first: Pfn, from: u32, to: u32) {
        self.frames.split(self.inside(first), from, to);
    }

    /// Returns the allocator of the free frames, whose frames count from 0.
    pub fn allocator(&self) -> &dyn FrameAllocator {
        &*self.frames
    }

    /// Frames that can be had: free ones, and those that others can lose.
    pub fn available_frames(&self) -> u64 {
        self.frames.free_frames() + self.others.as_ref().map_or(0, |others| others.movable.len())
    }

    /// Returns the share of free memory in blocks smaller than 2 MiB; `None` if no memory is free.
    pub fn fragmentation(&self) -> Option<f64> {
        self.frames.unusable_free_index(BLOCK_ORDER)
    }

    /// Returns what making room has taken; `None` for a memory that no other program uses.
    pub fn counts(&self) -> Option<&CrowdCounts> {
        self.others.as_ref().map(|others| &others.counts)
    }
}

impl Others {
    /// Returns those who have nothing yet of so many frames.
    fn new(frames: u64) -> Self {
        Self {
            movable: BitTree::new(frames),
            named: FxHashMap::default(),
            moved: Vec::new(),
            stuck: vec![0; (frames as usize).div_ceil(64)].into_boxed_slice(),
            cursor: 0,
            counts: CrowdCounts::default(),
        }
    }

    /// Takes what is free of some frames.
    fn take(&mut self, allocator: &mut dyn FrameAllocator, frames: Range<u64>, random: &mut SplitMix64) {
        for frame in frames.map(Pfn) {
            if !allocator.alloc_at(frame, 0) {
                continue;
            }
            if random.below(PINNED) == 0 {
                self.set_stuck(frame, 0, true);
            } else {
                self.movable.insert(frame.0 as usize);
            }
        }
    }

    /// Takes half of the frames of a block.
    fn settle(&mut self, allocator: &mut dyn FrameAllocator, first: u64, random: &mut SplitMix64) {
        for word in 0..BLOCK_FRAMES / 64 {
            let taken = random.next();
            for bit in (0..64).filter(|bit| taken >> bit & 1 == 1) {
                let frame = first + word * 64 + bit;
                self.take(allocator, frame..frame + 1, random);
            }
        }
    }

    #[inline]
    fn set_stuck(&mut self, first: Pfn, order: u32, is_stuck: bool) {
        if order < 6 {
            let mask = ((1u64 << (1 << order)) - 1) << (first.0 & 63);
            let word = &mut self.stuck[first.0 as usize / 64];
            *word = if is_stuck { *word | mask } else { *word & !mask };
        } else {
            let words = first.0 as usize / 64..(first.0 as usize + (1 << order)) / 64;
            self.stuck[words].fill(if is_stuck { u64::MAX } else { 0 });
        }
    }

    fn is_stuck(&self, first: u64, order: u32) -> bool {
        let words = &self.stuck[first as usize / 64..(first as usize + (1 << order)).div_ceil(64)];
        match order {
            0..6 => words[0] >> (first & 63) & ((1 << (1 << order)) - 1) != 0,
            _ => words.iter().any(|&word| word != 0),
        }
    }

    /// Makes a block of which none is free, and takes it.
    fn make_room(&mut self, allocator: &mut dyn FrameAllocator, order: u32) -> Option<Pfn> {
        let frames = 1 << order;
        let found = match order {
            0 => self.movable.first().map(|frame| frame as u64),
            _ => {
                // From where the last search ended, and round.
                let ranges = (allocator.total_frames() + 1) / frames;
                let start = self.cursor / frames;
                let possible = |first: &u64| *first > 0 && !self.is_stuck(*first, order);
                (0..ranges).map(|range| (start + range) % ranges * frames).find(possible)
            }
        };
        let Some(first) = found else {
            self.counts.failures += 1;
            return None;
        };
        self.cursor = first + frames;
        if !self.empty(allocator, first, first + frames) {
            self.counts.failures += 1;
            return None;
        }
        let is_taken = allocator.alloc_at(Pfn(first), order);
        debug_assert!(is_taken, "the range was emptied");
        self.counts.compactions += u64::from(order > 0);
        Some(Pfn(first))
    }

    /// Moves the pages in frames `first..end` elsewhere, or takes them from their owners. False if pages with names
    /// have nowhere to go.
    fn empty(&mut self, allocator: &mut dyn FrameAllocator, first: u64, end: u64) -> bool {
        let named: Vec<Pfn> = (first..end).map(Pfn).filter(|frame| self.named.contains_key(frame)).collect();
        let others: Vec<Pfn> =
            (first..end).map(Pfn).filter(|frame| self.movable.contains(frame.0 as usize)).collect();
        // Free frames of the range itself are no place to go to.
        let (mut inside, mut emptied) = (Vec::new(), Vec::new());
        let mut target = |movable: &mut BitTree, counts: &mut CrowdCounts, must: bool| loop {
            match allocator.alloc(0) {
                Ok(frame) if (first..end).contains(&frame.0) => inside.push(frame),
                Ok(frame) => break Some(frame),
                // Another program's page cache makes room.
                Err(_) if must => match movable.first().map(|frame| Pfn(frame as u64)) {
                    Some(victim) => {
                        movable.remove(victim.0 as usize);
                        allocator.free(victim, 0);
                        counts.reclaimed += 1;
                    }
                    None => break None,
                },
                Err(_) => break None,
            }
        };
        let mut targets = Vec::new();
        for _ in &named {
            match target(&mut self.movable, &mut self.counts, true) {
                Some(frame) => targets.push(frame),
                None => break,
            }
        }
        let is_possible = targets.len() == named.len();
        if is_possible {
            for (from, to) in named.into_iter().zip(targets.drain(..)) {
                let key = self.named.remove(&from).expect("it was there");
                self.named.insert(to, key);
                self.moved.push((key, to));
                self.counts.migrated += 1;
                emptied.push(from);
            }
            for from in others {
                // It may have been reclaimed for a page with a name.
                if !self.movable.contains(from.0 as usize) {
                    continue;
                }
                match target(&mut self.movable, &mut self.counts, false) {
                    Some(to) => {
                        self.movable.insert(to.0 as usize);
                        self.counts.migrated += 1;
                    }
                    None => self.counts.reclaimed += 1,
                }
                self.movable.remove(from.0 as usize);
                emptied.push(from);
            }
        }
        inside.into_iter().chain(emptied).chain(targets).for_each(|frame| allocator.free(frame, 0));
        is_possible
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::addr::{Asid, Vpn};
    use crate::frame::BuddyAllocator;

    fn memory(percent: u32, seed: u64) -> CrowdedMemory {
        CrowdedMemory::fragmented(BuddyAllocator::new(16 << 30).unwrap(), percent, seed)
    }

    #[test]
    fn memory_is_as_fragmented_as_it_is_said_to_be() {
        for percent in [10, 30, 50, 70, 80, 90, 100] {
            let index = memory(percent, 1).allocator().unusable_free_index(9).unwrap();
            assert!((index - f64::from(percent) / 100.0).abs() < 0.06, "{percent}: {index}");
        }
        assert!(memory(0, 1).counts().is_none());
    }

    #[test]
    fn others_leave_as_many_free_blocks_of_each_order_as_are_said() {
        let counts = [700, 300, 0, 41, 5, 9, 2, 0, 3];
        let buddy = || BuddyAllocator::new(256 << 20).unwrap().scattered(3);
        let mut memory = CrowdedMemory::with_free_blocks(buddy(), &counts, 3);
        check(&memory, 0);
        let mut small = 0;
        for (order, count) in (0..).zip(counts) {
            // The block of the reserved frame has one free block of each order.
            small += u64::from(count + 1) << order;
            let frames = memory.allocator();
            let index = frames.unusable_free_index(order + 1).unwrap();
            assert_eq!((index * frames.free_frames() as f64).round() as u64, small, "up to order {order}");
        }
        let blocks: BTreeSet<u64> =
            (0..700).map(|_| memory.alloc_free(0).unwrap().0 / BLOCK_FRAMES).collect();
        assert!(blocks.len() > 5, "single frames lie in {} blocks", blocks.len());
    }

    #[test]
    fn others_leave_no_more_free_blocks_than_there_is_room_for() {
        let buddy = BuddyAllocator::new(8 << 20).unwrap();
        let memory = CrowdedMemory::with_free_blocks(buddy, &[0, 0, 0, 0, 0, 0, 0, 0, 1000], 3);
        check(&memory, 0);
        assert_eq!(memory.allocator().free_frames(), 511 + 3 * 256);
        assert!(
            CrowdedMemory::with_free_blocks(BuddyAllocator::new(8 << 20).unwrap(), &[0; 9], 3)
                .counts()
                .is_none()
        );
    }

    /// Every frame is free, movable, or stuck, and only one of these.
    fn check(memory: &CrowdedMemory, own: u64) {
        let others = memory.others.as_ref().unwrap();
        let stuck: u64 = others.stuck.iter().map(|word| u64::from(word.count_ones())).sum();
        let movable = (0..memory.frames.total_frames() + 1)
            .filter(|&frame| others.movable.contains(frame as usize))
            .inspect(|&frame| assert!(!others.is_stuck(frame, 0) && !others.named.contains_key(&Pfn(frame))))
            .count() as u64;
        assert_eq!(movable, others.movable.len());
        assert!(others.named.keys().all(|frame| !others.is_stuck(frame.0, 0)));
        let named = others.named.len() as u64;
        assert_eq!(stuck + movable + named + memory.frames.free_frames(), memory.frames.total_frames());
        assert!(stuck >= own);
    }

    #[test]
    fn memory_elsewhere_hands_out_the_same_frames_there() {
        const START: Pfn = Pfn(5 << 18);
        let buddy = BuddyAllocator::new(256 << 20).unwrap();
        let mut here = CrowdedMemory::fragmented(buddy, 100, 7);
        let buddy = BuddyAllocator::new(256 << 20).unwrap();
        let mut there = CrowdedMemory::fragmented(buddy, 100, 7).starting_at(START);
        let shifted = |frame: Pfn| START.add(frame.0);
        let mut moves = 0;
        for page in 0..4_000 {
            let key = PageKey { asid: Asid(1), page: Vpn(page) };
            assert_eq!(there.alloc_movable(key), here.alloc_movable(key).map(shifted));
            let order = page as u32 % 8 + 1;
            let block = here.alloc(order);
            assert_eq!(there.alloc(order), block.map(shifted));
            let moved: Vec<_> = here.take_moved().into_iter().map(|(key, to)| (key, shifted(to))).collect();
            assert_eq!(there.take_moved(), moved);
            moves += moved.len();
            if let (Ok(first), true) = (block, page % 3 == 0) {
                here.split(first, order, 0);
                there.split(shifted(first), order, 0);
                here.free(first, 0);
                there.free(shifted(first), 0);
            }
        }
        assert!(moves > 10, "{moves} pages were in the way");
        assert_eq!(here.counts(), there.counts());
        assert_eq!(here.available_frames(), there.available_frames());
    }

    #[test]
    fn blocks_are_made_where_nothing_has_to_stay() {
        let mut memory = memory(100, 3);
        assert_eq!(memory.fragmentation(), Some(1.0), "no block of 2 MiB is free");
        let pinned = memory.others.as_ref().unwrap().stuck.to_vec();
        let mut own = Vec::new();
        for order in [1, 3, 5, 6, 7, 8, 9, 8, 7, 2] {
            for _ in 0..20 {
                let Ok(first) = memory.alloc(order) else { continue };
                assert!(first.0.is_multiple_of(1 << order));
                let held = |frame: u64| pinned[frame as usize / 64] >> (frame & 63) & 1 == 1;
                assert!(!(first.0..first.0 + (1 << order)).any(held), "a pinned page was moved");
                own.push((first, order));
            }
        }
        let frames = own.iter().map(|(_, order)| 1 << order).sum();
        assert!(frames > 10_000, "{frames}");
        check(&memory, frames);
        let counts = *memory.counts().unwrap();
        assert!(counts.compactions > 50 && counts.migrated > 1_000 && counts.reclaimed == 0, "{counts:?}");
        own.into_iter().for_each(|(first, order)| memory.free(first, order));
        check(&memory, 0);
        assert_eq!(memory.others.unwrap().stuck.to_vec(), pinned);
    }

    #[test]
    fn when_nothing_is_free_the_others_lose_pages_and_at_last_there_is_none() {
        let mut memory = CrowdedMemory::fragmented(BuddyAllocator::new(64 << 20).unwrap(), 80, 5);
        let available = memory.available_frames();
        let mut taken = 0;
        while memory.alloc(0).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, available);
        assert!(memory.counts().unwrap().reclaimed > 1_000);
        check(&memory, taken);
    }

    /// Pages with names are where the last word on them says, each in a frame of its own, whatever makes room.
    #[test]
    fn pages_with_names_are_moved_and_their_owner_hears_of_it() {
        let buddy = BuddyAllocator::new(256 << 20).unwrap();
        let mut memory = CrowdedMemory::fragmented(buddy, 100, 7);
        let mut random = SplitMix64::new(1);
        let mut pages = std::collections::BTreeMap::new();
        let mut blocks = Vec::new();
        for step in 0..40_000u64 {
            let key = PageKey { asid: Asid(1), page: Vpn(random.below(30_000)) };
            match random.below(20) {
                0 => match memory.alloc(random.below(8) as u32 + 1) {
                    Ok(first) => blocks.push(first),
                    Err(_) => continue,
                },
                1..4 => {
                    if let Some(frame) = pages.remove(&key.page) {
                        memory.free(frame, 0);
                    }
                }
                _ if !pages.contains_key(&key.page) => match memory.alloc_movable(key) {
                    Ok(frame) => drop(pages.insert(key.page, frame)),
                    Err(_) => break,
                },
                _ => {}
            }
            for (key, frame) in memory.take_moved() {
                *pages.get_mut(&key.page).expect("a page that is there") = frame;
            }
            let named = &memory.others.as_ref().unwrap().named;
            assert_eq!(named.len(), pages.len(), "step {step}");
            if step % 500 == 0 {
                assert!(pages.iter().all(|(page, frame)| named[frame].page == *page), "step {step}");
                check(&memory, 0);
            }
        }
        let counts = memory.counts().unwrap();
        assert!(blocks.len() > 500 && counts.compactions > 200, "{} {counts:?}", blocks.len());
        pages.values().for_each(|&frame| memory.free(frame, 0));
        check(&memory, 0);
    }

    /// The observation that the run length stands for, on a memory in which 64 GiB are free.
    #[test]
    fn sixty_four_mebibytes_can_be_had_up_to_an_index_of_seven_tenths() {
        let pieces = |percent| {
            let buddy = BuddyAllocator::new(128 << 30).unwrap();
            let mut memory = CrowdedMemory::fragmented(buddy, percent, 1);
            (0..3).filter(|_| memory.alloc(14).is_ok()).count()
        };
        assert_eq!(pieces(70), 3);
        assert!(pieces(80) < 3);
    }
}
