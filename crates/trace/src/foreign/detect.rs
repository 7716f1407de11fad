//! Finding out a trace's format, and opening it.

use std::path::Path;

use super::compression::Compression;
use super::format::{Format, Likeness, ROWS, listed};
use super::input::{Content, Input};
use super::source::{ForeignSource, TraceSource};
use super::tally::Remarks;
use crate::container::{PwtSource, Reader};
use crate::error::TraceError;
use crate::partial::Partial;

/// The options by which a trace is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadOptions {
    /// The format of the trace.
    pub format: Format,
    /// Whether the kernel's instructions and accesses are events like the program's; otherwise they are only counted.
    pub kernel: bool,
}

impl From<Format> for ReadOptions {
    fn from(format: Format) -> Self {
        Self { format, kernel: false }
    }
}

/// Opens a trace of any format: a file, a pipe, `-` for standard input, or a folder. [`Format::Auto`] decides by content, and by
/// name where the content leaves a choice.
///
/// # Errors
///
/// If it cannot be read, its format cannot be told, or nothing in front of the damage of a damaged `.pwt`, zip or tar archive is
/// whole. All other damage is found when the trace runs, behind the events before it.
pub fn open(path: &Path, options: impl Into<ReadOptions>) -> Result<Box<dyn TraceSource>, TraceError> {
    let mut options = options.into();
    let input = Input::open(path)?;
    if options.format == Format::Auto {
        options.format = detect(&input)?;
    }
    if options.format != Format::Pwt {
        return Ok(Box::new(ForeignSource::from_input(input, path.to_path_buf(), options)?));
    }
    if options.kernel {
        return Err(TraceError::Refused(format!(
            "{}: a .pwt does not say what the kernel did\n  = help: give --kernel where the .pwt is made from another trace",
            input.name
        )));
    }
    let Content::Stream(stream) = input.content else {
        return Err(TraceError::Refused(format!(
            "{}: a .pwt is one file, no folder and no archive",
            input.name
        )));
    };
    let file = stream.into_file("a .pwt is read from its end")?;
    Ok(Box::new(PwtSource::new(Reader::new_or_salvaged(file, input.name)?)))
}

impl TraceSource for PwtSource {
    fn format(&self) -> Format {
        Format::Pwt
    }

    fn version(&self) -> Option<u32> {
        Some(self.reader().version())
    }

    fn remarks(&self) -> Remarks {
        Remarks { notes: self.unobserved().to_vec(), ..Remarks::default() }
    }

    fn partial(&self) -> Option<&Partial> {
        self.reader().partial()
    }

    fn make_no_blocks(&mut self) {
        Self::make_no_blocks(self);
    }

    fn file_bytes(&self) -> u64 {
        self.reader().file_bytes()
    }
}

fn detect(input: &Input) -> Result<Format, TraceError> {
    match &input.content {
        // Of folders, only drmemtrace's are read; one without a trace is refused now.
        Content::Folder(folder, _) => super::drmemtrace::folder_files(folder).map(|_| Format::Drmemtrace),
        Content::Zip(archive) if super::drmemtrace::has_chunks(archive) => Ok(Format::Drmemtrace),
        Content::Zip(archive) => {
            let names: Vec<&str> =
                (0..archive.len().min(3)).map(|number| archive.member_name(number)).collect();
            let what = format!(
                "a zip archive of {} members ({}) without `chunk.00000000`, which a drmemtrace file has",
                archive.len(),
                names.join(", ")
            );
            Err(unknown(&input.name, &what))
        }
        Content::Stream(_) => {
            by_content(&input.name, &input.start).ok_or_else(|| unknown(&input.name, &appearance(input)))
        }
    }
}

/// The one format that content with the beginning `start` can have; where that leaves a choice, the file's name decides.
fn by_content(name: &str, start: &[u8]) -> Option<Format> {
    if let Some(row) = ROWS.iter().find(|row| (row.likeness)(start) == Likeness::Certain) {
        return Some(row.format);
    }
    let (_, name) = Compression::of_name(name);
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let possible: Vec<_> = ROWS.iter().filter(|row| (row.likeness)(start) == Likeness::Possible).collect();
    let chosen = match possible[..] {
        // A name alone is enough only for content that no check could have refused.
        [] if start.is_empty() => None,
        [] => ROWS.iter().find(|row| row.suffix.is_some_and(|suffix| name.ends_with(suffix))),
        [only] => Some(only),
        // The longer hint is the more particular one.
        [..] => possible.into_iter().filter(|row| name.contains(row.hint)).max_by_key(|row| row.hint.len()),
    };
    chosen.map(|row| row.format)
}

fn unknown(name: &str, what: &str) -> TraceError {
    TraceError::Refused(format!(
        "{name}: cannot tell the trace's format from its content, which is {what}\n  = help: {} are read, compressed or not \
         ({}); name the format with --input-format if it is one of them",
        listed(ROWS.iter().map(|row| row.format)),
        Compression::suffixes()
    ))
}

/// The beginnings of content that is no trace of a format that is read here, with its name.
const APPEARANCES: [(&[u8], &str); 18] = [
    (b"\x7fELF", "an ELF file: a program or a library, not a trace of its run"),
    (b"\x1f\x9d", "compressed by compress (.Z), which is not read: decompress it first"),
    (b"\x1f\xa0", "compressed by compress -H, which is not read: decompress it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive, which is not read: unpack it first"),
    (b"Rar!\x1a\x07", "a RAR archive, which is not read: unpack it first"),
    (b"LZIP", "compressed by lzip, which is not read: decompress it first"),
    (b"\x89LZO\0", "compressed by lzop, which is not read: decompress it first"),
    (b"\x5d\0\0", "compressed by lzma (.lzma), which is not read: decompress it first"),
    (b"\x02\x21\x4c\x18", "compressed by an old lz4, which is not read: compress it again"),
    (b"!<arch>\n", "an ar archive, such as a static library"),
    (b"TFIS", "a SIFT trace of Sniper, which is not read"),
    (b"PERFILE2", "a recording of perf, which is not read"),
    (b"PAR1", "an Apache Parquet file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xd4\xc3\xb2\xa1", "a capture of network packets (pcap)"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture (PNG)"),
];

/// In words: what content looks like whose format is not known.
fn appearance(input: &Input) -> String {
    let start = &input.start[..];
    let packed = match input.compression {
        Compression::None => String::new(),
        packed => format!("compressed by {}, and inside ", packed.name()),
    };
    let known = APPEARANCES.iter().find(|(magic, _)| start.starts_with(magic));
    let what = match (known, start) {
        (_, []) if packed.is_empty() => "nothing: the file is empty".to_owned(),
        (_, []) => "empty, or damaged at its beginning".to_owned(),
        (Some((_, what)), _) => (*what).to_owned(),
        _ if start.iter().all(|&byte| byte == 0) => "zeros only".to_owned(),
        _ => text_or_bytes(start),
    };
    packed + &what
}

fn text_or_bytes(start: &[u8]) -> String {
    let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
    if start.iter().all(printable)
        && std::str::from_utf8(&start[..start.len().min(1024)])
            .map_or_else(|error| error.error_len().is_none(), |_| true)
    {
        let line = start.split(|&byte| byte == b'\n').next().unwrap_or(start);
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
        return format!("text that begins with `{}`", shown.trim_end().escape_debug());
    }
    let bytes: Vec<String> = start.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("binary and begins with the bytes {}", bytes.join(" "))
}
