//! A process beside the owner: it reads and writes the bytes of files that are leased to it in the store's memory itself.
//!
//! Names, permissions and everything else stay with the kernel and the owner. Whatever a client cannot do, it does through the
//! file's descriptor: that is always right.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::Ordering;

use pagewalk_vm::file::PersistentMemory;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::time::Timespec;

use crate::bytes::Bytes;
use crate::doors::protocol;
use crate::error::Result;
use crate::gate::Gate;
use crate::mapped::{Mapped, Survives, coarse_now};
use crate::volume::Place;

/// Bytes that are copied at once: the owner waits no longer than that takes.
const MOST_AT_ONCE: usize = 1 << 20;

/// A connection to the process that owns a mounted store.
#[derive(Debug)]
pub struct Client {
    memory: Mapped,
    gate: Gate,
    number: usize,
    /// Its end tells the owner that this process is gone.
    stream: UnixStream,
}

/// A file that is leased to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    index: usize,
    word: u64,
    inode: u64,
    /// Whether it may be written.
    pub writes: bool,
}

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// Done, at this offset.
    At(u64),
    /// Not all of it has frames, from this offset on.
    NoFrames(u64),
    /// The lease is over.
    Ended,
}

#[allow(unsafe_code)]
pub(crate) fn message(
    file: BorrowedFd<'_>,
    command: u32,
    words: [u64; protocol::WORDS],
) -> Result<[u64; protocol::WORDS]> {
    let mut words = words;
    // SAFETY: the command says how much is read and written there, and that is what there is.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), u64::from(command) as _, words.as_mut_ptr()) };
    if done >= 0 {
        Ok(words)
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// What the owner gives to whoever connects.
pub(crate) struct Welcomed {
    pub(crate) number: usize,
    survives: Survives,
    pub(crate) stream: UnixStream,
    gate: OwnedFd,
    pub(crate) store: OwnedFd,
}

impl Welcomed {
    pub(crate) fn by_owner_of(file: BorrowedFd<'_>) -> io::Result<Self> {
        let [version, number, ..] = message(file, protocol::HELLO, [0; protocol::WORDS])?;
        if version != protocol::VERSION {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let stream =
            UnixStream::connect_addr(&SocketAddr::from_abstract_name(protocol::socket_name(number))?)?;
        let mut bytes = [0; protocol::WELCOME_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            &stream,
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
        if received.bytes != bytes.len() || word(0) != protocol::VERSION {
            return Err(refused());
        }
        let survives = Survives::of_number(word(2)).ok_or_else(refused)?;
        Ok(Self { number: word(1) as usize, survives, stream, gate, store })
    }
}

impl Client {
    /// Connects to the owner of the store that an open file lies in.
    ///
    /// # Errors
    ///
    /// The file lies somewhere else (`ENOTTY`), the owner lets nobody in, or it is another version's.
    pub fn connect(file: BorrowedFd<'_>) -> io::Result<Self> {
        let Welcomed { number, survives, stream, gate, store } = Welcomed::by_owner_of(file)?;
        let memory = Mapped::beside_owner(File::from(store), survives)?;
        let gate = Gate::open(File::from(gate))?;
        gate.begin_alone(number);
        Ok(Self { memory, gate, number, stream })
    }

    /// Something else that shares this process's memory has ended, or is about to: see the gate. Not while anything is read or
    /// written.
    pub fn end_alone(&self) {
        self.gate.end_alone(self.number);
    }

    /// The descriptors that must stay open as long as this process is a client: their end tells the owner that it is gone.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.stream.as_fd(), self.memory.file().as_fd(), self.gate.file().as_fd()]
    }

    /// Asks for the lease of an open file; whoever is about to write behind its end may ask for so many bytes' frames there, and gets
    /// them if there are some.
    ///
    /// # Errors
    ///
    /// Somebody else uses it.
    pub fn lease(&self, file: BorrowedFd<'_>, written: Option<(Place, u64)>) -> Result<Lease> {
        let (at, bytes) = match written {
            None => (0, 0),
            Some((Place::At(offset), bytes)) => (offset, bytes),
            Some((Place::End, bytes)) => (protocol::END, bytes),
        };
        let words = [self.number as u64, at, bytes, 0];
        let [index, word, inode, writes] = message(file, protocol::LEASE, words)?;
        Ok(Lease { index: index as usize, word, inode, writes: writes != 0 })
    }

    /// Lets the file be used through the kernel alone, as long as anybody has it open.
    ///
    /// # Errors
    ///
    /// It is no file of a store.
    pub fn bar(file: BorrowedFd<'_>) -> Result<()> {
        message(file, protocol::BAR, [0; protocol::WORDS]).map(|_| ())
    }

    /// Lets a range of the file have frames; up to where it has.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn reserve(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<u64> {
        message(file, protocol::RESERVE, [offset, bytes, 0, 0]).map(|words| words[0])
    }

    /// The owner says nothing more: all that can come from it is its end.
    #[cold]
    fn is_owner_gone(&self) -> bool {
        let mut polled = [PollFd::new(&self.stream, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
            .is_ok_and(|ready| ready > 0)
    }

    /// Does something with the file's bytes while nothing moves, unless the lease is over.
    #[inline]
    fn within<T>(&self, lease: &Lease, act: impl FnOnce(Bytes<'_, Mapped>) -> T) -> Option<T> {
        let _inside = self.gate.enter(self.number, || self.is_owner_gone())?;
        self.memory.keep_translations_since(self.gate.closings());
        let holds = self.gate.lease(lease.index).load(Ordering::SeqCst) == lease.word;
        holds.then(|| act(Bytes::new(&self.memory, lease.inode)))
    }

    /// Where whole pages of a pinned file lie in the store, if all of them are there.
    pub(crate) fn pieces(&self, inode: u64, bytes: Range<u64>) -> Option<Vec<Range<u64>>> {
        let _inside = self.gate.enter(self.number, || self.is_owner_gone())?;
        Bytes::new(&self.memory, inode).pieces(bytes)
    }

    /// Bytes of the file, as long as the lease holds.
    pub fn size(&self, lease: &Lease) -> Option<u64> {
        self.within(lease, |bytes| bytes.size())
    }

    /// Reads at an offset, up to the file's end; how much that was, as long as the lease holds. Nobody of this process may write
    /// the file meanwhile.
    #[inline]
    pub fn read(&self, lease: &Lease, offset: u64, into: &mut [u8]) -> Option<usize> {
        if into.len() <= MOST_AT_ONCE {
            return self.within(lease, |bytes| bytes.read(offset, into));
        }
        let mut done = 0;
        for part in into.chunks_mut(MOST_AT_ONCE) {
            let read = self.within(lease, |bytes| bytes.read(offset + done as u64, part))?;
            done += read;
            if read < part.len() {
                break;
            }
        }
        Some(done)
    }

    /// Writes at most [`Client::most_at_once`] bytes; they persist before it returns. Nobody else of this process may use the
    /// file meanwhile.
    pub fn write(&self, lease: &Lease, place: Place, data: &[u8]) -> Written {
        debug_assert!(data.len() <= MOST_AT_ONCE);
        let now = coarse_now();
        let written = self.within(lease, |bytes| {
            let offset = match place {
                Place::At(offset) => offset,
                Place::End => bytes.size(),
            };
            if bytes.write(offset, data, now as u64) {
                Written::At(offset)
            } else {
                Written::NoFrames(offset)
            }
        });
        written.unwrap_or(Written::Ended)
    }

    /// Bytes of one write at most.
    pub const fn most_at_once() -> usize {
        MOST_AT_ONCE
    }

    /// Waits until what was written persists, where that is not so anyway.
    pub fn fence(&self) {
        self.memory.fence();
    }
}
