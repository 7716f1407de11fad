//! The event stream: what a program did to its memory, in batches; recording and reading it.

pub mod container;
pub mod error;
pub mod event;
pub mod record;
pub mod source;

pub use error::{Place, TraceError};
pub use event::{Access, Advice, Backing, Batch, Event, Mapping, Mark, ProcessId, Protection, ThreadId};
pub use record::{Recorder, record};
pub use source::{Sink, Source, SourceError, SourceInfo};
