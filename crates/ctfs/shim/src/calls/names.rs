//! The calls on names and attributes.

use libc::{c_char, c_int, c_uint, gid_t, mode_t, size_t, ssize_t, timespec, uid_t};
use pagewalk_ctfs::Change;

use super::{before, or_pass};
use crate::names;
use crate::real::real;

const HERE: c_int = libc::AT_FDCWD;

/// Functions that are answered here where they can be, or else by the kernel, past the C library while calls are dispatched.
macro_rules! named {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $answer:expr, $number:ident $(of ($($descriptor:ident)+))? $(at ($($path:ident)+))? [$($passed:expr),*];)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            if let Some(answer) = $answer {
                return answer as $result;
            }
            or_pass!($number $(of ($($descriptor)+))? $(at ($($path)+))? [$($passed),*], real!($name($($argument => $type),*) -> $result))
        }
    )*};
}

fn modes(mode: mode_t) -> Change {
    Change { mode: Some(mode & 0o7777), ..Change::default() }
}

fn owners(uid: uid_t, gid: gid_t) -> Option<Change> {
    let given = |number: u32| Some(number).filter(|&number| number != u32::MAX);
    let change = Change { uid: given(uid), gid: given(gid), ..Change::default() };
    (change != Change::default()).then_some(change)
}

fn set_times(times: *const timespec) -> Option<Change> {
    let [accessed, modified] = names::times(times)?;
    Some(Change { accessed, modified, ..Change::default() })
}

named! {
    stat(path: *const c_char, into: *mut libc::stat) -> c_int,
        names::stat(HERE, path, 0, into), SYS_newfstatat at (path ) [HERE, path, into, 0];
    stat64(path: *const c_char, into: *mut libc::stat) -> c_int,
        names::stat(HERE, path, 0, into), SYS_newfstatat at (path ) [HERE, path, into, 0];
    lstat(path: *const c_char, into: *mut libc::stat) -> c_int,
        names::stat(HERE, path, libc::AT_SYMLINK_NOFOLLOW, into),
        SYS_newfstatat at (path ) [HERE, path, into, libc::AT_SYMLINK_NOFOLLOW];
    lstat64(path: *const c_char, into: *mut libc::stat) -> c_int,
        names::stat(HERE, path, libc::AT_SYMLINK_NOFOLLOW, into),
        SYS_newfstatat at (path ) [HERE, path, into, libc::AT_SYMLINK_NOFOLLOW];
    fstatat(folder: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int,
        names::stat(folder, path, flags, into), SYS_newfstatat of (folder) at (path ) [folder, path, into, flags];
    fstatat64(folder: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int,
        names::stat(folder, path, flags, into), SYS_newfstatat of (folder) at (path ) [folder, path, into, flags];
    fstat(descriptor: c_int, into: *mut libc::stat) -> c_int,
        names::stat_opened(descriptor, into), SYS_fstat of (descriptor ) [descriptor, into];
    fstat64(descriptor: c_int, into: *mut libc::stat) -> c_int,
        names::stat_opened(descriptor, into), SYS_fstat of (descriptor ) [descriptor, into];
    statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut libc::statx) -> c_int,
        names::statx(folder, path, flags, mask, into), SYS_statx of (folder) at (path ) [folder, path, flags, mask, into];
    mkdir(path: *const c_char, mode: mode_t) -> c_int,
        names::make_directory(HERE, path, mode), SYS_mkdir at (path ) [path, mode];
    mkdirat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int,
        names::make_directory(folder, path, mode), SYS_mkdirat of (folder) at (path ) [folder, path, mode];
    unlink(path: *const c_char) -> c_int, names::remove(HERE, path, 0), SYS_unlink at (path ) [path];
    rmdir(path: *const c_char) -> c_int, names::remove(HERE, path, libc::AT_REMOVEDIR), SYS_rmdir at (path ) [path];
    unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int,
        names::remove(folder, path, flags), SYS_unlinkat of (folder) at (path ) [folder, path, flags];
    rename(from: *const c_char, to: *const c_char) -> c_int,
        names::rename((HERE, from), (HERE, to), 0), SYS_rename at (from to ) [from, to];
    renameat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char) -> c_int,
        names::rename((folder, from), (other, to), 0), SYS_renameat of (folder other) at (from to ) [folder, from, other, to];
    renameat2(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_uint) -> c_int,
        names::rename((folder, from), (other, to), flags), SYS_renameat2 of (folder other) at (from to ) [folder, from, other, to, flags];
    link(from: *const c_char, to: *const c_char) -> c_int,
        names::link((HERE, from), (HERE, to), 0), SYS_link at (from to ) [from, to];
    linkat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_int) -> c_int,
        names::link((folder, from), (other, to), flags), SYS_linkat of (folder other) at (from to ) [folder, from, other, to, flags];
    symlink(target: *const c_char, path: *const c_char) -> c_int,
        names::link_to(target, HERE, path), SYS_symlink at (path ) [target, path];
    symlinkat(target: *const c_char, folder: c_int, path: *const c_char) -> c_int,
        names::link_to(target, folder, path), SYS_symlinkat of (folder) at (path ) [target, folder, path];
    readlink(path: *const c_char, into: *mut c_char, bytes: size_t) -> ssize_t,
        names::read_link(HERE, path, into, bytes), SYS_readlink at (path ) [path, into, bytes];
    readlinkat(folder: c_int, path: *const c_char, into: *mut c_char, bytes: size_t) -> ssize_t,
        names::read_link(folder, path, into, bytes), SYS_readlinkat of (folder) at (path ) [folder, path, into, bytes];
    access(path: *const c_char, mode: c_int) -> c_int,
        if mode == libc::F_OK { names::exists(HERE, path) } else { None }, SYS_access at (path ) [path, mode];
    chmod(path: *const c_char, mode: mode_t) -> c_int,
        names::change(HERE, path, 0, modes(mode)), SYS_chmod at (path ) [path, mode];
    fchmod(descriptor: c_int, mode: mode_t) -> c_int,
        names::change_opened(descriptor, modes(mode)), SYS_fchmod of (descriptor ) [descriptor, mode];
    chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int,
        owners(uid, gid).and_then(|change| names::change(HERE, path, 0, change)), SYS_chown at (path ) [path, uid, gid];
    lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int,
        owners(uid, gid).and_then(|change| names::change(HERE, path, libc::AT_SYMLINK_NOFOLLOW, change)),
        SYS_lchown at (path ) [path, uid, gid];
    fchown(descriptor: c_int, uid: uid_t, gid: gid_t) -> c_int,
        owners(uid, gid).and_then(|change| names::change_opened(descriptor, change)),
        SYS_fchown of (descriptor ) [descriptor, uid, gid];
    fchownat(folder: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int) -> c_int,
        owners(uid, gid).and_then(|change| names::change(folder, path, flags, change)),
        SYS_fchownat of (folder) at (path ) [folder, path, uid, gid, flags];
    utimensat(folder: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int,
        if path.is_null() {
            // The C library wants a path, where the kernel takes none for the descriptor's own file.
            Some(real!(utimensat(folder => c_int, path => *const c_char, times => *const timespec, flags => c_int) -> c_int))
        } else {
            set_times(times).and_then(|change| names::change(folder, path, flags, change))
        }, SYS_utimensat of (folder) at (path ) [folder, path, times, flags];
    futimens(descriptor: c_int, times: *const timespec) -> c_int,
        if descriptor < 0 {
            // The C library wants a descriptor, where the kernel takes `AT_FDCWD` for one.
            Some(real!(futimens(descriptor => c_int, times => *const timespec) -> c_int))
        } else {
            set_times(times).and_then(|change| names::change_opened(descriptor, change))
        }, SYS_utimensat of (descriptor ) [descriptor, 0, times, 0];
}

/// As the C library's, which looks at the flags by itself.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fchmodat(folder: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int {
    let changed = if flags == 0 { names::change(folder, path, 0, modes(mode)) } else { None };
    changed.unwrap_or_else(
        || real!(fchmodat(folder => c_int, path => *const c_char, mode => mode_t, flags => c_int) -> c_int),
    )
}

/// As the C library's, which looks at the flags by itself.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    let is_plain = mode == libc::F_OK && flags & !libc::AT_EACCESS == 0;
    let looked = if is_plain { names::exists(folder, path) } else { None };
    looked.unwrap_or_else(
        || real!(faccessat(folder => c_int, path => *const c_char, mode => c_int, flags => c_int) -> c_int),
    )
}

// Behind these, paths and users mean something else than the owner believes.
before! {
    chroot(path: *const c_char) -> c_int, names::is_over();
    unshare(flags: c_int) -> c_int, names::is_over();
    setns(descriptor: c_int, kind: c_int) -> c_int, names::is_over();
    pivot_root(new: *const c_char, old: *const c_char) -> c_int, names::is_over();
}
