//! The wire format of a front-end: one packet is one message. Pure: bytes in, messages out.
//!
//! `protocol/channel.h` is the sending side and describes the fields.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pagewalk_trace::{
    Access, Advice, Backing, Batch, BlockId, Code, Event, Executed, Isa, Mapping, Protection,
};
use pagewalk_vm::addr::{PAGE_BYTES, PageSize, VirtAddr, VirtRange};

/// The first four bytes of every message.
pub const MAGIC: u32 = 0x4b57_5750;
/// The version of the format that this crate speaks.
pub const VERSION: u16 = 6;
/// Bytes of a message's header.
pub const HEADER_BYTES: usize = 32;
/// The most records of one message.
pub const RECORDS_MAX: usize = 8_192;
/// The write flag of a record.
const WRITE: u64 = 1 << 51;
/// Bits of a record of an access beside its address: the size and the write flag.
const TAG: u64 = 0xf << Access::ADDR_BITS;
/// Beside the write flag: the record is a load, then the store of the same bytes.
const READ_BEFORE: u64 = 1 << 52;
/// The bit of the two records of what the kernel wrote.
const KERNEL_WRITE: u64 = 1 << 53;
/// Bits of a record of an access that are zero.
const UNUSED: u64 = Access::RESERVED & !READ_BEFORE;
/// The bit that only the record of an executed block has.
const BLOCK: u64 = 1 << 63;
/// Bits that such a record has; the others are its number's, inverted.
const BLOCK_BITS: u64 = u64::MAX << 31;
/// The longest valid message.
pub const MESSAGE_BYTES_MAX: usize = HEADER_BYTES + 8 * RECORDS_MAX;

/// A message of one process of the observed program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The system's number of the process.
    pub pid: u32,
    /// The thread it speaks of, 1 for the first of its process.
    pub thread: u32,
    /// The content of the message.
    pub body: Body<'a>,
}

/// The content of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    /// A program begins in this process.
    Start,
    /// Accesses and executed blocks of one thread, in order.
    Records {
        /// Instructions executed since the last message of the process that carried a count; 0 if not counted, or told by blocks.
        instructions: u64,
        /// The records of the accesses.
        records: Records<'a>,
    },
    /// The thread that sent the message ended.
    ThreadEnd,
    /// The process is about to fork.
    Fork {
        /// The number of the fork, which the child will name.
        ticket: u64,
    },
    /// The fork did not work out.
    ForkFailed {
        /// The number of the fork.
        ticket: u64,
    },
    /// The first message of a child.
    ForkChild {
        /// The system's number of the child's parent.
        parent: u32,
        /// The number of the parent's fork that made the child.
        ticket: u64,
    },
    /// The process that sent the message ended.
    End,
    /// The process made a new mapping.
    Map {
        /// The mapping; which object it shows is not yet said.
        mapping: Mapping,
        /// The file or shared memory that it shows, if that is known.
        file: Option<File>,
        /// The advice that the flags of the call give beside: [`Advice::Populate`] or [`Advice::Lock`].
        residence: Option<Advice>,
    },
    /// The process unmapped everything in the range.
    Unmap(VirtRange),
    /// The protection of the range changed.
    Protect(VirtRange, Protection),
    /// Advice over the range; none for advice that is not an event.
    Advise(VirtRange, Option<Advice>),
    /// Pages are locked, or not any more: [`Advice::Lock`], [`Advice::LockOnFault`] or [`Advice::Unlock`].
    Lock(VirtRange, Advice),
    /// All pages of the process, and those that it will map, are locked or not any more.
    LockAll {
        /// The advice for everything that is mapped.
        current: Option<Advice>,
        /// The advice for later mappings; none if there is none any more.
        future: Option<Advice>,
    },
    /// The process moved a mapping.
    Remap {
        /// The old range; empty if a shared mapping was mapped a second time.
        from: VirtRange,
        /// The new range of the mapping.
        to: VirtRange,
        /// The old range stays mapped, without its pages (`MREMAP_DONTUNMAP`).
        keeps_old: bool,
    },
    /// The heap segment is now this range.
    Break(VirtRange),
    /// The process is about to execute the file of this whole path; none: it was about to, and the system refused.
    Exec(Option<&'a OsStr>),
    /// The process has started another one without a fork, by this number if it is known, of the file of this whole path.
    Spawn(Option<u32>, &'a OsStr),
    /// The process is about to set a filter of system calls for itself; false: it was about to, and the system refused.
    Filter(bool),
    /// The process came to a block of instructions for the first time.
    Code(BlockCode<'a>),
}

/// A block of instructions of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockCode<'a> {
    /// The process's number of the block: how many blocks it had before.
    pub number: u32,
    /// The address of the first instruction.
    pub addr: VirtAddr,
    /// The instruction set in which the bytes are written.
    pub isa: Isa,
    /// The number of instructions.
    pub instructions: u32,
    /// The bytes of the instructions.
    pub bytes: &'a [u8],
}

/// A part of a file, as the system knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File {
    /// The file system's device and the file's number there.
    pub identity: (u64, u64),
    /// The page of the file that a mapping begins with.
    pub first_page: u64,
}

/// The records of a message, still as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records<'a>(&'a [u8]);

impl<'a> Records<'a> {
    /// Returns the number of records, guarded accesses that did not happen included; an access that is a load and a store
    /// counts once.
    pub fn count(&self) -> usize {
        self.0.len() / 8
    }

    fn words(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Appends the accesses, the executed blocks and what the kernel wrote to a batch: no access for a record that stands for none, two
    /// for one that is a load and a store. `blocks` are the process's, by its numbers. Returns how many instructions the executed blocks
    /// have.
    ///
    /// # Errors
    ///
    /// A record with bits that must be zero, of a block that the process does not have, or with half of what the kernel wrote; the batch
    /// is then as it was.
    pub fn append_to(&self, batch: &mut Batch, blocks: &[KnownBlock]) -> Result<u64, ProtocolError> {
        if !self.words().any(is_kernel_write) {
            return self.append_uninterrupted_to(batch, blocks);
        }
        let (marks, accesses, executed) = (batch.marks.len(), batch.accesses.len(), batch.blocks.len());
        let appended = self.append_interrupted_to(batch, blocks);
        if appended.is_err() {
            batch.marks.truncate(marks);
            batch.accesses.truncate(accesses);
            batch.blocks.truncate(executed);
        }
        appended
    }

    /// Appends the parts between writes of the kernel, and these.
    fn append_interrupted_to(&self, batch: &mut Batch, blocks: &[KnownBlock]) -> Result<u64, ProtocolError> {
        let (mut rest, mut instructions) = (*self, 0);
        while let Some(at) = rest.words().position(is_kernel_write) {
            let Records(bytes) = rest;
            let (before, behind) = bytes.split_at(8 * at);
            instructions += Records(before).append_uninterrupted_to(batch, blocks)?;
            let (written, behind) = behind.split_at(behind.len().min(16));
            batch.mark(Event::KernelWrite(kernel_write(Records(written))?));
            rest = Records(behind);
        }
        Ok(instructions + rest.append_uninterrupted_to(batch, blocks)?)
    }

    /// Does the same for records of accesses and blocks alone.
    fn append_uninterrupted_to(
        &self,
        batch: &mut Batch,
        blocks: &[KnownBlock],
    ) -> Result<u64, ProtocolError> {
        let is_wrong = |word: u64| match word & BLOCK {
            0 => word & UNUSED != 0 || word & (READ_BEFORE | WRITE) == READ_BEFORE,
            _ => word & BLOCK_BITS != BLOCK_BITS || number_of(word) as usize >= blocks.len(),
        };
        let (mut any_bits, mut any_none, mut any_wrong) = (0, false, false);
        for word in self.words() {
            any_bits |= word;
            any_none |= word == 0;
            any_wrong |= is_wrong(word);
        }
        if any_wrong {
            let word = self.words().find(|&word| is_wrong(word)).expect("it was seen");
            return Err(match word & BLOCK_BITS {
                BLOCK_BITS => ProtocolError::UnknownBlock { number: number_of(word), blocks: blocks.len() },
                _ => ProtocolError::ReservedBits { word },
            });
        }
        if any_bits & BLOCK != 0 {
            return Ok(self.append_all_to(batch, blocks));
        }
        if any_none || any_bits & READ_BEFORE != 0 {
            self.append_accesses_to(&mut batch.accesses);
        } else {
            batch.accesses.extend(self.words().map(Access));
        }
        Ok(0)
    }

    /// Each record is written as a load and as itself, and as many of the two are kept as it is; no branches, because
    /// the kinds alternate in any way.
    fn append_accesses_to(&self, out: &mut Vec<Access>) {
        let mut kept = out.len();
        out.resize(kept + 2 * self.count(), Access::NONE);
        for word in self.words() {
            out[kept] = Access(word & !(READ_BEFORE | WRITE));
            kept += usize::from(word & READ_BEFORE != 0);
            out[kept] = Access(word & !READ_BEFORE);
            kept += usize::from(word != 0);
        }
        out.truncate(kept);
    }

    /// The same with executed blocks between the accesses; returns how many instructions these have.
    fn append_all_to(&self, batch: &mut Batch, blocks: &[KnownBlock]) -> u64 {
        let mut all_instructions = 0;
        let Batch { accesses, blocks: executed, .. } = batch;
        let (mut kept, mut kept_blocks) = (accesses.len(), executed.len());
        accesses.resize(kept + 2 * self.count(), Access::NONE);
        executed.resize(kept_blocks + self.count(), Executed { at: 0, block: BlockId(0) });
        for word in self.words() {
            let is_block = word & BLOCK != 0;
            // The number of a record that is no block's is of no use, and need only be there.
            let KnownBlock { block, instructions } =
                blocks[if is_block { number_of(word) as usize } else { 0 }];
            all_instructions += u64::from(instructions) * u64::from(is_block);
            executed[kept_blocks] = Executed { at: kept as u32, block };
            kept_blocks += usize::from(is_block);
            accesses[kept] = Access(word & !(READ_BEFORE | WRITE));
            kept += usize::from(!is_block & (word & READ_BEFORE != 0));
            accesses[kept] = Access(word & !READ_BEFORE);
            kept += usize::from(!is_block & (word != 0));
        }
        accesses.truncate(kept);
        executed.truncate(kept_blocks);
        all_instructions
    }
}

/// A block that a process has described.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownBlock {
    /// The number of the block in the stream.
    pub block: BlockId,
    /// The number of its instructions.
    pub instructions: u32,
}

/// Returns whether a record is one of the two of what the kernel wrote.
fn is_kernel_write(word: u64) -> bool {
    word & (BLOCK | KERNEL_WRITE) == KERNEL_WRITE
}

/// Returns the bytes that the kernel wrote: from the address of one record to that of the other.
fn kernel_write(records: Records<'_>) -> Result<VirtRange, ProtocolError> {
    let mut address = records.words().map(|word| match is_kernel_write(word) {
        true if word & Access::RESERVED == KERNEL_WRITE && word & TAG == 0 => {
            Ok(VirtAddr(word & !KERNEL_WRITE))
        }
        _ => Err(ProtocolError::KernelWrite { word }),
    });
    let (Some(start), Some(end)) = (address.next(), address.next()) else {
        return Err(ProtocolError::KernelWrite { word: records.words().next().unwrap_or_default() });
    };
    let (start, end) = (start?, end?);
    if start > end {
        return Err(ProtocolError::KernelWrite { word: end.0 | KERNEL_WRITE });
    }
    Ok(VirtRange::new(start, end))
}

/// The number in the record of an executed block.
fn number_of(word: u64) -> u32 {
    !word as u32
}

/// A message that no front-end of this version sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Fewer bytes than a header.
    #[error("a message of {bytes} bytes is shorter than its header of {HEADER_BYTES}")]
    Short {
        /// The length of the message in bytes.
        bytes: usize,
    },
    /// The packet is no message of this protocol.
    #[error("a message begins with {found:#010x} instead of {MAGIC:#010x}")]
    Magic {
        /// The word with which the packet begins.
        found: u32,
    },
    /// Front-end and command do not fit together.
    #[error("the front-end speaks version {found}, this command version {VERSION}: rebuild both")]
    Version {
        /// The version of the front-end's protocol.
        found: u16,
    },
    /// The length in the header disagrees with the message.
    #[error("a message of kind {kind} announces {announced} bytes of payload and has {found}")]
    Length {
        /// The kind of the message.
        kind: u16,
        /// The length that the header announces, in bytes.
        announced: u32,
        /// The length of the payload, in bytes.
        found: usize,
    },
    /// The number names no kind of message.
    #[error("unknown message kind {kind}")]
    Kind {
        /// The number of the kind.
        kind: u16,
    },
    /// A payload of the wrong size for its kind.
    #[error("a message of kind {kind} with {words} words of payload; it has {expected}")]
    Words {
        /// The kind of the message.
        kind: u16,
        /// The number of words in the payload.
        words: usize,
        /// The number of words that the kind has.
        expected: usize,
    },
    /// A record with bits that no record has.
    #[error("access record {word:#018x} has bits above bit 52, or bit 52 without bit 51")]
    ReservedBits {
        /// The word of the record.
        word: u64,
    },
    /// Two records say what the kernel wrote: from one address to another.
    #[error("record {word:#018x} of what the kernel wrote is no address, ends before it begins, or is alone")]
    KernelWrite {
        /// The word of the record.
        word: u64,
    },
    /// A process executes a block that it has not described.
    #[error("a record of block {number} of a process that has described {blocks} blocks")]
    UnknownBlock {
        /// The process's number of the block.
        number: u32,
        /// The number of blocks that it has described.
        blocks: usize,
    },
    /// Blocks of a process are numbered in order.
    #[error("block {number} is described by a process that has described {blocks} blocks")]
    BlockOrder {
        /// The process's number of the block.
        number: u32,
        /// The number of blocks that it has described.
        blocks: usize,
    },
    /// The stream has as many blocks as there are numbers.
    #[error("more than 2^32 blocks of instructions")]
    TooManyBlocks,
    /// A block whose instructions are not described as blocks are.
    #[error(
        "a block of {bytes} bytes of instruction set {isa} in {payload} bytes; at most {} are allowed, of instruction sets 0 to {}",
        Code::MAX_BYTES,
        Isa::OF_PROCESSORS.len() - 1
    )]
    Code {
        /// The number of bytes of its instructions.
        bytes: u32,
        /// The code of its instruction set.
        isa: u32,
        /// The bytes of the message behind these numbers.
        payload: usize,
    },
    /// Pages can be unlocked, locked, and locked on fault.
    #[error("a message about locked pages with the unknown way {how}; ways are 0 to 2")]
    Locking {
        /// The way that the message names.
        how: u64,
    },
    /// Thread numbers begin with 1.
    #[error("a message of process {pid} without a thread")]
    NoThread {
        /// The system's number of the process.
        pid: u32,
    },
    /// A process speaks before it said that it starts.
    #[error("process {pid} sends events before its start")]
    UnknownProcess {
        /// The system's number of the process.
        pid: u32,
    },
    /// A child names a fork that its parent did not announce.
    #[error("process {pid} says it is fork {ticket} of process {parent}, which announced no such fork")]
    UnknownFork {
        /// The system's number of the child.
        pid: u32,
        /// The system's number of the child's parent.
        parent: u32,
        /// The number of the fork that the child names.
        ticket: u64,
    },
}

/// Decodes one packet into a message.
///
/// # Errors
///
/// Everything that is not a well-formed message of this version.
pub fn decode(bytes: &[u8]) -> Result<Message<'_>, ProtocolError> {
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(ProtocolError::Short { bytes: bytes.len() });
    };
    let u16_at = |i: usize| u16::from_le_bytes([header[i], header[i + 1]]);
    let u32_at = |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
    if u32_at(0) != MAGIC {
        return Err(ProtocolError::Magic { found: u32_at(0) });
    }
    if u16_at(4) != VERSION {
        return Err(ProtocolError::Version { found: u16_at(4) });
    }
    let (kind, pid, thread, announced) = (u16_at(6), u32_at(8), u32_at(12), u32_at(16));
    if announced as usize != payload.len() || payload.len() % 8 != 0 || payload.len() > 8 * RECORDS_MAX {
        return Err(ProtocolError::Length { kind, announced, found: payload.len() });
    }
    if thread == 0 {
        return Err(ProtocolError::NoThread { pid });
    }
    let instructions = u64::from(u32_at(24)) | u64::from(u32_at(28)) << 32;
    let body = decode_body(kind, payload, instructions)?;
    Ok(Message { pid, thread, body })
}

fn decode_body(kind: u16, payload: &[u8], instructions: u64) -> Result<Body<'_>, ProtocolError> {
    Ok(match kind {
        1 => words(kind, payload).map(|[]: [u64; 0]| Body::Start)?,
        2 => Body::Records { instructions, records: Records(payload) },
        3 => words(kind, payload).map(|[]: [u64; 0]| Body::ThreadEnd)?,
        4 => words(kind, payload).map(|[ticket]| Body::Fork { ticket })?,
        5 => words(kind, payload).map(|[ticket]| Body::ForkFailed { ticket })?,
        6 => {
            words(kind, payload).map(|[parent, ticket]| Body::ForkChild { parent: parent as u32, ticket })?
        }
        7 => words(kind, payload).map(|[]: [u64; 0]| Body::End)?,
        8 => words(kind, payload).map(|[start, bytes, prot, flags, device, inode, offset]| Body::Map {
            mapping: mapping(start, bytes, prot, flags),
            file: ((device, inode) != (0, 0))
                .then_some(File { identity: (device, inode), first_page: offset / PAGE_BYTES }),
            residence: residence(flags),
        })?,
        9 => words(kind, payload).map(|[start, bytes]| Body::Unmap(pages(start, bytes)))?,
        10 => words(kind, payload)
            .map(|[start, bytes, prot]| Body::Protect(pages(start, bytes), protection(prot)))?,
        11 => words(kind, payload)
            .map(|[start, bytes, number]| Body::Advise(pages(start, bytes), advice(number)))?,
        12 => words(kind, payload).map(|[old, old_bytes, new, new_bytes, flags]| Body::Remap {
            from: pages(old, old_bytes),
            to: pages(new, new_bytes),
            keeps_old: flags & MREMAP_DONTUNMAP != 0,
        })?,
        13 => words(kind, payload)
            .map(|[start, end]| Body::Break(VirtRange::new(VirtAddr(start), VirtAddr(end)).to_pages()))?,
        14 => words(kind, payload).and_then(|[start, bytes, how]| {
            match usize::try_from(how).ok().and_then(|how| LOCKING.get(how)) {
                Some(&advice) => Ok(Body::Lock(pages(start, bytes), advice)),
                None => Err(ProtocolError::Locking { how }),
            }
        })?,
        15 => words(kind, payload).map(|[flags]| lock_all(flags))?,
        16 => Body::Exec(Some(path(payload)).filter(|path| !path.is_empty())),
        17 => words(kind, payload).map(|[is_set]| Body::Filter(is_set != 0))?,
        18 => {
            let Some((pid, rest)) = payload.split_first_chunk::<8>() else {
                return Err(ProtocolError::Words { kind, words: 0, expected: 1 });
            };
            let pid = u64::from_le_bytes(*pid) as u32;
            Body::Spawn((pid != 0).then_some(pid), path(rest))
        }
        19 => Body::Code(block_code(payload)?),
        _ => return Err(ProtocolError::Kind { kind }),
    })
}

fn block_code(payload: &[u8]) -> Result<BlockCode<'_>, ProtocolError> {
    let Some((front, rest)) = payload.split_at_checked(24) else {
        return Err(ProtocolError::Words { kind: 19, words: payload.len() / 8, expected: 3 });
    };
    let [number, addr, lengths] = words(19, front)?;
    let (isa, bytes, instructions) = ((number >> 32) as u32, lengths as u32, (lengths >> 32) as u32);
    let length = usize::try_from(bytes)
        .ok()
        .filter(|&bytes| (1..=Code::MAX_BYTES).contains(&bytes) && bytes.div_ceil(8) * 8 == rest.len());
    match (Isa::OF_PROCESSORS.get(isa as usize), length) {
        (Some(&isa), Some(length)) => {
            let (number, bytes) = (number as u32, &rest[..length]);
            Ok(BlockCode { number, addr: VirtAddr(addr), isa, instructions, bytes })
        }
        _ => Err(ProtocolError::Code { bytes, isa, payload: rest.len() }),
    }
}

/// Up to the first zero.
fn path(payload: &[u8]) -> &OsStr {
    OsStr::from_bytes(payload.split(|&byte| byte == 0).next().unwrap_or_default())
}

fn words<const N: usize>(kind: u16, payload: &[u8]) -> Result<[u64; N], ProtocolError> {
    let (chunks, _) = payload.as_chunks::<8>();
    if chunks.len() != N {
        return Err(ProtocolError::Words { kind, words: chunks.len(), expected: N });
    }
    let mut out = [0; N];
    for (word, chunk) in out.iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(*chunk);
    }
    Ok(out)
}

// Numbers of the x86-64 Linux system-call interface.
const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_SHARED: u64 = 1; // MAP_SHARED_VALIDATE, 3, has this bit too; MAP_PRIVATE is 2
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_HUGETLB: u64 = 0x4_0000;
const MAP_HUGE_SHIFT: u32 = 26;
const MAP_LOCKED: u64 = 0x2000;
const MAP_POPULATE: u64 = 0x8000;
const MAP_NONBLOCK: u64 = 0x1_0000;
const MREMAP_DONTUNMAP: u64 = 4;
const MCL_CURRENT: u64 = 1;
const MCL_FUTURE: u64 = 2;
const MCL_ONFAULT: u64 = 4;
/// By the number of a message about locked pages.
const LOCKING: [Advice; 3] = [Advice::Unlock, Advice::Lock, Advice::LockOnFault];

fn pages(start: u64, bytes: u64) -> VirtRange {
    VirtRange::sized(VirtAddr(start), bytes).to_pages()
}

fn protection(bits: u64) -> Protection {
    Protection { read: bits & PROT_READ != 0, write: bits & PROT_WRITE != 0, execute: bits & PROT_EXEC != 0 }
}

fn mapping(start: u64, bytes: u64, prot: u64, flags: u64) -> Mapping {
    let huge = (flags & MAP_HUGETLB != 0).then_some(match (flags >> MAP_HUGE_SHIFT) & 63 {
        30 => PageSize::Size1G,
        _ => PageSize::Size2M, // 21, and 0 for the system's default, which x86-64 kernels have at 2 MiB
    });
    Mapping {
        range: pages(start, bytes),
        protection: protection(prot),
        backing: if flags & MAP_ANONYMOUS != 0 { Backing::Anonymous } else { Backing::File },
        shared: flags & MAP_SHARED != 0,
        huge,
        object: None,
    }
}

/// With `MAP_NONBLOCK`, `MAP_POPULATE` does nothing.
fn residence(flags: u64) -> Option<Advice> {
    if flags & MAP_LOCKED != 0 {
        return Some(Advice::Lock);
    }
    (flags & (MAP_POPULATE | MAP_NONBLOCK) == MAP_POPULATE).then_some(Advice::Populate)
}

fn lock_all(flags: u64) -> Body<'static> {
    let advice = if flags & MCL_ONFAULT != 0 { Advice::LockOnFault } else { Advice::Lock };
    match flags {
        0 => Body::LockAll { current: Some(Advice::Unlock), future: None },
        _ => Body::LockAll {
            current: (flags & MCL_CURRENT != 0).then_some(advice),
            future: (flags & MCL_FUTURE != 0).then_some(advice),
        },
    }
}

fn advice(number: u64) -> Option<Advice> {
    match number {
        3 => Some(Advice::WillNeed),
        4 | 24 => Some(Advice::DontNeed), // MADV_DONTNEED, MADV_DONTNEED_LOCKED
        8 => Some(Advice::Free),
        9 => Some(Advice::Remove),
        10 => Some(Advice::DontFork),
        11 => Some(Advice::DoFork),
        14 => Some(Advice::HugePage),
        15 => Some(Advice::NoHugePage),
        18 => Some(Advice::WipeOnFork),
        19 => Some(Advice::KeepOnFork),
        20 => Some(Advice::Cold),
        21 => Some(Advice::PageOut),
        22 => Some(Advice::PopulateRead),
        23 => Some(Advice::PopulateWrite),
        25 => Some(Advice::Collapse),
        _ => None,
    }
}
