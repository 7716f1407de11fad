//! One chunk: batches to bytes and back.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::compress_bound;

use super::accesses::{self, MAX_FAR_BYTES, MAX_NEAR_BYTES, PADDING, Position, Streams};
use super::blocks::{BlockStream, Expected, MAX_BLOCK_BYTES};
use super::layout::{BlockFront, CHUNK_HEADER_BYTES, ChunkHeader};
use super::side::{self, Shape};
use super::{CHUNK_ACCESSES, CHUNK_BLOCKS, FORMAT_VERSION, MAX_SIDE_BYTES};
use crate::event::{Access, Batch, Event, Executed, Mark};

const ZSTD_LEVEL: i32 = 1;
/// The first format version in whose block streams blocks have codes.
const FIRST_WITH_CODES: u32 = 6;

/// Batches on their way into a chunk.
#[derive(Default, Debug)]
pub(super) struct Pending {
    pub(super) accesses: Vec<Access>,
    pub(super) marks: Vec<Mark>,
    blocks: Vec<Executed>,
    shapes: Vec<Shape>,
}

impl Pending {
    /// Marks or batches in one chunk after which no other batch is added to it; the side stream stays far below
    /// its limit unless a single batch has more.
    const MANY: usize = 65_536;

    pub(super) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Whether `batch` may still go into this chunk.
    pub(super) fn has_room_for(&self, batch: &Batch) -> bool {
        self.is_empty()
            || self.accesses.len() + batch.accesses.len() <= CHUNK_ACCESSES
                && self.blocks.len() + batch.blocks.len() <= CHUNK_BLOCKS
                && self.marks.len() + batch.marks.len() <= Self::MANY
                && self.shapes.len() < Self::MANY
    }

    pub(super) fn push(&mut self, batch: &Batch) {
        let [accesses, marks, blocks] =
            [batch.accesses.len(), batch.marks.len(), batch.blocks.len()].map(|count| count as u64);
        self.shapes.push(Shape { accesses, marks, blocks });
        self.accesses.extend_from_slice(&batch.accesses);
        self.marks.extend_from_slice(&batch.marks);
        self.blocks.extend_from_slice(&batch.blocks);
    }

    pub(super) fn clear(&mut self) {
        self.accesses.clear();
        self.marks.clear();
        self.blocks.clear();
        self.shapes.clear();
    }
}

/// Why a chunk cannot be encoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EncodeProblem {
    /// The record with this number in the chunk has bits set that must be zero.
    ReservedBits(usize),
    /// The marks take so many bytes, more than [`MAX_SIDE_BYTES`].
    TooManyMarks(usize),
}

/// Turns batches into chunks; keeps its buffers.
pub(super) struct Encoder {
    streams: Streams,
    side: Vec<u8>,
    /// What is expected of executed blocks, their stream, and its bytes.
    expected: Expected,
    block_stream: BlockStream,
    blocks: Vec<u8>,
    compressor: Compressor<'static>,
    /// The encoded chunk, header included.
    pub(super) bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            streams: Streams::default(),
            side: Vec::new(),
            expected: Expected::new(),
            block_stream: BlockStream::default(),
            blocks: Vec::new(),
            compressor: Compressor::new(ZSTD_LEVEL)?,
            bytes: Vec::new(),
        })
    }

    /// Encodes into `self.bytes`; answers the header and the checksum.
    pub(super) fn encode(&mut self, pending: &Pending) -> Result<(ChunkHeader, u64), EncodeProblem> {
        let all_bits = pending.accesses.iter().fold(0, |bits, access| bits | access.0);
        if all_bits & Access::RESERVED != 0 {
            let offender = pending.accesses.iter().position(|access| access.0 & Access::RESERVED != 0);
            return Err(EncodeProblem::ReservedBits(offender.unwrap_or(0)));
        }
        let (near_bytes, far_bytes) = self.streams.encode(&pending.accesses);
        let Streams { controls, near, far } = &self.streams;
        let (near, far) = (&near[..near_bytes], &far[..far_bytes]);
        self.side.clear();
        let with_blocks = !pending.blocks.is_empty();
        let mut marks = pending.marks.as_slice();
        for &shape in &pending.shapes {
            let (batch, rest) = marks.split_at(shape.marks as usize);
            side::put_batch(&mut self.side, shape, batch, with_blocks);
            marks = rest;
        }
        if self.side.len() > MAX_SIDE_BYTES {
            return Err(EncodeProblem::TooManyMarks(self.side.len()));
        }

        let side_bytes = self.side.len() as u32;
        self.bytes.clear();
        self.bytes.resize(CHUNK_HEADER_BYTES, 0);
        let header = ChunkHeader {
            batches: pending.shapes.len() as u32,
            accesses: pending.accesses.len() as u32,
            marks: pending.marks.len() as u32,
            controls_packed: pack(&mut self.compressor, controls, &mut self.bytes),
            near_packed: pack(&mut self.compressor, near, &mut self.bytes),
            near_bytes: near.len() as u32,
            far_packed: pack(&mut self.compressor, far, &mut self.bytes),
            far_bytes: far.len() as u32,
            side_packed: pack(&mut self.compressor, &self.side, &mut self.bytes),
            side_bytes,
            blocks_packed: if with_blocks { self.encode_blocks(pending) } else { 0 },
            instructions: instructions(&pending.marks),
        };
        let checksum = header.seal(&mut self.bytes);
        Ok((header, checksum))
    }

    /// Appends the block stream and its front; answers the length of both.
    fn encode_blocks(&mut self, pending: &Pending) -> u32 {
        self.expected.clear();
        self.block_stream.clear();
        let mut blocks = pending.blocks.as_slice();
        for shape in &pending.shapes {
            let (batch, rest) = blocks.split_at(shape.blocks as usize);
            self.expected.encode(batch, &mut self.block_stream);
            blocks = rest;
        }
        self.blocks.clear();
        self.block_stream.append_to(&mut self.blocks);
        let start = self.bytes.len();
        let front = BlockFront { blocks: pending.blocks.len() as u32, bytes: self.blocks.len() as u32 };
        front.put(&mut self.bytes);
        pack(&mut self.compressor, &self.blocks, &mut self.bytes);
        (self.bytes.len() - start) as u32
    }
}

/// The instructions that `marks` count.
pub(super) fn instructions(marks: &[Mark]) -> u64 {
    marks.iter().fold(0, |sum: u64, mark| match mark.event {
        Event::Instructions(count) => sum.saturating_add(count),
        _ => sum,
    })
}

/// Appends the compressed form of `stream`; answers its length.
fn pack(compressor: &mut Compressor<'_>, stream: &[u8], out: &mut Vec<u8>) -> u32 {
    if stream.is_empty() {
        return 0;
    }
    let start = out.len();
    out.resize(start + compress_bound(stream.len()), 0);
    let packed =
        compressor.compress_to_buffer(stream, &mut out[start..]).expect("the buffer holds the bound");
    out.truncate(start + packed);
    packed as u32
}

/// Takes chunks apart; keeps its buffers.
pub(super) struct Decoder {
    decompressor: Decompressor<'static>,
    header: ChunkHeader,
    streams: Streams,
    side: Vec<u8>,
    expected: Expected,
    /// Whether executed blocks are taken out.
    pub(super) makes_blocks: bool,
    /// The format version of the file.
    pub(super) version: u32,
    /// Whether the chunk has a block stream.
    has_blocks: bool,
    /// The block stream: codes, then numbers. Empty if it is not taken out.
    blocks: Vec<u8>,
    block_count: usize,
    position: Position,
    /// The number of blocks that were read, and where in their stream the next number is.
    blocks_read: usize,
    numbers_read: usize,
    side_read: usize,
    marks_read: u32,
    batches_read: u32,
    instructions_read: u64,
}

impl Decoder {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            decompressor: Decompressor::new()?,
            header: ChunkHeader::default(),
            streams: Streams::default(),
            side: Vec::new(),
            expected: Expected::new(),
            makes_blocks: true,
            version: FORMAT_VERSION,
            has_blocks: false,
            blocks: Vec::new(),
            block_count: 0,
            position: Position::default(),
            blocks_read: 0,
            numbers_read: 0,
            side_read: 0,
            marks_read: 0,
            batches_read: 0,
            instructions_read: 0,
        })
    }

    /// Unpacks the streams of a chunk whose checksum is right and whose `payload` has the length that the header
    /// says.
    pub(super) fn load(&mut self, header: ChunkHeader, payload: &[u8]) -> Result<(), String> {
        let accesses = header.accesses as usize;
        let [near_bytes, far_bytes, side_bytes] =
            [header.near_bytes, header.far_bytes, header.side_bytes].map(|bytes| bytes as usize);
        if accesses > CHUNK_ACCESSES {
            return Err(format!("a chunk of {accesses} accesses; at most {CHUNK_ACCESSES} are allowed"));
        }
        if near_bytes > accesses * MAX_NEAR_BYTES || far_bytes > accesses * MAX_FAR_BYTES {
            return Err(format!(
                "{near_bytes} near and {far_bytes} far address bytes for {accesses} accesses; at most \
                 {MAX_NEAR_BYTES} and {MAX_FAR_BYTES} each"
            ));
        }
        if side_bytes > MAX_SIDE_BYTES {
            return Err(format!(
                "{side_bytes} bytes of marks in a chunk; at most {MAX_SIDE_BYTES} are allowed"
            ));
        }
        let (controls, rest) = payload.split_at(header.controls_packed as usize);
        let (near, rest) = rest.split_at(header.near_packed as usize);
        let (far, rest) = rest.split_at(header.far_packed as usize);
        let (side, blocks) = rest.split_at(header.side_packed as usize);
        unpack(&mut self.decompressor, "control", controls, accesses, &mut self.streams.controls)?;
        unpack(&mut self.decompressor, "near", near, near_bytes, &mut self.streams.near)?;
        unpack(&mut self.decompressor, "far", far, far_bytes, &mut self.streams.far)?;
        unpack(&mut self.decompressor, "side", side, side_bytes, &mut self.side)?;
        self.load_blocks(blocks)?;
        self.streams.near.resize(near_bytes + PADDING, 0);
        self.streams.far.resize(far_bytes + PADDING, 0);
        self.header = header;
        self.position = Position::default();
        (self.side_read, self.marks_read, self.batches_read, self.instructions_read) = (0, 0, 0, 0);
        Ok(())
    }

    /// Unpacks the block stream, if the chunk has one that is wanted.
    fn load_blocks(&mut self, part: &[u8]) -> Result<(), String> {
        self.blocks.clear();
        (self.block_count, self.blocks_read, self.numbers_read) = (0, 0, 0);
        self.has_blocks = !part.is_empty();
        if part.is_empty() || !self.makes_blocks {
            return Ok(());
        }
        let Some((BlockFront { blocks, bytes }, packed)) = BlockFront::split(part) else {
            return Err("the block stream is shorter than its front".to_owned());
        };
        let (count, bytes) = (blocks as usize, bytes as usize);
        let has_codes = self.version >= FIRST_WITH_CODES;
        let for_codes = if has_codes { BlockStream::bytes_of_codes(count) } else { count };
        if count == 0 || count > CHUNK_BLOCKS || bytes < for_codes || bytes > count * MAX_BLOCK_BYTES {
            return Err(format!(
                "{count} executed blocks in {bytes} bytes; 1 to {CHUNK_BLOCKS} are allowed, each of at most \
                 {MAX_BLOCK_BYTES} bytes"
            ));
        }
        unpack(&mut self.decompressor, "block", packed, bytes, &mut self.blocks)?;
        if !has_codes {
            let stream = BlockStream::of_earlier_version(&self.blocks, count)
                .ok_or("the block stream cannot be decoded")?;
            self.blocks.clear();
            stream.append_to(&mut self.blocks);
        }
        (self.block_count, self.numbers_read) = (count, BlockStream::bytes_of_codes(count));
        self.expected.clear();
        Ok(())
    }

    /// Fills `batch` with the next batch; false at the end of the chunk.
    pub(super) fn next(&mut self, batch: &mut Batch) -> Result<bool, String> {
        batch.clear();
        if self.batches_read == self.header.batches {
            return self.finish().map(|()| false);
        }
        let number = self.batches_read;
        let mut side = &self.side[self.side_read..];
        let with_blocks = self.has_blocks;
        let shape = side::take_shape(&mut side, with_blocks).filter(|shape| {
            // A mark takes at least two bytes.
            shape.accesses.max(shape.blocks) <= Batch::MAX as u64 && shape.marks <= side.len() as u64 / 2
        });
        let Some(Shape { accesses, marks, blocks }) = shape else {
            return Err(format!("batch {number} of the chunk has an impossible shape"));
        };
        let mut previous = (0, 0);
        batch.marks.reserve(marks as usize);
        for _ in 0..marks {
            let Some(mark) = side::take_mark(&mut side, previous, with_blocks) else {
                return Err(format!("batch {number} of the chunk has a mark that cannot be decoded"));
            };
            previous = (mark.at, mark.blocks);
            batch.marks.push(if self.makes_blocks { mark } else { Mark { blocks: 0, ..mark } });
        }
        self.side_read = self.side.len() - side.len();
        let count = accesses as usize;
        if accesses::decode(&self.streams, &mut self.position, count, &mut batch.accesses).is_none() {
            return Err(format!("batch {number} of the chunk has accesses that cannot be decoded"));
        }
        if self.makes_blocks && self.decode_blocks(blocks as usize, &mut batch.blocks).is_none() {
            return Err(format!("batch {number} of the chunk has blocks that cannot be decoded"));
        }
        batch.check().map_err(|what| format!("batch {number} of the chunk: {what}"))?;
        self.marks_read = self.marks_read.saturating_add(marks as u32);
        self.instructions_read = self.instructions_read.saturating_add(instructions(&batch.marks));
        self.batches_read += 1;
        Ok(true)
    }

    fn decode_blocks(&mut self, count: usize, out: &mut Vec<Executed>) -> Option<()> {
        let codes = &self.blocks[..BlockStream::bytes_of_codes(self.block_count)];
        let mut rest = &self.blocks[self.numbers_read..];
        let end = self.blocks_read.checked_add(count).filter(|&end| end <= self.block_count)?;
        self.expected.decode(codes, self.blocks_read..end, &mut rest, out)?;
        self.blocks_read = end;
        self.numbers_read = self.blocks.len() - rest.len();
        Some(())
    }

    /// At the end of a chunk everything must be used up and agree with the header.
    fn finish(&self) -> Result<(), String> {
        let streams_end = self.position.access == self.streams.controls.len()
            && self.position.near + PADDING == self.streams.near.len()
            && self.position.far + PADDING == self.streams.far.len()
            && self.side_read == self.side.len()
            && (self.blocks_read, self.numbers_read) == (self.block_count, self.blocks.len());
        let counts_agree =
            self.marks_read == self.header.marks && self.instructions_read == self.header.instructions;
        if streams_end && counts_agree {
            Ok(())
        } else {
            Err("the chunk's batches do not add up to what its header says".to_owned())
        }
    }
}

/// Replaces `out` by the `bytes` bytes that `packed` unpacks to.
fn unpack(
    decompressor: &mut Decompressor<'_>,
    stream: &str,
    packed: &[u8],
    bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    out.clear();
    out.resize(bytes, 0);
    if packed.is_empty() && bytes == 0 {
        return Ok(());
    }
    match decompressor.decompress_to_buffer(packed, &mut out[..]) {
        Ok(unpacked) if unpacked == bytes => Ok(()),
        Ok(unpacked) => Err(format!("the {stream} stream unpacks to {unpacked} bytes, not {bytes}")),
        Err(error) => Err(format!("the {stream} stream does not unpack: {error}")),
    }
}
