//! Physical memory with its data.

use std::ops::Range;

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, PhysAddr};
use pagewalk_vm::table::{TableMemory, TableWords};

/// Bytes of a line: what is known of code and watched words is known by line.
const LINE_BYTES: u64 = 64;
/// Code was decoded from the line.
const CODE: u8 = 1;
/// A store to the line may be a command to the host.
const WATCHED: u8 = 2;

/// Memory from one address on, in words of eight bytes.
#[derive(Clone, Debug)]
pub(crate) struct Ram {
    base: u64,
    bytes: u64,
    words: Vec<u64>,
    /// The marks of memory, by line.
    marks: Vec<u8>,
    /// Lines that code was decoded from, each once: memory is large, and code is not.
    code_lines: Vec<u32>,
}

/// What a store did beside storing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Touched(u8);

impl Touched {
    /// Returns whether nothing of interest was touched.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 == 0
    }

    /// Decoded code may have changed.
    pub(crate) fn code(self) -> bool {
        self.0 & CODE != 0
    }

    /// A watched line was written.
    pub(crate) fn watched(self) -> bool {
        self.0 & WATCHED != 0
    }
}

impl Ram {
    /// Zeroes; `bytes` is a multiple of the page size.
    pub(crate) fn new(base: u64, bytes: u64) -> Self {
        debug_assert!(base.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES));
        let words = vec![0; (bytes / 8) as usize];
        Self { base, bytes, words, marks: vec![0; (bytes / LINE_BYTES) as usize], code_lines: Vec::new() }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn frames(&self) -> Range<Pfn> {
        PhysAddr(self.base).frame()..PhysAddr(self.base + self.bytes).frame()
    }

    /// Where a run of bytes lies from the beginning of memory, if it does.
    #[inline(always)]
    pub(crate) fn offset(&self, addr: u64, bytes: u64) -> Option<u64> {
        let offset = addr.wrapping_sub(self.base);
        (offset < self.bytes && bytes <= self.bytes - offset).then_some(offset)
    }

    /// Up to eight bytes at an offset, which lie in memory.
    #[inline(always)]
    pub(crate) fn read_at(&self, offset: u64, bytes: u64) -> u64 {
        let (at, shift) = ((offset / 8) as usize, offset % 8 * 8);
        let mut word = self.words[at] >> shift;
        if shift + 8 * bytes > 64 {
            word |= self.words[at + 1] << (64 - shift);
        }
        word & (u64::MAX >> (64 - 8 * bytes))
    }

    /// Stores the lowest bytes of a value at an offset.
    #[inline(always)]
    pub(crate) fn write_at(&mut self, offset: u64, bytes: u64, value: u64) -> Touched {
        let (at, shift) = ((offset / 8) as usize, offset % 8 * 8);
        let mask = u64::MAX >> (64 - 8 * bytes);
        let value = value & mask;
        self.words[at] = self.words[at] & !(mask << shift) | value << shift;
        let mut marks = self.marks[(offset / LINE_BYTES) as usize];
        if shift + 8 * bytes > 64 {
            self.words[at + 1] = self.words[at + 1] & !(mask >> (64 - shift)) | value >> (64 - shift);
            marks |= self.marks[((offset + bytes - 1) / LINE_BYTES) as usize];
        }
        Touched(marks)
    }

    /// Copies a page in; it may have held code.
    pub(crate) fn write_page(&mut self, frame: Pfn, page: &[u8; PAGE_BYTES as usize]) -> Touched {
        let offset = frame.addr().0 - self.base;
        let first = (offset / 8) as usize;
        for (word, bytes) in self.words[first..].iter_mut().zip(page.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight of them"));
        }
        let lines = (offset / LINE_BYTES) as usize;
        let marks = &self.marks[lines..lines + (PAGE_BYTES / LINE_BYTES) as usize];
        Touched(marks.iter().fold(0, |all, mark| all | mark))
    }

    pub(crate) fn read_page(&self, frame: Pfn) -> [u8; PAGE_BYTES as usize] {
        let first = ((frame.addr().0 - self.base) / 8) as usize;
        let mut page = [0; PAGE_BYTES as usize];
        for (bytes, word) in page.chunks_exact_mut(8).zip(&self.words[first..]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        page
    }

    /// Copies bytes out, if they lie in memory.
    pub(crate) fn bytes_at(&self, addr: u64, bytes: u64) -> Option<Vec<u8>> {
        let offset = self.offset(addr, bytes)?;
        Some((offset..offset + bytes).map(|at| self.read_at(at, 1) as u8).collect())
    }

    /// Copies bytes in, if they fit into memory; whether they do.
    pub(crate) fn copy_in(&mut self, addr: u64, bytes: &[u8]) -> bool {
        let Some(offset) = self.offset(addr, bytes.len() as u64) else { return false };
        (offset..).zip(bytes).for_each(|(at, &byte)| {
            self.write_at(at, 1, u64::from(byte));
        });
        true
    }

    /// Code was decoded from these bytes.
    pub(crate) fn mark_code(&mut self, offset: u64, bytes: u64) {
        for line in lines(offset, bytes) {
            if self.marks[line] & CODE == 0 {
                self.marks[line] |= CODE;
                self.code_lines.push(line as u32);
            }
        }
    }

    /// Stores to these bytes are to be noticed.
    pub(crate) fn watch(&mut self, offset: u64, bytes: u64) {
        lines(offset, bytes).for_each(|line| self.marks[line] |= WATCHED);
    }

    /// No code is decoded any more.
    pub(crate) fn forget_code(&mut self) {
        for line in self.code_lines.drain(..) {
            self.marks[line as usize] &= !CODE;
        }
    }
}

fn lines(offset: u64, bytes: u64) -> std::ops::RangeInclusive<usize> {
    (offset / LINE_BYTES) as usize..=((offset + bytes - 1) / LINE_BYTES) as usize
}

/// A page table in memory: what lies outside of it reads as no entry, and the machine looks whether it did.
impl TableWords for Ram {
    #[inline]
    fn read(&self, addr: PhysAddr) -> u64 {
        self.offset(addr.0, 8).map_or(0, |offset| self.words[(offset / 8) as usize])
    }
}

impl TableMemory for Ram {
    fn write(&mut self, addr: PhysAddr, word: u64) {
        if let Some(offset) = self.offset(addr.0, 8) {
            self.words[(offset / 8) as usize] = word;
        }
    }

    fn zero_frame(&mut self, frame: Pfn) {
        self.write_page(frame, &[0; PAGE_BYTES as usize]);
    }

    fn release_frame(&mut self, _: Pfn) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_little_endian_at_every_place_and_size() {
        let mut ram = Ram::new(0x8000_0000, 4_096);
        let mut bytes = vec![0u8; 64];
        let mut state = 1u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (size, at) = (1u64 << (state >> 60 & 3), state >> 40 & 31);
            if state >> 59 & 1 == 0 {
                ram.write_at(at, size, state);
                bytes[at as usize..(at + size) as usize]
                    .copy_from_slice(&state.to_le_bytes()[..size as usize]);
            }
            let expected =
                (0..size).fold(0, |word, byte| word | u64::from(bytes[(at + byte) as usize]) << (8 * byte));
            assert_eq!(ram.read_at(at, size), expected);
        }
        assert_eq!(ram.bytes_at(0x8000_0000, 64).unwrap(), bytes);
        assert_eq!(ram.read_page(Pfn(0x80000))[..64], bytes);
    }

    #[test]
    fn nothing_lies_outside() {
        let ram = Ram::new(0x8000_0000, 4_096);
        assert_eq!(ram.offset(0x8000_0ff8, 8), Some(0xff8));
        assert_eq!(ram.offset(0x8000_0ff9, 8), None);
        assert_eq!(ram.offset(0x7fff_ffff, 1), None);
        assert_eq!(ram.offset(u64::MAX, 8), None);
        assert_eq!(ram.bytes_at(0x8000_0000, u64::MAX), None);
    }

    #[test]
    fn stores_to_marked_lines_are_noticed() {
        let mut ram = Ram::new(0, 4_096);
        ram.mark_code(128, 2);
        ram.watch(256, 8);
        assert!(ram.write_at(120, 8, 0).is_plain());
        assert!(ram.write_at(121, 8, 0).code(), "it reaches into the line");
        assert!(ram.write_at(256, 1, 0).watched() && !ram.write_at(256, 1, 0).code());
        assert!(ram.write_page(Pfn(0), &[0; 4_096]).code());
        ram.forget_code();
        assert!(ram.write_at(128, 8, 0).is_plain() && ram.write_at(256, 8, 0).watched());
    }
}
