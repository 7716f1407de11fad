//! The memory of a way: chunks of one size, anywhere in physical memory.

use std::num::NonZeroU8;

use crate::Keyed;
use crate::policy::BUCKET_SLOTS;
use crate::processor::prefetch;

/// Gives and takes the memory of a table's ways.
///
/// # Contract
///
/// - `chunk_bytes` says of what chunks a way of so many bytes is made; it depends on what else the source has given
///   to the ways of other tables, and not on the way's own present size. At least as many bytes as asked for are in a
///   whole number of chunks. `None`: there can be no such way.
/// - `allocate` answers the start of so many contiguous bytes that have no other owner until they are freed, or changes
///   nothing.
pub trait ChunkSource {
    /// The size of the chunks that a way of `bytes` is made of.
    fn chunk_bytes(&self, way: usize, bytes: u64) -> Option<u64>;

    /// Takes contiguous memory, zeroed.
    ///
    /// # Errors
    ///
    /// There is none.
    fn allocate(&mut self, bytes: u64) -> Result<u64, NoChunk>;

    /// Takes memory back that was handed out.
    fn free(&mut self, base: u64, bytes: u64);
}

/// No contiguous memory of that size could be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("out of contiguous memory: no {} KiB in one piece for a page table", .bytes >> 10)]
pub struct NoChunk {
    /// The number of bytes that were wanted.
    pub bytes: u64,
}

/// The slots of a chunk.
pub(super) type Chunk<T> = Box<[Option<T>]>;

/// The slots of a way.
///
/// DEVIATION: a radix table's entries are in a memory that it is handed, so that it serves simulated machines and
/// persistent files alike. Lines of a hashed table serve the simulator alone: they stand in the chunk
/// that knows its address.
///
/// Beside the items stands a byte of the hash of each, zero for a free slot. The host's caches hold those of a table whose
/// items they do not: a probe looks at an item only if the byte is equal, a visit only if the slot is used.
#[derive(Debug)]
pub(super) struct Chunks<T> {
    /// The tags of all slots.
    tags: Vec<u8>,
    chunks: Vec<Chunk<T>>,
    /// The addresses of the chunks.
    bases: Vec<u64>,
    /// log2 of a chunk's slots.
    shift: u32,
    /// The bits of a slot's number within its chunk.
    within: usize,
    slot_bytes: u64,
}

impl<T> Chunks<T> {
    /// Room for `slots` empty slots in chunks of `chunk_bytes`.
    pub(super) fn new(
        slots: usize,
        slot_bytes: u64,
        chunk_bytes: u64,
        source: &mut impl ChunkSource,
    ) -> Result<Self, NoChunk> {
        let mut chunks = Self::none(slot_bytes, chunk_bytes);
        chunks.grow(slots, source)?;
        Ok(chunks)
    }

    /// Makes chunks like [`new`](Self::new), but only the beginning of a chunk if that is enough.
    pub(super) fn begun(
        slots: usize,
        slot_bytes: u64,
        chunk_bytes: u64,
        source: &mut impl ChunkSource,
    ) -> Result<Self, NoChunk> {
        if slots as u64 * slot_bytes >= chunk_bytes {
            return Self::new(slots, slot_bytes, chunk_bytes, source);
        }
        let mut chunks = Self::none(slot_bytes, chunk_bytes);
        chunks.chunks.push([].into());
        chunks.bases.push(0);
        chunks.resize_first(slots, source)?;
        Ok(chunks)
    }

    fn none(slot_bytes: u64, chunk_bytes: u64) -> Self {
        let in_chunk = chunk_bytes / slot_bytes;
        assert!(in_chunk.is_power_of_two(), "chunks of {chunk_bytes} bytes for slots of {slot_bytes}");
        Self {
            tags: Vec::new(),
            chunks: Vec::new(),
            bases: Vec::new(),
            shift: in_chunk.ilog2(),
            within: in_chunk as usize - 1,
            slot_bytes,
        }
    }

    pub(super) fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    pub(super) fn chunk_bytes(&self) -> u64 {
        self.slot_bytes << self.shift
    }

    /// Returns the number of chunks.
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Slots that there is memory for.
    #[inline(always)]
    pub(super) fn slots(&self) -> usize {
        self.tags.len()
    }

    #[inline(always)]
    fn split(&self, slot: usize) -> (usize, usize) {
        (slot >> self.shift, slot & self.within)
    }

    /// The tag of a slot; zero if it is free.
    #[inline(always)]
    pub(super) fn tag(&self, slot: usize) -> u8 {
        self.tags[slot]
    }

    /// The tags of a bucket.
    #[inline(always)]
    pub(super) fn bucket_tags(&self, bucket: usize) -> [u8; BUCKET_SLOTS] {
        self.tags.as_chunks().0[bucket]
    }

    /// The chunks, for [`bucket`](Self::bucket) and [`item_of`](Self::item_of).
    #[inline(always)]
    pub(super) fn directory(&self) -> &[Chunk<T>] {
        &self.chunks
    }

    #[inline(always)]
    pub(super) fn item(&self, slot: usize) -> &Option<T> {
        let (chunk, within) = self.split(slot);
        &self.chunks[chunk][within]
    }

    /// Returns what is in a slot, which is not looked at if it is free.
    #[inline(always)]
    pub(super) fn used_item(&self, slot: usize) -> Option<&T> {
        if self.tag(slot) == 0 { None } else { self.item(slot).as_ref() }
    }

    /// Moves an item from one slot to another; answers what was there.
    #[inline(always)]
    pub(super) fn move_item(&mut self, from: usize, to: usize) -> Option<T> {
        let tag = NonZeroU8::new(self.tag(from))?;
        let item = self.take(from)?;
        self.put(to, tag, item)
    }

    #[inline(always)]
    pub(super) fn item_mut(&mut self, slot: usize) -> &mut Option<T> {
        let (chunk, within) = self.split(slot);
        &mut self.chunks[chunk][within]
    }

    #[inline(always)]
    pub(super) fn ask_for_tag(&self, slot: usize) {
        prefetch(&self.tags[slot]);
    }

    #[inline(always)]
    pub(super) fn ask_for_item(&self, slot: usize) {
        prefetch(self.item(slot));
    }

    /// Puts an item into a slot; gives back what was there.
    #[inline(always)]
    pub(super) fn put(&mut self, slot: usize, tag: NonZeroU8, item: T) -> Option<T> {
        let before = std::mem::replace(&mut self.tags[slot], tag.get());
        let place = self.item_mut(slot);
        if before == 0 {
            // Without a look at what is there: its line need not have come yet.
            *place = Some(item);
            return None;
        }
        place.replace(item)
    }

    #[inline(always)]
    pub(super) fn take(&mut self, slot: usize) -> Option<T> {
        match std::mem::take(&mut self.tags[slot]) {
            0 => None,
            _ => self.item_mut(slot).take(),
        }
    }

    /// Returns the address of a slot.
    pub(super) fn addr(&self, slot: usize) -> u64 {
        let (chunk, within) = self.split(slot);
        self.bases[chunk] + within as u64 * self.slot_bytes
    }

    /// Adds chunks until there is room for `slots` slots; if one cannot be had, none is added.
    pub(super) fn grow(&mut self, slots: usize, source: &mut impl ChunkSource) -> Result<(), NoChunk> {
        let before = self.chunks.len();
        while self.chunks.len() << self.shift < slots {
            match source.allocate(self.chunk_bytes()) {
                Ok(base) => match empty(1 << self.shift) {
                    Some(items) => {
                        self.chunks.push(items);
                        self.bases.push(base);
                    }
                    None => {
                        source.free(base, self.chunk_bytes());
                        return Err(self.cannot_grow(before, source));
                    }
                },
                Err(error) => {
                    self.cannot_grow(before, source);
                    return Err(error);
                }
            }
        }
        let slots = self.chunks.len() << self.shift;
        if self.tags.try_reserve(slots - self.tags.len()).is_err() {
            return Err(self.cannot_grow(before, source));
        }
        self.tags.resize(slots, 0);
        Ok(())
    }

    /// Gives back what was added to the first chunks.
    #[cold]
    fn cannot_grow(&mut self, chunks: usize, source: &mut impl ChunkSource) -> NoChunk {
        self.keep(chunks, source);
        self.tags.shrink_to_fit();
        NoChunk { bytes: self.chunk_bytes() }
    }

    /// Gives back the chunks that `slots` slots do not need; they hold nothing.
    pub(super) fn shrink(&mut self, slots: usize, source: &mut impl ChunkSource) {
        self.keep(slots.div_ceil(1 << self.shift), source);
        self.tags.shrink_to_fit();
    }

    /// Sees to it that there is room for `slots` slots, one chunk more than before at most. A first chunk begins small, and is
    /// moved to one of twice the size until it is a whole one.
    pub(super) fn extend(&mut self, slots: usize, source: &mut impl ChunkSource) -> Result<(), NoChunk> {
        match self.chunks.first() {
            Some(first) if first.len() <= self.within => {
                self.resize_first(slots.next_power_of_two().min(self.within + 1), source)
            }
            _ => self.grow(slots, source),
        }
    }

    /// Gives back the chunks that `slots` slots do not need, or half of the first; they hold nothing.
    pub(super) fn trim(&mut self, slots: usize, source: &mut impl ChunkSource) {
        let needed = slots.div_ceil(1 << self.shift);
        if needed < self.chunks.len() {
            self.keep(needed, source);
            if self.tags.capacity() / 2 > self.tags.len() {
                self.tags.shrink_to_fit();
            }
        }
        if needed == 1 && slots <= self.tags.len() / 2 {
            // Without memory for the smaller one, the larger stays.
            let _ = self.resize_first(slots.next_power_of_two(), source);
        }
    }

    /// Moves the only chunk to one of `slots` slots.
    #[cold]
    fn resize_first(&mut self, slots: usize, source: &mut impl ChunkSource) -> Result<(), NoChunk> {
        let bytes = slots as u64 * self.slot_bytes;
        let base = source.allocate(bytes)?;
        let is_room = self.tags.try_reserve(slots.saturating_sub(self.tags.len())).is_ok();
        let Some(mut items) = empty(slots).filter(|_| is_room) else {
            source.free(base, bytes);
            return Err(NoChunk { bytes });
        };
        let [old] = &mut self.chunks[..] else { unreachable!("the first of several is a whole chunk") };
        items.iter_mut().zip(&mut *old).for_each(|(new, old)| *new = old.take());
        let old = std::mem::replace(old, items);
        let base = std::mem::replace(&mut self.bases[0], base);
        if !old.is_empty() {
            source.free(base, old.len() as u64 * self.slot_bytes);
        }
        self.tags.resize(slots, 0);
        self.tags.shrink_to(slots);
        Ok(())
    }

    fn keep(&mut self, chunks: usize, source: &mut impl ChunkSource) {
        let slots = (chunks << self.shift).min(self.tags.len());
        debug_assert!(
            self.tags[slots..].iter().all(|&tag| tag == 0),
            "an item in a chunk that is given back"
        );
        self.tags.truncate(slots);
        for (chunk, base) in self.chunks.drain(chunks..).zip(self.bases.drain(chunks..)).rev() {
            source.free(base, chunk.len() as u64 * self.slot_bytes);
        }
    }

    /// Gives back everything, and all items.
    pub(super) fn release(self, source: &mut impl ChunkSource) -> impl Iterator<Item = T> {
        self.release_chunks(source).flatten().flatten()
    }

    /// Returns the chunks' slots, chunk by chunk.
    pub(super) fn slices(&self) -> impl Iterator<Item = &[Option<T>]> {
        self.chunks.iter().map(|chunk| &**chunk)
    }

    /// Returns the chunks' slots, chunk by chunk, to be changed.
    pub(super) fn slices_mut(&mut self) -> impl Iterator<Item = &mut [Option<T>]> {
        self.chunks.iter_mut().map(|chunk| &mut **chunk)
    }

    /// Gives back everything, and the chunks with their items.
    pub(super) fn release_chunks(
        self,
        source: &mut impl ChunkSource,
    ) -> impl Iterator<Item = Box<[Option<T>]>> {
        for (chunk, &base) in self.chunks.iter().zip(&self.bases).rev() {
            source.free(base, chunk.len() as u64 * self.slot_bytes);
        }
        self.chunks.into_iter()
    }

    /// Takes out the items of which `keep` is false; `taken` hears of each before it is dropped.
    pub(super) fn retain(&mut self, keep: &mut impl FnMut(&mut T) -> bool, taken: &mut impl FnMut()) {
        for slot in 0..self.tags.len() {
            if self.tags[slot] != 0 && self.item_mut(slot).as_mut().is_some_and(|item| !keep(item)) {
                let item = self.take(slot);
                taken();
                drop(item);
            }
        }
    }
}

/// Of tables with buckets, whose chunks have a size that is known when the program is compiled.
impl<T: Keyed> Chunks<T> {
    const CHUNK_BUCKETS: usize = T::CHUNK_SLOTS / BUCKET_SLOTS;

    /// The slots of a bucket.
    #[inline(always)]
    pub(super) fn bucket(directory: &[Chunk<T>], bucket: usize) -> &[Option<T>; BUCKET_SLOTS] {
        &directory[bucket / Self::CHUNK_BUCKETS].as_chunks().0[bucket % Self::CHUNK_BUCKETS]
    }

    /// Returns what is in a slot of a bucket: with less work than [`bucket`](Self::bucket) if it is the only one that
    /// is looked at.
    #[inline(always)]
    pub(super) fn item_of(directory: &[Chunk<T>], bucket: usize, within: usize) -> &Option<T> {
        &directory[bucket / Self::CHUNK_BUCKETS][bucket % Self::CHUNK_BUCKETS * BUCKET_SLOTS + within]
    }
}

/// Allocates so many empty slots, if there is memory.
fn empty<T>(slots: usize) -> Option<Box<[Option<T>]>> {
    let mut items = Vec::new();
    items.try_reserve_exact(slots).ok()?;
    items.extend((0..slots).map(|_| None));
    Some(items.into_boxed_slice())
}
