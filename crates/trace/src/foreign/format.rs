//! The names of the trace formats.

use std::fmt;
use std::str::FromStr;

/// A trace format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Format {
    /// Find out by looking at the file.
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
}

impl Format {
    /// All of them, [`Format::Auto`] first.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Pwt, Self::ChampSim, Self::CloudSuite, Self::Drmemtrace, Self::Lackey];

    /// How a command line names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Pwt => "pwt",
            Self::ChampSim => "champsim",
            Self::CloudSuite => "cloudsuite",
            Self::Drmemtrace => "drmemtrace",
            Self::Lackey => "lackey",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no trace format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no trace format; known are auto, pwt, champsim, cloudsuite, drmemtrace and lackey")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}
