//! The spill filter: whether a key that is not in its first-level block can be anywhere else.
//!
//! DEVIATION: `IcebergHT` has none; there, a key that is not in the first level is looked for in two blocks of the
//! second. At load 0.95 a block has about six items in the second level. Each counts in one of 46 cells, so that seven
//! of eight look-ups for absent keys end after one block. A cell is four bits; one that has reached 15 stays there.

/// Cells of a filter, two in a byte.
const CELLS: u32 = 46;
const STUCK: u8 = 15;

/// Counts of a first-level block's keys that stand in the second level.
#[derive(Clone, Debug)]
pub(crate) struct Filter([u8; CELLS as usize / 2]);

impl Filter {
    pub(crate) const EMPTY: Self = Self([0; CELLS as usize / 2]);

    /// Byte and shift of a key's cell.
    #[inline(always)]
    fn cell(spill: u16) -> (usize, u32) {
        let cell = (u32::from(spill) * CELLS) >> 16;
        (cell as usize / 2, 4 * (cell % 2))
    }

    #[inline(always)]
    fn count(&self, spill: u16) -> u8 {
        let (byte, shift) = Self::cell(spill);
        self.0[byte] >> shift & STUCK
    }

    /// False if no such key is in the second level.
    #[inline(always)]
    pub(crate) fn may_hold(&self, spill: u16) -> bool {
        self.count(spill) != 0
    }

    /// Such a key has come into the second level.
    pub(crate) fn add(&mut self, spill: u16) {
        if self.count(spill) != STUCK {
            let (byte, shift) = Self::cell(spill);
            self.0[byte] += 1 << shift;
        }
    }

    /// Such a key has left the second level.
    pub(crate) fn remove(&mut self, spill: u16) {
        // Never zero, unless a key's hash has changed while it was in the map.
        if !matches!(self.count(spill), 0 | STUCK) {
            let (byte, shift) = Self::cell(spill);
            self.0[byte] -= 1 << shift;
        }
    }
}
