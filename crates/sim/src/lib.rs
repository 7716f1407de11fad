//! The simulator: machine files become machines, events become counts and time.

pub mod metrics;
pub mod spec;
