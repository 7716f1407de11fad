//! Files' bytes in a program's own memory, beside the owner: the frames themselves, where the kernel finds them.
//!
//! The owner keeps a mapped file's frames in their places, as long as the program does not say that it needs them no more and
//! a process has the connection that they were asked for by.

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::SendFlags;

use crate::client::connection::{LeaseClient, Movable, Welcomed, connect};
use crate::core::error::Result;
use crate::memory::medium::is_in_memory;
use crate::protocol::messages;

/// Pieces of memory that one mapping consists of at most: a process has some ten thousand.
const MOST_PIECES: usize = 512;

/// Mappings up to this many bytes of memory are there at once: that takes less time than the faults of a program that reads most of them.
const MOST_AT_ONCE: usize = 4 << 20;

/// A connection that keeps the frames of mapped files.
#[derive(Debug)]
pub struct Keeper {
    number: usize,
    serial: u64,
    stream: Movable,
    /// Opened to read: what is mapped of it the program cannot make writable.
    store: Movable,
    /// Its pages need not be read from a disk.
    is_in_memory: bool,
}

/// A mapped file, and where.
#[derive(Debug)]
pub struct MappedFile {
    /// The number of the pin that holds the frames.
    pub pin: u64,
    /// The address of the first byte.
    pub start: *mut c_void,
    /// Pieces that it consists of.
    pub pieces: usize,
}

impl Keeper {
    /// Connects to the owner of the store that an open file lies in.
    ///
    /// # Errors
    ///
    /// As [`LeaseClient::connect`].
    pub fn connect(file: BorrowedFd<'_>) -> io::Result<Self> {
        let stream = connect(file, messages::Role::Keeper)?;
        let Welcomed { number, serial, store, .. } = Welcomed::by(&stream)?;
        let is_in_memory = is_in_memory(store.as_fd())?;
        Ok(Self { number, serial, stream: Movable::new(stream), store: Movable::new(store), is_in_memory })
    }

    /// Returns the descriptors that must stay open: the first as long as anything is mapped, in this process and in children; the second to
    /// map more.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.stream.number(), self.store.number()]
    }

    /// Records that the program has moved a descriptor to another number.
    pub fn descriptor_is_now(&self, old: RawFd, new: RawFd) {
        for stream in [&self.stream, &self.store] {
            if stream.number() == old {
                stream.is_now(new);
            }
        }
    }

    /// Maps whole pages of a file that the kernel lets this process read, to read them or, not shared, to change a copy.
    ///
    /// # Errors
    ///
    /// Another program may change it in ways that would not be seen, not all of the pages are there, they lie in too many pieces, or
    /// there is no address for them.
    pub fn map(
        &self,
        client: &LeaseClient,
        file: BorrowedFd<'_>,
        bytes: Range<u64>,
        (protection, how): (ProtFlags, MapFlags),
    ) -> Result<MappedFile> {
        let [pin, inode, ..] =
            messages::send(file, messages::PIN, [self.number as u64, self.serial, client.serial(), 0])?;
        let mapped = client
            .pieces(inode, bytes)
            .filter(|pieces| (1..=MOST_PIECES).contains(&pieces.len()))
            .ok_or(Errno::NODEV)
            .and_then(|pieces| Ok((self.map_pieces(&pieces, protection, how)?, pieces.len())));
        match mapped {
            Ok((start, pieces)) => Ok(MappedFile { pin, start, pieces }),
            Err(error) => {
                self.unpin(pin);
                Err(error)
            }
        }
    }

    #[allow(unsafe_code)]
    fn map_pieces(&self, pieces: &[Range<u64>], protection: ProtFlags, how: MapFlags) -> Result<*mut c_void> {
        let length = |piece: &Range<u64>| (piece.end - piece.start) as usize;
        let room = pieces.iter().map(length).sum();
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe {
            let kept = MapFlags::PRIVATE | MapFlags::NORESERVE;
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::empty(), kept)?
        };
        // Copies that are to be changed are made when they are.
        let how = match self.is_in_memory && room <= MOST_AT_ONCE && !protection.contains(ProtFlags::WRITE) {
            true => how | MapFlags::POPULATE,
            false => how,
        };
        let mut at = start;
        for piece in pieces {
            // SAFETY: this replaces a part of what was just mapped, which no other thread knows of.
            let mapped = unsafe {
                rustix::mm::mmap(
                    at,
                    length(piece),
                    protection,
                    how | MapFlags::FIXED,
                    self.store.get(),
                    piece.start,
                )
            };
            if let Err(error) = mapped {
                // SAFETY: as above.
                let _ = unsafe { rustix::mm::munmap(start, room) };
                return Err(error);
            }
            at = at.wrapping_byte_add(length(piece));
        }
        Ok(start)
    }

    /// Undoes a pin: no program has the pinned file mapped any more.
    pub fn unpin(&self, pin: u64) {
        // An owner that is gone keeps nothing.
        let _ = rustix::net::send(self.stream.get(), &pin.to_le_bytes(), SendFlags::NOSIGNAL);
    }
}
