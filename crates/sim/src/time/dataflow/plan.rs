//! A block of instructions as a pipeline executes it.

use pagewalk_code::{Block, Class, Direction, Flow, Instruction, Operand, Records, Registers};

use super::decoded::pieces;
use super::ready::Names;
use super::renaming::{Files, Results};
use super::scheduler::{Enters, Waits};
use super::slots::slots;
use super::targets::Last;
use super::units::{Unit, Work};
use crate::spec::settings::SlotsSpec;

/// A decoded block, and which instruction makes which access.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) addr: u64,
    /// The instructions, in order.
    pub(super) operations: Box<[Operation]>,
    /// The bytes of its code, and the pieces of code in which it begins and ends.
    pub(super) bytes: u32,
    pub(super) pieces: [u64; 2],
    /// The instructions that are not executed together with the one before them.
    pub(super) dispatched: u32,
    pub(super) accesses: Box<[Planned]>,
    /// The registers of instructions that have many.
    pub(super) sets: Box<[Registers]>,
    pub(super) last: Last,
    /// The number of accesses of instructions that always have as many.
    fixed: u32,
    /// The number of entries whose accesses vary.
    varying: u32,
}

/// An instruction as a pipeline executes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// Its place in the code of its block.
    offset: u32,
    /// The registers that the operation needs.
    pub(super) reads: Names,
    /// The registers that it writes.
    pub(super) writes: Names,
    pub(super) work: Work,
    /// The slots of dispatch that it takes; none if it is executed together with the one before it.
    pub(super) slots: u8,
    /// Whether it stores.
    pub(super) stores: bool,
    /// Whether it sets a register to zero, without an operation.
    pub(super) is_zero: bool,
    /// Bytes of each repetition of an instruction that repeats itself; 0 for every other one.
    pub(super) repeated_bytes: u16,
    /// Whether it is done by no unit but one that takes an operation a cycle, and without an order beyond that of its few registers.
    pub(super) is_simple: bool,
    /// How many plain operations follow each other from this one on: simple ones without an access.
    pub(super) plain: u32,
}

/// Accesses of an instruction that follow each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    /// The place of the instruction in the block.
    pub(super) instruction: u32,
    /// The registers that form the address, and whether that takes longer than usual.
    pub(super) address: Names,
    pub(super) is_complex: bool,
    pub(super) making: Making,
    /// How many there are; none if that varies.
    times: Option<u32>,
}

/// What is needed of an access until it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Making {
    /// The address of the instruction.
    pub(super) at: u64,
    /// The unit that it takes.
    pub(super) unit: Unit,
    pub(super) store: bool,
    /// Whether it is a load, and the instruction stores to the same place.
    pub(super) modifies: bool,
    /// The registers by which a core may foresee that a load and a store have the same address.
    pub(super) named: Names,
    /// Whether the core takes what is loaded from a store by renaming, if it foresees that: what a whole register gets, or an operation changes.
    pub(super) is_renamed: bool,
    /// Whether a vector gets what is loaded, or is stored.
    pub(super) of_vector: bool,
    /// The bytes of the operand; 0 if that is not known.
    pub(super) bytes: u16,
}

/// The fewest bytes of a load that a core takes from a store by renaming: what has fewer joins the rest of a register. Measured on Zen 4.
const LEAST_RENAMED: u16 = 4;

impl Operation {
    fn new(
        instruction: &Instruction,
        work: Work,
        slots: u8,
        files: &Files,
        sets: &mut Vec<Registers>,
    ) -> Self {
        let Instruction { class, flow, operands, .. } = instruction;
        let repeats = *flow == Flow::Repeat;
        // A repetition waits for no other one: the core knows the addresses of all.
        let [reads, writes] =
            [instruction.reads, instruction.writes].map(|own| if repeats { Registers::EMPTY } else { own });
        let first_bytes = operands.first().map_or(1, |operand| operand.bytes.max(1));
        let stores = operands.iter().any(|operand| operand.direction != Direction::Load);
        let only_loads = work.unit.is_none() && !operands.is_empty() && !stores;
        let is_zero = *class == Class::Zero;
        let is_special = work.is_serial || work.unit.is_some_and(Unit::is_held) || is_zero || repeats;
        let is_simple = !is_special && [reads, writes].into_iter().all(Names::are_few);
        Self {
            offset: instruction.offset,
            reads: Names::read(reads, sets),
            writes: Names::written(writes, sets),
            work: Work {
                enters: Enters { access: !operands.is_empty(), ..work.enters },
                waits: match work.unit {
                    _ if slots == 0 => Waits::Nothing,
                    None if only_loads => Waits::Loads,
                    None if stores => Waits::Stores,
                    None => Waits::Nothing,
                    Some(_) => work.waits,
                },
                results: Results::of(instruction, writes, files),
                ..work
            },
            slots,
            stores,
            is_zero,
            repeated_bytes: if repeats { first_bytes } else { 0 },
            is_simple,
            plain: u32::from(operands.is_empty() && is_simple),
        }
    }
}

impl Planned {
    fn new(
        number: u32,
        at: u64,
        instruction: &Instruction,
        (operand, store): (&Operand, bool),
        sets: &mut Vec<Registers>,
    ) -> Self {
        let address = Names::read(operand.address, sets);
        let is_modified = operand.direction == Direction::Modify;
        let &Instruction { class, ref flow, .. } = instruction;
        let repeats = *flow == Flow::Repeat;
        Self {
            instruction: number,
            address,
            is_complex: operand.is_complex,
            making: Making {
                at,
                unit: match (store, operand.is_vector) {
                    (false, false) => Unit::LOAD,
                    (false, true) => Unit::VECTOR_LOAD,
                    (true, false) => Unit::STORE,
                    (true, true) => Unit::VECTOR_STORE,
                },
                store,
                modifies: !store && is_modified,
                named: match operand {
                    Operand { on_stack: true, .. } => Names::STACK,
                    Operand { address, .. } if Names::are_few(*address) => Names::read(*address, sets),
                    _ => Names::NONE,
                },
                is_renamed: (class == Class::LoadStore || is_modified)
                    && !operand.is_vector
                    && !(1..LEAST_RENAMED).contains(&operand.bytes),
                of_vector: operand.is_vector,
                // A repeated one has the other bytes of the word, too, as far as others see it.
                bytes: if repeats { 0 } else { operand.bytes },
            },
            times: match operand.records {
                Records::Exactly(times) => Some(times.into()),
                Records::Varies => None,
            },
        }
    }
}

impl Plan {
    /// Plans the operations and the accesses of a block, where `work` says what an operation of a class takes.
    pub(super) fn of(
        block: &Block,
        own: &SlotsSpec,
        files: &Files,
        work: impl Fn(&Instruction) -> Work,
    ) -> Self {
        let addr = block.addr;
        let at = |instruction: &Instruction| addr.wrapping_add(instruction.offset.into());
        let (mut operations, mut accesses, mut sets) = (Vec::<Operation>::new(), Vec::new(), Vec::new());
        for (number, instruction) in (0..).zip(&block.instructions) {
            let before = (number as usize).checked_sub(1).map(|before| &block.instructions[before]);
            let slots = slots(instruction, before, own);
            operations.push(Operation::new(instruction, work(instruction), slots, files, &mut sets));
            for (store, not) in [(false, Direction::Store), (true, Direction::Load)] {
                let operands = instruction.operands.iter().filter(|operand| operand.direction != not);
                accesses.extend(operands.map(|operand| {
                    Planned::new(number, at(instruction), instruction, (operand, store), &mut sets)
                }));
            }
        }
        let mut following = 0;
        for operation in operations.iter_mut().rev() {
            following = if operation.plain > 0 { following + 1 } else { 0 };
            operation.plain = following;
        }
        let end = addr.wrapping_add(block.bytes.into());
        let (flow, last) = block.instructions.last().map_or((Flow::Next, addr), |last| (last.flow, at(last)));
        Self {
            addr,
            bytes: block.bytes,
            pieces: pieces(addr, block.bytes),
            dispatched: operations.iter().filter(|operation| operation.slots > 0).count() as u32,
            operations: operations.into_boxed_slice(),
            sets: sets.into_boxed_slice(),
            last: Last::new(flow, last, end),
            fixed: accesses.iter().filter_map(|access| access.times).sum(),
            varying: accesses.iter().filter(|access| access.times.is_none()).count() as u32,
            accesses: accesses.into_boxed_slice(),
        }
    }

    /// Returns the numbers of the first instruction that is in this block and in another one, in both; none if there is none.
    pub(super) fn meets(&self, other: &Self) -> Option<(usize, usize)> {
        let within = |plan: &Self, addr: u64| {
            let offset = u32::try_from(addr.checked_sub(plan.addr)?).ok()?;
            plan.operations.binary_search_by_key(&offset, |operation| operation.offset).ok()
        };
        match within(other, self.addr) {
            Some(number) => Some((0, number)),
            None => within(self, other.addr).map(|number| (number, 0)),
        }
    }

    /// Returns the address behind the last instruction.
    pub(super) fn behind(&self) -> u64 {
        self.addr.wrapping_add(self.bytes.into())
    }

    /// Lets no instruction wait for a register.
    pub(super) fn without_dependences(mut self) -> Self {
        self.operations.iter_mut().for_each(|operation| operation.reads = Names::NONE);
        self.accesses.iter_mut().for_each(|access| access.address = Names::NONE);
        self
    }

    /// Returns how many accesses an entry has in an execution of the block with so many accesses in all: what instructions with a fixed
    /// number leave is divided among the others, the first of which takes the rest.
    pub(super) fn times(&self, entry: usize, all: u32) -> u32 {
        self.accesses[entry].times.unwrap_or_else(|| self.times_of_varying(entry, all))
    }

    #[cold]
    fn times_of_varying(&self, entry: usize, all: u32) -> u32 {
        let left = all.saturating_sub(self.fixed);
        let is_first = self.accesses[..entry].iter().all(|access| access.times.is_some());
        left / self.varying + if is_first { left % self.varying } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDITION: Work = Work {
        unit: None,
        enters: Enters { operation: false, access: false },
        waits: Waits::Operations,
        results: Results::NONE,
        latency: 1,
        holds: 1,
        is_serial: false,
    };

    fn times(code: &[u8], all: u32) -> Vec<(u32, bool, u32)> {
        let plan = Plan::of(&Block::of_x86_64(0x1000, code), &SlotsSpec::ONE, &Files::NONE, |_| ADDITION);
        let entries = plan.accesses.iter().enumerate();
        entries
            .map(|(entry, access)| (access.instruction, access.making.store, plan.times(entry, all)))
            .collect()
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
