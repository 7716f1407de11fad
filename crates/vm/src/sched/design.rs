//! The design of a scheduler.

/// The rule for when pending jobs are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Policy {
    /// After every request, and before new jobs. New jobs have the higher priority until a pending one is ready.
    #[default]
    Priority,
    /// New jobs first; the head of the pending ones only after a miss, or if there is nothing new. The paper's variant
    /// without priority scheduling.
    Fifo,
}

/// The way in which the scheduler learns that a pending job is ready.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Notification {
    /// The backside controller tells which page has arrived, through a queue pair. The default here, because then a resumed
    /// job finds its page, unless that has left again; in the paper it is the option.
    #[default]
    Arrival,
    /// The age of the oldest job alone decides: the job is ready once its age exceeds the average response of flash.
    /// Its page may not be there.
    Age,
}

/// The source of flash's average response.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Response {
    /// An exponentially weighted average of what was measured, weight 1/8; assumed, the paper says "average".
    Measured {
        /// The average before the first measurement.
        start: u64,
    },
    /// The same response for every request, given in advance.
    Constant(u64),
}

/// The parameters of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedulerDesign {
    /// New jobs that may wait: 1 to 2^30. The paper names no limit.
    pub new_capacity: u32,
    /// Pending jobs: 1 to 65,536. The number of the core's threads but the running one, assumed.
    pub pending_capacity: u32,
    /// The rule for when pending jobs are looked at.
    pub policy: Policy,
    /// The way in which the scheduler learns that a pending job is ready.
    pub notification: Notification,
    /// The source of flash's average response; matters with [`Notification::Age`].
    pub response: Response,
}

impl SchedulerDesign {
    /// Returns the design for this many threads (32 to 64 in the paper) and a device that takes this long.
    pub fn of_threads(threads: u32, response: u64) -> Self {
        Self {
            new_capacity: 1 << 16,
            pending_capacity: threads - 1,
            policy: Policy::default(),
            notification: Notification::default(),
            response: Response::Measured { start: response },
        }
    }

    /// Checks what cannot be.
    ///
    /// # Errors
    ///
    /// [`DesignError`] names the field.
    pub fn check(&self) -> Result<(), DesignError> {
        let response = match self.response {
            Response::Measured { start } => start,
            Response::Constant(constant) => constant,
        };
        for (field, value, most, allowed) in [
            ("new_capacity", self.new_capacity.into(), 1 << 30, "1 to 2^30"),
            ("pending_capacity", self.pending_capacity.into(), 1 << 16, "1 to 65536"),
            ("response", response, 1 << 60, "1 to 2^60"),
        ] {
            if !(1..=most).contains(&value) {
                return Err(DesignError { field, value, allowed });
            }
        }
        Ok(())
    }
}

/// A design that no scheduler can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} of a scheduler is {value}; allowed: {allowed}")]
pub struct DesignError {
    /// The name of the field that is wrong.
    pub field: &'static str,
    /// The value that the key had.
    pub value: u64,
    /// The values that are allowed.
    pub allowed: &'static str,
}
