//! Events: memory accesses in 8-byte records, and everything else in side records ("marks") between them.

use std::sync::Arc;

use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr, VirtRange};
pub use pagewalk_vm::frame::PageFrame;
pub use pagewalk_vm::space::{Advice, Backing, Mapping, ObjectId, ObjectPages, Protection};

/// One data access, packed into 8 bytes; in memory, on the wire from a front-end and in a file alike.
///
/// ```text
///  63        52 51 50   48 47                                            0
/// +------------+--+-------+-----------------------------------------------+
/// |     0      |W | log2  |               virtual address                 |
/// |            |  | size  |                                               |
/// +------------+--+-------+-----------------------------------------------+
/// ```
///
/// `W` = 1 for a store. `log2 size` is of the size in bytes, rounded up to a power of two; 6 is a 64-byte line
/// of a block copy, 7 is unused. The value 0 is *no access* (a guarded access whose guard was false, as a
/// front-end writes it): a consumer skips it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Access(pub u64);

impl Access {
    /// The record that stands for no access at all.
    pub const NONE: Self = Self(0);
    /// The bits of an address.
    pub const ADDR_BITS: u32 = 48;
    const ADDR_MASK: u64 = (1 << Self::ADDR_BITS) - 1;
    /// The bit of a store.
    pub const WRITE: u64 = 1 << 51;
    /// Bits that must be zero in files, and in batches of a producer.
    pub const RESERVED: u64 = !((1 << 52) - 1);
    /// The bit of a part of an access: see [`Access::continued`].
    const CONTINUED: u64 = 1 << 52;

    /// Creates an access of `bytes` at `addr`. The size is rounded up to a power of two and capped at 64 bytes;
    /// address bits above 47 are dropped (user addresses of x86-64 Linux have none).
    #[inline]
    pub const fn new(addr: VirtAddr, bytes: u32, write: bool) -> Self {
        let bytes = if bytes == 0 {
            1
        } else if bytes > 64 {
            64
        } else {
            bytes
        };
        let log2 = bytes.next_power_of_two().trailing_zeros() as u64;
        Self((addr.0 & Self::ADDR_MASK) | log2 << Self::ADDR_BITS | (write as u64) << 51)
    }

    /// Returns a load of `bytes` at `addr`.
    #[inline]
    pub const fn load(addr: VirtAddr, bytes: u32) -> Self {
        Self::new(addr, bytes, false)
    }

    /// Returns a store of `bytes` at `addr`.
    #[inline]
    pub const fn store(addr: VirtAddr, bytes: u32) -> Self {
        Self::new(addr, bytes, true)
    }

    /// Returns the access as one that goes on where the one before it ended: a consumer that divides an access tells its parts from
    /// accesses of their own. In memory only; no producer sends one.
    #[inline]
    pub const fn continued(self) -> Self {
        Self(self.0 | Self::CONTINUED)
    }

    /// Returns whether the access is a further part of the one before it.
    #[inline]
    pub const fn is_continued(self) -> bool {
        self.0 & Self::CONTINUED != 0
    }

    /// Returns the address of the first byte.
    #[inline]
    pub const fn addr(self) -> VirtAddr {
        VirtAddr(self.0 & Self::ADDR_MASK)
    }

    /// Returns the bits of the page's address and of the kind: all loads from a page have the same, and so have all stores to it.
    #[inline]
    pub const fn page_and_kind(self) -> u64 {
        self.0 & (Self::ADDR_MASK & !(PAGE_BYTES - 1) | Self::WRITE)
    }

    /// Returns the base-2 logarithm of the size in bytes, 0 to 7.
    #[inline]
    pub const fn size_log2(self) -> u32 {
        (self.0 >> Self::ADDR_BITS) as u32 & 7
    }

    /// Returns the size in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        1 << self.size_log2()
    }

    /// Returns whether it is a store.
    #[inline]
    pub const fn is_write(self) -> bool {
        self.0 & Self::WRITE != 0
    }

    /// Returns the same access with its size reduced, if rounding up made it reach beyond its page, to the largest
    /// power of two that does not.
    pub const fn within_page(self) -> Self {
        let room = PAGE_BYTES - (self.addr().0 & (PAGE_BYTES - 1));
        if self.bytes() <= room {
            return self;
        }
        Self(self.0 & !(7 << Self::ADDR_BITS) | (room.ilog2() as u64) << Self::ADDR_BITS)
    }

    /// Returns whether this is a real access and not [`Access::NONE`].
    #[inline]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_write() { "store" } else { "load" };
        write!(f, "{kind} {} @{:#x}", self.bytes(), self.addr().0)
    }
}

/// A thread of the observed program, numbered by the front-end, 1 for the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ThreadId(pub u32);

/// A process of the observed program, numbered from 0 in order of appearance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ProcessId(pub u32);

/// The number of a block of instructions that a program executes in a row: a front-end enters it at its first instruction, and
/// leaves it at its last one at the latest.
///
/// Two programs, and one program before and after it changed its code, have different blocks at one address; a forked child executes
/// those of its parent. Blocks of a stream are numbered from 0, in the order of their [`Event::Code`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BlockId(pub u32);

/// The instruction set of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Isa {
    /// AMD64 and Intel 64, in 64-bit mode.
    X86_64,
    /// A64 of Arm's 64-bit architecture.
    Aarch64,
    /// RV64 with any extensions.
    Riscv64,
    /// LoongArch of 64 bits.
    LoongArch64,
    /// The instructions of a program without machine code: a built-in workload. `pagewalk_code::model` describes them.
    Model,
    /// The outlines of a program's instructions, from a trace that has no bytes of them. `pagewalk_code::outline` describes them.
    Outline,
}

impl Isa {
    /// Returns all instruction sets, in the order of their codes in files and on the wire.
    pub const ALL: [Self; 6] =
        [Self::X86_64, Self::Aarch64, Self::Riscv64, Self::LoongArch64, Self::Model, Self::Outline];

    /// The instruction sets of processors, which a program under observation may have.
    pub const OF_PROCESSORS: [Self; 4] = [Self::X86_64, Self::Aarch64, Self::Riscv64, Self::LoongArch64];
}

/// The instructions of a block, as a front-end found them when the program first came to it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Code {
    /// The number of the block, which no other block of the stream has.
    pub block: BlockId,
    /// The address of the first instruction.
    pub addr: VirtAddr,
    /// The instruction set in which the bytes are written.
    pub isa: Isa,
    /// The bytes of the instructions, at most [`Code::MAX_BYTES`].
    pub bytes: Arc<[u8]>,
}

impl Code {
    /// The most bytes that a block has; an engine ends a longer one there.
    pub const MAX_BYTES: usize = 1 << 14;
}

/// One execution of a block, with its place among the accesses of its batch.
///
/// The accesses from there on are the block's, up to the next block. Those of a thread before its first block in a batch are of
/// the block that the thread executed last. A block whose execution a fault cuts short has the accesses that were made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Executed {
    /// The number of accesses of the batch that come before the block.
    pub at: u32,
    /// The block that the current thread executes.
    pub block: BlockId,
}

/// An entry of the stream that is not an access. Each applies to the process and thread that are current (process 0,
/// thread 1 at the start).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// So many instructions contain the accesses that follow, up to the next `Instructions` mark or the end of
    /// the batch, whichever comes first. The count includes instructions without an access; where in between
    /// they lie is not known, a consumer spreads them evenly.
    Instructions(u64),
    /// The accesses that follow are this thread's.
    Thread(ThreadId),
    /// The thread ended its work.
    ThreadEnd(ThreadId),
    /// The events that follow are this process's.
    Process(ProcessId),
    /// The current process made a child with a copy of its address space.
    Fork {
        /// The number of the new process.
        child: ProcessId,
    },
    /// The current process replaced its program: its address space is empty now.
    Exec,
    /// The current process ended.
    ProcessEnd,
    /// A part of the current process was not observed: a sentence with the program and the reason.
    Unobserved(String),
    /// The program mapped memory.
    Map(Mapping),
    /// The program unmapped everything in the range.
    Unmap(VirtRange),
    /// The protection of everything mapped in the range changed.
    Protect(VirtRange, Protection),
    /// `madvise`, `mlock` or a flag of `mmap` with the same meaning, over the range.
    Advise(VirtRange, Advice),
    /// `mremap`: the mapping at `from` is now at `to`, its pages moved along; a longer `to` adds fresh pages
    /// at the end, a shorter one drops pages.
    Remap {
        /// The old range of the mapping.
        from: VirtRange,
        /// The new range of the mapping.
        to: VirtRange,
    },
    /// `brk`: the heap segment is now this range (possibly empty).
    Break(VirtRange),
    /// A system call, or the delivery of a signal, wrote these bytes into the memory of the current process: what `read` puts into a
    /// buffer, for example. No access of the stream says so.
    KernelWrite(VirtRange),
    /// The page had this frame where the program ran: from now on, until another such event about the same addresses.
    /// It says nothing of whether the page is there, or was touched.
    Frame(PageFrame),
    /// The instructions of a block that the program will execute.
    Code(Code),
    /// A named phase of the program begins; metrics are also reported per phase.
    Phase(String),
    /// A job begins, what one client asked a server for: the accesses that follow, up to its end, are its. Jobs do not
    /// nest, and are independent of each other: a machine may run them at any time, on any core, and go over to another
    /// one in the middle.
    JobBegin {
        /// When the server gets it, counted from its start; none if there is always another one waiting. Never before
        /// the job before it.
        arrival_ps: Option<u64>,
    },
    /// The job ended its work.
    JobEnd,
    /// The range is the stack of whichever thread runs a job: every thread has its own, at these same addresses. An empty
    /// range ends that.
    ThreadStack(VirtRange),
}

/// An [`Event`] with its place among the accesses of its batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mark {
    /// The number of accesses of the batch that come before the event.
    pub at: u32,
    /// The number of executed blocks of the batch that come before the event.
    pub blocks: u32,
    /// The event at this place of the batch.
    pub event: Event,
}

impl Mark {
    /// Returns a mark of a batch without executed blocks.
    pub const fn at(at: u32, event: Event) -> Self {
        Self { at, blocks: 0, event }
    }
}

/// A run of consecutive events: accesses, the blocks that made them if the source gives them, and marks between them in
/// ascending order of place.
///
/// # Contract
///
/// `marks` is sorted by `at` and by `blocks` (equal places keep their order), `blocks` by `at`; no place exceeds the lengths of
/// the lists, and of a mark and a block, the one that comes first is not behind the other among the accesses. A batch holds at most
/// [`Batch::MAX`] accesses and as many blocks. Of a batch with accesses whose instruction count is known, the first access has
/// an [`Event::Instructions`] mark before it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// The accesses in program order.
    pub accesses: Vec<Access>,
    /// The executed blocks; empty if the source does not give them.
    pub blocks: Vec<Executed>,
    /// The marks between them.
    pub marks: Vec<Mark>,
}

impl Batch {
    /// The number of accesses, or of blocks, that a producer puts into a batch before it hands it on: 64 KiB of records.
    pub const FULL: usize = 8_192;
    /// The most accesses, and the most blocks, that a batch may hold.
    pub const MAX: usize = 65_536;

    /// Creates an empty batch with room for [`Batch::FULL`] accesses.
    pub fn new() -> Self {
        Self { accesses: Vec::with_capacity(Self::FULL), ..Self::default() }
    }

    /// Appends an access to the batch.
    #[inline]
    pub fn push(&mut self, access: Access) {
        self.accesses.push(access);
    }

    /// Appends the execution of a block behind the accesses so far.
    #[inline]
    pub fn execute(&mut self, block: BlockId) {
        self.blocks.push(Executed { at: self.accesses.len() as u32, block });
    }

    /// Appends a mark behind the accesses and blocks so far.
    pub fn mark(&mut self, event: Event) {
        let (at, blocks) = (self.accesses.len() as u32, self.blocks.len() as u32);
        self.marks.push(Mark { at, blocks, event });
    }

    /// Returns whether a producer should hand the batch on now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.accesses.len() >= Self::FULL || self.blocks.len() >= Self::FULL
    }

    /// Returns whether the batch holds no access, no block and no mark.
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty() && self.blocks.is_empty() && self.marks.is_empty()
    }

    /// Checks what the contract says of the lengths and of the order of places.
    ///
    /// # Errors
    ///
    /// What is wrong with the batch, in words.
    pub fn check(&self) -> Result<(), String> {
        let (accesses, blocks) = (self.accesses.len(), self.blocks.len());
        if accesses.max(blocks) > Self::MAX {
            let most = Self::MAX;
            return Err(format!(
                "a batch of {accesses} accesses and {blocks} blocks; at most {most} of each are allowed"
            ));
        }
        if !self.marks.is_sorted_by_key(|mark| mark.at) || !self.blocks.is_sorted_by_key(|block| block.at) {
            return Err("a batch whose marks or blocks are not in ascending order".to_owned());
        }
        let mark = self.marks.last().map_or(0, |mark| mark.at);
        let last = self.blocks.last().map_or(mark, |block| mark.max(block.at));
        if last as usize > accesses {
            return Err(format!("a mark or a block behind {last} accesses in a batch of {accesses}"));
        }
        let mut before = 0;
        for mark in &self.marks {
            let Some((done, rest)) = self.blocks.split_at_checked(mark.blocks as usize) else {
                return Err(format!("a mark behind {} blocks in a batch of {blocks}", mark.blocks));
            };
            let is_between = done.last().is_none_or(|block| block.at <= mark.at)
                && rest.first().is_none_or(|block| block.at >= mark.at);
            if mark.blocks < before || !is_between {
                return Err(format!(
                    "a mark behind {} accesses and {} blocks, which lie elsewhere",
                    mark.at, mark.blocks
                ));
            }
            before = mark.blocks;
        }
        Ok(())
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.accesses.clear();
        self.blocks.clear();
        self.marks.clear();
    }
}
