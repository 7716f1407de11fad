//! The bytes of files that stay where they are: what a read and a write do when all that they touch has frames.
//!
//! Nothing here changes the page table, takes a frame or needs the log. The caller keeps three things from happening
//! meanwhile: a transaction, a word of the file's inode that was committed and is still in the log, and a second writer (or a
//! reader beside a writer) of the same file.

use std::ops::Range;

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, Pages, Partition, PersistentMemory};

use crate::core::inode::{Field, INODE_BYTES, partition_of, with_epoch};
use crate::core::types::Place;

/// What a large page holds.
pub(crate) const LARGE_BYTES: u64 = PAGE_BYTES << LARGE_ORDER;

/// A file, by where its inode lies.
#[derive(Debug)]
pub(crate) struct Bytes<'a, M> {
    memory: &'a M,
    inode: u64,
}

impl<M> Clone for Bytes<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Bytes<'_, M> {}

impl<'a, M: PersistentMemory> Bytes<'a, M> {
    pub(crate) fn new(memory: &'a M, inode: u64) -> Self {
        Self { memory, inode }
    }

    #[inline]
    fn word(self, field: Field) -> u64 {
        self.memory.load(self.inode + 8 * field as u64)
    }

    #[inline]
    pub(crate) fn size(self) -> u64 {
        self.word(Field::Size)
    }

    #[inline]
    fn partition(self) -> Option<Partition> {
        partition_of(self.word(Field::Mode), self.word(Field::First))
    }

    /// Reads at an offset, up to the file's end; how much that was.
    #[inline]
    pub(crate) fn read(self, offset: u64, into: &mut [u8]) -> usize {
        let end = self.size().min(offset.saturating_add(into.len() as u64));
        let Some(partition) = self.partition().filter(|_| offset < end) else { return 0 };
        read(self.memory, partition, offset, &mut into[..(end - offset) as usize]);
        (end - offset) as usize
    }

    /// Writes at an offset, if all of it has frames: the bytes persist before the size says that they are there. Otherwise
    /// nothing has changed, or the memory has failed. In a memory that is there to be read nothing is written.
    #[inline]
    pub(crate) fn write(self, offset: u64, data: &[u8], now: u64) -> bool {
        if self.memory.is_read_only() {
            return false;
        }
        let size = self.size();
        let Some(end) = offset.checked_add(data.len() as u64) else { return false };
        let Some(partition) = self.partition().filter(|partition| end <= partition.level.bytes()) else {
            return false;
        };
        if !put(self.memory, partition, offset, data, offset == size) {
            return false;
        }
        if offset > size {
            zero(self.memory, partition, size..offset);
        }
        self.memory.fence();
        // The size must not say that bytes are there which are lost.
        if self.memory.has_failed() {
            return false;
        }
        self.store([(Field::Modified, now), (Field::Changed, now), (Field::Size, size.max(end))]);
        !self.memory.has_failed()
    }

    /// The offset that a place stands for now.
    #[inline]
    pub(crate) fn offset_of(self, place: Place) -> u64 {
        match place {
            Place::At(offset) => offset,
            Place::End => self.size(),
        }
    }

    /// The first step of every write in place: its offset, and whether [`Bytes::write`] may follow. Otherwise frames that the write skips
    /// must be given back first, which reserving frames for the write does; `is_reserved` says that this was done.
    #[inline(always)]
    pub(crate) fn begin_write(self, place: Place, is_reserved: bool) -> (u64, bool) {
        let offset = self.offset_of(place);
        (offset, is_reserved || !self.skips_frames(offset))
    }

    /// Whether a write there would leave a whole page behind the file's end unwritten that has a frame, given ahead: this is to be a hole.
    #[inline]
    fn skips_frames(self, offset: u64) -> bool {
        let first = self.size().div_ceil(PAGE_BYTES);
        // Most writes begin within the file, or at its end.
        if offset / PAGE_BYTES <= first {
            return false;
        }
        let partition = self.partition().filter(|partition| first < partition.level.pages());
        partition.is_some_and(|partition| Pages(self.memory).find(Vpn(partition.first.0 + first)).is_some())
    }

    /// Where whole pages lie, as few pieces as there can be; nothing if some are not there or lie behind the end's.
    pub(crate) fn pieces(self, bytes: Range<u64>) -> Option<Vec<Range<u64>>> {
        let is_there = bytes.start < bytes.end && bytes.end <= self.size().next_multiple_of(PAGE_BYTES);
        let partition = self.partition().filter(|_| is_there)?;
        let mut pieces: Vec<Range<u64>> = Vec::new();
        let mut has_holes = false;
        runs(self.memory, partition, bytes, |range, place| match (place, pieces.last_mut()) {
            (None, _) => has_holes = true,
            (Some(at), Some(last)) if last.end == at => last.end += range.end - range.start,
            (Some(at), _) => pieces.push(at..at + (range.end - range.start)),
        });
        (!has_holes).then_some(pieces)
    }

    /// Stores words of the inode, each by itself. Those that are so already need not persist again: the clock ticks less often than
    /// programs write. All words are stored, or the memory has failed.
    #[inline(always)]
    pub(crate) fn store<const WORDS: usize>(self, words: [(Field, u64); WORDS]) {
        let mut has_changed = false;
        // What a program has set the time to may have an epoch, which the clock's has not.
        let epochs = self.word(Field::Epochs);
        let epochs_now = words.iter().fold(epochs, |epochs, (field, _)| with_epoch(epochs, *field, 0));
        for (field, word) in [(Field::Epochs, epochs_now)].into_iter().chain(words) {
            if self.word(field) != word {
                if let Some(checkpoints) = self.memory.checkpoints() {
                    checkpoints.before_change(self.memory, std::iter::once(self.inode / PAGE_BYTES));
                    if self.memory.has_failed() {
                        return;
                    }
                }
                self.memory.store(self.inode + 8 * field as u64, word);
                has_changed = true;
            }
        }
        if has_changed {
            self.memory.flush(self.inode, INODE_BYTES);
            self.memory.fence();
        }
    }
}

/// The runs of bytes of a partition that lie in one piece, and where; nowhere in holes.
#[inline]
pub(crate) fn runs<M: PersistentMemory>(
    memory: &M,
    partition: Partition,
    bytes: Range<u64>,
    mut visit: impl FnMut(Range<u64>, Option<u64>),
) {
    let end = bytes.end.min(partition.level.bytes());
    let mut at = bytes.start;
    while at < end {
        let page = Vpn(partition.first.0 + at / PAGE_BYTES);
        let (reach, place) = match Pages(memory).find_or_gap(page) {
            Ok(mapped) => {
                let reach = if mapped.large { LARGE_BYTES } else { PAGE_BYTES };
                (reach, Some(mapped.frame.addr().0 + at % PAGE_BYTES))
            }
            Err(pages) => (pages * PAGE_BYTES, None),
        };
        // Of the partition or larger: then it is all of it.
        let to = if reach >= partition.level.bytes() { end } else { (at / reach + 1) * reach };
        let to = to.min(end);
        visit(at..to, place);
        at = to;
    }
}

/// Reads what a partition holds; holes are zero.
#[inline]
pub(crate) fn read<M: PersistentMemory>(memory: &M, partition: Partition, offset: u64, into: &mut [u8]) {
    if !memory.read_mapped(partition.first, offset, into) {
        read_pieces(memory, partition, offset, into);
    }
}

#[inline(never)]
fn read_pieces<M: PersistentMemory>(memory: &M, partition: Partition, offset: u64, into: &mut [u8]) {
    runs(memory, partition, offset..offset + into.len() as u64, |range, place| {
        let part = &mut into[(range.start - offset) as usize..(range.end - offset) as usize];
        match place {
            Some(at) => memory.read(at, part),
            None => part.fill(0),
        }
    });
}

/// Writes, if all bytes have frames; otherwise nothing is written, so that a reader sees no part of it before the caller has got the other
/// frames. A caller that `appends` will write behind it soon.
#[inline]
pub(crate) fn put<M: PersistentMemory>(
    memory: &M,
    partition: Partition,
    offset: u64,
    data: &[u8],
    appends: bool,
) -> bool {
    memory.write_mapped(partition.first, offset, data) || put_pieces(memory, partition, offset, data, appends)
}

#[inline(never)]
fn put_pieces<M: PersistentMemory>(
    memory: &M,
    partition: Partition,
    offset: u64,
    data: &[u8],
    appends: bool,
) -> bool {
    let bytes = offset..offset + data.len() as u64;
    let (mut has_frames, mut pieces, mut last) = (true, 0, 0);
    runs(memory, partition, bytes.clone(), |_, place| match place {
        Some(at) => (pieces, last) = (pieces + 1, at),
        None => has_frames = false,
    });
    if !has_frames {
        return false;
    }
    let write = |at: u64, part: &[u8]| {
        if appends {
            memory.append(at, part);
        } else {
            memory.write(at, part);
        }
        memory.flush(at, part.len() as u64);
    };
    if pieces == 1 {
        write(last, data);
        return true;
    }
    runs(memory, partition, bytes, |range, place| {
        // All have frames, unless the page of a table has gone missing meanwhile, which the caller looks at.
        if let Some(at) = place {
            write(at, &data[(range.start - offset) as usize..(range.end - offset) as usize]);
        }
    });
    true
}

/// Zeroes what has frames.
#[inline(never)]
pub(crate) fn zero<M: PersistentMemory>(memory: &M, partition: Partition, bytes: Range<u64>) {
    runs(memory, partition, bytes, |range, place| {
        if let Some(at) = place {
            memory.zero(at, range.end - range.start);
            memory.flush(at, range.end - range.start);
        }
    });
}
