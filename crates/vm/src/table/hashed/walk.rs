//! The walk through a hashed page table, and the caches that keep it short.

use arrayvec::ArrayVec;

use super::walk_table::{SectionHeader, WalkTable};
use super::{HashedTable, MOST_WAYS, PMD_SECTION, PUD_SECTION, decode, split};
use crate::addr::{Asid, PageSize, PhysAddr, Vpn};
use crate::sets::{Replacement, SetArray, ShapeError};
use crate::table::Leaf;
use crate::tlb::{key, key_asid};

/// The knowledge that a walk began with, which saves probes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WalkKind {
    /// The walk knew nothing: it reads every way of every page size.
    Complete,
    /// The walk knew that there is no 1 GiB page, or which of the ways it is in.
    Partial,
    /// The walk knew that there are 4 KiB pages only.
    Size,
    /// The walk knew that there is a line of one larger page size only, and its way.
    Direct,
    /// The walk knew that there are lines of several sizes, and the way of the larger.
    Mixed,
    /// The walk knew that nothing is mapped.
    Fault,
}

impl WalkKind {
    /// All, the longest walks first.
    pub const ALL: [Self; 6] =
        [Self::Complete, Self::Partial, Self::Size, Self::Direct, Self::Mixed, Self::Fault];

    /// Returns the name of the kind in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Size => "size",
            Self::Direct => "direct",
            Self::Mixed => "mixed",
            Self::Fault => "fault",
        }
    }
}

/// A line that a walk read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The physical address of the line.
    pub addr: PhysAddr,
    /// The page size of the table that the line belongs to.
    pub size: PageSize,
    /// Whether the page's entry is in the line.
    pub hit: bool,
}

/// The path of a walk. All probes go out at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HashedWalk {
    /// The knowledge that the walk had from the walk caches.
    pub kind: WalkKind,
    /// The number of the page's line of 4 KiB pages.
    pub(super) line: u64,
    /// The lines that the walk read.
    pub probes: ArrayVec<Probe, { 3 * MOST_WAYS }>,
    /// The leaf and its level; `None` for a page fault.
    pub end: Option<(Leaf, u32)>,
    /// Lines of walk tables that the walk caches fetch meanwhile; the walk does not wait for them.
    pub refills: ArrayVec<PhysAddr, 4>,
}

/// The two walk caches (CWC): lines of the walk tables, fully associative, least recently used out first.
///
/// They hold which lines are cached; what is in them is read from the walk tables, so that a cache always knows what
/// the system last wrote. An entry is a whole line (1 GiB for the PMD cache) or a single section (16 MiB); sources
/// differ, and only lines explain the published hit rates.
#[derive(Clone, Debug)]
pub struct WalkCaches {
    pmd: SetArray,
    pud: SetArray,
    by_section: bool,
    lookups: u64,
    /// The hits of the caches for PMD and PUD.
    hits: [u64; 2],
    kinds: [u64; WalkKind::ALL.len()],
}

impl WalkCaches {
    /// Caches of so many entries.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if a size is impossible.
    pub fn new(pmd_entries: u32, pud_entries: u32, by_section: bool) -> Result<Self, ShapeError> {
        let cache = |entries| SetArray::new(entries, entries, Replacement::Lru);
        let (pmd, pud) = (cache(pmd_entries)?, cache(pud_entries)?);
        Ok(Self { pmd, pud, by_section, lookups: 0, hits: [0; 2], kinds: [0; WalkKind::ALL.len()] })
    }

    /// Returns the number of look-ups so far.
    pub fn lookups(&self) -> u64 {
        self.lookups
    }

    /// Hits of the PMD and the PUD cache.
    pub fn hits(&self) -> [u64; 2] {
        self.hits
    }

    /// Walks of each kind.
    pub fn kinds(&self) -> [u64; WalkKind::ALL.len()] {
        self.kinds
    }

    /// Forgets an address space, or all.
    pub fn flush(&mut self, asid: Option<Asid>) {
        for cache in [&mut self.pmd, &mut self.pud] {
            cache.retain(|key, _| asid.is_some_and(|asid| key_asid(key) != asid));
        }
    }

    /// A section's header if it is cached; otherwise its line is fetched for the next time, if there is one.
    fn lookup(
        cache: &mut SetArray,
        by_section: bool,
        asid: Asid,
        table: &WalkTable,
        section: u64,
        refills: &mut ArrayVec<PhysAddr, 4>,
    ) -> Option<SectionHeader> {
        let tag = if by_section { section } else { WalkTable::line_of(section) };
        let key = key(asid, PageSize::Size4K, tag);
        if cache.lookup(tag, key).is_some() {
            return Some(table.header(section));
        }
        let (addrs, is_there) = table.probes(section);
        addrs.for_each(|addr| refills.push(addr));
        if is_there {
            cache.insert(tag, key);
        }
        None
    }
}

impl HashedTable {
    /// Walks to a page. Without walk caches a walk knows nothing.
    pub fn walk(&self, asid: Asid, vpn: Vpn, caches: Option<&mut WalkCaches>) -> HashedWalk {
        let mut refills = ArrayVec::new();
        let (mut small, mut large) = (None, None);
        if let Some(caches) = caches {
            let WalkCaches { pmd, pud, by_section, .. } = caches;
            let by_section = *by_section;
            small = WalkCaches::lookup(pmd, by_section, asid, &self.pmd, vpn.0 >> PMD_SECTION, &mut refills);
            large = WalkCaches::lookup(pud, by_section, asid, &self.pud, vpn.0 >> PUD_SECTION, &mut refills);
            caches.lookups += 1;
            caches.hits[0] += u64::from(small.is_some());
            caches.hits[1] += u64::from(large.is_some());
            caches.kinds[kind(small, large) as usize] += 1;
        }
        let (line, _) = split(vpn, PageSize::Size4K);
        let kind = kind(small, large);
        let mut walk = HashedWalk { kind, line, probes: ArrayVec::new(), end: None, refills };
        for size in PageSize::ALL {
            let ways = match (size, small, large) {
                (PageSize::Size4K, Some(header), _) if !header.has_smaller() => continue,
                (PageSize::Size2M, Some(header), _) | (PageSize::Size1G, _, Some(header)) => {
                    match header.line_way() {
                        Some(way) => Some(way),
                        None => continue,
                    }
                }
                _ => None,
            };
            self.probe(size, vpn, ways, &mut walk);
        }
        walk
    }

    /// Probes one way, or all.
    fn probe(&self, size: PageSize, vpn: Vpn, way: Option<usize>, walk: &mut HashedWalk) {
        let Some(table) = &self.tables[size as usize] else { return };
        let (number, index) = split(vpn, size);
        let mut read = |at| {
            let line = table.get(at).filter(|line| line.number() == number);
            let leaf = line.and_then(|line| decode(line.entry(index), size));
            walk.probes.push(Probe { addr: PhysAddr(table.addr(at)), size, hit: leaf.is_some() });
            if let Some(leaf) = leaf {
                debug_assert!(walk.end.is_none(), "{vpn} is mapped twice");
                walk.end = Some((leaf, size as u32));
            }
        };
        match way {
            Some(way) => read(table.probe(number, way)),
            None => table.probes(number).for_each(read),
        }
    }
}

fn kind(small: Option<SectionHeader>, large: Option<SectionHeader>) -> WalkKind {
    let Some(small) = small else {
        return if large.is_some() { WalkKind::Partial } else { WalkKind::Complete };
    };
    let larger = usize::from(small.line_way().is_some())
        + usize::from(large.is_some_and(|large| large.line_way().is_some()));
    match (small.has_smaller(), larger) {
        (false, 0) => WalkKind::Fault,
        (true, 0) => WalkKind::Size,
        (false, 1) => WalkKind::Direct,
        _ => WalkKind::Mixed,
    }
}
