//! The geometries of radix tables: levels, index bits, the bits of an entry.

use crate::addr::{Granule, PAGE_BYTES, Pfn, Vpn};

/// A leaf entry, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Leaf {
    /// The first frame of the page.
    pub frame: Pfn,
    /// Loads are allowed (always, on x86-64).
    pub readable: bool,
    /// Whether the page may be stored to.
    pub writable: bool,
    /// Instruction fetches are allowed.
    pub executable: bool,
    /// The walker has used the entry.
    pub accessed: bool,
    /// A store has gone through the entry.
    pub dirty: bool,
}

impl Leaf {
    /// Returns a readable and writable leaf, not yet accessed.
    pub fn data(frame: Pfn) -> Self {
        Self { frame, readable: true, writable: true, executable: false, accessed: false, dirty: false }
    }
}

/// An entry of a node, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The entry maps nothing.
    Empty,
    /// The next level's table.
    Table(Pfn),
    /// The entry maps a page.
    Leaf(Leaf),
}

/// The most levels that a radix table may have.
pub const MOST_LEVELS: usize = 6;

/// The number of levels of a radix table, the root's included; at most [`MOST_LEVELS`].
///
/// With entries of x86-64 and RISC-V, 3 levels map the 39 bits of Sv39, 4 the 48 of x86-64 and Sv48, and 5 the 57 of LA57 and Sv57.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels(pub u32);

/// The constants and the entry format of a radix table, of whatever number of levels. The one walker and the one table serve every
/// implementation.
pub trait Geometry {
    /// The size of base pages, and what follows from it.
    const GRANULE: Granule = Granule::Size4K;
    /// Bytes of a node, which is as large as a base page.
    const NODE_BYTES: u64 = Self::GRANULE.base().bytes();
    /// Index bits of the levels above the leaves: 512 entries of 8 bytes fill a frame.
    const INDEX_BITS: u32 = Self::NODE_BYTES.ilog2() - 3;
    /// log2 of the size of an entry at level 0, in bytes; so much less than 8 bytes as it has more of them.
    const LEAF_ENTRY_SHIFT: u32 = 3;
    /// Whether a leaf names one of the frames that its page may have, and not any frame: see [`X86_64Toc`].
    const IS_COMPRESSED: bool = false;
    /// The highest level that may hold a leaf, if the table has it.
    const MAX_LEAF_LEVEL: u32;

    /// The entry that points to the next level's table.
    fn table(frame: Pfn) -> u64;
    /// The entry of a page at `level`.
    fn leaf(leaf: Leaf, level: u32) -> u64;
    /// Decodes an entry that was read at `level`.
    fn decode(raw: u64, level: u32) -> Entry;

    /// log2 of the size of an entry at `level`, in bytes.
    #[inline]
    fn entry_shift(level: u32) -> u32 {
        if level == 0 { Self::LEAF_ENTRY_SHIFT } else { 3 }
    }

    /// Index bits of `level`.
    #[inline]
    fn index_bits(level: u32) -> u32 {
        Self::INDEX_BITS + 3 - Self::entry_shift(level)
    }

    /// log2 of the base pages of 4 KiB that an entry at `level` reaches.
    #[inline]
    fn reach_shift(level: u32) -> u32 {
        let leaf = Self::GRANULE.base().order();
        if level == 0 { leaf } else { leaf + Self::index_bits(0) + Self::INDEX_BITS * (level - 1) }
    }

    /// Base pages that a leaf at `level` maps.
    #[inline]
    fn leaf_pages(level: u32) -> u64 {
        1 << Self::reach_shift(level)
    }

    /// The index into the node at `level`.
    #[inline]
    fn index(vpn: Vpn, level: u32) -> u64 {
        vpn.0 >> Self::reach_shift(level) & ((1 << Self::index_bits(level)) - 1)
    }

    /// The first page number that the table cannot map (counting both halves of a signed address space).
    fn end(Levels(levels): Levels) -> Vpn {
        Vpn(1 << (Self::reach_shift(levels - 1) + Self::INDEX_BITS))
    }
}

/// The format of x86-64: four levels, or the five of LA57.
///
/// ```text
///  63 62    52 51                      12 11  9  8  7  6  5  4  3  2  1  0
/// +--+--------+--------------------------+-----+--+--+--+--+--+--+--+--+--+
/// |NX|  avail |       frame number       |avail| G|PS| D| A|CD|WT| U| W| P|
/// +--+--------+--------------------------+-----+--+--+--+--+--+--+--+--+--+
/// ```
///
/// `PS` marks a leaf above level 0. Source: Intel SDM volume 3A, section 4.5; AMD APM volume 2, section 5.3.
#[derive(Clone, Copy, Debug)]
pub enum X86_64 {}

/// The flags that are on, together.
#[inline]
fn bits_of<const FLAGS: usize>(flags: [(bool, u64); FLAGS]) -> u64 {
    flags.iter().filter(|(on, _)| *on).fold(0, |bits, (_, flag)| bits | flag)
}

mod x86 {
    use super::{Entry, Leaf, bits_of};
    use crate::addr::Pfn;

    const PRESENT: u64 = 1;
    const WRITABLE: u64 = 1 << 1;
    const USER: u64 = 1 << 2;
    const ACCESSED: u64 = 1 << 5;
    const DIRTY: u64 = 1 << 6;
    const PAGE_SIZE: u64 = 1 << 7;
    const NO_EXECUTE: u64 = 1 << 63;
    const FRAME: u64 = 0x000f_ffff_ffff_f000;

    pub(super) fn table(frame: Pfn) -> u64 {
        frame.addr().0 | PRESENT | WRITABLE | USER
    }

    pub(super) fn leaf(leaf: Leaf, level: u32) -> u64 {
        let flags = [
            (leaf.writable, WRITABLE),
            (!leaf.executable, NO_EXECUTE),
            (leaf.accessed, ACCESSED),
            (leaf.dirty, DIRTY),
            (level > 0, PAGE_SIZE),
        ];
        leaf.frame.addr().0 | PRESENT | USER | bits_of(flags)
    }

    pub(super) fn decode(raw: u64, level: u32) -> Entry {
        if raw & PRESENT == 0 {
            return Entry::Empty;
        }
        let frame = Pfn((raw & FRAME) >> 12);
        if level > 0 && raw & PAGE_SIZE == 0 {
            return Entry::Table(frame);
        }
        Entry::Leaf(Leaf {
            frame,
            readable: true,
            writable: raw & WRITABLE != 0,
            executable: raw & NO_EXECUTE == 0,
            accessed: raw & ACCESSED != 0,
            dirty: raw & DIRTY != 0,
        })
    }
}

/// The format of x86-64 whose leaf tables are tables of contents (Mosaic Pages, IEEE Micro 2024):
/// two bytes a page instead of eight, because a page's code says only which of the few frames it may have.
///
/// ```text
///  15        8 7  6  5  4  3  2  1  0
/// +-----------+--+--+--+--+--+--+--+--+
/// |   code    | 0| 0| D| A| X| W| R| P|
/// +-----------+--+--+--+--+--+--+--+--+
/// ```
///
/// A frame holds 2048 of them. The table of contents of a mosaic page of any arity is an aligned run of them, so that
/// one table serves every arity; up to 32 pages lie in one cache line. All bits of `code` set says that the page has an
/// ordinary frame, which a conventional table beside this one names: shared and file pages are not placed by hashing.
/// There are 4 KiB pages only. The paper gives the 7 bits of a code; the rest of the layout is ours.
#[derive(Clone, Copy, Debug)]
pub enum X86_64Toc {}

mod toc {
    use super::{Entry, Leaf, bits_of, x86};
    use crate::addr::Pfn;
    use crate::frame::Cpfn;

    const PRESENT: u64 = 1;
    const READ: u64 = 1 << 1;
    const WRITE: u64 = 1 << 2;
    const EXECUTE: u64 = 1 << 3;
    const ACCESSED: u64 = 1 << 4;
    const DIRTY: u64 = 1 << 5;
    const CODE_SHIFT: u32 = 8;
    const ORDINARY: u64 = 0xff;

    pub(super) fn leaf(leaf: Leaf, level: u32) -> u64 {
        assert!(level == 0, "tables of contents stand at level 0");
        let code = leaf.frame.code().map_or(ORDINARY, |code| u64::from(code.0));
        debug_assert!(
            leaf.frame.code().is_none() || code < ORDINARY,
            "{:?} has more than 8 bits",
            leaf.frame
        );
        let flags = [
            (leaf.readable, READ),
            (leaf.writable, WRITE),
            (leaf.executable, EXECUTE),
            (leaf.accessed, ACCESSED),
            (leaf.dirty, DIRTY),
        ];
        code << CODE_SHIFT | PRESENT | bits_of(flags)
    }

    pub(super) fn decode(raw: u64, level: u32) -> Entry {
        if level > 0 {
            return x86::decode(raw, level);
        }
        if raw & PRESENT == 0 {
            return Entry::Empty;
        }
        let code = raw >> CODE_SHIFT & ORDINARY;
        Entry::Leaf(Leaf {
            frame: if code == ORDINARY { Pfn(0) } else { Pfn::of_code(Cpfn(code as u16)) },
            readable: raw & READ != 0,
            writable: raw & WRITE != 0,
            executable: raw & EXECUTE != 0,
            accessed: raw & ACCESSED != 0,
            dirty: raw & DIRTY != 0,
        })
    }
}

impl Geometry for X86_64Toc {
    const LEAF_ENTRY_SHIFT: u32 = 1;
    const IS_COMPRESSED: bool = true;
    const MAX_LEAF_LEVEL: u32 = 0;

    #[inline]
    fn table(frame: Pfn) -> u64 {
        x86::table(frame)
    }

    #[inline]
    fn leaf(leaf: Leaf, level: u32) -> u64 {
        toc::leaf(leaf, level)
    }

    #[inline]
    fn decode(raw: u64, level: u32) -> Entry {
        toc::decode(raw, level)
    }
}

/// The format of RISC-V: the three levels of Sv39, the four of Sv48, the five of Sv57.
///
/// ```text
///  63      54 53                       10 9  8  7  6  5  4  3  2  1  0
/// +----------+---------------------------+-----+--+--+--+--+--+--+--+--+
/// | N, PBMT  |       frame number        | RSW | D| A| G| U| X| W| R| V|
/// +----------+---------------------------+-----+--+--+--+--+--+--+--+--+
/// ```
///
/// An entry with R, W and X all zero points to the next level. Source: RISC-V privileged architecture, section
/// "Sv39: Page-Based 39-bit Virtual-Memory System".
#[derive(Clone, Copy, Debug)]
pub enum RiscV {}

mod riscv {
    use super::{Entry, Leaf, bits_of};
    use crate::addr::Pfn;

    const VALID: u64 = 1;
    const READ: u64 = 1 << 1;
    const WRITE: u64 = 1 << 2;
    const EXECUTE: u64 = 1 << 3;
    const USER: u64 = 1 << 4;
    const ACCESSED: u64 = 1 << 6;
    const DIRTY: u64 = 1 << 7;
    const FRAME_SHIFT: u32 = 10;
    const FRAME_MASK: u64 = (1 << 44) - 1;

    pub(super) fn table(frame: Pfn) -> u64 {
        frame.0 << FRAME_SHIFT | VALID
    }

    pub(super) fn leaf(leaf: Leaf) -> u64 {
        let flags = [
            (leaf.readable, READ),
            (leaf.writable, WRITE),
            (leaf.executable, EXECUTE),
            (leaf.accessed, ACCESSED),
            (leaf.dirty, DIRTY),
        ];
        leaf.frame.0 << FRAME_SHIFT | VALID | USER | bits_of(flags)
    }

    pub(super) fn decode(raw: u64, level: u32) -> Entry {
        if raw & VALID == 0 {
            return Entry::Empty;
        }
        let frame = Pfn(raw >> FRAME_SHIFT & FRAME_MASK);
        if raw & (READ | WRITE | EXECUTE) == 0 {
            // A pointer at level 0 is malformed; the architecture faults on it.
            return if level > 0 { Entry::Table(frame) } else { Entry::Empty };
        }
        Entry::Leaf(Leaf {
            frame,
            readable: raw & READ != 0,
            writable: raw & WRITE != 0,
            executable: raw & EXECUTE != 0,
            accessed: raw & ACCESSED != 0,
            dirty: raw & DIRTY != 0,
        })
    }
}

/// Arm's format with a granule of 16 KiB: levels of 11 index bits, of which 3 reach 47 bits of address.
///
/// ```text
///  63  56 55 54 53 52 51 50 49                    12 11 10  9     2  1  0
/// +------+--+--+--+--+--+--+------------------------+--+--+---------+--+--+
/// |      | D|XN|     | W|  |  address of the frame  |  |AF|   ...   | T| V|
/// +------+--+--+--+--+--+--+------------------------+--+--+---------+--+--+
/// ```
///
/// `V` marks an entry; `T` a table, or a page at level 0. `W` is the dirty-bit modifier, which says that stores are allowed, and
/// `D` the software bit in which Linux keeps that the page is dirty; the bit AP\[2\] (7) forbids stores that would have to set it.
/// Source: Arm Architecture Reference Manual (DDI 0487), section D8.3; Linux, `arch/arm64/include/asm/pgtable-prot.h`.
#[derive(Clone, Copy, Debug)]
pub enum Arm16K {}

/// Arm's format with a granule of 64 KiB: levels of 13 index bits, of which 2 reach 42 bits of address; entries as in [`Arm16K`].
#[derive(Clone, Copy, Debug)]
pub enum Arm64K {}

mod arm {
    use super::{Entry, Leaf, PAGE_BYTES, bits_of};
    use crate::addr::Pfn;

    const VALID: u64 = 1;
    const TABLE: u64 = 1 << 1;
    const USER: u64 = 1 << 6;
    const READ_ONLY: u64 = 1 << 7;
    const ACCESSED: u64 = 1 << 10;
    const WRITABLE: u64 = 1 << 51;
    const NO_EXECUTE: u64 = 1 << 54;
    const DIRTY: u64 = 1 << 55;
    const FRAME: u64 = (1 << 50) - PAGE_BYTES;

    pub(super) fn table(frame: Pfn) -> u64 {
        frame.addr().0 | VALID | TABLE
    }

    pub(super) fn leaf(leaf: Leaf, level: u32) -> u64 {
        let flags = [
            (level == 0, TABLE),
            (leaf.readable, USER),
            (!(leaf.writable && leaf.dirty), READ_ONLY),
            (leaf.accessed, ACCESSED),
            (leaf.writable, WRITABLE),
            (!leaf.executable, NO_EXECUTE),
            (leaf.dirty, DIRTY),
        ];
        leaf.frame.addr().0 | VALID | bits_of(flags)
    }

    pub(super) fn decode(raw: u64, level: u32) -> Entry {
        if raw & VALID == 0 {
            return Entry::Empty;
        }
        let frame = Pfn((raw & FRAME) / PAGE_BYTES);
        if level > 0 && raw & TABLE != 0 {
            return Entry::Table(frame);
        }
        Entry::Leaf(Leaf {
            frame,
            readable: raw & USER != 0,
            writable: raw & WRITABLE != 0,
            executable: raw & NO_EXECUTE == 0,
            accessed: raw & ACCESSED != 0,
            dirty: raw & DIRTY != 0,
        })
    }
}

macro_rules! geometry {
    ($name:ident, $granule:ident, max_leaf $max_leaf:expr, $format:ident, $leaf:expr) => {
        impl Geometry for $name {
            const GRANULE: Granule = Granule::$granule;
            const MAX_LEAF_LEVEL: u32 = $max_leaf;

            #[inline]
            fn table(frame: Pfn) -> u64 {
                $format::table(frame)
            }

            #[inline]
            fn leaf(leaf: Leaf, level: u32) -> u64 {
                $leaf(leaf, level)
            }

            #[inline]
            fn decode(raw: u64, level: u32) -> Entry {
                $format::decode(raw, level)
            }
        }
    };
}

geometry!(X86_64, Size4K, max_leaf 2, x86, x86::leaf);
geometry!(RiscV, Size4K, max_leaf 3, riscv, |leaf, _| riscv::leaf(leaf));
geometry!(Arm16K, Size16K, max_leaf 1, arm, arm::leaf);
geometry!(Arm64K, Size64K, max_leaf 1, arm, arm::leaf);
