//! Programs that use files of a mount in their own memory, beside others that use them through the kernel.

mod mounted;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mounted::{Store, name, text};

/// Files of records, and records in each. No record ends where a page does.
const FILES: u64 = 16;
const RECORDS: u64 = 12;
const RECORD_BYTES: usize = 5_096;
/// Records under one lock.
const LOCKED: u64 = 6;
/// Processes of the stress: some with two threads, some with one.
const PROCESSES_OF_TWO: u64 = 4;
const PROCESSES: u64 = 6;
/// Lines of the log that everybody appends to.
const LINE_BYTES: usize = 48;

/// Numbers without a pattern that matters.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn record(file: u64, record: u64, version: u64) -> Vec<u8> {
    let mut random = Random(1 + version * 1_000_003 + file * 101 + record * 7_919);
    if version == 0 {
        return vec![0; RECORD_BYTES];
    }
    (0..RECORD_BYTES).map(|_| random.below(256) as u8).collect()
}

/// The shared library, where the tests' build puts it.
fn shim() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_pagewalk")).with_file_name("libpagewalk_ctfs_shim.so");
    let is_there = beside.is_file();
    if !is_there {
        println!("skipped: `cargo build --package pagewalk-ctfs-shim` makes what is preloaded");
    }
    is_there.then_some(beside)
}

/// This program as another process that does what `PAGEWALK_TEST_PART` says, with the shim or without.
fn start(part: &str, shim: Option<&Path>, folder: &Path, number: u64, seconds: u64) -> Child {
    let itself = std::env::current_exe().expect("a program");
    let mut command = match shim {
        Some(_) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
            command.args(["fs", "run", "--", name(&itself)]);
            command
        }
        None => Command::new(itself),
    };
    command
        .env("PAGEWALK_TEST_PART", part)
        .env("PAGEWALK_TEST_FOLDER", folder)
        .env("PAGEWALK_TEST_NUMBER", number.to_string())
        .env("PAGEWALK_TEST_SECONDS", seconds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Parts run before the tests' own `main`, which has threads: a program with one takes other ways.
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code)]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    if let Ok(part) = std::env::var("PAGEWALK_TEST_PART") {
        part_of_a_test(&part);
        std::process::exit(0);
    }
}

fn part_of_a_test(part: &str) {
    let variable = |name: &str| std::env::var(format!("PAGEWALK_TEST_{name}")).expect("it was given");
    let folder = PathBuf::from(variable("FOLDER"));
    let number: u64 = variable("NUMBER").parse().expect("a number");
    match part {
        "stress" => {
            let seconds: u64 = variable("SECONDS").parse().expect("a number");
            if number >= PROCESSES_OF_TWO {
                return stress(&folder, number * 2, seconds);
            }
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let folder = &folder;
                    scope.spawn(move || stress(folder, number * 2 + thread, seconds));
                }
            });
        }
        "operations" => {
            // With one thread and with another.
            let act = || operations(&folder.join("mount/tree"), number);
            if number.is_multiple_of(2) {
                act();
            } else {
                std::thread::scope(|scope| scope.spawn(act).join().expect("it went well"));
            }
        }
        "descriptors" => descriptors(&folder.join("mount"), number),
        "large" => large(&folder.join("mount"), number),
        "full" => full(&folder.join("mount")),
        "cut" => cut(&folder.join("mount/mapped")),
        "mapped" => mapped(&folder.join("mount")),
        "leaves mapped" => leaves_mapped(&folder.join("mount")),
        part => panic!("{part}"),
    }
}

/// One thread of the stress: it reads and writes records under locks that lie elsewhere, replaces files, and appends to the log.
fn stress(folder: &Path, number: u64, seconds: u64) {
    let mount = folder.join("mount");
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let versions = open().open(folder.join("versions")).expect("open");
    let mut random = Random(0x9e37_79b9 + number * 77);
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
            // Files that nobody else has open are this process's alone for a while.
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
                // Nobody else's: cut and grown.
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

/// A sequence of operations on a tree, the same for the same seed.
fn operations(tree: &Path, seed: u64) {
    let mut random = Random(seed * 2 + 1);
    std::fs::create_dir_all(tree).expect("made");
    let sizes = [1u64, 4_096, 32_768, 262_144, 2 << 20];
    for step in 0..400u64 {
        let path = tree.join(format!("{}", random.below(12)));
        let near = |random: &mut Random| {
            (sizes[random.below(5) as usize] + random.below(3)).saturating_sub(1)
                + random.below(2) * random.below(70_000)
        };
        match random.below(10) {
            0..=3 => {
                let file =
                    OpenOptions::new().write(true).create(true).truncate(false).open(&path).expect("open");
                let (offset, length) = (near(&mut random), random.below(50_000) as usize);
                file.write_all_at(&vec![step as u8; length], offset).expect("written");
            }
            4 => {
                let mut file =
                    OpenOptions::new().append(true).create(true).mode(0o640).open(&path).expect("open");
                for part in 0..random.below(20) {
                    file.write_all(&vec![(step + part) as u8; random.below(9_000) as usize])
                        .expect("appended");
                }
            }
            5 => {
                let file =
                    OpenOptions::new().write(true).create(true).truncate(false).open(&path).expect("open");
                file.set_len(near(&mut random)).expect("set");
            }
            6 => drop(std::fs::remove_file(&path)),
            7 => drop(std::fs::rename(&path, tree.join(format!("{}", random.below(12))))),
            8 => {
                let mut file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(&path)
                    .expect("open");
                let end = file.seek(SeekFrom::End(0)).expect("moved");
                file.seek(SeekFrom::Start(end / 2)).expect("moved");
                let mut bytes = vec![0; 5_000];
                let read = file.read(&mut bytes).expect("read");
                file.write_all(&bytes[..read]).expect("written");
            }
            _ => drop(std::fs::hard_link(&path, tree.join(format!("{}", random.below(12))))),
        }
    }
}

/// Names, attributes and bytes.
fn listed(tree: &Path) -> Vec<(String, u64, u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt;
    let mut files: Vec<_> = std::fs::read_dir(tree)
        .expect("read")
        .map(|entry| {
            let entry = entry.expect("read");
            let metadata = entry.metadata().expect("read");
            let bytes = std::fs::read(entry.path()).expect("read");
            assert_eq!(metadata.len(), bytes.len() as u64);
            (entry.file_name().to_string_lossy().into_owned(), metadata.nlink(), metadata.mode(), bytes)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_same_operations_leave_the_same_with_and_without_the_shim() {
    let Some(shim) = shim() else { return };
    for seed in 1..4 {
        let expected = tempfile::tempdir().expect("a folder");
        operations(expected.path(), seed);
        for (with, options) in
            [(None, &[][..]), (Some(shim.as_path()), &[]), (Some(shim.as_path()), &["--strict"])]
        {
            let store = Store::new("64MiB");
            let Some(mounted) = store.mount_with(options) else { return };
            let output = start("operations", with, store.folder.path(), seed, 0).wait_with_output();
            assert!(output.expect("it ended").status.success());
            let (ours, theirs) = (listed(&store.mount_point().join("tree")), listed(expected.path()));
            assert!(ours == theirs, "seed {seed}, {with:?}, {options:?}");
            drop(mounted);
            store.is_sound();
        }
    }
}

/// What the kernel has of a file, whatever the shim has.
#[allow(unsafe_code)]
fn read_by_kernel(file: &File, bytes: &mut [u8]) -> usize {
    use std::os::fd::AsRawFd;
    // SAFETY: as much is read as there is room.
    let read = unsafe {
        libc::syscall(libc::SYS_pread64, file.as_raw_fd(), bytes.as_mut_ptr(), bytes.len(), 0 as libc::off_t)
    };
    usize::try_from(read).expect("read")
}

/// What a descriptor is opened for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Read,
    Append,
    Overwrite,
}

/// Descriptors that are opened and not used, copied, closed, and inherited by programs that write: whoever looks sees every byte.
fn descriptors(mount: &Path, seed: u64) {
    const FILES: u64 = 2;
    const MOST_OPEN: u64 = 4;
    struct Descriptor {
        number: usize,
        purpose: Purpose,
        file: File,
        /// By a program: it is the kernel's since then.
        was_inherited: bool,
    }
    let mut random = Random(seed);
    let mut files = [const { Vec::new() }; FILES as usize];
    let mut open: Vec<Descriptor> = Vec::new();
    for step in 0..10_000u64 {
        let act = random.below(30);
        if act < 5 && open.len() < MOST_OPEN as usize {
            let number = random.below(FILES) as usize;
            let purpose = [Purpose::Read, Purpose::Append, Purpose::Overwrite][random.below(3) as usize];
            let mut options = OpenOptions::new();
            options.read(true).append(purpose == Purpose::Append).write(purpose != Purpose::Read);
            options.create(purpose != Purpose::Read).truncate(false);
            if let Ok(file) = options.open(mount.join(format!("file-{number}"))) {
                open.push(Descriptor { number, purpose, file, was_inherited: false });
            }
            continue;
        }
        let chosen = random.below(MOST_OPEN) as usize;
        let is_room = open.len() < MOST_OPEN as usize;
        let Some(Descriptor { number, purpose, file, was_inherited }) = open.get_mut(chosen) else {
            continue;
        };
        let bytes = &mut files[*number];
        let copy = || file.try_clone().expect("a copy");
        match act {
            0..7 => {
                let copied = Descriptor { file: copy(), ..*open.get(chosen).expect("it is there") };
                if is_room {
                    open.push(copied);
                }
            }
            7..9 => drop(open.swap_remove(chosen)),
            9..17 if *purpose != Purpose::Read => {
                let written = vec![step as u8; random.below(5_000) as usize];
                let at = random.below(bytes.len() as u64 + 1) as usize;
                file.write_all_at(&written, at as u64).expect("written");
                // As Linux does, whatever POSIX says.
                let at = if *purpose == Purpose::Append { bytes.len() } else { at };
                bytes.resize(bytes.len().max(at + written.len()), 0);
                bytes[at..at + written.len()].copy_from_slice(&written);
            }
            17 if *purpose == Purpose::Append => {
                let text = format!("program {step}");
                let program = Command::new("printf").arg(&text).stdout(copy()).status();
                assert!(program.expect("it starts").success());
                bytes.extend(text.bytes());
                open.iter_mut().for_each(|descriptor| descriptor.was_inherited = true);
            }
            18..22 => {
                let mapped = Bytes::shared_of(file);
                assert!(mapped.get(0, bytes.len()).as_ref() == Some(bytes), "{step}");
            }
            // Not behind the end: the kernel would ask how much there is.
            22..28 if *was_inherited => {
                let mut read = vec![1; bytes.len()];
                assert_eq!(read_by_kernel(file, &mut read), bytes.len(), "{step}");
                assert!(read == *bytes, "{step}");
            }
            _ => {
                let mut read = vec![1; bytes.len() + 1];
                assert_eq!(file.read_at(&mut read, 0).expect("read"), bytes.len(), "{step}");
                assert!(read[..bytes.len()] == *bytes, "{step}");
            }
        }
    }
}

#[test]
fn descriptors_that_are_not_used_yet_hide_nothing() {
    let Some(shim) = shim() else { return };
    for seed in 1..4 {
        let store = Store::new("48MiB");
        let Some(mounted) = store.mount() else { return };
        let process = start("descriptors", Some(&shim), store.folder.path(), seed, 0);
        assert!(process.wait_with_output().expect("it ended").status.success());
        drop(mounted);
        store.is_sound();
    }
}

/// Files of large pages that come, go, and get each other's: what this process remembers of where they lie must not outlive that.
fn large(mount: &Path, seed: u64) {
    const BYTES: u64 = 6 << 20;
    let mut random = Random(seed);
    let open = |file| {
        let path = mount.join(format!("large-{file}"));
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("open")
    };
    let mut files: Vec<(File, Vec<u8>)> = (0..4).map(|file| (open(file), Vec::new())).collect();
    for step in 0..200u64 {
        if step == 100 {
            // A child that shares this process's memory, and ends with it.
            Command::new(mount.join("no such program")).spawn().expect_err("it is not there");
        }
        let (file, expected) = &mut files[random.below(4) as usize];
        match random.below(4) {
            0 => {
                let length = random.below(2) * random.below(BYTES);
                file.set_len(length).expect("cut");
                expected.resize(length as usize, 0);
            }
            1 | 2 => {
                let offset = random.below(2) * random.below(BYTES / 2);
                let bytes = vec![step as u8; random.below(BYTES / 2) as usize + 1];
                file.write_all_at(&bytes, offset).expect("written");
                let end = offset as usize + bytes.len();
                expected.resize(expected.len().max(end), 0);
                expected[offset as usize..end].copy_from_slice(&bytes);
            }
            _ => {
                let mut bytes = vec![1; 5_000];
                let offset = random.below(BYTES);
                let read = file.read_at(&mut bytes, offset).expect("read");
                let from = (offset as usize).min(expected.len());
                assert!(bytes[..read] == expected[from..(from + 5_000).min(expected.len())], "{step}");
            }
        }
    }
    for (file, expected) in files {
        let mut bytes = vec![1; expected.len() + 1];
        assert_eq!(file.read_at(&mut bytes, 0).expect("read"), expected.len());
        assert!(bytes[..expected.len()] == expected);
    }
}

#[test]
fn what_a_process_remembers_of_large_pages_ends_with_them() {
    let Some(shim) = shim() else { return };
    for seed in 1..4 {
        let store = Store::new("48MiB");
        let Some(mounted) = store.mount() else { return };
        let process = start("large", Some(&shim), store.folder.path(), seed, 0);
        assert!(process.wait_with_output().expect("it ended").status.success());
        drop(mounted);
        store.is_sound();
    }
}

/// Writes until there is no room, in two ways, and goes on when there is some again.
fn full(mount: &Path) {
    let file = OpenOptions::new().append(true).create(true).open(mount.join("full")).expect("open");
    let mut end = 0;
    let error = loop {
        match (&file).write(&[7; 70_001]) {
            Ok(written) => end += written as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(file.metadata().expect("known").len(), end);
    assert!(end > 4 << 20, "{end}");
    let other = File::create(mount.join("other"));
    let refused = other.and_then(|other| other.write_all_at(&[1; 100_000], 0));
    assert_eq!(refused.expect_err("no room").raw_os_error(), error.raw_os_error());
    // What was written is there, and what is given back can be used.
    let bytes = std::fs::read(mount.join("full")).expect("read");
    assert!(bytes.len() as u64 == end && bytes.iter().all(|&byte| byte == 7));
    file.set_len(1 << 20).expect("cut");
    let other =
        OpenOptions::new().write(true).create(true).truncate(true).open(mount.join("other")).expect("open");
    other.write_all_at(&[1; 100_000], 0).expect("written");
}

/// Uses a mapping of which the file was cut: the kernel ends such a process.
#[allow(unsafe_code)]
fn cut(path: &Path) {
    use std::os::fd::AsRawFd;
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).expect("open");
    file.write_all_at(&[5; 10_000], 0).expect("written");
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // By the C library, as programs do, so that the shim sees it.
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start: *mut u8 = unsafe {
        libc::mmap(std::ptr::null_mut(), 8_192, protection, libc::MAP_SHARED, file.as_raw_fd(), 0).cast()
    };
    // SAFETY: both pages are mapped.
    let bytes = unsafe { [start.read_volatile(), start.add(4_096).read_volatile()] };
    assert_eq!(bytes, [5, 5]);
    // What is written to the mapping the file has, and the other way round.
    // SAFETY: as above.
    unsafe { start.write_volatile(6) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).expect("read");
    assert_eq!(byte, [6]);
    file.write_all_at(&[8], 1).expect("written");
    // SAFETY: as above.
    assert_eq!(unsafe { start.add(1).read_volatile() }, 8);
    file.set_len(4_096).expect("cut");
    println!("before the end");
    // SAFETY: mapped, though there is no file there any more.
    let byte = unsafe { start.add(4_096).read_volatile() };
    panic!("{byte} was read behind the end");
}

#[test]
fn a_full_store_and_a_cut_mapping_are_errors_that_programs_know() {
    use std::os::unix::process::ExitStatusExt;
    let Some(shim) = shim() else { return };
    for with in [None, Some(shim.as_path())] {
        let store = Store::new("8MiB");
        let Some(mounted) = store.mount() else { return };
        let folder = store.folder.path();
        let output = start("full", with, folder, 0, 0).wait_with_output().expect("it ended");
        assert!(output.status.success(), "{with:?}: {}", text(&output.stdout));
        std::fs::remove_file(folder.join("mount/full")).expect("removed");
        let output = start("cut", with, folder, 0, 0).wait_with_output().expect("it ended");
        assert!(text(&output.stdout).contains("before the end"), "{with:?}: {}", text(&output.stdout));
        assert_eq!(output.status.signal(), Some(7), "{with:?}: {:?}", output.status);
        drop(mounted);
        store.is_sound();
    }
}

/// Bytes of a file, mapped by the C library, as programs do, so that the shim sees it.
struct Bytes {
    start: *mut u8,
    length: usize,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.unmap(0, self.length);
    }
}

#[allow(unsafe_code)]
impl Bytes {
    fn of(file: &File, offset: i64, length: usize, protection: i32, flags: i32) -> Self {
        use std::os::fd::AsRawFd;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), offset) };
        assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Self { start: start.cast(), length }
    }

    /// All of a file, to read it.
    fn shared(path: &Path) -> Self {
        Self::shared_of(&File::open(path).expect("open"))
    }

    fn shared_of(file: &File) -> Self {
        let length = file.metadata().expect("known").len() as usize;
        if length == 0 {
            return Self { start: std::ptr::null_mut(), length };
        }
        Self::of(file, 0, length, libc::PROT_READ, libc::MAP_SHARED)
    }

    /// Bytes from an offset on, if so many are mapped.
    fn get(&self, offset: usize, length: usize) -> Option<Vec<u8>> {
        let is_there = offset + length <= self.length;
        // SAFETY: it is mapped, and others change it between two looks at most.
        let byte = |at| unsafe { self.start.add(at).read_volatile() };
        is_there.then(|| (offset..offset + length).map(byte).collect())
    }

    fn is_all(&self, range: std::ops::Range<usize>, byte: u8) -> bool {
        // SAFETY: it is mapped, and others change it between two looks at most.
        range.clone().all(|at| unsafe { self.start.add(at).read_volatile() } == byte)
    }

    fn unmap(&self, from: usize, to: usize) {
        // SAFETY: nobody looks there any more.
        assert!(to == 0 || unsafe { libc::munmap(self.start.add(from).cast(), to - from) } == 0);
    }

    fn resize(&self, to: usize) -> *mut u8 {
        // SAFETY: nobody holds a reference into it.
        unsafe { libc::mremap(self.start.cast(), self.length, to, libc::MREMAP_MAYMOVE) }.cast()
    }

    /// The kernel's own word for what is mapped there.
    fn name(&self) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
        let start = format!("{:x}-", self.start as usize);
        maps.lines().find(|line| line.starts_with(&start)).expect("it is mapped").to_owned()
    }
}

#[allow(unsafe_code)]
fn free_frames(mount: &Path) -> u64 {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(mount.as_os_str().as_bytes()).expect("no zero");
    // SAFETY: zeroes are a value of it, and both arguments live.
    let space = unsafe {
        let mut space: libc::statvfs = std::mem::zeroed();
        assert_eq!(libc::statvfs(path.as_ptr(), &raw mut space), 0);
        space
    };
    space.f_bfree
}

/// Free frames are so many, now or soon: the mount hears what is not mapped any more, and does not answer.
fn frames_come_back(mount: &Path, wanted: u64) {
    let until = Instant::now() + Duration::from_secs(20);
    while free_frames(mount) < wanted {
        assert!(Instant::now() < until, "{} of {wanted}", free_frames(mount));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Fills what room there is, and gives it back.
fn use_all_frames(mount: &Path) {
    let file = OpenOptions::new().append(true).create(true).open(mount.join("filler")).expect("open");
    while (&file).write(&[0xee; 100_000]).is_ok() {}
    std::fs::remove_file(mount.join("filler")).expect("removed");
}

/// What a program sees that maps files to read them, while they change and go.
#[allow(unsafe_code)]
fn mapped(mount: &Path) {
    const BYTES: usize = 3_000_100;
    const PAGE: usize = 4_096;
    let path = mount.join("mapped");
    let write = |at: u64, bytes: &[u8]| {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).expect("open");
        file.write_all_at(bytes, at).expect("written");
    };
    use_all_frames(mount);
    write(0, &[1; 10]);
    let free = free_frames(mount);
    write(0, &vec![1; BYTES]);
    let bytes = Bytes::shared(&path);
    assert!(bytes.name().ends_with("store.ctfs"), "the store itself: {}", bytes.name());
    assert!(bytes.is_all(0..BYTES, 1));
    assert!(bytes.is_all(BYTES..BYTES.next_multiple_of(PAGE), 0), "nothing of other files behind the end");
    // Whoever writes to the file writes to the mapping.
    write(5_000, &[2; 20_000]);
    assert!(bytes.is_all(5_000..25_000, 2) && bytes.is_all(25_000..BYTES, 1));
    // What is cut off is zero, and what is written there later is seen.
    let file = OpenOptions::new().write(true).open(&path).expect("open");
    file.set_len(10_000).expect("cut");
    assert!(bytes.is_all(5_000..10_000, 2) && bytes.is_all(10_000..BYTES, 0));
    use_all_frames(mount);
    assert!(bytes.is_all(10_000..BYTES, 0));
    write(2_000_000, &[3; 1_000_100]);
    assert!(bytes.is_all(10_000..2_000_000, 0) && bytes.is_all(2_000_000..BYTES, 3));
    // A copy, which can be changed.
    let private = {
        let file = File::open(&path).expect("open");
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        Bytes::of(&file, 8_192, PAGE, protection, flags)
    };
    assert!(private.is_all(0..1_808, 2) && private.is_all(1_808..PAGE, 0));
    // SAFETY: it is mapped to be written.
    unsafe { private.start.write_volatile(9) };
    assert!(private.is_all(0..1, 9) && bytes.is_all(8_192..8_193, 2));
    drop(private);
    // Neither the name nor an open file is needed.
    drop(file);
    std::fs::remove_file(&path).expect("removed");
    use_all_frames(mount);
    assert!(bytes.is_all(5_000..10_000, 2) && bytes.is_all(2_000_000..BYTES, 3));
    // Nobody can write to it.
    // SAFETY: the mapping stays as it is.
    let refused = unsafe { libc::mprotect(bytes.start.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE) };
    assert_eq!(refused, -1);
    // It gets smaller at its end, in its middle and at its beginning, and no larger.
    assert_eq!(bytes.resize(BYTES + 100_000) as *mut libc::c_void, libc::MAP_FAILED);
    assert_eq!(bytes.resize(2_900_000), bytes.start);
    bytes.unmap(100 * PAGE, 500 * PAGE);
    bytes.unmap(0, PAGE);
    assert!(bytes.is_all(5_000..10_000, 2) && bytes.is_all(2_100_000..2_900_000, 3));
    assert!(free_frames(mount) + 600 < free, "all of it is kept");
    // SAFETY: nobody looks at what was there.
    let replaced = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(bytes.start.add(500 * PAGE).cast(), 209 * PAGE, libc::PROT_READ, flags, -1, 0)
    };
    assert_eq!(replaced.cast(), bytes.start.wrapping_add(500 * PAGE));
    assert!(bytes.is_all(5_000..10_000, 2));
    bytes.unmap(PAGE, 100 * PAGE);
    std::mem::forget(bytes);
    frames_come_back(mount, free);
    // A child sees what its parent saw, whatever becomes of that.
    write(0, &[4; 300_000]);
    let bytes = Bytes::shared(&path);
    std::fs::remove_file(&path).expect("removed");
    let (mut said, say) = std::io::pipe().expect("a pipe");
    // SAFETY: the child calls nothing that another thread could hold a lock of, but reads a pipe and its memory.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(say);
        let _ = said.read(&mut [0; 1]);
        // SAFETY: it ends at once.
        unsafe { libc::_exit(if bytes.is_all(0..300_000, 4) { 0 } else { 1 }) };
    }
    drop(bytes);
    use_all_frames(mount);
    drop(say);
    let mut status = 0;
    // SAFETY: it is this process's child, and the status lives.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child saw something else");
    // What was mapped since does not wait for anybody.
    let free = free_frames(mount);
    write(0, &[5; 300_000]);
    drop(Bytes::shared(&path));
    std::fs::remove_file(&path).expect("removed");
    frames_come_back(mount, free);
}

/// Ends in the middle, with files that are mapped and have no names, and a child that has them, too.
#[allow(unsafe_code)]
fn leaves_mapped(mount: &Path) {
    let path = mount.join("left");
    std::fs::write(&path, vec![6; 2_000_000]).expect("written");
    let bytes = Bytes::shared(&path);
    std::fs::remove_file(&path).expect("removed");
    let parent = std::process::id();
    // SAFETY: the child does nothing but look at its memory and wait.
    if unsafe { libc::fork() } == 0 {
        while std::os::unix::process::parent_id() == parent {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(300));
        if !bytes.is_all(0..2_000_000, 6) {
            println!("the child saw something else");
        }
    }
    // SAFETY: it ends.
    unsafe { libc::raise(libc::SIGKILL) };
}

#[test]
fn files_that_are_mapped_to_be_read_are_the_stores_own_memory() {
    let Some(shim) = shim() else { return };
    let store = Store::new("16MiB");
    let Some(mounted) = store.mount() else { return };
    let (folder, mount) = (store.folder.path(), store.mount_point());
    let output = start("mapped", Some(&shim), folder, 0, 0).wait_with_output().expect("it ended");
    assert!(output.status.success(), "{}", text(&output.stdout));
    let free = free_frames(&mount);
    let mut process = start("leaves mapped", Some(&shim), folder, 0, 0);
    let status = process.wait().expect("it ended");
    assert!(!status.success(), "{status}");
    // The child has it for a while.
    assert!(free_frames(&mount) + 400 < free);
    use_all_frames(&mount);
    let mut said = String::new();
    process.stdout.take().expect("piped").read_to_string(&mut said).expect("read");
    assert!(!said.contains("something else"), "{said}");
    frames_come_back(&mount, free);
    drop(mounted);
    store.is_sound();
    // Where overwriting takes other frames the kernel maps.
    let Some(_mounted) = store.mount_with(&["--strict"]) else { return };
    std::fs::write(mount.join("file"), [7; 10_000]).expect("written");
    let output = start("cut", Some(&shim), folder, 0, 0).wait_with_output().expect("it ended");
    assert!(text(&output.stdout).contains("before the end"), "{}", text(&output.stdout));
}
