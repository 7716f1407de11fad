//! Six patterns of operations on one file, and what they take.

use pagewalk_trace::Stop;
use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::StoreError;
use pagewalk_vm::frame::OutOfFrames;
use pagewalk_vm::random::SplitMix64;

use super::contiguous::{ContiguousFile, Costs, IndexCounts};
use super::extents::ExtentFile;
use super::media::{Media, Parts};
use crate::spec::settings::{FileIndex, MachineSpec};

/// Bytes of a small operation.
const SMALL: u64 = PAGE_BYTES;
/// Bytes of a large operation, on files that are not smaller.
const LARGE: u64 = 1 << 30;
/// From the beginning of DRAM to the program's buffer.
const BUFFER: u64 = 4 << 30;

/// The patterns of Li et al., ";login: 2022", Table 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Writes 4 KiB at a time, to a file that is empty at first.
    Append,
    /// Writes 1 GiB at a time, to a file that is empty at first.
    SequentialWriteEmpty,
    /// Reads 4 KiB at a time, at random offsets.
    RandomRead,
    /// Writes 4 KiB at a time, at random offsets.
    RandomWrite,
    /// Reads 1 GiB at a time, from the beginning to the end.
    SequentialRead,
    /// Writes 1 GiB at a time, from the beginning to the end.
    SequentialWrite,
}

impl Pattern {
    /// All patterns, with the article's names.
    pub const ALL: [(Self, &str); 6] = [
        (Self::Append, "append"),
        (Self::SequentialWriteEmpty, "swe"),
        (Self::RandomRead, "rr"),
        (Self::RandomWrite, "rw"),
        (Self::SequentialRead, "sr"),
        (Self::SequentialWrite, "sw"),
    ];

    fn begins_empty(self) -> bool {
        matches!(self, Self::Append | Self::SequentialWriteEmpty)
    }

    fn is_random(self) -> bool {
        matches!(self, Self::RandomRead | Self::RandomWrite)
    }

    fn reads(self) -> bool {
        matches!(self, Self::RandomRead | Self::SequentialRead)
    }

    fn operation_bytes(self, file_bytes: u64) -> u64 {
        if self == Self::Append || self.is_random() { SMALL } else { LARGE.min(file_bytes) }
    }
}

/// The measured cost of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PatternRun {
    /// The number of operations that were made.
    pub operations: u64,
    /// The time of the operations, by part.
    pub parts: Parts,
    /// The counts of the file's index.
    pub counts: IndexCounts,
}

/// The reasons for which a pattern cannot run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilesError {
    /// The machine has no file system.
    #[error("the machine has no [files]")]
    NoFiles,
    /// The file's size is not a number of whole operations.
    #[error("{bytes} bytes; allowed: multiples of {SMALL}, and of {LARGE} beyond that")]
    Size {
        /// The size that was asked for.
        bytes: u64,
    },
    /// The run was asked to stop before its end.
    #[error("the run was stopped")]
    Stopped,
    /// Persistent memory has no room for the file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Persistent memory has too few frames for the file.
    #[error(transparent)]
    Frames(#[from] OutOfFrames),
}

/// Runs a pattern on a file of so many bytes on the machine's file system, unless `stop` holds a request before the end.
///
/// # Errors
///
/// [`FilesError`].
pub fn run(
    spec: &MachineSpec,
    pattern: Pattern,
    bytes: u64,
    seed: u64,
    stop: &Stop,
) -> Result<PatternRun, FilesError> {
    let (Some(files), Some(persistent)) = (&spec.files, &spec.persistent) else {
        return Err(FilesError::NoFiles);
    };
    if bytes == 0 || !bytes.is_multiple_of(SMALL) || bytes > LARGE && !bytes.is_multiple_of(LARGE) {
        return Err(FilesError::Size { bytes });
    }
    let media = Media::new(spec, persistent);
    let buffer = media.dram().add(BUFFER);
    let size = pattern.operation_bytes(bytes);
    let piece = LARGE.min(bytes);
    let mut random = SplitMix64::new(seed);
    let operations = bytes / size;
    let goes_on = |_: &u64| stop.requested().is_none();
    let offsets = (0..operations)
        .take_while(goes_on)
        .map(|number| size * if pattern.is_random() { random.below(operations) } else { number });
    let ready = (0..bytes / piece).take_while(goes_on).map(|number| number * piece);
    let reads = pattern.reads();
    let ran = match files.index {
        FileIndex::ExtentTree { map_ps, journal_ps } => {
            let mut file = ExtentFile::new(media, [files.call_ps, map_ps, journal_ps]);
            if !pattern.begins_empty() {
                file.media.set_free(true);
                ready.into_iter().try_for_each(|offset| file.write(offset, piece, buffer))?;
                file.media.set_free(false);
            }
            for offset in offsets {
                if reads { file.read(offset, size, buffer) } else { file.write(offset, size, buffer) }?;
            }
            let (extents, depth) = file.shape();
            let counts = IndexCounts { extents, depth, ..IndexCounts::default() };
            PatternRun { operations, parts: file.media.parts(), counts }
        }
        FileIndex::PageTable { large } => {
            let costs = Costs { call_ps: files.call_ps, large };
            let mut file = ContiguousFile::new(spec, media, costs, 2 * bytes + (64 << 20))?;
            if !pattern.begins_empty() {
                file.set_free(true);
                ready.into_iter().try_for_each(|offset| file.write(offset, piece, buffer))?;
                file.reopen();
                file.set_free(false);
            }
            for offset in offsets {
                if reads { file.read(offset, size, buffer) } else { file.write(offset, size, buffer) }?;
            }
            let parts = file.media().parts();
            PatternRun { operations, parts, counts: file.counts() }
        }
    };
    if stop.requested().is_some() { Err(FilesError::Stopped) } else { Ok(ran) }
}
