//! Ways to a store's file: made, opened by its owner, opened to be read, mapped once more, and made longer.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::{Checkpoints, MOST_FRAMES, STORE_MAGIC, checkpoint_frames, frames_of_store};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::mm::MapFlags;

use crate::memory::mapped::Mapped;
use crate::memory::medium::{self, Medium, is_in_memory};
use crate::memory::missing::{self, Health};
use crate::memory::room::{self, Room};
use crate::memory::survives::{Blocks, Survives};
use crate::memory::translations::Translations;
use crate::memory::view::View;

impl Mapped {
    /// Makes a file of so many bytes, with room for all of them; it holds zeroes. An empty file, and the file of a store, are overwritten.
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: less than a page.
    /// - `AlreadyExists`: a file that holds something else than a store; [`Mapped::create_over`] overwrites it.
    /// - `ResourceBusy`: another process, or this one, has the store.
    /// - `StorageFull`: the disk has too little room; an old store stays as it was.
    /// - Others: the file cannot be made.
    pub fn create(path: &Path, bytes: u64, survives: Survives) -> io::Result<Self> {
        Self::create_in(path, bytes, survives, Blocks::AtOnce, false)
    }

    /// Creates a store over any file, and with a choice when it gets its blocks.
    ///
    /// # Errors
    ///
    /// As [`Mapped::create`], but for a file that holds something else.
    pub fn create_over(path: &Path, bytes: u64, survives: Survives, blocks: Blocks) -> io::Result<Self> {
        Self::create_in(path, bytes, survives, blocks, true)
    }

    fn create_in(
        path: &Path,
        bytes: u64,
        survives: Survives,
        blocks: Blocks,
        over_anything: bool,
    ) -> io::Result<Self> {
        missing::watch_for();
        if bytes < PAGE_BYTES {
            let message = format!("{bytes} bytes; allowed: {PAGE_BYTES} and more");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let file = match medium::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                File::options().read(true).write(true).create(true).truncate(false).open(path)?
            }
            opened => opened?,
        };
        let medium = Medium::of(&file)?;
        lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        if !over_anything && !is_empty_or_store(&file)? {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the file holds something else than a store",
            ));
        }
        let bytes = bytes / PAGE_BYTES * PAGE_BYTES;
        if medium != Medium::File {
            let has = medium::length(&file)?;
            if bytes > has {
                let message = format!("{bytes} bytes; the device has {has}");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            // What lies behind is room for checkpoints.
            return Ok(Self { bytes, ..Self::map(file, survives)? });
        }
        let room = match blocks {
            Blocks::AtOnce => Room::get_all(&file, bytes)?,
            Blocks::AsNeeded => {
                file.set_len(0)?;
                file.set_len(bytes)?;
                Room::unknown(bytes)
            }
        };
        Self { room: Some(room), ..Self::map(file, survives)? }.with_view()
    }

    /// Bytes of the largest store that a device holds, with room for checkpoints behind it; nothing for what is no device.
    ///
    /// # Errors
    ///
    /// There is no such file, or it is of a kind that holds no store.
    pub fn most_bytes(path: &Path) -> io::Result<Option<u64>> {
        let medium = Medium::at(path)?;
        if medium == Medium::File {
            return Ok(None);
        }
        let frames = medium::length(&medium::open_to_read(path)?)? / PAGE_BYTES;
        let behind = if medium == Medium::Dax { 0 } else { checkpoint_frames(frames) };
        Ok(Some(frames.saturating_sub(behind).min(MOST_FRAMES) * PAGE_BYTES))
    }

    /// Lets the hardware find files' bytes by itself, where the host has huge pages for the file. Elsewhere every page would be
    /// looked up twice, once for each way to it.
    fn with_view(self) -> io::Result<Self> {
        let has_huge_pages = is_in_memory(self.file().as_fd())?;
        let view = has_huge_pages.then(|| View::new(self.source()));
        Ok(Self { view, ..self })
    }

    /// What the owner's file has of its room. A device has all of it.
    fn room_of_file(&self) -> io::Result<Option<Room>> {
        let file = self.file();
        if Medium::of(file)? != Medium::File {
            return Ok(None);
        }
        Room::of_file(file, self.bytes, is_in_memory(file.as_fd())?).map(Some)
    }

    /// Maps a store's file.
    ///
    /// # Errors
    ///
    /// It cannot be opened or mapped, or another process uses it.
    pub fn open(path: &Path, survives: Survives) -> io::Result<Self> {
        missing::watch_for();
        let file = medium::open(path)?;
        lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let checkpoints = (survives == Survives::Synced).then(Arc::default);
        if checkpoints.is_some() {
            make_room_for_checkpoints(&file)?;
        }
        let mapped = Self::map(file, survives)?;
        Self { checkpoints, room: mapped.room_of_file()?, ..mapped }.with_view()
    }

    /// Maps a file to read it only: it need not be writable, nor lie on a medium that is. Several processes may do so at a time, while
    /// none has the store to change it. What recovery from a crash stores goes to copies of pages that this process has alone.
    ///
    /// # Errors
    ///
    /// It cannot be opened or mapped, or another process has the store to change it (`ResourceBusy`).
    pub fn open_read_only(path: &Path) -> io::Result<Self> {
        missing::watch_for();
        let file = medium::open_to_read(path)?;
        lock(&file, FlockOperation::NonBlockingLockShared)?;
        Self::map_read_only(&file, Some(&file)).map(|mapped| Self { file: Some(file), ..mapped })
    }

    /// The mapping is private and could be written: safe code has ways to store, and a fault would end the process.
    fn map_read_only(file: &File, kept: Option<&File>) -> io::Result<Self> {
        let how = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let mapped = Self::map_as(file, Survives::ProcessCrash, how, Health::default(), kept)?;
        Ok(Self { is_read_only: true, ..mapped })
    }

    /// Maps the file of a store that another process owns. An owner that only reads has passed on a descriptor that only reads.
    pub(crate) fn beside_owner(file: File, survives: Survives) -> io::Result<Self> {
        let is_writable = rustix::fs::fcntl_getfl(&file)?.contains(OFlags::RDWR);
        let mapped = match is_writable {
            true => Self::map_shared(&file, survives, Health::default(), None),
            false => Self::map_read_only(&file, None),
        };
        Ok(Self { translations: Some(Translations::new()), ..mapped? })
    }

    /// The same memory once more, and its checkpoints, for a thread that waits for the disk while others have the store; nothing where
    /// programs cannot ask for that.
    ///
    /// # Errors
    ///
    /// It cannot be mapped.
    pub(crate) fn for_checkpoints(&self) -> io::Result<Option<(Self, Arc<Checkpoints>)>> {
        let Some(checkpoints) = self.checkpoints.clone() else { return Ok(None) };
        let health = self.health.clone();
        let memory = Self::map_shared(self.file(), self.survives, health, None)?;
        Ok(Some((memory, checkpoints)))
    }

    /// Makes the file as long as a store of so many frames needs, with room for checkpoints where this memory has them, and maps it once
    /// more.
    ///
    /// # Errors
    ///
    /// The disk is full; the file is as long as it was then. Or there is no address for the mapping.
    pub(crate) fn longer(&self, frames: u64) -> io::Result<Self> {
        let file = self.file().try_clone()?;
        let behind = self.checkpoints.as_ref().map_or(0, |_| checkpoint_frames(frames));
        let (length, wanted) = (medium::length(&file)?, (frames + behind) * PAGE_BYTES);
        if length < wanted && Medium::of(&file)? != Medium::File {
            return Err(Errno::NOSPC.into());
        }
        if length < wanted {
            room::lengthen(&file, length, wanted)?;
        }
        let checkpoints = self.checkpoints.as_ref().map(|_| Arc::default());
        let mapped = Self::map_shared(&file, self.survives, self.health.clone(), Some(&file))?;
        let mapped = Self { file: Some(file), checkpoints, ..mapped };
        let room = mapped.room_of_file()?;
        let view = self.view.as_ref().map(|_| View::new(mapped.source()));
        Ok(Self { room, view, ..mapped })
    }
}

/// Whether a file holds nothing, or one of its first two pages begins as a store's superblock does.
fn is_empty_or_store(file: &File) -> io::Result<bool> {
    let is_superblock = |at| {
        let mut word = [0; 8];
        let read = file.read_at(&mut word, at)?;
        Ok::<_, io::Error>(read == word.len() && u64::from_le_bytes(word) == STORE_MAGIC)
    };
    if Medium::of(file)? == Medium::Dax {
        // Its bytes cannot be read without being mapped.
        return Ok(false);
    }
    Ok(medium::length(file)? == 0 || is_superblock(0)? || is_superblock(PAGE_BYTES)?)
}

/// Lets the file have room for checkpoints behind the store that it holds.
fn make_room_for_checkpoints(file: &File) -> io::Result<()> {
    let mut superblocks = [[0; 6]; 2];
    for (at, words) in (0..).step_by(PAGE_BYTES as usize).zip(&mut superblocks) {
        let mut bytes = [0; 48];
        // What is too short holds no store, which others say.
        let _ = file.read_at(&mut bytes, at)?;
        *words = std::array::from_fn(|word| {
            u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * word + byte]))
        });
    }
    if let Some(frames) = frames_of_store(superblocks) {
        let length = medium::length(file)?;
        let wanted = (frames + checkpoint_frames(frames)) * PAGE_BYTES;
        if length < wanted && Medium::of(file)? != Medium::File {
            let message =
                format!("no room for checkpoints behind the store: {length} bytes; wanted: {wanted}");
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        if (frames * PAGE_BYTES..wanted).contains(&length) {
            room::lengthen(file, length, wanted).map_err(|error| {
                let message = format!("no room for checkpoints behind the store: {error}");
                io::Error::new(error.kind(), message)
            })?;
        }
    }
    Ok(())
}

/// How long a lock may be waited for. A process that another thread starts has all files of this one between `fork` and `exec`, and with
/// them the lock of a store that is closed meanwhile.
const MOST_WAIT: Duration = Duration::from_millis(500);

/// One process owns a store, or several read it.
fn lock(file: &File, how: FlockOperation) -> io::Result<()> {
    let until = Instant::now() + MOST_WAIT;
    loop {
        match rustix::fs::flock(file, how) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Errno::WOULDBLOCK) => {
                let message = "another process has the store mounted";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
            }
            ended => return ended.map_err(io::Error::from),
        }
    }
}
