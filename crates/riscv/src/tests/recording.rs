use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use pagewalk_trace::{Batch, Code, Event, Isa, ProcessId};

use super::asm::{addi, i, jal, ld, lui, sd};
use super::{RAM_BASE, machine_of};
use crate::remote::InProcess;
use crate::{Config, End, Machine};

/// What was recorded: (process, instructions of its part, accesses as address, bytes, write).
type Part = (u32, u64, Vec<(u64, u64, bool)>);

fn recorded(machine: &mut Machine) -> Rc<RefCell<Vec<Part>>> {
    let parts = Rc::new(RefCell::new(Vec::new()));
    let sink = parts.clone();
    machine.record(Box::new(move |batch: &mut Batch| {
        let mut parts = sink.borrow_mut();
        let mut process = parts.last().map_or(0, |&(process, ..): &Part| process);
        let mut marks = batch.marks.iter().peekable();
        for (at, access) in batch.accesses.iter().enumerate() {
            while let Some(mark) = marks.next_if(|mark| mark.at as usize <= at) {
                match mark.event {
                    Event::Process(ProcessId(number)) => process = number,
                    Event::Instructions(count) => parts.push((process, count, Vec::new())),
                    Event::Code(_) => {}
                    _ => panic!("{mark:?}"),
                }
            }
            let part = parts.last_mut().expect("the first access is behind a count");
            part.2.push((access.addr().0, access.bytes(), access.is_write()));
        }
        ControlFlow::Continue(())
    }));
    parts
}

/// amoadd.w, lr.d, sc.d.
fn atomic(funct5: u32, funct3: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    0x2f | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | funct5 << 27
}

#[test]
fn loads_stores_and_atomics_are_recorded_in_order() {
    let data = RAM_BASE + 0x1000;
    let words = [
        lui(5, 0x80001),
        // 0xffffffff80001000 to 0x80001000
        i(0x13, 1, 5, 5, 32),
        i(0x13, 5, 5, 5, 32),
        sd(5, 5, 8),
        ld(6, 5, 8),
        atomic(0, 2, 7, 5, 6),
        atomic(2, 3, 7, 5, 0),
        atomic(3, 3, 7, 5, 6),
        // Fails: the reservation is gone.
        atomic(3, 3, 7, 5, 6),
        // Across two pages.
        sd(5, 5, -4),
        // A device: not memory.
        lui(8, 0x2000),
        ld(9, 8, 0),
        addi(5, 5, 0),
        jal(0, 0),
    ];
    let mut machine = machine_of(&Config::default(), &words, InProcess::new());
    let parts = recorded(&mut machine);
    assert_eq!(machine.run(words.len() as u64), None);
    machine.finish_recording();
    let expected = vec![
        (data + 8, 8, true),
        (data + 8, 8, false),
        (data, 4, false),
        (data, 4, true),
        (data, 8, false),
        (data, 8, true),
        (data - 4, 4, true),
        (data, 4, true),
    ];
    assert_eq!(*parts.borrow(), [(0, words.len() as u64, expected)]);
}

#[test]
fn every_address_space_is_a_process() {
    let mut machine = machine_of(&Config::default(), &[0], InProcess::new());
    // The same page by itself, in two address spaces with one table.
    let root = RAM_BASE + 0x10_000;
    machine.put(root + 2 * 8, (RAM_BASE >> 12) << 10 | 0xcf);
    let parts = recorded(&mut machine);
    let satp = |asid: u64| 8 << 60 | asid << 44 | root >> 12;
    for (asid, value) in [(None, 1), (Some(1), 2), (Some(2), 3), (Some(1), 4)] {
        machine.in_mode(crate::Mode::Machine);
        if let Some(asid) = asid {
            machine.csrs.write(0x180, satp(asid));
            machine.in_mode(crate::Mode::Supervisor);
        }
        machine.retired += 10;
        machine.store(RAM_BASE + 0x2000, 8, value).unwrap();
        machine.load(RAM_BASE + 0x2000, 4).unwrap();
    }
    machine.finish_recording();
    let pair = vec![(RAM_BASE + 0x2000, 8, true), (RAM_BASE + 0x2000, 4, false)];
    let expected: Vec<Part> =
        [(0, 20), (1, 10), (2, 10), (1, 0)].map(|(process, count)| (process, count, pair.clone())).into();
    assert_eq!(*parts.borrow(), expected);
}

/// A loop that stores a number, loads it and adds one.
fn counting() -> [u32; 7] {
    [
        lui(5, 0x80001),
        i(0x13, 1, 5, 5, 32),
        i(0x13, 5, 5, 5, 32),
        sd(6, 5, 0),
        ld(6, 5, 0),
        addi(6, 6, 1),
        jal(0, -12),
    ]
}

#[test]
fn recording_changes_nothing_and_can_be_stopped() {
    let run = |sink: Option<ControlFlow<()>>| {
        let mut machine = machine_of(&Config::default(), &counting(), InProcess::new());
        if let Some(flow) = sink {
            machine.record(Box::new(move |_: &mut Batch| flow));
        }
        (machine.run(100_003), machine.counts(), machine.registers())
    };
    assert_eq!(run(None), run(Some(ControlFlow::Continue(()))));
    let (end, counts, _) = run(Some(ControlFlow::Break(())));
    assert_eq!(end, Some(End::RecordingStopped));
    assert!(counts.instructions < 20_000, "{counts:?}");
}

/// What was recorded of blocks: their descriptions, and each execution with its number and its accesses.
type Blocks = (Vec<Code>, Vec<(u32, usize)>);

fn recorded_blocks(machine: &mut Machine) -> Rc<RefCell<Blocks>> {
    let blocks = Rc::new(RefCell::new(Blocks::default()));
    let sink = blocks.clone();
    machine.record(Box::new(move |batch: &mut Batch| {
        batch.check().unwrap();
        let (codes, executed) = &mut *sink.borrow_mut();
        codes.extend(batch.marks.iter().filter_map(|mark| match &mark.event {
            Event::Code(code) => Some(code.clone()),
            _ => None,
        }));
        let ends = batch.blocks.iter().skip(1).map(|next| next.at as usize).chain([batch.accesses.len()]);
        let accesses =
            batch.blocks.iter().zip(ends).map(|(block, end)| (block.block.0, end - block.at as usize));
        executed.extend(accesses);
        ControlFlow::Continue(())
    }));
    blocks
}

#[test]
fn executed_blocks_are_recorded_with_their_bytes() {
    let words = counting();
    let mut machine = machine_of(&Config::default(), &words, InProcess::new());
    let blocks = recorded_blocks(&mut machine);
    assert_eq!(machine.run(7 + 2 * 4), None);
    machine.finish_recording();
    let (codes, executed) = &*blocks.borrow();
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let found: Vec<_> =
        codes.iter().map(|code| (code.block.0, code.addr.0, code.isa, &code.bytes[..])).collect();
    let (all, round) = (bytes(&words), bytes(&words[3..]));
    assert_eq!(found, [(0, RAM_BASE, Isa::Riscv64, &all[..]), (1, RAM_BASE + 12, Isa::Riscv64, &round[..])]);
    assert_eq!(*executed, [(0, 2), (1, 2), (1, 2)]);
}

#[test]
fn code_that_changes_is_another_block_and_code_that_comes_back_is_not() {
    // Each round swaps an instruction of the loop with one that stands behind it.
    let (first, second) = (addi(6, 6, 1), addi(6, 6, 2));
    let words = [
        // auipc x5, 0
        0x0000_0297,
        i(0x03, 2, 7, 5, 28),
        i(0x03, 2, 8, 5, 32),
        0x23 | 28 << 7 | 2 << 12 | 5 << 15 | 8 << 20,
        0x23 | 1 << 25 | 2 << 12 | 5 << 15 | 7 << 20,
        // fence.i
        0x0000_100f,
        jal(0, 4),
        first,
        second,
        jal(0, -36),
    ];
    let mut machine = machine_of(&Config::default(), &words, InProcess::new());
    let blocks = recorded_blocks(&mut machine);
    assert_eq!(machine.run(8 * 10), None);
    machine.finish_recording();
    let (codes, _) = &*blocks.borrow();
    let at = |offset: u64| codes.iter().filter(move |code| code.addr.0 == RAM_BASE + offset).count();
    assert_eq!(at(28), 2, "two contents of the changed block");
    assert!(codes.len() < 12, "{codes:?}");
}
