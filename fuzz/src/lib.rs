//! What the fuzz targets share: sinks that check the contract of batches, and `.pwt` files with right checksums.

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::Path;

use pagewalk_trace::container::{PwtSource, Reader};
use pagewalk_trace::foreign::{ForeignSource, Format};
use pagewalk_trace::{Access, Batch, Event, ReadOptions, Sink, Source, SourceError, TraceSource};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Checks what [`Batch`] promises, and counts.
#[derive(Default)]
pub struct Checker {
    /// The number of accesses seen.
    pub accesses: usize,
    /// Whether every batch with accesses must begin with an instruction count.
    pub counts_instructions: bool,
}

impl Sink for Checker {
    fn batch(&mut self, batch: &mut Batch) -> ControlFlow<()> {
        batch.check().expect("a batch as its contract says");
        assert!(batch.accesses.iter().all(|access| access.0 & Access::RESERVED == 0), "reserved bits");
        if self.counts_instructions && !batch.accesses.is_empty() {
            let first = batch.marks.first().map(|mark| (mark.at, &mark.event));
            assert!(matches!(first, Some((0, Event::Instructions(_)))), "a batch begins with {first:?}");
        }
        self.accesses += batch.accesses.len();
        ControlFlow::Continue(())
    }
}

/// Reads `data` in a foreign format. Whatever it is, the outcome is sound batches and perhaps an error with a
/// place in it.
pub fn foreign(data: &[u8], format: Format) {
    for kernel in [false, true] {
        let reader = Box::new(Cursor::new(data.to_vec()));
        let options = ReadOptions { format, kernel };
        let mut source = ForeignSource::from_reader(reader, "fuzz", options).expect("a foreign format");
        if let Err(error) = run(&mut source) {
            check_message(&error);
        }
    }
}

/// Reads the trace at `path`, whatever it is: its format and compression are told from it.
pub fn opened(path: &Path) {
    let mut source = match pagewalk_trace::open(path, Format::Auto) {
        Ok(source) => source,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if let Err(error) = run(&mut *source) {
        assert!(!error.to_string().is_empty());
    }
}

fn run(source: &mut dyn TraceSource) -> Result<(), SourceError> {
    let mut checker =
        Checker { counts_instructions: source.info().counts_instructions, ..Checker::default() };
    let result = source.run(&mut checker);
    let _ = source.remarks().lines();
    result
}

/// Reads `bytes` as a `.pwt` file; answers its batches if it is a sound one. Without executed blocks, the rest of them is the same.
pub fn read_pwt(bytes: &[u8]) -> Option<Vec<Batch>> {
    let found = read_pwt_whole(bytes)?;
    let mut reader = Reader::new(Cursor::new(bytes), "fuzz".to_owned()).ok()?;
    reader.make_no_blocks();
    let mut expected = found.iter();
    let mut sink = |batch: &mut Batch| {
        let expected = expected.next().expect("as many batches");
        assert!(batch.blocks.is_empty() && batch.accesses == expected.accesses);
        assert_eq!(batch.marks.len(), expected.marks.len());
        ControlFlow::Continue(())
    };
    PwtSource::new(reader).run(&mut sink).expect("it was sound");
    Some(found)
}

fn read_pwt_whole(bytes: &[u8]) -> Option<Vec<Batch>> {
    let reader = match Reader::new(Cursor::new(bytes), "fuzz".to_owned()) {
        Ok(reader) => reader,
        Err(error) => {
            check_message(&error.into());
            return None;
        }
    };
    let expected = reader.totals();
    let mut source = PwtSource::new(reader);
    let (mut checker, mut batches) = (Checker::default(), Vec::new());
    let mut sink = |batch: &mut Batch| {
        batches.push(batch.clone());
        checker.batch(batch)
    };
    match source.run(&mut sink) {
        Ok(()) => {
            assert_eq!(
                (checker.accesses as u64, batches.len() as u64),
                (expected.accesses, expected.batches)
            );
            Some(batches)
        }
        Err(error) => {
            check_message(&error);
            None
        }
    }
}

/// Reads what is whole at the beginning of a `.pwt` file that has lost its end: all of it comes, and then the damage.
pub fn salvage_pwt(bytes: &[u8]) {
    let cut = &bytes[..bytes.len().saturating_sub(1)];
    let reader = match Reader::new_or_salvaged(Cursor::new(cut), "fuzz".to_owned()) {
        Ok(reader) => reader,
        Err(error) => return check_message(&error.into()),
    };
    let (expected, is_damaged) = (reader.totals(), reader.damage().is_some());
    let (mut source, mut checker, mut batches) = (PwtSource::new(reader), Checker::default(), 0);
    let mut sink = |batch: &mut Batch| {
        batches += 1;
        checker.batch(batch)
    };
    let ended = source.run(&mut sink);
    if is_damaged {
        check_message(&ended.expect_err("the damage is said at the end"));
        assert_eq!((checker.accesses as u64, batches), (expected.accesses, expected.batches));
    }
}

/// Every complaint names the file and where in it.
fn check_message(error: &SourceError) {
    let text = error.to_string();
    assert!(text.starts_with("fuzz: byte ") || text.starts_with("fuzz: line "), "no place in `{text}`");
}

const HEADER: usize = 24;
const PIECE: usize = 64;

/// Replaces the checksums of what looks like a `.pwt` file by the right ones, so that damage gets past them.
pub fn seal(bytes: &mut [u8]) -> Option<()> {
    let name = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?) as usize;
    let end = HEADER.checked_add(name).filter(|&end| end + 8 <= bytes.len())?;
    let sum = xxh3_64(&bytes[..end]);
    bytes[end..end + 8].copy_from_slice(&sum.to_le_bytes());

    let trailer = bytes.len().checked_sub(PIECE)?;
    let index = usize::try_from(u64_at(bytes, trailer)?).ok().filter(|&index| index <= trailer)?;
    for entry in (index..trailer).step_by(PIECE) {
        let start = usize::try_from(u64_at(bytes, entry)?).ok()?;
        let length = u32::from_le_bytes(bytes.get(entry + 8..entry + 12)?.try_into().ok()?) as usize;
        let chunk = bytes.get_mut(start..start.checked_add(length)?).filter(|chunk| chunk.len() >= PIECE)?;
        chunk[56..64].fill(0);
        let sum = xxh3_64(chunk).to_le_bytes();
        chunk[56..64].copy_from_slice(&sum);
        bytes.get_mut(entry + 56..entry + 64)?.copy_from_slice(&sum);
    }
    let mut hasher = Xxh3::new();
    hasher.update(&bytes[index..trailer]);
    hasher.update(&bytes[trailer..trailer + 48]);
    bytes[trailer + 48..trailer + 56].copy_from_slice(&hasher.digest().to_le_bytes());
    Some(())
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The counts that the header of a chunk claims, and how its block stream is to be understood.
pub struct Claims {
    /// The number of batches.
    pub batches: u32,
    /// The number of marks.
    pub marks: u32,
    /// The number of instructions.
    pub instructions: u64,
    /// The number of executed blocks.
    pub blocks: u32,
    /// Whether the file is of version 5, whose block streams have a byte for each block, and not of the newest.
    pub is_of_version_5: bool,
}

/// Returns a `.pwt` file of one chunk that holds these streams (control, near, far, side and block stream) and claims these counts,
/// with right checksums.
pub fn pwt_of_streams(streams: [&[u8]; 5], claims: &Claims) -> Vec<u8> {
    let &Claims { batches, marks, instructions, blocks, is_of_version_5 } = claims;
    let version = if is_of_version_5 { 5 } else { pagewalk_trace::container::FORMAT_VERSION };
    let mut file = Vec::new();
    file.extend_from_slice(&pagewalk_trace::container::MAGIC);
    file.extend_from_slice(&version.to_le_bytes());
    file.extend_from_slice(&[0; 12]);
    file.extend_from_slice(&[0; 8]);
    let start = file.len();

    let mut packed = streams.map(|stream| match stream {
        [] => Vec::new(),
        stream => zstd::bulk::compress(stream, 1).expect("room for it"),
    });
    let [_, near, far, side, block] = streams.map(|stream| stream.len() as u32);
    if blocks > 0 {
        packed[4].splice(0..0, [blocks, block].map(u32::to_le_bytes).concat());
    }
    let lengths = packed.each_ref().map(|stream| stream.len() as u32);
    let accesses = streams[0].len() as u32;
    file.extend_from_slice(b"CHNK");
    for field in
        [batches, accesses, marks, lengths[0], lengths[1], near, lengths[2], far, lengths[3], side, lengths[4]]
    {
        file.extend_from_slice(&field.to_le_bytes());
    }
    file.extend_from_slice(&instructions.to_le_bytes());
    file.extend_from_slice(&[0; 8]);
    packed.iter().for_each(|stream| file.extend_from_slice(stream));

    let index = file.len();
    file.extend_from_slice(&(start as u64).to_le_bytes());
    for field in [(index - start) as u32, batches, accesses, marks] {
        file.extend_from_slice(&field.to_le_bytes());
    }
    for field in [instructions, 0, 0] {
        file.extend_from_slice(&field.to_le_bytes());
    }
    file.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    file.extend_from_slice(&[0; 8]);
    for field in [index as u64, 1, batches.into(), accesses.into(), marks.into(), instructions, 0] {
        file.extend_from_slice(&field.to_le_bytes());
    }
    file.extend_from_slice(b"PWT-END\n");
    seal(&mut file).expect("a well-formed file");
    file
}
