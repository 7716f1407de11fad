//! What a tier is told and what it answers.

use super::{Completion, FlashPage, FrameIndex, SlotIndex};

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<W> {
    /// An access of `waiter` found no tag.
    Miss {
        /// The page that it wants.
        page: FlashPage,
        /// Who is to be woken.
        waiter: W,
        /// How the access is completed.
        completes: Completion,
    },
    /// The read of this page is done.
    Arrived {
        /// The page.
        page: FlashPage,
    },
    /// The write of this page is done.
    Written {
        /// The page.
        page: FlashPage,
    },
}

/// What is to be done, each after the one before as far as data go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect<W> {
    /// Flash is to read the page; [`Event::Arrived`] follows. The data come into the frame with [`Effect::Install`]; whoever
    /// reads straight into the frame first does the [`Effect::Copy`] that stands behind this.
    Read {
        /// The page.
        page: FlashPage,
        /// The frame that is reserved for it.
        frame: FrameIndex,
    },
    /// A dirty page leaves its frame for the evict buffer.
    Copy {
        /// The page.
        page: FlashPage,
        /// Where it was.
        frame: FrameIndex,
        /// Where it goes.
        slot: SlotIndex,
    },
    /// A page that is on flash leaves its frame.
    Discard {
        /// The page.
        page: FlashPage,
        /// Where it was.
        frame: FrameIndex,
    },
    /// The page that arrived is put into its frame.
    Install {
        /// The page.
        page: FlashPage,
        /// Its frame.
        frame: FrameIndex,
    },
    /// The page comes back from the evict buffer.
    Restore {
        /// The page.
        page: FlashPage,
        /// Where it was, and is still read from if it is being written.
        slot: SlotIndex,
        /// Its frame.
        frame: FrameIndex,
    },
    /// Flash is to write the page, below reads in priority; [`Event::Written`] follows.
    Write {
        /// The page.
        page: FlashPage,
        /// Where its data are until then.
        slot: SlotIndex,
    },
    /// The page is in its frame. An access that completes now is done before the next effect, for that may evict the page.
    Wake {
        /// Who waited.
        waiter: W,
        /// How its access is completed.
        completes: Completion,
        /// The page.
        page: FlashPage,
        /// Its frame.
        frame: FrameIndex,
    },
}

/// Why the backside cannot go on with a miss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Blocked {
    /// The set of the miss status is full, until a page of it arrives.
    MissStatus,
    /// All ways of the page's set wait for pages, until one arrives.
    Ways,
    /// The victim is dirty and the evict buffer is full, until a write is done.
    EvictBuffer,
}

/// An event that cannot be. It changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// [`Tier::accepts`](super::Tier::accepts) says no.
    #[error("the backside's queue of {depth} is full; the frontside must wait until it accepts")]
    QueueFull {
        /// What the queue holds.
        depth: u32,
    },
    /// No read of this page is under way.
    #[error("page {:#x} arrived, but is not pending", .0.0)]
    NotPending(FlashPage),
    /// No write of this page is under way.
    #[error("page {:#x} was written, but no write of it is under way", .0.0)]
    NotWriting(FlashPage),
}

/// A page that left its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Which.
    pub page: FlashPage,
    /// Whether flash has older data.
    pub dirty: bool,
}

/// What [`Tier::touch`](super::Tier::touch) did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// Whether the page was there.
    pub hit: bool,
    /// Where it is now.
    pub frame: FrameIndex,
    /// Who left for it.
    pub victim: Option<Victim>,
}

/// What happened so far. Hits and misses are counted by whoever looks pages up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TierCounts {
    /// Misses to pages that were already pending.
    pub merged: u64,
    /// Misses to pages that had come in the meantime.
    pub raced: u64,
    /// Reads of flash.
    pub reads: u64,
    /// Writes to flash.
    pub writes: u64,
    /// Pages that came back from the evict buffer.
    pub restores: u64,
    /// Clean pages that left.
    pub discards: u64,
    /// Dirty pages that left.
    pub copies: u64,
    /// Misses that had to wait for an entry of the miss status.
    pub blocked_by_miss_status: u64,
    /// Misses that had to wait for a way.
    pub blocked_by_ways: u64,
    /// Misses that had to wait for a slot of the evict buffer.
    pub blocked_by_evict_buffer: u64,
    /// The most pages that were pending at once.
    pub most_pending: usize,
}
