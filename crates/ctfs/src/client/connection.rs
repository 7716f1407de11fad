//! A process beside the owner: it reads and writes the bytes of files that are leased to it in the store's memory itself.
//!
//! Names, permissions and everything else stay with the kernel and the owner. Whatever a client cannot do, it does through the
//! file's descriptor: that is always right.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicI32, Ordering};

use pagewalk_vm::file::PersistentMemory;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::time::Timespec;

use crate::client::apart::apart;
use crate::core::bytes::Bytes;
use crate::core::error::Result as OwnersResult;
use crate::core::types::Place;
use crate::memory::clock::coarse_now;
use crate::memory::faults::Recovery;
use crate::memory::gate::Gate;
use crate::memory::mapped::Mapped;
use crate::memory::single_threaded::is_single_threaded;
use crate::memory::survives::Survives;
use crate::protocol::messages;

/// Bytes that are copied at once: the owner waits no longer than that takes.
const MOST_AT_ONCE: usize = 1 << 20;

/// A connection to the process that owns a mounted store.
#[derive(Debug)]
pub struct LeaseClient {
    pub(super) memory: Mapped,
    pub(super) gate: Gate,
    pub(super) number: usize,
    pub(super) serial: u64,
    /// Its end tells the owner that this process is gone.
    stream: Movable,
}

// SAFETY: threads use the store's memory by the functions that say who else must not, and inside of the gate; the rest is atomic.
#[allow(unsafe_code)]
unsafe impl Sync for LeaseClient {}

/// A descriptor of which the program may want the number: then it moves to another one.
#[derive(Debug)]
pub(crate) struct Movable(AtomicI32);

impl Movable {
    pub(crate) fn new(stream: impl IntoRawFd) -> Self {
        Self(AtomicI32::new(stream.into_raw_fd()))
    }

    pub(crate) fn number(&self) -> RawFd {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn is_now(&self, number: RawFd) {
        self.0.store(number, Ordering::Relaxed);
    }

    #[allow(unsafe_code)]
    pub(crate) fn get(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open for as long as this value lives: a caller that moves it says so.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }
}

impl Drop for Movable {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: it is this value's.
        drop(unsafe { OwnedFd::from_raw_fd(self.number()) });
    }
}

/// A file that is leased to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    pub(super) index: usize,
    pub(super) word: u64,
    pub(super) inode: u64,
    /// Whether it may be written.
    pub writes: bool,
}

/// The outcome of a read under a lease.
/// that was stored before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadDone {
    /// The number of bytes that were read.
    Bytes(usize),
    /// The memory at this address is not there. Any of the bytes before it may have been read.
    Fault(usize),
    /// The lease is over.
    Ended,
}

/// The outcome of a write under a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Done, at this offset.
    At(u64),
    /// The same, and the file is longer now.
    Behind(u64),
    /// Not all of it has frames, from this offset on.
    NoFrames(u64),
    /// The memory at this address is not there. Any of the bytes before it may have been written; the file is as long as it was.
    Fault(usize),
    /// The lease is over.
    Ended,
}

/// Connects to the owner of the store that an open file lies in.
pub(crate) fn connect(file: BorrowedFd<'_>, role: messages::Role) -> io::Result<UnixStream> {
    let [version, number, ..] = messages::send(file, messages::HELLO, [0; messages::WORDS])?;
    if version != messages::VERSION {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let name = messages::socket_name(number, role);
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// What the owner gives to a process that connects.
pub(crate) struct Welcomed {
    pub(crate) number: usize,
    pub(crate) serial: u64,
    survives: Survives,
    gate: OwnedFd,
    pub(crate) store: OwnedFd,
}

impl Welcomed {
    /// Receives the owner's welcome over a connection.
    pub(crate) fn by(stream: &UnixStream) -> io::Result<Self> {
        let mut bytes = [0; messages::WELCOME_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            stream,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::WAITALL | RecvFlags::CMSG_CLOEXEC,
        )?;
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let mut files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let mut files = files.next().ok_or_else(refused)?;
        let (gate, store) = (files.next().ok_or_else(refused)?, files.next().ok_or_else(refused)?);
        let word = |index: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[index * 8 + byte]));
        if received.bytes != bytes.len() || word(0) != messages::VERSION {
            return Err(refused());
        }
        let survives = Survives::of_number(word(3)).ok_or_else(refused)?;
        Ok(Self { number: word(1) as usize, serial: word(2), survives, gate, store })
    }
}

impl LeaseClient {
    /// Connects to the owner of the store that an open file lies in.
    ///
    /// # Errors
    ///
    /// The file lies somewhere else (`ENOTTY`), the owner admits no client, or it is another version's.
    #[allow(unsafe_code)]
    pub fn connect(file: BorrowedFd<'_>) -> io::Result<Self> {
        let stream = connect(file, messages::Role::Client)?;
        // Both descriptors are closed here: memory is all that is needed.
        let enter = || -> io::Result<_> {
            let Welcomed { number, serial, survives, gate, store } = Welcomed::by(&stream)?;
            Ok((
                Mapped::beside_owner(File::from(store), survives)?,
                Gate::open(&File::from(gate))?,
                number,
                serial,
            ))
        };
        // No other thread gets hold of the descriptors meanwhile.
        let (memory, gate, number, serial) = match is_single_threaded() {
            true => enter()?,
            // SAFETY: it makes system calls, and panics where the owner's memory is no memory only.
            false => unsafe { apart(enter) }??,
        };
        gate.begin_alone(number);
        Ok(Self { memory, gate, number, serial, stream: Movable::new(stream) })
    }

    /// Returns the client's serial number.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Records that a child that shares this process's memory has ended, or is about to: see the gate. Not while anything is read or
    /// written.
    pub fn end_alone(&self) {
        self.gate.end_alone(self.number);
    }

    /// Returns the descriptor that must stay open as long as this process is a client: its end tells the owner that the client is gone.
    pub fn descriptor(&self) -> RawFd {
        self.stream.number()
    }

    /// Records that the program has moved the descriptor to another number.
    pub fn descriptor_is_now(&self, number: RawFd) {
        self.stream.is_now(number);
    }

    /// Asks for the lease of an open file; a caller that is about to write behind its end may ask for so many bytes' frames there, and gets
    /// them if there are some.
    ///
    /// # Errors
    ///
    /// Another program uses the file (`EBUSY`).
    pub fn lease(&self, file: BorrowedFd<'_>, written: Option<(Place, u64)>) -> OwnersResult<Lease> {
        let (at, bytes) = match written {
            None => (0, 0),
            Some((Place::At(offset), bytes)) => (offset, bytes),
            Some((Place::End, bytes)) => (messages::FILE_END, bytes),
        };
        let words = [self.number as u64, at, bytes, self.serial];
        let [index, word, inode, writes] = messages::send(file, messages::LEASE, words)?;
        Ok(Lease { index: index as usize, word, inode, writes: writes != 0 })
    }

    /// Lets the file be used through the kernel alone, as long as a program has it open.
    ///
    /// # Errors
    ///
    /// It is no file of a store.
    pub fn bar(file: BorrowedFd<'_>) -> OwnersResult<()> {
        messages::send(file, messages::BAR, [0; messages::WORDS]).map(|_| ())
    }

    /// Lets a range of the file have frames; up to where it has.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn reserve(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> OwnersResult<u64> {
        messages::send(file, messages::RESERVE, [offset, bytes, 0, 0]).map(|words| words[0])
    }

    /// The owner says nothing more: all that can come from it is its end.
    #[cold]
    pub(super) fn is_owner_gone(&self) -> bool {
        let stream = self.stream.get();
        let mut polled = [PollFd::new(&stream, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
            .is_ok_and(|ready| ready > 0)
    }

    /// Does something with the file's bytes while nothing moves, unless the lease is over.
    #[inline]
    fn within<T>(&self, lease: &Lease, act: impl FnOnce(Bytes<'_, Mapped>) -> T) -> Option<T> {
        let _inside = self.gate.enter((self.number, self.serial), || self.is_owner_gone())?;
        self.memory.keep_translations_since(self.gate.closings());
        let holds = self.gate.lease(lease.index).load(Ordering::SeqCst) == lease.word;
        let done = holds.then(|| act(Bytes::new(&self.memory, lease.inode)))?;
        // What was found may be what a missing page reads as; the owner says what there is.
        (!self.memory.has_failed()).then_some(done)
    }

    /// Where whole pages of a pinned file lie in the store, if all of them are there.
    pub(crate) fn pieces(&self, inode: u64, bytes: Range<u64>) -> Option<Vec<Range<u64>>> {
        let _inside = self.gate.enter((self.number, self.serial), || self.is_owner_gone())?;
        Bytes::new(&self.memory, inode).pieces(bytes).filter(|_| !self.memory.has_failed())
    }

    /// Bytes of the file, as long as the lease holds.
    pub fn size(&self, lease: &Lease) -> Option<u64> {
        self.within(lease, |bytes| bytes.size())
    }

    /// Returns whether memory that is not there is the store's: its disk is full, or its file was cut.
    pub fn is_stores(&self, address: usize) -> bool {
        self.memory.has_address(address)
    }

    /// Reads at an offset, up to the file's end; how much that was, as long as the lease holds.
    ///
    /// # Safety
    ///
    /// 1. So many bytes from `into` on are this program's to write, or not there: then the process's handler of faults calls
    ///    [`Recovery::recover`].
    /// 2. The recovery belongs to this thread, which makes no other copy with it meanwhile.
    /// 3. No other thread of this process writes the file meanwhile.
    #[inline]
    #[allow(unsafe_code)]
    pub unsafe fn read(
        &self,
        lease: &Lease,
        offset: u64,
        (into, length): (*mut u8, usize),
        recovery: &Recovery,
    ) -> ReadDone {
        let mut done = 0;
        loop {
            let part = (length - done).min(MOST_AT_ONCE);
            let read = self.within(lease, |bytes| {
                // SAFETY: (1) it copies bytes; (2) the caller's; what faults is not used as a slice any more.
                unsafe {
                    recovery.run(|| {
                        let into = std::slice::from_raw_parts_mut(into.add(done), part);
                        bytes.read(offset + done as u64, into)
                    })
                }
            });
            match read {
                None => return ReadDone::Ended,
                Some(Err(address)) => return ReadDone::Fault(address),
                Some(Ok(read)) => {
                    done += read;
                    if done == length || read < part {
                        return ReadDone::Bytes(done);
                    }
                }
            }
        }
    }

    /// Writes at most [`LeaseClient::most_at_once`] bytes; they persist before it returns. Whether the caller has reserved frames since the last
    /// write tells whether frames that it skips were given back.
    ///
    /// # Safety
    ///
    /// 1. So many bytes from `from` on can be read, or are not there: then the process's handler of faults calls
    ///    [`Recovery::recover`].
    /// 2. The recovery belongs to this thread, which makes no other copy with it meanwhile.
    /// 3. No other thread of this process uses the file meanwhile.
    #[inline]
    #[allow(unsafe_code)]
    pub unsafe fn write(
        &self,
        lease: &Lease,
        place: Place,
        (from, length): (*const u8, usize),
        recovery: &Recovery,
        is_reserved: bool,
    ) -> Written {
        debug_assert!(length <= MOST_AT_ONCE);
        let now = coarse_now();
        let written = self.within(lease, |bytes| {
            let size = bytes.size();
            let (offset, is_ready) = bytes.begin_write(place, is_reserved);
            if !is_ready {
                return Written::NoFrames(offset);
            }
            // SAFETY: (1) it copies bytes, and stores words; (2) the caller's; what faults is not used as a slice any more.
            let is_done = unsafe {
                recovery.run(|| {
                    let data = std::slice::from_raw_parts(from, length);
                    usize::from(bytes.write(offset, data, now as u64))
                })
            };
            match is_done {
                Err(address) => Written::Fault(address),
                Ok(0) => Written::NoFrames(offset),
                Ok(_) if offset + length as u64 > size => Written::Behind(offset),
                Ok(_) => Written::At(offset),
            }
        });
        written.unwrap_or(Written::Ended)
    }

    /// Bytes of one write at most.
    pub const fn most_at_once() -> usize {
        MOST_AT_ONCE
    }

    /// Waits until what was written persists, where this process can see to that; whether it can. Otherwise the kernel asks the owner
    /// (`fsync`).
    ///
    /// # Errors
    ///
    /// The store has failed (`EIO`).
    pub fn fence(&self) -> OwnersResult<bool> {
        self.memory.fence();
        if self.memory.has_failed() {
            return Err(Errno::IO);
        }
        Ok(self.memory.survives() != Survives::Synced)
    }
}
