//! A table of instructions, with what each must be described as.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use pagewalk_code::{Block, Class, Direction, Flow, Instruction, Operand, Records, Register, Registers, x86};

const TABLE: &str = include_str!("instructions.txt");
const ADDR: u64 = 0x1000;

/// One line of the table: bytes, text, class, registers read and written, operands, flow.
struct Row {
    bytes: Vec<u8>,
    text: &'static str,
    expected: [&'static str; 5],
}

fn rows() -> Vec<Row> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
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

fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    let decoded = Decoder::with_ip(64, bytes, ADDR, DecoderOptions::NONE).decode();
    GasFormatter::new().format(&decoded, &mut text);
    text
}

fn name(register: Register) -> String {
    const GENERAL: [&str; 8] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
    let number = register.index();
    match register {
        x86::CARRY => "c".to_owned(),
        x86::FLAGS => "f".to_owned(),
        x86::X87 => "x87".to_owned(),
        _ if number < 8 => GENERAL[number].to_owned(),
        _ if number < 16 => format!("r{number}"),
        _ if number < 48 => format!("xmm{}", number - 16),
        _ => format!("k{}", number - 48),
    }
}

fn names(registers: Registers) -> String {
    registers.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn operand(operand: &Operand) -> String {
    let direction = match operand.direction {
        Direction::Load => "load",
        Direction::Modify => "modify",
        Direction::Store => "store",
    };
    let stack = if operand.on_stack { " stack" } else { "" };
    let records = match operand.records {
        Records::Exactly(1) => String::new(),
        Records::Exactly(count) => format!(" x{count}"),
        Records::Varies => " varies".to_owned(),
    };
    format!("{direction} {} [{}]{stack}{records}", operand.bytes, names(operand.address))
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

fn columns(instruction: &Instruction) -> [String; 5] {
    [
        format!("{:?}", instruction.class),
        names(instruction.reads),
        names(instruction.writes),
        instruction.operands.iter().map(operand).collect::<Vec<_>>().join(", "),
        flow(instruction.flow),
    ]
}

#[test]
fn the_bytes_of_each_row_are_its_text() {
    let wrong: Vec<_> =
        rows().iter().map(|row| (text(&row.bytes), row.text)).filter(|(a, b)| a != b).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_instruction_is_described_as_the_table_says() {
    let mut wrong = Vec::new();
    for row in rows() {
        let block = Block::of_x86_64(ADDR, &row.bytes);
        let found: Vec<_> = block.instructions.iter().map(columns).collect();
        if found != [row.expected] {
            wrong.push(format!("{}\n expected {:?}\n found    {found:?}", row.text, row.expected));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_has_each_class_that_bytes_can_have() {
    let rows = rows();
    let is_there = |class: &Class| rows.iter().any(|row| row.expected[0] == format!("{class:?}"));
    let missing: Vec<_> = Class::ALL.into_iter().filter(|class| !is_there(class)).collect();
    assert_eq!(missing, [Class::Unknown]);
}

#[test]
fn a_class_is_found_by_its_number() {
    assert!(Class::ALL.iter().enumerate().all(|(number, &class)| class as usize == number));
}
