//! A device as the kernel's swapping sees it.

use std::fmt;

/// A swap device, as the clock asks it.
///
/// # Contract
///
/// - Requests come at times that do not decrease.
/// - A request is done no sooner than an idle device would have done it, and in one direction requests are done in their order.
/// - A device is idle again after it has done all its requests: how long one takes then does not depend on the time.
/// - The same requests at the same times are done at the same times.
pub trait BackingStore: fmt::Debug + Send {
    /// Brings a page.
    fn read(&mut self, now_ps: u64) -> Transfer;

    /// Takes a page away; done when its frame is free.
    fn write(&mut self, now_ps: u64) -> Transfer;
}

/// A page's way to a device or back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfer {
    /// When it is done.
    pub done_ps: u64,
    /// Whether the core is busy with it until then.
    pub holds_core: bool,
}

/// Memory of the machine itself: the processor copies, or compresses and expands.
#[derive(Clone, Debug)]
pub(crate) struct MemoryCopy {
    pub(crate) in_ps: u64,
    pub(crate) out_ps: u64,
}

impl BackingStore for MemoryCopy {
    fn read(&mut self, now_ps: u64) -> Transfer {
        Transfer { done_ps: now_ps + self.in_ps, holds_core: true }
    }

    fn write(&mut self, now_ps: u64) -> Transfer {
        Transfer { done_ps: now_ps + self.out_ps, holds_core: true }
    }
}
