//! The counts of a client.

/// The counts of what a client sent, received and ignored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct ClientCounts {
    /// Messages sent, each part of a page by itself.
    pub sent: u64,
    /// Messages that the transport would not take.
    pub unsent: u64,
    /// Requests sent once more, because no answer had come.
    pub sent_again: u64,
    /// The number of messages received.
    pub received: u64,
    /// Messages that were ignored, because they were not from the blade.
    pub foreign: u64,
    /// Messages that were ignored, because they were not a response, or not one to what was asked.
    pub malformed: u64,
    /// Messages that were ignored, because they answered nothing that is under way, or were a part that was there
    /// already.
    pub late: u64,
    /// Operations that the blade refused.
    pub refused: u64,
    /// Operations given up because the blade did not answer.
    pub unreachable: u64,
}
