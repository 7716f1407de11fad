//! The tags of a write-back data cache: lines with a dirty bit.

use super::ranked::{IDENTITY, MOST_WAYS, RankedRows, Row, Shape};
use super::{
    ArrayShape, ComputedChoice, Indexing, Replacement, SetArray, SetChoice, ShapeError, ShapedArray,
};
use crate::simd::{equal_16, equal_32};

/// The lines that a cache holds, with a dirty bit each.
///
/// A line is the address divided by the line size; its set is that number modulo the number of sets, or, of a [folded](Self::folded)
/// array, of the number folded. What a look-up needs of a usual cache stands in one or two cache lines of the host, because the set is known and the rest of a line's number is
/// short: 16 bits for a large last-level cache, 32 bits for any other. Wider caches or numbers take a [`SetArray`], and so
/// do caches whose number of sets is not a power of two, or which have another replacement.
#[derive(Clone, Debug)]
pub struct LineArray {
    layout: Layout,
    set_mask: u64,
    /// The bits of a line's number that those `fold_shift` above them change.
    fold_mask: u64,
    fold_shift: u32,
}

#[derive(Clone, Debug)]
enum Layout {
    Short(RankedRows<TagRow<u16>>),
    Long(RankedRows<TagRow<u32>>),
    Wide(Slots),
    Modulo(Slots<ComputedChoice>),
}

/// Lines as keys, and by slot whether the line is dirty.
#[derive(Clone, Debug)]
struct Slots<C = super::LowBits> {
    lines: SetArray<C>,
    dirty: Vec<bool>,
}

/// A line that had to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The number of the line that left.
    pub line: u64,
    /// Whether it must be written back.
    pub dirty: bool,
}

impl LineArray {
    /// Creates an empty cache of `lines` lines, whose numbers are all below `1 << line_bits`, and of which the least recently used one of a
    /// set leaves.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape is impossible.
    pub fn new(lines: u32, ways: u32, line_bits: u32) -> Result<Self, ShapeError> {
        Self::with_replacement(lines, ways, line_bits, Replacement::Lru)
    }

    /// Creates an empty cache as [`new`](Self::new) does, with a choice of the line that leaves.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] if the shape is impossible.
    pub fn with_replacement(
        lines: u32,
        ways: u32,
        line_bits: u32,
        replacement: Replacement,
    ) -> Result<Self, ShapeError> {
        let indexing = Indexing::Modulo;
        // Also checks the shape.
        let any = match (ArrayShape { entries: lines, ways, replacement, indexing }).array()? {
            ShapedArray::LowBits(any) => any,
            ShapedArray::Computed(any) => {
                return Ok(Self::of(Layout::Modulo(Slots::new(any)), 0));
            }
        };
        let set_mask = any.sets() - 1;
        let tag_bits = line_bits.saturating_sub(any.sets().trailing_zeros());
        let fits_row = ways <= MOST_WAYS && matches!(replacement, Replacement::Lru | Replacement::Dynamic);
        let layout = match tag_bits {
            0..=16 if fits_row => Layout::Short(rows(lines, ways, replacement)),
            17..=32 if fits_row => Layout::Long(rows(lines, ways, replacement)),
            _ => Layout::Wide(Slots::new(any)),
        };
        Ok(Self::of(layout, set_mask))
    }

    fn of(layout: Layout, set_mask: u64) -> Self {
        Self { layout, set_mask, fold_mask: 0, fold_shift: 0 }
    }

    /// Lets an empty array fold the numbers of lines: the low bits, as many as the number of sets has beyond its first, are exclusive-or'ed with
    /// as many above them, but for the lowest `kept`. Lines that are a power of two apart so lie in many sets, as the last caches of
    /// processors have it.
    #[must_use]
    pub fn folded(mut self, kept: u32) -> Self {
        let sets = match &self.layout {
            Layout::Modulo(slots) => slots.lines.sets(),
            _ => self.set_mask + 1,
        };
        let bits = sets.ilog2();
        self.fold_shift = bits.saturating_sub(kept);
        self.fold_mask = ((1 << bits) - 1) & !((1 << kept) - 1);
        self
    }

    /// Folds a line's number, and unfolds it.
    #[inline(always)]
    fn fold(&self, line: u64) -> u64 {
        line ^ ((line >> self.fold_shift) & self.fold_mask)
    }

    /// Looks up `line`, which counts as a use, and returns whether the cache holds it; a store makes it dirty.
    #[inline(always)]
    pub fn lookup(&mut self, line: u64, store: bool) -> bool {
        let line = self.fold(line);
        self.lookup_folded(line, store)
    }

    #[inline(always)]
    fn lookup_folded(&mut self, line: u64, store: bool) -> bool {
        let set = (line & self.set_mask) as usize;
        match &mut self.layout {
            Layout::Short(rows) => lookup(rows, set, line, store),
            Layout::Long(rows) => lookup(rows, set, line, store),
            _ => self.lookup_in_slots(line, store),
        }
    }

    /// Apart, as all that is about slots: usual caches have rows, and what stands inline in many places must be short.
    #[inline(never)]
    fn lookup_in_slots(&mut self, line: u64, store: bool) -> bool {
        match &mut self.layout {
            Layout::Wide(slots) => slots.lookup(line, store),
            Layout::Modulo(slots) => slots.lookup(line, store),
            Layout::Short(_) | Layout::Long(_) => unreachable!("rows"),
        }
    }

    /// Brings the set of `line` nearer in the caches of the computer that simulates: it is looked up soon. Changes nothing.
    #[inline(always)]
    pub fn prefetch(&self, line: u64) {
        let set = (self.fold(line) & self.set_mask) as usize;
        match &self.layout {
            Layout::Short(rows) => rows.prefetch(set),
            Layout::Long(rows) => rows.prefetch(set),
            Layout::Wide(_) | Layout::Modulo(_) => {}
        }
    }

    /// Looks up `line` as [`lookup`](Self::lookup) does, where `line` is likely to be the newest of its set: then its use changes nothing
    /// but the dirty bit.
    #[inline(always)]
    pub fn lookup_newest(&mut self, line: u64, store: bool) -> bool {
        let line = self.fold(line);
        let set = (line & self.set_mask) as usize;
        if let Layout::Long(rows) = &mut self.layout
            && use_newest(rows, set, line, store)
        {
            return true;
        }
        self.lookup_folded(line, store)
    }

    /// Returns whether the cache holds `line`, which does not count as a use.
    #[inline]
    pub fn holds(&self, line: u64) -> bool {
        let line = self.fold(line);
        let set = (line & self.set_mask) as usize;
        match &self.layout {
            Layout::Short(rows) => rows.holds(set, line),
            Layout::Long(rows) => rows.holds(set, line),
            _ => self.slots_hold(line),
        }
    }

    #[inline(never)]
    fn slots_hold(&self, line: u64) -> bool {
        match &self.layout {
            Layout::Wide(slots) => slots.lines.peek(line, line).is_some(),
            Layout::Modulo(slots) => slots.lines.peek(line, line).is_some(),
            Layout::Short(_) | Layout::Long(_) => unreachable!("rows"),
        }
    }

    /// Brings in a line that is not here; returns the one that had to leave.
    #[inline(always)]
    pub fn insert(&mut self, line: u64, dirty: bool) -> Option<Victim> {
        let line = self.fold(line);
        let set = (line & self.set_mask) as usize;
        let victim = match &mut self.layout {
            Layout::Short(rows) => insert(rows, set, line, dirty),
            Layout::Long(rows) => insert(rows, set, line, dirty),
            _ => self.insert_in_slots(line, dirty),
        };
        victim.map(|victim| Victim { line: self.fold(victim.line), ..victim })
    }

    #[inline(never)]
    fn insert_in_slots(&mut self, line: u64, dirty: bool) -> Option<Victim> {
        match &mut self.layout {
            Layout::Wide(slots) => slots.insert(line, dirty),
            Layout::Modulo(slots) => slots.insert(line, dirty),
            Layout::Short(_) | Layout::Long(_) => unreachable!("rows"),
        }
    }
}

fn rows<T: Tag>(lines: u32, ways: u32, replacement: Replacement) -> RankedRows<TagRow<T>> {
    let rows = RankedRows::new(lines, ways, true);
    if replacement == Replacement::Dynamic { rows.with_dueling() } else { rows }
}

impl<C: SetChoice> Slots<C> {
    fn new(lines: SetArray<C>) -> Self {
        Self { dirty: vec![false; lines.entries()], lines }
    }

    #[inline]
    fn lookup(&mut self, line: u64, store: bool) -> bool {
        let slot = self.lines.lookup(line, line);
        if let Some(slot) = slot {
            self.dirty[slot] |= store;
        }
        slot.is_some()
    }

    #[inline]
    fn insert(&mut self, line: u64, dirty: bool) -> Option<Victim> {
        let inserted = self.lines.insert(line, line);
        let dirty = std::mem::replace(&mut self.dirty[inserted.slot], dirty);
        inserted.evicted.map(|line| Victim { line, dirty })
    }
}

#[inline(always)]
fn lookup<T: Tag>(rows: &mut RankedRows<TagRow<T>>, set: usize, line: u64, store: bool) -> bool {
    let Some((row, way)) = rows.hit(set, line) else { return false };
    row.dirty |= u16::from(store) << way;
    true
}

/// Uses a line if it is the newest of its set; returns whether it is.
#[inline(always)]
fn use_newest<T: Tag>(rows: &mut RankedRows<TagRow<T>>, set: usize, line: u64, store: bool) -> bool {
    let (row, way, shape) = rows.newest(set);
    // The newest way of a set is free only if all are.
    let is_newest = row.used != 0 && row.tags[way] == T::new(line >> shape.set_bits);
    if is_newest {
        row.dirty |= u16::from(store) << way;
    }
    is_newest
}

#[inline(always)]
fn insert<T: Tag>(rows: &mut RankedRows<TagRow<T>>, set: usize, line: u64, dirty: bool) -> Option<Victim> {
    let (row, way, evicted) = rows.replace(set, line);
    let before = row.dirty >> way & 1 != 0;
    row.dirty = row.dirty & !(1 << way) | u16::from(dirty) << way;
    evicted.map(|line| Victim { line, dirty: before })
}

/// Lines of one set, by the bits above the set's number.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct TagRow<T> {
    tags: [T; MOST_WAYS as usize],
    order: u64,
    /// The bits of the ways that are in use.
    used: u16,
    dirty: u16,
}

/// An exact tag: the whole number above the set's.
trait Tag: Copy + PartialEq + Into<u64> {
    const ZERO: Self;

    fn new(tag: u64) -> Self;

    /// Bit `n` tells whether `tags[n]` is `self`.
    fn among(self, tags: &[Self; MOST_WAYS as usize]) -> u32;
}

impl Tag for u16 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn new(tag: u64) -> Self {
        debug_assert!(tag <= u64::from(Self::MAX), "a line number wider than promised");
        tag as Self
    }

    #[inline(always)]
    fn among(self, tags: &[Self; MOST_WAYS as usize]) -> u32 {
        equal_16(tags, self)
    }
}

impl Tag for u32 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn new(tag: u64) -> Self {
        debug_assert!(tag <= u64::from(Self::MAX), "a line number wider than promised");
        tag as Self
    }

    #[inline(always)]
    fn among(self, tags: &[Self; MOST_WAYS as usize]) -> u32 {
        equal_32(tags, self)
    }
}

impl<T: Tag> Row for TagRow<T> {
    const EMPTY: Self = Self { tags: [T::ZERO; 16], order: IDENTITY, used: 0, dirty: 0 };

    #[inline(always)]
    fn order(&mut self) -> &mut u64 {
        &mut self.order
    }

    #[inline(always)]
    fn find(&self, shape: Shape, line: u64) -> Option<usize> {
        let equal = T::new(line >> shape.set_bits).among(&self.tags) & u32::from(self.used);
        (equal != 0).then(|| equal.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn put(&mut self, shape: Shape, set: usize, way: usize, line: u64) -> Option<u64> {
        let before = std::mem::replace(&mut self.tags[way], T::new(line >> shape.set_bits));
        let used = self.used >> way & 1 != 0;
        self.used |= 1 << way;
        used.then(|| before.into() << shape.set_bits | set as u64)
    }
}
