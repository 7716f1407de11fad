//! Batches in parts.

use pagewalk_trace::{Access, Batch, Event, Executed, Mark};
use pagewalk_vm::addr::{PAGE_BYTES, VirtAddr};

/// A place between two events of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of marks before it.
    pub(super) marks: usize,
    /// The number of accesses before it.
    pub(super) accesses: usize,
    /// The number of executed blocks before it.
    pub(super) blocks: usize,
}

impl Place {
    /// Returns the place before so many accesses of a batch have been made, or its end; the marks and blocks there lie behind it.
    pub(super) fn before_access(batch: &Batch, accesses: usize) -> Self {
        let accesses = accesses.min(batch.accesses.len());
        let marks = batch.marks.partition_point(|mark| (mark.at as usize) < accesses);
        let blocks = batch.blocks.partition_point(|block| (block.at as usize) < accesses);
        Self { marks, accesses, blocks }
    }

    /// Returns the place before a mark of a batch.
    pub(super) fn before_mark(batch: &Batch, mark: usize) -> Self {
        let Mark { at, blocks, .. } = batch.marks[mark];
        Self { marks: mark, accesses: at as usize, blocks: blocks as usize }
    }
}

/// Instructions of a batch, and the accesses that they hold.
pub(super) struct Segment {
    /// The place of its count among the marks.
    mark: usize,
    pub(super) instructions: u64,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Returns the segments of a batch, in order: each reaches to the next one.
pub(super) fn segments(batch: &Batch) -> impl Iterator<Item = Segment> {
    let counts = batch.marks.iter().enumerate().filter_map(|(mark, Mark { at, event, .. })| match event {
        Event::Instructions(count) => Some((mark, *at as usize, *count)),
        _ => None,
    });
    let ends = counts.clone().map(|(_, at, _)| at).skip(1).chain(std::iter::once(batch.accesses.len()));
    counts.zip(ends).map(|((mark, start, instructions), end)| Segment { mark, instructions, start, end })
}

/// Returns the share of a whole that `part` of `all` has.
pub(super) fn share(whole: u64, part: usize, all: usize) -> u64 {
    (u128::from(whole) * part as u128 / (all as u128).max(1)) as u64
}

/// Cuts a batch at a place, and returns what lies behind it. Instructions whose accesses are on both sides are divided in
/// proportion.
pub(super) fn split_off(batch: &mut Batch, place: Place) -> Batch {
    let is_divided = |part: &Segment| part.mark < place.marks && place.accesses < part.end;
    let divided = segments(batch).find(is_divided);
    let mut rest = Batch::new();
    if let Some(Segment { mark, instructions, start, end }) = divided {
        let before = share(instructions, place.accesses - start, end - start);
        batch.marks[mark].event = Event::Instructions(before);
        rest.mark(Event::Instructions(instructions - before));
    }
    let (accesses, blocks) = (place.accesses as u32, place.blocks as u32);
    rest.accesses.extend(batch.accesses.drain(place.accesses..));
    let behind = batch.blocks.drain(place.blocks..);
    rest.blocks.extend(behind.map(|block| Executed { at: block.at - accesses, ..block }));
    let behind = batch.marks.drain(place.marks..);
    rest.marks.extend(behind.map(|Mark { at, blocks: before, event }| Mark {
        at: at - accesses,
        blocks: before - blocks,
        event,
    }));
    rest
}

/// Cuts a batch to `most` accesses; instructions whose accesses are cut are divided in proportion.
pub fn truncate(batch: &mut Batch, most: u64) {
    if batch.accesses.len() as u64 > most {
        let place = Place::before_access(batch, most as usize);
        split_off(batch, place);
    }
}

/// Accesses that are looked at together for a first glance.
const LOOKED_AT: usize = 8;
/// The bytes of an access at most.
const MOST_BYTES: u64 = 128;

fn crosses(access: Access) -> bool {
    (access.addr().0 & (PAGE_BYTES - 1)) + access.bytes() > PAGE_BYTES
}

/// Returns whether all records are accesses to one page.
#[inline]
fn are_whole(accesses: &[Access]) -> bool {
    // For all together, without a branch: few begin where an access may cross the end of a page, and only a record that stands for no
    // access, 0, borrows from the highest bit.
    let (mut last_bytes, mut below) = (0, 0);
    for access in accesses {
        last_bytes |= (access.0 & (PAGE_BYTES - 1)) + (MOST_BYTES - 1);
        below |= access.0.wrapping_sub(1);
    }
    let is_doubtful = last_bytes & PAGE_BYTES != 0 || below >> 63 != 0;
    !is_doubtful || accesses.iter().all(|&access| access.is_some() && !crosses(access))
}

/// Makes every access touch one page: one that crosses a page boundary becomes two, the second as a continued one, and records that stand for
/// no access disappear.
pub(super) fn split_crossings(batch: &mut Batch) {
    let (groups, rest) = batch.accesses.as_chunks::<LOOKED_AT>();
    if groups.iter().all(|accesses| are_whole(accesses)) && are_whole(rest) {
        return;
    }
    let before = std::mem::take(&mut batch.accesses);
    let (mut marks, mut blocks) = (batch.marks.iter_mut().peekable(), batch.blocks.iter_mut().peekable());
    for (number, &access) in before.iter().enumerate() {
        let place = batch.accesses.len() as u32;
        while let Some(mark) = marks.next_if(|mark| mark.at as usize <= number) {
            mark.at = place;
        }
        while let Some(block) = blocks.next_if(|block| block.at as usize <= number) {
            block.at = place;
        }
        if crosses(access) {
            let (addr, write) = (access.addr(), access.is_write());
            let second = VirtAddr((addr.0 | (PAGE_BYTES - 1)) + 1);
            let first_bytes = second.0 - addr.0;
            batch.accesses.push(Access::new(addr, first_bytes as u32, write).within_page());
            let rest = Access::new(second, (access.bytes() - first_bytes) as u32, write);
            batch.accesses.push(rest.continued());
        } else if access.is_some() {
            batch.accesses.push(access);
        }
    }
    let end = batch.accesses.len() as u32;
    marks.for_each(|mark| mark.at = end);
    blocks.for_each(|block| block.at = end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(batch: &mut Batch, accesses: u64) {
        (0..accesses).for_each(|at| batch.push(Access::load(VirtAddr(0x1000 + at), 1)));
    }

    #[test]
    fn a_crossing_access_becomes_two_and_marks_keep_their_place() {
        let mut batch = Batch::new();
        batch.push(Access::load(VirtAddr(0x1000), 8));
        batch.push(Access::store(VirtAddr(0x1ffd), 8));
        batch.mark(Event::Exec);
        batch.push(Access::NONE);
        batch.mark(Event::ProcessEnd);
        batch.push(Access::load(VirtAddr(0x2ff8), 8));
        batch.mark(Event::Exec);
        split_crossings(&mut batch);
        let parts: Vec<_> = batch.accesses.iter().map(|a| (a.addr().0, a.bytes(), a.is_write())).collect();
        assert_eq!(parts, [(0x1000, 8, false), (0x1ffd, 2, true), (0x2000, 8, true), (0x2ff8, 8, false)]);
        let continued: Vec<_> = batch.accesses.iter().map(|access| access.is_continued()).collect();
        assert_eq!(continued, [false, false, true, false]);
        let marks: Vec<_> = batch.marks.iter().map(|mark| mark.at).collect();
        assert_eq!(marks, [3, 3, 4]);
    }

    #[test]
    fn the_first_glance_misses_no_crossing_access_and_no_missing_one() {
        let filler = Access::load(VirtAddr(0x7fff_ffff_f000), 64);
        for (offset, bytes) in
            (PAGE_BYTES - 130..PAGE_BYTES).flat_map(|at| [1, 2, 8, 64].map(|bytes| (at, bytes)))
        {
            for place in 0..LOOKED_AT {
                let mut accesses = [filler; LOOKED_AT];
                accesses[place] = Access::store(VirtAddr(0x1000 + offset), bytes);
                assert_eq!(are_whole(&accesses), offset + u64::from(bytes) <= PAGE_BYTES, "{offset} {bytes}");
                accesses[place] = Access::NONE;
                assert!(!are_whole(&accesses) && are_whole(&accesses[..place]));
            }
        }
        // Both parts of a batch are looked at.
        for crossing in [0, LOOKED_AT, 2 * LOOKED_AT + 1] {
            let mut batch = Batch::new();
            sweep(&mut batch, 2 * LOOKED_AT as u64 + 2);
            batch.accesses[crossing] = Access::load(VirtAddr(0x1fff), 2);
            split_crossings(&mut batch);
            assert_eq!(batch.accesses.len(), 2 * LOOKED_AT + 3, "{crossing}");
        }
    }

    #[test]
    fn cutting_a_batch_cuts_its_instructions_in_proportion() {
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(1000));
        sweep(&mut batch, 100);
        truncate(&mut batch, 25);
        assert_eq!(batch.accesses.len(), 25);
        assert_eq!(batch.marks, [Mark::at(0, Event::Instructions(250))]);
    }

    /// A cut of the first segment once took the share of all accesses behind its beginning.
    #[test]
    fn a_segment_reaches_to_the_next_one() {
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(100));
        sweep(&mut batch, 50);
        batch.mark(Event::Instructions(900));
        sweep(&mut batch, 50);
        truncate(&mut batch, 25);
        assert_eq!(batch.marks, [Mark::at(0, Event::Instructions(50))]);
    }

    /// The count of instructions stands before the place, and all that it counts behind it.
    #[test]
    fn a_count_goes_with_its_accesses() {
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(7));
        batch.mark(Event::Exec);
        sweep(&mut batch, 3);
        let place = Place::before_mark(&batch, 1);
        let rest = split_off(&mut batch, place);
        assert_eq!(batch.marks, [Mark::at(0, Event::Instructions(0))]);
        assert_eq!(rest.marks, [Event::Instructions(7), Event::Exec].map(|event| Mark::at(0, event)));
    }

    #[test]
    fn the_parts_of_a_batch_have_all_of_it() {
        let mut batch = Batch::new();
        batch.mark(Event::Instructions(1001));
        sweep(&mut batch, 10);
        batch.mark(Event::Exec);
        sweep(&mut batch, 90);
        batch.mark(Event::ProcessEnd);
        for accesses in 0..=100 {
            let mut first = batch.clone();
            let place = Place::before_access(&first, accesses);
            let rest = split_off(&mut first, place);
            assert_eq!((first.accesses.len(), rest.accesses.len()), (accesses, 100 - accesses));
            let instructions = |batch: &Batch| segments(batch).map(|part| part.instructions).sum::<u64>();
            assert_eq!(instructions(&first) + instructions(&rest), 1001);
            let others = |batch: &Batch, before: usize| -> Vec<(usize, Event)> {
                let marks = batch.marks.iter().filter(|mark| !matches!(mark.event, Event::Instructions(_)));
                marks.map(|mark| (mark.at as usize + before, mark.event.clone())).collect()
            };
            let parts = [others(&first, 0), others(&rest, accesses)].concat();
            assert_eq!(parts, [(10, Event::Exec), (100, Event::ProcessEnd)]);
        }
    }
}
