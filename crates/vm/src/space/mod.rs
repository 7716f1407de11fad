//! The kernel's view of an address space.

mod mapping;

pub use mapping::{Advice, Backing, Mapping, Protection};
