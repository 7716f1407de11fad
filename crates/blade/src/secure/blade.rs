//! The blade's side of the secure mode.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::Duration;

use super::session::{Datagram, Random, Session, SessionId, Side, Welcome, equal};
use super::{Key, random};
use crate::address::Address;
use crate::transport::{MAX_DATAGRAM_BYTES, RECEIVE_BYTES, Transport};

/// Handshakes that wait for their first message.
const MOST_PENDING: usize = 64;
/// The shortest datagram to answer with "lost": answers must not be much longer than what a stranger sends.
const WORTH_AN_ANSWER: usize = 56;

/// A transport for a blade, over another one.
///
/// A session is kept for each client's address: at most so many as are given; the one that was silent the longest gives way,
/// and its client shakes hands again. A handshake replaces a session only with its first message, so that a replayed one
/// does no harm.
pub struct SecureBlade<T> {
    inner: T,
    key: Key,
    most: usize,
    sessions: BTreeMap<Address, Established>,
    pending: BTreeMap<Address, Pending>,
    counts: SecureCounts,
}

/// The counts of what a secure transport dropped, and of its handshakes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct SecureCounts {
    /// Datagrams that came in.
    pub received: u64,
    /// Handshakes that ended with a message.
    pub sessions: u64,
    /// Datagrams that were dropped, because they have no known form.
    pub malformed: u64,
    /// Datagrams that were dropped, because they were not made with the key, or were there before.
    pub forged: u64,
    /// Told that their session is gone.
    pub lost: u64,
}

struct Established {
    session: Session,
    heard: u64,
}

struct Pending {
    client: Random,
    welcome: Welcome,
    session: Session,
    begun: u64,
}

impl<T: Transport> SecureBlade<T> {
    /// Creates a secure blade for at most `most` sessions.
    pub fn new(inner: T, key: Key, most: usize) -> Self {
        let (sessions, pending) = (BTreeMap::new(), BTreeMap::new());
        Self { inner, key, most: most.max(1), sessions, pending, counts: SecureCounts::default() }
    }

    /// Returns the counts of what was dropped so far.
    pub fn counts(&self) -> SecureCounts {
        self.counts
    }

    fn hello(&mut self, from: Address, datagram: &[u8], client: Random) -> io::Result<()> {
        if !equal(datagram, &self.key.hello(&client)) {
            self.counts.forged += 1;
            return Ok(());
        }
        let known = self.pending.get(&from).filter(|pending| pending.client == client);
        let welcome = match known {
            Some(pending) => pending.welcome,
            None => self.begin(from, client)?,
        };
        self.answer(from, &welcome);
        Ok(())
    }

    fn begin(&mut self, from: Address, client: Random) -> io::Result<Welcome> {
        if self.pending.len() >= MOST_PENDING && !self.pending.contains_key(&from) {
            let oldest = self.pending.iter().min_by_key(|(_, pending)| pending.begun);
            if let Some(oldest) = oldest.map(|(&address, _)| address) {
                self.pending.remove(&oldest);
            }
        }
        let (id, own): (SessionId, Random) = (random()?, random()?);
        let welcome = self.key.welcome(&id, &client, &own);
        let session = Session::new(&self.key, Side::Blade, id, &client, &own);
        self.pending.insert(from, Pending { client, welcome, session, begun: self.counts.received });
        Ok(welcome)
    }

    /// The message of a data datagram, if it is one of a session of this address.
    fn open(
        &mut self,
        from: Address,
        datagram: &[u8],
        id: SessionId,
        number: u64,
        buffer: &mut [u8],
    ) -> io::Result<Option<usize>> {
        if let Some(known) = self.sessions.get_mut(&from).filter(|known| known.session.id == id) {
            let opened = known.session.open(datagram, number, buffer);
            if opened.is_some() {
                known.heard = self.counts.received;
            }
            self.counts.forged += u64::from(opened.is_none());
            return Ok(opened);
        }
        if let Some(pending) = self.pending.get_mut(&from).filter(|pending| pending.session.id == id) {
            let opened = pending.session.open(datagram, number, buffer);
            self.counts.forged += u64::from(opened.is_none());
            if opened.is_some()
                && let Some(Pending { session, .. }) = self.pending.remove(&from)
            {
                self.establish(from, session);
            }
            return Ok(opened);
        }
        self.counts.lost += 1;
        if datagram.len() >= WORTH_AN_ANSWER {
            let lost = self.key.lost(&id, &random()?);
            self.answer(from, &lost);
        }
        Ok(None)
    }

    fn establish(&mut self, from: Address, session: Session) {
        if self.sessions.len() >= self.most && !self.sessions.contains_key(&from) {
            let silent = self.sessions.iter().min_by_key(|(_, known)| known.heard);
            if let Some(silent) = silent.map(|(&address, _)| address) {
                self.sessions.remove(&silent);
            }
        }
        self.counts.sessions += 1;
        self.sessions.insert(from, Established { session, heard: self.counts.received });
    }

    /// What cannot be sent is as good as lost on the way; the client asks again.
    fn answer(&mut self, to: Address, datagram: &[u8]) {
        let _ = self.inner.send(to, datagram);
        self.inner.flush();
    }
}

impl<T: Transport> Transport for SecureBlade<T> {
    fn send(&mut self, to: Address, message: &[u8]) -> io::Result<()> {
        let known = self.sessions.get_mut(&to);
        let known = known.ok_or_else(|| io::Error::new(ErrorKind::NotConnected, "no session"))?;
        let mut buffer = [0; MAX_DATAGRAM_BYTES];
        let sealed = known.session.seal(message, &mut buffer);
        let sealed =
            sealed.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "too long, or too many"))?;
        self.inner.send(to, sealed)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<(usize, Address)>> {
        let mut datagram = [0; RECEIVE_BYTES];
        let Some((bytes, from)) = self.inner.receive(&mut datagram, patience)? else { return Ok(None) };
        let datagram = &datagram[..bytes];
        self.counts.received += 1;
        match Datagram::parse(datagram) {
            Some(Datagram::Hello { random }) => self.hello(from, datagram, random)?,
            Some(Datagram::Data { session, number }) => {
                let opened = self.open(from, datagram, session, number, buffer)?;
                return Ok(opened.map(|bytes| (bytes, from)));
            }
            Some(Datagram::Welcome { .. } | Datagram::Lost { .. }) | None => self.counts.malformed += 1,
        }
        Ok(None)
    }

    fn dropped(&self) -> u64 {
        let SecureCounts { malformed, forged, lost, .. } = self.counts;
        malformed + forged + lost + self.inner.dropped()
    }
}
