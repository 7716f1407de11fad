//! The event stream: what a program did to its memory, in batches.

pub mod event;
pub mod source;

pub use event::{Access, Advice, Backing, Batch, Event, Mapping, Mark, ProcessId, Protection, ThreadId};
pub use source::{Sink, Source, SourceError, SourceInfo};
