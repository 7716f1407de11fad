//! A file mapped into memory as persistent memory.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use pagewalk_vm::addr::{PAGE_BYTES, Vpn};
use pagewalk_vm::file::{
    Checkpoints, MOST_FRAMES, NotPersistent, Pages, PersistentMemory, Remapped, STORE_MAGIC,
    checkpoint_frames, frames_of_store,
};
use rustix::fs::{FallocateFlags, FileType, FlockOperation, OFlags};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use crate::memory::lines::{
    self, MOST_FORESEEN, PAST_CACHES, copy_and_ask_for_more, copy_out, copy_past_caches, order_stores,
};
use crate::memory::medium::{self, Medium};
use crate::memory::missing::{self, Failure, Health, Source, Watched};
use crate::memory::reserved::Reserved;
use crate::memory::room::Room;
use crate::memory::single_threaded::is_single_threaded;
use crate::memory::translations::Translations;
use crate::memory::turns::Turns;
use crate::memory::view::View;

/// The host's huge pages.
const HUGE_BYTES: u64 = 2 << 20;
/// `MADV_COLLAPSE`, since Linux 6.1.
const MADV_COLLAPSE: i32 = 25;

/// The events that a store survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Survives {
    /// The end of the process, however sudden: the page cache keeps what was stored. A fence costs nothing.
    #[default]
    ProcessCrash,
    /// Power failures, too: a fence writes the file back.
    PowerFailure,
    /// Power failures, too, as far as programs ask for that: `fsync` writes the file back, a fence costs nothing, and a power failure
    /// leaves the state of a moment since the last one. Needs room behind the store, see [`Checkpoints`].
    Synced,
    /// Power failures, too, of a file that lies in persistent memory itself (DAX): what is flushed leaves the caches, and a fence
    /// waits for that.
    PowerFailureOfDax,
}

impl Survives {
    /// As a number, for another process.
    pub(crate) fn number(self) -> u64 {
        self as u64
    }

    /// Returns what a store survives by default: what programs ask for with `fsync`, if its file lies on a disk; everything in
    /// persistent memory.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or is of a kind that holds no store.
    pub fn usual(path: &Path) -> io::Result<Self> {
        let file = medium::open_to_read(path)?;
        Ok(match Medium::of(&file)? {
            Medium::Dax => Self::PowerFailureOfDax,
            _ if is_in_memory(file.as_fd())? => Self::ProcessCrash,
            _ => Self::Synced,
        })
    }

    pub(crate) fn of_number(number: u64) -> Option<Self> {
        [Self::ProcessCrash, Self::PowerFailure, Self::Synced, Self::PowerFailureOfDax]
            .into_iter()
            .find(|survives| survives.number() == number)
    }
}

/// When a new store's file gets its blocks on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Blocks {
    /// All of them when it is made: nothing finds the disk full later.
    #[default]
    AtOnce,
    /// Each when a frame in it is first used: the file takes what its files take, and an operation that finds the disk full fails with
    /// `ENOSPC`.
    AsNeeded,
}

/// A file, mapped whole, that no other process maps.
#[derive(Debug)]
pub struct Mapped {
    /// Before what is watched goes.
    _watched: Watched,
    /// The owner's: a process beside it closes its descriptor, by which all of the store could be written.
    file: Option<File>,
    start: NonNull<u8>,
    bytes: u64,
    /// What the mapping lies in.
    _reserved: Reserved,
    /// Files where the hardware finds them, if that is worth it.
    view: Option<View>,
    /// Beside the owner.
    translations: Option<Translations>,
    survives: Survives,
    /// The thread that flushes asks for what is written back.
    flushed: Turns,
    health: Health,
    /// The owner's, of a file whose blocks may be missing.
    room: Option<Room>,
    /// The owner's, where programs ask for what is to survive power failures.
    checkpoints: Option<Arc<Checkpoints>>,
    identity: u64,
    /// What is stored stays in this process, and is to be what recovery stores only.
    is_read_only: bool,
}

// SAFETY: the mapping belongs to this value and lives as long. Threads do not share it by itself: two of them could use the same bytes.
#[allow(unsafe_code)]
unsafe impl Send for Mapped {}

impl Mapped {
    /// Makes a file of so many bytes, with room for all of them; it holds zeroes. An empty file, and the file of a store, are overwritten.
    ///
    /// # Errors
    ///
    /// - `InvalidInput`: less than a page.
    /// - `AlreadyExists`: a file that holds something else than a store; [`Mapped::create_over`] overwrites it.
    /// - `ResourceBusy`: another process, or this one, has the store.
    /// - `StorageFull` and others: the file cannot be made, or there is not so much room.
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
        file.set_len(0)?;
        file.set_len(bytes)?;
        let room = match blocks {
            Blocks::AtOnce => Room::get_all(&file, bytes)?,
            Blocks::AsNeeded => Room::unknown(bytes),
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

    /// The owner's file, for the handler of faults.
    fn source(&self) -> Source {
        Source::new(self.health.clone(), self.file.as_ref(), self.bytes, false)
    }

    /// Returns what has made the store fail, if anything has: then every operation of the store answers `EIO`.
    pub fn failure(&self) -> Option<Failure> {
        self.health.failure()
    }

    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// Bytes of the store for which the disk has no room now.
    pub(crate) fn without_room(&self) -> u64 {
        let Some(missing) = self.room.as_ref().map(Room::missing).filter(|&missing| missing > 0) else {
            return 0;
        };
        let free =
            rustix::fs::fstatvfs(self.file()).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        missing.saturating_sub(free)
    }

    /// Pieces of 2 MiB that the hardware finds by itself, and how many there may be; nothing where it does not.
    pub fn mappings(&self) -> Option<(usize, usize)> {
        self.view.as_ref().map(View::counts)
    }

    /// Lets the hardware find no more than so many pieces.
    #[cfg(test)]
    pub(crate) fn limit_mappings(&mut self, limit: usize) {
        self.view = Some(View::with_limit(self.source(), limit));
    }

    /// Where bytes behind a page are in one piece, if the hardware finds all of them, or it was found before.
    #[inline(always)]
    pub(crate) fn place_of(&self, page: Vpn, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = bytes as u64;
        let find = |page| Pages(self).find(page).filter(|mapped| mapped.large).map(|mapped| mapped.frame);
        match (&self.view, &self.translations) {
            (Some(view), _) => view.at(page, offset, bytes, self.file(), find),
            (None, Some(translations)) if is_single_threaded() => {
                translations.at(page, offset, bytes, find).and_then(|at| self.place(at, bytes))
            }
            _ => None,
        }
    }

    /// Beside the owner: how often it has had the store to itself.
    #[inline]
    pub(crate) fn keep_translations_since(&self, number: u64) {
        if let Some(translations) = &self.translations {
            translations.keep_since(number);
        }
    }

    /// Lets the host have the file in huge pages, where its file system can (tmpfs): then the hardware's translations are those that
    /// the store's own table describes. Without, everything is the same and slower. It takes some seconds per GiB; says how many bytes are
    /// done.
    #[allow(unsafe_code)]
    pub fn make_huge_pages(&self, mut done: impl FnMut(u64)) {
        for at in (0..self.bytes / HUGE_BYTES).map(|chunk| chunk * HUGE_BYTES) {
            let Some(start) = self.place(at, HUGE_BYTES) else { break };
            // SAFETY: the range lies in the mapping; what it holds stays the same.
            let made = unsafe { libc::madvise(start.as_ptr().cast(), HUGE_BYTES as usize, MADV_COLLAPSE) };
            // A page that another thread holds for a moment is left as it is.
            let error = io::Error::last_os_error().raw_os_error();
            if made != 0 && !matches!(error, Some(libc::EAGAIN | libc::EBUSY)) {
                break;
            }
            done(at + HUGE_BYTES);
        }
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
            return Err(rustix::io::Errno::NOSPC.into());
        }
        if length < wanted {
            let done = rustix::fs::fallocate(&file, FallocateFlags::empty(), length, wanted - length);
            done.inspect_err(|_| {
                // What the disk had room for nothing needs.
                let _ = file.set_len(length);
            })?;
        }
        let checkpoints = self.checkpoints.as_ref().map(|_| Arc::default());
        let mapped = Self::map_shared(&file, self.survives, self.health.clone(), Some(&file))?;
        let mapped = Self { file: Some(file), checkpoints, ..mapped };
        let room = mapped.room_of_file()?;
        let view = self.view.as_ref().map(|_| View::new(mapped.source()));
        Ok(Self { room, view, ..mapped })
    }

    /// The owner's file, to let another process map it.
    pub(crate) fn file(&self) -> &File {
        self.file.as_ref().expect("the owner keeps it")
    }

    /// Whether an address lies in the mapping.
    pub(crate) fn has_address(&self, address: usize) -> bool {
        (self.start.as_ptr() as usize..).contains(&address)
            && address - (self.start.as_ptr() as usize) < self.bytes as usize
    }

    /// What it survives.
    pub(crate) fn survives(&self) -> Survives {
        self.survives
    }

    fn map(file: File, survives: Survives) -> io::Result<Self> {
        let mapped = Self::map_shared(&file, survives, Health::default(), Some(&file))?;
        Ok(Self { file: Some(file), ..mapped })
    }

    fn map_shared(file: &File, survives: Survives, health: Health, kept: Option<&File>) -> io::Result<Self> {
        // Nothing else can be written back there.
        let survives = if Medium::of(file)? == Medium::Dax { Survives::PowerFailureOfDax } else { survives };
        let map = |how| Self::map_as(file, survives, how, health, kept);
        if survives != Survives::PowerFailureOfDax {
            return map(MapFlags::SHARED);
        }
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // The kernel refuses this unless what is stored is in the memory that persists.
        let how = MapFlags::SHARED_VALIDATE | MapFlags::from_bits_retain(libc::MAP_SYNC as u32);
        map(how).map_err(|error| match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => {
                io::Error::new(io::ErrorKind::Unsupported, "the file does not lie in persistent memory (DAX)")
            }
            _ => error,
        })
    }

    /// Maps a file; `kept` is its descriptor, if that stays open as long as the mapping.
    #[allow(unsafe_code)]
    fn map_as(
        file: &File,
        survives: Survives,
        how: MapFlags,
        health: Health,
        kept: Option<&File>,
    ) -> io::Result<Self> {
        let identity = medium::identity(file);
        let bytes = medium::length(file)? / PAGE_BYTES * PAGE_BYTES;
        if bytes == 0 {
            let message = "the file has less than 4,096 bytes: there is no store in it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Aligned as the file is: huge pages can be mapped as such.
        let reserved = Reserved::new(bytes, HUGE_BYTES)?;
        let start = reserved.start();
        let fixed = how | MapFlags::FIXED;
        // SAFETY: this replaces what was just reserved.
        unsafe { rustix::mm::mmap(start.as_ptr().cast(), bytes as usize, protection, fixed, file, 0)? };
        let source = Source::new(health.clone(), kept, bytes, how.contains(MapFlags::PRIVATE));
        Ok(Self {
            _watched: Watched::new(start.as_ptr(), bytes, false, &source),
            file: None,
            start,
            bytes,
            _reserved: reserved,
            view: None,
            translations: None,
            survives,
            flushed: Turns::default(),
            health,
            room: None,
            checkpoints: None,
            identity,
            is_read_only: false,
        })
    }

    /// Where bytes lie; `None` for what [`Mapped::is_nowhere`] is about.
    #[inline]
    #[allow(unsafe_code)]
    fn place(&self, at: u64, bytes: u64) -> Option<NonNull<u8>> {
        if at > self.bytes || bytes > self.bytes - at {
            return self.is_nowhere(at, bytes);
        }
        // SAFETY: it lies within the mapping.
        Some(unsafe { self.start.add(at as usize) })
    }

    #[inline]
    #[allow(unsafe_code)]
    fn word(&self, at: u64) -> Option<&AtomicU64> {
        // There is a whole number of words.
        if at >= self.bytes || !at.is_multiple_of(8) {
            return self.is_nowhere(at, 8);
        }
        // SAFETY: (1) it lies within the mapping, which lives as long as `self`; (2) it is aligned.
        Some(unsafe { self.start.add(at as usize).cast::<AtomicU64>().as_ref() })
    }

    /// Lets the caches write back the lines that bytes lie in.
    #[inline]
    fn write_lines_back(&self, at: u64, bytes: u64) {
        if let Some(place) = self.place(at, bytes) {
            lines::write_back(place.as_ptr(), bytes as usize);
        }
    }

    /// An address outside of the memory, or between two words, is the caller's mistake, and ends the program. But where the memory has failed
    /// the caller may have taken it from a page of zeroes that replaced a missing one, or from what such a page led to: then nothing lies
    /// there, zeroes are read, and stores are lost, as in that page itself. Kept apart: what a message needs is not to be made ready for
    /// each word.
    #[cold]
    #[inline(never)]
    fn is_nowhere<T>(&self, at: u64, bytes: u64) -> Option<T> {
        assert!(self.health.has_failed(), "{bytes} bytes at {at:#x} of {:#x}", self.bytes);
        None
    }
}

/// Whether a file holds nothing, or one of its first two pages begins as a store's superblock does.
fn is_empty_or_store(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
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

/// Returns the time in nanoseconds since 1970, as exact as file systems have it: asking costs next to nothing.
#[allow(unsafe_code)]
pub fn coarse_now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // By the C library: `rustix` finds the kernel's code for it by itself, where valgrind does not let a program go.
    // SAFETY: there is room for the answer, and this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Whether a file is nowhere but in memory. A device has its name there, and its bytes elsewhere.
pub(crate) fn is_in_memory(file: BorrowedFd<'_>) -> io::Result<bool> {
    let is_file = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) == FileType::RegularFile;
    Ok(is_file && matches!(rustix::fs::fstatfs(file)?.f_type, libc::TMPFS_MAGIC | libc::HUGETLBFS_MAGIC))
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
            rustix::fs::fallocate(file, FallocateFlags::empty(), length, wanted - length).map_err(
                |error| {
                    let error = io::Error::from(error);
                    let room = (wanted - length) >> 20;
                    io::Error::new(
                        error.kind(),
                        format!("no room for checkpoints, {room} MiB behind the store: {error}"),
                    )
                },
            )?;
        }
    }
    Ok(())
}

/// One process owns a store, or several read it.
fn lock(file: &File, how: FlockOperation) -> io::Result<()> {
    rustix::fs::flock(file, how).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => {
            io::Error::new(io::ErrorKind::ResourceBusy, "another process has the store mounted")
        }
        error => error.into(),
    })
}

#[allow(unsafe_code)]
impl PersistentMemory for Mapped {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.word(at).map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)))
    }

    #[inline]
    fn store(&self, at: u64, word: u64) {
        if let Some(place) = self.word(at) {
            place.store(word.to_le(), Ordering::Relaxed);
        }
    }

    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) {
        let Some(place) = self.place(at, into.len() as u64) else { return into.fill(0) };
        // SAFETY: (1) all of it lies within the mapping; (2) no thread writes these bytes meanwhile, by the trait's contract.
        unsafe { copy_out(place.as_ptr(), into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    fn write(&self, at: u64, bytes: &[u8]) {
        let Some(place) = self.place(at, bytes.len() as u64) else { return };
        // SAFETY: as for `read`; no thread reads them either.
        unsafe { copy_past_caches(bytes.as_ptr(), place.as_ptr(), bytes.len()) }
    }

    /// Past the caches if no thread waits for that: the only thread goes on meanwhile, others wait at the next lock. What has to leave the
    /// caches at once had better pass them, too.
    #[inline]
    fn append(&self, at: u64, bytes: &[u8]) {
        let least = if is_single_threaded() { PAST_CACHES } else { MOST_FORESEEN + 1 };
        if bytes.len() >= least || self.survives == Survives::PowerFailureOfDax {
            return self.write(at, bytes);
        }
        let Some(place) = self.place(at, bytes.len() as u64) else { return };
        // SAFETY: as for `write`.
        unsafe { copy_and_ask_for_more(bytes.as_ptr(), place.as_ptr(), bytes.len()) }
    }

    #[inline]
    fn read_mapped(&self, page: Vpn, offset: u64, into: &mut [u8]) -> bool {
        let Some(place) = self.place_of(page, offset, into.len()) else { return false };
        // SAFETY: as for `read`.
        unsafe { copy_out(place.as_ptr(), into.as_mut_ptr(), into.len()) };
        true
    }

    #[inline]
    fn write_mapped(&self, page: Vpn, offset: u64, bytes: &[u8]) -> bool {
        let Some(place) = self.place_of(page, offset, bytes.len()) else { return false };
        // SAFETY: as for `write`.
        unsafe { copy_past_caches(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
        match self.survives {
            // Stores past the caches need no flush, but not all of them go past.
            Survives::PowerFailureOfDax => lines::write_back(place.as_ptr(), bytes.len()),
            _ => self.flush(0, 0),
        }
        true
    }

    fn remapped(&self, change: Remapped) {
        if let Some(view) = &self.view {
            view.follow(change);
        }
    }

    fn zero(&self, at: u64, bytes: u64) {
        let Some(place) = self.place(at, bytes) else { return };
        // SAFETY: as for `write`.
        unsafe { std::ptr::write_bytes(place.as_ptr(), 0, bytes as usize) }
    }

    #[inline]
    fn flush(&self, at: u64, bytes: u64) {
        match self.survives {
            Survives::ProcessCrash | Survives::Synced => {}
            Survives::PowerFailure => {
                self.flushed.ask();
            }
            Survives::PowerFailureOfDax => self.write_lines_back(at, bytes),
        }
    }

    #[inline]
    fn fence(&self) {
        match self.survives {
            // Whenever the process ends, what it has stored before that is stored, and nothing behind: the processor takes an
            // interrupt between two instructions, whatever order memory sees their stores in.
            Survives::ProcessCrash | Survives::Synced => compiler_fence(Ordering::SeqCst),
            Survives::PowerFailure => {
                order_stores();
                self.write_back();
            }
            Survives::PowerFailureOfDax => order_stores(),
        }
    }

    fn provide(&self, at: u64, bytes: u64) -> bool {
        self.room.as_ref().is_none_or(|room| room.get(self.file(), at, bytes))
    }

    #[inline]
    fn has_failed(&self) -> bool {
        self.health.has_failed()
    }

    fn persist(&self, at: u64, bytes: u64) -> Result<(), NotPersistent> {
        order_stores();
        if self.survives == Survives::PowerFailureOfDax {
            self.write_lines_back(at, bytes);
            order_stores();
            return Ok(());
        }
        let (first, end) = (at / PAGE_BYTES * PAGE_BYTES, at + bytes);
        let start = self.place(first, end - first).ok_or(NotPersistent)?.as_ptr().cast();
        // SAFETY: the range lies in the mapping, which lives as long as `self`.
        let done = unsafe { rustix::mm::msync(start, (end - first) as usize, MsyncFlags::SYNC) };
        if done.is_err() {
            self.health.fail(Failure::NotWritten);
        }
        // A page of zeroes that took a missing one's place is no part of the file.
        if self.has_failed() { Err(NotPersistent) } else { Ok(()) }
    }

    #[inline]
    fn checkpoints(&self) -> Option<&Checkpoints> {
        self.checkpoints.as_deref()
    }

    fn identity(&self) -> u64 {
        self.identity
    }

    #[inline]
    fn is_read_only(&self) -> bool {
        self.is_read_only
    }
}

impl Mapped {
    /// The same as `fdatasync` of the file, without a descriptor of it.
    #[allow(unsafe_code)]
    fn write_back_mapping(&self) -> io::Result<()> {
        // SAFETY: the mapping is this value's, and what it holds stays the same.
        unsafe {
            rustix::mm::msync(self.start.as_ptr().cast(), self.bytes as usize, rustix::mm::MsyncFlags::SYNC)?
        };
        Ok(())
    }

    /// Whatever was flushed until now is on the disk when this returns, whichever thread writes it back, or the store has failed.
    #[cold]
    fn write_back(&self) {
        let synced = self.flushed.take(|| match &self.file {
            Some(file) => file.sync_data(),
            None => self.write_back_mapping(),
        });
        // What cannot be written back is not promised.
        if synced.is_err() {
            self.health.fail(Failure::NotWritten);
        }
    }
}

#[cfg(test)]
mod tests;
