//! The functions that stand before the C library's.
//!
//! Those with a variable number of arguments in C take the one that there may be as if it always were: the calling conventions of
//! the processors that Linux runs on here allow it.

use libc::{c_char, c_int, c_uint, c_void, iovec, mode_t, off_t, pid_t, size_t, ssize_t};

use crate::files::{self, before_exec, closed, copied, get, is_own, opened};
use crate::mappings;
use crate::real::real;

/// Parts of one call at most, as the kernel has it.
const MOST_PARTS: c_int = 1_024;

/// What becomes of a call that is not handled here.
macro_rules! or_real {
    ($answer:expr, $real:expr) => {
        match $answer {
            Some(answer) => answer,
            None => $real,
        }
    };
}

fn opened_as(descriptor: c_int, flags: c_int) -> c_int {
    if descriptor >= 0 {
        // A number that was closed behind our back.
        closed(descriptor);
        opened(descriptor, flags);
    }
    descriptor
}

/// `open` under all its names.
macro_rules! opens {
    ($($name:ident($($argument:ident: $type:ty),*), $flags:expr;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            opened_as(real!($name($($argument => $type),*) -> c_int), $flags)
        }
    )*};
}

opens! {
    open(path: *const c_char, flags: c_int, mode: mode_t), flags;
    open64(path: *const c_char, flags: c_int, mode: mode_t), flags;
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t), flags;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t), flags;
    creat(path: *const c_char, mode: mode_t), libc::O_WRONLY;
    creat64(path: *const c_char, mode: mode_t), libc::O_WRONLY;
    __open_2(path: *const c_char, flags: c_int), flags;
    __open64_2(path: *const c_char, flags: c_int), flags;
    __openat_2(folder: c_int, path: *const c_char, flags: c_int), flags;
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int), flags;
    mkstemp(path: *mut c_char), libc::O_RDWR;
    mkstemp64(path: *mut c_char), libc::O_RDWR;
    mkostemp(path: *mut c_char, flags: c_int), flags | libc::O_RDWR;
    mkostemp64(path: *mut c_char, flags: c_int), flags | libc::O_RDWR;
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    if is_own(descriptor) {
        // Programs that close everything do not mean it.
        return 0;
    }
    closed(descriptor);
    real!(close(descriptor => c_int) -> c_int)
}

/// As the C library's, one after the other.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const MARKS: c_int = 4;
    if flags & MARKS == 0 {
        (first..=last.min(files::DESCRIPTORS as c_uint)).for_each(|descriptor| closed(descriptor as c_int));
    }
    let mut from = first;
    let mut done = 0;
    while let Some(own) = files::next_own(from).filter(|&own| own <= last) {
        if from < own {
            done |= real!(close_range(from => c_uint, own - 1 => c_uint, flags => c_int) -> c_int);
        }
        from = own + 1;
    }
    if from <= last {
        done |= real!(close_range(from => c_uint, last => c_uint, flags => c_int) -> c_int);
    }
    done
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
    let to = real!(dup(from => c_int) -> c_int);
    if to >= 0 {
        copied(from, to);
    }
    to
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    if is_own(to) {
        return files::refused(libc::EBUSY);
    }
    let done = real!(dup2(from => c_int, to => c_int) -> c_int);
    if done >= 0 {
        copied(from, to);
    }
    done
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if is_own(to) {
        return files::refused(libc::EBUSY);
    }
    let done = real!(dup3(from => c_int, to => c_int, flags => c_int) -> c_int);
    if done >= 0 {
        copied(from, to);
    }
    done
}

/// `fcntl` under both its names.
macro_rules! controls {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, command: c_int, argument: usize) -> c_int {
            let done = real!($name(descriptor => c_int, command => c_int, argument => usize) -> c_int);
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

controls! { fcntl fcntl64 }

/// The bytes that a call is given, to fill them.
///
/// # Safety
///
/// They are there, and nobody else's.
unsafe fn target<'a>(start: *mut c_void, length: size_t) -> &'a mut [u8] {
    // SAFETY: the caller's; an empty slice must not be at 0.
    if length == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(start.cast(), length) } }
}

/// The bytes that a call is given.
///
/// # Safety
///
/// They are there.
unsafe fn source<'a>(start: *const c_void, length: size_t) -> &'a [u8] {
    // SAFETY: as for `target`.
    if length == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start.cast(), length) } }
}

/// The parts that a call is given; nothing if the kernel is to say what is wrong with them.
///
/// # Safety
///
/// They are there.
unsafe fn parts<'a>(vectors: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    // SAFETY: the caller's.
    (0..=MOST_PARTS).contains(&count).then(|| unsafe { std::slice::from_raw_parts(vectors, count as usize) })
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(descriptor: c_int, start: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's.
    let answer =
        get(descriptor).and_then(|file| file.read(descriptor, &mut [unsafe { target(start, length) }]));
    or_real!(answer, real!(read(descriptor => c_int, start => *mut c_void, length => size_t) -> ssize_t))
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    descriptor: c_int,
    start: *mut c_void,
    length: size_t,
    room: size_t,
) -> ssize_t {
    if length <= room {
        // SAFETY: the caller's.
        return unsafe { read(descriptor, start, length) };
    }
    real!(__read_chk(descriptor => c_int, start => *mut c_void, length => size_t, room => size_t) -> ssize_t)
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: c_int, start: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's.
    let answer = get(descriptor).and_then(|file| file.write(descriptor, &[unsafe { source(start, length) }]));
    or_real!(answer, real!(write(descriptor => c_int, start => *const c_void, length => size_t) -> ssize_t))
}

/// `pread` and `pwrite` under both their names.
macro_rules! at_offsets {
    ($($read:ident $write:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $read(
            descriptor: c_int,
            start: *mut c_void,
            length: size_t,
            offset: off_t,
        ) -> ssize_t {
            let answer = get(descriptor).and_then(|file| {
                // SAFETY: the caller's.
                file.read_at(descriptor, offset, &mut [unsafe { target(start, length) }])
            });
            or_real!(answer, real!($read(descriptor => c_int, start => *mut c_void, length => size_t, offset => off_t) -> ssize_t))
        }

        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $write(
            descriptor: c_int,
            start: *const c_void,
            length: size_t,
            offset: off_t,
        ) -> ssize_t {
            let answer = get(descriptor).and_then(|file| {
                // SAFETY: the caller's.
                file.write_at(descriptor, offset, &[unsafe { source(start, length) }])
            });
            or_real!(answer, real!($write(descriptor => c_int, start => *const c_void, length => size_t, offset => off_t) -> ssize_t))
        }
    )*};
}

at_offsets! { pread pwrite pread64 pwrite64 }

/// `__pread_chk` under both its names.
macro_rules! checked_reads {
    ($($name:ident $plain:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            descriptor: c_int,
            start: *mut c_void,
            length: size_t,
            offset: off_t,
            room: size_t,
        ) -> ssize_t {
            if length <= room {
                // SAFETY: the caller's.
                return unsafe { $plain(descriptor, start, length, offset) };
            }
            real!($name(descriptor => c_int, start => *mut c_void, length => size_t, offset => off_t, room => size_t) -> ssize_t)
        }
    )*};
}

checked_reads! { __pread_chk pread __pread64_chk pread64 }

/// Reads into several parts.
///
/// # Safety
///
/// The parts are there, and nobody else's.
unsafe fn scatter(
    vectors: *const iovec,
    count: c_int,
    act: impl FnOnce(&mut [&mut [u8]]) -> Option<ssize_t>,
) -> Option<ssize_t> {
    // SAFETY: the caller's.
    let parts = unsafe { parts(vectors, count) }?;
    // SAFETY: the caller's.
    let mut parts: Vec<&mut [u8]> =
        parts.iter().map(|part| unsafe { target(part.iov_base, part.iov_len) }).collect();
    act(&mut parts)
}

/// Writes several parts.
///
/// # Safety
///
/// The parts are there.
unsafe fn gather(
    vectors: *const iovec,
    count: c_int,
    act: impl FnOnce(&[&[u8]]) -> Option<ssize_t>,
) -> Option<ssize_t> {
    // SAFETY: the caller's.
    let parts = unsafe { parts(vectors, count) }?;
    // SAFETY: the caller's.
    let parts: Vec<&[u8]> = parts.iter().map(|part| unsafe { source(part.iov_base, part.iov_len) }).collect();
    act(&parts)
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(descriptor: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let answer = get(descriptor)
        // SAFETY: the caller's.
        .and_then(|file| unsafe { scatter(vectors, count, |parts| file.read(descriptor, parts)) });
    or_real!(answer, real!(readv(descriptor => c_int, vectors => *const iovec, count => c_int) -> ssize_t))
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(descriptor: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let answer = get(descriptor)
        // SAFETY: the caller's.
        .and_then(|file| unsafe { gather(vectors, count, |parts| file.write(descriptor, parts)) });
    or_real!(answer, real!(writev(descriptor => c_int, vectors => *const iovec, count => c_int) -> ssize_t))
}

/// The open file, if the call is one that is handled here; otherwise the kernel has it from now on.
fn get_if(descriptor: c_int, is_handled: bool) -> Option<files::Used> {
    let file = get(descriptor)?;
    if is_handled {
        return Some(file);
    }
    file.hand_back(descriptor);
    None
}

/// `preadv` and `pwritev` under both their names, and with flags.
macro_rules! vectors_at_offsets {
    ($($read:ident $write:ident $($flags:ident)?;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $read(
            descriptor: c_int,
            vectors: *const iovec,
            count: c_int,
            offset: off_t,
            $($flags: c_int)?
        ) -> ssize_t {
            let is_plain = true $(&& $flags == 0 && offset != -1)?;
            let answer = get_if(descriptor, is_plain).and_then(|file| {
                // SAFETY: the caller's.
                unsafe { scatter(vectors, count, |parts| file.read_at(descriptor, offset, parts)) }
            });
            or_real!(answer, real!($read(descriptor => c_int, vectors => *const iovec, count => c_int, offset => off_t $(, $flags => c_int)?) -> ssize_t))
        }

        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $write(
            descriptor: c_int,
            vectors: *const iovec,
            count: c_int,
            offset: off_t,
            $($flags: c_int)?
        ) -> ssize_t {
            let is_plain = true $(&& $flags == 0 && offset != -1)?;
            let answer = get_if(descriptor, is_plain).and_then(|file| {
                // SAFETY: the caller's.
                unsafe { gather(vectors, count, |parts| file.write_at(descriptor, offset, parts)) }
            });
            or_real!(answer, real!($write(descriptor => c_int, vectors => *const iovec, count => c_int, offset => off_t $(, $flags => c_int)?) -> ssize_t))
        }
    )*};
}

vectors_at_offsets! {
    preadv pwritev;
    preadv64 pwritev64;
    preadv2 pwritev2 flags;
    preadv64v2 pwritev64v2 flags;
}

/// `lseek` under both its names.
macro_rules! seeks {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, by: off_t, whence: c_int) -> off_t {
            let answer = get(descriptor).and_then(|file| file.seek(descriptor, by, whence));
            or_real!(answer.map(|at| at as off_t), real!($name(descriptor => c_int, by => off_t, whence => c_int) -> off_t))
        }
    )*};
}

seeks! { lseek lseek64 }

/// `fsync` and `fdatasync`.
macro_rules! syncs {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int) -> c_int {
            or_real!(get(descriptor).and_then(|file| file.sync()), real!($name(descriptor => c_int) -> c_int))
        }
    )*};
}

syncs! { fsync fdatasync }

/// `mmap` under both its names.
macro_rules! maps {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            at: *mut c_void,
            length: size_t,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: off_t,
        ) -> *mut c_void {
            if let Some(open) = get(file) {
                if let Some(start) = open.map(file, (offset, length), protection, flags) {
                    return start;
                }
                open.hand_back(file);
            }
            let map = || real!($name(at => *mut c_void, length => size_t, protection => c_int, flags => c_int, file => c_int, offset => off_t) -> *mut c_void);
            if flags & libc::MAP_FIXED == 0 {
                return map();
            }
            mappings::replacing((at, length), map, |&mapped| mapped != libc::MAP_FAILED)
        }
    )*};
}

maps! { mmap mmap64 }

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, length: size_t) -> c_int {
    let unmap = || real!(munmap(start => *mut c_void, length => size_t) -> c_int);
    mappings::replacing((start, length), unmap, |&done| done == 0)
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    start: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let is_plain = flags & !libc::MREMAP_MAYMOVE == 0;
    match mappings::resized(start, old, new, is_plain) {
        Some(Ok(start)) => return start,
        Some(Err(number)) => {
            files::refused(number);
            return libc::MAP_FAILED;
        }
        None => {}
    }
    let remap = || real!(mremap(start => *mut c_void, old => size_t, new => size_t, flags => c_int, to => *mut c_void) -> *mut c_void);
    if flags & libc::MREMAP_FIXED == 0 {
        return remap();
    }
    mappings::replacing((to, new), remap, |&moved| moved != libc::MAP_FAILED)
}

/// What uses a file in ways that are not seen from here.
macro_rules! hands_back {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $($descriptor:ident)*;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            $(
                if let Some(file) = get($descriptor) {
                    file.hand_back($descriptor);
                }
            )*
            real!($name($($argument => $type),*) -> $result)
        }
    )*};
}

hands_back! {
    fdopen(file: c_int, mode: *const c_char) -> *mut c_void, file;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t, from to;
    sendfile64(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t, from to;
    splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint) -> ssize_t, from to;
    copy_file_range(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint) -> ssize_t, from to;
    vdprintf(file: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, file;
}

/// What becomes another program, which inherits what is not marked.
macro_rules! becomes {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            before_exec(false);
            let failed = real!($name($($argument => $type),*) -> c_int);
            // All that is left to a child of `vfork`.
            files::ends();
            failed
        }
    )*};
}

type Strings = *const *const c_char;

becomes! {
    execve(path: *const c_char, arguments: Strings, environment: Strings);
    execv(path: *const c_char, arguments: Strings);
    execvp(path: *const c_char, arguments: Strings);
    execvpe(path: *const c_char, arguments: Strings, environment: Strings);
    fexecve(file: c_int, arguments: Strings, environment: Strings);
}

/// What starts another program, and whether that may have failed behind our back.
macro_rules! starts {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $all:expr, $failed:expr;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            before_exec($all);
            let done = real!($name($($argument => $type),*) -> $result);
            let failed: fn($result) -> bool = $failed;
            if failed(done) {
                files::ends_with_our_memory();
            }
            done
        }
    )*};
}

starts! {
    posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int, !actions.is_null(), |error| error != 0;
    posix_spawnp(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int, !actions.is_null(), |error| error != 0;
    system(command: *const c_char) -> c_int, false, |status| status == -1 || libc::WEXITSTATUS(status) == 127;
    popen(command: *const c_char, mode: *const c_char) -> *mut c_void, false, |stream| stream.is_null();
}

/// What ends a process at once, under its names.
macro_rules! ends {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(status: c_int) -> ! {
            files::ends();
            real!($name(status => c_int) -> ());
            // It does not come back.
            std::process::abort()
        }
    )*};
}

ends! { _exit _Exit }
