//! Six patterns of operations on one file, and what they take.

use pagewalk_sim::files::{FileError, IndexCounts, Parts};
use pagewalk_sim::spec::settings::{FileRequest, MachineSpec};
use pagewalk_trace::Stop;
use pagewalk_vm::addr::{PAGE_BYTES, PhysAddr};
use pagewalk_vm::random::SplitMix64;

/// Bytes of a small operation.
const SMALL: u64 = PAGE_BYTES;
/// Bytes of a large operation, on files that are not smaller.
const LARGE: u64 = 1 << 30;
/// From the beginning of DRAM to the program's buffer.
const BUFFER: u64 = 4 << 30;

/// Li et al., ";login: 2022", Table 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pattern {
    /// 4 KiB at a time, to a file that is empty at first.
    Append,
    /// 1 GiB at a time, to a file that is empty at first.
    SequentialWriteEmpty,
    /// 4 KiB at a time, anywhere.
    RandomRead,
    /// 4 KiB at a time, anywhere.
    RandomWrite,
    /// 1 GiB at a time.
    SequentialRead,
    /// 1 GiB at a time.
    SequentialWrite,
}

impl Pattern {
    /// All, with the article's names.
    pub(crate) const ALL: [(Self, &str); 6] = [
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

/// What a pattern took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PatternRun {
    /// How many operations.
    pub(crate) operations: u64,
    /// What their time went to.
    pub(crate) parts: Parts,
    /// What the index did.
    pub(crate) counts: IndexCounts,
}

/// Why a pattern could not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// The machine has none.
    #[error("the machine has no [files]")]
    NoFiles,
    /// Not a number of whole operations.
    #[error("{bytes} bytes; allowed: multiples of {SMALL}, and of {LARGE} beyond that")]
    Size {
        /// How many.
        bytes: u64,
    },
    /// The run was asked to stop before its end.
    #[error("the run was stopped")]
    Stopped,
    /// Persistent memory is too small.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Runs a pattern on a file of so many bytes on the machine's file system, unless `stop` holds a request before the end.
///
/// # Errors
///
/// [`FilesError`].
pub(crate) fn run(
    spec: &MachineSpec,
    pattern: Pattern,
    bytes: u64,
    seed: u64,
    stop: &Stop,
) -> Result<PatternRun, FilesError> {
    let (Some(files), Some(persistent)) = (&spec.storage.files, &spec.storage.persistent) else {
        return Err(FilesError::NoFiles);
    };
    if bytes == 0 || !bytes.is_multiple_of(SMALL) || bytes > LARGE && !bytes.is_multiple_of(LARGE) {
        return Err(FilesError::Size { bytes });
    }
    // DRAM follows persistent memory.
    let buffer = PhysAddr(persistent.bytes + BUFFER);
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
    let mut file =
        files.index.create(&FileRequest { spec, persistent, call_ps: files.call_ps, most_bytes: bytes })?;
    if !pattern.begins_empty() {
        file.set_free(true);
        ready.into_iter().try_for_each(|offset| file.write(offset, piece, buffer))?;
        file.reopen();
        file.set_free(false);
    }
    for offset in offsets {
        if reads { file.read(offset, size, buffer) } else { file.write(offset, size, buffer) }?;
    }
    let ran = PatternRun { operations, parts: file.parts(), counts: file.counts() };
    if stop.requested().is_some() { Err(FilesError::Stopped) } else { Ok(ran) }
}
