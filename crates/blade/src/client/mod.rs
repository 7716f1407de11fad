//! The other side of a blade: sends requests, again if need be, and puts answers together.

mod counts;
mod outstanding;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::codec::{MAX_MESSAGE_BYTES, Page, Response, Word};
use crate::store::PAGE_NUMBERS;
use crate::transport::{RECEIVE_BYTES, Transport};
pub use counts::ClientCounts;
use outstanding::{Outstanding, Progress};

/// The parameters of a client: how many requests at once, and how long to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ClientDesign {
    /// Requests that may be submitted and not yet polled; fewer than a server remembers of a client.
    pub window: usize,
    /// The wait for an answer before the request is sent again for the first time.
    pub first_wait: Duration,
    /// Each wait is twice the one before, up to this.
    pub longest_wait: Duration,
    /// The number of times that a request is sent before the blade counts as unreachable.
    pub tries: u32,
    /// The number of the first transaction. `None` is a random one, so that a client that begins anew at the same
    /// address is not taken for the one before.
    pub first_txid: Option<u32>,
}

impl Default for ClientDesign {
    fn default() -> Self {
        Self {
            window: 32,
            first_wait: Duration::from_millis(20),
            longest_wait: Duration::from_secs(1),
            tries: 9,
            first_txid: None,
        }
    }
}

impl ClientDesign {
    /// Returns the design with so many requests under way at once.
    #[must_use]
    pub fn window(self, window: usize) -> Self {
        Self { window, ..self }
    }

    /// Returns the design with this wait before a request is sent again.
    #[must_use]
    pub fn first_wait(self, first_wait: Duration) -> Self {
        Self { first_wait, ..self }
    }

    /// Returns the design with waits up to this one.
    #[must_use]
    pub fn longest_wait(self, longest_wait: Duration) -> Self {
        Self { longest_wait, ..self }
    }

    /// Returns the design of a client that sends each request so often before it gives up.
    #[must_use]
    pub fn tries(self, tries: u32) -> Self {
        Self { tries, ..self }
    }

    /// Returns the design with a first transaction that is not random.
    #[must_use]
    pub fn first_txid(self, first_txid: u32) -> Self {
        Self { first_txid: Some(first_txid), ..self }
    }
}

/// An operation that a blade is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // `page` is the page's number on the blade, everywhere.
pub enum Operation {
    /// Read the content of a page.
    ReadPage { page: u64 },
    /// Replace a page's content.
    WritePage { page: u64, content: Box<Page> },
    /// Read a word of a page.
    ReadWord { page: u64, word: Word },
    /// Set a word of a page.
    WriteWord { page: u64, word: Word, value: u64 },
    /// Add to a word.
    Add { page: u64, word: Word, value: u64 },
    /// Set a word if it is what is expected.
    CompareAndSwap { page: u64, word: Word, new: u64, expected: u64 },
}

impl Operation {
    /// Returns the page's number on the blade.
    pub fn page(&self) -> u64 {
        match *self {
            Self::ReadPage { page }
            | Self::WritePage { page, .. }
            | Self::ReadWord { page, .. }
            | Self::WriteWord { page, .. }
            | Self::Add { page, .. }
            | Self::CompareAndSwap { page, .. } => page,
        }
    }

    /// Returns the use that the operation makes of the page.
    pub fn uses(&self) -> Use {
        match self {
            Self::ReadPage { .. } | Self::ReadWord { .. } => Use::Read,
            Self::WritePage { .. } => Use::WritePage,
            Self::WriteWord { .. } | Self::Add { .. } | Self::CompareAndSwap { .. } => Use::ChangeWord,
        }
    }
}

/// The use that an operation makes of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Bytes of it are read.
    Read,
    /// The page is written as a whole.
    WritePage,
    /// A word of it changes.
    ChangeWord,
}

/// The result of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The content of the page that was read.
    Page(Box<Page>),
    /// The page or word was written.
    Done,
    /// The word; what it was before the addition; 1 if it was swapped, else 0.
    Word(u64),
}

/// The reason why an operation gave no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The blade will not do it. The protocol does not say why; what can be the reason follows from the operation.
    #[error("the blade refused page {page}: {}", Self::why_refused(*page, *wanted))]
    Refused {
        /// The page's number on the blade.
        page: u64,
        /// The use that the client wanted to make of the page.
        wanted: Use,
    },
    /// The blade does not answer. Whether the operation was done is not known, and it may still be done later.
    #[error("the blade did not answer {tries} times in {} ms; is it running, and is this its address?", waited.as_millis())]
    Unreachable {
        /// The number of requests that the client sent.
        tries: u32,
        /// The time that the client waited.
        waited: Duration,
    },
}

impl Failure {
    /// Returns the possible reasons why a blade refuses this use of a page, and what to do.
    pub fn why_refused(page: u64, wanted: Use) -> String {
        const FULL: &str = "the blade has no room for another page (`blade serve --capacity`), or this machine has as \
                            many as it may write (`--quota`)";
        const ABSENT: &str =
            "it was never written, and the blade gives no zeroes for such pages (`blade serve --strict`)";
        match wanted {
            _ if page >= PAGE_NUMBERS => format!("page numbers are 0 to {}", PAGE_NUMBERS - 1),
            Use::Read => ABSENT.to_owned(),
            Use::WritePage => FULL.to_owned(),
            Use::ChangeWord => format!("{ABSENT}; or {FULL}"),
        }
    }
}

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The operation failed, but the client is sound.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// As many requests as the window allows are submitted and not yet polled.
    #[error("{0} requests are under way already; poll before submitting more")]
    WindowFull(usize),
    /// The transport failed for good.
    #[error("cannot reach the blade: {0}")]
    Transport(io::Error),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Transport(error)
    }
}

/// An operation that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Completion {
    /// The transaction that [`Client::submit`] answered.
    pub txid: u32,
    /// The result of the operation, or the reason why there is none.
    pub result: Result<Outcome, Failure>,
}

/// A client of one blade.
///
/// # Contract
///
/// - Operations that are under way at the same time may be done in any order: wait for one before submitting another that
///   depends on it.
/// - A change is done once however often its request travels, unless the blade forgets the client in between (it restarts, or
///   serves more clients than its design says).
/// - A page that is read is one state of the page on the blade, never a mixture.
/// - What comes from elsewhere, late, twice or malformed is counted and has no effect.
/// - The blade of [`Address::ANYONE`] is the one that first answers what is under way; from then on no other is asked.
#[derive(Debug)]
pub struct Client<T> {
    transport: T,
    blade: Address,
    design: ClientDesign,
    next_txid: u32,
    /// By the ticket.
    outstanding: BTreeMap<u32, Outstanding>,
    /// The ticket of each transaction on the wire.
    tickets: BTreeMap<u32, u32>,
    ended: VecDeque<Completion>,
    counts: ClientCounts,
    /// What is received; empty while it is looked at.
    buffer: Box<[u8]>,
}

impl<T: Transport> Client<T> {
    /// Creates a client of the blade at this address; of [`Address::ANYONE`], whose transport must be an Ethernet.
    pub fn new(transport: T, blade: Address, design: ClientDesign) -> io::Result<Self> {
        let next_txid = match design.first_txid {
            Some(first) => first,
            None => {
                let mut bytes = [0; 4];
                rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
                u32::from_le_bytes(bytes)
            }
        };
        let (outstanding, tickets, ended) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        let (counts, buffer) = (ClientCounts::default(), vec![0; RECEIVE_BYTES].into());
        Ok(Self { transport, blade, design, next_txid, outstanding, tickets, ended, counts, buffer })
    }

    /// Returns the number of operations that can be submitted now.
    pub fn free(&self) -> usize {
        self.design.window.saturating_sub(self.outstanding.len() + self.ended.len())
    }

    /// Returns the number of operations under way: submitted, and not yet ended.
    pub fn under_way(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns the blade's address, as far as it is known.
    pub fn blade(&self) -> Address {
        self.blade
    }

    /// Sets the blade's address from now on. What is under way is sent there when it is sent again: for a blade with
    /// other pages let it end first.
    pub fn turn_to(&mut self, blade: Address) {
        self.blade = blade;
    }

    /// Returns the counts of what was sent and received so far.
    pub fn counts(&self) -> ClientCounts {
        self.counts
    }

    /// Begins an operation, and answers its transaction.
    pub fn submit(&mut self, operation: Operation) -> Result<u32, ClientError> {
        if self.free() == 0 {
            return Err(ClientError::WindowFull(self.design.window));
        }
        Ok(self.begin(operation))
    }

    /// Returns the next operation that has ended, after waiting for at most `patience`. None if there is none, at
    /// once if nothing is under way.
    pub fn poll(&mut self, patience: Duration) -> Result<Option<Completion>, ClientError> {
        let end = Instant::now() + patience;
        loop {
            if let Some(completion) = self.ended.pop_front() {
                return Ok(Some(completion));
            }
            if self.outstanding.is_empty() || !self.advance(end)? {
                return Ok(self.ended.pop_front());
            }
        }
    }

    /// Reads a page and waits for its content.
    pub fn read_page(&mut self, page: u64) -> Result<Box<Page>, ClientError> {
        match self.call(Operation::ReadPage { page })? {
            Outcome::Page(content) => Ok(content),
            other => unreachable!("a page read gave {other:?}"),
        }
    }

    /// Replaces a page's content.
    pub fn write_page(&mut self, page: u64, content: &Page) -> Result<(), ClientError> {
        self.call(Operation::WritePage { page, content: Box::new(*content) }).map(|_| ())
    }

    /// Reads a word and waits for its value.
    pub fn read_word(&mut self, page: u64, word: Word) -> Result<u64, ClientError> {
        self.number(Operation::ReadWord { page, word })
    }

    /// Sets a word and waits until it is set.
    pub fn write_word(&mut self, page: u64, word: Word, value: u64) -> Result<(), ClientError> {
        self.call(Operation::WriteWord { page, word, value }).map(|_| ())
    }

    /// Adds to a word, modulo its size; answers what it was.
    pub fn add(&mut self, page: u64, word: Word, value: u64) -> Result<u64, ClientError> {
        self.number(Operation::Add { page, word, value })
    }

    /// Sets a word to `new` if it is `expected`; answers whether it was.
    pub fn compare_and_swap(
        &mut self,
        page: u64,
        word: Word,
        new: u64,
        expected: u64,
    ) -> Result<bool, ClientError> {
        Ok(self.number(Operation::CompareAndSwap { page, word, new, expected })? != 0)
    }

    fn number(&mut self, operation: Operation) -> Result<u64, ClientError> {
        match self.call(operation)? {
            Outcome::Word(value) => Ok(value),
            other => unreachable!("a word gave {other:?}"),
        }
    }

    /// Does an operation and waits for its end; it needs no room in the window. Others that end meanwhile are left to `poll`.
    fn call(&mut self, operation: Operation) -> Result<Outcome, ClientError> {
        let txid = self.begin(operation);
        // Only how long to sleep at a time: the operation ends by itself.
        let mut end = Instant::now() + self.design.longest_wait;
        loop {
            // What was submitted last mostly ends last.
            if let Some(at) = self.ended.iter().rposition(|completion| completion.txid == txid)
                && let Some(completion) = self.ended.remove(at)
            {
                return Ok(completion.result?);
            }
            if !self.advance(end)? {
                end = Instant::now() + self.design.longest_wait;
            }
        }
    }

    fn begin(&mut self, operation: Operation) -> u32 {
        let txid = self.fresh_txid();
        let outstanding = Outstanding::new(txid, operation, &self.design);
        self.send(txid, &outstanding);
        self.outstanding.insert(txid, outstanding);
        self.tickets.insert(txid, txid);
        txid
    }

    fn fresh_txid(&mut self) -> u32 {
        loop {
            let txid = self.next_txid;
            self.next_txid = txid.wrapping_add(1);
            if !self.tickets.contains_key(&txid) && !self.outstanding.contains_key(&txid) {
                return txid;
            }
        }
    }

    /// What the transport refuses is as good as lost on the way: it is sent again when its time has come.
    fn send(&mut self, txid: u32, outstanding: &Outstanding) {
        let mut buffer = [0; MAX_MESSAGE_BYTES];
        for request in outstanding.requests(txid) {
            let sent = self.transport.send(self.blade, request.emit(&mut buffer));
            self.counts.sent += 1;
            self.counts.unsent += u64::from(sent.is_err());
        }
        self.transport.flush();
    }

    /// Takes one message, or sends again what is due. False if `end` has come and nothing had.
    fn advance(&mut self, end: Instant) -> Result<bool, ClientError> {
        let (now, ended) = (Instant::now(), self.ended.len());
        self.send_again(now);
        if self.ended.len() > ended {
            return Ok(true);
        }
        let due = self.outstanding.values().map(Outstanding::due).min().unwrap_or(end);
        let patience = due.min(end).saturating_duration_since(now);
        let Some((bytes, from)) = self.transport.receive(&mut self.buffer, patience)? else {
            return Ok(now < end);
        };
        let buffer = std::mem::take(&mut self.buffer);
        self.take(from, &buffer[..bytes]);
        self.buffer = buffer;
        Ok(true)
    }

    fn send_again(&mut self, now: Instant) {
        let due: Vec<u32> =
            self.outstanding.iter().filter(|(_, one)| one.due() <= now).map(|(&ticket, _)| ticket).collect();
        for ticket in due {
            let Some(mut one) = self.outstanding.remove(&ticket) else { continue };
            if let Some(failure) = one.give_up(now, &self.design) {
                self.counts.unreachable += 1;
                self.end(one, Err(failure));
                continue;
            }
            let mut txid = ticket;
            if one.is_page_read() {
                txid = self.fresh_txid();
                self.tickets.insert(txid, ticket);
                if let Some(oldest) = one.begin_anew(txid) {
                    self.tickets.remove(&oldest);
                }
            }
            self.counts.sent_again += 1;
            self.send(txid, &one);
            self.outstanding.insert(ticket, one);
        }
    }

    fn end(&mut self, one: Outstanding, result: Result<Outcome, Failure>) {
        for txid in one.txids() {
            self.tickets.remove(&txid);
        }
        self.ended.push_back(Completion { txid: one.ticket(), result });
    }

    fn take(&mut self, from: Address, message: &[u8]) {
        self.counts.received += 1;
        if !from.is_of(self.blade) {
            self.counts.foreign += 1;
            return;
        }
        let Ok(Response { txid, answer }) = Response::parse(message) else {
            self.counts.malformed += 1;
            return;
        };
        let known = self.tickets.get(&txid).and_then(|ticket| self.outstanding.get_mut(ticket));
        let Some(one) = known else {
            self.counts.late += 1;
            return;
        };
        let progress = one.take(txid, &answer);
        if !matches!(progress, Progress::Unfit) {
            self.blade = from;
        }
        let result = match progress {
            Progress::Waiting => return,
            Progress::Duplicate => {
                self.counts.late += 1;
                return;
            }
            Progress::Unfit => {
                self.counts.malformed += 1;
                return;
            }
            Progress::Ended(outcome) => Ok(outcome),
            Progress::Refused => {
                self.counts.refused += 1;
                Err(one.refused())
            }
        };
        let ticket = one.ticket();
        if let Some(one) = self.outstanding.remove(&ticket) {
            self.end(one, result);
        }
    }
}
