//! An operation under way.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{ClientDesign, Failure, Operation, Outcome};
use crate::codec::{Answer, Command, PAGE_BYTES, Page, PagePart, Part, Request};
use crate::reassembly::PartSet;

/// The number of further tries of a page read whose answers count. A blade that takes longer than the longest wait answers tries before
/// the last.
const MOST_LATER: usize = 63;

#[derive(Debug)]
pub(super) struct Outstanding {
    ticket: u32,
    operation: Operation,
    /// For a page read: the transactions of its last tries but the first, whose transaction is the ticket.
    later: VecDeque<u32>,
    /// For a page read: what has arrived, by transaction; mostly of one.
    pages: Vec<(u32, PartialPage)>,
    begun: Instant,
    due: Instant,
    wait: Duration,
    tries: u32,
}

/// A page of which parts have arrived.
#[derive(Debug)]
struct PartialPage {
    arrived: PartSet,
    content: Box<Page>,
}

/// What an answer meant.
pub(super) enum Progress {
    /// More responses must come.
    Waiting,
    /// That part was there.
    Duplicate,
    /// The message answers another kind of request.
    Unfit,
    /// The blade will not do it.
    Refused,
    /// The request has ended with this outcome.
    Ended(Outcome),
}

impl Outstanding {
    pub(super) fn new(ticket: u32, operation: Operation, design: &ClientDesign) -> Self {
        let now = Instant::now();
        let wait = design.first_wait;
        let (later, pages) = (VecDeque::new(), Vec::new());
        Self { ticket, operation, later, pages, begun: now, due: now + wait, wait, tries: 1 }
    }

    /// The transaction that the caller knows it by.
    pub(super) fn ticket(&self) -> u32 {
        self.ticket
    }

    /// The transactions that an answer to it may name.
    pub(super) fn txids(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.ticket).chain(self.later.iter().copied())
    }

    /// When it is to be sent again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Why it is given up, or none: then it is to be sent again.
    pub(super) fn give_up(&mut self, now: Instant, design: &ClientDesign) -> Option<Failure> {
        if self.tries >= design.tries {
            return Some(Failure::Unreachable { tries: self.tries, waited: now - self.begun });
        }
        self.tries += 1;
        self.wait = (2 * self.wait).min(design.longest_wait);
        self.due = now + self.wait;
        None
    }

    /// Whether each try needs a transaction of its own: parts of two answers must not meet.
    pub(super) fn is_page_read(&self) -> bool {
        matches!(self.operation, Operation::ReadPage { .. })
    }

    /// Begins another try of a page read; answers the transaction of one so old that its answer counts no more.
    pub(super) fn begin_anew(&mut self, txid: u32) -> Option<u32> {
        self.later.push_back(txid);
        let oldest = (self.later.len() > MOST_LATER).then(|| self.later.pop_front()).flatten()?;
        self.pages.retain(|(txid, _)| *txid != oldest);
        Some(oldest)
    }

    /// The failure of an operation that the blade refused.
    pub(super) fn refused(&self) -> Failure {
        Failure::Refused { page: self.operation.page(), wanted: self.operation.uses() }
    }

    /// The messages to send.
    pub(super) fn requests(&self, txid: u32) -> impl Iterator<Item = Request<'_>> {
        let parts: &[Part] =
            if matches!(self.operation, Operation::WritePage { .. }) { &Part::ALL } else { &[Part::First] };
        parts.iter().map(move |&part| {
            let (page, command) = match &self.operation {
                Operation::ReadPage { page } => (page, Command::ReadPage),
                Operation::WritePage { page, content } => {
                    (page, Command::WritePage(PagePart::of(content, part)))
                }
                Operation::ReadWord { page, word } => (page, Command::ReadWord(*word)),
                Operation::WriteWord { page, word, value } => (page, Command::WriteWord(*word, *value)),
                Operation::Add { page, word, value } => (page, Command::Add(*word, *value)),
                &Operation::CompareAndSwap { ref page, word, new, expected } => {
                    (page, Command::CompareAndSwap { word, new, expected })
                }
            };
            Request { txid, page: *page, command }
        })
    }

    /// Takes an answer to it.
    pub(super) fn take(&mut self, txid: u32, answer: &Answer<'_>) -> Progress {
        match (&self.operation, *answer) {
            (_, Answer::Refused) => Progress::Refused,
            (Operation::ReadPage { .. }, Answer::Page(part)) => self.take_part(txid, part),
            (Operation::WritePage { .. } | Operation::WriteWord { .. }, Answer::Done) => {
                Progress::Ended(Outcome::Done)
            }
            (Operation::ReadWord { .. } | Operation::Add { .. }, Answer::Word(value))
            | (Operation::CompareAndSwap { .. }, Answer::Word(value @ (0 | 1))) => {
                Progress::Ended(Outcome::Word(value))
            }
            _ => Progress::Unfit,
        }
    }

    fn take_part(&mut self, txid: u32, part: PagePart<'_>) -> Progress {
        let known = self.pages.iter().position(|(of, _)| *of == txid);
        let at = known.unwrap_or_else(|| {
            self.pages.push((txid, PartialPage::default()));
            self.pages.len() - 1
        });
        let (_, page) = &mut self.pages[at];
        if page.arrived.contains(part) {
            return Progress::Duplicate;
        }
        part.copy_to(&mut page.content);
        page.arrived.insert(part);
        match page.arrived.is_whole() {
            true => Progress::Ended(Outcome::Page(self.pages.swap_remove(at).1.content)),
            false => Progress::Waiting,
        }
    }
}

impl Default for PartialPage {
    fn default() -> Self {
        Self { arrived: PartSet::default(), content: Box::new([0; PAGE_BYTES]) }
    }
}
