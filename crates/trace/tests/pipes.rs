//! Traces that come through pipes: each format and compression reads like a file, and nothing is lost at the beginning.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use pagewalk_trace::foreign::Format;
use pagewalk_trace::{Batch, TraceError, info, open, record};

use crate::common::*;

/// Hands `content` to `reader` through a pipe that is named by its descriptor, as a shell's process substitution does.
fn through_pipe<T>(content: &[u8], reader: impl FnOnce(&Path) -> T) -> T {
    let (end, mut start): (OwnedFd, File) = {
        let (end, start) = rustix::pipe::pipe().unwrap();
        (end, File::from(start))
    };
    std::thread::scope(|scope| {
        // A reader that has seen enough closes the pipe.
        scope.spawn(move || drop(start.write_all(content)));
        let path = PathBuf::from(format!("/dev/fd/{}", end.as_raw_fd()));
        let result = reader(&path);
        drop(end);
        result
    })
}

fn collected(path: &Path, format: Format) -> Vec<Batch> {
    let (batches, result) = collect(&mut *open(path, format).unwrap());
    result.unwrap();
    batches
}

/// An address whose lowest byte is no branch flag, so that records of 64 bytes cannot be records of 96.
const SECOND: u64 = 0x7000_0105;

/// Traces that are larger than what is looked at, one of each format, with their formats.
fn traces() -> Vec<(Format, Vec<u8>)> {
    let champsim: Vec<u8> =
        (0..5_000_u64).flat_map(|at| champsim(0x40_1000, &[0x7000_0000 + at * 8, SECOND], &[])).collect();
    let lackey: String =
        (0..9_000_u64).map(|at| format!("I  {at:08x},3\n L {:010x},8\n", 0x10_0000 + at * 8)).collect();
    let pinatrace: String =
        (0..9_000_u64).map(|at| format!("0x401000: R {:#x}\n", 0x10_0000 + at * 8)).collect();
    let gem5: Vec<u8> = std::iter::once(b"gem5\x00".to_vec())
        .chain((0..9_000_u32).map(|at| {
            [&[8, 0x10, 1, 0x20, 8, 0x18][..], &[0x80 | at as u8, 0x80 | (at >> 7) as u8, 1]].concat()
        }))
        .collect::<Vec<_>>()
        .concat();
    let drmemtrace = [
        drmemtrace_head(0xe40, 1, 1),
        (0..9_000_u64)
            .flat_map(|at| [entry(10, 4, 0x40_1000), entry(0, 8, 0x10_0000 + at * 8)].concat())
            .collect(),
        drmemtrace_tail(1),
    ]
    .concat();
    vec![
        (Format::ChampSim, champsim),
        (Format::Lackey, lackey.into_bytes()),
        (Format::Pinatrace, pinatrace.into_bytes()),
        (Format::Gem5, gem5),
        (Format::Drmemtrace, drmemtrace),
    ]
}

/// A ChampSim trace through a pipe once lost 1,024 records without a word, because it was opened twice.
#[test]
fn a_pipe_reads_like_a_file() {
    let folder = Folder::new();
    for (format, content) in traces() {
        let expected = collected(&folder.file("t.champsimtrace", &content), format);
        assert!(accesses(&expected).len() >= 5_000);
        for options in [format, Format::Auto] {
            let found = through_pipe(&content, |path| collected(path, options));
            assert!(found == expected, "{format} read as {options}");
        }
        for (suffix, pack) in PACKERS {
            let found = through_pipe(&pack(&content), |path| collected(path, Format::Auto));
            assert!(found == expected, "{format}{suffix}");
        }
    }
}

/// A FIFO's second opening waits for a second writer, for ever.
#[test]
fn a_fifo_is_opened_once() {
    let folder = Folder::new();
    let path = folder.0.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let content = champsim(0x40_1000, &[0x7000, SECOND], &[]).repeat(3_000);
    let summary = std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&path, &content).unwrap());
        info(&path, Format::Auto).unwrap()
    });
    assert_eq!((summary.accesses, summary.file_bytes), (6_000, content.len() as u64));
}

/// What is read from its end comes through a temporary file.
#[test]
fn archives_and_recordings_come_through_pipes_too() {
    let folder = Folder::new();
    let zipped = zip_of(&[("chunk.00000000", &drmemtrace_file())]);
    let expected = collected(&folder.file("t.trace.zip", &zipped), Format::Auto);
    assert_eq!(through_pipe(&zipped, |path| collected(path, Format::Auto)), expected);

    let recording = folder.0.path().join("t.pwt");
    record(&mut *open(&folder.file("t", &drmemtrace_file()), Format::Auto).unwrap(), &recording).unwrap();
    let bytes = std::fs::read(&recording).unwrap();
    let expected = collected(&recording, Format::Auto);
    for format in [Format::Auto, Format::Pwt] {
        assert_eq!(through_pipe(&bytes, |path| collected(path, format)), expected);
    }
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_path_with_name(folder.0.path().join("t"), "drmemtrace.app.1.trace").unwrap();
    let archive = xz(&archive.into_inner().unwrap());
    assert_eq!(accesses(&through_pipe(&archive, |path| collected(path, Format::Auto))), accesses(&expected));
}

#[test]
fn a_file_can_run_again_and_a_pipe_says_that_it_cannot() {
    let folder = Folder::new();
    let content = champsim(0x40_1000, &[0x7000, SECOND], &[]).repeat(3_000);
    let mut source = open(&folder.file("t", &content), Format::ChampSim).unwrap();
    let (first, _) = collect(&mut *source);
    assert_eq!(collect(&mut *source).0, first);
    let error = through_pipe(&content, |path| {
        let mut source = open(path, Format::ChampSim).unwrap();
        assert_eq!(collect(&mut *source).0, first);
        collect(&mut *source).1.unwrap_err().to_string()
    });
    assert!(error.contains("a stream can be read once"), "{error}");
}

#[test]
fn an_empty_pipe_and_a_cut_one_are_errors() {
    let error = through_pipe(b"", |path| open(path, Format::Auto).err().unwrap());
    assert!(matches!(&error, TraceError::Refused(text) if text.contains("the file is empty")), "{error}");
    let cut = &gzip(&champsim(0x40_1000, &[0x7000, SECOND], &[]).repeat(3_000))[..60];
    let error = through_pipe(cut, |path| {
        collect(&mut *open(path, Format::ChampSim).unwrap()).1.unwrap_err().to_string()
    });
    assert!(error.contains("damaged or cut short"), "{error}");
}
