//! What a client counts.

/// What a client sent, received and ignored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct ClientCounts {
    /// Messages sent, each part of a page by itself.
    pub sent: u64,
    /// Messages that the transport would not take.
    pub unsent: u64,
    /// Requests sent once more, because no answer had come.
    pub sent_again: u64,
    /// Messages received.
    pub received: u64,
    /// Ignored: not from the blade.
    pub foreign: u64,
    /// Ignored: not a response, or not one to what was asked.
    pub malformed: u64,
    /// Ignored: an answer to nothing that is under way, or a part that was there already.
    pub late: u64,
    /// Operations that the blade refused.
    pub refused: u64,
    /// Operations given up because the blade did not answer.
    pub unreachable: u64,
}
