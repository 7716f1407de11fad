//! A bank of LRU TLBs of growing size, run side by side: a program's miss curve in one pass.

use crate::addr::Vpn;
use crate::simd::{self, Row};

/// The number of ways of each bank.
const BANK_WAYS: u32 = 8;
/// Classes of the filter in front: pages that agree in their low bits share a slot.
const FILTER_SLOTS: usize = 16;
/// Entries of the smallest TLB: a set for every class.
const SMALLEST: u32 = BANK_WAYS * FILTER_SLOTS as u32;
/// Pages collected before the TLBs run: they stay in the host's first-level cache.
const CHUNK: usize = 1024;
/// TLBs that take the pages side by side: a set used twice in a row waits for itself, and the other TLB's look-ups
/// fill the gap. More of them together gain less than the pages that go no further.
const TOGETHER: usize = 2;

/// Eight-way LRU TLBs for 4 KiB pages, by default eight of 16, 32, ... 2048 sets (128 to 16,384 entries).
///
/// An exact filter stands in front: an access to the page that its class (page number modulo 16) touched last is
/// a hit on the most recently used entry of its set in every TLB of the bank, and touching that entry again
/// changes nothing. All have low-bit indexes and a multiple of 16 sets, which is what makes this exact.
///
/// The same holds from one TLB to the next: each has more sets than the one before it, so a page that is the most
/// recently used of its set here is so in all larger ones, and need go no further.
///
/// A row holds 32-bit tags: the page number without its four low bits, which every set implies. That is exact
/// for 48-bit addresses.
#[derive(Clone, Debug)]
pub struct LruBank<const TLBS: usize = 8> {
    /// The sets of each TLB, the smallest TLB first.
    rows: [Vec<Row>; TLBS],
    misses: [u64; TLBS],
    last: [u64; FILTER_SLOTS],
    /// Pages that passed the filter and wait for the TLBs; the first `kept` count.
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
    /// Creates eight empty TLBs of 128, 256, ... 16,384 entries: a miss curve.
    pub fn new() -> Self {
        Self::with_entries(std::array::from_fn(|tlb| 128 << tlb))
    }
}

impl<const TLBS: usize> LruBank<TLBS> {
    /// Creates empty TLBs of these sizes.
    ///
    /// # Panics
    ///
    /// If a size is not a power of two of at least 128 entries (16 sets), or not larger than the one before it.
    pub fn with_entries(entries: [u32; TLBS]) -> Self {
        assert!(entries.is_sorted_by(|small, large| small < large), "sizes that do not grow: {entries:?}");
        let rows = entries.map(|entries| {
            assert!(entries.is_power_of_two() && entries >= SMALLEST, "{entries} entries");
            vec![[NO_TAG; 8]; (entries / BANK_WAYS) as usize]
        });
        Self {
            rows,
            misses: [0; TLBS],
            last: [NO_PAGE; FILTER_SLOTS],
            chunk: Box::new([0; CHUNK]),
            kept: 0,
            accesses: 0,
            vectorised: simd::available(),
        }
    }

    /// Returns the same bank without the vector kernel: the readable reference.
    #[must_use]
    pub fn scalar(self) -> Self {
        Self { vectorised: false, ..self }
    }

    /// Takes accesses, in order, each to the page that `page` names.
    #[inline]
    pub fn access<T: Copy>(&mut self, mut accesses: &[T], page: impl Fn(T) -> Vpn) {
        self.accesses += accesses.len() as u64;
        while !accesses.is_empty() {
            // So many fit for certain, whichever of them stay.
            let (fitting, rest) = accesses.split_at(accesses.len().min(CHUNK - self.kept));
            self.kept = sift(fitting, &page, &mut self.last, &mut self.chunk, self.kept);
            accesses = rest;
            if self.kept > CHUNK / 2 {
                self.run_chunk();
            }
        }
    }

    /// Returns the miss curve so far: (entries, misses), smallest TLB first.
    pub fn curve(&mut self) -> [(u32, u64); TLBS] {
        self.run_chunk();
        std::array::from_fn(|tlb| (BANK_WAYS * self.rows[tlb].len() as u32, self.misses[tlb]))
    }

    /// Accesses taken so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Forgets all translations, as at a context switch.
    pub fn flush(&mut self) {
        self.run_chunk();
        self.rows.iter_mut().for_each(|rows| rows.fill([NO_TAG; 8]));
        self.last.fill(NO_PAGE);
    }

    fn run_chunk(&mut self) {
        let pages = &mut self.chunk[..std::mem::take(&mut self.kept)];
        if !self.vectorised {
            for (rows, misses) in self.rows.iter_mut().zip(&mut self.misses) {
                *misses += pages.iter().map(|&page| u64::from(look_up(page, rows))).sum::<u64>();
            }
            return;
        }
        let mut count = pages.len();
        let (rows, last_rows) = self.rows.as_chunks_mut::<TOGETHER>();
        let (misses, last_misses) = self.misses.as_chunks_mut::<TOGETHER>();
        for (rows, misses) in rows.iter_mut().zip(misses) {
            count = simd::run(&mut pages[..count], rows.each_mut().map(|rows| &mut rows[..]), misses);
        }
        for (rows, misses) in last_rows.iter_mut().zip(last_misses) {
            count = simd::run(&mut pages[..count], [rows], std::array::from_mut(misses));
        }
    }
}

/// Appends the pages that are not the last of their class to the first `kept` of `chunk`; returns how many these are
/// then.
#[inline(always)]
fn sift<T: Copy>(
    accesses: &[T],
    page: impl Fn(T) -> Vpn,
    last: &mut [u64; FILTER_SLOTS],
    chunk: &mut [u64; CHUNK],
    mut kept: usize,
) -> usize {
    for &access in accesses {
        let Vpn(page) = page(access);
        // Read before the page is written to the chunk: a processor that is unsure whether a load depends on the
        // stores before it waits for their addresses, and `kept` is known late.
        let last = std::mem::replace(&mut last[page as usize % FILTER_SLOTS], page);
        // Written always and counted if it is to stay: which pages stay is hard to predict for a branch. The
        // remainder changes nothing and spares a bounds check.
        chunk[kept % CHUNK] = page;
        kept += usize::from(last != page);
    }
    kept
}

/// Whether `page` misses in the TLB of these sets; it is their most recently used then. The readable twin of
/// [`simd::run`], without its shortcut from one TLB to the next.
fn look_up(page: u64, rows: &mut [Row]) -> bool {
    let set = page as usize % rows.len();
    let row = &mut rows[set];
    let place = row.iter().position(|&resident| resident == tag(page));
    row[..=place.unwrap_or(7)].rotate_right(1);
    row[0] = tag(page);
    place.is_none()
}

/// Returns the tag by which a row remembers a page.
#[inline(always)]
pub(crate) fn tag(page: u64) -> u32 {
    (page / FILTER_SLOTS as u64) as u32
}
