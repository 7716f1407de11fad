//! Programs: ELF files for the bare machine.

use object::LittleEndian;
use object::elf::{EM_RISCV, ET_DYN, ET_EXEC, FileHeader64, PT_LOAD, R_RISCV_RELATIVE};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, RelocationFlags};
use pagewalk_vm::addr::PAGE_BYTES;

use crate::map::RAM_BASE;
use crate::memory::Ram;

/// A program that cannot be loaded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file is not an ELF file, or a damaged one.
    #[error("not an ELF file of 64 bits, little-endian: {0}")]
    Format(String),
    /// The program is for another machine.
    #[error(
        "not an executable for RISC-V (machine {machine}, type {kind}; wanted: {EM_RISCV}, {ET_EXEC} or {ET_DYN})"
    )]
    Machine {
        /// The number of the file's machine.
        machine: u16,
        /// The number of the file's type.
        kind: u16,
    },
    /// A segment of the program does not lie in memory.
    #[error("segment at {addr:#x} of {bytes} bytes does not lie in memory ({base:#x} to {end:#x})")]
    Segment {
        /// The address that the segment is to have.
        addr: u64,
        /// The size of the segment in bytes.
        bytes: u64,
        /// The address at which memory begins.
        base: u64,
        /// The address at which memory ends.
        end: u64,
    },
}

/// A program as it is loaded into memory.
#[derive(Clone, Debug)]
pub struct Image {
    entry: u64,
    /// Physical addresses and contents, with the bytes that it takes in all.
    segments: Vec<(u64, Vec<u8>, u64)>,
    /// Words that hold an address, of a program that was moved: where they lie, and what they are.
    words: Vec<(u64, u64)>,
    tohost: Option<u64>,
    fromhost: Option<u64>,
    /// The symbols of the program, by address.
    symbols: Vec<(u64, String)>,
}

impl Image {
    /// Reads an ELF file.
    ///
    /// # Errors
    ///
    /// [`ImageError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ImageError> {
        let format = |error: object::Error| ImageError::Format(error.to_string());
        let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(format)?;
        let header: &FileHeader64<LittleEndian> = file.elf_header();
        let (machine, kind) = (header.e_machine(LittleEndian), header.e_type(LittleEndian));
        if machine != EM_RISCV || !matches!(kind, ET_EXEC | ET_DYN) {
            return Err(ImageError::Machine { machine, kind });
        }
        let mut segments = Vec::new();
        for segment in file.elf_program_headers() {
            if segment.p_type(LittleEndian) != PT_LOAD || segment.p_memsz(LittleEndian) == 0 {
                continue;
            }
            let data = segment.data(LittleEndian, bytes);
            let data = data.map_err(|()| ImageError::Format("a segment lies outside of the file".into()))?;
            segments.push((segment.p_paddr(LittleEndian), data.to_vec(), segment.p_memsz(LittleEndian)));
        }
        let bias = bias(kind, &segments);
        for (addr, ..) in &mut segments {
            *addr = addr.wrapping_add(bias);
        }
        let mut words = Vec::new();
        if bias != 0 {
            // Start-up code may do the same once more.
            for (addr, relocation) in file.dynamic_relocations().into_iter().flatten() {
                if relocation.flags() == (RelocationFlags::Elf { r_type: R_RISCV_RELATIVE }) {
                    words.push((addr.wrapping_add(bias), (relocation.addend() as u64).wrapping_add(bias)));
                }
            }
        }
        let mut symbols: Vec<(u64, String)> = file
            .symbols()
            .filter_map(|symbol| Some((symbol.address().wrapping_add(bias), symbol.name().ok()?.to_owned())))
            .filter(|(_, name)| !name.is_empty() && !name.starts_with('$'))
            .collect();
        symbols.sort();
        let of = |name: &str| symbols.iter().find(|(_, known)| known == name).map(|&(addr, _)| addr);
        let (tohost, fromhost) = (of("tohost"), of("fromhost"));
        let entry = header.e_entry(LittleEndian).wrapping_add(bias);
        Ok(Self { entry, segments, words, tohost, fromhost, symbols })
    }

    /// Returns a program that is not in a file: instructions at an address, with words for the host.
    pub fn of_words(entry: u64, words: &[u32], tohost: u64, fromhost: u64) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let length = bytes.len() as u64;
        Self {
            entry,
            segments: vec![(entry, bytes, length)],
            words: Vec::new(),
            tohost: Some(tohost),
            fromhost: Some(fromhost),
            symbols: Vec::new(),
        }
    }

    /// Returns the address of the first instruction.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// Returns the address at which the program writes to the host.
    pub fn tohost(&self) -> Option<u64> {
        self.tohost
    }

    /// Returns the address at which the host answers.
    pub fn fromhost(&self) -> Option<u64> {
        self.fromhost
    }

    /// Returns the same program with these words for the host; `None` leaves what its symbols say.
    #[must_use]
    pub fn with_host_words(self, tohost: Option<u64>, fromhost: Option<u64>) -> Self {
        Self { tohost: tohost.or(self.tohost), fromhost: fromhost.or(self.fromhost), ..self }
    }

    /// Returns the address of a symbol, by its name.
    pub fn addr_of(&self, name: &str) -> Option<u64> {
        self.symbols.iter().find(|(_, known)| known == name).map(|&(addr, _)| addr)
    }

    /// The words that it shares with the host.
    pub(crate) fn host_words(&self) -> impl Iterator<Item = u64> {
        self.tohost.into_iter().chain(self.fromhost)
    }

    /// Returns the nearest symbol before an address, and how far the address is from it.
    pub fn symbol(&self, addr: u64) -> Option<(&str, u64)> {
        let behind = self.symbols.partition_point(|&(known, _)| known <= addr);
        let (known, name) = self.symbols.get(behind.checked_sub(1)?)?;
        Some((name, addr - known))
    }

    pub(crate) fn load(&self, ram: &mut Ram) -> Result<(), ImageError> {
        for (addr, data, bytes) in &self.segments {
            let fits = data.len() as u64 <= *bytes && ram.offset(*addr, *bytes).is_some();
            if !fits || !ram.copy_in(*addr, data) {
                let (base, end) = (ram.base(), ram.base() + ram.bytes());
                return Err(ImageError::Segment { addr: *addr, bytes: *bytes, base, end });
            }
        }
        for &(addr, word) in &self.words {
            if !ram.copy_in(addr, &word.to_le_bytes()) {
                let (base, end) = (ram.base(), ram.base() + ram.bytes());
                return Err(ImageError::Segment { addr, bytes: 8, base, end });
            }
        }
        Ok(())
    }
}

/// How far a program is moved: one that may lie anywhere (ET_DYN) and lies before memory begins there with its first page.
fn bias(kind: u16, segments: &[(u64, Vec<u8>, u64)]) -> u64 {
    let lowest = segments.iter().map(|&(addr, ..)| addr).min().unwrap_or(RAM_BASE);
    if kind == ET_DYN && lowest < RAM_BASE { RAM_BASE - lowest / PAGE_BYTES * PAGE_BYTES } else { 0 }
}
