//! Chains of dependent loads: each word holds the address of the next.

use std::io;
use std::ptr::with_exposed_provenance;

use pagewalk_cuckoo::random::SplitMix64;

use super::bench::Bench;
use super::mapping::{Mapping, PAGE_BYTES, Pages};
#[cfg(target_arch = "x86_64")]
use super::misses::TwoMisses;

/// The size of a cache line.
pub(super) const LINE_BYTES: usize = 64;
const WORD_BYTES: usize = size_of::<u64>();
const LINE_WORDS: usize = LINE_BYTES / WORD_BYTES;
const PAGE_WORDS: usize = PAGE_BYTES / WORD_BYTES;

/// The word of a link, by the link's number; it grows with it.
pub(super) type Place = fn(usize) -> usize;

/// Links in every line.
pub(super) const IN_LINES: Place = |link| link * LINE_WORDS;

/// Links in every page: another line in each, so that they spread over the sets of a cache.
pub(super) const IN_PAGES: Place = |link| link * PAGE_WORDS + link % (PAGE_BYTES / LINE_BYTES) * LINE_WORDS;

/// Links in every sixteenth page, as those of [`IN_PAGES`]: each has a line of page tables of its own, because eight entries lie in one.
pub(super) const IN_SIXTEENTH_PAGES: Place = |link| IN_PAGES(link) + 15 * link * PAGE_WORDS;

/// A cycle of dependent loads in memory of its own, and where its reader is.
#[derive(Debug)]
pub(super) struct Ring {
    mapping: Mapping,
    count: usize,
    place: Place,
    /// The address of a link.
    at: u64,
    random: SplitMix64,
}

impl Ring {
    /// Links so many words, at least one, into a cycle in random order: no prefetcher foresees the next.
    ///
    /// # Errors
    ///
    /// The kernel refuses the memory.
    pub(super) fn new(count: usize, place: Place, pages: Pages) -> io::Result<Self> {
        let count = count.max(1);
        let mut mapping = Mapping::new((place(count - 1) + 1) * WORD_BYTES, pages)?;
        let mut random = SplitMix64::new(count as u64);
        touch(&mut mapping, &mut random);
        let words = mapping.words_mut();
        let base = words.as_mut_ptr().expose_provenance();
        (0..count).for_each(|link| words[place(link)] = (base + place(link) * WORD_BYTES) as u64);
        // Each link is swapped with an earlier one, never with itself: that makes a single cycle (Sattolo, 1986).
        for last in (1..count).rev() {
            words.swap(place(last), place(random.below(last as u64) as usize));
        }
        let at = words[0];
        Ok(Self { mapping, count, place, at, random })
    }

    /// Returns the bytes of the memory in which the links are.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.words())
    }

    /// Returns the memory in which the links are.
    pub(super) fn words(&self) -> &[u64] {
        self.mapping.words()
    }

    /// Follows the whole cycle, so that caches and TLBs hold of it what they can.
    pub(super) fn warm(&mut self) {
        self.advance(self.count);
    }

    /// Follows the cycle for so many steps from where the reader is.
    fn advance(&mut self, steps: usize) {
        [self.at] = self.follow([self.at], steps);
    }

    /// Returns the time of a step, in nanoseconds, over so many.
    pub(super) fn step(&mut self, bench: &mut Bench<'_>, steps: usize) -> f64 {
        bench.time(|_| self.advance(steps)) / steps as f64
    }

    /// Returns the time of a load, in nanoseconds, where so many chains make so many steps at a time.
    pub(super) fn together<const CHAINS: usize>(&mut self, bench: &mut Bench<'_>, steps: usize) -> f64 {
        let from = self.starts::<CHAINS>();
        bench.time(|_| self.follow(from, steps)) / (steps * CHAINS) as f64
    }

    /// Returns the time of a round of two misses, in nanoseconds.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn two_misses(&mut self, bench: &mut Bench<'_>, round: TwoMisses, rounds: usize) -> f64 {
        let from = self.starts::<2>();
        // SAFETY: both are addresses of links, which hold addresses of links, in memory that `self` keeps.
        bench.time(|_| unsafe { round(from, rounds) }) / rounds as f64
    }

    /// Returns addresses of links, chosen at random: far from one another on the cycle.
    fn starts<const CHAINS: usize>(&mut self) -> [u64; CHAINS] {
        std::array::from_fn(|_| {
            let link = self.random.below(self.count as u64) as usize;
            self.words()[(self.place)(link)]
        })
    }

    /// Follows several chains from addresses of links; their loads do not depend on one another. Returns where they end.
    #[inline(never)]
    fn follow<const CHAINS: usize>(&self, mut at: [u64; CHAINS], steps: usize) -> [u64; CHAINS] {
        for _ in 0..steps {
            for at in &mut at {
                // An index in place of an address would add a cycle on some processors.
                // SAFETY: (1) `at` is the address of a link, and a link holds the address of another: nothing outside of this file
                // writes to the words; (2) the mapping, whose provenance is exposed, lives as long as `self`.
                *at = unsafe { with_exposed_provenance::<u64>(*at as usize).read() };
            }
        }
        at
    }
}

/// Touches the pages of memory, so that the kernel gives them frames: in random order, so that neighbours have no frames in a row, which
/// a TLB could hold in one entry.
fn touch(mapping: &mut Mapping, random: &mut SplitMix64) {
    let words = mapping.words_mut();
    let mut pages: Vec<usize> = (0..words.len() / PAGE_WORDS).collect();
    while let Some(last) = pages.len().checked_sub(1) {
        let page = pages.swap_remove(random.below(last as u64 + 1) as usize);
        words[page * PAGE_WORDS] = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words on the cycle from the first one, in order of their addresses.
    fn visited(ring: &Ring) -> Vec<usize> {
        let base = ring.words().as_ptr() as u64;
        let mut seen = vec![0];
        loop {
            let next = (ring.words()[*seen.last().expect("the first")] - base) as usize / WORD_BYTES;
            if next == 0 {
                seen.sort_unstable();
                return seen;
            }
            seen.push(next);
            assert!(seen.len() <= ring.count, "it never comes back");
        }
    }

    #[test]
    fn the_links_are_one_cycle_over_all_places() {
        for (count, place) in [(1_024, IN_LINES), (600, IN_PAGES), (1, IN_LINES), (2, IN_PAGES)] {
            let ring = Ring::new(count, place, Pages::Small).expect("memory");
            assert_eq!(visited(&ring), (0..count).map(place).collect::<Vec<_>>());
        }
        assert_eq!(visited(&Ring::new(0, IN_LINES, Pages::Huge).expect("memory")), [0], "one link at least");
    }

    #[test]
    fn places_lie_in_lines_and_pages_of_their_own() {
        assert_eq!([0, 1, 2].map(IN_LINES), [0, 8, 16]);
        assert!((0..200).all(|page| IN_PAGES(page) / PAGE_WORDS == page));
        assert_eq!((IN_PAGES(1) % PAGE_WORDS, IN_PAGES(64) % PAGE_WORDS), (LINE_WORDS, 0));
    }

    #[test]
    fn a_lap_ends_where_it_began_and_steps_add_up() {
        let mut ring = Ring::new(64, IN_LINES, Pages::Huge).expect("memory");
        let begin = ring.at;
        ring.warm();
        assert_eq!(ring.at, begin);
        let [one] = ring.follow([begin], 1);
        assert_eq!(ring.follow([begin, one], 5), [ring.follow([begin], 5)[0], ring.follow([begin], 6)[0]]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn misses_at_any_distance_lead_to_the_same_place() {
        use crate::measure::misses::{COPIES, RESULTS, VECTOR_RESULTS};
        let mut ring = Ring::new(64, IN_LINES, Pages::Huge).expect("memory");
        for (fillers, round) in [COPIES, RESULTS, VECTOR_RESULTS].into_iter().flatten() {
            let from = ring.starts::<2>();
            // SAFETY: as in `two_misses`.
            let to = unsafe { round(from, 3) };
            assert_eq!(to, ring.follow(from, 3), "{fillers}");
        }
    }

    #[test]
    fn every_page_has_a_frame() {
        let mut mapping = Mapping::new(4 << 20, Pages::Small).expect("memory");
        touch(&mut mapping, &mut SplitMix64::new(1));
        assert_eq!(mapping.words().iter().sum::<u64>(), 1_024);
    }
}
