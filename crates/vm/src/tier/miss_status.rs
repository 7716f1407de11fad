//! The Miss Status Row: which pages are pending, and which threads wait for them.

use super::evict_buffer::SlotIndex;
use super::{FlashPage, FrameIndex, TierDesign};

/// The way in which an access that missed is completed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Completion {
    /// The thread was switched out; it is woken, and its access comes again.
    Later,
    /// The thread's forward-progress bit is set: the access is completed when the page arrives, before anything else can
    /// happen to the page.
    Now {
        /// Whether it writes, so that the page is dirty from the beginning.
        write: bool,
    },
}

impl Completion {
    /// Whether the page is dirty after it.
    #[inline]
    pub(super) const fn writes(self) -> bool {
        matches!(self, Self::Now { write: true })
    }
}

/// An entry, by its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryIndex(u32);

/// The record of a pending page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The frame that the page is to go to.
    pub(super) frame: FrameIndex,
    /// The page that leaves for it, until it comes back or is written.
    pub(super) victim: Option<SlotIndex>,
    /// Whether an access that completes on arrival writes.
    pub(super) dirty: bool,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiter<W> {
    waiter: W,
    completes: Completion,
    next: u32,
}

/// Pending pages, one entry each, in sets.
///
/// DEVIATION: an entry of the paper has 8 bytes and no list of waiters, because a core is told through the address; ours
/// keeps them, in the order in which they came.
#[derive(Clone, Debug)]
pub(super) struct MissStatus<W> {
    /// The page of each place; [`UNUSED`] for none. Apart from the entries, because every miss compares a set of
    /// them.
    pages: Vec<u64>,
    entries: Vec<Entry>,
    ways: usize,
    set_mask: u64,
    index_shift: u32,
    pending: usize,
    /// All waiters, and those that are none any more: a list from `free`.
    waiters: Vec<Waiter<W>>,
    free: u32,
}

const UNUSED: u64 = u64::MAX;
const NO_WAITER: u32 = u32::MAX;
const EMPTY: Entry =
    Entry { frame: FrameIndex(0), victim: None, dirty: false, first: NO_WAITER, last: NO_WAITER };

impl<W: Copy> MissStatus<W> {
    pub(super) fn new(design: &TierDesign) -> Self {
        let shape = design.miss_status;
        let entries = shape.sets as usize * shape.ways as usize;
        Self {
            pages: vec![UNUSED; entries],
            entries: vec![EMPTY; entries],
            ways: shape.ways as usize,
            set_mask: u64::from(shape.sets - 1),
            index_shift: design.index_shift,
            pending: 0,
            waiters: Vec::new(),
            free: NO_WAITER,
        }
    }

    /// Returns the number of pending pages.
    pub(super) fn len(&self) -> usize {
        self.pending
    }

    /// The entry of a pending page.
    pub(super) fn find(&self, page: FlashPage) -> Option<EntryIndex> {
        self.find_word(page, page.0)
    }

    /// An entry that this page can have.
    pub(super) fn find_free(&self, page: FlashPage) -> Option<EntryIndex> {
        self.find_word(page, UNUSED)
    }

    fn find_word(&self, page: FlashPage, word: u64) -> Option<EntryIndex> {
        let at = (page.0 >> self.index_shift & self.set_mask) as usize * self.ways;
        let way = self.pages[at..at + self.ways].iter().position(|&other| other == word)?;
        Some(EntryIndex((at + way) as u32))
    }

    /// Makes a page pending.
    pub(super) fn allocate(
        &mut self,
        at: EntryIndex,
        page: FlashPage,
        frame: FrameIndex,
        victim: Option<SlotIndex>,
    ) {
        debug_assert!(
            self.pages[at.0 as usize] == UNUSED && self.find(page).is_none(),
            "{page:?} is pending"
        );
        self.pages[at.0 as usize] = page.0;
        self.entries[at.0 as usize] = Entry { frame, victim, ..EMPTY };
        self.pending += 1;
    }

    /// Adds one more thread that waits for the entry's page.
    pub(super) fn wait(&mut self, at: EntryIndex, waiter: W, completes: Completion) {
        let new = Waiter { waiter, completes, next: NO_WAITER };
        let node = match self.waiters.get_mut(self.free as usize) {
            Some(unused) => {
                let next = std::mem::replace(unused, new).next;
                std::mem::replace(&mut self.free, next)
            }
            None => {
                self.waiters.push(new);
                self.waiters.len() as u32 - 1
            }
        };
        let entry = &mut self.entries[at.0 as usize];
        entry.dirty |= completes.writes();
        let before = std::mem::replace(&mut entry.last, node);
        match self.waiters.get_mut(before as usize) {
            Some(before) => before.next = node,
            None => entry.first = node,
        }
    }

    /// The page that leaves for the entry's has come back.
    pub(super) fn forget_victim(&mut self, at: EntryIndex) {
        self.entries[at.0 as usize].victim = None;
    }

    /// The page is there. Its waiters are to be taken.
    pub(super) fn remove(&mut self, at: EntryIndex) -> Entry {
        self.pages[at.0 as usize] = UNUSED;
        self.pending -= 1;
        self.entries[at.0 as usize]
    }

    /// Takes the waiters of an entry that was removed, in order.
    pub(super) fn take_waiters(&mut self, entry: Entry, mut each: impl FnMut(W, Completion)) {
        let mut at = entry.first;
        while let Some(node) = self.waiters.get_mut(at as usize) {
            each(node.waiter, node.completes);
            let next = std::mem::replace(&mut node.next, self.free);
            self.free = at;
            at = next;
        }
    }

    /// All pending pages with their entries, by place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FlashPage, Entry)> {
        let all = self.pages.iter().zip(&self.entries);
        all.filter(|&(&page, _)| page != UNUSED).map(|(&page, &entry)| (FlashPage(page), entry))
    }

    /// The entry at a place; for checks.
    pub(super) fn entry(&self, at: EntryIndex) -> Entry {
        self.entries[at.0 as usize]
    }
}
