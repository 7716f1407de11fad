//! The dataflow model on instructions of AArch64, against closed forms.

use pagewalk_trace::Isa;

use super::dataflow::{CODE, LINE, ROUNDS, Script, assert_near, zen3};
use super::*;

/// subs x1, x1, #1; b.ne of so many instructions back, which fuse.
fn closed(body: &[u32]) -> Vec<u8> {
    let back = (0x54_u32 << 24) | ((body.len() as u32 + 1).wrapping_neg() & 0x7_ffff) << 5 | 1;
    body.iter().chain(&[0xf100_0421, back]).flat_map(|word| word.to_le_bytes()).collect()
}

/// Cycles for each round of a loop around some instructions, which makes so many loads in a round.
fn cycles(body: &[u32], loads: u64) -> f64 {
    let code = closed(body);
    let elapsed = |rounds: u64| {
        let mut script = Script::new(LINE);
        let block = script.block_of(Isa::Aarch64, CODE, &code);
        let accesses: Vec<_> = (0..loads).map(|load| Access::load(VirtAddr(BASE + 8 * load), 8)).collect();
        (0..rounds).for_each(|_| script.execute(block, &accesses));
        value(&script.run(&zen3()), "time", "elapsed")
    };
    (elapsed(2 * ROUNDS) - elapsed(ROUNDS)) as f64 / (ROUNDS * zen3().core.cycle_ps) as f64
}

#[test]
fn instructions_wait_for_those_that_they_need() {
    assert_near(cycles(&[], 0), 1.0, "a taken branch a cycle");
    // ldr x0, [x0]
    assert_near(cycles(&[0xf940_0000], 1), 4.0, "a chain of hits in the first cache");
    // ldr x2, [x0], #8: the step of the address needs no data.
    assert_near(cycles(&[0xf840_8402], 1), 1.0, "loads one behind the other");
    // ldp x2, x3, [x0]; ldp x4, x5, [x0]: three loads a cycle.
    assert_near(cycles(&[0xa940_0c02, 0xa940_1404], 4), 4.0 / 3.0, "pairs");
    // madd x0, x0, x2, x3; mul x0, x0, x2
    assert_near(cycles(&[0x9b02_0c00, 0x9b02_7c00], 0), 6.0, "a chain of multiplications");
    // fadd d0, d0, d1
    assert_near(cycles(&[0x1e61_2800], 0), 3.0, "a chain of additions of doubles");
    // adds x0, x0, #1; adcs x2, x2, x2: each waits for the flags of the other one.
    assert_near(cycles(&[0xb100_0400, 0xba02_0042], 0), 1.0, "flags");
    // csel x0, x0, x2, ne behind adcs x2, x0, x2
    assert_near(cycles(&[0xba02_0002, 0x9a82_1000], 0), 2.0, "a choice by flags");
    // movi v0.2d, #0 in front of fadd d0, d0, d1
    assert_near(cycles(&[0x6f00_e400, 0x1e61_2800], 0), 1.0, "a register that is set to zero begins anew");
}
