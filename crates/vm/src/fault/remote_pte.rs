//! Entries of pages that are in remote memory.

use std::fmt;

use crate::addr::Pfn;

/// The number of a page in remote memory: 28 bits.
///
/// The thesis' Linux numbers pages "(0, 2^28]", but 2^28 has 29 bits. The device takes every 28-bit number, 0 as well; a
/// system uses those from 1 on, so that 0 can mean "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PageId(u32);

impl PageId {
    /// Bits of a number.
    pub const BITS: u32 = 28;
    /// The largest number that an id can have.
    pub const MAX: Self = Self((1 << Self::BITS) - 1);

    /// Returns the page of this number, if the number has no more than 28 bits.
    #[inline]
    pub const fn new(number: u32) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Returns the low 28 bits of a word.
    #[inline]
    pub const fn of_low_bits(word: u64) -> Self {
        Self(word as u32 & Self::MAX.0)
    }

    /// Returns the id as a plain number.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A page-table entry that says that its page is in remote memory.
///
/// ```text
///  63       40 39       12 11         2  1   0
/// +-----------+-----------+------------+---+---+
/// | reserved  |    id     | protection | R | V |      R = 1, V = 0
/// +-----------+-----------+------------+---+---+
///                 10 bits:  RSW D A G U X W R V       the low bits of the local entry
/// ```
///
/// An entry with V = 1 is an ordinary one, and one with V = R = 0 is plainly invalid. Only a 4 KiB leaf can be remote.
/// Source: Pemberton, UCB/EECS-2019-154, Figure 9 and B.3; `reserved` is of the later specification.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemotePte {
    /// The page's number in remote memory.
    pub id: PageId,
    /// Bits 9 to 0 of the local entry, once the page is back; more bits are an error. [`Self::VALID`] may be clear: then
    /// the page is fetched, and the access faults all the same.
    pub protection: u16,
    /// 24 bits for software, returned with the number when the page was fetched; more bits are an error.
    pub reserved: u32,
}

impl RemotePte {
    /// The flag of a valid entry, in `protection` and in local entries.
    pub const VALID: u16 = 1 << 0;
    /// The flag that allows loads.
    pub const READ: u16 = 1 << 1;
    /// The flag that allows stores.
    pub const WRITE: u16 = 1 << 2;
    /// The flag that allows instruction fetches.
    pub const EXECUTE: u16 = 1 << 3;
    /// The flag that allows accesses in user mode.
    pub const USER: u16 = 1 << 4;
    /// The flag of a page that is mapped in all address spaces.
    pub const GLOBAL: u16 = 1 << 5;
    /// The flag of a page that was accessed.
    pub const ACCESSED: u16 = 1 << 6;
    /// The flag of a page that was written to.
    pub const DIRTY: u16 = 1 << 7;
    /// Fetched, and the system has not yet taken note of it: set when a page leaves, cleared when the system has booked
    /// its return. The thesis says that it is one of the two bits that are free for software (4.3.2); that it is the
    /// upper one is assumed: Linux for RISC-V marks special pages with the lower one.
    pub const UNBOOKED: u16 = 1 << 9;
    /// The flags that an access is checked against.
    pub const PERMISSIONS: u16 = Self::READ | Self::WRITE | Self::EXECUTE | Self::USER;

    const REMOTE: u64 = 1 << 1;
    const PROTECTION_SHIFT: u32 = 2;
    const PROTECTION_MASK: u64 = (1 << 10) - 1;
    const ID_SHIFT: u32 = 12;
    const RESERVED_SHIFT: u32 = 40;
    const FRAME_SHIFT: u32 = 10;
    const FRAME_BITS: u32 = 44;

    /// Returns the entry as the word that stands in memory.
    #[inline]
    pub const fn encode(self) -> u64 {
        assert!(self.protection as u64 <= Self::PROTECTION_MASK, "a protection has 10 bits");
        assert!(self.reserved < 1 << 24, "24 bits are reserved for software");
        (self.reserved as u64) << Self::RESERVED_SHIFT
            | (self.id.0 as u64) << Self::ID_SHIFT
            | (self.protection as u64) << Self::PROTECTION_SHIFT
            | Self::REMOTE
    }

    /// Returns the entry of a word; `None` if the word is not a remote entry.
    #[inline]
    pub const fn decode(word: u64) -> Option<Self> {
        if word & (Self::REMOTE | Self::VALID as u64) != Self::REMOTE {
            return None;
        }
        Some(Self {
            id: PageId::of_low_bits(word >> Self::ID_SHIFT),
            protection: (word >> Self::PROTECTION_SHIFT & Self::PROTECTION_MASK) as u16,
            reserved: (word >> Self::RESERVED_SHIFT) as u32,
        })
    }

    /// Returns the word of the local entry, when the page has come into `frame`.
    #[inline]
    pub const fn local(self, frame: Pfn) -> u64 {
        assert!(self.protection as u64 <= Self::PROTECTION_MASK, "a protection has 10 bits");
        assert!(frame.0 >> Self::FRAME_BITS == 0, "a frame number has 44 bits");
        frame.0 << Self::FRAME_SHIFT | self.protection as u64
    }

    /// Returns the same page with other [permissions](Self::PERMISSIONS). A system that takes permissions away has to
    /// do this to all remote entries of the range, because the device gives what it finds there.
    #[inline]
    pub const fn permitting(self, permissions: u16) -> Self {
        Self { protection: permitting(self.protection as u64, permissions) as u16, ..self }
    }

    /// Returns whether a word is the local entry of a page that was fetched and not yet booked.
    #[inline]
    pub const fn is_unbooked(local: u64) -> bool {
        local & Self::VALID as u64 != 0 && local & Self::UNBOOKED as u64 != 0
    }

    /// Returns the local entry after bookkeeping: booked, with the permissions that the page is to have now.
    ///
    /// They were fixed when the page left and may have changed since, so they are replaced, not trusted (thesis, 4.3.2).
    #[inline]
    pub const fn booked(local: u64, permissions: u16) -> u64 {
        permitting(local, permissions) & !(Self::UNBOOKED as u64)
    }
}

const fn permitting(bits: u64, permissions: u16) -> u64 {
    assert!(permissions & !RemotePte::PERMISSIONS == 0, "permissions are R, W, X and U");
    bits & !(RemotePte::PERMISSIONS as u64) | permissions as u64
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageId({:#x})", self.0)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
