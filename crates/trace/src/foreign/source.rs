//! A foreign trace file as a source of events.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::compression::{self, Compression};
use super::format::Format;
use super::output::Output;
use super::records::{Origin, Part};
use super::{champsim, drmemtrace, lackey};
use crate::error::TraceError;
use crate::source::{Sink, Source, SourceError, SourceInfo};

/// What a reader left out, so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Skipped {
    /// Accesses to the kernel's half of the address space.
    pub kernel_accesses: u64,
    /// Prefetches, which may touch a TLB but cannot fault.
    pub prefetches: u64,
}

/// A trace file as a source.
pub trait TraceSource: Source {
    /// Its format, never [`Format::Auto`].
    fn format(&self) -> Format;

    /// What was left out by the runs so far.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }
}

/// Reads a trace of another tool.
pub struct ForeignSource {
    format: Format,
    name: String,
    input: Input,
    skipped: Skipped,
}

enum Input {
    /// Opened anew by every run.
    Path(PathBuf),
    /// Uncompressed content; gone after the first run.
    Stream(Option<Box<dyn Read>>),
}

impl ForeignSource {
    /// The file at `path`, in a format that is neither [`Format::Auto`] nor [`Format::Pwt`].
    pub(super) fn from_path(path: &Path, format: Format) -> Self {
        let name = path.display().to_string();
        Self { format, name, input: Input::Path(path.to_path_buf()), skipped: Skipped::default() }
    }

    /// Uncompressed content from a reader; can run once.
    ///
    /// # Errors
    ///
    /// If `format` is [`Format::Auto`] or [`Format::Pwt`].
    pub fn from_reader(reader: Box<dyn Read>, name: &str, format: Format) -> Result<Self, TraceError> {
        if matches!(format, Format::Auto | Format::Pwt) {
            return Err(TraceError::Refused(format!("{name}: format {format} cannot be read as a stream")));
        }
        let input = Input::Stream(Some(reader));
        Ok(Self { format, name: name.to_owned(), input, skipped: Skipped::default() })
    }

    fn parse(&mut self, output: &mut Output<'_>) -> Result<(), TraceError> {
        let (mut reader, part) = match &mut self.input {
            Input::Path(path) if self.format == Format::Drmemtrace && is_archive(path)? => {
                return drmemtrace::parse_archive(path, output);
            }
            Input::Path(path) => {
                let unpacked = compression::open(path)?;
                let plain = unpacked.compression == Compression::None;
                (unpacked.reader, if plain { Part::Plain } else { Part::Unpacked })
            }
            Input::Stream(reader) => match reader.take() {
                Some(reader) => (reader, Part::Plain),
                None => return Err(TraceError::Refused(format!("{}: a stream can be read once", self.name))),
            },
        };
        let origin = Origin { file: self.name.clone(), part };
        match self.format {
            Format::ChampSim => {
                champsim::parse::<{ champsim::CHAMPSIM_BYTES }>(&mut *reader, &origin, output)
            }
            Format::CloudSuite => {
                champsim::parse::<{ champsim::CLOUDSUITE_BYTES }>(&mut *reader, &origin, output)
            }
            Format::Drmemtrace => drmemtrace::parse(&mut *reader, &origin, output),
            Format::Lackey => lackey::parse(&mut *reader, &origin, output),
            Format::Auto | Format::Pwt => unreachable!("the constructors refuse these"),
        }
    }
}

/// Whether the file begins like a zip archive.
pub(super) fn is_archive(path: &Path) -> Result<bool, TraceError> {
    let file = File::open(path).map_err(TraceError::io("open", path))?;
    let mut start = Vec::new();
    file.take(4).read_to_end(&mut start).map_err(TraceError::io("read", path))?;
    Ok(start == b"PK\x03\x04")
}

impl Source for ForeignSource {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            name: self.name.clone(),
            expected_accesses: None,
            announces_mappings: false,
            counts_instructions: true,
        }
    }

    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let mut output = Output::new(sink);
        let result = self.parse(&mut output);
        // What was read before an error is handed on too: the sink decides what a part is worth.
        let stopped = output.flow() == ControlFlow::Break(());
        let skipped = output.finish();
        self.skipped.kernel_accesses += skipped.kernel_accesses;
        self.skipped.prefetches += skipped.prefetches;
        if stopped { Ok(()) } else { Ok(result?) }
    }
}

impl TraceSource for ForeignSource {
    fn format(&self) -> Format {
        self.format
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }
}

impl std::fmt::Debug for ForeignSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignSource")
            .field("format", &self.format)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
