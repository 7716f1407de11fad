//! Instructions of RV64GC, and what holds of any bytes.

use pagewalk_code::{Block, Class, Flow, Register, riscv};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::table::{ADDR, demand, words};
use crate::whole::demand_whole;

/// Bytes as LLVM 14 assembles the text.
const TABLE: &str = include_str!("riscv.txt");

fn name(register: Register) -> String {
    match register.index() {
        number @ ..32 => format!("x{number}"),
        number => format!("f{}", number - 32),
    }
}

#[test]
fn each_instruction_is_described_as_the_table_says() {
    demand(TABLE, Block::of_riscv64, name);
}

#[test]
fn instructions_of_two_and_of_four_bytes_follow_one_another() {
    // c.ld a0, 8(a1); add a0, a0, a2; c.jr ra
    let code = [0x88, 0x65, 0x33, 0x05, 0xc5, 0x00, 0x82, 0x80];
    let block = Block::of_riscv64(ADDR, &code);
    let places: Vec<_> = block.instructions.iter().map(|one| (one.offset, one.bytes, one.class)).collect();
    assert_eq!(places, [(0, 2, Class::LoadStore), (2, 4, Class::Integer), (6, 2, Class::Branch)]);
    assert_eq!((block.addr, block.bytes), (ADDR, 8));
    assert_eq!(block.instructions[2].flow, Flow::Return);
}

#[test]
fn a_call_of_a_far_function_has_its_target() {
    // auipc ra, 1; jalr ra, -16(ra)
    let call = words(&[0x0000_1097, 0xff00_80e7]);
    assert_eq!(Block::of_riscv64(ADDR, &call).instructions[1].flow, Flow::Call { target: 0x1ff0 });
    // auipc t1, 1; jr -16(t1)
    let tail = words(&[0x0000_1317, 0xff03_0067]);
    assert_eq!(Block::of_riscv64(ADDR, &tail).instructions[1].flow, Flow::Jump { target: 0x1ff0 });
    // auipc t2, 1; jr -16(t1)
    let other = words(&[0x0000_1397, 0xff03_0067]);
    assert_eq!(Block::of_riscv64(ADDR, &other).instructions[1].flow, Flow::IndirectJump);
}

#[test]
fn what_is_no_instruction_ends_the_block() {
    // Zeros; an instruction of six bytes; half of one of four; an opcode that is not known.
    for code in [&[0, 0, 0, 0][..], &[0x1f, 0, 0, 0, 0, 0], &[0x13, 0x05], &[0x0b, 0, 0, 0], &[0x01]] {
        let bytes = [&[0x01, 0x45], code].concat();
        let block = Block::of_riscv64(ADDR, &bytes);
        let classes: Vec<_> = block.instructions.iter().map(|one| (one.offset, one.class)).collect();
        assert_eq!(classes, [(0, Class::Integer), (2, Class::Unknown)], "{code:?}");
        assert_eq!(block.instructions[1].bytes as usize, code.len());
    }
}

proptest! {
    #[test]
    fn instructions_cover_all_bytes_one_after_the_other(addr: u64, code in vec(any::<u8>(), 0..64)) {
        let block = Block::of_riscv64(addr, &code);
        prop_assert_eq!((block.addr, block.bytes as usize), (addr, code.len()));
        demand_whole(&block);
        for instruction in &block.instructions {
            prop_assert!(instruction.class == Class::Unknown || matches!(instruction.bytes, 2 | 4));
            let used = instruction.reads.union(instruction.writes);
            prop_assert!(!used.contains(riscv::general(0)), "{:?}", instruction);
        }
    }

    /// All words of four bytes.
    #[test]
    fn a_word_is_one_instruction(word: u32) {
        let block = Block::of_riscv64(ADDR, &(word | 3).to_le_bytes());
        prop_assert_eq!(block.instructions.len(), 1);
    }
}
