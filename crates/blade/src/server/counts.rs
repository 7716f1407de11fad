//! The counts of a server.

use std::fmt;

/// The counts of what a server did, refused and dropped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Messages that came in.
    pub received: u64,
    /// Messages that were answered with.
    pub answered: u64,
    /// Answers that the transport would not take.
    pub unsent: u64,
    /// The number of pages read.
    pub page_reads: u64,
    /// The number of pages written.
    pub page_writes: u64,
    /// The number of words read.
    pub word_reads: u64,
    /// The number of words written.
    pub word_writes: u64,
    /// The number of words added to.
    pub adds: u64,
    /// Words compared, and swapped or not.
    pub swaps: u64,
    /// Requests and parts of pages that came again, and were not done again.
    pub repeated: u64,
    /// Requests that were refused, because they were not sound.
    pub malformed: u64,
    /// Messages that were dropped, because they had not even a header.
    pub unreadable: u64,
    /// Dropped by the transport: forged, repeated, or not for this blade.
    pub dropped: u64,
    /// Requests that were refused, because there is no such page.
    pub beyond: u64,
    /// Requests that were refused, because the store was full of other pages.
    pub full: u64,
    /// Requests that a strict blade refused, because the page was never written.
    pub never_written: u64,
    /// Requests that were refused, because one machine may not write so many pages.
    pub over_quota: u64,
    /// Requests that were refused: two requests under one transaction, or parts that do not fit together.
    pub contradictions: u64,
    /// Requests that were refused, because the store failed.
    pub failed: u64,
    /// Incomplete page writes given up for newer ones.
    pub given_up: u64,
    /// Clients forgotten for others.
    pub forgotten: u64,
    /// The number of clients known now.
    pub clients: u64,
    /// Incomplete page writes now.
    pub incomplete: u64,
    /// Pages ever written, by now.
    pub pages: u64,
}

impl Counts {
    /// Names and values, in the order of the table.
    pub fn rows(&self) -> [(&'static str, u64); 24] {
        [
            ("messages received", self.received),
            ("messages answered", self.answered),
            ("answers not sent", self.unsent),
            ("pages read", self.page_reads),
            ("pages written", self.page_writes),
            ("words read", self.word_reads),
            ("words written", self.word_writes),
            ("words added to", self.adds),
            ("words compared", self.swaps),
            ("repetitions", self.repeated),
            ("refused: malformed", self.malformed),
            ("dropped: no header", self.unreadable),
            ("dropped by the transport", self.dropped),
            ("refused: no such page", self.beyond),
            ("refused: store full", self.full),
            ("refused: never written", self.never_written),
            ("refused: over quota", self.over_quota),
            ("refused: contradictions", self.contradictions),
            ("refused: store failed", self.failed),
            ("incomplete writes given up", self.given_up),
            ("clients forgotten", self.forgotten),
            ("clients known", self.clients),
            ("incomplete writes", self.incomplete),
            ("pages in the store", self.pages),
        ]
    }
}

/// One line for each count that is not 0.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.rows().into_iter().filter(|&(_, value)| value > 0) {
            writeln!(f, "{name:<28}{value:>14}")?;
        }
        Ok(())
    }
}
