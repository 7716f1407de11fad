//! The simulator: machine files become machines, events become counts and time.

mod allocation;
mod engine;
mod error;
pub mod files;
mod jobs;
mod kernel;
pub mod machine;
pub mod metrics;
mod mmu;
pub mod queueing;
pub mod run;
pub mod spec;
pub mod time;
#[cfg(test)]
mod witness;

pub use allocation::allocation_cycles;
