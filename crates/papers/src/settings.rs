//! How experiments are run.

use std::path::PathBuf;

/// The settings of a run of experiments.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The beginning of the items that were asked for; empty for all items.
    pub item: String,
    /// Whether small inputs stand in for those of the published size; nothing is judged then.
    pub small: bool,
    /// Whether experiments that take minutes are made short where they can be.
    pub quick: bool,
    /// The number of worker threads.
    pub threads: usize,
    /// The folder in which `make hardware` has left the circuit's figures.
    pub hardware: PathBuf,
}
