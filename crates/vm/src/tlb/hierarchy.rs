//! Levels of arrays.

use super::{Fill, Lookup, TlbArray, Translation};
use crate::addr::{Asid, PageSize, Vpn};

/// One level: arrays that are looked up in parallel.
///
/// # Contract
///
/// Every page size has at most one array that holds it. A page whose size no array holds enters the array for
/// 4 KiB pages chopped.
#[derive(Clone, Debug)]
pub struct Tlb {
    arrays: Vec<TlbArray>,
    /// By page size: the array that takes its fills.
    home: [usize; 3],
}

/// What one level counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Look-ups that found their translation.
    pub hits: u64,
    /// Look-ups that did not; a page fault's repeated access does not count again.
    pub misses: u64,
    /// Of the misses, those that found a mosaic entry without the page.
    pub sub_entry_misses: u64,
}

/// Where a translation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbHit {
    /// The level, 0 for the nearest.
    pub level: u32,
    /// The translation; of the array's page size, so a chopped large page is a 4 KiB page here.
    pub translation: Translation,
}

impl Tlb {
    /// A level of `arrays`.
    ///
    /// # Panics
    ///
    /// If no array holds 4 KiB pages, or two hold the same size.
    pub fn new(arrays: Vec<TlbArray>) -> Self {
        let homes =
            |size| arrays.iter().enumerate().filter(move |(_, array)| array.holds(size)).map(|(at, _)| at);
        let small = homes(PageSize::Size4K).next().expect("a TLB level holds 4 KiB pages");
        let home = PageSize::ALL.map(|size| {
            assert!(homes(size).count() <= 1, "two arrays of a level hold {size} pages");
            homes(size).next().unwrap_or(small)
        });
        Self { arrays, home }
    }

    #[inline(always)]
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        let mut answer = Lookup::Miss;
        for array in &mut self.arrays {
            match array.lookup(asid, vpn) {
                Lookup::Miss => {}
                Lookup::SubEntryMiss => answer = Lookup::SubEntryMiss,
                hit @ Lookup::Hit(_) => return hit,
            }
        }
        answer
    }

    #[inline]
    fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        self.arrays[self.home[fill.translation.size() as usize]].fill(asid, fill);
    }

    /// Base pages that an entry for 4 KiB pages covers: 1, or the arity.
    pub fn arity(&self) -> u64 {
        match &self.arrays[self.home[0]] {
            TlbArray::Mosaic(array) => array.arity(),
            TlbArray::SetAssociative(_) => 1,
        }
    }

    /// The arrays.
    pub fn arrays(&self) -> &[TlbArray] {
        &self.arrays
    }
}

/// A core's TLB levels, nearest first. Misses fill every level that missed.
#[derive(Clone, Debug)]
pub struct Tlbs {
    levels: Vec<Tlb>,
    counts: Vec<LevelCounts>,
    /// Scratch space for moving a mosaic run to a nearer level.
    cluster: Vec<u64>,
}

impl Tlbs {
    /// A hierarchy; no level at all is allowed and misses always.
    pub fn new(levels: Vec<Tlb>) -> Self {
        let counts = vec![LevelCounts::default(); levels.len()];
        Self { levels, counts, cluster: Vec::new() }
    }

    /// What each level counted so far.
    pub fn counts(&self) -> &[LevelCounts] {
        &self.counts
    }

    /// The levels.
    pub fn levels(&self) -> &[Tlb] {
        &self.levels
    }

    /// The largest arity of any level: how many neighbours a walk's fill should bring along.
    pub fn cluster_pages(&self) -> u64 {
        self.levels.iter().map(Tlb::arity).max().unwrap_or(1)
    }

    /// Looks up base page `vpn` level by level; a hit below the first level fills the levels above it.
    #[inline(always)]
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Option<TlbHit> {
        for at in 0..self.levels.len() {
            match self.levels[at].lookup(asid, vpn) {
                Lookup::Hit(translation) => {
                    self.counts[at].hits += 1;
                    if at > 0 {
                        self.fill_above(at, asid, vpn, translation);
                    }
                    return Some(TlbHit { level: at as u32, translation });
                }
                Lookup::SubEntryMiss => {
                    self.counts[at].misses += 1;
                    self.counts[at].sub_entry_misses += 1;
                }
                Lookup::Miss => self.counts[at].misses += 1,
            }
        }
        None
    }

    fn fill_above(&mut self, at: usize, asid: Asid, vpn: Vpn, translation: Translation) {
        let (above, below) = self.levels.split_at_mut(at);
        let mut cluster_base = vpn;
        self.cluster.clear();
        if let TlbArray::Mosaic(array) = &below[0].arrays[below[0].home[0]] {
            cluster_base = array.cluster(asid, vpn, &mut self.cluster).unwrap_or(vpn);
        }
        let fill = Fill { vpn, translation, cluster: &self.cluster, cluster_base };
        for level in above {
            level.fill(asid, &fill);
        }
    }

    /// Fills all levels after a walk.
    #[inline]
    pub fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        for level in &mut self.levels {
            level.fill(asid, fill);
        }
    }

    /// Sets the dirty bit of the resident translations of `vpn`.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        self.for_each_array(|array| array.set_dirty(asid, vpn));
    }

    /// Removes the translation of `vpn` everywhere.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        self.for_each_array(|array| array.invalidate(asid, vpn));
    }

    /// Removes all translations of an address space, or of all.
    pub fn flush(&mut self, asid: Option<Asid>) {
        self.for_each_array(|array| array.flush(asid));
    }

    fn for_each_array(&mut self, act: impl FnMut(&mut TlbArray)) {
        self.levels.iter_mut().flat_map(|level| &mut level.arrays).for_each(act);
    }
}
