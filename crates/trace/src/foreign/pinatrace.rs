//! The text of Pin's `pinatrace`, one line an access, in the variants that its copies write.
//!
//! ```text
//! 0x7f001234: R 0x7ffd0010              instruction, read or write, address
//! 0x7f001234: W 0x7ffd0010  8 0x2a      with the size in bytes, and with the value
//! R 0x7ffd0010                          without the instruction
//! # text                                a remark; `#eof` is the last one
//! ```
//!
//! Addresses are hexadecimal, with or without 0x; sizes are decimal. `P` is a prefetch. Instructions without an access are not in
//! such a trace, so instructions are not counted. A trace without sizes has accesses of unknown size. Source: Pin,
//! `source/tools/SimpleExamples/pinatrace.cpp` and `source/tools/ManualExamples/pinatrace.cpp`.

use std::ops::ControlFlow;

use super::input::Content;
use super::output::Output;
use super::records::{for_each_line, shown};
use super::tally::Kind;
use crate::error::{Place, TraceError};

/// Reads pinatrace's text.
pub(super) fn parse(content: Content, output: &mut Output<'_>) -> Result<(), TraceError> {
    let stream = content.into_stream()?;
    let (origin, mut reader) = (stream.origin, stream.reader);
    let (mut accesses, mut complete) = (0_u64, false);
    for_each_line(&mut *reader, &origin, |line, number, ended| {
        let malformed = |what: String| origin.malformed(Place::Line(number), what);
        let Some(parsed) = Line::parse(line) else {
            return Err(malformed(format!(
                "`{}` is no line of a pinatrace; expected `0xPC: R 0xADDRESS` or `W`, with or without a size behind it",
                shown(line)
            )));
        };
        complete = parsed == Line::End;
        match parsed {
            Line::End => {}
            Line::Remark => output.tally.count(Kind::Remarks),
            _ if !ended => {
                return Err(malformed("the last line has no line end: the file was cut short".into()));
            }
            Line::Prefetch => output.tally.count(Kind::Prefetches),
            Line::Access { address, bytes, write } => {
                accesses += 1;
                match bytes {
                    Some(bytes) => output.access(address, bytes, write),
                    None => output.access_unsized(address, write),
                }
                .map_err(malformed)?;
            }
        }
        output.record();
        Ok(output.flow())
    })?;
    if output.flow() == ControlFlow::Continue(()) {
        if accesses == 0 {
            return Err(origin.malformed(Place::Line(1), "the trace has no access"));
        }
        if !complete {
            output.tally.note("the trace does not end with `#eof`: perhaps it was cut short");
        }
    }
    Ok(())
}

/// A line of pinatrace's text, as it was understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line {
    Remark,
    End,
    Prefetch,
    Access { address: u64, bytes: Option<u64>, write: bool },
}

impl Line {
    /// None if it is no line of such a trace.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = line.trim_ascii();
        match line {
            b"#eof" => return Some(Self::End),
            [] | [b'#', ..] => return Some(Self::Remark),
            _ => {}
        }
        let access = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => {
                hexadecimal(&line[..colon])?;
                &line[colon + 1..]
            }
            None => line,
        };
        let mut words = access.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let kind = words.next()?;
        let address = hexadecimal(words.next()?)?;
        let bytes = match words.next() {
            Some(word) => Some(decimal(word)?),
            None => None,
        };
        // The value may have any form, but it is one word.
        if words.next().is_some() && words.next().is_some() {
            return None;
        }
        match kind {
            b"R" | b"r" => Some(Self::Access { address, bytes, write: false }),
            b"W" | b"w" => Some(Self::Access { address, bytes, write: true }),
            b"P" | b"p" => Some(Self::Prefetch),
            _ => None,
        }
    }
}

fn hexadecimal(word: &[u8]) -> Option<u64> {
    let word = word.strip_prefix(b"0x").or_else(|| word.strip_prefix(b"0X")).unwrap_or(word);
    number(word, 16)
}

fn decimal(word: &[u8]) -> Option<u64> {
    number(word, 10)
}

fn number(digits: &[u8], base: u32) -> Option<u64> {
    let unsigned = digits.first().is_some_and(u8::is_ascii_alphanumeric);
    let digits = std::str::from_utf8(digits).ok().filter(|_| unsigned)?;
    u64::from_str_radix(digits, base).ok()
}

/// Whether the start of some content can be such a text: its whole lines are, and at least one is an access.
pub(super) fn plausible(start: &[u8]) -> bool {
    let Some(end) = start.iter().rposition(|&byte| byte == b'\n') else { return false };
    let mut lines = start[..end].split(|&byte| byte == b'\n').map(Line::parse);
    let mut some = false;
    lines.all(|line| {
        some |= matches!(line, Some(Line::Access { .. }));
        line.is_some()
    }) && some
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variants_of_a_line() {
        let access = |address, bytes, write| Some(Line::Access { address, bytes, write });
        for (line, expected) in [
            ("0x401000: R 0x7ffd10", access(0x7f_fd10, None, false)),
            ("0x401000: W 0x7ffd10", access(0x7f_fd10, None, true)),
            ("0x401000: W         0x7ffd10  8            0x2a", access(0x7f_fd10, Some(8), true)),
            ("401000: R 7ffd10 16\r", access(0x7f_fd10, Some(16), false)),
            ("R 0x10", access(0x10, None, false)),
            ("0x401000: P 0x10", Some(Line::Prefetch)),
            ("#eof", Some(Line::End)),
            ("# Memory Access Trace Generated By Pin", Some(Line::Remark)),
            ("", Some(Line::Remark)),
            ("0x401000: X 0x10", None),
            ("0x401000: R", None),
            ("0x401000: R -10", None),
            ("0x401000: R +10", None),
            ("0x401000: R 0x10 8 1 2", None),
            ("hello: R 0x10", None),
            ("R 0x12345678901234567", None),
        ] {
            assert_eq!(Line::parse(line.as_bytes()), expected, "{line}");
        }
    }
}
