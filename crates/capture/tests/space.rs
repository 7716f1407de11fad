//! Changes of the address space: each one that strace sees, once, in order with the accesses.

use std::path::Path;
use std::process::Command;

use pagewalk_trace::{Advice, Backing, Event, Mapping, ObjectPages, Protection};
use pagewalk_vm::addr::{VirtAddr, VirtRange};

use crate::common::{Build, Stream, compile, is_installed, program, record, unmodified};

const MIB: u64 = 1 << 20;
const BASE: u64 = 0x8_0000_0000;
const TICKS: u64 = BASE - MIB;
const NONE: Protection = Protection { read: false, write: false, execute: false };
const READ: Protection = Protection { read: true, write: false, execute: false };

fn range(mib: u64, bytes: u64) -> VirtRange {
    VirtRange::sized(VirtAddr(BASE + mib * MIB), bytes)
}

fn stream(build: Build) -> Stream {
    record(program(&compile("space", build), &[], build.frontend())).0
}

/// The events that the program makes on purpose, with how many stores to the tick page came since the one before.
fn events_with_ticks(stream: &Stream) -> Vec<(u64, Event)> {
    let mut ticks = stream
        .accesses
        .iter()
        .enumerate()
        .filter(|(_, (_, _, access))| access.is_write() && access.addr().0.wrapping_sub(TICKS) < 4096);
    let mut next = ticks.next();
    let mut out = Vec::new();
    for (at, _, _, event) in &stream.events {
        let start = match event {
            Event::Map(mapping) => mapping.range.start.0,
            Event::Unmap(range) | Event::Protect(range, _) | Event::Advise(range, _) => range.start.0,
            Event::Remap { from, .. } => from.start.0,
            Event::Break(_) => BASE,
            _ => continue,
        };
        if !(TICKS..BASE + 64 * MIB).contains(&start) {
            continue;
        }
        let mut count = 0;
        while next.is_some_and(|(i, _)| i < *at) {
            count += 1;
            next = ticks.next();
        }
        out.push((count, event.clone()));
    }
    out
}

#[test]
fn every_call_is_an_event_between_the_right_accesses() {
    unmodified().into_iter().for_each(check_calls);
}

fn check_calls(build: Build) {
    let events = events_with_ticks(&stream(build));
    let anonymous =
        |range, protection, shared| Event::Map(Mapping { protection, shared, ..Mapping::anonymous(range) });
    // The program's own file, which is among the first that are mapped: the same number in both mappings.
    let object = events.iter().find_map(|(_, event)| match event {
        Event::Map(mapping) if mapping.backing == Backing::File => mapping.object,
        _ => None,
    });
    let object = object.expect("the file is known").object;
    let file = |range, first| {
        Event::Map(Mapping {
            protection: READ,
            backing: Backing::File,
            object: Some(ObjectPages { object, first }),
            ..Mapping::anonymous(range)
        })
    };
    let expected = vec![
        anonymous(VirtRange::sized(VirtAddr(TICKS), 4096), Protection::READ_WRITE, false),
        anonymous(range(0, 4 * MIB), Protection::READ_WRITE, false),
        anonymous(range(8, 8192), READ, true),
        file(range(16, 4096), 0),
        anonymous(range(1, MIB), READ, false),
        Event::Unmap(range(2, 8192)),
        Event::Protect(range(3, 4096), NONE),
        Event::Protect(range(3, 4096), Protection::READ_WRITE),
        Event::Advise(range(0, MIB), Advice::HugePage),
        Event::Advise(range(0, MIB), Advice::NoHugePage),
        Event::Advise(range(0, 4096), Advice::DontNeed),
        Event::Remap { from: range(3, 4096), to: range(32, 8192) },
        Event::Remap { from: range(32, 8192), to: range(32, 4096) },
        Event::Advise(range(0, 8192), Advice::Free),
        Event::Advise(range(0, 4096), Advice::Lock),
        Event::Advise(range(0, 8192), Advice::Unlock),
        anonymous(range(40, 8192), Protection::READ_WRITE, false),
        Event::Advise(range(40, 8192), Advice::Populate),
        file(range(44, 4096), 1),
        Event::Unmap(range(0, 4 * MIB)),
    ];
    // The heap comes last: glibc asks where it is before main, and sbrk moves it twice.
    let heap_moves: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|(ticks, event)| match event {
            Event::Break(range) => Some((*ticks, range.bytes())),
            _ => None,
        })
        .collect();
    let others: Vec<&(u64, Event)> = events.iter().filter(|(_, e)| !matches!(e, Event::Break(_))).collect();
    let seen: Vec<Event> = others.iter().map(|(_, event)| event.clone()).collect();
    assert_eq!(seen, expected, "{build:?}");
    let is_of_the_call_before = |event: &Event| matches!(event, Event::Advise(_, Advice::Populate));
    let calls = others.iter().filter(|(_, event)| !is_of_the_call_before(event));
    for (n, (ticks, event)) in calls.enumerate() {
        assert_eq!(*ticks, n as u64, "{build:?}: stores between {event:?} and the event before it");
    }
    let [.., (_, before), (grown_after, grown), (shrunk_after, shrunk)] = heap_moves[..] else {
        panic!("{build:?}: heap moves {heap_moves:?}");
    };
    assert_eq!((grown - before, grown - shrunk), (65_536, 4_096), "{build:?}");
    assert_eq!((grown_after, shrunk_after), (19, 20), "{build:?}: in order with the stores");
}

#[test]
fn what_strace_sees_is_what_we_see() {
    if !is_installed("strace") {
        return;
    }
    let path = compile("space", Build::Plain);
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("space.strace");
    let status = Command::new("strace")
        .args(["-f", "-e", "trace=mmap,munmap,brk,mremap,madvise,mprotect", "-o"])
        .arg(&log)
        .arg(&path)
        .status()
        .expect("strace");
    if !status.success() {
        return println!("skipped: strace may not trace here ({status})");
    }
    let text = std::fs::read_to_string(&log).expect("the log");
    let theirs: Vec<String> = text.lines().filter_map(from_strace).collect();
    assert!(theirs.len() >= 13, "{text}");
    for build in unmodified() {
        let events = events_with_ticks(&stream(build));
        let ours: Vec<String> = events.iter().filter_map(|(_, event)| from_event(event)).collect();
        assert_eq!(ours, theirs, "{build:?}");
    }
}

/// `1234 munmap(0x1000000000, 8192) = 0` becomes `munmap 0x1000000000 0x2000`: name, place, length in whole pages.
/// Calls that failed, and those outside the program's own range, are left out.
fn from_strace(line: &str) -> Option<String> {
    let (call, result) = line.split_once(" ").map(|(_, rest)| rest.trim())?.rsplit_once(" = ")?;
    let (name, args) = call.trim().strip_suffix(')')?.split_once('(')?;
    let args: Vec<&str> = args.split(", ").collect();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    if result.starts_with('-') || name == "brk" {
        return None;
    }
    let start = if name == "mmap" { number(result)? } else { number(args[0])? };
    let bytes = number(args[1])?.next_multiple_of(4096);
    if !(TICKS..BASE + 64 * MIB).contains(&start) {
        return None;
    }
    Some(format!("{name} {start:#x} {bytes:#x}"))
}

fn from_event(event: &Event) -> Option<String> {
    let (name, range) = match event {
        Event::Map(mapping) => ("mmap", mapping.range),
        Event::Unmap(range) => ("munmap", *range),
        Event::Protect(range, _) => ("mprotect", *range),
        // Not calls of `madvise`, and not traced by strace here.
        Event::Advise(_, Advice::Lock | Advice::LockOnFault | Advice::Unlock | Advice::Populate) => {
            return None;
        }
        Event::Advise(range, _) => ("madvise", *range),
        Event::Remap { from, .. } => ("mremap", *from),
        _ => return None,
    };
    Some(format!("{name} {:#x} {:#x}", range.start.0, range.bytes()))
}

#[test]
fn no_access_falls_outside_what_is_mapped() {
    for (name, args) in
        [("space", &[][..]), ("btree", &["20", "20"]), ("match", &["20", "20"]), ("deep", &[])]
    {
        let (stream, _) = record(program(&compile(name, Build::Plain), args, Build::Plain.frontend()));
        let mut mapped = Pages::default();
        let mut events = stream.events.iter().peekable();
        let mut last_page = u64::MAX;
        for (i, (_, _, access)) in stream.accesses.iter().enumerate() {
            while let Some((_, _, _, event)) = events.next_if(|(at, _, _, _)| *at <= i) {
                mapped.apply(event);
                last_page = u64::MAX;
            }
            let page = access.addr().0 >> 12;
            if page != last_page {
                assert!(mapped.contains(page), "{name}: {access:?}, access {i}, is not in a mapping");
                last_page = page;
            }
        }
    }
}

/// The mapped pages as ranges, kept naively.
#[derive(Default)]
struct Pages {
    ranges: Vec<(u64, u64)>,
    heap: Option<VirtRange>,
}

impl Pages {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Map(mapping) => self.add(mapping.range),
            Event::Unmap(range) => self.remove(*range),
            Event::Remap { from, to } => {
                self.remove(*from);
                self.add(*to);
            }
            Event::Break(range) => {
                if let Some(old) = self.heap.replace(*range) {
                    self.remove(old);
                }
                self.add(*range);
            }
            _ => {}
        }
    }

    fn add(&mut self, range: VirtRange) {
        self.remove(range);
        self.ranges.push((range.start.0 >> 12, range.end.0 >> 12));
    }

    fn remove(&mut self, range: VirtRange) {
        let (start, end) = (range.start.0 >> 12, range.end.0 >> 12);
        let old = std::mem::take(&mut self.ranges);
        for (s, e) in old {
            for (s, e) in [(s, e.min(start)), (s.max(end), e)] {
                if s < e {
                    self.ranges.push((s, e));
                }
            }
        }
    }

    fn contains(&self, page: u64) -> bool {
        self.ranges.iter().any(|&(s, e)| s <= page && page < e)
    }
}
