//! Outlines of instructions.

use pagewalk_code::outline::{BYTES, Outline, length};
use pagewalk_code::{Block, Class, Direction, Flow, Records, Register, Registers};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::whole::demand_whole;

fn set<const N: usize>(numbers: [u8; N]) -> Registers {
    numbers.into_iter().map(Register::new).collect()
}

fn outline() -> Outline {
    Outline {
        class: Class::Integer,
        length: 4,
        flow: Flow::Next,
        loads: 2,
        stores: 1,
        on_stack: true,
        fuses: false,
        address: set([5, 9]),
        reads: set([5, 63]),
        writes: set([0, 16]),
    }
}

#[test]
fn an_instruction_is_what_its_outline_says() {
    let bytes = [outline().to_bytes(0x1000), outline().to_bytes(0x1004)].concat();
    let block = Block::of_outlines(0x1000, &bytes);
    assert_eq!((block.bytes, length(&bytes)), (8, 8));
    let [first, second] = &*block.instructions else { panic!("{block:?}") };
    assert_eq!((first.offset, second.offset, first.bytes), (0, 4, 4));
    assert_eq!((first.class, first.flow), (Class::Integer, Flow::Next));
    assert_eq!((first.reads, first.writes), (set([5, 63]), set([0, 16])));
    let operands: Vec<_> =
        first.operands.iter().map(|one| (one.direction, one.records, one.address)).collect();
    let address = set([5, 9]);
    let expected =
        [(Direction::Load, Records::Exactly(2), address), (Direction::Store, Records::Exactly(1), address)];
    assert_eq!(operands, expected);
    assert!(first.operands.iter().all(|one| one.on_stack && one.bytes == 0));
}

#[test]
fn flows_keep_their_targets() {
    let target = 0xf00;
    let flows = [
        Flow::Next,
        Flow::Conditional { target },
        Flow::Jump { target },
        Flow::IndirectJump,
        Flow::Call { target },
        Flow::IndirectCall,
        Flow::Return,
        Flow::Repeat,
        Flow::Stop,
    ];
    for flow in flows {
        for fuses in [false, true] {
            let bytes = Outline { flow, fuses, ..outline() }.to_bytes(0x1000);
            let found = &Block::of_outlines(0x1000, &bytes).instructions[0];
            assert_eq!((found.flow, found.fuses), (flow, fuses));
        }
    }
    // A target out of reach is the instruction.
    let far = Outline { flow: Flow::Jump { target: 1 << 40 }, ..outline() }.to_bytes(0x1000);
    assert_eq!(Block::of_outlines(0x1000, &far).instructions[0].flow, Flow::Jump { target: 0x1000 });
}

proptest! {
    #[test]
    fn any_bytes_are_a_block(addr: u64, bytes in vec(any::<u8>(), 0..80)) {
        let block = Block::of_outlines(addr, &bytes);
        demand_whole(&block);
        prop_assert!(length(&bytes) <= 255 * (bytes.len() / BYTES) as u64);
    }
}
