//! The hash table: an array of bucket heads, chained entries in one block of memory, in the order of insertion.
//!
//! ```text
//!   entry   +0 packed k-mer, 2 bits a base, 4 to 8 bytes   then left, right: a byte each   +8 or +16 next: 8 bytes
//! ```
//!
//! The program packs a k-mer into a few bytes of its stack, hashes them one by one (Bernstein's hash), and copies or
//! compares them in the pieces that gcc chooses: a word, and a shorter one for the rest.

use super::{APPEND, BASE, ENTRY_AT_HAND as ENTRY, PLACE, START, TEXT, Text};
use crate::code::{Op, STACK, Site, by_size, r};
use crate::emit::{Emitter, Halt, Stop};
use crate::space::{AddressSpace, mapping_bytes};
use pagewalk_code::{Class, Register};
use pagewalk_vm::addr::VirtAddr;

/// Bases of a byte, and bytes of a bucket's head.
const PACKING: usize = 4;
const HEAD_BYTES: u64 = 8;

/// Instructions per base packed and per byte hashed; per k-mer inserted and per one looked up besides; per entry of a
/// chain looked at; per base unpacked.
const PACK_INSTRUCTIONS: u64 = 5;
const HASH_INSTRUCTIONS: u64 = 9;
const INSERT_INSTRUCTIONS: u64 = 25;
const FIND_INSTRUCTIONS: u64 = 14;
const CHAIN_INSTRUCTIONS: u64 = 5;
const UNPACK_INSTRUCTIONS: u64 = 15;

/// The bucket heads, the byte being packed, the hash and what it is shifted to, its bucket, and what was loaded.
const HEADS: Register = r(4);
const PACKED: Register = r(5);
const HASH: Register = r(6);
const SHIFTED: Register = r(7);
const BUCKET: Register = r(8);
const LOADED: Register = r(9);

/// Packs a base; stores a byte of four. Hashes a byte.
static PACK: Site = Site::new(&[
    Op::load(BASE, 1, &[TEXT, PLACE]),
    Op::integer(PLACE, &[PLACE]),
    Op::new(Class::Shift, PACKED, &[PACKED, BASE]),
])
.repeats();
static STORE_PACKED: Site = Site::new(&[
    Op::store(1, &[STACK], &[PACKED]),
    Op::new(Class::Zero, PACKED, &[]),
    Op::new(Class::Zero, HASH, &[]),
])
.branches(&PACK)
.of(PACKING as u64 * (PACK_INSTRUCTIONS - PACK.instructions()));
static HASH_BYTE: Site = Site::new(&[
    Op::load(LOADED, 1, &[STACK]),
    Op::new(Class::Shift, SHIFTED, &[HASH]),
    Op::integer(HASH, &[HASH, SHIFTED]),
    Op::integer(HASH, &[HASH, LOADED]),
])
.repeats()
.of(HASH_INSTRUCTIONS);
/// Copies a piece of the packed k-mer to an entry, by the base-2 logarithm of its size; both extensions; puts the entry into its chain.
static COPY_PIECE: [Site; 4] = by_size!(1 2 4 8: BYTES =>
    Site::new(&[Op::load(LOADED, BYTES, &[STACK]), Op::store(BYTES, &[ENTRY], &[LOADED])]));
static COPY_EXTENSIONS: Site = Site::new(&[
    Op::load(BASE, 1, &[TEXT, PLACE]),
    Op::store(1, &[ENTRY], &[BASE]),
    Op::load(LOADED, 1, &[TEXT, PLACE]),
    Op::store(1, &[ENTRY], &[LOADED]),
]);
static LINK: Site = Site::new(&[
    Op::new(Class::Divide64, BUCKET, &[HASH]),
    Op::load(LOADED, 8, &[HEADS, BUCKET]),
    Op::store(8, &[ENTRY], &[LOADED]),
    Op::store(8, &[HEADS, BUCKET], &[ENTRY]),
    Op::integer(ENTRY, &[ENTRY]),
    Op::compare(&[BASE]),
])
.branches(&START)
.of(INSERT_INSTRUCTIONS - 2 * COPY_PIECE[0].instructions() - COPY_EXTENSIONS.instructions());
/// Goes to the bucket's chain; compares the first piece, of 4 or 8 bytes, and the second, by the base-2 logarithm of its size; goes to the
/// next entry.
static SEEK: Site =
    Site::new(&[Op::new(Class::Divide64, BUCKET, &[HASH]), Op::load(ENTRY, 8, &[HEADS, BUCKET])])
        .of(FIND_INSTRUCTIONS);
static COMPARE: [Site; 2] = by_size!(4 8: BYTES =>
    Site::new(&[Op::load(LOADED, BYTES, &[STACK]), Op::compare_with(LOADED, BYTES, &[ENTRY])])
        .branches(&FOLLOW[BYTES as usize / 8]));
static COMPARE_REST: [Site; 3] = by_size!(1 2 4: BYTES =>
    Site::new(&[Op::load(LOADED, BYTES, &[STACK]), Op::compare_with(LOADED, BYTES, &[ENTRY])])
        .branches(&FOLLOW[0]));
static FOLLOW: [Site; 2] = by_size!(4 8: BYTES =>
    Site::new(&[Op::load(ENTRY, 8, &[ENTRY]), Op::compare(&[ENTRY])]).branches(&COMPARE[BYTES as usize / 8]));
/// Loads the extension behind an entry, or the contig ends; writes a base of an entry.
static VISIT: Site = Site::new(&[Op::load(BASE, 1, &[ENTRY]), Op::compare(&[BASE])]).branches(&APPEND);
static UNPACK: Site = Site::new(&[
    Op::load(LOADED, 1, &[ENTRY]),
    Op::new(Class::Shift, BASE, &[LOADED]),
    Op::store(1, &[TEXT, PLACE], &[BASE]),
    Op::integer(PLACE, &[PLACE]),
])
.repeats()
.of(UNPACK_INSTRUCTIONS);

/// The number that stands for no entry.
const NONE: u32 = u32::MAX;

/// A base as the program codes it: two bits of its letter.
#[inline(always)]
fn code(base: u8) -> u64 {
    u64::from(base >> 1 & 3)
}

/// The letter of the lowest two bits.
#[inline(always)]
pub(crate) fn base(code: u64) -> u8 {
    b"ACTG"[(code & 3) as usize]
}

/// Up to 31 bases as a number, the last base lowest.
pub(crate) fn packed(bases: &[u8]) -> u64 {
    bases.iter().fold(0, |packed, &base| packed << 2 | code(base))
}

/// What the length of k-mers decides.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    k: usize,
    /// Bytes of a packed k-mer.
    bytes: usize,
    /// The piece that is copied or compared first, and the other: offset and bytes.
    head: u32,
    tail: Option<(u64, u32)>,
    /// Where an entry's pointer to the next lies.
    next: u64,
}

impl Shape {
    pub(crate) fn new(k: usize) -> Self {
        let bytes = k.div_ceil(PACKING);
        let head = if bytes == 8 { 8 } else { 4 };
        let tail = (bytes > head).then(|| {
            let piece = (bytes - head).next_power_of_two();
            ((bytes - piece) as u64, piece as u32)
        });
        Self { k, bytes, head: head as u32, tail, next: (bytes as u64 + 2).next_multiple_of(8) }
    }

    pub(crate) fn k(&self) -> usize {
        self.k
    }

    fn entry_bytes(&self) -> u64 {
        self.next + 8
    }

    /// What the table for so many k-mers maps.
    pub(crate) fn table_bytes(&self, kmers: u64) -> u64 {
        mapping_bytes(kmers * HEAD_BYTES) + mapping_bytes(kmers * self.entry_bytes())
    }

    fn pieces(&self) -> u64 {
        1 + u64::from(self.tail.is_some())
    }

    fn name_accesses(&self) -> u64 {
        (self.k + 2 * self.bytes) as u64
    }

    /// Accesses of an insertion.
    pub(crate) fn insert_accesses(&self) -> u64 {
        self.name_accesses() + 2 * self.pieces() + 7
    }

    /// Accesses of a look-up, which looks at about 1.5 entries.
    pub(crate) fn find_accesses(&self) -> u64 {
        self.name_accesses() + 2 * self.pieces() + 2
    }
}

/// An entry as the host holds it.
#[derive(Clone, Copy)]
struct Entry {
    kmer: u64,
    next: u32,
    right: u8,
    /// Whether a contig has it: for verification only.
    is_visited: bool,
}

pub(crate) struct Table {
    shape: Shape,
    /// The packed k-mer on the stack.
    local: VirtAddr,
    heads_at: VirtAddr,
    heads: Vec<u32>,
    entries_at: VirtAddr,
    entries: Vec<Entry>,
}

impl Table {
    /// An empty table for so many k-mers, with as many buckets. `calloc` need not clear memory fresh from the kernel.
    pub(crate) fn new(
        kmers: usize,
        shape: Shape,
        space: &mut AddressSpace,
        out: &mut Emitter<'_>,
    ) -> Result<Self, Stop> {
        Ok(Self {
            shape,
            local: space.local(shape.bytes as u64),
            heads_at: space.malloc(kmers as u64 * HEAD_BYTES, out)?,
            heads: vec![NONE; kmers],
            entries_at: space.malloc(kmers as u64 * shape.entry_bytes(), out)?,
            entries: Vec::with_capacity(kmers),
        })
    }

    /// Inserts the k-mer of the line that begins at a place of the text; answers its entry and its left extension.
    pub(crate) fn insert(
        &mut self,
        text: &Text,
        line: usize,
        out: &mut Emitter<'_>,
    ) -> Result<(u32, u8), Stop> {
        out.work(INSERT_INSTRUCTIONS);
        let (kmer, bucket) = self.name(text, line, out)?;
        let Shape { k, bytes, head, tail, next } = self.shape;
        let entry = self.entries.len() as u32;
        let at = self.entry_at(entry);
        for (offset, piece) in [(0, head)].into_iter().chain(tail) {
            out.enter(&COPY_PIECE[piece.ilog2() as usize])?;
            out.load(self.local.add(offset), piece)?;
            out.store(at.add(offset), piece)?;
        }
        out.enter(&COPY_EXTENSIONS)?;
        let left = text.load(line + k + 1, out)?;
        out.store(at.add(bytes as u64), 1)?;
        let right = text.load(line + k + 2, out)?;
        out.store(at.add(bytes as u64 + 1), 1)?;
        out.enter(&LINK)?;
        let head = self.load_head(bucket, out)?;
        out.store(at.add(next), 8)?;
        out.store(self.heads_at.add(bucket as u64 * HEAD_BYTES), 8)?;
        self.entries.push(Entry { kmer, next: head, right, is_visited: false });
        self.heads[bucket] = entry;
        Ok((entry, left))
    }

    /// Finds the k-mer at a place of the text.
    #[inline]
    pub(crate) fn find(&self, text: &Text, place: usize, out: &mut Emitter<'_>) -> Result<u32, Halt> {
        out.work(FIND_INSTRUCTIONS);
        let (kmer, bucket) = self.name(text, place, out)?;
        let Shape { k, head, tail, next, .. } = self.shape;
        out.enter(&SEEK)?;
        let mut entry = self.load_head(bucket, out)?;
        while entry != NONE {
            out.work(CHAIN_INSTRUCTIONS);
            let at = self.entry_at(entry);
            let found = self.entries[entry as usize];
            out.enter(&COMPARE[head as usize / 8])?;
            out.load(self.local, head)?;
            out.load(at, head)?;
            if let Some((offset, bytes)) = tail
                && self.is_same_head(kmer, found.kmer)
            {
                out.enter(&COMPARE_REST[bytes.ilog2() as usize])?;
                out.load(self.local.add(offset), bytes)?;
                out.load(at.add(offset), bytes)?;
            }
            if kmer == found.kmer {
                return Ok(entry);
            }
            out.enter(&FOLLOW[head as usize / 8])?;
            out.load(at.add(next), 8)?;
            entry = found.next;
        }
        let bases: String = text.untraced()[place..place + k].iter().map(|&byte| char::from(byte)).collect();
        Err(Halt::Wrong(format!("k-mer {bases} is not in the table")))
    }

    /// Loads the right extension of an entry that belongs to a contig from now on.
    #[inline(always)]
    pub(crate) fn visit(&mut self, entry: u32, out: &mut Emitter<'_>) -> Result<u8, Halt> {
        out.enter(&VISIT)?;
        out.load(self.entry_at(entry).add(self.shape.bytes as u64 + 1), 1)?;
        let found = &mut self.entries[entry as usize];
        if std::mem::replace(&mut found.is_visited, true) {
            return Err(Halt::Wrong(format!("k-mer {entry} of the table is visited twice")));
        }
        Ok(found.right)
    }

    /// Writes an entry's bases to a place of a text.
    pub(crate) fn unpack(
        &self,
        entry: u32,
        text: &mut Text,
        place: usize,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let kmer = self.entries[entry as usize].kmer;
        for i in 0..self.shape.k {
            out.block(&UNPACK)?;
            out.load(self.entry_at(entry).add((i / PACKING) as u64), 1)?;
            text.store(place + i, base(kmer >> (2 * (self.shape.k - 1 - i))), out)?;
        }
        Ok(())
    }

    /// An entry that no contig has.
    pub(crate) fn first_unvisited(&self) -> Option<usize> {
        self.entries.iter().position(|entry| !entry.is_visited)
    }

    /// Packs the k-mer at a place of a text into the bytes on the stack; answers it and its bucket.
    #[inline(always)]
    fn name(&self, text: &Text, place: usize, out: &mut Emitter<'_>) -> Result<(u64, usize), Stop> {
        let Shape { k, bytes, .. } = self.shape;
        out.work(PACK_INSTRUCTIONS * k as u64 + HASH_INSTRUCTIONS * bytes as u64);
        let mut kmer = 0;
        for i in 0..k {
            out.enter(&PACK)?;
            kmer = kmer << 2 | code(text.load(place + i, out)?);
            if i % PACKING == PACKING - 1 || i == k - 1 {
                out.enter(&STORE_PACKED)?;
                out.store(self.local.add((i / PACKING) as u64), 1)?;
            }
        }
        let filled = kmer << (2 * (bytes * PACKING - k));
        let mut hash = 5381u64;
        for i in 0..bytes {
            out.enter(&HASH_BYTE)?;
            out.load(self.local.add(i as u64), 1)?;
            hash = hash.wrapping_mul(33).wrapping_add(filled >> (8 * (bytes - 1 - i)) & 0xff);
        }
        Ok((kmer, (hash % self.heads.len() as u64) as usize))
    }

    /// Whether the pieces compared first are the same.
    #[inline(always)]
    fn is_same_head(&self, a: u64, b: u64) -> bool {
        let behind = 2 * (self.shape.k - PACKING * self.shape.head as usize);
        a >> behind == b >> behind
    }

    #[inline(always)]
    fn load_head(&self, bucket: usize, out: &mut Emitter<'_>) -> Result<u32, Stop> {
        out.load(self.heads_at.add(bucket as u64 * HEAD_BYTES), 8)?;
        Ok(self.heads[bucket])
    }

    #[inline(always)]
    fn entry_at(&self, entry: u32) -> VirtAddr {
        self.entries_at.add(u64::from(entry) * self.shape.entry_bytes())
    }
}
