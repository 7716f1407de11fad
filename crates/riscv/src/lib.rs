//! A RISC-V machine whose page-table walker has a page fault accelerator behind it.
//!
//! One hart, RV64IMAC with Zicsr and Zifencei, modes M, S and U, Sv39 and Sv48 through the page tables and TLBs of
//! [`pagewalk_vm`]; memory from 0x8000_0000, a timer, the host-target interface for console and exit, a device tree in `a1`.
//! Remote pages come by the mechanism of [`pagewalk_vm::fault`], from whatever answers [`RemoteMemory`].
//!
//! ```text
//!   Machine::run -> run_block -> load, store --- TLB --- walker --- accelerator --- remote memory
//!                      |
//!                 attend: host, timer, interrupts
//! ```
//!
//! It is instruction-accurate and deterministic: a cycle for each instruction and exception, and those that the program waits
//! for pages or interrupts. Sources: The RISC-V Instruction Set Manual, volumes I (20191213) and II (20190608); Pemberton, "Enabling
//! Efficient and Transparent Remote Memory Access in Disaggregated Datacenters", UCB/EECS-2019-154, Appendix B.

mod accelerator;
mod client;
mod code;
mod csr;
mod decode;
mod devices;
mod end;
mod execute;
mod files;
mod hart;
mod host;
mod image;
mod machine;
mod map;
mod memory;
mod mmu;
mod pmp;
mod record;
mod registers;
mod remote;
mod serve;
mod trace;
mod translate;
mod trap;
mod tree;

pub use accelerator::{DeviceCounts, DeviceTimes};
pub use csr::Mode;
pub use end::End;
pub use host::{Host, Input};
pub use image::{Image, ImageError};
pub use machine::{Config, Counts, Listener, MOST_STUCK, Machine, MachineError};
pub use map::{CYCLES_PER_TICK, RAM_BASE};
pub use mmu::{Marking, Misaligned, TlbCounts, WalkCounts};
pub use remote::{InProcess, Page, RemoteError, RemoteMemory, WordOperation, WordRequest};
pub use trace::Note;
pub use trap::{Access, Exception};

#[cfg(test)]
mod tests;
