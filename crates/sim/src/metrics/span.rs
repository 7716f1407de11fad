//! The steps on which the kernel, and hardware in its place, spends time.

/// A step of the kernel's work, or of the accelerator's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum KernelStep {
    /// All of a fault for a page that was never there: trap, frame, entry, books.
    FirstTouch,
    /// A refused access: the trap, and the signal.
    Signal,
    /// Clearing a frame before its first use.
    Zero,
    /// The way into the kernel for a page that has left, and back.
    Trap,
    /// The page's mapping, its entry, the swap cache.
    Find,
    /// Allocating a frame for the page.
    Allocate,
    /// Asking the device for a page.
    Request,
    /// The page is on its way, and a core waits for it.
    Read,
    /// The switch to another thread and back.
    Switch,
    /// The page's entry, and the TLB.
    Enter,
    /// Lists of pages, accounting, reverse mapping.
    Book,
    /// A page that leaves: choice, entry, shootdown.
    Evict,
    /// Handing a page to the device, and waiting where that must be.
    Write,
    /// Hardware: the entry is remote, and later, the access goes on.
    Detect,
    /// Copying a page to another frame.
    Copy,
    /// A TLB shootdown after a change of the address space.
    Shootdown,
    /// Changing the mappings of an address space, but for its pages.
    Map,
    /// Taking pages out of an address space: their entries and frames.
    Unmap,
    /// Work on page tables beside entering pages.
    Table,
    /// Waiting for a daemon that holds the lock.
    Lock,
    /// A page is not in DRAM: until the core hears of it, and everything before has retired.
    Miss,
    /// Refilling the core's pipeline.
    Flush,
    /// Waiting for a controller that takes nothing.
    Stall,
    /// Idle time of a core: there is no job, or none that can go on.
    Idle,
}

impl KernelStep {
    /// All steps, in their order.
    pub const ALL: [Self; 24] = [
        Self::FirstTouch,
        Self::Signal,
        Self::Zero,
        Self::Trap,
        Self::Find,
        Self::Allocate,
        Self::Request,
        Self::Read,
        Self::Switch,
        Self::Enter,
        Self::Book,
        Self::Evict,
        Self::Write,
        Self::Detect,
        Self::Copy,
        Self::Shootdown,
        Self::Map,
        Self::Unmap,
        Self::Table,
        Self::Lock,
        Self::Miss,
        Self::Flush,
        Self::Stall,
        Self::Idle,
    ];

    /// Returns the step's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstTouch => "first-touch",
            Self::Signal => "signal",
            Self::Zero => "zero",
            Self::Trap => "trap",
            Self::Find => "find",
            Self::Allocate => "allocate",
            Self::Request => "request",
            Self::Read => "read",
            Self::Switch => "switch",
            Self::Enter => "enter",
            Self::Book => "book",
            Self::Evict => "evict",
            Self::Write => "write",
            Self::Detect => "detect",
            Self::Copy => "copy",
            Self::Shootdown => "shootdown",
            Self::Map => "map",
            Self::Unmap => "unmap",
            Self::Table => "table",
            Self::Lock => "lock",
            Self::Miss => "miss",
            Self::Flush => "flush",
            Self::Stall => "stall",
            Self::Idle => "idle",
        }
    }
}

/// A stretch of time that a step took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The core or daemon whose time it is.
    pub lane: Lane,
    /// The step that took the time.
    pub step: KernelStep,
    /// The time at which the step began.
    pub start_ps: u64,
    /// The time at which the step ended.
    pub end_ps: u64,
}

/// The core or daemon whose time a step takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Lane {
    /// A core's, and so the program's.
    Core(u32),
    /// A daemon's, on a core of its own.
    Daemon,
}

/// The time of each step.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepTimes {
    ps: [u64; KernelStep::ALL.len()],
}

impl StepTimes {
    pub(crate) fn add(&mut self, step: KernelStep, ps: u64) {
        self.ps[step as usize] += ps;
    }

    pub(crate) fn of(&self, step: KernelStep) -> u64 {
        self.ps[step as usize]
    }
}
