//! What comes of experiments.

use pagewalk_report::{Figure, PaperRow};

use crate::ages::Ages;

/// What came of experiments so far.
#[derive(Default)]
pub struct Outcome {
    /// The rows, in the order in which they were judged.
    pub rows: Vec<PaperRow>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The ages of evicted pages, each computed once.
    pub(crate) ages: Ages,
}
