//! The reason why a recording, or a result made from one, holds a part of the work only.

use serde::{Deserialize, Serialize};

/// The reason why a recording or a result is of a part of the work only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// The event that ended the work.
    pub reason: PartialReason,
    /// The same for a reader: `ended by SIGTERM`, `sort was killed by SIGSEGV`.
    pub text: String,
}

/// The event that ended the work before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartialReason {
    /// The command received a signal.
    Signal,
    /// The limit of time was reached.
    TimeLimit,
    /// A signal killed the observed program.
    ProgramKilled,
    /// The program could not be observed any further.
    ObservationFailed,
    /// The trace is damaged or cut short; what lies before the damage was read.
    TraceDamaged,
}

impl PartialReason {
    /// All of them; a file names a reason by its place here, counted from 1.
    pub(crate) const ALL: [Self; 5] =
        [Self::Signal, Self::TimeLimit, Self::ProgramKilled, Self::ObservationFailed, Self::TraceDamaged];
}
