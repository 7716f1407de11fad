//! The events that a tier takes, and the effects that it answers.

use super::{Completion, FlashPage, FrameIndex, SlotIndex};

/// An event that a tier is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<W> {
    /// An access of `waiter` found no tag.
    Miss {
        /// The page that it wants.
        page: FlashPage,
        /// The thread that is to be woken.
        waiter: W,
        /// The way in which the access is completed.
        completes: Completion,
    },
    /// The read of this page is done.
    Arrived {
        /// The page that was read.
        page: FlashPage,
    },
    /// The write of this page is done.
    Written {
        /// The page that was written.
        page: FlashPage,
    },
}

/// An action of the backside, each after the one before as far as data go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect<W> {
    /// Flash is to read the page; [`Event::Arrived`] follows. The data come into the frame with [`Effect::Install`];
    /// a caller that reads straight into the frame first does the [`Effect::Copy`] that stands behind this.
    Read {
        /// The page that the effect is about.
        page: FlashPage,
        /// The frame that is reserved for it.
        frame: FrameIndex,
    },
    /// A dirty page leaves its frame for the evict buffer.
    Copy {
        /// The page that the effect is about.
        page: FlashPage,
        /// The frame that the page leaves.
        frame: FrameIndex,
        /// The slot that the page goes to.
        slot: SlotIndex,
    },
    /// A page that is on flash leaves its frame.
    Discard {
        /// The page that the effect is about.
        page: FlashPage,
        /// The frame that the page had.
        frame: FrameIndex,
    },
    /// The page that arrived is put into its frame.
    Install {
        /// The page that the effect is about.
        page: FlashPage,
        /// The frame that the page goes to.
        frame: FrameIndex,
    },
    /// The page comes back from the evict buffer.
    Restore {
        /// The page that the effect is about.
        page: FlashPage,
        /// The slot of the page, which is still read from if the page is being written.
        slot: SlotIndex,
        /// The frame that the page goes to.
        frame: FrameIndex,
    },
    /// Flash is to write the page, below reads in priority; [`Event::Written`] follows.
    Write {
        /// The page that the effect is about.
        page: FlashPage,
        /// The slot that holds the page's data until then.
        slot: SlotIndex,
    },
    /// The page is in its frame. An access that completes now is done before the next effect, for that may evict the page.
    Wake {
        /// The thread that waited.
        waiter: W,
        /// The way in which the thread's access is completed.
        completes: Completion,
        /// The page that the effect is about.
        page: FlashPage,
        /// The frame that holds the page.
        frame: FrameIndex,
    },
}

/// The reason why the backside cannot go on with a miss.
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
pub enum EventError {
    /// [`Tier::accepts`](super::Tier::accepts) says no.
    #[error("the backside's queue of {depth} is full; the frontside must wait until it accepts")]
    QueueFull {
        /// The number of misses that the queue holds.
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
    /// The page that left.
    pub page: FlashPage,
    /// Whether flash has older data.
    pub dirty: bool,
}

/// The outcome of a [`Tier::touch`](super::Tier::touch).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// Whether the page was in its frame.
    pub hit: bool,
    /// The frame that holds the page now.
    pub frame: FrameIndex,
    /// The page that left for it.
    pub victim: Option<Victim>,
}

/// The counts of a tier's work. Hits and misses are counted by the code that looks pages up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TierCounts {
    /// Misses to pages that were already pending.
    pub merged: u64,
    /// Misses to pages that had come in the meantime.
    pub raced: u64,
    /// The number of pages read from flash.
    pub reads: u64,
    /// The number of pages written to flash.
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
