//! The mosaic TLB: an entry holds the translations of `arity` consecutive base pages that lie anywhere.
//!
//! J. Han et al., "Mosaic Pages: Big TLB Reach With Small Pages", IEEE Micro 2024. The counting rules are those
//! of the authors' simulator: a fill brings in every page of the run that is mapped at that time; a page of the
//! run that is mapped later misses once and is then added in place, without a new entry and without an
//! eviction.

use super::{Fill, Lookup, SetClasses, TlbArray, TlbStorage, Translation, key, key_asid};
use crate::addr::{Asid, PageSize, Vpn};
use crate::sets::{ArrayShape, LowBits, Replacement, SetArray, SetChoice, ShapeError, ShapedArray};

/// The largest arity: one valid bit for each page in a word.
const MAX_ARITY: u32 = 64;

/// A set-associative array whose entries translate runs of small pages, each page to a frame of its own.
///
/// ```text
/// virtual address  | tag            | set          | offset in run | byte in page |
///                                    from bit 12 + log2 arity        12            0
/// ```
#[derive(Clone, Debug)]
pub struct Mosaic<C = LowBits> {
    keys: SetArray<C>,
    /// The pages of the run that are present, by slot.
    valid: Vec<u64>,
    /// The translations, by slot and offset in the run.
    pages: Vec<Translation>,
    arity_log2: u32,
}

impl Mosaic {
    /// Creates an empty array of `entries` runs of `arity` pages, in a power of two of sets.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape is impossible.
    ///
    /// # Panics
    ///
    /// If the arity is not a power of two from 1 to 64.
    pub fn new(entries: u32, ways: u32, replacement: Replacement, arity: u32) -> Result<Self, ShapeError> {
        SetArray::new(entries, ways, replacement).map(|keys| Self::of(keys, arity))
    }

    /// Creates an empty array of any shape whose entries are runs of `arity` pages.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape is impossible.
    ///
    /// # Panics
    ///
    /// If the arity is not a power of two from 1 to 64.
    pub fn stored(shape: &ArrayShape, arity: u32) -> Result<TlbStorage, ShapeError> {
        Ok(match shape.array()? {
            ShapedArray::LowBits(keys) => Self::of(keys, arity).into(),
            ShapedArray::Computed(keys) => TlbStorage::boxed(Mosaic::of(keys, arity)),
        })
    }
}

impl<C: SetChoice> Mosaic<C> {
    fn of(keys: SetArray<C>, arity: u32) -> Self {
        assert!(
            arity.is_power_of_two() && arity <= MAX_ARITY,
            "arity {arity} is not a power of two up to 64"
        );
        Self {
            valid: vec![0; keys.entries()],
            pages: vec![Translation::default(); keys.entries() * arity as usize],
            arity_log2: arity.trailing_zeros(),
            keys,
        }
    }

    /// Returns the number of base pages per entry.
    #[inline]
    pub fn arity(&self) -> u64 {
        1 << self.arity_log2
    }

    #[inline]
    fn split(&self, vpn: Vpn) -> (u64, usize) {
        (vpn.0 >> self.arity_log2, (vpn.0 & (self.arity() - 1)) as usize)
    }
}

impl<C: SetChoice> TlbArray for Mosaic<C> {
    /// Finding its run counts as a use even if the page itself is not valid.
    #[inline(always)]
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        let (run, offset) = self.split(vpn);
        match self.keys.lookup(run, key(asid, PageSize::Size4K, run)) {
            None => Lookup::Miss,
            Some(slot) if self.valid[slot] >> offset & 1 == 0 => Lookup::SubEntryMiss,
            Some(slot) => Lookup::Hit(self.pages[(slot << self.arity_log2) + offset]),
        }
    }

    /// Brings in a page. If its run is resident only this page becomes valid; otherwise the run enters with
    /// every page of it that the fill knows to be mapped.
    fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        let (run, offset) = self.split(fill.vpn);
        let key = key(asid, PageSize::Size4K, run);
        if let Some(slot) = self.keys.peek(run, key) {
            self.valid[slot] |= 1 << offset;
            self.pages[(slot << self.arity_log2) + offset] = fill.translation.chopped(fill.vpn);
            return;
        }
        let slot = self.keys.insert(run, key).slot;
        let first = slot << self.arity_log2;
        let pages = &mut self.pages[first..first + (1 << self.arity_log2)];
        let base = run << self.arity_log2;
        self.valid[slot] = match fill.cluster_from(Vpn(base), pages.len()) {
            Some(words) => {
                words.iter().zip(&mut *pages).enumerate().fold(0, |valid, (offset, (&word, page))| {
                    *page = Translation(word);
                    valid | u64::from(word != 0) << offset
                })
            }
            None => pages.iter_mut().enumerate().fold(0, |valid, (offset, page)| {
                let translation = fill.of(Vpn(base + offset as u64));
                *page = translation.unwrap_or_default();
                valid | u64::from(translation.is_some()) << offset
            }),
        };
        self.valid[slot] |= 1 << offset;
        pages[offset] = fill.translation.chopped(fill.vpn);
    }

    fn cluster(&self, asid: Asid, vpn: Vpn, cluster: &mut Vec<u64>) -> Option<Vpn> {
        let (run, _) = self.split(vpn);
        let slot = self.keys.peek(run, key(asid, PageSize::Size4K, run))?;
        let first = slot << self.arity_log2;
        cluster.extend((0..self.arity() as usize).map(|offset| {
            if self.valid[slot] >> offset & 1 == 0 { 0 } else { self.pages[first + offset].to_word() }
        }));
        Some(Vpn(run << self.arity_log2))
    }

    fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        let (run, offset) = self.split(vpn);
        if let Some(slot) = self.keys.peek(run, key(asid, PageSize::Size4K, run)) {
            let page = &mut self.pages[(slot << self.arity_log2) + offset];
            *page = page.dirtied();
        }
    }

    /// Clears one page's valid bit; the entry is freed when none is left.
    fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        let (run, offset) = self.split(vpn);
        let key = key(asid, PageSize::Size4K, run);
        if let Some(slot) = self.keys.peek(run, key) {
            self.valid[slot] &= !(1 << offset);
            if self.valid[slot] == 0 {
                self.keys.remove(run, key);
            }
        }
    }

    fn flush(&mut self, asid: Option<Asid>) {
        self.keys.retain(|key, _| asid.is_some_and(|asid| key_asid(key) != asid));
    }

    fn holds(&self, size: PageSize) -> bool {
        size == PageSize::Size4K
    }

    fn run_pages(&self) -> u64 {
        self.arity()
    }

    fn set_classes(&self) -> Option<SetClasses> {
        Some(SetClasses { classes: self.keys.classes(), shift: self.arity_log2 })
    }
}
