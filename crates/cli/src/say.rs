//! The messages of the command beside its results: notes, complaints and progress, all on standard error.
//!
//! A standard error that is closed or broken stops no command: what cannot be said is dropped. So `eprintln!`, which
//! panics there, is not used in this crate; [`note!`] and [`complain!`] are.

use std::fmt::Arguments;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewalk_report::ProgressShown;

use crate::args::{ProgressArgument, SayArguments};

/// The settings of the command line; until it has been read, and in helpers that have none, the defaults.
static SAID: OnceLock<SayArguments> = OnceLock::new();

/// Says what only informs; nothing under `--quiet`.
macro_rules! note {
    ($($text:tt)*) => { $crate::say::inform(format_args!($($text)*)) };
}

/// Says what is wrong.
macro_rules! complain {
    ($($text:tt)*) => { $crate::say::warn(format_args!($($text)*)) };
}

pub(crate) use {complain, note};

/// Sets how much is said, once, before any command runs.
pub(crate) fn set(arguments: SayArguments) {
    let _ = SAID.set(arguments);
}

fn said() -> SayArguments {
    SAID.get().copied().unwrap_or_default()
}

/// Prints a note, as [`note!`] says.
pub(crate) fn inform(text: Arguments<'_>) {
    if !said().quiet {
        warn(text);
    }
}

/// Prints a warning, as [`complain!`] says.
pub(crate) fn warn(text: Arguments<'_>) {
    write(format_args!("{text}\n"));
}

/// Writes to standard error, whole if possible.
pub(crate) fn write(text: Arguments<'_>) {
    let _ = std::io::stderr().lock().write_all(text.to_string().as_bytes());
}

/// Returns whether colours are wanted: NO_COLOR says no by any text (no-color.org).
pub(crate) fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|text| text.is_empty())
}

/// Returns how the progress of a run is shown. A live program shares our standard error, and often a terminal with it: its
/// half-written lines must stay, so progress is shown beside it only if asked for, and in whole lines.
pub(crate) fn progress(is_live: bool) -> ProgressShown {
    match (said().quiet, said().progress, is_live) {
        (true, ..) | (_, ProgressArgument::Never, _) | (_, ProgressArgument::Auto, true) => {
            ProgressShown::Nothing
        }
        (_, ProgressArgument::Always, true) => ProgressShown::Lines,
        (.., false) => ProgressShown::Bar { colour: colours() },
    }
}

/// A line that counts steps of work, each in place of the one before and behind what stands there already; on terminals only, unless
/// asked for.
pub(crate) struct Steps {
    is_shown: bool,
    is_terminal: bool,
    /// Whether the terminal has been told to keep the cursor's place.
    is_placed: AtomicBool,
}

impl Steps {
    /// Returns a line that is not shown yet.
    pub(crate) fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let is_shown = match said().progress {
            _ if said().quiet => false,
            ProgressArgument::Never => false,
            ProgressArgument::Auto => is_terminal,
            ProgressArgument::Always => true,
        };
        Self { is_shown, is_terminal, is_placed: AtomicBool::new(false) }
    }

    /// Shows how far the work is.
    pub(crate) fn show(&self, text: Arguments<'_>) {
        match (self.is_shown, self.is_terminal) {
            (false, _) => {}
            // Cut at the edge, as a line that goes on in the next one would move the place; the rest of a longer line before is
            // cleared.
            (true, true) => {
                let place = if self.is_placed.swap(true, Ordering::Relaxed) { "\x1b8" } else { "\x1b7" };
                write(format_args!("{place}\x1b[?7l{text}\x1b[K\x1b[?7h"));
            }
            (true, false) => warn(text),
        }
    }

    /// Takes the line away, for what is printed in its place.
    pub(crate) fn clear(&self) {
        if self.is_placed.swap(false, Ordering::Relaxed) {
            write(format_args!("\x1b8\x1b[K"));
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if *self.is_placed.get_mut() {
            write(format_args!("\n"));
        }
    }
}
