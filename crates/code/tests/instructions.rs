//! A table of instructions, with what each must be described as.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use pagewalk_code::{Block, Class, Register, x86};

use crate::table::{ADDR, demand, rows};

const TABLE: &str = include_str!("instructions.txt");

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

#[test]
fn the_bytes_of_each_row_are_its_text() {
    let wrong: Vec<_> =
        rows(TABLE).iter().map(|row| (text(&row.bytes), row.text)).filter(|(a, b)| a != b).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_instruction_is_described_as_the_table_says() {
    demand(TABLE, Block::of_x86_64, name);
}

#[test]
fn the_table_has_each_class_that_bytes_can_have() {
    let rows = rows(TABLE);
    let is_there = |class: &Class| rows.iter().any(|row| row.expected[0] == format!("{class:?}"));
    let missing: Vec<_> = Class::ALL.into_iter().filter(|class| !is_there(class)).collect();
    assert_eq!(missing, [Class::Unknown]);
}

#[test]
fn a_class_is_found_by_its_number() {
    assert!(Class::ALL.iter().enumerate().all(|(number, &class)| class as usize == number));
}
