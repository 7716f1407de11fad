//! Modes, traps, interrupts, counters, and what a program is given.

use super::asm::*;
use super::*;
use crate::End;

const MSTATUS: u32 = 0x300;

/// Runs words from the beginning of memory, so many instructions.
fn ran(words: &[u32], instructions: u64) -> Machine {
    let mut machine = machine_of(&Config::default(), words, InProcess::new());
    // Traps land on a jump to itself.
    let handler = RAM_BASE + 0x8_0000;
    machine.put(handler, jal(0, 0).into());
    (machine.csrs.mtvec, machine.csrs.stvec) = (handler, handler + 0x100);
    machine.put(handler + 0x100, jal(0, 0).into());
    assert_eq!(machine.run(instructions), None);
    machine
}

#[test]
fn a_program_gets_its_hart_its_tree_and_its_words_for_the_host() {
    let mut machine = machine();
    assert_eq!((machine.pc, machine.x[10], machine.mode), (RAM_BASE, 0, Mode::Machine));
    let tree = machine.x[11];
    assert_eq!(machine.load(tree, 4).map(|magic| (magic as u32).swap_bytes()), Ok(0xd00d_feed));
    assert_eq!(cause(machine.store(tree, 4, 0)), Some((Exception::StoreAccessFault, tree)));
    let exit = [
        lui(5, (TOHOST >> 12) as u32),
        addi(6, 0, 2 * 21 + 1),
        i(0x13, 1, 5, 5, 32),
        i(0x13, 5, 5, 5, 32),
        sd(6, 5, 0),
        jal(0, 0),
    ];
    let mut machine = machine_of(&Config::default(), &exit, InProcess::new());
    assert_eq!(machine.run(1_000), Some(End::Exit(21)));
}

#[test]
fn traps_say_why_and_where() {
    for (word, exception, value) in [
        (ECALL, Exception::MachineCall, 0),
        (EBREAK, Exception::Breakpoint, RAM_BASE + 4),
        (0xffff_ffff, Exception::IllegalInstruction, 0xffff_ffff),
        (0, Exception::IllegalInstruction, 0),
        (csrrs(1, 0x7c0, 0), Exception::IllegalInstruction, u64::from(csrrs(1, 0x7c0, 0))),
        (csrrw(1, 0xf11, 0), Exception::IllegalInstruction, u64::from(csrrw(1, 0xf11, 0))),
        (ld(1, 0, 8), Exception::LoadAccessFault, 8),
        (sd(1, 0, 8), Exception::StoreAccessFault, 8),
    ] {
        let machine = ran(&[addi(1, 0, 5), word, jal(0, 0)], 4);
        let csrs = &machine.csrs;
        assert_eq!(
            (csrs.mcause, csrs.mepc, csrs.mtval),
            (exception.number(), RAM_BASE + 4, value),
            "{word:#x}"
        );
        assert_eq!(machine.pc, csrs.mtvec);
        assert_eq!(machine.x[1], 5, "it did nothing");
    }
}

#[test]
fn returns_go_where_and_to_whom_they_were_told() {
    for (mode, expected) in [(0u64, Mode::User), (1, Mode::Supervisor), (3, Mode::Machine)] {
        let mut machine = machine_of(&Config::default(), &[MRET], InProcess::new());
        machine.csrs.write(MSTATUS as u16, mode << status::MPP_SHIFT | status::MPIE);
        machine.csrs.mepc = RAM_BASE + 0x100;
        machine.put(RAM_BASE + 0x100, jal(0, 0).into());
        machine.run(3);
        assert_eq!((machine.mode, machine.pc), (expected, RAM_BASE + 0x100));
        assert_eq!(
            machine.csrs.mstatus & (status::MIE | status::MPIE | status::MPP),
            status::MIE | status::MPIE
        );
    }
    let mut machine = machine_of(&Config::default(), &[SRET], InProcess::new());
    machine.csrs.write(MSTATUS as u16, status::SPP | status::SPIE);
    machine.csrs.sepc = RAM_BASE + 0x100;
    machine.put(RAM_BASE + 0x100, jal(0, 0).into());
    machine.in_mode(Mode::Supervisor);
    machine.run(3);
    assert_eq!(machine.mode, Mode::Supervisor);
    assert_eq!(machine.csrs.mstatus & (status::SIE | status::SPIE | status::SPP), status::SIE | status::SPIE);
}

#[test]
fn what_a_mode_may_not_do_is_illegal() {
    let reads = |csr: u32| csrrs(1, csr, 0);
    for (word, allowed, trapped_by) in [
        (MRET, Mode::Machine, 0),
        (SRET, Mode::Supervisor, status::TSR),
        (WFI, Mode::Supervisor, status::TW),
        (SFENCE_VMA, Mode::Supervisor, status::TVM),
        (reads(0x180), Mode::Supervisor, status::TVM),
        (reads(MSTATUS), Mode::Machine, 0),
        (reads(0x100), Mode::Supervisor, 0),
    ] {
        for mode in [Mode::User, Mode::Supervisor, Mode::Machine] {
            for bit in [0, trapped_by] {
                let mut machine = machine_of(&Config::default(), &[word], InProcess::new());
                machine.set_status(bit, true);
                machine.csrs.write(0x304, 2);
                machine.csrs.mip |= 2;
                machine.csrs.mtvec = RAM_BASE + 0x800;
                (machine.csrs.mepc, machine.csrs.sepc) = (RAM_BASE + 0x400, RAM_BASE + 0x400);
                machine.in_mode(mode);
                machine.csrs.mie = 2;
                machine.csrs.mideleg = 2;
                let _ =
                    machine.run_block().map_err(|trap| assert_eq!(trap.cause, Exception::IllegalInstruction));
                let legal = machine.pc != RAM_BASE;
                let expected = mode >= allowed && !(bit != 0 && mode == Mode::Supervisor);
                assert_eq!(legal, expected, "{word:#x} in {mode:?}, {bit:#x}");
            }
        }
    }
}

#[test]
fn delegated_traps_go_to_the_supervisor_unless_they_are_the_machines_own() {
    for (mode, delegated, to) in [
        (Mode::User, true, Mode::Supervisor),
        (Mode::Supervisor, true, Mode::Supervisor),
        (Mode::Machine, true, Mode::Machine),
        (Mode::User, false, Mode::Machine),
    ] {
        let mut machine = machine_of(&Config::default(), &[EBREAK], InProcess::new());
        machine.csrs.write(0x302, if delegated { 1 << 3 } else { 0 });
        (machine.csrs.mtvec, machine.csrs.stvec) = (RAM_BASE + 0x400, RAM_BASE + 0x800);
        machine.put(RAM_BASE + 0x400, jal(0, 0).into());
        machine.put(RAM_BASE + 0x800, jal(0, 0).into());
        machine.in_mode(mode);
        machine.run(2);
        assert_eq!(machine.mode, to);
        let csrs = &machine.csrs;
        match to {
            Mode::Supervisor => {
                assert_eq!((csrs.scause, csrs.sepc, csrs.stval), (3, RAM_BASE, RAM_BASE));
                assert_eq!(csrs.mstatus & status::SPP != 0, mode == Mode::Supervisor);
            }
            _ => {
                assert_eq!((csrs.mcause, csrs.mepc), (3, RAM_BASE));
                assert_eq!(csrs.previous_mode(), mode);
            }
        }
    }
}

#[test]
fn the_timer_interrupts_when_its_time_has_come() {
    for vectored in [0, 1] {
        let mut machine = machine_of(&Config::default(), &[jal(0, 0)], InProcess::new());
        let handler = RAM_BASE + 0x400;
        machine.csrs.write(0x305, handler | vectored);
        machine.put(handler, jal(0, 0).into());
        machine.put((handler + 4 * 7) & !7, u64::from(jal(0, 0)) << 32 | u64::from(jal(0, 0)));
        machine.csrs.write(0x304, 1 << 7);
        machine.set_status(status::MIE, true);
        machine.store(0x0200_4000, 8, 10).unwrap();
        machine.run(999);
        assert_eq!(machine.csrs.mcause, 0, "not yet");
        machine.run(10);
        assert_eq!(machine.csrs.mcause, 1 << 63 | 7);
        assert_eq!(machine.pc, handler + 28 * vectored);
        assert_eq!(machine.load(0x0200_bff8, 8), Ok(10));
        machine.store(0x0200_4000, 8, u64::MAX).unwrap();
        machine.update_timer();
        assert_eq!(machine.csrs.mip & 1 << 7, 0);
    }
}

#[test]
fn software_interrupts_are_taken_in_lower_modes_whatever_they_enabled() {
    let mut machine = machine_of(&Config::default(), &[jal(0, 0)], InProcess::new());
    machine.csrs.mtvec = RAM_BASE + 0x400;
    machine.put(RAM_BASE + 0x400, jal(0, 0).into());
    machine.csrs.write(0x304, 1 << 3);
    machine.store(0x0200_0000, 4, 1).unwrap();
    machine.run(10);
    assert_eq!(machine.csrs.mcause, 0, "machine mode has not enabled it");
    machine.in_mode(Mode::User);
    machine.run(10);
    assert_eq!((machine.csrs.mcause, machine.mode), (1 << 63 | 3, Mode::Machine));
}

#[test]
fn waiting_passes_the_time_or_ends_the_run() {
    let mut machine = machine_of(&Config::default(), &[WFI, jal(0, 0)], InProcess::new());
    machine.csrs.write(0x304, 1 << 7);
    machine.store(0x0200_4000, 8, 1_000_000).unwrap();
    machine.run(4);
    assert_eq!(machine.pc, RAM_BASE + 4, "interrupts are not enabled: it goes on");
    assert!((100_000_000..100_000_100).contains(&machine.cycles()));
    let mut machine = machine_of(&Config::default(), &[WFI, jal(0, 0)], InProcess::new());
    assert_eq!(machine.run(4), Some(End::WaitsForever { pc: RAM_BASE }));
}

#[test]
fn counters_count_what_has_retired() {
    let machine = ran(
        &[
            csrrw(0, 0xb02, 0),
            csrrs(1, 0xb02, 0),
            addi(0, 0, 0),
            addi(0, 0, 0),
            csrrs(2, 0xc02, 0),
            jal(0, 0),
        ],
        8,
    );
    assert_eq!((machine.x[1], machine.x[2]), (0, 3));
    let mut machine = machine_of(&Config::default(), &[csrrs(1, 0xc00, 0)], InProcess::new());
    machine.in_mode(Mode::User);
    assert!(machine.run_block().is_err(), "the access was not allowed");
    machine.csrs.write(0x306, 1);
    assert!(machine.run_block().is_err());
    machine.csrs.write(0x106, 1);
    assert!(machine.run_block().is_ok());
}

#[test]
fn code_that_is_written_is_run_as_it_is() {
    // x5 = here; overwrite the instruction behind the store, in the same block.
    let words = [
        i(0x17, 0, 5, 0, 0),
        ld(6, 5, 32),
        sd(6, 5, 16),
        addi(1, 0, 1),
        addi(2, 0, 1),
        addi(3, 0, 1),
        jal(0, 0),
        0,
        addi(2, 0, 99),
        addi(3, 0, 98),
    ];
    let machine = ran(&words, 8);
    assert_eq!((machine.x[1], machine.x[2], machine.x[3]), (1, 99, 98));
}

#[test]
fn instructions_across_pages_are_fetched_from_both() {
    let mut machine = machine();
    let at = RAM_BASE + 0x1ffe;
    for (offset, half) in [(0, addi(1, 0, 77) & 0xffff), (2, addi(1, 0, 77) >> 16)] {
        machine.store(at + offset, 2, half.into()).unwrap();
    }
    machine.store(at + 4, 4, jal(0, 0).into()).unwrap();
    machine.pc = at;
    machine.run(2);
    assert_eq!((machine.x[1], machine.pc), (77, at + 4));
}

#[test]
fn atomics_must_be_aligned_and_other_accesses_need_not() {
    let mut machine = machine();
    assert_eq!(machine.store(RAM_BASE + 0x1001, 8, 0x1122), Ok(()));
    assert_eq!(machine.load(RAM_BASE + 0x1001, 2), Ok(0x1122));
    let amo = |funct5: u32, funct3: u32| 0x2f | 1 << 7 | funct3 << 12 | 5 << 15 | funct5 << 27;
    for (word, exception) in [
        (amo(0b00010, 2), Exception::LoadAddressMisaligned),
        (amo(0b00011, 3), Exception::StoreAddressMisaligned),
        (amo(0b00000, 3), Exception::StoreAddressMisaligned),
    ] {
        let mut machine = machine_of(&Config::default(), &[word], InProcess::new());
        machine.x[5] = RAM_BASE + 0x1002;
        assert_eq!(cause(machine.run_block()), Some((exception, RAM_BASE + 0x1002)));
    }
}

#[test]
fn a_handler_that_traps_itself_ends_the_run() {
    // To nowhere: the handler is at 0, where no memory is.
    let mut machine = machine_of(&Config::default(), &[EBREAK], InProcess::new());
    let end = machine.run(1_000);
    assert_eq!(end, Some(End::HandlerTraps { pc: 0, cause: Exception::InstructionAccessFault }));
    assert_eq!(machine.counts().instructions, 0);
    // A supervisor's, which the timer ends.
    let mut machine = machine_of(&Config::default(), &[EBREAK], InProcess::new());
    machine.csrs.write(0x302, 1 << 1 | 1 << 3);
    machine.csrs.mtvec = RAM_BASE + 0x400;
    machine.put(RAM_BASE + 0x400, jal(0, 0).into());
    machine.csrs.mie = 1 << 7;
    machine.clint.compare = 1_000_000;
    machine.in_mode(Mode::Supervisor);
    assert_eq!(machine.run(10), None);
    assert_eq!((machine.mode, machine.csrs.mcause, machine.csrs.mepc), (Mode::Machine, 1 << 63 | 7, 0));
    assert!((1_000_000..1_000_001).contains(&machine.time()));
}
