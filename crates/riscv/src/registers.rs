//! The registers of the devices.

use std::collections::VecDeque;

/// The timer and software interrupts.
#[derive(Clone, Debug)]
pub(crate) struct Clint {
    pub(crate) software: bool,
    /// The tick of the timer's interrupt.
    pub(crate) compare: u64,
    /// What was stored to the timer, less what it would be.
    pub(crate) offset: u64,
}

impl Default for Clint {
    fn default() -> Self {
        Self { software: false, compare: u64::MAX, offset: 0 }
    }
}

/// The registers of the memory blade's client block.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientBlock {
    pub(crate) source: u64,
    pub(crate) destination: u64,
    pub(crate) opcode: u8,
    pub(crate) page: u64,
    pub(crate) next: u32,
    pub(crate) ended: VecDeque<u32>,
}
