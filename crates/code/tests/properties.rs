//! What holds of any bytes.

use pagewalk_code::{Block, Class, Register, Registers, x86};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::whole::demand_whole;

/// Any bytes, and such that begin with a prefix or an escape more often.
fn code() -> impl Strategy<Value = Vec<u8>> {
    const BEGINNINGS: [&[u8]; 10] =
        [&[], &[0x66], &[0x48], &[0xf0], &[0xf2], &[0xf3], &[0x0f], &[0xc4], &[0x62], &[0xf3, 0x48, 0x0f]];
    let part = (prop::sample::select(&BEGINNINGS[..]), vec(any::<u8>(), 0..12));
    vec(part.prop_map(|(beginning, rest)| [beginning, &rest].concat()), 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn instructions_cover_all_bytes_one_after_the_other(addr: u64, code in code()) {
        let block = Block::of_x86_64(addr, &code);
        prop_assert_eq!((block.addr, block.bytes as usize), (addr, code.len()));
        demand_whole(&block);
        for instruction in &block.instructions {
            prop_assert!(instruction.class == Class::Unknown || instruction.bytes <= 15);
        }
    }

    #[test]
    fn registers_are_those_of_the_instruction_set(code in code()) {
        for instruction in &Block::of_x86_64(0, &code).instructions {
            let address = |set: Registers, operand: &pagewalk_code::Operand| set.union(operand.address);
            let all = instruction.operands.iter().fold(instruction.reads.union(instruction.writes), address);
            prop_assert!(all.iter().all(|register| register <= x86::X87), "{:?}", instruction);
        }
    }

    #[test]
    fn a_block_that_begins_later_has_the_same_instructions(code in code(), from: prop::sample::Index) {
        let whole = Block::of_x86_64(0x1000, &code);
        prop_assume!(!whole.instructions.is_empty());
        let from = from.index(whole.instructions.len());
        let offset = whole.instructions[from].offset;
        let part = Block::of_x86_64(0x1000 + u64::from(offset), &code[offset as usize..]);
        let mut expected = whole.instructions[from..].to_vec();
        expected.iter_mut().for_each(|instruction| instruction.offset -= offset);
        expected[0].fuses = false;
        prop_assert_eq!(part.instructions.to_vec(), expected);
    }

    #[test]
    fn a_set_holds_what_was_put_into_it(numbers in prop::collection::btree_set(0..Register::COUNT as u8, 0..64)) {
        let registers: Vec<Register> = numbers.iter().map(|&number| Register::new(number)).collect();
        let set: Registers = registers.iter().copied().collect();
        prop_assert_eq!(set.iter().collect::<Vec<_>>(), registers.clone());
        prop_assert_eq!((set.len(), set.is_empty()), (registers.len(), registers.is_empty()));
        let mut rest = set;
        for register in registers {
            prop_assert!(set.contains(register));
            rest.remove(register);
            prop_assert!(!rest.contains(register));
        }
        prop_assert_eq!(rest, Registers::EMPTY);
    }
}
