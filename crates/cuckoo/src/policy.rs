//! The policy of a hashed table: every choice that published designs make differently.

/// Most ways that a table may have.
pub const MAX_WAYS: usize = 8;

/// Slots of a bucket, where buckets have several: their tags and those of a key's other bucket are one 64-bit word.
pub const BUCKET_SLOTS: usize = 4;

/// The rules by which a table grows and places its items.
///
/// The two designs that the paper "Memory-Efficient Hashed Page Tables" (HPCA 2023) compares are
/// [`ELASTIC`](Self::ELASTIC) and [`MEMORY_EFFICIENT`](Self::MEMORY_EFFICIENT); each of the latter's techniques can be
/// taken by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Ways, each with a hash function of its own: 2 to [`MAX_WAYS`].
    pub ways: usize,
    /// Slots of a way in which an item may stand, side by side: 1, or [`BUCKET_SLOTS`] with two ways and [`Scope::Bucket`].
    pub bucket_slots: usize,
    /// Slots of a way at first, and the fewest that it shrinks to: a power of two, or with [`Scope::Bucket`] any number of
    /// buckets.
    pub first_slots: usize,
    /// Bytes of a slot, where the table is said to lie.
    pub slot_bytes: u64,
    /// A table or a way grows when more than so many thousandths of its slots are used.
    pub upsize_above: u32,
    /// The table or way shrinks when fewer than so many thousandths of its slots are used; 0 for never.
    pub downsize_below: u32,
    /// The factor by which the table or way grows: a power of two.
    pub growth: usize,
    /// Slots of a growing way that are visited after every insertion and removal, empty ones included; with
    /// [`Scope::Bucket`] buckets, as long as the table is due.
    ///
    /// With one visit and doubling, a table is full before it has grown: the next growth begins at a higher load than
    /// the one before, and at last items find no place (its load after growing is `(load + 1 / steps) / 2`).
    pub steps: u32,
    /// The part of the table that grows together.
    pub scope: Scope,
    /// Whether a way grows where it is, if its chunks keep their size: its items either stay or go to one new slot.
    pub in_place: bool,
    /// Whether a new array is hashed anew, so that items that come from the old one may meet.
    pub rekey: bool,
    /// The way that a new item tries first.
    pub first_way: FirstWay,
    /// Items that may be moved to make room for one, before the table grows for it.
    pub tries: u32,
}

/// The part of a table that grows together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Scope {
    /// All ways grow together.
    Table,
    /// A way, if it is no larger than any other: sizes differ by one doubling at most.
    Way {
        /// Ways that may grow or shrink at the same time.
        at_once: usize,
    },
    /// A bucket of one of the smallest ways, whenever the table as a whole is due, and not more than that: the way's pointer
    /// stays where it is until the table is due again, and goes back when it shrinks (linear hashing: Litwin, VLDB 1980). It
    /// is always in place; memory is taken and given back a chunk at a time. It is for programs' own tables, which are to
    /// take no more memory than they need.
    Bucket,
}

/// The way that a new item tries first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FirstWay {
    /// Every way is equally likely.
    Uniform,
    /// Each way is likely in proportion to its free slots, but not one that would grow if it were not larger than
    /// another.
    ByFreeSlots,
    /// The emptiest way where the item's slot is free; any way, if no slot is. Items that are moved to make room look
    /// for a free slot, too. That costs probes, and saves most of the moves.
    Free,
}

impl Policy {
    /// Elastic cuckoo page tables (Skarlatos et al., ASPLOS 2020), as the ME-HPT paper evaluates them.
    pub const ELASTIC: Self = Self {
        ways: 3,
        bucket_slots: 1,
        first_slots: 128,
        slot_bytes: 64,
        upsize_above: 600,
        downsize_below: 200,
        growth: 2,
        steps: 2,
        scope: Scope::Table,
        in_place: false,
        rekey: true,
        first_way: FirstWay::Uniform,
        tries: 128,
    };

    /// Memory-efficient hashed page tables (Stojkovic et al., HPCA 2023).
    pub const MEMORY_EFFICIENT: Self = Self {
        scope: Scope::Way { at_once: 1 },
        in_place: true,
        rekey: false,
        first_way: FirstWay::ByFreeSlots,
        ..Self::ELASTIC
    };

    /// Checks what cannot be.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] names the field.
    pub fn check(&self) -> Result<(), PolicyError> {
        let wrong = |field, allowed| Err(PolicyError { field, allowed });
        if !(2..=MAX_WAYS).contains(&self.ways) {
            return wrong("ways", "2 to 8");
        }
        let in_buckets = self.scope == Scope::Bucket;
        if self.bucket_slots != 1 && !(self.bucket_slots == BUCKET_SLOTS && self.ways == 2 && in_buckets) {
            return wrong("bucket_slots", "1, or 4 in two ways that grow by buckets");
        }
        if in_buckets {
            let is_allowed = (1..=1 << 31).contains(&self.first_slots)
                && self.first_slots.is_multiple_of(self.bucket_slots);
            if !is_allowed {
                return wrong("first_slots", "whole buckets, one at least, with 2^31 slots at most");
            }
            if self.rekey || !self.in_place {
                return wrong("in_place", "true, with rekey = false, for ways that grow by buckets");
            }
        } else if !self.first_slots.is_power_of_two() || self.first_slots > 1 << 30 {
            return wrong("first_slots", "a power of two, 2^30 at most");
        }
        if self.slot_bytes == 0 {
            return wrong("slot_bytes", "at least 1");
        }
        if !(1..=1000).contains(&self.upsize_above) {
            return wrong("upsize_above", "1 to 1000 thousandths");
        }
        // A table, or a way, that has just shrunk or grown must not be due to go back; by a bucket its load hardly changes.
        if in_buckets && self.downsize_below >= self.upsize_above {
            return wrong("downsize_below", "less than upsize_above");
        }
        if !in_buckets && u64::from(self.downsize_below) * 2 > u64::from(self.upsize_above) {
            return wrong("downsize_below", "half of upsize_above at most");
        }
        if !self.growth.is_power_of_two() || !(2..=1 << 10).contains(&self.growth) {
            return wrong("growth", "a power of two, 2 to 1024");
        }
        if self.growth != 2 && self.scope != Scope::Table {
            return wrong("growth", "2 for ways that grow one by one");
        }
        if self.steps == 0 {
            return wrong("steps", "at least 1");
        }
        if matches!(self.scope, Scope::Way { at_once: 0 }) {
            return wrong("at_once", "at least 1");
        }
        if !(1..=1 << 16).contains(&self.tries) {
            return wrong("tries", "1 to 65536");
        }
        Ok(())
    }
}

/// A policy that no table can follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("impossible {field} of a hashed table; allowed: {allowed}")]
#[non_exhaustive]
pub struct PolicyError {
    /// The name of the field that is wrong.
    pub field: &'static str,
    /// The values that are allowed.
    pub allowed: &'static str,
}
