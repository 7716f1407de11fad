//! The owner's side of the gate: who has which file open, and who may read and write its bytes beside the owner.
//!
//! A process that the kernel lets open a file may ask for a *lease* of it. It gets one as long as nobody can see the difference:
//! others have the file open only if all of them, and it, read. Whoever opens it otherwise ends the lease, and so does the client
//! itself before it uses the file through the kernel. A process of the same user (or root's) gets the store's memory; the others
//! have the mount only.

use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::error::Result;
use crate::gate::{CLIENTS, Gate, LEASES};
use crate::inode::Ino;
use crate::mapped::Survives;

/// How often the watch looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// What the protocol's messages look like.
pub(crate) mod protocol {
    /// Of the messages below.
    pub(crate) const VERSION: u64 = 1;

    /// `_IOWR('p', number, words * 8)`.
    const fn command(number: u32, words: u32) -> u32 {
        3 << 30 | (words * 8) << 16 | (b'p' as u32) << 8 | number
    }

    /// Words of every message.
    pub(crate) const WORDS: usize = 4;
    /// Out: version, the number in the socket's name.
    pub(crate) const HELLO: u32 = command(1, WORDS as u32);
    /// In: the client's number. Out: the lease's number and word, where the inode lies, whether it may be written.
    pub(crate) const LEASE: u32 = command(2, WORDS as u32);
    /// In: offset and length that are to have frames. Out: up to where they have.
    pub(crate) const RESERVE: u32 = command(3, WORDS as u32);
    /// The file is used through the kernel until it is closed.
    pub(crate) const BAR: u32 = command(4, WORDS as u32);

    /// The owner's socket, in the abstract name space.
    pub(crate) fn socket_name(number: u64) -> String {
        format!("pagewalk-ctfs-{number:016x}")
    }

    /// Bytes of the first and only message on the socket: version, the client's number, what the store survives.
    pub(crate) const WELCOME_BYTES: usize = 24;
}

/// Somebody who has a file open.
#[derive(Clone, Copy, Debug)]
struct Open {
    ino: Ino,
    writes: bool,
    client: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    index: usize,
    client: usize,
    writes: bool,
}

/// A file that somebody has open.
#[derive(Debug, Default)]
struct Door {
    /// Handles.
    opens: Vec<u64>,
    /// Somebody uses it through the kernel in ways that a lease would not see.
    is_barred: bool,
    leases: Vec<Lease>,
}

#[derive(Debug)]
struct State {
    /// Of opens and leases; never used twice.
    serial: u64,
    opens: FxHashMap<u64, Open>,
    doors: FxHashMap<Ino, Door>,
    free: Vec<usize>,
    clients: [bool; CLIENTS],
}

/// Who has what open.
#[derive(Debug)]
pub(crate) struct Doors {
    gate: Arc<Gate>,
    state: Mutex<State>,
    socket: u64,
}

impl Doors {
    pub(crate) fn new(gate: Arc<Gate>) -> io::Result<Self> {
        let mut number = [0; 8];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
        let state = State {
            serial: 0,
            opens: FxHashMap::default(),
            doors: FxHashMap::default(),
            free: (0..LEASES).rev().collect(),
            clients: [false; CLIENTS],
        };
        Ok(Self { gate, state: Mutex::new(state), socket: u64::from_le_bytes(number) })
    }

    /// The number in the socket's name.
    pub(crate) fn socket(&self) -> u64 {
        self.socket
    }

    /// A file was opened. Its handle, and whether a lease must end before whoever opened it hears of that.
    pub(crate) fn opened(&self, ino: Ino, writes: bool) -> (u64, bool) {
        let mut state = self.state.lock();
        state.serial += 1;
        let handle = state.serial;
        state.opens.insert(handle, Open { ino, writes, client: None });
        let door = state.doors.entry(ino).or_default();
        door.opens.push(handle);
        (handle, door.leases.iter().any(|lease| writes || lease.writes))
    }

    /// Ends all leases of a file. The gate is closed, here and whenever a lease begins or ends.
    pub(crate) fn end_leases(&self, ino: Ino) {
        self.state.lock().end_leases(&self.gate, ino, |_| true);
    }

    /// The file is used through the kernel as long as anybody has it open.
    pub(crate) fn bar(&self, handle: u64) -> Result<()> {
        let mut state = self.state.lock();
        let ino = state.opens.get(&handle).ok_or(Errno::BADF)?.ino;
        state.end_leases(&self.gate, ino, |_| true);
        state.doors.get_mut(&ino).ok_or(Errno::BADF)?.is_barred = true;
        Ok(())
    }

    /// Leases the file of a handle to a client: the lease's number, its word, and whether it may be written.
    pub(crate) fn lease(&self, handle: u64, client: usize) -> Result<(usize, u64, bool)> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !state.clients.get(client).is_some_and(|&is_there| is_there) {
            return Err(Errno::INVAL);
        }
        let open = state.opens.get_mut(&handle).ok_or(Errno::BADF)?;
        open.client = Some(client);
        let ino = open.ino;
        let door = state.doors.get_mut(&ino).ok_or(Errno::BADF)?;
        let of_file = || door.opens.iter().filter_map(|handle| state.opens.get(handle));
        let writes = of_file().any(|open| open.writes);
        let only_one = of_file().all(|open| open.client == Some(client));
        if door.is_barred || writes && !only_one {
            return Err(Errno::BUSY);
        }
        state.end_leases(&self.gate, ino, |lease| lease.client == client);
        let index = state.free.pop().ok_or(Errno::NFILE)?;
        state.serial += 1;
        let word = state.serial;
        self.gate.lease(index).store(word, Ordering::SeqCst);
        let lease = Lease { index, client, writes };
        state.doors.entry(ino).or_default().leases.push(lease);
        Ok((index, word, writes))
    }

    /// Whether a client may write a file now: what the kernel knows of it then soon is not so.
    pub(crate) fn is_written_beside(&self, ino: Ino) -> bool {
        self.state.lock().doors.get(&ino).is_some_and(|door| door.leases.iter().any(|lease| lease.writes))
    }

    /// Whether closing a handle ends a lease, so that the gate must be closed.
    pub(crate) fn has_lease(&self, handle: u64) -> bool {
        let state = self.state.lock();
        let open = state.opens.get(&handle);
        open.and_then(|open| state.doors.get(&open.ino)).is_some_and(|door| !door.leases.is_empty())
    }

    /// A handle of which no lease depends was closed.
    pub(crate) fn closed(&self, handle: u64) {
        self.state.lock().closed(handle);
    }

    /// A handle was closed. The file that may have got more frames than its bytes need, as a client wrote it until now.
    pub(crate) fn closed_leased(&self, handle: u64) -> Option<Ino> {
        let mut state = self.state.lock();
        let open = state.closed(handle)?;
        let client = open.client?;
        let others = state.doors.get(&open.ino).map_or(&[][..], |door| &door.opens);
        let is_open = others.iter().any(|handle| state.opens[handle].client == Some(client));
        if is_open {
            return None;
        }
        state.end_leases(&self.gate, open.ino, |lease| lease.client == client);
        if state.doors.get(&open.ino).is_some_and(|door| door.opens.is_empty()) {
            state.doors.remove(&open.ino);
        }
        open.writes.then_some(open.ino)
    }

    fn add_client(&self) -> Option<usize> {
        let mut state = self.state.lock();
        let client = state.clients.iter().position(|is_there| !is_there)?;
        state.clients[client] = true;
        Some(client)
    }

    /// A client is gone, and nobody looks at the words of its leases any more. What it had open the kernel closes, unless a child
    /// of it still has it.
    fn remove_client(&self, client: usize) {
        // Whoever waits for it can go on now.
        self.gate.forget(client);
        let mut state = self.state.lock();
        let files: Vec<Ino> = state.doors.keys().copied().collect();
        for ino in files {
            state.end_leases(&self.gate, ino, |lease| lease.client == client);
        }
        for open in state.opens.values_mut().filter(|open| open.client == Some(client)) {
            open.client = None;
        }
        state.clients[client] = false;
    }
}

impl State {
    fn end_leases(&mut self, gate: &Gate, ino: Ino, ends: impl Fn(&Lease) -> bool) {
        let Some(door) = self.doors.get_mut(&ino) else { return };
        let free = &mut self.free;
        door.leases.retain(|lease| {
            if ends(lease) {
                gate.lease(lease.index).store(0, Ordering::SeqCst);
                free.push(lease.index);
            }
            !ends(lease)
        });
    }

    fn closed(&mut self, handle: u64) -> Option<Open> {
        let open = self.opens.remove(&handle)?;
        if let Some(door) = self.doors.get_mut(&open.ino) {
            door.opens.retain(|&other| other != handle);
            if door.opens.is_empty() && door.leases.is_empty() {
                self.doors.remove(&open.ino);
            }
        }
        Some(open)
    }
}

/// Welcomes clients and sees them go, until it is told to stop.
pub(crate) fn watch(
    listener: &UnixListener,
    doors: &Doors,
    (store, survives): (&File, Survives),
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut clients: Vec<(usize, UnixStream)> = Vec::new();
    let time = rustix::time::Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    while !stop.load(Ordering::Relaxed) {
        let mut polled = vec![PollFd::new(listener, PollFlags::IN)];
        polled.extend(clients.iter().map(|(_, stream)| PollFd::new(stream, PollFlags::IN)));
        match rustix::event::poll(&mut polled, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let has_news: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let mut news = has_news[1..].iter();
        clients.retain_mut(|(client, stream)| {
            if !news.next().is_some_and(|&is_new| is_new) {
                return true;
            }
            // It has nothing to say: this is its end.
            let is_there = stream.read(&mut [0; 16]).is_ok_and(|bytes| bytes > 0);
            if !is_there {
                doors.remove_client(*client);
            }
            is_there
        });
        if has_news[0] {
            let Ok((stream, _)) = listener.accept() else { continue };
            if !may_have_store(&stream) {
                continue;
            }
            let Some(client) = doors.add_client() else { continue };
            if welcome(&stream, client, survives, [doors.gate.file().as_fd(), store.as_fd()]).is_ok() {
                clients.push((client, stream));
            } else {
                doors.remove_client(client);
            }
        }
    }
    Ok(())
}

pub(crate) fn listen(number: u64) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(protocol::socket_name(number))?)
}

/// Whoever has the memory can change all of it.
fn may_have_store(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

fn welcome(
    stream: &UnixStream,
    client: usize,
    survives: Survives,
    files: [BorrowedFd<'_>; 2],
) -> io::Result<()> {
    let words = [protocol::VERSION, client as u64, survives.number()];
    let message: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(stream, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
