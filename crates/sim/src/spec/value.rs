//! Single values of a machine file: from TOML to a checked [`Value`] and back.

use toml::de::DeValue;

use super::error::{did_you_mean, either};
use super::key::{Kind, WordList};
use super::quantity::{QuantityError, Time, excerpt, format_bytes, parse_bytes, parse_frequency, parse_time};
use super::tree::Value;

/// Reads a value of a kind, within its limits.
pub(super) fn read(kind: &Kind, value: &DeValue<'_>) -> Result<Value, QuantityError> {
    match *kind {
        Kind::Integer { min, max } => integer(value, min, max).map(Value::Integer),
        Kind::Ways { max } => match value {
            DeValue::String(word) if word == "full" => Ok(Value::Full),
            DeValue::String(_) => {
                wrong("a number of ways or \"full\"", value, "write for example 8, or \"full\"")
            }
            _ => integer(value, 1, max).map(Value::Integer),
        },
        Kind::Integers { max, max_count } => integers(value, max, max_count),
        Kind::Sizes { min, max, max_count } => sizes(value, (min, max), max_count),
        Kind::Bytes { min, max } => size(value, min, max).map(|(bytes, text)| Value::Bytes(bytes, text)),
        Kind::Time { max_ps } => time(string(value, "a time", "4 cycles")?, max_ps),
        Kind::Frequency { min_hz, max_hz } => {
            let text = string(value, "a frequency", "3 GHz")?;
            let hertz = parse_frequency(text)?;
            let megahertz = |hertz: u64| format!("{} MHz", hertz / 1_000_000);
            within(hertz, min_hz, max_hz, || (text.to_owned(), megahertz(min_hz), megahertz(max_hz)))?;
            Ok(Value::Frequency(hertz, text.trim().to_owned()))
        }
        Kind::Word(words) => match value {
            DeValue::String(text) => word(text, words).map(Value::Word),
            _ => wrong(&either(&quoted(&words.words())), value, "write one of these words in quotes"),
        },
        Kind::Words(words) => word_list(value, words),
        Kind::Name => match value {
            DeValue::String(text) if is_name(text) => Ok(Value::Text(text.to_string())),
            _ => wrong("a name", value, "a name has 1 to 64 letters, digits, `.`, `_`, `+` and `-`"),
        },
        Kind::Line { max_chars } => text(value, max_chars, false),
        Kind::Text { max_chars } => text(value, max_chars, true),
    }
}

/// What a TOML value is, for messages: `the string "x"`, `the integer 5`.
pub(super) fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string \"{}\"", excerpt(text)),
        DeValue::Integer(number) => format!("the number {}", excerpt(&number.to_string())),
        DeValue::Float(number) => format!("the number {}", excerpt(number.as_str())),
        DeValue::Boolean(word) => format!("{word}"),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A value as a machine file writes it.
pub(super) fn write(value: &Value) -> String {
    let quote = |text: &str| toml::Value::String(text.to_owned()).to_string();
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Full => quote("full"),
        Value::Integers(numbers) => format!("{numbers:?}"),
        Value::Sizes(sizes) if sizes.is_empty() => quote(WHOLE),
        Value::Sizes(sizes) => {
            format!("[{}]", sizes.iter().map(|(_, text)| quote(text)).collect::<Vec<_>>().join(", "))
        }
        Value::Bytes(_, text) | Value::Time(_, text) | Value::Frequency(_, text) | Value::Text(text) => {
            quote(text)
        }
        Value::Word(word) => quote(word),
        Value::Words(words) => {
            format!("[{}]", words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Whether a word can name a machine or an array.
pub(super) fn is_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-');
    (1..=64).contains(&word.len()) && word.chars().all(plain)
}

fn wrong<T>(expected: &str, found: &DeValue<'_>, help: &str) -> Result<T, QuantityError> {
    let message = format!("expected {expected}, found {}", describe(found));
    Err(QuantityError { message, help: help.to_owned() })
}

fn integer(value: &DeValue<'_>, min: u64, max: u64) -> Result<u64, QuantityError> {
    let DeValue::Integer(digits) = value else {
        let help = match value {
            DeValue::String(text) if text.parse::<u64>().is_ok() => format!("write {text} without quotes"),
            _ => format!("write a number from {min} to {max}"),
        };
        return wrong("a whole number", value, &help);
    };
    let number = u64::from_str_radix(&digits.as_str().replace('_', ""), digits.radix()).ok();
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(QuantityError {
            message: format!("{} is out of range", excerpt(&digits.to_string())),
            help: format!("allowed are {min} to {max}"),
        }),
    }
}

fn integers(value: &DeValue<'_>, max: u64, max_count: usize) -> Result<Value, QuantityError> {
    let DeValue::Array(items) = value else {
        return integer(value, 1, max).map(Value::Integer);
    };
    if items.is_empty() || items.len() > max_count {
        return Err(QuantityError {
            message: format!("a list of {} numbers", items.len()),
            help: format!("list 1 to {max_count} numbers"),
        });
    }
    let numbers: Result<_, _> = items.iter().map(|item| integer(item.get_ref(), 0, max)).collect();
    numbers.map(Value::Integers)
}

fn size(value: &DeValue<'_>, min: u64, max: u64) -> Result<(u64, String), QuantityError> {
    let text = string(value, "a size", "4GiB")?;
    let bytes = parse_bytes(text)?;
    within(bytes, min, max, || (text.to_owned(), format_bytes(min), format_bytes(max)))?;
    Ok((bytes, text.trim().to_owned()))
}

/// The word for no list of sizes.
const WHOLE: &str = "whole";

fn sizes(value: &DeValue<'_>, (min, max): (u64, u64), max_count: usize) -> Result<Value, QuantityError> {
    let help = format!("list 1 to {max_count} sizes, smallest first, or write \"{WHOLE}\"");
    let items = match value {
        DeValue::String(word) if word == WHOLE => return Ok(Value::Sizes(Vec::new())),
        DeValue::Array(items) => items,
        _ => return wrong("a list of sizes", value, &help),
    };
    if items.is_empty() || items.len() > max_count {
        return Err(QuantityError { message: format!("a list of {} sizes", items.len()), help });
    }
    let sizes: Vec<_> = items.iter().map(|item| size(item.get_ref(), min, max)).collect::<Result<_, _>>()?;
    if let Some((bytes, text)) = sizes.iter().find(|(bytes, _)| !bytes.is_power_of_two()) {
        let message = format!("\"{text}\" is not a power of two");
        return Err(QuantityError {
            message,
            help: format!("write for example \"{}\"", format_bytes(bytes.next_power_of_two().min(max))),
        });
    }
    if !sizes.is_sorted_by(|(a, _), (b, _)| a < b) {
        return Err(QuantityError { message: "the sizes are not in order".to_owned(), help });
    }
    Ok(Value::Sizes(sizes))
}

fn time(text: &str, max_ps: u64) -> Result<Value, QuantityError> {
    let time = parse_time(text)?;
    // No core is slower than 10 MHz, so that many cycles are below the limit whatever the frequency.
    let (Time::Cycles(count) | Time::Picoseconds(count)) = time;
    let max = if matches!(time, Time::Cycles(_)) { max_ps / 100_000 } else { max_ps };
    within(count, 0, max, || {
        let unit = if matches!(time, Time::Cycles(_)) { "cycles" } else { "ns" };
        let max = if unit == "cycles" { max } else { max / 1_000 };
        (text.to_owned(), format!("0 {unit}"), format!("{max} {unit}"))
    })?;
    Ok(Value::Time(time, text.trim().to_owned()))
}

/// Refuses a number outside of its limits; `words` gives value, least and most as the user would write them.
fn within(
    number: u64,
    min: u64,
    max: u64,
    words: impl Fn() -> (String, String, String),
) -> Result<(), QuantityError> {
    if (min..=max).contains(&number) {
        return Ok(());
    }
    let (value, min, max) = words();
    let message = format!("\"{}\" is out of range", excerpt(value.trim()));
    Err(QuantityError { message, help: format!("allowed are {min} to {max}") })
}

fn string<'a>(value: &'a DeValue<'_>, noun: &str, example: &str) -> Result<&'a str, QuantityError> {
    match value {
        DeValue::String(text) => Ok(text),
        DeValue::Integer(_) | DeValue::Float(_) => {
            let number = match value {
                DeValue::Integer(digits) => digits.to_string(),
                DeValue::Float(digits) => digits.as_str().to_owned(),
                _ => String::new(),
            };
            let unit = example.trim_start_matches(|c: char| c.is_ascii_digit());
            let help =
                format!("write it as a string with its unit, for example \"{}{unit}\"", excerpt(&number));
            Err(QuantityError { message: format!("{noun} needs a unit, found {}", describe(value)), help })
        }
        _ => wrong(noun, value, &format!("write for example \"{example}\"")),
    }
}

fn word(text: &str, words: &dyn WordList) -> Result<&'static str, QuantityError> {
    let words = words.words();
    if let Some(word) = words.iter().find(|word| **word == text) {
        return Ok(word);
    }
    let nearest = page_size(text).or_else(|| did_you_mean(&text.to_lowercase(), words.iter().copied()));
    let allowed = format!("allowed are {}", either(&quoted(&words)));
    let help = match nearest.filter(|near| words.contains(near)) {
        Some(near) => format!("did you mean \"{near}\"? {allowed}"),
        None => allowed,
    };
    Err(QuantityError { message: format!("\"{}\" is not known here", excerpt(text)), help })
}

/// The page size that `4K` or `2MB` means.
fn page_size(text: &str) -> Option<&'static str> {
    match text.to_lowercase().replace(' ', "").as_str() {
        "4k" | "4kb" | "4kib" => Some("4KiB"),
        "2m" | "2mb" | "2mib" => Some("2MiB"),
        "1g" | "1gb" | "1gib" => Some("1GiB"),
        _ => None,
    }
}

fn word_list(value: &DeValue<'_>, words: &dyn WordList) -> Result<Value, QuantityError> {
    let example = format!("write for example [\"{}\"]", words.words()[0]);
    let DeValue::Array(items) = value else {
        return wrong("a list", value, &example);
    };
    let mut list = Vec::new();
    for item in items.iter() {
        let DeValue::String(text) = item.get_ref() else {
            return wrong("a list of words", item.get_ref(), &example);
        };
        let word = word(text, words)?;
        if list.contains(&word) {
            let message = format!("\"{word}\" is listed twice");
            return Err(QuantityError { message, help: "list each once".to_owned() });
        }
        list.push(word);
    }
    if list.is_empty() {
        return Err(QuantityError { message: "the list is empty".to_owned(), help: example });
    }
    Ok(Value::Words(list))
}

fn text(value: &DeValue<'_>, max_chars: usize, may_break: bool) -> Result<Value, QuantityError> {
    let DeValue::String(text) = value else {
        return wrong("text", value, "write it in quotes");
    };
    if text.chars().nth(max_chars).is_some() {
        let message = format!("the text is longer than {max_chars} characters");
        return Err(QuantityError { message, help: "shorten it; details go into comments".to_owned() });
    }
    if text.chars().any(|c| c.is_control() && !(may_break && c == '\n')) {
        let message = "the text holds a control character or a line break".to_owned();
        return Err(QuantityError { message, help: "write one line of plain text".to_owned() });
    }
    Ok(Value::Text(text.to_string()))
}

fn quoted(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| format!("\"{word}\"")).collect()
}
