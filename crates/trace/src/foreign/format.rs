//! The catalogue of the trace formats: one row a format.

use std::fmt;
use std::str::FromStr;

use super::input::Content;
use super::output::Output;
use super::{champsim, drmemtrace, gem5, lackey, pinatrace};
use crate::container::MAGIC;
use crate::error::TraceError;

/// A format of trace files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Format {
    /// Find out by looking at the content.
    #[default]
    Auto,
    /// This program's own container.
    Pwt,
    /// ChampSim `input_instr`, 64 bytes an instruction.
    ChampSim,
    /// ChampSim `cloudsuite_instr`, 96 bytes an instruction.
    CloudSuite,
    /// The final traces of DynamoRIO's drmemtrace.
    Drmemtrace,
    /// The text of `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// The packets that gem5's communication monitor records.
    Gem5,
    /// The text of Pin's `pinatrace`.
    Pinatrace,
}

/// How much the beginning of some content looks like a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Likeness {
    /// The content cannot be that format.
    No,
    /// The content can be that format, but so can other content.
    Possible,
    /// Nothing else begins like this.
    Certain,
}

impl Likeness {
    /// [`Likeness::Certain`] or [`Likeness::No`].
    const fn certain(certain: bool) -> Self {
        if certain { Self::Certain } else { Self::No }
    }

    /// [`Likeness::Possible`] or [`Likeness::No`].
    const fn possible(possible: bool) -> Self {
        if possible { Self::Possible } else { Self::No }
    }
}

/// Reads a trace to its end, or until the output wants no more.
pub(super) type Parse = fn(Content, &mut Output<'_>) -> Result<(), TraceError>;

/// What is particular to a format.
pub(super) struct Row {
    pub(super) format: Format,
    /// How a command line names it.
    name: &'static str,
    /// How much content that begins so looks like it.
    pub(super) likeness: fn(&[u8]) -> Likeness,
    /// What a file's name contains if its content leaves a choice.
    pub(super) hint: &'static str,
    /// How a file's name ends if its content is to be read in this format, whatever it looks like.
    pub(super) suffix: Option<&'static str>,
    /// Whether the format tells which instructions there are.
    pub(super) counts_instructions: bool,
    /// Whether a trace of it may say which frames pages have.
    pub(super) gives_frames: bool,
    /// Whether a trace with this beginning says which blocks of instructions the program executed.
    pub(super) gives_blocks: fn(&Content, &[u8]) -> bool,
    /// Its reader; none for this program's own container, which is no foreign format.
    pub(super) parse: Option<Parse>,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        format: Format::Pwt,
        name: "pwt",
        likeness: |start| {
            Likeness::certain(start.starts_with(&MAGIC) || !start.is_empty() && MAGIC.starts_with(start))
        },
        hint: "pwt",
        suffix: Some(".pwt"),
        counts_instructions: true,
        gives_frames: true,
        gives_blocks: |_, _| true,
        parse: None,
    },
    Row {
        format: Format::ChampSim,
        name: "champsim",
        likeness: |start| Likeness::possible(champsim::plausible::<{ champsim::CHAMPSIM_BYTES }>(start)),
        hint: "champsim",
        suffix: Some(".champsimtrace"),
        counts_instructions: true,
        gives_frames: false,
        gives_blocks: |_, _| true,
        parse: Some(champsim::parse::<{ champsim::CHAMPSIM_BYTES }>),
    },
    Row {
        format: Format::CloudSuite,
        name: "cloudsuite",
        likeness: |start| Likeness::possible(champsim::plausible::<{ champsim::CLOUDSUITE_BYTES }>(start)),
        hint: "cloudsuite",
        suffix: None,
        counts_instructions: true,
        gives_frames: false,
        gives_blocks: |_, _| true,
        parse: Some(champsim::parse::<{ champsim::CLOUDSUITE_BYTES }>),
    },
    Row {
        format: Format::Drmemtrace,
        name: "drmemtrace",
        likeness: |start| Likeness::certain(drmemtrace::plausible(start)),
        hint: "drmemtrace",
        suffix: None,
        counts_instructions: true,
        gives_frames: true,
        gives_blocks: drmemtrace::has_bytes,
        parse: Some(drmemtrace::parse),
    },
    Row {
        format: Format::Lackey,
        name: "lackey",
        likeness: |start| Likeness::certain(lackey::plausible(start)),
        hint: "lackey",
        suffix: Some(".lackey"),
        counts_instructions: true,
        gives_frames: false,
        gives_blocks: |_, _| false,
        parse: Some(lackey::parse),
    },
    Row {
        format: Format::Gem5,
        name: "gem5",
        likeness: |start| Likeness::certain(gem5::plausible(start)),
        hint: "gem5",
        suffix: None,
        counts_instructions: false,
        gives_frames: false,
        gives_blocks: |_, _| false,
        parse: Some(gem5::parse),
    },
    Row {
        format: Format::Pinatrace,
        name: "pinatrace",
        likeness: |start| Likeness::certain(pinatrace::plausible(start)),
        hint: "pinatrace",
        suffix: None,
        counts_instructions: false,
        gives_frames: false,
        gives_blocks: |_, _| false,
        parse: Some(pinatrace::parse),
    },
];

impl Format {
    /// Returns all formats, [`Format::Auto`] first.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Auto).chain(ROWS.iter().map(|row| row.format))
    }

    /// Returns the name of the format on a command line.
    pub fn name(self) -> &'static str {
        self.row().map_or("auto", |row| row.name)
    }

    /// Its row in the catalogue; none for [`Format::Auto`].
    pub(super) fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.format == self)
    }
}

/// The names of the formats, as a sentence lists them.
pub(super) fn listed(formats: impl Iterator<Item = Format>) -> String {
    let names: Vec<&str> = formats.map(Format::name).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no trace format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no trace format; known are {formats}", formats = listed(Format::all()))]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::all().find(|format| format.name() == name).ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}
