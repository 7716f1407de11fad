//! A bank of LRU TLBs of growing size, run side by side: a program's miss curve in one pass.

use crate::addr::Vpn;
use crate::simd::{self, Row};

/// log2 of the sets of the smallest: 16 sets.
const SMALLEST_LOG2_SETS: u32 = 4;
/// Ways of each.
const BANK_WAYS: u32 = 8;
/// The class of the filter in front: pages that agree in their low bits share its slot.
const FILTER_SLOTS: usize = 16;
/// Pages collected before the TLBs run: the pages of a batch stay in the first-level cache.
const CHUNK: usize = 1024;

/// Eight-way LRU TLBs for 4 KiB pages, by default eight of 16, 32, ... 2048 sets (128 to 16,384 entries).
///
/// An exact filter stands in front: an access to the page that its class (page number modulo 16) touched last is
/// a hit on the most recently used entry of its set in every TLB of the bank, and touching that entry again
/// changes nothing. All have low-bit indexes and a multiple of 16 sets, which is what makes this exact.
///
/// A row holds 32-bit tags: the page number without its four low bits, which every set implies. That is exact
/// for 48-bit addresses.
#[derive(Clone, Debug)]
pub struct LruBank<const TLBS: usize = 8> {
    rows: Vec<Row>,
    first_row: [u32; TLBS],
    log2_sets: [u32; TLBS],
    misses: [u64; TLBS],
    last: [u64; FILTER_SLOTS],
    chunk: Box<[u64; CHUNK]>,
    kept: usize,
    accesses: u64,
    vectorised: bool,
}

/// A tag that no page of a 48-bit user address has.
const NO_TAG: u32 = u32::MAX;
const NO_PAGE: u64 = u64::MAX;

impl Default for LruBank {
    fn default() -> Self {
        Self::new()
    }
}

impl LruBank {
    /// Eight TLBs of 128, 256, ... 16,384 entries: a miss curve.
    pub fn new() -> Self {
        Self::with_entries(std::array::from_fn(|tlb| 128 << tlb))
    }
}

impl<const TLBS: usize> LruBank<TLBS> {
    /// Empty TLBs of these sizes.
    ///
    /// # Panics
    ///
    /// If a size is not a power of two of at least 128 entries (16 sets).
    pub fn with_entries(entries: [u32; TLBS]) -> Self {
        let log2_sets = entries.map(|entries| {
            assert!(
                entries.is_power_of_two() && entries >= BANK_WAYS << SMALLEST_LOG2_SETS,
                "{entries} entries"
            );
            (entries / BANK_WAYS).trailing_zeros()
        });
        let mut rows = 0;
        let first_row = log2_sets.map(|log2| {
            let first = rows;
            rows += 1 << log2;
            first
        });
        Self {
            rows: vec![[NO_TAG; 8]; rows as usize],
            first_row,
            log2_sets,
            misses: [0; TLBS],
            last: [NO_PAGE; FILTER_SLOTS],
            chunk: Box::new([0; CHUNK]),
            kept: 0,
            accesses: 0,
            vectorised: simd::available(),
        }
    }

    /// The same bank without the vector kernel: the readable reference.
    #[must_use]
    pub fn scalar(self) -> Self {
        Self { vectorised: false, ..self }
    }

    /// Takes accesses to pages, in order.
    #[inline]
    pub fn access(&mut self, pages: impl Iterator<Item = Vpn>) {
        let mut kept = self.kept;
        for vpn in pages {
            self.accesses += 1;
            let last = &mut self.last[vpn.0 as usize % FILTER_SLOTS];
            // Written always and counted if it is to stay: which pages stay is hard to predict for a branch.
            self.chunk[kept] = vpn.0;
            kept += usize::from(*last != vpn.0);
            *last = vpn.0;
            if kept == CHUNK {
                self.run_chunk(CHUNK);
                kept = 0;
            }
        }
        self.kept = kept;
    }

    /// The miss curve so far: (entries, misses), smallest TLB first.
    pub fn curve(&mut self) -> [(u32, u64); TLBS] {
        self.run_kept();
        std::array::from_fn(|tlb| (BANK_WAYS << self.log2_sets[tlb], self.misses[tlb]))
    }

    /// Accesses taken so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Forgets all translations, as at a context switch.
    pub fn flush(&mut self) {
        self.run_kept();
        self.rows.fill([NO_TAG; 8]);
        self.last.fill(NO_PAGE);
    }

    fn run_kept(&mut self) {
        self.run_chunk(self.kept);
        self.kept = 0;
    }

    fn run_chunk(&mut self, kept: usize) {
        let Self { rows, first_row, log2_sets, misses, chunk, .. } = self;
        let chunk = &chunk[..kept];
        if self.vectorised {
            simd::run(chunk, rows, first_row, log2_sets, misses);
        } else {
            for &page in chunk {
                for tlb in 0..TLBS {
                    let (tag, set) = split(page, log2_sets[tlb]);
                    let row = &mut rows[first_row[tlb] as usize + set];
                    let place = row.iter().position(|&resident| resident == tag);
                    misses[tlb] += u64::from(place.is_none());
                    row[..=place.unwrap_or(7)].rotate_right(1);
                    row[0] = tag;
                }
            }
        }
    }
}

/// The tag of a page and its set among `1 << log2_sets`.
#[inline(always)]
pub(crate) fn split(page: u64, log2_sets: u32) -> (u32, usize) {
    ((page >> SMALLEST_LOG2_SETS) as u32, page as usize & ((1 << log2_sets) - 1))
}
