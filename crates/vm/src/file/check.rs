//! Whether a store is in itself what it must be: every frame is used once, or free.

use std::collections::BTreeMap;

use super::error::StoreError;
use super::mapping::Persistent;
use super::memory::PersistentMemory;
use super::partition::{Level, Part};
use super::store::{Layout, Store};
use crate::addr::{PAGE_BYTES, Pfn, PhysAddr, Vpn};
use crate::table::{Entry, Geometry};

/// A fault in the structure of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A frame outside of the store, or one of the store's own.
    #[error("page {page} or a table on its way is in frame {frame}, which is not for that")]
    Outside {
        /// The first page concerned.
        page: Vpn,
        /// The number of the frame concerned.
        frame: Pfn,
    },
    /// Two pages or tables in one frame.
    #[error("frame {frame} is used twice, the second time for page {page}")]
    Twice {
        /// The first page concerned.
        page: Vpn,
        /// The number of the frame concerned.
        frame: Pfn,
    },
    /// An entry that is neither a table nor a page.
    #[error("the entry for page {page} is {bits:#x}, which means nothing")]
    Entry {
        /// The first page concerned.
        page: Vpn,
        /// The word that stands in the entry.
        bits: u64,
    },
    /// The bitmap and the tables disagree about a frame.
    #[error("frame {frame} is {}, and the bitmap says otherwise", if *.used { "used" } else { "not used" })]
    Bitmap {
        /// The number of the frame concerned.
        frame: Pfn,
        /// Whether it is used.
        used: bool,
    },
}

impl<M: PersistentMemory> Store<M> {
    /// Walks the whole page table: every frame must be in the store, used once, and marked so, and no other.
    ///
    /// # Errors
    ///
    /// The first damage, in the order of pages; the bitmap's last.
    pub fn check(&self) -> Result<(), Damage> {
        let (frames, _) = self.frame_counts();
        let mut used = Used::new(*self.layout());
        used.take(self.table_root(), 1, Vpn(0))?;
        self.check_node(self.table_root(), Persistent::LEVELS - 1, Vpn(0), &mut used)?;
        for frame in (0..frames).map(Pfn) {
            let is_used = used.is_met(frame.0) || self.layout().is_own(frame, 1);
            if is_used != self.is_used(frame) {
                return Err(Damage::Bitmap { frame, used: is_used });
            }
        }
        Ok(())
    }

    /// Returns the bytes of a node: one copy takes much less time than a load of each word.
    fn bytes_of(&self, node: Pfn) -> [u8; PAGE_BYTES as usize] {
        let mut bytes = [0; PAGE_BYTES as usize];
        self.memory().read(node.addr().0, &mut bytes);
        bytes
    }

    /// Visits what is mapped, in the order of addresses: each first page, and how many it is.
    pub(super) fn visit_pages(&self, visit: &mut dyn FnMut(Vpn, u64)) {
        self.visit_node(self.table_root(), Persistent::LEVELS - 1, Vpn(0), visit);
    }

    fn visit_node(&self, node: Pfn, level: u32, first: Vpn, visit: &mut dyn FnMut(Vpn, u64)) {
        let pages = Persistent::leaf_pages(level);
        let bytes = self.bytes_of(node);
        for (index, word) in (0..).zip(bytes.as_chunks().0) {
            let page = Vpn(first.0 + index * pages);
            match Persistent::decode(u64::from_le_bytes(*word), level) {
                Entry::Empty => {}
                Entry::Leaf(_) => visit(page, pages),
                Entry::Table(next) => self.visit_node(next, level - 1, page, visit),
            }
        }
    }

    /// Returns the first page among those for files that is mapped, lies in no allocated partition and is not the
    /// page of a header. A partition that is allocated around it later would show that page. The page table must be
    /// sound.
    ///
    /// # Errors
    ///
    /// As [`Store::visit_partitions`].
    pub fn stray_page(&self) -> Result<Option<Vpn>, StoreError> {
        let mut known = BTreeMap::new();
        self.visit_partitions(&mut |partition, part| match part {
            Part::Allocated => drop(known.insert(partition.first, partition.end())),
            Part::Cut => drop(known.insert(partition.first, Vpn(partition.first.0 + 1))),
            Part::Empty => {}
        })?;
        let mut stray = None;
        self.visit_pages(&mut |page, pages| {
            let before = known.range(..=page).next_back();
            let is_known = before.is_some_and(|(_, end)| page.0 + pages <= end.0);
            if page.0 >= Level::L9.pages() && !is_known {
                stray = stray.or(Some(page));
            }
        });
        Ok(stray)
    }

    fn check_node(&self, node: Pfn, level: u32, first: Vpn, used: &mut Used) -> Result<(), Damage> {
        let bytes = self.bytes_of(node);
        for (index, word) in (0..).zip(bytes.as_chunks().0) {
            let page = Vpn(first.0 + index * Persistent::leaf_pages(level));
            let bits = u64::from_le_bytes(*word);
            match Persistent::decode(bits, level) {
                Entry::Empty if bits == 0 => {}
                Entry::Leaf(leaf) if bits == Persistent::leaf(leaf, level) => {
                    used.take(PhysAddr(bits).frame(), Persistent::leaf_pages(level), page)?;
                }
                Entry::Table(next) if bits == Persistent::table(next) => {
                    used.take(next, 1, page)?;
                    self.check_node(next, level - 1, page, used)?;
                }
                _ => return Err(Damage::Entry { page, bits }),
            }
        }
        Ok(())
    }
}

/// Frames that were met.
#[derive(Clone)]
pub(super) struct Used {
    pub(super) words: Vec<u64>,
    layout: Layout,
}

impl Used {
    /// Creates the set of frames met so far, which is empty; the store's own frames are not to be met.
    pub(super) fn new(layout: Layout) -> Self {
        Self { words: vec![0; layout.frames.div_ceil(64) as usize], layout }
    }

    pub(super) fn is_met(&self, frame: u64) -> bool {
        self.words[(frame / 64) as usize] >> (frame % 64) & 1 != 0
    }

    /// Whether frames can be those of a page or a table, as far as their numbers go.
    pub(super) fn is_inside(&self, frame: Pfn, count: u64) -> bool {
        !self.layout.is_own(frame, count) && frame.0.is_multiple_of(count)
    }

    /// Takes frames, all or none.
    pub(super) fn take(&mut self, frame: Pfn, count: u64, page: Vpn) -> Result<(), Damage> {
        if !self.is_inside(frame, count) {
            return Err(Damage::Outside { page, frame });
        }
        let frames = frame.0..frame.0 + count;
        if let Some(met) = frames.clone().find(|&frame| self.is_met(frame)) {
            return Err(Damage::Twice { page, frame: Pfn(met) });
        }
        frames.for_each(|frame| self.words[(frame / 64) as usize] |= 1 << (frame % 64));
        Ok(())
    }
}
