//! The decoder and the assembler against everything that could come in.

use std::ops::ControlFlow;

use pagewalk_capture::protocol::{
    Body, HEADER_BYTES, KnownBlock, MAGIC, MESSAGE_BYTES_MAX, Message, VERSION, decode,
};
use pagewalk_capture::{Assembler, ProtocolError};
use pagewalk_trace::{
    Access, Batch, BlockId, Code, Event, Executed, Isa, Mapping, Mark, ProcessId, ThreadId,
};
use pagewalk_vm::addr::{VirtAddr, VirtRange};
use proptest::prelude::*;

use crate::common;

fn message(kind: u16, pid: u32, thread: u32, instructions: u64, payload: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(pid.to_le_bytes());
    bytes.extend(thread.to_le_bytes());
    bytes.extend((payload.len() as u32 * 8).to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(instructions.to_le_bytes());
    bytes.extend(payload.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

#[test]
fn damaged_messages_are_refused_by_name() {
    let good = message(9, 1, 1, 0, &[0x1000, 0x2000]);
    assert!(matches!(decode(&good), Ok(Message { pid: 1, thread: 1, body: Body::Unmap(_) })));
    for bytes in 0..HEADER_BYTES {
        assert_eq!(decode(&good[..bytes]), Err(ProtocolError::Short { bytes }));
    }
    for bytes in HEADER_BYTES..good.len() {
        assert!(matches!(decode(&good[..bytes]), Err(ProtocolError::Length { kind: 9, announced: 16, .. })));
    }
    let altered = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    assert!(matches!(decode(&altered(0, 0)), Err(ProtocolError::Magic { .. })));
    assert!(matches!(decode(&altered(4, 9)), Err(ProtocolError::Version { found: 9 })));
    assert!(matches!(decode(&altered(6, 200)), Err(ProtocolError::Kind { kind: 200 })));
    assert!(matches!(decode(&altered(6, 10)), Err(ProtocolError::Words { kind: 10, words: 2, expected: 3 })));
    assert!(matches!(decode(&altered(12, 0)), Err(ProtocolError::NoThread { pid: 1 })));
    let long = message(2, 1, 1, 0, &vec![0; MESSAGE_BYTES_MAX / 8]);
    assert!(matches!(decode(&long), Err(ProtocolError::Length { .. })));
}

#[test]
fn records_of_no_access_are_skipped_and_strange_ones_refused() {
    let load = Access::load(VirtAddr(0x7fff_0000_1000), 8).0;
    let store = Access::store(VirtAddr(0x1234), 64).0;
    let bytes = message(2, 1, 1, 9, &[0, load, 0, 0, store, 0]);
    let Ok(Message { body: Body::Records { instructions: 9, records }, .. }) = decode(&bytes) else {
        panic!()
    };
    let mut out = Batch { accesses: vec![Access(7)], ..Batch::default() };
    assert_eq!(records.append_to(&mut out, &[]), Ok(0));
    assert_eq!(out.accesses, [Access(7), Access(load), Access(store)]);
    for word in [1 << 52, load | 1 << 54, store | 1 << 63] {
        let bytes = message(2, 1, 1, 9, &[load, word]);
        let Ok(Message { body: Body::Records { records, .. }, .. }) = decode(&bytes) else { panic!() };
        assert_eq!(records.append_to(&mut out, &[]), Err(ProtocolError::ReservedBits { word }));
        assert_eq!(out.accesses.len(), 3, "nothing was added");
    }
}

#[test]
fn a_record_may_be_a_load_and_a_store() {
    let [load, other] = [0x1000, 0x2008].map(|addr| Access::load(VirtAddr(addr), 4).0);
    let store = Access::store(VirtAddr(0x1000), 4).0;
    let both = store | 1 << 52;
    let bytes = message(2, 1, 1, 9, &[both, other, both, both, 0, store]);
    let Ok(Message { body: Body::Records { records, .. }, .. }) = decode(&bytes) else { panic!() };
    let mut out = Batch { accesses: vec![Access(7)], ..Batch::default() };
    assert_eq!(records.append_to(&mut out, &[]), Ok(0));
    assert_eq!(out.accesses, [7, load, store, other, load, store, load, store, store].map(Access));
    assert_eq!(records.count(), 6);
}

/// The record of an executed block.
fn block(number: u32) -> u64 {
    !u64::from(number)
}

/// A message that describes a block of these bytes, each an instruction, at an address.
fn code(pid: u32, number: u32, addr: u64, bytes: &[u8]) -> Vec<u8> {
    let mut payload = vec![number.into(), addr, bytes.len() as u64 | (bytes.len() as u64) << 32];
    payload.extend(bytes.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    }));
    message(19, pid, 1, 0, &payload)
}

#[test]
fn executed_blocks_come_out_between_their_accesses() {
    let [load, other] = [0x1000, 0x2008].map(|addr| Access::load(VirtAddr(addr), 4).0);
    let both = Access::store(VirtAddr(0x3000), 4).0 | 1 << 52;
    let bytes = message(2, 1, 1, 9, &[load, block(1), other, 0, both, block(0), block(0), load, block(1)]);
    let Ok(Message { body: Body::Records { records, .. }, .. }) = decode(&bytes) else { panic!() };
    let mut out = Batch { accesses: vec![Access(7)], ..Batch::default() };
    let known =
        [(40, 3), (50, 10)].map(|(block, instructions)| KnownBlock { block: BlockId(block), instructions });
    assert_eq!(records.append_to(&mut out, &known), Ok(26));
    let (read, write) = (both & !(3 << 51), both & !(1 << 52));
    assert_eq!(out.accesses, [7, load, other, read, write, load].map(Access));
    let executed = [(2, 50), (5, 40), (5, 40), (6, 50)];
    assert_eq!(out.blocks, executed.map(|(at, number)| Executed { at, block: BlockId(number) }));

    let before = out.clone();
    let refused = |out: &mut Batch, word| {
        let bytes = message(2, 1, 1, 9, &[load, word]);
        let Ok(Message { body: Body::Records { records, .. }, .. }) = decode(&bytes) else { panic!() };
        records.append_to(out, &known).unwrap_err()
    };
    assert_eq!(refused(&mut out, block(2)), ProtocolError::UnknownBlock { number: 2, blocks: 2 });
    let word = block(1) & !(1 << 40);
    assert_eq!(refused(&mut out, word), ProtocolError::ReservedBits { word });
    assert_eq!(out, before, "nothing was added");
}

#[test]
fn what_the_kernel_wrote_comes_out_between_accesses_and_blocks() {
    let written = |addr: u64| addr | 1 << 53;
    let [load, other] = [0x1000, 0x2008].map(|addr| Access::load(VirtAddr(addr), 4).0);
    let words =
        [written(0x5000), written(0x6001), load, block(0), other, written(0x7ff8), written(0x7ff8), block(0)];
    let known = [KnownBlock { block: BlockId(4), instructions: 3 }];
    let appended = |words: &[u64], out: &mut Batch| {
        let bytes = message(2, 1, 1, 9, words);
        let Ok(Message { body: Body::Records { records, .. }, .. }) = decode(&bytes) else { panic!() };
        records.append_to(out, &known)
    };
    let mut out = Batch::new();
    assert_eq!(appended(&words, &mut out), Ok(6));
    assert_eq!(out.accesses, [load, other].map(Access));
    assert_eq!(out.blocks, [1, 2].map(|at| Executed { at, block: BlockId(4) }));
    let range = |start, end| Event::KernelWrite(VirtRange::new(VirtAddr(start), VirtAddr(end)));
    let marks = [(0, 0, range(0x5000, 0x6001)), (2, 1, range(0x7ff8, 0x7ff8))];
    assert_eq!(out.marks, marks.map(|(at, blocks, event)| Mark { at, blocks, event }));
    out.check().expect("a batch as its contract says");

    let before = out.clone();
    let wrong = |word| Err(ProtocolError::KernelWrite { word });
    for (words, word) in [
        (&[load, written(0x5000)][..], written(0x5000)),
        (&[load, written(0x5000), other], other),
        (&[load, written(0x5000), written(0x4000)], written(0x4000)),
        (&[written(1), written(2), load, written(3) | 1 << 51, written(4)], written(3) | 1 << 51),
        (&[written(1), written(2) | 1 << 62, load], written(2) | 1 << 62),
    ] {
        assert_eq!(appended(words, &mut out), wrong(word), "{words:x?}");
        assert_eq!(out, before, "nothing was added");
    }
}

#[test]
fn blocks_have_numbers_of_their_own_in_each_process() {
    let mut batches = Vec::new();
    let mut sink = |batch: &mut Batch| {
        batches.push(batch.clone());
        ControlFlow::Continue(())
    };
    let mut assembler = Assembler::new(true);
    for bytes in [
        message(1, 10, 1, 0, &[]),
        code(10, 0, 0x1000, &[0x90; 9]),
        message(2, 10, 1, 9, &[block(0), block(0)]),
        message(4, 10, 1, 0, &[1]),
        message(6, 20, 1, 0, &[10, 1]),
        code(20, 1, 0x3000, &[0xc3]),
        code(10, 1, 0x2000, &[0x90]),
        message(2, 20, 1, 2, &[block(0), block(1)]),
        message(2, 10, 1, 1, &[block(1)]),
        message(1, 10, 1, 0, &[]), // the parent executes another program
        code(10, 0, 0x4000, &[0x90]),
        message(2, 10, 1, 1, &[block(0)]),
    ] {
        let message = decode(&bytes).expect("a message");
        assert!(assembler.take(&message, &mut sink).expect("a sound one").is_continue());
    }
    assert!(assembler.finish(&mut sink).is_continue());
    let mut executed = Vec::new();
    for batch in &batches {
        batch.check().expect("a batch as its contract says");
        executed.extend(batch.blocks.iter().map(|block| block.block.0));
    }
    assert_eq!(executed, [0, 0, 0, 1, 2, 3]);
    // Two executions of nine instructions, which the message counted as well.
    assert_eq!(assembler.instructions(), (2 * 9 + 9) + (9 + 1 + 2) + (1 + 1) + (1 + 1));
    let marks = batches.iter().flat_map(|batch| &batch.marks);
    let blocks: Vec<(u32, u64, Isa, usize)> = marks
        .filter_map(|mark| match &mark.event {
            Event::Code(Code { block, addr, isa, bytes }) => Some((block.0, addr.0, *isa, bytes.len())),
            _ => None,
        })
        .collect();
    let x86 = Isa::X86_64;
    assert_eq!(blocks, [(0, 0x1000, x86, 9), (1, 0x3000, x86, 1), (2, 0x2000, x86, 1), (3, 0x4000, x86, 1)]);
}

#[test]
fn blocks_that_are_not_described_as_blocks_are_refused() {
    let start = message(1, 10, 1, 0, &[]);
    let refusal = |bytes: Vec<u8>| assemble(&[start.clone(), bytes]).err().expect("a refusal");
    assert_eq!(refusal(code(10, 1, 0, &[0x90])), ProtocolError::BlockOrder { number: 1, blocks: 0 });
    let bad = |bytes, isa, payload| ProtocolError::Code { bytes, isa, payload };
    assert_eq!(refusal(code(10, 0, 0, &[])), bad(0, 0, 0));
    assert_eq!(refusal(message(19, 10, 1, 0, &[0, 0, 8])), bad(8, 0, 0));
    assert_eq!(refusal(message(19, 10, 1, 0, &[0, 0, 8, 0, 0])), bad(8, 0, 16));
    assert_eq!(refusal(message(19, 10, 1, 0, &[4 << 32, 0, 8, 0])), bad(8, 4, 8));
    assert_eq!(refusal(message(19, 10, 1, 0, &[0, 0, u64::MAX, 0])), bad(u32::MAX, 0, 8));
    assert_eq!(refusal(code(10, 0, 0, &[0x90; 16_385])), bad(16_385, 0, 16_392));
    let short = ProtocolError::Words { kind: 19, words: 2, expected: 3 };
    assert_eq!(refusal(message(19, 10, 1, 0, &[0, 0])), short);
}

/// Feeds messages to an assembler; the unrolled stream, or the first error.
fn assemble(messages: &[Vec<u8>]) -> Result<common::Stream, ProtocolError> {
    let mut unroll = common::Unroll::new(true);
    let mut sink = |batch: &mut Batch| {
        unroll.batch(batch);
        ControlFlow::Continue(())
    };
    let mut assembler = Assembler::new(true);
    for bytes in messages {
        let _ = assembler.take(&decode(bytes)?, &mut sink)?;
    }
    let _ = assembler.finish(&mut sink);
    let (accesses, instructions) = (assembler.accesses(), assembler.instructions());
    assert_eq!(accesses, unroll.stream.accesses.len() as u64);
    assert_eq!(instructions, unroll.stream.instructions);
    Ok(unroll.stream)
}

#[test]
fn a_reused_process_number_is_a_new_process() {
    let record = Access::load(VirtAddr(0x1000), 4).0;
    let stream = assemble(&[
        message(1, 10, 1, 0, &[]),
        message(4, 10, 1, 0, &[1]),
        message(6, 20, 1, 0, &[10, 1]),
        message(2, 20, 1, 5, &[record]),
        message(4, 10, 1, 0, &[2]),
        message(6, 20, 1, 0, &[10, 2]), // 20 was killed; its number came round again
        message(2, 20, 1, 5, &[record]),
        message(4, 10, 1, 0, &[3]),
        message(5, 10, 1, 0, &[3]), // this fork failed
        message(7, 10, 1, 0, &[]),
    ])
    .expect("a stream");
    let whose: Vec<ProcessId> = stream.accesses.iter().map(|&(process, _, _)| process).collect();
    assert_eq!(whose, [ProcessId(1), ProcessId(2)]);
    let ends: Vec<ProcessId> =
        stream.events.iter().filter(|(_, _, _, e)| *e == Event::ProcessEnd).map(|&(_, p, _, _)| p).collect();
    assert_eq!(ends, [1, 3, 0, 2].map(ProcessId));
}

/// `mlockall(MCL_FUTURE)` is about mappings that come later, of that process alone and until it says otherwise; files have
/// the numbers in which they came up.
#[test]
fn locks_and_files_become_events_of_their_own() {
    let map = |pid: u32, start: u64, flags: u64, file: [u64; 3]| {
        message(8, pid, 1, 0, &[start, 0x2000, 3, flags, file[0], file[1], file[2]])
    };
    let (private, populate, locked, nonblock) = (2, 0x8000, 0x2000, 0x1_0000);
    let stream = assemble(&[
        message(1, 10, 1, 0, &[]),
        map(10, 0x10000, private, [8, 77, 0x3000]),
        map(10, 0x20000, private | populate, [8, 78, 0]),
        map(10, 0x30000, private | populate | nonblock, [8, 77, 0]),
        map(10, 0x40000, private | locked, [0, 0, 0]),
        message(15, 10, 1, 0, &[2 | 4]), // MCL_FUTURE | MCL_ONFAULT
        map(10, 0x50000, private, [0, 0, 0]),
        message(4, 10, 1, 0, &[1]),
        message(6, 20, 1, 0, &[10, 1]),
        map(20, 0x60000, private, [0, 0, 0]), // locks are not inherited
        message(13, 10, 1, 0, &[0x70000, 0x72000]),
        message(15, 10, 1, 0, &[0]), // munlockall
        map(10, 0x80000, private, [0, 0, 0]),
        message(14, 10, 1, 0, &[0x80000, 0x1000, 1]),
    ])
    .expect("a stream");
    let seen: Vec<String> = stream
        .events
        .iter()
        .filter_map(|(_, process, _, event)| match event {
            Event::Map(Mapping { range, object: Some(of), .. }) => {
                Some(format!("{} map {:#x} of {} from {}", process.0, range.start.0, of.object.0, of.first))
            }
            Event::Advise(range, advice) => Some(format!("{} {advice:?} {:#x}", process.0, range.start.0)),
            _ => None,
        })
        .collect();
    let expected = [
        "0 map 0x10000 of 0 from 3",
        "0 map 0x20000 of 1 from 0",
        "0 Populate 0x20000",
        "0 map 0x30000 of 0 from 0",
        "0 Lock 0x40000",
        "0 LockOnFault 0x50000",
        "0 LockOnFault 0x70000",
        "0 Unlock 0x0",
        "0 Lock 0x80000",
    ];
    assert_eq!(seen, expected);
    let unknown = decode(&message(14, 10, 1, 0, &[0, 1, 3])).map(|_| ());
    assert_eq!(unknown, Err(ProtocolError::Locking { how: 3 }));
}

#[test]
fn processes_that_never_began_are_refused() {
    let unknown = assemble(&[message(2, 10, 1, 0, &[])]).err();
    assert_eq!(unknown, Some(ProtocolError::UnknownProcess { pid: 10 }));
    let unannounced = assemble(&[message(1, 10, 1, 0, &[]), message(6, 11, 1, 0, &[10, 1])]).err();
    assert_eq!(unannounced, Some(ProtocolError::UnknownFork { pid: 11, parent: 10, ticket: 1 }));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn any_message_behind_a_right_header_decodes_or_fails(
        kind in 0u16..16, thread in 0u32..3, payload in prop::collection::vec(any::<u64>(), 0..8),
    ) {
        let bytes = message(kind, 1, thread, 3, &payload);
        if let Ok(Message { body: Body::Records { records, .. }, .. }) = decode(&bytes) {
            prop_assert_eq!(records.count(), payload.len());
        }
    }

    #[test]
    fn records_become_what_they_stand_for(
        payload in prop::collection::vec(prop_oneof![Just(0), any::<u64>().prop_map(|w| w >> 11)], 0..12),
        strange in prop::option::weighted(0.1, any::<u64>()),
    ) {
        const WRITE: u64 = 1 << 51;
        const BEFORE: u64 = 1 << 52;
        // Bit 52 goes with the write flag.
        let good = payload.iter().map(|&w| if w & WRITE == 0 { w & !BEFORE } else { w });
        let words: Vec<u64> = good.chain(strange).collect();
        let mut expected = vec![Access(7)];
        let mut is_wrong = false;
        for &word in &words {
            match (word >> 53, word & BEFORE != 0, word & WRITE != 0) {
                (0, false, _) if word == 0 => {}
                (0, false, _) => expected.push(Access(word)),
                (0, true, true) => expected.extend([word & !BEFORE & !WRITE, word & !BEFORE].map(Access)),
                _ => is_wrong = true,
            }
        }
        let bytes = message(2, 1, 1, 3, &words);
        let Ok(Message { body: Body::Records { records, .. }, .. }) = decode(&bytes) else { panic!() };
        let mut out = Batch { accesses: vec![Access(7)], ..Batch::default() };
        prop_assert_eq!(records.append_to(&mut out, &[]).is_err(), is_wrong);
        prop_assert_eq!(out.accesses, if is_wrong { vec![Access(7)] } else { expected });
    }

    #[test]
    fn records_keep_their_order_process_and_thread(
        runs in prop::collection::vec((0u32..3, 1u32..4, 0usize..9_000, any::<u16>()), 1..12),
    ) {
        let mut messages: Vec<Vec<u8>> = (0..3).map(|pid| message(1, 100 + pid, 1, 0, &[])).collect();
        let mut expected = Vec::new();
        for (n, &(pid, thread, count, instructions)) in runs.iter().enumerate() {
            let count = count.min(8_192);
            let records: Vec<u64> = (0..count).map(|i| Access::load(VirtAddr((n * 10_000 + i + 1) as u64), 1).0).collect();
            expected.extend(records.iter().map(|&r| (ProcessId(pid), ThreadId(thread), Access(r))));
            messages.push(message(2, 100 + pid, thread, u64::from(instructions), &records));
            if n % 3 == 0 {
                messages.push(message(9, 100 + pid, thread, 0, &[4096, 4096]));
            }
        }
        let stream = assemble(&messages).expect("a stream");
        prop_assert_eq!(stream.accesses, expected);
        prop_assert_eq!(stream.instructions, runs.iter().map(|r| u64::from(r.3)).sum::<u64>());
    }
}
