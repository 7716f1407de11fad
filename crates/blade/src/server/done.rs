//! A client's latest changes, so that a request that comes again is not done again.
//!
//! Without that, a repeated atomic would count twice, and a write that comes late once more would undo a newer one.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::{Answer, Command, Page, PagePart, Part, Request};
use crate::reassembly::PartSet;

/// A change that was done.
#[derive(Debug)]
pub(super) enum Done {
    Page {
        page: u64,
        /// XXH3-64 of each part.
        parts: [u64; 3],
        /// What came again since the last answer.
        again: PartSet,
    },
    Word {
        page: u64,
        command: Command<'static>,
        answer: Answer<'static>,
    },
}

/// The latest changes by transaction, at most a given number; the oldest are forgotten.
#[derive(Debug)]
pub(super) struct DoneWrites {
    most: usize,
    /// With a number that tells the newer one of a transaction from an older.
    done: FxHashMap<u32, (u64, Done)>,
    order: VecDeque<(u32, u64)>,
    count: u64,
}

impl Done {
    pub(super) fn page(page: u64, content: &Page) -> Self {
        let parts = Part::ALL.map(|part| xxh3_64(&content[part.range()]));
        Self::Page { page, parts, again: PartSet::default() }
    }
}

impl DoneWrites {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), done: FxHashMap::default(), order: VecDeque::new(), count: 0 }
    }

    pub(super) fn remember(&mut self, txid: u32, done: Done) {
        self.count += 1;
        self.done.insert(txid, (self.count, done));
        self.order.push_back((txid, self.count));
        if self.order.len() > self.most
            && let Some((oldest, number)) = self.order.pop_front()
            && self.done.get(&oldest).is_some_and(|&(newer, _)| newer == number)
        {
            self.done.remove(&oldest);
        }
    }

    /// If this part belongs to a write that was done: whether all its parts have now come again, to be answered again.
    pub(super) fn repeat_part(&mut self, txid: u32, page: u64, part: PagePart<'_>) -> Option<bool> {
        let (_, Done::Page { page: written, parts, again }) = self.done.get_mut(&txid)? else { return None };
        if *written != page || parts[usize::from(part.part().number())] != xxh3_64(part.bytes()) {
            return None;
        }
        again.insert(part);
        let whole = again.is_whole();
        if whole {
            *again = PartSet::default();
        }
        Some(whole)
    }

    /// The answer, if this very request was done.
    pub(super) fn repeat_word(&self, request: &Request<'_>) -> Option<Answer<'static>> {
        match self.done.get(&request.txid) {
            Some((_, Done::Word { page, command, answer }))
                if *page == request.page && *command == request.command =>
            {
                Some(*answer)
            }
            _ => None,
        }
    }
}
