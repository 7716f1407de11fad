//! Tables of instructions, with what each must be described as: of each line the bytes, the text, the class, the registers read and
//! written, the operands, and the flow.

use pagewalk_code::{Block, Direction, Flow, Instruction, Operand, Records, Register, Registers};

/// The address at which the instructions of a table stand.
pub(crate) const ADDR: u64 = 0x1000;

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

/// Demands that each row's bytes are one instruction, described as the row says.
pub(crate) fn demand(table: &'static str, describe: fn(u64, &[u8]) -> Block, name: Name) {
    let mut wrong = Vec::new();
    for row in rows(table) {
        let block = describe(ADDR, &row.bytes);
        let found: Vec<_> = block.instructions.iter().map(|one| columns(one, name)).collect();
        if found != [row.expected] {
            wrong.push(format!("{}\n expected {:?}\n found    {found:?}", row.text, row.expected));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The bytes of words.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
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
fn columns(instruction: &Instruction, name: Name) -> [String; 5] {
    [
        format!("{:?}", instruction.class),
        names(instruction.reads, name),
        names(instruction.writes, name),
        instruction.operands.iter().map(|one| operand(one, name)).collect::<Vec<_>>().join(", "),
        flow(instruction.flow),
    ]
}
