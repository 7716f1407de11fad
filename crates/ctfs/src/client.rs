//! A process beside the owner: it reads and writes the bytes of files that are leased to it in the store's memory itself.
//!
//! Names, permissions and everything else stay with the kernel and the owner. Whatever a client cannot do, it does through the
//! file's descriptor: that is always right.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicI32, Ordering};

use pagewalk_vm::file::PersistentMemory;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::time::Timespec;

use crate::alone::is_alone;
use crate::apart::apart;
use crate::bytes::Bytes;
use crate::error::Result as OwnersResult;
use crate::faults::Recovery;
use crate::gate::Gate;
use crate::inode::Ino;
use crate::mailbox::{Sleep, WORDS};
use crate::mapped::{Mapped, Survives, coarse_now};
use crate::protocol;
use crate::requests::{
    Base, Caller, DONE, FOLLOW, KERNELS, NO_ID, REPLACES_NOTHING, Refused, Request, SetTime, What, attributes,
};
use crate::system::Attributes;
use crate::volume::Place;

/// Bytes that are copied at once: the owner waits no longer than that takes.
const MOST_AT_ONCE: usize = 1 << 20;

/// A connection to the process that owns a mounted store.
#[derive(Debug)]
pub struct Client {
    memory: Mapped,
    gate: Gate,
    number: usize,
    serial: u64,
    /// Its end tells the owner that this process is gone.
    stream: Movable,
}

// SAFETY: threads use the store's memory by the functions that say who else must not, and inside of the gate; the rest is atomic.
#[allow(unsafe_code)]
unsafe impl Sync for Client {}

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
        // SAFETY: it is open for as long as this value lives: who moves it says so.
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
    index: usize,
    word: u64,
    inode: u64,
    /// Whether it may be written.
    pub writes: bool,
}

/// What became of a read. Like [`Written`] this is for registers: what lies in memory may be loaded as a whole, and that waits for all
/// that was stored before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadDone {
    /// So many bytes.
    Bytes(usize),
    /// The memory at this address is not there. Any of the bytes before it may have been read.
    Fault(usize),
    /// The lease is over.
    Ended,
}

/// What became of a write.
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

/// A file that was opened without the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OpenedBeside {
    /// Its number at the service.
    pub handle: u64,
    /// The file.
    pub ino: Ino,
    /// Holds until somebody opens the file in a way that would see a difference.
    pub lease: Lease,
}

/// What becomes of a file's attributes; what is `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Permissions.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Access.
    pub accessed: SetTime,
    /// Change of its bytes.
    pub modified: SetTime,
}

/// What a client asks the owner for by itself, one thing at a time: see [`Client::ask`].
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    client: &'a Client,
    caller: Caller,
    sleep: Sleep,
}

type Answered<T> = std::result::Result<T, Refused>;

impl Ask<'_> {
    fn send(&self, mut request: Request, texts: [&[u8]; 2]) -> Answered<[u64; WORDS]> {
        let client = self.client;
        if client.gate.serial(client.number) != client.serial {
            return Err(Refused::Kernels);
        }
        request.texts = texts.map(<[u8]>::len);
        let mut words = request.to_words();
        let (mailbox, bell) = (client.gate.mailbox(client.number), client.gate.bell());
        mailbox
            .ask((bell, client.number), &mut words, texts, self.sleep, || client.is_owner_gone())
            .ok_or(Refused::Kernels)?;
        match words[0] {
            DONE => Ok(words),
            KERNELS => Err(Refused::Kernels),
            number => Err(Refused::Error(Errno::from_raw_os_error(number as i32))),
        }
    }

    fn request(&self, what: What, base: Base) -> Request {
        Request::new(what, self.caller, base)
    }

    /// A file's attributes.
    ///
    /// # Errors
    ///
    /// [`Refused`], as for the others.
    pub fn look(&self, base: Base, path: &[u8], follows: bool) -> Answered<Attributes> {
        let request = Request { flags: u32::from(follows) * FOLLOW, ..self.request(What::Look, base) };
        self.send(request, [path, b""]).map(|words| attributes(&words))
    }

    /// Opens a file with `open`'s flags, and makes it if they say so.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn open(&self, base: Base, path: &[u8], flags: i32, mode: u32) -> Answered<OpenedBeside> {
        let request = Request { flags: flags as u32, mode, ..self.request(What::Open, base) };
        let words = self.send(request, [path, b""])?;
        let [handle, ino, index, word, inode, writes] = std::array::from_fn(|at| words[1 + at]);
        let lease = Lease { index: index as usize, word, inode, writes: writes != 0 };
        Ok(OpenedBeside { handle, ino: Ino(ino), lease })
    }

    /// Closes what was opened. Nobody waits for that; an owner that is gone has closed it.
    pub fn close(&self, handle: u64) {
        let client = self.client;
        if client.gate.serial(client.number) == client.serial {
            let words = self.request(What::Close, Base::Handle(handle)).to_words();
            let mailbox = client.gate.mailbox(client.number);
            let _ = mailbox.post((client.gate.bell(), client.number), &words, [b""; 2], self.sleep, &|| {
                client.is_owner_gone()
            });
        }
    }

    /// A path from the root on by which the kernel can open once more what was opened, and the file that this is to be.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn path<'a>(&self, handle: u64, into: &'a mut [u8]) -> Answered<(&'a [u8], Ino)> {
        let words = self.send(self.request(What::Path, Base::Handle(handle)), [b""; 2])?;
        let mailbox = self.client.gate.mailbox(self.client.number);
        Ok((mailbox.text(into, words[1] as usize), Ino(words[2])))
    }

    /// Lets a range of what was opened have frames; up to where it has.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn reserve(&self, handle: u64, offset: u64, bytes: u64) -> Answered<u64> {
        let request = Request { range: [offset, bytes], ..self.request(What::Reserve, Base::Handle(handle)) };
        let reached = self.send(request, [b""; 2])?[1];
        // The file may lie elsewhere now.
        self.client.memory.keep_translations_since(self.client.gate.closings());
        Ok(reached)
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn make_directory(&self, base: Base, path: &[u8], mode: u32) -> Answered<()> {
        self.send(Request { mode, ..self.request(What::MakeDirectory, base) }, [path, b""]).map(drop)
    }

    /// Takes a file's name away.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn unlink(&self, base: Base, path: &[u8]) -> Answered<()> {
        self.send(self.request(What::Unlink, base), [path, b""]).map(drop)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn remove_directory(&self, base: Base, path: &[u8]) -> Answered<()> {
        self.send(self.request(What::RemoveDirectory, base), [path, b""]).map(drop)
    }

    /// Gives a file another name; it takes the name from another file, if it may.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn rename(
        &self,
        (base, path): (Base, &[u8]),
        (to, name): (Ino, &[u8]),
        may_replace: bool,
    ) -> Answered<()> {
        let flags = if may_replace { 0 } else { REPLACES_NOTHING };
        self.send(Request { flags, other: to, ..self.request(What::Rename, base) }, [path, name]).map(drop)
    }

    /// Gives a file one more name.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn link(&self, (base, path): (Base, &[u8]), (to, name): (Ino, &[u8]), follows: bool) -> Answered<()> {
        let flags = u32::from(follows) * FOLLOW;
        self.send(Request { flags, other: to, ..self.request(What::Link, base) }, [path, name]).map(drop)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn link_to(&self, target: &[u8], base: Base, path: &[u8]) -> Answered<()> {
        self.send(self.request(What::LinkTo, base), [path, target]).map(drop)
    }

    /// A symbolic link's target, as much as there is room for.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn read_link<'a>(&self, base: Base, path: &[u8], into: &'a mut [u8]) -> Answered<&'a [u8]> {
        let words = self.send(self.request(What::ReadLink, base), [path, b""])?;
        Ok(self.client.gate.mailbox(self.client.number).text(into, words[1] as usize))
    }

    /// Changes a file's attributes.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn change(&self, base: Base, path: &[u8], follows: bool, change: Change) -> Answered<()> {
        let given = |value: Option<u32>| value.unwrap_or(NO_ID);
        let request = Request {
            flags: u32::from(follows) * FOLLOW,
            mode: given(change.mode),
            ids: [given(change.uid), given(change.gid)],
            times: [change.accessed, change.modified],
            ..self.request(What::Change, base)
        };
        self.send(request, [path, b""]).map(drop)
    }
}

#[allow(unsafe_code)]
pub(crate) fn message(
    file: BorrowedFd<'_>,
    command: u32,
    words: [u64; protocol::WORDS],
) -> OwnersResult<[u64; protocol::WORDS]> {
    let mut words = words;
    // SAFETY: the command says how much is read and written there, and that is what there is.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), u64::from(command) as _, words.as_mut_ptr()) };
    if done >= 0 {
        Ok(words)
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Connects to the owner of the store that an open file lies in.
pub(crate) fn connect(file: BorrowedFd<'_>, role: protocol::Role) -> io::Result<UnixStream> {
    let [version, number, ..] = message(file, protocol::HELLO, [0; protocol::WORDS])?;
    if version != protocol::VERSION {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let name = protocol::socket_name(number, role);
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
    /// Over a connection.
    pub(crate) fn by(stream: &UnixStream) -> io::Result<Self> {
        let mut bytes = [0; protocol::WELCOME_BYTES];
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
        if received.bytes != bytes.len() || word(0) != protocol::VERSION {
            return Err(refused());
        }
        let survives = Survives::of_number(word(3)).ok_or_else(refused)?;
        Ok(Self { number: word(1) as usize, serial: word(2), survives, gate, store })
    }
}

impl Client {
    /// Connects to the owner of the store that an open file lies in.
    ///
    /// # Errors
    ///
    /// The file lies somewhere else (`ENOTTY`), the owner lets nobody in, or it is another version's.
    #[allow(unsafe_code)]
    pub fn connect(file: BorrowedFd<'_>) -> io::Result<Self> {
        let stream = connect(file, protocol::Role::Client)?;
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
        let (memory, gate, number, serial) = match is_alone() {
            true => enter()?,
            // SAFETY: it makes system calls, and panics where the owner's memory is no memory only.
            false => unsafe { apart(enter) }??,
        };
        gate.begin_alone(number);
        Ok(Self { memory, gate, number, serial, stream: Movable::new(stream) })
    }

    /// Its serial number.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Something else that shares this process's memory has ended, or is about to: see the gate. Not while anything is read or
    /// written.
    pub fn end_alone(&self) {
        self.gate.end_alone(self.number);
    }

    /// The descriptor that must stay open as long as this process is a client: its end tells the owner that the client is gone.
    pub fn descriptor(&self) -> RawFd {
        self.stream.number()
    }

    /// The program has moved the descriptor to another number.
    pub fn descriptor_is_now(&self, number: RawFd) {
        self.stream.is_now(number);
    }

    /// Asks for the lease of an open file; whoever is about to write behind its end may ask for so many bytes' frames there, and gets
    /// them if there are some.
    ///
    /// # Errors
    ///
    /// Somebody else uses it.
    pub fn lease(&self, file: BorrowedFd<'_>, written: Option<(Place, u64)>) -> OwnersResult<Lease> {
        let (at, bytes) = match written {
            None => (0, 0),
            Some((Place::At(offset), bytes)) => (offset, bytes),
            Some((Place::End, bytes)) => (protocol::END, bytes),
        };
        let words = [self.number as u64, at, bytes, self.serial];
        let [index, word, inode, writes] = message(file, protocol::LEASE, words)?;
        Ok(Lease { index: index as usize, word, inode, writes: writes != 0 })
    }

    /// Lets the file be used through the kernel alone, as long as anybody has it open.
    ///
    /// # Errors
    ///
    /// It is no file of a store.
    pub fn bar(file: BorrowedFd<'_>) -> OwnersResult<()> {
        message(file, protocol::BAR, [0; protocol::WORDS]).map(|_| ())
    }

    /// Lets a range of the file have frames; up to where it has.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn reserve(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> OwnersResult<u64> {
        message(file, protocol::RESERVE, [offset, bytes, 0, 0]).map(|words| words[0])
    }

    /// The owner says nothing more: all that can come from it is its end.
    #[cold]
    fn is_owner_gone(&self) -> bool {
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

    /// Names and attributes, asked of the owner in shared memory. Only one thread of this process asks, and nothing else of it is in the
    /// middle of a read or a write.
    pub fn ask(&self, caller: Caller, sleep: Sleep) -> Ask<'_> {
        Ask { client: self, caller, sleep }
    }

    /// Bytes of the file, as long as the lease holds.
    pub fn size(&self, lease: &Lease) -> Option<u64> {
        self.within(lease, |bytes| bytes.size())
    }

    /// Whether memory that is not there is the store's: its disk is full, or its file was cut.
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

    /// Writes at most [`Client::most_at_once`] bytes; they persist before it returns. Whether the caller has reserved frames since the last
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
            let offset = match place {
                Place::At(offset) => offset,
                Place::End => size,
            };
            if !is_reserved && bytes.skips_frames(offset) {
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
