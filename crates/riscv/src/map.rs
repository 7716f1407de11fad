//! The machine's memory map, and its timer's unit.

/// The address where memory begins.
pub const RAM_BASE: u64 = 0x8000_0000;
/// Cycles of a tick of the timer: as if the hart had 1 GHz and the timer 10 MHz.
pub const CYCLES_PER_TICK: u64 = 100;
/// The address where the timer and the software interrupts begin.
pub(crate) const CLINT_BASE: u64 = 0x0200_0000;
pub(crate) const CLINT_BYTES: u64 = 0xc_0000;
