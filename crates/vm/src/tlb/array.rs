//! What a TLB array is, and the set-associative kind.

use arrayvec::ArrayVec;

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
    sizes: [bool; PageSize::EVERY.len()],
    /// Those of the sizes that are above 4 KiB.
    large_sizes: ArrayVec<PageSize, { PageSize::EVERY.len() }>,
    /// Entries in use, by page size, and those of all sizes above 4 KiB together.
    resident: [u32; PageSize::EVERY.len()],
    large: u32,
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
        let mut sizes = [false; PageSize::EVERY.len()];
        for &size in pages {
            sizes[size as usize] = true;
        }
        let entries = vec![Translation::default(); keys.entries()];
        let large_sizes = PageSize::EVERY.into_iter().skip(1).filter(|&size| sizes[size as usize]).collect();
        Self { keys, entries, sizes, large_sizes, resident: [0; PageSize::EVERY.len()], large: 0 }
    }

    fn lookup_large(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        for &size in &self.large_sizes {
            if self.resident[size as usize] == 0 {
                continue;
            }
            let number = vpn.0 >> size.order();
            if let Some(slot) = self.keys.lookup(number, key(asid, size, number)) {
                return Lookup::Hit(self.entries[slot]);
            }
        }
        Lookup::Miss
    }

    /// Returns the sizes of which the array has entries now.
    fn resident_sizes(&self) -> impl Iterator<Item = PageSize> + use<C> {
        let resident = self.resident;
        PageSize::EVERY.into_iter().filter(move |&size| resident[size as usize] > 0)
    }

    /// Returns the size of the pieces of a page whose own size the array does not hold.
    fn piece(&self) -> PageSize {
        PageSize::EVERY.into_iter().filter(|&size| self.sizes[size as usize]).min().unwrap_or_default()
    }

    fn fill_large(&mut self, asid: Asid, vpn: Vpn, translation: Translation) {
        self.exchange(asid, vpn, translation);
    }

    /// Returns whether the array translates `vpn`, without counting that as a use.
    pub(super) fn contains(&self, asid: Asid, vpn: Vpn) -> bool {
        self.resident_sizes().any(|size| {
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
        let resident = &mut self.resident[size as usize];
        *resident = resident.wrapping_add_signed(change);
        if size != PageSize::Size4K {
            self.large = self.large.wrapping_add_signed(change);
        }
    }
}

impl<C: SetChoice> TlbArray for SetAssociative<C> {
    #[inline(always)]
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        if self.resident[0] > 0
            && let Some(slot) = self.keys.lookup(vpn.0, key(asid, PageSize::Size4K, vpn.0))
        {
            return Lookup::Hit(self.entries[slot]);
        }
        if self.large > 0 { self.lookup_large(asid, vpn) } else { Lookup::Miss }
    }

    fn holds(&self, size: PageSize) -> bool {
        self.sizes[size as usize]
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
        let held = translation.is_small() || self.sizes[translation.size() as usize];
        let translation = if held { translation } else { translation.piece(vpn, self.piece()) };
        let size = translation.size();
        let number = vpn.0 >> size.order();
        let (key, translation) = self.insert(number, key(asid, size, number), translation)?;
        let vpn = key_page(key, translation.size());
        Some(TlbEntry { asid: key_asid(key), vpn, translation })
    }

    fn take(&mut self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        for size in self.resident_sizes() {
            let number = vpn.0 >> size.order();
            if let Some(slot) = self.keys.remove(number, key(asid, size, number)) {
                self.count(size, -1);
                return Some(self.entries[slot]);
            }
        }
        None
    }

    fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        for size in self.resident_sizes() {
            let number = vpn.0 >> size.order();
            if let Some(slot) = self.keys.peek(number, key(asid, size, number)) {
                self.entries[slot] = self.entries[slot].dirtied();
            }
        }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        for size in self.resident_sizes() {
            let number = vpn.0 >> size.order();
            if self.keys.remove(number, key(asid, size, number)).is_some() {
                self.count(size, -1);
            }
        }
    }

    fn flush(&mut self, asid: Option<Asid>) {
        let Self { keys, entries, resident, large, .. } = self;
        keys.retain(|key, slot| {
            let keep = asid.is_some_and(|asid| key_asid(key) != asid);
            if !keep {
                resident[entries[slot].size() as usize] -= 1;
            }
            keep
        });
        *large = resident[1..].iter().sum();
    }

    fn is_empty(&self) -> bool {
        self.resident[0] == 0 && self.large == 0
    }

    fn set_classes(&self) -> Option<SetClasses> {
        Some(SetClasses { classes: self.keys.classes(), shift: 0 })
    }
}
