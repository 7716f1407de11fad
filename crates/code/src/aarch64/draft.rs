//! A description under construction.

use arrayvec::ArrayVec;

use super::{FLAGS, GENERAL, WORD, general, vector};
use crate::bits::bits;
use crate::block::{Direction, Flow, Instruction, OPERANDS, Operand, Records};
use crate::class::Class;
use crate::register::Registers;

/// The stack pointer, where it is a base.
const STACK: u32 = 31;
/// The most bytes of one access.
const ACCESS: u16 = 8;

/// The places of registers in an instruction.
#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub(super) rd: u32,
    pub(super) rn: u32,
    pub(super) ra: u32,
    pub(super) rm: u32,
}

impl Fields {
    pub(super) fn of(word: u32) -> Self {
        Self { rd: bits(word, 4, 0), rn: bits(word, 9, 5), ra: bits(word, 14, 10), rm: bits(word, 20, 16) }
    }
}

/// The description of an instruction that has no place in a block yet.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    class: Class,
    flow: Flow,
    reads: Registers,
    writes: Registers,
    operands: ArrayVec<Operand, OPERANDS>,
    /// Whether it is a comparison that a core executes together with a branch behind it.
    pub(super) compares: bool,
    /// Whether it is a branch on the flags.
    pub(super) is_on_flags: bool,
}

impl Draft {
    /// An instruction of a class that uses no register.
    pub(super) fn new(class: Class) -> Self {
        Self {
            class,
            flow: Flow::Next,
            reads: Registers::EMPTY,
            writes: Registers::EMPTY,
            operands: ArrayVec::new(),
            compares: false,
            is_on_flags: false,
        }
    }

    /// Adds general registers that the operation needs.
    pub(super) fn reading<const N: usize>(mut self, numbers: [u32; N]) -> Self {
        self.reads = self.reads.union(generals(numbers));
        self
    }

    /// Adds general registers that the operation writes.
    pub(super) fn writing<const N: usize>(mut self, numbers: [u32; N]) -> Self {
        self.writes = self.writes.union(generals(numbers));
        self
    }

    /// Adds so many vector registers from one on that the operation needs.
    pub(super) fn reading_vectors(mut self, first: u32, count: u32) -> Self {
        self.reads = self.reads.union(vectors(first, count));
        self
    }

    /// Adds so many vector registers from one on that the operation writes.
    pub(super) fn writing_vectors(mut self, first: u32, count: u32) -> Self {
        self.writes = self.writes.union(vectors(first, count));
        self
    }

    pub(super) fn reading_flags(mut self) -> Self {
        self.reads.insert(FLAGS);
        self
    }

    /// Lets the operation write the flags if it does.
    pub(super) fn writing_flags(mut self, does: bool) -> Self {
        if does {
            self.writes.insert(FLAGS);
        }
        self
    }

    /// The same of a sum, a difference or a logical operation: where it writes nothing else, it compares.
    pub(super) fn comparing(mut self, does: bool) -> Self {
        self.compares = does && self.writes.is_empty();
        self.writing_flags(does)
    }

    pub(super) fn going(mut self, flow: Flow) -> Self {
        self.flow = flow;
        self
    }

    /// Adds an operand whose address is the sum of registers; of 0 bytes if the machine's state decides.
    pub(super) fn moving<const N: usize>(
        mut self,
        direction: Direction,
        address: [u32; N],
        bytes: u16,
        records: Records,
    ) -> Self {
        let on_stack = address.first() == Some(&STACK);
        let address = generals(address);
        let operand =
            Operand { address, direction, records, bytes, on_stack, is_complex: false, is_vector: false };
        match records {
            Records::Exactly(_) if bytes > ACCESS => {
                let part = Operand { bytes: ACCESS, ..operand };
                self.operands.extend(std::iter::repeat_n(part, usize::from(bytes / ACCESS)));
            }
            _ => self.operands.push(operand),
        }
        self
    }

    /// Lets so many vector registers from one on take or give the bytes of the operands.
    pub(super) fn of_vectors(mut self, first: u32, count: u32) -> Self {
        let mut direction = Direction::Load;
        for operand in &mut self.operands {
            (operand.is_vector, direction) = (true, operand.direction);
        }
        match direction {
            Direction::Load => self.writing_vectors(first, count),
            _ => self.reading_vectors(first, count),
        }
    }

    /// Says of the operands that their address has a scaled index if it has.
    pub(super) fn scaled(mut self, is_scaled: bool) -> Self {
        self.operands.iter_mut().for_each(|operand| operand.is_complex = is_scaled);
        self
    }

    /// A branch to a target if its condition is met.
    pub(super) fn branch(target: u64) -> Self {
        Self::new(Class::Branch).going(Flow::Conditional { target })
    }

    /// Says of a branch that its condition is about the flags.
    pub(super) fn on_flags(mut self) -> Self {
        self.is_on_flags = true;
        self.reading_flags()
    }

    /// The description, with its place.
    pub(super) fn instruction(self, offset: u32, fuses: bool) -> Instruction {
        let Self { class, flow, reads, writes, operands, .. } = self;
        Instruction { offset, bytes: WORD, class, flow, reads, writes, operands, fuses }
    }
}

/// The registers of these numbers, without zero and the stack pointer.
fn generals<const N: usize>(numbers: [u32; N]) -> Registers {
    let numbers = numbers.into_iter().filter(|&number| number < GENERAL.into());
    numbers.map(|number| general(number as u8)).collect()
}

/// So many vector registers from one on; behind the last comes the first.
fn vectors(first: u32, count: u32) -> Registers {
    (first..first + count).map(|number| vector(number as u8 % super::VECTORS)).collect()
}
