//! The blade: takes requests, keeps pages, answers.

mod counts;
mod done;
mod replies;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::address::{Address, Host};
use crate::codec::{Answer, Command, Malformed, PagePart, Part, Request, Response};
use crate::reassembly::{Assembled, Reassembly};
use crate::store::{PageStore, StoreError};
use crate::transport::{RECEIVE_BYTES, Transport};
pub use counts::Counts;
use done::{Done, DoneWrites};
pub use replies::Replies;

/// The limits of a server. All that it keeps besides pages is at most
/// `clients * (incomplete_writes * 4 KiB + remembered * 128 B)`, roughly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ServerDesign {
    /// Clients that something is remembered about. The one that was silent the longest gives way to another.
    pub clients: usize,
    /// Page writes of a client that wait for parts. The oldest gives way.
    pub incomplete_writes: usize,
    /// Changes of a client whose answers are remembered, so that a request that comes again is answered and not done again:
    /// more than a client has under way at once.
    pub remembered: usize,
    /// Pages that may be written for the first time by one machine, if that is limited.
    pub quota_pages: Option<u64>,
}

impl Default for ServerDesign {
    fn default() -> Self {
        Self { clients: 256, incomplete_writes: 64, remembered: 256, quota_pages: None }
    }
}

impl ServerDesign {
    /// Returns the design for so many clients.
    #[must_use]
    pub fn clients(self, clients: usize) -> Self {
        Self { clients, ..self }
    }

    /// Returns the design with so many incomplete page writes of a client.
    #[must_use]
    pub fn incomplete_writes(self, incomplete_writes: usize) -> Self {
        Self { incomplete_writes, ..self }
    }

    /// Returns the design with so many remembered changes of a client.
    #[must_use]
    pub fn remembered(self, remembered: usize) -> Self {
        Self { remembered, ..self }
    }

    /// Returns the design with this limit of pages of a machine, or none.
    #[must_use]
    pub fn quota_pages(self, quota_pages: Option<u64>) -> Self {
        Self { quota_pages, ..self }
    }
}

/// A blade as a state machine: a message in, none to three out.
///
/// # Contract
///
/// - Nothing that comes in makes it panic, do input or output other than its store's, or keep more than its design says.
/// - What it answers is for the source alone, and depends on no other client's unfinished business.
/// - 0x81 and 0x82 to a change are answered after the store's commit.
/// - A transaction names one request. The same request under the same transaction is a repetition: if it was done, the answer
///   is given again, a page write's after all its parts have come again. Another request under a transaction that was done is
///   a new one. Another request under that of an incomplete page write is refused, and so is that write.
#[derive(Debug)]
pub struct Server {
    design: ServerDesign,
    store: PageStore,
    clients: BTreeMap<Address, ClientState>,
    /// Pages that a machine was the first to write. No more entries than written pages.
    charged: FxHashMap<Host, u64>,
    counts: Counts,
    first_failure: Option<String>,
}

/// What is remembered of a client.
#[derive(Debug)]
struct ClientState {
    /// The message that came last, by number.
    heard: u64,
    incomplete: Reassembly,
    done: DoneWrites,
}

/// Why a sound request is not done.
enum Refusal {
    Store(StoreError),
    Quota,
    Contradiction,
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Server {
    /// Creates a server of these pages.
    pub fn new(store: PageStore, design: ServerDesign) -> Self {
        Self {
            design,
            store,
            clients: BTreeMap::new(),
            charged: FxHashMap::default(),
            counts: Counts::default(),
            first_failure: None,
        }
    }

    /// Takes a message, and leaves in `replies` what to send back to its source.
    pub fn handle(&mut self, source: Address, message: &[u8], replies: &mut Replies) {
        self.take(source, message, replies);
        self.commit(std::iter::once(replies));
    }

    /// As [`Self::handle`], but the replies must not be sent before [`Self::commit`].
    fn take(&mut self, source: Address, message: &[u8], replies: &mut Replies) {
        replies.clear();
        self.counts.received += 1;
        match Request::parse(message) {
            Ok(request) => {
                if let Err(refusal) = self.perform(source, &request, replies) {
                    self.count(refusal);
                    replies.clear();
                    replies.push(&Response { txid: request.txid, answer: Answer::Refused });
                }
            }
            Err(Malformed { txid: Some(txid), .. }) => {
                self.counts.malformed += 1;
                replies.push(&Response { txid, answer: Answer::Refused });
            }
            Err(Malformed { txid: None, .. }) => self.counts.unreadable += 1,
        }
        self.counts.answered += replies.count() as u64;
    }

    /// Returns the counts of what was done, refused and dropped so far.
    pub fn counts(&self) -> Counts {
        Counts {
            clients: self.clients.len() as u64,
            pages: self.store.written_pages(),
            incomplete: self.clients.values().map(|client| client.incomplete.count() as u64).sum(),
            ..self.counts
        }
    }

    /// Returns the message of the store's file when it failed first.
    pub fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// Returns the pages that the server serves.
    pub fn store(&self) -> &PageStore {
        &self.store
    }

    /// Makes safe what was done. If that fails, what is safe is not known, and these replies turn into refusals; what was done is
    /// forgotten, so that nothing is answered from memory that is not on the disk.
    fn commit<'a>(&mut self, replies: impl Iterator<Item = &'a mut Replies>) {
        if let Err(error) = self.store.commit() {
            self.clients.clear();
            replies.for_each(|replies| {
                self.counts.failed += 1;
                replies.refuse();
            });
            self.first_failure.get_or_insert_with(|| error.to_string());
        }
    }

    fn perform(
        &mut self,
        source: Address,
        request: &Request<'_>,
        replies: &mut Replies,
    ) -> Result<(), Refusal> {
        let Request { txid, page, command } = *request;
        let answer = match command {
            Command::WritePage(part) => return self.take_part(source, request, part, replies),
            _ if self.clients.get_mut(&source).is_some_and(|client| client.incomplete.forget(txid)) => {
                return Err(Refusal::Contradiction);
            }
            Command::ReadPage => {
                self.store.read_with(page, |content| {
                    for part in Part::ALL {
                        replies.push(&Response { txid, answer: Answer::Page(PagePart::of(content, part)) });
                    }
                })?;
                self.counts.page_reads += 1;
                return Ok(());
            }
            Command::ReadWord(word) => {
                self.counts.word_reads += 1;
                Answer::Word(self.store.read_word(page, word)?)
            }
            Command::WriteWord(..) | Command::Add(..) | Command::CompareAndSwap { .. } => {
                self.change_word(source, request)?
            }
        };
        replies.push(&Response { txid, answer });
        Ok(())
    }

    fn take_part(
        &mut self,
        source: Address,
        request: &Request<'_>,
        part: PagePart<'_>,
        replies: &mut Replies,
    ) -> Result<(), Refusal> {
        let Request { txid, page, .. } = *request;
        self.store.check_write(page)?;
        self.check_quota(source, page)?;
        let client = self.client(source);
        if let Some(again) = client.done.repeat_part(txid, page, part) {
            self.counts.repeated += 1;
            if again {
                replies.push(&Response { txid, answer: Answer::Done });
            }
            return Ok(());
        }
        match client.incomplete.take(txid, page, part) {
            Assembled::Incomplete { duplicate, dropped } => {
                self.counts.repeated += u64::from(duplicate);
                self.counts.given_up += u64::from(dropped);
                Ok(())
            }
            Assembled::Contradiction => Err(Refusal::Contradiction),
            Assembled::Complete(content) => {
                let done = Done::page(page, &content);
                self.change(source, page, |store| store.write(page, content))?;
                self.counts.page_writes += 1;
                self.client(source).done.remember(txid, done);
                replies.push(&Response { txid, answer: Answer::Done });
                Ok(())
            }
        }
    }

    fn change_word(&mut self, source: Address, request: &Request<'_>) -> Result<Answer<'static>, Refusal> {
        let Request { txid, page, command } = *request;
        if let Some(answer) = self.client(source).done.repeat_word(request) {
            self.counts.repeated += 1;
            return Ok(answer);
        }
        let (own, answer) = match command {
            Command::WriteWord(word, value) => {
                self.change(source, page, |store| store.write_word(page, word, value))?;
                self.counts.word_writes += 1;
                (Command::WriteWord(word, value), Answer::Done)
            }
            Command::Add(word, value) => {
                let old = self.change(source, page, |store| store.add(page, word, value))?;
                self.counts.adds += 1;
                (Command::Add(word, value), Answer::Word(old))
            }
            Command::CompareAndSwap { word, new, expected } => {
                let swap = |store: &mut PageStore| store.compare_and_swap(page, word, new, expected);
                let swapped = self.change(source, page, swap)?;
                self.counts.swaps += 1;
                (Command::CompareAndSwap { word, new, expected }, Answer::Word(swapped.into()))
            }
            Command::ReadPage | Command::WritePage(_) | Command::ReadWord(_) => {
                unreachable!("not a change of a word")
            }
        };
        self.client(source).done.remember(txid, Done::Word { page, command: own, answer });
        Ok(answer)
    }

    /// Changes a page, and charges it to the machine that wrote it first.
    fn change<R>(
        &mut self,
        source: Address,
        page: u64,
        act: impl FnOnce(&mut PageStore) -> Result<R, StoreError>,
    ) -> Result<R, Refusal> {
        self.check_quota(source, page)?;
        let before = self.store.written_pages();
        let result = act(&mut self.store);
        if self.store.written_pages() > before && self.design.quota_pages.is_some() {
            *self.charged.entry(source.host()).or_default() += 1;
        }
        Ok(result?)
    }

    fn check_quota(&self, source: Address, page: u64) -> Result<(), Refusal> {
        match self.design.quota_pages {
            Some(quota) if !self.store.is_written(page) => {
                let charged = self.charged.get(&source.host()).copied().unwrap_or(0);
                if charged < quota { Ok(()) } else { Err(Refusal::Quota) }
            }
            _ => Ok(()),
        }
    }

    /// What is remembered of a client, if need be from now on.
    fn client(&mut self, source: Address) -> &mut ClientState {
        if !self.clients.contains_key(&source) && self.clients.len() >= self.design.clients.max(1) {
            let silent = self.clients.iter().min_by_key(|(_, client)| client.heard);
            if let Some(silent) = silent.map(|(&address, _)| address) {
                self.clients.remove(&silent);
                self.counts.forgotten += 1;
            }
        }
        let design = &self.design;
        let client = self.clients.entry(source).or_insert_with(|| ClientState {
            heard: 0,
            incomplete: Reassembly::new(design.incomplete_writes),
            done: DoneWrites::new(design.remembered),
        });
        client.heard = self.counts.received;
        client
    }

    fn count(&mut self, refusal: Refusal) {
        let counts = &mut self.counts;
        match refusal {
            Refusal::Store(StoreError::Beyond(_)) => counts.beyond += 1,
            Refusal::Store(StoreError::Full { .. }) => counts.full += 1,
            Refusal::Store(StoreError::NeverWritten(_)) => counts.never_written += 1,
            Refusal::Store(StoreError::Io(error)) => {
                counts.failed += 1;
                self.first_failure.get_or_insert_with(|| error.to_string());
            }
            Refusal::Quota => counts.over_quota += 1,
            Refusal::Contradiction => counts.contradictions += 1,
        }
    }
}

/// How soon [`serve`] sees that it is to stop.
const PATIENCE: Duration = Duration::from_millis(100);
/// Messages for which there is one wait for the disk, where there is one at all: two clients' page writes of a whole window.
const BATCH: usize = 192;

/// Serves what comes in until `stop` is set; an error is the transport's.
///
/// Where the store waits for the disk, messages that are there already share a wait.
pub fn serve<T: Transport + ?Sized>(
    transport: &mut T,
    server: &mut Server,
    stop: &AtomicBool,
) -> io::Result<()> {
    let most = if server.store.waits_for_disk() { BATCH } else { 1 };
    let mut batch: Vec<(Address, Replies)> = Vec::new();
    batch.resize_with(most, || (Address::Local(0), Replies::default()));
    let mut buffer = [0; RECEIVE_BYTES];
    let before = server.counts.dropped;
    while !stop.load(Ordering::Relaxed) {
        let mut count = 0;
        for (from, replies) in &mut batch {
            let patience = if count == 0 { PATIENCE } else { Duration::ZERO };
            let Some((bytes, source)) = transport.receive(&mut buffer, patience)? else { break };
            server.take(source, &buffer[..bytes], replies);
            *from = source;
            count += 1;
        }
        server.counts.dropped = before + transport.dropped();
        server.commit(batch[..count].iter_mut().map(|(_, replies)| replies));
        for (source, replies) in &batch[..count] {
            for message in replies.iter() {
                server.counts.unsent += u64::from(transport.send(*source, message).is_err());
            }
        }
        transport.flush();
    }
    Ok(())
}
