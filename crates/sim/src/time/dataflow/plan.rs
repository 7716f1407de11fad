//! A block of instructions as a pipeline executes it.

use pagewalk_code::{Block, Direction, Flow, Instruction, Records, Registers};

/// A decoded block, and which instruction makes which access.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) addr: u64,
    /// The address behind the block.
    pub(super) end: u64,
    pub(super) instructions: Box<[Instruction]>,
    pub(super) accesses: Box<[Planned]>,
    /// The number of accesses of instructions that always have as many.
    fixed: u32,
    /// The number of entries whose accesses vary.
    varying: u32,
}

/// Accesses of an instruction that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    /// The place of the instruction in the block.
    pub(super) instruction: u32,
    /// The address of the instruction.
    pub(super) at: u64,
    /// The registers that form the address.
    pub(super) address: Registers,
    pub(super) store: bool,
    /// Whether the address is relative to the stack pointer or to the frame pointer.
    pub(super) on_stack: bool,
    /// How many there are; none if that varies.
    times: Option<u32>,
}

impl Plan {
    /// Decodes the bytes of x86-64 instructions.
    pub(super) fn of_x86_64(addr: u64, code: &[u8]) -> Self {
        let block = Block::of_x86_64(addr, code);
        let mut accesses = Vec::new();
        for (number, instruction) in (0..).zip(&block.instructions) {
            let of = |store: bool| {
                let wanted = move |direction: Direction| match direction {
                    Direction::Load => !store,
                    Direction::Modify => true,
                    Direction::Store => store,
                };
                let operands = instruction.operands.iter().filter(move |operand| wanted(operand.direction));
                operands.map(move |operand| Planned {
                    instruction: number,
                    at: addr.wrapping_add(instruction.offset.into()),
                    address: operand.address,
                    store,
                    on_stack: operand.on_stack,
                    times: match operand.records {
                        Records::Exactly(times) => Some(times.into()),
                        Records::Varies => None,
                    },
                })
            };
            accesses.extend(of(false).chain(of(true)));
        }
        Self {
            addr,
            end: addr.wrapping_add(block.bytes.into()),
            fixed: accesses.iter().filter_map(|access| access.times).sum(),
            varying: accesses.iter().filter(|access| access.times.is_none()).count() as u32,
            instructions: block.instructions,
            accesses: accesses.into_boxed_slice(),
        }
    }

    /// Returns the flow behind the last instruction.
    pub(super) fn flow(&self) -> Flow {
        self.instructions.last().map_or(Flow::Next, |instruction| instruction.flow)
    }

    /// Returns the address of the last instruction, which names a branch.
    pub(super) fn branch(&self) -> u64 {
        self.addr.wrapping_add(self.instructions.last().map_or(0, |instruction| instruction.offset.into()))
    }

    /// Returns how many accesses an entry has in an execution of the block with so many accesses in all: what instructions with a fixed
    /// number leave is divided among the others, the first of which takes the rest.
    pub(super) fn times(&self, entry: usize, all: u32) -> u32 {
        self.accesses[entry].times.unwrap_or_else(|| {
            let left = all.saturating_sub(self.fixed);
            let is_first = self.accesses[..entry].iter().all(|access| access.times.is_some());
            left / self.varying + if is_first { left % self.varying } else { 0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(code: &[u8], all: u32) -> Vec<(u32, bool, u32)> {
        let plan = Plan::of_x86_64(0x1000, code);
        let entries = plan.accesses.iter().enumerate();
        entries.map(|(entry, access)| (access.instruction, access.store, plan.times(entry, all))).collect()
    }

    #[test]
    fn an_instruction_loads_before_it_stores() {
        // mov (%rdi), %rax; add %rax, 8(%rdi); push %rax; call +0
        let code = [0x48, 0x8b, 0x07, 0x48, 0x01, 0x47, 0x08, 0x50, 0xe8, 0, 0, 0, 0];
        let expected = [(0, false, 1), (1, false, 1), (1, true, 1), (2, true, 1), (3, true, 1)];
        assert_eq!(times(&code, 5), expected);
    }

    #[test]
    fn what_is_left_belongs_to_the_instruction_whose_accesses_vary() {
        // mov (%rdi), %rax; vpgatherdd %ymm0, (%rdi,%ymm1,4), %ymm2
        let code = [0x48, 0x8b, 0x07, 0xc4, 0xe2, 0x7d, 0x90, 0x14, 0x8f];
        assert_eq!(times(&code, 6), [(0, false, 1), (1, false, 5)]);
        assert_eq!(times(&code, 0), [(0, false, 1), (1, false, 0)]);
        // rep movsb
        assert_eq!(times(&[0xf3, 0xa4], 2), [(0, false, 1), (0, true, 1)]);
        assert_eq!(times(&[0xf3, 0xa4], 0), [(0, false, 0), (0, true, 0)]);
    }
}
