//! The room that files take, and the work that it is to say so.

use std::cell::Cell;

use super::*;
use crate::core::bytes;
use crate::memory::mapped::Mapped;
use crate::memory::survives::Survives;

const MIB: u64 = 1 << 20;

/// Memory that counts the words which are loaded.
struct Counting {
    memory: Recording,
    loads: Cell<u64>,
}

impl PersistentMemory for Counting {
    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    fn load(&self, at: u64) -> u64 {
        self.loads.set(self.loads.get() + 1);
        self.memory.load(at)
    }

    fn store(&self, at: u64, word: u64) {
        self.memory.store(at, word);
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        self.memory.read(at, into);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write(at, bytes);
    }

    fn zero(&self, at: u64, bytes: u64) {
        self.memory.zero(at, bytes);
    }

    fn flush(&self, at: u64, bytes: u64) {
        self.memory.flush(at, bytes);
    }

    fn fence(&self) {
        self.memory.fence();
    }
}

/// Bytes of frames that a file has and keeps, by a look-up of every page.
pub(super) fn counted<M: PersistentMemory>(system: &FileSystem<M>, ino: Ino) -> u64 {
    let inode = system.inode(ino).unwrap();
    let Some(partition) = inode.partition() else { return 0 };
    let kept = system.kept_bytes(ino, &inode).next_multiple_of(4_096);
    let mut sum = 0;
    bytes::runs(system.store.memory(), partition, 0..kept.min(partition.level.bytes()), |range, place| {
        sum += place.map_or(0, |_| range.end - range.start);
    });
    sum
}

/// Searches find what a look-up of every page finds.
pub(super) fn searches_are_right<M: PersistentMemory>(system: &FileSystem<M>, ino: Ino) {
    let size = system.attributes(ino).unwrap().size;
    let mut runs: Vec<(u64, bool)> = Vec::new();
    if let Some(partition) = system.inode(ino).unwrap().partition() {
        bytes::runs(system.store.memory(), partition, 0..size, |range, place| {
            if runs.last().is_none_or(|(_, is_data)| *is_data != place.is_some()) {
                runs.push((range.start, place.is_some()));
            }
        });
    }
    for (number, &(start, is_data)) in runs.iter().enumerate() {
        let next = runs.get(number + 1).map(|(next, _)| *next);
        let (here, other) = if is_data { (Seek::Data, Seek::Hole) } else { (Seek::Hole, Seek::Data) };
        for at in [start, next.unwrap_or(size) - 1] {
            assert_eq!(system.seek(ino, at, here), Ok(at));
            let expected = next.or((other == Seek::Hole).then_some(size)).ok_or(Errno::NXIO);
            assert_eq!(system.seek(ino, at, other), expected, "{other:?} from {at}");
        }
    }
}

fn taken(system: &FileSystem<Recording>, ino: Ino) -> u64 {
    let taken = system.attributes(ino).unwrap().blocks * 512;
    assert_eq!(taken, counted(system, ino));
    taken
}

fn append(system: &mut FileSystem<Recording>, ino: Ino, bytes: u64, step: u64) {
    for at in (0..bytes).step_by(step as usize) {
        let part = vec![(at / step) as u8 | 1; step.min(bytes - at) as usize];
        assert_eq!(system.write(ino, at, &part), Ok(part.len()));
    }
}

/// A search for data or holes, and the attributes, once took time in proportion to the whole file.
#[test]
fn extents_and_attributes_take_the_time_of_what_they_return() {
    let memory = Counting { memory: Recording::new(vec![0; 96 << 20]), loads: Cell::new(0) };
    let mut system = FileSystem::format(memory, ME, clock()).unwrap();
    let ino = system.create(Ino::ROOT, b"sparse", FILE, ME, 0).unwrap();
    let extents = 8_192;
    for number in 0..extents {
        assert_eq!(system.write(ino, number * 16_384, b"x"), Ok(1));
    }
    let loads = |system: &FileSystem<Counting>| system.store().memory().loads.get();
    let before = loads(&system);
    let mut at = 0;
    for number in 0..extents {
        assert_eq!(system.seek(ino, at, Seek::Data), Ok(number * 16_384));
        let is_last = number + 1 == extents;
        let hole = number * 16_384 + if is_last { 1 } else { 4_096 };
        assert_eq!(system.seek(ino, number * 16_384, Seek::Hole), Ok(hole));
        at = hole;
    }
    // The inode's words, the path through the table and the extent's own entries, twice.
    let each = (loads(&system) - before) / extents;
    assert!(each < 80, "{each} loads for each extent");
    assert_eq!(system.attributes(ino).unwrap().blocks, extents * 8);
    let before = loads(&system);
    for number in 0..100 {
        system.write(ino, number * 16_384 + 4_096, b"y").unwrap();
        assert_eq!(system.attributes(ino).unwrap().blocks, (extents + number + 1) * 8);
    }
    let each = (loads(&system) - before) / 100;
    assert!(each < 1_000, "{each} loads for each page that came");
    assert_eq!(counted(&system, ino), (extents + 100) * 4_096);
}

/// A byte in a sparse file once took 2 MiB, and a file of 2.2 MB 4 MiB.
#[test]
fn a_file_takes_little_more_than_its_bytes() {
    let mut system = empty(1 << 14);
    let ino = make(&mut system, "sparse");
    system.write(ino, 0, b"x").unwrap();
    for at in [2 * MIB, 6 * MIB, 64 * MIB] {
        let before = taken(&system, ino);
        system.write(ino, at, b"x").unwrap();
        assert_eq!(taken(&system, ino) - before, 4_096, "at {at}");
    }
    for (name, step) in [("pieces", 10_000), ("whole", MIB)] {
        let ino = make(&mut system, name);
        let bytes = 2_200_000u64;
        append(&mut system, ino, bytes, step);
        let expected = contents(&system, ino);
        assert!(system.has_slack(ino), "there is something to give back");
        system.shrink(ino).unwrap();
        assert_eq!(taken(&system, ino), bytes.next_multiple_of(4_096), "{name}");
        assert!(contents(&system, ino) == expected);
        sound(&system);
        // It goes on growing.
        let more = vec![9; 4 << 20];
        assert_eq!(system.write(ino, bytes, &more), Ok(more.len()));
        assert!(contents(&system, ino) == [expected, more].concat());
        sound(&system);
    }
}

/// A store of so many frames that threads may share.
fn files(frames: u64) -> Files<Mapped> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let memory = Mapped::create(file.path(), frames * 4_096, Survives::ProcessCrash).unwrap();
    Files::new(FileSystem::format(memory, ME, clock()).unwrap())
}

#[test]
fn the_last_close_gives_back_what_lies_behind_the_end() {
    let files = files(1 << 13);
    let bytes = 2 * MIB as usize + 5;
    let open = || files.open("/file", &OpenOptions::updating()).unwrap();
    let (first, second) = (open(), open());
    for at in (0..bytes).step_by(4_096) {
        let part = vec![7; 4_096.min(bytes - at)];
        assert_eq!(first.write_at(&part, at as u64), Ok(part.len()));
    }
    let taken = || files.attributes("/file").unwrap().blocks * 512;
    let ino = files.attributes("/file").unwrap().ino;
    let has_slack = || files.shared().has_slack(ino);
    assert_eq!((taken(), has_slack()), (2 * MIB + 4_096, true));
    drop(first);
    assert!(has_slack(), "another handle is open");
    drop(second);
    assert_eq!((taken(), has_slack()), (2 * MIB + 4_096, false));
    // What was asked for stays, until the file is cut.
    let file = open();
    file.allocate(0..8 * MIB, true).unwrap();
    drop(file);
    assert_eq!(taken(), 8 * MIB);
    let file = open();
    file.set_len(bytes as u64).unwrap();
    drop(file);
    assert_eq!(taken(), 2 * MIB + 4_096);
}

#[test]
fn files_that_are_open_give_back_their_slack_when_another_needs_it() {
    let files = files(4_096);
    let open = |name: &str| files.open(name, &OpenOptions::updating()).unwrap();
    let slack = open("/slack");
    for at in (0..2 * MIB + 1).step_by(32_768) {
        slack.write_at(&vec![7; 32_768.min(2 * MIB + 1 - at) as usize], at).unwrap();
    }
    let free = files.shared().space().free;
    let other = open("/other");
    let mut written = 0;
    while let Ok(more) = other.write_at(&[8; 65_536], written) {
        written += more as u64;
    }
    assert!(written > (free + 500) * 4_096, "{written} bytes, {free} frames were free");
    let mut byte = [0];
    assert_eq!((slack.read_at(&mut byte, 2 * MIB), byte), (Ok(1), [7]));
}

/// A write through the log once answered `ENOSPC` at once, though another open file had frames behind its end.
#[test]
fn a_logged_write_gets_the_slack_of_open_files() {
    // Into a hole, which takes frames of the file; and over more than the log takes, which takes frames to swap with.
    for (has_data, bytes) in [(false, 8_192), (true, 100 * 4_096)] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let memory = Mapped::create(file.path(), 4_096 * 4_096, Survives::ProcessCrash).unwrap();
        let mut system = FileSystem::format(memory, ME, clock()).unwrap();
        system.set_overwrites(Overwrites::Whole);
        let files = Files::new(system);
        let open = |name: &str| files.open(name, &OpenOptions::updating()).unwrap();
        let slack = open("/slack");
        for at in (0..2 * MIB + 1).step_by(32_768) {
            slack.write_at(&vec![7; 32_768.min(2 * MIB + 1 - at) as usize], at).unwrap();
        }
        let logged = open("/logged");
        if has_data {
            assert_eq!(logged.write_at(&vec![1; bytes], 0), Ok(bytes));
        }
        logged.set_len(MIB).unwrap();
        // Until a write finds room for a part of it only: no frame is free, and no slack was taken.
        let other = open("/other");
        let mut written = 0;
        while other.write_at(&[8; 65_536], written).unwrap() == 65_536 {
            written += 65_536;
        }
        let slack_ino = files.attributes("/slack").unwrap().ino;
        assert!(files.shared().has_slack(slack_ino));
        assert_eq!(logged.write_at(&vec![9; bytes], 0), Ok(bytes));
        assert!(!files.shared().has_slack(slack_ino));
        let mut found = vec![0; bytes];
        assert_eq!(logged.read_at(&mut found, 0), Ok(bytes));
        assert!(found.iter().all(|&byte| byte == 9));
    }
}

/// Without slack a write through the log that finds no frame answers `ENOSPC`, and leaves the file as it was.
#[test]
fn a_logged_write_without_slack_fails_whole() {
    let mut system = empty(4_096);
    system.set_overwrites(Overwrites::Whole);
    let (logged, other) = (make(&mut system, "logged"), make(&mut system, "other"));
    let bytes = 100 * 4_096;
    append(&mut system, logged, bytes, bytes);
    let before = contents(&system, logged);
    let mut written = 0;
    while system.write(other, written, &[8; 65_536]) == Ok(65_536) {
        written += 65_536;
    }
    assert_eq!(system.write(logged, 0, &vec![9; bytes as usize]), Err(Errno::NOSPC));
    assert!(contents(&system, logged) == before);
    sound(&system);
}

/// Small pieces of large pages once stayed.
#[test]
fn a_hole_in_a_large_page_gives_its_frames_back() {
    let mut system = empty(1 << 13);
    let ino = make(&mut system, "file");
    let bytes = 6 * MIB;
    append(&mut system, ino, bytes, 2 * MIB);
    let mut expected = contents(&system, ino);
    for (hole, freed) in [(MIB..MIB + 8_192, 8_192), (MIB + 4_095..3 * MIB + 4_097, 2 * MIB - 4_096)] {
        let before = taken(&system, ino);
        system.punch(ino, hole.clone()).unwrap();
        expected[hole.start as usize..hole.end as usize].fill(0);
        assert_eq!(before - taken(&system, ino), freed);
        assert!(contents(&system, ino) == expected);
        sound(&system);
    }
}

/// Frames that a file has ahead once became data of it where a write skipped them, or its end moved over them.
#[test]
fn what_is_skipped_is_a_hole() {
    for (ahead, to) in [(4_096, 40_000), (4_096, MIB), (4 * MIB, 3 * MIB), (4 * MIB, 9 * MIB + 5)] {
        for grows in [false, true] {
            let mut system = empty(1 << 13);
            let ino = make(&mut system, "file");
            system.write(ino, 0, b"some").unwrap();
            system.reserve(ino, 4..ahead).unwrap();
            if grows {
                system
                    .set_attributes(ino, &SetAttributes { size: Some(to), ..SetAttributes::default() })
                    .unwrap();
                system.write(ino, to, b"more").unwrap();
            } else {
                system.write(ino, to, b"more").unwrap();
            }
            assert_eq!(system.seek(ino, 0, Seek::Hole), Ok(4_096), "{ahead} {to} {grows}");
            assert_eq!(system.seek(ino, 4_096, Seek::Data), Ok(to / 4_096 * 4_096), "{ahead} {to} {grows}");
            let mut expected = vec![0; to as usize + 4];
            expected[..4].copy_from_slice(b"some");
            expected[to as usize..].copy_from_slice(b"more");
            assert!(contents(&system, ino) == expected);
            sound(&system);
        }
    }
    // What `fallocate` has given is the file's.
    let mut system = empty(1 << 13);
    let ino = make(&mut system, "file");
    system.allocate(ino, 0..64 << 10, true).unwrap();
    system.write(ino, 50_000, b"more").unwrap();
    assert_eq!(system.seek(ino, 0, Seek::Hole), Ok(50_004));
    sound(&system);
}

/// What a program gets ahead of what it writes is not the file's yet, whatever its partition.
#[test]
fn frames_ahead_of_the_end_are_not_told() {
    for bytes in [10_000, 300_000, 5 << 20, 70 << 20] {
        let mut system = empty(1 << 16);
        let ino = make(&mut system, "file");
        system.open(ino).unwrap();
        let blocks = |system: &FileSystem<Recording>| system.attributes(ino).unwrap().blocks * 512;
        system.write(ino, 0, &vec![1; bytes]).unwrap();
        let (before, free) = (blocks(&system), system.space().free);
        assert!(before >= bytes as u64 && before < bytes as u64 + (2 << 20));
        let reached = system.reserve(ino, bytes as u64..bytes as u64 + (16 << 20)).unwrap();
        assert!(reached > bytes as u64 + (8 << 20) && system.space().free + 2_000 < free);
        assert_eq!((blocks(&system), counted(&system, ino)), (before, before));
        // What is allocated there is.
        system.allocate(ino, 0..bytes as u64 + (1 << 20), true).unwrap();
        assert!(blocks(&system) >= before + (1 << 20) - 4_096, "{} {before}", blocks(&system));
        assert_eq!(blocks(&system), counted(&system, ino));
        system.shrink(ino).unwrap();
        assert_eq!(blocks(&system), counted(&system, ino));
        sound(&system);
    }
}
