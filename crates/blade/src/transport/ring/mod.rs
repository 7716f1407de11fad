//! Messages through a file that two processes of one machine have mapped: one blade and one client.
//!
//! ```text
//!  0          4096                       4096 + 128 * 1472           4096 + 256 * 1472
//! +----------+--------------------------+---------------------------+
//! | control  | 128 slots of requests    | 128 slots of responses    |      slot: length 8, datagram 1424, unused 40
//! +----------+--------------------------+---------------------------+
//!
//!  control, in words of 4 bytes:  0 magic, 1 version;  requests: 16 written, 32 read, 48 sleeping, 64 processor;
//!                                 responses: 80, 96, 112, 128
//! ```
//!
//! `written` and `read` count messages modulo 2^32; each has one writer. A reader that finds nothing looks again for a while, then
//! sets `sleeping` and waits for `written` to change (a futex). A writer wakes the other, once for all that it has
//! sent when it waits itself.
//!
//! How long to look decides how long a round trip takes. To sleep and be woken costs up to 50 us, and as much again at the other
//! end, which sleeps meanwhile: ends that sleep too soon never stop sleeping. So an end that did not wait long the last time looks
//! for longer than that takes. Only where both ends are on one processor the other cannot answer while this one looks: the
//! reader of each ring leaves there, in `processor`, on which it waits (and one more, 0 is unknown).
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
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use super::{MAX_DATAGRAM_BYTES, Transport};
use crate::address::Address;
use crate::temporary;
use memory::Memory;

/// "PWRB".
const MAGIC: u32 = 0x4252_5750;
const VERSION: u32 = 2;
const CONTROL_BYTES: usize = 4096;
const SLOTS: u32 = 128;
const SLOT_BYTES: usize = 1472;
const SLOT_WORDS: usize = SLOT_BYTES / 8;
const RING_BYTES: usize = SLOTS as usize * SLOT_BYTES;
const FILE_BYTES: usize = CONTROL_BYTES + 2 * RING_BYTES;
/// How long to look before sleeping: longer than it takes that both ends are woken.
const LONG: Duration = Duration::from_micros(200);
/// The same, where the last wait was longer than that: then there is no hurry.
const SHORT: Duration = Duration::from_micros(10);
/// Looks between two at the clock.
const LOOKS: u32 = 16;

/// One end of a pair of rings.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    /// Which ring it writes: a client requests, a blade responses.
    out: Direction,
    /// Messages that this end has written, and read.
    written: u32,
    read: u32,
    /// Whether something was written that the other end may sleep through.
    unheard: bool,
    /// Where this end waited, as the other end knows.
    processor: u32,
    /// How long to look before sleeping: `LONG` or `SHORT`.
    look: Duration,
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
    /// The address of the other end, for both ends: there is only one.
    pub const PEER: Address = Address::Local(0);

    /// Opens a ring for a blade: makes the file, in place of one that an earlier blade left, and removes it in the
    /// end.
    pub fn listen(path: &Path) -> io::Result<Self> {
        if path.try_exists()? {
            check(&File::open(path)?)?;
        }
        let temporary = temporary::beside(path)?;
        temporary.as_file().set_len(FILE_BYTES as u64)?;
        temporary.as_file().write_all_at(&header(), 0)?;
        let file = temporary.persist(path)?;
        Self::new(file, Direction::Responses, Some(path.to_owned()))
    }

    fn new(file: File, out: Direction, path: Option<PathBuf>) -> io::Result<Self> {
        Ok(Self {
            memory: Memory::map(&file, FILE_BYTES)?,
            out,
            written: 0,
            read: 0,
            unheard: false,
            processor: 0,
            look: LONG,
            dropped: 0,
            file,
            path,
        })
    }

    /// Opens a ring for a client of the blade that listens there. There can be only one.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        check(&file)?;
        file.try_lock().map_err(|_| io::Error::new(ErrorKind::AddrInUse, "another client uses this ring"))?;
        let mut ring = Self::new(file, Direction::Requests, None)?;
        // An earlier client may have left requests and answers.
        ring.written = ring.word(Direction::Requests, Word::Written).load(Ordering::Acquire);
        ring.read = ring.word(Direction::Responses, Word::Written).load(Ordering::Acquire);
        ring.publish_read();
        Ok(ring)
    }

    fn word(&self, ring: Direction, word: Word) -> &AtomicU32 {
        &self.memory.control()[16 + 64 * ring as usize + word as usize]
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

    /// Whether the other end may answer while this one looks.
    fn is_apart(&mut self) -> bool {
        let own = rustix::thread::sched_getcpu() as u32 + 1;
        if own != self.processor {
            self.processor = own;
            self.word(self.incoming(), Word::Processor).store(own, Ordering::Relaxed);
        }
        own != self.word(self.out, Word::Processor).load(Ordering::Relaxed)
    }

    /// Looks for a message, for a while.
    fn look(&mut self, buffer: &mut [u8], begun: Instant, patience: Duration) -> Option<usize> {
        while self.is_apart() {
            for _ in 0..LOOKS {
                std::hint::spin_loop();
                if let Some(bytes) = self.take(buffer) {
                    return Some(bytes);
                }
            }
            if begun.elapsed() >= self.look.min(patience) {
                break;
            }
        }
        None
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
    Processor = 48,
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
        self.word(self.out, Word::Written).store(self.written, Ordering::Release);
        self.unheard = true;
        Ok(())
    }

    fn flush(&mut self) {
        if !std::mem::take(&mut self.unheard) {
            return;
        }
        // Either the other end sees what was written before it sleeps, or this one sees that it sleeps.
        fence(Ordering::SeqCst);
        let sleeping = self.word(self.out, Word::Sleeping);
        if sleeping.load(Ordering::Relaxed) != 0 && sleeping.swap(0, Ordering::Relaxed) != 0 {
            // It can only fail where there is no futex, and then no end waits for one.
            let _ = futex::wake(self.word(self.out, Word::Written), futex::Flags::empty(), 1);
        }
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        self.flush();
        if let Some(bytes) = self.take(buffer) {
            return Ok(Some((bytes, Self::PEER)));
        }
        if patience.is_zero() {
            return Ok(None);
        }
        let begun = Instant::now();
        let mut taken = self.look(buffer, begun, patience);
        if taken.is_none() {
            self.sleep(begun + patience);
            taken = self.take(buffer);
        }
        self.look = if taken.is_some() && begun.elapsed() < LONG { LONG } else { SHORT };
        Ok(taken.map(|bytes| (bytes, Self::PEER)))
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Drop for Ring {
    /// Removes a blade's file, unless another blade has put its own there. A failure leaves the file behind, which
    /// does no harm.
    fn drop(&mut self) {
        self.flush();
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
