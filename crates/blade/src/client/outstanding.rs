//! An operation under way.

use std::time::{Duration, Instant};

use super::{ClientDesign, Failure, Operation, Outcome};
use crate::codec::{Answer, Command, PAGE_BYTES, Page, PagePart, Part, Request};
use crate::reassembly::PartSet;

#[derive(Debug)]
pub(super) struct Outstanding {
    ticket: u32,
    operation: Operation,
    /// For a page read: what has arrived.
    arrived: PartSet,
    content: Option<Box<Page>>,
    begun: Instant,
    due: Instant,
    wait: Duration,
    tries: u32,
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
        let (arrived, content) = (PartSet::default(), None);
        Self { ticket, operation, arrived, content, begun: now, due: now + wait, wait, tries: 1 }
    }

    /// The transaction that the caller knows it by.
    pub(super) fn ticket(&self) -> u32 {
        self.ticket
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

    /// Forgets the parts of a page that have arrived; tells whether the next try needs another transaction.
    pub(super) fn begin_anew(&mut self) -> bool {
        self.arrived = PartSet::default();
        matches!(self.operation, Operation::ReadPage { .. })
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
    pub(super) fn take(&mut self, answer: &Answer<'_>) -> Progress {
        match (&self.operation, *answer) {
            (_, Answer::Refused) => Progress::Refused,
            (Operation::ReadPage { .. }, Answer::Page(part)) => self.take_part(part),
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

    fn take_part(&mut self, part: PagePart<'_>) -> Progress {
        if self.arrived.contains(part) {
            return Progress::Duplicate;
        }
        let mut content = self.content.take().unwrap_or_else(|| Box::new([0; PAGE_BYTES]));
        part.copy_to(&mut content);
        self.arrived.insert(part);
        if self.arrived.is_whole() {
            return Progress::Ended(Outcome::Page(content));
        }
        self.content = Some(content);
        Progress::Waiting
    }
}
