//! Whole blocks: which jumps fuse, and bytes that are no instruction.

use pagewalk_code::{Block, Class, Flow, Registers};

const JE: &[u8] = &[0x74, 0x10];
const JE_NEAR: &[u8] = &[0x0f, 0x84, 0x10, 0, 0, 0];
const JB: &[u8] = &[0x72, 0x10];
const JS: &[u8] = &[0x78, 0x10];
const JO: &[u8] = &[0x70, 0x10];
const LOOP: &[u8] = &[0xe2, 0x10];
const NOP: &[u8] = &[0x90];
/// cmp %ebx,%eax
const CMP: &[u8] = &[0x39, 0xd8];
/// test %eax,%eax
const TEST: &[u8] = &[0x85, 0xc0];
/// inc %eax
const INC: &[u8] = &[0xff, 0xc0];

/// Returns whether the last of the instructions fuses.
fn fuses(instructions: &[&[u8]]) -> bool {
    let block = Block::of_x86_64(0, &instructions.concat());
    assert_eq!(block.instructions.len(), instructions.len());
    block.instructions.last().expect("one at least").fuses
}

#[test]
fn a_comparison_and_a_jump_that_tests_its_flags_fuse() {
    assert!(fuses(&[CMP, JE]));
    assert!(fuses(&[CMP, JE_NEAR]));
    assert!(fuses(&[CMP, JB]));
    assert!(!fuses(&[CMP, JS]));
    assert!(!fuses(&[CMP, JO]));
    for condition in [JE, JB, JS, JO] {
        assert!(fuses(&[TEST, condition]));
    }
}

#[test]
fn a_count_does_not_fuse_with_a_test_of_the_carry_flag() {
    assert!(fuses(&[INC, JE]));
    assert!(!fuses(&[INC, JB]));
}

#[test]
fn only_a_conditional_jump_just_behind_the_comparison_fuses() {
    assert!(!fuses(&[JE]));
    assert!(!fuses(&[CMP, NOP, JE]));
    assert!(!fuses(&[CMP, LOOP]));
    // or %ebx,%eax
    assert!(!fuses(&[&[0x09, 0xd8], JE]));
}

#[test]
fn an_operand_in_memory_fuses_without_an_immediate_and_not_relative_to_the_instruction() {
    // cmp (%rdi),%eax; cmp %eax,(%rdi)
    assert!(fuses(&[&[0x3b, 0x07], JE]));
    assert!(fuses(&[&[0x39, 0x07], JE]));
    // cmpl $1,(%rdi); cmp 0(%rip),%eax; add %eax,(%rdi); incl (%rdi)
    assert!(!fuses(&[&[0x83, 0x3f, 0x01], JE]));
    assert!(!fuses(&[&[0x3b, 0x05, 0, 0, 0, 0], JE]));
    assert!(!fuses(&[&[0x01, 0x07], JE]));
    assert!(!fuses(&[&[0xff, 0x07], JE]));
    // add (%rdi),%eax
    assert!(fuses(&[&[0x03, 0x07], JE]));
}

#[test]
fn bytes_that_are_no_instruction_are_one_instruction_to_the_end() {
    // nop; push %es, which 64-bit mode does not have.
    let block = Block::of_x86_64(0x1000, &[0x90, 0x06, 0x90, 0x90]);
    let [nop, rest] = &*block.instructions else { panic!("{block:?}") };
    assert_eq!((nop.offset, nop.bytes, nop.class), (0, 1, Class::Nop));
    assert_eq!((rest.offset, rest.bytes, rest.class, rest.flow), (1, 3, Class::Unknown, Flow::Stop));
    assert_eq!((rest.reads, rest.writes), (Registers::EMPTY, Registers::EMPTY));
}

#[test]
fn an_instruction_without_its_end_is_unknown() {
    let block = Block::of_x86_64(0x1000, &[0x90, 0xe8, 0, 0]);
    assert_eq!(block.instructions[1].class, Class::Unknown);
    assert_eq!(block.instructions[1].bytes, 3);
}

#[test]
fn no_bytes_are_a_block_without_instructions() {
    let block = Block::of_x86_64(7, &[]);
    assert_eq!((block.addr, block.bytes, block.instructions.len()), (7, 0, 0));
}

#[test]
fn a_target_beyond_the_last_address_is_counted_from_the_first() {
    let block = Block::of_x86_64(u64::MAX - 3, JE);
    assert_eq!(block.instructions[0].flow, Flow::Conditional { target: 0xe });
}
