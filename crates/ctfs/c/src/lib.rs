//! The library's functions for C, as `include/pagewalk_ctfs.h` describes them.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_char, c_int, c_void, mode_t, off_t, size_t, ssize_t};
use pagewalk_ctfs::{
    Attributes, Error, FileSystem, Files, Mapped, MountError, OpenOptions, Overwrites, Owner, Replace,
    Survives, coarse_now,
};

/// A store that is open.
pub struct PwFiles(Files<Mapped>);

/// A file in one.
pub struct PwFile(pagewalk_ctfs::File<Mapped>);

/// What is known of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PwAttributes {
    ino: u64,
    size: u64,
    blocks: u64,
    links: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    reserved: u32,
    accessed: i64,
    modified: i64,
    changed: i64,
}

impl From<Attributes> for PwAttributes {
    fn from(of: Attributes) -> Self {
        Self {
            ino: of.ino.0,
            size: of.size,
            blocks: of.blocks,
            links: of.links,
            mode: of.mode,
            uid: of.uid,
            gid: of.gid,
            reserved: 0,
            accessed: of.accessed,
            modified: of.modified,
            changed: of.changed,
        }
    }
}

const POWER_FAILURE: c_int = 1;
const STRICT: c_int = 2;

fn owner() -> Owner {
    // SAFETY: they always succeed.
    unsafe { Owner { uid: libc::geteuid(), gid: libc::getegid() } }
}

fn number(error: Error) -> c_int {
    -error.raw_os_error()
}

fn of_io(error: &std::io::Error) -> c_int {
    -error.raw_os_error().unwrap_or(match error.kind() {
        std::io::ErrorKind::ResourceBusy => libc::EBUSY,
        std::io::ErrorKind::InvalidData => libc::EINVAL,
        _ => libc::EIO,
    })
}

fn of_mount(error: &MountError) -> c_int {
    match error {
        MountError::Store(_) | MountError::NoFileSystem => -libc::EINVAL,
        MountError::Damaged(_) => -libc::EUCLEAN,
    }
}

fn done(result: Result<(), Error>) -> c_int {
    result.map_or_else(number, |()| 0)
}

/// A pointer to what was made, or null with the error's number in `errno`.
fn made<T>(result: Result<T, c_int>) -> *mut T {
    match result {
        Ok(made) => Box::into_raw(Box::new(made)),
        Err(error) => {
            // SAFETY: it is this thread's.
            unsafe { *libc::__errno_location() = -error };
            std::ptr::null_mut()
        }
    }
}

/// # Safety
///
/// A string of C's.
unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// # Safety
///
/// So many bytes, which nobody else uses.
unsafe fn target<'a>(start: *mut c_void, length: size_t) -> &'a mut [u8] {
    // SAFETY: the caller's; an empty slice must not be at 0.
    if length == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(start.cast(), length) } }
}

/// # Safety
///
/// So many bytes.
unsafe fn source<'a>(start: *const c_void, length: size_t) -> &'a [u8] {
    // SAFETY: as for `target`.
    if length == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start.cast(), length) } }
}

/// # Safety
///
/// A string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_files_format(path: *const c_char, size: u64) -> c_int {
    // SAFETY: the caller's.
    let path = Path::new(OsStr::from_bytes(unsafe { bytes(path) }));
    match Mapped::create(path, size, Survives::PowerFailure) {
        Ok(memory) => match FileSystem::format(memory, owner(), coarse_now) {
            Ok(_) => 0,
            Err(error) => of_mount(&error),
        },
        Err(error) => of_io(&error),
    }
}

/// # Safety
///
/// A string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_files_open(path: *const c_char, flags: c_int) -> *mut PwFiles {
    // SAFETY: the caller's.
    let path = Path::new(OsStr::from_bytes(unsafe { bytes(path) }));
    let survives = if flags & POWER_FAILURE != 0 { Survives::PowerFailure } else { Survives::ProcessCrash };
    let open = || {
        let memory = Mapped::open(path, survives).map_err(|error| of_io(&error))?;
        let (mut system, _) = FileSystem::mount(memory, coarse_now).map_err(|error| of_mount(&error))?;
        if flags & STRICT != 0 {
            system.set_overwrites(Overwrites::Whole);
        }
        Ok(PwFiles(Files::new(system)))
    };
    made(open())
}

/// # Safety
///
/// From [`pw_files_open`], once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_files_close(files: *mut PwFiles) {
    if !files.is_null() {
        // SAFETY: the caller's.
        drop(unsafe { Box::from_raw(files) });
    }
}

/// # Safety
///
/// An open store and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open(
    files: *const PwFiles,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> *mut PwFile {
    // SAFETY: the caller's.
    let (files, path) = unsafe { (&(*files).0, bytes(path)) };
    let has = |flag| flags & flag != 0;
    let access = flags & libc::O_ACCMODE;
    let writes = access != libc::O_RDONLY;
    let options = OpenOptions {
        read: access != libc::O_WRONLY,
        write: writes,
        append: writes && has(libc::O_APPEND),
        truncate: has(libc::O_TRUNC),
        create: has(libc::O_CREAT),
        create_new: has(libc::O_CREAT) && has(libc::O_EXCL),
        mode,
        owner: owner(),
    };
    made(files.open(path, &options).map(PwFile).map_err(number))
}

/// # Safety
///
/// From [`pw_open`], once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_close(file: *mut PwFile) {
    if !file.is_null() {
        // SAFETY: the caller's.
        drop(unsafe { Box::from_raw(file) });
    }
}

fn counted(result: Result<usize, c_int>) -> ssize_t {
    result.map_or_else(|error| error as ssize_t, |count| count as ssize_t)
}

/// # Safety
///
/// An open file and so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_read(file: *const PwFile, start: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's.
    let (mut file, into) = unsafe { (&(*file).0, target(start, length)) };
    counted(file.read(into).map_err(|error| of_io(&error)))
}

/// # Safety
///
/// An open file and so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_write(file: *const PwFile, start: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's.
    let (mut file, data) = unsafe { (&(*file).0, source(start, length)) };
    counted(file.write(data).map_err(|error| of_io(&error)))
}

/// # Safety
///
/// An open file and so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_pread(
    file: *const PwFile,
    start: *mut c_void,
    length: size_t,
    offset: off_t,
) -> ssize_t {
    let Ok(offset) = u64::try_from(offset) else { return -libc::EINVAL as ssize_t };
    // SAFETY: the caller's.
    let (file, into) = unsafe { (&(*file).0, target(start, length)) };
    counted(file.read_at(into, offset).map_err(number))
}

/// # Safety
///
/// An open file and so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_pwrite(
    file: *const PwFile,
    start: *const c_void,
    length: size_t,
    offset: off_t,
) -> ssize_t {
    let Ok(offset) = u64::try_from(offset) else { return -libc::EINVAL as ssize_t };
    // SAFETY: the caller's.
    let (file, data) = unsafe { (&(*file).0, source(start, length)) };
    counted(file.write_at(data, offset).map_err(number))
}

/// # Safety
///
/// An open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_lseek(file: *const PwFile, offset: off_t, whence: c_int) -> off_t {
    let to = match (whence, u64::try_from(offset)) {
        (libc::SEEK_SET, Ok(offset)) => SeekFrom::Start(offset),
        (libc::SEEK_CUR, _) => SeekFrom::Current(offset),
        (libc::SEEK_END, _) => SeekFrom::End(offset),
        _ => return -libc::EINVAL as off_t,
    };
    // SAFETY: the caller's.
    let mut file = unsafe { &(*file).0 };
    file.seek(to).map_or_else(|error| of_io(&error) as off_t, |at| at as off_t)
}

/// # Safety
///
/// An open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_ftruncate(file: *const PwFile, size: off_t) -> c_int {
    let Ok(size) = u64::try_from(size) else { return -libc::EINVAL };
    // SAFETY: the caller's.
    done(unsafe { &(*file).0 }.set_len(size))
}

/// Where a range begins and ends.
fn range(offset: off_t, length: off_t) -> Result<std::ops::Range<u64>, c_int> {
    let (start, length) = (u64::try_from(offset), u64::try_from(length));
    let (Ok(start), Ok(length)) = (start, length) else { return Err(-libc::EINVAL) };
    Ok(start..start + length)
}

/// # Safety
///
/// An open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_collapse(file: *const PwFile, offset: off_t, length: off_t) -> c_int {
    // SAFETY: the caller's.
    let file = unsafe { &(*file).0 };
    range(offset, length).map_or_else(|error| error, |range| done(file.collapse(range)))
}

/// # Safety
///
/// An open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_insert(file: *const PwFile, offset: off_t, length: off_t) -> c_int {
    // SAFETY: the caller's.
    let file = unsafe { &(*file).0 };
    range(offset, length).map_or_else(|error| error, |range| done(file.insert(range)))
}

/// # Safety
///
/// An open file, and room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_fstat(file: *const PwFile, attributes: *mut PwAttributes) -> c_int {
    // SAFETY: the caller's.
    let (file, into) = unsafe { (&(*file).0, &mut *attributes) };
    done(file.attributes().map(|found| *into = found.into()))
}

/// # Safety
///
/// An open store, a string, and room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_stat(
    files: *const PwFiles,
    path: *const c_char,
    attributes: *mut PwAttributes,
) -> c_int {
    // SAFETY: the caller's.
    let (files, path, into) = unsafe { (&(*files).0, bytes(path), &mut *attributes) };
    done(files.attributes(path).map(|found| *into = found.into()))
}

/// # Safety
///
/// An open store, a string, and room for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_lstat(
    files: *const PwFiles,
    path: *const c_char,
    attributes: *mut PwAttributes,
) -> c_int {
    // SAFETY: the caller's.
    let (files, path, into) = unsafe { (&(*files).0, bytes(path), &mut *attributes) };
    done(files.link_attributes(path).map(|found| *into = found.into()))
}

/// # Safety
///
/// An open store and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_mkdir(files: *const PwFiles, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller's.
    let (files, path) = unsafe { (&(*files).0, bytes(path)) };
    done(files.create_directory(path, mode, owner()))
}

/// # Safety
///
/// An open store and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_rmdir(files: *const PwFiles, path: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let (files, path) = unsafe { (&(*files).0, bytes(path)) };
    done(files.remove_directory(path))
}

/// # Safety
///
/// An open store and a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_unlink(files: *const PwFiles, path: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let (files, path) = unsafe { (&(*files).0, bytes(path)) };
    done(files.remove_file(path))
}

/// # Safety
///
/// An open store and two strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_rename(files: *const PwFiles, from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let (files, from, to) = unsafe { (&(*files).0, bytes(from), bytes(to)) };
    done(files.rename(from, to, Replace::Yes))
}

/// # Safety
///
/// An open store and two strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_link(files: *const PwFiles, file: *const c_char, name: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let (files, file, name) = unsafe { (&(*files).0, bytes(file), bytes(name)) };
    done(files.link(file, name))
}

/// # Safety
///
/// An open store and two strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_symlink(files: *const PwFiles, to: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let (files, to, path) = unsafe { (&(*files).0, bytes(to), bytes(path)) };
    done(files.create_link_to(to, path, owner()))
}

/// # Safety
///
/// An open store, a string, and so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_readlink(
    files: *const PwFiles,
    path: *const c_char,
    start: *mut c_char,
    length: size_t,
) -> ssize_t {
    // SAFETY: the caller's.
    let (files, path, into) = unsafe { (&(*files).0, bytes(path), target(start.cast(), length)) };
    counted(files.read_link(path).map_err(number).map(|found| {
        let length = found.len().min(into.len());
        into[..length].copy_from_slice(&found[..length]);
        length
    }))
}

/// Who is told of names: the data, a name, its inode and kind; 0 to go on.
pub type Each = unsafe extern "C" fn(*mut c_void, *const c_char, u64, u32) -> c_int;

/// # Safety
///
/// An open store, a string, and a function that takes the data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_list(
    files: *const PwFiles,
    path: *const c_char,
    each: Each,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the caller's.
    let (files, path) = unsafe { (&(*files).0, bytes(path)) };
    let entries = match files.list(path) {
        Ok(entries) => entries,
        Err(error) => return number(error),
    };
    for entry in entries {
        // Names have no zeroes.
        let Ok(name) = CString::new(entry.name) else { return -libc::EIO };
        // SAFETY: the caller's function, with its own data.
        if unsafe { each(data, name.as_ptr(), entry.ino.0, u32::from(entry.kind) << 12) } != 0 {
            break;
        }
    }
    0
}
