//! Readers of other tools' traces, on files made here byte by byte.

#[allow(dead_code, unreachable_pub, reason = "each test file uses some of the helpers")]
mod common;

use std::io::Write;
use std::path::{Path, PathBuf};

use common::{collect, listing};
use pagewalk_trace::foreign::{Format, Skipped};
use pagewalk_trace::{Access, Batch, Event, ProcessId, Source, ThreadId, TraceError, info, open, record};
use pagewalk_vm::addr::VirtAddr;

fn load(address: u64, bytes: u32) -> Access {
    Access::load(VirtAddr(address), bytes)
}

fn store(address: u64, bytes: u32) -> Access {
    Access::store(VirtAddr(address), bytes)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

/// Reads `content` as `format`, from a file of that name.
fn read(name: &str, content: &[u8], format: Format) -> (Vec<Batch>, Result<(), String>, Skipped) {
    let folder = Folder::new();
    let path = folder.file(name, content);
    let mut source = open(&path, format).unwrap();
    let (batches, result) = collect(&mut *source);
    (batches, result.map_err(|error| error.to_string()), source.skipped())
}

fn accesses(batches: &[Batch]) -> Vec<Access> {
    batches.iter().flat_map(|batch| batch.accesses.clone()).collect()
}

fn instructions(batches: &[Batch]) -> u64 {
    let marks = batches.iter().flat_map(|batch| &batch.marks);
    marks.map(|mark| if let Event::Instructions(count) = mark.event { count } else { 0 }).sum()
}

// ---- ChampSim and CloudSuite ----

fn champsim(ip: u64, loads: &[u64], stores: &[u64]) -> [u8; 64] {
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

fn cloudsuite(ip: u64, loads: &[u64], stores: &[u64], space: u16) -> [u8; 96] {
    let mut record = [0; 96];
    record[..8].copy_from_slice(&ip.to_le_bytes());
    record[8..10].copy_from_slice(&[1, 1]);
    for (at, address) in stores.iter().enumerate() {
        record[24 + at * 8..][..8].copy_from_slice(&address.to_le_bytes());
    }
    for (at, address) in loads.iter().enumerate() {
        record[56 + at * 8..][..8].copy_from_slice(&address.to_le_bytes());
    }
    record[88..90].copy_from_slice(&space.to_le_bytes());
    record
}

fn champsim_file() -> Vec<u8> {
    [
        champsim(0x40_1000, &[0x7f00_0000_1000, 0x7f00_0000_2004, 0x7f00_0000_3002, 0x7f00_0000_4fff], &[]),
        champsim(0x40_1004, &[], &[]),
        champsim(0x40_1008, &[0x7f00_0000_1000], &[0x7ffd_0000_0ff8, 0x60_0010]),
    ]
    .concat()
}

#[test]
fn champsim_loads_come_before_stores_and_sizes_follow_alignment() {
    let (batches, result, skipped) = read("t.champsimtrace", &champsim_file(), Format::Auto);
    result.unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].marks[0].event, Event::Instructions(3));
    assert_eq!(
        batches[0].accesses,
        [
            load(0x7f00_0000_1000, 8),
            load(0x7f00_0000_2004, 4),
            load(0x7f00_0000_3002, 2),
            load(0x7f00_0000_4fff, 1),
            load(0x7f00_0000_1000, 8),
            store(0x7ffd_0000_0ff8, 8),
            store(0x60_0010, 8),
        ]
    );
    assert_eq!(skipped, Skipped::default());
}

#[test]
fn long_champsim_traces_come_in_batches_with_their_own_counts() {
    let content: Vec<u8> =
        (0..20_000_u64).flat_map(|at| champsim(0x40_1000, &[0x7000_0000 + at * 8], &[])).collect();
    let (batches, result, _) = read("t.champsimtrace", &content, Format::ChampSim);
    result.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.accesses.len()).collect::<Vec<_>>(), [8192, 8192, 3616]);
    for batch in &batches {
        assert_eq!(batch.marks.len(), 1);
        assert_eq!(batch.marks[0].event, Event::Instructions(batch.accesses.len() as u64));
    }
}

#[test]
fn a_champsim_trace_without_accesses_still_has_its_instructions() {
    let (batches, result, _) = read("t", &champsim(0x40_1000, &[], &[]).repeat(5), Format::ChampSim);
    result.unwrap();
    assert_eq!((accesses(&batches).len(), instructions(&batches)), (0, 5));
}

#[test]
fn kernel_addresses_are_left_out_and_counted_and_impossible_ones_refused() {
    let content =
        [champsim(1, &[0xffff_8800_0000_1000, 0x1000], &[]), champsim(1, &[], &[0x1_0000_0000_0000])]
            .concat();
    let (batches, result, skipped) = read("t", &content, Format::ChampSim);
    assert_eq!(accesses(&batches), [load(0x1000, 8)]);
    assert_eq!(skipped.kernel_accesses, 1);
    let error = result.unwrap_err();
    assert!(error.contains("byte 64: address 0x1000000000000 is in neither half"), "{error}");
}

#[test]
fn a_champsim_trace_cut_inside_a_record_names_the_byte() {
    let content = champsim_file();
    for length in 0..content.len() {
        let (_, result, _) = read("t", &content[..length], Format::ChampSim);
        let whole = length / 64 * 64;
        match result {
            Ok(()) => assert!(length > 0 && length == whole),
            Err(error) if length == 0 => assert!(error.contains("the trace is empty"), "{error}"),
            Err(error) => {
                let expected =
                    format!("byte {whole}: the file ends inside a record: {} of 64 bytes", length - whole);
                assert!(error.contains(&expected), "{error}");
            }
        }
    }
}

#[test]
fn garbage_is_no_champsim_trace() {
    let mut content = champsim_file();
    content[64 + 8] = 2;
    let (_, result, _) = read("t", &content, Format::ChampSim);
    assert!(result.unwrap_err().contains("byte 64: branch flags 2 and 0"));
}

#[test]
fn cloudsuite_address_spaces_become_processes() {
    let content = [
        cloudsuite(0x1000, &[0x10_0000], &[0x20_0000, 0x20_0008, 0x20_0010, 0x20_0018], 300),
        cloudsuite(0x1004, &[0x10_0008], &[], 5),
        cloudsuite(0x1008, &[0x10_0010], &[], 300),
    ]
    .concat();
    let (batches, result, _) = read("cloudsuite.trace", &content, Format::Auto);
    result.unwrap();
    assert_eq!(accesses(&batches).len(), 7);
    assert_eq!(accesses(&batches)[..2], [load(0x10_0000, 8), store(0x20_0000, 8)]);
    let marks: Vec<(u32, Event)> =
        batches[0].marks.iter().map(|mark| (mark.at, mark.event.clone())).collect();
    assert_eq!(
        marks,
        [
            (0, Event::Instructions(1)),
            (5, Event::Process(ProcessId(1))),
            (5, Event::Thread(ThreadId(2))),
            (5, Event::Instructions(1)),
            (6, Event::Process(ProcessId(0))),
            (6, Event::Thread(ThreadId(1))),
            (6, Event::Instructions(1)),
        ]
    );
}

// ---- compression ----

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn xz(content: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zst(content: &[u8]) -> Vec<u8> {
    zstd::encode_all(content, 1).unwrap()
}

fn bz2(content: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

type Pack = fn(&[u8]) -> Vec<u8>;
const PACKERS: [(&str, Pack); 4] = [(".gz", gzip), (".xz", xz), (".zst", zst), (".bz2", bz2)];

#[test]
fn compressed_files_are_known_by_content_whatever_their_name() {
    let content = champsim_file();
    let (plain, ..) = read("t", &content, Format::ChampSim);
    for (suffix, pack) in PACKERS {
        for name in [format!("t.champsimtrace{suffix}"), "t.champsimtrace".to_owned()] {
            let (batches, result, _) = read(&name, &pack(&content), Format::Auto);
            result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(batches, plain, "{name}");
        }
        // Files one after the other, as `cat` makes them.
        let twice = [pack(&content), pack(&content)].concat();
        let (batches, result, _) = read("t", &twice, Format::ChampSim);
        result.unwrap_or_else(|error| panic!("two {suffix}: {error}"));
        assert_eq!(accesses(&batches).len(), 14, "two {suffix}");
    }
}

#[test]
fn a_compressed_file_cut_anywhere_is_an_error() {
    let content = champsim_file();
    for (suffix, pack) in PACKERS {
        let packed = pack(&content);
        for length in 12..packed.len() {
            let (_, result, _) = read("t", &packed[..length], Format::ChampSim);
            let error = result.expect_err(suffix);
            assert!(error.contains("of the decompressed content: "), "{suffix} cut at {length}: {error}");
        }
    }
}

#[test]
fn trailing_garbage_behind_compressed_content_is_an_error() {
    for (suffix, pack) in PACKERS {
        let packed = [pack(&champsim_file()), b"garbage!garbage!".to_vec()].concat();
        let (_, result, _) = read("t", &packed, Format::ChampSim);
        assert!(result.is_err(), "{suffix}");
    }
}

#[test]
fn a_name_that_promises_compression_must_keep_it() {
    let folder = Folder::new();
    let path = folder.file("t.champsimtrace.xz", &champsim_file());
    let error = open(&path, Format::Auto).err().unwrap().to_string();
    assert!(error.contains("named .xz but does not begin like such a file"), "{error}");
}

// ---- lackey ----

const LACKEY: &str = "==77== Lackey, an example Valgrind tool\n\
    I  04001000,3\n L 1ffe000010,8\nI  04001003,4\n S 1ffe000018,4\n M 05000ffe,10\n\
    I  04001007,2\n==77== \n";

#[test]
fn lackey_lines_become_accesses() {
    let (batches, result, _) = read("t", LACKEY.as_bytes(), Format::Auto);
    result.unwrap();
    assert_eq!(instructions(&batches), 3);
    assert_eq!(
        accesses(&batches),
        [load(0x1f_fe00_0010, 8), store(0x1f_fe00_0018, 4), load(0x500_0ffe, 16), store(0x500_0ffe, 16)]
    );
}

#[test]
fn sizes_are_fitted_to_records() {
    let text = "I  1000,1\n L 00002ff6,10\n L 00003000,100\n";
    let (batches, result, _) = read("t", text.as_bytes(), Format::Lackey);
    result.unwrap();
    // 10 bytes that end with their page stay in it; 100 bytes are two lines.
    assert_eq!(accesses(&batches), [load(0x2ff6, 8), load(0x3000, 64), load(0x3040, 64)]);
}

#[test]
fn wrong_lackey_lines_name_their_number() {
    for (line, expected) in [
        ("hello", "line 2: `hello` is no line of a lackey trace"),
        (" L 10", "line 2"),
        (" L 10,", "line 2"),
        (" L ,8", "line 2"),
        (" L 12345678901234567,8", "line 2"),
        (" X 10,8", "line 2"),
        (" L 1000,0", "line 2: an access of 0 bytes"),
        (" L 1000,99999", "line 2: an access of 99999 bytes; 1 to 16384 are allowed"),
        (" L 1234567890123,8", "line 2: address 0x1234567890123 is in neither half"),
        (" L +100,8", "line 2"),
    ] {
        let text = format!("I  1000,1\n{line}\n");
        let (_, result, _) = read("t", text.as_bytes(), Format::Lackey);
        let error = result.unwrap_err();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn a_lackey_trace_cut_inside_a_line_is_an_error() {
    let (_, result, _) = read("t", b"I  1000,1\n L 2000,12", Format::Lackey);
    let error = result.unwrap_err();
    assert!(error.contains("line 2: the last line has no line end: the file was cut short"), "{error}");
    let (_, result, _) = read("t", b"==1== nothing\n", Format::Lackey);
    assert!(result.unwrap_err().contains("the trace has no access"));
    let (_, result, _) = read("t", &[b' '; 300_000], Format::Lackey);
    assert!(result.unwrap_err().contains("line 1: a line of more than 65536 bytes"));
}

#[test]
fn lines_are_found_across_buffers() {
    let count = 40_000_u64;
    let text: String =
        (0..count).map(|at| format!("I  {at:08x},3\n L {:010x},8\n", 0x10_0000 + at * 8)).collect();
    let (batches, result, _) = read("t", text.as_bytes(), Format::Lackey);
    result.unwrap();
    assert_eq!(instructions(&batches), count);
    let expected: Vec<Access> = (0..count).map(|at| load(0x10_0000 + at * 8, 8)).collect();
    assert_eq!(accesses(&batches), expected);
}

// ---- drmemtrace ----

fn entry(kind: u16, size: u16, value: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
}

/// The records in front of the first instruction, in the order of a real trace.
fn drmemtrace_head(file_type: u64, thread: u64, process: u64) -> Vec<u8> {
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

fn drmemtrace_tail(thread: u64) -> Vec<u8> {
    [entry(28, 25, 231), entry(23, 0, thread), entry(26, 0, 0)].concat()
}

fn drmemtrace_file() -> Vec<u8> {
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

fn check_drmemtrace(batches: &[Batch], skipped: Skipped) {
    assert_eq!(
        accesses(batches),
        [
            load(0x7f00_0000_1000, 8),
            store(0x7f00_0000_2000, 4),
            load(0x7f00_0000_3000, 64),
            load(0x7f00_0000_3040, 64)
        ]
    );
    let marks: Vec<(u32, Event)> =
        batches[0].marks.iter().map(|mark| (mark.at, mark.event.clone())).collect();
    assert_eq!(
        marks,
        [
            (0, Event::Instructions(2)),
            (2, Event::Thread(ThreadId(2))),
            (2, Event::Instructions(1)),
            (4, Event::Process(ProcessId(1))),
            (4, Event::Thread(ThreadId(3))),
            (4, Event::Instructions(4)),
            (4, Event::Thread(ThreadId(1))),
            (4, Event::ThreadEnd(ThreadId(1))),
        ]
    );
    assert_eq!(skipped, Skipped { kernel_accesses: 1, prefetches: 1 });
}

#[test]
fn drmemtrace_records_become_events() {
    for content in [drmemtrace_file(), gzip(&drmemtrace_file()), zst(&drmemtrace_file())] {
        let (batches, result, skipped) = read("t.trace", &content, Format::Auto);
        result.unwrap();
        check_drmemtrace(&batches, skipped);
    }
}

fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, content) in members {
        writer.start_file(*name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_drmemtrace_archive_is_one_stream_in_order_of_its_chunks() {
    let content = drmemtrace_file();
    let (first, second) = content.split_at(16 * 12);
    // As the format has it: chunks end with a footer marker and repeat what a reader needs.
    let first = [first, &entry(28, 21, 0)].concat();
    let second = [&entry(28, 22, 16)[..], &entry(28, 2, 13_000_000_000_000_001), second].concat();
    let archive = zip_of(&[("chunk.00000001", &second), ("other", b"?"), ("chunk.00000000", &first)]);
    let (batches, result, skipped) = read("t.trace.zip", &archive, Format::Auto);
    result.unwrap();
    check_drmemtrace(&batches, skipped);

    let cut = zip_of(&[("chunk.00000000", &first), ("chunk.00000001", &second[..50])]);
    let (_, result, _) = read("t.trace.zip", &cut, Format::Auto);
    let error = result.unwrap_err();
    assert!(error.contains("member `chunk.00000001`, byte 48: the file ends inside a record"), "{error}");

    let (_, result, _) = read("t.zip", &zip_of(&[("readme", b"x")]), Format::Auto);
    assert!(result.unwrap_err().contains("no member `chunk.00000000`"));
    for length in [30, archive.len() / 2, archive.len() - 1] {
        let (_, result, _) = read("t.trace.zip", &archive[..length], Format::Auto);
        assert!(result.unwrap_err().contains("the zip archive is damaged or cut short"), "cut at {length}");
    }
}

#[test]
fn filtered_and_empty_kinds_of_drmemtrace_are_refused() {
    for (bit, why) in [
        (0x01, "filtered"),
        (0x80, "instructions are filtered"),
        (0x100, "data accesses are filtered"),
        (0x2000, "filtered in part"),
        (0x04, "instructions only"),
        (0x8000, "kernel instructions only"),
        (0x4000, "templates"),
    ] {
        let content = [drmemtrace_head(0xe40 | bit, 1, 1), drmemtrace_tail(1)].concat();
        let (_, result, _) = read("t", &content, Format::Drmemtrace);
        let error = result.unwrap_err();
        assert!(error.contains("byte 24: the trace cannot be used: ") && error.contains(why), "{error}");
    }
}

#[test]
fn versions_are_checked() {
    for (version, good) in [(1, false), (2, true), (7, true), (8, false), (u64::MAX, false)] {
        let content = [entry(25, 0, version), entry(26, 0, 0)].concat();
        let (_, result, _) = read("t", &content, Format::Drmemtrace);
        assert_eq!(result.is_ok(), good, "version {version}: {result:?}");
    }
}

#[test]
fn damaged_drmemtrace_records_name_their_byte() {
    let head = drmemtrace_head(0xe40, 1, 1);
    let place = format!("byte {}: ", head.len());
    for (record, expected) in [
        (entry(50, 0, 0), "a record of type 50"),
        (entry(999, 0, 0), "a record of type 999"),
        (entry(0, 0, 0x1000), "an access of 0 bytes"),
        (entry(1, 65_535, 0x1000), "an access of 65535 bytes"),
        (entry(0, 8, 1 << 60), "neither half"),
        (entry(17, 9, 0), "a bundle of 9"),
        (entry(47, 9, 0), "an encoding of 9 bytes"),
        (entry(25, 0, 7), "a second header"),
        (entry(28, 12, 99), "drmemtrace version 99"),
    ] {
        let content = [&head[..], &record, &drmemtrace_tail(1)].concat();
        let (_, result, _) = read("t", &content, Format::Drmemtrace);
        let error = result.unwrap_err();
        assert!(error.contains(&place) && error.contains(expected), "{error}");
    }
    let (_, result, _) =
        read("t", &[head.clone(), drmemtrace_tail(1), entry(10, 1, 1)].concat(), Format::Drmemtrace);
    assert!(result.unwrap_err().contains("records behind the footer"));
    let (_, result, _) = read("t", &entry(22, 0, 1), Format::Drmemtrace);
    assert!(result.unwrap_err().contains("byte 0: the first record has type 22"));
    let (_, result, _) = read("t", b"", Format::Drmemtrace);
    assert!(result.unwrap_err().contains("the trace is empty"));
}

#[test]
fn a_drmemtrace_file_cut_anywhere_is_an_error() {
    let content = drmemtrace_file();
    for length in 0..content.len() {
        let (_, result, _) = read("t", &content[..length], Format::Drmemtrace);
        let error = result.unwrap_err();
        assert!(error.contains("byte "), "cut at {length}: {error}");
    }
}

// ---- detection, summary, conversion ----

#[test]
fn what_cannot_be_told_says_how_to_name_it() {
    let folder = Folder::new();
    let path = folder.file("mystery.bin", &[0x5a; 4096]);
    let error = open(&path, Format::Auto).err().unwrap().to_string();
    assert!(error.contains("mystery.bin: cannot tell the trace's format"), "{error}");
    assert!(error.contains("--input-format pwt, champsim, cloudsuite, drmemtrace or lackey"), "{error}");
    for (content, expected) in [(&b""[..], "the file is empty"), (b"\0\0\0\0", "cannot tell")] {
        let path = folder.file("t", content);
        let error = open(&path, Format::Auto).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = open(folder.0.path(), Format::Auto).err().unwrap().to_string();
    assert!(error.contains("is a folder"), "{error}");
    let error = open(&folder.0.path().join("none"), Format::Auto).err().unwrap();
    assert!(matches!(error, TraceError::Io { .. }) && error.to_string().contains("none"), "{error}");
}

#[test]
fn the_name_decides_between_champsim_and_cloudsuite_where_both_fit() {
    // 192 bytes are three records of one and two of the other; here every field of both makes sense.
    let content =
        [champsim(0x1000, &[], &[]), champsim(0x2000, &[0x5000], &[]), champsim(0x3000, &[], &[])].concat();
    let folder = Folder::new();
    let format = |name: &str| open(&folder.file(name, &content), Format::Auto).map(|source| source.format());
    assert!(format("t.trace").unwrap_err().to_string().contains("cannot tell the trace's format"));
    assert_eq!(format("x.champsimtrace").unwrap(), Format::ChampSim);
    assert_eq!(format("x.cloudsuite.trace").unwrap(), Format::CloudSuite);
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
    }
    let error = "sift".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("`sift` is no trace format; known are auto, pwt, champsim"), "{error}");
}

#[test]
fn a_converted_trace_is_the_same_stream() {
    let folder = Folder::new();
    for (name, content) in
        [("a", champsim_file()), ("b", drmemtrace_file()), ("c", LACKEY.as_bytes().to_vec())]
    {
        let input = folder.file(name, &content);
        let output = folder.0.path().join(format!("{name}.pwt"));
        let converted = pagewalk_trace::convert(&input, Format::Auto, &output).unwrap();
        let (expected, _) = collect(&mut *open(&input, Format::Auto).unwrap());
        let mut source = open(&output, Format::Auto).unwrap();
        assert_eq!(source.format(), Format::Pwt);
        assert_eq!(source.info().expected_accesses, Some(converted.totals.accesses));
        let (found, result) = collect(&mut *source);
        result.unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_conversion_that_fails_leaves_nothing_behind() {
    let folder = Folder::new();
    let input = folder.file("t.champsimtrace", &champsim_file()[..100]);
    let output = folder.0.path().join("t.pwt");
    assert!(pagewalk_trace::convert(&input, Format::ChampSim, &output).is_err());
    assert_eq!(listing(folder.0.path()), ["t.champsimtrace"]);
}

#[test]
fn a_compressed_pwt_is_refused_with_the_reason() {
    let folder = Folder::new();
    let path = folder.0.path().join("t.pwt");
    let mut source = open(&folder.file("t", &champsim_file()), Format::ChampSim).unwrap();
    record(&mut *source, &path).unwrap();
    let packed = folder.file("t.pwt.zst", &zst(&std::fs::read(&path).unwrap()));
    let error = open(&packed, Format::Auto).err().unwrap().to_string();
    assert!(error.contains("a compressed .pwt; decompress it"), "{error}");
}

#[test]
fn the_summary_counts_everything() {
    let folder = Folder::new();
    let summary = info(&folder.file("t.trace", &drmemtrace_file()), Format::Auto).unwrap();
    assert_eq!((summary.format.as_str(), summary.version), ("drmemtrace", None));
    assert_eq!(summary.accesses, 4);
    assert_eq!(summary.loads.iter().collect::<Vec<_>>(), [(&8, &1), (&64, &2)]);
    assert_eq!(summary.stores.iter().collect::<Vec<_>>(), [(&4, &1)]);
    assert_eq!(summary.instructions, Some(7));
    assert_eq!((summary.threads, summary.processes), (2, 1));
    assert_eq!((summary.pages, summary.footprint_bytes), (3, 3 * 4096));
    assert_eq!((summary.skipped_kernel_accesses, summary.skipped_prefetches), (1, 1));
    assert_eq!(
        summary.marks.iter().map(|(kind, count)| (*kind, *count)).collect::<Vec<_>>(),
        [("process", 1), ("thread", 3), ("thread-end", 1)]
    );
    let bytes = drmemtrace_file().len() as f64;
    assert_eq!(summary.bytes_per_access, Some(bytes / 4.0));
    // An access over a page's end touches two pages.
    let summary = info(&folder.file("l", b"I  1000,1\n L 00001ffc,8\n"), Format::Lackey).unwrap();
    assert_eq!(summary.pages, 2);
    let summary = info(&folder.file("e", &champsim(1, &[], &[])), Format::ChampSim).unwrap();
    assert_eq!((summary.accesses, summary.bytes_per_access), (0, None));
}

#[test]
fn a_sink_that_has_enough_ends_the_run_without_an_error() {
    let folder = Folder::new();
    let mut content = champsim(0x40_1000, &[0x7000], &[]).repeat(20_000);
    content.push(0);
    let mut source = open(&folder.file("t", &content), Format::ChampSim).unwrap();
    let mut seen = 0;
    let mut sink = |batch: &mut Batch| {
        seen += batch.accesses.len();
        std::ops::ControlFlow::Break(())
    };
    source.run(&mut sink).unwrap();
    assert_eq!(seen, Batch::FULL);
    let _: &dyn Source = &*source;
}

/// The reader against the tool itself.
#[test]
fn a_trace_of_the_installed_lackey_is_read() {
    let folder = Folder::new();
    let log = folder.0.path().join("log");
    let run = std::process::Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--basic-counts=yes"])
        .arg(format!("--log-file={}", log.display()))
        .arg("/bin/true")
        .status();
    if !run.is_ok_and(|status| status.success()) {
        println!("skipped: valgrind is not installed or cannot run here");
        return;
    }
    let text = String::from_utf8(std::fs::read(&log).unwrap()).unwrap();
    let summary = info(Path::new(&log), Format::Auto).unwrap();
    assert_eq!(summary.format, "lackey");
    // Lackey's own sum of guest instructions stands at the end of the log.
    let line = text.lines().find(|line| line.contains("guest instrs:")).unwrap();
    let digits: String = line.rsplit(':').next().unwrap().chars().filter(char::is_ascii_digit).collect();
    assert_eq!(summary.instructions, Some(digits.parse().unwrap()));
    let count = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count() as u64;
    assert_eq!(summary.loads.values().sum::<u64>(), count(" L ") + count(" M "));
    assert_eq!(summary.stores.values().sum::<u64>(), count(" S ") + count(" M "));
}
