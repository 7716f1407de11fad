//! Patterns of operations on files in persistent memory, with what they take by the index of the machine's file system.
//!
//! The six patterns and what is measured of them: Li et al., ";login: 2022", Table 1 and Figure 1.

mod pattern;
#[cfg(test)]
mod tests;

pub(crate) use pattern::{Pattern, PatternRun, run};
