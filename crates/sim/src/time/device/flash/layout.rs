//! The places of a plane's pages at the start.

use super::translation::Place;
use crate::spec::settings::GarbageSpec;

/// The homes of a plane's pages: the same for all planes.
///
/// Blocks `0..home_blocks` hold the pages in order, so many each; the spare blocks behind them are erased. A fresh
/// device has its pages in full blocks. A worn one has what uniform random writes leave: as many erased blocks as
/// collections keep, and in the others fewer valid pages the longer ago they were written.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The first page at home in a block, and in the block behind the last.
    first_pages: Vec<u32>,
    /// Blocks with homes: those with the fewest first, then by number.
    fewest_first: Vec<u32>,
    spare_blocks: u32,
    free_blocks: u32,
    pages_a_block: u32,
    is_worn: bool,
}

impl Layout {
    /// Returns the layout of planes of so many pages.
    ///
    /// # Panics
    ///
    /// If collections could not keep `free_blocks` erased.
    pub(super) fn new(pages: u32, spec: &GarbageSpec) -> Self {
        let GarbageSpec { pages_per_block: pages_a_block, free_blocks, .. } = *spec;
        assert!(
            pages > 0 && pages_a_block > 0 && free_blocks > 0,
            "no pages, blocks or erased blocks: {spec:?}"
        );
        let full_blocks = pages.div_ceil(pages_a_block);
        let share = u64::from(spec.over_provisioning_percent);
        let spare_pages = (u64::from(pages) * share).div_ceil(100);
        let over = spare_pages.div_ceil(u64::from(pages_a_block)) as u32;
        assert!(
            over > free_blocks,
            "{over} spare blocks a plane, and {free_blocks} shall be erased: {spec:?}"
        );
        let (home_blocks, spare_blocks) = match spec.is_worn {
            false => (full_blocks, over),
            // One more is opened for the first page.
            true => (full_blocks + over - free_blocks - 1, free_blocks + 1),
        };
        let first_pages: Vec<u32> = match spec.is_worn {
            false => (0..=home_blocks).map(|block| block.saturating_mul(pages_a_block).min(pages)).collect(),
            true => worn(pages, home_blocks, pages_a_block),
        };
        let mut fewest_first: Vec<u32> = (0..home_blocks).collect();
        fewest_first.sort_by_key(|&block| {
            let block = block as usize;
            (first_pages[block + 1] - first_pages[block], block)
        });
        Self { first_pages, fewest_first, spare_blocks, free_blocks, pages_a_block, is_worn: spec.is_worn }
    }

    pub(super) fn home(&self, page: u32) -> Place {
        let block = self.first_pages.partition_point(|&first| first <= page) - 1;
        Place { block: block as u32, offset: page - self.first_pages[block] }
    }

    pub(super) fn pages_at_home(&self, block: u32) -> std::ops::Range<u32> {
        self.first_pages[block as usize]..self.first_pages[block as usize + 1]
    }

    pub(super) fn fewest_first(&self) -> &[u32] {
        &self.fewest_first
    }

    pub(super) fn home_blocks(&self) -> u32 {
        self.fewest_first.len() as u32
    }

    /// Returns the number of spare blocks, which are erased at the start.
    pub(super) fn spare_blocks(&self) -> u32 {
        self.spare_blocks
    }

    pub(super) fn blocks(&self) -> u32 {
        self.home_blocks() + self.spare_blocks
    }

    /// Returns the number of blocks that are kept erased.
    pub(super) fn free_blocks(&self) -> u32 {
        self.free_blocks
    }

    pub(super) fn pages_a_block(&self) -> u32 {
        self.pages_a_block
    }

    pub(super) fn is_worn(&self) -> bool {
        self.is_worn
    }

    pub(super) fn pages(&self) -> u32 {
        self.first_pages[self.first_pages.len() - 1]
    }
}

/// Returns the first pages of the blocks of a worn plane, the youngest block first.
///
/// A block of age `x`, from 0 to 1 when it is collected, has the share `exp(-x spread (1 - u))` of its pages valid,
/// which is `u` at last (see [`victims_valid`]).
fn worn(pages: u32, blocks: u32, pages_a_block: u32) -> Vec<u32> {
    let spread = f64::from(blocks) * f64::from(pages_a_block) / f64::from(pages);
    let decay = spread * (1.0 - victims_valid(spread));
    // Without spare pages nothing ages.
    let younger = |age: f64| if decay < 1e-9 { age } else { (-decay * age).exp_m1() / (-decay).exp_m1() };
    let mut first_pages = vec![0];
    for block in 1..=blocks {
        let first = (f64::from(pages) * younger(f64::from(block) / f64::from(blocks))).round() as u32;
        // Rounding must not make a block hold a page too many, nor leave more than the rest can hold.
        let last = first_pages[block as usize - 1];
        let rest = u64::from(blocks - block) * u64::from(pages_a_block);
        let least = u64::from(pages).saturating_sub(rest) as u32;
        first_pages.push(first.clamp(last, last + pages_a_block).max(least).min(pages));
    }
    first_pages
}

/// The share of a victim's pages that are valid under uniform random writes, with `spread` physical pages for each
/// logical one: the solution below 1 of
///
/// ```text
/// u = exp(-spread (1 - u))        u = -W(-spread exp(-spread)) / spread        writes per write = 1 / (1 - u)
/// ```
///
/// Between two collections of a block `spread (1 - u)` times as many pages are written as there are. Xiang and
/// Kurkoski, "An Improved Analytic Expression for Write Amplification in NAND Flash", ICNC 2012; for collections of
/// the oldest block also Desnoyers, "Analytic Modeling of SSD Write Performance", SYSTOR 2012. Greedy ones of large
/// blocks are the same.
pub(super) fn victims_valid(spread: f64) -> f64 {
    if spread <= 1.0 {
        return 1.0;
    }
    // From 0 the steps rise towards the lower solution; close to 1 slowly.
    let step = |valid: f64| (-spread * (1.0 - valid)).exp();
    (0..100_000)
        .try_fold(0.0, |valid, _| {
            let next = step(valid);
            if next - valid < 1e-12 { Err(next) } else { Ok(next) }
        })
        .unwrap_or_else(|valid| valid)
}
