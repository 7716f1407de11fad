//! Every instruction with an operand in memory, found by decoding what a byte string of each shape may be.
//!
//! No list of instructions is kept here: each opcode of each map is tried with each prefix, and what the decoder knows
//! is taken once in each form.

use std::collections::BTreeSet;

use iced_x86::{
    Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, InstructionInfoFactory,
    MemorySize, OpKind,
};

/// Where the program puts things; `tests/c/instructions.c` has the same numbers.
pub(crate) const RETURN: u64 = 0x3000_0000;
const SLOTS: u64 = 0x3001_0000;
const SLOT: usize = 32;
pub(crate) const DATA: u64 = 0x4000_0000;
pub(crate) const AREA: u64 = 0x1000;
/// In an instruction's area: its stack, the second string, what RBX and RBP point to, and the operand.
pub(crate) const STACK: u64 = 0x180;
pub(crate) const SOURCE: u64 = 0x200;
pub(crate) const RBX: u64 = 0x280;
pub(crate) const FRAME: u64 = 0x300;
pub(crate) const OPERAND: u64 = 0x400;
pub(crate) const RAX: u64 = 0x4f;
pub(crate) const RCX: u64 = 3;
/// The displacement of the form that has one byte of it.
const NEAR: u8 = 0x40;
/// 64-bit code segment and data segment, as Linux has them.
const CODE_SELECTOR: u16 = 0x33;
const DATA_SELECTOR: u16 = 0x2b;

/// `movdq2q %xmm1, %mm1`.
const MOVDQ2Q: [u8; 4] = [0xf2, 0x0f, 0xd6, 0xc9];

/// How the instruction names its operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Form {
    /// An index register and four bytes of displacement.
    Indexed,
    /// A base register and one byte of displacement.
    Based,
    /// An address.
    Absolute,
    /// The instruction has no operand of its own choice: strings, the stack, masked stores.
    Implied,
    /// The operand is a register, and nothing is accessed.
    Register,
}

const FORMS: [Form; 5] = [Form::Indexed, Form::Based, Form::Absolute, Form::Implied, Form::Register];

impl Form {
    /// How many values the rest of ModRM has: a register or a further opcode, and the operand if that is a register.
    fn registers(self) -> u8 {
        match self {
            Self::Indexed | Self::Based | Self::Absolute => 8,
            Self::Implied | Self::Register => 64,
        }
    }
}

/// One instruction of the table.
pub(crate) struct Case {
    pub(crate) instruction: Instruction,
    pub(crate) form: Form,
    /// The address of its area.
    pub(crate) area: u64,
    bytes: Vec<u8>,
}

/// Shapes of what precedes the opcode byte, and whether the opcode may be any byte.
fn heads() -> Vec<Vec<u8>> {
    let mut heads = Vec::new();
    for prefix in [&[][..], &[0x66], &[0xf2], &[0xf3], &[0x66, 0xf2], &[0x66, 0xf3]] {
        for rex in [&[][..], &[0x48]] {
            for map in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
                heads.push([prefix, rex, map].concat());
            }
        }
    }
    // VEX and XOP: the map; then W, the second source (register 1, or none), the length and the implied prefix.
    for (escape, maps) in [(0xc4u8, 1..=3u8), (0x8f, 8..=10)] {
        for map in maps {
            for (w, source, rest) in (0..2u8).flat_map(|w| {
                [0b1110u8, 0b1111]
                    .into_iter()
                    .flat_map(move |source| (0..8u8).map(move |rest| (w, source, rest)))
            }) {
                heads.push(vec![escape, 0xe0 | map, w << 7 | source << 3 | rest]);
            }
        }
    }
    heads
}

fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x62 | 0x64..=0x67 | 0xc4 | 0xc5 | 0xf0 | 0xf2 | 0xf3)
}

/// ModRM and what belongs to it.
fn operand(form: Form, register: u8, area: u64) -> Vec<u8> {
    let at = (area + OPERAND) as u32;
    match form {
        Form::Indexed => [&[register << 3 | 4, 0x15][..], &at.to_le_bytes()].concat(),
        Form::Based => vec![0x40 | register << 3 | 7, NEAR],
        Form::Absolute => [&[register << 3 | 4, 0x25][..], &at.to_le_bytes()].concat(),
        Form::Implied | Form::Register => vec![0xc1 ^ register],
    }
}

pub(crate) fn decode(bytes: &[u8], ip: u64) -> Option<Instruction> {
    let instruction = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Whether the table has it: an operand in memory, chosen or implied, and no form that AVX-512 brought.
fn belongs(instruction: &Instruction, form: Form) -> bool {
    if matches!(instruction.encoding(), EncodingKind::EVEX | EncodingKind::MVEX) {
        return false;
    }
    let chosen = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    let mut factory = InstructionInfoFactory::new();
    let touches = !factory.info(instruction).used_memory().is_empty();
    match form {
        Form::Implied => (!chosen || is_offset(instruction)) && touches,
        Form::Register => {
            let has_register =
                (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Register);
            has_register && !chosen && !touches && instruction.flow_control() == FlowControl::Next
        }
        // Index 4 is no index, but of a vector of indices it is, and QEMU 7.2 does not know it.
        Form::Absolute => chosen && !instruction.is_vsib(),
        _ => chosen,
    }
}

/// Every instruction once in each form, with its prefixes LOCK, REP and REPNE where they mean something.
pub(crate) fn table() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut seen = BTreeSet::new();
    for head in heads() {
        for opcode in 0..=255u8 {
            let has_map = head.iter().any(|&byte| !is_prefix(byte)) || matches!(head[..], [0xc4 | 0x8f, ..]);
            let is_escape = !has_map && (is_prefix(opcode) || opcode == 0x0f)
                || head.last() == Some(&0x0f) && matches!(opcode, 0x38 | 0x3a);
            if is_escape {
                continue;
            }
            let start = [&head[..], &[opcode]].concat();
            for form in FORMS {
                for register in 0..form.registers() {
                    add(&mut cases, &mut seen, &start, form, register);
                }
            }
        }
    }
    cases
}

/// Adds what is new of the instructions that begin with `start`, plain and with each prefix that means something.
fn add(
    cases: &mut Vec<Case>,
    seen: &mut BTreeSet<(usize, Form, u8)>,
    start: &[u8],
    form: Form,
    register: u8,
) {
    let modrm = operand(form, register, DATA);
    let Some(plain) = decode(&[start, &modrm, &[0; 8]].concat(), SLOTS) else { return };
    let is_string = plain.is_string_instruction();
    let is_repeated = is_string && (plain.has_rep_prefix() || plain.has_repne_prefix());
    for prefix in [0, 0xf0, 0xf3, 0xf2] {
        let means = match prefix {
            0 => !is_repeated,
            0xf0 => plain.op_code().can_use_lock_prefix(),
            _ => is_string && !is_repeated,
        };
        if !means || seen.contains(&(plain.code() as usize, form, prefix)) {
            continue;
        }
        let area = DATA + AREA * cases.len() as u64;
        let ip = SLOTS + (SLOT * cases.len()) as u64;
        let more = if prefix == 0 { &[][..] } else { &[prefix] };
        let bytes = [more, start, &operand(form, register, area)].concat();
        if let Some(case) = complete(&bytes, form, area, ip) {
            seen.insert((plain.code() as usize, form, prefix));
            cases.push(case);
        }
    }
}

/// The instruction that begins with these bytes, with what follows them.
fn complete(bytes: &[u8], form: Form, area: u64, ip: u64) -> Option<Case> {
    // Constants are 1, but displacements and the nesting level of a frame 0, and an address is one.
    let with = |tail: [u8; 8]| decode(&[bytes, &tail[..]].concat(), ip);
    let mut tail = [1, 0, 0, 0, 0, 0, 0, 0];
    let mut instruction = with(tail)?;
    if instruction.flow_control() != FlowControl::Next || instruction.code() == Code::Enterq_imm16_imm8 {
        tail = [0; 8];
        instruction = with(tail)?;
    }
    if !belongs(&instruction, form) {
        return None;
    }
    let mut whole = [bytes, &tail[..]].concat();
    // An opcode without ModRM: what follows it is the address, or nothing.
    if matches!(form, Form::Implied) && instruction.len() < bytes.len() {
        whole.truncate(instruction.len());
        instruction = decode(&whole, ip)?;
    }
    if form == Form::Implied && instruction.is_call_near() {
        let head = instruction.len() - 4;
        whole[head..].fill(0);
        instruction = decode(&whole, ip)?;
    }
    if instruction.op_kinds().any(|kind| kind == OpKind::Memory)
        && instruction.len() >= 9
        && is_offset(&instruction)
    {
        let head = instruction.len() - 8;
        whole = [&bytes[..head], &(area + OPERAND).to_le_bytes()[..]].concat();
        instruction = decode(&whole, ip)?;
    }
    whole.truncate(instruction.len());
    Some(Case { instruction, form, area, bytes: whole })
}

/// `mov` between the accumulator and an address of eight bytes.
fn is_offset(instruction: &Instruction) -> bool {
    matches!(
        instruction.code(),
        Code::Mov_AL_moffs8
            | Code::Mov_AX_moffs16
            | Code::Mov_EAX_moffs32
            | Code::Mov_RAX_moffs64
            | Code::Mov_moffs8_AL
            | Code::Mov_moffs16_AX
            | Code::Mov_moffs32_EAX
            | Code::Mov_moffs64_RAX
    )
}

impl Case {
    /// The name that a failure is reported by.
    pub(crate) fn name(&self) -> String {
        format!("{} ({:?}, {:02x?})", self.instruction, self.form, self.bytes)
    }

    /// The slot: for the masked store of MMX its mask, the instruction unless it is left out, the way back.
    fn slot(&self, at: u64, is_in: bool) -> Vec<u8> {
        let mut slot = Vec::new();
        if self.instruction.code() == Code::Maskmovq_rDI_mm_mm {
            slot.extend_from_slice(&MOVDQ2Q);
        }
        if is_in {
            slot.extend_from_slice(&self.bytes);
        }
        let distance = RETURN.wrapping_sub(at + slot.len() as u64 + 5);
        slot.push(0xe9);
        slot.extend_from_slice(&(distance as u32).to_le_bytes());
        assert!(slot.len() <= SLOT, "{}", self.name());
        slot.resize(SLOT, 0x90);
        slot
    }

    /// What its area holds: what a jump or a return needs, zeros where a register would refuse anything else, or ones.
    fn area(&self) -> Vec<u8> {
        let mut area = vec![u8::from(self.form != Form::Register); AREA as usize];
        let name = format!("{:?}", self.instruction.code());
        let mut put = |at: u64, bytes: &[u8]| area[at as usize..][..bytes.len()].copy_from_slice(bytes);
        let stack = self.area + STACK;
        if name.starts_with("Pop") {
            put(STACK, &[0; 16]);
        } else {
            // As `iretq` takes it: address, code segment, flags, stack pointer, stack segment.
            let frame = [RETURN, CODE_SELECTOR.into(), 0x202, stack, DATA_SELECTOR.into()];
            put(STACK, frame.map(u64::to_le_bytes).as_flattened());
        }
        let zeros =
            ["Ldmxcsr", "VEX_Vldmxcsr", "Fxrstor", "Xrstor", "Fldenv", "Frstor", "Mov_Sreg", "Lfs", "Lgs"];
        if zeros.iter().any(|start| name.starts_with(start)) {
            put(OPERAND, &[0; (AREA - OPERAND) as usize]);
        }
        if self.instruction.flow_control() != FlowControl::Next {
            for at in [OPERAND, OPERAND + u64::from(NEAR)] {
                match self.instruction.memory_size() {
                    MemorySize::SegPtr32 => put(at, &(RETURN as u32).to_le_bytes()),
                    _ => put(at, &RETURN.to_le_bytes()),
                }
                let selector = match self.instruction.memory_size() {
                    MemorySize::SegPtr32 => 4,
                    _ => 8,
                };
                put(at + selector, &CODE_SELECTOR.to_le_bytes());
            }
        }
        area
    }
}

/// The program's instructions: those of the cases that `is_in` names.
pub(crate) fn code(cases: &[Case], is_in: impl Fn(usize) -> bool) -> Vec<u8> {
    let slots = cases.iter().enumerate().map(|(i, case)| case.slot(SLOTS + (SLOT * i) as u64, is_in(i)));
    slots.collect::<Vec<_>>().concat()
}

/// The program's data.
pub(crate) fn data(cases: &[Case]) -> Vec<u8> {
    cases.iter().flat_map(Case::area).collect()
}
