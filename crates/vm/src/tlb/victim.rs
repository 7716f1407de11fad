//! An array with a victim buffer: a small fully associative array that takes what the main array evicts.
//!
//! N. Jouppi, "Improving Direct-Mapped Cache Performance by the Addition of a Small Fully-Associative Cache and Prefetch
//! Buffers", ISCA 1990, there for a data cache.

use super::{Fill, Lookup, SetAssociative, SetClasses, TlbArray, TlbEntry, TlbStorage, Translation};
use crate::addr::{Asid, PageSize, Vpn};
use crate::sets::{ArrayShape, LowBits, Replacement, SetChoice, ShapeError, ShapedArray};

/// A set-associative array and its victim buffer, which are looked up together.
///
/// An entry stands in one of the two. A hit in the buffer exchanges the entry with the one that it pushes out of the main
/// array; an entry that a fill pushes out of the main array enters the buffer, whose least recent entry leaves.
#[derive(Clone, Debug)]
pub struct VictimBuffered<C = LowBits> {
    main: SetAssociative<C>,
    victims: SetAssociative,
}

impl VictimBuffered {
    /// Creates an empty array of any shape for the page sizes of `pages`, with a buffer of `victims` entries.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape is impossible, or the buffer has no entries.
    pub fn stored(shape: &ArrayShape, pages: &[PageSize], victims: u32) -> Result<TlbStorage, ShapeError> {
        let victims = SetAssociative::new(victims, victims, Replacement::Lru, pages)?;
        Ok(match shape.array()? {
            ShapedArray::LowBits(keys) => {
                TlbStorage::boxed(VictimBuffered { main: SetAssociative::of(keys, pages), victims })
            }
            ShapedArray::Computed(keys) => {
                TlbStorage::boxed(VictimBuffered { main: SetAssociative::of(keys, pages), victims })
            }
        })
    }
}

impl<C: SetChoice> TlbArray for VictimBuffered<C> {
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        let answer = self.main.lookup(asid, vpn);
        if answer != Lookup::Miss {
            return answer;
        }
        let Some(translation) = self.victims.take(asid, vpn) else { return Lookup::Miss };
        self.exchange(asid, vpn, translation);
        Lookup::Hit(translation)
    }

    fn holds(&self, size: PageSize) -> bool {
        self.main.holds(size)
    }

    fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        self.exchange(asid, fill.vpn, fill.translation);
    }

    fn exchange(&mut self, asid: Asid, vpn: Vpn, translation: Translation) -> Option<TlbEntry> {
        let TlbEntry { asid, vpn, translation } = self.main.exchange(asid, vpn, translation)?;
        self.victims.exchange(asid, vpn, translation)
    }

    fn take(&mut self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        self.main.take(asid, vpn).or_else(|| self.victims.take(asid, vpn))
    }

    fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        self.main.set_dirty(asid, vpn);
        self.victims.set_dirty(asid, vpn);
    }

    fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        self.main.invalidate(asid, vpn);
        self.victims.invalidate(asid, vpn);
    }

    fn flush(&mut self, asid: Option<Asid>) {
        self.main.flush(asid);
        self.victims.flush(asid);
    }

    fn is_empty(&self) -> bool {
        self.main.is_empty() && self.victims.is_empty()
    }

    /// A page that was used last stands in the main array, where an exchange touches its own set only.
    fn set_classes(&self) -> Option<SetClasses> {
        self.main.set_classes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Pfn;
    use crate::random::SplitMix64;
    use crate::sets::Indexing;

    const ASID: Asid = Asid(2);

    fn direct_mapped(sets: u32, victims: u32, pages: &[PageSize]) -> TlbStorage {
        let (replacement, indexing) = (Replacement::Lru, Indexing::Modulo);
        let shape = ArrayShape { entries: sets, ways: 1, replacement, indexing };
        VictimBuffered::stored(&shape, pages, victims).expect("a possible shape")
    }

    fn is_hit(array: &mut TlbStorage, vpn: u64) -> bool {
        let expected = Translation::new(Pfn(vpn + 7), PageSize::Size4K, true, false);
        match array.lookup(ASID, Vpn(vpn)) {
            Lookup::Hit(found) => {
                assert_eq!(found, expected);
                true
            }
            _ => {
                array.fill(ASID, &Fill::single(Vpn(vpn), expected));
                false
            }
        }
    }

    /// The model: a page for each set, and a list of what they lost, the newest first.
    #[test]
    fn a_direct_mapped_array_equals_a_page_a_set_and_a_list_reference_by_reference() {
        // Sets by a mask and by a remainder.
        for (sets, victims) in [(16, 1), (16, 4), (12, 3), (64, 16)] {
            let mut array = direct_mapped(sets, victims, &[PageSize::Size4K]);
            let mut pages = vec![None; sets as usize];
            let mut lost: Vec<u64> = Vec::new();
            let mut random = SplitMix64::new(u64::from(sets));
            let (mut of_set, mut of_list) = (0, 0);
            for step in 0..40_000u64 {
                let vpn = if step % 3 == 0 { random.below(300) } else { step / 64 + random.below(20) };
                let page = &mut pages[(vpn % u64::from(sets)) as usize];
                let expected = if *page == Some(vpn) {
                    of_set += 1;
                    true
                } else {
                    let place = lost.iter().position(|&other| other == vpn);
                    place.map(|place| lost.remove(place));
                    lost.splice(0..0, page.replace(vpn));
                    lost.truncate(victims as usize);
                    of_list += u64::from(place.is_some());
                    place.is_some()
                };
                assert_eq!(is_hit(&mut array, vpn), expected, "{sets} sets, {victims} victims, step {step}");
            }
            assert!(of_set > 1_000 && of_list > 100, "{of_set} and {of_list} hits");
        }
    }

    /// Two pages of one set, used in turn, miss always without a victim and never with one.
    #[test]
    fn one_victim_ends_the_conflict_of_two_pages() {
        let mut array = direct_mapped(16, 1, &[PageSize::Size4K]);
        let hits = (0..1_000).filter(|step| is_hit(&mut array, step % 2 * 16)).count();
        assert_eq!(hits, 998);
    }

    #[test]
    fn a_huge_page_that_was_pushed_out_is_found_by_any_of_its_pages_and_removed_by_any() {
        let mut array = direct_mapped(16, 2, &[PageSize::Size4K, PageSize::Size2M]);
        let huge = Translation::new(Pfn(512), PageSize::Size2M, true, false);
        array.fill(ASID, &Fill::single(Vpn(1024 + 5), huge));
        // Huge page 2 and page 34 share set 2.
        assert!(!is_hit(&mut array, 34));
        array.set_dirty(ASID, Vpn(1024));
        assert_eq!(array.lookup(ASID, Vpn(1024 + 9)), Lookup::Hit(huge.dirtied()));
        assert!(is_hit(&mut array, 34));
        array.invalidate(ASID, Vpn(1024 + 300));
        assert_eq!(array.lookup(ASID, Vpn(1024 + 5)), Lookup::Miss);
        assert!(is_hit(&mut array, 34));
        array.flush(Some(ASID));
        assert!(array.is_empty());
    }
}
