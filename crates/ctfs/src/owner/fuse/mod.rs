//! The mount: every program's door to the file system, through the kernel. FUSE's requests are this project's here, and answers FUSE's;
//! what a request takes is done in [`kernel`](super::kernel) and [`mounted`](super::mounted).
//!
//! The kernel checks permissions and keeps locks. An inode stays as long as the kernel knows it: every answer that names one
//! counts, and `forget` takes the counts back.

mod session;
mod values;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use pagewalk_vm::addr::PAGE_BYTES;

use crate::core::directory::MOST_NAME_BYTES;
use crate::core::error::Result;
use crate::core::extended::SetExtended;
use crate::core::file::Seek;
use crate::core::inode::kind;
use crate::core::names::With;
use crate::core::types::Replace;
use crate::owner::kernel::{Passed, Setting};
use crate::owner::mounted::{KEPT, Mounted, Told};
use crate::protocol::messages::WORDS;
pub(crate) use session::Session;
use values::{attr, errno, file_type, ino, nanoseconds_sent, owner, requester, time_sent};

/// Bytes of a request.
pub(crate) const MOST_BYTES: u32 = 1 << 20;

fn answer_empty(reply: ReplyEmpty, done: Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn answer_attributes(reply: ReplyAttr, told: Result<Told>) {
    match told {
        Ok((attributes, kept)) => reply.attr(&kept, &attr(&attributes)),
        Err(error) => reply.error(errno(error)),
    }
}

fn answer_entry(reply: ReplyEntry, known: Result<Told>) {
    match known {
        Ok((attributes, kept)) => reply.entry(&kept, &attr(&attributes), Generation(attributes.generation)),
        Err(error) => reply.error(errno(error)),
    }
}

fn answer_extended(value: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Err(error) => reply.error(errno(error)),
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

/// How the kernel uses a file that a program opens with these flags. It keeps what it has read: the owner tells it of every change.
fn open_flags(mounted: &Mounted, flags: i32) -> FopenFlags {
    let direct = if mounted.is_direct(flags) { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
    FopenFlags::FOPEN_KEEP_CACHE | direct
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

    fn destroy(&mut self) {
        self.end();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer_entry(reply, self.look_up(requester(request), ino(parent), name.as_bytes()));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.forget_lookups(ino(number), lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let told = self.told(&self.read(), ino(number));
        answer_attributes(reply, told);
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
        let (accessed, modified) = (accessed.map(time_sent), modified.map(time_sent));
        let changed = changed.map(nanoseconds_sent);
        let setting = Setting { mode, uid, gid, size, accessed, modified, changed };
        answer_attributes(reply, self.set_attributes(requester(request), ino(number), setting));
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
        let (parent, name, owner) = (ino(parent), name.as_bytes(), owner(request));
        let mode = (if mode & kind::MASK == 0 { mode | kind::FILE } else { mode }, umask);
        let with = || With::Device(device.into());
        answer_entry(reply, self.made(|system| system.create_for(parent, name, mode, owner, with())));
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
        let (parent, name, owner) = (ino(parent), name.as_bytes(), owner(request));
        let mode = (mode & 0o7777 | kind::DIRECTORY, umask);
        answer_entry(reply, self.made(|system| system.create_for(parent, name, mode, owner, With::Nothing)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.change_names(|system| system.unlink(ino(parent), name.as_bytes())));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(
            reply,
            self.change_names(|system| system.remove_directory(ino(parent), name.as_bytes())),
        );
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (owner, target) = (owner(request), target.as_os_str().as_bytes());
        let made = self.made(|system| system.create_link_to(ino(parent), name.as_bytes(), target, owner));
        answer_entry(reply, made);
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
        let renamed = self.change_names(|system| match leaves_whiteout {
            true => system.rename_and_white_out(from, to, replace, owner),
            false => system.rename(from, to, replace),
        });
        answer_empty(reply, renamed);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = self.made(|system| {
            system.link(ino(number), ino(parent), name.as_bytes())?;
            Ok(ino(number))
        });
        answer_entry(reply, made);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(ino(number), flags.0) {
            Ok(handle) => {
                let flags = open_flags(self, flags.0);
                self.behind_forgetting(move || reply.opened(FileHandle(handle), flags));
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
        let is_resized = self.closed(ino(number), handle.0, flags.0);
        reply.ok();
        if is_resized {
            self.forget_size(ino(number));
        }
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
        let answer = move |answered: Result<[u64; WORDS]>| match answered {
            Ok(words) => reply.ioctl(0, &words.map(u64::to_ne_bytes).concat()),
            Err(error) => reply.error(errno(error)),
        };
        self.message(requester(request), (ino(number), handle.0), (command, words), answer);
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
        thread_local! {
            /// Where answers are put together: memory that is new each time takes as long as the copy.
            static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        BYTES.with_borrow_mut(|bytes| {
            let size = size as usize;
            if bytes.len() < size {
                bytes.resize(size, 0);
            }
            match self.read_bytes(ino(number), offset, &mut bytes[..size]) {
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
        let passed = Passed {
            flags: flags.0,
            was_kept: kind.contains(WriteFlags::FUSE_WRITE_CACHE),
            drops_privileges: kind.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        };
        self.write_bytes(ino(number), (offset, data), passed, move |written| match written {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(errno(error)),
        });
    }

    /// What was written persists already: the kernel need not ask again.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(Box::new(|done| answer_empty(reply, done)));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(Box::new(|done| answer_empty(reply, done)));
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
        let is_full = |name: &[u8], next: u64, (attributes, kept): &Told| {
            let generation = Generation(attributes.generation);
            let number = INodeNo(attributes.ino.0);
            reply.add(number, next, OsStr::from_bytes(name), kept, &attr(attributes), generation)
        };
        let listed = self.list_known(&mut system, ino(number), offset, is_full);
        drop(system);
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let space = match self.space() {
            Ok(space) => space,
            Err(error) => return reply.error(errno(error)),
        };
        let block = PAGE_BYTES as u32;
        reply.statfs(
            space.frames,
            space.free,
            space.free,
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
        let name = (ino(number), name.as_bytes());
        answer_empty(reply, self.set_extended(requester(request), name, value, how));
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_extended(self.extended(ino(number), name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        answer_extended(self.read().extended_names(ino(number)), size, reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.change(|system| system.remove_extended(ino(number), name.as_bytes())));
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
        answer_empty(reply, self.allocate(requester(request), ino(number), (offset, length), mode));
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
        self.seek(ino(number), (offset, to), move |found| match found {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(errno(error)),
        });
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
        let mode = (mode & 0o7777 | kind::FILE, umask);
        match self.open_new(requester(request), (ino(parent), name.as_bytes()), mode, flags) {
            Ok((attributes, handle)) => {
                let generation = Generation(attributes.generation);
                let flags = open_flags(self, flags);
                self.behind_forgetting(move || {
                    reply.created(&KEPT, &attr(&attributes), generation, FileHandle(handle), flags);
                });
            }
            Err(error) => reply.error(errno(error)),
        }
    }
}
