//! The reasons why a machine cannot go on.

use pagewalk_vm::addr::VirtRange;
use pagewalk_vm::frame::OutOfFrames;
use pagewalk_vm::reclaim::SwapFull;

/// The reason why a machine cannot go on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MachineError {
    /// The machine's memory is full.
    #[error(
        "machine `{machine}`: its memory of {memory_bytes} bytes is too small for this program: {reason}\n  = help: \
         raise the memory under [frames] in the machine file, let pages leave with a [reclaim] section, or give the \
         program a smaller input"
    )]
    OutOfFrames {
        /// The name of the machine.
        machine: String,
        /// The size of its memory, in bytes.
        memory_bytes: u64,
        /// The reason that the allocator gives. It is in the text already, and therefore it is no source of the error.
        reason: OutOfFrames,
    },
    /// The machine's page table needs more memory in one piece than there is.
    #[error(
        "machine `{machine}`: out of contiguous memory: its page table needs {wanted_kib} KiB in one piece; {free_mib} MiB \
         are free, {fragmented_percent} % of them in blocks smaller than 2 MiB\n  = help: lower `fragmentation` under \
         [frames.buddy] in the machine file, raise its memory, or give the table `chunks`"
    )]
    OutOfContiguousMemory {
        /// The name of the machine.
        machine: String,
        /// The size of the piece that the table needs, in KiB.
        wanted_kib: u64,
        /// The size of all free memory, in MiB.
        free_mib: u64,
        /// The share of free memory in blocks smaller than 2 MiB, in percent.
        fragmented_percent: u64,
    },
    /// The machine's swap device is full.
    #[error(
        "machine `{machine}`: {reason}\n  = help: raise `size` under [swap] in the machine file, or give the program a \
         smaller input"
    )]
    SwapFull {
        /// The name of the machine.
        machine: String,
        /// The reason that the device gives. It is in the text already, and therefore it is no source of the error.
        reason: SwapFull,
    },
    /// The program has more addresses than the machine's page table leaves to programs.
    #[error(
        "machine `{machine}`: the program uses {range}, and a page table of {levels} levels leaves a program {program_gib} GiB, \
         of which no piece of that size is free\n  = help: write more `levels` under [table.radix] in the machine file, \
         or give the program a smaller input"
    )]
    NoProgramSpace {
        /// The name of the machine.
        machine: String,
        /// The addresses of the program.
        range: VirtRange,
        /// The levels of the page table.
        levels: u32,
        /// The addresses that it leaves to a program, in GiB.
        program_gib: u64,
    },
    /// The machine serves jobs, and the source had none.
    #[error(
        "machine `{machine}` serves jobs, and the source has none: nothing would take any time\n  = help: choose a workload that is \
         a server (`pagewalk workloads`), or a machine without [threads]"
    )]
    NoJobs {
        /// The name of the machine.
        machine: String,
    },
    /// The program has more processes than there are address-space identifiers.
    #[error("machine `{machine}`: more than {limit} processes at once; observe fewer")]
    TooManyProcesses {
        /// The name of the machine.
        machine: String,
        /// The number of processes that there may be.
        limit: usize,
    },
}
