//! Processes of all kinds on the same files, for as long as it is said.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use pagewalk_vm::random::SplitMix64;

use super::mapped::Bytes;
use super::{shim, start};
use crate::mounted::{Store, text};

/// Files of records, and records in each. No record ends where a page does.
const FILES: u64 = 16;
const RECORDS: u64 = 12;
const RECORD_BYTES: usize = 5_096;
/// Records under one lock.
const LOCKED: u64 = 6;
/// Processes of the stress: some with two threads, some with one.
pub(super) const PROCESSES_OF_TWO: u64 = 4;
const PROCESSES: u64 = 6;
/// Bytes of a line of the log that every process appends to.
const LINE_BYTES: usize = 48;

fn record(file: u64, record: u64, version: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(1 + version * 1_000_003 + file * 101 + record * 7_919);
    if version == 0 {
        return vec![0; RECORD_BYTES];
    }
    (0..RECORD_BYTES).map(|_| random.below(256) as u8).collect()
}

/// One thread of the stress: it reads and writes records under locks that lie elsewhere, replaces files, and appends to the log.
pub(super) fn thread(folder: &Path, number: u64, seconds: u64) {
    let mount = folder.join("mount");
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let versions = open().open(folder.join("versions")).expect("open");
    let mut random = SplitMix64::new(0x9e37_79b9 + number * 77);
    let mut kept: HashMap<u64, File> = HashMap::new();
    let mut mapped: HashMap<u64, Bytes> = HashMap::new();
    let mut whole_mapped: HashMap<u64, Bytes> = HashMap::new();
    let log = OpenOptions::new().append(true).create(true).open(mount.join("log")).expect("open");
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut lines = 0u64;
    let mut rounds = 0u64;
    while Instant::now() < until || rounds < 50 {
        rounds += 1;
        let file = random.below(FILES);
        let first = random.below(RECORDS / LOCKED) * LOCKED;
        let lock = open().open(folder.join(format!("lock-{file}-{first}"))).expect("open");
        let writes = random.below(3) == 0;
        if writes { lock.lock() } else { lock.lock_shared() }.expect("locked");
        match random.below(12) {
            0..=3 => drop(kept.remove(&file)),
            // Files that no other process has open are this process's alone for a while.
            4 => kept.clear(),
            5 => mapped.clear(),
            6 => {
                let file = random.below(FILES);
                if let Ok(records) = File::open(mount.join(format!("records-{file}"))) {
                    mapped.insert(file, Bytes::shared_of(&records));
                }
            }
            _ => {}
        }
        let records = kept
            .entry(file)
            .or_insert_with(|| open().open(mount.join(format!("records-{file}"))).expect("open"));
        for at in first..first + 1 + random.below(LOCKED) {
            let place = (file * RECORDS + at) * 8;
            let mut version = [0; 8];
            versions.read_exact_at(&mut version, place).expect("read");
            let version = u64::from_le_bytes(version);
            let offset = at * RECORD_BYTES as u64;
            if writes {
                let bytes = record(file, at, version + 1);
                if random.below(2) == 0 {
                    records.write_all_at(&bytes, offset).expect("written");
                } else {
                    let mut own = open().open(mount.join(format!("records-{file}"))).expect("open");
                    own.seek(SeekFrom::Start(offset)).expect("moved");
                    let half = random.below(RECORD_BYTES as u64) as usize;
                    own.write_all(&bytes[..half]).expect("written");
                    own.write_all(&bytes[half..]).expect("written");
                }
                versions.write_all_at(&(version + 1).to_le_bytes(), place).expect("written");
            } else {
                let mut bytes = vec![0; RECORD_BYTES];
                let mut read = 0;
                while read < RECORD_BYTES {
                    match records.read_at(&mut bytes[read..], offset + read as u64).expect("read") {
                        0 => break,
                        more => read += more,
                    }
                }
                assert!(
                    version == 0 || read == RECORD_BYTES,
                    "{file}/{at}: {read} bytes of version {version}"
                );
                let expected = record(file, at, version);
                if bytes != expected {
                    // Old bytes, others, or some of them.
                    let differ: Vec<usize> =
                        (0..RECORD_BYTES).filter(|&byte| bytes[byte] != expected[byte]).collect();
                    let older = (0..version).rev().take(100).find(|&old| bytes == record(file, at, old));
                    let now = std::fs::read(mount.join(format!("records-{file}"))).expect("read");
                    let is_right_now =
                        now.get(offset as usize..).is_some_and(|now| now.starts_with(&expected));
                    panic!(
                        "{file}/{at} is not version {version}: {} bytes from {} to {} differ; it is version {older:?}; \
                         opened again it is right: {is_right_now}; {number}",
                        differ.len(),
                        differ[0],
                        differ[differ.len() - 1]
                    );
                }
                // What was mapped some time ago is what the file is now.
                let mapped = mapped.get(&file).and_then(|mapped| mapped.get(offset as usize, RECORD_BYTES));
                assert!(mapped.is_none_or(|mapped| mapped == expected), "{file}/{at}, mapped");
            }
        }
        lock.unlock().expect("unlocked");
        drop(lock);
        match random.below(16) {
            0 | 1 => {
                lines += 1;
                let line = format!("{number:08} {lines:012} {:020}\n", number * lines % 1_000_007);
                let line = format!("{line:>LINE_BYTES$}");
                (&log).write_all(line.as_bytes()).expect("appended");
            }
            2 => {
                // A file that is replaced is the old one or the new one.
                let whole = mount.join(format!("whole-{}", random.below(3)));
                let new = mount.join(format!("new-{number}"));
                let bytes = vec![number as u8; 1 + random.below(100_000) as usize];
                let mut written = File::create(&new).expect("made");
                written.write_all(&(bytes.len() as u64).to_le_bytes()).expect("written");
                written.write_all(&bytes).expect("written");
                drop(written);
                std::fs::rename(&new, &whole).expect("renamed");
            }
            3 => {
                let whole = mount.join(format!("whole-{}", random.below(3)));
                let Ok(mut file) = File::open(&whole) else { continue };
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).expect("read");
                let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight"));
                assert_eq!(bytes.len() as u64, 8 + length);
                assert!(bytes[8..].iter().all(|&byte| byte == bytes[8]));
                // The same through a mapping, which outlives the name.
                let slot = random.below(8);
                if let Some(old) = whole_mapped.remove(&slot) {
                    let header = old.get(0, 8).expect("it was there");
                    let length = u64::from_le_bytes(header.try_into().expect("eight")) as usize;
                    let bytes = old.get(8, length).expect("it was there");
                    assert!(bytes.iter().all(|&byte| byte == bytes[0]), "a mapped file has changed");
                }
                if let Ok(file) = File::open(&whole) {
                    whole_mapped.insert(slot, Bytes::shared_of(&file));
                }
            }
            4 => {
                // A file of this process alone: cut and grown.
                let own = open().open(mount.join(format!("own-{number}"))).expect("open");
                let (first, second) = (random.below(300_000), random.below(300_000));
                own.set_len(0).expect("cut");
                own.write_all_at(&vec![0xaa; first as usize], 0).expect("written");
                own.set_len(second).expect("set");
                own.set_len(300_000).expect("grown");
                let mut bytes = vec![1; 300_000];
                own.read_exact_at(&mut bytes, 0).expect("read");
                let kept = first.min(second) as usize;
                assert!(
                    bytes[..kept].iter().all(|&byte| byte == 0xaa)
                        && bytes[kept..].iter().all(|&byte| byte == 0)
                );
            }
            5 | 6 if number.is_multiple_of(4) => {
                // A child inherits what is not marked, and everything before it is another program.
                assert!(Command::new("true").status().expect("it runs").success());
            }
            _ => {}
        }
    }
    println!("lines {number} {lines}");
}

/// Processes with the shim and without, and what they leave.
fn stressed(seconds: u64) {
    let Some(shim) = shim() else { return };
    let store = Store::new("96MiB");
    let Some(mounted) = store.mount() else { return };
    let folder = store.folder.path();
    std::fs::write(folder.join("versions"), vec![0; (FILES * RECORDS * 8) as usize]).expect("written");
    let processes: Vec<Child> = (0..PROCESSES)
        .map(|number| start("stress", (number % 4 != 3).then_some(shim.as_path()), folder, number, seconds))
        .collect();
    let mut lines = HashMap::new();
    for process in processes {
        let output = process.wait_with_output().expect("it ended");
        assert!(output.status.success(), "{}", text(&output.stdout));
        for line in text(&output.stdout).lines().filter_map(|line| line.split("lines ").nth(1)) {
            let (number, count) = line.split_once(' ').expect("two numbers");
            lines.insert(number.parse::<u64>().expect("one"), count.parse::<u64>().expect("one"));
        }
    }
    assert_eq!(lines.len() as u64, PROCESSES + PROCESSES_OF_TWO);
    let log = std::fs::read_to_string(folder.join("mount/log")).expect("read");
    assert_eq!(log.len() as u64, lines.values().sum::<u64>() * LINE_BYTES as u64);
    let mut last = HashMap::new();
    for line in log.lines().map(str::trim) {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let before = last.insert(words[0], words[1]).unwrap_or(0);
        assert_eq!(words[1], before + 1, "{line}");
        assert_eq!(words[2], words[0] * words[1] % 1_000_007);
    }
    assert!(lines.iter().all(|(number, count)| last.get(number).copied().unwrap_or(0) == *count));
    let versions = std::fs::read(folder.join("versions")).expect("read");
    for file in 0..FILES {
        let bytes = std::fs::read(folder.join(format!("mount/records-{file}"))).expect("read");
        for at in 0..RECORDS {
            let place = ((file * RECORDS + at) * 8) as usize;
            let version = u64::from_le_bytes(versions[place..place + 8].try_into().expect("eight"));
            let start = at as usize * RECORD_BYTES;
            if version > 0 {
                assert!(bytes[start..start + RECORD_BYTES] == record(file, at, version), "{file}/{at}");
            }
        }
    }
    drop(mounted);
    store.is_sound();
}

#[test]
fn processes_share_files_with_and_without_the_shim() {
    stressed(4);
}

#[test]
#[ignore = "takes half an hour; `make soak`"]
fn processes_share_files_for_half_an_hour() {
    stressed(1_800);
}
