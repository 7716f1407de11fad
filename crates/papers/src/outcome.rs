//! What comes of experiments.

use pagewalk_report::{Figure, PaperRow};

use crate::ages::Ages;

/// The rows and figures that experiments have made so far.
#[derive(Default)]
pub struct Outcome {
    /// The rows, in the order in which they were judged.
    pub rows: Vec<PaperRow>,
    /// The figures, in the order in which they were drawn.
    pub figures: Vec<Figure>,
    /// The ages of evicted pages, each computed once.
    pub(crate) ages: Ages,
}
