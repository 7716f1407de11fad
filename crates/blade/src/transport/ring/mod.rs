//! Messages through a file that two processes of one machine have mapped: one blade and one client.
//!
//! ```text
//!  0          4096                       4096 + 128 * 1472           4096 + 256 * 1472
//! +----------+--------------------------+---------------------------+
//! | control  | 128 slots of requests    | 128 slots of responses    |      slot: length 8, datagram 1424, unused 40
//! +----------+--------------------------+---------------------------+
//!
//!  control, in words of 4 bytes:  0 magic, 1 version;  requests: 16 written, 32 read, 48 sleeping;  responses: 64, 80, 96
//! ```
//!
//! `written` and `read` count messages modulo 2^32; each has one writer. Whoever finds nothing looks again for a while, then
//! sets `sleeping` and waits for `written` to change (a futex).
//!
//! The other process may write anything anywhere at any time. Each side therefore keeps its own counts for itself and only
//! publishes them, reads shared words once, and checks what it read. What it cannot defend against is that the file is cut
//! short, which ends both processes with SIGBUS: the file is readable and writable by its owner alone.

mod memory;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use super::{MAX_DATAGRAM_BYTES, Transport};
use crate::address::Address;
use memory::Memory;

/// "PWRB".
const MAGIC: u32 = 0x4252_5750;
const VERSION: u32 = 1;
const CONTROL_BYTES: usize = 4096;
const SLOTS: u32 = 128;
const SLOT_BYTES: usize = 1472;
const SLOT_WORDS: usize = SLOT_BYTES / 8;
const RING_BYTES: usize = SLOTS as usize * SLOT_BYTES;
const FILE_BYTES: usize = CONTROL_BYTES + 2 * RING_BYTES;
/// How often to look before sleeping, at most: some microseconds, about what sleeping and waking cost.
const MOST_LOOKS: u32 = 500;
/// Looking is in vain where the other end needs this processor to answer. It is given up by halves, and every so many sleeps
/// tried again in full.
const TRY_AGAIN: u32 = 16;

/// One end of a pair of rings.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    /// Which ring it writes: a client requests, a blade responses.
    out: Direction,
    /// Messages that this end has written, and read.
    written: u32,
    read: u32,
    /// How often to look before sleeping.
    looks: u32,
    sleeps: u32,
    dropped: u64,
    /// Kept open for its lock, and to recognise it.
    file: File,
    /// A blade's, to be removed at the end.
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Requests,
    Responses,
}

impl Ring {
    /// Where the other end is, for both: there is only one.
    pub const PEER: Address = Address::Local(0);

    /// For a blade: makes the file, in place of one that an earlier blade left, and removes it in the end.
    pub fn listen(path: &Path) -> io::Result<Self> {
        if path.try_exists()? {
            check(&File::open(path)?)?;
        }
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.as_file().set_len(FILE_BYTES as u64)?;
        temporary.as_file().write_all_at(&header(), 0)?;
        let file = temporary.persist(path)?;
        let memory = Memory::map(&file, FILE_BYTES)?;
        let path = Some(path.to_owned());
        Ok(Self {
            memory,
            out: Direction::Responses,
            written: 0,
            read: 0,
            looks: MOST_LOOKS,
            sleeps: 0,
            dropped: 0,
            file,
            path,
        })
    }

    /// For the client of the blade that listens there. There can be only one.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        check(&file)?;
        file.try_lock().map_err(|_| io::Error::new(ErrorKind::AddrInUse, "another client uses this ring"))?;
        let memory = Memory::map(&file, FILE_BYTES)?;
        let (out, looks) = (Direction::Requests, MOST_LOOKS);
        let mut ring =
            Self { memory, out, written: 0, read: 0, looks, sleeps: 0, dropped: 0, file, path: None };
        // An earlier client may have left requests and answers.
        ring.written = ring.word(Direction::Requests, Word::Written).load(Ordering::Acquire);
        ring.read = ring.word(Direction::Responses, Word::Written).load(Ordering::Acquire);
        ring.publish_read();
        Ok(ring)
    }

    fn word(&self, ring: Direction, word: Word) -> &AtomicU32 {
        &self.memory.control()[16 + 48 * ring as usize + word as usize]
    }

    fn slot(&self, ring: Direction, number: u32) -> &[AtomicU64] {
        let at = ring as usize * RING_BYTES / 8 + (number % SLOTS) as usize * SLOT_WORDS;
        &self.memory.slots()[at..at + SLOT_WORDS]
    }

    fn incoming(&self) -> Direction {
        match self.out {
            Direction::Requests => Direction::Responses,
            Direction::Responses => Direction::Requests,
        }
    }

    fn publish_read(&self) {
        self.word(self.incoming(), Word::Read).store(self.read, Ordering::Release);
    }

    /// A message, if there is one.
    fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let ring = self.incoming();
        let waiting = self.word(ring, Word::Written).load(Ordering::Acquire).wrapping_sub(self.read);
        if waiting == 0 {
            return None;
        }
        if waiting > SLOTS {
            // No honest peer does that: begin again where it claims to be.
            self.read = self.read.wrapping_add(waiting);
            self.dropped += 1;
            self.publish_read();
            return None;
        }
        let slot = self.slot(ring, self.read);
        let bytes = usize::try_from(slot[0].load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let taken = (bytes <= MAX_DATAGRAM_BYTES).then(|| {
            let bytes = bytes.min(buffer.len());
            for (chunk, word) in buffer[..bytes].chunks_mut(8).zip(&slot[1..]) {
                chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..chunk.len()]);
            }
            bytes
        });
        self.read = self.read.wrapping_add(1);
        self.publish_read();
        self.dropped += u64::from(taken.is_none());
        taken
    }

    /// Sleeps until something may have been written, or the end.
    fn sleep(&self, end: Instant) {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(left) = rustix::time::Timespec::try_from(left) else { return };
        let ring = self.incoming();
        let (written, sleeping) = (self.word(ring, Word::Written), self.word(ring, Word::Sleeping));
        sleeping.store(1, Ordering::SeqCst);
        if written.load(Ordering::SeqCst) == self.read {
            // Woken, out of time, too late or interrupted: all the same, the caller looks again.
            let _ = futex::wait(written, futex::Flags::empty(), self.read, Some(&left));
        }
        sleeping.store(0, Ordering::SeqCst);
    }
}

/// The words of a ring's control block, each in a cache line of its own.
#[derive(Clone, Copy)]
enum Word {
    Written = 0,
    Read = 16,
    Sleeping = 32,
}

impl Transport for Ring {
    fn send(&mut self, _to: Address, message: &[u8]) -> io::Result<()> {
        if message.len() > MAX_DATAGRAM_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidInput, "longer than a message can be"));
        }
        let unread = self.written.wrapping_sub(self.word(self.out, Word::Read).load(Ordering::Acquire));
        if unread >= SLOTS {
            return Err(io::Error::new(ErrorKind::WouldBlock, "the ring is full"));
        }
        let slot = self.slot(self.out, self.written);
        for (chunk, word) in message.chunks(8).zip(&slot[1..]) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        slot[0].store(message.len() as u64, Ordering::Relaxed);
        self.written = self.written.wrapping_add(1);
        let written = self.word(self.out, Word::Written);
        written.store(self.written, Ordering::SeqCst);
        if self.word(self.out, Word::Sleeping).load(Ordering::SeqCst) != 0 {
            futex::wake(written, futex::Flags::empty(), 1)?;
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        if let Some(bytes) = self.take(buffer) {
            return Ok(Some((bytes, Self::PEER)));
        }
        if patience.is_zero() {
            return Ok(None);
        }
        for _ in 0..self.looks {
            std::hint::spin_loop();
            if let Some(bytes) = self.take(buffer) {
                self.looks = MOST_LOOKS;
                return Ok(Some((bytes, Self::PEER)));
            }
        }
        self.sleep(Instant::now() + patience);
        self.sleeps = self.sleeps.wrapping_add(1);
        self.looks = if self.sleeps.is_multiple_of(TRY_AGAIN) { MOST_LOOKS } else { self.looks / 2 };
        Ok(self.take(buffer).map(|bytes| (bytes, Self::PEER)))
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Drop for Ring {
    /// Removes a blade's file, unless another blade has put its own there. A failure leaves it behind, and harms nobody.
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && let (Ok(own), Ok(there)) = (self.file.metadata(), std::fs::metadata(path))
            && (own.dev(), own.ino()) == (there.dev(), there.ino())
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn header() -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

fn check(file: &File) -> io::Result<()> {
    let wrong = |what| Err(io::Error::new(ErrorKind::InvalidData, what));
    if file.metadata()?.len() != FILE_BYTES as u64 {
        return wrong("it is no ring of a blade; name another file");
    }
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0)?;
    if bytes == header() { Ok(()) } else { wrong("it is no ring of this version; name another file") }
}
