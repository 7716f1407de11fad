//! One way of a table, and its growing and shrinking.
//!
//! While a way changes size, its *pointer* divides the old slots: those from the pointer on are as they were; those
//! below have been visited, and what was in them is where the new size puts it. So an item has one slot in a way at any
//! time, and a look-up makes one probe in it.
//!
//! *In place*, old and new slots are the same array. The index of a slot is the low bits of a hash that stays the same:
//! one bit more sends what was in slot `o` of `n` to `o` or `o + n`, and nothing else can be there. **An upsize never
//! meets an item in its way**, which is asserted. One bit fewer sends `o + n` to `o`; what is there goes to another way.

use std::num::NonZeroU8;

use super::bucket::Aim;
use super::chunks::{ChunkSource, Chunks, NoChunk};
use super::policy::{Policy, Scope};
use crate::Keyed;
use crate::random::mix;

/// Between asking for memory and using it: the time of a few insertions.
const VISITS_AHEAD: usize = 16;

/// A way's hash of a key: of the key's word, the bits that no other way begins with. The low ones are the index.
///
/// The `generation` is zero, and one more for every array that was hashed anew.
#[inline(always)]
pub(super) fn way_hash(word: u64, way: usize, generation: u32) -> u64 {
    // A word has the indices of three ways.
    let number = u64::from(generation) << 2 | (way / 3) as u64;
    let word = match number {
        0 => word,
        _ => mix(word.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
    };
    word.rotate_right(21 * (way % 3) as u32)
}

/// A slot of a way, for a key: the first of its bucket, or the one in it where an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Whether the place is in the array that the way is moving to, out of place.
    pub(super) next: bool,
    pub(super) slot: usize,
    /// The tag that stands beside the key's item there.
    pub(super) tag: NonZeroU8,
}

impl Place {
    /// The place of nothing yet.
    pub(super) const NONE: Self = Self { next: false, slot: 0, tag: NonZeroU8::MIN };

    /// Index and tag come from the two ends of the hash.
    #[inline(always)]
    pub(super) fn new(hash: u64, slot: usize, next: bool) -> Self {
        Self { next, slot, tag: NonZeroU8::MIN | (hash >> 56) as u8 }
    }
}

#[derive(Debug)]
pub(super) struct Way<T> {
    pub(super) number: usize,
    pub(super) chunks: Chunks<T>,
    /// Slots that an index is one of, a power of two.
    pub(super) size: usize,
    /// log2 of a bucket's slots.
    pub(super) bucket_bits: u32,
    /// What look-ups in buckets need of the above and the pointer.
    pub(super) aim: Aim,
    generation: u32,
    pub(super) used: usize,
    /// While the way changes size: slots below have been visited. Otherwise 0, which no slot is below. A way that grows by
    /// buckets (`bucket.rs`) is always about to, without a `resize`: slots below have been split.
    pub(super) pointer: usize,
    resize: Option<Resize<T>>,
}

#[derive(Debug)]
struct Resize<T> {
    /// The chunks of the next array; `None` if the way is resized in place.
    next: Option<Chunks<T>>,
    size: usize,
    generation: u32,
}

/// The content of the next slot to visit.
pub(super) enum Visit<T> {
    /// The slot is empty, or its item may stay there.
    Stays(bool),
    /// This has been taken out of its slot, which counts as visited; it belongs into the same way.
    Leaves(T),
}

impl<T: Keyed> Way<T> {
    pub(super) fn new(
        number: usize,
        policy: &Policy,
        source: &mut impl ChunkSource,
    ) -> Result<Self, NoChunk> {
        let slots = policy.first_slots;
        let bytes = slots as u64 * policy.slot_bytes;
        let chunk_bytes = match policy.bucket_slots {
            1 => source.chunk_bytes(number, bytes).ok_or(NoChunk { bytes })?,
            _ => T::CHUNK_SLOTS as u64 * policy.slot_bytes,
        };
        let chunks = match policy.scope {
            Scope::Bucket => Chunks::begun(slots, policy.slot_bytes, chunk_bytes, source)?,
            Scope::Table | Scope::Way { .. } => Chunks::new(slots, policy.slot_bytes, chunk_bytes, source)?,
        };
        let size = 1 << slots.ilog2();
        let mut way = Self {
            number,
            chunks,
            size,
            bucket_bits: policy.bucket_slots.ilog2(),
            aim: Aim::default(),
            generation: 0,
            used: 0,
            pointer: 0,
            resize: None,
        };
        way.set_split(size, slots - size);
        Ok(way)
    }
}

impl<T> Way<T> {
    /// The size that the way has, or is about to have.
    #[inline(always)]
    pub(super) fn slots(&self) -> usize {
        self.resize.as_ref().map_or(self.size + self.pointer, |resize| resize.size)
    }

    #[inline(always)]
    pub(super) fn bucket_slots(&self) -> usize {
        1 << self.bucket_bits
    }

    /// The first slot of a bucket among `size` slots.
    #[inline(always)]
    pub(super) fn index(&self, hash: u64, size: usize) -> usize {
        (hash as usize) << self.bucket_bits & (size - 1)
    }

    /// Whether it is growing or shrinking.
    pub(super) fn is_changing(&self) -> bool {
        self.resize.is_some()
    }

    /// Chunks of the array that look-ups by pointer begin at, and their size.
    pub(super) fn chunks(&self) -> (usize, u64) {
        (self.chunks.len(), self.chunks.chunk_bytes())
    }

    /// Returns the place of what hashes like that, if it is in this way.
    #[inline(always)]
    pub(super) fn place(&self, number: usize, word: u64) -> Place {
        debug_assert_eq!(number, self.number);
        let hash = way_hash(word, number, self.generation);
        let slot = self.index(hash, self.size);
        if slot < self.pointer { self.place_visited(word) } else { Place::new(hash, slot, false) }
    }

    /// Returns the place of what belongs into a slot that has been visited.
    fn place_visited(&self, word: u64) -> Place {
        let Some(Resize { next, size, generation }) = &self.resize else {
            let hash = way_hash(word, self.number, self.generation);
            return Place::new(hash, self.index(hash, 2 * self.size), false);
        };
        let hash = way_hash(word, self.number, *generation);
        Place::new(hash, self.index(hash, *size), next.is_some())
    }

    #[inline(always)]
    fn array_of(&self, place: Place) -> &Chunks<T> {
        if !place.next {
            return &self.chunks;
        }
        self.resize.as_ref().and_then(|resize| resize.next.as_ref()).expect("a place in another array")
    }

    /// The tag of the item in a slot.
    #[inline(always)]
    pub(super) fn tag(&self, place: Place) -> Option<NonZeroU8> {
        NonZeroU8::new(self.array_of(place).tag(place.slot))
    }

    /// Whether an item of the same tag is in a slot.
    #[inline(always)]
    pub(super) fn is_likely(&self, place: Place) -> bool {
        self.tag(place) == Some(place.tag)
    }

    #[inline(always)]
    pub(super) fn item(&self, place: Place) -> &Option<T> {
        self.array_of(place).item(place.slot)
    }

    /// Asks the host's memory for a slot's tag, without waiting for it.
    #[inline(always)]
    pub(super) fn ask_for_tag(&self, place: Place) {
        self.array_of(place).ask_for_tag(place.slot);
    }

    /// Asks for what is in a slot.
    #[inline(always)]
    pub(super) fn ask_for_item(&self, place: Place) {
        self.array_of(place).ask_for_item(place.slot);
    }

    pub(super) fn addr(&self, place: Place) -> u64 {
        self.array_of(place).addr(place.slot)
    }

    #[inline(always)]
    fn array_of_mut(&mut self, place: Place) -> &mut Chunks<T> {
        if !place.next {
            return &mut self.chunks;
        }
        self.resize.as_mut().and_then(|resize| resize.next.as_mut()).expect("a place in another array")
    }

    #[inline(always)]
    pub(super) fn item_mut(&mut self, place: Place) -> &mut Option<T> {
        self.array_of_mut(place).item_mut(place.slot)
    }

    /// Puts an item into its slot; gives back what was there.
    #[inline(always)]
    pub(super) fn put(&mut self, place: Place, item: T) -> Option<T> {
        let before = self.array_of_mut(place).put(place.slot, place.tag, item);
        self.used += usize::from(before.is_none());
        before
    }

    #[inline(always)]
    pub(super) fn take(&mut self, place: Place) -> Option<T> {
        let item = self.array_of_mut(place).take(place.slot);
        self.used -= usize::from(item.is_some());
        item
    }

    /// Begins to change to `slots` slots.
    pub(super) fn begin(
        &mut self,
        slots: usize,
        policy: &Policy,
        source: &mut impl ChunkSource,
    ) -> Result<(), NoChunk> {
        assert!(self.resize.is_none() && slots.is_power_of_two(), "one change at a time");
        let bytes = slots as u64 * policy.slot_bytes;
        let chunk_bytes = source.chunk_bytes(self.number, bytes).ok_or(NoChunk { bytes })?;
        let in_place = policy.in_place && chunk_bytes == self.chunks.chunk_bytes();
        let next = match in_place {
            true => {
                self.chunks.grow(slots, source)?;
                None
            }
            false => Some(Chunks::new(slots, policy.slot_bytes, chunk_bytes, source)?),
        };
        // In place, what is below the new size when a way shrinks is where it belongs.
        self.pointer = if in_place && slots < self.size { slots } else { 0 };
        let generation = self.generation + u32::from(policy.rekey && !in_place);
        self.resize = Some(Resize { next, size: slots, generation });
        Ok(())
    }

    /// Undoes a beginning, before any step.
    pub(super) fn cancel(&mut self, source: &mut impl ChunkSource) {
        self.pointer = 0;
        match self.resize.take() {
            Some(Resize { next: Some(next), .. }) => drop(next.release(source)),
            Some(_) => self.chunks.shrink(self.size, source),
            None => {}
        }
    }

    /// Whether every slot has been visited.
    pub(super) fn is_done(&self) -> bool {
        self.is_changing() && self.pointer == self.size
    }

    /// Asks the host's memory for where a visit to come will send its item, if it will be to another array.
    #[inline(always)]
    pub(super) fn foresee_visit(&self, word: impl Fn(&T) -> u64) {
        let Some(Resize { next: Some(next), size, generation }) = &self.resize else { return };
        let slot = self.pointer + VISITS_AHEAD;
        if slot < self.size
            && let Some(item) = self.chunks.item(slot)
        {
            let slot = self.index(way_hash(word(item), self.number, *generation), *size);
            next.ask_for_tag(slot);
            next.ask_for_item(slot);
        }
    }

    /// Visits the next slot.
    #[inline(always)]
    pub(super) fn visit(&mut self, word: impl Fn(&T) -> u64) -> Visit<T> {
        let Some(resize) = &self.resize else { return Visit::Stays(false) };
        let slot = self.pointer;
        self.pointer += 1;
        if self.chunks.tag(slot) == 0 {
            return Visit::Stays(false);
        }
        if resize.next.is_none()
            && let Some(item) = self.chunks.item(slot)
        {
            let hash = way_hash(word(item), self.number, self.generation);
            if self.index(hash, resize.size) == slot {
                return Visit::Stays(true);
            }
        }
        self.used -= 1;
        Visit::Leaves(self.chunks.take(slot).expect("a tag has an item"))
    }

    /// Undoes the last visit, which took `item` out of its slot.
    pub(super) fn unvisit(&mut self, item: T, word: u64) {
        self.pointer -= 1;
        let slot = self.pointer;
        let place = self.place(self.number, word);
        assert!(place.slot == slot && !place.next, "what was not visited is where it was");
        assert!(self.put(place, item).is_none(), "what was visited is empty");
    }

    /// Whether it is shrinking.
    pub(super) fn is_shrinking(&self) -> bool {
        self.resize.as_ref().is_some_and(|resize| resize.size < self.size)
    }

    /// Turns a shrink round: the way has its size again. Answers the items that have lost their place by that.
    ///
    /// In place there is none: what came from slot `o + n` to `o` goes back, and only one item can have.
    pub(super) fn turn_round(&mut self, word: impl Fn(&T) -> u64, source: &mut impl ChunkSource) -> Vec<T> {
        let resize = self.resize.take().expect("a way that shrinks changes");
        let slots = resize.size;
        let visited = std::mem::take(&mut self.pointer);
        if let Some(next) = resize.next {
            let items: Vec<T> = next.release(source).collect();
            self.used -= items.len();
            return items;
        }
        for slot in (slots..visited).rev() {
            let hash = |item: &T| way_hash(word(item), self.number, self.generation);
            let came_from = |item: &T| Place::new(hash(item), self.index(hash(item), self.size), false);
            let place = self.chunks.item(slot - slots).as_ref().map(came_from);
            if let Some(place) = place.filter(|place| place.slot == slot) {
                let item = self.chunks.take(slot - slots).expect("it was there");
                assert!(self.chunks.put(slot, place.tag, item).is_none(), "what was visited is empty");
            }
        }
        Vec::new()
    }

    /// Whether the change that is under way can make items meet: not, if the same hash gets more bits.
    pub(super) fn may_conflict(&self) -> bool {
        self.resize
            .as_ref()
            .is_some_and(|resize| resize.generation != self.generation || resize.size < self.size)
    }

    /// Whether the change that is under way leaves the array where it is.
    pub(super) fn is_in_place(&self) -> bool {
        self.resize.as_ref().is_some_and(|resize| resize.next.is_none())
    }

    /// Ends a change whose slots have all been visited.
    pub(super) fn finish(&mut self, source: &mut impl ChunkSource) {
        assert!(self.is_done(), "slots are left to visit");
        let resize = self.resize.take().expect("a change that is done was begun");
        self.pointer = 0;
        self.size = resize.size;
        self.generation = resize.generation;
        match resize.next {
            Some(next) => {
                let old = std::mem::replace(&mut self.chunks, next);
                assert!(old.release(source).next().is_none(), "an item was left in the old array");
            }
            None => self.chunks.shrink(self.size, source),
        }
    }

    pub(super) fn release(self, source: &mut impl ChunkSource) -> Vec<T> {
        let mut items: Vec<T> = self.chunks.release(source).collect();
        if let Some(Resize { next: Some(next), .. }) = self.resize {
            items.extend(next.release(source));
        }
        items
    }

    /// The slots, chunk by chunk.
    pub(super) fn slices(&self) -> impl Iterator<Item = &[Option<T>]> {
        let next = self.resize.as_ref().and_then(|resize| resize.next.as_ref());
        self.chunks.slices().chain(next.into_iter().flat_map(Chunks::slices))
    }

    /// The slots, chunk by chunk.
    pub(super) fn slices_mut(&mut self) -> impl Iterator<Item = &mut [Option<T>]> {
        let next = self.resize.as_mut().and_then(|resize| resize.next.as_mut());
        self.chunks.slices_mut().chain(next.into_iter().flat_map(Chunks::slices_mut))
    }

    /// Gives the memory back, and the chunks with their items.
    pub(super) fn release_chunks(self, source: &mut impl ChunkSource) -> Vec<Box<[Option<T>]>> {
        let mut chunks: Vec<_> = self.chunks.release_chunks(source).collect();
        if let Some(Resize { next: Some(next), .. }) = self.resize {
            chunks.extend(next.release_chunks(source));
        }
        chunks
    }

    /// Takes out the items of which `keep` is false; `taken` hears of each before it is dropped.
    pub(super) fn retain(&mut self, keep: &mut impl FnMut(&mut T) -> bool, taken: &mut impl FnMut()) {
        let used = &mut self.used;
        let mut taken = || {
            *used -= 1;
            taken();
        };
        self.chunks.retain(keep, &mut taken);
        if let Some(next) = self.resize.as_mut().and_then(|resize| resize.next.as_mut()) {
            next.retain(keep, &mut taken);
        }
    }
}
