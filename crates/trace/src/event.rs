//! Events: memory accesses in 8-byte records, and everything else in side records ("marks") between them.

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
    const WRITE: u64 = 1 << 51;
    /// Bits that must be zero.
    pub const RESERVED: u64 = !((1 << 52) - 1);

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

    /// Returns the address of the first byte.
    #[inline]
    pub const fn addr(self) -> VirtAddr {
        VirtAddr(self.0 & Self::ADDR_MASK)
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
    /// The page had this frame where the program ran: from now on, until another such event about the same addresses.
    /// It says nothing of whether the page is there, or was touched.
    Frame(PageFrame),
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
    /// The event at this place of the batch.
    pub event: Event,
}

/// A run of consecutive events: accesses, and marks between them in ascending order of place.
///
/// # Contract
///
/// `marks` is sorted by `at` (equal places keep their order), no `at` exceeds `accesses.len()`, and a batch
/// holds at most [`Batch::MAX`] accesses. Of a batch with accesses whose instruction count is known, the first access has
/// an [`Event::Instructions`] mark before it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// The accesses in program order.
    pub accesses: Vec<Access>,
    /// The marks between them.
    pub marks: Vec<Mark>,
}

impl Batch {
    /// The number of accesses that a producer puts into a batch before it hands it on: 64 KiB of records.
    pub const FULL: usize = 8_192;
    /// The most accesses that a batch may hold.
    pub const MAX: usize = 65_536;

    /// Creates an empty batch with room for [`Batch::FULL`] accesses.
    pub fn new() -> Self {
        Self { accesses: Vec::with_capacity(Self::FULL), marks: Vec::new() }
    }

    /// Appends an access to the batch.
    #[inline]
    pub fn push(&mut self, access: Access) {
        self.accesses.push(access);
    }

    /// Appends a mark behind the accesses so far.
    pub fn mark(&mut self, event: Event) {
        let at = self.accesses.len() as u32;
        self.marks.push(Mark { at, event });
    }

    /// Returns whether a producer should hand the batch on now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.accesses.len() >= Self::FULL
    }

    /// Returns whether the batch holds neither accesses nor marks.
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty() && self.marks.is_empty()
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.accesses.clear();
        self.marks.clear();
    }
}
