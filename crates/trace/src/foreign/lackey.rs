//! The text of Valgrind's lackey (`--trace-mem=yes`).
//!
//! ```text
//! I  04001000,3          an instruction of 3 bytes at 0x4001000
//!  L 1ffe000010,8        a load of 8 bytes by it
//!  S 1ffe000010,8        a store
//!  M 1ffe000010,8        a load and a store of the same bytes
//! ==1234== text          Valgrind's own remarks, left out and counted
//! ```

use std::ops::ControlFlow;

use super::input::Content;
use super::output::Output;
use super::records::{for_each_line, shown};
use super::tally::Kind;
use crate::error::{Place, TraceError};

/// Reads lackey's text.
pub(super) fn parse(content: Content, output: &mut Output<'_>) -> Result<(), TraceError> {
    let stream = content.into_stream()?;
    let origin = stream.origin;
    let mut reader = stream.reader;
    let mut lines = 0_u64;
    for_each_line(&mut *reader, &origin, |line, number, ended| {
        let Some(parsed) = Line::parse(line) else {
            let what = format!(
                "`{}` is no line of a lackey trace; expected `I  ADDRESS,SIZE` or ` L`, ` S`, ` M` and the same \
                 (record with --log-file=FILE to keep the program's own output apart)",
                shown(line)
            );
            return Err(origin.malformed(Place::Line(number), what));
        };
        if !ended && parsed != Line::Remark {
            let what = "the last line has no line end: the file was cut short";
            return Err(origin.malformed(Place::Line(number), what));
        }
        lines += u64::from(parsed != Line::Remark);
        emit(parsed, output).map_err(|what| origin.malformed(Place::Line(number), what))?;
        Ok(output.flow())
    })?;
    if lines == 0 && output.flow() == ControlFlow::Continue(()) {
        let what = "the trace has no access; record with --tool=lackey --trace-mem=yes";
        return Err(origin.malformed(Place::Line(1), what));
    }
    Ok(())
}

fn emit(line: Line, output: &mut Output<'_>) -> Result<(), String> {
    match line {
        Line::Remark => output.tally.count(Kind::Remarks),
        Line::Instruction => output.instructions(1),
        Line::Load { address, bytes } => output.access(address, bytes, false)?,
        Line::Store { address, bytes } => output.access(address, bytes, true)?,
        Line::Modify { address, bytes } => {
            output.access(address, bytes, false)?;
            output.access(address, bytes, true)?;
        }
    }
    Ok(())
}

/// A line of lackey's text, as it was understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Line {
    Remark,
    Instruction,
    Load { address: u64, bytes: u64 },
    Store { address: u64, bytes: u64 },
    Modify { address: u64, bytes: u64 },
}

impl Line {
    /// None if it is no line of such a trace.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"==") || line.starts_with(b"--") {
            return Some(Self::Remark);
        }
        let (kind, rest) = line.split_at_checked(3)?;
        let comma = rest.iter().position(|&byte| byte == b',')?;
        let address = number::<16>(&rest[..comma])?;
        let bytes = number::<10>(&rest[comma + 1..])?;
        match kind {
            b"I  " => Some(Self::Instruction),
            b" L " => Some(Self::Load { address, bytes }),
            b" S " => Some(Self::Store { address, bytes }),
            b" M " => Some(Self::Modify { address, bytes }),
            _ => None,
        }
    }
}

/// A number that fits into 64 bits, in base 10 or 16, without sign or prefix.
fn number<const BASE: u32>(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = char::from(digit).to_digit(BASE)?;
        // Sixteen digits of either base fit.
        Some(value * u64::from(BASE) + u64::from(digit))
    })
}

/// Whether the start of a file can be such a text: its whole lines are, and at least one is an instruction or an
/// access.
pub(super) fn plausible(start: &[u8]) -> bool {
    let Some(end) = start.iter().rposition(|&byte| byte == b'\n') else { return false };
    let mut lines = start[..end].split(|&byte| byte == b'\n').map(Line::parse);
    let mut some = false;
    lines.all(|line| {
        some |= line.is_some_and(|line| line != Line::Remark);
        line.is_some()
    }) && some
}
