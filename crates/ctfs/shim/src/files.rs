//! Open files of mounted stores, by descriptor.

use std::cell::Cell;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use libc::{c_int, c_uint, off_t, ssize_t};
use pagewalk_ctfs::alone::{self, Reading, Writing};
use pagewalk_ctfs::{Client, Lease, Place, Written};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::mappings;
use crate::real::real;

/// Descriptors from this one on are the kernel's alone.
pub(crate) const DESCRIPTORS: usize = 4_096;
/// Descriptors of the program's standard streams: the C library uses them behind our back.
const STREAMS: c_int = 2;
/// Bytes that get frames ahead of a file's end: so many times its size, at least and at most. Closing it gives back what it did not
/// need.
const AHEAD: u64 = 16;
const LEAST_AHEAD: u64 = 128 << 10;
const MOST_AHEAD: u64 = 16 << 20;
/// Attempts to write where there are frames now.
const MOST_ATTEMPTS: u32 = 100;
/// Operations between two attempts to get a lease back, at most.
const MOST_SKIPPED: u32 = 1_024;

/// No descriptor.
const NONE: c_int = -1;

/// A file, however often it is open.
struct File {
    /// Shared by whoever reads. The lease is there as long as it is known to hold.
    lease: RwLock<Option<Lease>>,
    /// The only descriptor, as long as the owner does not know that it is ours: many files are opened to be mapped, inherited or
    /// looked at.
    unknown: AtomicI32,
    /// Attempts to get it back that are to be left out, and how many were the last time.
    skips: AtomicU32,
    skipped: AtomicU32,
}

/// What descriptors that are copies of each other share.
pub(crate) struct Description {
    file: Arc<File>,
    client: &'static Client,
    offset: RwLock<u64>,
    appends: AtomicBool,
    reads: bool,
    writes: bool,
    /// The kernel has the offset, and everything else, from now on.
    is_kernels: AtomicBool,
}

type Slot = RwLock<Option<Arc<Description>>>;
/// By device and inode.
type Files = FxHashMap<(u64, u64), Weak<File>>;

static OPEN: [Slot; DESCRIPTORS] = [const { RwLock::new(None) }; DESCRIPTORS];
/// Whether there is anything in the slot: most descriptors are no files of ours.
static IS_OPEN: [AtomicBool; DESCRIPTORS] = [const { AtomicBool::new(false) }; DESCRIPTORS];
static FILES: Mutex<Option<Files>> = Mutex::new(None);
/// The owner of one mount; a process uses one.
static CLIENT: AtomicPtr<Client> = AtomicPtr::new(std::ptr::null_mut());
static CONNECTING: Mutex<()> = Mutex::new(());
/// The mount's device, and one that is known to be none.
static OURS: AtomicU64 = AtomicU64::new(u64::MAX);
static OTHER: AtomicU64 = AtomicU64::new(u64::MAX);
/// The process that the tables belong to. A child that shares the memory for a while has another number.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Calls that come from here are the kernel's.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// The same of the only thread: finding what is a thread's own takes as long as everything else.
struct OnlyThreads(Cell<bool>);

// SAFETY: there is only one.
unsafe impl Sync for OnlyThreads {}

static IS_ONLY_WITHIN: OnlyThreads = OnlyThreads(Cell::new(false));

/// Calls from within pass by: those made from here, and those of a signal's handler, which must not wait for what it has
/// interrupted. Nothing that is done within starts a thread.
struct Within(*const Cell<bool>);

impl Within {
    #[inline]
    fn new() -> Option<Self> {
        let enter = |is_within: &Cell<bool>| (!is_within.replace(true)).then_some(Self(is_within));
        if alone::is_alone() { enter(&IS_ONLY_WITHIN.0) } else { IS_WITHIN.with(enter) }
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is this thread's, which alone has the value.
        unsafe { &*self.0 }.set(false);
    }
}

#[inline]
fn reading<T>(lock: &RwLock<T>) -> Reading<'_, T> {
    // SAFETY: it is dropped within, and no lock is taken twice there.
    unsafe { alone::read(lock) }
}

#[inline]
fn writing<T>(lock: &RwLock<T>) -> Writing<'_, T> {
    // SAFETY: as for `reading`.
    unsafe { alone::write(lock) }
}

/// A call's result as C has it; the error's number is in its place.
type Answer = Option<ssize_t>;

fn failed(number: c_int) -> Answer {
    // SAFETY: it is this thread's.
    unsafe { *libc::__errno_location() = number };
    Some(-1)
}

fn is_our_process() -> bool {
    // SAFETY: it always succeeds.
    PROCESS.load(Ordering::Relaxed) == unsafe { libc::getpid() } as u32
}

#[inline]
fn slot(descriptor: c_int) -> Option<usize> {
    let slot = usize::try_from(descriptor).ok()?;
    (slot < DESCRIPTORS && IS_OPEN[slot].load(Ordering::Acquire)).then_some(slot)
}

/// A file that a call uses; who closes its descriptor waits. Until it is dropped, other calls of the thread are the kernel's.
pub(crate) struct Used {
    slot: Reading<'static, Option<Arc<Description>>>,
    _within: Within,
}

impl Deref for Used {
    type Target = Description;

    fn deref(&self) -> &Description {
        self.slot.as_ref().expect("it was there")
    }
}

/// The open file behind a descriptor, if it is one of ours.
#[inline]
pub(crate) fn get(descriptor: c_int) -> Option<Used> {
    let slot = slot(descriptor)?;
    let within = Within::new()?;
    let slot = reading(&OPEN[slot]);
    let is_ours = slot.as_ref().is_some_and(|description| !description.is_kernels.load(Ordering::Acquire));
    is_ours.then_some(Used { slot, _within: within })
}

/// From now on this is behind a descriptor.
fn put(descriptor: c_int, description: Option<Arc<Description>>, _: &Within) {
    let Some(slot) = usize::try_from(descriptor).ok().filter(|&slot| slot < DESCRIPTORS) else { return };
    let is_there = description.is_some();
    let old = std::mem::replace(&mut *writing(&OPEN[slot]), description);
    IS_OPEN[slot].store(is_there, Ordering::Release);
    drop(old);
}

fn borrowed(descriptor: &c_int) -> BorrowedFd<'_> {
    // SAFETY: it is open: the program has just got it or is using it.
    unsafe { BorrowedFd::borrow_raw(*descriptor) }
}

fn client(descriptor: c_int, device: u64) -> Option<&'static Client> {
    // SAFETY: clients are never freed.
    let known = || unsafe { CLIENT.load(Ordering::Acquire).as_ref() };
    let ours = |client| (OURS.load(Ordering::Relaxed) == device).then_some(client);
    if let Some(client) = known() {
        return ours(client);
    }
    if OTHER.load(Ordering::Relaxed) == device {
        return None;
    }
    let _connecting = CONNECTING.lock();
    if let Some(client) = known() {
        return ours(client);
    }
    let Ok(client) = Client::connect(borrowed(&descriptor)) else {
        OTHER.store(device, Ordering::Relaxed);
        return None;
    };
    // SAFETY: handlers of ours, for as long as the program runs.
    unsafe {
        if PROCESS.swap(libc::getpid() as u32, Ordering::Relaxed) == 0 {
            libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
        }
    }
    OURS.store(device, Ordering::Relaxed);
    let client = Box::leak(Box::new(client));
    CLIENT.store(client, Ordering::Release);
    Some(client)
}

/// A file was opened: from now on its bytes may be used here.
pub(crate) fn opened(descriptor: c_int, flags: c_int) {
    let kept = [libc::O_PATH, libc::O_DIRECTORY].iter().all(|&flag| flags & flag != flag);
    if descriptor <= STREAMS || descriptor as usize >= DESCRIPTORS || !kept {
        return;
    }
    let Some(within) = Within::new() else { return };
    let error = std::io::Error::last_os_error();
    track(descriptor, flags, &within);
    // What the call says of itself stays.
    failed(error.raw_os_error().unwrap_or(0));
}

fn track(descriptor: c_int, flags: c_int, within: &Within) {
    let file = borrowed(&descriptor);
    let Ok(status) = rustix::fs::fstat(file) else { return };
    if status.st_mode & libc::S_IFMT != libc::S_IFREG {
        return;
    }
    let Some(client) = client(descriptor, status.st_dev) else { return };
    if !is_our_process() || has_size_limit() {
        return;
    }
    let access = flags & libc::O_ACCMODE;
    let known = {
        let mut files = FILES.lock();
        let files = files.get_or_insert_with(FxHashMap::default);
        let known = files.get(&(status.st_dev, status.st_ino)).and_then(Weak::upgrade);
        known.ok_or_else(|| {
            let file = Arc::new(File {
                lease: RwLock::new(None),
                unknown: AtomicI32::new(descriptor),
                skips: AtomicU32::new(0),
                skipped: AtomicU32::new(0),
            });
            if files.len() > DESCRIPTORS {
                files.retain(|_, file| file.strong_count() > 0);
            }
            files.insert((status.st_dev, status.st_ino), Arc::downgrade(&file));
            file
        })
    };
    let file = match known {
        Ok(file) => {
            // The owner must know that all of them are ours.
            file.tell_of_first(client, within);
            *writing(&file.lease) = client.lease(borrowed(&descriptor), None).ok();
            file
        }
        Err(file) => file,
    };
    let description = Description {
        file,
        client,
        offset: RwLock::new(0),
        appends: AtomicBool::new(flags & libc::O_APPEND != 0),
        reads: access != libc::O_WRONLY,
        writes: access != libc::O_RDONLY,
        is_kernels: AtomicBool::new(false),
    };
    put(descriptor, Some(Arc::new(description)), within);
}

/// The kernel would end a program that writes beyond its limit.
fn has_size_limit() -> bool {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_some()
}

/// A descriptor is closed, or becomes another one.
pub(crate) fn closed(descriptor: c_int) {
    let Some(slot) = slot(descriptor).filter(|_| is_our_process()) else { return };
    match Within::new() {
        Some(within) => put(descriptor, None, &within),
        // What a signal's handler has interrupted may use it still.
        None => IS_OPEN[slot].store(false, Ordering::Release),
    }
}

/// A descriptor is a copy of another one.
pub(crate) fn copied(from: c_int, to: c_int) {
    if from == to {
        return;
    }
    // Not both slots at once: another thread may copy the other way round.
    let Some(description) = get(from).and_then(|used| used.slot.clone()) else { return closed(to) };
    if to <= STREAMS || to as usize >= DESCRIPTORS || !is_our_process() {
        if let Some(_within) = Within::new() {
            description.hand_back(to);
        }
        closed(to);
    } else if let Some(within) = Within::new() {
        // One of the two may be closed.
        description.file.tell_of_first(description.client, &within);
        put(to, Some(description), &within);
    }
}

/// Descriptors that this process is a client by.
fn own() -> impl Iterator<Item = c_int> {
    // SAFETY: clients are never freed.
    let client = unsafe { CLIENT.load(Ordering::Acquire).as_ref() };
    let descriptors = client.map(|client| client.descriptors().map(|descriptor| descriptor.as_raw_fd()));
    descriptors.into_iter().flatten().chain(mappings::kept())
}

/// Whether it is one of them.
pub(crate) fn is_own(descriptor: c_int) -> bool {
    descriptor >= 0 && own().any(|own| own == descriptor)
}

/// The first one from a descriptor on.
pub(crate) fn next_own(from: c_uint) -> Option<c_uint> {
    own().filter_map(|own| c_uint::try_from(own).ok()).filter(|&own| own >= from).min()
}

/// A call's result if it is not done, with the error's number in its place.
pub(crate) fn refused(number: c_int) -> c_int {
    failed(number);
    -1
}

/// A child that shares this process's memory ends without having become another program.
pub(crate) fn ends_with_our_memory() {
    // SAFETY: clients are never freed.
    if let Some(client) = unsafe { CLIENT.load(Ordering::Acquire).as_ref() } {
        client.end_alone();
    }
}

/// The same if it is this one that ends.
pub(crate) fn ends() {
    if !is_our_process() {
        ends_with_our_memory();
    }
}

/// Hands files back before a program is started, which may inherit them: those that it can see, or all.
pub(crate) fn before_exec(all: bool) {
    if CLIENT.load(Ordering::Acquire).is_null() {
        return;
    }
    for (descriptor, is_open) in (0..).zip(&IS_OPEN) {
        if !is_open.load(Ordering::Acquire) {
            continue;
        }
        let flags = rustix::io::fcntl_getfd(borrowed(&descriptor));
        let is_inherited = flags.is_ok_and(|flags| !flags.contains(rustix::io::FdFlags::CLOEXEC));
        if let Some(description) = get(descriptor).filter(|_| all || is_inherited) {
            description.hand_back(descriptor);
        }
    }
}

/// A child has the same descriptors, and the kernel's offsets.
extern "C" fn before_fork() {
    before_exec(true);
    mappings::before_fork();
}

extern "C" fn in_parent() {
    mappings::after_fork(false);
}

/// A child is another process: the owner does not know it yet.
extern "C" fn in_child() {
    mappings::after_fork(true);
    // Other threads of the parent may have held any of these, and are not here. What they guard is not freed: they were using it.
    for (slot, is_open) in OPEN.iter().zip(&IS_OPEN) {
        if is_open.swap(false, Ordering::AcqRel) {
            // SAFETY: (1) no other thread is here, and this one holds none; (2) all of it may be written through a shared reference.
            unsafe { std::ptr::from_ref(slot).cast_mut().write(RwLock::new(None)) };
        }
    }
    // SAFETY: as above.
    unsafe {
        std::ptr::from_ref(&FILES).cast_mut().write(Mutex::new(None));
        std::ptr::from_ref(&CONNECTING).cast_mut().write(Mutex::new(()));
    }
    let client = CLIENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !client.is_null() {
        // SAFETY: (1) clients are never freed; (2) nobody uses this one any more.
        for descriptor in unsafe { &*client }.descriptors().map(|descriptor| descriptor.as_raw_fd()) {
            real!(close(descriptor => c_int) -> c_int);
        }
    }
    // SAFETY: it always succeeds.
    PROCESS.store(unsafe { libc::getpid() } as u32, Ordering::Relaxed);
}

impl File {
    /// The owner learns that its only descriptor is ours.
    fn tell_of_first(&self, client: &Client, _: &Within) {
        let Ok(first) = usize::try_from(self.unknown.swap(NONE, Ordering::AcqRel)) else { return };
        // It stays open as long as this is held.
        let slot = reading(&OPEN[first]);
        if slot.as_ref().is_some_and(|description| std::ptr::eq(&*description.file, self)) {
            // What it is refused it asks for again.
            *writing(&self.lease) = client.lease(borrowed(&(first as c_int)), None).ok();
        }
    }
}

impl Description {
    /// The kernel has the file from now on, at the offset that it has.
    pub(crate) fn hand_back(&self, descriptor: c_int) {
        let offset = writing(&self.offset);
        if self.is_kernels.load(Ordering::Acquire) {
            return;
        }
        let mut lease = writing(&self.file.lease);
        // Otherwise nothing was done with it here, and as long as the owner does not hear of it nobody else will.
        if self.file.unknown.swap(NONE, Ordering::AcqRel) == NONE {
            *lease = None;
            self.file.skipped.store(MOST_SKIPPED, Ordering::Relaxed);
            // The kernel must not keep bytes of a file that is written beside it. While a program is stopped in the middle of a copy
            // the owner cannot end leases; if the owner is gone there is nothing to keep apart.
            while Client::bar(borrowed(&descriptor)) == Err(rustix::io::Errno::BUSY) {}
            // The kernel learns how long the file is: it would not let anybody see a mapping beyond what it knows.
            let _ = rustix::fs::fstat(borrowed(&descriptor));
        }
        let _ = rustix::fs::seek(borrowed(&descriptor), rustix::fs::SeekFrom::Start(*offset));
        // Only now: who sees this goes on at the kernel's offset.
        self.is_kernels.store(true, Ordering::Release);
    }

    /// Maps bytes of the file, if that can be done here.
    pub(crate) fn map(
        &self,
        descriptor: c_int,
        bytes: (off_t, usize),
        protection: c_int,
        flags: c_int,
    ) -> Option<*mut libc::c_void> {
        if !self.reads || !is_our_process() {
            return None;
        }
        // Nobody hands it back meanwhile.
        let _lease = reading(&self.file.lease);
        if self.is_kernels.load(Ordering::Acquire) {
            return None;
        }
        self.file.unknown.store(NONE, Ordering::Release);
        mappings::map(self.client, borrowed(&descriptor), bytes, protection, flags, self.writes)
    }

    /// Nobody has asked for a lease yet, or somebody else has used the file: perhaps that is over. Who is about to write says where and
    /// how much.
    fn gain(&self, descriptor: c_int, written: Option<(Place, u64)>) -> bool {
        let file = &self.file;
        if file.skips.load(Ordering::Relaxed) > 0 {
            file.skips.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let mut lease = writing(&file.lease);
        if self.is_kernels.load(Ordering::Acquire) {
            return false;
        }
        file.unknown.store(NONE, Ordering::Release);
        if lease.is_none() {
            *lease = self.client.lease(borrowed(&descriptor), written).ok();
        }
        let next = if lease.is_some() {
            0
        } else {
            (file.skipped.load(Ordering::Relaxed) * 2).clamp(1, MOST_SKIPPED)
        };
        file.skipped.store(next, Ordering::Relaxed);
        file.skips.store(next, Ordering::Relaxed);
        lease.is_some()
    }

    /// Does something under the lease, or otherwise without one: nobody of this process gets it meanwhile, so that the kernel keeps
    /// nothing that is written beside it.
    #[inline]
    fn leased<T>(
        &self,
        descriptor: c_int,
        mut act: impl FnMut(&Lease) -> Option<T>,
        otherwise: impl FnOnce() -> T,
    ) -> T {
        let done = reading(&self.file.lease).as_ref().and_then(&mut act);
        match done {
            Some(done) => done,
            None => self.leased_again(descriptor, &mut act, otherwise),
        }
    }

    #[cold]
    fn leased_again<T>(
        &self,
        descriptor: c_int,
        act: &mut dyn FnMut(&Lease) -> Option<T>,
        otherwise: impl FnOnce() -> T,
    ) -> T {
        for _ in 0..2 {
            let lease = reading(&self.file.lease);
            if let Some(done) = lease.as_ref().and_then(&mut *act) {
                return done;
            }
            let is_over = lease.is_some();
            drop(lease);
            if is_over {
                *writing(&self.file.lease) = None;
            }
            if !self.gain(descriptor, None) {
                break;
            }
        }
        let lease = reading(&self.file.lease);
        match lease.as_ref().and_then(act) {
            Some(done) => done,
            None => otherwise(),
        }
    }

    /// Reads at an offset into one part.
    #[inline]
    fn read_part(&self, descriptor: c_int, at: u64, part: &mut [u8]) -> ssize_t {
        let (start, length) = (part.as_mut_ptr().cast(), part.len());
        self.leased(
            descriptor,
            |lease| self.client.read(lease, at, part).map(|read| read as ssize_t),
            || real!(pread64(descriptor => c_int, start => *mut libc::c_void, length => usize, at as off_t => off_t) -> ssize_t),
        )
    }

    /// Reads at an offset into all parts.
    #[inline]
    fn read_parts(&self, descriptor: c_int, offset: u64, parts: &mut [&mut [u8]]) -> Answer {
        if !self.reads {
            return failed(libc::EBADF);
        }
        if let [part] = parts {
            return Some(self.read_part(descriptor, offset, part));
        }
        let mut done = 0;
        for part in parts {
            match usize::try_from(self.read_part(descriptor, offset + done as u64, part)) {
                Ok(read) => {
                    done += read;
                    if read < part.len() {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(_) => return Some(-1),
            }
        }
        Some(done as ssize_t)
    }

    /// Writes all parts, at an offset or behind the end. Where that ended, if anything was written.
    fn write_parts(&self, descriptor: c_int, place: Place, parts: &[&[u8]]) -> (Answer, Option<u64>) {
        if !self.writes {
            return (failed(libc::EBADF), None);
        }
        let mut end = None;
        let mut done = 0;
        // One after the other, without anybody between.
        let mut lease = writing(&self.file.lease);
        if lease.is_none() {
            drop(lease);
            let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
            self.gain(descriptor, Some((place, bytes.clamp(LEAST_AHEAD, MOST_AHEAD))));
            lease = writing(&self.file.lease);
        }
        let pieces = parts.iter().flat_map(|part| part.chunks(Client::most_at_once()));
        for piece in pieces {
            let at = match place {
                Place::At(offset) => Place::At(offset + done as u64),
                Place::End => end.map_or(Place::End, Place::At),
            };
            match self.write_piece(descriptor, &mut lease, at, piece) {
                Ok((offset, written)) => {
                    done += written;
                    end = Some(offset + written as u64);
                    if written < piece.len() {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(number) => return (failed(number), None),
            }
        }
        (Some(done as ssize_t), end)
    }

    fn write_piece(
        &self,
        descriptor: c_int,
        lease: &mut Option<Lease>,
        place: Place,
        piece: &[u8],
    ) -> Result<(u64, usize), c_int> {
        let mut piece = piece;
        let mut attempts = 0;
        while let Some(held) = lease.filter(|lease| lease.writes) {
            match self.client.write(&held, place, piece) {
                Written::At(offset) => return Ok((offset, piece.len())),
                Written::Ended => *lease = None,
                Written::NoFrames(offset) => {
                    attempts += 1;
                    // Others may have given frames back meanwhile, but not for ever: somebody has written to our memory.
                    if attempts > MOST_ATTEMPTS {
                        return Err(libc::EIO);
                    }
                    let reached = self.reserve(descriptor, &held, offset, piece.len() as u64)?;
                    piece = &piece[..piece.len().min(reached.saturating_sub(offset) as usize)];
                }
            }
        }
        let (start, length) = (piece.as_ptr().cast(), piece.len());
        let written = match place {
            // The kernel appends, whatever the offset.
            Place::At(offset) => {
                real!(pwrite64(descriptor => c_int, start => *const libc::c_void, length => usize, offset as off_t => off_t) -> ssize_t)
            }
            Place::End => {
                real!(write(descriptor => c_int, start => *const libc::c_void, length => usize) -> ssize_t)
            }
        };
        let Ok(written) = usize::try_from(written) else {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
        };
        let offset = match place {
            Place::At(offset) => offset,
            Place::End => {
                let end = real!(lseek64(descriptor => c_int, 0 => off_t, libc::SEEK_CUR => c_int) -> off_t);
                (end as u64).saturating_sub(written as u64)
            }
        };
        Ok((offset, written))
    }

    /// Gets frames; for a file that grows, more than it needs now.
    fn reserve(&self, descriptor: c_int, lease: &Lease, offset: u64, bytes: u64) -> Result<u64, c_int> {
        let file = borrowed(&descriptor);
        let size = self.client.size(lease).unwrap_or(0);
        let ahead =
            if offset == size { size.saturating_mul(AHEAD).clamp(LEAST_AHEAD, MOST_AHEAD) } else { 0 };
        let reserved = match Client::reserve(file, offset, bytes.max(ahead)) {
            Err(_) if ahead > bytes => Client::reserve(file, offset, bytes),
            reserved => reserved,
        };
        reserved.map_err(|error| error.raw_os_error())
    }

    /// The offset, unless the kernel has it: another thread may have handed the file back meanwhile.
    fn own_offset(&self) -> Option<Writing<'_, u64>> {
        let offset = writing(&self.offset);
        (!self.is_kernels.load(Ordering::Acquire)).then_some(offset)
    }

    pub(crate) fn read(&self, descriptor: c_int, parts: &mut [&mut [u8]]) -> Answer {
        let mut offset = self.own_offset()?;
        let read = self.read_parts(descriptor, *offset, parts)?;
        *offset += read.max(0) as u64;
        Some(read)
    }

    #[inline]
    pub(crate) fn read_at(&self, descriptor: c_int, offset: off_t, parts: &mut [&mut [u8]]) -> Answer {
        match u64::try_from(offset) {
            Ok(offset) => self.read_parts(descriptor, offset, parts),
            Err(_) => failed(libc::EINVAL),
        }
    }

    pub(crate) fn write(&self, descriptor: c_int, parts: &[&[u8]]) -> Answer {
        let mut offset = self.own_offset()?;
        let place = if self.appends.load(Ordering::Relaxed) { Place::End } else { Place::At(*offset) };
        let (written, end) = self.write_parts(descriptor, place, parts);
        if let Some(end) = end {
            *offset = end;
        }
        written
    }

    pub(crate) fn write_at(&self, descriptor: c_int, offset: off_t, parts: &[&[u8]]) -> Answer {
        let Ok(offset) = u64::try_from(offset) else { return failed(libc::EINVAL) };
        // As Linux does, whatever POSIX says.
        let place = if self.appends.load(Ordering::Relaxed) { Place::End } else { Place::At(offset) };
        self.write_parts(descriptor, place, parts).0
    }

    /// Moves the offset.
    pub(crate) fn seek(&self, descriptor: c_int, by: off_t, whence: c_int) -> Answer {
        let mut offset = self.own_offset()?;
        let from = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => *offset as off_t,
            libc::SEEK_END => {
                let size = self.leased(
                    descriptor,
                    |lease| self.client.size(lease).map(|size| Ok(size as off_t)),
                    || rustix::fs::fstat(borrowed(&descriptor)).map(|status| status.st_size),
                );
                match size {
                    Ok(size) => size,
                    Err(error) => return failed(error.raw_os_error()),
                }
            }
            _ => {
                let found = real!(lseek64(descriptor => c_int, by => off_t, whence => c_int) -> off_t);
                if let Ok(found) = u64::try_from(found) {
                    *offset = found;
                }
                return Some(found as ssize_t);
            }
        };
        match from.checked_add(by) {
            Some(to) if to >= 0 => {
                *offset = to as u64;
                Some(to as ssize_t)
            }
            Some(_) => failed(libc::EINVAL),
            None => failed(libc::EOVERFLOW),
        }
    }

    /// What was written persists.
    pub(crate) fn sync(&self) -> Option<c_int> {
        if reading(&self.file.lease).is_none() {
            return None;
        }
        self.client.fence();
        Some(0)
    }

    /// The program has changed its flags.
    pub(crate) fn set_flags(&self, flags: c_int) {
        self.appends.store(flags & libc::O_APPEND != 0, Ordering::Relaxed);
    }
}
