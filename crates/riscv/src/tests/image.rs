//! ELF files: what is loaded, and where.

use super::*;
use crate::{ImageError, MachineError};

/// An ELF file of one segment at an address, with a table of relocations at its end.
fn elf(kind: u16, addr: u64, code: &[u32], relocations: &[(u64, u64)]) -> Vec<u8> {
    let code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (headers, tables) = (64, 64 + 2 * 56 + 4 * 64);
    let rela: Vec<u8> = relocations
        .iter()
        .flat_map(|&(offset, addend)| [offset, 3, addend])
        .flat_map(u64::to_le_bytes)
        .collect();
    let (code_at, rela_at) = (tables, tables + code.len());
    let dynamic_at = rela_at + rela.len();
    // DT_RELA, DT_RELASZ, DT_RELAENT, end.
    let dynamic: Vec<u8> = [7, addr + (rela_at - code_at) as u64, 8, rela.len() as u64, 9, 24, 0, 0]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([kind, 243].into_iter().flat_map(u16::to_le_bytes));
    file.extend(1u32.to_le_bytes());
    file.extend([addr, headers as u64, (headers + 112) as u64].into_iter().flat_map(u64::to_le_bytes));
    file.extend(0u32.to_le_bytes());
    file.extend([64u16, 56, 2, 64, 4, 3].into_iter().flat_map(u16::to_le_bytes));
    let total = code.len() + rela.len() + dynamic.len();
    for (kind, at, bytes) in [(1u32, code_at, total), (2, dynamic_at, dynamic.len())] {
        file.extend([kind, 7].into_iter().flat_map(u32::to_le_bytes));
        let place = addr + (at - code_at) as u64;
        let bytes = bytes as u64;
        file.extend([at as u64, place, place, bytes, bytes, 8].into_iter().flat_map(u64::to_le_bytes));
    }
    // Sections: none, relocations of no symbols, what the linker says of them, and names, of which there are none.
    for (kind, at, bytes, entry) in
        [(0u32, 0, 0, 0u64), (4, rela_at, rela.len(), 24), (6, dynamic_at, dynamic.len(), 16), (3, 8, 1, 0)]
    {
        file.extend([0, kind].into_iter().flat_map(u32::to_le_bytes));
        let place = if at < code_at { 0 } else { addr + (at - code_at) as u64 };
        file.extend([2, place, at as u64, bytes as u64].into_iter().flat_map(u64::to_le_bytes));
        file.extend([0u32, 0].into_iter().flat_map(u32::to_le_bytes));
        file.extend([8, entry].into_iter().flat_map(u64::to_le_bytes));
    }
    file.extend(code);
    file.extend(rela);
    file.extend(dynamic);
    file
}

/// Position-independent programs were refused as no executables. They begin where memory does, with their addresses moved.
#[test]
fn a_program_that_may_lie_anywhere_is_moved_to_memory() {
    let code = [0x13, 0x13, 0, 0];
    for (kind, addr, base) in
        [(3, 0, RAM_BASE), (3, 0x10_0000, RAM_BASE), (3, RAM_BASE, RAM_BASE), (2, RAM_BASE, RAM_BASE)]
    {
        let image = Image::parse(&elf(kind, addr, &code, &[(addr + 8, addr + 4)])).unwrap();
        assert_eq!(image.entry(), base, "{addr:#x}");
        let config = Config { memory: MEMORY, ..Config::default() };
        let machine = Machine::new(&config, &image, Box::new(InProcess::new()), Host::silent()).unwrap();
        let moved = addr < RAM_BASE;
        assert_eq!(machine.peek(base + 8), if moved { base + 4 } else { 0 }, "{addr:#x}");
        assert_eq!(machine.peek(base), 0x13_0000_0013);
    }
    let refused = Image::parse(&elf(1, RAM_BASE, &code, &[])).unwrap_err();
    assert!(matches!(refused, ImageError::Machine { machine: 243, kind: 1 }), "{refused}");
}

#[test]
fn words_for_the_host_must_lie_in_memory() {
    let image = Image::of_words(RAM_BASE, &[0], TOHOST, TOHOST + 64);
    let config = Config { memory: MEMORY, ..Config::default() };
    for wrong in [0, TOHOST + 4, RAM_BASE + MEMORY] {
        let image = image.clone().with_host_words(Some(wrong), None);
        let machine = Machine::new(&config, &image, Box::new(InProcess::new()), Host::silent());
        assert!(matches!(machine, Err(MachineError::HostWord(addr)) if addr == wrong));
    }
}
