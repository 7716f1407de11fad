//! The fixed-size pieces of a file: header, chunk header, index entry, trailer. See the [module](super) for the
//! layout.

use xxhash_rust::xxh3::xxh3_64;

use super::{FORMAT_VERSION, Totals};
use crate::event::{ProcessId, ThreadId};
use crate::source::SourceInfo;

pub(super) const MAGIC: [u8; 8] = *b"\x89PWT\r\n\x1a\n";
pub(super) const END_MAGIC: [u8; 8] = *b"PWT-END\n";
const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"CHNK");

/// Bytes of the header in front of the source's name.
pub(super) const HEADER_BYTES: usize = 24;
pub(super) const CHUNK_HEADER_BYTES: usize = 64;
pub(super) const INDEX_ENTRY_BYTES: usize = 64;
pub(super) const TRAILER_BYTES: usize = 64;
/// The longest source name in bytes; a longer one is cut.
pub(super) const MAX_NAME_BYTES: usize = 65_536;

const ANNOUNCES_MAPPINGS: u32 = 1;
const COUNTS_INSTRUCTIONS: u32 = 2;
const ENDED_EARLY: u32 = 4;
const GIVES_FRAMES: u32 = 8;
const GIVES_BLOCKS: u32 = 16;

/// Reads little-endian fields one after the other; the caller has checked the length.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&mut self) -> u32 {
        let (field, rest) = self.0.split_first_chunk().expect("the length was checked");
        self.0 = rest;
        u32::from_le_bytes(*field)
    }

    fn u64(&mut self) -> u64 {
        let (field, rest) = self.0.split_first_chunk().expect("the length was checked");
        self.0 = rest;
        u64::from_le_bytes(*field)
    }
}

/// The header of a file recorded from a source, checksum included.
pub(super) fn header(info: &SourceInfo) -> Vec<u8> {
    let name = &info.name[..info.name.floor_char_boundary(MAX_NAME_BYTES)];
    let flags = [
        (info.announces_mappings, ANNOUNCES_MAPPINGS),
        (info.counts_instructions, COUNTS_INSTRUCTIONS),
        (info.gives_frames, GIVES_FRAMES),
        (info.gives_blocks, GIVES_BLOCKS),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
    let mut out = Vec::with_capacity(HEADER_BYTES + name.len() + 8);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name.as_bytes());
    let checksum = xxh3_64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Sets the flag of a recording that was ended early in a header.
pub(super) fn flag_ended_early(header: &mut [u8]) {
    header[12] |= ENDED_EARLY as u8;
    let (covered, checksum) = header.split_last_chunk_mut::<8>().expect("a header has a checksum");
    *checksum = xxh3_64(covered).to_le_bytes();
}

/// The first [`HEADER_BYTES`] of a file, unverified.
pub(super) struct Prefix {
    pub(super) magic: [u8; 8],
    pub(super) version: u32,
    flags: u32,
    pub(super) name_bytes: u32,
}

impl Prefix {
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let (magic, rest) = bytes.split_first_chunk().expect("the header is longer");
        let mut fields = Fields(rest);
        Self { magic: *magic, version: fields.u32(), flags: fields.u32(), name_bytes: fields.u32() }
    }

    /// Whether no flag is set that this version does not know.
    pub(super) fn flags_are_known(&self) -> bool {
        let known = ANNOUNCES_MAPPINGS | COUNTS_INSTRUCTIONS | ENDED_EARLY | GIVES_FRAMES | GIVES_BLOCKS;
        self.flags & !known == 0
    }

    /// Whether the file says why its recording was ended early.
    pub(super) fn ended_early(&self) -> bool {
        self.flags & ENDED_EARLY != 0
    }

    pub(super) fn source_info(&self, name: String) -> SourceInfo {
        SourceInfo {
            name,
            expected_accesses: None,
            announces_mappings: self.flags & ANNOUNCES_MAPPINGS != 0,
            counts_instructions: self.flags & COUNTS_INSTRUCTIONS != 0,
            gives_frames: self.flags & GIVES_FRAMES != 0,
            gives_blocks: self.flags & GIVES_BLOCKS != 0,
        }
    }
}

/// The header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ChunkHeader {
    pub(super) batches: u32,
    pub(super) accesses: u32,
    pub(super) marks: u32,
    pub(super) controls_packed: u32,
    pub(super) near_packed: u32,
    pub(super) near_bytes: u32,
    pub(super) far_packed: u32,
    pub(super) far_bytes: u32,
    pub(super) side_packed: u32,
    pub(super) side_bytes: u32,
    /// The length of the block stream's part, its front included; 0 in a chunk without executed blocks.
    pub(super) blocks_packed: u32,
    pub(super) instructions: u64,
}

impl ChunkHeader {
    /// Bytes of the packed streams.
    pub(super) fn payload_bytes(&self) -> u64 {
        [self.controls_packed, self.near_packed, self.far_packed, self.side_packed, self.blocks_packed]
            .map(u64::from)
            .iter()
            .sum()
    }

    /// Writes it into the front of `chunk`, whose rest is the payload, with the checksum of both.
    pub(super) fn seal(&self, chunk: &mut [u8]) -> u64 {
        let mut out = Vec::with_capacity(CHUNK_HEADER_BYTES);
        for field in [
            CHUNK_MAGIC,
            self.batches,
            self.accesses,
            self.marks,
            self.controls_packed,
            self.near_packed,
            self.near_bytes,
            self.far_packed,
            self.far_bytes,
            self.side_packed,
            self.side_bytes,
            self.blocks_packed,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.instructions.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        chunk[..CHUNK_HEADER_BYTES].copy_from_slice(&out);
        // The checksum covers the whole chunk with its own field as zero.
        let checksum = xxh3_64(chunk);
        chunk[CHUNK_HEADER_BYTES - 8..CHUNK_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// None if the chunk's magic is not there.
    pub(super) fn parse(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        if fields.u32() != CHUNK_MAGIC {
            return None;
        }
        Some(Self {
            batches: fields.u32(),
            accesses: fields.u32(),
            marks: fields.u32(),
            controls_packed: fields.u32(),
            near_packed: fields.u32(),
            near_bytes: fields.u32(),
            far_packed: fields.u32(),
            far_bytes: fields.u32(),
            side_packed: fields.u32(),
            side_bytes: fields.u32(),
            blocks_packed: fields.u32(),
            instructions: fields.u64(),
        })
    }
}

/// The front of a block stream: its number of blocks and its length before compression, in bytes.
pub(super) struct BlockFront {
    pub(super) blocks: u32,
    pub(super) bytes: u32,
}

impl BlockFront {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
    }

    /// The front, and the compressed stream behind it; none if the part is shorter than a front.
    pub(super) fn split(part: &[u8]) -> Option<(Self, &[u8])> {
        let (front, packed) = part.split_first_chunk::<8>()?;
        let mut fields = Fields(front);
        Some((Self { blocks: fields.u32(), bytes: fields.u32() }, packed))
    }
}

/// The checksum a whole chunk carries and the one it should; clears the field.
pub(super) fn chunk_checksums(chunk: &mut [u8]) -> (u64, u64) {
    let field = &mut chunk[CHUNK_HEADER_BYTES - 8..CHUNK_HEADER_BYTES];
    let found = u64::from_le_bytes((&*field).try_into().expect("eight bytes"));
    field.fill(0);
    (found, xxh3_64(chunk))
}

/// One chunk as the index describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChunkInfo {
    /// The offset in the file at which the chunk begins.
    pub offset: u64,
    /// The length of the chunk in the file, in bytes.
    pub bytes: u32,
    /// The number of batches in the chunk.
    pub batches: u32,
    /// The number of accesses in the chunk.
    pub accesses: u32,
    /// Marks in it, instruction counts included.
    pub marks: u32,
    /// Instructions that its batches count.
    pub instructions: u64,
    /// Accesses in all chunks before it.
    pub first_access: u64,
    /// Instructions in all chunks before it.
    pub first_instruction: u64,
    /// The process that is current at its start.
    pub process: ProcessId,
    /// The thread that is current at its start.
    pub thread: ThreadId,
    /// Returns the checksum of the chunk, as its header has it.
    pub checksum: u64,
}

impl ChunkInfo {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        for field in [self.bytes, self.batches, self.accesses, self.marks] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for field in [self.instructions, self.first_access, self.first_instruction] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&self.process.0.to_le_bytes());
        out.extend_from_slice(&self.thread.0.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub(super) fn parse(bytes: &[u8; INDEX_ENTRY_BYTES]) -> Self {
        let mut fields = Fields(bytes);
        Self {
            offset: fields.u64(),
            bytes: fields.u32(),
            batches: fields.u32(),
            accesses: fields.u32(),
            marks: fields.u32(),
            instructions: fields.u64(),
            first_access: fields.u64(),
            first_instruction: fields.u64(),
            process: ProcessId(fields.u32()),
            thread: ThreadId(fields.u32()),
            checksum: fields.u64(),
        }
    }
}

/// The last bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    pub(super) index_offset: u64,
    pub(super) totals: Totals,
    pub(super) checksum: u64,
}

impl Trailer {
    /// Appends the trailer of a file whose index is `index`.
    pub(super) fn put(index_offset: u64, totals: &Totals, index: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let Totals { chunks, batches, accesses, marks, instructions } = *totals;
        for field in [index_offset, chunks, batches, accesses, marks, instructions] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let checksum = Self::checksum(index, &out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&END_MAGIC);
    }

    /// None if the closing magic is not there.
    pub(super) fn parse(bytes: &[u8; TRAILER_BYTES]) -> Option<Self> {
        if !bytes.ends_with(&END_MAGIC) {
            return None;
        }
        let mut fields = Fields(bytes);
        Some(Self {
            index_offset: fields.u64(),
            totals: Totals {
                chunks: fields.u64(),
                batches: fields.u64(),
                accesses: fields.u64(),
                marks: fields.u64(),
                instructions: fields.u64(),
            },
            checksum: fields.u64(),
        })
    }

    /// The checksum of an index and of the trailer's fields before the checksum.
    pub(super) fn checksum(index: &[u8], fields: &[u8]) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        hasher.update(index);
        hasher.update(fields);
        hasher.digest()
    }
}

/// How many bytes at the end of the trailer its checksum does not cover: the checksum and the magic.
pub(super) const TRAILER_UNCOVERED_BYTES: usize = 16;
