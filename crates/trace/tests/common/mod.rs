//! Helpers of the tests.

use std::io::{Cursor, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pagewalk_trace::container::{PwtSource, Reader, Writer};
use pagewalk_trace::foreign::Remarks;
use pagewalk_trace::{Access, Batch, Event, ReadOptions, Source, SourceError, SourceInfo, open};
use pagewalk_vm::addr::VirtAddr;

/// Returns everything that a source produces, and how it ended.
pub(crate) fn collect(source: &mut dyn Source) -> (Vec<Batch>, Result<(), SourceError>) {
    let mut batches = Vec::new();
    let mut sink = |batch: &mut Batch| {
        batches.push(batch.clone());
        ControlFlow::Continue(())
    };
    let result = source.run(&mut sink);
    (batches, result)
}

/// Writes the batches to a new file.
pub(crate) fn write(path: &Path, source: &SourceInfo, batches: &[Batch]) {
    let mut writer = Writer::create(path, source).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
}

/// Returns the bytes of a file with these batches.
pub(crate) fn encode(batches: &[Batch]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.pwt");
    write(&path, &named("test"), batches);
    std::fs::read(&path).unwrap()
}

/// Returns everything in a file, or an error that says what is wrong with the file.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Batch>, String> {
    let reader = Reader::new(Cursor::new(bytes), "t.pwt".to_owned()).map_err(|error| error.to_string())?;
    let (batches, result) = collect(&mut PwtSource::new(reader));
    result.map(|()| batches).map_err(|error| error.to_string())
}

/// Returns a source that is only a name.
pub(crate) fn named(name: &str) -> SourceInfo {
    SourceInfo { name: name.to_owned(), ..SourceInfo::default() }
}

/// Returns the names in a folder.
pub(crate) fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn load(address: u64, bytes: u32) -> Access {
    Access::load(VirtAddr(address), bytes)
}

pub(crate) fn store(address: u64, bytes: u32) -> Access {
    Access::store(VirtAddr(address), bytes)
}

pub(crate) struct Folder(pub tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

/// Reads `content` with these options, from a file of that name.
pub(crate) fn read(
    name: &str,
    content: &[u8],
    options: impl Into<ReadOptions>,
) -> (Vec<Batch>, Result<(), String>, Remarks) {
    let folder = Folder::new();
    let path = folder.file(name, content);
    let mut source = open(&path, options).unwrap();
    let (batches, result) = collect(&mut *source);
    (batches, result.map_err(|error| error.to_string()), source.remarks())
}

pub(crate) fn accesses(batches: &[Batch]) -> Vec<Access> {
    batches.iter().flat_map(|batch| batch.accesses.clone()).collect()
}

pub(crate) fn instructions(batches: &[Batch]) -> u64 {
    let marks = batches.iter().flat_map(|batch| &batch.marks);
    marks.map(|mark| if let Event::Instructions(count) = mark.event { count } else { 0 }).sum()
}

pub(crate) fn champsim(ip: u64, loads: &[u64], stores: &[u64]) -> [u8; 64] {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&ip.to_le_bytes());
    for (at, address) in stores.iter().enumerate() {
        record[16 + at * 8..][..8].copy_from_slice(&address.to_le_bytes());
    }
    for (at, address) in loads.iter().enumerate() {
        record[32 + at * 8..][..8].copy_from_slice(&address.to_le_bytes());
    }
    record
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn xz(content: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zst(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).unwrap()
}

pub(crate) fn bz2(content: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn lz4(content: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn sz(content: &[u8]) -> Vec<u8> {
    let mut encoder = snap::write::FrameEncoder::new(Vec::new());
    encoder.write_all(content).unwrap();
    encoder.into_inner().unwrap()
}

pub(crate) type Pack = fn(&[u8]) -> Vec<u8>;
pub(crate) const PACKERS: [(&str, Pack); 6] =
    [(".gz", gzip), (".xz", xz), (".zst", zst), (".bz2", bz2), (".lz4", lz4), (".sz", sz)];

pub(crate) fn entry(kind: u16, size: u16, value: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
}

/// Returns the records in front of the first instruction, in the order of a real trace.
pub(crate) fn drmemtrace_head(file_type: u64, thread: u64, process: u64) -> Vec<u8> {
    [
        entry(25, 0, 7),
        entry(28, 12, 7),
        entry(28, 9, file_type),
        entry(22, 0, thread),
        entry(24, 0, process),
        entry(28, 10, 64),
        entry(28, 20, 10_000_000),
        entry(28, 18, 4096),
        entry(28, 2, 13_000_000_000_000_000),
        entry(28, 3, 1),
    ]
    .concat()
}

pub(crate) fn drmemtrace_tail(thread: u64) -> Vec<u8> {
    [entry(28, 25, 231), entry(23, 0, thread), entry(26, 0, 0)].concat()
}

/// Returns a file with two threads of one process and one of another, with a prefetch, a repeated string instruction
/// and an access of the kernel's half.
pub(crate) fn drmemtrace_file() -> Vec<u8> {
    [
        drmemtrace_head(0xe40, 501, 500),
        entry(47, 4, 0x1234),
        entry(10, 4, 0x40_1000),
        entry(0, 8, 0x7f00_0000_1000),
        entry(1, 4, 0x7f00_0000_2000),
        entry(2, 1, 0x7f00_0000_9000),
        entry(48, 2, 0x40_1004),
        entry(22, 0, 502),
        entry(24, 0, 500),
        entry(10, 4, 0x40_2000),
        entry(0, 64, 0x7f00_0000_3000),
        entry(29, 4, 0x40_2000),
        entry(0, 64, 0x7f00_0000_3040),
        entry(22, 0, 700),
        entry(24, 0, 701),
        entry(10, 4, 0x40_2000),
        entry(0, 8, 0xffff_8000_0000_0000),
        entry(17, 3, 0),
        drmemtrace_tail(501),
    ]
    .concat()
}

pub(crate) fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    put_members(zip::ZipWriter::new(Cursor::new(Vec::new())), members).into_inner()
}

/// Returns the same file, written as to a pipe: the lengths stand behind the data.
pub(crate) fn zip_with_descriptors(members: &[(&str, &[u8])]) -> Vec<u8> {
    put_members(zip::ZipWriter::new_stream(Vec::new()), members).into_inner()
}

fn put_members<W: Write + std::io::Seek>(mut writer: zip::ZipWriter<W>, members: &[(&str, &[u8])]) -> W {
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, content) in members {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap()
}
