//! Instructions of programs that have no machine code: those of the workloads that are written here.
//!
//! The instruction set is made up. An instruction has the length of a word of 4 bytes, little-endian, and is exactly what a core model
//! needs to know: the class of its operation, at most one register that it writes and three that it reads, and at most one operand in
//! memory, at an address from up to two registers.
//!
//! ```text
//!  31    27 26    22 21    17 16    12 11   9  8  7  6 5     0
//! +--------+--------+--------+--------+------+---+----+-------+
//! | third  | second | first  | writes | log2 | F | op | class |   F: executed together with the instruction before
//! |        |        |        |        | size |   |    |       |   op: 0 no operand, 1 load, 2 load and store, 3 store
//! +--------+--------+--------+--------+------+---+----+-------+
//! | displacement to the target, words | reads| flow | F | 0  | Branch|   flow: 0 conditional, 1 jump
//! +-----------------------------------+------+------+---+----+-------+
//! ```
//!
//! Of an instruction with an operand, the first two registers form the address. The number 31 stands for no register.
//!
//! Blocks need not lie one behind the other: control goes from the last instruction of a block to whichever block is executed next
//! ([`Flow::FallThrough`]), and a conditional branch is taken if that is its target.

use arrayvec::ArrayVec;

use crate::block::{Block, Direction, Flow, Instruction, Operand, Records};
use crate::class::Class;
use crate::register::{Register, Registers};

/// The bytes of an instruction.
pub const WORD: usize = 4;
/// The number of general registers.
pub const GENERAL: u8 = 29;
/// The register that holds the result of a comparison.
pub const FLAGS: Register = Register::new(GENERAL);
/// The register that points to the program's stack: an operand with this address is on the stack.
pub const STACK: Register = Register::new(GENERAL + 1);
/// The number that stands for no register.
const NONE: u32 = GENERAL as u32 + 2;

const REGISTER_BITS: u32 = 5;
const WRITES: u32 = 12;
const FIRST: u32 = WRITES + REGISTER_BITS;
const SECOND: u32 = FIRST + REGISTER_BITS;
const THIRD: u32 = SECOND + REGISTER_BITS;
const FUSES: u32 = 1 << 8;
const FORM: u32 = 6;
const SIZE: u32 = 9;
const CLASS_MASK: u32 = (1 << FORM) - 1;
const REGISTER_MASK: u32 = (1 << REGISTER_BITS) - 1;

/// Returns a general register by its number.
///
/// # Panics
///
/// The number is [`GENERAL`] or larger.
pub const fn general(number: u8) -> Register {
    assert!(number < GENERAL);
    Register::new(number)
}

/// An instruction, as its word.
///
/// Of a branch, the displacement is 0 until [`Op::towards`] sets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Op(u32);

impl Op {
    /// Creates an operation of a class, from registers to a register.
    ///
    /// # Panics
    ///
    /// There are more than three registers to read.
    pub const fn new(class: Class, to: Register, from: &[Register]) -> Self {
        Self::empty(class).writing(to).reading(from, FIRST, 3)
    }

    /// Creates an operation of one cycle on general registers.
    ///
    /// # Panics
    ///
    /// As [`Op::new`].
    pub const fn integer(to: Register, from: &[Register]) -> Self {
        Self::new(Class::Integer, to, from)
    }

    /// Creates a comparison of registers.
    ///
    /// # Panics
    ///
    /// As [`Op::new`].
    pub const fn compare(from: &[Register]) -> Self {
        Self::new(Class::Integer, FLAGS, from)
    }

    /// Creates an operation of a class on a register and the bytes at an address, to a register.
    ///
    /// # Panics
    ///
    /// As [`Op::load`].
    pub const fn with_operand(
        class: Class,
        to: Register,
        from: Register,
        bytes: u32,
        at: &[Register],
    ) -> Self {
        Self::empty(class).writing(to).reading(at, FIRST, 2).reading(&[from], THIRD, 1).moving(1, bytes)
    }

    /// Creates a comparison of a register with the bytes at an address.
    ///
    /// # Panics
    ///
    /// As [`Op::load`].
    pub const fn compare_with(from: Register, bytes: u32, at: &[Register]) -> Self {
        Self::with_operand(Class::Integer, FLAGS, from, bytes, at)
    }

    /// Creates a load of bytes at an address to a register.
    ///
    /// # Panics
    ///
    /// There are more than two registers of the address, or the number of bytes is not a power of two up to 64.
    pub const fn load(to: Register, bytes: u32, at: &[Register]) -> Self {
        Self::empty(Class::LoadStore).writing(to).reading(at, FIRST, 2).moving(1, bytes)
    }

    /// Creates an operation on the bytes at an address and a register, whose result is stored there.
    ///
    /// # Panics
    ///
    /// As [`Op::load`].
    pub const fn modify(bytes: u32, at: &[Register], from: &[Register]) -> Self {
        Self::empty(Class::Integer).reading(at, FIRST, 2).reading(from, THIRD, 1).moving(2, bytes)
    }

    /// Creates a store of a register, or of a constant, to bytes at an address.
    ///
    /// # Panics
    ///
    /// As [`Op::load`].
    pub const fn store(bytes: u32, at: &[Register], from: &[Register]) -> Self {
        Self::empty(Class::LoadStore).reading(at, FIRST, 2).reading(from, THIRD, 1).moving(3, bytes)
    }

    /// Creates a branch that is taken if the last comparison says so.
    pub const fn branch() -> Self {
        let flags = (FLAGS.index() as u32) << WRITES;
        Self(Class::Branch as u32 | flags)
    }

    /// Creates a jump, which is always taken.
    pub const fn jump() -> Self {
        Self(Class::Branch as u32 | 1 << SIZE | NONE << WRITES)
    }

    /// Returns the branch, or the jump, with its distance to the target in instructions; none if the distance is too long.
    pub const fn towards(self, distance: i64) -> Option<Self> {
        const MOST: i64 = 1 << (u32::BITS - FIRST - 1);
        if distance < -MOST || distance >= MOST {
            return None;
        }
        Some(Self(self.0 & ((1 << FIRST) - 1) | (distance as u32) << FIRST))
    }

    /// Returns the instruction as one that a core executes together with the instruction before.
    #[must_use]
    pub const fn fused(self) -> Self {
        Self(self.0 | FUSES)
    }

    /// Returns whether the instruction compares, so that a branch behind it may be executed together with it.
    pub const fn is_comparison(self) -> bool {
        self.class_code() == Class::Integer as u32 && self.register_code(WRITES) == FLAGS.index() as u32
    }

    /// Returns whether the instruction is a branch that depends on a comparison.
    pub const fn is_conditional(self) -> bool {
        self.class_code() == Class::Branch as u32 && self.0 >> SIZE & 7 == 0
    }

    /// Returns the bytes of the instruction.
    pub const fn to_bytes(self) -> [u8; WORD] {
        self.0.to_le_bytes()
    }

    const fn empty(class: Class) -> Self {
        Self(class as u32 | NONE << WRITES | NONE << FIRST | NONE << SECOND | NONE << THIRD)
    }

    const fn writing(self, register: Register) -> Self {
        self.with(WRITES, register)
    }

    const fn with(self, place: u32, register: Register) -> Self {
        Self(self.0 & !(REGISTER_MASK << place) | (register.index() as u32) << place)
    }

    /// Puts up to so many registers at a place and behind it.
    const fn reading(self, registers: &[Register], place: u32, most: usize) -> Self {
        assert!(registers.len() <= most, "too many registers");
        match registers {
            [] => self,
            [one, rest @ ..] => self.with(place, *one).reading(rest, place + REGISTER_BITS, most),
        }
    }

    const fn moving(self, form: u32, bytes: u32) -> Self {
        assert!(bytes.is_power_of_two() && bytes <= 64, "no size of an operand");
        Self(self.0 | form << FORM | bytes.trailing_zeros() << SIZE)
    }

    const fn class_code(self) -> u32 {
        self.0 & CLASS_MASK
    }

    const fn register_code(self, place: u32) -> u32 {
        self.0 >> place & REGISTER_MASK
    }

    /// Returns the class, if there is such a one.
    fn class(self) -> Option<Class> {
        let class = Class::ALL.get(self.class_code() as usize).copied();
        class.filter(|&class| class != Class::Unknown)
    }

    fn registers<const N: usize>(self, places: [u32; N]) -> Registers {
        let codes = places.into_iter().map(|place| self.register_code(place));
        codes.filter(|&code| code != NONE).map(|code| Register::new(code as u8)).collect()
    }

    fn operand(self) -> Option<Operand> {
        let direction = match self.0 >> FORM & 3 {
            0 => return None,
            1 => Direction::Load,
            2 => Direction::Modify,
            _ => Direction::Store,
        };
        let address = self.registers([FIRST, SECOND]);
        let bytes: u16 = 1 << (self.0 >> SIZE & 7);
        let records = bytes.div_ceil(64) as u8;
        Some(Operand {
            address,
            direction,
            records: Records::Exactly(records),
            bytes,
            on_stack: address.contains(STACK),
            is_complex: false,
            is_vector: false,
        })
    }

    /// Returns the flow of a branch at an address.
    fn flow(self, addr: u64) -> Flow {
        let distance = i64::from(self.0 as i32 >> FIRST) * WORD as i64;
        let target = addr.wrapping_add_signed(distance);
        if self.is_conditional() { Flow::Conditional { target } } else { Flow::Jump { target } }
    }

    /// Describes the instruction at an address, with its offset in its block.
    fn describe(self, addr: u64, offset: u32) -> Option<Instruction> {
        let class = self.class()?;
        let mut instruction = Instruction {
            offset,
            bytes: WORD as u32,
            class,
            flow: Flow::Next,
            reads: self.registers([FIRST, SECOND, THIRD]),
            writes: self.registers([WRITES]),
            operands: ArrayVec::new(),
            fuses: self.0 & FUSES != 0,
        };
        if class == Class::Branch {
            instruction.flow = self.flow(addr.wrapping_add(offset.into()));
            (instruction.reads, instruction.writes) = (instruction.writes, Registers::EMPTY);
        } else if let Some(operand) = self.operand() {
            instruction.reads = self.registers([THIRD]);
            instruction.operands.push(operand);
        }
        Some(instruction)
    }
}

impl Block {
    /// Decodes the bytes of model instructions that begin at an address. Of more than 4 GiB, the first 4 GiB are the block.
    ///
    /// A word that is no instruction, and bytes that are no word, are an unknown instruction up to the end of the block.
    pub fn of_model(addr: u64, code: &[u8]) -> Self {
        let bytes = u32::try_from(code.len()).unwrap_or(u32::MAX);
        let (words, _) = code[..bytes as usize].as_chunks::<WORD>();
        let described = (0..).step_by(WORD).zip(words);
        let described =
            described.map_while(|(offset, word)| Op(u32::from_le_bytes(*word)).describe(addr, offset));
        let mut instructions: Vec<Instruction> = described.collect();
        let known = (instructions.len() * WORD) as u32;
        if known < bytes {
            instructions.push(Instruction::unknown(known, bytes - known));
        }
        if let Some(last) = instructions.last_mut().filter(|last| last.flow == Flow::Next) {
            last.flow = Flow::FallThrough;
        }
        Self { addr, bytes, instructions: instructions.into_boxed_slice() }
    }
}
