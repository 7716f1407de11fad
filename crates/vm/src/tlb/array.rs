//! What a TLB array is, and the set-associative kind.

use super::sizes::PageSizes;
use super::{Fill, Lookup, TlbEntry, TlbStorage, Translation, key, key_asid, key_page};
use crate::addr::{Asid, PageSize, Vpn};
use crate::sets::{ArrayShape, LowBits, Replacement, SetArray, SetChoice, ShapeError, ShapedArray};

/// One array of a TLB level.
///
/// # Contract
///
/// - After a fill, a look-up of the page that missed hits with the same frame, until something evicts or removes it.
/// - A fill evicts nothing but entries of the set that it goes to, and of a victim buffer; with no array of the level for its size,
///   a large page enters the array for 4 KiB pages chopped.
/// - Address spaces do not see each other's entries.
/// - After [`TlbArray::invalidate`] of a page, and after [`TlbArray::flush`] of its address space, a look-up of it misses; no other
///   page's translation goes, but those of the large page that held it.
/// - With LRU replacement and fully associative, more entries never miss more.
pub trait TlbArray: std::fmt::Debug + Send {
    /// Looks up base page `vpn`; a hit counts as a use.
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup;

    /// Returns whether translations of pages of `size` may stand in the array as such.
    fn holds(&self, size: PageSize) -> bool;

    /// Brings in what a look-up has just missed.
    fn fill(&mut self, asid: Asid, fill: &Fill<'_>);

    /// Brings in the translation of a page that is not here, chopped unless the array holds its size; returns the entry that had to
    /// leave. An array whose entries hold several pages returns none.
    fn exchange(&mut self, asid: Asid, vpn: Vpn, translation: Translation) -> Option<TlbEntry> {
        self.fill(asid, &Fill::single(vpn, translation));
        None
    }

    /// Removes the entry that translates `vpn`, and returns its translation. An array whose entries hold several pages keeps it.
    fn take(&mut self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        let _ = (asid, vpn);
        None
    }

    /// Replaces the translation of `vpn`, if resident, by the same with its dirty bit set.
    fn set_dirty(&mut self, asid: Asid, vpn: Vpn);

    /// Removes the translation of `vpn`, and of the large page that holds it.
    fn invalidate(&mut self, asid: Asid, vpn: Vpn);

    /// Removes all translations of an address space, or of all.
    fn flush(&mut self, asid: Option<Asid>);

    /// Returns whether the array holds nothing, so that a look-up may be spared; false is always right.
    fn is_empty(&self) -> bool {
        false
    }

    /// Returns the number of consecutive base pages that an entry covers: how many a fill may bring at once.
    fn run_pages(&self) -> u64 {
        1
    }

    /// Appends the resident run around `vpn` to `cluster`, for filling a nearer level, if an entry covers several pages; 0
    /// stands for a page that is not valid. Returns the run's first page.
    fn cluster(&self, asid: Asid, vpn: Vpn, cluster: &mut Vec<u64>) -> Option<Vpn> {
        let _ = (asid, vpn, cluster);
        None
    }

    /// Returns which pages never share a set; none if a repeated use of the newest entry of a set may change which entry is
    /// evicted next.
    fn set_classes(&self) -> Option<SetClasses> {
        None
    }
}

/// Classes of pages that never share a set: pages whose numbers, in units of their own size, differ in `number >> shift` modulo
/// `classes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetClasses {
    /// The number of classes, a power of two: that of sets where the low bits choose one.
    pub classes: u64,
    /// Low bits of the number that do not matter.
    pub shift: u32,
}

/// A set-associative array for one or several page sizes.
///
/// The set is chosen by the page number in units of the page's own size. With several sizes in one array a look-up
/// probes each size that has an entry, smallest first, as hardware that re-hashes does.
#[derive(Clone, Debug)]
pub struct SetAssociative<C = LowBits> {
    keys: SetArray<C>,
    entries: Vec<Translation>,
    /// The sizes that it is for, and those of which it has entries now.
    sizes: PageSizes,
    resident: PageSizes,
    /// Entries in use, by page size.
    counts: [u32; PageSize::EVERY.len()],
}

impl SetAssociative {
    /// Creates an empty array for the page sizes of `pages`, in a power of two of sets.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape is impossible.
    pub fn new(
        entries: u32,
        ways: u32,
        replacement: Replacement,
        pages: &[PageSize],
    ) -> Result<Self, ShapeError> {
        SetArray::new(entries, ways, replacement).map(|keys| Self::of(keys, pages))
    }

    /// Creates an empty array of any shape for the page sizes of `pages`.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape is impossible.
    pub fn stored(shape: &ArrayShape, pages: &[PageSize]) -> Result<TlbStorage, ShapeError> {
        Ok(match shape.array()? {
            ShapedArray::LowBits(keys) => Self::of(keys, pages).into(),
            ShapedArray::Computed(keys) => TlbStorage::boxed(SetAssociative::of(keys, pages)),
        })
    }
}

impl<C: SetChoice> SetAssociative<C> {
    pub(super) fn of(keys: SetArray<C>, pages: &[PageSize]) -> Self {
        let entries = vec![Translation::default(); keys.entries()];
        let sizes = PageSizes::those(|size| pages.contains(&size));
        Self { keys, entries, sizes, resident: PageSizes::default(), counts: [0; PageSize::EVERY.len()] }
    }

    fn lookup_large(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        let mut sizes = self.resident.large();
        // Most large pages are of 2 MiB: as a constant, the size costs least.
        if sizes.contains(PageSize::Size2M) {
            if let Some(translation) = self.lookup_size(asid, vpn, PageSize::Size2M) {
                return Lookup::Hit(translation);
            }
            sizes.set(PageSize::Size2M, false);
        }
        sizes.iter().find_map(|size| self.lookup_size(asid, vpn, size)).map_or(Lookup::Miss, Lookup::Hit)
    }

    /// Looks up the page of this size that holds base page `vpn`.
    #[inline(always)]
    fn lookup_size(&mut self, asid: Asid, vpn: Vpn, size: PageSize) -> Option<Translation> {
        let number = vpn.0 >> size.order();
        let slot = self.keys.lookup(number, key(asid, size, number))?;
        Some(self.entries[slot])
    }

    /// Returns the size of the pieces of a page whose own size the array does not hold.
    fn piece(&self) -> PageSize {
        self.sizes.iter().min().unwrap_or_default()
    }

    fn fill_large(&mut self, asid: Asid, vpn: Vpn, translation: Translation) {
        self.enter(asid, vpn, translation);
    }

    /// Brings in a translation, chopped unless the array holds its size; returns the key and the translation that had to leave.
    #[inline(always)]
    fn enter(&mut self, asid: Asid, vpn: Vpn, translation: Translation) -> Option<(u64, Translation)> {
        let is_held = translation.is_small() || self.holds(translation.size());
        let translation = if is_held { translation } else { translation.piece(vpn, self.piece()) };
        let size = translation.size();
        let number = vpn.0 >> size.order();
        self.insert(number, key(asid, size, number), translation)
    }

    /// Returns whether the array translates `vpn`, without counting that as a use.
    pub(super) fn contains(&self, asid: Asid, vpn: Vpn) -> bool {
        self.resident.iter().any(|size| {
            let number = vpn.0 >> size.order();
            self.keys.peek(number, key(asid, size, number)).is_some()
        })
    }

    /// Returns the key and the translation that had to leave.
    #[inline(always)]
    fn insert(&mut self, number: u64, key: u64, translation: Translation) -> Option<(u64, Translation)> {
        let inserted = self.keys.insert(number, key);
        let before = std::mem::replace(&mut self.entries[inserted.slot], translation);
        if inserted.evicted.is_none() {
            self.count(translation.size(), 1);
        } else if !before.has_size_of(translation) {
            self.count(before.size(), -1);
            self.count(translation.size(), 1);
        }
        inserted.evicted.map(|key| (key, before))
    }

    fn count(&mut self, size: PageSize, change: i32) {
        let count = &mut self.counts[size as usize];
        *count = count.wrapping_add_signed(change);
        self.resident.set(size, *count > 0);
    }
}

impl<C: SetChoice> TlbArray for SetAssociative<C> {
    #[inline(always)]
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        if self.resident.contains(PageSize::Size4K)
            && let Some(slot) = self.keys.lookup(vpn.0, key(asid, PageSize::Size4K, vpn.0))
        {
            return Lookup::Hit(self.entries[slot]);
        }
        if self.resident.large().is_empty() { Lookup::Miss } else { self.lookup_large(asid, vpn) }
    }

    fn holds(&self, size: PageSize) -> bool {
        self.sizes.contains(size)
    }

    /// A page of a size that the array does not hold enters chopped into the smallest that it does.
    #[inline(always)]
    fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        let Fill { vpn, translation, .. } = *fill;
        if translation.is_small() {
            self.insert(vpn.0, key(asid, PageSize::Size4K, vpn.0), translation);
        } else {
            self.fill_large(asid, vpn, translation);
        }
    }

    fn exchange(&mut self, asid: Asid, vpn: Vpn, translation: Translation) -> Option<TlbEntry> {
        let (key, translation) = self.enter(asid, vpn, translation)?;
        let vpn = key_page(key, translation.size());
        Some(TlbEntry { asid: key_asid(key), vpn, translation })
    }

    fn take(&mut self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        for size in self.resident.iter() {
            let number = vpn.0 >> size.order();
            if let Some(slot) = self.keys.remove(number, key(asid, size, number)) {
                self.count(size, -1);
                return Some(self.entries[slot]);
            }
        }
        None
    }

    fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        for size in self.resident.iter() {
            let number = vpn.0 >> size.order();
            if let Some(slot) = self.keys.peek(number, key(asid, size, number)) {
                self.entries[slot] = self.entries[slot].dirtied();
            }
        }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        for size in self.resident.iter() {
            let number = vpn.0 >> size.order();
            if self.keys.remove(number, key(asid, size, number)).is_some() {
                self.count(size, -1);
            }
        }
    }

    fn flush(&mut self, asid: Option<Asid>) {
        let Self { keys, entries, counts, .. } = self;
        keys.retain(|key, slot| {
            let keep = asid.is_some_and(|asid| key_asid(key) != asid);
            if !keep {
                counts[entries[slot].size() as usize] -= 1;
            }
            keep
        });
        self.resident = PageSizes::those(|size| self.counts[size as usize] > 0);
    }

    fn is_empty(&self) -> bool {
        self.resident.is_empty()
    }

    fn set_classes(&self) -> Option<SetClasses> {
        Some(SetClasses { classes: self.keys.classes(), shift: 0 })
    }
}
