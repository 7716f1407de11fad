//! Folders of drmemtrace: files of threads and of cores, their schedules, and the samples that DynamoRIO publishes.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pagewalk_trace::foreign::{Format, Kind, ReadOptions};
use pagewalk_trace::{Batch, Event, Remarks, info, open};

use crate::common::*;

const TIME: u64 = 13_000_000_000_000_000;

/// The time and core markers at the beginning of a slice.
fn slice(time: u64, core: u64) -> Vec<u8> {
    [entry(28, 2, TIME + time), entry(28, 3, core)].concat()
}

/// Instructions with a load each, of 8 bytes from `address` on.
fn loads(address: u64, count: u64) -> Vec<u8> {
    (0..count)
        .flat_map(|at| [entry(10, 4, 0x40_1000 + at * 4), entry(0, 8, address + at * 8)].concat())
        .collect()
}

/// The file of a thread: a head without a time, slices, an end.
fn thread(id: u64, slices: &[Vec<u8>]) -> Vec<u8> {
    let head = [entry(25, 0, 7), entry(28, 12, 7), entry(28, 9, 0xe40), entry(22, 0, id), entry(24, 0, 500)]
        .concat();
    [head, slices.concat(), entry(23, 0, id), entry(26, 0, 0)].concat()
}

fn slices_of(list: &[[u64; 4]]) -> Vec<u8> {
    list.iter()
        .flat_map(|&[thread, time, core, instructions]| [thread, TIME + time, core, instructions])
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// Two threads in turns: 0x1000, 0x2000, 0x3000 are the first one's addresses, 0x8000 and 0x9000 the other one's.
fn two_threads() -> [Vec<u8>; 2] {
    [
        thread(
            501,
            &[slice(0, 0), loads(0x1000, 2), slice(30, 0), loads(0x2000, 3), slice(40, 1), loads(0x3000, 1)],
        ),
        thread(502, &[slice(10, 1), loads(0x8000, 2), slice(30, 1), loads(0x9000, 1)]),
    ]
}

/// The page of every access, without repetitions: the order in which the slices came.
fn order(batches: &[Batch]) -> Vec<u64> {
    let mut pages: Vec<u64> = accesses(batches).iter().map(|access| access.addr().0 & !0xfff).collect();
    pages.dedup();
    pages
}

fn read_folder(folder: &Path, options: impl Into<ReadOptions>) -> (Vec<Batch>, Result<(), String>, Remarks) {
    let mut source = open(folder, options).unwrap();
    let (batches, result) = collect(&mut *source);
    (batches, result.map_err(|error| error.to_string()), source.remarks())
}

fn write_files(folder: &Folder, suffix: &str, pack: impl Fn(&[u8]) -> Vec<u8>) {
    for (content, id) in two_threads().iter().zip([501, 502]) {
        folder.file(&format!("drmemtrace.app.{id}.1234.trace{suffix}"), &pack(content));
    }
}

/// A folder was refused; a trace is one.
#[test]
fn files_of_threads_are_merged_by_their_timestamps() {
    type Named = (&'static str, fn(&[u8]) -> Vec<u8>);
    let zipped: Named = (".zip", |content| zip_of(&[("chunk.00000000", content)]));
    let plain: Named = ("", <[u8]>::to_vec);
    for (suffix, pack) in PACKERS.into_iter().chain([zipped, plain]) {
        let folder = Folder::new();
        write_files(&folder, suffix, pack);
        folder.file("modules.log", b"Module Table: version 5\n");
        folder.file("notes.txt", b"mine");
        let (batches, result, remarks) = read_folder(folder.0.path(), Format::Auto);
        result.unwrap();
        // At time 30 both go on; the first file's slice comes first.
        assert_eq!(order(&batches), [0x1000, 0x8000, 0x2000, 0x9000, 0x3000], "{suffix}");
        assert_eq!((accesses(&batches).len(), instructions(&batches)), (9, 9));
        assert_eq!((&*remarks.facts["files"], &*remarks.facts["merged by"]), ("2", "timestamps"));
        assert_eq!(remarks.left_out(Kind::OtherFiles), 1, "notes.txt");
    }
}

#[test]
fn the_folder_around_a_trace_is_the_trace() {
    let folder = Folder::new();
    write_files(&folder, ".gz", gzip);
    let (expected, ..) = read_folder(folder.0.path(), Format::Auto);
    let outer = Folder::new();
    std::fs::create_dir(outer.0.path().join("trace")).unwrap();
    std::fs::create_dir(outer.0.path().join("raw")).unwrap();
    for name in listing(folder.0.path()) {
        std::fs::copy(folder.0.path().join(&name), outer.0.path().join("trace").join(name)).unwrap();
    }
    let (found, result, _) = read_folder(outer.0.path(), Format::Auto);
    result.unwrap();
    assert_eq!(found, expected);
    let summary = info(outer.0.path(), Format::Auto).unwrap();
    let bytes: u64 = listing(folder.0.path())
        .iter()
        .map(|name| folder.0.path().join(name).metadata().unwrap().len())
        .sum();
    assert_eq!((summary.file_bytes, summary.threads, &*summary.format), (bytes, 2, "drmemtrace"));
}

/// Archives of a folder, as DynamoRIO's samples come.
#[test]
fn a_folder_in_a_tar_archive_is_read() {
    let folder = Folder::new();
    write_files(&folder, ".zip", |content| zip_of(&[("chunk.00000000", content)]));
    let (expected, ..) = read_folder(folder.0.path(), Format::Auto);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_dir_all("drmemtrace.app.dir/trace", folder.0.path()).unwrap();
    let archive = archive.into_inner().unwrap();
    for (name, content) in
        [("t.tar", archive.clone()), ("t.tar.xz", xz(&archive)), ("t.tar.gz", gzip(&archive))]
    {
        let (batches, result, _) = read(name, &content, Format::Auto);
        result.unwrap();
        assert_eq!(batches, expected, "{name}");
    }
    // Inside the header of the folder, and inside the first file.
    let cut = |length: usize| folder.file("cut.tar", &archive[..length]);
    let error = open(&cut(300), Format::Auto).err().unwrap().to_string();
    assert!(error.contains("the tar archive is damaged or cut short"), "{error}");
    for length in [1100, archive.len() - 1700] {
        let (batches, result) = collect(&mut *open(&cut(length), Format::Auto).unwrap());
        let error = result.unwrap_err().to_string();
        assert!(error.contains("the tar archive is damaged or cut short"), "cut at {length}: {error}");
        assert!(length == 1100 || !batches.is_empty(), "what was read before is handed over");
    }
}

#[test]
fn a_serial_schedule_gives_the_order() {
    let folder = Folder::new();
    write_files(&folder, ".gz", gzip);
    // The same slices in another order than by time.
    let list = [[502, 10, 1, 0], [501, 0, 0, 0], [501, 30, 0, 2], [501, 40, 1, 5], [502, 30, 1, 2]];
    folder.file("serial_schedule.bin.gz", &gzip(&slices_of(&list)));
    folder.file("cpu_schedule.bin.zip", &zip_of(&[("0", b"not read")]));
    let (batches, result, remarks) = read_folder(folder.0.path(), Format::Auto);
    result.unwrap();
    assert_eq!(order(&batches), [0x8000, 0x1000, 0x2000, 0x3000, 0x9000]);
    assert_eq!(remarks.facts["merged by"], "serial_schedule.bin.gz");
    assert_eq!(instructions(&batches), 9);
}

#[test]
fn a_schedule_of_cores_gives_the_order() {
    let folder = Folder::new();
    write_files(&folder, ".gz", gzip);
    let cores = [
        ("0", slices_of(&[[501, 0, 0, 0], [501, 30, 0, 2]])),
        ("1", slices_of(&[[502, 10, 1, 0], [502, 30, 1, 2], [501, 40, 1, 5]])),
    ];
    let members: Vec<(&str, &[u8])> = cores.iter().map(|(name, content)| (*name, &content[..])).collect();
    folder.file("cpu_schedule.bin.zip", &zip_of(&members));
    let (batches, result, remarks) = read_folder(folder.0.path(), Format::Auto);
    result.unwrap();
    assert_eq!(order(&batches), [0x1000, 0x8000, 0x2000, 0x9000, 0x3000]);
    assert_eq!(remarks.facts["merged by"], "cpu_schedule.bin.zip");
}

#[test]
fn a_schedule_that_does_not_fit_is_not_used_or_an_error() {
    let folder = Folder::new();
    write_files(&folder, ".gz", gzip);
    folder.file("serial_schedule.bin.gz", &gzip(&slices_of(&[[501, 0, 0, 0], [777, 0, 0, 0]])));
    let (batches, result, remarks) = read_folder(folder.0.path(), Format::Auto);
    result.unwrap();
    assert_eq!(order(&batches), [0x1000, 0x8000, 0x2000, 0x9000, 0x3000]);
    assert!(remarks.notes[0].contains("serial_schedule.bin.gz names other threads"), "{remarks:?}");

    folder.file(
        "serial_schedule.bin.gz",
        &gzip(&slices_of(&[[501, 0, 0, 0], [502, 0, 0, 0], [501, 0, 0, 100]])),
    );
    let error = read_folder(folder.0.path(), Format::Auto).1.unwrap_err();
    assert!(
        error.contains("slice 0 of thread 501 does not fit") && error.contains("merged by their timestamps"),
        "{error}"
    );

    folder.file("serial_schedule.bin.gz", &gzip(&[0; 33]));
    let error = read_folder(folder.0.path(), Format::Auto).1.unwrap_err();
    assert!(
        error.contains(
            "serial_schedule.bin.gz: byte 32 of the decompressed content: the file ends inside a record"
        ),
        "{error}"
    );
}

/// A core's file has several threads, each with a header and a footer of its own; it was an error ("a second header").
#[test]
fn files_of_cores_have_threads_that_come_and_go() {
    let begin = |id: u64| {
        [entry(25, 0, 7), entry(28, 12, 7), entry(28, 9, 0x1_0e40), entry(22, 0, id), entry(24, 0, 500)]
            .concat()
    };
    let name = |id: u64| [entry(22, 0, id), entry(24, 0, 500)].concat();
    let end = |id: u64| [entry(23, 0, id), entry(26, 0, 0)].concat();
    let folder = Folder::new();
    let first = [
        begin(501),
        slice(0, 0),
        loads(0x1000, 1),
        begin(502),
        slice(20, 0),
        loads(0x8000, 1),
        end(502),
        name(501),
        slice(40, 0),
        loads(0x2000, 1),
        end(501),
    ];
    let second = [begin(503), slice(10, 1), loads(0xa000, 2), slice(50, 1), loads(0xb000, 1), end(503)];
    folder.file("drmemtrace.core.000000.trace.gz", &gzip(&first.concat()));
    folder.file("drmemtrace.core.000001.trace.gz", &gzip(&second.concat()));
    // A schedule is for files of threads.
    folder.file("cpu_schedule.bin.zip", &zip_of(&[("0", &slices_of(&[[501, 0, 0, 0]]))]));
    let (batches, result, remarks) = read_folder(folder.0.path(), Format::Auto);
    result.unwrap();
    assert_eq!(order(&batches), [0x1000, 0xa000, 0x8000, 0x2000, 0xb000]);
    assert_eq!(remarks.facts["merged by"], "timestamps");
    let threads: Vec<u32> = batches
        .iter()
        .flat_map(|batch| &batch.marks)
        .filter_map(|mark| if let Event::Thread(thread) = mark.event { Some(thread.0) } else { None })
        .collect();
    // Numbered as they appear: 501 and 503 in the heads of the files, 502 later.
    assert_eq!(threads, [2, 3, 1, 2]);
    assert_eq!(instructions(&batches), 6);
}

#[test]
fn each_file_of_a_folder_keeps_its_own_kernel_parts() {
    let folder = Folder::new();
    let first = [
        slice(0, 0),
        entry(10, 4, 1),
        entry(28, 27, 0),
        loads(0x1000, 1),
        slice(20, 0),
        loads(0x2000, 1),
        entry(28, 28, 0),
    ];
    folder.file("a.501.trace", &thread(501, &first));
    folder.file("a.502.trace", &thread(502, &[slice(10, 1), loads(0x8000, 3)]));
    let (batches, result, remarks) = read_folder(folder.0.path(), Format::Auto);
    result.unwrap();
    assert_eq!(order(&batches), [0x8000]);
    assert_eq!((instructions(&batches), remarks.left_out(Kind::KernelInstructions)), (4, 2));
    let (batches, ..) = read_folder(folder.0.path(), ReadOptions { format: Format::Auto, kernel: true });
    assert_eq!(order(&batches), [0x1000, 0x8000, 0x2000]);
}

#[test]
fn folders_without_a_trace_say_what_is_missing() {
    let folder = Folder::new();
    let refusal = || open(folder.0.path(), Format::Auto).err().unwrap().to_string();
    assert!(
        refusal().contains("a folder without a trace") && refusal().contains("= help: name the folder"),
        "{}",
        refusal()
    );
    std::fs::create_dir(folder.0.path().join("raw")).unwrap();
    folder.file("modules.log", b"");
    assert!(refusal().contains("raw2trace"), "{}", refusal());

    folder.file("notes.txt", b"mine");
    let error = read_folder(folder.0.path(), Format::Auto).1.unwrap_err();
    assert!(error.contains("none of its 1 files begins like a drmemtrace trace"), "{error}");
    // A thread is not lost because its file is empty.
    write_files(&folder, ".gz", gzip);
    folder.file("drmemtrace.app.503.1.trace.gz", &gzip(b""));
    let error = read_folder(folder.0.path(), Format::Auto).1.unwrap_err();
    assert!(error.contains("503.1.trace.gz: named like a file of a drmemtrace trace, but"), "{error}");
}

#[test]
fn a_cut_file_of_a_folder_is_an_error_with_its_name() {
    let folder = Folder::new();
    write_files(&folder, "", <[u8]>::to_vec);
    let [_, second] = two_threads();
    folder.file("drmemtrace.app.502.1234.trace", &second[..second.len() - 12]);
    let error = read_folder(folder.0.path(), Format::Auto).1.unwrap_err();
    assert!(error.contains("502.1234.trace: byte ") && error.contains("without a footer"), "{error}");
}

#[test]
fn a_limit_ends_a_merge() {
    let folder = Folder::new();
    folder.file("a.501.trace", &thread(501, &[slice(0, 0), loads(0x1000, 30_000)]));
    folder.file("a.502.trace", &thread(502, &[slice(10, 1), loads(0x10_0000, 30_000)]));
    let mut seen = 0;
    let mut sink = |batch: &mut Batch| {
        seen += batch.accesses.len();
        ControlFlow::Break(())
    };
    open(folder.0.path(), Format::Auto).unwrap().run(&mut sink).unwrap();
    assert_eq!(seen, Batch::FULL);
}

#[test]
fn the_frames_beside_a_trace_are_read() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.path().join("trace")).unwrap();
    folder.file("trace/a.501.trace", &two_threads()[0]);
    assert_eq!(info(folder.0.path(), Format::Auto).unwrap().translations, None);
    folder.file(
        "v2p.textproto",
        b"address_mapping_group { page_size: 4096 address_mapping { virtual_address: 0x1000 } }",
    );
    for path in ["", "trace", "trace/a.501.trace"] {
        let summary = info(&folder.0.path().join(path), Format::Auto).unwrap();
        assert_eq!(summary.translations.unwrap().into_iter().collect::<Vec<_>>(), [(4096, 1)], "{path}");
        assert!(summary.remarks.facts["frames given"].starts_with("1 pages of 4096 B, by "), "{path}");
    }
    folder.file("v2p.textproto", b"address_mapping_group {");
    let error = open(folder.0.path(), Format::Auto).err().unwrap().to_string();
    assert!(error.contains("v2p.textproto: line 1: the text ends"), "{error}");
}

/// The samples that authors publish; not part of this project.
fn samples() -> Option<PathBuf> {
    let folder = std::env::var_os("PAGEWALK_SAMPLES").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: PAGEWALK_SAMPLES does not name a folder with published traces");
    }
    folder
}

/// Against the expectations that DynamoRIO ships with the sample. Its tool counts 1,155 lines: an access of size 0 touches none
/// there. Here it touches its address, and five lines more are touched by such accesses alone.
#[test]
fn the_published_folder_has_the_published_counts() {
    let Some(samples) = samples() else { return };
    let folder = samples.join("drmemtrace/threadsig.x64.tracedir");
    let copy = Folder::new();
    for name in listing(&folder) {
        std::fs::copy(folder.join(&name), copy.0.path().join(&name)).unwrap();
    }
    assert_eq!(info(&folder, Format::Auto).unwrap().threads, 9);
    for schedule in ["serial_schedule.bin.gz", "cpu_schedule.bin.zip", "timestamps"] {
        let (batches, result, remarks) = read_folder(copy.0.path(), Format::Auto);
        result.unwrap();
        assert_eq!(remarks.facts["merged by"], schedule);
        assert_eq!(instructions(&batches), 650_576);
        let lines: BTreeSet<u64> = accesses(&batches).iter().map(|access| access.addr().0 >> 6).collect();
        assert_eq!((accesses(&batches).len(), lines.len()), (272_358, 1_155 + 5), "{schedule}");
        assert_eq!(remarks.assumed(Kind::UnknownSizes), 34);
        let threads = batches.iter().flat_map(|batch| &batch.marks).filter_map(|mark| match mark.event {
            Event::ThreadEnd(thread) => Some(thread.0),
            _ => None,
        });
        assert_eq!(threads.collect::<BTreeSet<u32>>().len(), 9);
        let _ = std::fs::remove_file(copy.0.path().join(schedule));
    }
}

#[test]
fn every_published_sample_is_read() {
    let Some(samples) = samples() else { return };
    let folder = samples.join("drmemtrace");
    let mut paths: Vec<PathBuf> = listing(&folder).iter().map(|name| folder.join(name)).collect();
    let threads = folder.join("threadsig.x64.tracedir");
    paths.extend(listing(&threads).iter().map(|name| threads.join(name)));
    paths.extend(listing(&samples.join("gem5")).iter().map(|name| samples.join("gem5").join(name)));
    paths.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        !name.contains("schedule.bin") && !name.ends_with(".textproto")
    });
    assert_eq!(paths.len(), 13, "{paths:?}");
    for path in paths {
        let summary = info(&path, Format::Auto).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(summary.accesses >= 2, "{}", path.display());
    }
    let mapping = std::fs::read_to_string(folder.join("v2p_example.textproto")).unwrap();
    let pages = pagewalk_trace::foreign::parse_translations(&mapping, "v2p").unwrap();
    assert_eq!(
        pages
            .iter()
            .map(|page| (page.page_bytes, page.virtual_address, page.physical_address))
            .collect::<Vec<_>>(),
        [(0x20_0000, 0x123, 3), (0x20_0000, 0x456, 4), (0x20_0000, 0, 6), (0x20_0000, 0x789, 5),]
    );
}

/// A writer that is used by one test alone stays beside it.
#[test]
fn stored_members_of_an_archive_are_read() {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    writer.start_file("chunk.00000000", options).unwrap();
    writer.write_all(&two_threads()[0]).unwrap();
    let content = writer.finish().unwrap().into_inner();
    let (batches, result, _) = read("t.trace.zip", &content, Format::Auto);
    result.unwrap();
    assert_eq!(accesses(&batches).len(), 6);
}

/// A hostile archive writes nothing outside of its temporary folder.
#[test]
fn a_tar_archive_with_a_path_outside_of_it_is_refused() {
    let mut header = tar::Header::new_old();
    header.as_old_mut().name[..9].copy_from_slice(b"../x.trac");
    header.as_mut_bytes()[257..262].copy_from_slice(b"ustar");
    header.set_size(3);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, &b"abc"[..]).unwrap();
    let folder = Folder::new();
    let path = folder.file("t.tar", &archive.into_inner().unwrap());
    let error = open(&path, Format::Auto).err().unwrap().to_string();
    assert!(error.contains("`../x.trac`, which lies outside of it"), "{error}");
}
