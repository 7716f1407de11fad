//! Wrong ways against closed forms: what they have in common with the right one overlaps, and nothing else.

use super::dataflow::{CODE, LINE, ROUNDS, Script, dataflow, load, zen3};
use super::*;

/// inc %rdx: nothing needs it.
const UNUSED: &[u8] = &[0x48, 0xff, 0xc2];
/// inc %rdi: the address of the next load.
const ADDRESS: &[u8] = &[0x48, 0xff, 0xc7];

/// Cycles for each of many rounds.
fn cycles_a_round(spec: &MachineSpec, execute: impl Fn(&mut Script, u64)) -> f64 {
    let elapsed = |rounds: u64| {
        let mut script = Script::new(2 * ROUNDS / 63 * 4096 + 8192);
        execute(&mut script, rounds);
        value(&script.run(spec), "time", "elapsed")
    };
    (elapsed(2 * ROUNDS) - elapsed(ROUNDS)) as f64 / (ROUNDS * spec.core.cycle_ps) as f64
}

/// The load of a round: each page has been touched at its first line.
fn load_of(round: u64) -> Vec<Access> {
    load(round / 63 * 64 + 1 + round % 63)
}

/// Cycles for each round of a loop that loads a line from memory and branches at random on what it has loaded, over an instruction; the loads
/// do not depend on each other, unless that instruction makes them.
fn cycles_of_loop(spec: &MachineSpec, instruction: &[u8]) -> f64 {
    cycles_a_round(spec, |script, rounds| {
        // add $64, %rdi; mov (%rdi), %rax; test %eax, %eax; jne +3 | the instruction | jmp to the beginning
        let head = script.block(CODE, &[0x48, 0x83, 0xc7, 0x40, 0x48, 0x8b, 0x07, 0x85, 0xc0, 0x75, 3]);
        let over = script.block(CODE + 11, instruction);
        let jump = script.block(CODE + 14, &[0xeb, 0xf0]);
        let mut generator = Random(9);
        for round in 0..rounds {
            script.execute(head, &load_of(round));
            if generator.below(2) == 1 {
                script.execute(over, &[]);
            }
            script.execute(jump, &[]);
        }
    })
}

#[test]
fn misses_behind_a_wrong_way_that_comes_back_overlap() {
    let followed = changed(zen3(), |spec| dataflow(spec).are_wrong_ways_followed = true);
    let ignored = changed(zen3(), |spec| dataflow(spec).are_wrong_ways_followed = false);
    let memory = 110_000.0 / ignored.core.cycle_ps as f64;
    let outstanding = f64::from(ignored.core.outstanding);
    // Every other branch is wrong, and the loads behind it begin when its own has come and the front end is back.
    let alone = cycles_of_loop(&ignored, UNUSED);
    assert!((0.5..0.6).contains(&(alone / memory)), "{alone} of {memory}");
    // All that there is room for in the window overlap: of 5.5 instructions a round, more than there are miss registers.
    let together = cycles_of_loop(&followed, UNUSED);
    assert!(together < 0.5 * (16.0 + 4.0) + 2.0 * memory / outstanding, "{together} of {memory}");
    assert!(together > memory / outstanding, "{together}");
    // The wrong way does not know the address.
    let dependent = [&followed, &ignored].map(|spec| cycles_of_loop(spec, ADDRESS));
    assert!((dependent[0] / dependent[1] - 1.0).abs() < 0.02, "{dependent:?}");
    let known = changed(followed, |spec| dataflow(spec).are_branches_predicted = false);
    assert!(cycles_of_loop(&known, UNUSED) <= together, "nothing is better than to know");
}

/// A loop of random length, which goes on by the bits of what was loaded in front of it, inside a loop over lines of memory.
#[test]
fn misses_behind_an_inner_loop_overlap_unless_the_core_stays_in_it() {
    let cycles = |is_followed: bool| {
        let spec = changed(zen3(), |spec| dataflow(spec).are_wrong_ways_followed = is_followed);
        cycles_a_round(&spec, |script, rounds| {
            // add $64, %rdi; mov (%rdi), %rax; the inner loop: shr $1, %rax; test $1, %al; jne -7 | jmp to the beginning
            let inner = [0x48, 0xd1, 0xe8, 0xa8, 0x01, 0x75, 0xf9];
            let head =
                script.block(CODE, &[&[0x48, 0x83, 0xc7, 0x40, 0x48, 0x8b, 0x07], &inner[..]].concat());
            let again = script.block(CODE + 7, &inner);
            let jump = script.block(CODE + 14, &[0xeb, 0xf0]);
            let mut generator = Random(9);
            for round in 0..rounds {
                script.execute(head, &load_of(round));
                while generator.below(2) == 1 {
                    script.execute(again, &[]);
                }
                script.execute(jump, &[]);
            }
        })
    };
    let memory = 110_000.0 / zen3().core.cycle_ps as f64;
    // Of the branches of a round, one of two is wrong: none is in one round of three, and all others wait for memory at the first that is, and for the front end
    // at each.
    let alone = cycles(false);
    assert!((0.67..0.8).contains(&(alone / memory)), "{alone} of {memory}");
    // A core that wrongly leaves the loop comes to the next line.
    let together = cycles(true);
    let least = memory / f64::from(zen3().core.outstanding) + 16.0;
    assert!(least < together && together < 0.3 * alone, "{together}: between {least} and {alone}");
}

#[test]
fn ways_that_do_not_come_back_or_are_not_known_change_nothing() {
    // Two loops, each of which ends with a jump to either, as what it has loaded says.
    let cycles = |is_followed: bool| {
        let spec = changed(zen3(), |spec| dataflow(spec).are_wrong_ways_followed = is_followed);
        let mut script = Script::new(ROUNDS / 63 * 4096 + 8192);
        // mov (%rdi), %rax; lea (%rax,%rax), %rdi; test %eax, %eax; jne to the other one
        let code = |to: u8| [0x48, 0x8b, 0x07, 0x48, 0x8d, 0x3c, 0x00, 0x85, 0xc0, 0x75, to];
        let blocks = [script.block(CODE, &code(5)), script.block(CODE + 16, &code(0xe5))];
        let mut generator = Random(7);
        for round in 0..ROUNDS {
            let accesses = vec![Access::load(VirtAddr(BASE + (round / 63 * 64 + 1 + round % 63) * LINE), 8)];
            script.execute(blocks[generator.below(2) as usize], &accesses);
        }
        value(&script.run(&spec), "time", "elapsed")
    };
    assert_eq!(cycles(true), cycles(false));
}
