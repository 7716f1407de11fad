//! Names and attributes, asked of the owner in shared memory: the answers are those of the kernel, and the kernel knows of every change.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{shim, start};
use crate::mounted::{Store, text};

const OPERATIONS: u64 = 6_000;
const DIRECTORIES: [&str; 3] = [".", "a", "b"];
const NAMES: [&str; 7] =
    ["one", "two", "three", "four", "link", "a name of more than forty-eight bytes, in two slots", "x"];

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
}

fn c(path: &str) -> CString {
    CString::new(path).expect("no zeroes")
}

fn error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// What a call says: its answer, or the error's number below zero.
fn said(answer: i32) -> i32 {
    if answer < 0 { -error() } else { answer }
}

/// What is the same in each run: times and the file's number are not, nor what is given to it ahead while it is open.
fn seen(status: &libc::stat) -> String {
    let size = if status.st_mode & libc::S_IFMT == libc::S_IFDIR { 0 } else { status.st_size };
    format!("{:o} {} {size} {}:{}", status.st_mode, status.st_nlink, status.st_uid, status.st_gid)
}

/// Attributes as the C library has them, which is asked in shared memory, and as the kernel has them.
#[allow(unsafe_code)]
fn look(path: &str, follows: bool) -> String {
    let path = c(path);
    let flags = if follows { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: (1) zeroes are such values; (2) the paths are strings of C's, and there is room.
    unsafe {
        let (mut asked, mut kernels): (libc::stat, libc::stat) = std::mem::zeroed();
        let answer = said(libc::fstatat(libc::AT_FDCWD, path.as_ptr(), &raw mut asked, flags));
        let number = libc::SYS_newfstatat;
        let kernel = libc::syscall(number, libc::AT_FDCWD, path.as_ptr(), &raw mut kernels, flags) as i32;
        assert_eq!(answer, said(kernel), "{path:?}");
        if answer < 0 {
            return answer.to_string();
        }
        assert_eq!(seen(&asked), seen(&kernels), "{path:?}");
        let exact = |status: &libc::stat| {
            [
                status.st_ino as i64,
                status.st_dev as i64,
                status.st_size,
                status.st_blocks,
                status.st_mtime,
                status.st_mtime_nsec,
                status.st_ctime,
                status.st_ctime_nsec,
                status.st_atime,
                status.st_atime_nsec,
            ]
        };
        assert_eq!(exact(&asked), exact(&kernels), "{path:?}");
        seen(&asked)
    }
}

/// The names in a directory, as the kernel lists them.
fn list(path: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec!["none".to_owned()] };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Opens a file, uses it, and leaves the descriptor open in some cases until the next time.
#[allow(unsafe_code)]
fn open(numbers: &mut Numbers, path: &str, kept: &mut Option<File>) -> String {
    let flags = [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR][numbers.below(3) as usize]
        | [
            0,
            libc::O_CREAT,
            libc::O_CREAT | libc::O_EXCL,
            libc::O_CREAT | libc::O_TRUNC,
            libc::O_TRUNC | libc::O_APPEND,
        ][numbers.below(5) as usize]
        | if numbers.below(2) == 0 { libc::O_CLOEXEC } else { 0 };
    let mode = [0o644, 0o600, 0o444, 0o755][numbers.below(4) as usize];
    // SAFETY: the path is a string of C's.
    let descriptor = unsafe { libc::open(c(path).as_ptr(), flags, mode) };
    if descriptor < 0 {
        return format!("open {flags:o} {}", said(descriptor));
    }
    // SAFETY: it was just opened.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    let mut all = format!("open {flags:o} {}", descriptor >= 3);
    let written =
        file.write(&vec![b'w'; numbers.below(9_000) as usize]).map_err(|error| error.raw_os_error());
    let moved = file.seek(SeekFrom::Start(numbers.below(3))).expect("moved");
    let mut bytes = Vec::new();
    let read = file.read_to_end(&mut bytes).map_err(|error| error.raw_os_error());
    all += &format!(" {written:?} {moved} {read:?} {:?}", bytes.iter().all(|&byte| byte == b'w'));
    if numbers.below(4) == 0 {
        // SAFETY: both touch nothing but the descriptor.
        let flags =
            unsafe { (libc::fcntl(descriptor, libc::F_GETFL), libc::fcntl(descriptor, libc::F_GETFD)) };
        all += &format!(" {flags:?}");
    }
    if numbers.below(5) == 0 {
        // By a call that nothing here knows.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let shown = std::fs::read_link(path).expect("it is open");
        all += &format!(" {:?}", shown.file_name().map(|name| name.as_bytes().len()));
    }
    if numbers.below(3) == 0 {
        *kept = Some(file);
    }
    all
}

#[allow(unsafe_code)]
fn operation(numbers: &mut Numbers, root: &str, kept: &mut Option<File>) -> String {
    let place = |numbers: &mut Numbers| {
        let (directory, name) = (numbers.of(&DIRECTORIES), numbers.of(&NAMES));
        match numbers.below(3) {
            0 => format!("{root}/{directory}/{name}"),
            1 => format!("a/../{directory}/{name}"),
            _ => format!("{directory}/{name}"),
        }
    };
    let (path, other) = (place(numbers), place(numbers));
    let (first, second) = (c(&path), c(&other));
    // SAFETY: the paths are strings of C's, and all other arguments live.
    let answer = unsafe {
        match numbers.below(16) {
            0..=3 => return format!("{path} {}", open(numbers, &path, kept)),
            4 | 5 => libc::unlink(first.as_ptr()),
            6 => libc::rename(first.as_ptr(), second.as_ptr()),
            7 => libc::mkdir(first.as_ptr(), 0o777),
            8 => libc::rmdir(first.as_ptr()),
            9 => libc::link(first.as_ptr(), second.as_ptr()),
            10 => libc::symlink(c(numbers.of(&NAMES)).as_ptr(), first.as_ptr()),
            11 => {
                let mut target = [0u8; 64];
                let bytes = libc::readlink(first.as_ptr(), target.as_mut_ptr().cast(), 64) as i32;
                return format!("{path} link {} {:?}", said(bytes), text(&target[..bytes.max(0) as usize]));
            }
            12 => libc::chmod(first.as_ptr(), [0o600, 0o644, 0o4755, 0o1777][numbers.below(4) as usize]),
            13 => {
                let time = |seconds| libc::timespec { tv_sec: seconds, tv_nsec: 5 };
                let times = [time(numbers.below(1 << 31) as i64), time(-7)];
                libc::utimensat(libc::AT_FDCWD, first.as_ptr(), times.as_ptr(), libc::AT_SYMLINK_NOFOLLOW)
            }
            14 => libc::access(first.as_ptr(), libc::F_OK),
            _ => libc::lchown(first.as_ptr(), 0, numbers.below(3) as u32),
        }
    };
    let answer = said(answer);
    let looked = look(&path, numbers.below(2) == 0);
    format!("{path} {other} {answer} {looked} {}", look(&other, false))
}

/// Does the same in every run, and prints what it was told.
pub(super) fn names(folder: &Path, seed: u64) {
    std::env::set_current_dir(folder).expect("the folder is there");
    let root = folder.to_str().expect("plain text");
    let mut numbers = Numbers(seed);
    for directory in &DIRECTORIES[1..] {
        std::fs::create_dir(directory).expect("made");
    }
    let mut kept = None;
    for number in 0..OPERATIONS {
        println!("{number} {}", operation(&mut numbers, root, &mut kept));
        if number % 50 == 0 {
            println!("{:?}", DIRECTORIES.map(list));
        }
        if number % 400 == 0 {
            // Another process uses what is open here.
            let done = std::process::Command::new("true").status().expect("it starts");
            println!("{done}");
        }
    }
}

#[test]
fn names_are_the_same_with_and_without_the_shim() {
    let Some(shim) = shim() else { return };
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    for seed in 1..=3 {
        let said = [None, Some(&*shim)].map(|shim| {
            // The same paths in both.
            let folder = store.mount_point().join("here");
            std::fs::create_dir(&folder).expect("made");
            let output = start("names", shim, &folder, seed, 0).wait_with_output().expect("it ended");
            assert!(
                output.status.success(),
                "seed {seed}: {}",
                text(&output.stdout).lines().last().unwrap_or("")
            );
            // Without the shim, and after it.
            let mut left = std::process::Command::new("find");
            let left = left
                .arg(".")
                .args(["-printf", "%p %y %m %n %s %l\n"])
                .current_dir(&folder)
                .output()
                .expect("find");
            let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
            let mut left: Vec<String> = text(&left.stdout).lines().map(str::to_owned).collect();
            left.sort();
            lines.extend(left.into_iter().filter(|line| !line.contains(" d ")));
            std::fs::remove_dir_all(&folder).expect("removed");
            lines
        });
        let differs = said[0].iter().zip(&said[1]).find(|(plain, beside)| plain != beside);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(said[0].len(), said[1].len());
    }
    drop(mounted);
    store.is_sound();
}
