//! What experiments ask of the command that runs them.

use std::fmt::Arguments;

use pagewalk_report::ProgressShown;
use pagewalk_trace::Stop;

/// The command that runs experiments: it shows how far they are, and asks them to end.
pub trait Host: Sync {
    /// Says what only informs.
    fn note(&self, text: Arguments<'_>);

    /// Returns how the progress of a run is shown.
    fn progress(&self) -> ProgressShown;

    /// Begins to show steps of work.
    fn steps(&self) -> Box<dyn Steps>;

    /// Returns the place where running work looks whether it is to end.
    fn stop(&self) -> &Stop;

    /// Goes on with the next part of long work.
    ///
    /// # Errors
    ///
    /// The command is to end: an error of the host's own.
    fn go_on(&self) -> anyhow::Result<()>;
}

/// A line that counts steps of work; it ends when this is dropped.
pub trait Steps: Send + Sync {
    /// Shows how far the work is.
    fn show(&self, text: Arguments<'_>);
}
