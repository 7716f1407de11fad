//! One TLB array, and the set-associative kind.

use super::{Fill, Lookup, Mosaic, Translation, key, key_asid};
use crate::addr::{Asid, PageSize, Vpn};
use crate::sets::{Replacement, SetArray, ShapeError};

/// A TLB array of either kind.
#[derive(Clone, Debug)]
pub enum TlbArray {
    /// The array holds one translation an entry.
    SetAssociative(SetAssociative),
    /// The translations of several consecutive pages an entry.
    Mosaic(Mosaic),
}

impl TlbArray {
    /// Looks up base page `vpn`; a hit counts as a use.
    #[inline(always)]
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        match self {
            Self::SetAssociative(array) => array.lookup(asid, vpn),
            Self::Mosaic(array) => array.lookup(asid, vpn),
        }
    }

    /// Returns whether translations of pages of `size` may stand in the array as such.
    pub fn holds(&self, size: PageSize) -> bool {
        match self {
            Self::SetAssociative(array) => array.sizes[size as usize],
            Self::Mosaic(_) => size == PageSize::Size4K,
        }
    }

    /// Brings in what missed.
    #[inline(always)]
    pub fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        match self {
            Self::SetAssociative(array) => array.fill(asid, fill.vpn, fill.translation),
            Self::Mosaic(array) => array.fill(asid, fill),
        }
    }

    /// Replaces the translation of `vpn`, if resident, by the same with its dirty bit set.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        match self {
            Self::SetAssociative(array) => array.set_dirty(asid, vpn),
            Self::Mosaic(array) => array.set_dirty(asid, vpn),
        }
    }

    /// Removes the translation of `vpn`, and of the large page that holds it.
    pub fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        match self {
            Self::SetAssociative(array) => array.invalidate(asid, vpn),
            Self::Mosaic(array) => array.invalidate(asid, vpn),
        }
    }

    /// Removes all translations of an address space, or of all.
    pub fn flush(&mut self, asid: Option<Asid>) {
        match self {
            Self::SetAssociative(array) => array.flush(asid),
            Self::Mosaic(array) => array.flush(asid),
        }
    }
}

/// A set-associative array for one or several page sizes.
///
/// The set is given by the low bits of the page number in units of the page's own size. With several sizes in
/// one array a look-up probes each size that has an entry, smallest first, as hardware that re-hashes does.
#[derive(Clone, Debug)]
pub struct SetAssociative {
    keys: SetArray,
    entries: Vec<Translation>,
    sizes: [bool; 3],
    /// Entries in use, by page size, and those of the two larger sizes together.
    resident: [u32; 3],
    large: u32,
}

impl SetAssociative {
    /// Creates an empty array for the page sizes of `pages`.
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
        let mut sizes = [false; 3];
        for &size in pages {
            sizes[size as usize] = true;
        }
        Ok(Self {
            keys: SetArray::new(entries, ways, replacement)?,
            entries: vec![Translation::default(); entries as usize],
            sizes,
            resident: [0; 3],
            large: 0,
        })
    }

    /// Returns whether the array holds nothing, so that a look-up may be spared.
    pub fn is_empty(&self) -> bool {
        self.resident == [0; 3]
    }

    /// Returns the number of sets.
    pub fn sets(&self) -> u64 {
        self.keys.sets()
    }

    /// Looks up base page `vpn`; a hit counts as a use.
    #[inline(always)]
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        if self.resident[0] > 0
            && let Some(slot) = self.keys.lookup(vpn.0, key(asid, PageSize::Size4K, vpn.0))
        {
            return Lookup::Hit(self.entries[slot]);
        }
        if self.large > 0 { self.lookup_large(asid, vpn) } else { Lookup::Miss }
    }

    fn lookup_large(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        for size in [PageSize::Size2M, PageSize::Size1G] {
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

    /// Brings in the translation of base page `vpn`, which a look-up has just missed. A page of a size that the array
    /// does not hold enters chopped into 4 KiB.
    #[inline(always)]
    pub fn fill(&mut self, asid: Asid, vpn: Vpn, translation: Translation) {
        if translation.is_small() {
            self.insert(vpn.0, key(asid, PageSize::Size4K, vpn.0), translation);
        } else {
            self.fill_large(asid, vpn, translation);
        }
    }

    fn fill_large(&mut self, asid: Asid, vpn: Vpn, translation: Translation) {
        let held = self.sizes[translation.size() as usize];
        let translation = if held { translation } else { translation.chopped(vpn) };
        let size = translation.size();
        let number = vpn.0 >> size.order();
        self.insert(number, key(asid, size, number), translation);
    }

    #[inline(always)]
    fn insert(&mut self, number: u64, key: u64, translation: Translation) {
        let inserted = self.keys.insert(number, key);
        let before = std::mem::replace(&mut self.entries[inserted.slot], translation);
        if inserted.evicted.is_none() {
            self.count(translation.size(), 1);
        } else if before.size() != translation.size() {
            self.count(before.size(), -1);
            self.count(translation.size(), 1);
        }
    }

    fn count(&mut self, size: PageSize, change: i32) {
        let resident = &mut self.resident[size as usize];
        *resident = resident.wrapping_add_signed(change);
        self.large = self.resident[1] + self.resident[2];
    }

    fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        for size in PageSize::ALL {
            let number = vpn.0 >> size.order();
            if let Some(slot) = self.keys.peek(number, key(asid, size, number)) {
                self.entries[slot] = self.entries[slot].dirtied();
            }
        }
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        for size in PageSize::ALL {
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
        *large = resident[1] + resident[2];
    }
}
