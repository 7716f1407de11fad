//! The devices to which pages go that leave memory, and the time that this takes.
//!
//! A device is a few stations that requests pass in the order in which they are made: servers, of which each has one
//! request at a time, and links, of which a byte takes so long. Nothing else delays a request, so that latency,
//! throughput and waiting times have closed forms; tests compare with them.

mod block;
mod flash;
mod link;
mod remote;
#[cfg(test)]
mod tests;

pub use self::flash::{Flash, FlashCounts};

use self::block::BlockDevice;
use self::remote::RemoteMemory;
use crate::spec::settings::{SwapKind, SwapSpec};

/// A swap device of one of the kinds.
#[derive(Clone, Debug)]
pub(super) enum BackingStore {
    /// A solid-state disk.
    Block(BlockDevice),
    /// Memory of the machine itself: the processor copies, or compresses and expands.
    Memory { out_ps: u64, in_ps: u64 },
    /// Memory across a network.
    Remote(RemoteMemory),
}

/// A page's way to a device or back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfer {
    /// When it is done.
    pub done_ps: u64,
    /// Whether the core is busy with it until then.
    pub holds_core: bool,
}

impl BackingStore {
    pub(super) fn new(spec: &SwapSpec) -> Self {
        match &spec.kind {
            SwapKind::Block(block) => Self::Block(BlockDevice::new(block)),
            SwapKind::Memory { out_ps, in_ps } => Self::Memory { out_ps: *out_ps, in_ps: *in_ps },
            SwapKind::Remote(remote) => Self::Remote(RemoteMemory::new(remote)),
        }
    }

    /// Reads a page from the device, from `now_ps` on.
    pub(super) fn read(&mut self, now_ps: u64) -> Transfer {
        match self {
            Self::Block(block) => Transfer { done_ps: block.transfer(now_ps), holds_core: false },
            Self::Memory { in_ps, .. } => Transfer { done_ps: now_ps + *in_ps, holds_core: true },
            Self::Remote(remote) => Transfer { done_ps: remote.read(now_ps), holds_core: true },
        }
    }

    /// Takes a page away.
    pub(super) fn write(&mut self, now_ps: u64) -> Transfer {
        match self {
            Self::Block(block) => Transfer { done_ps: block.transfer(now_ps), holds_core: false },
            Self::Memory { out_ps, .. } => Transfer { done_ps: now_ps + *out_ps, holds_core: true },
            Self::Remote(remote) => Transfer { done_ps: remote.write(now_ps), holds_core: true },
        }
    }
}
