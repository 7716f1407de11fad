//! Room on the disk for a store's file, got when frames get a use.
//!
//! A file may be as long as the store and have fewer blocks than that: one made so (`mkfs --sparse`), or a copy without its zeroes
//! (`cp --sparse`, `rsync --sparse`). A store to a page without a block would find out that the disk is full by a fault. So blocks are asked
//! for before a frame gets its first use, where a full disk is an ordinary answer, `ENOSPC`.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, retry_on_intr};

/// What is asked for at once, if the disk has that: a file has its blocks in few pieces then.
const PIECE_BYTES: u64 = 2 << 20;

/// Which pieces of a file are known to have all their blocks.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: u64,
    pieces: Box<[AtomicU64]>,
}

impl Room {
    /// Nothing is known to be there.
    pub(crate) fn unknown(bytes: u64) -> Self {
        let words = bytes.div_ceil(PIECE_BYTES).div_ceil(64);
        Self { bytes, pieces: std::iter::repeat_with(AtomicU64::default).take(words as usize).collect() }
    }

    /// What a file that is opened has. Of a file in memory the kernel knows how many pages there are; on a disk its count has the file
    /// system's own blocks among it, and asking again costs little.
    pub(crate) fn of_file(file: &File, bytes: u64, is_in_memory: bool) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let room = Self::unknown(bytes);
        if is_in_memory && metadata.blocks() * 512 >= metadata.len() {
            room.note(0..bytes.div_ceil(PIECE_BYTES));
        }
        Ok(room)
    }

    /// Gets all of it for a file, which has zeroes then, and so many bytes.
    ///
    /// # Errors
    ///
    /// `StorageFull`: the disk has less room than that, even without what the file has now, and the file is as it was; and others.
    pub(crate) fn get_all(file: &File, bytes: u64) -> io::Result<Self> {
        refuse_beyond(most(file), bytes)?;
        file.set_len(0)?;
        lengthen(file, 0, bytes)?;
        let room = Self::unknown(bytes);
        room.note(0..bytes.div_ceil(PIECE_BYTES));
        Ok(room)
    }

    /// Gets room for a range; whether there is some.
    pub(crate) fn get(&self, file: &File, at: u64, bytes: u64) -> bool {
        let (first, end) = (at / PIECE_BYTES, (at + bytes).div_ceil(PIECE_BYTES));
        let Some(first) = (first..end).find(|&piece| !self.has(piece)) else { return true };
        let end = 1 + (first..end).rfind(|&piece| !self.has(piece)).unwrap_or(first);
        let (start, stop) = (first * PIECE_BYTES, (end * PIECE_BYTES).min(self.bytes));
        // What is asked for in vain may be given in part, which fills the disk.
        if stop - start > PIECE_BYTES && stop - start > most(file) {
            return false;
        }
        if allocate(file, start, stop - start) {
            self.note(first..end);
            return true;
        }
        // The last blocks of a disk.
        allocate(file, at, bytes.min(self.bytes.saturating_sub(at)))
    }

    /// Bytes that are not known to have their blocks.
    pub(crate) fn missing(&self) -> u64 {
        let known: u64 =
            self.pieces.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum();
        self.bytes.saturating_sub(known * PIECE_BYTES)
    }

    fn has(&self, piece: u64) -> bool {
        self.pieces[piece as usize / 64].load(Ordering::Relaxed) >> (piece % 64) & 1 != 0
    }

    fn note(&self, pieces: std::ops::Range<u64>) {
        for piece in pieces {
            self.pieces[piece as usize / 64].fetch_or(1 << (piece % 64), Ordering::Relaxed);
        }
    }
}

/// Makes a file of `length` bytes longer, with blocks for all that it gains. The kernel would give what it has before it says that there is
/// too little, and other programs would find a full disk meanwhile: so the disk is asked first.
///
/// # Errors
///
/// `StorageFull`: the disk has too little room; and others. The file is as it was.
pub(crate) fn lengthen(file: &File, length: u64, wanted: u64) -> io::Result<()> {
    let more = wanted - length;
    refuse_beyond(free(file), more)?;
    let got = retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), length, more));
    got.map_err(|error| {
        // The file keeps nothing of what the disk still had. Of two errors the first is the reason.
        let _ = file.set_len(length);
        error.into()
    })
}

fn refuse_beyond(room: u64, wanted: u64) -> io::Result<()> {
    if wanted <= room {
        return Ok(());
    }
    let message = format!("No space left on the disk: {wanted} bytes are needed, {room} are free");
    Err(io::Error::new(io::ErrorKind::StorageFull, message))
}

/// Bytes that a range of the file can have at most: its blocks, and those that are free.
fn most(file: &File) -> u64 {
    let used = file.metadata().map_or(u64::MAX, |metadata| metadata.blocks() * 512);
    used.saturating_add(free(file))
}

/// Bytes that are free for any user. A file system without a limit of its own (`mount -t tmpfs -o size=0`), and one that does not tell its
/// size, say that they have no blocks at all.
fn free(file: &File) -> u64 {
    match rustix::fs::fstatvfs(file) {
        Ok(disk) if disk.f_blocks != 0 => disk.f_bavail.saturating_mul(disk.f_frsize),
        _ => u64::MAX,
    }
}

/// Gives a range of the file blocks that hold zeroes, where the range has none. A file that was cut meanwhile stays cut. Where the file
/// system cannot say, writes find out.
fn allocate(file: &File, at: u64, bytes: u64) -> bool {
    let got = retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, at, bytes));
    matches!(got, Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS))
}
