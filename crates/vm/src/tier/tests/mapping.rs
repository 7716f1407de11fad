//! Tests of where a page stands, and which page leaves: against lists of pages in the order of their use.

use super::*;
use crate::random::SplitMix64;

/// A set as a list: the pages by way, the ways by use, the last one first.
#[derive(Clone, Default)]
struct List {
    pages: Vec<(u64, bool)>,
    by_use: Vec<usize>,
}

impl List {
    /// Tells the way, and the page that left.
    fn touch_lru(&mut self, page: u64, write: bool, ways: usize) -> (bool, usize, Option<(u64, bool)>) {
        let found = self.pages.iter().position(|&(other, _)| other == page);
        let (way, victim) = match found {
            Some(way) => (way, None),
            None if self.pages.len() < ways => {
                self.pages.push((page, false));
                (self.pages.len() - 1, None)
            }
            None => {
                let way = *self.by_use.last().unwrap();
                (way, Some(std::mem::replace(&mut self.pages[way], (page, false))))
            }
        };
        self.pages[way].1 |= write;
        self.by_use.retain(|&other| other != way);
        self.by_use.insert(0, way);
        (found.is_some(), way, victim)
    }
}

#[test]
fn hits_and_victims_are_those_of_a_list() {
    for ways in 1..=16 {
        for (sets, index_shift) in [(1, 0), (4, 2), (8, 1)] {
            let mut tier = tier(TierDesign { sets, index_shift, ..small(ways, 1, 1, 1) });
            let mut lists = vec![List::default(); sets as usize];
            let mut random = SplitMix64::of_item(ways.into(), sets.into());
            let pages = u64::from(sets * ways * 2) << index_shift;
            for _ in 0..20_000 {
                // Far pages, too, that differ in their highest bits only.
                let page = random.below(pages) | random.below(2) << 55;
                let write = random.below(4) == 0;
                let set = (page >> index_shift) as usize % sets as usize;
                let (hit, way, victim) = lists[set].touch_lru(page, write, ways as usize);
                let expected = Touch {
                    hit,
                    frame: F((set * ways as usize + way) as u32),
                    victim: victim.map(|(page, dirty)| Victim { page: P(page), dirty }),
                };
                assert_eq!(tier.touch(P(page), write), expected);
                assert_eq!(tier.lookup(P(page), false), Some(expected.frame));
            }
            tier.check();
            let expected: Vec<_> = lists.iter().flat_map(|list| list.pages.clone()).collect();
            let resident: Vec<_> = tier.tags().iter().map(|found| (found.page.0, found.dirty)).collect();
            assert_eq!(resident, expected);
        }
    }
}

#[test]
fn nru_evicts_the_lowest_way_that_was_not_used_since_all_were() {
    let mut tier = tier(TierDesign { replacement: Replacement::Nru, ..small(3, 1, 1, 1) });
    let mut victim = |page| tier.touch(P(page), false).victim.map(|victim| victim.page.0);
    assert_eq!([victim(0), victim(1)], [None, None]);
    assert_eq!(victim(2), None, "all would be used: only 2 is");
    assert_eq!(victim(0), None, "0 and 2 are");
    assert_eq!(victim(3), Some(1), "all would be: only 3 is");
    assert_eq!(victim(4), Some(0));
    assert_eq!(victim(5), Some(2));
    assert_eq!(victim(6), Some(4));
}

#[test]
fn a_look_that_is_no_use_changes_nothing() {
    let mut tier = tier(small(2, 1, 1, 1));
    tier.touch(P(1), true);
    tier.touch(P(2), false);
    let resident = tier.resident(P(1));
    assert_eq!(resident, Some(Resident { page: P(1), frame: F(0), dirty: true }));
    assert_eq!(tier.touch(P(3), false).victim, Some(Victim { page: P(1), dirty: true }));
    assert_eq!(tier.resident(P(1)), None);
}

#[test]
#[should_panic(expected = "touched while 1 pages are pending")]
fn warming_up_ends_with_the_first_miss() {
    let mut tier = tier(small(2, 1, 1, 1));
    miss(&mut tier, 1, 0, LATER);
    tier.touch(P(2), false);
}
