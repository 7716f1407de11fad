//! Physical memory protection and alignment, as programs meet them.

use super::asm::{MRET, addi, csrrw, jal, lui};
use super::*;
use crate::{End, Marking, Misaligned};

const CFG: u16 = 0x3a0;
const ADDR: u16 = 0x3b0;

/// Memory up to `end` may be used as `bits` say; entry 0 and 1 of the sixteen.
fn protect(machine: &mut Machine, from: u64, end: u64, bits: u64) {
    machine.write_csr(ADDR, from >> 2);
    machine.write_csr(ADDR + 1, end >> 2);
    // Up to `from` all is allowed.
    machine.write_csr(CFG, 0x0f | (0x08 | bits) << 8);
}

#[test]
fn loads_and_stores_are_checked_byte_by_byte() {
    let mut machine = machine();
    let from = RAM_BASE + 0x10_0800;
    protect(&mut machine, from, from + 0x10, 1);
    let fault = |access: Exception, addr| Some((access, addr));
    for (addr, bytes, load, store) in [
        (from - 8, 8, true, true),
        (from - 4, 8, false, false),
        (from, 8, true, false),
        (from + 8, 8, true, false),
        (from + 12, 8, false, false),
        (from + 16, 8, false, false),
    ] {
        // Twice: what the first has learned of the page must not let the second through.
        for _ in 0..2 {
            machine.in_mode(Mode::User);
            let loaded = cause(machine.load(addr, bytes));
            assert_eq!(
                loaded,
                if load { None } else { fault(Exception::LoadAccessFault, addr) },
                "{addr:#x}"
            );
            let stored = cause(machine.store(addr, bytes, 0));
            assert_eq!(
                stored,
                if store { None } else { fault(Exception::StoreAccessFault, addr) },
                "{addr:#x}"
            );
            machine.in_mode(Mode::Machine);
            let whole = addr != from - 4 && addr != from + 12;
            assert_eq!(machine.load(addr, bytes).is_ok(), whole, "the machine mode is not bound: {addr:#x}");
        }
    }
    // MPRV makes the machine mode's loads a user's.
    machine.set_status(status::MPRV, true);
    machine.set_status(status::MPP, false);
    assert!(machine.load(from, 8).is_ok() && machine.store(from, 8, 0).is_err());
}

#[test]
fn instructions_are_checked_one_by_one() {
    // A user's four instructions at the ninth word, of which the last two are in a region without execution.
    let mut words = vec![jal(0, 0); 8];
    words.extend([addi(7, 7, 1), addi(7, 7, 1), addi(7, 7, 1), jal(0, -12)]);
    let mut machine = machine_of(&Config::default(), &words, InProcess::new());
    let at = RAM_BASE + 32;
    for (end, instructions) in [(at + 16, 4), (at + 8, 2), (at + 4, 1)] {
        // All below `end` can be executed, nothing above it.
        machine.write_csr(ADDR, end >> 2);
        machine.write_csr(ADDR + 1, u64::MAX >> 10);
        machine.write_csr(CFG, 0x1b0f);
        machine.csrs.mtvec = RAM_BASE;
        (machine.pc, machine.x[7]) = (at, 0);
        machine.in_mode(Mode::User);
        let before = machine.counts().instructions;
        let end = machine.run(instructions);
        assert_eq!((end, machine.counts().instructions - before), (None, instructions));
        if instructions < 4 {
            let _ = machine.run(1);
            assert_eq!((machine.csrs.mcause, machine.csrs.mtval), (1, at + 4 * instructions));
        }
        machine.in_mode(Mode::Machine);
    }
}

#[test]
fn the_walker_is_a_supervisor() {
    let (mut machine, _) = super::accelerator::pager(4, Default::default());
    let table = RAM_BASE + 0x10_0000;
    let page = table + 0x40_0000;
    machine.put(page, 5);
    machine.in_mode(Mode::Supervisor);
    assert_eq!(machine.load(page, 8), Ok(5));
    machine.in_mode(Mode::Machine);
    protect(&mut machine, table, table + 0x1000, 0);
    machine.write_csr(ADDR + 2, u64::MAX);
    machine.write_csr(CFG, 0x1f_080f);
    machine.mmu.fence(None, None);
    machine.in_mode(Mode::Supervisor);
    assert_eq!(cause(machine.load(page, 8)), Some((Exception::LoadAccessFault, page)));
    assert_eq!(cause(machine.store(page, 8, 0)), Some((Exception::StoreAccessFault, page)));
}

#[test]
fn misaligned_accesses_are_done_or_trap() {
    let config = Config { misaligned: Misaligned::Trap, marking: Marking::Hardware, ..Config::default() };
    let mut trapping = machine_of(&config, &[0], InProcess::new());
    let mut native = machine();
    for bytes in [1u64, 2, 4, 8] {
        for addr in RAM_BASE + 0x1ff0..RAM_BASE + 0x2010 {
            native.store(addr, bytes, 0x0102_0304_0506_0708).unwrap();
            let mask = u64::MAX >> (64 - 8 * bytes);
            assert_eq!(native.load(addr, bytes), Ok(0x0102_0304_0506_0708 & mask));
            let expected = |cause| (!addr.is_multiple_of(bytes)).then_some((cause, addr));
            assert_eq!(cause(trapping.store(addr, bytes, 1)), expected(Exception::StoreAddressMisaligned));
            assert_eq!(cause(trapping.load(addr, bytes)), expected(Exception::LoadAddressMisaligned));
        }
    }
}

#[test]
fn a_program_that_knows_nothing_of_protection_may_use_all_memory() {
    // A user's loop, without any entry written.
    let words = [
        lui(5, 0x80000),
        super::asm::i(0x13, 1, 5, 5, 32),
        super::asm::i(0x13, 5, 5, 5, 32),
        addi(5, 5, 28),
        csrrw(0, 0x341, 5),
        MRET,
        0,
        addi(7, 7, 1),
        jal(0, -4),
    ];
    let mut machine = machine_of(&Config::default(), &words, InProcess::new());
    assert_eq!(machine.run(1_000), None::<End>);
    assert_eq!((machine.mode, machine.counts().traps), (Mode::User, 0));
}
