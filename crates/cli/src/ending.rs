//! The early ends of a command: by signals, a limit of time, or an observed program that dies.
//!
//! The first SIGINT, SIGTERM or SIGHUP asks the running sources to end; the command then writes the result so far, marked
//! as partial, and exits with 128 and the signal's number. The second one ends the command and what it observes at once.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use pagewalk_trace::{Partial, PartialReason, Stop, StopRequest};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Signals, SignalsInfo};
use signal_hook::low_level::siginfo::Cause;

use crate::exit::Done;
use crate::say::{complain, note};

/// The place in which the sources of this command look whether they are to end.
static STOP: LazyLock<Stop> = LazyLock::new(Stop::default);
/// Whether signals are watched for already.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// A file that goes when a signal ends the command.
static TEMPORARY: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Signals within this time are one: `timeout` and service managers signal a process and then its group.
const SAME: Duration = Duration::from_millis(200);

/// The time that a command has to write what there is once the second signal has killed the program that it observes.
const LAST_CHANCE: Duration = Duration::from_millis(500);

/// Begins to watch for signals; the place where sources see that one came.
///
/// # Errors
///
/// The system refuses a handler or a thread.
pub(crate) fn watch() -> anyhow::Result<&'static Stop> {
    if WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(&STOP);
    }
    let mut signals = SignalsInfo::<WithOrigin>::new(caught()).context("cannot watch for signals")?;
    let watch = move || {
        let mut first: Option<Instant> = None;
        for origin in signals.forever() {
            let number = origin.signal;
            match first {
                None => {
                    first = Some(Instant::now());
                    // The terminal signals the whole group, the observed program included.
                    let is_delivered = matches!(origin.cause, Cause::Kernel);
                    STOP.request(StopRequest::Signal { number, is_delivered });
                }
                Some(first) if first.elapsed() < SAME => {}
                Some(_) => {
                    if pagewalk_capture::kill_observed() {
                        // The observed program has ended, and the command is on its way to do so.
                        std::thread::sleep(LAST_CHANCE);
                    }
                    complain!("ended at once by {}", name(number));
                    std::process::exit(128 + number);
                }
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("cannot start a thread")?;
    Ok(&STOP)
}

/// Ends the command at once at the first SIGINT, SIGTERM or SIGHUP, without the file that [`temporary`] has made: for work that has
/// no result before its end.
///
/// # Errors
///
/// The system refuses a handler or a thread.
pub(crate) fn end_at_signal() -> anyhow::Result<()> {
    let mut signals = Signals::new(caught()).context("cannot watch for signals")?;
    let watch = move || {
        if let Some(number) = signals.forever().next() {
            // Locked to the end: no file is made any more.
            let temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(path) = &*temporary {
                // What cannot be removed the user sees by its name.
                let _ = std::fs::remove_file(path);
            }
            complain!("ended by {}", name(number));
            std::process::exit(128 + number);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("cannot start a thread")?;
    Ok(())
}

/// Makes a file that is gone if a signal ends the command; see [`end_at_signal`].
///
/// # Errors
///
/// Those of `make`.
pub(crate) fn temporary<T>(path: &Path, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    let made = make()?;
    *temporary = Some(path.to_owned());
    Ok(made)
}

/// Gives that file its name; a signal comes before that or after it.
///
/// # Errors
///
/// Those of `name`; the file is still one that a signal removes.
pub(crate) fn named(name: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    name()?;
    *temporary = None;
    Ok(())
}

/// Returns the signals that end commands.
fn caught() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal))
}

/// Returns whether the process that started this one wants a signal ignored, as `nohup` does with `SIGHUP`. Only that signal's
/// meaning depends on it: shells start programs in the background with `SIGINT` ignored.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    signal == SIGHUP && ignored.is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}

/// Ends the sources after this time, if there is such a limit.
///
/// # Errors
///
/// The system refuses a thread.
pub(crate) fn limit_time(limit: Option<Duration>) -> anyhow::Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let wait = move || {
        std::thread::sleep(limit);
        STOP.request(StopRequest::Now);
    };
    std::thread::Builder::new().name("time limit".to_owned()).spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// Returns the place that [`watch`] answers; without a request in commands that do not watch.
pub(crate) fn stop() -> &'static Stop {
    &STOP
}

/// Goes on with the next part of long work, unless the command is to end.
///
/// # Errors
///
/// [`Interrupted`].
pub(crate) fn go_on() -> anyhow::Result<()> {
    match Early::asked(stop(), None) {
        Some(early) => Err(Interrupted(early).into()),
        None => Ok(()),
    }
}

/// The reasons for which work ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    /// The command received a signal.
    Signal(i32),
    /// The limit of time was reached.
    TimeLimit(Duration),
    /// The observed program was killed by a signal.
    Killed {
        /// The name of the program.
        program: String,
        /// The number of the signal.
        signal: i32,
        /// The advice on what to do about it.
        advice: &'static str,
    },
    /// The program could not be observed any further, for this reason.
    Failed(String),
    /// The trace is damaged or cut short there.
    Damaged(String),
}

impl Early {
    /// Returns what the place says: a signal, or the end of the time that was set.
    pub(crate) fn asked(stop: &Stop, limit: Option<Duration>) -> Option<Self> {
        stop.requested().map(|request| match request {
            StopRequest::Signal { number, .. } => Self::Signal(number),
            StopRequest::Now => Self::TimeLimit(limit.unwrap_or_default()),
        })
    }

    /// Returns how the command ends after it has written what there is.
    pub(crate) fn done(&self) -> Done {
        match self {
            Self::Signal(signal) | Self::Killed { signal, .. } => Done::Signal(*signal),
            Self::TimeLimit(_) => Done::Well,
            Self::Failed(_) | Self::Damaged(_) => Done::SourceBroken,
        }
    }

    /// Returns the mark of a result.
    pub(crate) fn partial(&self) -> Partial {
        let reason = match self {
            Self::Signal(_) => PartialReason::Signal,
            Self::TimeLimit(_) => PartialReason::TimeLimit,
            Self::Killed { .. } => PartialReason::ProgramKilled,
            Self::Failed(_) => PartialReason::ObservationFailed,
            Self::Damaged(_) => PartialReason::TraceDamaged,
        };
        Partial { reason, text: self.to_string() }
    }

    /// Says that what has been written is of a part of the work.
    pub(crate) fn tell(&self, what: fmt::Arguments<'_>) {
        match self {
            Self::TimeLimit(_) => note!("{what} is partial: {self}"),
            Self::Killed { advice, .. } => complain!("{what} is partial: {self}\n  = help: {advice}"),
            _ => complain!("{what} is partial: {self}"),
        }
    }
}

impl fmt::Display for Early {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => write!(f, "ended by {}", name(*signal)),
            Self::TimeLimit(limit) => write!(f, "ended by the time limit of {limit:?}"),
            Self::Killed { program, signal, .. } => write!(f, "{program} was killed by {}", name(*signal)),
            Self::Failed(why) | Self::Damaged(why) => write!(f, "{why}"),
        }
    }
}

/// A command that ended early and has nothing to show for it.
#[derive(Debug)]
pub(crate) struct Interrupted(pub(crate) Early);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Interrupted {}

/// Returns a signal's name as people know it.
fn name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => format!("signal {signal}"),
    }
}
