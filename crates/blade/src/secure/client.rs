//! The client's side of the secure mode.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::session::{Datagram, Random, Session, Side, equal};
use super::{Key, random};
use crate::address::Address;
use crate::transport::{MAX_DATAGRAM_BYTES, RECEIVE_BYTES, Transport};

/// Messages that wait for the handshake: a client's window of page writes.
const MOST_WAITING: usize = 128;
/// How soon a hello may be sent again. It is sent with a message only: a client that sends again what is not answered drives
/// the handshake as well.
const HELLO_AGAIN: Duration = Duration::from_millis(10);

/// A transport for a client of one blade, over another one.
///
/// It shakes hands with the first message, again when the blade says that it has lost the session, and when a message is for
/// another blade. The blade of [`Address::ANYONE`] is the first that has the key.
pub struct SecureClient<T> {
    inner: T,
    /// Where messages are to go, and where that is.
    named: Address,
    blade: Address,
    key: Key,
    state: State,
    waiting: VecDeque<Vec<u8>>,
    dropped: u64,
}

enum State {
    Shaking { random: Random, sent: Option<Instant> },
    Established(Box<Session>),
}

impl<T: Transport> SecureClient<T> {
    /// Creates a secure client of the blade at this address.
    pub fn new(inner: T, blade: Address, key: Key) -> io::Result<Self> {
        let state = State::Shaking { random: random()?, sent: None };
        Ok(Self { inner, named: blade, blade, key, state, waiting: VecDeque::new(), dropped: 0 })
    }

    fn shake(&mut self) -> io::Result<()> {
        let State::Shaking { random, sent } = &mut self.state else { return Ok(()) };
        if sent.is_some_and(|sent| sent.elapsed() < HELLO_AGAIN) {
            return Ok(());
        }
        *sent = Some(Instant::now());
        self.inner.send(self.blade, &self.key.hello(random))
    }

    /// The blade's answer to the hello: from now on there is a session.
    fn welcome(&mut self, session: Session) {
        self.state = State::Established(Box::new(session));
        for message in std::mem::take(&mut self.waiting) {
            // What cannot be sent is as good as lost on the way.
            let _ = self.send(self.blade, &message);
        }
        self.inner.flush();
    }
}

impl<T: Transport> Transport for SecureClient<T> {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        if to != self.named && to != self.blade {
            (self.named, self.blade) = (to, to);
            self.state = State::Shaking { random: random()?, sent: None };
            self.waiting.clear();
        }
        match &mut self.state {
            State::Established(session) => {
                let mut buffer = [0; MAX_DATAGRAM_BYTES];
                let sealed = session.seal(message, &mut buffer);
                let sealed =
                    sealed.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "too long, or too many"))?;
                self.inner.send(self.blade, sealed)
            }
            State::Shaking { .. } => {
                if self.waiting.len() < MOST_WAITING {
                    self.waiting.push_back(message.to_vec());
                }
                self.shake()
            }
        }
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        let mut datagram = [0; RECEIVE_BYTES];
        let Some((bytes, from)) = self.inner.receive(&mut datagram, patience)? else { return Ok(None) };
        let datagram = &datagram[..bytes];
        if !from.is_of(self.blade) {
            self.dropped += 1;
            return Ok(None);
        }
        match (&mut self.state, Datagram::parse(datagram)) {
            (State::Established(own), Some(Datagram::Data { session, number })) if own.id == session => {
                let opened = own.open(datagram, number, buffer);
                self.dropped += u64::from(opened.is_none());
                Ok(opened.map(|bytes| (bytes, from)))
            }
            (State::Established(own), Some(Datagram::Lost { session, random: theirs }))
                if own.id == session && equal(datagram, &self.key.lost(&session, &theirs)) =>
            {
                self.state = State::Shaking { random: random()?, sent: None };
                Ok(None)
            }
            (State::Shaking { random: own, .. }, Some(Datagram::Welcome { session, random: theirs }))
                if equal(datagram, &self.key.welcome(&session, own, &theirs)) =>
            {
                let session = Session::new(&self.key, Side::Client, session, own, &theirs);
                self.blade = from;
                self.welcome(session);
                Ok(None)
            }
            _ => {
                self.dropped += 1;
                Ok(None)
            }
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped + self.inner.dropped()
    }
}
