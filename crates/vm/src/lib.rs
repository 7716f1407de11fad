//! Every mechanism of virtual memory, once.
//!
//! Pure data structures and policies: no clock, no input or output, no threads. A mechanism is told what
//! happens and answers what it did (which level hit, which physical addresses a walk read, which frame was
//! chosen, which page was evicted); only the simulator turns that into time, and only the real components turn
//! it into effects.

// Suites of tests that other crates include name this crate as those do.
#[cfg(test)]
extern crate self as pagewalk_vm;

pub mod addr;
pub mod fault;
pub mod file;
pub mod frame;
pub mod hash;
pub use pagewalk_cuckoo::random;
pub mod reclaim;
pub mod sched;
pub mod sets;
#[allow(unsafe_code)] // The one SIMD file of the crate.
mod simd;
pub mod space;
pub mod table;
pub mod tier;
pub mod tlb;
