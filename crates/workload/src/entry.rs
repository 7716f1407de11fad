//! The description of a workload: its name, parameters and presets.

use std::fmt;

use crate::program::Program;
use crate::units::{format_count, format_decimal, format_size, parse_count, parse_decimal, parse_size};
use crate::values::Values;

/// One workload, as `pagewalk workloads` lists it.
pub struct Entry {
    /// The name of the workload, also that of the preset with every parameter at its default.
    pub name: &'static str,
    /// The description of the workload, one line.
    pub summary: &'static str,
    /// The phases in order, as metrics are reported for them. A run may leave some out: of the phases that are named
    /// after a choice, it has the one that was chosen.
    pub phases: &'static [&'static str],
    /// The parameters, in the order of the canonical spec.
    pub parameters: &'static [Parameter],
    /// Named settings besides the default.
    pub presets: &'static [Preset],
    pub(crate) make: fn(&Values) -> Result<Box<dyn Program>, String>,
}

/// A parameter of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The key of the parameter in a spec.
    pub name: &'static str,
    /// The description of the parameter, one line, with the unit where the kind does not say it.
    pub summary: &'static str,
    /// The values that the parameter takes.
    pub kind: Kind,
    /// The default value, as a user would write it.
    pub default: &'static str,
}

impl Parameter {
    /// The threads that divide the work of the main phase ([`Emitter::divide`](crate::emit::Emitter::divide)).
    pub(crate) const THREADS: Self = Self {
        name: "threads",
        summary: "threads that divide the work of the main phase, each on a core of its own as far as there are cores",
        kind: Kind::Count { min: 1, max: 1024 },
        default: "1",
    };
}

/// The values that a parameter takes; bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A size in bytes, written with its unit.
    Size {
        /// The smallest value that is allowed.
        min: u64,
        /// The largest value that is allowed.
        max: u64,
        /// Whether it must be a power of two.
        power_of_two: bool,
    },
    /// The value is a count.
    Count {
        /// The smallest value that is allowed.
        min: u64,
        /// The largest value that is allowed.
        max: u64,
    },
    /// A number with up to three decimals, written `0.95`; held in thousandths.
    Decimal {
        /// The smallest value that is allowed, in thousandths.
        min: u64,
        /// The largest value that is allowed, in thousandths.
        max: u64,
    },
    /// The value is one of these words.
    Choice(&'static [&'static str]),
}

/// A named setting of a workload's parameters.
#[derive(Debug)]
pub struct Preset {
    /// The name of the preset, usable as a spec.
    pub name: &'static str,
    /// The description of the preset, one line.
    pub summary: &'static str,
    /// The parameters that differ from the default, as one would write them.
    pub values: &'static [(&'static str, &'static str)],
}

impl Kind {
    /// Reads a value; a choice becomes its index. None if the value is not allowed.
    pub(crate) fn parse(self, text: &str) -> Option<u64> {
        match self {
            Self::Size { min, max, power_of_two } => {
                parse_size(text).filter(|v| (min..=max).contains(v) && (!power_of_two || v.is_power_of_two()))
            }
            Self::Count { min, max } => parse_count(text).filter(|v| (min..=max).contains(v)),
            Self::Decimal { min, max } => parse_decimal(text).filter(|v| (min..=max).contains(v)),
            Self::Choice(words) => words.iter().position(|&word| word == text).map(|i| i as u64),
        }
    }

    /// Writes a value that [`Kind::parse`] gave.
    pub(crate) fn format(self, value: u64) -> String {
        match self {
            Self::Size { .. } => format_size(value),
            Self::Count { .. } => format_count(value),
            Self::Decimal { .. } => format_decimal(value),
            Self::Choice(words) => words[value as usize].to_owned(),
        }
    }
}

impl fmt::Display for Kind {
    /// What is allowed, in words: `a size from 4KiB to 1TiB, a power of two`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Size { min, max, power_of_two } => {
                let power = if power_of_two { ", a power of two" } else { "" };
                write!(f, "a size from {} to {}{power}", format_size(min), format_size(max))
            }
            Self::Count { min, max } => {
                write!(f, "a count from {} to {}", format_count(min), format_count(max))
            }
            Self::Decimal { min, max } => {
                write!(
                    f,
                    "a number from {} to {}, with up to three decimals",
                    format_decimal(min),
                    format_decimal(max)
                )
            }
            Self::Choice(words) => f.write_str(&words.join(" or ")),
        }
    }
}
