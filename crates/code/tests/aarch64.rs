//! Instructions of A64, and what holds of any bytes.

use pagewalk_code::{Block, Class, Flow, Register, aarch64};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::table::{ADDR, demand, words};
use crate::whole::demand_whole;

/// Bytes as LLVM 14 assembles the text.
const TABLE: &str = include_str!("aarch64.txt");

fn name(register: Register) -> String {
    match register.index() {
        number @ ..31 => format!("x{number}"),
        31 => "flags".to_owned(),
        number => format!("v{}", number - 32),
    }
}

#[test]
fn each_instruction_is_described_as_the_table_says() {
    demand(TABLE, Block::of_aarch64, name);
}

#[test]
fn a_branch_on_the_flags_fuses_with_a_comparison_before_it() {
    // b.ne .+8
    const BRANCH: u32 = 0x5400_0041;
    let fuses = |before: u32| {
        let block = Block::of_aarch64(ADDR, &words(&[before, BRANCH]));
        assert_eq!(block.instructions[1].flow, Flow::Conditional { target: ADDR + 12 });
        block.instructions[1].fuses
    };
    // cmp x0, #3; tst w0, #1; cmn w0, w1
    assert_eq!([0xf100_0c1f, 0x7200_001f, 0x2b01_001f].map(fuses), [true; 3]);
    // adds x0, x1, #1; add x0, x1, #1; fcmp d0, d1; ccmp x0, x1, #4, ne
    assert_eq!([0xb100_0420, 0x9100_0420, 0x1e61_2000, 0xfa41_1004].map(fuses), [false; 4]);
}

#[test]
fn what_is_no_instruction_ends_the_block() {
    // Zeros; a group without instructions; a part of a word.
    for code in [&[0, 0, 0, 0][..], &[0, 0, 0, 0x06], &[0x1f, 0x20, 0x03], &[1]] {
        let bytes = [&0xd503_201f_u32.to_le_bytes(), code].concat();
        let block = Block::of_aarch64(ADDR, &bytes);
        let classes: Vec<_> = block.instructions.iter().map(|one| (one.offset, one.class)).collect();
        assert_eq!(classes, [(0, Class::Nop), (4, Class::Unknown)], "{code:?}");
        assert_eq!(block.instructions[1].bytes as usize, code.len());
    }
}

proptest! {
    #[test]
    fn instructions_cover_all_bytes_one_after_the_other(addr: u64, code in vec(any::<u8>(), 0..64)) {
        let block = Block::of_aarch64(addr, &code);
        prop_assert_eq!((block.addr, block.bytes as usize), (addr, code.len()));
        demand_whole(&block);
        for instruction in &block.instructions {
            prop_assert!(instruction.class == Class::Unknown || instruction.bytes == 4);
        }
    }

    /// Any word is one instruction, and what it says of itself is possible.
    #[test]
    fn a_word_is_one_instruction(word: u32) {
        let block = Block::of_aarch64(ADDR, &word.to_le_bytes());
        prop_assert_eq!(block.instructions.len(), 1);
        let one = &block.instructions[0];
        let last = aarch64::vector(aarch64::VECTORS - 1);
        let all = one.operands.iter().fold(one.reads.union(one.writes), |all, operand| all.union(operand.address));
        prop_assert!(all.iter().all(|register| register <= last), "{:?}", one);
        prop_assert!(one.operands.is_sorted_by_key(|operand| operand.direction), "{:?}", one);
        prop_assert!(one.class != Class::LoadStore || !one.operands.is_empty(), "{:?}", one);
        if matches!(one.class, Class::Zero | Class::Nop) {
            prop_assert!(one.reads.is_empty() && one.operands.is_empty(), "{:?}", one);
        }
    }
}
