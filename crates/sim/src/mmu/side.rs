//! What a core has for instructions beside their TLB.

use super::filter::FrontFilter;

/// The instructions' own filter, and what was counted before the first TLB level for them.
#[derive(Clone, Debug)]
pub(crate) struct InstructionSide {
    /// While instructions are looked up, that for data.
    pub(super) front: FrontFilter,
    /// Likewise, the look-ups.
    pub(super) looked_up: u64,
    /// Lines that were fetched.
    pub(super) fetched: u64,
    pub(super) walks: u64,
    /// Walks of the MMU when the look-up that is under way began.
    pub(super) walks_before: u64,
}

impl InstructionSide {
    /// Returns the side of a core that has fetched nothing.
    pub(super) fn new(front: FrontFilter) -> Self {
        Self { front, looked_up: 0, fetched: 0, walks: 0, walks_before: 0 }
    }
}
