//! The library's door: files by path, as `std::fs` has them, without a system call.
//!
//! Whoever has the store may do everything with it: owners and permissions are kept, and looked at by the mount only. Paths begin
//! at the root, with or without a slash; a path is followed and acted on under one lock, so that nothing changes between.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewalk_vm::file::PersistentMemory;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::error::Result;
use crate::inode::{Ino, kind};
use crate::mapped::Mapped;
use crate::sharing::SharedMemory;
use crate::system::{Attributes, FileSystem, Owner, Replace, SetAttributes};
use crate::volume::{Opened, Place, Volume};

/// Symbolic links that a path leads through at most.
pub(crate) const MOST_LINKS_FOLLOWED: usize = 40;
/// Bytes of a path at most.
pub(crate) const MOST_PATH_BYTES: usize = 4_095;

/// What names a file: text, bytes or a path of the standard library. A file system's names are bytes.
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

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    /// To read it.
    pub read: bool,
    /// To write it.
    pub write: bool,
    /// All writes go behind its end.
    pub append: bool,
    /// It loses its bytes.
    pub truncate: bool,
    /// It is made if it is not there.
    pub create: bool,
    /// It is made, and must not be there.
    pub create_new: bool,
    /// A symbolic link in the path's last place is refused (`ELOOP`), and not followed.
    pub no_follow: bool,
    /// Permissions of a new one.
    pub mode: u32,
    /// Whose a new one is.
    pub owner: Owner,
}

impl Default for OpenOptions {
    /// To read a file that is there.
    fn default() -> Self {
        Self {
            read: true,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            no_follow: false,
            mode: 0o644,
            owner: Owner::default(),
        }
    }
}

impl OpenOptions {
    /// For nothing yet: the calls below say what for, as those of the standard library's options do.
    #[allow(clippy::new_without_default)] // The default is to read.
    pub fn new() -> Self {
        Self { read: false, ..Self::default() }
    }

    /// Whether the file is opened to read it.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// Whether the file is opened to write it.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// Whether all writes go behind the file's end.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// Whether the file loses its bytes.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Whether the file is made if it is not there.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Whether the file is made, and must not be there.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// The permissions of a new file.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// To write a file from its beginning, made if it is not there.
    pub fn creating() -> Self {
        Self { read: false, write: true, create: true, truncate: true, ..Self::default() }
    }

    /// To write behind a file's end, made if it is not there.
    pub fn appending() -> Self {
        Self { read: false, append: true, create: true, ..Self::default() }
    }

    /// To read and write a file, made if it is not there.
    pub fn updating() -> Self {
        Self { write: true, create: true, ..Self::default() }
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// The file that has it.
    pub ino: Ino,
    /// The file's kind: the highest four bits of its mode.
    pub kind: u8,
}

/// Where a path leads.
struct Led {
    parent: Ino,
    name: Vec<u8>,
    /// The file, if there is one.
    ino: Option<Ino>,
    /// Only a directory can be meant.
    wants_directory: bool,
}

impl Led {
    fn file(&self) -> Result<Ino> {
        self.ino.ok_or(Errno::NOENT)
    }
}

impl<M: PersistentMemory> FileSystem<M> {
    /// Follows a path to the file that it names, or to where one could be made.
    fn lead(&mut self, path: &[u8], follows_last: bool) -> Result<Led> {
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

    fn open_path(&mut self, path: &[u8], options: &OpenOptions) -> Result<Ino> {
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
    /// A file system that was mounted or made.
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
        let opened = ManuallyDrop::new(opened);
        Ok(File { files: self.clone(), opened, options: *options, offset: Mutex::new(0) })
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
        let opened = ManuallyDrop::new(opened);
        let options = OpenOptions { mode, owner, ..OpenOptions::updating() };
        Ok(File { files: self.clone(), opened, options, offset: Mutex::new(0) })
    }

    /// What is known of a file, behind all symbolic links.
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

    /// What is known of a file, which may be a symbolic link.
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

    /// Makes a directory.
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

    /// A symbolic link's target.
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

    /// The names in a directory, but for its own and its parent's, as they are at one time.
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

/// An open file. It stays until this is dropped, with a name or without.
pub struct File<M: SharedMemory> {
    files: Files<M>,
    /// Until this is dropped.
    opened: ManuallyDrop<Opened>,
    options: OpenOptions,
    /// Where the next read or write without an offset is.
    offset: Mutex<u64>,
}

impl<M: SharedMemory> File<M> {
    /// Reads at an offset, up to the file's end; how much that was.
    ///
    /// # Errors
    ///
    /// It was not opened to read.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        if self.options.read { self.files.read(&self.opened, offset, into) } else { Err(Errno::BADF) }
    }

    /// Writes at an offset, or behind the end if it was opened to append; how much there was room for. It persists.
    ///
    /// # Errors
    ///
    /// It was not opened to write, there is no room, or it would be too large.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        self.write_to(Place::At(offset), data).map(|(_, written)| written)
    }

    #[inline]
    fn write_to(&self, place: Place, data: &[u8]) -> Result<(u64, usize)> {
        match (self.options.append, self.options.write) {
            (true, _) => self.files.write(&self.opened, Place::End, data),
            (false, true) => self.files.write(&self.opened, place, data),
            (false, false) => Err(Errno::BADF),
        }
    }

    /// Sets its size.
    ///
    /// # Errors
    ///
    /// It was not opened to write, or it would be too large.
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        self.is_writable()?;
        let set = SetAttributes { size: Some(bytes), ..SetAttributes::default() };
        self.files.with(|system| system.set_attributes(self.opened.ino(), &set))
    }

    /// Lets a range have frames, so that writes there find room.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::allocate`].
    pub fn allocate(&self, bytes: std::ops::Range<u64>, keeps_size: bool) -> Result<()> {
        self.files.with(|system| system.allocate(self.opened.ino(), bytes, keeps_size))
    }

    /// Gives the file a name, its first or another one.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::link`].
    pub fn link(&self, name: impl AsPath) -> Result<()> {
        self.files.with(|system| {
            let led = system.lead(name.path_bytes(), false)?;
            system.link(self.opened.ino(), led.parent, &led.name)
        })
    }

    /// Takes a range of whole pages out of the file: what lies behind the range moves to its place, by entries of the page table.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::collapse`]; the file was not opened to write (`EBADF`).
    pub fn collapse(&self, bytes: std::ops::Range<u64>) -> Result<()> {
        self.is_writable()?;
        self.files.with(|system| system.collapse(self.opened.ino(), bytes))
    }

    /// Puts a hole of whole pages into the file: what lies behind its beginning moves behind its end, by entries of the page table.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::insert`]; the file was not opened to write (`EBADF`).
    pub fn insert(&self, bytes: std::ops::Range<u64>) -> Result<()> {
        self.is_writable()?;
        self.files.with(|system| system.insert(self.opened.ino(), bytes))
    }

    fn is_writable(&self) -> Result<()> {
        if self.options.write || self.options.append { Ok(()) } else { Err(Errno::BADF) }
    }

    /// What is known of it.
    ///
    /// # Errors
    ///
    /// Something is wrong with it.
    pub fn attributes(&self) -> Result<Attributes> {
        self.files.size(&self.opened)?;
        self.files.shared().attributes(self.opened.ino())
    }

    /// Its bytes.
    ///
    /// # Errors
    ///
    /// As for [`Volume::size`].
    pub fn size(&self) -> Result<u64> {
        self.files.size(&self.opened)
    }
}

impl File<Mapped> {
    /// Waits until the file is on the disk, and everything else that was done before, as [`Volume::sync`] does.
    ///
    /// # Errors
    ///
    /// As for [`Volume::sync`].
    pub fn sync(&self) -> Result<()> {
        self.files.sync()
    }
}

impl<M: SharedMemory> Read for &File<M> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut offset = self.offset.lock();
        let read = self.read_at(into, *offset)?;
        *offset += read as u64;
        Ok(read)
    }
}

impl<M: SharedMemory> Write for &File<M> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut offset = self.offset.lock();
        let (at, written) = self.write_to(Place::At(*offset), data)?;
        *offset = at + written as u64;
        Ok(written)
    }

    /// Nothing is kept here.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<M: SharedMemory> Seek for &File<M> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut offset = self.offset.lock();
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (*offset, by),
            SeekFrom::End(by) => (self.size()?, by),
        };
        *offset = from.checked_add_signed(by).ok_or(Errno::INVAL)?;
        Ok(*offset)
    }
}

/// As of a reference, of which several may read by one offset.
impl<M: SharedMemory> Read for File<M> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl<M: SharedMemory> Write for File<M> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl<M: SharedMemory> Seek for File<M> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

impl<M: SharedMemory> fmt::Debug for File<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("ino", &self.opened.ino())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<M: SharedMemory> fmt::Debug for Files<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl<M: SharedMemory> Drop for File<M> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // A file without a name goes when the store is mounted again, if it cannot now.
        // SAFETY: it is used no more.
        let opened = unsafe { ManuallyDrop::take(&mut self.opened) };
        let _ = self.files.close(opened);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped::{Mapped, Survives};

    fn files() -> Files<Mapped> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let memory = Mapped::create(file.path(), 16 << 20, Survives::ProcessCrash).unwrap();
        Files::new(FileSystem::format(memory, Owner::default(), || 0).unwrap())
    }

    fn put(files: &Files<Mapped>, path: &str, bytes: &[u8]) {
        let file = files.open(path, &OpenOptions::creating()).unwrap();
        assert_eq!(file.write_at(bytes, 0), Ok(bytes.len()));
    }

    fn got(files: &Files<Mapped>, path: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&files.open(path, &OpenOptions::default())?).read_to_end(&mut bytes).unwrap();
        Ok(bytes)
    }

    #[test]
    fn paths_lead_through_directories_and_links() {
        let files = files();
        let me = Owner::default();
        for directory in ["/a", "a/b/", "//a//b/c"] {
            files.create_directory(directory, 0o755, me).unwrap();
        }
        put(&files, "/a/b/c/file", b"here");
        files.create_link_to("b/c", "/a/short", me).unwrap();
        files.create_link_to("/a/short/file", "/to-file", me).unwrap();
        files.create_link_to("../..", "/a/b/up", me).unwrap();
        files.create_link_to("round", "/round", me).unwrap();
        files.create_link_to("made", "/dangling", me).unwrap();
        for path in ["a/b/c/file", "/a/short/file", "/to-file", "a/b/up/to-file", "/a/./b/../short/file"] {
            assert_eq!(got(&files, path).as_deref(), Ok(&b"here"[..]), "{path}");
        }
        for (path, error) in [
            ("", Errno::NOENT),
            ("/nothing", Errno::NOENT),
            ("/a/nothing/file", Errno::NOENT),
            ("/a/b/c/file/", Errno::NOTDIR),
            ("/a/b/c/file/x", Errno::NOTDIR),
            ("/a", Errno::ISDIR),
            ("/round", Errno::LOOP),
            ("/dangling", Errno::NOENT),
            ("/a\0b", Errno::INVAL),
        ] {
            assert_eq!(got(&files, path), Err(error), "{path}");
        }
        assert_eq!(got(&files, &"x/".repeat(2_100)), Err(Errno::NAMETOOLONG));
        // Opening to create follows a link that leads nowhere; `create_new` does not.
        let new = OpenOptions { create_new: true, ..OpenOptions::creating() };
        assert_eq!(files.open("/dangling", &new).err(), Some(Errno::EXIST));
        put(&files, "/dangling", b"made");
        assert_eq!(got(&files, "/made").as_deref(), Ok(&b"made"[..]));
        assert_eq!(files.link_attributes("/dangling").unwrap().mode & kind::MASK, kind::SYMLINK);
        assert_eq!(files.attributes("/a/short/").unwrap().mode & kind::MASK, kind::DIRECTORY);
        assert_eq!(files.attributes("/made/"), Err(Errno::NOTDIR));
        assert_eq!(files.read_link("/a/short").as_deref(), Ok(&b"b/c"[..]));
    }

    #[test]
    fn names_come_and_go() {
        let files = files();
        let me = Owner::default();
        files.create_directory("/d", 0o700, me).unwrap();
        assert_eq!(files.create_directory("/d/", 0o700, me), Err(Errno::EXIST));
        put(&files, "/d/one", b"1");
        files.link("/d/one", "/two").unwrap();
        assert_eq!(files.attributes("/two").unwrap().links, 2);
        assert_eq!(files.remove_directory("/d"), Err(Errno::NOTEMPTY));
        assert_eq!(files.remove_directory("/"), Err(Errno::BUSY));
        assert_eq!(files.remove_file("/d"), Err(Errno::ISDIR));
        assert_eq!(files.rename("/d", "/d/within", Replace::Yes), Err(Errno::INVAL));
        assert_eq!(files.rename("/two", "/three/", Replace::Yes), Err(Errno::NOTDIR));
        files.rename("/d/one", "/three", Replace::No).unwrap();
        assert_eq!(files.rename("/two", "/three", Replace::No), Err(Errno::EXIST));
        let names: Vec<_> = files.list("/").unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, [b"d".to_vec(), b"two".to_vec(), b"three".to_vec()]);
        files.remove_directory("/d").unwrap();
        // A file that is open outlives its names.
        let kept = files.open("/two", &OpenOptions::default()).unwrap();
        files.remove_file("/two").unwrap();
        files.remove_file("/three").unwrap();
        let mut byte = [0];
        assert_eq!((kept.read_at(&mut byte, 0), byte), (Ok(1), *b"1"));
        let free = files.shared().space().free;
        drop(kept);
        assert!(files.shared().space().free > free);
        assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
    }

    #[test]
    fn a_file_without_a_name_can_get_one() {
        let files = files();
        let free = files.shared().space();
        let unnamed = files.open_unnamed(0o600, Owner { uid: 7, gid: 8 }).unwrap();
        assert_eq!(unnamed.write_at(b"secret", 0), Ok(6));
        assert_eq!((unnamed.attributes().unwrap().links, files.list("/").unwrap().len()), (0, 0));
        assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
        drop(unnamed);
        assert_eq!(files.shared().space(), free);
        let named = files.open_unnamed(0o600, Owner { uid: 7, gid: 8 }).unwrap();
        assert_eq!(named.write_at(b"public", 0), Ok(6));
        put(&files, "/taken", b"");
        assert_eq!(named.link("/taken"), Err(Errno::EXIST));
        named.link("/name").unwrap();
        drop(named);
        assert_eq!(got(&files, "/name").as_deref(), Ok(&b"public"[..]));
        let known = files.attributes("/name").unwrap();
        assert_eq!((known.links, known.mode & 0o7777, known.uid), (1, 0o600, 7));
        assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
    }

    #[test]
    fn a_handle_that_only_reads_moves_nothing() {
        let files = files();
        put(&files, "/f", &[1; 20_000]);
        let reader = files.open("/f", &OpenOptions::default()).unwrap();
        assert_eq!(
            (reader.collapse(0..4_096), reader.insert(0..4_096)),
            (Err(Errno::BADF), Err(Errno::BADF))
        );
        let writer = files.open("/f", &OpenOptions::appending()).unwrap();
        assert_eq!((writer.collapse(0..8_192), reader.size()), (Ok(()), Ok(11_808)));
    }

    #[test]
    fn what_a_file_was_opened_for_it_can_do() {
        let files = files();
        let file = files.open("/f", &OpenOptions::appending()).unwrap();
        (&file).write_all(b"one ").unwrap();
        assert_eq!(file.write_at(b"two", 0), Ok(3));
        assert_eq!(file.read_at(&mut [0], 0), Err(Errno::BADF));
        assert_eq!(got(&files, "/f").as_deref(), Ok(&b"one two"[..]));
        let reader = files.open("/f", &OpenOptions::default()).unwrap();
        assert_eq!((reader.write_at(b"x", 0), reader.set_len(0)), (Err(Errno::BADF), Err(Errno::BADF)));
        let both = files.open("/f", &OpenOptions::updating()).unwrap();
        assert_eq!((&both).seek(SeekFrom::End(-3)).unwrap(), 4);
        (&both).write_all(b"three").unwrap();
        assert_eq!((&both).seek(SeekFrom::Current(-9)).unwrap(), 0);
        assert!((&both).seek(SeekFrom::Current(-1)).is_err());
        let mut text = String::new();
        (&both).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one three");
        both.set_len(3).unwrap();
        assert_eq!(reader.size(), Ok(3));
        files.open("/f", &OpenOptions::creating()).unwrap();
        assert_eq!(reader.size(), Ok(0));
        let neither = OpenOptions { read: false, ..OpenOptions::default() };
        assert_eq!(files.open("/f", &neither).err(), Some(Errno::INVAL));
    }

    #[test]
    fn what_is_known_of_a_file_is_what_was_said() {
        let files = files();
        let owner = Owner { uid: 7, gid: 8 };
        let options = OpenOptions { read: false, mode: 0o4_610, owner, ..OpenOptions::updating() };
        let file = files.open("/f", &options).unwrap();
        let known = file.attributes().unwrap();
        assert_eq!((known.mode, known.uid, known.gid), (kind::FILE | 0o4_610, 7, 8));
        let set = SetAttributes {
            mode: Some(0o1_751),
            uid: Some(9),
            accessed: Some(-5),
            modified: Some(1 << 40),
            ..SetAttributes::default()
        };
        files.set_attributes("/f", &set).unwrap();
        files.set_attributes("/f", &SetAttributes { gid: Some(10), ..SetAttributes::default() }).unwrap();
        let known = file.attributes().unwrap();
        assert_eq!((known.mode, known.uid, known.gid), (kind::FILE | 0o1_751, 9, 10));
        assert_eq!((known.accessed, known.modified), (-5, 1 << 40));
        // Beyond 32 bits.
        let far = (5 << 30) + 3;
        assert_eq!((&file).seek(SeekFrom::Start(far)).unwrap(), far);
        (&file).write_all(b"far").unwrap();
        assert_eq!((file.size(), (&file).stream_position().unwrap()), (Ok(far + 3), far + 3));
        let reader = files.open("/f", &OpenOptions::default()).unwrap();
        let mut bytes = [0; 4];
        assert_eq!((reader.read_at(&mut bytes, far), &bytes), (Ok(3), b"far\0"));
    }

    #[test]
    fn holes_are_found() {
        let files = files();
        let file = files.open("/f", &OpenOptions::updating()).unwrap();
        let seek = |offset, to| files.shared().seek(file.opened.ino(), offset, to);
        assert_eq!(seek(0, crate::Seek::Hole), Err(Errno::NXIO));
        file.write_at(&[1; 5_000], 100_000).unwrap();
        file.set_len(1 << 20).unwrap();
        let begin = 100_000 / 4_096 * 4_096;
        let end = 105_000u64.next_multiple_of(4_096);
        assert_eq!((seek(0, crate::Seek::Hole), seek(0, crate::Seek::Data)), (Ok(0), Ok(begin)));
        assert_eq!(
            (seek(begin + 9, crate::Seek::Data), seek(begin, crate::Seek::Hole)),
            (Ok(begin + 9), Ok(end))
        );
        assert_eq!((seek(end, crate::Seek::Data), seek(end, crate::Seek::Hole)), (Err(Errno::NXIO), Ok(end)));
        file.set_len(105_000).unwrap();
        assert_eq!(seek(begin, crate::Seek::Hole), Ok(105_000));
        assert_eq!(seek(105_000, crate::Seek::Data), Err(Errno::NXIO));
    }

    /// Threads write and read records of a few files beside others that make, rename and remove some.
    #[test]
    fn threads_share_files() {
        const RECORD: usize = 3_000;
        let files = files();
        let writers = (0..4u64).map(|thread| {
            let files = files.clone();
            std::thread::spawn(move || {
                let file = files.open("/shared", &OpenOptions::updating()).unwrap();
                for round in 0..200u64 {
                    let bytes = vec![(thread * 50 + round % 50) as u8; RECORD];
                    let offset = (thread * 8 + round % 8) * RECORD as u64;
                    assert_eq!(file.write_at(&bytes, offset), Ok(RECORD));
                    let mut read = vec![0; RECORD];
                    assert_eq!(file.read_at(&mut read, offset), Ok(RECORD));
                    assert_eq!(read, bytes);
                    // Nobody sees half of another's record.
                    let other = ((thread + 1) % 4 * 8 + round % 8) * RECORD as u64;
                    let length = file.read_at(&mut read, other).unwrap();
                    assert!(read[..length].iter().all(|&byte| byte == read[0]), "{thread} {round}");
                    let own = format!("/own-{thread}");
                    put(&files, &own, &vec![thread as u8; (round * 977 % 60_000) as usize]);
                    files.rename(&own, format!("/done-{thread}"), Replace::Yes).unwrap();
                    assert_eq!(
                        got(&files, &format!("/done-{thread}")).unwrap().len() as u64,
                        round * 977 % 60_000
                    );
                    let log = files.open("/log", &OpenOptions::appending()).unwrap();
                    assert_eq!(log.write_at(&[b'0' + thread as u8; 100], 0), Ok(100));
                }
            })
        });
        writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().unwrap());
        let log = got(&files, "/log").unwrap();
        assert_eq!(log.len(), 4 * 200 * 100);
        assert!(log.chunks(100).all(|line| line.iter().all(|byte| *byte == line[0])));
        assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
    }
}
