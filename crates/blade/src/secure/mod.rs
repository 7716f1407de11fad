//! Datagrams that no party without the key can read, forge or replay.
//!
//! Both sides have a key of 32 bytes. A client's first message waits for a handshake of two datagrams, in which both sides
//! contribute a random number; from these and the key come two keys for this session alone, one for each direction (HKDF with
//! SHA-256). A datagram is sealed with ChaCha20-Poly1305 under its direction's key, its number in that direction as the nonce.
//! The numbers begin at 0 and are never used again, and neither is a session's key, whichever side is started anew.
//!
//! ```text
//!  0      1         2          8
//! +------+---------+----------+----------------+------------------+--------+
//! | 1    | version | reserved | client random 32                  | tag 16 |   hello, to the blade
//! | 2    | version | reserved | session 8      | blade random 32  | tag 16 |   welcome
//! | 3    | version | reserved | session 8      | random 32        | tag 16 |   lost: the blade has no such session
//! | 4    | version | reserved | session 8      | number 8 | sealed message n + 16    data, either way
//! +------+---------+----------+----------------+------------------+--------+
//! ```
//!
//! All fields before a tag are authenticated by it. The tags of the first three are made with keys of their own, from the key
//! and the random numbers; so nothing is accepted from a sender without the key.
//!
//! # What it protects against
//!
//! An attacker that sees and changes all traffic, but has not got the key, learns no more than which machines talk, when, and
//! how long messages are. Such an attacker cannot make either side accept a message that the other did not send in this session, or accept one
//! twice: datagrams of earlier sessions, of before a restart of either side, and of the other direction have other keys.
//!
//! # What it does not
//!
//! - Against loss and delay. An attacker that can change traffic can stop it; one that can send much can fill sockets, and make handshakes slow.
//! - Clients against each other: all have the one key, and every client may read and write all pages.
//! - The past, once the key is known: an attacker that recorded the traffic can then read it (there is no Diffie-Hellman exchange).
//! - Pages in the blade's memory and file, which are as they are.
//!
//! All but the key itself needs the feature `secure`, which is on by default.

#[cfg(feature = "secure")]
mod blade;
#[cfg(feature = "secure")]
mod client;
#[cfg(feature = "secure")]
mod session;
#[cfg(all(test, feature = "secure"))]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[cfg(feature = "secure")]
pub use blade::{SecureBlade, SecureCounts};
#[cfg(feature = "secure")]
pub use client::SecureClient;

const HEADER_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// The number of bytes by which a datagram is longer than its message.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 16 + TAG_BYTES;

/// The key that both sides know and no other party.
#[derive(Clone)]
pub struct Key(#[cfg_attr(not(feature = "secure"), expect(dead_code))] [u8; 32]);

/// The reason why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key {}: {reason}", path.display())]
    Io {
        /// The path of the key's file.
        path: PathBuf,
        /// The system's answer: part of the text, and therefore not a source.
        reason: io::Error,
    },
    /// The file is not 32 bytes long.
    #[error("{} is no key: it must have exactly 32 bytes, such as `head -c 32 /dev/urandom` gives", .0.display())]
    Length(PathBuf),
}

impl Key {
    /// Creates a key of these bytes, which must be as good as random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads a key from a file of exactly 32 bytes.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let io = |reason| KeyError::Io { path: path.to_owned(), reason };
        let mut bytes = Vec::with_capacity(64);
        File::open(path).and_then(|file| file.take(33).read_to_end(&mut bytes)).map_err(io)?;
        bytes.try_into().map(Self).map_err(|_| KeyError::Length(path.to_owned()))
    }
}

/// Keeps the key out of logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(feature = "secure")]
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled == N { Ok(bytes) } else { Err(io::Error::other("too few random bytes")) }
}
