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

const BYTE_UNITS: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
const TIME_UNITS: [(&str, u64); 4] = [("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000)];
const FREQUENCY_UNITS: [(&str, u64); 2] = [("MHz", 1_000_000), ("GHz", 1_000_000_000)];

/// Reads a size in bytes: `4GiB`, `1.5 MiB`.
///
/// # Errors
///
/// No number, no or another unit, a fraction of a byte, more than 2^64 - 1 bytes.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = split(text);
    let right = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "b" | "byte" | "bytes" => Some("B"),
        "k" | "kb" | "kib" => Some("KiB"),
        "m" | "mb" | "mib" => Some("MiB"),
        "g" | "gb" | "gib" => Some("GiB"),
        "t" | "tb" | "tib" => Some("TiB"),
        _ => None,
    };
    let scale = unit_scale(text, number, unit, "a size", "4GiB", &BYTE_UNITS, right)?;
    scaled(number, scale).ok_or_else(|| inexact(text, "bytes"))
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
    let right = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "c" | "clk" | "clocks" | "cycle" | "cycles" => Some("cycles"),
        "picoseconds" | "ps" => Some("ps"),
        "nanoseconds" | "ns" => Some("ns"),
        "microseconds" | "µs" | "μs" | "us" => Some("us"),
        "milliseconds" | "ms" => Some("ms"),
        _ => None,
    };
    let scale = unit_scale(text, number, unit, "a time", "4 cycles", &TIME_UNITS, right)?;
    scaled(number, scale).map(Time::Picoseconds).ok_or_else(|| inexact(text, "picoseconds"))
}

/// Reads a frequency in hertz: `3 GHz`, `2800 MHz`.
///
/// # Errors
///
/// No number, no or another unit, a fraction of a hertz, more than 2^64 - 1 of them.
pub fn parse_frequency(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = split(text);
    let right = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "m" | "mhz" => Some("MHz"),
        "g" | "ghz" => Some("GHz"),
        _ => None,
    };
    let scale = unit_scale(text, number, unit, "a frequency", "3 GHz", &FREQUENCY_UNITS, right)?;
    scaled(number, scale).ok_or_else(|| inexact(text, "hertz"))
}

/// Returns the length of one clock cycle, rounded to a whole picosecond (3 GHz: 333 ps, 0.1 % short).
pub fn cycle_ps(hertz: u64) -> u64 {
    (SECOND_PS + hertz / 2) / hertz.max(1)
}

/// Writes a size in the largest unit that divides it: `64GiB`, `1920KiB`.
pub fn format_bytes(bytes: u64) -> String {
    let fits = |scale: u64| bytes >= scale && bytes.is_multiple_of(scale);
    let (unit, scale) = BYTE_UNITS.into_iter().rev().find(|(_, scale)| fits(*scale)).unwrap_or(BYTE_UNITS[0]);
    format!("{}{unit}", bytes / scale)
}

/// The number in front and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn unit_scale(
    text: &str,
    number: &str,
    unit: &str,
    noun: &str,
    example: &str,
    units: &[(&str, u64)],
    right: impl Fn(&str) -> Option<&'static str>,
) -> Result<u64, QuantityError> {
    let mut names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    if noun == "a time" {
        names.insert(0, "cycles");
    }
    let names = names.join(", ");
    if decimal(number).is_none() {
        let message = format!("\"{}\" is not {noun}", excerpt(text));
        return Err(QuantityError {
            message,
            help: format!("write a number and a unit, like \"{example}\""),
        });
    }
    if unit.is_empty() {
        let unit = example.trim_start_matches(|c: char| c.is_ascii_digit());
        return Err(QuantityError {
            message: format!("\"{number}\" has no unit"),
            help: format!("write for example \"{number}{unit}\"; units are {names}"),
        });
    }
    if let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) {
        return Ok(*scale);
    }
    let help = match right(unit) {
        Some(right) => {
            let space = if noun == "a size" { "" } else { " " };
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
    Err(QuantityError { message: format!("\"{}\" is not a unit of {}", excerpt(unit), &noun[2..]), help })
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
