//! Accesses whose page is not in DRAM.

use pagewalk_vm::tier::FlashPage;

/// An access that found its page not in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// The page.
    pub page: FlashPage,
    /// When the core hears of it.
    pub signal_ps: u64,
    /// What it may do.
    pub kind: MissKind,
}

/// What a core may do whose access found its page not in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissKind {
    /// Anything else: the page is on its way, and the access must be made again.
    Away,
    /// Wait: the access is completed when the page is there.
    Synchronous,
    /// Wait: the controller did not take the access yet.
    Stalled,
    /// Fault: the kernel has to ask for the page.
    Fault,
}
