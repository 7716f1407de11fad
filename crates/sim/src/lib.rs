//! The simulator: machine files become machines, events become counts and time.

mod begin;
mod engine;
mod error;
pub mod files;
mod jobs;
mod kernel;
pub mod machine;
pub mod metrics;
mod mmu;
pub mod queueing;
mod reach;
pub mod run;
pub mod spec;
pub mod tables;
pub mod time;
#[cfg(test)]
mod witness;
