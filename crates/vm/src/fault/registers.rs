//! The accelerator as a program sees it: eight registers of eight bytes.

use super::{Accelerator, Eviction, PageId};
use crate::addr::{Pfn, PhysAddr};

/// A register; the discriminant is its offset in the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Register {
    /// Store: the physical address of a free frame.
    Free = 0,
    /// Load: unused slots of the free queue.
    FreeStat = 8,
    /// Store: a page to evict.
    Evict = 16,
    /// Load: unused slots of the evict queue; all of them when every eviction is complete.
    EvictStat = 24,
    /// Load: takes the id of the page that was fetched first.
    NewPgid = 32,
    /// Load: takes the address of the page that was fetched first.
    NewVaddr = 40,
    /// Load: pages in the new queue.
    NewStat = 48,
    /// Store: the address of a scratch page.
    InitMem = 56,
}

impl Register {
    /// All of them, by offset.
    pub const ALL: [Self; 8] = [
        Self::Free,
        Self::FreeStat,
        Self::Evict,
        Self::EvictStat,
        Self::NewPgid,
        Self::NewVaddr,
        Self::NewStat,
        Self::InitMem,
    ];
    /// Bytes of each, and of every access.
    pub const BYTES: u64 = 8;
    /// The physical address of the register block in the published system.
    pub const BLOCK: PhysAddr = PhysAddr(0x1001_7000);
    /// Bytes that the block takes.
    pub const BLOCK_BYTES: u64 = 0x1000;

    /// Returns the register's offset in the block, in bytes.
    #[inline]
    pub const fn offset(self) -> u64 {
        self as u64
    }

    fn at(offset: u64, bytes: u64) -> Result<Self, Illegal> {
        let known = Self::ALL.into_iter().find(|register| register.offset() == offset);
        known.filter(|_| bytes == Self::BYTES).ok_or(Illegal::NoRegister { offset, bytes })
    }

    /// Returns the register's name as the specification writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "FREE",
            Self::FreeStat => "FREE_STAT",
            Self::Evict => "EVICT",
            Self::EvictStat => "EVICT_STAT",
            Self::NewPgid => "NEW_PGID",
            Self::NewVaddr => "NEW_VADDR",
            Self::NewStat => "NEW_STAT",
            Self::InitMem => "INIT_MEM",
        }
    }
}

/// An operation that the device refuses, and that has changed nothing. For a program it is a load or store access fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Illegal {
    /// No register lies at the offset.
    #[error("no register of {bytes} bytes at offset {offset:#x}; there are eight of 8 bytes, at 0 to 56")]
    NoRegister {
        /// The offset in the block, in bytes.
        offset: u64,
        /// The width of the access in bytes.
        bytes: u64,
    },
    /// A load of what can only be stored to.
    #[error("{} cannot be loaded", .0.name())]
    StoreOnly(Register),
    /// A store to what can only be loaded.
    #[error("{} cannot be stored to", .0.name())]
    LoadOnly(Register),
    /// The free queue is full: FREE_STAT is 0.
    #[error("the free queue is full: {depth} frames")]
    FreeQueueFull {
        /// The number of entries that the queue holds.
        depth: usize,
    },
    /// The evict queue is full: EVICT_STAT is 0.
    #[error("the evict queue is full: {depth} pages")]
    EvictQueueFull {
        /// The number of entries that the queue holds.
        depth: usize,
    },
    /// The new queue holds no page to report.
    #[error("the new queue is empty")]
    NewQueueEmpty,
    /// A frame that is not in memory.
    #[error("{0} is no frame of memory")]
    NoMemory(PhysAddr),
    /// An address inside a page, where that of a page is needed.
    #[error("{0} is not the address of a frame: it is not a multiple of 4096")]
    Unaligned(PhysAddr),
    /// Remote memory has no room for another page.
    #[error("remote memory is full: {pages} pages")]
    RemoteMemoryFull {
        /// The pages that it holds.
        pages: u32,
    },
}

/// The evict register's word.
///
/// ```text
///  63        36 35                    0
/// +------------+-----------------------+
/// |  page id   |     frame number      |
/// +------------+-----------------------+
/// ```
///
/// The thesis' Figure 7 has the system store the address of the entry instead; Appendix B.4.3 has this, and it holds all
/// that the device needs.
impl Accelerator {
    const EVICT_FRAME_MASK: u64 = (1 << Self::FRAME_BITS) - 1;

    /// Returns the eviction that a word stored to EVICT asks for.
    pub const fn eviction_of(word: u64) -> Eviction {
        let id = PageId::new((word >> Self::FRAME_BITS) as u32).expect("28 bits are left");
        Eviction { id, frame: Pfn(word & Self::EVICT_FRAME_MASK) }
    }

    /// Returns the word that a program stores to EVICT.
    #[inline]
    pub const fn evict_word(id: PageId, frame: Pfn) -> u64 {
        assert!(frame.0 <= Self::EVICT_FRAME_MASK, "a frame number has 36 bits here");
        (id.number() as u64) << Self::FRAME_BITS | frame.0
    }

    /// Does a load of `bytes` at `offset` in the register block.
    ///
    /// # Errors
    ///
    /// [`Illegal`], with nothing changed.
    pub fn load(&mut self, offset: u64, bytes: u64) -> Result<u64, Illegal> {
        let register = Register::at(offset, bytes)?;
        match register {
            Register::FreeStat => Ok(self.free_slots() as u64),
            Register::EvictStat => Ok(self.evict_slots() as u64),
            Register::NewPgid => self.pop_new_id().map(|new| new.word()),
            Register::NewVaddr => self.pop_new_addr().map(|addr| addr.0),
            Register::NewStat => Ok(self.new_pages() as u64),
            Register::Free | Register::Evict | Register::InitMem => Err(Illegal::StoreOnly(register)),
        }
    }

    /// Does a store of `bytes` at `offset` in the register block.
    ///
    /// # Errors
    ///
    /// [`Illegal`], with nothing changed.
    pub fn store(&mut self, offset: u64, bytes: u64, value: u64) -> Result<(), Illegal> {
        let register = Register::at(offset, bytes)?;
        match register {
            Register::Free => {
                let addr = PhysAddr(value);
                let aligned = addr == addr.frame().addr();
                if aligned { self.give_frame(addr.frame()) } else { Err(Illegal::Unaligned(addr)) }
            }
            Register::Evict => {
                let id = PageId::of_low_bits(value >> Self::FRAME_BITS);
                self.evict(id, Pfn(value & Self::EVICT_FRAME_MASK))
            }
            Register::InitMem => {
                self.set_init_word(value);
                Ok(())
            }
            Register::FreeStat
            | Register::EvictStat
            | Register::NewPgid
            | Register::NewVaddr
            | Register::NewStat => Err(Illegal::LoadOnly(register)),
        }
    }
}
