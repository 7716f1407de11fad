//! Instructions of which a trace has the outline: registers, accesses, and where control goes, but no bytes.
//!
//! An outline is a record of 16 bytes. The instruction has the length in memory that the record says, so a block of them covers the
//! addresses that the program's code covers. Registers have any numbers below 64; 0xff stands for none.
//!
//! ```text
//! byte   0       1        2       3        4 to 7      8 to 11     12 to 15
//!     +-------+--------+------+--------+-----------+-----------+--------------+
//!     | class | length | flow | counts | registers | registers | distance     |
//!     |       |        |      |        | read      | written   | of the target|
//!     +-------+--------+------+--------+-----------+-----------+--------------+
//!
//! flow:     bits 0 to 3 the flow (0 next, 1 conditional, 2 jump, 3 indirect jump, 4 call, 5 indirect call, 6 return, 7 repeat, 8 stop),
//!           bit 4 whether the operands are on the stack, bit 5 whether it is a branch that fuses with the instruction before it
//! counts:   bits 0 to 3 loads, bits 4 to 7 stores
//! register: bits 0 to 5 its number, bit 6 whether it only forms the address
//! distance: signed, little-endian, from the instruction to its target
//! ```
//!
//! The sizes of accesses are not known.

use arrayvec::ArrayVec;

use crate::block::{Block, Direction, Flow, Instruction, Operand, Records};
use crate::class::Class;
use crate::register::{Register, Registers};

/// The bytes of an outline.
pub const BYTES: usize = 16;
/// The most registers that an instruction reads, and the most that it writes.
pub const REGISTERS: usize = 4;
/// The most loads, and the most stores, of an instruction.
pub const ACCESSES: u8 = 15;

/// The byte that stands for no register.
const NONE: u8 = 0xff;
const NUMBER: u8 = Register::COUNT as u8 - 1;
const ADDRESS: u8 = 1 << 6;
const FLOW: u8 = 15;
const ON_STACK: u8 = 1 << 4;
const FUSES: u8 = 1 << 5;

/// The outline of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outline {
    /// The kind of the operation; [`Class::Unknown`] is none.
    pub class: Class,
    /// The length of the instruction in bytes; 0 counts as 1.
    pub length: u8,
    /// The place where control goes; of a target, the distance that the record can hold.
    pub flow: Flow,
    /// The number of loads, at most [`ACCESSES`].
    pub loads: u8,
    /// The number of stores, at most [`ACCESSES`].
    pub stores: u8,
    /// Whether the accesses are relative to the stack pointer.
    pub on_stack: bool,
    /// Whether the instruction is a branch that a core executes together with the instruction before it.
    pub fuses: bool,
    /// The registers that form the address of all accesses.
    pub address: Registers,
    /// The registers that the operation needs. With those of the address, at most [`REGISTERS`] count.
    pub reads: Registers,
    /// The registers that the operation writes, of which at most [`REGISTERS`] count.
    pub writes: Registers,
}

impl Outline {
    /// Returns the record of the instruction at an address.
    pub fn to_bytes(&self, addr: u64) -> [u8; BYTES] {
        let (flow, target) = match self.flow {
            Flow::Next | Flow::FallThrough => (0, addr),
            Flow::Conditional { target } => (1, target),
            Flow::Jump { target } => (2, target),
            Flow::IndirectJump => (3, addr),
            Flow::Call { target } => (4, target),
            Flow::IndirectCall => (5, addr),
            Flow::Return => (6, addr),
            Flow::Repeat => (7, addr),
            Flow::Stop => (8, addr),
        };
        let mut bytes = [NONE; BYTES];
        bytes[0] = self.class as u8;
        bytes[1] = self.length;
        bytes[2] = flow | if self.on_stack { ON_STACK } else { 0 } | if self.fuses { FUSES } else { 0 };
        bytes[3] = self.loads.min(ACCESSES) | self.stores.min(ACCESSES) << 4;
        let addresses = self.address.iter().filter(|&register| !self.reads.contains(register));
        let addresses = addresses.map(|register| register.index() as u8 | ADDRESS);
        // A register that is data and address, too, stands once as each.
        let both = self.address.iter().filter(|&register| self.reads.contains(register));
        let both = both.map(|register| register.index() as u8 | ADDRESS);
        let reads = self.reads.iter().map(|register| register.index() as u8);
        put(&mut bytes[4..8], addresses.chain(both).chain(reads));
        put(&mut bytes[8..12], self.writes.iter().map(|register| register.index() as u8));
        let distance = i32::try_from(target.wrapping_sub(addr).cast_signed()).unwrap_or(0);
        bytes[12..].copy_from_slice(&distance.to_le_bytes());
        bytes
    }
}

/// Puts as many of the registers as there is room for.
fn put(room: &mut [u8], registers: impl Iterator<Item = u8>) {
    room.iter_mut().zip(registers).for_each(|(byte, register)| *byte = register);
}

/// Returns the length in memory of the instructions whose outlines these are.
pub fn length(outlines: &[u8]) -> u64 {
    outlines.as_chunks::<BYTES>().0.iter().map(|outline| u64::from(outline[1].max(1))).sum()
}

/// Describes an instruction; none if the record is none that [`Outline::to_bytes`] makes.
fn describe(outline: &[u8; BYTES], addr: u64, offset: u32) -> Option<Instruction> {
    let [class, length, flow, counts, r0, r1, r2, r3, w0, w1, w2, w3, distance @ ..] = *outline;
    let class = Class::ALL.get(usize::from(class)).copied().filter(|&class| class != Class::Unknown)?;
    let target = addr.wrapping_add(offset.into()).wrapping_add_signed(i32::from_le_bytes(distance).into());
    let (on_stack, fuses) = (flow & ON_STACK != 0, flow & FUSES != 0);
    let flow = match flow & FLOW {
        0 => Flow::Next,
        1 => Flow::Conditional { target },
        2 => Flow::Jump { target },
        3 => Flow::IndirectJump,
        4 => Flow::Call { target },
        5 => Flow::IndirectCall,
        6 => Flow::Return,
        7 => Flow::Repeat,
        8 => Flow::Stop,
        _ => return None,
    };
    let registers = |bytes: [u8; REGISTERS], forms_address: bool| -> Registers {
        let bytes = bytes.into_iter().filter(|&byte| byte != NONE && (byte & ADDRESS != 0) == forms_address);
        bytes.map(|byte| Register::new(byte & NUMBER)).collect()
    };
    let address = registers([r0, r1, r2, r3], true);
    let mut operands = ArrayVec::new();
    for (count, direction) in [(counts & 15, Direction::Load), (counts >> 4, Direction::Store)] {
        if count > 0 {
            operands.push(Operand {
                address,
                direction,
                records: Records::Exactly(count),
                bytes: 0,
                on_stack,
                is_complex: false,
                is_vector: false,
            });
        }
    }
    Some(Instruction {
        offset,
        bytes: length.max(1).into(),
        class,
        flow,
        reads: registers([r0, r1, r2, r3], false),
        writes: registers([w0, w1, w2, w3], false),
        operands,
        fuses,
    })
}

impl Block {
    /// Describes the instructions whose outlines these are, from an address on. Of more than 2^28 bytes, the first 2^28 are the block.
    ///
    /// A record that is no outline, and bytes that are no record, are an unknown instruction at the end of the block: each such byte stands
    /// for a byte in memory.
    pub fn of_outlines(addr: u64, outlines: &[u8]) -> Self {
        let outlines = &outlines[..outlines.len().min(1 << 28)];
        let (mut instructions, mut bytes, mut known) = (Vec::new(), 0, 0);
        for outline in outlines.as_chunks::<BYTES>().0 {
            let Some(instruction) = describe(outline, addr, bytes) else { break };
            bytes += instruction.bytes;
            known += BYTES;
            instructions.push(instruction);
        }
        if known < outlines.len() {
            let rest = (outlines.len() - known) as u32;
            instructions.push(Instruction::unknown(bytes, rest));
            bytes += rest;
        }
        Self { addr, bytes, instructions: instructions.into_boxed_slice() }
    }
}
