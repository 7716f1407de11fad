//! A hash map that grows and shrinks without pauses.

mod api;
mod item;
mod map;
mod memory;
#[cfg(test)]
mod tests;
mod traits;

pub use map::{DefaultHasher, ElasticMap};
