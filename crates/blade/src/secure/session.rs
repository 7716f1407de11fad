//! Keys, tags and the datagrams of a session.

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;

use super::{Key, OVERHEAD_BYTES};
use crate::transport::MAX_DATAGRAM_BYTES;

pub(super) use super::{HEADER_BYTES, TAG_BYTES};
pub(super) const RANDOM_BYTES: usize = 32;
const SESSION_BYTES: usize = 8;
/// Version 1 of this framing.
const VERSION: u8 = 1;

pub(super) type Random = [u8; RANDOM_BYTES];
pub(super) type SessionId = [u8; SESSION_BYTES];
pub(super) type Hello = [u8; HEADER_BYTES + RANDOM_BYTES + TAG_BYTES];
pub(super) type Welcome = [u8; HEADER_BYTES + SESSION_BYTES + RANDOM_BYTES + TAG_BYTES];

/// What a datagram says it is; nothing about it is proven yet.
pub(super) enum Datagram {
    Hello { random: Random },
    Welcome { session: SessionId, random: Random },
    Lost { session: SessionId, random: Random },
    Data { session: SessionId, number: u64 },
}

impl Datagram {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[kind, VERSION, ..], rest) = bytes.split_first_chunk::<HEADER_BYTES>()? else { return None };
        match kind {
            1 => {
                let (&random, tag) = rest.split_first_chunk()?;
                (tag.len() == TAG_BYTES).then_some(Self::Hello { random })
            }
            2 | 3 => {
                let (&session, rest) = rest.split_first_chunk()?;
                let (&random, tag) = rest.split_first_chunk()?;
                let datagram = if kind == 2 {
                    Self::Welcome { session, random }
                } else {
                    Self::Lost { session, random }
                };
                (tag.len() == TAG_BYTES).then_some(datagram)
            }
            4 => {
                let (&session, rest) = rest.split_first_chunk()?;
                let (&number, sealed) = rest.split_first_chunk()?;
                let number = u64::from_le_bytes(number);
                (sealed.len() >= TAG_BYTES).then_some(Self::Data { session, number })
            }
            _ => None,
        }
    }
}

impl Key {
    /// A key for one purpose and these random numbers.
    fn derive(&self, salt: &[u8], purpose: &str) -> ChaCha20Poly1305 {
        let mut key = chacha20poly1305::Key::default();
        Hkdf::<Sha256>::new(Some(salt), &self.0)
            .expand(purpose.as_bytes(), &mut key)
            .expect("HKDF gives up to 8160 bytes");
        ChaCha20Poly1305::new(&key)
    }

    pub(super) fn hello(&self, random: &Random) -> Hello {
        self.tagged(&[&header(1), random], random, "pagewalk blade 1 hello")
    }

    pub(super) fn welcome(&self, session: &SessionId, client: &Random, blade: &Random) -> Welcome {
        let salt = [*client, *blade].concat();
        self.tagged(&[&header(2), session, blade], &salt, "pagewalk blade 1 welcome")
    }

    pub(super) fn lost(&self, session: &SessionId, random: &Random) -> Welcome {
        self.tagged(&[&header(3), session, random], random, "pagewalk blade 1 lost")
    }

    /// The fields, and behind them a tag, made with a key that is used for nothing else.
    fn tagged<const N: usize>(&self, fields: &[&[u8]], salt: &[u8], purpose: &str) -> [u8; N] {
        let mut bytes = [0; N];
        let (front, tag) = bytes.split_at_mut(N - TAG_BYTES);
        front.copy_from_slice(&fields.concat());
        let made = self.derive(salt, purpose).encrypt_in_place_detached(&Nonce::default(), front, &mut []);
        tag.copy_from_slice(&made.expect("nothing is not too long"));
        bytes
    }
}

/// Whether two datagrams are equal, in a time that does not tell where they differ.
pub(super) fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

fn header(kind: u8) -> [u8; HEADER_BYTES] {
    [kind, VERSION, 0, 0, 0, 0, 0, 0]
}

/// One side of a session.
pub(super) struct Session {
    pub(super) id: SessionId,
    sends: ChaCha20Poly1305,
    receives: ChaCha20Poly1305,
    next: u64,
    window: ReplayWindow,
}

/// The side of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Blade,
}

impl Session {
    pub(super) fn new(key: &Key, side: Side, id: SessionId, client: &Random, blade: &Random) -> Self {
        let salt = [&client[..], blade, &id].concat();
        let to_blade = key.derive(&salt, "pagewalk blade 1 to blade");
        let to_client = key.derive(&salt, "pagewalk blade 1 to client");
        let (sends, receives) =
            if side == Side::Client { (to_blade, to_client) } else { (to_client, to_blade) };
        Self { id, sends, receives, next: 0, window: ReplayWindow::default() }
    }

    /// The datagram with this message, in `buffer`. None if it is too long, or all numbers are used up.
    pub(super) fn seal<'b>(
        &mut self,
        message: &[u8],
        buffer: &'b mut [u8; MAX_DATAGRAM_BYTES],
    ) -> Option<&'b [u8]> {
        let datagram = buffer.get_mut(..message.len() + OVERHEAD_BYTES)?;
        let number = self.next;
        self.next = number.checked_add(1)?;
        let (front, rest) = datagram.split_at_mut(HEADER_BYTES + 16);
        front[..HEADER_BYTES].copy_from_slice(&header(4));
        front[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&self.id);
        front[HEADER_BYTES + 8..].copy_from_slice(&number.to_le_bytes());
        let (body, tag) = rest.split_at_mut(message.len());
        body.copy_from_slice(message);
        let made = self.sends.encrypt_in_place_detached(&nonce(number), front, body).ok()?;
        tag.copy_from_slice(&made);
        Some(datagram)
    }

    /// The message of a datagram of this session, in `buffer`; how long it is. None if it is forged, or was there before.
    pub(super) fn open(&mut self, datagram: &[u8], number: u64, buffer: &mut [u8]) -> Option<usize> {
        let (front, rest) = datagram.split_at_checked(HEADER_BYTES + 16)?;
        let (sealed, tag) = rest.split_at_checked(rest.len().checked_sub(TAG_BYTES)?)?;
        if !self.window.is_new(number) {
            return None;
        }
        let body = buffer.get_mut(..sealed.len())?;
        body.copy_from_slice(sealed);
        self.receives.decrypt_in_place_detached(&nonce(number), front, body, Tag::from_slice(tag)).ok()?;
        self.window.take(number);
        Some(sealed.len())
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    bytes.into()
}

/// Which of the last 1024 numbers were there: more than datagrams are overtaken by.
#[derive(Default)]
pub(super) struct ReplayWindow {
    /// One more than the highest.
    end: u64,
    taken: [u64; 16],
}

impl ReplayWindow {
    const NUMBERS: u64 = 1024;

    pub(super) fn is_new(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        number >= self.end || (self.end - number <= Self::NUMBERS && self.taken[word] & bit == 0)
    }

    /// `number` must be new.
    pub(super) fn take(&mut self, number: u64) {
        if number >= self.end {
            if number - self.end >= Self::NUMBERS {
                self.taken = [0; 16];
            } else {
                for skipped in self.end..number {
                    let (word, bit) = Self::place(skipped);
                    self.taken[word] &= !bit;
                }
            }
            // Never the last number: the sender stops before it.
            self.end = number.saturating_add(1);
        }
        let (word, bit) = Self::place(number);
        self.taken[word] |= bit;
    }

    fn place(number: u64) -> (usize, u64) {
        ((number % Self::NUMBERS / 64) as usize, 1 << (number % 64))
    }
}
