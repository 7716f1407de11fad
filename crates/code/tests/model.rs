//! Model instructions: what is written is described, and any bytes are a block.

use pagewalk_code::model::{FLAGS, Op, STACK, general};
use pagewalk_code::{Block, Class, Direction, Flow, Instruction, Records, Registers};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::whole::demand_whole;

/// The only instruction of a block that has this one.
fn described(op: Op) -> Instruction {
    let block = Block::of_model(0x1000, &op.to_bytes());
    let [instruction] = &*block.instructions else { panic!("{block:?}") };
    instruction.clone()
}

fn set<const N: usize>(registers: [pagewalk_code::Register; N]) -> Registers {
    registers.into_iter().collect()
}

#[test]
fn an_operation_reads_up_to_three_registers_and_writes_one() {
    let others = |class: &Class| !matches!(class, Class::Branch | Class::Unknown);
    for class in Class::ALL.into_iter().filter(others) {
        let registers = [0, 13, 28].map(general);
        let instruction = described(Op::new(class, general(7), &registers));
        assert_eq!((instruction.class, instruction.reads), (class, set(registers)));
        assert_eq!((instruction.writes, instruction.flow), (set([general(7)]), Flow::FallThrough));
        assert!(instruction.operands.is_empty() && !instruction.fuses);
    }
    assert!(described(Op::compare(&[])).reads.is_empty());
}

#[test]
fn an_operand_has_its_address_its_size_and_its_direction() {
    let [to, base, index, from] = [1, 2, 3, 4].map(general);
    let at = [base, index];
    for bytes in [1, 2, 4, 8, 16, 32, 64] {
        let forms = [
            (Op::load(to, bytes, &at), Direction::Load, set([]), set([to])),
            (Op::compare_with(from, bytes, &at), Direction::Load, set([from]), set([FLAGS])),
            (Op::modify(bytes, &at, &[from]), Direction::Modify, set([from]), set([])),
            (Op::store(bytes, &at, &[from]), Direction::Store, set([from]), set([])),
        ];
        for (op, direction, reads, writes) in forms {
            let instruction = described(op);
            assert_eq!((instruction.reads, instruction.writes), (reads, writes), "{op:?}");
            let [operand] = instruction.operands[..] else { panic!("{instruction:?}") };
            assert_eq!((operand.address, operand.direction), (set(at), direction));
            assert_eq!((u32::from(operand.bytes), operand.records), (bytes, Records::Exactly(1)));
            assert!(!operand.on_stack);
        }
    }
    assert!(described(Op::store(8, &[STACK], &[from])).operands[0].on_stack);
}

#[test]
fn branches_have_targets_and_depend_on_comparisons() {
    let code = |op: Op| [Op::compare(&[general(0)]).to_bytes(), op.to_bytes()].concat();
    for distance in [-(1 << 14), -1, 0, 1, (1 << 14) - 1] {
        let target = 0x10_0004_u64.wrapping_add_signed(4 * distance);
        let branch = Op::branch().towards(distance).unwrap();
        let block = Block::of_model(0x10_0000, &code(branch.fused()));
        let last = &block.instructions[1];
        assert_eq!((last.flow, last.reads), (Flow::Conditional { target }, set([FLAGS])));
        assert!(last.fuses && branch.is_conditional());
        let jump = Op::jump().towards(distance).unwrap();
        let last = Block::of_model(0x10_0000, &code(jump)).instructions[1].clone();
        assert_eq!((last.flow, last.reads, last.class), (Flow::Jump { target }, set([]), Class::Branch));
        assert!(!jump.is_conditional());
    }
    assert_eq!([-(1 << 14) - 1, 1 << 14].map(|distance| Op::jump().towards(distance)), [None; 2]);
}

proptest! {
    #[test]
    fn any_bytes_are_a_block(addr: u64, code in vec(any::<u8>(), 0..40)) {
        let block = Block::of_model(addr, &code);
        prop_assert_eq!((block.addr, block.bytes as usize), (addr, code.len()));
        demand_whole(&block);
        for instruction in &block.instructions {
            let is_last = instruction.offset + instruction.bytes == block.bytes;
            prop_assert!(instruction.bytes == 4 || instruction.class == Class::Unknown);
            prop_assert!(instruction.flow != Flow::FallThrough || is_last);
            let operands = instruction.operands.iter().map(|operand| operand.address);
            let all = operands.fold(instruction.reads.union(instruction.writes), Registers::union);
            prop_assert!(all.iter().all(|register| register <= STACK));
        }
    }
}
