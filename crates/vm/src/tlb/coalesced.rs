//! The coalesced TLB: an entry holds a run of neighbouring base pages whose frames are neighbours, too.
//!
//! B. Pham et al., "CoLT: Coalesced Large-Reach TLBs", MICRO 2012: the set-associative form. A run lies in an
//! aligned block of pages, whose number chooses the set. AMD's Zen coalesces in the same way; RISC-V's Svnapot and Arm's
//! contiguous bit let the system say where it is possible.

use rustc_hash::FxHashMap;

use super::{Fill, Lookup, SetClasses, TlbArray, TlbStorage, Translation, key, key_asid, key_page};
use crate::addr::{Asid, PageSize, Pfn, Vpn};
use crate::sets::{ArrayShape, LowBits, SetArray, SetChoice, ShapeError, ShapedArray};

/// The largest block: one bit for each page in a word.
const MAX_BLOCK: u32 = 64;

/// A set-associative array whose entries translate runs of small pages to runs of frames.
///
/// ```text
/// virtual address  | tag            | set          | offset in block | byte in page |
///                                    from bit 12 + log2 block        12             0
/// ```
///
/// A fill brings the longest run around its page that its block has: pages that are mapped, with the same permissions, to frames
/// that follow each other as they do. Shorter runs that are resident become part of it.
///
/// DEVIATION: an entry has a valid bit and a dirty bit for each page. CoLT removes the whole entry when a page of it is invalidated.
#[derive(Clone, Debug)]
pub struct Coalesced<C = LowBits> {
    /// Each run under the number of its first page.
    keys: SetArray<C>,
    /// The runs, by slot.
    runs: Vec<Run>,
    /// The offsets at which resident runs of a block begin, one bit each, by [`key`] of the block's first page.
    starts: FxHashMap<u64, u64>,
    block_log2: u32,
}

/// A run of pages and frames.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The translation of the first page, not dirty.
    first: Translation,
    /// The pages that are valid and those that are dirty, one bit each, by their number in the run.
    valid: u64,
    dirty: u64,
    pages: u32,
}

impl Coalesced {
    /// Creates an empty array of any shape whose entries are runs in blocks of `block` pages.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape is impossible.
    ///
    /// # Panics
    ///
    /// If the block is not a power of two from 1 to 64.
    pub fn stored(shape: &ArrayShape, block: u32) -> Result<TlbStorage, ShapeError> {
        Ok(match shape.array()? {
            ShapedArray::LowBits(keys) => TlbStorage::boxed(Coalesced::of(keys, block)),
            ShapedArray::Computed(keys) => TlbStorage::boxed(Coalesced::of(keys, block)),
        })
    }
}

impl<C: SetChoice> Coalesced<C> {
    fn of(keys: SetArray<C>, block: u32) -> Self {
        assert!(
            block.is_power_of_two() && block <= MAX_BLOCK,
            "a block of {block} pages is not a power of two up to 64"
        );
        Self {
            runs: vec![Run::default(); keys.entries()],
            starts: FxHashMap::default(),
            block_log2: block.trailing_zeros(),
            keys,
        }
    }

    /// Returns the first page of the block of `vpn`, and the offset of `vpn` in it.
    fn split(&self, vpn: Vpn) -> (Vpn, u32) {
        let offset = vpn.0 & ((1 << self.block_log2) - 1);
        (Vpn(vpn.0 - offset), offset as u32)
    }

    /// Returns the set's number and the key of a run that begins at `first`.
    fn place(&self, asid: Asid, first: Vpn) -> (u64, u64) {
        (first.0 >> self.block_log2, key(asid, PageSize::Size4K, first.0))
    }

    /// Returns the first page of the resident run that may hold `vpn`: the last that begins at or before it.
    fn first_of(&self, asid: Asid, vpn: Vpn) -> Option<Vpn> {
        let (block, offset) = self.split(vpn);
        let starts = self.starts.get(&key(asid, PageSize::Size4K, block.0))?;
        let before = starts & (u64::MAX >> (63 - offset));
        (before != 0).then(|| Vpn(block.0 + u64::from(before.ilog2())))
    }

    /// Returns the slot of the run that holds `vpn`, and the number of `vpn` in it.
    fn find(&self, asid: Asid, vpn: Vpn) -> Option<(usize, u64)> {
        let first = self.first_of(asid, vpn)?;
        let (number, key) = self.place(asid, first);
        let slot = self.keys.peek(number, key).expect("a start names a resident run");
        let at = vpn.0 - first.0;
        (at < u64::from(self.runs[slot].pages)).then_some((slot, at))
    }

    fn forget_start(&mut self, asid: Asid, first: Vpn) {
        let (block, offset) = self.split(first);
        let block = key(asid, PageSize::Size4K, block.0);
        if let Some(starts) = self.starts.get_mut(&block) {
            *starts &= !(1 << offset);
            if *starts == 0 {
                self.starts.remove(&block);
            }
        }
    }

    fn remove(&mut self, asid: Asid, first: Vpn) {
        let (number, key) = self.place(asid, first);
        self.keys.remove(number, key);
        self.forget_start(asid, first);
    }

    fn insert(&mut self, asid: Asid, first: Vpn, run: Run) {
        let (number, run_key) = self.place(asid, first);
        let inserted = self.keys.insert(number, run_key);
        self.runs[inserted.slot] = run;
        if let Some(evicted) = inserted.evicted {
            self.forget_start(key_asid(evicted), key_page(evicted, PageSize::Size4K));
        }
        let (block, offset) = self.split(first);
        *self.starts.entry(key(asid, PageSize::Size4K, block.0)).or_insert(0) |= 1 << offset;
    }

    /// Returns the longest run around the page of a fill, and its first page.
    fn run_around(&self, fill: &Fill<'_>) -> (Vpn, Run) {
        let (block, offset) = self.split(fill.vpn);
        let own = fill.translation.chopped(fill.vpn);
        let continues = |page: u64| {
            let other = fill.of(Vpn(page))?;
            let same = (other.is_writable(), other.other()) == (own.is_writable(), own.other());
            let frame = (own.frame().0 + page).checked_sub(fill.vpn.0)?;
            (same && other.frame() == Pfn(frame)).then_some(other)
        };
        let end = block.0 + (1 << self.block_log2);
        let before =
            (1..=u64::from(offset)).take_while(|back| continues(fill.vpn.0 - back).is_some()).count();
        let after = (fill.vpn.0 + 1..end).take_while(|&page| continues(page).is_some()).count();
        let first = fill.vpn.0 - before as u64;
        let pages = before + 1 + after;
        let dirty = (0..pages as u64).fold(0, |dirty, at| {
            let page = if first + at == fill.vpn.0 { Some(own) } else { continues(first + at) };
            dirty | u64::from(page.is_some_and(Translation::is_dirty)) << at
        });
        let frame = Pfn(own.frame().0 - before as u64);
        let of_first =
            Translation::new(frame, PageSize::Size4K, own.is_writable(), false).with_other(own.other());
        (Vpn(first), Run { first: of_first, valid: u64::MAX >> (64 - pages), dirty, pages: pages as u32 })
    }
}

impl Run {
    /// Returns the translation of a page, if it is valid.
    fn page(&self, at: u64) -> Option<Translation> {
        let Self { first, valid, dirty, .. } = *self;
        let frame = Pfn(first.frame().0 + at);
        let page = Translation::new(frame, PageSize::Size4K, first.is_writable(), dirty >> at & 1 != 0);
        (valid >> at & 1 != 0).then_some(page.with_other(first.other()))
    }
}

impl<C: SetChoice> TlbArray for Coalesced<C> {
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Lookup {
        let Some((slot, at)) = self.find(asid, vpn) else { return Lookup::Miss };
        let Some(translation) = self.runs[slot].page(at) else { return Lookup::Miss };
        let (number, key) = self.place(asid, Vpn(vpn.0 - at));
        self.keys.lookup(number, key);
        Lookup::Hit(translation)
    }

    fn holds(&self, size: PageSize) -> bool {
        size == PageSize::Size4K
    }

    /// Brings in a run. Resident runs that overlap it leave: those that are parts of it, and one whose page was invalidated and
    /// has another frame now.
    fn fill(&mut self, asid: Asid, fill: &Fill<'_>) {
        let (first, run) = self.run_around(fill);
        let mut page = first.0;
        while page < first.0 + u64::from(run.pages) {
            if let Some((slot, at)) = self.find(asid, Vpn(page)) {
                let other = Vpn(page - at);
                page = other.0 + u64::from(self.runs[slot].pages);
                self.remove(asid, other);
            } else {
                page += 1;
            }
        }
        self.insert(asid, first, run);
    }

    fn cluster(&self, asid: Asid, vpn: Vpn, cluster: &mut Vec<u64>) -> Option<Vpn> {
        let (slot, at) = self.find(asid, vpn)?;
        let run = &self.runs[slot];
        cluster.extend((0..u64::from(run.pages)).map(|at| run.page(at).map_or(0, Translation::to_word)));
        Some(Vpn(vpn.0 - at))
    }

    fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        if let Some((slot, at)) = self.find(asid, vpn) {
            self.runs[slot].dirty |= 1 << at;
        }
    }

    /// Clears the page's valid bit; the entry is freed when none is left.
    fn invalidate(&mut self, asid: Asid, vpn: Vpn) {
        let Some((slot, at)) = self.find(asid, vpn) else { return };
        self.runs[slot].valid &= !(1 << at);
        if self.runs[slot].valid == 0 {
            self.remove(asid, Vpn(vpn.0 - at));
        }
    }

    fn flush(&mut self, asid: Option<Asid>) {
        let keeps = |key| asid.is_some_and(|asid| key_asid(key) != asid);
        self.keys.retain(|key, _| keeps(key));
        self.starts.retain(|&block, _| keeps(block));
    }

    fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn run_pages(&self) -> u64 {
        1 << self.block_log2
    }

    fn set_classes(&self) -> Option<SetClasses> {
        Some(SetClasses { classes: self.keys.classes(), shift: self.block_log2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use crate::sets::{Indexing, Replacement};

    const ASID: Asid = Asid(5);
    const BLOCK: u64 = 8;

    /// A fully associative array, and the frame of every page.
    struct Tested {
        array: TlbStorage,
        frames: Vec<u64>,
        read_only: u64,
    }

    impl Tested {
        fn new(entries: u32, frames: Vec<u64>) -> Self {
            let (replacement, indexing) = (Replacement::Lru, Indexing::Modulo);
            let shape = ArrayShape { entries, ways: entries, replacement, indexing };
            let array = Coalesced::stored(&shape, BLOCK as u32).expect("a possible shape");
            Self { array, frames, read_only: u64::MAX }
        }

        fn translation(&self, vpn: u64) -> Translation {
            let frame = Pfn(self.frames[vpn as usize]);
            Translation::new(frame, PageSize::Size4K, vpn != self.read_only, false)
        }

        fn is_hit(&mut self, vpn: u64) -> bool {
            match self.array.lookup(ASID, Vpn(vpn)) {
                Lookup::Hit(found) => {
                    assert_eq!(found, self.translation(vpn), "page {vpn}");
                    true
                }
                _ => false,
            }
        }

        fn access(&mut self, vpn: u64) -> bool {
            let is_hit = self.is_hit(vpn);
            if !is_hit {
                let base = vpn - vpn % BLOCK;
                let words: Vec<u64> =
                    (base..base + BLOCK).map(|page| self.translation(page).to_word()).collect();
                let translation = self.translation(vpn);
                self.array.fill(
                    ASID,
                    &Fill { vpn: Vpn(vpn), translation, cluster: &words, cluster_base: Vpn(base) },
                );
            }
            is_hit
        }
    }

    /// Frames of `pages` pages in runs of random lengths, and the number of runs that blocks divide them into.
    fn frames(pages: u64, seed: u64) -> (Vec<u64>, u64) {
        let mut random = SplitMix64::new(seed);
        let (mut frame, mut runs) = (100, 0);
        let frames = (0..pages).map(|page| {
            let breaks = random.below(3) == 0;
            frame += if breaks { 5 } else { 1 };
            runs += u64::from(breaks || page % BLOCK == 0);
            frame
        });
        (frames.collect(), runs)
    }

    #[test]
    fn as_many_entries_as_runs_hold_all_pages_and_one_entry_fewer_misses_once_a_run() {
        for seed in 1..6 {
            let (frames, runs) = frames(512, seed);
            let mut enough = Tested::new(runs as u32, frames.clone());
            let mut short = Tested::new(runs as u32 - 1, frames);
            for round in 0..3 {
                let misses = (0..512).filter(|&vpn| !enough.access(vpn)).count() as u64;
                assert_eq!(misses, if round == 0 { runs } else { 0 }, "round {round}");
                assert_eq!((0..512).filter(|&vpn| !short.access(vpn)).count() as u64, runs, "round {round}");
            }
        }
    }

    #[test]
    fn frames_without_neighbours_leave_a_page_an_entry_and_so_do_other_permissions() {
        let mut scattered = Tested::new(16, (0..64).map(|page| 1_000 - 2 * page).collect());
        assert_eq!((0..16).filter(|&vpn| scattered.access(vpn)).count(), 0);
        let mut mixed = Tested::new(16, (0..64).map(|page| 50 + page).collect());
        mixed.read_only = 3;
        assert_eq!([0, 1, 2, 3, 4, 7].map(|vpn| mixed.access(vpn)), [false, true, true, false, false, true]);
    }

    #[test]
    fn an_invalid_page_leaves_its_run_until_a_fill_brings_another_frame() {
        let mut tested = Tested::new(4, (0..64).map(|page| 50 + page).collect());
        tested.access(0);
        tested.array.set_dirty(ASID, Vpn(6));
        tested.array.invalidate(ASID, Vpn(2));
        assert!(tested.is_hit(1) && !tested.is_hit(2) && tested.is_hit(3));
        let Lookup::Hit(stored) = tested.array.lookup(ASID, Vpn(6)) else { panic!("page 6 is gone") };
        assert!(stored.is_dirty());
        tested.frames[2] = 900;
        assert!(!tested.access(2) && tested.is_hit(2));
        assert!(!tested.access(4) && tested.is_hit(7) && tested.is_hit(2), "three runs now");
        tested.array.flush(Some(ASID));
        assert!(tested.array.is_empty());
    }

    #[test]
    fn a_huge_page_enters_as_a_run_of_its_block() {
        let mut tested = Tested::new(4, (0..1_024).map(|page| 512 + page).collect());
        let huge = Translation::new(Pfn(1024), PageSize::Size2M, true, false);
        tested.array.fill(ASID, &Fill::single(Vpn(512 + 9), huge));
        assert_eq!(
            (512..1024).filter(|&vpn| tested.is_hit(vpn)).collect::<Vec<_>>(),
            (520..528).collect::<Vec<_>>()
        );
    }

    /// What a second level holds of a run goes up with it.
    #[test]
    fn a_run_is_the_cluster_of_its_pages() {
        let (frames, _) = frames(64, 9);
        let mut tested = Tested::new(64, frames);
        for vpn in 0..64 {
            tested.access(vpn);
        }
        for vpn in 0..64 {
            let mut words = Vec::new();
            let base = tested.array.cluster(ASID, Vpn(vpn), &mut words).expect("resident");
            let expected =
                (base.0..base.0 + words.len() as u64).map(|page| tested.translation(page).to_word());
            assert!(words.iter().copied().eq(expected), "page {vpn}");
            assert!((base.0..base.0 + words.len() as u64).contains(&vpn));
        }
    }
}
