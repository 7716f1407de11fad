//! The numbers of the blocks of instructions that a trace executes.

use std::sync::Arc;

use pagewalk_vm::addr::VirtAddr;
use rustc_hash::FxHashMap;

use crate::event::{Access, BlockId, Code, Isa};

/// The most blocks at one address whose numbers are kept; the oldest is forgotten, and gets a new number.
const MOST_AT_ONCE: usize = 16;
/// The most instructions of a block.
const MOST_INSTRUCTIONS: u64 = 64;
/// The accesses of a block that are kept until the block is complete.
const MOST_ACCESSES: usize = 4_096;
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

/// The instructions of a block that may go on.
pub(super) struct Pending {
    addr: u64,
    bytes: Vec<u8>,
    instructions: u64,
    accesses: Vec<Access>,
    /// Whether no instruction can follow.
    is_complete: bool,
}

impl Pending {
    pub(super) fn new(addr: u64) -> Self {
        Self { addr, bytes: Vec::new(), instructions: 0, accesses: Vec::new(), is_complete: false }
    }

    /// Whether an instruction at an address, with these bytes, is a further one of the block.
    pub(super) fn continues(&self, addr: u64, bytes: Option<&[u8]>) -> bool {
        !self.is_complete && bytes.is_some() && addr == self.addr.wrapping_add(self.bytes.len() as u64)
    }

    /// Adds an instruction.
    pub(super) fn add(&mut self, bytes: &[u8], is_branch: bool) {
        self.bytes.extend(bytes);
        self.instructions += 1;
        self.is_complete = is_branch || bytes.is_empty() || self.instructions >= MOST_INSTRUCTIONS;
    }

    /// Adds an access of the last instruction; answers whether there is no room for more.
    pub(super) fn push(&mut self, access: Access) -> bool {
        self.accesses.push(access);
        self.accesses.len() >= MOST_ACCESSES
    }

    /// The number of accesses.
    pub(super) fn accesses(&self) -> usize {
        self.accesses.len()
    }

    pub(super) fn execution(&self) -> Execution<'_> {
        let Self { addr, bytes, instructions, accesses, .. } = self;
        Execution { addr: *addr, isa: Isa::X86_64, bytes, instructions: *instructions, accesses }
    }
}

/// A block whose number is known, with the bytes of its description.
type Known = (BlockId, Arc<[u8]>);

/// The blocks that were executed, by address.
#[derive(Default)]
pub(super) struct Numbers {
    known: FxHashMap<u64, Vec<Known>>,
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
