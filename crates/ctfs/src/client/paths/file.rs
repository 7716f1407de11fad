//! Open files: reads and writes with offsets, and with one that moves.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::ManuallyDrop;

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::client::paths::files::Files;
use crate::client::paths::options::OpenOptions;
use crate::client::paths::path::AsPath;
use crate::core::error::Result;
use crate::core::types::Place;
use crate::core::types::{Attributes, SetAttributes};
use crate::core::volume::Opened;
use crate::memory::mapped::Mapped;
use crate::memory::sharing::SharedMemory;

/// An open file of a [`Files`], which is closed when it is dropped.
pub struct File<M: SharedMemory> {
    files: Files<M>,
    /// Until this is dropped.
    pub(super) opened: ManuallyDrop<Opened>,
    options: OpenOptions,
    /// Where the next read or write without an offset is.
    offset: Mutex<u64>,
}

impl<M: SharedMemory> File<M> {
    pub(super) fn new(files: Files<M>, opened: Opened, options: OpenOptions) -> Self {
        Self { files, opened: ManuallyDrop::new(opened), options, offset: Mutex::new(0) }
    }

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

    /// Sets the file's size in bytes.
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
    /// As [`FileSystem::allocate`](crate::FileSystem::allocate).
    pub fn allocate(&self, bytes: std::ops::Range<u64>, keeps_size: bool) -> Result<()> {
        self.files.with(|system| system.allocate(self.opened.ino(), bytes, keeps_size))
    }

    /// Gives the file a name, its first or another one.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::link`](crate::FileSystem::link).
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
    /// As [`FileSystem::collapse`](crate::FileSystem::collapse); the file was not opened to write (`EBADF`).
    pub fn collapse(&self, bytes: std::ops::Range<u64>) -> Result<()> {
        self.is_writable()?;
        self.files.with(|system| system.collapse(self.opened.ino(), bytes))
    }

    /// Puts a hole of whole pages into the file: what lies behind its beginning moves behind its end, by entries of the page table.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::insert`](crate::FileSystem::insert); the file was not opened to write (`EBADF`).
    pub fn insert(&self, bytes: std::ops::Range<u64>) -> Result<()> {
        self.is_writable()?;
        self.files.with(|system| system.insert(self.opened.ino(), bytes))
    }

    fn is_writable(&self) -> Result<()> {
        if self.options.write || self.options.append { Ok(()) } else { Err(Errno::BADF) }
    }

    /// Returns the file's attributes.
    ///
    /// # Errors
    ///
    /// Something is wrong with it.
    pub fn attributes(&self) -> Result<Attributes> {
        self.files.size(&self.opened)?;
        self.files.shared().attributes(self.opened.ino())
    }

    /// Returns the file's size in bytes.
    ///
    /// # Errors
    ///
    /// As for [`Volume::size`](crate::Volume::size).
    pub fn size(&self) -> Result<u64> {
        self.files.size(&self.opened)
    }
}

impl File<Mapped> {
    /// Waits until the file is on the disk, and everything else that was done before, as [`Volume::sync`](crate::Volume::sync) does.
    ///
    /// # Errors
    ///
    /// As for [`Volume::sync`](crate::Volume::sync).
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

impl<M: SharedMemory> Drop for File<M> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // A file without a name goes when the store is mounted again, if it cannot now.
        // SAFETY: it is used no more.
        let opened = unsafe { ManuallyDrop::take(&mut self.opened) };
        let _ = self.files.close(opened);
    }
}
