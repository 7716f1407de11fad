//! The translation layer of a plane: pages are written elsewhere, and blocks are collected.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use pagewalk_vm::random::SplitMix64;
use rustc_hash::FxHashMap;

use super::layout::Layout;

/// The numbers of blocks by their erases.
#[derive(Clone, Debug)]
pub(super) struct Wear {
    /// Blocks by the number of times.
    blocks: Vec<u64>,
}

/// The work of a plane for a page beside writing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Collected {
    /// Valid pages copied elsewhere.
    pub(super) moved: u64,
    /// Blocks that were erased.
    pub(super) erased: u64,
}

/// The places of a plane's pages that are not at home.
///
/// At the start page `q` of the plane is at its home, which [`Layout`] knows for all planes. Only what was written
/// since, or copied, and the blocks that this changed, take memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Translation {
    /// Pages that have left their homes, by number.
    places: FxHashMap<u32, Place>,
    /// Blocks that are not as they were at the start, by number.
    blocks: FxHashMap<u32, Block>,
    /// Those of them that are full and not being written: (valid pages, erases, block), so that of equal ones the
    /// block goes first that is worn least.
    full: BTreeSet<(u32, u32, u32)>,
    /// How many blocks of [`Layout::fewest_first`] are behind: changed, so that they are in `full` or were.
    changed: usize,
    /// Erased blocks: (erases, block), the least worn goes first.
    erased: BinaryHeap<Reverse<(u32, u32)>>,
    /// Spare blocks that were never written, so far.
    opened_spares: u32,
    /// The block that is being written.
    active: Option<u32>,
}

/// A page of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) block: u32,
    pub(super) offset: u32,
}

#[derive(Clone, Debug)]
struct Block {
    valid: u32,
    erases: u32,
    /// What was written to it since its last erase, valid or not. None: what it had at the start.
    written: Option<Vec<u32>>,
}

impl Translation {
    /// Returns the translation of a plane at the start. On a worn device some pages, up to a block of them, were written since the
    /// last collection; otherwise all planes would collect at the same time.
    pub(super) fn new(plane: u64, layout: &Layout, wear: &mut Wear) -> Self {
        let mut translation = Self::default();
        if layout.is_worn() {
            let mut random = SplitMix64::of_item(u64::from_be_bytes(*b"the wear"), plane);
            for _ in 0..random.below(u64::from(layout.pages_a_block())) {
                translation.write(random.below(u64::from(layout.pages())) as u32, layout, wear);
            }
        }
        translation
    }

    /// Writes a page; collects until as many blocks are erased as shall be.
    ///
    /// Victims are those with the fewest valid pages (greedy). Copies go where new pages go, into one block at a time.
    pub(super) fn write(&mut self, page: u32, layout: &Layout, wear: &mut Wear) -> Collected {
        self.invalidate(page, layout);
        self.append(page, layout);
        let mut collected = Collected::default();
        while self.erased_blocks(layout) < layout.free_blocks() {
            collected.moved += self.collect(layout, wear);
            collected.erased += 1;
        }
        collected
    }

    fn erased_blocks(&self, layout: &Layout) -> u32 {
        layout.spare_blocks() - self.opened_spares + self.erased.len() as u32
    }

    fn invalidate(&mut self, page: u32, layout: &Layout) {
        let number = self.place(page, layout).block;
        let block = self.blocks.entry(number).or_insert_with(|| Block::at_start(number, layout));
        block.valid -= 1;
        let (valid, erases) = (block.valid, block.erases);
        if self.active != Some(number) {
            // One that is changed for the first time was not among them.
            self.full.remove(&(valid + 1, erases, number));
            self.full.insert((valid, erases, number));
        }
    }

    /// Returns the place of a page.
    pub(super) fn place(&self, page: u32, layout: &Layout) -> Place {
        self.places.get(&page).copied().unwrap_or_else(|| layout.home(page))
    }

    /// Puts a page, which is valid nowhere now, behind what was written last.
    fn append(&mut self, page: u32, layout: &Layout) {
        let number = match self.active {
            Some(active) if self.blocks[&active].written().len() < layout.pages_a_block() as usize => active,
            _ => self.open_block(layout),
        };
        let block = self.blocks.get_mut(&number).expect("the active block is among those that changed");
        let written = block.written.get_or_insert_default();
        self.places.insert(page, Place { block: number, offset: written.len() as u32 });
        written.push(page);
        block.valid += 1;
    }

    fn open_block(&mut self, layout: &Layout) -> u32 {
        if let Some(active) = self.active {
            let Block { valid, erases, .. } = self.blocks[&active];
            self.full.insert((valid, erases, active));
        }
        let number = if self.opened_spares < layout.spare_blocks() {
            let number = layout.home_blocks() + self.opened_spares;
            self.opened_spares += 1;
            self.blocks.insert(number, Block { valid: 0, erases: 0, written: Some(Vec::new()) });
            number
        } else {
            let Reverse((_, number)) = self.erased.pop().expect("collections keep a block erased");
            number
        };
        self.active = Some(number);
        number
    }

    /// Copies a victim's valid pages and erases it; returns how many.
    fn collect(&mut self, layout: &Layout, wear: &mut Wear) -> u64 {
        let number = self.victim(layout);
        let block = self.blocks.get_mut(&number).expect("a victim is among the blocks that changed");
        let (valid, erases) = (block.valid, block.erases);
        assert!(
            valid < layout.pages_a_block(),
            "collecting block {number} gains nothing: all pages are valid"
        );
        self.full.remove(&(valid, erases, number));
        let mut written = match block.written.take() {
            Some(written) => {
                (0..).zip(&written).for_each(|(offset, &page)| {
                    self.copy(page, Place { block: number, offset }, layout);
                });
                written
            }
            None => {
                layout.pages_at_home(number).for_each(|page| self.copy(page, layout.home(page), layout));
                Vec::new()
            }
        };
        written.clear();
        self.blocks.insert(number, Block { valid: 0, erases: erases + 1, written: Some(written) });
        self.erased.push(Reverse((erases + 1, number)));
        wear.erase(erases);
        u64::from(valid)
    }

    /// Copies a page elsewhere if this is its place.
    fn copy(&mut self, page: u32, place: Place, layout: &Layout) {
        if self.place(page, layout) == place {
            self.append(page, layout);
        }
    }

    /// Returns the block with the fewest valid pages. One that is as at the start is among those that changed afterwards.
    fn victim(&mut self, layout: &Layout) -> u32 {
        let unchanged = loop {
            match layout.fewest_first().get(self.changed) {
                Some(number) if self.blocks.contains_key(number) => self.changed += 1,
                other => break other.copied(),
            }
        };
        let unchanged = unchanged.map(|number| (Block::at_start(number, layout).valid, 0, number));
        let changed = self.full.first().copied();
        match (unchanged, changed) {
            (Some(unchanged), changed) if changed.is_none_or(|changed| unchanged < changed) => {
                self.blocks.insert(unchanged.2, Block::at_start(unchanged.2, layout));
                unchanged.2
            }
            (_, changed) => changed.expect("a plane that is written has full blocks").2,
        }
    }

    /// Checks everything, and that every page is where its block has it.
    #[cfg(test)]
    pub(super) fn check(&self, layout: &Layout) {
        let mut valid = std::collections::BTreeMap::<u32, u32>::new();
        let mut taken = BTreeSet::new();
        for page in 0..layout.pages() {
            let Place { block, offset } = self.place(page, layout);
            assert!(
                offset < layout.pages_a_block() && block < layout.blocks(),
                "page {page} at {block}.{offset}"
            );
            assert!(taken.insert((block, offset)), "two pages at {block}.{offset}");
            *valid.entry(block).or_default() += 1;
            match self.blocks.get(&block).and_then(|block| block.written.as_ref()) {
                Some(written) => assert_eq!(written[offset as usize], page, "what {block}.{offset} holds"),
                None => assert_eq!(layout.home(page), Place { block, offset }),
            }
        }
        for number in 0..layout.blocks() {
            let Some(block) = self.blocks.get(&number) else { continue };
            assert_eq!(
                block.valid,
                valid.get(&number).copied().unwrap_or(0),
                "valid pages of block {number}"
            );
            let count = block.written.as_ref().map_or(0, Vec::len);
            assert!(count <= layout.pages_a_block() as usize, "block {number} has {count} pages");
        }
        assert!(self.erased_blocks(layout) >= layout.free_blocks());
    }

    /// Pages that take memory.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.places.len()
    }
}

impl Block {
    fn at_start(number: u32, layout: &Layout) -> Self {
        let valid = layout.pages_at_home(number).len() as u32;
        Self { valid, erases: 0, written: None }
    }

    fn written(&self) -> &[u32] {
        self.written.as_deref().expect("the active block was erased")
    }
}

impl Wear {
    /// Returns the wear of so many blocks that were never erased.
    pub(super) fn new(blocks: u64) -> Self {
        Self { blocks: vec![blocks] }
    }

    /// Counts one more erase of a block.
    fn erase(&mut self, erases_before: u32) {
        let before = erases_before as usize;
        self.blocks[before] -= 1;
        match self.blocks.get_mut(before + 1) {
            Some(blocks) => *blocks += 1,
            None => self.blocks.push(1),
        }
    }

    /// Returns the erases of the block that was erased least often.
    pub(super) fn least(&self) -> u32 {
        self.blocks.iter().position(|&blocks| blocks > 0).unwrap_or(0) as u32
    }

    /// Returns the erases of the block that was erased most often.
    pub(super) fn most(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }
}
