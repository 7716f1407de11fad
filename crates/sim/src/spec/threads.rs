//! Threads that serve jobs.

use pagewalk_vm::sched::{Notification, Policy, Response, SchedulerDesign};

use super::section::{MILLISECOND_PS, Table, Words, section};

/// Threads that serve jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadsSpec {
    /// The number of threads of each core.
    pub per_core: u32,
    /// The parameters of each core's scheduler.
    pub design: SchedulerDesign,
    /// From a thread to another.
    pub switch_ps: u64,
    /// Refilling the pipeline after a miss.
    pub flush_ps: u64,
}

static SCHEDULES: Words<Policy> = Words(&[
    ("priority", Policy::Priority, "before new jobs, after every job"),
    ("fifo", Policy::Fifo, "after a miss only"),
]);
static NOTICES: Words<Notification> = Words(&[
    ("arrival", Notification::Arrival, "when its page is there"),
    ("age", Notification::Age, "after the average time of flash"),
]);

section! {
    /// The threads.
    pub(super) fn threads(table, resolver, flash: Option<&Table>) -> ThreadsSpec;
    pub(super) const THREADS {
        per_core = "per-core" integer(1, 4_096) or "48", "threads of a core";
        policy = "schedule" word(&SCHEDULES) or "\"priority\"", "whether a job whose page is there comes before new ones after every job, or only after a miss";
        notification = "notice" word(&NOTICES) or "\"arrival\"", "when a waiting job may go on: when its page is there, or after the average time of flash";
        switch_ps = "switch" time(MILLISECOND_PS) or "\"100 ns\"", "from a thread to another";
        flush_ps = "flush" time(MILLISECOND_PS) or "\"32 cycles\"", "refilling the pipeline after a miss: window / width; with `core.dataflow`, where the source says which blocks are executed, `misprediction` instead";
        new_capacity = "queue" integer(1, 1 << 24) or "1000000", "jobs that wait for a core to begin with them; beyond, they are refused";
    }
    {
        let per_core = per_core?;
        // Where the average begins: what the device says of itself.
        let start = match flash {
            Some(flash) => resolver.time(flash, "read")?.max(1),
            None => 50_000_000,
        };
        Some(ThreadsSpec {
            per_core,
            design: SchedulerDesign {
                new_capacity: new_capacity?,
                pending_capacity: per_core - 1,
                policy: policy?,
                notification: notification?,
                response: Response::Measured { start },
            },
            switch_ps: switch_ps?,
            flush_ps: flush_ps?,
        })
    }
}
