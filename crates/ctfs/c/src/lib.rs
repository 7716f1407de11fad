//! The library's functions for C, as `include/pagewalk_ctfs.h` describes them.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_char, c_int, c_void, mode_t, off_t, size_t, ssize_t};
use pagewalk_ctfs::{
    Attributes, Error, FileSystem, Files, Mapped, MountError, OpenOptions, Overwrites, Owner, Replace,
    Survives, coarse_now, missing,
};
use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::{LEAST_FRAMES, MOST_FRAMES, OpenError};

/// Whether a call has panicked in the middle of a store: what it left nothing here can say.
type IsBroken = Arc<AtomicBool>;

/// A store that is open.
pub struct PwFiles {
    files: Files<Mapped>,
    is_broken: IsBroken,
}

/// A file in one.
pub struct PwFile {
    file: pagewalk_ctfs::File<Mapped>,
    /// Each write waits for the disk.
    is_synchronous: bool,
    is_broken: IsBroken,
}

/// What a function answers: a number of bytes or so, or an error's number below zero.
type Answer = Result<i64, c_int>;

fn refused(number: c_int) -> c_int {
    -number
}

/// Does what a function is for. A panic is a defect of the library and ends here, not in the program that called: this call, and all others
/// of the same store, answer `ENOTRECOVERABLE`.
fn guarded<T>(is_broken: &AtomicBool, act: impl FnOnce() -> Result<T, c_int>) -> Result<T, c_int> {
    if is_broken.load(Ordering::Acquire) {
        return Err(refused(libc::ENOTRECOVERABLE));
    }
    std::panic::catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        is_broken.store(true, Ordering::Release);
        Err(refused(libc::ENOTRECOVERABLE))
    })
}

/// # Safety
///
/// An open store, or null.
unsafe fn in_store(files: *const PwFiles, act: impl FnOnce(&Files<Mapped>) -> Answer) -> i64 {
    // SAFETY: the caller's.
    let done = unsafe { files.as_ref() }
        .ok_or(refused(libc::EFAULT))
        .and_then(|store| guarded(&store.is_broken, || act(&store.files)));
    done.unwrap_or_else(i64::from)
}

/// # Safety
///
/// An open file, or null.
unsafe fn in_file(file: *const PwFile, act: impl FnOnce(&pagewalk_ctfs::File<Mapped>) -> Answer) -> i64 {
    // SAFETY: the caller's.
    let done = unsafe { file.as_ref() }
        .ok_or(refused(libc::EFAULT))
        .and_then(|opened| guarded(&opened.is_broken, || act(&opened.file)));
    done.unwrap_or_else(i64::from)
}

/// The same for what writes: behind a write to a file that was opened so, the disk is waited for.
///
/// # Safety
///
/// An open file, or null.
unsafe fn write_in_file(
    file: *const PwFile,
    write: impl FnOnce(&pagewalk_ctfs::File<Mapped>) -> Result<usize, c_int>,
) -> ssize_t {
    // SAFETY: the caller's.
    let waits = unsafe { file.as_ref() }.is_some_and(|opened| opened.is_synchronous);
    let and_wait = |file: &pagewalk_ctfs::File<Mapped>| {
        let written = write(file)?;
        if waits && written > 0 {
            file.sync().map_err(number)?;
        }
        counted(Ok(written))
    };
    // SAFETY: the caller's.
    unsafe { in_file(file, and_wait) as ssize_t }
}

/// A time: seconds since 1970, rounded down, and nanoseconds behind them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PwTime {
    seconds: i64,
    nanoseconds: i64,
}

impl From<i128> for PwTime {
    fn from(nanoseconds: i128) -> Self {
        const SECOND: i128 = 1_000_000_000;
        Self {
            // A store has no others.
            seconds: nanoseconds.div_euclid(SECOND) as i64,
            nanoseconds: nanoseconds.rem_euclid(SECOND) as i64,
        }
    }
}

/// The attributes of a file.
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
    accessed: PwTime,
    modified: PwTime,
    changed: PwTime,
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
            accessed: of.accessed.into(),
            modified: of.modified.into(),
            changed: of.changed.into(),
        }
    }
}

const POWER_FAILURE: c_int = 1;
const STRICT: c_int = 2;
const READ_ONLY: c_int = 4;
const NO_SYNC: c_int = 8;

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
        std::io::ErrorKind::AlreadyExists => libc::EEXIST,
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => libc::EINVAL,
        _ => libc::EIO,
    })
}

fn of_mount(error: &MountError) -> c_int {
    match error {
        MountError::Store(OpenError::NotPersistent(_)) => -libc::EIO,
        MountError::Store(OpenError::NoRoom { .. }) => -libc::ENOSPC,
        MountError::Damaged(_) => -libc::EUCLEAN,
        // It is no store that this program reads.
        _ => -libc::EINVAL,
    }
}

fn done(result: Result<(), Error>) -> Answer {
    result.map(|()| 0).map_err(number)
}

fn counted(result: Result<usize, c_int>) -> Answer {
    result.map(|count| count as i64)
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
/// A string of C's, or null.
unsafe fn bytes<'a>(text: *const c_char) -> Result<&'a [u8], c_int> {
    if text.is_null() {
        return Err(refused(libc::EFAULT));
    }
    // SAFETY: the caller's.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// # Safety
///
/// As for [`bytes`].
unsafe fn path<'a>(text: *const c_char) -> Result<&'a Path, c_int> {
    // SAFETY: the caller's.
    Ok(Path::new(OsStr::from_bytes(unsafe { bytes(text) }?)))
}

/// More no object has.
const MOST_BYTES: usize = isize::MAX as usize;

/// # Safety
///
/// So many bytes that no other thread uses, or null.
unsafe fn target<'a>(start: *mut c_void, length: size_t) -> Result<&'a mut [u8], c_int> {
    match length {
        // There need not be any.
        0 => Ok(&mut []),
        _ if start.is_null() || length > MOST_BYTES => Err(refused(libc::EFAULT)),
        // SAFETY: the caller's.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), length) }),
    }
}

/// # Safety
///
/// So many bytes, or null.
unsafe fn source<'a>(start: *const c_void, length: size_t) -> Result<&'a [u8], c_int> {
    match length {
        0 => Ok(&[]),
        _ if start.is_null() || length > MOST_BYTES => Err(refused(libc::EFAULT)),
        // SAFETY: the caller's.
        _ => Ok(unsafe { std::slice::from_raw_parts(start.cast(), length) }),
    }
}

/// Lets the program alone have handlers of `SIGBUS`.
#[unsafe(no_mangle)]
pub extern "C" fn pw_leave_sigbus() {
    missing::leave_to_program();
}

/// In a handler of `SIGBUS`: whether the thread may go on, as the address is a store's.
#[unsafe(no_mangle)]
pub extern "C" fn pw_recover_sigbus(address: *const c_void) -> c_int {
    c_int::from(missing::recover(address))
}

/// # Safety
///
/// A string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_files_format(at: *const c_char, size: u64) -> c_int {
    let format = || {
        // SAFETY: the caller's.
        let path = unsafe { path(at) }?;
        if !(LEAST_FRAMES..=MOST_FRAMES).contains(&(size / PAGE_BYTES)) {
            return Err(refused(libc::EINVAL));
        }
        let memory = Mapped::create(path, size, Survives::PowerFailure).map_err(|error| of_io(&error))?;
        FileSystem::format(memory, owner(), coarse_now).map(|_| 0).map_err(|error| of_mount(&error))
    };
    guarded(&AtomicBool::new(false), format).unwrap_or_else(|error| error)
}

/// # Safety
///
/// A string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_files_open(at: *const c_char, flags: c_int) -> *mut PwFiles {
    let open = || {
        // SAFETY: the caller's.
        let path = unsafe { path(at) }?;
        let usual = || Survives::usual(path).map_err(|error| of_io(&error));
        let survives = match flags & !STRICT {
            0 => Some(usual()?),
            POWER_FAILURE => Some(Survives::PowerFailure),
            NO_SYNC => Some(Survives::ProcessCrash),
            READ_ONLY if flags == READ_ONLY => None,
            _ => return Err(refused(libc::EINVAL)),
        };
        let memory = match survives {
            Some(survives) => Mapped::open(path, survives),
            None => Mapped::open_read_only(path),
        };
        let memory = memory.map_err(|error| of_io(&error))?;
        let (mut system, _) = FileSystem::mount(memory, coarse_now).map_err(|error| of_mount(&error))?;
        if flags & STRICT != 0 {
            system.set_overwrites(Overwrites::Whole);
        }
        Ok(PwFiles { files: Files::new(system), is_broken: IsBroken::default() })
    };
    made(guarded(&AtomicBool::new(false), open))
}

/// # Safety
///
/// From [`pw_files_open`], once, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_files_close(files: *mut PwFiles) {
    if !files.is_null() {
        // SAFETY: the caller's.
        let store = unsafe { Box::from_raw(files) };
        // A panic has no caller to tell.
        let _ = guarded(&AtomicBool::new(false), || {
            drop(store);
            Ok(0)
        });
    }
}

/// What the flags of `open` ask for.
fn options(flags: c_int, mode: mode_t) -> Result<OpenOptions, c_int> {
    /// Those that say nothing to a regular file of a store: it is not inherited, controls no terminal, never blocks, is of any size, keeps
    /// no access times.
    const MEANINGLESS: c_int =
        libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK | libc::O_LARGEFILE | libc::O_NOATIME;
    const KNOWN: c_int = libc::O_ACCMODE
        | libc::O_APPEND
        | libc::O_TRUNC
        | libc::O_CREAT
        | libc::O_EXCL
        | libc::O_NOFOLLOW
        | libc::O_SYNC
        | libc::O_DSYNC
        | MEANINGLESS;
    let has = |flag| flags & flag != 0;
    let (reads, writes) = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => (true, false),
        libc::O_WRONLY => (false, true),
        libc::O_RDWR => (true, true),
        _ => return Err(refused(libc::EINVAL)),
    };
    if has(!KNOWN) || has(libc::O_TRUNC) && !writes || has(libc::O_EXCL) && !has(libc::O_CREAT) {
        return Err(refused(libc::EINVAL));
    }
    let mut options = OpenOptions::new();
    options.read(reads).write(writes).append(writes && has(libc::O_APPEND)).truncate(has(libc::O_TRUNC));
    options.create(has(libc::O_CREAT)).create_new(has(libc::O_EXCL)).no_follow(has(libc::O_NOFOLLOW));
    options.mode(mode).owner(owner());
    Ok(options)
}

/// # Safety
///
/// An open store and a string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_open(
    files: *const PwFiles,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> *mut PwFile {
    // SAFETY: the caller's.
    let store = unsafe { files.as_ref() }.ok_or(refused(libc::EFAULT));
    made(store.and_then(|store| {
        guarded(&store.is_broken, || {
            // SAFETY: the caller's.
            let path = unsafe { bytes(path) }?;
            let file = store.files.open(path, &options(flags, mode)?).map_err(number)?;
            // O_SYNC has its bit, too.
            let is_synchronous = flags & libc::O_DSYNC != 0;
            Ok(PwFile { file, is_synchronous, is_broken: store.is_broken.clone() })
        })
    }))
}

/// # Safety
///
/// From [`pw_open`], once, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_close(file: *mut PwFile) {
    if !file.is_null() {
        // SAFETY: the caller's.
        let PwFile { file, is_broken, .. } = *unsafe { Box::from_raw(file) };
        // A panic has no caller to tell, but others of the same store.
        let _ = guarded(&is_broken, || {
            drop(file);
            Ok(0)
        });
    }
}

/// # Safety
///
/// An open file and so many bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_read(file: *const PwFile, start: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's.
    unsafe {
        in_file(file, |mut file| counted(file.read(target(start, length)?).map_err(|error| of_io(&error))))
            as ssize_t
    }
}

/// # Safety
///
/// An open file and so many bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_write(file: *const PwFile, start: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's.
    unsafe {
        write_in_file(file, |mut file| file.write(source(start, length)?).map_err(|error| of_io(&error)))
    }
}

fn place(offset: off_t) -> Result<u64, c_int> {
    u64::try_from(offset).map_err(|_| refused(libc::EINVAL))
}

/// # Safety
///
/// An open file and so many bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_pread(
    file: *const PwFile,
    start: *mut c_void,
    length: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's.
    unsafe {
        in_file(file, |file| counted(file.read_at(target(start, length)?, place(offset)?).map_err(number)))
            as ssize_t
    }
}

/// # Safety
///
/// An open file and so many bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_pwrite(
    file: *const PwFile,
    start: *const c_void,
    length: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's.
    unsafe {
        write_in_file(file, |file| file.write_at(source(start, length)?, place(offset)?).map_err(number))
    }
}

/// # Safety
///
/// An open file, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_lseek(file: *const PwFile, offset: off_t, whence: c_int) -> off_t {
    let seek = |mut file: &pagewalk_ctfs::File<Mapped>| {
        let to = match whence {
            libc::SEEK_SET => SeekFrom::Start(place(offset)?),
            libc::SEEK_CUR => SeekFrom::Current(offset),
            libc::SEEK_END => SeekFrom::End(offset),
            _ => return Err(refused(libc::EINVAL)),
        };
        file.seek(to).map(|at| at as i64).map_err(|error| of_io(&error))
    };
    // SAFETY: the caller's.
    unsafe { in_file(file, seek) as off_t }
}

/// # Safety
///
/// An open file, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_ftruncate(file: *const PwFile, size: off_t) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_file(file, |file| done(file.set_len(place(size)?))) as c_int }
}

/// # Safety
///
/// An open file, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_fsync(file: *const PwFile) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_file(file, |file| done(file.sync())) as c_int }
}

/// # Safety
///
/// An open store, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_sync(files: *const PwFiles) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| done(files.sync())) as c_int }
}

/// Where a range begins and ends.
fn range(offset: off_t, length: off_t) -> Result<std::ops::Range<u64>, c_int> {
    let (start, length) = (place(offset)?, place(length)?);
    Ok(start..start + length)
}

/// # Safety
///
/// An open file, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_collapse(file: *const PwFile, offset: off_t, length: off_t) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_file(file, |file| done(file.collapse(range(offset, length)?))) as c_int }
}

/// # Safety
///
/// An open file, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_insert(file: *const PwFile, offset: off_t, length: off_t) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_file(file, |file| done(file.insert(range(offset, length)?))) as c_int }
}

/// # Safety
///
/// Room for the answer, or null.
unsafe fn known(found: Result<Attributes, Error>, into: *mut PwAttributes) -> Answer {
    if into.is_null() {
        return Err(refused(libc::EFAULT));
    }
    // SAFETY: the caller's.
    found.map(|found| unsafe { into.write(found.into()) }).map(|()| 0).map_err(number)
}

/// # Safety
///
/// An open file, and room for the answer, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_fstat(file: *const PwFile, attributes: *mut PwAttributes) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_file(file, |file| known(file.attributes(), attributes)) as c_int }
}

/// # Safety
///
/// An open store, a string, and room for the answer, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_stat(
    files: *const PwFiles,
    path: *const c_char,
    attributes: *mut PwAttributes,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| known(files.attributes(bytes(path)?), attributes)) as c_int }
}

/// # Safety
///
/// An open store, a string, and room for the answer, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_lstat(
    files: *const PwFiles,
    path: *const c_char,
    attributes: *mut PwAttributes,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| known(files.link_attributes(bytes(path)?), attributes)) as c_int }
}

/// # Safety
///
/// An open store and a string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_mkdir(files: *const PwFiles, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| done(files.create_directory(bytes(path)?, mode, owner()))) as c_int }
}

/// # Safety
///
/// An open store and a string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_rmdir(files: *const PwFiles, path: *const c_char) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| done(files.remove_directory(bytes(path)?))) as c_int }
}

/// # Safety
///
/// An open store and a string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_unlink(files: *const PwFiles, path: *const c_char) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| done(files.remove_file(bytes(path)?))) as c_int }
}

/// # Safety
///
/// An open store and two strings, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_rename(files: *const PwFiles, from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| done(files.rename(bytes(from)?, bytes(to)?, Replace::Yes))) as c_int }
}

/// # Safety
///
/// An open store and two strings, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_link(files: *const PwFiles, file: *const c_char, name: *const c_char) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| done(files.link(bytes(file)?, bytes(name)?))) as c_int }
}

/// # Safety
///
/// An open store and two strings, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_symlink(files: *const PwFiles, to: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: the caller's.
    unsafe { in_store(files, |files| done(files.create_link_to(bytes(to)?, bytes(path)?, owner()))) as c_int }
}

/// # Safety
///
/// An open store, a string, and so many bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_readlink(
    files: *const PwFiles,
    path: *const c_char,
    start: *mut c_char,
    length: size_t,
) -> ssize_t {
    let read = |files: &Files<Mapped>| {
        // SAFETY: the caller's.
        let (path, into) = unsafe { (bytes(path)?, target(start.cast(), length)?) };
        let found = files.read_link(path).map_err(number)?;
        let length = found.len().min(into.len());
        into[..length].copy_from_slice(&found[..length]);
        counted(Ok(length))
    };
    // SAFETY: the caller's.
    unsafe { in_store(files, read) as ssize_t }
}

/// The callback for the names of a directory: it gets the data, a name, its inode and its kind, and answers 0 to go on.
pub type Each = unsafe extern "C" fn(*mut c_void, *const c_char, u64, u32) -> c_int;

/// # Safety
///
/// An open store, a string, and a function that takes the data, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pw_list(
    files: *const PwFiles,
    path: *const c_char,
    each: Option<Each>,
    data: *mut c_void,
) -> c_int {
    let list = |files: &Files<Mapped>| {
        let each = each.ok_or(refused(libc::EFAULT))?;
        // SAFETY: the caller's.
        for entry in files.list(unsafe { bytes(path) }?).map_err(number)? {
            // Names have no zeroes.
            let name = CString::new(entry.name).map_err(|_| refused(libc::EIO))?;
            // SAFETY: the caller's function, with its own data. No lock is held.
            if unsafe { each(data, name.as_ptr(), entry.ino.0, u32::from(entry.kind) << 12) } != 0 {
                break;
            }
        }
        Ok(0)
    };
    // SAFETY: the caller's.
    unsafe { in_store(files, list) as c_int }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C program ended by SIGBUS.
    #[test]
    fn a_store_that_is_cut_answers_eio() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let store = CString::new(path.as_os_str().as_bytes()).expect("no zeroes");
        // SAFETY: strings, and pointers from these functions.
        unsafe {
            assert_eq!(pw_files_format(store.as_ptr(), 4 << 20), 0);
            let files = pw_files_open(store.as_ptr(), 0);
            let file = pw_open(files, c"/f".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
            assert_eq!(pw_pwrite(file, [7; 100].as_ptr().cast(), 100, 0), 100);
            std::fs::File::options().write(true).open(&path).expect("there").set_len(1 << 20).expect("cut");
            let (mut bytes, mut known) = ([0; 100], PwAttributes::default());
            let error = -libc::EIO;
            assert_eq!(pw_pread(file, bytes.as_mut_ptr().cast(), 100, 0), error as ssize_t);
            assert_eq!(pw_pwrite(file, bytes.as_ptr().cast(), 100, 0), error as ssize_t);
            assert_eq!((pw_fstat(file, &raw mut known), pw_ftruncate(file, 0)), (error, error));
            assert_eq!(pw_stat(files, c"/f".as_ptr(), &raw mut known), error);
            assert_eq!(
                (pw_mkdir(files, c"/d".as_ptr(), 0o700), pw_unlink(files, c"/f".as_ptr())),
                (error, error)
            );
            assert!(pw_open(files, c"/f".as_ptr(), 0, 0).is_null());
            assert_eq!(*libc::__errno_location(), libc::EIO);
            pw_close(file);
            pw_files_close(files);
            assert!(pw_files_open(store.as_ptr(), 0).is_null());
            assert_eq!(*libc::__errno_location(), libc::EINVAL);
        }
    }

    /// A panic in the library ended the C program that had called.
    #[test]
    fn a_panic_ends_in_an_error_of_this_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = CString::new(folder.path().join("store").as_os_str().as_bytes()).expect("no zeroes");
        // SAFETY: strings, and pointers from these functions.
        unsafe {
            assert_eq!(pw_files_format(store.as_ptr(), 4 << 20), 0);
            let files = pw_files_open(store.as_ptr(), 0);
            let file = pw_open(files, c"/f".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
            assert!(!file.is_null());
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(|_| {}));
            let panicked = in_store(files, |_| panic!("a defect"));
            std::panic::set_hook(hook);
            assert_eq!(panicked, -i64::from(libc::ENOTRECOVERABLE));
            assert_eq!(pw_write(file, c"x".as_ptr().cast(), 1), -libc::ENOTRECOVERABLE as ssize_t);
            assert!(pw_open(files, c"/f".as_ptr(), 0, 0).is_null());
            pw_close(file);
            pw_files_close(files);
            let files = pw_files_open(store.as_ptr(), 0);
            assert!(!files.is_null(), "it can be opened again");
            pw_files_close(files);
        }
    }
}
