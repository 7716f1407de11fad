//! What the kernel writes into a program's memory: no access says so.

use pagewalk_capture::Frontend;
use pagewalk_trace::Event;
use pagewalk_vm::addr::{VirtAddr, VirtRange};

use crate::common::{Build, builds, compile, program, record};

const MIB: u64 = 1 << 20;
const BASE: u64 = 0x8_0000_0000;

fn written(build: Build) -> Vec<(u64, u64)> {
    let (stream, outcome) = record(program(&compile("input", build), &[], build.frontend()));
    assert!(outcome.status.success(), "{build:?}: {:?}", outcome.status);
    let ranges = stream.events.iter().filter_map(|(_, _, _, event)| match event {
        Event::KernelWrite(range) => Some(*range),
        _ => None,
    });
    let region = VirtRange::sized(VirtAddr(BASE), 16 * MIB);
    ranges.filter(|range| region.covers(*range)).map(|range| (range.start.0 - BASE, range.bytes())).collect()
}

#[test]
fn what_calls_write_is_an_event_with_its_bytes() {
    for build in builds() {
        let mut written = written(build);
        let frames = written.split_off(written.iter().take_while(|range| range.0 < 8 * MIB).count());
        let buffers = [(100, 10_000), (MIB + 4000, 200), (2 * MIB, 12), (7 * MIB - 5, 5)];
        let (of_header, of_list) = ([(7 * MIB + MIB / 2, 7)], [(5 * MIB, 10), (6 * MIB, 5000)]);
        let random = [(3 * MIB + 8, 64)];
        let expected = match build.frontend() {
            // The runtime in the program does not take lists apart.
            Frontend::Callout => [&buffers[..], &random].concat(),
            _ => [&buffers[..], &of_header, &random, &of_list].concat(),
        };
        assert_eq!(written, expected, "{build:?}");
        // Valgrind tells of the frame of a signal, too; elsewhere the kernel's, or QEMU's, own code writes it.
        let is_on_stack = |&(start, bytes): &(u64, u64)| start >= 8 * MIB && start + bytes <= 9 * MIB;
        assert!(frames.iter().all(is_on_stack), "{build:?}: {frames:x?}");
        assert_eq!(!frames.is_empty(), build.frontend() == Frontend::Valgrind, "{build:?}");
    }
}
