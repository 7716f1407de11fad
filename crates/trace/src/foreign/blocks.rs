//! The numbers of the blocks of instructions that a trace executes.

use std::sync::Arc;

use pagewalk_vm::addr::VirtAddr;
use rustc_hash::FxHashMap;

use crate::event::{Access, BlockId, Code, Isa};

/// The most blocks at one address whose numbers are kept; the oldest is forgotten, and gets a new number.
const MOST_AT_ONCE: usize = 16;
/// The bits of an address that an event holds.
const ADDR_MASK: u64 = (1 << Access::ADDR_BITS) - 1;

/// One execution of a block.
pub(super) struct Execution<'a> {
    /// The address of the first instruction.
    pub(super) addr: u64,
    pub(super) isa: Isa,
    /// The bytes of the block's description.
    pub(super) bytes: &'a [u8],
    pub(super) instructions: u64,
    pub(super) accesses: &'a [Access],
}

/// The blocks that were executed, by address.
#[derive(Default)]
pub(super) struct Numbers {
    known: FxHashMap<u64, Vec<(BlockId, Arc<[u8]>)>>,
    next: u32,
}

impl Numbers {
    /// Returns the number of a block, and its description if the number is new.
    pub(super) fn number(&mut self, execution: &Execution<'_>) -> (BlockId, Option<Code>) {
        let &Execution { addr, isa, bytes, .. } = execution;
        let here = self.known.entry(addr).or_default();
        if let Some(place) = here.iter().rposition(|(_, known)| **known == *bytes) {
            return (here[place].0, None);
        }
        let block = BlockId(self.next);
        self.next = self.next.wrapping_add(1);
        let bytes: Arc<[u8]> = bytes.into();
        if here.len() == MOST_AT_ONCE {
            here.remove(0);
        }
        here.push((block, Arc::clone(&bytes)));
        (block, Some(Code { block, addr: VirtAddr(addr & ADDR_MASK), isa, bytes }))
    }
}
