//! The description of an executed block of instructions.

use arrayvec::ArrayVec;

use crate::class::Class;
use crate::register::Registers;

/// The most operands in memory that one instruction has in its description.
pub const OPERANDS: usize = 4;

/// The description of instructions that follow one another in memory, executed from the first on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The virtual address of the first instruction.
    pub addr: u64,
    /// The length of all instructions in bytes.
    pub bytes: u32,
    /// The instructions in ascending order of address, without gaps. Bytes that are no instruction, or only the beginning of one,
    /// are one instruction of the class [`Class::Unknown`] that extends to the end of the block.
    pub instructions: Box<[Instruction]>,
}

/// The description of one instruction: what must be there before the operation begins, and what is there when it ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// The distance from the beginning of the block in bytes.
    pub offset: u32,
    /// The length of the instruction in bytes.
    pub bytes: u32,
    /// The kind of the operation.
    pub class: Class,
    /// The place where control goes behind the instruction.
    pub flow: Flow,
    /// The registers whose values the operation needs. One that only forms an address is in the operand's [`Operand::address`]
    /// instead. A register of which a part is kept is read, too.
    ///
    /// The stack pointer is missing here and in `writes` if the instruction only pushes or pops, as calls and returns do: the front
    /// end of a core adds up such steps, and no instruction waits for them.
    pub reads: Registers,
    /// The registers that the operation writes.
    pub writes: Registers,
    /// The operands in memory, in the order in which a capture reports their accesses: loads before stores.
    ///
    /// An instruction with more than [`OPERANDS`] has the further ones united with the last.
    pub operands: ArrayVec<Operand, OPERANDS>,
    /// Whether it is a conditional jump that a core executes together with the instruction before it, which sets the flags.
    pub fuses: bool,
}

impl Instruction {
    /// Creates the description of bytes at the end of a block that the decoder does not know.
    pub(crate) fn unknown(offset: u32, bytes: u32) -> Self {
        Self {
            offset,
            bytes,
            class: Class::Unknown,
            flow: Flow::Stop,
            reads: Registers::EMPTY,
            writes: Registers::EMPTY,
            operands: ArrayVec::new(),
            fuses: false,
        }
    }
}

/// The place where control goes behind an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flow {
    /// To the instruction that follows in memory.
    Next,
    /// To the block that is executed next, wherever it lies: of an instruction set whose blocks are not laid out one behind the other.
    FallThrough,
    /// To the target if the instruction's condition is met, otherwise to the next instruction, or as [`Flow::FallThrough`].
    Conditional {
        /// The virtual address of the target.
        target: u64,
    },
    /// To the target that the instruction names.
    Jump {
        /// The virtual address of the target.
        target: u64,
    },
    /// To an address from a register or from memory.
    IndirectJump,
    /// To the function that the instruction names, with the return address left on the stack.
    Call {
        /// The virtual address of the function.
        target: u64,
    },
    /// To a function whose address comes from a register or from memory.
    IndirectCall,
    /// To the return address.
    Return,
    /// To the same instruction until its count is used up, or to the next one. A capture may report each repetition as a block.
    Repeat,
    /// Out of the program's control: to the kernel, or to another privilege or code segment. Also of an instruction that is not known.
    Stop,
}

/// An operand in memory that an instruction loads, stores or both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// The registers that form the address. The stack pointer of a push or a pop is not among them.
    pub address: Registers,
    /// Whether the bytes are loaded or stored.
    pub direction: Direction,
    /// The number of records in a capture for each load or store.
    pub records: Records,
    /// The size in bytes; 0 if the machine's state decides.
    pub bytes: u16,
    /// Whether the address is relative to the stack pointer.
    pub on_stack: bool,
    /// Whether the address is a sum of a base, an index and a displacement, or has a scaled index.
    pub is_complex: bool,
    /// Whether a vector or a floating-point register takes the bytes of a load, or gives those of a store.
    pub is_vector: bool,
}

/// Whether an operand is loaded or stored, in the order in which a capture reports the accesses of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// The instruction only loads the bytes.
    Load,
    /// The instruction loads the bytes, and stores into the same ones.
    Modify,
    /// The instruction only stores the bytes.
    Store,
}

/// The number of records of a capture for one load or one store of an operand; [`Direction::Modify`] has as many of each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Records {
    /// Always so many: one for each 64 bytes of an operand, and one for each step of an instruction that pushes or pops several times.
    Exactly(u8),
    /// As many as the data says: of masked and scattered elements, of repetitions, of parts of the machine's state.
    Varies,
}
