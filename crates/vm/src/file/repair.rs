//! Makes a damaged store sound: every page that is mapped has a frame of its own, and every other frame is free.
//!
//! Nothing is taken for true but the superblock. Tables come before pages, because a table that is lost takes all of its
//! pages with it; among tables, and among pages, lower addresses come first, and the first of the store's 512 GiB pieces is
//! not for files, so that what the layer above knows of them comes before their bytes. Of a frame that two pages have, the
//! later page gets a copy if it is a file's. Which of them was right cannot be known, and so no file loses what was its own;
//! what is not a file's loses the page, as a copy of other knowledge would be wrong.
//!
//! Each step is one word or is repeated whole the next time, so that a crash leaves a store that can be repaired again.

use std::collections::BTreeMap;

use super::check::Used;
use super::error::StoreError;
use super::mapping::{Persistent, SPACE_END};
use super::memory::PersistentMemory;
use super::partition::{Level, Part, Partition};
use super::store::{OpenError, Store, damaged_superblocks, recover, root, root_place};
use crate::addr::{PAGE_BYTES, Pfn, PhysAddr, Vpn};
use crate::table::{Entry, Geometry};

/// The first page that can be a file's.
const FIRST_FILES: Vpn = Vpn(1 << 27);

/// Partitions that files have, of which no two meet and for all of which headers have room.
#[derive(Clone, Debug, Default)]
pub struct Places {
    by_first: BTreeMap<Vpn, Partition>,
    /// The level that an L3 is cut into, by the first page of the L3.
    kinds: BTreeMap<Vpn, Level>,
}

impl Places {
    /// Adds a partition; or it is none, or meets another one.
    pub fn claim(&mut self, partition: Partition) -> bool {
        let Partition { level, first } = partition;
        let is_aligned = first >= FIRST_FILES && first < SPACE_END && first.0.is_multiple_of(level.pages());
        // The first part of whatever is cut is its header's.
        let around = if level < Level::L3 { Some(Level::L3) } else { Level::new(level.number() + 1) };
        if !is_aligned || around.is_some_and(|around| first.0.is_multiple_of(around.pages())) {
            return false;
        }
        let before = self.by_first.range(..partition.end()).next_back();
        if before.is_some_and(|(_, other)| other.end() > first) {
            return false;
        }
        if level < Level::L3 && *self.kinds.entry(large_page(first)).or_insert(level) != level {
            return false;
        }
        self.by_first.insert(first, partition);
        true
    }
}

/// The first of the 512 pages around a page.
fn large_page(page: Vpn) -> Vpn {
    Vpn(page.0 / Level::L3.pages() * Level::L3.pages())
}

/// A page whose frame another one has.
struct Later {
    entry: u64,
    page: Vpn,
    level: u32,
    frame: Pfn,
}

impl<M: PersistentMemory> Store<M> {
    /// Opens a store whatever is wrong with it, as long as one superblock can be read, and makes it sound but for its
    /// partitions ([`Store::check`] finds nothing). Says what it did, a line for each thing.
    ///
    /// # Errors
    ///
    /// There is no superblock.
    pub fn repair(memory: M, said: &mut dyn FnMut(String)) -> Result<Self, OpenError> {
        for name in damaged_superblocks(&memory)? {
            said(format!("{name} is written again from the other one"));
        }
        let (layout, journal, _) = recover(&memory)?;
        // It is there in every store from the beginning, and stays.
        let table = layout.table;
        if memory.load(root_place(root::TABLE)) != table {
            set(&memory, root_place(root::TABLE), table);
            said(format!("the page table's root is frame {table} again"));
        }
        let mut tables = Used::new(layout);
        tables.take(Pfn(table), 1, Vpn(0)).expect("it is none of the store's own");
        let mut repair = Repair { memory: &memory, used: tables, said };
        repair.tables(Pfn(table), Persistent::LEVELS - 1, Vpn(0));
        let tables = repair.used.clone();
        let mut later = Vec::new();
        repair.pages(Pfn(table), Persistent::LEVELS - 1, Vpn(0), &mut later);
        for later in later {
            repair.separate(&later, &tables);
        }
        // Frames are marked free only when nothing refers to them any more.
        memory.fence();
        repair.bitmap(layout.bitmap, layout.bitmap_frames);
        memory.fence();
        Self::of_layout(memory, layout, journal)
    }

    /// Lets the headers say that these partitions are allocated and no others, and unmaps what is neither in one of them nor
    /// a header. Answers those for whose headers there was no frame, and whether anything had to be done.
    ///
    /// # Errors
    ///
    /// As of a transaction, other than that.
    pub fn rebuild_partitions(&mut self, places: &Places) -> Result<(Vec<Partition>, bool), StoreError> {
        if self.is_partitioned(places) {
            return Ok((Vec::new(), false));
        }
        let mut transaction = self.begin();
        transaction.forget_partitions();
        transaction.commit()?;
        // Small partitions cannot have a large page.
        for &first in places.kinds.keys() {
            if self.find(first).is_some_and(|mapped| mapped.large) {
                self.unmap_all(first, Vpn(first.0 + Level::L3.pages()))?;
            }
        }
        let mut from = FIRST_FILES;
        for partition in places.by_first.values() {
            self.unmap_all(from, partition.first)?;
            from = partition.end();
        }
        self.unmap_all(from, SPACE_END)?;
        let mut failed = Vec::new();
        for &partition in places.by_first.values() {
            let mut transaction = self.begin();
            match transaction.allocate_at(partition, &|first| places.kinds.get(&first).copied()) {
                Ok(()) => transaction.commit()?,
                Err(StoreError::NoFrames) => {
                    drop(transaction);
                    self.unmap_all(partition.first, partition.end())?;
                    failed.push(partition);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((failed, true))
    }

    /// Whether the headers say just that, and nothing else is mapped.
    fn is_partitioned(&self, places: &Places) -> bool {
        let mut allocated = Vec::new();
        let visited = self.visit_partitions(&mut |partition, part| {
            if part == Part::Allocated {
                allocated.push(partition);
            }
        });
        visited.is_ok()
            && allocated.iter().eq(places.by_first.values())
            && self.wrong_availability() == Ok(None)
            && self.stray_page() == Ok(None)
    }

    fn unmap_all(&mut self, start: Vpn, end: Vpn) -> Result<(), StoreError> {
        let mut from = start;
        while from < end {
            let mut transaction = self.begin();
            from = transaction.unmap(from, end);
            if transaction.changed() > 0 {
                transaction.commit()?;
            }
        }
        Ok(())
    }

    /// Unmaps the last page behind one that is mapped, so that there is a frame; which page it was.
    ///
    /// # Errors
    ///
    /// As of a transaction.
    pub fn give_up_last_page(&mut self, behind: Vpn) -> Result<Option<Vpn>, StoreError> {
        let mut last = None;
        self.visit_pages(&mut |page, pages| last = Some((page, pages)));
        let Some((page, pages)) = last.filter(|&(page, _)| page > behind) else { return Ok(None) };
        self.unmap_all(page, Vpn(page.0 + pages))?;
        Ok(Some(page))
    }
}

fn set(memory: &impl PersistentMemory, at: u64, word: u64) {
    memory.store(at, word);
    memory.flush(at, 8);
}

struct Repair<'a, M> {
    memory: &'a M,
    /// Frames of tables and pages that were met.
    used: Used,
    said: &'a mut dyn FnMut(String),
}

impl<M: PersistentMemory> Repair<'_, M> {
    fn drop_entry(&mut self, entry: u64, page: Vpn, level: u32, why: &str) {
        set(self.memory, entry, 0);
        let pages = Persistent::leaf_pages(level);
        (self.said)(format!("unmapped {pages} pages from page {page} on: {why}"));
    }

    /// Returns the meaning of an entry, if the entry is well-formed and leads to frames that can be used.
    fn meaning(&self, bits: u64, level: u32) -> Option<Entry> {
        match Persistent::decode(bits, level) {
            Entry::Empty if bits == 0 => Some(Entry::Empty),
            Entry::Table(next) if bits == Persistent::table(next) && self.used.is_inside(next, 1) => {
                Some(Entry::Table(next))
            }
            // As an entry has it: the allocator's frames of a large page are aligned.
            Entry::Leaf(leaf)
                if bits == Persistent::leaf(leaf, level)
                    && self.used.is_inside(PhysAddr(bits).frame(), Persistent::leaf_pages(level)) =>
            {
                Some(Entry::Leaf(leaf))
            }
            _ => None,
        }
    }

    /// A frame more of whose entries mean nothing than something is no table: an entry led to it by mistake.
    fn is_table(&self, node: Pfn, level: u32) -> bool {
        let (mut good, mut bad) = (0, 0);
        for index in 0..512 {
            match self.meaning(self.memory.load(node.addr().0 + 8 * index), level) {
                Some(Entry::Empty) => {}
                Some(_) => good += 1,
                None => bad += 1,
            }
        }
        bad <= good
    }

    /// Takes the frames of the tables below one, and drops entries that cannot be followed.
    fn tables(&mut self, node: Pfn, level: u32, first: Vpn) {
        for index in 0..512 {
            let page = Vpn(first.0 + index * Persistent::leaf_pages(level));
            let entry = node.addr().0 + 8 * index;
            let bits = self.memory.load(entry);
            match self.meaning(bits, level) {
                None => self.drop_entry(entry, page, level, &format!("their entry was {bits:#x}")),
                Some(Entry::Table(next)) if !self.is_table(next, level - 1) => {
                    self.drop_entry(entry, page, level, &format!("frame {next} holds no table"));
                }
                Some(Entry::Table(next)) => match self.used.take(next, 1, page) {
                    Ok(()) => self.tables(next, level - 1, page),
                    Err(_) => {
                        self.drop_entry(
                            entry,
                            page,
                            level,
                            &format!("frame {next} is another table already"),
                        );
                    }
                },
                Some(_) => {}
            }
        }
    }

    /// Takes the frames of all pages that have frames of their own.
    fn pages(&mut self, node: Pfn, level: u32, first: Vpn, later: &mut Vec<Later>) {
        for index in 0..512 {
            let page = Vpn(first.0 + index * Persistent::leaf_pages(level));
            let entry = node.addr().0 + 8 * index;
            match Persistent::decode(self.memory.load(entry), level) {
                Entry::Table(next) => self.pages(next, level - 1, page, later),
                Entry::Leaf(leaf) => {
                    let frame = leaf.frame;
                    if self.used.take(frame, Persistent::leaf_pages(level), page).is_err() {
                        later.push(Later { entry, page, level, frame });
                    }
                }
                Entry::Empty => {}
            }
        }
    }

    /// Gives a page frames of its own, or unmaps it.
    fn separate(&mut self, later: &Later, tables: &Used) {
        let &Later { entry, page, level, frame } = later;
        let count = Persistent::leaf_pages(level);
        let why = if (frame.0..frame.0 + count).any(|frame| tables.is_met(frame)) {
            "a table of pages was there"
        } else if page < FIRST_FILES {
            "another page had their frame"
        } else if let Some(own) = self.find_free(count) {
            self.used.take(own, count, page).expect("they are free");
            let mut bytes = vec![0; PAGE_BYTES as usize];
            for at in 0..count {
                self.memory.read(frame.add(at).addr().0, &mut bytes);
                self.memory.write(own.add(at).addr().0, &bytes);
            }
            self.memory.flush(own.addr().0, count * PAGE_BYTES);
            self.memory.fence();
            let leaf = crate::table::Leaf::data(own);
            set(self.memory, entry, Persistent::leaf(leaf, level));
            (self.said)(format!("page {page} had frame {frame}, as another one, and has a copy now"));
            return;
        } else {
            "another page had their frame, and none is free for a copy"
        };
        self.drop_entry(entry, page, level, why);
    }

    /// Returns the first of so many frames that no table or page was found to use.
    fn find_free(&self, count: u64) -> Option<Pfn> {
        let all = 64 * self.used.words.len() as u64;
        let is_free = |first: &u64| {
            self.used.is_inside(Pfn(*first), count)
                && (*first..*first + count).all(|frame| !self.used.is_met(frame))
                && self.memory.provide(Pfn(*first).addr().0, count * PAGE_BYTES)
        };
        (0..all).step_by(count as usize).find(is_free).map(Pfn)
    }

    /// The bitmap, from the frames that were met; those of the store's own and those that there are not are used.
    fn bitmap(&mut self, first: u64, frames: u64) {
        let mut wrong = 0;
        for index in 0..frames * PAGE_BYTES / 8 {
            let met = (0..64).fold(0, |word, bit| {
                let frame = Pfn(64 * index + bit);
                let is_used = !self.used.is_inside(frame, 1) || self.used.is_met(frame.0);
                word | u64::from(is_used) << bit
            });
            let at = Pfn(first).addr().0 + 8 * index;
            let found = self.memory.load(at);
            if found != met {
                wrong += u64::from((found ^ met).count_ones());
                set(self.memory, at, met);
            }
        }
        if wrong > 0 {
            (self.said)(format!("{wrong} frames were marked wrongly as free or used"));
        }
    }
}
