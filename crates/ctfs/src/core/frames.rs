//! Frames of files: which ones a range of a file gets, in as few pieces as there are, and what of them is zeroed.

use std::ops::Range;

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, Level, Partition, PersistentMemory, StoreError, Transaction};
use rustix::io::Errno;

use crate::core::bytes::LARGE_BYTES;
use crate::core::error::{Result, of_store};
use crate::core::inode::{Ino, Inodes, place_words};
use crate::core::usage::PageCounts;

/// Small pages that get their frames at once, so that these lie together: 256 KiB.
const MOST_RUN_ORDER: u32 = 6;
/// Words that mapping a large page or a run of small ones changes at most: of tables, bits and entries.
pub(crate) const WORDS_OF_A_RUN: u64 = 64 + (1 << MOST_RUN_ORDER);

pub(crate) fn set_place<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    mode: u32,
    partition: Option<Partition>,
) -> Result<()> {
    transaction.set_fields(ino, place_words(mode, partition))
}

/// Gives a fresh file a partition for so many bytes, and its frames. They lie behind its end, where no program can read them.
pub(crate) fn give_first_frames<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    mode: u32,
    bytes: u64,
) -> Result<()> {
    let partition = transaction.allocate(Level::of_bytes(bytes).ok_or(Errno::FBIG)?).map_err(of_store)?;
    set_place(transaction, ino, mode, Some(partition))?;
    let mut at = 0;
    while at < bytes {
        at = map_next(transaction, partition, at, (&(0..bytes), &(0..bytes)), bytes).map_err(of_store)?;
    }
    Ok(())
}

/// Maps what lies at a byte of a file, if nothing does; the byte behind it. A large page is for what is written from its
/// beginning on and follows what is mapped, or to half of it at least at the file's end: little that is written here and there takes little.
pub(crate) fn map_next<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    partition: Partition,
    at: u64,
    (wanted, written): (&Range<u64>, &Range<u64>),
    readable: u64,
) -> std::result::Result<u64, StoreError> {
    let page = Vpn(partition.first.0 + at / PAGE_BYTES);
    let chunk = at / LARGE_BYTES * LARGE_BYTES;
    match transaction.find_or_gap(page) {
        Ok(mapped) => {
            let reach = if mapped.large { LARGE_BYTES } else { PAGE_BYTES };
            return Ok((at / reach + 1) * reach);
        }
        Err(gap) if gap >= 1 << LARGE_ORDER && partition.level >= Level::L3 => {
            let covered = wanted.end.min(chunk + LARGE_BYTES) - wanted.start.max(chunk);
            let from_its_beginning = wanted.start <= chunk
                && chunk > 0
                && transaction.find(Vpn(partition.first.0 + chunk / PAGE_BYTES - 1)).is_some();
            // Where bytes behind what is wanted can be read they are a hole, which stays one.
            let is_last = readable <= wanted.end;
            if from_its_beginning || covered == LARGE_BYTES || covered >= LARGE_BYTES / 2 && is_last {
                match transaction.take_frames(LARGE_ORDER) {
                    Ok(frame) => {
                        let first = Vpn(partition.first.0 + chunk / PAGE_BYTES);
                        clear(transaction, frame.addr().0, chunk..chunk + LARGE_BYTES, written, readable);
                        map_or_give(transaction, first, frame, true)?;
                        return Ok(chunk + LARGE_BYTES);
                    }
                    // Frames are scattered: small pages do.
                    Err(StoreError::NoFrames) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(_) => {}
    }
    let start = at / PAGE_BYTES * PAGE_BYTES;
    // The next large page begins with nothing before it.
    let most = (wanted.end.min(chunk + LARGE_BYTES) - start).div_ceil(PAGE_BYTES).min(1 << MOST_RUN_ORDER);
    let is_free = |&number: &u64| transaction.find(Vpn(page.0 + number)).is_none();
    let pages = 1 + (1..most).take_while(is_free).count() as u64;
    let before = Vpn(page.0.wrapping_sub(1));
    let next = transaction.find(before).filter(|_| page > partition.first).map(|mapped| mapped.frame.add(1));
    let (frame, order) = take_run(transaction, next, pages.ilog2().min(MOST_RUN_ORDER))?;
    let run = start..start + (PAGE_BYTES << order);
    clear(transaction, frame.addr().0, run.clone(), written, readable);
    for number in 0..1 << order {
        if let Err(error) = map_or_give(transaction, Vpn(page.0 + number), frame.add(number), false) {
            // The rest of the run.
            transaction.give_frames(frame.add(number + 1), (1 << order) - number - 1);
            return if number == 0 { Err(error) } else { Ok(start + number * PAGE_BYTES) };
        }
    }
    Ok(run.end)
}

/// Takes frames in one piece, no more than so many and at least one, where the file's last ones end if that can be.
fn take_run<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    next: Option<Pfn>,
    most: u32,
) -> std::result::Result<(Pfn, u32), StoreError> {
    for order in (0..=most).rev() {
        if let Some(next) = next.filter(|&next| transaction.take_frames_at(next, order)) {
            return Ok((next, order));
        }
        match transaction.take_frames(order) {
            Err(StoreError::NoFrames) if order > 0 => {}
            taken => return taken.map(|frame| (frame, order)),
        }
    }
    Err(StoreError::NoFrames)
}

/// Maps a frame, or gives it back if it cannot be mapped, as the rest of the transaction is good.
fn map_or_give<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    page: Vpn,
    frame: Pfn,
    large: bool,
) -> std::result::Result<(), StoreError> {
    let mapped = transaction.map(page, frame, large);
    if mapped.is_err() {
        transaction.give_frames(frame, if large { 1 << LARGE_ORDER } else { 1 });
    }
    mapped
}

/// Zeroes what can be read of fresh frames and is not written.
fn clear<M: PersistentMemory>(
    transaction: &Transaction<'_, M>,
    place: u64,
    bytes: Range<u64>,
    written: &Range<u64>,
    readable: u64,
) {
    let end = bytes.end.min(readable);
    let before = bytes.start..written.start.clamp(bytes.start, end.max(bytes.start));
    let behind = written.end.clamp(bytes.start, end.max(bytes.start))..end;
    for range in [before, behind] {
        if range.start < range.end {
            let at = place + (range.start - bytes.start);
            transaction.memory().zero(at, range.end - range.start);
            transaction.memory().flush(at, range.end - range.start);
        }
    }
}

/// Commits what a transaction changed of a file's pages, if anything, and keeps the count of its pages true.
pub(crate) fn commit_pages<M: PersistentMemory>(
    transaction: Transaction<'_, M>,
    counts: &mut PageCounts,
    ino: Ino,
) -> Result<()> {
    let net_pages = transaction.net_pages();
    if transaction.changed() > 0 {
        transaction.commit().map_err(of_store)?;
    }
    counts.add(ino, net_pages);
    Ok(())
}
