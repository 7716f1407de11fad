//! Where a blade is, as its users write it.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::address::Address;
use crate::transport::{Transport, Udp};

/// Where a blade listens, or is to be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// `udp:HOST:PORT`.
    Udp(SocketAddr),
}

/// Why it could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {endpoint}: {source}")]
pub struct EndpointError {
    endpoint: Endpoint,
    source: io::Error,
}

/// An open endpoint.
pub struct Open {
    /// Carries the messages.
    pub transport: Box<dyn Transport + Send>,
    /// The blade's.
    pub blade: Address,
}

impl Endpoint {
    /// For a blade. Its address says which port was chosen, where that was left to the system.
    pub fn listen(&self) -> Result<Open, EndpointError> {
        self.opened(match self {
            Self::Udp(at) => Udp::listen(*at).and_then(|udp| {
                let blade = Address::Udp(udp.address()?);
                Ok(Open { transport: Box::new(udp), blade })
            }),
        })
    }

    /// For a client of the blade that listens there.
    pub fn connect(&self) -> Result<Open, EndpointError> {
        self.opened(match self {
            Self::Udp(blade) => {
                Udp::towards(*blade).map(|udp| Open { transport: Box::new(udp), blade: Address::Udp(*blade) })
            }
        })
    }

    fn opened(&self, result: io::Result<Open>) -> Result<Open, EndpointError> {
        result.map_err(|source| EndpointError { endpoint: self.clone(), source })
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(("udp", rest)) = text.split_once(':') else {
            return Err(format!("`{text}` is no blade's address; one is udp:127.0.0.1:7400"));
        };
        let mut found = rest.to_socket_addrs().map_err(|error| {
            format!("`{rest}` is no host and port: {error}; an example is udp:127.0.0.1:7400")
        })?;
        found.next().map(Self::Udp).ok_or_else(|| format!("`{rest}` has no address"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(at) => write!(f, "udp:{at}"),
        }
    }
}
