//! The address of the other end of a transport.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::codec::MacAddress;

/// The address that a message came from, or goes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Address {
    /// The address of a UDP socket.
    Udp(SocketAddr),
    /// The hardware address of an Ethernet card.
    Ethernet(MacAddress),
    /// The other end of a ring or of a blade in this process, by number.
    Local(u64),
}

/// A machine: all sockets of one count as one where limits are about machines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Host {
    Ip(IpAddr),
    Ethernet(MacAddress),
    Local(u64),
}

impl Address {
    /// The first blade that answers: the blade of an Ethernet whose own address is not known.
    pub const ANYONE: Self = Self::Ethernet(MacAddress::BROADCAST);

    /// Whether what comes from there is from `blade`.
    pub(crate) fn is_of(self, blade: Self) -> bool {
        self == blade || blade == Self::ANYONE
    }

    pub(crate) fn host(self) -> Host {
        match self {
            Self::Udp(socket) => Host::Ip(socket.ip().to_canonical()),
            Self::Ethernet(card) => Host::Ethernet(card),
            Self::Local(number) => Host::Local(number),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(socket) => write!(f, "udp:{socket}"),
            Self::Ethernet(card) => write!(f, "eth:{card}"),
            Self::Local(number) => write!(f, "local:{number}"),
        }
    }
}
