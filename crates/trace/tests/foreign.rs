//! Readers of other tools' traces, on files made here byte by byte.

use std::path::Path;

use pagewalk_trace::foreign::{Format, Kind, ReadOptions, Remarks};
use pagewalk_trace::{
    Access, Batch, Event, Mark, ProcessId, Source, ThreadId, TraceError, info, open, record,
};

use pagewalk_vm::random::SplitMix64;

use crate::common::*;

// ---- ChampSim and CloudSuite ----

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

/// The marks of a batch without the descriptions of blocks, as if there were no blocks.
fn without_code(batch: &Batch) -> Vec<Mark> {
    let marks = batch.marks.iter().filter(|mark| !matches!(mark.event, Event::Code(_)));
    marks.map(|mark| Mark { blocks: 0, ..mark.clone() }).collect()
}

#[test]
fn champsim_loads_come_before_stores_and_sizes_follow_alignment() {
    let (batches, result, remarks) = read("t.champsimtrace", &champsim_file(), Format::Auto);
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
    assert!(remarks.is_empty(), "{remarks:?}");
}

#[test]
fn long_champsim_traces_come_in_batches_with_their_own_counts() {
    let content: Vec<u8> =
        (0..20_000_u64).flat_map(|at| champsim(0x40_1000, &[0x7000_0000 + at * 8], &[])).collect();
    let (batches, result, _) = read("t.champsimtrace", &content, Format::ChampSim);
    result.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.accesses.len()).collect::<Vec<_>>(), [8192, 8192, 3616]);
    for batch in &batches {
        assert_eq!(
            *without_code(batch),
            [Mark::at(0, Event::Instructions(batch.accesses.len() as u64))],
            "beside the descriptions of blocks"
        );
        assert_eq!(batch.blocks.len(), batch.accesses.len());
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
    let (batches, result, remarks) = read("t", &content, Format::ChampSim);
    assert_eq!(accesses(&batches), [load(0x1000, 8)]);
    assert_eq!(remarks.left_out(Kind::KernelAddresses), 1);
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
        without_code(&batches[0]).into_iter().map(|mark| (mark.at, mark.event)).collect();
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
        (" L 1000,99999", "line 2: an access of 99999 bytes; at most 16384 are allowed"),
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

fn check_drmemtrace(batches: &[Batch], remarks: &Remarks) {
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
        without_code(&batches[0]).into_iter().map(|mark| (mark.at, mark.event)).collect();
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
    let left_out = |kind| remarks.left_out(kind);
    assert_eq!((left_out(Kind::KernelAddresses), left_out(Kind::Prefetches)), (1, 1));
    assert_eq!((left_out(Kind::Encodings), left_out(Kind::UnfetchedInstructions)), (0, 1));
}

#[test]
fn drmemtrace_records_become_events() {
    for content in [drmemtrace_file(), gzip(&drmemtrace_file()), zst(&drmemtrace_file())] {
        let (batches, result, remarks) = read("t.trace", &content, Format::Auto);
        result.unwrap();
        check_drmemtrace(&batches, &remarks);
    }
}

#[test]
fn a_drmemtrace_archive_is_one_stream_in_order_of_its_chunks() {
    let content = drmemtrace_file();
    let (first, second) = content.split_at(16 * 12);
    // As the format has it: chunks end with a footer marker and repeat what a reader needs.
    let first = [first, &entry(28, 21, 0)].concat();
    let second = [&entry(28, 22, 16)[..], &entry(28, 2, 13_000_000_000_000_001), second].concat();
    let archive = zip_of(&[("chunk.00000001", &second), ("other", b"?"), ("chunk.00000000", &first)]);
    let (batches, result, remarks) = read("t.trace.zip", &archive, Format::Auto);
    result.unwrap();
    check_drmemtrace(&batches, &remarks);
    assert_eq!(remarks.left_out(Kind::OtherFiles), 1);

    let cut = zip_of(&[("chunk.00000000", &first), ("chunk.00000001", &second[..50])]);
    let (_, result, _) = read("t.trace.zip", &cut, Format::Auto);
    let error = result.unwrap_err();
    assert!(error.contains("member `chunk.00000001`, byte 48: the file ends inside a record"), "{error}");

    let folder = Folder::new();
    let refusal =
        |content: &[u8]| open(&folder.file("t.zip", content), Format::Auto).err().unwrap().to_string();
    let error = refusal(&zip_of(&[("readme", b"x")]));
    assert!(error.contains("a zip archive of 1 members (readme) without `chunk.00000000`"), "{error}");
    let error = refusal(&archive[..29]);
    assert!(error.contains("byte 29: the zip archive is damaged or cut short"), "{error}");
    // A changed byte of a chunk's compressed content.
    let stored = zip_of(&[("chunk.00000000", &content)]);
    for at in [60, 100, 200] {
        let mut damaged = stored.clone();
        damaged[at] ^= 0x10;
        assert!(read("t.trace.zip", &damaged, Format::Auto).1.is_err(), "byte {at}");
    }
}

/// A zip archive has its directory at the end: a cut one gave nothing.
#[test]
fn the_members_of_a_cut_archive_are_read_up_to_the_cut() {
    let records = |instructions: u64| -> Vec<u8> {
        let all =
            (0..instructions).flat_map(|n| [entry(10, 4, 0x40_1000 + 4 * n), entry(0, 8, 0x7000 + 64 * n)]);
        all.flatten().collect()
    };
    let content = drmemtrace_file();
    let (first, second) = content.split_at(16 * 12);
    let first = [first, &records(2_000)[..]].concat();
    let members: [(&str, &[u8]); 2] = [("chunk.00000000", &first), ("chunk.00000001", second)];
    for archive in [zip_of(&members), zip_with_descriptors(&members)] {
        let accesses_of = |content: &[u8]| {
            let (batches, result, _) = read("t.zip", content, Format::Auto);
            (accesses(&batches).len(), result)
        };
        let (all, result) = accesses_of(&archive);
        result.unwrap();
        assert!(all > 2_000, "{all}");
        let mut most = 0;
        for length in (120..archive.len()).step_by(37).chain([archive.len() - 1]) {
            let (count, result) = accesses_of(&archive[..length]);
            let error = result.unwrap_err();
            assert!(error.contains("damaged or cut short"), "cut at {length}: {error}");
            assert!(most <= count && count <= all, "cut at {length}: {count} after {most}");
            most = count;
        }
        assert_eq!(most, all, "only the directory is cut");
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
    for (version, good) in [(0, false), (1, true), (2, true), (7, true), (8, false), (u64::MAX, false)] {
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

// ---- what is left out, and what is assumed ----

/// A record that does not become an event is counted. A load of one byte at address 0, which is the record that stands for no
/// access, once disappeared without a word.
#[test]
fn whatever_a_reader_leaves_out_is_counted() {
    let text = "==1== x\n\n L 2000,4\nI  1000,1\n L 0000,1\n L 0000,8\n S 0000,1\n L 3001,0\n";
    let (batches, result, remarks) = read("t", text.as_bytes(), Format::Auto);
    result.unwrap();
    assert_eq!(accesses(&batches), [load(0x2000, 4), load(0, 8), store(0, 1), load(0x3001, 1)]);
    assert_eq!((remarks.left_out(Kind::NullLoads), remarks.left_out(Kind::Remarks)), (1, 2));
    assert_eq!((remarks.assumed(Kind::UnknownSizes), remarks.assumed(Kind::EarlyAccesses)), (1, 1));
    let lines = remarks.lines();
    assert_eq!(lines[0], ("left out", "1 1-byte loads at address 0".to_owned()));
    assert_eq!(lines.len(), 4, "{lines:?}");

    let body = [
        entry(0, 8, 0x1000),
        entry(10, 4, 0x40_1000),
        entry(18, 64, 0x40_0000),
        entry(20, 64, 0x40_0000),
        entry(27, 64, 0x40_0000),
        entry(33, 64, 0x40_0000),
        entry(30, 4, 0x40_1000),
        entry(28, 30, 0),
    ]
    .concat();
    let content = [drmemtrace_head(0xe40, 1, 1), body, drmemtrace_tail(1)].concat();
    let (batches, result, remarks) = read("t", &content, Format::Auto);
    result.unwrap();
    assert_eq!((accesses(&batches).len(), instructions(&batches)), (1, 1));
    // The head has four markers that mean nothing here, the body one, the tail one.
    for (kind, count) in
        [(Kind::Flushes, 2), (Kind::Prefetches, 2), (Kind::UnfetchedInstructions, 1), (Kind::Markers, 6)]
    {
        assert_eq!(remarks.left_out(kind), count, "{kind:?}");
    }
    assert_eq!(remarks.assumed(Kind::EarlyAccesses), 1);
    assert_eq!(remarks.facts["page size"], "4096 bytes");
}

/// `xsave` and its kin leave data records of size 0, and 9 of 15 public samples have some. They were an error.
#[test]
fn a_drmemtrace_access_of_size_0_is_one_of_unknown_size() {
    let body = [entry(10, 4, 0x40_1000), entry(1, 0, 0x7000_0040), entry(0, 0, 0x7000_0041)].concat();
    let content = [drmemtrace_head(0xe40, 1, 1), body, drmemtrace_tail(1)].concat();
    let (batches, result, remarks) = read("t", &content, Format::Auto);
    result.unwrap();
    assert_eq!(accesses(&batches), [store(0x7000_0040, 8), load(0x7000_0041, 1)]);
    assert_eq!(remarks.assumed(Kind::UnknownSizes), 2);
}

// ---- the kernel's parts ----

/// A system call with a kernel address and a user address, and a context switch.
fn drmemtrace_with_kernel() -> Vec<u8> {
    let body = [
        entry(10, 4, 0x40_1000),
        entry(0, 8, 0x7f00_0000_1000),
        entry(28, 27, 1),
        entry(10, 4, 0xffff_ffff_8100_0000),
        entry(1, 8, 0xffff_8880_0000_1000),
        entry(0, 8, 0x7f00_0000_2000),
        entry(28, 28, 1),
        entry(10, 4, 0x40_1004),
        entry(28, 34, 1),
        entry(10, 4, 0xffff_ffff_8100_0000),
        entry(10, 4, 0xffff_ffff_8100_0004),
        entry(28, 35, 1),
        entry(1, 8, 0x7f00_0000_3000),
    ]
    .concat();
    [drmemtrace_head(0x1e40, 1, 1), body, drmemtrace_tail(1)].concat()
}

#[test]
fn kernel_parts_are_told_apart_and_left_out() {
    let (batches, result, remarks) = read("t", &drmemtrace_with_kernel(), Format::Auto);
    result.unwrap();
    assert_eq!(accesses(&batches), [load(0x7f00_0000_1000, 8), store(0x7f00_0000_3000, 8)]);
    assert_eq!(instructions(&batches), 2);
    for (kind, count) in [(Kind::KernelParts, 2), (Kind::KernelInstructions, 3), (Kind::KernelAccesses, 2)] {
        assert_eq!(remarks.left_out(kind), count, "{kind:?}");
    }
    assert_eq!(remarks.left_out(Kind::KernelAddresses), 0);
}

#[test]
fn kernel_parts_are_events_if_asked_for() {
    let options = ReadOptions { format: Format::Auto, kernel: true };
    let (batches, result, remarks) = read("t", &drmemtrace_with_kernel(), options);
    result.unwrap();
    assert_eq!(
        accesses(&batches),
        [
            load(0x7f00_0000_1000, 8),
            store(0x8880_0000_1000, 8),
            load(0x7f00_0000_2000, 8),
            store(0x7f00_0000_3000, 8)
        ]
    );
    assert_eq!(instructions(&batches), 5);
    assert_eq!(
        (remarks.assumed(Kind::KernelInstructions), remarks.left_out(Kind::KernelInstructions)),
        (3, 0)
    );
    // Where a program's addresses use the same bit, the two cannot be kept apart.
    let content =
        [drmemtrace_head(0x1e40, 1, 1), entry(10, 4, 1), entry(0, 8, 0xffff_1234_5678), drmemtrace_tail(1)]
            .concat();
    let error = read("t", &content, options).1.unwrap_err();
    assert!(
        error.contains("address 0xffff12345678 cannot be told apart") && error.contains("without --kernel"),
        "{error}"
    );
    assert!(read("t", &content, Format::Auto).1.is_ok());
}

#[test]
fn kernel_instructions_without_accesses_do_not_spoil_a_trace() {
    let content =
        [drmemtrace_head(0x8e40, 1, 1), entry(10, 4, 1), entry(0, 8, 0x1000), drmemtrace_tail(1)].concat();
    let (batches, result, remarks) = read("t", &content, Format::Auto);
    result.unwrap();
    assert_eq!(accesses(&batches), [load(0x1000, 8)]);
    assert!(remarks.notes[0].contains("no data accesses"), "{remarks:?}");
}

// ---- gem5 ----

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn gem5_packet(command: u64, address: u64, bytes: u64) -> Vec<u8> {
    let fields = [(1, 1000), (2, command), (3, address), (4, bytes), (6, 77)];
    let message: Vec<u8> =
        fields.iter().flat_map(|&(tag, value)| [varint(tag << 3), varint(value)].concat()).collect();
    [varint(message.len() as u64), message].concat()
}

fn gem5_file() -> Vec<u8> {
    let name = b"system.monitor";
    let header = [&[0x0a, name.len() as u8][..], name, &[0x18], &varint(1_000_000_000_000)].concat();
    [
        b"gem5".to_vec(),
        varint(header.len() as u64),
        header,
        gem5_packet(1, 0x8000_0040, 64),
        gem5_packet(4, 0x8000_1000, 8),
        gem5_packet(7, 0x8000_2000, 64),
        gem5_packet(1, 0, 0),
    ]
    .concat()
}

#[test]
fn gem5_read_and_write_requests_are_accesses() {
    for content in [gem5_file(), gzip(&gem5_file())] {
        let (batches, result, remarks) = read("t.trc", &content, Format::Auto);
        result.unwrap();
        assert_eq!(accesses(&batches), [load(0x8000_0040, 64), store(0x8000_1000, 8), load(0, 8)]);
        assert!(batches.iter().all(|batch| batch.marks.is_empty()));
        assert_eq!((remarks.left_out(Kind::OtherPackets), remarks.assumed(Kind::UnknownSizes)), (1, 1));
        assert!(remarks.notes[0].contains("`system.monitor`"), "{remarks:?}");
    }
    let folder = Folder::new();
    let summary = info(&folder.file("t", &gem5_file()), Format::Auto).unwrap();
    assert_eq!((summary.format.as_str(), summary.instructions), ("gem5", None));
}

#[test]
fn a_gem5_trace_cut_inside_a_message_is_an_error() {
    let content = gem5_file();
    let whole = [0, 1, 2, 3].map(|packets| {
        let last = [gem5_packet(1, 0, 0), gem5_packet(7, 0x8000_2000, 64), gem5_packet(4, 0x8000_1000, 8)];
        content.len() - last[..packets].iter().map(Vec::len).sum::<usize>()
    });
    for length in 5..content.len() {
        let (_, result, _) = read("t", &content[..length], Format::Gem5);
        let header_only = whole[3] - gem5_packet(1, 0x8000_0040, 64).len();
        assert_eq!(
            result.is_ok(),
            whole.contains(&length) || length == header_only,
            "cut at {length}: {result:?}"
        );
    }
    for (tail, expected) in [
        (vec![0xff; 10], "a message's length of more than nine bytes"),
        (vec![0xff, 0xff, 0xff, 0x7f], "a message of 268435455 bytes"),
        (vec![2, 0xff, 0xff], "no gem5 message"),
        (gem5_packet(1, 1 << 50, 8), "neither half"),
    ] {
        let error = read("t", &[content.clone(), tail].concat(), Format::Gem5).1.unwrap_err();
        assert!(error.contains(&format!("byte {}: ", content.len())) && error.contains(expected), "{error}");
    }
}

// ---- pinatrace ----

#[test]
fn pinatrace_lines_are_accesses() {
    let text = "#\n# Memory Access Trace Generated By Pin\n#\n0x401000: R 0x7ffd1000  8 0x2a\n0x401004: W 0x7ffd2000  4 0x1\n\
                0x401004: P 0x7ffd2000\nW 0x7ffd3004\n#eof\n";
    let (batches, result, remarks) = read("pinatrace.out", text.as_bytes(), Format::Auto);
    result.unwrap();
    assert_eq!(accesses(&batches), [load(0x7ffd_1000, 8), store(0x7ffd_2000, 4), store(0x7ffd_3004, 4)]);
    assert!(batches.iter().all(|batch| batch.marks.is_empty()));
    assert_eq!((remarks.left_out(Kind::Prefetches), remarks.left_out(Kind::Remarks)), (1, 3));
    assert!(remarks.notes.is_empty(), "{remarks:?}");

    let (_, result, remarks) = read("t", b"0x1: R 0x2000\n", Format::Auto);
    result.unwrap();
    assert!(remarks.notes[0].contains("does not end with `#eof`"), "{remarks:?}");
    for (text, expected) in [
        ("0x1: R 0x2000\n0x1: R 0x20", "line 2: the last line has no line end"),
        ("0x1: R 0x2000\nhello\n", "line 2: `hello` is no line of a pinatrace"),
        ("# nothing\n#eof\n", "line 1: the trace has no access"),
        ("0x1: R 0x2000 99999\n", "line 1: an access of 99999 bytes"),
    ] {
        let error = read("t", text.as_bytes(), Format::Pinatrace).1.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

// ---- detection, summary, conversion ----

#[test]
fn what_cannot_be_told_says_what_it_looks_like_and_what_is_read() {
    let folder = Folder::new();
    let refusal = |name: &str, content: &[u8]| {
        open(&folder.file(name, content), Format::Auto)
            .err()
            .unwrap_or_else(|| panic!("{name} is read"))
            .to_string()
    };
    let error = refusal("mystery.bin", &[0x5a; 4096]);
    assert!(
        error.contains("mystery.bin: cannot tell the trace's format from its content, which is text"),
        "{error}"
    );
    assert!(
        error.contains("pwt, champsim, cloudsuite, drmemtrace, lackey, gem5 and pinatrace are read"),
        "{error}"
    );
    assert!(error.contains(".gz .xz .zst .bz2 .lz4 .sz") && error.contains("--input-format"), "{error}");
    let elf = [b"\x7fELF\x02\x01\x01".to_vec(), vec![0; 100]].concat();
    for (content, expected) in [
        (b"".to_vec(), "nothing: the file is empty"),
        (vec![0; 4], "zeros only"),
        (vec![0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9], "binary and begins with the bytes ff 01 02 03 04 05 06 07"),
        (elf.clone(), "an ELF file"),
        (gzip(&elf), "compressed by gzip, and inside an ELF file"),
        (
            xz(b"Dear reader,\nthis is no trace.\n"),
            "compressed by xz, and inside text that begins with `Dear reader,`",
        ),
        (gzip(b""), "compressed by gzip, and inside empty"),
        (b"\x1f\x9d\x90abc".to_vec(), "compressed by compress (.Z)"),
        (b"7z\xbc\xaf\x27\x1c\0\0".to_vec(), "a 7-Zip archive"),
        (b"PERFILE2".to_vec(), "a recording of perf"),
    ] {
        let error = refusal("t", &content);
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let error = open(folder.0.path(), Format::ChampSim)
        .unwrap()
        .run(&mut |_: &mut Batch| std::ops::ControlFlow::Continue(()));
    assert!(error.unwrap_err().to_string().contains("is a folder; only drmemtrace is read from one"));
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

/// A reader of any format answers or refuses whatever it finds, and its refusal names the file.
#[test]
fn each_format_reads_or_refuses_any_content() {
    let mut random = SplitMix64::new(1);
    let folder = Folder::new();
    for format in Format::all() {
        for length in [0, 1, 7, 64, 96, 1_000, 70_000] {
            for letters in [256, 128, 12] {
                let content: Vec<u8> =
                    (0..length).map(|_| b'0'.wrapping_add(random.below(letters) as u8)).collect();
                let path = folder.file("any-content", &content);
                let end = open(&path, format).map(|mut source| collect(&mut *source).1);
                let error = match end {
                    Err(error) => error.to_string(),
                    Ok(Err(error)) => error.to_string(),
                    Ok(Ok(())) => continue,
                };
                assert!(error.contains("any-content"), "{format}: {error}");
            }
        }
    }
}

#[test]
fn formats_have_names() {
    for format in Format::all() {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
    }
    let error = "sift".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("`sift` is no trace format; known are auto, pwt, "), "{error}");
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

/// A `.pwt` is read from its end, so a compressed one goes through a temporary file.
#[test]
fn a_compressed_pwt_reads_like_the_plain_one() {
    let folder = Folder::new();
    let path = folder.0.path().join("t.pwt");
    let mut source = open(&folder.file("t", &champsim_file()), Format::ChampSim).unwrap();
    record(&mut *source, &path).unwrap();
    let (expected, _) = collect(&mut *open(&path, Format::Auto).unwrap());
    let packed = folder.file("t.pwt.zst", &zst(&std::fs::read(&path).unwrap()));
    let (found, result) = collect(&mut *open(&packed, Format::Auto).unwrap());
    result.unwrap();
    assert_eq!(found, expected);
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
