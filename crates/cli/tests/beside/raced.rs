//! Processes that make, replace and remove the same few names at once: each call answers what some order of the calls gives.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use pagewalk_vm::random::SplitMix64;

use super::{shim, start};
use crate::mounted::{Store, text};

/// Names, so few that two processes often have the same one.
const NAMES: u64 = 3;
/// Calls between two looks at the time.
const CALLS: u64 = 64;
/// Processes of the race: the first goes without the shim, and the last has two threads.
const PROCESSES: u64 = 3;
pub(super) const OF_TWO_THREADS: u64 = PROCESSES - 1;

/// Fails unless the call succeeded or failed with one of these errors.
fn check<T>(call: &str, answer: io::Result<T>, allowed: &[i32]) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(error) if error.raw_os_error().is_some_and(|number| allowed.contains(&number)) => None,
        Err(error) => panic!("{call}: {error}"),
    }
}

#[allow(unsafe_code)]
fn truncate(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no zero byte");
    // SAFETY: the path ends in a zero byte.
    match unsafe { libc::truncate(path.as_ptr(), 100) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// One thread of the race.
pub(super) fn race(folder: &Path, number: u64, seconds: u64) {
    let mut random = SplitMix64::new(0x51ed_2701 + number);
    let until = Instant::now() + Duration::from_secs(seconds);
    let opens = || OpenOptions::new().read(true).write(true).clone();
    while Instant::now() < until {
        for _ in 0..CALLS {
            let name = |number: u64| folder.join(format!("raced-{number}"));
            let (path, other) = (name(random.below(NAMES)), name(random.below(NAMES)));
            match random.below(12) {
                // What makes a file that is not there opens one that is.
                0..=2 => {
                    let file = opens().create(true).open(&path);
                    let file = check("open or make", file, &[]).expect("nothing is allowed");
                    file.write_all_at(&[1; 10], 0).expect("written");
                }
                3 => {
                    let file = opens().create(true).truncate(true).open(&path);
                    check("empty or make", file, &[]).expect("nothing is allowed");
                }
                4 => drop(check("make", opens().create_new(true).open(&path), &[libc::EEXIST])),
                5 => drop(check("open", File::open(&path), &[libc::ENOENT])),
                6 | 7 => drop(check("unlink", std::fs::remove_file(&path), &[libc::ENOENT])),
                8 => drop(check("rename", std::fs::rename(&path, &other), &[libc::ENOENT])),
                9 => {
                    check("link", std::fs::hard_link(&path, &other), &[libc::ENOENT, libc::EEXIST]);
                }
                10 => drop(check("truncate", truncate(&path), &[libc::ENOENT])),
                _ => {
                    check("stat", std::fs::metadata(&path), &[libc::ENOENT]);
                    let mode = std::fs::Permissions::from_mode(0o644);
                    check("chmod", std::fs::set_permissions(&path, mode), &[libc::ENOENT]);
                }
            }
        }
    }
}

#[test]
fn what_several_processes_do_with_a_name_has_an_order() {
    let Some(shim) = shim() else { return };
    let store = Store::new("32MiB");
    let Some(mounted) = store.mount() else { return };
    let processes: Vec<Child> = (0..PROCESSES)
        .map(|number| start("raced", (number > 0).then_some(shim.as_path()), store.folder.path(), number, 2))
        .collect();
    for process in processes {
        let output = process.wait_with_output().expect("it ended");
        assert!(output.status.success(), "{}", text(&output.stdout));
    }
    drop(mounted);
    store.is_sound();
}
