//! Nested paging: the page table of a guest, and the host's below it.
//!
//! A guest's entries hold guest-physical addresses, which the host's page table translates in turn. So each reference of a walk to
//! the guest's table comes after a walk of the host's, and so does the page itself: `g` and `h` levels make
//! `(g + 1) * (h + 1) - 1` references, 24 with four of each. A walk that is complete gives one translation for both tables, of the
//! smaller of both page sizes, and that is what the TLBs hold.
//!
//! ```text
//!  guest level   host's levels, root first      the guest's entry
//!       3         1    2    3    4                     5
//!       2         6    7    8    9                    10
//!       1        11   12   13   14                    15
//!       0        16   17   18   19                    20
//!     page       21   22   23   24
//! ```
//!
//! Walk caches of the guest hold combined translations, as Intel's do (SDM volume 3C, section 30.4.1): the table that they lead to is
//! known by its host-physical address. The host has walk caches of its own and a TLB for guest-physical pages, as in Bhargava et
//! al., "Accelerating Two-Dimensional Page Walks for Virtualized Systems", ASPLOS 2008.

use super::{
    Geometry, Leaf, Levels, PageTable, Radix, TableArena, WalkCache, WalkCaching, WalkEnd, WalkOutcome,
    WalkRead,
};
use crate::addr::{Asid, Granule, PAGE_BYTES, PageSize, Pfn, Vpn};
use crate::random::SplitMix64;
use crate::sets::{Replacement, ShapeError};
use crate::tlb::{Fill, Lookup, SetAssociative, TlbArray, Translation};

/// The parameters of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDesign {
    /// The levels of its page table.
    pub levels: Levels,
    /// The pages that the host gives to the guest.
    pub pages: PageSize,
    /// Entries of the TLB for guest-physical pages, fully associative; 0 for none.
    pub tlb_entries: u32,
    /// Entries of the walk caches for the host's table, root first and fully associative; none for no walk caches.
    pub walk_cache: Option<Vec<u32>>,
    /// When the host gives its pages.
    pub giving: Giving,
    /// The guest's cores: each has a TLB and walk caches of its own for the host's table.
    pub cores: usize,
    /// The first frame of guest-physical memory, and of the host's own: a multiple of 1 GiB.
    pub start: Pfn,
    /// The first frame beyond guest-physical memory.
    pub end: Pfn,
}

/// When a host gives its pages to the guest, and from where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Giving {
    /// At the guest's first touch, in that order: from the beginning of the host's memory on, as an empty buddy allocator does.
    AtFirstTouch,
    /// Before the guest's programs began, from anywhere in the host's memory. No touch is the first, and none is a [`HostFault`].
    Before,
}

/// A page that the host gives to the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostFrame {
    /// The frame of the host that backs the guest's frame.
    pub frame: Pfn,
    /// The size of the host's page around it.
    pub size: PageSize,
}

/// The guest's frame has no page of the host yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("frame {0} of the guest has no page of the host")]
pub struct HostFault(pub Pfn);

/// The counts of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostCounts {
    /// Translations of guest-physical addresses that walks asked for.
    pub lookups: u64,
    /// Translations that the TLB for guest-physical pages answered.
    pub tlb_hits: u64,
    /// Walks of the host's page table.
    pub walks: u64,
    /// References of these walks.
    pub references: u64,
    /// Faults by which the host has given pages.
    pub faults: u64,
}

/// A host: from guest-physical to host-physical addresses.
///
/// # Contract
///
/// A guest's frame that was [given](Self::give) a page keeps it. [`translate`](Self::translate) and [`find`](Self::find) agree; only the
/// first counts, and appends what it reads.
pub trait Host: std::fmt::Debug + Send {
    /// Translates the address of a guest's frame, as a core's hardware does in the course of a walk.
    ///
    /// # Errors
    ///
    /// [`HostFault`]: the frame has no page yet.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    fn translate(
        &mut self,
        core: usize,
        frame: Pfn,
        reads: &mut Vec<WalkRead>,
    ) -> Result<HostFrame, HostFault>;

    /// Returns the page of a guest's frame, if it has one.
    fn find(&self, frame: Pfn) -> Option<HostFrame>;

    /// Gives a guest's frame the next page that is free, with all frames that share it; does nothing for a frame that has one.
    fn give(&mut self, frame: Pfn);

    /// Returns the first frame of the host beyond all that it can ever use.
    fn end(&self) -> Pfn;

    /// Returns the counts so far.
    fn counts(&self) -> HostCounts;

    /// Returns the bytes of the host's memory that the guest has.
    fn given_bytes(&self) -> u64;

    /// Returns the hits of the host's walk caches by part; none without walk caches.
    fn walk_cache_hits(&self) -> Vec<(String, u64)>;
}

/// A host whose page table is a radix tree.
///
/// The host gives pages as [`Giving`] says, and takes none back. Its page table stands behind the last of them.
#[derive(Debug)]
pub struct RadixHost<G> {
    table: Radix<G>,
    memory: TableArena,
    pages: PageSize,
    start: Pfn,
    /// The places of pages that were given from anywhere; none if they are given in order.
    places: Option<Places>,
    given: u64,
    end: Pfn,
    cores: Vec<HostCaches>,
    counts: HostCounts,
}

/// Places that are taken at random, each once.
#[derive(Debug)]
struct Places {
    /// A bit for each place.
    taken: Vec<u64>,
    count: u64,
    random: SplitMix64,
}

impl Places {
    fn new(count: u64) -> Self {
        Self { taken: vec![0; count.div_ceil(64) as usize], count, random: SplitMix64::new(0) }
    }

    /// Takes the free place at or behind one that is drawn; there must be one.
    fn take(&mut self) -> u64 {
        let mut place = self.random.below(self.count);
        while self.taken[(place / 64) as usize] >> (place % 64) & 1 != 0 {
            place = (place + 1) % self.count;
        }
        self.taken[(place / 64) as usize] |= 1 << (place % 64);
        place
    }
}

/// What a core knows of the host's table.
#[derive(Clone, Debug)]
struct HostCaches {
    tlb: Option<SetAssociative>,
    walk: Option<WalkCache>,
}

/// Why the host's tables always find room.
const ENDLESS: &str = "there is no end to the memory behind the guest's";
/// The host has one address space, the guest's memory.
const ASID: Asid = Asid(0);

impl<G: Geometry + Send> RadixHost<G> {
    /// Creates a host that has given nothing yet.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the walk caches or the TLB have an impossible shape.
    ///
    /// # Panics
    ///
    /// If the guest's memory lies beyond what the table can map, or does not begin at a multiple of 1 GiB.
    pub fn new(design: &HostDesign) -> Result<Self, ShapeError> {
        let HostDesign { levels, pages, giving, start, end, .. } = *design;
        assert!(start.0.is_multiple_of(PageSize::Size1G.base_pages()), "memory at frame {start}");
        assert!(Vpn(end.0) <= G::end(levels), "{end} is beyond the host's {} levels", levels.0);
        let frames = (end.0 - start.0).next_multiple_of(pages.base_pages());
        let mut memory = TableArena::starting_at(start.add(frames));
        // A node of 512 entries for each 512 nodes or pages below, and both ends of each level.
        let end = start.add(frames + frames / 511 + 2 * u64::from(levels.0));
        let table = Radix::new(&levels, 0, &mut memory).expect(ENDLESS);
        let tlb = |entries| SetAssociative::new(entries, entries, Replacement::Lru, &PageSize::ALL);
        let caches = HostCaches {
            tlb: (design.tlb_entries > 0).then(|| tlb(design.tlb_entries)).transpose()?,
            walk: design.walk_cache.as_ref().map(|entries| WalkCache::new::<G>(entries, None)).transpose()?,
        };
        Ok(Self {
            table,
            memory,
            pages,
            start,
            places: (giving == Giving::Before).then(|| Places::new(frames / pages.base_pages())),
            given: 0,
            end,
            cores: vec![caches; design.cores],
            counts: HostCounts::default(),
        })
    }
}

impl<G: Geometry + Send> RadixHost<G> {
    /// Returns the level of the host's pages in its table.
    fn level(&self) -> u32 {
        let mut levels = 0..=G::MAX_LEAF_LEVEL;
        levels
            .find(|level| G::leaf_pages(*level) == self.pages.base_pages())
            .expect("a page size of the table")
    }

    /// Gives the page of a frame that has none.
    fn give_page(&mut self, frame: Pfn) {
        let (level, first) = (self.level(), Vpn(frame.0).align_down(self.pages));
        let place = self.places.as_mut().map_or(self.given, Places::take);
        let page = self.start.add(place * self.pages.base_pages());
        let given = Leaf { accessed: true, dirty: true, executable: true, ..Leaf::data(page) };
        self.table.map(&mut self.memory, first, given, level).expect(ENDLESS);
        self.given += 1;
    }
}

impl<G: Geometry + Send + std::fmt::Debug> Host for RadixHost<G> {
    fn translate(
        &mut self,
        core: usize,
        frame: Pfn,
        reads: &mut Vec<WalkRead>,
    ) -> Result<HostFrame, HostFault> {
        self.counts.lookups += 1;
        let page = Vpn(frame.0);
        if let Some(tlb) = &mut self.cores[core].tlb
            && let Lookup::Hit(found) = tlb.lookup(ASID, page)
        {
            self.counts.tlb_hits += 1;
            return Ok(HostFrame { frame: found.frame_of(page), size: found.size() });
        }
        if self.places.is_some() && self.table.find(&self.memory, page).is_none() {
            self.give_page(frame);
        }
        let HostCaches { tlb, walk } = &mut self.cores[core];
        let walk = self.table.walk(&self.memory, ASID, page, walk.as_mut());
        self.counts.walks += 1;
        self.counts.references += walk.references().len() as u64;
        reads.extend(walk.reads());
        let WalkEnd::Leaf { leaf, .. } = walk.end else { return Err(HostFault(frame)) };
        let translation = Translation::new(leaf.frame, self.pages, true, true);
        if let Some(tlb) = tlb {
            tlb.fill(ASID, &Fill::single(page, translation));
        }
        Ok(HostFrame { frame: translation.frame_of(page), size: self.pages })
    }

    fn find(&self, frame: Pfn) -> Option<HostFrame> {
        let (leaf, _) = self.table.find(&self.memory, Vpn(frame.0))?;
        let offset = frame.0 & (self.pages.base_pages() - 1);
        Some(HostFrame { frame: leaf.frame.add(offset), size: self.pages })
    }

    fn give(&mut self, frame: Pfn) {
        if self.find(frame).is_none() {
            self.give_page(frame);
            self.counts.faults += 1;
        }
    }

    fn end(&self) -> Pfn {
        self.end
    }

    fn counts(&self) -> HostCounts {
        self.counts
    }

    fn given_bytes(&self) -> u64 {
        self.given * self.pages.bytes()
    }

    fn walk_cache_hits(&self) -> Vec<(String, u64)> {
        let mut cores = self.cores.iter().filter_map(|core| core.walk.as_ref()).map(WalkCaching::hits);
        let mut sums = cores.next().unwrap_or_default();
        for hits in cores {
            sums.iter_mut().zip(hits).for_each(|((_, sum), (_, hits))| *sum += hits);
        }
        sums
    }
}

/// A walk of a guest's page table for a page, before the host translates what it read.
#[derive(Clone, Copy, Debug)]
pub struct GuestWalk<I> {
    /// The references to the guest's table, in order, with guest-physical addresses.
    pub reads: I,
    /// Whether walk caches led to the table of the first reference, whose place in the host is known then.
    pub begins_below_root: bool,
    /// The end of the walk.
    pub end: WalkEnd,
    /// The guest's base pages; the host's pages are not smaller.
    pub granule: Granule,
}

impl<I: Iterator<Item = WalkRead>> GuestWalk<I> {
    /// Lets a host translate a core's walk for a page: appends all references with host-physical addresses to `reads`, in order, and
    /// returns the end of the walk, in which a leaf has the frame and the size of the page of both tables together.
    ///
    /// # Errors
    ///
    /// [`HostFault`]: the host has no page for a frame; what was read until then is in `reads`.
    pub fn through(
        self,
        vpn: Vpn,
        core: usize,
        host: &mut dyn Host,
        reads: &mut Vec<WalkRead>,
    ) -> Result<WalkEnd, HostFault> {
        let mut is_known = self.begins_below_root;
        for read in self.reads {
            let node = read.addr.frame();
            let page = match host.find(node).filter(|_| is_known) {
                Some(page) => page,
                None => host.translate(core, node, reads)?,
            };
            is_known = false;
            reads.push(WalkRead { addr: page.frame.addr().add(read.addr.0 % PAGE_BYTES), ..read });
        }
        let WalkEnd::Leaf { leaf, level } = self.end else { return Ok(self.end) };
        let sizes = self.granule.sizes();
        let guest = sizes[level as usize];
        let frame = leaf.frame.add(vpn.0 & (guest.base_pages() - 1));
        let page = host.translate(core, frame, reads)?;
        // The largest page of the guest's sizes that lies in a page of either.
        let fits = |level: &u32| sizes[*level as usize] <= page.size.min(guest);
        let level = (0..=level).rev().find(fits).expect("the host's pages are not smaller than base pages");
        let size = sizes[level as usize];
        let first = Pfn(page.frame.0 & !(size.base_pages() - 1));
        Ok(WalkEnd::Leaf { leaf: Leaf { frame: first, ..leaf }, level })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arm16K, ContiguousMemory, RiscV, X86_64};
    use super::*;

    const START: Pfn = Pfn(1 << 18);
    /// Guest-physical memory of 4 GiB.
    const END: Pfn = Pfn(START.0 + (4 << 18));

    fn design(pages: PageSize) -> HostDesign {
        HostDesign {
            levels: Levels(4),
            pages,
            tlb_entries: 0,
            walk_cache: None,
            giving: Giving::AtFirstTouch,
            cores: 1,
            start: START,
            end: END,
        }
    }

    /// A guest with one page at `VPN`.
    struct Guest<G> {
        levels: u32,
        table: Radix<G>,
        memory: TableArena,
    }

    const VPN: Vpn = Vpn(0x12_3456);

    impl<G: Geometry + Send> Guest<G> {
        fn new(levels: u32, size: PageSize) -> Self {
            let mut memory = TableArena::starting_at(START);
            let mut table = Radix::new(&Levels(levels), 0, &mut memory).expect("memory");
            let frame = Pfn(START.0 + (2 << 18));
            table.map(&mut memory, VPN.align_down(size), Leaf::data(frame), size as u32).expect("mapped");
            Self { levels, table, memory }
        }

        /// Walks, and lets the host give what is missing.
        fn walk(&self, host: &mut dyn Host, mut caches: Option<&mut WalkCache>) -> (WalkEnd, Vec<WalkRead>) {
            loop {
                let walk = self.table.walk(&self.memory, Asid(1), VPN, caches.as_deref_mut());
                let top = walk.references().next().expect("a reference").level + 1;
                let walk = GuestWalk {
                    reads: walk.reads(),
                    begins_below_root: top < self.levels,
                    end: walk.end,
                    granule: Radix::<G>::GRANULE,
                };
                let mut reads = Vec::new();
                match walk.through(VPN, 0, host, &mut reads) {
                    Ok(end) => return (end, reads),
                    Err(HostFault(frame)) => host.give(frame),
                }
            }
        }
    }

    fn references<G: Geometry + Send, H: Geometry + Send + std::fmt::Debug>(
        (guest_levels, guest): (u32, PageSize),
        (host_levels, host): (u32, PageSize),
    ) -> usize {
        let design = HostDesign { levels: Levels(host_levels), ..design(host) };
        let mut of_host = RadixHost::<H>::new(&design).expect("a host");
        let of_guest = Guest::<G>::new(guest_levels, guest);
        let (end, _) = of_guest.walk(&mut of_host, None);
        let (again, reads) = of_guest.walk(&mut of_host, None);
        assert_eq!(end, again);
        let WalkEnd::Leaf { leaf, level } = end else { panic!("no page") };
        assert_eq!(PageSize::from_level(level), Some(guest.min(host)), "the smaller of both pages");
        let frame = Pfn(START.0 + (2 << 18) + (VPN.0 & (guest.base_pages() - 1)));
        let whole = of_host.find(frame).expect("it was given").frame;
        assert_eq!(leaf.frame.add(VPN.0 & (guest.min(host).base_pages() - 1)), whole);
        reads.len()
    }

    /// Every pair of depths and of page sizes: each reference of the guest, and the page, after a walk of the host.
    #[test]
    fn a_cold_walk_has_the_references_of_the_closed_form() {
        for (at, guest) in PageSize::ALL.into_iter().enumerate() {
            for (host_at, host) in PageSize::ALL.into_iter().enumerate() {
                for guest_levels in 3..=5 {
                    for host_levels in 3..=5 {
                        let expected = (guest_levels - at + 1) * (host_levels - host_at + 1) - 1;
                        let guest = (guest_levels as u32, guest);
                        let host = (host_levels as u32, host);
                        assert_eq!(references::<X86_64, X86_64>(guest, host), expected);
                        assert_eq!(references::<RiscV, X86_64>(guest, host), expected);
                        assert_eq!(references::<X86_64, RiscV>(guest, host), expected);
                    }
                }
            }
        }
        assert_eq!(references::<X86_64, X86_64>((4, PageSize::Size4K), (4, PageSize::Size4K)), 24);
    }

    /// Every frame has a page of its own, no two in a row, and no touch is the first.
    #[test]
    fn a_host_that_gave_its_pages_before_has_given_them_anywhere() {
        for pages in [PageSize::Size4K, PageSize::Size2M] {
            let mut host = RadixHost::<X86_64>::new(&HostDesign { giving: Giving::Before, ..design(pages) })
                .expect("a host");
            let frames: Vec<Pfn> = (0..512).map(|page| START.add(page * pages.base_pages() + 1)).collect();
            let found = frames.iter().map(|&frame| host.translate(0, frame, &mut Vec::new()).expect("given"));
            let places: Vec<u64> = found.map(|page| page.frame.0 / pages.base_pages()).collect();
            let again =
                frames.iter().map(|&frame| host.find(frame).expect("given").frame.0 / pages.base_pages());
            assert!(again.eq(places.iter().copied()), "they stay");
            let in_a_row = places.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            let different: std::collections::BTreeSet<_> = places.iter().collect();
            assert!(in_a_row < 5 && different.len() == 512, "{in_a_row}, {}", different.len());
            assert_eq!((host.counts().faults, host.given_bytes()), (0, 512 * pages.bytes()));
        }
    }

    /// As many pages as there are, the last of which are hard to find at random.
    #[test]
    fn all_places_are_taken_once() {
        let mut places = Places::new(1_000);
        let mut taken: Vec<u64> = (0..1_000).map(|_| places.take()).collect();
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..1_000));
    }

    /// A base page of 16 KiB lies in four frames of 4 KiB, and its table's nodes too.
    #[test]
    fn a_guest_may_have_larger_base_pages() {
        let mut host = RadixHost::<X86_64>::new(&design(PageSize::Size2M)).expect("a host");
        let mut memory = TableArena::starting_at(START);
        let mut table = Radix::<Arm16K>::new(&Levels(3), 0, &mut memory).expect("memory");
        let frame = Pfn(START.0 + (2 << 18) + 4);
        table.map(&mut memory, Vpn(VPN.0 & !3), Leaf::data(frame), 0).expect("mapped");
        let guest = Guest { levels: 3, table, memory };
        let (end, _) = guest.walk(&mut host, None);
        let (again, reads) = guest.walk(&mut host, None);
        assert_eq!((end, reads.len()), (again, 4 * 4 - 1));
        let WalkEnd::Leaf { leaf, level: 0 } = end else { panic!("{end:?}") };
        assert_eq!(Some(leaf.frame), host.find(frame).map(|page| page.frame));
    }

    #[test]
    fn caches_leave_the_last_entry_of_each_walk() {
        let mut host = RadixHost::<X86_64>::new(&HostDesign {
            walk_cache: Some(vec![4, 4, 4]),
            ..design(PageSize::Size4K)
        })
        .expect("a host");
        let guest = Guest::<X86_64>::new(4, PageSize::Size4K);
        let mut caches = WalkCache::new::<X86_64>(&[4, 4, 4], None).expect("walk caches");
        guest.walk(&mut host, Some(&mut caches));
        // The guest's table is known, so that its entry and the walk to the page remain, and of that only the last entry.
        let (_, reads) = guest.walk(&mut host, Some(&mut caches));
        assert_eq!(reads.iter().map(|read| read.level).collect::<Vec<_>>(), [0, 0]);
        // Without walk caches of the guest, five translations of one reference each, and four entries.
        assert_eq!(guest.walk(&mut host, None).1.len(), 9);
    }

    #[test]
    fn a_tlb_for_guest_physical_pages_leaves_the_guests_references() {
        let mut host = RadixHost::<X86_64>::new(&HostDesign { tlb_entries: 8, ..design(PageSize::Size2M) })
            .expect("a host");
        let guest = Guest::<X86_64>::new(4, PageSize::Size4K);
        guest.walk(&mut host, None);
        let before = host.counts();
        let (_, reads) = guest.walk(&mut host, None);
        assert_eq!(reads.len(), 4);
        let counts = host.counts();
        assert_eq!((counts.lookups - before.lookups, counts.tlb_hits - before.tlb_hits), (5, 5));
        assert_eq!(counts.walks, before.walks);
    }

    #[test]
    fn pages_are_given_once_and_in_order() {
        let mut host = RadixHost::<X86_64>::new(&design(PageSize::Size2M)).expect("a host");
        assert_eq!(host.find(END), None);
        let frames = [START.add(700), START.add(3), START.add(1023), Pfn(END.0 - 1)];
        frames.into_iter().for_each(|frame| host.give(frame));
        let given = frames.map(|frame| host.find(frame).expect("it was given").frame.0 - START.0);
        assert_eq!(given, [700 - 512, 512 + 3, 1023 - 512, 1024 + 511]);
        assert_eq!((host.counts().faults, host.given_bytes()), (3, 6 << 20));
        let next = host.memory.allocate(PAGE_BYTES).expect("there is no end").frame();
        assert!(next < host.end());
    }
}
