//! The registers by which a core tells its program that an access missed, and the program goes on behind it.
//!
//! A miss travels back to the core as an uncorrectable error would. When everything older has retired, the core drops what
//! is younger and goes on at the handler; where it missed is in the resume register. A thread that is resumed has the
//! forward-progress bit set with it: that one access is completed even if the page is gone again, and the bit clears when it
//! retires. So a thread that was resumed gets on, however many others want the same set.

/// The privilege with which a register is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Privilege {
    /// The mode that a program runs in.
    User,
    /// The kernel, which a program asks by a system call.
    Supervisor,
}

/// A program wrote the handler's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("only the kernel may write the handler's address")]
pub struct NotPrivileged;

/// The resume register, which says where a thread goes on. Programs may read and write it: it is saved with a
/// thread's context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Resume {
    /// The instruction that missed: its program counter, or its place in a trace.
    pub at: u64,
    /// The forward-progress bit: the core completes this instruction even if it misses again.
    pub must_complete: bool,
}

/// A core's registers for misses; part of a process's state, so a copy of them is what a context switch saves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MissRegisters {
    handler: Option<u64>,
    /// The place of the last miss.
    pub resume: Resume,
}

impl MissRegisters {
    /// Returns the address where the program goes on at a miss; without a handler the core waits.
    #[inline]
    pub fn handler(&self) -> Option<u64> {
        self.handler
    }

    /// Installs a handler, or takes it away.
    ///
    /// # Errors
    ///
    /// If a program does so itself.
    pub fn set_handler(&mut self, by: Privilege, handler: Option<u64>) -> Result<(), NotPrivileged> {
        match by {
            Privilege::User => Err(NotPrivileged),
            Privilege::Supervisor => {
                self.handler = handler;
                Ok(())
            }
        }
    }

    /// Returns whether the core completes the instruction at `at` if it misses:
    #[inline]
    pub fn completes(&self, at: u64) -> bool {
        self.handler.is_none() || self.resume == Resume { at, must_complete: true }
    }

    /// Takes note that the instruction at `at` missed and everything older has retired; returns where the core goes
    /// on. `None` if it waits: no register changes then.
    #[must_use]
    pub fn miss(&mut self, at: u64) -> Option<u64> {
        if self.completes(at) {
            return None;
        }
        self.resume = Resume { at, must_complete: false };
        self.handler
    }

    /// Sets the place where a thread goes on after a miss.
    #[inline]
    pub fn resume_at(&mut self, at: u64) {
        self.resume = Resume { at, must_complete: true };
    }

    /// Takes note that the instruction at `at` retired.
    #[inline]
    pub fn retire(&mut self, at: u64) {
        if self.resume.at == at {
            self.resume.must_complete = false;
        }
    }
}
