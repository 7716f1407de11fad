//! Recording: a sink that writes a `.pwt` file.

use std::ops::ControlFlow;
use std::path::Path;

use crate::container::{Totals, Writer};
use crate::error::TraceError;
use crate::event::Batch;
use crate::foreign::{self, Format, ReadOptions, Remarks};
use crate::partial::Partial;
use crate::source::{Sink, Source, SourceError, SourceInfo};

/// Writes everything it is given to a `.pwt` file, which appears when [`Recorder::finish`] succeeds.
#[derive(Debug)]
pub struct Recorder {
    writer: Writer,
    error: Option<TraceError>,
}

impl Recorder {
    /// Begins the file that will be `path`.
    ///
    /// # Errors
    ///
    /// As [`Writer::create`].
    pub fn create(path: &Path, source: &SourceInfo) -> Result<Self, TraceError> {
        Ok(Self { writer: Writer::create(path, source)?, error: None })
    }

    /// Lets the file say that it holds a part of its source only, and why.
    pub fn mark_partial(&mut self, partial: Partial) {
        self.writer.mark_partial(partial);
    }

    /// Completes the file and returns what it holds. After an error, or if the recorder is dropped instead, nothing
    /// is left behind.
    ///
    /// # Errors
    ///
    /// What stopped the recording, or what goes wrong now.
    pub fn finish(self) -> Result<Totals, TraceError> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }
}

impl Sink for Recorder {
    fn batch(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        if self.error.is_none() {
            self.error = self.writer.write(batch).err();
        }
        if self.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Runs `source` to its end into the `.pwt` file `path`.
///
/// # Errors
///
/// What went wrong with the source or the file; nothing is left behind.
pub fn record(source: &mut dyn Source, path: &Path) -> Result<Totals, SourceError> {
    let mut recorder = Recorder::create(path, &source.info())?;
    source.run(&mut recorder)?;
    Ok(recorder.finish()?)
}

/// The outcome of a conversion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Converted {
    /// The format that was read.
    pub format: Format,
    /// The totals of what was written.
    pub totals: Totals,
    /// The remarks of the reader: what it left out or had to assume.
    pub remarks: Remarks,
}

/// Converts a trace of any format to the `.pwt` file `output`.
///
/// # Errors
///
/// What went wrong with either file; nothing is left behind.
pub fn convert(
    input: &Path,
    options: impl Into<ReadOptions>,
    output: &Path,
) -> Result<Converted, SourceError> {
    let mut source = foreign::open(input, options)?;
    let totals = record(&mut *source, output)?;
    Ok(Converted { format: source.format(), totals, remarks: source.remarks() })
}
