//! The design of one controller's share of the cache.

use super::{FlashPage, Partition, TagArray};

/// The policy that chooses the page to evict from a full set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Replacement {
    /// True least recently used. The paper names no policy.
    #[default]
    Lru,
    /// Not recently used: one bit a way, cleared all at once when all would be set; the lowest way without it leaves.
    Nru,
}

/// The Miss Status Row: how many pages may be pending.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MissStatusShape {
    /// A power of two.
    pub sets: u32,
    /// Pending pages of one set.
    pub ways: u32,
}

impl Default for MissStatusShape {
    /// Assumed: one row of 16 KiB in entries of 8 bytes and columns of 64. The paper prints only the sizes of row, entry
    /// and column.
    fn default() -> Self {
        Self { sets: 256, ways: 8 }
    }
}

/// The parameters of one controller's share of the cache.
///
/// ```text
///  page number:  | tag  ...            | set          | controller   |
///                                       log2 sets      index_shift bits
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TierDesign {
    /// Sets of this controller, a power of two.
    pub sets: u32,
    /// Pages of a set: 1 to 16. A tag column of 64 bytes holds 8.
    pub ways: u32,
    /// Bits of the page number below the set's: they choose the controller. The miss status is indexed above them, too.
    pub index_shift: u32,
    /// The policy that chooses the page to evict from a full set.
    pub replacement: Replacement,
    /// The number of pages that may be pending. One row per controller, assumed.
    pub miss_status: MissStatusShape,
    /// Dirty pages that left and are not on flash yet: 1 to 4096.
    pub evict_buffer: u32,
    /// Misses that the backside holds because it cannot go on, the one that it is at included: 1 to 65,536.
    pub queue: u32,
    /// The pages that are not cached at all.
    pub partition: Partition,
}

impl Default for TierDesign {
    /// Returns the design of one of four controllers with 2 GiB each (Table I). Assumed: evict buffer and queue.
    fn default() -> Self {
        Self {
            sets: 131_072,
            ways: 4,
            index_shift: 2,
            replacement: Replacement::Lru,
            miss_status: MissStatusShape::default(),
            evict_buffer: 32,
            queue: 16,
            partition: Partition::default(),
        }
    }
}

impl TierDesign {
    /// Pages that the share holds; frame numbers are below.
    #[inline]
    pub const fn frames(&self) -> u32 {
        self.sets * self.ways
    }

    /// Pages of memory for the evict buffer; slot numbers are below. One more than it may hold: a page that comes back
    /// while the buffer is full changes places with its victim.
    #[inline]
    pub const fn slots(&self) -> u32 {
        self.evict_buffer + 1
    }

    /// Returns the one of 2^`index_shift` controllers that the page belongs to.
    #[inline]
    pub const fn controller_of(&self, page: FlashPage) -> usize {
        (page.0 & ((1 << self.index_shift) - 1)) as usize
    }

    /// Checks what cannot be.
    ///
    /// # Errors
    ///
    /// [`DesignError`] names the field.
    pub fn check(&self) -> Result<(), DesignError> {
        let Self { sets, ways, index_shift, miss_status, evict_buffer, queue, .. } = *self;
        let power = |field, value: u32| match value.is_power_of_two() && value <= 1 << 26 {
            true => Ok(()),
            false => Err(DesignError { field, value, allowed: "a power of two, at most 2^26" }),
        };
        let within = |field, value: u32, most: u32, allowed| match (1..=most).contains(&value) {
            true => Ok(()),
            false => Err(DesignError { field, value, allowed }),
        };
        power("sets", sets)?;
        within("ways", ways, TagArray::MOST_WAYS, "1 to 16")?;
        within("index_shift", index_shift + 1, 17, "0 to 16")
            .map_err(|e| DesignError { value: index_shift, ..e })?;
        power("miss_status.sets", miss_status.sets)?;
        within("miss_status.ways", miss_status.ways, 32, "1 to 32")?;
        within("evict_buffer", evict_buffer, 4096, "1 to 4096")?;
        within("queue", queue, 1 << 16, "1 to 65536")
    }
}

/// A design that no tier can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} of a tier is {value}; allowed: {allowed}")]
pub struct DesignError {
    /// The name of the field that is wrong.
    pub field: &'static str,
    /// The value that the key had.
    pub value: u32,
    /// The values that are allowed.
    pub allowed: &'static str,
}
