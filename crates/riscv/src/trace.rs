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
        /// Why.
        cause: Exception,
        /// The instruction.
        pc: u64,
        /// What `mtval` or `stval` gets.
        value: u64,
        /// From where.
        from: Mode,
        /// To where.
        to: Mode,
    },
    /// An interrupt is taken.
    Interrupt {
        /// Its number.
        number: u64,
        /// The instruction that comes behind it.
        pc: u64,
        /// To where.
        to: Mode,
    },
    /// An entry does not allow an access.
    PageFault {
        /// Its address.
        addr: u64,
        /// What it is.
        access: Access,
    },
    /// The accelerator brought a page.
    Fetch {
        /// The access that needed it.
        addr: u64,
        /// The page's number in remote memory.
        id: PageId,
        /// Where it is now.
        frame: Pfn,
        /// Its entry.
        entry: PhysAddr,
    },
    /// The walker wrote an entry.
    Entry {
        /// Where it lies.
        entry: PhysAddr,
        /// What it is now.
        bits: u64,
    },
    /// A device's register was loaded.
    DeviceLoad {
        /// Its address.
        addr: u64,
        /// What it was, or why the load is a fault.
        value: Result<u64, String>,
    },
    /// A device's register was stored to.
    DeviceStore {
        /// Its address.
        addr: u64,
        /// What it was to become.
        value: u64,
        /// Why the store is a fault, if it is one.
        result: Result<(), String>,
    },
    /// Remote memory does not give a page: an access fault.
    FetchRefused {
        /// The access that needed it.
        addr: u64,
        /// The page, and why.
        why: String,
    },
    /// Remote memory failed, which ends the run.
    RemoteFailed {
        /// What happened.
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
