//! The calls that make, copy, close and send descriptors.

use std::ffi::c_void;

use libc::{c_char, c_int, c_uint, mode_t, msghdr, size_t, ssize_t};

use super::{before, behind, or_pass, refuse_own};
use crate::files::{self, closed, copied, get, opened};
use crate::own::DESCRIPTORS;
use crate::real::real;
use crate::{answers, kept, kernel, names};

/// A descriptor is another file's than it was when its number was closed behind our back.
fn is_new(descriptor: c_int) {
    if descriptor >= 0 {
        closed(descriptor);
    }
}

fn opened_as(descriptor: c_int, flags: c_int) {
    is_new(descriptor);
    if descriptor >= 0 {
        opened(descriptor, flags);
    }
}

/// What opens a file by its name: the mode is 0 where there is none.
macro_rules! opens {
    ($($name:ident($($argument:ident: $type:ty),*) at ($folder:expr, $path:ident), $flags:expr, $mode:expr;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            let (folder, flags, mode): (c_int, c_int, mode_t) = ($folder, $flags, $mode);
            if let Some(answer) = names::open(folder, $path, flags, mode) {
                return answer;
            }
            let descriptor = or_pass!(
                SYS_openat of (folder) at ($path ) [folder, $path, flags | kernel::LARGE, mode],
                real!($name($($argument => $type),*) -> c_int)
            );
            opened_as(descriptor, flags);
            descriptor
        }
    )*};
}

const CREATES: c_int = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;

opens! {
    open(path: *const c_char, flags: c_int, mode: mode_t) at (libc::AT_FDCWD, path), flags, mode;
    open64(path: *const c_char, flags: c_int, mode: mode_t) at (libc::AT_FDCWD, path), flags, mode;
    __open(path: *const c_char, flags: c_int, mode: mode_t) at (libc::AT_FDCWD, path), flags, mode;
    __open64(path: *const c_char, flags: c_int, mode: mode_t) at (libc::AT_FDCWD, path), flags, mode;
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) at (folder, path), flags, mode;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) at (folder, path), flags, mode;
    creat(path: *const c_char, mode: mode_t) at (libc::AT_FDCWD, path), CREATES, mode;
    creat64(path: *const c_char, mode: mode_t) at (libc::AT_FDCWD, path), CREATES, mode;
    __open_2(path: *const c_char, flags: c_int) at (libc::AT_FDCWD, path), flags, 0;
    __open64_2(path: *const c_char, flags: c_int) at (libc::AT_FDCWD, path), flags, 0;
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) at (folder, path), flags, 0;
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int) at (folder, path), flags, 0;
}

behind! {
    mkstemp(path: *mut c_char) -> c_int, |descriptor| opened_as(descriptor, libc::O_RDWR);
    mkstemp64(path: *mut c_char) -> c_int, |descriptor| opened_as(descriptor, libc::O_RDWR);
    mkostemp(path: *mut c_char, flags: c_int) -> c_int, |descriptor| opened_as(descriptor, flags | libc::O_RDWR);
    mkostemp64(path: *mut c_char, flags: c_int) -> c_int, |descriptor| opened_as(descriptor, flags | libc::O_RDWR);
    mkstemps(path: *mut c_char, end: c_int) -> c_int, |descriptor| opened_as(descriptor, libc::O_RDWR);
    mkstemps64(path: *mut c_char, end: c_int) -> c_int, |descriptor| opened_as(descriptor, libc::O_RDWR);
    mkostemps(path: *mut c_char, end: c_int, flags: c_int) -> c_int, |descriptor| opened_as(descriptor, flags | libc::O_RDWR);
    mkostemps64(path: *mut c_char, end: c_int, flags: c_int) -> c_int, |descriptor| opened_as(descriptor, flags | libc::O_RDWR);
    open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int, |descriptor| opened_as(descriptor, flags);
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int, |descriptor| is_new(descriptor);
    accept(socket: c_int, address: *mut c_void, length: *mut c_uint) -> c_int, |descriptor| is_new(descriptor);
    accept4(socket: c_int, address: *mut c_void, length: *mut c_uint, flags: c_int) -> c_int, |descriptor| is_new(descriptor);
    epoll_create(size: c_int) -> c_int, |descriptor| is_new(descriptor);
    epoll_create1(flags: c_int) -> c_int, |descriptor| is_new(descriptor);
    eventfd(value: c_uint, flags: c_int) -> c_int, |descriptor| is_new(descriptor);
    signalfd(descriptor: c_int, mask: *const c_void, flags: c_int) -> c_int, |new| if new != descriptor { is_new(new) };
    timerfd_create(clock: c_int, flags: c_int) -> c_int, |descriptor| is_new(descriptor);
    inotify_init() -> c_int, |descriptor| is_new(descriptor);
    inotify_init1(flags: c_int) -> c_int, |descriptor| is_new(descriptor);
    memfd_create(name: *const c_char, flags: c_uint) -> c_int, |descriptor| is_new(descriptor);
    pidfd_open(process: c_int, flags: c_uint) -> c_int, |descriptor| is_new(descriptor);
    pidfd_getfd(process: c_int, other: c_int, flags: c_uint) -> c_int, |descriptor| is_new(descriptor);
    pipe(both: *mut c_int) -> c_int, |failed| are_new(failed, both);
    pipe2(both: *mut c_int, flags: c_int) -> c_int, |failed| are_new(failed, both);
    socketpair(domain: c_int, kind: c_int, protocol: c_int, both: *mut c_int) -> c_int, |failed| are_new(failed, both);
    daemon(stays: c_int, keeps: c_int) -> c_int, |_failed| (0..3).for_each(closed);
    login_tty(terminal: c_int) -> c_int, |_failed| (0..3).chain([terminal]).for_each(closed);
    recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, |done| if done >= 0 { received(message) };
}

fn are_new(failed: c_int, both: *const c_int) {
    if failed == 0 {
        // SAFETY: the kernel has just written both.
        unsafe { std::slice::from_raw_parts(both, 2) }.iter().copied().for_each(is_new);
    }
}

/// The descriptors that a message has.
fn passed(message: *const msghdr, mut act: impl FnMut(c_int)) {
    // SAFETY: a message that the kernel has taken or filled; it says how long each part is.
    unsafe {
        let mut part = if message.is_null() { std::ptr::null_mut() } else { libc::CMSG_FIRSTHDR(message) };
        while let Some(header) = part.as_ref() {
            if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
                let data: *const c_int = libc::CMSG_DATA(part).cast();
                let bytes = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                (0..bytes / size_of::<c_int>()).for_each(|index| act(data.add(index).read_unaligned()));
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
}

fn received(message: *const msghdr) {
    passed(message, is_new);
}

/// As the C library's. Another process gets the descriptors that are sent, and moves their offsets.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    refuse_own!(socket);
    let done = real!(sendmsg(socket => c_int, message => *const msghdr, flags => c_int) -> ssize_t);
    if done >= 0 {
        // The kernel has read all of it.
        passed(message, files::sent);
    }
    done
}

/// As the C library's, for each message.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    socket: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    refuse_own!(socket);
    let done = real!(sendmmsg(socket => c_int, messages => *mut libc::mmsghdr, count => c_uint, flags => c_int) -> c_int);
    for index in 0..usize::try_from(done).unwrap_or(0) {
        // SAFETY: the kernel has just sent it.
        passed(unsafe { &raw const (*messages.add(index)).msg_hdr }, files::sent);
    }
    done
}

/// As the C library's, for each message.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    socket: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
    time: *mut c_void,
) -> c_int {
    let done = real!(recvmmsg(socket => c_int, messages => *mut libc::mmsghdr, count => c_uint, flags => c_int, time => *mut c_void) -> c_int);
    for index in 0..usize::try_from(done).unwrap_or(0) {
        // SAFETY: the kernel has just filled it.
        received(unsafe { &raw const (*messages.add(index)).msg_hdr });
    }
    done
}

before! {
    send(socket: c_int, start: *const c_void, length: size_t, flags: c_int) -> ssize_t, refuse_own!(socket);
    recv(socket: c_int, start: *mut c_void, length: size_t, flags: c_int) -> ssize_t, refuse_own!(socket);
    shutdown(socket: c_int, how: c_int) -> c_int, refuse_own!(socket);
    fclose(stream: *mut c_void) -> c_int, stream_closes(stream);
}

behind! {
    freopen(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void, |_new| stream_closes(stream);
    freopen64(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void, |_new| stream_closes(stream);
}

/// The C library closes a stream's descriptor by itself, or has just opened it again.
fn stream_closes(stream: *mut c_void) {
    if stream.is_null() {
        return;
    }
    let kept = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let descriptor = real!(fileno(stream => *mut c_void) -> c_int);
    if descriptor >= 0 {
        closed(descriptor);
    }
    answers::refused(kept);
}

/// As the C library's, for all streams.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcloseall() -> c_int {
    (0..DESCRIPTORS as c_int).for_each(closed);
    real!(fcloseall() -> c_int)
}

/// `close` under its names.
macro_rules! closes {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int) -> c_int {
            refuse_own!(descriptor);
            closed(descriptor);
            or_pass!(SYS_close of (descriptor ) [descriptor], real!($name(descriptor => c_int) -> c_int))
        }
    )*};
}

closes! { close __close }

/// As the C library's, between our own.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const MARKS: c_int = 4;
    if first > last {
        return answers::refused(libc::EINVAL);
    }
    if flags & MARKS == 0 {
        (first..=last.min(DESCRIPTORS as c_uint)).for_each(|descriptor| closed(descriptor as c_int));
    }
    let mut from = first;
    while let Some(own) = kept::next(from).filter(|&own| own <= last) {
        if from < own {
            let done = real!(close_range(from => c_uint, own - 1 => c_uint, flags => c_int) -> c_int);
            if done != 0 {
                return done;
            }
        }
        from = own + 1;
    }
    if from > last {
        return 0;
    }
    real!(close_range(from => c_uint, last => c_uint, flags => c_int) -> c_int)
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: as the caller's.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(from: c_int) -> c_int {
    refuse_own!(from);
    let to = real!(dup(from => c_int) -> c_int);
    if to >= 0 {
        copied(from, to);
    }
    to
}

/// `dup2` and `dup3` under their names.
macro_rules! copies {
    ($($name:ident $($flags:ident)?;)*) => {$(
        /// As the C library's. What is ours makes way.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(from: c_int, to: c_int $(, $flags: c_int)?) -> c_int {
            refuse_own!(from);
            kept::make_way(to);
            let done = real!($name(from => c_int, to => c_int $(, $flags => c_int)?) -> c_int);
            if done >= 0 {
                copied(from, to);
            }
            done
        }
    )*};
}

copies! { dup2; __dup2; dup3 flags; }

/// `fcntl` under its names.
macro_rules! controls {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, command: c_int, argument: usize) -> c_int {
            refuse_own!(descriptor);
            if let Some(flags) = files::control(descriptor, command) {
                return flags;
            }
            if matches!(command, libc::F_GETFD | libc::F_SETFD)
                && let Some(done) = names::pass(libc::SYS_fcntl, [descriptor as usize, command as usize, argument])
            {
                // It is the descriptor's, whatever is behind it.
                return done as c_int;
            }
            let control = || real!($name(descriptor => c_int, command => c_int, argument => usize) -> c_int);
            let done = match command {
                libc::F_GETFL => or_pass!(SYS_fcntl of (descriptor ) [descriptor, command, argument], control()),
                _ => control(),
            };
            if done >= 0 {
                match command {
                    libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copied(descriptor, done),
                    libc::F_SETFL => {
                        if let Some(file) = get(descriptor) {
                            file.set_flags(argument as c_int);
                        }
                    }
                    _ => {}
                }
            }
            done
        }
    )*};
}

controls! { fcntl fcntl64 __fcntl }
