//! Tables of instructions, with what each must be described as: of each line the bytes, the text, the class, the registers read and
//! written, the operands, and the flow.

use pagewalk_code::{Direction, Flow, Instruction, Operand, Records, Register, Registers};

/// One line of a table.
pub(crate) struct Row {
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: &'static str,
    pub(crate) expected: [&'static str; 5],
}

/// The rows of a table.
pub(crate) fn rows(table: &'static str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [bytes, text, expected @ ..] = columns.as_slice() else { panic!("{line}") };
            let byte = |digits| u8::from_str_radix(digits, 16).expect(line);
            let expected = expected.try_into().expect(line);
            Row { bytes: bytes.split_whitespace().map(byte).collect(), text, expected }
        })
        .collect()
}

/// The name of a register in a table.
pub(crate) type Name = fn(Register) -> String;

fn names(registers: Registers, name: Name) -> String {
    registers.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn operand(operand: &Operand, name: Name) -> String {
    let direction = match operand.direction {
        Direction::Load => "load",
        Direction::Modify => "modify",
        Direction::Store => "store",
    };
    let said =
        [(operand.on_stack, " stack"), (operand.is_complex, " complex"), (operand.is_vector, " vector")];
    let said: String = said.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    let records = match operand.records {
        Records::Exactly(1) => String::new(),
        Records::Exactly(count) => format!(" x{count}"),
        Records::Varies => " varies".to_owned(),
    };
    format!("{direction} {} [{}]{said}{records}", operand.bytes, names(operand.address, name))
}

fn flow(flow: Flow) -> String {
    match flow {
        Flow::Next | Flow::FallThrough => String::new(),
        Flow::Conditional { target } => format!("conditional {target:x}"),
        Flow::Jump { target } => format!("jump {target:x}"),
        Flow::IndirectJump => "indirect jump".to_owned(),
        Flow::Call { target } => format!("call {target:x}"),
        Flow::IndirectCall => "indirect call".to_owned(),
        Flow::Return => "return".to_owned(),
        Flow::Repeat => "repeat".to_owned(),
        Flow::Stop => "stop".to_owned(),
    }
}

/// What a table has of an instruction behind its text.
pub(crate) fn columns(instruction: &Instruction, name: Name) -> [String; 5] {
    [
        format!("{:?}", instruction.class),
        names(instruction.reads, name),
        names(instruction.writes, name),
        instruction.operands.iter().map(|one| operand(one, name)).collect::<Vec<_>>().join(", "),
        flow(instruction.flow),
    ]
}
