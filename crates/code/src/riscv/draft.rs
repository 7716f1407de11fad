//! A description under construction.

use arrayvec::ArrayVec;

use super::{float, general};
use crate::block::{Direction, Flow, Instruction, Operand, Records};
use crate::class::Class;
use crate::register::Registers;

/// The number of the stack pointer.
const STACK: u8 = 2;

/// The description of an instruction that has no place in a block yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    class: Class,
    pub(super) flow: Flow,
    reads: Registers,
    writes: Registers,
    operand: Option<Operand>,
    /// Of a jump through a register: the register, and the distance of the target from its value.
    pub(super) indirect: Option<(u8, i64)>,
    /// Of `auipc`: the register, and the value that the register gets.
    pub(super) pc_relative: Option<(u8, u64)>,
}

impl Draft {
    /// An instruction of a class that uses no register.
    pub(super) fn new(class: Class) -> Self {
        let (reads, writes) = (Registers::EMPTY, Registers::EMPTY);
        Self { class, flow: Flow::Next, reads, writes, operand: None, indirect: None, pc_relative: None }
    }

    /// Adds general registers that the operation needs.
    pub(super) fn reading<const N: usize>(mut self, numbers: [u32; N]) -> Self {
        self.reads = self.reads.union(generals(numbers));
        self
    }

    /// Adds the general register that the operation writes.
    pub(super) fn writing(mut self, number: u32) -> Self {
        self.writes = generals([number]);
        self
    }

    /// Adds floating-point registers that the operation needs.
    pub(super) fn reading_floats<const N: usize>(mut self, numbers: [u32; N]) -> Self {
        numbers.into_iter().for_each(|number| self.reads.insert(float(number as u8 % super::FLOATS)));
        self.operand.iter_mut().for_each(|operand| operand.is_vector = true);
        self
    }

    /// Adds the floating-point register that the operation writes.
    pub(super) fn writing_float(mut self, number: u32) -> Self {
        self.writes.insert(float(number as u8 % super::FLOATS));
        self.operand.iter_mut().for_each(|operand| operand.is_vector = true);
        self
    }

    pub(super) fn going(mut self, flow: Flow) -> Self {
        self.flow = flow;
        self
    }

    /// Adds an operand at the address in a general register; `records` of them, and of 0 bytes if the machine's state decides.
    pub(super) fn moving(mut self, direction: Direction, base: u32, bytes: u16, records: Records) -> Self {
        let on_stack = base == u32::from(STACK);
        let address = generals([base]);
        let (is_complex, is_vector) = (false, false);
        self.operand = Some(Operand { address, direction, records, bytes, on_stack, is_complex, is_vector });
        self
    }

    /// A load of so many bytes into no register yet.
    pub(super) fn load(base: u32, bytes: u16) -> Self {
        Self::new(Class::LoadStore).moving(Direction::Load, base, bytes, Records::Exactly(1))
    }

    /// A store of so many bytes from no register yet.
    pub(super) fn store(base: u32, bytes: u16) -> Self {
        Self::new(Class::LoadStore).moving(Direction::Store, base, bytes, Records::Exactly(1))
    }

    /// A jump to a target, which leaves its return address in a register: a call if that is a link register.
    pub(super) fn jump(link: u32, target: u64) -> Self {
        let flow = if is_link(link) { Flow::Call { target } } else { Flow::Jump { target } };
        Self::new(Class::Branch).writing(link).going(flow)
    }

    /// A jump to the address in a register and a distance, which leaves its return address in another.
    pub(super) fn jump_register(link: u32, base: u32, distance: i64) -> Self {
        let flow = match (is_link(link), is_link(base)) {
            (true, _) => Flow::IndirectCall,
            (false, true) => Flow::Return,
            (false, false) => Flow::IndirectJump,
        };
        let mut draft = Self::new(Class::Branch).reading([base]).writing(link).going(flow);
        draft.indirect = Some((base as u8, distance));
        draft
    }

    /// A branch to a target on a comparison of two registers.
    pub(super) fn branch(first: u32, second: u32, target: u64) -> Self {
        Self::new(Class::Branch).reading([first, second]).going(Flow::Conditional { target })
    }

    /// The description, with its place and its length.
    pub(super) fn instruction(self, offset: u32, bytes: u32) -> Instruction {
        let Self { class, flow, reads, writes, operand, .. } = self;
        let operands: ArrayVec<_, _> = operand.into_iter().collect();
        Instruction { offset, bytes, class, flow, reads, writes, operands, fuses: false }
    }
}

/// The registers of these numbers, without `x0`.
fn generals<const N: usize>(numbers: [u32; N]) -> Registers {
    let numbers = numbers.into_iter().map(|number| number as u8 % super::GENERAL);
    numbers.filter(|&number| number != 0).map(general).collect()
}

/// Whether calls leave their return address in a register by convention: `ra` and `t0`.
fn is_link(number: u32) -> bool {
    matches!(number, 1 | 5)
}
