//! Paths: what is taken for one, and where it leads.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pagewalk_vm::file::PersistentMemory;
use rustix::io::Errno;

use crate::client::paths::options::OpenOptions;
use crate::core::error::Result;
use crate::core::inode::{Ino, kind};
use crate::core::names::{MOST_LINKS_FOLLOWED, MOST_PATH_BYTES};
use crate::core::system::FileSystem;

/// A value that names a file: text, bytes or a path of the standard library.
pub trait AsPath {
    /// The bytes of the path.
    fn path_bytes(&self) -> &[u8];
}

impl AsPath for str {
    fn path_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsPath for [u8] {
    fn path_bytes(&self) -> &[u8] {
        self
    }
}

impl AsPath for OsStr {
    fn path_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsPath for Path {
    fn path_bytes(&self) -> &[u8] {
        self.as_os_str().as_bytes()
    }
}

impl<const BYTES: usize> AsPath for [u8; BYTES] {
    fn path_bytes(&self) -> &[u8] {
        self
    }
}

impl AsPath for String {
    fn path_bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsPath for Vec<u8> {
    fn path_bytes(&self) -> &[u8] {
        self
    }
}

impl AsPath for PathBuf {
    fn path_bytes(&self) -> &[u8] {
        self.as_path().path_bytes()
    }
}

impl<P: AsPath + ?Sized> AsPath for &P {
    fn path_bytes(&self) -> &[u8] {
        (**self).path_bytes()
    }
}

/// Where a path leads.
pub(super) struct Led {
    pub(super) parent: Ino,
    pub(super) name: Vec<u8>,
    /// The file, if there is one.
    pub(super) ino: Option<Ino>,
    /// Only a directory can be meant.
    pub(super) wants_directory: bool,
}

impl Led {
    pub(super) fn file(&self) -> Result<Ino> {
        self.ino.ok_or(Errno::NOENT)
    }
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Follows a path to the file that it names, or to where one could be made.
    pub(super) fn lead(&mut self, path: &[u8], follows_last: bool) -> Result<Led> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let mut rest = path.to_vec();
        let mut at = Ino::ROOT;
        for _ in 0..=MOST_LINKS_FOLLOWED {
            if rest.len() > MOST_PATH_BYTES || rest.contains(&0) {
                return Err(if rest.contains(&0) { Errno::INVAL } else { Errno::NAMETOOLONG });
            }
            let wants_directory = rest.ends_with(b"/");
            let mut names = rest.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).peekable();
            let mut led = Led { parent: at, name: b".".to_vec(), ino: Some(at), wants_directory };
            let mut again = None;
            while let Some(name) = names.next() {
                let is_last = names.peek().is_none();
                let found = match self.look_up(at, name) {
                    Err(Errno::NOENT) if is_last => None,
                    found => Some(found?),
                };
                led = Led { parent: at, name: name.to_vec(), ino: found, wants_directory };
                let Some(found) = found else { break };
                if self.inode(found)?.is(kind::SYMLINK) && (!is_last || follows_last || wants_directory) {
                    let mut target = self.read_link(found)?;
                    for name in names {
                        target.push(b'/');
                        target.extend(name);
                    }
                    if wants_directory {
                        target.push(b'/');
                    }
                    again = Some(target);
                    break;
                }
                at = found;
            }
            let Some(target) = again else { return Ok(led) };
            at = if target.starts_with(b"/") { Ino::ROOT } else { led.parent };
            rest = target;
        }
        Err(Errno::LOOP)
    }

    pub(super) fn open_path(&mut self, path: &[u8], options: &OpenOptions) -> Result<Ino> {
        let writes = options.write || options.append;
        if !options.read && !writes || options.truncate && !options.write {
            return Err(Errno::INVAL);
        }
        if writes {
            self.may_change()?;
        }
        let led = self.lead(path, !options.create_new && !options.no_follow)?;
        let ino = match led.ino {
            Some(_) if options.create_new => return Err(Errno::EXIST),
            Some(ino) => ino,
            None if led.wants_directory => return Err(Errno::ISDIR),
            None if options.create || options.create_new => {
                let mode = kind::FILE | options.mode & 0o7777;
                self.create(led.parent, &led.name, mode, options.owner, 0)?
            }
            None => return Err(Errno::NOENT),
        };
        match self.inode(ino)?.mode() & kind::MASK {
            kind::FILE if led.wants_directory => return Err(Errno::NOTDIR),
            kind::FILE => {}
            kind::DIRECTORY => return Err(Errno::ISDIR),
            kind::SYMLINK => return Err(Errno::LOOP),
            _ => return Err(Errno::NXIO),
        }
        if options.truncate && self.inode(ino)?.size() > 0 {
            self.set_size(ino, 0)?;
        }
        Ok(ino)
    }
}
