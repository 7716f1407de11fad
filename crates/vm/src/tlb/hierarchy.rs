//! The levels of a TLB, each of one or several arrays.

use super::{Fill, Lookup, TlbArray, TlbEntry, TlbStorage, Translation};
use crate::addr::{Asid, Granule, PageSize, Vpn};

/// One level of a TLB hierarchy: arrays that are looked up in parallel.
///
/// # Contract
///
/// Every page size has at most one array that holds it. A page whose size no array holds enters the array for
/// base pages (4 KiB, or those of a larger granule) chopped.
#[derive(Debug)]
pub struct Tlb {
    /// The array for base pages.
    small: TlbStorage,
    /// Base pages that an entry of it covers.
    run_pages: u64,
    /// The arrays for larger pages.
    large: Vec<TlbStorage>,
    /// By page size, the one of the others that holds it.
    homes: [Option<usize>; PageSize::EVERY.len()],
    /// Whether any of the others may hold something: if not, they need no look-up.
    large_occupied: bool,
    inclusion: Inclusion,
    counts: LevelCounts,
}

/// The relation of a level's entries to those of the level above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inclusion {
    /// A miss fills this level, too, and each level evicts as it likes.
    #[default]
    Neither,
    /// None: this level takes what the level above evicts and nothing else, and an entry that hits moves up.
    Exclusive,
}

/// The counts of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelCounts {
    /// Look-ups that found their translation.
    pub hits: u64,
    /// Look-ups that did not; a page fault's repeated access does not count again.
    pub misses: u64,
    /// The misses that found a mosaic entry without the page.
    pub sub_entry_misses: u64,
}

impl std::ops::AddAssign for LevelCounts {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.sub_entry_misses += other.sub_entry_misses;
    }
}

/// The level that a translation was found in, and the translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbHit {
    /// The level, 0 for the nearest.
    pub level: u32,
    /// The translation; of the array's page size, so a chopped large page is a 4 KiB page here.
    pub translation: Translation,
}

impl Tlb {
    /// Creates a level of `arrays`.
    ///
    /// # Panics
    ///
    /// If no array holds base pages, or two hold the same size.
    pub fn new(mut arrays: Vec<TlbStorage>) -> Self {
        for size in PageSize::EVERY {
            let homes = arrays.iter().filter(|array| array.holds(size)).count();
            assert!(homes <= 1, "two arrays of a level hold {size} pages");
        }
        let bases = Granule::ALL.map(Granule::base);
        let small = bases.iter().find_map(|&base| arrays.iter().position(|array| array.holds(base)));
        let small = arrays.remove(small.expect("a TLB level holds base pages"));
        let run_pages = small.run_pages();
        let homes = PageSize::EVERY.map(|size| arrays.iter().position(|array| array.holds(size)));
        let counts = LevelCounts::default();
        let inclusion = Inclusion::default();
        Self { small, run_pages, large: arrays, homes, large_occupied: false, inclusion, counts }
    }

    /// Returns the level with another relation to the level above it. An exclusive level and the one above it have entries of one
    /// page, of the same page sizes.
    #[must_use]
    pub fn with_inclusion(self, inclusion: Inclusion) -> Self {
        Self { inclusion, ..self }
    }

    #[inline(always)]
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        let mut answer = self.small.lookup(asid, vpn);
        if self.large_occupied && !matches!(answer, Lookup::Hit(_)) {
            let mut others = self.large.iter_mut().map(|array| array.lookup(asid, vpn));
            answer = others.find(|other| matches!(other, Lookup::Hit(_))).unwrap_or(answer);
        }
        match answer {
            Lookup::Hit(translation) => {
                self.counts.hits += 1;
                return Some(translation);
            }
            Lookup::SubEntryMiss => self.counts.sub_entry_misses += 1,
            Lookup::Miss => {}
        }
        self.counts.misses += 1;
        None
    }

    #[inline(always)]
    fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        if fill.translation.is_small() {
            self.small.fill(asid, fill);
        } else {
            self.fill_large(asid, fill);
        }
    }

    fn fill_large(&mut self, asid: Asid, fill: &Fill<'_>) {
        match self.homes[fill.translation.size() as usize] {
            Some(home) => {
                self.large_occupied = true;
                self.large[home].fill(asid, fill);
            }
            None => self.small.fill(asid, fill),
        }
    }

    /// Brings in an entry, and returns the one that had to leave.
    fn exchange(&mut self, entry: TlbEntry) -> Option<TlbEntry> {
        let TlbEntry { asid, vpn, translation } = entry;
        match self.homes[translation.size() as usize] {
            Some(home) if !translation.is_small() => {
                self.large_occupied = true;
                self.large[home].exchange(asid, vpn, translation)
            }
            _ => self.small.exchange(asid, vpn, translation),
        }
    }

    /// Removes the entry of `vpn`.
    fn take(&mut self, asid: Asid, vpn: Vpn) {
        self.arrays_mut().find_map(|array| array.take(asid, vpn));
    }

    fn is_exclusive(&self) -> bool {
        self.inclusion == Inclusion::Exclusive
    }

    /// Returns the fill of nearer levels with a translation that was found here, and with those of its run.
    #[inline(always)]
    fn fill_of<'a>(
        &self,
        asid: Asid,
        vpn: Vpn,
        translation: Translation,
        cluster: &'a mut Vec<u64>,
    ) -> Fill<'a> {
        if self.run_pages == 1 {
            return Fill::single(vpn, translation);
        }
        cluster.clear();
        let cluster_base = self.small.cluster(asid, vpn, cluster).unwrap_or(vpn);
        Fill { vpn, translation, cluster, cluster_base }
    }

    /// Lets `act` remove what it wants.
    fn remove(&mut self, act: impl FnMut(&mut TlbStorage)) {
        self.arrays_mut().for_each(act);
        self.large_occupied = self.large.iter().any(|array| !array.is_empty());
    }

    fn arrays_mut(&mut self) -> impl Iterator<Item = &mut TlbStorage> {
        std::iter::once(&mut self.small).chain(&mut self.large)
    }

    /// Returns what the level counted so far.
    pub fn counts(&self) -> LevelCounts {
        self.counts
    }

    /// Returns the number of base pages that an entry for 4 KiB pages covers.
    pub fn run_pages(&self) -> u64 {
        self.run_pages
    }

    /// Returns the array for base pages.
    pub fn small(&self) -> &dyn TlbArray {
        &*self.small
    }

    /// Returns the array for pages of `size`, if that is not the one for base pages.
    pub fn large(&self, size: PageSize) -> Option<&dyn TlbArray> {
        self.homes[size as usize].map(|home| &*self.large[home])
    }
}

/// A core's TLB levels, nearest first. Misses fill every level that missed, unless a level is exclusive.
#[derive(Debug)]
pub struct Tlbs {
    levels: Vec<Tlb>,
    /// Whether any level is exclusive.
    has_exclusive: bool,
    /// The arrays of the first level for the accesses that are not selected: stores or loads, if they have arrays of their own.
    other_first: Option<Box<Tlb>>,
    /// Whether the first level of `levels` is the one for stores.
    is_for_stores: bool,
    /// The first level for instructions, or for data while that is in place.
    fetching: Option<Box<Tlb>>,
    /// Scratch space for moving a run to a nearer level.
    cluster: Vec<u64>,
}

impl Tlbs {
    /// Creates a hierarchy of these levels; a hierarchy without levels is allowed and always misses.
    ///
    /// # Panics
    ///
    /// If the first level is exclusive: there is no level above it.
    pub fn new(levels: Vec<Tlb>) -> Self {
        assert!(!levels.first().is_some_and(Tlb::is_exclusive), "the first level is exclusive of none");
        let has_exclusive = levels.iter().any(Tlb::is_exclusive);
        let cluster = Vec::new();
        Self { levels, has_exclusive, other_first: None, is_for_stores: false, fetching: None, cluster }
    }

    /// Returns the hierarchy with another first level for stores; the one that it has is then for loads.
    ///
    /// # Panics
    ///
    /// If there is no first level, or an exclusive one below it: a page may be in both first levels.
    #[must_use]
    pub fn with_first_level_for_stores(self, stores: Tlb) -> Self {
        assert!(!self.levels.is_empty() && !self.has_exclusive, "two first levels above these levels");
        Self { other_first: Some(Box::new(stores)), ..self }
    }

    /// Returns the hierarchy with a first level for instructions.
    ///
    /// # Panics
    ///
    /// As [`with_first_level_for_stores`](Self::with_first_level_for_stores).
    #[must_use]
    pub fn with_first_level_for_instructions(self, instructions: Tlb) -> Self {
        assert!(!self.levels.is_empty() && !self.has_exclusive, "two first levels above these levels");
        Self { fetching: Some(Box::new(instructions)), ..self }
    }

    /// Puts the first level for instructions, if there is one, in the place of that for data, or back: all look-ups and fills until the
    /// next call are of instructions, or of data.
    pub fn exchange_for_instructions(&mut self) {
        self.select(false);
        if let Some(other) = &mut self.fetching {
            std::mem::swap(&mut self.levels[0], other);
        }
    }

    /// Returns the counts of the first level for instructions, while that for data is in place.
    pub fn counts_of_instructions(&self) -> LevelCounts {
        self.fetching.as_ref().map_or_else(LevelCounts::default, |level| level.counts())
    }

    /// Returns whether stores have a first level of their own.
    #[inline]
    pub fn has_first_level_for_stores(&self) -> bool {
        self.other_first.is_some()
    }

    /// Returns whether the first level for stores is selected.
    pub fn is_for_stores(&self) -> bool {
        self.is_for_stores
    }

    /// Selects the first level for the look-ups and fills that follow, until another is selected: that for stores, or that for
    /// loads, if they differ.
    #[inline(always)]
    pub fn select(&mut self, is_store: bool) {
        if self.other_first.is_some() {
            self.select_of_two(is_store);
        }
    }

    #[inline(never)]
    fn select_of_two(&mut self, is_store: bool) {
        if let Some(other) = &mut self.other_first
            && self.is_for_stores != is_store
        {
            std::mem::swap(&mut self.levels[0], other);
            self.is_for_stores = is_store;
        }
    }

    /// Returns what a level counted so far, for loads and stores together.
    pub fn counts(&self, level: usize) -> LevelCounts {
        let mut counts = self.levels[level].counts();
        if level == 0
            && let Some(other) = &self.other_first
        {
            counts += other.counts();
        }
        counts
    }

    /// Lets `act` change every level, whether it is selected or not.
    #[inline]
    fn each_level(&mut self, mut act: impl FnMut(&mut Tlb)) {
        self.levels.iter_mut().for_each(&mut act);
        for other in [&mut self.other_first, &mut self.fetching].into_iter().flatten() {
            act(other);
        }
    }

    /// Returns the levels, the nearest to the core first; of two first levels, the one that is selected.
    pub fn levels(&self) -> &[Tlb] {
        &self.levels
    }

    /// Returns the largest arity of any level: how many neighbours a walk's fill should bring along.
    pub fn cluster_pages(&self) -> u64 {
        self.levels.iter().map(Tlb::run_pages).max().unwrap_or(1)
    }

    /// Looks up base page `vpn` level by level; a hit below the first level fills the levels above it.
    #[inline(always)]
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Option<TlbHit> {
        for (at, level) in self.levels.iter_mut().enumerate() {
            if let Some(translation) = level.lookup(asid, vpn) {
                if at > 0 {
                    self.fill_above(at, asid, vpn, translation);
                }
                return Some(TlbHit { level: at as u32, translation });
            }
        }
        None
    }

    #[inline(always)]
    fn fill_above(&mut self, at: usize, asid: Asid, vpn: Vpn, translation: Translation) {
        if self.has_exclusive {
            if self.levels[at].is_exclusive() {
                self.levels[at].take(asid, vpn);
            }
            self.fill_exclusively(at, asid, &Fill::single(vpn, translation));
            return;
        }
        let (above, below) = self.levels.split_at_mut(at);
        let fill = below[0].fill_of(asid, vpn, translation, &mut self.cluster);
        for level in above {
            level.fill(asid, &fill);
        }
    }

    /// Fills the levels of a nearer hierarchy with what a look-up here has just found.
    pub fn hand_on(&mut self, hit: TlbHit, asid: Asid, vpn: Vpn, nearer: &mut Self) {
        let level = &self.levels[hit.level as usize];
        nearer.fill(asid, &level.fill_of(asid, vpn, hit.translation, &mut self.cluster));
    }

    /// Fills all levels after a walk.
    #[inline]
    pub fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        if self.has_exclusive {
            self.fill_exclusively(self.levels.len(), asid, fill);
            return;
        }
        for level in &mut self.levels {
            level.fill(asid, fill);
        }
    }

    /// Fills the first `count` levels but the exclusive ones: what the level above one of these evicts goes down to it.
    #[cold]
    fn fill_exclusively(&mut self, count: usize, asid: Asid, fill: &Fill<'_>) {
        for at in 0..count {
            let below = self.levels[at + 1..].iter().take_while(|level| level.is_exclusive()).count();
            if self.levels[at].is_exclusive() {
                continue;
            }
            if below == 0 {
                self.levels[at].fill(asid, fill);
                continue;
            }
            let mut entry = Some(TlbEntry { asid, vpn: fill.vpn, translation: fill.translation });
            for level in &mut self.levels[at..=at + below] {
                entry = entry.and_then(|entry| level.exchange(entry));
            }
        }
    }

    /// Sets the dirty bit of the resident translations of `vpn`.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        self.each_level(|level| level.arrays_mut().for_each(|array| array.set_dirty(asid, vpn)));
    }

    /// Removes the translation of `vpn` everywhere.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        self.each_level(|level| level.remove(|array| array.invalidate(asid, vpn)));
    }

    /// Removes all translations of an address space, or of all.
    pub fn flush(&mut self, asid: Option<Asid>) {
        self.each_level(|level| level.remove(|array| array.flush(asid)));
    }
}
