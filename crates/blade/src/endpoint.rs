//! The address of a blade, as its users write it.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::address::Address;
use crate::codec::MacAddress;
use crate::secure::Key;
#[cfg(feature = "secure")]
use crate::secure::{SecureBlade, SecureClient};
use crate::transport::{Ethernet, Ring, Transport, Udp};

/// The place where a blade listens, or is to be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Endpoint {
    /// A UDP socket, `udp:HOST:PORT`.
    Udp(SocketAddr),
    /// `eth:INTERFACE`, and for a client of a certain blade there `eth:INTERFACE/BLADE`.
    Ethernet {
        /// The name of the network interface.
        interface: String,
        /// The blade's hardware address; none is [`Address::ANYONE`].
        blade: Option<MacAddress>,
    },
    /// A file that two processes share, `ring:FILE`.
    Ring(PathBuf),
}

/// The reason why an endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {endpoint}: {reason}")]
pub struct EndpointError {
    endpoint: Endpoint,
    /// Part of the text, and therefore not a source: a chain of errors would say it twice.
    reason: io::Error,
}

/// An open endpoint with its transport.
pub struct Open {
    /// The transport that carries the messages.
    pub transport: Box<dyn Transport + Send>,
    /// The address of the blade.
    pub blade: Address,
}

impl Endpoint {
    /// Reads what users write. A `ring:` may have any path; all else is text.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what is allowed.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        match (text.as_bytes().strip_prefix(b"ring:"), text.to_str()) {
            (Some(path), _) if !path.is_empty() => Ok(Self::Ring(OsStr::from_bytes(path).into())),
            (_, Some(text)) => Self::parse_text(text),
            (_, None) => Err(unknown(&text.to_string_lossy())),
        }
    }

    fn parse_text(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("udp", rest)) => {
                let mut found = rest.to_socket_addrs().map_err(|error| {
                    format!("`{rest}` is no host and port: {error}; an example is udp:127.0.0.1:7400")
                })?;
                found.next().map(Self::Udp).ok_or_else(|| format!("`{rest}` has no address"))
            }
            Some(("eth", rest)) if !rest.is_empty() => {
                let (interface, blade) = match rest.split_once('/') {
                    Some((interface, blade)) => (interface, Some(blade.parse()?)),
                    None => (rest, None),
                };
                Ok(Self::Ethernet { interface: interface.to_owned(), blade })
            }
            _ => Err(unknown(text)),
        }
    }

    /// Opens the endpoint for a blade; with a key, for clients that have it too, at most `clients` at once. The
    /// blade's address says which port was chosen, where that was left to the system.
    pub fn listen(&self, key: Option<Key>, clients: usize) -> Result<Open, EndpointError> {
        let Open { transport, blade } = self.named(match self {
            Self::Udp(at) => Udp::listen(*at).and_then(|udp| {
                let blade = Address::Udp(udp.address()?);
                Ok(Open { transport: Box::new(udp), blade })
            }),
            Self::Ethernet { interface, .. } => Ethernet::listen(interface).map(|card| {
                let blade = Address::Ethernet(card.address());
                Open { transport: Box::new(card), blade }
            }),
            Self::Ring(path) => {
                Ring::listen(path).map(|ring| Open { transport: Box::new(ring), blade: Ring::PEER })
            }
        })?;
        let Some(key) = key else { return Ok(Open { transport, blade }) };
        #[cfg(feature = "secure")]
        return Ok(Open { transport: Box::new(SecureBlade::new(transport, key, clients)), blade });
        #[cfg(not(feature = "secure"))]
        self.named(no_cryptography(key, clients))
    }

    /// Opens the endpoint for a client of the blade that listens there, and that has this key if it has one.
    pub fn connect(&self, key: Option<Key>) -> Result<Open, EndpointError> {
        let Open { transport, blade } = self.named(match self {
            Self::Udp(blade) => {
                Udp::towards(*blade).map(|udp| Open { transport: Box::new(udp), blade: Address::Udp(*blade) })
            }
            Self::Ethernet { interface, blade } => Ethernet::client(interface).map(|card| {
                let blade = blade.map_or(Address::ANYONE, Address::Ethernet);
                Open { transport: Box::new(card), blade }
            }),
            Self::Ring(path) => {
                Ring::connect(path).map(|ring| Open { transport: Box::new(ring), blade: Ring::PEER })
            }
        })?;
        let Some(key) = key else { return Ok(Open { transport, blade }) };
        #[cfg(feature = "secure")]
        return Ok(Open {
            transport: Box::new(self.named(SecureClient::new(transport, blade, key))?),
            blade,
        });
        #[cfg(not(feature = "secure"))]
        self.named(no_cryptography(key, 1))
    }

    fn named<T>(&self, result: io::Result<T>) -> Result<T, EndpointError> {
        result.map_err(|reason| EndpointError { endpoint: self.clone(), reason })
    }
}

/// A key is refused rather than not used.
#[cfg(not(feature = "secure"))]
fn no_cryptography(_: Key, _clients: usize) -> io::Result<Open> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "a key, and the feature `secure` of pagewalk-blade is off",
    ))
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(OsStr::new(text))
    }
}

fn unknown(text: &str) -> String {
    format!("`{text}` is no blade's address; there are udp:127.0.0.1:7400, eth:INTERFACE and ring:FILE")
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(at) => write!(f, "udp:{at}"),
            Self::Ethernet { interface, blade: Some(blade) } => write!(f, "eth:{interface}/{blade}"),
            Self::Ethernet { interface, blade: None } => write!(f, "eth:{interface}"),
            Self::Ring(path) => write!(f, "ring:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_may_have_any_path() {
        let path = OsStr::from_bytes(b"/run/caf\xe9:\xff");
        let text = [b"ring:", path.as_bytes()].concat();
        assert_eq!(Endpoint::parse(OsStr::from_bytes(&text)), Ok(Endpoint::Ring(path.into())));
        for wrong in [&b"udp:\xff:1"[..], b"eth:\xff", b"\xff"] {
            assert!(Endpoint::parse(OsStr::from_bytes(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn endpoints_are_printed_as_they_are_written() {
        for text in
            ["udp:127.0.0.1:7400", "udp:[::1]:0", "eth:eth0", "eth:eth0/02:00:00:00:00:01", "ring:/run/blade"]
        {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for wrong in ["", "udp", "udp:", "udp:127.0.0.1", "eth:", "eth:eth0/02", "ring:", "tcp:127.0.0.1:1"] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
