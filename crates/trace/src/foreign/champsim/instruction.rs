//! What a record says of its instruction, and what can be told from that.
//!
//! ChampSim's tracer writes the numbers that Pin gives to registers: 3 to 18 are the general ones (6 the stack pointer), 25 the flags, 26
//! the instruction pointer. They tell what kind of branch an instruction is, by the rules of ChampSim (`inc/instruction.h`): a conditional branch
//! reads flags, a call and a return write the stack pointer, and an indirect one reads another register.
//!
//! What a record does not say is assumed. An operation takes one cycle. Of the registers that are read, the general ones form the
//! address, but the one that the result goes to, if the operation sets the flags and another one is left; without general ones, all
//! do. A push or a pop, which reads and writes the stack pointer, does not wait for it.

use pagewalk_code::outline::{Outline, REGISTERS};
use pagewalk_code::{Class, Flow, Register, Registers};

const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
const GENERAL: std::ops::RangeInclusive<u8> = 3..=18;
/// The number of the first general register, and of the flags, in an outline.
const FIRST_GENERAL: u8 = 0;
const OUTLINE_FLAGS: u8 = 16;
/// The numbers of all others in an outline.
const FIRST_OTHER: u8 = 17;

/// The kind of a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Branch {
    Conditional,
    Jump,
    IndirectJump,
    Call,
    IndirectCall,
    Return,
}

/// An instruction of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) ip: u64,
    pub(super) branch: Option<Branch>,
    pub(super) taken: bool,
    read: [u8; REGISTERS],
    written: [u8; REGISTERS],
    pub(super) loads: u8,
    pub(super) stores: u8,
}

/// Puts the numbers of registers, without 0, to the front.
fn packed(numbers: impl Iterator<Item = u8>) -> [u8; REGISTERS] {
    let mut packed = [0; REGISTERS];
    packed.iter_mut().zip(numbers.filter(|&number| number != 0)).for_each(|(to, number)| *to = number);
    packed
}

impl Record {
    pub(super) fn new(
        ip: u64,
        is_branch: bool,
        taken: bool,
        read: impl Iterator<Item = u8>,
        written: impl Iterator<Item = u8>,
    ) -> Self {
        let (read, written) = (packed(read), packed(written));
        let branch = is_branch.then(|| branch(&read, &written));
        Self { ip, branch, taken, read, written, loads: 0, stores: 0 }
    }

    /// Whether it sets the flags, so that a branch behind it may fuse with it.
    pub(super) fn sets_flags(&self) -> bool {
        self.written.contains(&FLAGS) && self.stores == 0
    }

    /// The outline of an instruction of so many bytes with this flow.
    pub(super) fn outline(&self, length: u8, flow: Flow, names: &mut Names) -> Outline {
        let moves = self.loads + self.stores > 0;
        let is_stack_step =
            moves && self.read.contains(&STACK_POINTER) && self.written.contains(&STACK_POINTER);
        let is_used = |number: u8| {
            number != 0 && number != INSTRUCTION_POINTER && !(is_stack_step && number == STACK_POINTER)
        };
        let (mut address, mut data) =
            ([0; REGISTERS], self.read.map(|number| if is_used(number) { number } else { 0 }));
        if moves {
            let is_general = |number: u8| GENERAL.contains(&number);
            let has_general = data.iter().any(|&number| is_general(number)) || is_stack_step;
            let sets_flags = self.written.contains(&FLAGS);
            let is_result = |number: u8| sets_flags && self.written.contains(&number);
            let has_other = data.iter().any(|&number| is_general(number) && !is_result(number));
            for (from, to) in data.iter_mut().zip(&mut address) {
                let forms_address = if has_general {
                    is_general(*from) && !(has_other && is_result(*from))
                } else {
                    *from != FLAGS
                };
                // What a push stores is no address.
                if forms_address && !is_stack_step {
                    (*from, *to) = (0, *from);
                }
            }
        }
        let mut set = |numbers: [u8; REGISTERS]| -> Registers {
            numbers.into_iter().filter(|&number| is_used(number)).map(|number| names.name(number)).collect()
        };
        let (address, reads, writes) = (set(address), set(data), set(self.written));
        Outline {
            class: self.class(moves, &data),
            length,
            flow,
            loads: self.loads,
            stores: self.stores,
            on_stack: moves && self.read.contains(&STACK_POINTER),
            fuses: false,
            address,
            reads,
            writes,
        }
    }

    /// The class of an instruction that needs these registers besides those of its address.
    fn class(&self, moves: bool, data: &[u8; REGISTERS]) -> Class {
        let computes =
            self.written.contains(&FLAGS) || self.loads > 0 && data.iter().any(|&number| number != 0);
        let is_general = |number: u8| GENERAL.contains(&number) || number == FLAGS;
        if self.branch.is_some() {
            Class::Branch
        } else if moves && !computes {
            Class::LoadStore
        } else if self.written == [0; REGISTERS] && !moves {
            Class::Nop
        } else if self.written.iter().all(|&number| number == 0 || is_general(number)) {
            Class::Integer
        } else {
            Class::VectorInteger
        }
    }
}

/// The kind of a branch with these registers.
fn branch(read: &[u8; REGISTERS], written: &[u8; REGISTERS]) -> Branch {
    let reads = |number: u8| read.contains(&number);
    let reads_other =
        read.iter().any(|number| ![0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER].contains(number));
    let moves_stack = reads(STACK_POINTER) && written.contains(&STACK_POINTER);
    if !written.contains(&INSTRUCTION_POINTER) {
        // Nothing is known of the target.
        Branch::IndirectJump
    } else if moves_stack {
        match (reads(INSTRUCTION_POINTER), reads_other) {
            (false, _) => Branch::Return,
            (true, false) => Branch::Call,
            (true, true) => Branch::IndirectCall,
        }
    } else if reads(FLAGS) {
        Branch::Conditional
    } else if reads_other {
        // Newer tracers have conditional branches on registers, which add to the instruction pointer.
        if reads(INSTRUCTION_POINTER) { Branch::Conditional } else { Branch::IndirectJump }
    } else {
        Branch::Jump
    }
}

/// The numbers that registers have in outlines: those of registers that are neither general nor the flags in order of appearance.
#[derive(Debug)]
pub(super) struct Names {
    /// By number in the trace, the number in outlines of those that have one.
    others: [Option<u8>; 256],
    count: u8,
}

impl Default for Names {
    fn default() -> Self {
        Self { others: [None; 256], count: 0 }
    }
}

impl Names {
    fn name(&mut self, number: u8) -> Register {
        const OTHERS: u8 = Register::COUNT as u8 - FIRST_OTHER;
        if GENERAL.contains(&number) {
            return Register::new(number - GENERAL.start() + FIRST_GENERAL);
        } else if number == FLAGS {
            return Register::new(OUTLINE_FLAGS);
        }
        let name = *self.others[usize::from(number)].get_or_insert_with(|| {
            self.count = self.count.wrapping_add(1);
            // More than there are numbers share them.
            FIRST_OTHER + self.count.wrapping_sub(1) % OTHERS
        });
        Register::new(name)
    }
}
