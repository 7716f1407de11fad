//! Sizes, times and frequencies as a machine file writes them: a decimal number and a unit.
//!
//! Everything becomes a whole number of bytes, cycles, picoseconds or hertz, exactly: a value that does not is an
//! error, never rounded. Decimal byte units are refused because half the world reads "64GB" as 64 * 2^30.

use std::fmt;

/// A duration as written: in clock cycles of its machine's core, or absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Clock cycles of the core.
    Cycles(u64),
    /// A number of picoseconds.
    Picoseconds(u64),
}

impl Time {
    /// Returns the duration on a core whose cycle takes `cycle_ps`; saturates.
    pub fn picoseconds(self, cycle_ps: u64) -> u64 {
        match self {
            Self::Cycles(cycles) => cycles.saturating_mul(cycle_ps),
            Self::Picoseconds(ps) => ps,
        }
    }
}

/// The mistake in a quantity and, where there is something to say, what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError {
    /// The mistake, in words.
    pub message: String,
    /// The text to write instead.
    pub help: String,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for QuantityError {}

/// Picoseconds in a second.
pub(super) const SECOND_PS: u64 = 1_000_000_000_000;

/// The units of a kind of quantity.
struct Units {
    /// The kind, with its article.
    noun: &'static str,
    /// A right quantity.
    example: &'static str,
    /// The right units, smallest first, with their scales and the other words for them, in lower case.
    rows: &'static [(&'static str, u64, &'static [&'static str])],
}

const BYTES: Units = Units {
    noun: "a size",
    example: "4GiB",
    rows: &[
        ("B", 1, &["b", "byte", "bytes"]),
        ("KiB", 1 << 10, &["k", "kb", "kib"]),
        ("MiB", 1 << 20, &["m", "mb", "mib"]),
        ("GiB", 1 << 30, &["g", "gb", "gib"]),
        ("TiB", 1 << 40, &["t", "tb", "tib"]),
    ],
};
const TIMES: Units = Units {
    noun: "a time",
    example: "4 cycles",
    rows: &[
        // Their length is the core's.
        ("cycles", 0, &["c", "clk", "clocks", "cycle", "cycles"]),
        ("ps", 1, &["picoseconds", "ps"]),
        ("ns", 1_000, &["nanoseconds", "ns"]),
        ("us", 1_000_000, &["microseconds", "µs", "μs", "us"]),
        ("ms", 1_000_000_000, &["milliseconds", "ms"]),
    ],
};
const FREQUENCIES: Units = Units {
    noun: "a frequency",
    example: "3 GHz",
    rows: &[("MHz", 1_000_000, &["m", "mhz"]), ("GHz", 1_000_000_000, &["g", "ghz"])],
};

/// Reads a size in bytes: `4GiB`, `1.5 MiB`.
///
/// # Errors
///
/// No number, no or another unit, a fraction of a byte, more than 2^64 - 1 bytes.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    BYTES.read(text, "bytes")
}

/// Reads a duration: `4 cycles`, `2 ns`, `0.5 us`.
///
/// # Errors
///
/// No number, no or another unit, a fraction of a picosecond or cycle, more than 2^64 - 1 of them.
pub fn parse_time(text: &str) -> Result<Time, QuantityError> {
    let (number, unit) = split(text);
    if matches!(unit, "cycle" | "cycles") && !number.is_empty() {
        return scaled(number, 1).map(Time::Cycles).ok_or_else(|| inexact(text, "cycles"));
    }
    TIMES.read(text, "picoseconds").map(Time::Picoseconds)
}

/// Reads a frequency in hertz: `3 GHz`, `2800 MHz`.
///
/// # Errors
///
/// No number, no or another unit, a fraction of a hertz, more than 2^64 - 1 of them.
pub fn parse_frequency(text: &str) -> Result<u64, QuantityError> {
    FREQUENCIES.read(text, "hertz")
}

/// Returns the length of one clock cycle, rounded to a whole picosecond (3 GHz: 333 ps, 0.1 % short).
pub fn cycle_ps(hertz: u64) -> u64 {
    (SECOND_PS + hertz / 2) / hertz.max(1)
}

/// Writes a size in the largest unit that divides it: `64GiB`, `1920KiB`.
pub fn format_bytes(bytes: u64) -> String {
    let fits = |scale: u64| bytes >= scale && bytes.is_multiple_of(scale);
    let &(unit, scale, _) = BYTES.rows.iter().rev().find(|row| fits(row.1)).unwrap_or(&BYTES.rows[0]);
    format!("{}{unit}", bytes / scale)
}

/// The number in front and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

impl Units {
    /// Reads a number and a unit as a whole number of the smallest ones, which `what` names.
    fn read(&self, text: &str, what: &str) -> Result<u64, QuantityError> {
        let Self { noun, example, rows } = self;
        let (number, unit) = split(text);
        let refuse = |message, help| Err(QuantityError { message, help });
        if decimal(number).is_none() {
            let message = format!("\"{}\" is not {noun}", excerpt(text));
            return refuse(message, format!("write a number and a unit, like \"{example}\""));
        }
        let names: Vec<&str> = rows.iter().map(|row| row.0).collect();
        let names = names.join(", ");
        if unit.is_empty() {
            let unit = example.trim_start_matches(|c: char| c.is_ascii_digit());
            let help = format!("write for example \"{number}{unit}\"; units are {names}");
            return refuse(format!("\"{number}\" has no unit"), help);
        }
        if let Some((_, scale, _)) = rows.iter().find(|(name, scale, _)| *name == unit && *scale > 0) {
            return scaled(number, *scale).ok_or_else(|| inexact(text, what));
        }
        let lower = unit.to_ascii_lowercase();
        let help = match rows.iter().find(|(.., words)| words.contains(&lower.as_str())) {
            Some((right, ..)) => {
                let space = if example.contains(' ') { " " } else { "" };
                let why = match unit {
                    "KB" | "MB" | "GB" | "TB" => {
                        format!("; {unit} is a power of ten to some and of two to others")
                    }
                    _ => String::new(),
                };
                format!("write \"{number}{space}{right}\"; units are {names}{why}")
            }
            None => format!("units are {names}"),
        };
        refuse(format!("\"{}\" is not a unit of {}", excerpt(unit), &noun[2..]), help)
    }
}

fn inexact(text: &str, what: &str) -> QuantityError {
    QuantityError {
        message: format!("\"{}\" is not a whole number of {what} below 2^64", excerpt(text.trim())),
        help: format!("give a smaller number, or one that comes out as whole {what}"),
    }
}

/// A decimal number as its digits and how many of them follow the point; at most 36 digits.
fn decimal(number: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || whole.len() + fraction.len() > 36 {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, fraction.len() as u32))
}

/// `number * scale` if that is whole and below 2^64.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (digits, places) = decimal(number)?;
    let product = digits.checked_mul(u128::from(scale))?;
    let divisor = 10u128.checked_pow(places)?;
    product.is_multiple_of(divisor).then(|| u64::try_from(product / divisor).ok())?
}

/// At most the first 40 characters, for quoting in a message.
pub(super) fn excerpt(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(40).map(|c| if c.is_control() { '?' } else { c }).collect();
    if chars.next().is_some() { head + "..." } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_come_out_exactly() {
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes(" 1.875 MiB "), Ok(1_966_080));
        assert_eq!(parse_bytes("0B"), Ok(0));
        assert_eq!(parse_time("4 cycles"), Ok(Time::Cycles(4)));
        assert_eq!(parse_time("1 cycle"), Ok(Time::Cycles(1)));
        assert_eq!(parse_time("0.5 us"), Ok(Time::Picoseconds(500_000)));
        assert_eq!(parse_time("250ps"), Ok(Time::Picoseconds(250)));
        assert_eq!(parse_time("1.001 ns"), Ok(Time::Picoseconds(1_001)));
        assert_eq!(parse_frequency("2800 MHz"), Ok(2_800_000_000));
        assert_eq!(parse_frequency("3.2 GHz"), Ok(3_200_000_000));
    }

    #[test]
    fn cycles_become_picoseconds() {
        assert_eq!(cycle_ps(2_000_000_000), 500);
        assert_eq!(cycle_ps(3_000_000_000), 333);
        assert_eq!(cycle_ps(0), 1_000_000_000_000);
        assert_eq!(Time::Cycles(4).picoseconds(333), 1_332);
        assert_eq!(Time::Picoseconds(7).picoseconds(333), 7);
        assert_eq!(Time::Cycles(u64::MAX).picoseconds(2), u64::MAX);
    }

    #[test]
    fn sizes_print_as_they_are_read() {
        for bytes in [0, 1, 1023, 1024, 1_966_080, 64 << 30, 1 << 50, u64::MAX] {
            assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
        }
        assert_eq!(format_bytes(1_966_080), "1920KiB");
    }

    #[test]
    fn wrong_quantities_say_what_is_right() {
        let bytes = |text| parse_bytes(text).unwrap_err().to_string();
        let time = |text| parse_time(text).unwrap_err().to_string();
        let frequency = |text| parse_frequency(text).unwrap_err().to_string();
        let units = "units are B, KiB, MiB, GiB, TiB";
        let why = "; GB is a power of ten to some and of two to others";
        assert_eq!(bytes("64GB"), format!("\"GB\" is not a unit of size; write \"64GiB\"; {units}{why}"));
        assert_eq!(bytes("2M"), format!("\"M\" is not a unit of size; write \"2MiB\"; {units}"));
        assert_eq!(bytes("64 furlongs"), format!("\"furlongs\" is not a unit of size; {units}"));
        assert_eq!(bytes("64"), format!("\"64\" has no unit; write for example \"64GiB\"; {units}"));
        assert_eq!(bytes("lots"), "\"lots\" is not a size; write a number and a unit, like \"4GiB\"");
        assert_eq!(bytes("-4GiB"), "\"-4GiB\" is not a size; write a number and a unit, like \"4GiB\"");
        assert_eq!(
            bytes("0.3B"),
            "\"0.3B\" is not a whole number of bytes below 2^64; give a smaller number, or one that comes out as \
             whole bytes"
        );
        assert!(bytes("99999999TiB").contains("below 2^64"));
        assert_eq!(
            time("5"),
            "\"5\" has no unit; write for example \"5 cycles\"; units are cycles, ps, ns, us, ms"
        );
        assert!(time("0.5 µs").contains("write \"0.5 us\""));
        assert!(time("0.5 cycles").contains("whole number of cycles"));
        assert!(time("0.1 ps").contains("whole number of picoseconds"));
        assert!(time("1..2 ns").contains("is not a time"));
        assert!(frequency("3 Ghz").contains("write \"3 GHz\""));
        assert!(frequency("3").contains("\"3 GHz\""));
        assert!(bytes(&"9".repeat(1_000)).len() < 200);
    }
}
