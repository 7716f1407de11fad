//! Programs that take the same exception again and again, and programs that only look so.

use super::asm::{EBREAK, ECALL, MRET, addi, csrrs, csrrw, jal, ld, lui, sd};
use super::*;
use crate::{End, MOST_STUCK};

const MTVEC: u32 = 0x305;
const MEPC: u32 = 0x341;
/// Past what a loop may take, by far.
const LONG: u64 = 4 * MOST_STUCK;

/// A machine that has the handler at the eighth word of memory.
fn machine_with(program: &[u32], handler: &[u32]) -> Machine {
    let mut words = vec![lui(5, 0x80000), addi(5, 5, 0), csrrw(0, MTVEC, 5)];
    // `lui` extends the sign: the address is cut to 32 bits by two shifts.
    words[1] = super::asm::i(0x13, 1, 5, 5, 32);
    words[2] = super::asm::i(0x13, 5, 5, 5, 32);
    words.extend([addi(5, 5, 64), csrrw(0, MTVEC, 5)]);
    words.extend(program);
    words.resize(16, 0);
    words.extend(handler);
    machine_of(&Config::default(), &words, InProcess::new())
}

/// A handler that returned to what had trapped ran for ever, and `--limit` was the only way out.
#[test]
fn a_handler_that_changes_nothing_ends_the_run() {
    for (program, handler, cause) in [
        // It returns to the load.
        (vec![ld(6, 0, 0)], vec![addi(7, 7, 1), MRET], Exception::LoadAccessFault),
        // It returns to the ECALL.
        (vec![ECALL], vec![addi(7, 7, 1), addi(7, 7, 1), MRET], Exception::MachineCall),
        // It traps itself before it returns.
        (vec![0], vec![addi(7, 7, 1), sd(7, 0, 0), MRET], Exception::StoreAccessFault),
    ] {
        let mut machine = machine_with(&program, &handler);
        let end = machine.run(LONG);
        let Some(End::TrapLoop { cause: why, pc, .. }) = end else { panic!("{cause:?}: {end:?}") };
        assert_eq!(why, cause);
        assert!((RAM_BASE..RAM_BASE + 96).contains(&pc), "{pc:#x}");
        let instructions = machine.counts().instructions;
        assert!((MOST_STUCK..MOST_STUCK + 100).contains(&instructions), "{instructions}");
    }
}

#[test]
fn a_program_that_makes_progress_goes_on_however_often_it_traps() {
    let skip = [csrrs(6, MEPC, 0), addi(6, 6, 4), csrrw(0, MEPC, 6), MRET];
    for (program, handler) in [
        // The handler returns behind what trapped.
        (vec![ECALL, jal(0, -4)], skip.to_vec()),
        (vec![0, addi(7, 7, 1), jal(0, -8)], skip.to_vec()),
        // It never returns, and goes back by a jump.
        (vec![EBREAK, jal(0, -4)], vec![jal(0, -40)]),
        // One instruction of two must be tried twice.
        (vec![ld(6, 0, 0), ld(7, 0, 8), jal(0, -8)], skip.to_vec()),
    ] {
        let mut machine = machine_with(&program, &handler);
        assert_eq!(machine.run(LONG), None, "{program:x?}");
        assert!(machine.counts().traps > LONG / 20);
    }
}
