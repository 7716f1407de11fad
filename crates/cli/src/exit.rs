//! How the command ends: 0 done, 1 a gate or check failed, 2 the user's input is wrong.

use std::process::ExitCode;

use pagewalk_sim::run::RunError;
use pagewalk_trace::SourceError;

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// All is well.
    Well,
    /// A gate or a check failed.
    GateFailed,
    /// The observed program ended with this status, which is passed on.
    Program(u8),
}

/// Prints an error, and says how the process ends.
pub(crate) fn code(done: anyhow::Result<Done>) -> ExitCode {
    match done {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::GateFailed) => ExitCode::from(1),
        Ok(Done::Program(status)) => ExitCode::from(status),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            // Machine files come with their own heading.
            let heading = if text.starts_with("error:") { "" } else { "error: " };
            eprintln!("{heading}{}", text.trim_end());
            ExitCode::from(if is_own_fault(&error) { 1 } else { 2 })
        }
    }
}

/// A workload that computed a wrong answer failed its check; everything else is about the input.
fn is_own_fault(error: &anyhow::Error) -> bool {
    let of_run = error.downcast_ref::<RunError>();
    let of_source = error.downcast_ref::<SourceError>();
    matches!(of_run, Some(RunError::Source(SourceError::Verification(_))))
        || matches!(of_source, Some(SourceError::Verification(_)))
}

/// Whoever read our output (`head`, a pager) has seen enough.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
