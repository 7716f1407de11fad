//! Tests of what a process sees of files in the view, each in one contiguous range, against vectors.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use pagewalk_vm::random::SplitMix64;
use rustix::fs::MemfdFlags;

use crate::{FileSystem, Files, Ino, Mapped, OpenOptions, Overwrites, Owner, Survives};

const MIB: u64 = 1 << 20;

/// A store in memory of the kernel's, whose mappings may be so many.
fn files(bytes: u64, limit: usize) -> (Files<Mapped>, OwnedFd) {
    let memory = rustix::fs::memfd_create("view", MemfdFlags::CLOEXEC).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
    let mut mapped = Mapped::create(&path, bytes, Survives::ProcessCrash).unwrap();
    mapped.limit_mappings(limit);
    let system = FileSystem::format(mapped, Owner::default(), || 0).unwrap();
    (Files::new(system), memory)
}

fn mappings(files: &Files<Mapped>) -> usize {
    files.shared().store().memory().mappings().unwrap().0
}

fn bytes_of(number: u8, length: u64) -> Vec<u8> {
    (0..length).map(|at| number.wrapping_add((at / 3_001) as u8)).collect()
}

#[test]
fn a_file_is_one_range_of_addresses() {
    let (files, _memory) = files(64 * MIB, 1_000);
    let file = files.open("/f", &OpenOptions::updating()).unwrap();
    let data = bytes_of(7, 9 * MIB + 5);
    file.write_at(&data, 0).unwrap();
    let mut read = vec![0; data.len()];
    file.read_at(&mut read, 0).unwrap();
    assert!(read == data);
    assert_eq!(mappings(&files), 5);
    let system = files.shared();
    let memory = system.store().memory();
    let partition = system.inode(Ino(file.attributes().unwrap().ino.0)).unwrap().partition().unwrap();
    let first = memory.place_of(partition.first, 0, 1).unwrap();
    // An address is the first one plus the offset, across pages of whatever frames.
    for offset in [1, 4_095, 2 * MIB - 1, 2 * MIB, 5 * MIB + 77, 9 * MIB + 4] {
        let place = memory.place_of(partition.first, offset, 1).unwrap();
        assert_eq!(place.as_ptr() as u64 - first.as_ptr() as u64, offset);
        // SAFETY: it is mapped, and no thread writes it.
        #[allow(unsafe_code)]
        let byte = unsafe { *place.as_ptr() };
        assert_eq!(byte, data[offset as usize], "{offset}");
    }
    // The kernel says the same: no gap between the mappings of the store's file.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut at = first.as_ptr() as u64;
    for line in maps.lines().filter(|line| line.contains("memfd:view")) {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
        if from <= at && at < to {
            at = to;
        }
    }
    assert!(at - first.as_ptr() as u64 >= 10 * MIB, "the kernel maps {at:#x}");
}

#[test]
fn mappings_move_with_a_file_and_go_with_it() {
    let (files, _memory) = files(128 * MIB, 1_000);
    let file = files.open("/f", &OpenOptions::updating()).unwrap();
    let mut expected = Vec::new();
    for (step, end) in [3 * MIB, 15 * MIB, 17 * MIB, 40 * MIB].into_iter().enumerate() {
        let part = bytes_of(step as u8, end - expected.len() as u64);
        file.write_at(&part, expected.len() as u64).unwrap();
        expected.extend(part);
        let before = mappings(&files);
        let mut read = vec![0; expected.len()];
        file.read_at(&mut read, 0).unwrap();
        assert!(read == expected, "{end}");
        // What was mapped in the smaller partition still is.
        assert!(before > 0 && mappings(&files) == end.div_ceil(2 * MIB) as usize, "{end}");
    }
    let other = files.open("/other", &OpenOptions::updating()).unwrap();
    let second = bytes_of(99, 20 * MIB);
    other.write_at(&second, 0).unwrap();
    for end in [33 * MIB, 15 * MIB + 1, 4 * MIB, MIB, 0] {
        file.set_len(end).unwrap();
        let mut read = vec![0; expected.len()];
        assert_eq!(file.read_at(&mut read, 0), Ok(end as usize));
        assert!(read[..end as usize] == expected[..end as usize], "{end}");
    }
    let mut read = vec![0; second.len()];
    other.read_at(&mut read, 0).unwrap();
    assert!(read == second);
    assert_eq!(mappings(&files), 10);
    drop(other);
    files.remove_file("/other").unwrap();
    assert_eq!(mappings(&files), 0);
}

/// A file that grows alone has few mappings; where files grow in turn, or get the frames of others, none sees another's bytes.
#[test]
fn what_mappings_reach_ahead_over_is_looked_up() {
    let (files, _memory) = files(200 * MIB, 1_000);
    let mut open: Vec<_> =
        (0..3).map(|at| files.open(format!("/{at}"), &OpenOptions::updating()).unwrap()).collect();
    let mut expected: Vec<Vec<u8>> = vec![Vec::new(); 3];
    let grow = |file: &crate::File<Mapped>, expected: &mut Vec<u8>, step: u64| {
        let part = bytes_of(step as u8, 2 * MIB);
        for piece in part.chunks(64 << 10) {
            file.write_at(piece, expected.len() as u64).unwrap();
            expected.extend(piece);
        }
    };
    (0..20).for_each(|step| grow(&open[0], &mut expected[0], step));
    assert_eq!(mappings(&files), 19, "the first was small pages");
    let from = {
        let system = files.shared();
        let partition = system.inode(open[0].attributes().unwrap().ino).unwrap().partition().unwrap();
        system.store().memory().place_of(partition.first, 2 * MIB, 1).unwrap().as_ptr() as u64
    };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let begins = maps.lines().map(|line| u64::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap());
    let count = begins.filter(|begin| (from..from + 38 * MIB).contains(begin)).count();
    assert!(count <= 3, "{count} mappings of the kernel's");
    let mut random = SplitMix64::new(3);
    for step in 20..120 {
        let at = random.below(3) as usize;
        if expected[at].len() as u64 > 30 * MIB || random.below(8) == 0 {
            if random.below(2) == 0 {
                files.remove_file(format!("/{at}")).unwrap();
                open[at] = files.open(format!("/{at}"), &OpenOptions::updating()).unwrap();
                expected[at].clear();
            } else {
                expected[at].truncate(random.below(20 * MIB) as usize);
                open[at].set_len(expected[at].len() as u64).unwrap();
            }
        }
        grow(&open[at], &mut expected[at], step);
        for (file, expected) in open.iter().zip(&expected) {
            let mut read = vec![0; expected.len()];
            assert_eq!(file.read_at(&mut read, 0), Ok(expected.len()));
            assert!(read == *expected, "{step}");
        }
    }
    assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
}

/// From 4 KiB to 8 GiB in nine moves, each of 64 entries of the table at most.
#[test]
#[ignore = "takes 10 GiB of memory; `make soak`"]
fn a_file_grows_to_8_gib_without_being_copied() {
    let (files, _memory) = files(9 << 30, 10_000);
    let file = files.open("/f", &OpenOptions::appending()).unwrap();
    let mut bytes = bytes_of(1, MIB);
    for number in 0..(8 << 10) {
        bytes[..8].copy_from_slice(&u64::to_le_bytes(number));
        // The first in small pieces, through all the small partitions.
        for piece in bytes.chunks(if number < 4 { 4_096 } else { bytes.len() }) {
            assert_eq!(file.write_at(piece, 0), Ok(piece.len()));
        }
    }
    let counts = files.shared().counts();
    assert!(counts.most_entries_moved <= 64 && counts.moves == 7, "{counts:?}");
    let reader = files.open("/f", &OpenOptions::default()).unwrap();
    for number in 0..(8 << 10) {
        let mut word = [0; 8];
        reader.read_at(&mut word, number * MIB).unwrap();
        assert_eq!(u64::from_le_bytes(word), number);
    }
    assert_eq!(mappings(&files), (4 << 10) - 1, "the first was small pages, and still is");
}

#[test]
fn beyond_the_kernels_limit_pages_are_walked_to() {
    let (files, _memory) = files(64 * MIB, 3);
    let file = files.open("/f", &OpenOptions::updating()).unwrap();
    let data = bytes_of(3, 21 * MIB);
    file.write_at(&data, 0).unwrap();
    for _ in 0..2 {
        for (chunk, expected) in (0..).zip(data.chunks(100_000)) {
            let mut read = vec![0; expected.len()];
            assert_eq!(file.read_at(&mut read, chunk * 100_000), Ok(expected.len()));
            assert!(read == expected, "{chunk}");
        }
    }
    assert_eq!(mappings(&files), 3);
}

/// Writes, cuts, holes and renames around the boundaries of pieces and partitions, against vectors.
#[test]
fn what_is_seen_is_what_was_written() {
    for overwrites in [Overwrites::InPlace, Overwrites::Whole] {
        let (files, _memory) = files(160 * MIB, 20);
        files.exclusive().unwrap().set_overwrites(overwrites);
        let mut random = SplitMix64::new(11);
        let mut expected: [Vec<u8>; 3] = Default::default();
        let open: Vec<_> =
            (0..3).map(|file| files.open(format!("/{file}"), &OpenOptions::updating()).unwrap()).collect();
        for step in 0..250u64 {
            let at = random.below(3) as usize;
            let near = [4_096, 2 * MIB, 4 * MIB, 16 * MIB][random.below(4) as usize] + random.below(3) - 1;
            match random.below(6) {
                0..=2 => {
                    let offset = near.saturating_sub(random.below(3 * MIB));
                    let part = bytes_of(step as u8, 1 + random.below(3 * MIB));
                    let written = open[at].write_at(&part, offset).unwrap();
                    assert_eq!(written, part.len());
                    let end = offset as usize + written;
                    if expected[at].len() < end {
                        expected[at].resize(end, 0);
                    }
                    expected[at][offset as usize..end].copy_from_slice(&part);
                }
                3 => {
                    open[at].set_len(near).unwrap();
                    expected[at].resize(near as usize, 0);
                }
                4 => {
                    let range = near..near + random.below(4 * MIB) + 1;
                    let ino = open[at].attributes().unwrap().ino;
                    files.exclusive().unwrap().punch(ino, range.clone()).unwrap();
                    let end = (range.end as usize).min(expected[at].len());
                    let begin = (range.start as usize).min(end);
                    expected[at][begin..end].fill(0);
                }
                _ => {
                    let mut read = vec![1; expected[at].len() + 10];
                    assert_eq!(open[at].read_at(&mut read, 0), Ok(expected[at].len()));
                    assert!(read[..expected[at].len()] == expected[at], "{step}");
                }
            }
            assert!(mappings(&files) <= 20);
        }
        for (file, expected) in open.iter().zip(&expected) {
            let mut read = vec![0; expected.len()];
            assert_eq!(file.read_at(&mut read, 0), Ok(expected.len()));
            assert!(read == *expected);
        }
        assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
    }
}
