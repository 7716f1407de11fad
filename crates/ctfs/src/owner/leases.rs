//! The lease table: which files programs have open, and which clients may read and write their bytes beside the owner.
//!
//! A process that the kernel lets open a file may ask for a *lease* of it. The process gets the lease as long as no other process can
//! see the difference: others have the file open only if all of them, and the process, read. A process that opens the file otherwise ends
//! the lease, and so does the client itself before it uses the file through the kernel.
//!
//! A client that may have a lease may also *pin* a file: its frames stay where they are, so that a program can map them. Pins belong to a
//! connection, not to a process: a child that has inherited mappings has inherited that, too, and the pins end with the last.
//!
//! A process of the same user (or root's) gets the store's memory; the others
//! have the mount only.

use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
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

use crate::core::error::Result;
use crate::core::inode::Ino;
use crate::memory::gate::{CLIENTS, Gate, LEASES};
use crate::memory::survives::Survives;
use crate::protocol::messages;

/// The most pins at once.
const PINS: usize = 1 << 16;
/// How often the watch looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// A handle of an open file.
#[derive(Clone, Debug)]
struct Open {
    ino: Ino,
    writes: bool,
    client: Option<usize>,
    /// The kernel does not know: the directory and the name that the client has opened.
    beside: Option<(Ino, Box<[u8]>)>,
}

/// A file that a client has opened without the kernel, and the lease of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenedBeside {
    pub(crate) handle: u64,
    pub(crate) index: usize,
    pub(crate) word: u64,
    /// A program has the file open to write.
    pub(crate) is_written: bool,
}

/// What a client has left behind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Left {
    /// Files that it had pinned.
    pub(crate) pins: Vec<Ino>,
    /// Files that it had open without the kernel.
    pub(crate) opens: Vec<Ino>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    index: usize,
    client: usize,
    writes: bool,
}

#[derive(Clone, Copy, Debug)]
struct Pin {
    ino: Ino,
    client: usize,
}

/// A file with open handles.
#[derive(Debug, Default)]
struct OpenFile {
    /// The open handles of the file.
    opens: Vec<u64>,
    /// A program uses the file through the kernel in ways that a lease would not see.
    is_barred: bool,
    leases: Vec<Lease>,
}

#[derive(Debug)]
struct State {
    /// Of opens, leases, pins and clients; never used twice.
    serial: u64,
    opens: FxHashMap<u64, Open>,
    files: FxHashMap<Ino, OpenFile>,
    pins: FxHashMap<u64, Pin>,
    free: Vec<usize>,
    /// Serial numbers of the clients that are there; 0 where there is none.
    clients: [u64; CLIENTS],
    /// Clients up to this serial number have mapped less than there is now.
    outgrown: u64,
}

/// The open files of a mount and the leases of them.
#[derive(Debug)]
pub(crate) struct LeaseTable {
    gate: Arc<Gate>,
    state: Mutex<State>,
    socket: u64,
}

impl LeaseTable {
    pub(crate) fn new(gate: Arc<Gate>) -> io::Result<Self> {
        let mut number = [0; 8];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
        let state = State {
            serial: 0,
            opens: FxHashMap::default(),
            files: FxHashMap::default(),
            pins: FxHashMap::default(),
            free: (0..LEASES).rev().collect(),
            clients: [0; CLIENTS],
            outgrown: 0,
        };
        Ok(Self { gate, state: Mutex::new(state), socket: u64::from_le_bytes(number) })
    }

    /// The number in the socket's name.
    pub(crate) fn socket(&self) -> u64 {
        self.socket
    }

    /// A file was opened. Its handle, and whether a lease must end before the program that opened the file hears of that.
    pub(crate) fn opened(&self, ino: Ino, writes: bool) -> (u64, bool) {
        let mut state = self.state.lock();
        state.serial += 1;
        let handle = state.serial;
        state.opens.insert(handle, Open { ino, writes, client: None, beside: None });
        let file = state.files.entry(ino).or_default();
        file.opens.push(handle);
        (handle, file.leases.iter().any(|lease| writes || lease.writes))
    }

    /// A client opens a file without the kernel, and gets the lease of it: no process can see the difference. The client waits for the answer,
    /// and uses no lease meanwhile: the gate need not be closed.
    pub(crate) fn open_beside(
        &self,
        (ino, writes): (Ino, bool),
        (client, serial): (usize, u64),
        (parent, name): (Ino, &[u8]),
    ) -> Result<OpenedBeside> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if serial == 0 || state.clients.get(client) != Some(&serial) {
            return Err(Errno::INVAL);
        }
        if serial <= state.outgrown {
            return Err(Errno::BUSY);
        }
        let mut is_written = writes;
        if let Some(file) = state.files.get(&ino) {
            let of_file = || file.opens.iter().filter_map(|handle| state.opens.get(handle));
            is_written |= of_file().any(|open| open.writes);
            let is_others = of_file().any(|open| open.client != Some(client));
            let has_lease =
                file.leases.iter().any(|lease| lease.client != client && (is_written || lease.writes));
            if file.is_barred || is_written && is_others || has_lease {
                return Err(Errno::BUSY);
            }
        }
        let index = state.free.pop().ok_or(Errno::NFILE)?;
        state.end_leases(&self.gate, ino, |lease| lease.client == client);
        let (handle, word) = (state.serial + 1, state.serial + 2);
        state.serial = word;
        self.gate.lease(index).store(word, Ordering::SeqCst);
        state
            .opens
            .insert(handle, Open { ino, writes, client: Some(client), beside: Some((parent, name.into())) });
        let file = state.files.entry(ino).or_default();
        file.opens.push(handle);
        file.leases.push(Lease { index, client, writes: is_written });
        Ok(OpenedBeside { handle, index, word, is_written })
    }

    /// A client closes what it has opened without the kernel: the file, and whether it may have got more frames than its bytes need.
    pub(crate) fn close_beside(&self, handle: u64, client: usize) -> Result<(Ino, bool)> {
        let ino = self.opened_beside(handle, client)?;
        Ok((ino, self.closed_leased(handle).is_some()))
    }

    /// What a client has opened without the kernel.
    pub(crate) fn opened_beside(&self, handle: u64, client: usize) -> Result<Ino> {
        self.state.lock().opened_beside(handle, client).map(|(ino, ..)| ino)
    }

    /// The same, and by which name in which directory.
    pub(crate) fn name_beside(&self, handle: u64, client: usize) -> Result<(Ino, Ino, Box<[u8]>)> {
        let state = self.state.lock();
        state.opened_beside(handle, client).map(|(ino, parent, name)| (ino, parent, name.into()))
    }

    /// The file that some client has opened without the kernel.
    pub(crate) fn find_beside(&self, handle: u64) -> Option<Ino> {
        self.state.lock().opens.get(&handle).filter(|open| open.beside.is_some()).map(|open| open.ino)
    }

    /// Ends all leases of a file. The gate is closed, here and whenever a lease ends that a client may be using.
    pub(crate) fn end_leases(&self, ino: Ino) {
        self.state.lock().end_leases(&self.gate, ino, |_| true);
    }

    /// The store has become larger than what the clients that are there have mapped: their leases end, and they get no more. The gate is
    /// closed.
    pub(crate) fn outgrow_clients(&self) {
        let mut state = self.state.lock();
        let files: Vec<Ino> = state.files.keys().copied().collect();
        for ino in files {
            state.end_leases(&self.gate, ino, |_| true);
        }
        state.outgrown = state.serial;
    }

    /// The file is used through the kernel as long as a program has it open.
    pub(crate) fn bar(&self, handle: u64) -> Result<()> {
        let mut state = self.state.lock();
        let ino = state.opens.get(&handle).ok_or(Errno::BADF)?.ino;
        state.end_leases(&self.gate, ino, |_| true);
        state.files.get_mut(&ino).ok_or(Errno::BADF)?.is_barred = true;
        Ok(())
    }

    /// Whether a lease of the file of a handle ends when a client gets another one: its own, and that of another process which has
    /// inherited the handle, or has left it to this one.
    pub(crate) fn ends_leases(&self, handle: u64, client: usize) -> bool {
        let state = self.state.lock();
        let file = state.opens.get(&handle).and_then(|open| state.files.get(&open.ino));
        file.is_some_and(|file| {
            let writes = file.opens.iter().any(|handle| state.opens[handle].writes);
            file.leases.iter().any(|lease| lease.client == client || writes || lease.writes)
        })
    }

    /// Whether the kernel must not use a file's bytes, to read or to write them, before leases of clients have ended: it keeps what
    /// it has read, and would not see what a client writes later.
    pub(crate) fn keeps_kernel_out(&self, ino: Ino, writes: bool) -> bool {
        let state = self.state.lock();
        state.files.get(&ino).is_some_and(|file| file.leases.iter().any(|lease| writes || lease.writes))
    }

    /// Leases the file of a handle to a client: the lease's number, its word, and whether it may be written. The gate need not be
    /// closed for a lease that begins: no client knows its number yet.
    pub(crate) fn lease(
        &self,
        handle: u64,
        (client, serial): (usize, u64),
        may_write: bool,
    ) -> Result<(usize, u64, bool)> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.has_client(handle, client, serial)?;
        if serial <= state.outgrown {
            return Err(Errno::BUSY);
        }
        let (ino, writes) = state.may_use_beside(handle)?;
        if writes && !may_write {
            return Err(Errno::BUSY);
        }
        state.end_leases(&self.gate, ino, |lease| lease.client == client || writes || lease.writes);
        let index = state.free.pop().ok_or(Errno::NFILE)?;
        state.serial += 1;
        let word = state.serial;
        self.gate.lease(index).store(word, Ordering::SeqCst);
        let lease = Lease { index, client, writes };
        state.files.entry(ino).or_default().leases.push(lease);
        Ok((index, word, writes))
    }

    /// Lets a client keep the frames of a handle's file where they are: the pin's number.
    pub(crate) fn pin(&self, handle: u64, (keeper, serial): (usize, u64), client_serial: u64) -> Result<u64> {
        let mut state = self.state.lock();
        state.has_client(handle, keeper, serial)?;
        if client_serial <= state.outgrown {
            return Err(Errno::BUSY);
        }
        let (ino, _) = state.may_use_beside(handle)?;
        if state.pins.len() >= PINS {
            return Err(Errno::NFILE);
        }
        state.serial += 1;
        let number = state.serial;
        state.pins.insert(number, Pin { ino, client: keeper });
        Ok(number)
    }

    /// A client needs a pin no more: its file, unless that was no pin of it.
    pub(crate) fn unpin(&self, number: u64, client: usize) -> Option<Ino> {
        let mut state = self.state.lock();
        state.pins.get(&number).filter(|pin| pin.client == client)?;
        state.pins.remove(&number).map(|pin| pin.ino)
    }

    /// Whether a client may write a file now: what the kernel knows of it then soon is not so.
    pub(crate) fn is_written_beside(&self, ino: Ino) -> bool {
        self.state.lock().files.get(&ino).is_some_and(|file| file.leases.iter().any(|lease| lease.writes))
    }

    /// Whether any handle of a file was opened to write it.
    pub(crate) fn is_written(&self, ino: Ino) -> bool {
        let state = self.state.lock();
        let opens = state.files.get(&ino).map_or(&[][..], |file| &file.opens);
        opens.iter().any(|handle| state.opens.get(handle).is_some_and(|open| open.writes))
    }

    /// The files that have a handle which writes, through the kernel or beside it.
    pub(crate) fn open_to_write(&self) -> Vec<Ino> {
        let state = self.state.lock();
        let writes = |file: &OpenFile| file.opens.iter().any(|handle| state.opens[handle].writes);
        state.files.iter().filter(|(_, file)| writes(file)).map(|(&ino, _)| ino).collect()
    }

    /// Whether a file was opened to write it.
    pub(crate) fn writes(&self, handle: u64) -> bool {
        self.state.lock().opens.get(&handle).is_some_and(|open| open.writes)
    }

    /// Whether closing a handle ends a lease.
    pub(crate) fn has_lease(&self, handle: u64) -> bool {
        let state = self.state.lock();
        let open = state.opens.get(&handle);
        open.and_then(|open| state.files.get(&open.ino)).is_some_and(|file| !file.leases.is_empty())
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
        let others = state.files.get(&open.ino).map_or(&[][..], |file| &file.opens);
        let is_open = others.iter().any(|handle| state.opens[handle].client == Some(client));
        if is_open {
            return None;
        }
        state.end_leases(&self.gate, open.ino, |lease| lease.client == client);
        if state.files.get(&open.ino).is_some_and(|file| file.opens.is_empty()) {
            state.files.remove(&open.ino);
        }
        open.writes.then_some(open.ino)
    }

    /// A place for a client, and its serial number.
    pub(crate) fn add_client(&self) -> Option<(usize, u64)> {
        let mut state = self.state.lock();
        let client = state.clients.iter().position(|&serial| serial == 0)?;
        state.serial += 1;
        state.clients[client] = state.serial;
        self.gate.welcome(client, state.serial);
        Some((client, state.serial))
    }

    /// A client is gone, and no thread of it looks at the words of its leases any more. What it had open by the kernel that closes, unless a
    /// child of it still has it.
    fn remove_client(&self, client: usize) -> Left {
        // A thread of the owner that waits for the client can go on now.
        self.gate.forget(client);
        let mut state = self.state.lock();
        let files: Vec<Ino> = state.files.keys().copied().collect();
        for ino in files {
            state.end_leases(&self.gate, ino, |lease| lease.client == client);
        }
        let mut beside = Vec::new();
        for (&handle, open) in state.opens.iter_mut().filter(|(_, open)| open.client == Some(client)) {
            open.client = None;
            if open.beside.is_some() {
                beside.push(handle);
            }
        }
        state.clients[client] = 0;
        let ends = |_: &u64, pin: &mut Pin| pin.client == client;
        let pins = state.pins.extract_if(ends).map(|(_, pin)| pin.ino).collect();
        beside.sort_unstable();
        let opens =
            beside.into_iter().filter_map(|handle| state.closed(handle)).map(|open| open.ino).collect();
        Left { pins, opens }
    }
}

impl State {
    fn opened_beside(&self, handle: u64, client: usize) -> Result<(Ino, Ino, &[u8])> {
        let open = self.opens.get(&handle).filter(|open| open.client == Some(client)).ok_or(Errno::BADF)?;
        let (parent, name) = open.beside.as_ref().ok_or(Errno::BADF)?;
        Ok((open.ino, *parent, name))
    }

    /// A client says that a handle is its own.
    fn has_client(&mut self, handle: u64, client: usize, serial: u64) -> Result<()> {
        if serial == 0 || self.clients.get(client) != Some(&serial) {
            return Err(Errno::INVAL);
        }
        self.opens.get_mut(&handle).ok_or(Errno::BADF)?.client = Some(client);
        Ok(())
    }

    /// The file of a handle, and whether a program has the file open to write, if a client that uses the file beside the owner cannot see a
    /// difference.
    fn may_use_beside(&self, handle: u64) -> Result<(Ino, bool)> {
        let open = self.opens.get(&handle).ok_or(Errno::BADF)?;
        let file = self.files.get(&open.ino).ok_or(Errno::BADF)?;
        let of_file = || file.opens.iter().filter_map(|handle| self.opens.get(handle));
        let writes = of_file().any(|other| other.writes);
        let only_one = of_file().all(|other| other.client.is_some() && other.client == open.client);
        if file.is_barred || writes && !only_one { Err(Errno::BUSY) } else { Ok((open.ino, writes)) }
    }

    fn end_leases(&mut self, gate: &Gate, ino: Ino, ends: impl Fn(&Lease) -> bool) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let free = &mut self.free;
        file.leases.retain(|lease| {
            if ends(lease) {
                gate.lease(lease.index).store(0, Ordering::SeqCst);
                free.push(lease.index);
            }
            !ends(lease)
        });
    }

    fn closed(&mut self, handle: u64) -> Option<Open> {
        let open = self.opens.remove(&handle)?;
        if let Some(file) = self.files.get_mut(&open.ino) {
            file.opens.retain(|&other| other != handle);
            if file.opens.is_empty() && file.leases.is_empty() {
                self.files.remove(&open.ino);
            }
        }
        Some(open)
    }
}

/// What a client has said and has not been acted on.
struct Heard {
    client: usize,
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Heard {
    /// Hears more, which are numbers of pins that it needs no more; the files of these, unless it is gone.
    fn hear(&mut self, leases: &LeaseTable) -> Option<Vec<Ino>> {
        let mut more = [0; 512];
        let bytes = self.stream.read(&mut more).ok().filter(|&bytes| bytes > 0)?;
        self.bytes.extend_from_slice(&more[..bytes]);
        let (words, rest) = self.bytes.as_chunks::<8>();
        let files =
            words.iter().filter_map(|word| leases.unpin(u64::from_le_bytes(*word), self.client)).collect();
        self.bytes = rest.to_vec();
        Some(files)
    }
}

/// Welcomes clients, hears what they pin no more, and sees them go, until it is told to stop.
pub(crate) fn watch(
    listeners: &[UnixListener; 2],
    leases: &LeaseTable,
    has_left: impl Fn(Left),
    (store, survives): (&File, Survives),
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut clients: Vec<Heard> = Vec::new();
    let read_only = File::open(format!("/proc/self/fd/{}", store.as_raw_fd()))?;
    let stores = [store, &read_only];
    let time = rustix::time::Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    while !stop.load(Ordering::Relaxed) {
        let mut polled: Vec<_> =
            listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        polled.extend(clients.iter().map(|heard| PollFd::new(&heard.stream, PollFlags::IN)));
        match rustix::event::poll(&mut polled, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let has_news: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let (connecting, news) = has_news.split_at(listeners.len());
        let mut news = news.iter();
        let mut left = Left::default();
        clients.retain_mut(|heard| {
            if !news.next().is_some_and(|&is_new| is_new) {
                return true;
            }
            let said = heard.hear(leases);
            let is_there = said.is_some();
            let more = match said {
                Some(pins) => Left { pins, opens: Vec::new() },
                None => leases.remove_client(heard.client),
            };
            left.pins.extend(more.pins);
            left.opens.extend(more.opens);
            is_there
        });
        if left != Left::default() {
            has_left(left);
        }
        for ((listener, store), _) in
            listeners.iter().zip(stores).zip(connecting).filter(|(_, is_new)| **is_new)
        {
            let Ok((stream, _)) = listener.accept() else { continue };
            let peer = rustix::net::sockopt::socket_peercred(&stream);
            if !peer.is_ok_and(|peer| may_have_store(peer.uid.as_raw())) {
                continue;
            }
            let Some((client, serial)) = leases.add_client() else { continue };
            let words = [client as u64, serial, survives.number()];
            if welcome(&stream, words, [leases.gate.file().as_fd(), store.as_fd()]).is_ok() {
                clients.push(Heard { client, stream, bytes: Vec::new() });
            } else {
                leases.remove_client(client);
            }
        }
    }
    Ok(())
}

/// For clients, and for keepers.
pub(crate) fn listen(number: u64) -> io::Result<[UnixListener; 2]> {
    let listen =
        |role| UnixListener::bind_addr(&SocketAddr::from_abstract_name(messages::socket_name(number, role))?);
    Ok([listen(messages::Role::Client)?, listen(messages::Role::Keeper)?])
}

/// Whether a user may have the store's memory: a process that has it can change all of it.
pub(crate) fn may_have_store(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

fn welcome(stream: &UnixStream, words: [u64; 3], files: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let message: Vec<u8> =
        [messages::VERSION].iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(stream, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
