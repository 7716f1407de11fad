//! The socket on which the observed processes send their messages.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size, set_socket_send_buffer_size, set_socket_timeout,
};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use crate::protocol::MESSAGE_BYTES_MAX;

/// Programs expect low descriptors to be free; ours goes as high as ordinary limits allow.
const HIGH_DESCRIPTORS: [RawFd; 3] = [1_000, 200, 3];

/// Room for a few full messages, so that program and reader overlap.
const SOCKET_BYTES: usize = 1 << 20;

/// Our end, with a buffer for one message.
pub(crate) struct Channel {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// The program's end.
pub(crate) struct ProgramEnd {
    socket: OwnedFd,
    /// The socket's inode number, by which a front-end makes sure that the descriptor is what it was told.
    pub(crate) inode: u64,
}

/// What came in.
pub(crate) enum Received<'a> {
    /// A message.
    Message(&'a [u8]),
    /// Every process has closed its end.
    End,
    /// Nothing within the time set.
    Nothing,
}

/// A connected pair.
pub(crate) fn pair() -> io::Result<(Channel, ProgramEnd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // The system caps these at its own limit; smaller buffers only mean more waiting.
    set_socket_send_buffer_size(&theirs, SOCKET_BYTES)?;
    set_socket_recv_buffer_size(&ours, SOCKET_BYTES)?;
    let high = HIGH_DESCRIPTORS.iter().find_map(|&least| fcntl_dupfd_cloexec(&theirs, least).ok());
    let socket = high.unwrap_or(theirs);
    let inode = rustix::fs::fstat(&socket)?.st_ino;
    Ok((Channel { socket: ours, buffer: vec![0; MESSAGE_BYTES_MAX + 8] }, ProgramEnd { socket, inode }))
}

impl ProgramEnd {
    /// The descriptor's number, in the program as here.
    pub(crate) fn number(&self) -> RawFd {
        self.socket.as_raw_fd()
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
    /// The next message.
    pub(crate) fn receive(&mut self) -> io::Result<Received<'_>> {
        loop {
            match recv(self.socket.as_fd(), &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(Received::End),
                Ok((_, bytes)) => return Ok(Received::Message(&self.buffer[..bytes.min(self.buffer.len())])),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                // A program that dies with unread messages of its own behind it resets the connection.
                Err(Errno::CONNRESET) => return Ok(Received::End),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// From now on [`Channel::receive`] gives up after `wait`.
    pub(crate) fn set_patience(&self, wait: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, Some(wait))?)
    }
}
