//! The list of mounts: the folder of the mount whose owner this process asks, and whether all paths within lead there.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::c_int;

use crate::{connection, kernel, own};

const NONE: RawFd = -1;
/// Kinds of mounts, as the list has them, that ours may be.
const KINDS: [&[u8]; 2] = [b"fuse.pagewalk", b"fuse"];

/// Where the file system is mounted, as paths begin, and what `statx` says of all of its files.
pub(crate) struct Place {
    pub(crate) prefix: Vec<u8>,
    pub(crate) device: u64,
    pub(crate) template: libc::statx,
}

static PLACE: OnceLock<Place> = OnceLock::new();
/// Others may have mounted something since that was looked at.
static MAY_BE_COVERED: AtomicBool = AtomicBool::new(true);
/// The list of mounts, which tells when it changes.
static LIST: AtomicI32 = AtomicI32::new(NONE);

/// Where the mount is, if it was found.
#[inline]
pub(crate) fn place() -> Option<&'static Place> {
    PLACE.get()
}

/// Looks for the mount that has a path, or a folder's device, and connects to its owner; whether there is one.
pub(crate) fn find(path: &[u8], device: Option<u64>) -> bool {
    // Users of another name space have other numbers.
    let map = read_all(c"/proc/self/uid_map");
    let is_whole = map.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).eq([
        &b"0"[..],
        b"0",
        b"4294967295",
    ]);
    if !is_whole || !own::has_room() || !open_list() {
        return false;
    }
    if let Some(place) = PLACE.get() {
        // In a child.
        return connect(&place.prefix).is_some();
    }
    let mounts = mounts();
    let connected = connection::device();
    let has = |mount: &&Mount| {
        if let Some(device) = connected {
            return mount.may_be_ours && mount.device == device;
        }
        let rest = path.strip_prefix(&mount.prefix[..]);
        mount.may_be_ours && (device == Some(mount.device) || rest.is_some_and(|rest| rest.starts_with(b"/")))
    };
    let Some(mount) = mounts.iter().filter(has).max_by_key(|mount| mount.prefix.len()) else { return false };
    let Some((device, mut template)) = connect(&mount.prefix) else { return false };
    /// The mount's root alone has it.
    const MOUNT_ROOT: u64 = 0x2000;
    template.stx_attributes &= !MOUNT_ROOT;
    PLACE.set(Place { prefix: mount.prefix.clone(), device, template }).is_ok()
}

/// Others may mount something from now on.
#[inline]
pub(crate) fn may_be_covered() {
    MAY_BE_COVERED.store(true, Ordering::Relaxed);
}

/// Whether what [`is_uncovered`] found still holds: no other program can have mounted anything since.
#[inline]
pub(crate) fn is_as_seen() -> bool {
    !MAY_BE_COVERED.load(Ordering::Relaxed)
}

/// The descriptor that must stay open, if there is one.
pub(crate) fn kept() -> RawFd {
    LIST.load(Ordering::Relaxed)
}

/// Stores the descriptor's new number.
pub(crate) fn moved(from: RawFd, to: RawFd) {
    let _ = LIST.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
}

/// A child looks by itself.
pub(crate) fn in_child() {
    let number = LIST.swap(NONE, Ordering::Relaxed);
    if number != NONE {
        own::close(number);
    }
    may_be_covered();
}

/// A mount of the list.
struct Mount {
    prefix: Vec<u8>,
    device: u64,
    /// Whether the mount may be a store's; connecting to it tells.
    may_be_ours: bool,
}

fn open_list() -> bool {
    if LIST.load(Ordering::Relaxed) != NONE {
        return true;
    }
    let path = c"/proc/self/mountinfo";
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let opened =
        kernel::checked(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize]);
    let Ok(opened) = opened else { return false };
    LIST.store(own::out_of_the_way(opened as RawFd), Ordering::Relaxed);
    true
}

/// Reads a descriptor to its end.
fn read_from(descriptor: RawFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut part = [0; 4_096];
    while let Ok(read @ 1..) =
        kernel::checked(libc::SYS_read, [descriptor as usize, part.as_mut_ptr() as usize, part.len()])
    {
        bytes.extend_from_slice(&part[..read]);
    }
    bytes
}

fn read_all(path: &std::ffi::CStr) -> Vec<u8> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let opened =
        kernel::checked(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize]);
    let Ok(opened) = opened else { return Vec::new() };
    let bytes = read_from(opened as RawFd);
    own::close(opened as RawFd);
    bytes
}

/// All that is mounted. Lines of the list are `number parent device root path options ... - kind source options`.
fn mounts() -> Vec<Mount> {
    let descriptor = LIST.load(Ordering::Relaxed);
    let _ = kernel::seek(descriptor, 0, libc::SEEK_SET);
    let list = read_from(descriptor);
    let mount = |line: &[u8]| {
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let kind = words.iter().position(|word| *word == b"-").and_then(|at| words.get(at + 1))?;
        let prefix = without_escapes(words.get(4)?);
        let mut numbers = std::str::from_utf8(words[2]).ok()?.split(':').map(str::parse);
        let device = libc::makedev(numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Mount { may_be_ours: KINDS.contains(kind) && words[3] == b"/", device, prefix })
    };
    list.split(|&byte| byte == b'\n').filter_map(mount).collect()
}

/// A path of the list: blanks and the like are three octal digits behind a backslash.
fn without_escapes(path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits =
            behind.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(decoded_byte) => {
                decoded.push(decoded_byte);
                rest = &behind[3..];
            }
            None => {
                decoded.push(byte);
                rest = behind;
            }
        }
    }
    decoded
}

/// Whether the mount is where it was found, and nothing is mounted within: looked at when the list has changed.
pub(crate) fn is_uncovered() -> bool {
    static IS_FREE: AtomicBool = AtomicBool::new(false);
    static WAS_READ: AtomicI32 = AtomicI32::new(NONE);
    let descriptor = LIST.load(Ordering::Relaxed);
    let Some(place) = PLACE.get() else { return false };
    let mut polled = libc::pollfd { fd: descriptor, events: libc::POLLPRI, revents: 0 };
    let has_changed = kernel::checked(libc::SYS_poll, [&raw mut polled as usize, 1, 0]) != Ok(0);
    if has_changed || WAS_READ.swap(descriptor, Ordering::Relaxed) != descriptor {
        let is_within = |mount: &Mount| {
            let rest = mount.prefix.strip_prefix(&place.prefix[..]);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let is_free =
            mounts().iter().filter(|mount| is_within(mount)).map(|mount| mount.may_be_ours).eq([true])
                && connect_again(place);
        IS_FREE.store(is_free, Ordering::Relaxed);
    }
    MAY_BE_COVERED.store(false, Ordering::Relaxed);
    IS_FREE.load(Ordering::Relaxed)
}

/// Connects to the owner of what is mounted at a path: its device, and what `statx` says of its root.
fn connect(prefix: &[u8]) -> Option<(u64, libc::statx)> {
    let path = [prefix, b"/.\0"].concat();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let folder =
        kernel::checked(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize])
            .ok()? as RawFd;
    let status = status_of(folder, libc::STATX_BASIC_STATS);
    let connected =
        status.filter(|status| status.stx_ino == 1 && connection::connect(folder, device_of(status)));
    own::close(folder);
    let status = connected?;
    Some((device_of(&status), status))
}

/// Whether the path still leads to the mount.
fn connect_again(place: &Place) -> bool {
    connect(&place.prefix).is_some_and(|(device, _)| device == place.device)
}

/// What the kernel knows of a descriptor, without asking the owner.
pub(crate) fn status_of(descriptor: c_int, mask: u32) -> Option<libc::statx> {
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT;
    let arguments = [
        descriptor as usize,
        c"".as_ptr() as usize,
        flags as usize,
        mask as usize,
        status.as_mut_ptr() as usize,
    ];
    kernel::checked(libc::SYS_statx, arguments).ok()?;
    // SAFETY: the kernel has filled it.
    Some(unsafe { status.assume_init() })
}

pub(crate) fn device_of(status: &libc::statx) -> u64 {
    libc::makedev(status.stx_dev_major, status.stx_dev_minor)
}
