//! Who answers an interrupt from the terminal while a program is observed: the program.
//!
//! The terminal sends SIGINT to both. What a program does with it is its own affair: a server ends in good order, and
//! its recording is whole then. A second interrupt ends the observer, too.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Whether the next interrupt ends this process.
static FATAL: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// As long as this lives, the first interrupt is left to the program.
pub(crate) struct LeaveToProgram(());

impl LeaveToProgram {
    pub(crate) fn new() -> io::Result<Self> {
        let fatal = match FATAL.get() {
            Some(fatal) => fatal,
            None => {
                let fatal = Arc::new(AtomicBool::new(true));
                // In this order: an interrupt first asks whether one came before it.
                flag::register_conditional_default(SIGINT, Arc::clone(&fatal))?;
                flag::register(SIGINT, Arc::clone(&fatal))?;
                FATAL.get_or_init(|| fatal)
            }
        };
        fatal.store(false, Ordering::SeqCst);
        Ok(Self(()))
    }
}

impl Drop for LeaveToProgram {
    fn drop(&mut self) {
        if let Some(fatal) = FATAL.get() {
            fatal.store(true, Ordering::SeqCst);
        }
    }
}
