//! The parameters of each of these workloads; it adds its own behind them.

use crate::entry::{Kind, Parameter};

/// The size of the data.
pub(crate) const fn dataset(default: &'static str) -> Parameter {
    Parameter {
        name: "dataset",
        summary: "bytes of all data together, indexes included",
        kind: Kind::Size { min: 64 << 10, max: 4 << 40, power_of_two: false },
        default,
    }
}

/// How uneven the choice of records is.
pub(crate) const SKEW: Parameter = Parameter {
    name: "skew",
    summary: "exponent of Zipf's law by which jobs choose records, 0 for all alike",
    kind: Kind::Decimal { min: 0, max: 4000 },
    default: "1",
};

/// The jobs of the last phase.
pub(crate) const JOBS: Parameter = Parameter {
    name: "jobs",
    summary: "jobs that are measured",
    kind: Kind::Count { min: 1, max: 1_000_000_000 },
    default: "100k",
};

/// The jobs of the phase before.
pub(crate) const SETTLE: Parameter = Parameter {
    name: "settle",
    summary: "jobs before those that are measured",
    kind: Kind::Count { min: 0, max: 1_000_000_000 },
    default: "10k",
};

/// The jobs of the first phase.
pub(crate) const WARM: Parameter = Parameter {
    name: "warm",
    summary: "jobs before those, of which only the pages are touched",
    kind: Kind::Count { min: 0, max: 1_000_000_000 },
    default: "100k",
};

/// The parameter for the times at which jobs arrive.
pub(crate) const INTERVAL: Parameter = Parameter {
    name: "interval",
    summary: "nanoseconds between two arrivals on average (Poisson); 0 if another job is always waiting",
    kind: Kind::Decimal { min: 0, max: 1_000_000_000_000 },
    default: "0",
};

/// The length of a job. The defaults make it one of 0.5 to 3 microseconds at 2 GHz and two instructions a cycle.
pub(crate) const fn work(default: &'static str) -> Parameter {
    Parameter {
        name: "work",
        summary: "instructions of a job beside those of its data structure",
        kind: Kind::Count { min: 0, max: 100_000_000 },
        default,
    }
}
