//! Any bytes as a program of the RISC-V machine: an ELF file, or instructions behind a few that make ready a page table, the
//! accelerator and a handler that passes over what traps.
//!
//! Each program runs twice, the second time with its accesses recorded, which lets every access ask the TLB: both runs must
//! do the same. A run that does not come back is a finding, too.
#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use pagewalk_fuzz::Checker;
use pagewalk_riscv::{
    Config, Counts, DeviceTimes, End, Host, Image, InProcess, Machine, Marking, Misaligned, RAM_BASE,
};
use pagewalk_trace::{Batch, Sink};
use pagewalk_vm::fault::Depths;

const MEMORY: u64 = 256 << 10;
const INSTRUCTIONS: u64 = 1_500;
const TOHOST: u64 = RAM_BASE + MEMORY - 4_096;
/// A page table whose leaves the program may write, and frames.
const ROOT: u64 = RAM_BASE + 0x10_000;
const FRAMES: u64 = RAM_BASE + 0x20_000;

fn i(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: u32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | imm << 20
}

/// A register set to a number below 2^32, in three instructions.
fn set(rd: u32, value: u64) -> [u32; 3] {
    let upper = ((value + 0x800) >> 12) as u32 & 0xf_ffff;
    let lower = value as u32 & 0xfff;
    // lui, addi, and the copies of the sign away.
    [0x37 | rd << 7 | upper << 12, i(0x13, 0, rd, rd, lower), i(0x33, 7, rd, rd, 31)]
}

fn store(rs2: u32, rs1: u32, offset: u32) -> u32 {
    0x23 | (offset & 31) << 7 | 3 << 12 | rs1 << 15 | rs2 << 20 | (offset >> 5) << 25
}

fn program(bytes: &[u8]) -> Image {
    let csrw = |csr: u32, rs1: u32| i(0x73, 1, 0, rs1, csr);
    // x31: the lowest 32 bits.
    let mut words = vec![i(0x13, 0, 31, 0, 0xfff), i(0x13, 5, 31, 31, 32)];
    let handler = 0x180u64;
    for (register, value) in [
        (5, RAM_BASE + handler),
        (6, (ROOT + 0x1000) >> 2 | 1),
        (7, (ROOT + 0x2000) >> 2 | 1),
        (8, 0x1001_7000),
        (9, 0x1001_8000),
        (10, ROOT),
        (11, ROOT + 0x1000),
        (12, ROOT + 0x2000),
        (13, RAM_BASE >> 2 | 0xcf),
        // A remote page, and where it is.
        (14, 5 << 12 | 0xc7 << 2 | 2),
        (15, 0x3000),
        (16, 0x200_4000),
        (17, TOHOST),
        (18, FRAMES),
        (19, FRAMES >> 12),
        (20, ROOT >> 12),
    ] {
        words.extend(set(register, value));
    }
    words.extend([csrw(0x305, 5), store(6, 10, 0), store(7, 11, 0), store(13, 10, 16), store(14, 12, 24)]);
    // satp, with Sv39; what is delegated stays the fuzzer's choice.
    words.extend([i(0x13, 0, 21, 0, 8), i(0x13, 1, 21, 21, 60), i(0x33, 6, 20, 20, 21), csrw(0x180, 20)]);
    let jump = words.len();
    words.push(0);
    words.resize(handler as usize / 4, 0);
    // The handler goes on behind what trapped, as the machine.
    words.extend([i(0x73, 2, 30, 0, 0x341), i(0x13, 0, 30, 30, 4), csrw(0x341, 30)]);
    words.extend([i(0x13, 0, 30, 0, 3), i(0x13, 1, 30, 30, 11), i(0x73, 2, 0, 30, 0x300), 0x3020_0073]);
    let target = words.len();
    words[jump] = 0x6f | ((target - jump) as u32 * 2 & 0x3ff) << 21;
    words.extend(bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    }));
    Image::of_words(RAM_BASE, &words, TOHOST, TOHOST + 64)
}

type Outcome = (Option<End>, Counts, (u64, [u64; 32]));

fn run(config: &Config, image: &Image, is_recorded: bool) -> Option<Outcome> {
    let mut machine = Machine::new(config, image, Box::new(InProcess::new()), Host::silent()).ok()?;
    if is_recorded {
        let mut checker = Checker { counts_instructions: true, ..Checker::default() };
        machine.record(Box::new(move |batch: &mut Batch| -> ControlFlow<()> { checker.batch(batch) }));
    }
    let end = machine.run(INSTRUCTIONS);
    machine.finish_recording();
    Some((end, machine.counts(), machine.registers()))
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, bytes)) = data.split_first() else { return };
    let depth = [1, 2, 8, 64][usize::from(how >> 1 & 3)];
    let mut config = Config::default();
    config.memory = MEMORY;
    config.marking = if how & 1 == 0 { Marking::Faults } else { Marking::Hardware };
    config.misaligned = if how & 0x40 == 0 { Misaligned::Native } else { Misaligned::Trap };
    config.keeps_invalid = how & 0x20 != 0;
    config.accelerator = (how & 0x80 == 0).then_some(Depths { free: depth, new: depth, evict: depth });
    config.times =
        DeviceTimes { fetch: u64::from(how >> 3 & 1) * 100, eviction: u64::from(how >> 4 & 1) * 1_000 };
    config.remote_pages = Some(32);
    let image = match bytes.starts_with(b"\x7fELF") {
        true => match Image::parse(bytes) {
            Ok(image) => image,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        },
        false => program(bytes),
    };
    let plain = run(&config, &image, false);
    if let Some((_, counts, _)) = &plain {
        assert!(counts.cycles >= counts.instructions);
    }
    assert_eq!(plain, run(&config, &image, true));
});
