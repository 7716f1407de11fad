//! The heap with its contents: what the tree's nodes and records are made of.

use pagewalk_trace::Access;

use crate::emit::{Emitter, Stop};
use crate::space::{AddressSpace, HEAP_START};

/// A pointer into the heap: the address less the heap's start, in units of 16 bytes, malloc's alignment. 0 is the
/// null pointer (the heap's first chunk belongs to malloc itself).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pointer(pub(crate) u32);

impl Pointer {
    pub(crate) const NULL: Self = Self(0);
    /// The unit of pointers.
    const BYTES: u64 = 16;
}

/// The most bytes of heap that pointers can reach.
pub(crate) const MAX_HEAP_BYTES: u64 = Pointer::BYTES << 32;

/// The heap's contents, by 32-bit words. A field of 8 bytes keeps its value in the lower word: all values of the
/// program fit, and pointers are held as [`Pointer`]s.
pub(crate) struct Memory {
    space: AddressSpace,
    words: Vec<u32>,
}

impl Memory {
    /// An empty heap, with room for `bytes` before the contents have to be moved.
    pub(crate) fn new(space: AddressSpace, bytes: u64) -> Self {
        Self { space, words: vec![0; (bytes / 4) as usize] }
    }

    /// `malloc`, for blocks below malloc's mapping threshold.
    pub(crate) fn malloc(&mut self, bytes: u64, out: &mut Emitter<'_>) -> Result<Pointer, Stop> {
        let offset = self.space.malloc(bytes, out)?.0 - HEAP_START.0;
        let end = ((offset + bytes).div_ceil(4)) as usize;
        if end > self.words.len() {
            self.words.resize(end.next_power_of_two(), 0);
        }
        Ok(Pointer((offset / Pointer::BYTES) as u32))
    }

    /// `free` of what `malloc(bytes)` gave.
    pub(crate) fn free(&mut self, block: Pointer, bytes: u64, out: &mut Emitter<'_>) -> Result<(), Stop> {
        self.space.free(HEAP_START.add(u64::from(block.0) * Pointer::BYTES), bytes, out)
    }

    /// Loads the field of `bytes` at `offset` in a block.
    #[inline(always)]
    pub(crate) fn load(
        &self,
        block: Pointer,
        offset: u32,
        bytes: u32,
        out: &mut Emitter<'_>,
    ) -> Result<u32, Stop> {
        out.push(access::<false>(block, offset, bytes))?;
        Ok(self.peek(block, offset))
    }

    /// Stores the field of `bytes` at `offset` in a block.
    #[inline(always)]
    pub(crate) fn store(
        &mut self,
        block: Pointer,
        offset: u32,
        bytes: u32,
        value: u32,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        out.push(access::<true>(block, offset, bytes))?;
        self.poke(block, offset, value);
        Ok(())
    }

    /// A field's value, without an event: for verification only.
    #[inline(always)]
    pub(crate) fn peek(&self, block: Pointer, offset: u32) -> u32 {
        self.words[block.0 as usize * 4 + offset as usize / 4]
    }

    /// Changes a field, without an event: for tests of verification, and under [`Memory::store`].
    #[inline(always)]
    pub(crate) fn poke(&mut self, block: Pointer, offset: u32, value: u32) {
        self.words[block.0 as usize * 4 + offset as usize / 4] = value;
    }

    #[cfg(test)]
    pub(crate) fn space(&self) -> &AddressSpace {
        &self.space
    }
}

#[inline(always)]
fn access<const WRITE: bool>(block: Pointer, offset: u32, bytes: u32) -> Access {
    let first = Access::new(HEAP_START, bytes, WRITE);
    Access(first.0 + u64::from(block.0) * Pointer::BYTES + u64::from(offset))
}
