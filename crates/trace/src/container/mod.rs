//! The `.pwt` file: a recorded event stream, compressed, checked and with random access by chunk.
//!
//! The reader gives back the batches that were written, one for one: same boundaries, same accesses, same marks.
//! Batch boundaries carry meaning (see [`Event::Instructions`](crate::Event::Instructions)), so a batch never
//! lies in two chunks.
//!
//! # Format, version 6
//!
//! Earlier versions are read, too. Versions 4 and 5 have longer block streams. Version 4 does not say what system calls write into a
//! program's memory. Version 3 does not say which blocks of instructions were executed. Versions 1 and 2 say neither what was not
//! observed nor which frames pages have. Version 1 has fewer kinds of advice, and its mappings do not tell which file they show.
//!
//! All numbers are little-endian; offsets are in bytes from the start of the piece; checksums are XXH3-64.
//!
//! ```text
//! +--------+---------+---------+-- ... --+---------+---------+---------+
//! | header | chunk 0 | chunk 1 |         | chunk n |  index  | trailer |
//! +--------+---------+---------+-- ... --+---------+---------+---------+
//! ```
//!
//! The pieces follow each other without gaps. **Header**, 32 bytes and the name:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `89 50 57 54 0d 0a 1a 0a` |
//! | 8 | 4 | format version |
//! | 12 | 4 | flags: 1 the source announces its mappings, 2 it counts instructions, 4 the recording was ended early, 8 it may say which frames pages have, 16 it says which blocks are executed; others must be 0 |
//! | 16 | 4 | `n`, length of the name in bytes, at most 65,536 |
//! | 20 | 4 | 0 |
//! | 24 | n | name of the source, UTF-8 |
//! | 24 + n | 8 | checksum of everything before it |
//!
//! **Chunk**, whole batches of together at most 65,536 accesses (a writer aims for exactly that) and 131,072 executed blocks:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `CHNK` |
//! | 4 | 4 | batches |
//! | 8 | 4 | accesses, the length of the control stream in bytes |
//! | 12 | 4 | marks |
//! | 16 | 4 | compressed bytes of the control stream |
//! | 20 | 4 | compressed bytes of the near stream |
//! | 24 | 4 | bytes of the near stream, at most 4 an access |
//! | 28 | 4 | compressed bytes of the far stream |
//! | 32 | 4 | bytes of the far stream, at most 2 an access |
//! | 36 | 4 | compressed bytes of the side stream |
//! | 40 | 4 | bytes of the side stream, at most 16 MiB |
//! | 44 | 4 | bytes of the block stream as it lies in the file, 0 if no block is executed |
//! | 48 | 8 | instructions |
//! | 56 | 8 | checksum of the whole chunk with this field as 0 |
//! | 64 | | control, near, far, side and block stream, each one zstd frame (level 1); an empty stream has no bytes |
//!
//! The control stream has a byte per access (what its address is a difference to, the length of that difference,
//! store bit, log2 of the size), the near and far streams have the differences; see `accesses.rs`. The side
//! stream has the batches' shapes and marks; see `side.rs`. The block stream has in front of its frame the number of executed blocks
//! and its length before compression, at most 9 bytes a block, both in 4 bytes; see `blocks.rs`.
//!
//! **Cut**, between the last chunk and the index, there if and only if the header's flag 4 is set: why the recording was ended
//! before its source's end.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `PART` |
//! | 4 | 4 | the reason: 1 a signal, 2 a limit of time, 3 the program was killed, 4 it could not be observed any further, 5 the trace that was converted is damaged |
//! | 8 | 4 | `n`, length of the text in bytes, at most 4,096 |
//! | 12 | 4 | 0 |
//! | 16 | n | the reason for a reader, UTF-8 |
//! | 16 + n | 8 | checksum of everything before it |
//!
//! **Index**, 64 bytes per chunk:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | offset of the chunk in the file |
//! | 8 | 4 | its bytes |
//! | 12 | 12 | its batches, accesses and marks |
//! | 24 | 8 | its instructions |
//! | 32 | 16 | accesses and instructions in all chunks before it |
//! | 48 | 8 | the process and the thread that are current at its start |
//! | 56 | 8 | its checksum |
//!
//! **Trailer**, the file's last 64 bytes:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | offset of the index |
//! | 8 | 40 | chunks, batches, accesses, marks, instructions of the whole file |
//! | 48 | 8 | checksum of the index and of this trailer's first 48 bytes |
//! | 56 | 8 | `PWT-END\n` |
//!
//! Accesses are counted as records: a guarded access that did not happen ([`Access::NONE`](crate::Access::NONE))
//! is stored and counted like any other. Decoding from a chunk in the middle gives the right process and thread
//! (from the index) but not the mappings made, the frames given, nor the code of blocks that came before it.
//!
//! # Damage
//!
//! A file without a whole trailer or index, as a full disk or a broken download leaves it, is read chunk by chunk from its
//! beginning, up to the first chunk that is not whole; then its source ends with the error.
//!
//! # Limits
//!
//! Nothing is allocated on the word of the file alone: a compressed length must fit into the file, an
//! uncompressed one into the limits above. So a chunk costs a reader at most some 19 MiB.

mod accesses;
mod blocks;
mod chunk;
mod cut;
mod layout;
mod reader;
mod salvage;
mod side;
mod source;
mod varint;
mod writer;

pub use layout::ChunkInfo;
pub use reader::{ChunkCursor, Reader};
pub use source::PwtSource;
pub use writer::Writer;

/// The format version that is written; those before it are read, too.
pub const FORMAT_VERSION: u32 = 6;
/// The most accesses that a chunk holds, and the number that the writer aims for.
pub const CHUNK_ACCESSES: usize = 65_536;
/// The most executed blocks that a chunk holds.
pub const CHUNK_BLOCKS: usize = 131_072;
/// The most bytes that the marks and batch shapes of a chunk take before compression.
pub const MAX_SIDE_BYTES: usize = 16 << 20;
/// The first bytes of every `.pwt` file.
pub const MAGIC: [u8; 8] = layout::MAGIC;

/// The totals of a whole file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The number of chunks.
    pub chunks: u64,
    /// The number of batches.
    pub batches: u64,
    /// The number of access records.
    pub accesses: u64,
    /// Marks, instruction counts included.
    pub marks: u64,
    /// Instructions, if the source counts them.
    pub instructions: u64,
}
