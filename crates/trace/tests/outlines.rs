//! The blocks that ChampSim's traces execute, whose instructions have registers and no bytes.

use std::collections::BTreeMap;

use pagewalk_code::{Block, Class, Flow, Register, Registers};
use pagewalk_trace::foreign::Format;
use pagewalk_trace::{Access, Batch, Code, Event, Isa};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::*;

const RAX: u8 = 10;
const RCX: u8 = 9;
const RDI: u8 = 3;
const RSP: u8 = 6;
const FLAGS: u8 = 25;
const IP: u8 = 26;
const XMM0: u8 = 60;

/// A record with registers: written, and read.
fn record(ip: u64, written: &[u8], read: &[u8], loads: &[u64], stores: &[u64]) -> [u8; 64] {
    let mut record = champsim(ip, loads, stores);
    record[10..][..written.len()].copy_from_slice(written);
    record[12..][..read.len()].copy_from_slice(read);
    record
}

/// A branch that is taken or not.
fn branch(ip: u64, taken: bool, written: &[u8], read: &[u8]) -> [u8; 64] {
    let mut record = record(ip, written, read, &[], &[]);
    record[8..10].copy_from_slice(&[1, taken.into()]);
    record
}

/// The descriptions of blocks by number, and the executions: address, number, accesses.
type Executed = (BTreeMap<u32, Block>, Vec<(u64, u32, usize)>);

fn executed(content: &[u8]) -> Executed {
    let (batches, result, _) = read("t", content, Format::ChampSim);
    result.unwrap();
    let mut blocks = BTreeMap::new();
    let mut executed = Vec::new();
    for batch in &batches {
        batch.check().unwrap();
        blocks.extend(codes(batch).map(|code| {
            assert_eq!(code.isa, Isa::Outline);
            (code.block.0, Block::of_outlines(code.addr.0, &code.bytes))
        }));
        let ends = batch.blocks.iter().skip(1).map(|next| next.at as usize).chain([batch.accesses.len()]);
        for (one, end) in batch.blocks.iter().zip(ends) {
            executed.push((blocks[&one.block.0].addr, one.block.0, end - one.at as usize));
        }
    }
    (blocks, executed)
}

fn codes(batch: &Batch) -> impl Iterator<Item = &Code> {
    batch.marks.iter().filter_map(|mark| match &mark.event {
        Event::Code(code) => Some(code),
        _ => None,
    })
}

fn set<const N: usize>(numbers: [u8; N]) -> Registers {
    numbers.into_iter().map(Register::new).collect()
}

/// A loop: a load of four bytes, a subtraction of three, a branch of two that goes back.
fn round(data: u64, taken: bool) -> Vec<u8> {
    [
        record(0x1000, &[RDI], &[RDI], &[data], &[]),
        record(0x1004, &[RCX, FLAGS], &[RCX], &[], &[]),
        branch(0x1007, taken, &[IP], &[IP, FLAGS]),
    ]
    .concat()
}

#[test]
fn a_loop_is_a_block_whose_branch_learns_its_target_and_its_length() {
    let last = record(0x1009, &[], &[], &[], &[]);
    let content = [round(0x8000, true), round(0x8008, true), round(0x8010, false), last.to_vec()].concat();
    let (blocks, executed) = executed(&content);
    assert_eq!(executed, [(0x1000, 0, 1), (0x1000, 0, 1), (0x1000, 0, 1), (0x1009, 1, 0)]);
    let block = &blocks[&0];
    assert_eq!(block.bytes, 9);
    let classes: Vec<_> = block.instructions.iter().map(|one| (one.offset, one.class)).collect();
    assert_eq!(classes, [(0, Class::LoadStore), (4, Class::Integer), (7, Class::Branch)]);
    let [load, subtraction, branch] = &*block.instructions else { panic!("{block:?}") };
    assert_eq!((load.operands[0].address, load.reads, load.writes), (set([0]), Registers::EMPTY, set([0])));
    assert_eq!((subtraction.reads, subtraction.writes), (set([6]), set([6, 16])));
    assert_eq!((branch.flow, branch.fuses), (Flow::Conditional { target: 0x1000 }, true));
    assert_eq!((branch.reads, branch.writes), (set([16]), Registers::EMPTY));
}

#[test]
fn a_branch_that_was_not_taken_at_first_becomes_another_block() {
    let next = record(0x100d, &[], &[], &[], &[]).to_vec();
    // Its six bytes show when it is not taken.
    let content = [round(0x8000, false), next, round(0x8000, true), round(0x8000, true)].concat();
    let (blocks, executed) = executed(&content);
    assert_eq!(executed.iter().map(|one| one.1).collect::<Vec<_>>(), [0, 1, 2, 2]);
    let branch = |number: u32| blocks[&number].instructions[2].clone();
    assert_eq!((branch(0).bytes, branch(0).flow), (6, Flow::Conditional { target: 0x1007 }));
    assert_eq!((branch(2).bytes, branch(2).flow), (6, Flow::Conditional { target: 0x1000 }));
}

#[test]
fn registers_tell_the_kind_of_a_branch() {
    let kinds: [(&[u8], &[u8], Flow); 6] = [
        (&[IP], &[IP], Flow::Jump { target: 0x2000 }),
        (&[IP], &[RAX], Flow::IndirectJump),
        (&[IP], &[IP, FLAGS], Flow::Conditional { target: 0x2000 }),
        (&[RSP, IP], &[IP, RSP], Flow::Call { target: 0x2000 }),
        (&[RSP, IP], &[IP, RSP, RAX], Flow::IndirectCall),
        (&[RSP, IP], &[RSP], Flow::Return),
    ];
    for (written, read, flow) in kinds {
        let content = [branch(0x1000, true, written, read), record(0x2000, &[], &[], &[], &[])].concat();
        let (blocks, _) = executed(&content);
        assert_eq!(blocks[&0].instructions[0].flow, flow);
    }
}

#[test]
fn a_return_tells_the_length_of_its_call() {
    let call = |length: u64| {
        [
            branch(0x1000, true, &[RSP, IP], &[IP, RSP, RAX]),
            branch(0x2000, true, &[RSP, IP], &[RSP]),
            record(0x1000 + length, &[], &[], &[], &[]),
        ]
        .concat()
    };
    let (blocks, executed) = executed(&[call(7), call(7)].concat());
    let length = |place: usize| blocks[&executed[place].1].bytes;
    assert_eq!((length(0), length(3)), (2, 7), "assumed, then known");
}

#[test]
fn registers_that_form_an_address_are_told_from_data() {
    let described = |record: [u8; 64]| {
        let (blocks, _) = executed(&record);
        let one = blocks[&0].instructions[0].clone();
        (one.class, one.operands[0].address, one.reads, one.writes)
    };
    let none = Registers::EMPTY;
    // add (%rdi), %rax; add (%rax), %rax.
    let add = record(1, &[RAX, FLAGS], &[RDI, RAX], &[0x8000], &[]);
    assert_eq!(described(add), (Class::Integer, set([0]), set([7]), set([7, 16])));
    let add = record(1, &[RAX, FLAGS], &[RAX], &[0x8000], &[]);
    assert_eq!(described(add), (Class::Integer, set([7]), none, set([7, 16])));
    // mov (%rax,%rdi), %rax
    let load = record(1, &[RAX], &[RAX, RDI], &[0x8000], &[]);
    assert_eq!(described(load), (Class::LoadStore, set([0, 7]), none, set([7])));
    // mulsd (%rdi), %xmm0; movsd %xmm0, (%rdi)
    let multiply = record(1, &[XMM0], &[XMM0, RDI], &[0x8000], &[]);
    assert_eq!(described(multiply), (Class::VectorInteger, set([0]), set([17]), set([17])));
    let store = record(1, &[], &[XMM0, RDI], &[], &[0x8000]);
    assert_eq!(described(store), (Class::LoadStore, set([0]), set([17]), none));
    // push %rax; pop %rax
    let push = record(1, &[RSP], &[RSP, RAX], &[], &[0x8000]);
    assert_eq!(described(push), (Class::LoadStore, none, set([7]), none));
    let pop = record(1, &[RSP, RAX], &[RSP], &[0x8000], &[]);
    assert_eq!(described(pop), (Class::LoadStore, none, none, set([7])));
}

#[test]
fn what_does_not_follow_in_memory_ends_a_block() {
    // A repeated instruction, a handler of a signal, a long run.
    let at = |ip: u64| record(ip, &[RAX], &[RAX], &[], &[]);
    let long: Vec<_> = (0..100).flat_map(|number| at(0x9000 + number * 4)).collect();
    let content = [&at(0x1000)[..], &at(0x1000), &at(0x1004), &at(0x5000), &long].concat();
    let (blocks, executed) = executed(&content);
    let found: Vec<_> = executed.iter().map(|one| (one.0, blocks[&one.1].instructions.len())).collect();
    assert_eq!(found, [(0x1000, 1), (0x1000, 2), (0x5000, 1), (0x9000, 64), (0x9100, 36)]);
    assert_eq!(blocks[&0].instructions[0].flow, Flow::Repeat);
}

/// A record of few addresses and registers, so that branches, calls and blocks come again.
fn any_record() -> impl Strategy<Value = [u8; 64]> {
    let register = || prop::sample::select(&[0, RDI, RSP, RAX, FLAGS, IP, XMM0, 255][..]);
    let address = || prop::sample::select(&[0, 0, 0, 0x8000, 0x8001, 0x9008][..]);
    let ip = prop::sample::select(&[0, 1, 4, 8, 15, 16, u64::MAX - 3, 0xffff_8000_0000_0000][..]);
    let registers = (vec(register(), 2), vec(register(), 4));
    (ip, registers, vec(address(), 4), vec(address(), 2), 0..3_u8).prop_map(
        |(ip, (written, read), loads, stores, branch)| {
            let mut record = record(ip, &written, &read, &loads, &stores);
            record[8..10].copy_from_slice(&[u8::from(branch > 0), u8::from(branch > 1)]);
            record
        },
    )
}

proptest! {
    #[test]
    fn any_records_become_blocks_with_all_their_accesses(records in vec(any_record(), 1..200)) {
        let content = records.concat();
        let (batches, result, _) = read("t", &content, Format::ChampSim);
        result.unwrap();
        batches.iter().for_each(|batch| batch.check().unwrap());
        prop_assert_eq!(instructions(&batches), records.len() as u64);
        let expected: Vec<Access> = records
            .iter()
            .flat_map(|record| {
                let addresses = |range: std::ops::Range<usize>, write: bool| {
                    let words = record[range].as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
                    let size = |at: u64| 1 << at.trailing_zeros().min(3);
                    let access = move |at| if write { store(at, size(at)) } else { load(at, size(at)) };
                    words.filter(|&at| at != 0).map(access).collect::<Vec<_>>()
                };
                [addresses(32..64, false), addresses(16..32, true)].concat()
            })
            .collect();
        prop_assert_eq!(accesses(&batches), expected);
        let mut known = 0;
        for batch in &batches {
            let mut codes = batch.marks.iter().filter(|mark| matches!(mark.event, Event::Code(_))).peekable();
            for (place, one) in batch.blocks.iter().enumerate() {
                while codes.next_if(|mark| mark.blocks as usize <= place).is_some() {
                    known += 1;
                }
                prop_assert!(one.block.0 < known, "a block is described before its execution");
            }
        }
    }
}

#[test]
fn a_trace_whose_blocks_are_not_wanted_has_the_same_accesses_and_counts() {
    use pagewalk_trace::Source;
    use pagewalk_trace::foreign::{ForeignSource, TraceSource};
    let content: Vec<u8> =
        (0..30_000).flat_map(|number| round(0x9000 + number * 8, number % 40 != 39)).collect();
    let taken = |makes_blocks: bool| {
        let reader = Box::new(std::io::Cursor::new(content.clone()));
        let mut source = ForeignSource::from_reader(reader, "t", Format::ChampSim).unwrap();
        if !makes_blocks {
            source.make_no_blocks();
        }
        assert_eq!(source.info().gives_blocks, makes_blocks);
        let (mut accesses, mut instructions, mut blocks) = (Vec::new(), 0, 0);
        let mut sink = |batch: &mut Batch| {
            accesses.extend(batch.accesses.iter().copied());
            blocks += batch.blocks.len();
            for mark in &batch.marks {
                instructions += if let Event::Instructions(count) = mark.event { count } else { 0 };
            }
            std::ops::ControlFlow::Continue(())
        };
        source.run(&mut sink).unwrap();
        assert_eq!(blocks > 0, makes_blocks);
        (accesses, instructions)
    };
    assert_eq!(taken(true), taken(false));
}
