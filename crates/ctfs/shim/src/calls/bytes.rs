//! Reads, writes and offsets.

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};
use pagewalk_ctfs::single_threaded;

use super::{before, or_pass, or_real, refuse_own};
use crate::answers;
use crate::description::Parts;
use crate::files::{self, Used, get, length_is_needed};
use crate::names;
use crate::real::real;

/// Parts of one call at most, as the kernel has it.
const MOST_PARTS: usize = 1_024;

/// The open file that a call reads or writes, if that is done here.
#[inline]
fn used(descriptor: c_int) -> Option<Used> {
    if !single_threaded::is_single_threaded() {
        // A thread that is to be cancelled is cancelled here: nothing is held yet.
        real!(pthread_testcancel() -> ());
    }
    get(descriptor)
}

#[inline]
fn one(start: *const c_void, length: size_t) -> [iovec; 1] {
    [iovec { iov_base: start.cast_mut(), iov_len: length }]
}

/// Does something with the parts that a call is given; nothing if the kernel is to say what is wrong with them.
fn with_parts(
    file: &Used,
    vectors: *const iovec,
    count: c_int,
    act: impl FnOnce(Parts<'_>) -> Option<ssize_t>,
) -> Option<ssize_t> {
    let count = usize::try_from(count).ok().filter(|&count| count <= MOST_PARTS && !vectors.is_null())?;
    let mut parts = vec![iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; count];
    let to = parts.as_mut_ptr();
    // SAFETY: (1) only a copy, to where there is room; what is not there is known; (2) this thread's.
    let copied = unsafe {
        file.recovery().run(|| {
            // By bytes: nothing says that a program's parts are aligned.
            to.cast::<u8>().copy_from_nonoverlapping(vectors.cast(), count * size_of::<iovec>());
            0
        })
    };
    copied.ok()?;
    act(Parts::new(&parts)?)
}

/// `read` and `write` under their names.
macro_rules! reads_and_writes {
    ($($read:ident $write:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $read(descriptor: c_int, start: *mut c_void, length: size_t) -> ssize_t {
            let answer = used(descriptor).and_then(|file| {
                file.read(descriptor, Parts::new(&one(start, length))?, file.recovery())
            });
            or_real!(answer, {
                or_pass!(
                    SYS_read of (descriptor ) [descriptor, start, length],
                    real!($read(descriptor => c_int, start => *mut c_void, length => size_t) -> ssize_t)
                )
            })
        }

        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $write(descriptor: c_int, start: *const c_void, length: size_t) -> ssize_t {
            let answer = used(descriptor).and_then(|file| {
                file.write(descriptor, Parts::new(&one(start, length))?, file.recovery())
            });
            or_real!(answer, {
                or_pass!(
                    SYS_write of (descriptor ) [descriptor, start, length],
                    real!($write(descriptor => c_int, start => *const c_void, length => size_t) -> ssize_t)
                )
            })
        }
    )*};
}

reads_and_writes! { read write __read __write }

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

/// `pread` and `pwrite` under their names.
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
            let answer = used(descriptor).and_then(|file| {
                file.read_at(descriptor, offset, Parts::new(&one(start, length))?, file.recovery())
            });
            or_real!(answer, {
                or_pass!(
                    SYS_pread64 of (descriptor ) [descriptor, start, length, offset],
                    real!($read(descriptor => c_int, start => *mut c_void, length => size_t, offset => off_t) -> ssize_t)
                )
            })
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
            let answer = used(descriptor).and_then(|file| {
                file.write_at(descriptor, offset, Parts::new(&one(start, length))?, file.recovery())
            });
            or_real!(answer, {
                or_pass!(
                    SYS_pwrite64 of (descriptor ) [descriptor, start, length, offset],
                    real!($write(descriptor => c_int, start => *const c_void, length => size_t, offset => off_t) -> ssize_t)
                )
            })
        }
    )*};
}

at_offsets! { pread pwrite pread64 pwrite64 __pread64 __pwrite64 }

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

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(descriptor: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let answer = used(descriptor).and_then(|file| {
        with_parts(&file, vectors, count, |parts| file.read(descriptor, parts, file.recovery()))
    });
    or_real!(answer, {
        or_pass!(
            SYS_readv of (descriptor ) [descriptor, vectors, count],
            real!(readv(descriptor => c_int, vectors => *const iovec, count => c_int) -> ssize_t)
        )
    })
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(descriptor: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let answer = used(descriptor).and_then(|file| {
        with_parts(&file, vectors, count, |parts| file.write(descriptor, parts, file.recovery()))
    });
    or_real!(answer, {
        or_pass!(
            SYS_writev of (descriptor ) [descriptor, vectors, count],
            real!(writev(descriptor => c_int, vectors => *const iovec, count => c_int) -> ssize_t)
        )
    })
}

/// `preadv` and `pwritev` under both their names, and with flags: what these say is the kernel's to do.
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
            let answer = used(descriptor).filter(|_| is_plain).and_then(|file| {
                with_parts(&file, vectors, count, |parts| file.read_at(descriptor, offset, parts, file.recovery()))
            });
            or_real!(answer, {
                refuse_own!(descriptor);
                real!($read(descriptor => c_int, vectors => *const iovec, count => c_int, offset => off_t $(, $flags => c_int)?) -> ssize_t)
            })
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
            let answer = used(descriptor).filter(|_| is_plain).and_then(|file| {
                with_parts(&file, vectors, count, |parts| file.write_at(descriptor, offset, parts, file.recovery()))
            });
            or_real!(answer, {
                refuse_own!(descriptor);
                real!($write(descriptor => c_int, vectors => *const iovec, count => c_int, offset => off_t $(, $flags => c_int)?) -> ssize_t)
            })
        }
    )*};
}

vectors_at_offsets! {
    preadv pwritev;
    preadv64 pwritev64;
    preadv2 pwritev2 flags;
    preadv64v2 pwritev64v2 flags;
}

/// `lseek` under its names.
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
            or_real!(answer.map(|at| at as off_t), {
                or_pass!(
                    SYS_lseek of (descriptor ) [descriptor, by, whence],
                    real!($name(descriptor => c_int, by => off_t, whence => c_int) -> off_t)
                )
            })
        }
    )*};
}

seeks! { lseek lseek64 __lseek }

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

// The kernel copies up to the length that it knows, and does not ask the owner.
before! {
    sendfile(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t, length_is_needed(from);
    sendfile64(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t, length_is_needed(from);
    splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: libc::c_uint) -> ssize_t,
        length_is_needed(from);
}

/// As the C library's. Into a file that was opened without the kernel the bytes are copied here.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    length: size_t,
    flags: libc::c_uint,
) -> ssize_t {
    let is_plain = from_offset.is_null() && to_offset.is_null() && flags == 0 && from != to;
    if is_plain && files::is_beside(to) {
        match names::is_of_mount(from) {
            Some(false) => return answers::refused(libc::EXDEV) as ssize_t,
            Some(true) if !files::is_apart(from) => return copy(from, to, length),
            _ => {}
        }
    }
    length_is_needed(from);
    real!(copy_file_range(from => c_int, from_offset => *mut off_t, to => c_int, to_offset => *mut off_t, length => size_t, flags => libc::c_uint) -> ssize_t)
}

/// Copies from one file's offset to another's, a part at least.
fn copy(from: c_int, to: c_int, length: size_t) -> ssize_t {
    /// Bytes at once, and of one call.
    const PART: usize = 128 << 10;
    const MOST: usize = 16 << 20;
    let mut part = vec![0u8; PART.min(length)];
    let mut done = 0;
    while done < length.min(MOST) {
        let bytes = part.len().min(length - done);
        // SAFETY: there is room.
        let got = unsafe { read(from, part.as_mut_ptr().cast(), bytes) };
        if got <= 0 {
            return if done > 0 { done as ssize_t } else { got };
        }
        // SAFETY: so many were read.
        let put = unsafe { write(to, part.as_ptr().cast(), got as usize) };
        done += put.max(0) as usize;
        if put < got {
            let kept = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            // SAFETY: it touches no memory.
            unsafe { lseek(from, put.max(0) as off_t - got as off_t, libc::SEEK_CUR) };
            answers::refused(kept);
            return if done > 0 { done as ssize_t } else { -1 };
        }
    }
    done as ssize_t
}

/// `posix_fadvise` under both its names: no advice matters for a file whose bytes are used where they are.
macro_rules! advises {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int {
            let is_known = (libc::POSIX_FADV_NORMAL..=libc::POSIX_FADV_NOREUSE).contains(&advice);
            if is_known && length >= 0 && files::is_beside(descriptor) {
                return 0;
            }
            refuse_own!(descriptor);
            if files::is_apart(descriptor) {
                let kept = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                let arguments = [descriptor as usize, offset as usize, length as usize, advice as usize];
                if let Some(done) = names::pass(libc::SYS_fadvise64, arguments) {
                    // It answers the error's number.
                    let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                    answers::refused(kept);
                    return if done < 0 { number } else { 0 };
                }
            }
            real!($name(descriptor => c_int, offset => off_t, length => off_t, advice => c_int) -> c_int)
        }
    )*};
}

advises! { posix_fadvise posix_fadvise64 }

/// As the C library's. `FIONREAD` tells how much there is up to the length that the kernel knows.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(descriptor: c_int, request: libc::c_ulong, argument: usize) -> c_int {
    refuse_own!(descriptor);
    if request == libc::FIONREAD {
        length_is_needed(descriptor);
    }
    if request == libc::FICLONE && files::is_beside(descriptor) {
        // Two files never have the same frames.
        match names::is_of_mount(argument as c_int) {
            Some(true) => return answers::refused(libc::EOPNOTSUPP),
            Some(false) => return answers::refused(libc::EXDEV),
            None => {}
        }
    }
    or_pass!(
        SYS_ioctl of (descriptor ) [descriptor, request, argument],
        real!(ioctl(descriptor => c_int, request => libc::c_ulong, argument => usize) -> c_int)
    )
}

/// `fallocate` under both its names. The kernel passes on neither what takes a range out nor what puts one in.
macro_rules! allocates {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
            let shifted = get(descriptor).and_then(|file| file.shift(descriptor, mode, offset, length));
            or_real!(shifted.map(|done| done as c_int), {
                refuse_own!(descriptor);
                real!($name(descriptor => c_int, mode => c_int, offset => off_t, length => off_t) -> c_int)
            })
        }
    )*};
}

allocates! { fallocate fallocate64 }
