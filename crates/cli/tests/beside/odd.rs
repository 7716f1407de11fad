//! Calls with arguments that no program should pass: the shim answers as the C library does, which looks at some of them before the kernel.

use std::ffi::CString;
use std::os::fd::IntoRawFd;
use std::path::Path;
use std::ptr::null;

use libc::{c_char, c_int, timespec};

use super::{shim, start};
use crate::mounted::{Store, text};

fn said(answer: i64) -> i64 {
    if answer < 0 {
        -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    } else {
        answer.min(1)
    }
}

/// Calls everything with everything, and says what the answers were: the error, or only that there was none. Nothing leads out of the
/// folder, as much of it changes what it finds.
#[allow(unsafe_code)]
pub(super) fn odd(folder: &Path) {
    std::env::set_current_dir(folder).expect("there");
    let again = || {
        let _ = std::fs::remove_file("new");
        let _ = std::fs::remove_dir("new");
        let _ = std::fs::create_dir("directory");
        std::fs::write("file", "bytes").expect("written");
    };
    again();
    std::os::unix::fs::symlink("file", "link").expect("made");
    let open = |path: &str| std::fs::File::open(path).expect("there").into_raw_fd();
    let pipe = std::io::pipe().expect("made").0.into_raw_fd();
    let descriptors = [-1, libc::AT_FDCWD, 999, open("."), open("file"), pipe];
    let strings = ["", "file", "directory", "nowhere/file", "file/below", "link", "new"]
        .map(|path| CString::new(path).expect("text"));
    let paths: Vec<*const c_char> = strings.iter().map(|path| path.as_ptr()).chain([null()]).collect();
    let flags = [
        0,
        libc::AT_SYMLINK_NOFOLLOW,
        libc::AT_EMPTY_PATH,
        libc::AT_REMOVEDIR,
        libc::AT_SYMLINK_FOLLOW,
        1 << 30,
        -1,
    ];
    let now = [timespec { tv_sec: 5, tv_nsec: 5 }; 2];
    let bogus = [timespec { tv_sec: 5, tv_nsec: -1 }; 2];
    let times: [*const timespec; 3] = [now.as_ptr(), bogus.as_ptr(), null()];
    let mut room = [0u8; 512];
    let into = room.as_mut_ptr();
    let say = |what: String, answer: i64| println!("{what}: {}", said(answer));
    // SAFETY: (1) all paths are null or strings of C's; (2) every structure has room in `room`; (3) no descriptor that is closed is
    // another one's.
    unsafe {
        for (p, &path) in paths.iter().enumerate() {
            let call = |name: &str, answer: c_int| {
                say(format!("{name} {p}"), answer.into());
                again();
            };
            call("stat", libc::stat(path, into.cast()));
            call("stat nowhere", libc::stat(path, std::ptr::null_mut()));
            call("lstat", libc::lstat(path, into.cast()));
            call("mkdir", libc::mkdir(path, 0o7777));
            call("rmdir", libc::rmdir(path));
            call("unlink", libc::unlink(path));
            std::fs::remove_file("link").ok();
            std::os::unix::fs::symlink("file", "link").expect("made");
            call("access", libc::access(path, libc::F_OK));
            call("access 77", libc::access(path, 77));
            call("chmod", libc::chmod(path, 0o644));
            call("chown", libc::chown(path, u32::MAX, u32::MAX));
            call("lchown", libc::lchown(path, u32::MAX, u32::MAX));
            call("readlink", libc::readlink(path, into.cast(), 0) as c_int);
            call("readlink some", libc::readlink(path, into.cast(), 100) as c_int);
            call("truncate", libc::truncate(path, -1));
            for kind in [
                0,
                libc::O_CREAT | libc::O_EXCL,
                libc::O_DIRECTORY,
                libc::O_PATH,
                libc::O_WRONLY | libc::O_TRUNC,
                3,
                libc::O_TMPFILE,
            ] {
                let opened = libc::open(path, kind, 0o600);
                say(format!("open {p} {kind:o}"), opened.into());
                if opened >= 0 {
                    libc::close(opened);
                }
                again();
            }
            for (q, &other) in paths.iter().enumerate() {
                // The link stays.
                if p != 5 && q != 5 {
                    say(format!("rename {p} {q}"), libc::rename(path, other).into());
                    again();
                    say(format!("link {p} {q}"), libc::link(path, other).into());
                    again();
                    say(format!("symlink {p} {q}"), libc::symlink(path, other).into());
                    again();
                    say(
                        format!("renameat2 {p} {q}"),
                        libc::renameat2(-1, path, libc::AT_FDCWD, other, 1 << 20).into(),
                    );
                    again();
                }
            }
            for (d, &descriptor) in descriptors.iter().enumerate() {
                let call = |name: &str, answer: c_int| {
                    say(format!("{name} {d} {p}"), answer.into());
                    again();
                };
                call("mkdirat", libc::mkdirat(descriptor, path, 0o700));
                call("symlinkat", libc::symlinkat(path, descriptor, strings[6].as_ptr()));
                call("readlinkat", libc::readlinkat(descriptor, path, into.cast(), 100) as c_int);
                for flag in flags {
                    let call = |name: &str, answer: c_int| call(&format!("{name} {flag}"), answer);
                    call("fstatat", libc::fstatat(descriptor, path, into.cast(), flag));
                    call("statx", libc::statx(descriptor, path, flag, libc::STATX_BASIC_STATS, into.cast()));
                    call("faccessat", libc::faccessat(descriptor, path, libc::F_OK, flag));
                    call("fchmodat", libc::fchmodat(descriptor, path, 0o600, flag));
                    call("fchownat", libc::fchownat(descriptor, path, u32::MAX, u32::MAX, flag));
                    call("linkat", libc::linkat(descriptor, path, descriptor, strings[6].as_ptr(), flag));
                    if p != 5 {
                        call("unlinkat", libc::unlinkat(descriptor, path, flag));
                    }
                    for (t, &times) in times.iter().enumerate() {
                        call(&format!("utimensat {t}"), libc::utimensat(descriptor, path, times, flag));
                    }
                }
            }
        }
        for (d, &descriptor) in descriptors.iter().enumerate() {
            let call = |name: &str, answer: i64| say(format!("{name} {d}"), answer);
            call("fstat", libc::fstat(descriptor, into.cast()).into());
            call("fchmod", libc::fchmod(descriptor, 0o644).into());
            call("fchown", libc::fchown(descriptor, u32::MAX, u32::MAX).into());
            for (t, &times) in times.iter().enumerate() {
                call(&format!("futimens {t}"), libc::futimens(descriptor, times).into());
            }
            call("read", libc::read(descriptor, std::ptr::null_mut(), 0) as i64);
            call("write", libc::write(descriptor, null(), 0) as i64);
            call("pread", libc::pread(descriptor, into.cast(), 10, -1) as i64);
            call("pwrite", libc::pwrite(descriptor, into.cast(), 10, -1) as i64);
            call("lseek", libc::lseek(descriptor, -10, libc::SEEK_SET));
            call("lseek 77", libc::lseek(descriptor, 0, 77));
            call("ftruncate", libc::ftruncate(descriptor, -1).into());
            call("fsync", libc::fsync(descriptor).into());
            call("fcntl", libc::fcntl(descriptor, 7_777).into());
            call("fallocate", libc::fallocate(descriptor, 0, 0, 0).into());
            call("posix_fallocate", (-libc::posix_fallocate(descriptor, 0, 0)).min(0).into());
            call("readv", libc::readv(descriptor, null(), -1) as i64);
            call("writev", libc::writev(descriptor, null(), 2_000) as i64);
            call("dup2", libc::dup2(descriptor, -1).into());
            call("dup3", libc::dup3(descriptor, descriptor, 0).into());
        }
    }
}

#[test]
fn odd_arguments_are_answered_as_without_the_shim() {
    let Some(shim) = shim() else { return };
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let answers = [Some(&*shim), None].map(|shim| {
        let folder = mounted.point.join(if shim.is_some() { "with" } else { "without" });
        std::fs::create_dir(&folder).expect("made");
        let ended = start("odd", shim, &folder, 0, 0).wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        text(&ended.stdout)
    });
    assert!(answers[0].lines().count() > 2_000);
    for (with, without) in answers[0].lines().zip(answers[1].lines()) {
        assert_eq!(with, without);
    }
    assert_eq!(answers[0].lines().count(), answers[1].lines().count());
}
