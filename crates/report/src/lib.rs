//! The views of a run for people: the JSON document, the terminal table, the HTML page, the progress bar; and the tables that set
//! published numbers beside ours.
//!
//! Everything but [`RunProgress`] and [`write_atomically`] is pure: equal values in, equal text out.

mod atomic;
mod document;
mod headline;
mod html;
mod measure;
mod papers;
mod progress;
mod span;
mod table;
mod text;
mod timeline;
mod units;
mod validation;

#[cfg(test)]
mod samples;

pub use atomic::write_atomically;
pub use document::{
    Document, DocumentError, FailureNote, FramesNote, MachineNote, Manifest, PartNote, SCHEMA, SourceNote,
    UnobservedNote, partial_heading,
};
pub use headline::headline;
pub use html::{page, paper_page, validation_page};
pub use papers::{BarGroup, Drawn, Figure, PaperDocument, PaperRow, Verdict, paper_table};
pub use progress::{ProgressShown, RunProgress};
pub use table::{Style, comparison};
pub use text::visible;
pub use timeline::{Moment, StepClass, TimelineRow, TimelineSpan, timeline_rows};
pub use validation::{Class, Errors, Gain, Gained, LeftOut, Times, Validation, ValidationRow};
