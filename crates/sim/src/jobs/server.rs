//! A core that serves jobs, and its state.

use pagewalk_vm::sched::{MissRegisters, Occasion, Scheduler, Ticket};
use pagewalk_vm::tier::FlashPage;

use crate::time::{MissKind, Requester, Waiter};

/// A core that serves jobs, and its state.
pub(super) struct Server {
    pub(super) scheduler: Scheduler<u32>,
    /// Instructions are the accesses of the job that runs, by their place.
    pub(super) registers: MissRegisters,
    pub(super) state: State,
}

/// The state of a core that serves jobs.
#[derive(Clone, Copy)]
pub(super) enum State {
    /// The core has to choose a job.
    Decides(Occasion),
    Runs(Running),
    /// The core runs a job and can do nothing but wait for memory.
    Waits(Running, MissKind),
    /// The core has nothing to do, until then at the latest.
    Idles {
        until_ps: u64,
    },
}

/// A job that runs.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) job: u32,
    pub(super) ticket: Ticket,
    pub(super) granted: Option<FlashPage>,
    /// Whether its next access has been dispatched, and whether it was made before.
    pub(super) is_dispatched: bool,
    pub(super) repeats: bool,
}

impl Server {
    /// Returns whose accesses those of a running job are, whose next access is at `place`.
    pub(super) fn requester(&self, core: usize, running: Running, place: u64) -> Requester {
        let waiter = Waiter { core: core as u32, ticket: running.ticket };
        let must_complete = self.registers.completes(place);
        Requester { waiter, must_complete, granted: running.granted }
    }

    /// Returns when the core stops idling by itself, if it idles.
    pub(super) fn timer_ps(&self) -> Option<u64> {
        match self.state {
            State::Idles { until_ps } => Some(until_ps),
            _ => None,
        }
    }

    /// Returns whether the core has something to do now.
    pub(super) fn can_go_on(&self) -> bool {
        !matches!(self.state, State::Waits(..) | State::Idles { .. })
    }
}
