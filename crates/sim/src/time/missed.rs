//! Accesses whose page is not in DRAM.

use pagewalk_vm::tier::FlashPage;

/// An access that found its page not in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// The page that is not in DRAM.
    pub page: FlashPage,
    /// The time at which the core hears of it.
    pub signal_ps: u64,
    /// The way in which the core may go on.
    pub kind: MissKind,
}

/// The way in which a core may go on after an access whose page is not in DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissKind {
    /// The core may do anything else: the page is on its way, and the access must be made again.
    Away,
    /// The core waits: the access is completed when the page is there.
    Synchronous,
    /// The core waits: the controller did not take the access yet.
    Stalled,
    /// The core has a page fault: the kernel has to ask for the page.
    Fault,
}
