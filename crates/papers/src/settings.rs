//! How experiments are run.

use std::path::PathBuf;

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the items begin with that were asked for; empty for all.
    pub item: String,
    /// Whether small inputs stand in for those of the published size; nothing is judged then.
    pub small: bool,
    /// Whether experiments that take minutes are made short where they can be.
    pub quick: bool,
    /// Worker threads.
    pub threads: usize,
    /// The folder in which `make hardware` has left the circuit's figures.
    pub hardware: PathBuf,
}
