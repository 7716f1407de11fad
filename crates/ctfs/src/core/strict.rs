//! Overwriting so that a crash leaves all old bytes or all new ones, as the article's strict mode does.
//!
//! Little goes through the log, and so is written twice. More is written to a partition beside the file's, at the same place in it,
//! and the pages swap theirs: then only entries of the page table are written twice.

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{LARGE_ORDER, Partition, PersistentMemory, Transaction};
use rustix::io::Errno;

use crate::core::bytes::{self, LARGE_BYTES};
use crate::core::error::{Result, of_store};
use crate::core::inode::{Field, Ino, Inodes};
use crate::core::system::FileSystem;

/// From so many bytes on pages are swapped. Measured in /dev/shm, medians of six runs of 121 writes each: a page takes 1.6 us through
/// the log and 4.8 us to swap (1.9 and 8.2 where it lies across two), 16 pages 15 and 16, 32 pages 29 and 25. The log copies bytes
/// twice and does little else; a swap has frames, entries and a partition beside.
const SWAPPED_FROM: u64 = 24 * PAGE_BYTES;
/// What goes through the log at most, where there are no frames to swap with.
const MOST_LOGGED: u64 = 64 * PAGE_BYTES;
/// The number of bytes that are overwritten at once at most: their pages' entries must fit into the log.
pub const MOST_WHOLE_BYTES: u64 = 16 << 20;

/// Writes where a file has bytes, and behind them. All of the range has frames.
pub(crate) fn overwrite<M: PersistentMemory>(
    system: &mut FileSystem<M>,
    ino: Ino,
    offset: u64,
    data: &[u8],
) -> Result<usize> {
    let inode = system.inode(ino)?;
    let (size, partition) = (inode.size(), inode.partition().ok_or(Errno::IO)?);
    let data = &data[..data.len().min(MOST_WHOLE_BYTES as usize)];
    let end = offset + data.len() as u64;
    // No program sees what lies behind the end before the size says so.
    let old = &data[..(end.min(size) - offset) as usize];
    let memory = system.store.memory();
    if !bytes::put(memory, partition, offset + old.len() as u64, &data[old.len()..], true) {
        return Err(Errno::IO);
    }
    let now = system.now();
    let mut places = Vec::new();
    bytes::runs(memory, partition, offset..offset + old.len() as u64, |range, place| {
        places.push((range, place))
    });
    let fields = [(Field::Modified, now), (Field::Changed, now), (Field::Size, size.max(end))];
    let length = old.len() as u64;
    if length >= SWAPPED_FROM {
        let mut transaction = system.store.begin();
        match swap_bytes(&mut transaction, partition, offset, old) {
            Ok(()) => {
                set_fields(&mut transaction, ino, &fields)?;
                transaction.commit().map_err(of_store)?;
                return Ok(data.len());
            }
            // A full store can still be overwritten, little at a time.
            Err(Errno::NOSPC) if length <= MOST_LOGGED => {}
            Err(error) => return Err(error),
        }
    }
    let mut transaction = system.store.begin();
    for (range, place) in places {
        let part = &old[(range.start - offset) as usize..(range.end - offset) as usize];
        transaction.set_bytes(place.ok_or(Errno::IO)?, part);
    }
    set_fields(&mut transaction, ino, &fields)?;
    transaction.commit().map_err(of_store)?;
    Ok(data.len())
}

fn set_fields<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    ino: Ino,
    fields: &[(Field, u64)],
) -> Result<()> {
    fields.iter().try_for_each(|&(field, word)| transaction.set_field(ino, field, word))
}

/// Writes to fresh frames in a partition beside, and swaps the pages that were touched.
fn swap_bytes<M: PersistentMemory>(
    transaction: &mut Transaction<'_, M>,
    partition: Partition,
    offset: u64,
    bytes: &[u8],
) -> Result<()> {
    let end = offset + bytes.len() as u64;
    let (first, last) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
    let beside = transaction.allocate(partition.level).map_err(of_store)?;
    let mut page = first;
    while page < last {
        let chunk = page / (1 << LARGE_ORDER) * (1 << LARGE_ORDER);
        let old = transaction.find(Vpn(partition.first.0 + page)).ok_or(Errno::IO)?;
        // A large page is replaced by one if all of it is written; otherwise it falls apart.
        let is_whole = offset <= chunk * PAGE_BYTES && chunk * PAGE_BYTES + LARGE_BYTES <= end;
        let order = if old.large && is_whole { LARGE_ORDER } else { 0 };
        let taken = match transaction.take_frames(order) {
            Ok(frame) => frame,
            Err(error) => return Err(of_store(error)),
        };
        let place = page * PAGE_BYTES;
        let reach = PAGE_BYTES << order;
        let memory = transaction.memory();
        if place < offset || end < place + reach {
            // What is not written of it stays.
            let mut kept = vec![0; reach as usize];
            memory.read(old.frame.addr().0, &mut kept);
            memory.write(taken.addr().0, &kept);
        }
        let (from, to) = (offset.max(place), end.min(place + reach));
        memory
            .write(taken.addr().0 + (from - place), &bytes[(from - offset) as usize..(to - offset) as usize]);
        memory.flush(taken.addr().0, reach);
        transaction.map(Vpn(beside.first.0 + page), taken, order > 0).map_err(of_store)?;
        page += 1 << order;
    }
    let range = |partition: Partition| (Vpn(partition.first.0 + first), Vpn(partition.first.0 + last));
    let ((old, _), (new, new_end)) = (range(partition), range(beside));
    transaction.swap(old, new, last - first).map_err(of_store)?;
    // What was there goes with the partition beside.
    if transaction.unmap(new, new_end) < new_end {
        return Err(Errno::NOSPC);
    }
    transaction.free_partition(beside).map_err(of_store)
}
