//! The exit codes of the command: 0 done, 1 a gate or check failed, 2 the user's input is wrong, 3 the input ended in damage and
//! the result is of the part before that, 128 and a signal's number.

use std::process::ExitCode;

use pagewalk_sim::run::RunError;
use pagewalk_trace::SourceError;

use crate::ending::Interrupted;
use crate::say::complain;

/// The end of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The command has done everything.
    Well,
    /// A gate or a check failed.
    GateFailed,
    /// The command has said what was wrong with the input.
    InputWrong,
    /// The source could not go on; what came before has been written, and marked.
    SourceBroken,
    /// The observed program ended with this status, which is passed on.
    Program(u8),
    /// This signal ended the work, or the observed program.
    Signal(i32),
}

/// Prints an error, and says how the process ends.
pub(crate) fn code(done: anyhow::Result<Done>) -> ExitCode {
    match done {
        Ok(done) => done.code(),
        Err(error) => {
            let text = format!("{error:#}");
            // Machine files come with their own heading.
            let heading = if text.starts_with("error:") { "" } else { "error: " };
            complain!("{heading}{}", text.trim_end());
            match error.downcast_ref::<Interrupted>() {
                // Nothing could be shown: a limit of time that is too short is a mistake, and so is a trace damaged too early.
                Some(Interrupted(early)) if matches!(early.done(), Done::Well | Done::SourceBroken) => {
                    Done::InputWrong.code()
                }
                Some(Interrupted(early)) => early.done().code(),
                None if is_own_fault(&error) => Done::GateFailed.code(),
                None => Done::InputWrong.code(),
            }
        }
    }
}

impl Done {
    fn code(self) -> ExitCode {
        match self {
            Self::Well => ExitCode::SUCCESS,
            Self::GateFailed => ExitCode::from(1),
            Self::InputWrong => ExitCode::from(2),
            Self::SourceBroken => ExitCode::from(3),
            Self::Program(status) => ExitCode::from(status),
            // Signals have numbers up to 64.
            Self::Signal(signal) => ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)),
        }
    }
}

/// Returns whether an error is the command's own fault: a workload that computed a wrong answer failed its check; everything else
/// is about the input.
fn is_own_fault(error: &anyhow::Error) -> bool {
    let of_run = error.downcast_ref::<RunError>();
    let of_source = error.downcast_ref::<SourceError>();
    matches!(of_run, Some(RunError::Source(SourceError::Verification(_))))
        || matches!(of_source, Some(SourceError::Verification(_)))
}
