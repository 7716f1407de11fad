//! Pages put together from their parts, which arrive in any order, more than once, or never.

use rustc_hash::FxHashMap;

use crate::codec::{PAGE_BYTES, Page, PagePart};

/// The incomplete page writes of one client, by transaction.
///
/// # Contract
///
/// A transaction names one request. A part that contradicts what is already there, by its page or by its content, is
/// refused, and the incomplete write is forgotten: no page is ever made of two writes' parts. There are at most `most`
/// incomplete writes; the one that was begun first gives way.
#[derive(Debug)]
pub struct Reassembly {
    most: usize,
    begun: u64,
    partial: FxHashMap<u32, Partial>,
}

#[derive(Debug)]
struct Partial {
    /// How many were begun before: the smallest is the oldest.
    order: u64,
    page: u64,
    parts: PartSet,
    content: Box<Page>,
}

/// The outcome of the arrival of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Assembled {
    /// Other parts of the page are missing.
    Incomplete {
        /// Whether this part was there already.
        duplicate: bool,
        /// Whether the oldest incomplete write was given up for this one.
        dropped: bool,
    },
    /// The page is whole, and forgotten here.
    Complete(Box<Page>),
    /// The part contradicts the others; all are forgotten.
    Contradiction,
}

/// Which parts of a page are there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct PartSet(u8);

impl PartSet {
    pub(crate) fn contains(self, part: PagePart<'_>) -> bool {
        self.0 & 1 << part.part().number() != 0
    }

    pub(crate) fn insert(&mut self, part: PagePart<'_>) {
        self.0 |= 1 << part.part().number();
    }

    pub(crate) fn is_whole(self) -> bool {
        self.0 == 0b111
    }
}

impl Reassembly {
    /// Creates a memory for at most `most` incomplete writes, at least one.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), begun: 0, partial: FxHashMap::default() }
    }

    /// Takes a part of the write `txid` to `page`.
    pub fn take(&mut self, txid: u32, page: u64, part: PagePart<'_>) -> Assembled {
        let dropped = !self.partial.contains_key(&txid) && self.make_room();
        let partial = self.partial.entry(txid).or_insert_with(|| {
            self.begun += 1;
            let content = Box::new([0; PAGE_BYTES]);
            Partial { order: self.begun, page, parts: PartSet::default(), content }
        });
        let duplicate = partial.parts.contains(part);
        let differs = duplicate && partial.content[part.part().range()] != *part.bytes();
        if partial.page != page || differs {
            self.partial.remove(&txid);
            return Assembled::Contradiction;
        }
        part.copy_to(&mut partial.content);
        partial.parts.insert(part);
        if !partial.parts.is_whole() {
            return Assembled::Incomplete { duplicate, dropped };
        }
        match self.partial.remove(&txid) {
            Some(partial) => Assembled::Complete(partial.content),
            None => unreachable!("it was there a moment ago"),
        }
    }

    /// Forgets an incomplete write; tells whether there was one.
    pub fn forget(&mut self, txid: u32) -> bool {
        self.partial.remove(&txid).is_some()
    }

    /// Returns the number of incomplete writes.
    pub fn count(&self) -> usize {
        self.partial.len()
    }

    /// Tells whether a write had to be given up.
    fn make_room(&mut self) -> bool {
        if self.partial.len() < self.most {
            return false;
        }
        // The order of iteration does not matter: `order` differs for any two.
        #[allow(clippy::iter_over_hash_type)]
        let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.order).map(|(&txid, _)| txid);
        oldest.is_some_and(|txid| self.forget(txid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Part;

    fn page(seed: u8) -> Page {
        std::array::from_fn(|at| (at / 13) as u8 ^ seed)
    }

    fn waits(duplicate: bool, dropped: bool) -> Assembled {
        Assembled::Incomplete { duplicate, dropped }
    }

    #[test]
    fn parts_come_in_any_order_and_more_than_once() {
        let page = page(1);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut reassembly = Reassembly::new(4);
            let part = |at: usize| PagePart::of(&page, Part::ALL[order[at]]);
            for at in [0, 1] {
                assert_eq!(reassembly.take(7, 3, part(at)), waits(false, false));
                assert_eq!(reassembly.take(7, 3, part(at)), waits(true, false));
            }
            assert_eq!(reassembly.take(7, 3, part(2)), Assembled::Complete(Box::new(page)));
            assert_eq!(reassembly.count(), 0);
        }
    }

    #[test]
    fn contradicting_parts_write_nothing() {
        let (one, other) = (page(1), page(2));
        let [first, second, third] = Part::ALL;
        let mut reassembly = Reassembly::new(4);
        reassembly.take(7, 3, PagePart::of(&one, first));
        assert_eq!(reassembly.take(7, 3, PagePart::of(&other, first)), Assembled::Contradiction, "content");
        assert_eq!(reassembly.count(), 0);
        reassembly.take(7, 3, PagePart::of(&one, first));
        assert_eq!(reassembly.take(7, 4, PagePart::of(&one, second)), Assembled::Contradiction, "page");
        assert_eq!(reassembly.take(7, 3, PagePart::of(&one, second)), waits(false, false), "from the start");
        assert_eq!(reassembly.take(7, 3, PagePart::of(&one, third)), waits(false, false));
    }

    #[test]
    fn the_oldest_gives_way() {
        let page = page(0);
        let mut reassembly = Reassembly::new(2);
        let mut take = |txid, part| reassembly.take(txid, 0, PagePart::of(&page, part));
        assert_eq!(take(9, Part::First), waits(false, false));
        assert_eq!(take(3, Part::First), waits(false, false));
        assert_eq!(take(9, Part::Second), waits(false, false));
        assert_eq!(take(5, Part::First), waits(false, true), "9 was begun first");
        assert_eq!(take(3, Part::Second), waits(false, false));
        assert_eq!(take(3, Part::Third), Assembled::Complete(Box::new(page)));
        assert_eq!(take(9, Part::Third), waits(false, false), "its other parts are gone");
        assert_eq!(reassembly.count(), 2);
        assert!(reassembly.forget(9) && !reassembly.forget(9));
    }
}
