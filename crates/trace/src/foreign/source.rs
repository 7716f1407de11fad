//! A foreign trace as a source of events.

use std::io::{Cursor, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::detect::ReadOptions;
use super::drmemtrace::folder_files;
use super::drmemtrace::v2p::Translations;
use super::format::{Format, Parse};
use super::input::{Content, Input, Size, Stream};
use super::output::Output;
use super::records::{Origin, Part, fill};
use super::tally::Remarks;
use crate::error::TraceError;
use crate::partial::Partial;
use crate::source::{Sink, Source, SourceError, SourceInfo};

/// A trace as a source.
pub trait TraceSource: Source {
    /// Its format, never [`Format::Auto`].
    fn format(&self) -> Format;

    /// The version of its format, where the format has versions.
    fn version(&self) -> Option<u32> {
        None
    }

    /// What the last run left out or had to assume.
    fn remarks(&self) -> Remarks {
        Remarks::default()
    }

    /// Why the trace holds a part of the work only, where it says so itself.
    fn partial(&self) -> Option<&Partial> {
        None
    }

    /// The frames that the trace's pages had, where it says so.
    fn translations(&self) -> Option<&Translations> {
        None
    }

    /// Leaves the blocks of instructions out, which cost time to make or to read.
    fn make_no_blocks(&mut self);

    /// How many bytes the trace has on its disk, or how many came through its pipe so far.
    fn file_bytes(&self) -> u64;
}

/// How much of a reader's content is looked at beforehand.
const START_BYTES: usize = 256;

/// Reads a trace of another tool.
pub struct ForeignSource {
    format: Format,
    parse: Parse,
    counts_instructions: bool,
    gives_frames: bool,
    gives_blocks: bool,
    kernel: bool,
    name: String,
    /// What the next run reads.
    content: Option<Content>,
    /// Where later runs find the same content again.
    again: Option<PathBuf>,
    size: Size,
    translations: Option<Translations>,
    remarks: Remarks,
}

impl ForeignSource {
    /// What was opened; `path` names it.
    pub(super) fn from_input(input: Input, path: PathBuf, options: ReadOptions) -> Result<Self, TraceError> {
        let beside = match &input.content {
            Content::Folder(folder, _) => Some(&**folder),
            _ => input.again.then_some(&*path),
        };
        let translations = match beside {
            Some(path) if options.format == Format::Drmemtrace => Translations::beside(path)?,
            _ => None,
        };
        let mut source = Self::new(&input.name, input.content, &input.start, options)?;
        source.translations = translations;
        source.again = input.again.then_some(path);
        source.size = match &source.content {
            Some(Content::Folder(folder, None)) => Size::Known(folder_files(folder)?.bytes()),
            _ => input.size,
        };
        Ok(source)
    }

    /// Creates a source of uncompressed content from a reader; the source can run once.
    ///
    /// # Errors
    ///
    /// If the format is [`Format::Auto`] or [`Format::Pwt`].
    pub fn from_reader(
        mut reader: Box<dyn Read>,
        name: &str,
        options: impl Into<ReadOptions>,
    ) -> Result<Self, TraceError> {
        let origin = Origin { file: name.to_owned(), part: Part::Plain };
        let mut start = vec![0; START_BYTES];
        let (bytes, result) = fill(&mut *reader, &mut start, 0);
        result.map_err(|error| origin.unreadable(0, error))?;
        start.truncate(bytes);
        let reader = Box::new(Cursor::new(start.clone()).chain(reader));
        Self::new(name, Content::Stream(Stream::new(reader, origin)), &start, options.into())
    }

    /// Content that begins with `start`.
    fn new(name: &str, content: Content, start: &[u8], options: ReadOptions) -> Result<Self, TraceError> {
        let row = options.format.row().and_then(|row| Some((row, row.parse?)));
        let Some((row, parse)) = row else {
            return Err(TraceError::Refused(format!(
                "{name}: format {} cannot be read as a stream",
                options.format
            )));
        };
        Ok(Self {
            format: row.format,
            parse,
            counts_instructions: row.counts_instructions,
            gives_frames: row.gives_frames,
            gives_blocks: (row.gives_blocks)(&content, start),
            kernel: options.kernel,
            name: name.to_owned(),
            content: Some(content),
            again: None,
            size: Size::Known(0),
            translations: None,
            remarks: Remarks::default(),
        })
    }

    fn next_content(&mut self) -> Result<Content, TraceError> {
        match (self.content.take(), &self.again) {
            (Some(content), _) => Ok(content),
            (None, Some(path)) => Ok(Input::open(path)?.content),
            (None, None) => Err(TraceError::Refused(format!("{}: a stream can be read once", self.name))),
        }
    }
}

impl Source for ForeignSource {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            name: self.name.clone(),
            expected_accesses: None,
            announces_mappings: false,
            counts_instructions: self.counts_instructions,
            gives_frames: self.gives_frames,
            gives_blocks: self.gives_blocks,
        }
    }

    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let content = self.next_content()?;
        let mut output = Output::new(sink, self.counts_instructions, self.gives_blocks, self.kernel);
        if let Some(translations) = &self.translations {
            let sizes =
                translations.sizes().into_iter().map(|(bytes, count)| format!("{count} pages of {bytes} B"));
            let sizes = sizes.collect::<Vec<_>>().join(", ");
            output.tally.fact("frames given", format!("{sizes}, by {}", translations.file.display()));
            let told = output.frames_beside(&translations.pages);
            told.map_err(|what| TraceError::Refused(format!("{}: {what}", translations.file.display())))?;
        }
        let result = (self.parse)(content, &mut output);
        // What was read before an error is handed on too: the sink decides what a part is worth.
        let stopped = output.flow() == ControlFlow::Break(());
        self.remarks = output.finish().finish(self.kernel);
        if stopped { Ok(()) } else { Ok(result?) }
    }
}

impl TraceSource for ForeignSource {
    fn make_no_blocks(&mut self) {
        self.gives_blocks = false;
    }

    fn format(&self) -> Format {
        self.format
    }

    fn remarks(&self) -> Remarks {
        self.remarks.clone()
    }

    fn translations(&self) -> Option<&Translations> {
        self.translations.as_ref()
    }

    fn file_bytes(&self) -> u64 {
        self.size.bytes()
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
