//! The blocks that drmemtrace's traces execute, whose instructions have bytes.

use pagewalk_trace::foreign::{Format, Kind, ReadOptions};
use pagewalk_trace::{Batch, Event, Isa, open};

use crate::common::*;

/// The type of a trace of x86-64 with encodings.
const WITH_BYTES: u64 = 0xe40;
const CODE: u64 = 0x40_1000;
const DATA: u64 = 0x7f00_0000_0000;

/// An instruction with its bytes in front of it if it is the first of its address.
fn fetch(kind: u16, addr: u64, bytes: &[u8], is_new: bool) -> Vec<u8> {
    let mut parts = Vec::new();
    for part in bytes.chunks(8).take(if is_new { 2 } else { 0 }) {
        let mut value = [0; 8];
        value[..part.len()].copy_from_slice(part);
        parts.extend(entry(47, part.len() as u16, u64::from_le_bytes(value)));
    }
    parts.extend(entry(kind, bytes.len() as u16, addr));
    parts
}

/// mov (%rdi), %rdi; dec %rcx; jne back.
fn round(is_new: bool, data: u64) -> Vec<u8> {
    [
        fetch(10, CODE, &[0x48, 0x8b, 0x3f], is_new),
        entry(0, 8, data).to_vec(),
        fetch(10, CODE + 3, &[0x48, 0xff, 0xc9], is_new),
        fetch(48, CODE + 6, &[0x75, 0xf8], is_new),
    ]
    .concat()
}

fn trace(file_type: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    [drmemtrace_head(file_type, 501, 500), parts.concat(), drmemtrace_tail(501)].concat()
}

/// The descriptions of blocks, address and bytes, and the executions: number and accesses.
type Blocks = (Vec<(u64, Vec<u8>)>, Vec<(u32, usize)>);

fn blocks(batches: &[Batch]) -> Blocks {
    let (mut codes, mut executed) = Blocks::default();
    for batch in batches {
        batch.check().unwrap();
        for mark in &batch.marks {
            if let Event::Code(code) = &mark.event {
                assert_eq!((code.isa, code.block.0 as usize), (Isa::X86_64, codes.len()));
                codes.push((code.addr.0, code.bytes.to_vec()));
            }
        }
        let ends = batch.blocks.iter().skip(1).map(|next| next.at as usize).chain([batch.accesses.len()]);
        executed.extend(batch.blocks.iter().zip(ends).map(|(one, end)| (one.block.0, end - one.at as usize)));
    }
    (codes, executed)
}

#[test]
fn instructions_that_follow_one_another_are_a_block_with_their_bytes() {
    let content = trace(WITH_BYTES, &[round(true, DATA), round(false, DATA + 8), round(false, DATA + 16)]);
    let loop_bytes = vec![0x48, 0x8b, 0x3f, 0x48, 0xff, 0xc9, 0x75, 0xf8];
    let archive = zip_of(&[("chunk.00000000", &content)]);
    for (name, content) in [("t.trace", &content), ("t.trace.gz", &gzip(&content)), ("t.trace.zip", &archive)]
    {
        let folder = Folder::new();
        for path in [folder.file(name, content), folder.0.path().to_path_buf()] {
            let mut source = open(&path, Format::Auto).unwrap();
            assert!(source.info().gives_blocks, "{name}");
            let (batches, result) = collect(&mut *source);
            result.unwrap();
            assert_eq!(blocks(&batches), (vec![(CODE, loop_bytes.clone())], vec![(0, 1); 3]), "{name}");
            assert_eq!(instructions(&batches), 9);
            assert_eq!(source.remarks().left_out(Kind::Encodings), 0);
        }
    }
}

#[test]
fn traces_without_encodings_or_of_other_instruction_sets_have_no_blocks() {
    // Without encodings; AArch64; a synthetic instruction set.
    for file_type in [0xc40, 0xe08, 0x20e40] {
        let folder = Folder::new();
        let path = folder.file("t.trace", &trace(file_type, &[round(true, DATA)]));
        let mut source = open(&path, Format::Auto).unwrap();
        assert!(!source.info().gives_blocks, "{file_type:#x}");
        let (batches, result) = collect(&mut *source);
        result.unwrap();
        assert_eq!(blocks(&batches), Blocks::default());
        assert_eq!((instructions(&batches), accesses(&batches).len()), (3, 1));
        assert_eq!(source.remarks().left_out(Kind::Encodings), 3);
    }
}

#[test]
fn an_instruction_without_its_bytes_is_a_block_of_which_nothing_is_known() {
    let content =
        trace(WITH_BYTES, &[round(true, DATA), fetch(10, CODE + 8, &[0x90], false), round(false, DATA)]);
    let (batches, result, _) = read("t", &content, Format::Auto);
    result.unwrap();
    let (codes, executed) = blocks(&batches);
    assert_eq!(codes[1], (CODE + 8, Vec::new()));
    assert_eq!(executed, [(0, 1), (1, 0), (0, 1)]);
}

#[test]
fn long_instructions_and_repetitions_keep_their_accesses() {
    // movabs $0x1122334455667788, %rax; rep movsb, whose later repetitions are not fetched; nop.
    let long = [0x48, 0xb8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];
    let again = [entry(29, 2, CODE + 10), entry(0, 1, DATA + 1), entry(1, 1, DATA + 0x101)].concat();
    let parts = [
        fetch(10, CODE, &long, true),
        fetch(10, CODE + 10, &[0xf3, 0xa4], true),
        [entry(0, 1, DATA), entry(1, 1, DATA + 0x100)].concat(),
        again.clone(),
        again.repeat(3_000),
        fetch(10, CODE + 12, &[0x90], true),
    ];
    let (batches, result, _) = read("t", &trace(WITH_BYTES, &parts), Format::Auto);
    result.unwrap();
    assert_eq!((instructions(&batches), accesses(&batches).len()), (3, 6_004));
    let (codes, executed) = blocks(&batches);
    // So many accesses are more than are kept until a block is complete.
    assert_eq!(codes, [(CODE, [&long[..], &[0xf3, 0xa4]].concat()), (CODE + 12, vec![0x90])]);
    assert_eq!(executed, [(0, 6_004), (1, 0)]);
}

#[test]
fn threads_and_the_kernel_end_a_block() {
    let thread = |id: u64| [entry(22, 0, id), entry(24, 0, 500)].concat();
    let [first, second] = [0, 1].map(|half| {
        let bytes = &[[0x48, 0x8b, 0x3f], [0x48, 0xff, 0xc9]][half];
        fetch(10, CODE + 3 * half as u64, bytes, true)
    });
    let kernel = [
        entry(28, 27, 0).to_vec(),
        fetch(10, 0xffff_8000_0000_0000, &[0x90], true),
        entry(28, 28, 0).to_vec(),
    ];
    let parts = [first.clone(), thread(502), first, thread(501), second.clone(), kernel.concat(), second];
    let content = trace(WITH_BYTES, &parts);
    for kernel in [false, true] {
        let options = ReadOptions { kernel, ..ReadOptions::from(Format::Auto) };
        let folder = Folder::new();
        let mut source = open(&folder.file("t", &content), options).unwrap();
        let (batches, _) = collect(&mut *source);
        let (codes, executed) = blocks(&batches);
        let numbers: Vec<u32> = executed.iter().map(|one| one.0).collect();
        if kernel {
            assert_eq!((codes[2].0, numbers), (0x8000_0000_0000, vec![0, 0, 1, 2, 1]));
        } else {
            assert_eq!(numbers, [0, 0, 1, 1]);
        }
    }
}

#[test]
fn batches_end_where_they_end_without_blocks() {
    // Loops of changing lengths, whose blocks have several accesses.
    let load = |at: u64| {
        [fetch(10, CODE + at * 3, &[0x48, 0x8b, 0x07], true), entry(0, 8, DATA + at * 8).to_vec()].concat()
    };
    let parts: Vec<_> = (0..1_000_u64)
        .map(|number| {
            let loads: Vec<u8> = (0..number % 50).flat_map(load).collect();
            [loads, fetch(11, CODE + number % 50 * 3, &[0xeb, 0x00], true)].concat()
        })
        .collect();
    let shape = |file_type: u64| {
        let (batches, result, _) = read("t", &trace(file_type, &parts), Format::Auto);
        result.unwrap();
        let counts = |batch: &Batch| (batch.accesses.len(), instructions(std::slice::from_ref(batch)));
        (
            batches.iter().map(counts).collect::<Vec<_>>(),
            batches.iter().map(|batch| batch.blocks.len()).sum::<usize>(),
        )
    };
    let (with, blocks) = shape(WITH_BYTES);
    let (without, none) = shape(0xc40);
    assert!(with.len() > 2 && blocks > 1_000 && none == 0, "{with:?}, {blocks} blocks");
    assert_eq!(with, without);
}
