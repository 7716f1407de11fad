//! A bank of LRU TLBs of growing size, run side by side: a program's miss curve in one pass.

use super::simd::{self, Row};
use crate::addr::Vpn;

/// How many TLBs the bank has.
const BANK_TLBS: usize = 8;
/// log2 of the sets of the smallest: 16 sets.
const SMALLEST_LOG2_SETS: u32 = 4;
/// Ways of each.
const BANK_WAYS: u32 = 8;
/// The class of the filter in front: pages that agree in their low bits share its slot.
const FILTER_SLOTS: usize = 16;
/// Pages collected before the TLBs run: the pages of a batch stay in the first-level cache.
const CHUNK: usize = 1024;

/// Eight 8-way LRU TLBs of 16, 32, ... 2048 sets (128 to 16,384 entries) for 4 KiB pages.
///
/// An exact filter stands in front: an access to the page that its class (page number modulo 16) touched last is
/// a hit on the most recently used entry of its set in every TLB of the bank, and touching that entry again
/// changes nothing. All eight have low-bit indexes and a multiple of 16 sets, which is what makes this exact.
///
/// A row holds 32-bit tags: the page number without its four low bits, which every set implies. That is exact
/// for 48-bit addresses.
#[derive(Clone, Debug)]
pub struct LruBank {
    rows: Vec<Row>,
    first_row: [u32; BANK_TLBS],
    log2_sets: [u32; BANK_TLBS],
    misses: [u64; BANK_TLBS],
    last: [u64; FILTER_SLOTS],
    chunk: Vec<u64>,
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
    /// An empty bank.
    pub fn new() -> Self {
        let log2_sets = std::array::from_fn(|tlb| SMALLEST_LOG2_SETS + tlb as u32);
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
            misses: [0; BANK_TLBS],
            last: [NO_PAGE; FILTER_SLOTS],
            chunk: Vec::with_capacity(CHUNK),
            accesses: 0,
            vectorised: simd::available(),
        }
    }

    /// The same bank without the vector kernel: the readable reference.
    pub fn scalar() -> Self {
        Self { vectorised: false, ..Self::new() }
    }

    /// Takes accesses to pages, in order.
    #[inline]
    pub fn access(&mut self, pages: impl Iterator<Item = Vpn>) {
        for vpn in pages {
            self.accesses += 1;
            let last = &mut self.last[vpn.0 as usize % FILTER_SLOTS];
            if *last != vpn.0 {
                *last = vpn.0;
                self.chunk.push(vpn.0);
                if self.chunk.len() == CHUNK {
                    self.run_chunk();
                }
            }
        }
    }

    /// The miss curve so far: (entries, misses), smallest TLB first.
    pub fn curve(&mut self) -> [(u32, u64); BANK_TLBS] {
        self.run_chunk();
        std::array::from_fn(|tlb| (BANK_WAYS << self.log2_sets[tlb], self.misses[tlb]))
    }

    /// Accesses taken so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Forgets all translations, as at a context switch.
    pub fn flush(&mut self) {
        self.run_chunk();
        self.rows.fill([NO_TAG; 8]);
        self.last.fill(NO_PAGE);
    }

    fn run_chunk(&mut self) {
        let Self { rows, first_row, log2_sets, misses, chunk, .. } = self;
        if self.vectorised {
            simd::run(chunk, rows, first_row, log2_sets, misses);
        } else {
            for &page in chunk.iter() {
                for tlb in 0..BANK_TLBS {
                    let (tag, set) = split(page, log2_sets[tlb]);
                    let row = &mut rows[first_row[tlb] as usize + set];
                    let place = row.iter().position(|&resident| resident == tag);
                    misses[tlb] += u64::from(place.is_none());
                    row[..=place.unwrap_or(7)].rotate_right(1);
                    row[0] = tag;
                }
            }
        }
        chunk.clear();
    }
}

/// The tag of a page and its set among `1 << log2_sets`.
#[inline(always)]
pub(super) fn split(page: u64, log2_sets: u32) -> (u32, usize) {
    ((page >> SMALLEST_LOG2_SETS) as u32, page as usize & ((1 << log2_sets) - 1))
}
