//! Names and attributes, asked of the owner in shared memory instead of by the kernel's requests.
//!
//! A file that is opened so has a descriptor that stands for it, and nothing else: no system call could do anything with it. That never
//! shows, as every system call that is not made here is dispatched first (`offsets`), and makes such files the kernel's before. The same
//! keeps what is remembered here true: a process that has one thread, and has made no other call, has the same working directory, user
//! and groups as before. Where calls cannot be dispatched nothing is done here.
//!
//! What the owner's service is not sure of it leaves to the kernel; so do all functions here that answer nothing.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use libc::{c_char, c_int, mode_t};
use pagewalk_ctfs::single_threaded;
use pagewalk_ctfs::{Ask, Attributes, Base, Change, Ino, LeaseClient, Refused, SetTime};

use crate::buffers::{ANSWERED, FIRST, PATH_BYTES, SECOND, buffer, cleared};
use crate::connection::{FIRST_LOOK, NEXT_LOOK, ask};
use crate::kernel::{self, LARGE};
use crate::mounts::{self, Place, device_of, status_of};
use crate::stand_in::{close_stand_in, stand_in, stands_in};
use crate::threads::Within;
use crate::{answers, connection, description, files, limits, offsets, own, process, stand_in, user};

/// Names that a program uses before the mount is looked for, and how often it is looked for again.
const LATER: u32 = 8;
const MOST_BETWEEN: u32 = 1 << 16;
/// What `open` may be asked for here. The last is what 64-bit programs' files have anyway.
const SERVED: c_int = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_CLOEXEC
    | libc::O_NOFOLLOW
    | libc::O_NOCTTY
    | libc::O_NONBLOCK
    | LARGE;
/// Calls by which a program may wait for another one, which may have mounted something meanwhile.
const MAY_WAIT: [libc::c_long; 6] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
];
/// No directory that is known, and one of another file system.
const UNKNOWN: u64 = u64::MAX;
const ELSEWHERE: u64 = 0;

/// What is remembered holds.
static IS_VALID: AtomicBool = AtomicBool::new(false);
/// Nothing is done here any more.
static IS_OVER: AtomicBool = AtomicBool::new(false);
static USED: AtomicU32 = AtomicU32::new(0);
static DIRECTORY: AtomicU64 = AtomicU64::new(UNKNOWN);

/// A call's result as C has it, or nothing if the kernel is to be asked.
type Answer = Option<c_int>;

/// As another one's number.
pub(crate) fn failed(number: c_int) -> Answer {
    Some(answers::refused(number))
}

/// Descriptors of our own.
pub(crate) fn kept() -> [RawFd; 2] {
    [mounts::kept(), stands_in()]
}

/// One of them has moved.
pub(crate) fn moved(from: RawFd, to: RawFd) {
    mounts::moved(from, to);
    stand_in::moved(from, to);
}

/// The program makes a call that is not known here: what is remembered may not be so behind it, and nothing may be in a mount's way while
/// it waits.
pub(crate) fn forget() {
    if IS_VALID.swap(false, Ordering::Relaxed) {
        mounts::may_be_covered();
        close_stand_in();
    }
}

/// Paths mean something else from now on.
pub(crate) fn is_over() {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// A child has none of the descriptors, and looks by itself.
pub(crate) fn in_child() {
    close_stand_in();
    mounts::in_child();
    IS_VALID.store(false, Ordering::Relaxed);
}

/// What is asked, in the middle of a call of the program.
struct Asking {
    ask: Ask<'static>,
    client: &'static LeaseClient,
    within: Within,
}

/// Which file is asked for: a path from a directory on, or an open one.
type Wanted = (c_int, *const c_char);

fn begin(wanted: Wanted) -> Option<Asking> {
    if IS_OVER.load(Ordering::Relaxed) || !single_threaded::is_single_threaded() {
        return None;
    }
    if mounts::place().is_none() {
        let used = USED.fetch_add(1, Ordering::Relaxed);
        if used < NEXT_LOOK.load(Ordering::Relaxed) {
            return None;
        }
    }
    let within = Within::new()?;
    let is_valid = offsets::is_watching() && IS_VALID.load(Ordering::Relaxed) && mounts::is_as_seen();
    if !is_valid && !prepare(wanted, &within) {
        return None;
    }
    let client = connection::connection()?.0;
    Some(Asking { ask: ask(client), client, within })
}

/// Looks at everything that is remembered; whether it can be.
#[cold]
fn prepare(wanted: Wanted, within: &Within) -> bool {
    if !process::is_our_process() {
        return false;
    }
    let kept = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let is_ready = (mounts::place().is_some() && connection::connection().is_some() || find(wanted, within))
        && mounts::is_uncovered()
        && (offsets::is_watching() && IS_VALID.load(Ordering::Relaxed) || offsets::watch() && remember());
    if is_ready {
        IS_VALID.store(true, Ordering::Relaxed);
    }
    answers::refused(kept);
    is_ready
}

/// Looks who this process is.
fn remember() -> bool {
    DIRECTORY.store(UNKNOWN, Ordering::Relaxed);
    limits::limit_may_have_changed();
    user::remember()
}

/// Looks for the mount that has a file.
fn find((folder, path): Wanted, within: &Within) -> bool {
    let next = |from: u32| from.saturating_mul(LATER).min(from.saturating_add(MOST_BETWEEN));
    NEXT_LOOK.store(next(USED.load(Ordering::Relaxed).max(FIRST_LOOK)), Ordering::Relaxed);
    // SAFETY: no part of this call has it yet.
    let path = copy_path(path, unsafe { buffer(FIRST) }, within).unwrap_or_default();
    let is_absolute = path.starts_with(b"/");
    let device = if is_absolute { None } else { status_of(folder, 0).map(|status| device_of(&status)) };
    mounts::find(path, device)
}

fn copy_path<'a>(
    path: *const c_char,
    buffer: &'a mut MaybeUninit<[u8; PATH_BYTES]>,
    within: &Within,
) -> Option<&'a [u8]> {
    let to = buffer.as_mut_ptr().cast::<u8>();
    // SAFETY: (1) only a copy, to where there is room; what is not there is known; (2) this thread's.
    let bytes = unsafe {
        within.recovery().run(|| {
            (0..PATH_BYTES)
                .find(|&at| {
                    let byte = path.cast::<u8>().add(at).read();
                    to.add(at).write(byte);
                    byte == 0
                })
                .unwrap_or(PATH_BYTES)
        })
    };
    let bytes = bytes.ok().filter(|&bytes| bytes > 0 && bytes < PATH_BYTES)?;
    // SAFETY: so many were written.
    Some(unsafe { std::slice::from_raw_parts(to, bytes) })
}

impl Asking {
    /// A path of the program's; nothing if the kernel is to say what is wrong with it.
    fn path<'a>(
        &self,
        path: *const c_char,
        buffer: &'a mut MaybeUninit<[u8; PATH_BYTES]>,
    ) -> Option<&'a [u8]> {
        copy_path(path, buffer, &self.within)
    }

    /// Where a path begins, and what is left of it.
    fn base<'a>(&self, folder: c_int, path: &'a [u8]) -> Option<(Ino, &'a [u8])> {
        if path.starts_with(b"/") {
            let rest = path.strip_prefix(&mounts::place()?.prefix[..])?;
            let inside = rest.strip_prefix(b"/")?;
            return (!inside.is_empty() && !inside.starts_with(b"/")).then_some((Ino::ROOT, inside));
        }
        let ino = if folder == libc::AT_FDCWD {
            let known = DIRECTORY.load(Ordering::Relaxed);
            if known == UNKNOWN {
                DIRECTORY.store(self.directory(folder).unwrap_or(ELSEWHERE), Ordering::Relaxed);
            }
            DIRECTORY.load(Ordering::Relaxed)
        } else {
            self.directory(folder)?
        };
        (ino != ELSEWHERE).then_some((Ino(ino), path))
    }

    /// A directory of the mount.
    fn directory(&self, folder: c_int) -> Option<u64> {
        if files::is_beside(folder) {
            // It is none, which the kernel says.
            files::make_all_real(&self.within);
            return None;
        }
        let status = status_of(folder, libc::STATX_INO | libc::STATX_TYPE)?;
        let device = device_of(&status);
        let is_directory = u32::from(status.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
        (is_directory && device == mounts::place()?.device).then_some(status.stx_ino)
    }

    /// Answers with a file's attributes.
    fn tell<T: Copy>(
        &self,
        looked: Result<Attributes, Refused>,
        make: impl FnOnce(&Place, &Attributes) -> T,
        into: *mut T,
    ) -> Answer {
        match (looked, mounts::place()) {
            (Ok(attributes), Some(place)) => {
                self.put(&[make(place, &attributes)], into).map_or(failed(libc::EFAULT), Some)
            }
            (looked, _) => answer(looked.map(drop)),
        }
    }

    /// Copies to where the program wants it; nothing if there is no memory.
    fn put<T: Copy>(&self, values: &[T], into: *mut T) -> Answer {
        let bytes = size_of_val(values);
        if into.is_null() {
            return None;
        }
        // SAFETY: (1) only a copy; what is not there is known; (2) this thread's.
        let put = unsafe {
            self.within.recovery().run(|| {
                into.cast::<u8>().copy_from_nonoverlapping(values.as_ptr().cast(), bytes);
                0
            })
        };
        put.ok().map(|_| 0)
    }

    /// A file that was opened without the kernel.
    fn opened(&self, descriptor: c_int) -> Option<Base> {
        files::handle_of(descriptor).map(Base::Handle)
    }
}

/// Does something with a path that leads into the mount.
fn with_path<T>(
    folder: c_int,
    path: *const c_char,
    act: impl FnOnce(&Asking, Base, &[u8]) -> Option<T>,
) -> Option<T> {
    let asking = begin((folder, path))?;
    // SAFETY: no other part of this call has it.
    let (base, rest) = asking.base(folder, asking.path(path, unsafe { buffer(FIRST) })?)?;
    act(&asking, Base::Directory(base), rest)
}

/// The same with two.
fn with_paths<T>(
    (folder, path): (c_int, *const c_char),
    (other_folder, other): (c_int, *const c_char),
    act: impl FnOnce(&Asking, (Base, &[u8]), (Ino, &[u8])) -> Option<T>,
) -> Option<T> {
    with_path(folder, path, |asking, base, path| {
        // SAFETY: no other part of this call has it.
        let other = asking.base(other_folder, asking.path(other, unsafe { buffer(SECOND) })?)?;
        act(asking, (base, path), other)
    })
}

fn answer(done: Result<(), Refused>) -> Answer {
    match done {
        Ok(()) => Some(0),
        Err(Refused::Kernels) => None,
        Err(Refused::Error(error)) => failed(error.raw_os_error()),
    }
}

/// Opens a file: its descriptor.
pub(crate) fn open(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Answer {
    if flags & !SERVED != 0 {
        return None;
    }
    with_path(folder, path, |asking, base, path| {
        if flags & libc::O_CREAT != 0 {
            user::know_umask();
        }
        // Without a descriptor nothing is made either.
        let descriptor = stand_in(flags)?;
        let opened = match ask(asking.client).open(base, path, flags, mode) {
            Ok(opened) => opened,
            Err(refused) => {
                own::close(descriptor);
                return answer(Err(refused));
            }
        };
        files::opened_beside(descriptor, flags, (asking.client, &opened), &asking.within);
        Some(descriptor)
    })
}

/// A file's attributes, as a call has them.
fn look<T: Copy>(
    (folder, path): (c_int, *const c_char),
    flags: c_int,
    (make, into): (impl FnOnce(&Place, &Attributes) -> T, *mut T),
) -> Answer {
    const KNOWN: c_int = libc::AT_SYMLINK_NOFOLLOW
        | libc::AT_NO_AUTOMOUNT
        | libc::AT_STATX_FORCE_SYNC
        | libc::AT_STATX_DONT_SYNC;
    if flags & !KNOWN != 0 {
        return None;
    }
    with_path(folder, path, |asking, base, path| {
        let looked = asking.ask.look(base, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0);
        asking.tell(looked, make, into)
    })
}

/// A time's seconds and the rest. The owner answers none by itself whose nanoseconds do not fit into 64 bits.
fn parts_of(time: i128) -> (i64, i64) {
    (time.div_euclid(1_000_000_000) as i64, time.rem_euclid(1_000_000_000) as i64)
}

fn stat_of(place: &Place, attributes: &Attributes) -> libc::stat {
    // SAFETY: zeroes are such a value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    status.st_dev = place.device;
    status.st_ino = attributes.ino.0;
    status.st_mode = attributes.mode;
    status.st_nlink = attributes.links as _;
    status.st_uid = attributes.uid;
    status.st_gid = attributes.gid;
    status.st_size = attributes.size as i64;
    status.st_blksize = place.template.stx_blksize as _;
    status.st_blocks = attributes.blocks as i64;
    (status.st_atime, status.st_atime_nsec) = parts_of(attributes.accessed);
    (status.st_mtime, status.st_mtime_nsec) = parts_of(attributes.modified);
    (status.st_ctime, status.st_ctime_nsec) = parts_of(attributes.changed);
    status
}

fn statx_of(place: &Place, attributes: &Attributes) -> libc::statx {
    let mut status = place.template;
    let time = |time| {
        let (seconds, rest) = parts_of(time);
        // SAFETY: zeroes are such a value.
        let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        (stamp.tv_sec, stamp.tv_nsec) = (seconds, rest as u32);
        stamp
    };
    status.stx_ino = attributes.ino.0;
    status.stx_mode = attributes.mode as u16;
    status.stx_nlink = attributes.links as u32;
    status.stx_uid = attributes.uid;
    status.stx_gid = attributes.gid;
    status.stx_size = attributes.size;
    status.stx_blocks = attributes.blocks;
    status.stx_atime = time(attributes.accessed);
    status.stx_mtime = time(attributes.modified);
    status.stx_ctime = time(attributes.changed);
    status
}

/// Answers as `fstatat` does.
pub(crate) fn stat(folder: c_int, path: *const c_char, flags: c_int, into: *mut libc::stat) -> Answer {
    look((folder, path), flags, (stat_of, into))
}

/// Answers as `statx` does. The kernel answers what is only told to a program that asks for it.
pub(crate) fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: u32,
    into: *mut libc::statx,
) -> Answer {
    if mask & !(libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID) != 0 {
        return None;
    }
    look((folder, path), flags, (statx_of, into))
}

/// As `fstat`, of what was opened without the kernel.
pub(crate) fn stat_opened(descriptor: c_int, into: *mut libc::stat) -> Answer {
    if !files::is_beside(descriptor) {
        return None;
    }
    let asking = begin((descriptor, std::ptr::null()))?;
    let looked = asking.ask.look(asking.opened(descriptor)?, b"", false);
    asking.tell(looked, stat_of, into)
}

/// As `access`, whether there is a file. The kernel says which user may do what with it.
pub(crate) fn exists(folder: c_int, path: *const c_char) -> Answer {
    let nowhere: [(); 0] = [];
    look((folder, path), 0, (|_, _| (), nowhere.as_ptr().cast_mut()))
}

/// Makes a directory, as `mkdirat` does.
pub(crate) fn make_directory(folder: c_int, path: *const c_char, mode: mode_t) -> Answer {
    with_path(folder, path, |asking, base, path| {
        user::know_umask();
        answer(ask(asking.client).make_directory(base, path, mode))
    })
}

/// Removes a name, as `unlinkat` does.
pub(crate) fn remove(folder: c_int, path: *const c_char, flags: c_int) -> Answer {
    with_path(folder, path, |asking, base, path| match flags {
        0 => answer(asking.ask.unlink(base, path)),
        libc::AT_REMOVEDIR => answer(asking.ask.remove_directory(base, path)),
        _ => None,
    })
}

/// Renames a file, as `renameat2` does.
pub(crate) fn rename(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    flags: libc::c_uint,
) -> Answer {
    if flags & !libc::RENAME_NOREPLACE != 0 {
        return None;
    }
    with_paths(from, to, |asking, from, to| answer(asking.ask.rename(from, to, flags == 0)))
}

/// Makes another name of a file, as `linkat` does.
pub(crate) fn link(from: (c_int, *const c_char), to: (c_int, *const c_char), flags: c_int) -> Answer {
    if flags & !libc::AT_SYMLINK_FOLLOW != 0 {
        return None;
    }
    with_paths(from, to, |asking, from, to| answer(asking.ask.link(from, to, flags != 0)))
}

/// Makes a symbolic link, as `symlinkat` does.
pub(crate) fn link_to(target: *const c_char, folder: c_int, path: *const c_char) -> Answer {
    with_path(folder, path, |asking, base, path| {
        // SAFETY: no other part of this call has it.
        answer(asking.ask.link_to(asking.path(target, unsafe { buffer(SECOND) })?, base, path))
    })
}

/// Reads a symbolic link, as `readlinkat` does.
pub(crate) fn read_link(
    folder: c_int,
    path: *const c_char,
    into: *mut c_char,
    bytes: usize,
) -> Option<libc::ssize_t> {
    if bytes == 0 {
        return None;
    }
    with_path(folder, path, |asking, base, path| {
        // SAFETY: no other part of this call has it.
        match asking.ask.read_link(base, path, unsafe { cleared(ANSWERED) }) {
            Ok(target) => {
                let target = &target[..target.len().min(bytes)];
                let put = asking.put(target, into.cast());
                Some(put.map_or_else(|| answers::refused(libc::EFAULT) as isize, |_| target.len() as isize))
            }
            Err(refused) => answer(Err(refused)).map(|done| done as libc::ssize_t),
        }
    })
}

/// Whether a regular file lies in the mount; nothing if it is something else.
pub(crate) fn is_of_mount(descriptor: c_int) -> Option<bool> {
    if files::is_beside(descriptor) {
        return Some(true);
    }
    let place = mounts::place()?;
    let status = status_of(descriptor, libc::STATX_TYPE)?;
    let is_file = u32::from(status.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    is_file.then(|| device_of(&status) == place.device)
}

/// Changes a path's attributes.
pub(crate) fn change(folder: c_int, path: *const c_char, flags: c_int, change: Change) -> Answer {
    if flags & !libc::AT_SYMLINK_NOFOLLOW != 0 {
        return None;
    }
    with_path(folder, path, |asking, base, path| {
        answer(asking.ask.change(base, path, flags & libc::AT_SYMLINK_NOFOLLOW == 0, change))
    })
}

/// Changes attributes of what was opened without the kernel.
pub(crate) fn change_opened(descriptor: c_int, change: Change) -> Answer {
    if !files::is_beside(descriptor) {
        return None;
    }
    let asking = begin((descriptor, std::ptr::null()))?;
    answer(asking.ask.change(asking.opened(descriptor)?, b"", false, change))
}

/// What `utimensat` is given; nothing if the kernel is to say what is wrong with it, or nothing changes.
pub(crate) fn times(times: *const libc::timespec) -> Option<[SetTime; 2]> {
    if times.is_null() {
        return Some([SetTime::Now; 2]);
    }
    let mut copied = [libc::timespec { tv_sec: 0, tv_nsec: 0 }; 2];
    let to = copied.as_mut_ptr();
    let within = Within::new()?;
    // SAFETY: (1) only a copy; what is not there is known; (2) this thread's.
    let is_there = unsafe {
        within.recovery().run(|| {
            to.cast::<u8>().copy_from_nonoverlapping(times.cast(), size_of::<[libc::timespec; 2]>());
            0
        })
    };
    let times = is_there.ok().map(|_| copied)?;
    let mut set = [SetTime::No; 2];
    for (set, time) in set.iter_mut().zip(times) {
        *set = match time.tv_nsec {
            libc::UTIME_OMIT => SetTime::No,
            libc::UTIME_NOW => SetTime::Now,
            0..1_000_000_000 => {
                SetTime::To(time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec)?)
            }
            _ => return None,
        };
    }
    (set != [SetTime::No; 2]).then_some(set)
}

/// Whether a path may lead to the program's own descriptors, so that none may stand for another file.
pub(crate) fn may_lead_to_descriptors(path: *const c_char) -> bool {
    if !description::has_beside() {
        return false;
    }
    let Some(within) = Within::new() else { return true };
    // SAFETY: no other part of this call has it.
    let path = copy_path(path, unsafe { buffer(FIRST) }, &within).unwrap_or_default();
    !path.starts_with(b"/") || [&b"/proc/"[..], b"/dev/"].iter().any(|folder| path.starts_with(folder))
}

/// Makes a call that has to do with no file that is kept here, while others are dispatched. What it answers is as C has it.
#[inline]
pub(crate) fn pass<const ARGUMENTS: usize>(
    number: libc::c_long,
    arguments: [usize; ARGUMENTS],
) -> Option<isize> {
    if !offsets::is_watching() || !single_threaded::is_single_threaded() {
        return None;
    }
    if MAY_WAIT.contains(&number) {
        mounts::may_be_covered();
    }
    Some(match kernel::checked(number, arguments) {
        Ok(done) => done as isize,
        Err(number) => answers::refused(number) as isize,
    })
}
