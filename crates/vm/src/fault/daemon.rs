//! When the daemon looks after the queues in the background.

use std::ops::RangeInclusive;

use super::DesignError;

/// The timer's constants, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerDesign {
    /// The length of the first sleep, in picoseconds.
    pub first_ps: u64,
    /// The time by which the sleep grows after each run, in picoseconds.
    pub longer_ps: u64,
    /// The time by which the sleep shrinks after each page fault for the queues' sake, in picoseconds.
    pub shorter_ps: u64,
    /// The shortest sleep, in picoseconds.
    pub least_ps: u64,
    /// The longest sleep, in picoseconds.
    pub most_ps: u64,
    /// A sleep may end so much late, for the system to wake up once for several sleepers.
    pub slack_ps: u64,
}

impl Default for TimerDesign {
    /// Returns the constants of the authors' kernel. Its comment says that a sleep is 1 s at most, its code says 100
    /// s.
    fn default() -> Self {
        const US: u64 = 1_000_000;
        Self {
            first_ps: 10_000 * US,
            longer_ps: 100 * US,
            shorter_ps: 1_000 * US,
            least_ps: 5_000 * US,
            most_ps: 100_000_000 * US,
            slack_ps: 10_000 * US,
        }
    }
}

/// Learns how long the queues last: a daemon that gives frames and books pages just before the program would be
/// interrupted for it. A little longer after each run, much shorter after each interruption (kpfad; thesis, 4.3.3).
///
/// There is no threshold that wakes the daemon early, and a change does not reach a sleep that has begun.
#[derive(Clone, Debug)]
pub struct BookkeepingTimer {
    design: TimerDesign,
    sleep_ps: u64,
}

impl BookkeepingTimer {
    /// Creates a timer that has learned nothing yet.
    ///
    /// # Errors
    ///
    /// The first sleep is not between the shortest and the longest.
    pub fn new(design: TimerDesign) -> Result<Self, DesignError> {
        if !(design.least_ps..=design.most_ps).contains(&design.first_ps) {
            return Err(DesignError {
                what: "picoseconds of the daemon's first sleep",
                value: design.first_ps,
                allowed: "its shortest to its longest",
            });
        }
        Ok(Self { design, sleep_ps: design.first_ps })
    }

    /// Returns how long the daemon is to sleep now: anything in here will do.
    pub fn sleep_ps(&self) -> RangeInclusive<u64> {
        self.sleep_ps..=self.sleep_ps.saturating_add(self.design.slack_ps)
    }

    /// Adapts the length of the next sleep after the daemon woke up. The daemon only tries to take the lock: without
    /// the lock it does nothing, since another thread does the work, and it has learned nothing.
    pub fn ran(&mut self, got_lock: bool) {
        if got_lock {
            self.sleep_ps = self.sleep_ps.saturating_add(self.design.longer_ps).min(self.design.most_ps);
        }
    }

    /// Adapts the length of the next sleep after the program was interrupted, because a queue was empty or full.
    pub fn interrupted(&mut self) {
        self.sleep_ps = self.sleep_ps.saturating_sub(self.design.shorter_ps).max(self.design.least_ps);
    }
}

impl Default for BookkeepingTimer {
    fn default() -> Self {
        Self::new(TimerDesign::default()).expect("the first sleep is between the shortest and the longest")
    }
}
