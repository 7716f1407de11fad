//! The address vocabulary: virtual and physical addresses, page and frame numbers, address spaces, page sizes.
//!
//! All are newtypes with deliberately few operators, so that a page number cannot be used as a frame number and
//! an address cannot be used as a count. A *page* is virtual, a *frame* is physical; both numbers ([`Vpn`],
//! [`Pfn`]) always count units of the base page, 4 KiB, whatever the size of the page they name.

use std::cmp::Ordering;
use std::fmt;

/// The base-2 logarithm of the base page size in bytes.
pub const PAGE_SHIFT: u32 = 12;
/// The base page size in bytes.
pub const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// A virtual address in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct VirtAddr(pub u64);

/// A physical address in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PhysAddr(pub u64);

/// A virtual page number: a virtual address divided by 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Vpn(pub u64);

/// A physical frame number: a physical address divided by 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Pfn(pub u64);

/// An address-space identifier, as a TLB tags its entries with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Asid(pub u16);

/// A page size: the three of x86-64 (and of Sv39 and Sv48), and those of Arm's larger translation granules. Sizes are ordered by
/// their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PageSize {
    /// 4 KiB, the base page.
    #[default]
    Size4K,
    /// A large page of 2 MiB.
    Size2M,
    /// A large page of 1 GiB.
    Size1G,
    /// 16 KiB, the base page of that granule.
    Size16K,
    /// 64 KiB, the base page of that granule.
    Size64K,
    /// A large page of 32 MiB, of the granule of 16 KiB.
    Size32M,
    /// A large page of 512 MiB, of the granule of 64 KiB.
    Size512M,
}

/// The translation granule: the size of base pages and of table nodes, and what follows from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Granule {
    /// 4 KiB, with 9 index bits a level.
    #[default]
    Size4K,
    /// 16 KiB, with 11 index bits a level.
    Size16K,
    /// 64 KiB, with 13 index bits a level.
    Size64K,
}

impl Granule {
    /// All granules, smallest first.
    pub const ALL: [Self; 3] = [Self::Size4K, Self::Size16K, Self::Size64K];

    /// Returns the size of base pages.
    #[inline]
    pub const fn base(self) -> PageSize {
        self.sizes()[0]
    }

    /// Returns the sizes of pages, by level of the table: base pages first.
    #[inline]
    pub const fn sizes(self) -> &'static [PageSize] {
        match self {
            Self::Size4K => &PageSize::ALL,
            Self::Size16K => &[PageSize::Size16K, PageSize::Size32M],
            Self::Size64K => &[PageSize::Size64K, PageSize::Size512M],
        }
    }

    /// Returns the size of large pages, which stand one level above base pages.
    #[inline]
    pub const fn large(self) -> PageSize {
        self.sizes()[1]
    }
}

impl VirtAddr {
    /// Returns the page that holds this address.
    #[inline]
    pub const fn page(self) -> Vpn {
        Vpn(self.0 >> PAGE_SHIFT)
    }

    /// Returns the byte offset inside a page of `size`.
    #[inline]
    pub const fn offset_in(self, size: PageSize) -> u64 {
        self.0 & (size.bytes() - 1)
    }

    /// Returns the address `bytes` further on.
    #[inline]
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }

    /// Returns the address rounded down to a multiple of `align`, a power of two.
    #[inline]
    pub const fn align_down(self, align: u64) -> Self {
        Self(self.0 & !(align - 1))
    }

    /// Returns the address rounded up to a multiple of `align`, a power of two; saturates at the last multiple.
    #[inline]
    pub const fn align_up(self, align: u64) -> Self {
        Self(self.0.saturating_add(align - 1) & !(align - 1))
    }
}

impl PhysAddr {
    /// Returns the frame that holds this address.
    #[inline]
    pub const fn frame(self) -> Pfn {
        Pfn(self.0 >> PAGE_SHIFT)
    }

    /// Returns the address `bytes` further on.
    #[inline]
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl Vpn {
    /// Returns the address of the page's first byte.
    #[inline]
    pub const fn addr(self) -> VirtAddr {
        VirtAddr(self.0 << PAGE_SHIFT)
    }

    /// Returns the first base page of the page of `size` that holds this one.
    #[inline]
    pub const fn align_down(self, size: PageSize) -> Self {
        Self(self.0 & !(size.base_pages() - 1))
    }
}

impl Pfn {
    /// Returns the address of the frame's first byte.
    #[inline]
    pub const fn addr(self) -> PhysAddr {
        PhysAddr(self.0 << PAGE_SHIFT)
    }

    /// Returns the frame `frames` further on.
    #[inline]
    pub const fn add(self, frames: u64) -> Self {
        Self(self.0 + frames)
    }
}

impl PageSize {
    /// The sizes of a granule of 4 KiB, smallest first.
    pub const ALL: [Self; 3] = [Self::Size4K, Self::Size2M, Self::Size1G];
    /// The sizes of all granules, in the order of their numbers (`size as usize`).
    pub const EVERY: [Self; 7] = [
        Self::Size4K,
        Self::Size2M,
        Self::Size1G,
        Self::Size16K,
        Self::Size64K,
        Self::Size32M,
        Self::Size512M,
    ];

    /// Returns log2 of the size in bytes.
    #[inline]
    pub const fn shift(self) -> u32 {
        PAGE_SHIFT + self.order()
    }

    /// Returns the size of the page in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// Returns the size in base pages of 4 KiB: 1, 512 or 262,144 in a granule of 4 KiB.
    #[inline]
    pub const fn base_pages(self) -> u64 {
        1 << self.order()
    }

    /// Returns log2 of the size in base pages of 4 KiB, the buddy allocator's order.
    #[inline]
    pub const fn order(self) -> u32 {
        match self {
            Self::Size4K => 0,
            Self::Size2M => 9,
            Self::Size1G => 18,
            Self::Size16K => 2,
            Self::Size64K => 4,
            Self::Size32M => 13,
            Self::Size512M => 17,
        }
    }

    /// Returns the size of a leaf at `level` of a table with nine index bits a level; levels are numbered from the
    /// leaf to the root, level 0 maps 4 KiB.
    #[inline]
    pub const fn from_level(level: u32) -> Option<Self> {
        match level {
            0 => Some(Self::Size4K),
            1 => Some(Self::Size2M),
            2 => Some(Self::Size1G),
            _ => None,
        }
    }

    /// Returns the size in the field's notation:
    pub const fn name(self) -> &'static str {
        match self {
            Self::Size4K => "4KiB",
            Self::Size2M => "2MiB",
            Self::Size1G => "1GiB",
            Self::Size16K => "16KiB",
            Self::Size64K => "64KiB",
            Self::Size32M => "32MiB",
            Self::Size512M => "512MiB",
        }
    }
}

impl PartialOrd for PageSize {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PageSize {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// A half-open range of virtual addresses, `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtRange {
    /// The first address inside.
    pub start: VirtAddr,
    /// The first address beyond.
    pub end: VirtAddr,
}

impl VirtRange {
    /// Returns the range `[start, end)`, which is empty if `end` is not above `start`.
    #[inline]
    pub const fn new(start: VirtAddr, end: VirtAddr) -> Self {
        Self { start, end }
    }

    /// Returns the range of `bytes` from `start`, saturating at the top of the address space.
    #[inline]
    pub const fn sized(start: VirtAddr, bytes: u64) -> Self {
        Self { start, end: VirtAddr(start.0.saturating_add(bytes)) }
    }

    /// Returns the length of the range in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Returns whether the range holds no address.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.end.0 <= self.start.0
    }

    /// Returns whether the range holds `addr`.
    #[inline]
    pub const fn contains(self, addr: VirtAddr) -> bool {
        self.start.0 <= addr.0 && addr.0 < self.end.0
    }

    /// Returns whether the range holds all of `other`.
    #[inline]
    pub const fn covers(self, other: Self) -> bool {
        self.start.0 <= other.start.0 && other.end.0 <= self.end.0
    }

    /// Returns the part that both ranges share, which may be empty.
    #[inline]
    pub fn intersect(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// Returns the range rounded outwards to whole base pages.
    #[inline]
    pub const fn to_pages(self) -> Self {
        Self { start: self.start.align_down(PAGE_BYTES), end: self.end.align_up(PAGE_BYTES) }
    }
}

macro_rules! hex_format {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    )*};
}
hex_format!(VirtAddr, PhysAddr, Vpn, Pfn, Asid);

impl fmt::Debug for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for VirtRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}, {:#x})", self.start.0, self.end.0)
    }
}

impl fmt::Display for VirtRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}, {:#x})", self.start.0, self.end.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_agree_with_each_other() {
        for (level, size) in PageSize::ALL.into_iter().enumerate() {
            assert_eq!(PageSize::from_level(level as u32), Some(size));
            assert_eq!(size.base_pages() * PAGE_BYTES, size.bytes());
        }
        for (number, size) in PageSize::EVERY.into_iter().enumerate() {
            assert_eq!(size as usize, number);
            let (value, unit) = size.name().split_at(size.name().len() - 3);
            let shift = ["KiB", "MiB", "GiB"].iter().position(|name| *name == unit).unwrap() as u32;
            assert_eq!(value.parse::<u64>().unwrap() << (10 * (shift + 1)), size.bytes());
        }
        assert_eq!(PageSize::Size1G.bytes(), 1 << 30);
        assert!(PageSize::Size16K < PageSize::Size2M && PageSize::Size512M < PageSize::Size1G);
        // A node of a granule is a base page full of entries of 8 bytes.
        for granule in Granule::ALL {
            let entries = granule.base().bytes() / 8;
            assert_eq!(granule.large().bytes(), entries * granule.base().bytes());
        }
        assert_eq!(PageSize::from_level(3), None);
    }

    #[test]
    fn rounding_does_not_wrap_at_the_top() {
        let top = VirtAddr(u64::MAX - 5);
        assert!(top.align_up(PAGE_BYTES) <= VirtAddr(u64::MAX));
        assert_eq!(VirtRange::sized(top, 4096).end, VirtAddr(u64::MAX));
    }

    #[test]
    fn ranges_intersect_and_cover() {
        let a = VirtRange::new(VirtAddr(0x1000), VirtAddr(0x5000));
        let b = VirtRange::new(VirtAddr(0x4000), VirtAddr(0x9000));
        assert_eq!(a.intersect(b), VirtRange::new(VirtAddr(0x4000), VirtAddr(0x5000)));
        assert!(!a.covers(b) && a.covers(a.intersect(b)));
        assert!(!a.contains(a.end) && a.contains(a.start));
    }
}
