//! The sources and sinks of events.

use std::ops::ControlFlow;

use crate::event::Batch;

/// The facts that are known of a source before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceInfo {
    /// The name of the source in reports: `gups --table 64MiB`, `sort words.txt`, `trace.pwt`.
    pub name: String,
    /// The number of accesses it will produce, where that is known beforehand; for progress only.
    pub expected_accesses: Option<u64>,
    /// Whether it announces its mappings with events. If not, a machine maps a page when it is first touched.
    pub announces_mappings: bool,
    /// Whether it counts instructions.
    pub counts_instructions: bool,
    /// Whether it may say which frames pages have ([`Event::Frame`](crate::Event::Frame)).
    pub gives_frames: bool,
    /// Whether it says which blocks of instructions the program executes ([`Batch::blocks`]).
    pub gives_blocks: bool,
}

/// A producer of events: a workload, a live program, a trace.
///
/// # Contract
///
/// `run` hands over every event exactly once and in order. The sink may keep the batch's buffers by swapping an
/// empty batch in; the source clears the batch before it fills it again. When the sink breaks, the source stops
/// soon, releases what it holds (a live program is ended) and returns `Ok`.
pub trait Source {
    /// What is known beforehand.
    fn info(&self) -> SourceInfo;

    /// Produces all events of the source.
    ///
    /// # Errors
    ///
    /// What went wrong with the file, program or workload, in words for its user.
    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError>;
}

/// A consumer of events.
pub trait Sink {
    /// Takes one batch; `Break` asks the source to stop.
    fn batch(&mut self, batch: &mut Batch) -> ControlFlow<()>;
}

impl<F: FnMut(&mut Batch) -> ControlFlow<()>> Sink for F {
    fn batch(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        self(batch)
    }
}

/// The reason why a source could not go on. Its text names the file or program, the place in it, and what would help.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The user's input is wrong: a foreign or corrupt file, a program that cannot be observed.
    #[error("{0}")]
    Input(String),
    /// The operating system refused something.
    #[error("{what}: {error}")]
    Io {
        /// The operation that was being done, with the path.
        what: String,
        /// The system's answer, in the text already, and therefore no source: a chain of errors would say it twice.
        error: std::io::Error,
    },
    /// The workload computed a wrong answer: a bug, never the user's fault.
    #[error("{0}")]
    Verification(String),
}
