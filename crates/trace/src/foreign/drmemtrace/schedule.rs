//! The order in which the threads of a trace ran, as its companion files have it.
//!
//! `serial_schedule.bin.gz` is one list of slices in the order of their time; `cpu_schedule.bin.zip` has a list a core, in a member
//! that is named by the core's number. A slice is a run of one thread on one core:
//!
//! ```text
//! 0        8           16     24                   32
//! +--------+-----------+------+--------------------+
//! | thread | timestamp | core | first instruction  |    schedule_entry_t, little-endian, packed
//! +--------+-----------+------+--------------------+
//! ```
//!
//! The first instruction is the number of the thread's instructions before the slice. Layout: DynamoRIO,
//! `clients/drcachesim/common/trace_entry.h`.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::input::{Content, Input};
use super::super::records::Records;
use crate::error::TraceError;

const SLICE_BYTES: usize = 32;
const BUFFER_BYTES: usize = 1 << 15;
/// The most slices that are kept; more are not used.
const MAX_SLICES: usize = 1 << 23;

/// A run of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slice {
    pub(super) thread: u64,
    pub(super) timestamp: u64,
    core: u64,
    /// How many instructions of the thread come before.
    pub(super) instructions: u64,
}

impl Slice {
    fn parse(bytes: &[u8; SLICE_BYTES]) -> Self {
        let words = bytes.as_chunks().0;
        let word = |number: usize| u64::from_le_bytes(words[number]);
        Self { thread: word(0), timestamp: word(1), core: word(2), instructions: word(3) }
    }
}

/// Slices in the order in which they ran.
pub(super) struct Schedule {
    /// The name of the file that it comes from.
    pub(super) name: String,
    pub(super) slices: Vec<Slice>,
}

impl Schedule {
    /// Reads a serial schedule or one of cores; none if it is too long to keep.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, TraceError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut slices = Vec::new();
        match Input::open(path)?.content {
            Content::Zip(archive) => {
                for number in 0..archive.len() {
                    let (reader, origin) = archive.member(number);
                    if !read(Records::new(reader, origin, BUFFER_BYTES), &mut slices)? {
                        return Ok(None);
                    }
                }
                // At one time a thread's earlier slice comes first; which core does is not known.
                slices.sort_by_key(|slice: &Slice| (slice.timestamp, slice.instructions, slice.core));
            }
            other => {
                let stream = other.into_stream()?;
                if !read(Records::new(stream.reader, stream.origin, BUFFER_BYTES), &mut slices)? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(Self { name, slices }))
    }

    /// For each slice the number of the next one of its thread.
    pub(super) fn successors(&self) -> Vec<Option<u32>> {
        let mut successors = vec![None; self.slices.len()];
        let mut later = BTreeMap::new();
        for (number, slice) in self.slices.iter().enumerate().rev() {
            successors[number] = later.insert(slice.thread, number as u32);
        }
        successors
    }
}

/// Appends the slices of a file; false if there are too many.
fn read(mut records: Records<SLICE_BYTES>, slices: &mut Vec<Slice>) -> Result<bool, TraceError> {
    while let Some((bytes, _)) = records.next()? {
        if slices.len() >= MAX_SLICES {
            return Ok(false);
        }
        slices.push(Slice::parse(&bytes));
    }
    Ok(true)
}
