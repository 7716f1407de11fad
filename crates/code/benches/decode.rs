//! Speed of decoding blocks.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pagewalk_code::Block;

/// The length of a block in instructions: programs have 3.5 to 5.5.
const INSTRUCTIONS: usize = 5;
const PASSES: usize = 200;
const ROUNDS: usize = 5;

/// The blocks that the instructions of the tests make, in their order.
fn blocks() -> Vec<Vec<u8>> {
    let lines = include_str!("../tests/instructions.txt").lines().filter(|line| !line.starts_with('#'));
    let bytes = |line: &str| -> Vec<u8> {
        let digits = line.split('|').next().unwrap_or_default();
        digits.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
    };
    let instructions: Vec<Vec<u8>> = lines.map(bytes).collect();
    instructions.chunks(INSTRUCTIONS).map(<[_]>::concat).collect()
}

fn main() {
    let blocks = blocks();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..PASSES {
            for block in &blocks {
                black_box(Block::of_x86_64(0x1000, black_box(block)));
            }
        }
        best = best.min(start.elapsed());
    }
    let count = blocks.len() * PASSES;
    let each = best / count as u32;
    println!(
        "{count} blocks of {INSTRUCTIONS} instructions: {:.0} blocks/s, {each:?} each",
        count as f64 / best.as_secs_f64()
    );
}
