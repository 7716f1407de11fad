//! The end of a run.

use crate::remote::RemoteError;
use crate::trap::Exception;

/// The end of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The program ended itself, with this code.
    Exit(u64),
    /// The machine waits for an interrupt that cannot come.
    WaitsForever {
        /// The address of the instruction.
        pc: u64,
    },
    /// An exception at the first instruction of its own handler, which would go on for ever.
    HandlerTraps {
        /// The address of the instruction.
        pc: u64,
        /// The exception that is taken.
        cause: Exception,
    },
    /// The same exception again and again: its handler has returned to it, or has come to it again, for
    /// [`MOST_STUCK`](crate::MOST_STUCK) instructions, and nothing else has happened.
    TrapLoop {
        /// The address of the instruction.
        pc: u64,
        /// The exception that is taken.
        cause: Exception,
        /// The value that `mtval` or `stval` got.
        value: u64,
    },
    /// A wait for input was ended from outside.
    Interrupted,
    /// The consumer of the recording wants no more.
    RecordingStopped,
    /// The remote memory failed.
    Failed(RemoteError),
}
