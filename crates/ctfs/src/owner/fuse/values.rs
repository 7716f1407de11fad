//! The file system's values as FUSE has them, and back.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, Request, TimeOrNow};
use pagewalk_vm::addr::PAGE_BYTES;

use crate::core::error::Error;
use crate::core::inode::{Ino, NANOSECONDS, kind};
use crate::core::types::{Attributes, Owner};
use crate::owner::kernel::{Requester, Time};

pub(crate) fn errno(error: Error) -> Errno {
    Errno::from(io::Error::from(error))
}

pub(crate) fn ino(ino: INodeNo) -> Ino {
    Ino(u64::from(ino))
}

fn time(nanoseconds: i128) -> SystemTime {
    let distance = nanoseconds.unsigned_abs();
    let second = NANOSECONDS.unsigned_abs();
    let distance = Duration::new((distance / second) as u64, (distance % second) as u32);
    let time =
        if nanoseconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    // A check of the store has found none that the system cannot say.
    time.unwrap_or(UNIX_EPOCH)
}

/// The nanoseconds of a time in a request. The kernel sends seconds, rounded down, and nanoseconds behind them. Of seconds before 1970 fuser
/// (0.18) takes the nanoseconds away where it should add them: the distance that it makes of both has them as they were sent.
pub(crate) fn nanoseconds_sent(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(distance) => distance.as_nanos() as i128,
        Err(error) => {
            let (seconds, nanoseconds) = (error.duration().as_secs(), error.duration().subsec_nanos());
            i128::from(nanoseconds) - i128::from(seconds) * NANOSECONDS
        }
    }
}

pub(crate) fn file_type(mode: u32) -> FileType {
    match mode & kind::MASK {
        kind::DIRECTORY => FileType::Directory,
        kind::SYMLINK => FileType::Symlink,
        0o140_000 => FileType::Socket,
        0o060_000 => FileType::BlockDevice,
        0o020_000 => FileType::CharDevice,
        0o010_000 => FileType::NamedPipe,
        _ => FileType::RegularFile,
    }
}

pub(crate) fn attr(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.ino.0),
        size: attributes.size,
        blocks: attributes.blocks,
        atime: time(attributes.accessed),
        mtime: time(attributes.modified),
        ctime: time(attributes.changed),
        crtime: UNIX_EPOCH,
        kind: file_type(attributes.mode),
        perm: (attributes.mode & 0o7777) as u16,
        nlink: attributes.links as u32,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: attributes.device as u32,
        blksize: PAGE_BYTES as u32,
        flags: 0,
    }
}

pub(crate) fn time_sent(time: TimeOrNow) -> Time {
    match time {
        TimeOrNow::SpecificTime(time) => Time::To(nanoseconds_sent(time)),
        TimeOrNow::Now => Time::Now,
    }
}

pub(crate) fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

pub(crate) fn requester(request: &Request) -> Requester {
    Requester { owner: owner(request), process: request.pid() }
}
