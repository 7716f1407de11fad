//! The simulator: machine files become machines, events become counts and time.

mod begin;
pub mod files;
pub mod machine;
pub mod metrics;
pub mod queueing;
mod reach;
pub mod run;
pub mod spec;
pub mod tables;
pub mod time;
#[cfg(test)]
mod witness;
