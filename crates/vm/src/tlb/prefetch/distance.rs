//! The distance prefetcher.

use super::{TlbMiss, TlbPrefetcher};
use crate::addr::{Asid, Vpn};

/// Guesses that the distances between misses follow each other as they did before.
///
/// A direct-mapped table has a row for a distance between two misses in a row, with the distances that came next, the newest first.
/// A miss looks up the distance to the miss before it, and guesses the pages at the distances of that row.
///
/// Kandiraju and Sivasubramaniam, ISCA 2002. Distances are in base pages.
#[derive(Clone, Debug)]
pub struct Distance {
    rows: Vec<Row>,
    slots: usize,
    last: Option<Last>,
}

/// A distance, and those that came after it, the newest first.
#[derive(Clone, Debug, Default)]
struct Row {
    distance: Option<i64>,
    next: Vec<i64>,
}

/// The miss before, and its distance to the one before it.
#[derive(Clone, Copy, Debug)]
struct Last {
    asid: Asid,
    page: Vpn,
    distance: Option<i64>,
}

impl Distance {
    /// Creates a prefetcher with a table of so many rows, each of so many distances.
    pub fn new(rows: u32, slots: u32) -> Self {
        Self { rows: vec![Row::default(); rows as usize], slots: slots as usize, last: None }
    }

    fn row(&mut self, distance: i64) -> &mut Row {
        let count = self.rows.len() as i64;
        &mut self.rows[distance.rem_euclid(count) as usize]
    }

    /// Notes that `next` came after `distance`.
    fn learn(&mut self, distance: i64, next: i64) {
        let slots = self.slots;
        let row = self.row(distance);
        if row.distance != Some(distance) {
            *row = Row { distance: Some(distance), next: Vec::with_capacity(slots) };
        }
        row.next.retain(|&other| other != next);
        row.next.truncate(slots - 1);
        row.next.insert(0, next);
    }
}

impl TlbPrefetcher for Distance {
    fn miss(&mut self, miss: &TlbMiss, pages: &mut Vec<Vpn>) {
        // Distances between address spaces mean nothing.
        let last = self.last.filter(|last| last.asid == miss.asid);
        let distance = last.map(|last| miss.page.0.wrapping_sub(last.page.0) as i64);
        if let Some(distance) = distance {
            let row = self.row(distance);
            if row.distance == Some(distance) {
                pages.extend(row.next.iter().filter_map(|&next| miss.at(next)));
            }
            if let Some(before) = last.and_then(|last| last.distance) {
                self.learn(before, distance);
            }
        }
        self.last = Some(Last { asid: miss.asid, page: miss.page, distance });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::PageSize;

    fn guesses(prefetcher: &mut Distance, asid: u16, vpn: u64) -> Vec<u64> {
        let mut pages = Vec::new();
        prefetcher.miss(&TlbMiss::of(Asid(asid), Vpn(vpn), PageSize::Size4K), &mut pages);
        pages.into_iter().map(|page| page.0).collect()
    }

    /// The paper's example: with the misses 1, 2, 4, 5, 7, 8 the distances 1 and 2 take turns.
    #[test]
    fn distances_that_take_turns_are_guessed_from_the_fourth_miss_on() {
        let mut prefetcher = Distance::new(16, 2);
        let guessed = [1, 2, 4, 5, 7, 8, 10].map(|vpn| guesses(&mut prefetcher, 1, vpn));
        assert_eq!(guessed, [vec![], vec![], vec![], vec![7], vec![8], vec![10], vec![11]]);
    }

    #[test]
    fn a_row_has_the_newest_distances_and_belongs_to_one_distance() {
        let mut prefetcher = Distance::new(4, 2);
        // After a distance of 1 come 10, 20 and 30, always with another 1 behind.
        for vpn in [0, 1, 11, 12, 32, 33, 63] {
            guesses(&mut prefetcher, 1, vpn);
        }
        assert_eq!(guesses(&mut prefetcher, 1, 64), [94, 84]);
        // Distance 5 shares the row of distance 1 and has learnt nothing.
        guesses(&mut prefetcher, 1, 1_000);
        assert_eq!(guesses(&mut prefetcher, 1, 1_005), [0; 0]);
    }

    #[test]
    fn backward_distances_are_guessed_and_address_spaces_are_apart() {
        let mut prefetcher = Distance::new(16, 2);
        (0..3).for_each(|step| drop(guesses(&mut prefetcher, 1, 100 - 3 * step)));
        assert_eq!(guesses(&mut prefetcher, 1, 91), [88]);
        assert_eq!(guesses(&mut prefetcher, 2, 88), [0; 0], "the distance to the other's page means nothing");
        assert_eq!(guesses(&mut prefetcher, 2, 85), [82], "what was learnt serves both");
    }
}
