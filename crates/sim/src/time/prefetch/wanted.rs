//! What prefetchers hear, and what they ask for.

use arrayvec::ArrayVec;

/// Lines that one access makes the prefetchers of a level ask for, at most: a page, and some more.
const MOST: usize = 72;
/// The base-2 logarithm of the lines of a page.
pub(super) const PAGE_SHIFT: u32 = 6;

/// The lines that the prefetchers of a level ask for.
pub(in crate::time) type Wanted = ArrayVec<Ask, MOST>;

/// A line that a prefetcher of a level asks for, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::time) struct Ask {
    pub(in crate::time) line: u64,
    pub(in crate::time) at_ps: u64,
    /// Whether the line comes into the next level, and not into this one.
    pub(in crate::time) is_far: bool,
}

/// An access that reaches a level, whether its line is there or not.
#[derive(Clone, Copy, Debug)]
pub(in crate::time) struct Heard {
    /// The address of the instruction.
    pub(in crate::time) instruction: u64,
    /// The page of its virtual address, in 4 KiB.
    pub(in crate::time) page: u64,
    /// The line, by its physical address.
    pub(in crate::time) line: u64,
    /// Whether the level did not have it.
    pub(in crate::time) is_miss: bool,
    /// When it is.
    pub(in crate::time) at_ps: u64,
}

/// Adds a line if it lies in the page of the access that is heard of.
#[inline]
pub(super) fn want(wanted: &mut Wanted, line: u64, heard: &Heard) {
    if line >> PAGE_SHIFT == heard.line >> PAGE_SHIFT {
        push(wanted, Ask { line, at_ps: heard.at_ps, is_far: false });
    }
}

/// Adds a line if there is room: the last ones of many are no loss, because they are asked for with the next access.
#[inline]
pub(super) fn push(wanted: &mut Wanted, ask: Ask) {
    let _ = wanted.try_push(ask);
}
