//! A file system in a process's memory that does as little as one can behind FUSE: what `scripts/small-files.sh` compares the mount with.
//! It knows no permissions, links, holes or space, and nothing of it persists. What it takes is the kernel's requests.
//!
//! ```text
//! bare [--write-back] FOLDER     mounts it there until it is unmounted
//! ```

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

/// As long as the mount lets the kernel keep what it is told.
const KEPT: Duration = Duration::from_secs(3_600);
const MOST_WRITE: u32 = 1 << 20;

struct Node {
    attributes: FileAttr,
    bytes: Vec<u8>,
    names: BTreeMap<OsString, usize>,
}

#[derive(Default)]
struct Nodes {
    nodes: Vec<Option<Node>>,
    free: Vec<usize>,
}

struct Bare {
    nodes: Mutex<Nodes>,
    /// The kernel keeps what is written until a file is closed.
    writes_back: bool,
}

impl Nodes {
    fn get(&mut self, number: INodeNo) -> Result<&mut Node, Errno> {
        let node = self.nodes.get_mut(number.0 as usize).and_then(Option::as_mut);
        node.ok_or(Errno::ESTALE)
    }

    fn find(&mut self, parent: INodeNo, name: &OsStr) -> Result<usize, Errno> {
        self.get(parent)?.names.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn add(&mut self, kind: FileType, mode: u32, request: Option<&Request>) -> usize {
        let number = self.free.pop().unwrap_or(self.nodes.len());
        let now = SystemTime::now();
        let attributes = FileAttr {
            ino: INodeNo(number as u64),
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind,
            perm: (mode & 0o7777) as u16,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: request.map_or(0, Request::uid),
            gid: request.map_or(0, Request::gid),
            rdev: 0,
            blksize: 4_096,
            flags: 0,
        };
        let node = Some(Node { attributes, bytes: Vec::new(), names: BTreeMap::new() });
        match self.nodes.get_mut(number) {
            Some(place) => *place = node,
            None => self.nodes.push(node),
        }
        number
    }

    fn make(
        &mut self,
        parent: INodeNo,
        name: &OsStr,
        kind: FileType,
        (mode, request): (u32, &Request),
    ) -> Result<FileAttr, Errno> {
        if self.find(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let number = self.add(kind, mode, Some(request));
        self.get(parent)?.names.insert(name.to_owned(), number);
        Ok(self.get(INodeNo(number as u64))?.attributes)
    }

    /// The kernel says when it knows a file no more.
    fn remove(&mut self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let number = self.find(parent, name)?;
        self.get(parent)?.names.remove(name);
        self.get(INodeNo(number as u64))?.attributes.nlink = 0;
        Ok(())
    }
}

impl Bare {
    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().expect("no thread panics while it holds the lock")
    }
}

fn answer_entry(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&KEPT, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Bare {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel has otherwise is right, too.
        let _ = config.set_max_write(MOST_WRITE);
        let _ = config.add_capabilities(fuser::InitFlags::FUSE_HANDLE_KILLPRIV_V2);
        if self.writes_back {
            let lacking = config.add_capabilities(fuser::InitFlags::FUSE_WRITEBACK_CACHE);
            lacking.map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut nodes = self.nodes();
        let found = nodes.find(parent, name);
        let found = found.and_then(|number| Ok(nodes.get(INodeNo(number as u64))?.attributes));
        drop(nodes);
        answer_entry(reply, found);
    }

    fn forget(&self, _: &Request, number: INodeNo, _: u64) {
        let mut nodes = self.nodes();
        if nodes.get(number).is_ok_and(|node| node.attributes.nlink == 0) {
            nodes.nodes[number.0 as usize] = None;
            nodes.free.push(number.0 as usize);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.nodes().get(number) {
            Ok(node) => reply.attr(&KEPT, &node.attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut nodes = self.nodes();
        let node = match nodes.get(number) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let attributes = &mut node.attributes;
        let time = |time| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        };
        attributes.perm = mode.map_or(attributes.perm, |mode| (mode & 0o7777) as u16);
        attributes.uid = uid.unwrap_or(attributes.uid);
        attributes.gid = gid.unwrap_or(attributes.gid);
        attributes.atime = accessed.map_or(attributes.atime, time);
        attributes.mtime = modified.map_or(attributes.mtime, time);
        if let Some(size) = size {
            node.bytes.resize(size as usize, 0);
            attributes.size = size;
        }
        let attributes = *attributes;
        drop(nodes);
        reply.attr(&KEPT, &attributes);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        answer_entry(reply, self.nodes().make(parent, name, FileType::Directory, (mode, request)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.nodes().remove(parent, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut nodes = self.nodes();
        let found = nodes.find(parent, name).and_then(|number| nodes.get(INodeNo(number as u64)));
        let is_empty = found.map(|node| node.names.is_empty());
        answer(
            reply,
            is_empty.and_then(
                |is_empty| {
                    if is_empty { nodes.remove(parent, name) } else { Err(Errno::ENOTEMPTY) }
                },
            ),
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut nodes = self.nodes();
        let done = nodes.find(parent, name).and_then(|number| {
            // There may be none.
            let _ = nodes.remove(new_parent, new_name);
            nodes.get(parent)?.names.remove(name);
            nodes.get(new_parent)?.names.insert(new_name.to_owned(), number);
            Ok(())
        });
        answer(reply, done);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.nodes().make(parent, name, FileType::RegularFile, (mode, request)) {
            Ok(attributes) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&KEPT, &attributes, Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
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
        match self.nodes().get(number) {
            Ok(node) => {
                let from = node.bytes.len().min(offset as usize);
                let to = node.bytes.len().min(from + size as usize);
                reply.data(&node.bytes[from..to]);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut nodes = self.nodes();
        let node = match nodes.get(number) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let (from, to) = (offset as usize, offset as usize + data.len());
        if from == node.bytes.len() {
            node.bytes.extend_from_slice(data);
        } else {
            node.bytes.resize(to.max(node.bytes.len()), 0);
            node.bytes[from..to].copy_from_slice(data);
        }
        node.attributes.size = node.bytes.len() as u64;
        node.attributes.mtime = SystemTime::now();
        drop(nodes);
        reply.written(data.len() as u32);
    }

    /// The kernel asks for capabilities before the first write of a file, wherever there may be some.
    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENODATA);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut nodes = self.nodes();
        let names: Vec<(OsString, usize)> = match nodes.get(number) {
            Ok(node) => node.names.iter().map(|(name, &number)| (name.clone(), number)).collect(),
            Err(error) => return reply.error(error),
        };
        for (at, (name, number)) in (1..).zip(names).skip(offset as usize) {
            let number = INodeNo(number as u64);
            let kind = nodes.get(number).map_or(FileType::RegularFile, |node| node.attributes.kind);
            if reply.add(number, at, kind, &name) {
                break;
            }
        }
        reply.ok();
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (writes_back, folder) = match &arguments[..] {
        [folder] => (false, folder),
        [option, folder] if option == "--write-back" => (true, folder),
        _ => {
            eprintln!("usage: bare [--write-back] FOLDER");
            std::process::exit(2);
        }
    };
    let mut nodes = Nodes::default();
    // Number 0 is none, and 1 the root's.
    nodes.nodes.push(None);
    nodes.add(FileType::Directory, 0o755, None);
    let mut config = Config::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    config.n_threads = Some(threads);
    config.mount_options = vec![fuser::MountOption::DefaultPermissions, fuser::MountOption::NoAtime];
    fuser::mount(Bare { nodes: Mutex::new(nodes), writes_back }, Path::new(folder), &config)
}
