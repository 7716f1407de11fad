//! Decoded instructions, in blocks that are entered at their first and left at their last.
//!
//! Blocks are found by the physical address of their first instruction, so they do not depend on translation. A store to
//! memory that a block was decoded from forgets all blocks: no program can tell that there are any.

use crate::decode::{Op, decode, decode_compressed, is_compressed};
use crate::memory::Ram;

/// Places for blocks, by their first instruction; a power of two.
const PLACES: usize = 1 << 14;
/// Instructions of a block at most: interrupts are looked at between blocks.
const LONGEST: usize = 64;
/// Instructions of all blocks at most; then all are forgotten.
const ROOM: usize = 1 << 18;
/// No block begins there: instructions lie at even offsets.
const EMPTY: u64 = u64::MAX;
const PAGE: u64 = 4_096;

/// A run of decoded instructions in [`Code`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Where the block lies in memory; [`EMPTY`] if it is found by no other.
    offset: u64,
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// All blocks of decoded code.
pub(crate) struct Code {
    places: Vec<Block>,
    ops: Vec<Op>,
    /// How often blocks were forgotten.
    generation: u64,
}

impl Code {
    pub(crate) fn new() -> Self {
        let empty = Block { offset: EMPTY, first: 0, last: 0 };
        Self { places: vec![empty; PLACES], ops: Vec::new(), generation: 0 }
    }

    /// The instruction at a place of a block.
    #[inline(always)]
    pub(crate) fn op(&self, at: u32) -> Op {
        self.ops[at as usize]
    }

    /// The block whose first instruction lies at an offset in memory, if it was decoded.
    #[inline(always)]
    pub(crate) fn find(&self, offset: u64) -> Option<Block> {
        let block = self.places[(offset / 2) as usize % PLACES];
        (block.offset == offset).then_some(block)
    }

    /// Decodes from an offset on: to the end of the page, or to what may go elsewhere. An instruction that crosses the end
    /// of the page is left out; `None` if it is the first.
    pub(crate) fn decode(&mut self, offset: u64, ram: &mut Ram) -> Option<Block> {
        if self.ops.len() + LONGEST > ROOM {
            self.forget();
            ram.forget_code();
        }
        let first = self.ops.len();
        let end = offset / PAGE * PAGE + PAGE;
        let mut at = offset;
        while at < end && self.ops.len() - first < LONGEST {
            let low = ram.read_at(at, 2) as u16;
            let op = match is_compressed(low) {
                true => decode_compressed(low),
                false if at + 4 <= end => decode(ram.read_at(at, 4) as u32),
                false => break,
            };
            self.ops.push(op);
            at += u64::from(op.bytes);
            if op.ends_block() {
                break;
            }
        }
        if at == offset {
            return None;
        }
        ram.mark_code(offset, at - offset);
        let block = Block { offset, first: first as u32, last: self.ops.len() as u32 };
        self.places[(offset / 2) as usize % PLACES] = block;
        Some(block)
    }

    /// A block of one instruction that no other can find.
    pub(crate) fn single(&mut self, op: Op) -> Block {
        if self.ops.len() + 1 > ROOM {
            self.forget();
        }
        let first = self.ops.len() as u32;
        self.ops.push(op);
        Block { offset: EMPTY, first, last: first + 1 }
    }

    /// Forgets all blocks.
    pub(crate) fn forget(&mut self) {
        self.places.iter_mut().for_each(|block| block.offset = EMPTY);
        self.ops.clear();
        self.generation += 1;
    }

    /// The place of a block's bytes in memory, which tells it from all others as long as no block is forgotten; none if it has none.
    pub(crate) fn place(&self, block: Block) -> Option<(u64, u64)> {
        (block.offset != EMPTY).then_some((self.generation, block.offset))
    }

    /// The bytes of a block's instructions.
    pub(crate) fn bytes(&self, block: Block) -> Vec<u8> {
        let ops = &self.ops[block.first as usize..block.last as usize];
        ops.iter().flat_map(|op| op.raw.to_le_bytes().into_iter().take(op.bytes.into())).collect()
    }
}
