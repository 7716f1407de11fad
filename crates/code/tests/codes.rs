//! Every instruction that the decoder of x86-64 knows, found by decoding what a byte string of each shape may be.

use std::collections::BTreeMap;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction};
use pagewalk_code::{Block, Class, Direction, OPERANDS, Records, x86};

use crate::shapes;

/// Forms of one opcode that are described: with different operands and prefixes.
const FORMS: usize = 8;
/// The number of opcodes that the shapes reach. What is missing needs another mode, an address of 32 bits, or an option of the decoder.
const REACHED: usize = 4_300;

/// Calls the function with the bytes of some forms of each opcode. Returns the number of opcodes.
fn each(mut f: impl FnMut(&Instruction, &[u8])) -> usize {
    let mut forms = BTreeMap::<Code, usize>::new();
    shapes::each(|bytes| {
        let decoded = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode();
        if decoded.is_invalid() {
            return;
        }
        let count = forms.entry(decoded.code()).or_default();
        *count += 1;
        if *count <= FORMS {
            f(&decoded, &bytes[..decoded.len()]);
        }
    });
    forms.len()
}

#[test]
fn each_opcode_has_a_class_and_operands_that_are_possible() {
    let count = each(|decoded, bytes| {
        let block = Block::of_x86_64(0, bytes);
        let [instruction] = &*block.instructions else { panic!("{:?}: {block:?}", decoded.code()) };
        let name = format!("{:?}: {instruction:?}", decoded.code());
        assert_ne!(instruction.class, Class::Unknown, "{name}");
        assert_eq!(instruction.bytes as usize, decoded.len(), "{name}");
        assert!(instruction.operands.iter().all(|operand| operand.records != Records::Exactly(0)), "{name}");
        assert!(instruction.operands.is_sorted_by_key(|operand| operand.direction), "{name}");
        assert!(!instruction.writes.contains(x86::X87) || instruction.reads.contains(x86::X87), "{name}");
        if matches!(instruction.class, Class::Zero | Class::Nop) {
            assert!(instruction.reads.is_empty() && instruction.operands.is_empty(), "{name}");
        }
        if instruction.class == Class::LoadStore {
            assert!(!instruction.operands.is_empty(), "{name}");
        }
    });
    assert!(count >= REACHED, "{count}");
}

#[test]
fn operands_beyond_the_most_are_united_with_the_last() {
    // rep xcryptctr, of VIA's processors: four loads and two stores, each through another register.
    let block = Block::of_x86_64(0, &[0xf3, 0x0f, 0xa7, 0xd8]);
    let operands = &block.instructions[0].operands;
    assert_eq!(operands.len(), OPERANDS);
    let last = operands[OPERANDS - 1];
    assert_eq!((last.direction, last.records), (Direction::Modify, Records::Varies));
    assert!(last.address.len() > 1);
}
