//! The manual's rule: an instruction makes one access of its operand's width, a gather or a masked move one for each
//! element that is on, a string instruction one for each element, a prefetch none.

use std::fmt;

use iced_x86::{InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory};

use super::table::{AREA, Case, FRAME, OPERAND, RAX, RBX, RCX, SOURCE, STACK};

/// One access, at an offset into the instruction's area.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Touch {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) is_write: bool,
}

impl fmt::Debug for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}@{:#x}", if self.is_write { "store" } else { "load" }, self.bytes, self.at)
    }
}

/// The doublewords of the mask register, and of the index register.
const MASK: [bool; 8] = [true, true, false, false, true, true, false, false];
const INDEX: [u32; 8] = [0x10, 0, 0x40, 0, 0x80, 0, 0xc0, 0];
/// The most that a record holds; what is larger is recorded in pieces of this size.
const PIECE: u64 = 64;

fn register(case: &Case, register: Register, element: usize, element_bytes: usize) -> u64 {
    match register.full_register() {
        Register::RAX => RAX,
        Register::AL => RAX,
        Register::RBX => case.area + RBX,
        Register::RCX => RCX,
        Register::RSP => case.area + STACK,
        Register::RBP => case.area + FRAME,
        Register::RSI => case.area + SOURCE,
        Register::RDI => case.area + OPERAND,
        Register::ZMM2 if element_bytes == 4 => INDEX[element].into(),
        Register::ZMM2 => INDEX[2 * element].into(),
        _ => 0,
    }
}

/// The elements of a used operand, each with its address and size.
fn elements(case: &Case, memory: &UsedMemory) -> Vec<(u64, u64)> {
    let address = |i| {
        memory.virtual_address(i, |r, element, bytes| Some(register(case, r, element, bytes))).expect("known")
    };
    let instruction = &case.instruction;
    // Of a repeated string instruction the range is not known, but the element is.
    let size =
        if instruction.is_string_instruction() { instruction.memory_size() } else { memory.memory_size() };
    let (bytes, element) = (size.size() as u64, size.element_size() as u64);
    let is_on = |i: usize, element_bytes: u64| MASK[i * element_bytes as usize / 4];
    if memory.vsib_size() != 0 {
        let index_bytes = memory.index().size();
        let count = (instruction.op0_register().size() / bytes as usize)
            .min(index_bytes / memory.vsib_size() as usize);
        return (0..count).filter(|&i| is_on(i, bytes)).map(|i| (address(i), bytes)).collect();
    }
    let start = address(0);
    match instruction.mnemonic() {
        Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq => {
            let each = |i: usize| (start + i as u64 * element, element);
            (0..(bytes / element) as usize).filter(|&i| is_on(i, element)).map(each).collect()
        }
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu | Mnemonic::Maskmovq => {
            (0..8).map(|i| (start + i, 1)).collect()
        }
        // The bit's word: RAX has the number of a bit beyond the first.
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
            if instruction.op1_kind() == OpKind::Register =>
        {
            vec![(start + RAX / 8 / bytes * bytes, bytes)]
        }
        // Caches are told of a line, and no data is moved.
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb => Vec::new(),
        _ if instruction.is_string_instruction() => {
            (0..repetitions(case)).map(|i| (start + i * bytes, bytes)).collect()
        }
        _ => {
            (0..bytes.div_ceil(PIECE)).map(|i| (start + PIECE * i, (bytes - PIECE * i).min(PIECE))).collect()
        }
    }
}

/// How often a string instruction is repeated: the two strings are equal, and the accumulator is different.
fn repetitions(case: &Case) -> u64 {
    let instruction = &case.instruction;
    let goes_on = match instruction.mnemonic() {
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq => {
            !instruction.has_repne_prefix()
        }
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => {
            !instruction.has_rep_prefix()
        }
        _ => true,
    };
    let is_repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if is_repeated && goes_on { RCX } else { 1 }
}

/// The parts of the processor's state that `xsave` stores and `xrstor` loads: x87, MXCSR, the vector registers, the word
/// that says which parts are there, the vector registers' upper halves. In the area to be loaded that word says: none.
const SAVED: [(u64, u64, &[bool]); 5] =
    [(0, 160, &[true]), (24, 8, &[true]), (160, 256, &[true]), (512, 8, &[false, true]), (576, 256, &[true])];
const RESTORED: [(u64, u64, &[bool]); 1] = [(512, 24, &[false])];

fn state(case: &Case, parts: &[(u64, u64, &[bool])]) -> Vec<Touch> {
    let start =
        case.instruction.virtual_address(0, 0, |r, _, _| Some(register(case, r, 0, 0))).expect("known");
    let mut touches = Vec::new();
    for &(at, bytes, directions) in parts {
        for piece in (0..bytes).step_by(PIECE as usize) {
            let at = start - case.area + at + piece;
            let bytes = (bytes - piece).min(PIECE).next_power_of_two();
            touches.extend(directions.iter().map(|&is_write| Touch { at, bytes, is_write }));
        }
    }
    touches.sort();
    touches
}

/// All accesses of an instruction, sorted.
pub(crate) fn expected(case: &Case) -> Vec<Touch> {
    match case.instruction.mnemonic() {
        Mnemonic::Xsave | Mnemonic::Xsave64 => return state(case, &SAVED),
        Mnemonic::Xrstor | Mnemonic::Xrstor64 => return state(case, &RESTORED),
        _ => {}
    }
    let mut factory = InstructionInfoFactory::new();
    let mut touches = Vec::new();
    for memory in factory.info(&case.instruction).used_memory() {
        let directions: &[bool] = match memory.access() {
            OpAccess::None | OpAccess::NoMemAccess => &[],
            OpAccess::Read | OpAccess::CondRead => &[false],
            OpAccess::Write | OpAccess::CondWrite => &[true],
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => &[false, true],
        };
        for (address, bytes) in elements(case, memory) {
            let at = address.wrapping_sub(case.area);
            assert!(at < AREA, "{}: {memory:?}", case.name());
            let bytes = bytes.next_power_of_two();
            touches.extend(directions.iter().map(|&is_write| Touch { at, bytes, is_write }));
        }
    }
    touches.sort();
    touches
}
