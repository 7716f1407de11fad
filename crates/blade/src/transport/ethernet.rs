//! Messages in raw Ethernet frames on one interface, without padding in front, as they are on a wire.

mod socket;

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};

use super::{MAX_DATAGRAM_BYTES, Transport};
use crate::address::Address;
use crate::codec::{ETHERNET_MAX_BYTES, EtherType, EthernetHeader, MacAddress, Pad};

/// A packet socket (Linux, `CAP_NET_RAW`), bound to an interface and to one of the protocol's Ethernet types.
///
/// The kernel takes 802.1Q tags off before a packet socket sees a frame: for a virtual network, name its interface (`eth0.5`).
#[derive(Debug)]
pub struct Ethernet {
    socket: OwnedFd,
    own: MacAddress,
    sends: EtherType,
    receives: EtherType,
    /// What the socket was told last.
    patience: Option<Duration>,
    dropped: u64,
}

impl Ethernet {
    /// Opens an interface for a blade: takes the requests that come to this interface, or to all.
    pub fn listen(interface: &str) -> io::Result<Self> {
        Self::open(interface, EtherType::Request, EtherType::Response)
    }

    /// Opens an interface for a client: takes the responses that come to this interface.
    pub fn client(interface: &str) -> io::Result<Self> {
        Self::open(interface, EtherType::Response, EtherType::Request)
    }

    /// Returns the interface's hardware address.
    pub fn address(&self) -> MacAddress {
        self.own
    }

    fn is_for_us(&self, header: &EthernetHeader) -> bool {
        let to_all = self.receives == EtherType::Request && header.destination == MacAddress::BROADCAST;
        header.kind == self.receives && (header.destination == self.own || to_all)
    }

    fn open(interface: &str, receives: EtherType, sends: EtherType) -> io::Result<Self> {
        let (socket, own) = socket::open(interface, receives).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => io::Error::new(
                ErrorKind::PermissionDenied,
                "raw Ethernet needs CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` the program",
            ),
            _ => error,
        })?;
        Ok(Self { socket, own, sends, receives, patience: None, dropped: 0 })
    }
}

impl Transport for Ethernet {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        let Address::Ethernet(destination) = to else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not an Ethernet address"));
        };
        if message.len() > MAX_DATAGRAM_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidInput, "longer than a message can be"));
        }
        let mut frame = [0; ETHERNET_MAX_BYTES];
        let header = EthernetHeader { destination, source: self.own, vlan: None, kind: self.sends };
        let start = header.emit(Pad::None, &mut frame);
        let end = start + message.len();
        frame[start..end].copy_from_slice(message);
        rustix::net::send(&self.socket, &frame[..end], SendFlags::empty())?;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        let mut flags = RecvFlags::empty();
        if patience.is_zero() {
            flags = RecvFlags::DONTWAIT;
        } else {
            // Setting a time limit is a system call of its own: only few different ones are set.
            let milliseconds = patience.as_millis().clamp(1, 1 << 16) as u64;
            let patience = Some(Duration::from_millis(1 << milliseconds.ilog2()));
            if self.patience != patience {
                let timeout = rustix::net::sockopt::Timeout::Recv;
                rustix::net::sockopt::set_socket_timeout(&self.socket, timeout, patience)?;
                self.patience = patience;
            }
        }
        // More than the longest frame, so that one that is too long is seen to be.
        let mut frame = [0; 2 * ETHERNET_MAX_BYTES];
        let bytes = match rustix::net::recv(&self.socket, &mut frame, flags) {
            Ok((bytes, _)) => bytes,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
                    // Said once; frames come again when the link does.
                    ErrorKind::NetworkDown => Ok(None),
                    _ => Err(error.into()),
                };
            }
        };
        match EthernetHeader::parse(&frame[..bytes], Pad::None) {
            Ok((header, message)) if self.is_for_us(&header) => {
                let bytes = message.len().min(buffer.len());
                buffer[..bytes].copy_from_slice(&message[..bytes]);
                Ok(Some((bytes, Address::Ethernet(header.source))))
            }
            _ => {
                self.dropped += 1;
                Ok(None)
            }
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}
