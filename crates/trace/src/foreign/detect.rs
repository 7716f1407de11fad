//! Finding out a file's format, and opening it.

use std::io::Read;
use std::path::Path;

use super::champsim::{self, CHAMPSIM_BYTES, CLOUDSUITE_BYTES};
use super::compression::{self, Compression};
use super::format::Format;
use super::source::{ForeignSource, TraceSource, is_archive};
use super::{drmemtrace, lackey};
use crate::container::{MAGIC, PwtSource};
use crate::error::TraceError;

/// How much of a file's content is looked at.
const START_BYTES: u64 = 48 << 10;

/// Opens a trace file of any format. [`Format::Auto`] decides by content, and by name where the content leaves a
/// choice.
///
/// # Errors
///
/// If the file cannot be read, its format cannot be told, or it is a damaged `.pwt`. Damage in other formats is
/// found when they run.
pub fn open(path: &Path, format: Format) -> Result<Box<dyn TraceSource>, TraceError> {
    let format = if format == Format::Auto { detect(path)? } else { format };
    Ok(match format {
        Format::Pwt => Box::new(PwtSource::open(path)?),
        foreign => {
            // Opened only to refuse early what cannot be opened.
            compression::open(path)?;
            Box::new(ForeignSource::from_path(path, foreign))
        }
    })
}

impl TraceSource for PwtSource {
    fn format(&self) -> Format {
        Format::Pwt
    }
}

fn detect(path: &Path) -> Result<Format, TraceError> {
    let name = path.display().to_string();
    let unpacked = compression::open(path)?;
    if is_archive(path)? {
        return Ok(Format::Drmemtrace);
    }
    let mut start = Vec::new();
    // A damaged rest is found when the file is read; here its start is enough.
    let result = unpacked.reader.take(START_BYTES).read_to_end(&mut start);
    if start.is_empty() {
        return Err(match result {
            Ok(_) => TraceError::Refused(format!("{name}: the file is empty")),
            Err(source) => TraceError::Io { what: format!("cannot read {name}"), source },
        });
    }
    if start.starts_with(&MAGIC) || MAGIC.starts_with(&start) {
        if unpacked.compression != Compression::None {
            return Err(TraceError::Refused(format!(
                "{name}: a compressed .pwt; decompress it, a .pwt is compressed by itself and read from its end"
            )));
        }
        return Ok(Format::Pwt);
    }
    by_structure(&name, &start).ok_or_else(|| {
        TraceError::Refused(format!(
            "{name}: cannot tell the trace's format from its content; name it with --input-format pwt, champsim, \
             cloudsuite, drmemtrace or lackey"
        ))
    })
}

/// The one format that `start` can be; where that leaves a choice, the file's name decides.
fn by_structure(name: &str, start: &[u8]) -> Option<Format> {
    if drmemtrace::plausible(start) {
        return Some(Format::Drmemtrace);
    }
    if lackey::plausible(start) {
        return Some(Format::Lackey);
    }
    let (_, name) = Compression::of_name(name);
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let champsim = champsim::plausible::<CHAMPSIM_BYTES>(start);
    let cloudsuite = champsim::plausible::<CLOUDSUITE_BYTES>(start);
    match (champsim, cloudsuite) {
        (true, false) => Some(Format::ChampSim),
        (false, true) => Some(Format::CloudSuite),
        (true, true) if name.contains("cloudsuite") => Some(Format::CloudSuite),
        (true, true) if name.contains("champsim") => Some(Format::ChampSim),
        // A name alone is enough only for content that no check could have refused.
        (false, false) if name.ends_with(".pwt") => Some(Format::Pwt),
        (false, false) if name.ends_with(".lackey") => Some(Format::Lackey),
        (false, false) if name.ends_with(".champsimtrace") => Some(Format::ChampSim),
        _ => None,
    }
}
