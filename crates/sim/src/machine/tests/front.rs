//! The front end against closed forms: branches that it knows or does not, and instructions that it has decoded or not.

use super::dataflow::{CODE, Script, assert_near, dataflow, zen3};
use super::*;

/// Cycles of each of the blocks that a program executes in turn, round for round, with a jump behind the last: so many, a distance apart.
fn cycles_of_blocks(spec: &MachineSpec, code: &[u8], blocks: u64, apart: u64) -> f64 {
    let elapsed = |rounds: u64| {
        let mut script = Script::new(4096);
        map(script.batch(), CODE, blocks * apart + 4096);
        let mut all: Vec<_> = (0..blocks).map(|block| script.block(CODE + block * apart, code)).collect();
        all.push(script.block(CODE + blocks * apart, &[0xeb, 0]));
        for _ in 0..rounds {
            all.iter().for_each(|&block| script.execute(block, &[]));
        }
        value(&script.run(spec), "time", "elapsed")
    };
    let rounds = 6;
    (elapsed(2 * rounds) - elapsed(rounds)) as f64 / (rounds * blocks * spec.core.cycle_ps) as f64
}

#[test]
fn a_jump_costs_a_cycle_and_more_where_the_first_level_does_not_know_it_or_no_level() {
    // jmp to the block behind
    let jump = [0xeb, 14];
    for (jumps, expected, what) in [
        (500, 1.0, "known to the first level"),
        (4_000, 1.0 + 2.0, "known to the second"),
        (20_000, 1.0 + 14.0, "known to none"),
    ] {
        let found = cycles_of_blocks(&zen3(), &jump, jumps, 16);
        assert!((found / expected - 1.0).abs() < 0.03, "{what}: {found}, and not {expected}");
    }
    let without = changed(zen3(), |spec| dataflow(spec).targets = None);
    assert_near(cycles_of_blocks(&without, &jump, 4_000, 16), 1.0, "a core that knows all");
}

#[test]
fn a_branch_that_no_level_knows_is_mispredicted_if_decoding_does_not_say_where_it_goes() {
    // test %eax, %eax; jz to the block behind, 16 bytes from here
    let branch = [0x85, 0xc0, 0x74, 12];
    let known = cycles_of_blocks(&zen3(), &branch, 500, 16);
    assert_near(known, 1.0, "known");
    let unknown = cycles_of_blocks(&zen3(), &branch, 20_000, 16);
    // From its dispatch the branch takes a cycle for each of its two operations, and the right way is there after 16 more. Its line comes from
    // the second cache, one for four branches.
    assert!((17.5..22.0).contains(&unknown), "{unknown}");
}

#[test]
fn instructions_that_are_not_decoded_are_taken_by_number_or_bytes() {
    let short = [0x0f, 0x1f, 0x40, 0];
    let long = [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
    // 64 bytes of them, and nothing else.
    for (code, kib, each) in [
        (short.as_slice(), 8, 1.0 / 6.0),
        (&long, 8, 1.0 / 6.0),
        (&short, 28, 1.0 / 4.0),
        (&long, 28, 8.0 / 16.0),
    ] {
        let (count, code) = (64 / code.len(), code.repeat(64 / code.len()));
        let found = cycles_of_blocks(&zen3(), &code, kib * 1024 / 64, 64) / count as f64;
        assert!((found / each - 1.0).abs() < 0.03, "{count} in {kib} KiB: {found}, and not {each}");
    }
    let without = changed(zen3(), |spec| {
        spec.translation.fetch.as_mut().expect("zen3 fetches instructions").decoded = None;
    });
    assert_near(cycles_of_blocks(&without, &long.repeat(8), 448, 64), 8.0 / 6.0, "all decoded");
}
