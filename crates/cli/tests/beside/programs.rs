//! Tests of what single programs do and see.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use pagewalk_vm::random::SplitMix64;

use super::mapped::Bytes;
use super::{shim, start};
use crate::mounted::{Store, name, text};

/// A sequence of operations on a tree, the same for the same seed.
pub(super) fn operations(tree: &Path, seed: u64) {
    let mut random = SplitMix64::new(seed * 2 + 1);
    std::fs::create_dir_all(tree).expect("made");
    let sizes = [1u64, 4_096, 32_768, 262_144, 2 << 20];
    for step in 0..400u64 {
        let path = tree.join(format!("{}", random.below(12)));
        let near = |random: &mut SplitMix64| {
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

/// Opens descriptors that are not used, are copied, closed, and inherited by programs that write: every reader sees every byte.
pub(super) fn descriptors(mount: &Path, seed: u64) {
    const FILES: u64 = 2;
    const MOST_OPEN: u64 = 4;
    struct Descriptor {
        number: usize,
        purpose: Purpose,
        file: File,
        /// By a program: it is the kernel's since then.
        was_inherited: bool,
    }
    let mut random = SplitMix64::new(seed);
    let mut files = [const { Vec::new() }; FILES as usize];
    let mut open: Vec<Descriptor> = Vec::new();
    for step in 0..2_500u64 {
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

/// A part of a test with the shim, on a store of its own for each seed.
fn ends_well(part: &str) {
    let Some(shim) = shim() else { return };
    for seed in 1..4 {
        let store = Store::new("48MiB");
        let Some(mounted) = store.mount() else { return };
        let process = start(part, Some(&shim), store.folder.path(), seed, 0);
        assert!(process.wait_with_output().expect("it ended").status.success());
        drop(mounted);
        store.is_sound();
    }
}

#[test]
fn descriptors_that_are_not_used_yet_hide_nothing() {
    ends_well("descriptors");
}

/// Files of large pages that come, go, and get each other's: what this process remembers of where they lie must not outlive that.
pub(super) fn large(mount: &Path, seed: u64) {
    const BYTES: u64 = 6 << 20;
    let mut random = SplitMix64::new(seed);
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
    ends_well("large");
}

/// Writes until there is no room, in two ways, and goes on when there is some again.
pub(super) fn full(mount: &Path) {
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
pub(super) fn cut(path: &Path) {
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

/// Writes bytes of which the second page is not there until another process says so: it waits in the middle of the copy. That process
/// says `inside` and its number, and goes on when it is let to.
#[allow(unsafe_code)]
pub(super) fn stopped(mount: &Path) {
    use std::os::fd::AsRawFd;
    const PAGE: usize = 4_096;
    const UFFDIO_API: u64 = 0xc018_aa3f;
    const UFFDIO_REGISTER: u64 = 0xc020_aa00;
    const UFFDIO_COPY: u64 = 0xc028_aa03;
    let file = File::create(mount.join("stopped")).expect("open");
    file.write_all_at(&[1; 3 * PAGE], 0).expect("written");
    // SAFETY: (1) fresh mappings at an address of the kernel's choice; (2) the messages are as long as the kernel reads and writes them;
    // (3) the child takes no lock that another thread may have, and ends.
    let written = unsafe {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let bytes = libc::mmap(std::ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0);
        bytes.cast::<u8>().write_bytes(2, PAGE);
        let faults = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) as libc::c_int;
        assert!(faults >= 0, "{}", std::io::Error::last_os_error());
        let mut api = [0xaau64, 0, 0];
        assert_eq!(libc::ioctl(faults, UFFDIO_API, api.as_mut_ptr()), 0);
        let mut registered = [bytes as u64 + PAGE as u64, PAGE as u64, 1, 0];
        assert_eq!(libc::ioctl(faults, UFFDIO_REGISTER, registered.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            let mut message = [0u64; 4];
            assert_eq!(libc::read(faults, message.as_mut_ptr().cast(), 32), 32);
            let said = format!("inside {}\n", std::process::id());
            libc::write(1, said.as_ptr().cast(), said.len());
            libc::raise(libc::SIGSTOP);
            let page = [2u8; PAGE];
            let mut copy = [bytes as u64 + PAGE as u64, page.as_ptr() as u64, PAGE as u64, 0, 0];
            libc::_exit(libc::ioctl(faults, UFFDIO_COPY, copy.as_mut_ptr()));
        }
        let written = libc::pwrite(file.as_raw_fd(), bytes, 2 * PAGE, PAGE as libc::off_t);
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0);
        written
    };
    assert_eq!(written, 2 * PAGE as isize);
}

#[test]
#[allow(unsafe_code)]
fn a_program_that_is_stopped_in_the_middle_of_a_copy_holds_no_program_up_for_ever() {
    let Some(shim) = shim() else { return };
    let store = Store::new("16MiB");
    let Some(mounted) = store.mount() else { return };
    let mount = store.mount_point();
    std::fs::write(mount.join("other"), [7; 10_000]).expect("written");
    let is_held_up = |threads| {
        let mut process = start("stopped", Some(&shim), store.folder.path(), threads, 0);
        let mut said = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        output.read_line(&mut said).expect("read");
        let other = said.strip_prefix("inside ").and_then(|number| number.trim().parse().ok());
        let other: libc::pid_t = other.unwrap_or_else(|| panic!("{said}"));
        // What moves nothing is done, names as well, and what would have to wait is not.
        assert_eq!(std::fs::read(mount.join("other")).expect("read"), [7; 10_000]);
        std::fs::write(mount.join("new"), "").expect("made");
        std::fs::rename(mount.join("new"), mount.join("newer")).expect("renamed");
        std::fs::remove_file(mount.join("newer")).expect("removed");
        let changed = File::options().write(true).open(mount.join("other")).expect("open").set_len(20_000);
        let is_held_up = changed.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY));
        // It has been stopped for seconds.
        // SAFETY: it touches nothing of this process.
        assert_eq!(unsafe { libc::kill(other, libc::SIGCONT) }, 0);
        assert!(process.wait().expect("it ended").success());
        let bytes = std::fs::read(mount.join("stopped")).expect("read");
        assert!(bytes[..4_096].iter().all(|&byte| byte == 1) && bytes[4_096..].iter().all(|&byte| byte == 2));
        assert_eq!(bytes.len(), 3 * 4_096);
        let other = File::options().write(true).open(mount.join("other")).expect("open");
        other.set_len(10_000).expect("no program is inside");
        is_held_up
    };
    for threads in 1..=2 {
        // On a busy machine the owner may answer so late that the program writes through the kernel, outside the gate.
        assert!((0..4).any(|_| is_held_up(threads)), "{threads}: it is never inside");
    }
    drop(mounted);
    store.is_sound();
}

/// A shell wants the lowest free numbers for itself, and found the connection and the whole store there: `exec 6>>log` failed, and the
/// next line went over the store's first bytes.
#[test]
fn a_shell_has_all_descriptors_to_itself() {
    if shim().is_none() {
        return;
    }
    let store = Store::new("16MiB");
    let Some(mounted) = store.mount() else { return };
    let script = r#"
        cd "$1" || exit 1
        for number in 3 4 5 6 7 8 9; do
            eval "exec $number>>log-$number" || exit 1
        done
        for round in 1 2 3 4; do
            for number in 3 4 5 6 7 8 9; do echo "line $round of $number" >&$number || exit 1; done
        done
        exec 4>&- 5<log-3 6>&7
        echo "in seven" >&6
        read line <&5
        [ "$line" = "line 1 of 3" ] || exit 2
        for number in 3 4 6 8 9; do
            [ "$(wc -l < log-$number)" = 4 ] || exit 3
        done
        [ "$(tail -n 1 log-7)" = "in seven" ] || exit 4
    "#;
    for shell in ["bash", "dash"] {
        let folder = store.mount_point().join(shell);
        std::fs::create_dir(&folder).expect("made");
        let output = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
            .args(["fs", "run", "--", shell, "-c", script, shell, name(&folder)])
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{shell}: {:?} {}", output.status, text(&output.stderr));
    }
    drop(mounted);
    store.is_sound();
}

/// The preloaded library looked for the kernel's clock where valgrind has no memory for the program.
#[test]
fn a_program_that_valgrind_runs_writes() {
    if shim().is_none() {
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: `scripts/setup.sh` installs valgrind");
        return;
    }
    let store = Store::new("16MiB");
    let Some(mounted) = store.mount() else { return };
    let to = format!("of={}", name(&mounted.point.join("file")));
    let output = Command::new("timeout")
        .args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_pagewalk"), "fs", "run", "--"])
        .args(["valgrind", "--quiet", "--error-exitcode=3", "dd", "if=/dev/zero", &to, "bs=5000", "count=3"])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{:?} {}", output.status, text(&output.stderr));
    assert_eq!(std::fs::read(mounted.point.join("file")).expect("read"), [0; 15_000]);
    drop(mounted);
    store.is_sound();
}

/// No descriptor of a process writes the whole store, however it is found.
pub(super) fn no_descriptor_writes_the_store(mount: &Path) {
    let file = File::create(mount.join("file")).expect("open");
    file.write_all_at(&[1; 10_000], 0).expect("written");
    let mapped = Bytes::shared_of(&File::open(mount.join("file")).expect("open"));
    assert!(mapped.get(0, 100).is_some());
    let store = mount.with_file_name("store.ctfs");
    let mut found = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("read") {
        let entry = entry.expect("read");
        let is_store = std::fs::read_link(entry.path()).is_ok_and(|target| target == store);
        let info = format!("/proc/self/fdinfo/{}", entry.file_name().to_string_lossy());
        let Ok(info) = std::fs::read_to_string(info) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags").trim();
        let flags = libc::c_int::from_str_radix(flags, 8).expect("octal");
        assert!(!is_store || flags & libc::O_ACCMODE == libc::O_RDONLY, "{info}");
        found += 1;
    }
    assert!(found > 3);
}

#[test]
fn no_descriptor_of_a_program_writes_the_whole_store() {
    ends_well("store");
}

/// Takes a range out of a file that it writes in its own memory, and puts one in.
#[allow(unsafe_code)]
pub(super) fn shifted(mount: &Path) {
    use std::os::fd::AsRawFd;
    const PAGE: usize = 4_096;
    let path = mount.join("shifted");
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).expect("open");
    for page in 0..8 {
        file.write_all_at(&[b'a' + page; PAGE], u64::from(page) * PAGE as u64).expect("written");
    }
    let shift = |mode, offset: usize, length: usize| {
        // SAFETY: it touches no memory.
        unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as libc::off_t, length as libc::off_t) }
    };
    let pages = || {
        let mut bytes = vec![0; 9 * PAGE];
        let read = file.read_at(&mut bytes, 0).expect("read");
        assert_eq!(file.metadata().expect("known").len(), read as u64);
        bytes[..read].chunks(PAGE).map(|page| char::from(page[PAGE - 1].max(b'0'))).collect::<String>()
    };
    assert_eq!((shift(libc::FALLOC_FL_COLLAPSE_RANGE, PAGE, 2 * PAGE), pages().as_str()), (0, "adefgh"));
    assert_eq!((shift(libc::FALLOC_FL_INSERT_RANGE, 0, PAGE), pages().as_str()), (0, "0adefgh"));
    assert_eq!(shift(libc::FALLOC_FL_INSERT_RANGE, 1, PAGE), -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
    file.write_all_at(b"end", 7 * PAGE as u64 - 3).expect("written");
    assert_eq!(pages(), "0adefgd");
}

#[test]
fn ranges_are_taken_out_of_files_and_put_in() {
    ends_well("shifted");
}
