//! Frames that a trace gives: beside its records and in them, and through a recording.

use std::path::Path;

use pagewalk_trace::foreign::{Format, Kind, ReadOptions};
use pagewalk_trace::{Batch, Event, PageFrame, ProcessId, Recorder, open};
use pagewalk_vm::addr::{PageSize, PhysAddr, VirtAddr};

use crate::common::*;

const PHYSICAL: u16 = 15;
const NOT_AVAILABLE: u16 = 16;
const VIRTUAL: u16 = 17;
const PAGE_BYTES: u16 = 18;

fn page(page: u64, frame: u64, size: PageSize) -> PageFrame {
    PageFrame::new(VirtAddr(page), PhysAddr(frame), size).unwrap()
}

fn small(address: u64, frame: u64) -> PageFrame {
    page(address, frame, PageSize::Size4K)
}

/// A thread of a process that loads from `addresses`, behind other records.
fn thread(id: u64, process: u64, before: &[u8], addresses: &[u64]) -> Vec<u8> {
    let loads =
        addresses.iter().flat_map(|&address| [entry(10, 4, 0x40_1000), entry(0, 8, address)].concat());
    let loads: Vec<u8> = loads.collect();
    [drmemtrace_head(0xe40, id, process), before.to_vec(), loads, drmemtrace_tail(id)].concat()
}

fn group(page_bytes: u64, pages: &[(u64, u64)]) -> String {
    let pages = pages.iter().map(|(page, frame)| {
        format!("  address_mapping {{ virtual_address: {page:#x} physical_address: {frame:#x} }}\n")
    });
    format!("address_mapping_group {{\n  page_size: {page_bytes:#x}\n{}}}\n", pages.collect::<String>())
}

/// What is said of frames, each with the number of accesses before it and the process that it is about.
fn given(batches: &[Batch]) -> Vec<(usize, u32, PageFrame)> {
    let (mut before, mut process, mut given) = (0, 0, Vec::new());
    for batch in batches {
        for mark in &batch.marks {
            match mark.event {
                Event::Process(ProcessId(id)) => process = id,
                Event::Frame(page) => given.push((before + mark.at as usize, process, page)),
                _ => {}
            }
        }
        before += batch.accesses.len();
    }
    given
}

fn read_all(path: &Path) -> (Vec<Batch>, pagewalk_trace::Remarks) {
    let mut source = open(path, Format::Auto).unwrap();
    assert!(source.info().gives_frames);
    let (batches, result) = collect(&mut *source);
    result.unwrap();
    (batches, source.remarks())
}

/// The folder had its pages, and machines had others.
#[test]
fn a_file_beside_the_trace_comes_before_its_first_access() {
    let folder = Folder::new();
    folder.file("a.501.trace", &thread(501, 500, &[], &[0x7f00_0020_1008, 0x1000]));
    let text = group(2 << 20, &[(0x7f00_0020_0000, 0x4000_0000), (0x7f00_0060_0123, 0x8000_0123)])
        + &group(4096, &[(0x1000, 0x7000)])
        + &group(16 << 10, &[(0x8000, 0xc000)])
        + &group(1 << 30, &[(0x8000_0000, 0x40_0000_0000)])
        // Unusable: another offset, frame 0, the kernel's, neither half.
        + &group(2 << 20, &[(0x123, 0x20_0003), (0x20_0000, 0), (0xffff_8000_0020_0000, 0x20_0000), (1 << 50, 0x20_0000)]);
    folder.file("v2p.textproto", text.as_bytes());
    let (batches, remarks) = read_all(folder.0.path());
    let pieces = (0..4).map(|piece| small(0x8000 + piece * 4096, 0xc000 + piece * 4096));
    let expected = [
        page(0x7f00_0020_0000, 0x4000_0000, PageSize::Size2M),
        page(0x7f00_0060_0000, 0x8000_0000, PageSize::Size2M),
        small(0x1000, 0x7000),
    ];
    let expected =
        expected.into_iter().chain(pieces).chain([page(0x8000_0000, 0x40_0000_0000, PageSize::Size1G)]);
    assert_eq!(given(&batches), expected.map(|page| (0, 0, page)).collect::<Vec<_>>());
    assert_eq!(accesses(&batches).len(), 2);
    assert_eq!(remarks.left_out(Kind::UnusableFrames), 4);

    // The kernel's pages count where its accesses do.
    let mut source = open(folder.0.path(), ReadOptions { format: Format::Auto, kernel: true }).unwrap();
    let (batches, _) = collect(&mut *source);
    let kernel = page(0x8000_0020_0000, 0x20_0000, PageSize::Size2M);
    assert_eq!(given(&batches).last(), Some(&(0, 0, kernel)));
    assert_eq!(source.remarks().left_out(Kind::UnusableFrames), 3);
}

/// The file names no process, so it is about all of them.
#[test]
fn every_process_hears_of_the_frames_before_its_first_access() {
    let folder = Folder::new();
    let two = [
        thread(501, 500, &[], &[0x1000]),
        thread(700, 701, &entry(28, 2, 13_000_000_000_000_001), &[0x1000, 0x1008]),
    ];
    folder.file("a.501.trace", &two[0]);
    folder.file("a.700.trace", &two[1]);
    folder.file("v2p.textproto", group(4096, &[(0x1000, 0x7000)]).as_bytes());
    let (batches, _) = read_all(folder.0.path());
    assert_eq!(given(&batches), [(0, 0, small(0x1000, 0x7000)), (1, 1, small(0x1000, 0x7000))]);
}

#[test]
fn a_frame_where_machines_have_their_own_memory_is_an_error() {
    let folder = Folder::new();
    folder.file("a.501.trace", &thread(501, 500, &[], &[0x1000]));
    folder.file("v2p.textproto", group(4096, &[(0x1000, 0xf_ff00_0000_0000)]).as_bytes());
    let error = collect(&mut *open(folder.0.path(), Format::Auto).unwrap()).1.unwrap_err().to_string();
    assert!(error.contains("v2p.textproto: the page at 0x1000 is in memory at 0xfff0000000000;"), "{error}");
    assert!(error.contains("physical addresses below 0xfff0000000000 are allowed"), "{error}");

    let markers = [entry(28, PHYSICAL, u64::MAX << 12), entry(28, VIRTUAL, 0x1000)].concat();
    let (_, result, _) = read("t.drmemtrace", &thread(501, 500, &markers, &[0x1000]), Format::Auto);
    let error = result.unwrap_err();
    assert!(
        error.contains("byte ") && error.contains("0xfffffffffffff000; physical addresses below"),
        "{error}"
    );
}

/// A pair of markers stands before the first access to a page, and again when the page has moved.
#[test]
fn markers_say_where_a_page_is_from_then_on() {
    let pair = |frame, page| [entry(28, PHYSICAL, frame), entry(28, VIRTUAL, page)].concat();
    let load = |address| [entry(10, 4, 0x40_1000), entry(0, 8, address)].concat();
    let records = [
        drmemtrace_head(0xe40, 501, 500),
        pair(0x7_0123_4568, 0x1568),
        load(0x1568),
        pair(0x9000, 0x1000),
        entry(28, NOT_AVAILABLE, 0x2000),
        load(0x1000),
        entry(28, PAGE_BYTES, 2 << 20),
        pair(0x4012_3456, 0x7f00_0032_3456),
        // Unusable, and unpaired.
        pair(0x4012_3456, 0x7f00_0032_3450),
        entry(28, PHYSICAL, 0x1000),
        entry(28, PHYSICAL, 0x2000),
        load(0x3000),
        entry(28, 3, 1),
        entry(28, VIRTUAL, 0x3000),
        drmemtrace_tail(501),
    ];
    let (batches, result, remarks) = read("t.drmemtrace", &records.concat(), Format::Auto);
    result.unwrap();
    let huge = page(0x7f00_0020_0000, 0x4000_0000, PageSize::Size2M);
    assert_eq!(
        given(&batches),
        [(0, 0, small(0x1000, 0x7_0123_4000)), (1, 0, small(0x1000, 0x9000)), (2, 0, huge)]
    );
    assert_eq!(remarks.left_out(Kind::UnusableFrames), 1);
    let without = [drmemtrace_head(0xe40, 501, 500), load(0x1000), drmemtrace_tail(501)].concat();
    let others = read("t.drmemtrace", &without, Format::Auto).2.left_out(Kind::Markers);
    // Not available, two physical addresses alone, a virtual one alone, and the processor's number.
    assert_eq!(remarks.left_out(Kind::Markers), others + 5);
}

/// The markers of a thread are about its own process, though another one's accesses came before.
#[test]
fn markers_are_about_the_process_of_their_thread() {
    let pair = [entry(28, PHYSICAL, 0x7000), entry(28, VIRTUAL, 0x1000)].concat();
    let folder = Folder::new();
    folder.file("a.501.trace", &thread(501, 500, &[], &[0x1000]));
    folder.file(
        "a.700.trace",
        &thread(700, 701, &[entry(28, 2, 13_000_000_000_000_001), pair].concat(), &[0x1000]),
    );
    let (batches, _) = read_all(folder.0.path());
    assert_eq!(given(&batches), [(1, 1, small(0x1000, 0x7000))]);
}

#[test]
fn a_recording_keeps_the_frames() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.path().join("t")).unwrap();
    let markers = [entry(28, PHYSICAL, 0x5000), entry(28, VIRTUAL, 0x2000)].concat();
    folder.file("t/a.501.trace", &thread(501, 500, &markers, &[0x1000, 0x2000]));
    folder.file("t/v2p.textproto", group(4096, &[(0x1000, 0x7000)]).as_bytes());
    let (batches, _) = read_all(&folder.0.path().join("t"));
    let path = folder.0.path().join("t.pwt");
    let mut source = open(&folder.0.path().join("t"), Format::Auto).unwrap();
    let mut recorder = Recorder::create(&path, &source.info()).unwrap();
    source.run(&mut recorder).unwrap();
    recorder.finish().unwrap();
    assert_eq!(given(&batches).len(), 2);
    assert_eq!(read_all(&path).0, batches);
    let summary = pagewalk_trace::info(&path, Format::Auto).unwrap();
    assert_eq!(summary.marks["frame"], 2);
}

/// More pages than a batch has marks, more than one chunk of a recording holds.
#[test]
fn there_may_be_more_translations_than_a_batch_has_marks() {
    let pages: Vec<(u64, u64)> = (1..40_000).map(|at| (at << 12, at << 14)).collect();
    let folder = Folder::new();
    folder.file("a.501.trace", &thread(501, 500, &[], &[0x1000]));
    folder.file("v2p.textproto", group(4096, &pages).as_bytes());
    let (batches, _) = read_all(folder.0.path());
    assert!(batches.iter().all(|batch| batch.marks.len() <= Batch::FULL));
    assert_eq!(given(&batches).len(), pages.len());
    assert_eq!(decode(&encode(&batches)).unwrap(), batches);
}
