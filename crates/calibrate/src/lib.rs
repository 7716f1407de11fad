//! This computer as a machine file.
//!
//! A processor and its kernel say a part of what a machine file holds: CPUID has the TLBs, `/sys` the caches, `/proc` the memory.
//! [`Host::read`] collects it, and [`machine_file`] writes it over the built-in machine that is nearest to the processor. What neither
//! of them says (latencies, widths, walk caches) stays that machine's, and the file says which is which.
//!
//! [`measure`] runs micro-benchmarks, and [`calibrated_file`] writes what they found over that file. [`Prober`] takes a short look at
//! what moves on a shared host.

mod calibrated;
mod cpuid;
mod host;
mod machine;
mod measure;
mod recalibrated;
mod tlbs;

pub use calibrated::{calibrated_file, imprecise};
pub use cpuid::{Cpuid, Registers};
pub use host::{Cache, Host, HostError, Processor};
pub use machine::machine_file;
pub use measure::{
    Effort, FaultTimes, Glance, LEAST_MEMORY_BYTES, Measured, Measurements, NOISY, OWN, Prober, Quantity,
    Statistic, Steadiness, Step, measure,
};
pub use recalibrated::recalibrated;
pub use tlbs::{Array, Pages, Tlbs};
