//! The translation look-aside buffers (TLBs) of a core.
//!
//! A [`TlbArray`] is one physical array: set-associative with one translation an entry ([`SetAssociative`]), the same with a
//! victim buffer ([`VictimBuffered`]), mosaic with the translations of several consecutive pages an entry ([`Mosaic`]), or coalesced with a run of
//! pages and frames an entry ([`Coalesced`]). A [`Tlb`] is one level: the
//! arrays that are looked up in parallel, each in a [`TlbStorage`]. [`Tlbs`] is a core's hierarchy.

mod array;
mod bank;
mod coalesced;
mod hierarchy;
mod mosaic;
pub mod prefetch;
mod sizes;
mod storage;
mod victim;

pub use array::{SetAssociative, SetClasses, TlbArray};
pub use bank::LruBank;
pub(crate) use bank::tag;
pub use coalesced::Coalesced;
pub use hierarchy::{Inclusion, LevelCounts, Tlb, TlbHit, Tlbs};
pub use mosaic::Mosaic;
pub use storage::TlbStorage;
pub use victim::VictimBuffered;

use crate::addr::{Asid, PageSize, Pfn, Vpn};

/// A translation as a TLB entry holds it.
///
/// ```text
///  63              12 11  10 9       4  3  2   1..0
/// +------------------+------+---------+--+--+------+
/// |   frame number   | kind |  other  | D| W| size |
/// +------------------+------+---------+--+--+------+
/// ```
///
/// `frame` is the first frame of the page of `size`; `W` = stores are allowed; `D` = the page table knows that
/// the page is dirty; `other` = what an architecture keeps beside. `size` is 0 to 2 for a granule of 4 KiB, where `kind` is a
/// part of `other`; 3 stands for the sizes of larger granules, which `kind` tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Translation(u64);

impl Translation {
    const WRITABLE: u64 = 1 << 2;
    const DIRTY: u64 = 1 << 3;
    /// The size that stands for those of larger granules.
    const LARGER_GRANULE: u64 = 3;
    const KIND_SHIFT: u32 = 10;
    /// The page sizes, by `size` and, above it, `kind`.
    const SIZES: [PageSize; 16] = [
        PageSize::Size4K,
        PageSize::Size2M,
        PageSize::Size1G,
        PageSize::Size16K,
        PageSize::Size4K,
        PageSize::Size2M,
        PageSize::Size1G,
        PageSize::Size64K,
        PageSize::Size4K,
        PageSize::Size2M,
        PageSize::Size1G,
        PageSize::Size32M,
        PageSize::Size4K,
        PageSize::Size2M,
        PageSize::Size1G,
        PageSize::Size512M,
    ];

    /// Creates a translation to the page of `size` whose first frame is `frame`.
    #[inline]
    pub const fn new(frame: Pfn, size: PageSize, writable: bool, dirty: bool) -> Self {
        let size = match size {
            PageSize::Size4K | PageSize::Size2M | PageSize::Size1G => size as u64,
            PageSize::Size16K | PageSize::Size64K | PageSize::Size32M | PageSize::Size512M => {
                Self::LARGER_GRANULE | (size as u64 - Self::LARGER_GRANULE) << Self::KIND_SHIFT
            }
        };
        Self(frame.0 << 12 | size | (writable as u64) << 2 | (dirty as u64) << 3)
    }

    /// Returns the translation with eight more bits of the entry, for permissions that an architecture has beside; six for the
    /// sizes of larger granules.
    #[inline]
    pub const fn with_other(self, other: u8) -> Self {
        let bits = if self.0 & 3 == Self::LARGER_GRANULE { 0x3f0 } else { 0xff0 };
        Self(self.0 & !bits | (other as u64) << 4 & bits)
    }

    /// Returns the eight additional bits of the entry, or the six.
    #[inline]
    pub const fn other(self) -> u8 {
        let bits = if self.0 & 3 == Self::LARGER_GRANULE { 0x3f } else { 0xff };
        (self.0 >> 4) as u8 & bits
    }

    /// Returns the first frame of the page.
    #[inline]
    pub const fn frame(self) -> Pfn {
        Pfn(self.0 >> 12)
    }

    /// Returns the size of the page.
    #[inline]
    pub const fn size(self) -> PageSize {
        // Each miss in the front filter of a simulated core asks for the size several times.
        Self::SIZES[(self.0 & 3 | self.0 >> (Self::KIND_SHIFT - 2) & 0xc) as usize]
    }

    /// Returns whether both pages have the same size.
    #[inline]
    pub const fn has_size_of(self, other: Self) -> bool {
        (self.0 ^ other.0) & 3 == 0
            && (self.0 & 3 != Self::LARGER_GRANULE || (self.0 ^ other.0) >> Self::KIND_SHIFT & 3 == 0)
    }

    /// Returns whether the page is a 4 KiB page.
    #[inline]
    pub const fn is_small(self) -> bool {
        self.0 & 3 == 0
    }

    /// Returns whether stores are allowed.
    #[inline]
    pub const fn is_writable(self) -> bool {
        self.0 & Self::WRITABLE != 0
    }

    /// Returns whether a store needs no dirty-bit update.
    #[inline]
    pub const fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// Returns the same translation, of a page known to be dirty.
    #[inline]
    pub const fn dirtied(self) -> Self {
        Self(self.0 | Self::DIRTY)
    }

    /// Returns the frame of base page `vpn`, which lies in this page.
    #[inline(always)]
    pub const fn frame_of(self, vpn: Vpn) -> Pfn {
        if self.is_small() { self.frame() } else { self.frame_of_larger(vpn) }
    }

    #[inline]
    const fn frame_of_larger(self, vpn: Vpn) -> Pfn {
        Pfn(self.frame().0 + (vpn.0 & (self.size().base_pages() - 1)))
    }

    /// Returns the translation of base page `vpn` alone: a large page chopped into its 4 KiB pieces.
    #[inline]
    pub const fn chopped(self, vpn: Vpn) -> Self {
        Self::new(self.frame_of(vpn), PageSize::Size4K, self.is_writable(), self.is_dirty())
            .with_other(self.other())
    }

    /// Returns the translation of the piece of `size` that holds base page `vpn`.
    #[inline]
    pub const fn piece(self, vpn: Vpn, size: PageSize) -> Self {
        Self::new(self.frame_of(vpn.align_down(size)), size, self.is_writable(), self.is_dirty())
            .with_other(self.other())
    }
}

impl std::fmt::Debug for Translation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let flags = [(self.is_writable(), " W"), (self.is_dirty(), " D")];
        write!(f, "{} at {:?}", self.size(), self.frame())?;
        flags.iter().filter(|(set, _)| *set).try_for_each(|(_, flag)| f.write_str(flag))
    }
}

/// A translation that a walk or a lower level brings for a fill, and those of its neighbours for mosaic entries.
#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    /// The page that missed.
    pub vpn: Vpn,
    /// The translation of that page.
    pub translation: Translation,
    /// The aligned run of base pages around `vpn` that came along, starting at `cluster_base`; 0 = not present.
    /// Empty if only `vpn` itself came.
    pub cluster: &'a [u64],
    /// The first page of `cluster`.
    pub cluster_base: Vpn,
}

impl<'a> Fill<'a> {
    /// Creates a fill with the one translation.
    #[inline]
    pub fn single(vpn: Vpn, translation: Translation) -> Self {
        Self { vpn, translation, cluster: &[], cluster_base: vpn }
    }

    /// The words of `pages` base pages from `base` on, if the cluster has them all.
    #[inline]
    pub(crate) fn cluster_from(&self, base: Vpn, pages: usize) -> Option<&'a [u64]> {
        let first = usize::try_from(base.0.checked_sub(self.cluster_base.0)?).ok()?;
        self.cluster.get(first..first.checked_add(pages)?)
    }

    /// Returns what the fill knows of base page `vpn`.
    #[inline]
    pub(crate) fn of(&self, vpn: Vpn) -> Option<Translation> {
        if vpn == self.vpn {
            return Some(self.translation.chopped(vpn));
        }
        if !self.translation.is_small()
            && vpn.align_down(self.translation.size()) == self.vpn.align_down(self.translation.size())
        {
            return Some(self.translation.chopped(vpn));
        }
        let word = *self.cluster.get(vpn.0.wrapping_sub(self.cluster_base.0) as usize)?;
        (word != 0).then_some(Translation(word))
    }
}

impl Translation {
    /// Returns the translation as a word of [`Fill::cluster`]; never 0, because frame 0 holds no page.
    #[inline]
    pub const fn to_word(self) -> u64 {
        self.0
    }
}

/// A translation that left an array, with the page that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbEntry {
    /// The address space that the page belongs to.
    pub asid: Asid,
    /// The first base page.
    pub vpn: Vpn,
    /// The translation of that page.
    pub translation: Translation,
}

/// The answer of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The translation is here.
    Hit(Translation),
    /// A mosaic entry for the page's run is here, but this page was not present when it was filled.
    SubEntryMiss,
    /// The array holds no translation of the page.
    Miss,
}

/// Packs what identifies an entry into a key of [`SetArray`](crate::sets::SetArray).
///
/// ```text
///  55  54 53        42 41                         0
/// +------+------------+----------------------------+
/// | size |    asid    | page number in that size   |
/// +------+------------+----------------------------+
/// ```
///
/// 12 bits of address-space identifier, as in x86-64; 42 bits of page number reach 54-bit addresses. Size 3 stands for those of
/// larger granules: their page numbers are shorter, and the two highest bits of the field tell them apart.
#[inline]
pub(crate) fn key(asid: Asid, size: PageSize, number: u64) -> u64 {
    debug_assert!(asid.0 < 1 << 12 && number < 1 << 42, "{asid:?} or page number {number:#x} is too large");
    let size = match size {
        PageSize::Size4K | PageSize::Size2M | PageSize::Size1G => (size as u64) << 54,
        PageSize::Size16K | PageSize::Size64K | PageSize::Size32M | PageSize::Size512M => {
            debug_assert!(number < 1 << 40, "page number {number:#x} is too large");
            3 << 54 | (size as u64 - 3) << 40
        }
    };
    size | u64::from(asid.0) << 42 | number
}

/// The address space of a [`key`].
#[inline]
pub(crate) fn key_asid(key: u64) -> Asid {
    Asid((key >> 42 & 0xfff) as u16)
}

/// The first base page of a [`key`], whose pages have `size`.
#[inline]
pub(crate) fn key_page(key: u64, size: PageSize) -> Vpn {
    let bits = if matches!(size, PageSize::Size4K | PageSize::Size2M | PageSize::Size1G) { 42 } else { 40 };
    Vpn((key & ((1 << bits) - 1)) << size.order())
}

#[cfg(test)]
mod tests;
