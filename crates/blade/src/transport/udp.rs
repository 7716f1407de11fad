//! Messages in UDP datagrams, one in each, without Ethernet header or padding.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::Transport;
use crate::address::Address;

/// Room for many parts of pages on their way: several clients' windows.
const SOCKET_BYTES: usize = 4 << 20;

/// A transport over a UDP socket.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    /// What the socket was told last; no time at all is not to wait.
    patience: Option<Duration>,
}

impl Udp {
    /// Opens a socket for a blade at this address; port 0 lets the system choose.
    pub fn listen(at: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(at)?;
        // The system may grant less, which only means that more is lost under load.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES);
        Ok(Self { socket, patience: None })
    }

    /// Opens a socket for a client of this blade: at any port, and reachable only from this machine if the blade is
    /// on it.
    pub fn towards(blade: SocketAddr) -> io::Result<Self> {
        let own = match blade {
            SocketAddr::V4(blade) if blade.ip().is_loopback() => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(blade) if blade.ip().is_loopback() => Ipv6Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self::listen(SocketAddr::new(own, 0))
    }

    /// Returns the address that the socket is bound to.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Setting a time limit is a system call of its own: only few different ones are set.
    fn be_patient(&mut self, patience: Duration) -> io::Result<()> {
        let milliseconds = patience.as_millis().clamp(1, 1 << 16) as u64;
        let limit = Duration::from_millis(1 << milliseconds.ilog2());
        let limit = if patience.is_zero() { Duration::ZERO } else { limit };
        if self.patience != Some(limit) {
            self.socket.set_nonblocking(limit.is_zero())?;
            if !limit.is_zero() {
                self.socket.set_read_timeout(Some(limit))?;
            }
            self.patience = Some(limit);
        }
        Ok(())
    }
}

impl Transport for Udp {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        let Address::Udp(to) = to else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a UDP address"));
        };
        self.socket.send_to(message, to).map(|_| ())
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        self.be_patient(patience)?;
        match self.socket.recv_from(buffer) {
            Ok((bytes, from)) => Ok(Some((bytes, Address::Udp(from)))),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
                // An answer of the network to something sent earlier.
                ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable => Ok(None),
                _ => Err(error),
            },
        }
    }
}
