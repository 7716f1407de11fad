//! Instructions a second: an integer loop, and random loads of 64 MiB in 4 KiB pages with Sv39 on.

use std::time::Instant;

use pagewalk_riscv::{Config, Host, Image, InProcess, Machine, RAM_BASE};

const ROUNDS: usize = 5;
const INSTRUCTIONS: u64 = 200_000_000;
/// Where the loads go, from the beginning of memory.
const AREA: u64 = 64 << 20;
const AREA_BYTES: u64 = 64 << 20;

const fn i(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (imm as u32) << 20
}

const fn r(funct7: u32, funct3: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    0x33 | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | funct7 << 25
}

/// A jump of so many instructions.
const fn jump(by: i32) -> u32 {
    let offset = (4 * by) as u32;
    0x6f | (offset >> 12 & 0xff) << 12
        | (offset >> 11 & 1) << 20
        | (offset >> 1 & 0x3ff) << 21
        | (offset >> 20 & 1) << 31
}

/// x6 goes on at random: x6 ^= x6 << 13, >> 7, << 17.
const RANDOM: [u32; 6] = [
    i(0x13, 1, 7, 6, 13),
    r(0, 4, 6, 6, 7),
    i(0x13, 5, 7, 6, 7),
    r(0, 4, 6, 6, 7),
    i(0x13, 1, 7, 6, 17),
    r(0, 4, 6, 6, 7),
];

fn machine(words: &[u32]) -> Machine {
    let host = RAM_BASE + (48 << 20);
    let image = Image::of_words(RAM_BASE, words, host, host + 64);
    Machine::new(&Config::default(), &image, Box::new(InProcess::new()), Host::silent()).expect("a machine")
}

fn integer_loop() -> Machine {
    let mut words = vec![i(0x13, 0, 6, 0, 1)];
    words.extend(RANDOM);
    words.extend([r(0, 0, 8, 8, 6), jump(-7)]);
    machine(&words)
}

fn random_loads() -> Machine {
    const PAGE: u64 = 4_096;
    let pages = (AREA_BYTES / PAGE) as usize;
    let [root, middle, leaves] = [1, 2, 3].map(|page| RAM_BASE + page * PAGE);
    let mut bytes = vec![0u8; 3 * PAGE as usize + 8 * pages];
    let mut put = |addr: u64, entry: u64| {
        let at = (addr - RAM_BASE) as usize;
        bytes[at..at + 8].copy_from_slice(&entry.to_le_bytes());
    };
    // Virtual 0 is the area, in pages; memory where it is, in one.
    put(root, middle >> 12 << 10 | 1);
    put(root + 2 * 8, RAM_BASE >> 12 << 10 | 0xcf);
    for table in 0..pages as u64 / 512 {
        put(middle + 8 * table, (leaves + table * PAGE) >> 12 << 10 | 1);
    }
    for page in 0..pages as u64 {
        put(leaves + 8 * page, (RAM_BASE + AREA + page * PAGE) >> 12 << 10 | 0xc7);
    }
    let (csrw, satp, mepc, mstatus) = (0x1073, 0x180, 0x341, 0x300);
    let mut code = vec![
        // satp = 8 << 60 | root's frame: RAM_BASE >> 12, and 1.
        i(0x13, 0, 5, 0, 1),
        i(0x13, 1, 5, 5, 19),
        i(0x13, 0, 5, 5, 1),
        i(0x13, 0, 7, 0, 8),
        i(0x13, 1, 7, 7, 60),
        r(0, 6, 5, 5, 7),
        csrw | 5 << 15 | satp << 20,
        // Supervisor mode behind the return.
        i(0x13, 0, 5, 0, 1),
        i(0x13, 1, 5, 5, 11),
        csrw | 5 << 15 | mstatus << 20,
        0x17 | 5 << 7,
        i(0x13, 0, 5, 5, 16),
        csrw | 5 << 15 | mepc << 20,
        0x3020_0073,
        // x9 = the area's mask, of words.
        i(0x13, 0, 9, 0, -8),
        i(0x13, 1, 9, 9, 38),
        i(0x13, 5, 9, 9, 38),
        i(0x13, 0, 6, 0, 1),
    ];
    code.extend(RANDOM);
    code.extend([r(0, 7, 7, 6, 9), i(0x03, 3, 8, 7, 0), r(0, 0, 10, 10, 8), jump(-9)]);
    for (at, word) in code.iter().enumerate() {
        bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four"))).collect();
    machine(&words)
}

/// What is run, how it is made, and how fast it must be.
type Kind = (&'static str, fn() -> Machine, f64);

fn main() {
    println!("million instructions a second, median of {ROUNDS}");
    let kinds: [Kind; 2] = [
        ("integer loop", integer_loop, 80.0),
        ("random loads of 64 MiB, Sv39, one of ten instructions", random_loads, 30.0),
    ];
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for ((_, make, _), times) in kinds.iter().zip(&mut times) {
            let mut machine = make();
            let begun = Instant::now();
            assert_eq!(machine.run(INSTRUCTIONS), None);
            times.push(INSTRUCTIONS as f64 / begun.elapsed().as_secs_f64() / 1e6);
            let counts = machine.counts();
            assert_eq!(counts.traps, 0, "a loop, and nothing else");
        }
    }
    for ((name, _, target), mut times) in kinds.into_iter().zip(times) {
        times.sort_by(f64::total_cmp);
        println!("{name:<56} {:>6.0} (target {target})", times[ROUNDS / 2]);
    }
}
