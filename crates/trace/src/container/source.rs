//! A `.pwt` file as a source of events.

use std::fs::File;
use std::io::{Read, Seek};
use std::ops::ControlFlow;
use std::path::Path;

use super::Reader;
use crate::error::TraceError;
use crate::event::{Batch, Event};
use crate::source::{Sink, Source, SourceError, SourceInfo};

/// Replays a `.pwt` file.
#[derive(Debug)]
pub struct PwtSource<R = File> {
    reader: Reader<R>,
    /// What the file says that was not observed, as far as it has been replayed.
    unobserved: Vec<String>,
}

impl PwtSource<File> {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// As [`Reader::open`].
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Reader::open(path).map(Self::new)
    }
}

impl<R: Read + Seek> PwtSource<R> {
    /// Replays what `reader` reads.
    pub fn new(reader: Reader<R>) -> Self {
        Self { reader, unobserved: Vec::new() }
    }

    /// Sentences on what was not observed when the file was recorded, as far as it has been replayed.
    pub fn unobserved(&self) -> &[String] {
        &self.unobserved
    }

    /// Leaves executed blocks out from now on.
    pub fn make_no_blocks(&mut self) {
        self.reader.make_no_blocks();
    }

    /// Returns the reader behind it.
    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }
}

impl<R: Read + Seek> Source for PwtSource<R> {
    /// The name is the recorded source's, or the file's if that is empty.
    fn info(&self) -> SourceInfo {
        let mut info = self.reader.source_info().clone();
        if info.name.is_empty() {
            self.reader.file().clone_into(&mut info.name);
        }
        info
    }

    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let mut batch = Batch::new();
        self.unobserved.clear();
        for number in 0..self.reader.chunks().len() {
            let mut chunk = self.reader.chunk(number)?;
            while chunk.next_batch(&mut batch)? {
                for mark in &batch.marks {
                    if let Event::Unobserved(text) = &mark.event {
                        self.unobserved.push(text.clone());
                    }
                }
                if sink.batch(&mut batch) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
        }
        match self.reader.damage() {
            Some(damage) => Err(SourceError::Input(damage.to_owned())),
            None => Ok(()),
        }
    }
}
