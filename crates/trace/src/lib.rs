//! The event stream: what a program did to its memory, in batches; recording, reading and thinning it.

pub mod container;
pub mod error;
pub mod event;
pub mod filter;
pub mod foreign;
pub mod partial;
pub mod record;
pub mod source;
pub mod stop;
pub mod summary;
pub mod unfinished;

pub use error::{Place, TraceError};
pub use event::{
    Access, Advice, Backing, Batch, BlockId, Code, Event, Executed, Isa, Mapping, Mark, ObjectId,
    ObjectPages, PageFrame, ProcessId, Protection, ThreadId,
};
pub use filter::{ExactFilter, FilterRefusal, TlbDescription};
pub use foreign::{Format, ReadOptions, Remarks, TraceSource, Translations, open};
pub use partial::{Partial, PartialReason};
pub use record::{Recorder, convert, record};
pub use source::{Sink, Source, SourceError, SourceInfo};
pub use stop::{Stop, StopRequest, Stoppable};
pub use summary::{TraceSummary, info};
pub use unfinished::Unfinished;
