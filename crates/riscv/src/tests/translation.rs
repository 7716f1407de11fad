//! Walks against the rules of the privileged architecture, written down again.

use super::*;
use crate::mmu::{Marking, TlbCounts};
use crate::trap::Access;

const SV39: u64 = 8 << 60;
const SV48: u64 = 9 << 60;
/// Tables, and a page of data.
const ROOT: u64 = RAM_BASE + 0x10_0000;
const DATA: u64 = RAM_BASE + 0x20_0000;

const V: u64 = 1;
const R: u64 = 2;
const W: u64 = 4;
const X: u64 = 8;
const U: u64 = 16;
const A: u64 = 64;
const D: u64 = 128;

fn entry(addr: u64, bits: u64) -> u64 {
    addr >> 12 << 10 | bits
}

/// Maps `addr` by an entry at `level`; returns where that lies.
fn map(machine: &mut Machine, scheme: u64, addr: u64, level: u32, raw: u64) -> u64 {
    let levels = if scheme == SV39 { 3 } else { 4 };
    let mut table = ROOT;
    for at in (level + 1..levels).rev() {
        let place = table + (addr >> (12 + 9 * at) & 511) * 8;
        let next = ROOT + u64::from(levels - at) * 4_096;
        machine.put(place, entry(next, V));
        table = next;
    }
    let place = table + (addr >> (12 + 9 * level) & 511) * 8;
    machine.put(place, raw);
    machine.csrs.write(0x180, scheme | ROOT >> 12);
    machine.mmu.fence(None, None);
    machine.update_context();
    place
}

fn access(machine: &mut Machine, addr: u64, access: Access) -> Result<u64, Trap> {
    match access {
        Access::Fetch => machine.fetch_offset(addr).map(|offset| RAM_BASE + offset),
        Access::Load => machine.load(addr, 8),
        Access::Store => machine.store(addr, 8, 0x77).map(|()| 0x77),
    }
}

const ACCESSES: [(Access, Exception); 3] = [
    (Access::Fetch, Exception::InstructionPageFault),
    (Access::Load, Exception::LoadPageFault),
    (Access::Store, Exception::StorePageFault),
];

#[test]
fn permissions_are_those_of_the_specification() {
    for marking in [Marking::Faults, Marking::Hardware] {
        for bits in 0..=255u64 {
            for mode in [Mode::User, Mode::Supervisor] {
                for flags in [0, SUM, MXR, SUM | MXR] {
                    let config = Config { marking, ..Config::default() };
                    let mut machine = machine_of(&config, &[0], InProcess::new());
                    machine.set_status(flags, true);
                    let addr = 0x12_3456_7000;
                    for (kind, fault) in ACCESSES {
                        let place = map(&mut machine, SV39, addr, 0, entry(DATA, bits));
                        machine.in_mode(mode);
                        let has = |bit| bits & bit != 0;
                        let valid = has(V) && (has(R) || has(X) && !has(W));
                        let mode_ok = match mode {
                            Mode::User => has(U),
                            _ => !has(U) || flags & SUM != 0 && kind != Access::Fetch,
                        };
                        let kind_ok = match kind {
                            Access::Fetch => has(X),
                            Access::Load => has(R) || flags & MXR != 0 && has(X),
                            Access::Store => has(W),
                        };
                        let marked = has(A) && (kind != Access::Store || has(D));
                        let allowed = valid && mode_ok && kind_ok && (marked || marking == Marking::Hardware);
                        let result = access(&mut machine, addr, kind);
                        assert_eq!(result.is_ok(), allowed, "{bits:08b} {mode:?} {flags:x} {kind:?}");
                        if !allowed {
                            assert_eq!(cause(result), Some((fault, addr)));
                            assert_eq!(machine.peek(place), entry(DATA, bits), "nothing changes");
                        } else if marking == Marking::Hardware {
                            let marks = if kind == Access::Store { A | D } else { A };
                            assert_eq!(machine.peek(place), entry(DATA, bits | marks));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn pages_of_every_size_reach_their_bytes() {
    for (scheme, levels, bits) in [(SV39, 3, 39), (SV48, 4, 48)] {
        for level in 0..levels {
            for upper_half in [false, true] {
                let mut machine = machine();
                let size = 1u64 << (12 + 9 * level);
                let low = 0x5555_5555_5555u64 & ((1 << (bits - 1)) - 1) & !(size - 1);
                let base = if upper_half { low | !0 << (bits - 1) } else { low };
                // Large pages begin below memory.
                let frame = DATA & !(size - 1);
                let inside = if level == 0 { 0x128 } else { DATA - frame + 0x128 };
                let frame = if level == 0 { DATA } else { frame };
                map(&mut machine, scheme, base, level, entry(frame, V | R | W | X | A | D));
                machine.put(DATA + 0x128, 0x0123_4567_89ab_cdef);
                machine.in_mode(Mode::Supervisor);
                if level == 3 {
                    // 512 GiB: not all of it is in memory, and what is, is.
                    assert_eq!(cause(machine.load(base, 8)), Some((Exception::LoadAccessFault, base)));
                }
                for _ in 0..2 {
                    assert_eq!(machine.load(base + inside, 8), Ok(0x0123_4567_89ab_cdef), "level {level}");
                }
                assert_eq!(machine.mmu.counts.walks, 1 + u64::from(level == 3));
            }
        }
    }
}

#[test]
fn large_pages_must_be_aligned() {
    for level in 1..3 {
        for misplaced in [1u64 << 12, 1 << 20] {
            let mut machine = machine();
            let raw = entry(RAM_BASE & !((1 << (12 + 9 * level)) - 1) | misplaced, V | R | A);
            map(&mut machine, SV39, 0, level, raw);
            machine.in_mode(Mode::Supervisor);
            assert_eq!(cause(machine.load(64, 8)), Some((Exception::LoadPageFault, 64)));
        }
    }
}

#[test]
fn addresses_that_are_no_sign_extension_are_page_faults() {
    let mut machine = machine();
    map(&mut machine, SV39, 0, 0, entry(DATA, V | R | A));
    machine.in_mode(Mode::Supervisor);
    for addr in [1 << 39, 1 << 38 | 1 << 63, 1 << 62] {
        assert_eq!(cause(machine.load(addr, 8)), Some((Exception::LoadPageFault, addr)));
    }
    assert_eq!(machine.load(0, 8), Ok(0));
}

#[test]
fn tables_outside_of_memory_are_access_faults() {
    let mut machine = machine();
    map(&mut machine, SV39, 0, 0, entry(DATA, V | R | A));
    machine.put(ROOT, entry(0x4000_0000, V));
    machine.in_mode(Mode::Supervisor);
    assert_eq!(cause(machine.load(8, 8)), Some((Exception::LoadAccessFault, 8)));
    assert_eq!(cause(machine.store(8, 8, 0)), Some((Exception::StoreAccessFault, 8)));
    assert_eq!(cause(machine.fetch_offset(8)), Some((Exception::InstructionAccessFault, 8)));
}

#[test]
fn a_pointer_in_the_last_table_is_a_page_fault() {
    let mut machine = machine();
    map(&mut machine, SV39, 0, 0, entry(DATA, V));
    machine.in_mode(Mode::Supervisor);
    assert_eq!(cause(machine.load(8, 8)), Some((Exception::LoadPageFault, 8)));
}

#[test]
fn translations_stay_until_they_are_fenced() {
    let mut machine = machine();
    let place = map(&mut machine, SV39, 0x1000, 0, entry(DATA, V | R | W | A | D));
    machine.put(DATA + 4_096, 5);
    machine.in_mode(Mode::Supervisor);
    assert_eq!(machine.load(0x1000, 8), Ok(0));
    machine.put(place, entry(DATA + 4_096, V | R | A));
    // Another page in between, so that more than the last one is remembered.
    assert!(machine.load(0x2000, 8).is_err());
    assert_eq!(machine.load(0x1000, 8), Ok(0), "no fence said that it changed");
    machine.mmu.fence(Some(0x5000), None);
    machine.mmu.fence(Some(0x1000), Some(0));
    assert_eq!(machine.load(0x1000, 8), Ok(5));
    assert_eq!(cause(machine.store(0x1000, 8, 1)), Some((Exception::StorePageFault, 0x1000)));
    machine.put(place, entry(DATA + 4_096, V | R | W | A | D));
    assert_eq!(machine.store(0x1000, 8, 1), Ok(()), "more rights are noticed without");
}

#[test]
fn address_spaces_do_not_see_each_others_translations() {
    let mut machine = machine();
    let place = map(&mut machine, SV39, 0x1000, 0, entry(DATA, V | R | A));
    machine.put(DATA + 4_096, 5);
    machine.in_mode(Mode::Supervisor);
    assert_eq!(machine.load(0x1000, 8), Ok(0));
    machine.put(place, entry(DATA + 4_096, V | R | A));
    machine.csrs.write(0x180, SV39 | 7 << 44 | ROOT >> 12);
    machine.update_context();
    assert_eq!(machine.load(0x1000, 8), Ok(5));
    machine.csrs.write(0x180, SV39 | ROOT >> 12);
    machine.update_context();
    assert_eq!(machine.load(0x1000, 8), Ok(0));
    machine.mmu.fence(None, Some(0));
    assert_eq!(machine.load(0x1000, 8), Ok(5));
}

#[test]
fn another_scheme_does_not_see_the_last_ones_translations() {
    let mut machine = machine();
    map(&mut machine, SV39, 0x1000, 0, entry(DATA, V | R | A));
    machine.put(DATA, 5);
    machine.in_mode(Mode::Supervisor);
    assert_eq!(machine.load(0x1000, 8), Ok(5));
    // As Sv48, the same tables end a level too early.
    machine.csrs.write(0x180, SV48 | ROOT >> 12);
    machine.update_context();
    assert!(machine.load(0x1000, 8).is_err());
    machine.csrs.write(0x180, 0);
    machine.update_context();
    assert_eq!(machine.load(DATA, 8), Ok(5), "physical");
}

#[test]
fn a_fence_without_translation_reaches_what_was_translated() {
    let mut machine = machine();
    let addr = 0x1234_5678_9000;
    let place = map(&mut machine, SV48, addr, 0, entry(DATA, V | R | A));
    machine.in_mode(Mode::Supervisor);
    assert_eq!(machine.load(addr, 8), Ok(0));
    machine.put(place, 0);
    let satp = machine.csrs.satp;
    machine.csrs.write(0x180, 0);
    machine.update_context();
    machine.mmu.fence(Some(addr), Some(0));
    machine.csrs.write(0x180, satp);
    machine.update_context();
    assert!(machine.load(addr, 8).is_err());
}

#[test]
fn accesses_across_pages_follow_each_pages_rules() {
    let mut machine = machine();
    map(&mut machine, SV39, 0x1000, 0, entry(DATA, V | R | W | A | D));
    let second = ROOT + 2 * 4_096 + 2 * 8;
    machine.in_mode(Mode::Supervisor);
    // The second page is not there: nothing is written.
    assert_eq!(cause(machine.store(0x1ffc, 8, u64::MAX)), Some((Exception::StorePageFault, 0x2000)));
    assert_eq!(machine.load(0x1ff8, 8), Ok(0));
    assert_eq!(cause(machine.load(0x1ffd, 4)), Some((Exception::LoadPageFault, 0x2000)));
    // Elsewhere in memory.
    machine.put(second, entry(DATA + 5 * 4_096, V | R | W | A | D));
    assert_eq!(machine.store(0x1ffd, 8, 0x0807_0605_0403_0201), Ok(()));
    assert_eq!(machine.load(0x1ffd, 8), Ok(0x0807_0605_0403_0201));
    assert_eq!(machine.peek(DATA + 0xff8) >> 40, 0x03_0201);
    assert_eq!(machine.peek(DATA + 5 * 4_096), 0x08_0706_0504);
}

#[test]
fn machine_mode_uses_the_previous_modes_memory_if_it_asks_to() {
    let mut machine = machine();
    map(&mut machine, SV39, 0x1000, 0, entry(DATA, V | R | U | A));
    machine.put(DATA, 9);
    assert_eq!(cause(machine.load(0x1_0000_1000, 8)), Some((Exception::LoadAccessFault, 0x1_0000_1000)));
    machine.csrs.write(0x300, status::MPRV);
    machine.update_context();
    assert_eq!(machine.load(0x1000, 8), Ok(9), "as a program");
    machine.csrs.write(0x300, status::MPRV | 1 << status::MPP_SHIFT);
    machine.update_context();
    assert!(machine.load(0x1000, 8).is_err(), "as a kernel, which may not");
    machine.set_status(SUM, true);
    assert_eq!(machine.load(0x1000, 8), Ok(9));
    assert!(machine.fetch_offset(RAM_BASE).is_ok(), "instructions are not concerned");
    machine.csrs.write(0x300, status::MPRV);
    machine.in_mode(Mode::Supervisor);
    assert_eq!(machine.load(0x1000, 8), Ok(9), "a kernel, too, as a program");
}

#[test]
fn accesses_by_physical_address_are_none_of_a_tlb() {
    let mut machine = machine();
    let load = |machine: &mut Machine| {
        for _ in 0..10 {
            machine.load(RAM_BASE + 0x2000, 8).unwrap();
        }
    };
    load(&mut machine);
    assert_eq!(machine.counts().data, TlbCounts::default());
    // By itself, as a page of 1 GiB.
    let root = RAM_BASE + 0x10_000;
    machine.put(root + 2 * 8, (RAM_BASE >> 12) << 10 | 0xcf);
    machine.csrs.write(0x180, 8 << 60 | root >> 12);
    machine.in_mode(Mode::Supervisor);
    load(&mut machine);
    machine.in_mode(Mode::Machine);
    load(&mut machine);
    assert_eq!(machine.counts().data, TlbCounts { accesses: 10, misses: 1 });
}

#[test]
fn entries_that_are_not_valid_are_kept_until_they_are_fenced_if_the_hart_does_so() {
    for keeps_invalid in [false, true] {
        let config = Config { keeps_invalid, ..Config::default() };
        let mut machine = machine_of(&config, &[0], InProcess::new());
        machine.put(ROOT, (ROOT + 4_096) >> 2 | V);
        machine.put(ROOT + 4_096, (ROOT + 2 * 4_096) >> 2 | V);
        machine.csrs.write(0x180, SV39 | 5 << 44 | ROOT >> 12);
        machine.in_mode(Mode::Supervisor);
        let fault = Some((Exception::LoadPageFault, 0x3008));
        assert_eq!(cause(machine.load(0x3008, 8)), fault);
        machine.put(ROOT + 2 * 4_096 + 3 * 8, DATA >> 2 | V | R | A);
        for (addr, asid) in [(Some(0x4000), None), (None, Some(6)), (Some(0x3000), Some(6))] {
            machine.mmu.fence(addr, asid);
            assert_eq!(cause(machine.load(0x3008, 8)).is_some(), keeps_invalid, "{addr:?} {asid:?}");
        }
        assert_eq!(machine.counts().walks.kept_invalid, if keeps_invalid { 3 } else { 0 });
        for (addr, asid) in [(Some(0x3000), None), (None, Some(5)), (Some(0x3ff8), Some(5)), (None, None)] {
            machine.put(ROOT + 2 * 4_096 + 3 * 8, 0);
            machine.mmu.fence(None, None);
            assert_eq!(cause(machine.load(0x3008, 8)), fault);
            machine.put(ROOT + 2 * 4_096 + 3 * 8, DATA >> 2 | V | R | A);
            machine.mmu.fence(addr, asid);
            assert!(machine.load(0x3008, 8).is_ok(), "{addr:?} {asid:?}");
        }
    }
}
