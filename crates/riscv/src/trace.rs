//! The events that a machine reports while it runs: faults, accesses to devices, changes of page tables.

use std::fmt;

use pagewalk_vm::addr::{Pfn, PhysAddr};
use pagewalk_vm::fault::PageId;

use crate::csr::Mode;
use crate::trap::{Access, Exception};

/// An event of the machine that is worth telling.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Note {
    /// An exception is taken.
    Trap {
        /// The exception that is taken.
        cause: Exception,
        /// The address of the instruction.
        pc: u64,
        /// The value that `mtval` or `stval` gets.
        value: u64,
        /// The mode that the hart leaves.
        from: Mode,
        /// The mode that the hart enters.
        to: Mode,
    },
    /// An interrupt is taken.
    Interrupt {
        /// The number of the interrupt.
        number: u64,
        /// The address of the instruction behind the interrupt.
        pc: u64,
        /// The mode that the hart enters.
        to: Mode,
    },
    /// An entry does not allow an access.
    PageFault {
        /// The address of the access.
        addr: u64,
        /// The kind of the access.
        access: Access,
    },
    /// The accelerator brought a page.
    Fetch {
        /// The address of the access that needed the page.
        addr: u64,
        /// The page's number in remote memory.
        id: PageId,
        /// The frame that the page is in now.
        frame: Pfn,
        /// The address of the page's entry.
        entry: PhysAddr,
    },
    /// The walker wrote an entry.
    Entry {
        /// The address of the entry.
        entry: PhysAddr,
        /// The value of the entry now.
        bits: u64,
    },
    /// A device's register was loaded.
    DeviceLoad {
        /// The address of the register.
        addr: u64,
        /// The value of the register, or why the load is a fault.
        value: Result<u64, String>,
    },
    /// A device's register was stored to.
    DeviceStore {
        /// The address of the register.
        addr: u64,
        /// The value that was stored.
        value: u64,
        /// The reason why the store is a fault, if it is one.
        result: Result<(), String>,
    },
    /// Remote memory does not give a page: an access fault.
    FetchRefused {
        /// The address of the access that needed the page.
        addr: u64,
        /// The page, and why.
        why: String,
    },
    /// Remote memory failed, which ends the run.
    RemoteFailed {
        /// The reason why remote memory failed.
        why: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trap { cause, pc, value, from, to } => {
                write!(f, "trap {cause:?} at {pc:#x}, value {value:#x}, {from:?} to {to:?}")
            }
            Self::Interrupt { number, pc, to } => write!(f, "interrupt {number} at {pc:#x} to {to:?}"),
            Self::PageFault { addr, access } => write!(f, "page fault: {access:?} of {addr:#x}"),
            Self::Fetch { addr, id, frame, entry } => {
                write!(f, "fetch: page {id} for {addr:#x} into {}, entry {entry}", frame.addr())
            }
            Self::Entry { entry, bits } => write!(f, "entry {entry} = {bits:#x}"),
            Self::DeviceLoad { addr, value: Ok(value) } => write!(f, "load {addr:#x} = {value:#x}"),
            Self::DeviceLoad { addr, value: Err(why) } => write!(f, "load {addr:#x} refused: {why}"),
            Self::DeviceStore { addr, value, result: Ok(()) } => write!(f, "store {addr:#x} = {value:#x}"),
            Self::DeviceStore { addr, value, result: Err(why) } => {
                write!(f, "store {addr:#x} = {value:#x} refused: {why}")
            }
            Self::FetchRefused { addr, why } => write!(f, "fetch for {addr:#x} refused: {why}"),
            Self::RemoteFailed { why } => write!(f, "the run ends: {why}"),
        }
    }
}
