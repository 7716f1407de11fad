//! The socket on which the observed processes send their messages.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, recv,
    socket_with, socketpair,
};

use crate::protocol::MESSAGE_BYTES_MAX;

/// Programs expect low descriptors to be free; ours goes as high as ordinary limits allow.
const HIGH_DESCRIPTORS: [RawFd; 3] = [1_000, 200, 3];

/// Room for a few full messages, so that program and reader overlap.
const SOCKET_BYTES: usize = 1 << 20;

/// The most connections at a time of processes that lost the inherited socket; more than these are not let in.
const REJOINED_MAX: usize = 4_096;

/// Bytes of randomness in the name and in the key of the socket to rejoin by.
const SECRET_BYTES: usize = 16;

/// Our end, with a buffer for one message.
pub(crate) struct Channel {
    /// The sockets that a process has open: the inherited one first, then those of processes that rejoined, oldest first. What led
    /// to a connection was sent on older ones, which are therefore read first.
    sockets: Vec<OwnedFd>,
    /// Connected, but the key has not come yet.
    strangers: Vec<OwnedFd>,
    listener: OwnedFd,
    key: String,
    patience: Option<Duration>,
    buffer: Vec<u8>,
}

/// The program's end of the channel.
pub(crate) struct ProgramEnd {
    socket: OwnedFd,
    /// The socket's inode number, by which a front-end makes sure that the descriptor is what it was told.
    pub(crate) inode: u64,
    /// `name:key` of the socket by which a process comes back that has closed the inherited one.
    rejoin: String,
}

/// The outcome of waiting for a message.
pub(crate) enum Received<'a> {
    /// A message has come.
    Message(&'a [u8]),
    /// Every process has closed its end. One that still runs may come back.
    End,
    /// Nothing within the time set.
    Nothing,
}

fn secret() -> io::Result<String> {
    let mut bytes = [0u8; SECRET_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    assert_eq!(filled, SECRET_BYTES, "the system gives up to 256 bytes whole");
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the two ends of a new channel.
pub(crate) fn pair() -> io::Result<(Channel, ProgramEnd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // The system caps these at its own limit; smaller buffers only mean more waiting.
    set_socket_send_buffer_size(&theirs, SOCKET_BYTES)?;
    set_socket_recv_buffer_size(&ours, SOCKET_BYTES)?;
    let high = HIGH_DESCRIPTORS.iter().find_map(|&least| fcntl_dupfd_cloexec(&theirs, least).ok());
    let socket = high.unwrap_or(theirs);
    let inode = rustix::fs::fstat(&socket)?.st_ino;
    let (name, key) = (format!("pagewalk-{}", secret()?), secret()?);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&listener, 64)?;
    let channel = Channel {
        sockets: vec![ours],
        strangers: Vec::new(),
        listener,
        key: key.clone(),
        patience: None,
        buffer: vec![0; MESSAGE_BYTES_MAX + 8],
    };
    Ok((channel, ProgramEnd { socket, inode, rejoin: format!("{name}:{key}") }))
}

impl ProgramEnd {
    /// The descriptor's number, in the program as here.
    pub(crate) fn number(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// What the call-out runtime and the QEMU plugin are told: `descriptor:inode:name:key`, as long for every run, since the
    /// environment lies on the stack and what is below it would move.
    pub(crate) fn text(&self) -> String {
        format!("{:010}:{:020}:{}", self.number(), self.inode, self.rejoin)
    }

    /// What a process must say to come back. What we start has it among its variables or its arguments, and so have its children.
    pub(crate) fn key(&self) -> &str {
        self.rejoin.rsplit(':').next().expect("a text has a last part")
    }

    /// Lets the program that `command` starts inherit the descriptor.
    #[allow(unsafe_code)]
    pub(crate) fn inherit_into(&self, command: &mut Command) {
        let number = self.number();
        let clear = move || {
            // SAFETY: (1) the closure runs in the forked child, where the descriptor is open because `self` outlives
            // the spawn (the caller drops it afterwards); (2) it makes one fcntl call, which is async-signal-safe,
            // and allocates nothing. Clearing the flag in this process instead would leak the descriptor into
            // programs that other threads start.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl_setfd(fd, FdFlags::empty()).map_err(io::Error::from)
        };
        // SAFETY: see above; the closure only makes async-signal-safe calls.
        unsafe { command.pre_exec(clear) };
    }
}

impl Channel {
    /// Returns the next message.
    pub(crate) fn receive(&mut self) -> io::Result<Received<'_>> {
        loop {
            let mut place = 0;
            while place < self.sockets.len() {
                match recv(&self.sockets[place], &mut self.buffer[..], RecvFlags::DONTWAIT) {
                    // A program that dies with unread messages of its own behind it resets the connection.
                    Ok((_, 0)) | Err(Errno::CONNRESET) => drop(self.sockets.remove(place)),
                    Ok((_, bytes)) => {
                        return Ok(Received::Message(&self.buffer[..bytes.min(self.buffer.len())]));
                    }
                    Err(Errno::AGAIN | Errno::INTR) => place += 1,
                    Err(error) => return Err(error.into()),
                }
            }
            self.let_in()?;
            if self.sockets.is_empty() {
                return Ok(Received::End);
            }
            if !self.wait(self.patience)? {
                return Ok(Received::Nothing);
            }
        }
    }

    /// After the end: waits for a process to come back, for at most `wait`; whether one has.
    pub(crate) fn wait_for_rejoin(&mut self, wait: Duration) -> io::Result<bool> {
        self.wait(Some(wait))?;
        self.let_in()?;
        Ok(!self.sockets.is_empty())
    }

    /// Accepts connections, and takes those whose first message is the key.
    fn let_in(&mut self) -> io::Result<()> {
        loop {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) if self.sockets.len() + self.strangers.len() < REJOINED_MAX => {
                    self.strangers.push(socket)
                }
                Ok(_) | Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut still_strange = Vec::new();
        for socket in self.strangers.drain(..) {
            let mut said = [0; 2 * SECRET_BYTES + 1];
            match recv(&socket, &mut said[..], RecvFlags::DONTWAIT) {
                Ok((_, bytes)) if bytes == self.key.len() && said[..bytes] == *self.key.as_bytes() => {
                    self.sockets.push(socket);
                }
                Err(Errno::AGAIN | Errno::INTR) => still_strange.push(socket),
                Ok(_) | Err(_) => {}
            }
        }
        self.strangers = still_strange;
        Ok(())
    }

    /// Waits until there is something to read or to accept; false if the time was up first.
    fn wait(&self, time: Option<Duration>) -> io::Result<bool> {
        let open = self.sockets.iter().chain(&self.strangers).chain([&self.listener]);
        let mut polled: Vec<PollFd<'_>> = open.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let time = time.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut polled, time.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// From now on [`Channel::receive`] gives up after `wait`.
    pub(crate) fn set_patience(&mut self, wait: Duration) {
        self.patience = Some(wait);
    }
}
