//! The mount: every program's door to the file system, through the kernel.
//!
//! The kernel checks permissions and keeps locks. An inode stays as long as the kernel knows it: every answer that names one
//! counts, and `forget` takes the counts back.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use pagewalk_vm::addr::PAGE_BYTES;
use rustix::io::Errno as Number;

use crate::acl;
use crate::convert::{attr, errno, file_type, ino, nanoseconds_sent, owner};
use crate::directory::MOST_NAME_BYTES;
use crate::doors::{self, protocol, protocol::WORDS};
use crate::error::Result;
use crate::extended::{self, CAPABILITIES, SetExtended};
use crate::file::Seek;
use crate::inode::{Ino, kind};
use crate::known::PAGES;
use crate::mapped::Mapped;
use crate::mounted::{Forgetting, KEPT, Mounted};
use crate::names::With;
use crate::service;
use crate::system::{FileSystem, Replace, SetAttributes};
use crate::volume::Place;

/// Bytes of a request.
pub(crate) const MOST_BYTES: u32 = 1 << 20;

/// Modes of `fallocate`, as Linux has them.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// Whether who changes a file's bytes may leave it the rights that it gives. The kernel looks at a capability, and does not say.
fn may_keep_privileges(request: &Request) -> bool {
    request.uid() == 0
}

fn answer_extended(value: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Err(error) => reply.error(errno(error)),
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

impl Filesystem for Mounted {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel has otherwise is right, too.
        let _ = config.set_max_write(MOST_BYTES);
        // Otherwise it asks for a file's capabilities before every write.
        let _ = config.add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        // It finds out by itself whether a program that lists names looks at the files, too.
        let _ = config.add_capabilities(InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO);
        // The kernel enforces access control lists; what a new file gets from its directory's, or from the umask, is decided here.
        let lists = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
        if let Err(missing) = config.add_capabilities(lists) {
            let message = format!("the kernel has no access control lists for FUSE ({missing:?})");
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        if self.writes_back && config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE).is_err() {
            let message = "the kernel does not keep what is written to FUSE";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// Whatever the kernel still knew it forgets.
    fn destroy(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // What cannot be given back now is when it is mounted again.
        let _ = self.write().and_then(|mut system| system.forget_all());
        self.syncer = None;
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut system = self.volume.unnoticed();
        // Users who may not have the store's memory must not come by a file without the directories above it.
        let opened = service::handle_of(name.as_bytes())
            .filter(|_| ino(parent) == Ino::ROOT && doors::may_have_store(request.uid()));
        if let Some(ino) = opened.and_then(|handle| self.doors.find_beside(handle)) {
            // A name for one `open`, of a file that may have none.
            let known = self.known(&mut system, ino).map(|(attributes, _)| (attributes, Duration::ZERO));
            drop(system);
            return Self::entry(reply, known);
        }
        let found = system.look_up(ino(parent), name.as_bytes());
        let known = found.and_then(|ino| self.known(&mut system, ino));
        drop(system);
        Self::entry(reply, known);
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        let (ino, mut left) = (ino(number), lookups);
        let mut system = self.volume.unnoticed();
        self.known.forgot(ino, lookups);
        // The root is known without having been looked up.
        while left > 0 && !system.goes_when_closed(ino) && system.close(ino).is_ok() {
            left -= 1;
        }
        drop(system);
        if left > 0 {
            self.sooner_or_later(move |system| (0..left).try_for_each(|_| system.close(ino)));
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let told = self.told(&self.read(), ino(number));
        match told {
            Ok((attributes, kept)) => reply.attr(&kept, &attr(&attributes)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes_owner = uid.is_some() || gid.is_some();
        let change = |system: &mut FileSystem<Mapped>| {
            // By the clock of all other changes: with an exact one, a file that is written after another one's `touch` would be older.
            let now = i128::from(system.now() as i64);
            let time = |time: TimeOrNow| match time {
                TimeOrNow::SpecificTime(time) => nanoseconds_sent(time),
                TimeOrNow::Now => now,
            };
            let (accessed, modified) = (accessed.map(time), modified.map(time));
            // The kernel says this one only of what it has kept.
            let changed = changed.map(nanoseconds_sent);
            let mut set = SetAttributes { mode, uid, gid, size, accessed, modified, changed };
            if mode.is_none() && (changes_owner || size.is_some() && !may_keep_privileges(request)) {
                set.mode = system.inode(ino(number))?.without_privileges();
            }
            system.set_attributes(ino(number), &set)?;
            if system.has_privileges(ino(number))? {
                // A client would write without the kernel, which takes them away.
                self.doors.end_leases(ino(number));
            }
            self.told(system, ino(number))
        };
        let changed = self.with_room(|| self.volume.with(change));
        match changed {
            Ok((attributes, kept)) => reply.attr(&kept, &attr(&attributes)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.read().read_link(ino(number)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let owner = owner(request);
        let mode = if mode & kind::MASK == 0 { mode | kind::FILE } else { mode };
        Self::entry(
            reply,
            self.made(|system| {
                system.create_for(
                    ino(parent),
                    name.as_bytes(),
                    (mode, umask),
                    owner,
                    With::Device(device.into()),
                )
            }),
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (owner, mode) = (owner(request), (mode & 0o7777 | kind::DIRECTORY, umask));
        Self::entry(
            reply,
            self.made(|system| system.create_for(ino(parent), name.as_bytes(), mode, owner, With::Nothing)),
        );
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.named(reply, |system| system.unlink(ino(parent), name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.named(reply, |system| system.remove_directory(ino(parent), name.as_bytes()));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (owner, target) = (owner(request), target.as_os_str().as_bytes());
        Self::entry(
            reply,
            self.made(|system| system.create_link_to(ino(parent), name.as_bytes(), target, owner)),
        );
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let leaves_whiteout = flags.contains(RenameFlags::RENAME_WHITEOUT);
        let replace = match flags - RenameFlags::RENAME_WHITEOUT {
            flags if flags.is_empty() => Replace::Yes,
            RenameFlags::RENAME_NOREPLACE => Replace::No,
            RenameFlags::RENAME_EXCHANGE => Replace::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = ((ino(parent), name.as_bytes()), (ino(new_parent), new_name.as_bytes()));
        let owner = owner(request);
        self.named(reply, |system| match leaves_whiteout {
            true => system.rename_and_white_out(from, to, replace, owner),
            false => system.rename(from, to, replace),
        });
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = self.made(|system| {
            system.link(ino(number), ino(parent), name.as_bytes())?;
            Ok(ino(number))
        });
        Self::entry(reply, made);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(ino(number), flags.0) {
            Ok(handle) => {
                let flags = self.open_flags(flags.0);
                self.behind_forgetting(move || reply.opened(handle, flags));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        flags: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if self.is_direct(flags.0) && self.known.was_read_beside(ino(number)) {
            let (known, ino) = (self.known.clone(), ino(number));
            let _ = self.later.send(Box::new(move || known.forget(ino, PAGES)));
        }
        if !self.doors.has_lease(handle.0) {
            let has_written = self.doors.writes(handle.0);
            self.doors.closed(handle.0);
            let ino = ino(number);
            if has_written && !self.doors.is_written_beside(ino) && self.read().has_slack(ino) {
                self.sooner_or_later(move |system| system.shrink(ino));
                reply.ok();
                return self.forget_size(ino);
            }
            return reply.ok();
        }
        if self.doors.writes(handle.0) {
            let doors = self.doors.clone();
            self.sooner_or_later(move |system| {
                let Some(ino) = doors.closed_leased(handle.0) else { return Ok(()) };
                system.shrink(ino)
            });
        } else {
            // Who closed it has waited for its own reads.
            let _unnoticed = self.volume.unnoticed();
            self.doors.closed_leased(handle.0);
        }
        reply.ok();
        self.forget_size(ino(number));
    }

    fn ioctl(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let Ok(data) = <&[u8; 8 * WORDS]>::try_from(data) else { return reply.error(Errno::ENOTTY) };
        let words =
            std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|byte| data[8 * word + byte])));
        let ino = ino(number);
        if command == protocol::GROW && ![0, rustix::process::geteuid().as_raw()].contains(&request.uid()) {
            return reply.error(Errno::EPERM);
        }
        if matches!(command, protocol::COLLAPSE | protocol::INSERT) && !may_keep_privileges(request) {
            self.drop_privileges(ino);
        }
        // Before the lease, which whoever opens the file ends.
        let forgetting = (command == protocol::LEASE).then(|| Forgetting::begin(&self.forgetting));
        match self.asked(ino, handle.0, command, words) {
            Ok(words) => {
                let known = self.known.clone();
                let answer = move || reply.ioctl(0, &words.map(u64::to_ne_bytes).concat());
                // What the kernel has read may soon be different, if the client writes.
                let is_written = command == protocol::LEASE && words[3] != 0;
                let is_shifted = matches!(command, protocol::COLLAPSE | protocol::INSERT);
                if is_shifted || is_written && self.known.had_pages(ino) {
                    // Nobody gets an answer any more when that thread is gone.
                    drop(self.later.send(Box::new(move || {
                        known.forget(ino, PAGES);
                        drop(forgetting);
                        answer();
                    })));
                    return;
                }
                drop(forgetting);
                if is_written {
                    self.forget_size(ino);
                }
                answer();
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.known.keeps_pages(ino(number));
        self.kernel_uses(ino(number), false);
        thread_local! {
            /// Where answers are put together: memory that is new each time takes as long as the copy.
            static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        BYTES.with_borrow_mut(|bytes| {
            let size = size as usize;
            if bytes.len() < size {
                bytes.resize(size, 0);
            }
            let file = self.volume.find(ino(number));
            match file.and_then(|file| self.volume.read(&file, offset, &mut bytes[..size])) {
                Ok(read) => reply.data(&bytes[..read]),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        kind: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let is_direct = self.is_direct(flags.0) && !kind.contains(WriteFlags::FUSE_WRITE_CACHE);
        if !is_direct {
            self.known.keeps_pages(ino(number));
        }
        self.kernel_uses(ino(number), true);
        // Where the file ends the kernel knows better if it has kept some of it.
        let is_appended = flags.0 & libc::O_APPEND != 0 && !self.writes_back;
        let place = if is_appended { Place::End } else { Place::At(offset) };
        if kind.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            self.drop_privileges(ino(number));
        }
        if is_direct {
            self.drop_capabilities(ino(number));
        }
        let answer = |reply: ReplyWrite, written: Result<(u64, usize)>| match written {
            Ok((_, written)) => reply.written(written as u32),
            Err(error) => reply.error(errno(error)),
        };
        let write = || self.volume.find(ino(number)).and_then(|file| self.volume.write(&file, place, data));
        let written = self.with_room(|| match write() {
            Err(Number::NOSPC)
                if self.write().and_then(|mut system| self.reclaim(&mut system)) == Ok(true) =>
            {
                write()
            }
            written => written,
        });
        let (known, ino) = (self.known.clone(), ino(number));
        if is_direct && known.has_passed_on(ino) {
            drop(self.later.send(Box::new(move || {
                known.forget(ino, PAGES);
                answer(reply, written);
            })));
            return;
        }
        if written.is_ok_and(|(at, _)| at != offset) {
            // The kernel has put the bytes where it believed that the file ends.
            let _ = self.later.send(Box::new(move || known.forget(ino, PAGES)));
        }
        answer(reply, written);
    }

    /// What was written persists already: the kernel need not ask again.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    /// Nothing has to be done for that: the kernel need not ask again.
    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut system = self.volume.unnoticed();
        self.known.listed(ino(number));
        let listed = system.list(ino(number), offset, &mut |name, ino, kind, next| {
            !reply.add(INodeNo(ino.0), next, file_type(u32::from(kind) << 12), OsStr::from_bytes(name))
        });
        drop(system);
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut system = self.volume.unnoticed();
        self.known.listed(ino(number));
        let listed = self.list_known(&mut system, ino(number), offset, &mut reply);
        drop(system);
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let system = self.read();
        let space = system.space();
        // Frames of a sparse store for which its disk has no room are not free.
        let free = space.free.saturating_sub(system.store().memory().without_room() / PAGE_BYTES);
        if let Err(error) = system.sure(Ok(())) {
            return reply.error(errno(error));
        }
        drop(system);
        let block = PAGE_BYTES as u32;
        reply.statfs(
            space.frames,
            free,
            free,
            space.inodes,
            space.inodes - space.used_inodes,
            block,
            MOST_NAME_BYTES as u32,
            block,
        );
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            1 => SetExtended::Create,
            2 => SetExtended::Replace,
            _ => SetExtended::Any,
        };
        let (ino, name) = (ino(number), name.as_bytes());
        if !extended::is_kept(name) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let drops_group = acl::is_list(name) && !self.is_in_group(request, ino);
        self.done(reply, |system| match acl::is_list(name) {
            true => system.set_list(ino, name, value, how, drops_group),
            false => {
                system.set_extended(ino, name, value, how)?;
                if name == CAPABILITIES {
                    self.doors.end_leases(ino);
                }
                Ok(())
            }
        });
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !extended::is_kept(name.as_bytes()) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        answer_extended(self.read().extended(ino(number), name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        answer_extended(self.read().extended_names(ino(number)), size, reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |system| system.remove_extended(ino(number), name.as_bytes()));
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(end) = offset.checked_add(length) else { return reply.error(Errno::EFBIG) };
        let (ino, range, keeps_size) = (ino(number), offset..end, mode & KEEP_SIZE != 0);
        if !may_keep_privileges(request) {
            self.drop_privileges(ino);
        }
        match mode & !KEEP_SIZE {
            0 => self.done(reply, |system| system.allocate(ino, range.clone(), keeps_size)),
            PUNCH_HOLE if keeps_size => self.done(reply, |system| system.punch(ino, range.clone())),
            ZERO_RANGE => self.done(reply, |system| {
                system.punch(ino, range.clone())?;
                system.allocate(ino, range.clone(), keeps_size)
            }),
            _ => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let to = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            // The kernel does the others.
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let (ino, volume) = (ino(number), self.volume.clone());
        let answer = move || match volume.shared().seek(ino, offset, to) {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(errno(error)),
        };
        // What a program has stored in a mapping the kernel may not have written yet: a hole that it covers is data.
        if self.doors.is_written(ino) && (self.writes_back || self.known.has_pages(ino)) {
            let known = self.known.clone();
            drop(self.later.send(Box::new(move || {
                // This writes dirty pages first.
                known.forget(ino, PAGES);
                answer();
            })));
            return;
        }
        answer();
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (owner, mode) = (owner(request), (mode & 0o7777 | kind::FILE, umask));
        // Who opens it to write writes, and who closes it empty gives that back.
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let with = if writes { With::Room(PAGE_BYTES) } else { With::Nothing };
        let created = self.made(|system| system.create_for(ino(parent), name.as_bytes(), mode, owner, with));
        match created.and_then(|(attributes, _)| Ok((attributes, self.opened(attributes.ino, flags)?))) {
            Ok((attributes, handle)) => {
                let generation = Generation(attributes.generation);
                let flags = self.open_flags(flags);
                self.behind_forgetting(move || {
                    reply.created(&KEPT, &attr(&attributes), generation, handle, flags);
                });
            }
            Err(error) => reply.error(errno(error)),
        }
    }
}
