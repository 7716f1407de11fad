//! The library: files by path, as `std::fs` has them, without a system call.
//!
//! A program that has the store may do everything with it: owners and permissions are kept, and looked at by the mount only. Paths begin
//! at the root, with or without a slash; a path is followed and acted on under one lock, so that nothing changes between.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use rustix::io::Errno;

use crate::client::paths::file::File;
use crate::client::paths::options::OpenOptions;
use crate::client::paths::path::AsPath;
use crate::core::error::Result;
use crate::core::inode::{Ino, kind};
use crate::core::system::FileSystem;
use crate::core::types::{Attributes, Owner, Replace, SetAttributes};
use crate::core::volume::Volume;
use crate::memory::sharing::SharedMemory;

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The name, without the directory's path.
    pub name: Vec<u8>,
    /// The file that has it.
    pub ino: Ino,
    /// The file's kind: the highest four bits of its mode.
    pub kind: u8,
}

/// A file system by paths, to be shared by threads.
///
/// ```
/// use pagewalk_ctfs::{FileSystem, Files, OpenOptions, Owner, coarse_now};
/// # use pagewalk_ctfs::{Mapped, Survives};
/// # let file = tempfile::NamedTempFile::new()?;
/// # let memory = Mapped::create(file.path(), 4 << 20, Survives::ProcessCrash)?;
/// let system = FileSystem::format(memory, Owner::default(), coarse_now)?;
/// let files = Files::new(system);
/// files.create_directory("/notes", 0o755, Owner::default())?;
/// let file = files.open("/notes/first", &OpenOptions::creating())?;
/// file.write_at(b"contiguous", 0)?;
/// assert_eq!(files.attributes("/notes/first")?.size, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Files<M: SharedMemory>(Arc<Kept<M>>);

impl<M: SharedMemory> Clone for Files<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: SharedMemory> Deref for Files<M> {
    type Target = Volume<M>;

    fn deref(&self) -> &Volume<M> {
        &self.0.0
    }
}

/// A file system that its files keep. It ends in good order with the last of them.
struct Kept<M: SharedMemory>(Volume<M>);

impl<M: SharedMemory> Drop for Kept<M> {
    fn drop(&mut self) {
        if self.0.is_ours().is_ok() {
            // A store that has failed is found as a crash leaves it.
            let _ = self.0.shared().end();
        }
    }
}

impl<M: SharedMemory> Files<M> {
    /// Makes paths usable on a file system that was mounted or made.
    pub fn new(system: FileSystem<M>) -> Self {
        Self(Arc::new(Kept(Volume::new(system))))
    }

    /// Opens a regular file.
    ///
    /// # Errors
    ///
    /// There is none, there is one and must not be, it is of another kind, or there is no room.
    pub fn open(&self, path: impl AsPath, options: &OpenOptions) -> Result<File<M>> {
        let opened = self.with(|system| {
            let ino = system.open_path(path.path_bytes(), options)?;
            self.open_in(system, ino)
        })?;
        Ok(File::new(self.clone(), opened, *options))
    }

    /// Makes a regular file without a name, as `O_TMPFILE` does. The file goes when the answer is dropped, or after a crash, unless it has
    /// got a name by [`File::link`].
    ///
    /// # Errors
    ///
    /// There is no room (`ENOSPC`).
    pub fn open_unnamed(&self, mode: u32, owner: Owner) -> Result<File<M>> {
        let opened = self.with(|system| {
            let ino = system.create_without_name(kind::FILE | mode & 0o7777, owner)?;
            self.open_in(system, ino)
        })?;
        let options = OpenOptions { mode, owner, ..OpenOptions::updating() };
        Ok(File::new(self.clone(), opened, options))
    }

    /// Returns the attributes of a file, behind all symbolic links.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn attributes(&self, path: impl AsPath) -> Result<Attributes> {
        self.with(|system| {
            let led = system.lead(path.path_bytes(), true)?;
            let attributes = system.attributes(led.file()?)?;
            let is_directory = attributes.mode & kind::MASK == kind::DIRECTORY;
            if led.wants_directory && !is_directory { Err(Errno::NOTDIR) } else { Ok(attributes) }
        })
    }

    /// Returns the attributes of a file, which may be a symbolic link.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn link_attributes(&self, path: impl AsPath) -> Result<Attributes> {
        self.with(|system| {
            let ino = system.lead(path.path_bytes(), false)?.file()?;
            system.attributes(ino)
        })
    }

    /// Changes what is known of a file, behind all symbolic links.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::set_attributes`].
    pub fn set_attributes(&self, path: impl AsPath, set: &SetAttributes) -> Result<()> {
        self.with(|system| {
            let ino = system.lead(path.path_bytes(), true)?.file()?;
            system.set_attributes(ino, set)
        })
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::create`].
    pub fn create_directory(&self, path: impl AsPath, mode: u32, owner: Owner) -> Result<()> {
        self.with(|system| {
            let led = system.lead(path.path_bytes(), false)?;
            if led.ino.is_some() {
                return Err(Errno::EXIST);
            }
            system.create(led.parent, &led.name, kind::DIRECTORY | mode & 0o7777, owner, 0).map(|_| ())
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::remove_directory`].
    pub fn remove_directory(&self, path: impl AsPath) -> Result<()> {
        self.with(|system| {
            let led = system.lead(path.path_bytes(), false)?;
            if led.file()? == Ino::ROOT {
                return Err(Errno::BUSY);
            }
            system.remove_directory(led.parent, &led.name)
        })
    }

    /// Takes a file's name away.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::unlink`].
    pub fn remove_file(&self, path: impl AsPath) -> Result<()> {
        self.with(|system| {
            let led = system.lead(path.path_bytes(), false)?;
            if led.wants_directory {
                return Err(Errno::NOTDIR);
            }
            system.unlink(led.parent, &led.name)
        })
    }

    /// Renames a file of any kind.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::rename`].
    pub fn rename(&self, from: impl AsPath, to: impl AsPath, replace: Replace) -> Result<()> {
        self.with(|system| {
            let from = system.lead(from.path_bytes(), false)?;
            let to = system.lead(to.path_bytes(), false)?;
            let is_directory = system.inode(from.file()?)?.is(kind::DIRECTORY);
            if (from.wants_directory || to.wants_directory) && !is_directory {
                return Err(Errno::NOTDIR);
            }
            system.rename((from.parent, &from.name), (to.parent, &to.name), replace)
        })
    }

    /// Gives a file another name.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::link`].
    pub fn link(&self, file: impl AsPath, name: impl AsPath) -> Result<()> {
        self.with(|system| {
            let ino = system.lead(file.path_bytes(), false)?.file()?;
            let led = system.lead(name.path_bytes(), false)?;
            system.link(ino, led.parent, &led.name)
        })
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::create_link_to`].
    pub fn create_link_to(&self, target: impl AsPath, path: impl AsPath, owner: Owner) -> Result<()> {
        self.with(|system| {
            let led = system.lead(path.path_bytes(), false)?;
            system.create_link_to(led.parent, &led.name, target.path_bytes(), owner).map(|_| ())
        })
    }

    /// Returns a symbolic link's target.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn read_link(&self, path: impl AsPath) -> Result<Vec<u8>> {
        self.with(|system| {
            let ino = system.lead(path.path_bytes(), false)?.file()?;
            system.read_link(ino)
        })
    }

    /// Lists the names in a directory, but for its own and its parent's, as they are at one time.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn list(&self, path: impl AsPath) -> Result<Vec<DirectoryEntry>> {
        self.with(|system| {
            let ino = system.lead(path.path_bytes(), true)?.file()?;
            let mut entries = Vec::new();
            system.list(ino, 2, &mut |name, ino, kind, _| {
                entries.push(DirectoryEntry { name: name.to_vec(), ino, kind });
                true
            })?;
            Ok(entries)
        })
    }
}

impl<M: SharedMemory> fmt::Debug for Files<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}
