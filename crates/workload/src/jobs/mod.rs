//! The common parts of workloads that are servers: a stream of independent jobs over a large dataset.
//!
//! The data is *procedural*: what a record holds before a job changes it is a function of its number and the seed, and
//! only changed records are kept. So a dataset of a terabyte needs no more memory than what the jobs change, and none has
//! to be written first.
//!
//! | phase | what is emitted |
//! |---|---|
//! | warm-up | of each job the first access and the first store to each page; neither jobs nor instructions |
//! | settle | everything: jobs before those that are measured |
//! | serve | everything |
//!
//! The jobs of all phases follow the same law; those of the warm-up cost little to simulate, and leave memory as very many
//! jobs leave it. A job runs on the stack of some thread, which is announced once ([`pagewalk_trace::Event::ThreadStack`]).

mod contents;
mod job;
mod parameters;
mod popularity;
mod scatter;
mod sites;
mod stream;
mod zipf;

pub(crate) use self::contents::{CHANGED_BYTES, Contents};
pub(crate) use self::job::Job;
#[cfg(test)]
pub(crate) use self::job::with_job;
pub(crate) use self::parameters::{INTERVAL, JOBS, SETTLE, SKEW, WARM, dataset, work};
pub(crate) use self::popularity::Popularity;
pub(crate) use self::scatter::Scatter;
pub(crate) use self::stream::{Jobs, PHASES, Server};
