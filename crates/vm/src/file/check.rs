//! Whether a store is in itself what it must be: every frame is used once, or free.

use super::mapping::Persistent;
use super::memory::PersistentMemory;
use super::store::Store;
use crate::addr::{Pfn, PhysAddr, Vpn};
use crate::table::{Entry, Geometry};

/// What is wrong with a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// A frame outside of the store, or one of the store's own.
    #[error("page {page} or a table on its way is in frame {frame}, which is not for that")]
    Outside {
        /// The first page concerned.
        page: Vpn,
        /// The frame.
        frame: Pfn,
    },
    /// Two pages or tables in one frame.
    #[error("frame {frame} is used twice, the second time for page {page}")]
    Twice {
        /// The first page concerned.
        page: Vpn,
        /// The frame.
        frame: Pfn,
    },
    /// An entry that is neither a table nor a page.
    #[error("the entry for page {page} is {bits:#x}, which means nothing")]
    Entry {
        /// The first page concerned.
        page: Vpn,
        /// What it is.
        bits: u64,
    },
    /// The bitmap differs.
    #[error("frame {frame} is {}, and the bitmap says otherwise", if *.used { "used" } else { "not used" })]
    Bitmap {
        /// The frame.
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
        let mut used =
            Used { words: vec![0; frames.div_ceil(64) as usize], first: self.first_frame().0, frames };
        used.take(self.table_root(), 1, Vpn(0))?;
        self.check_node(self.table_root(), Persistent::LEVELS - 1, Vpn(0), &mut used)?;
        for frame in used.first..frames {
            let is_used = used.words[(frame / 64) as usize] >> (frame % 64) & 1 != 0;
            if is_used != self.is_used(Pfn(frame)) {
                return Err(Damage::Bitmap { frame: Pfn(frame), used: is_used });
            }
        }
        Ok(())
    }

    fn check_node(&self, node: Pfn, level: u32, first: Vpn, used: &mut Used) -> Result<(), Damage> {
        for index in 0..512 {
            let page = Vpn(first.0 + index * Persistent::leaf_pages(level));
            let bits = self.memory().load(node.addr().0 + 8 * index);
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
struct Used {
    words: Vec<u64>,
    first: u64,
    frames: u64,
}

impl Used {
    fn take(&mut self, frame: Pfn, count: u64, page: Vpn) -> Result<(), Damage> {
        if frame.0 < self.first || frame.0 > self.frames || count > self.frames - frame.0 {
            return Err(Damage::Outside { page, frame });
        }
        if !frame.0.is_multiple_of(count) {
            return Err(Damage::Outside { page, frame });
        }
        for frame in frame.0..frame.0 + count {
            let (word, bit) = (&mut self.words[(frame / 64) as usize], 1 << (frame % 64));
            if *word & bit != 0 {
                return Err(Damage::Twice { page, frame: Pfn(frame) });
            }
            *word |= bit;
        }
        Ok(())
    }
}
