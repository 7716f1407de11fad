//! Pages of a mapped store that are missing: the store's file was cut, its disk is full or cannot be read.
//!
//! The kernel sends `SIGBUS` to a thread that touches such a page, which ends the process. Here a handler maps a page of zeroes where the
//! page is missing, so that the thread goes on, and notes that the store has failed ([`Failure`]). From then on every operation of the store
//! answers `EIO`, the one that met the page included, and nothing half done counts: see
//! [`PersistentMemory::has_failed`](pagewalk_vm::file::PersistentMemory::has_failed). Other stores of the process go on.
//!
//! # The process's handler of `SIGBUS`
//!
//! The first store that a process opens installs the handler. A fault at any other address, and a signal that another process has sent, go to
//! the handler that the process had before, or do what the kernel does without one. A program that sets a handler of its own later has to call
//! the one that it replaces, as `sigaction` answers it.
//!
//! A program that wants no handler installed calls [`leave_to_program`] before it opens a store. Then a missing page ends the process,
//! unless the program's own handler calls [`recover`] with the fault's address.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};

use libc::{c_int, siginfo_t};
use pagewalk_vm::addr::PAGE_BYTES;

/// The cause that has made a store fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The store's file has become shorter while it was in use.
    #[error("the store's file was cut while it was in use")]
    Cut,
    /// A page of the file could not be read, or the disk had no room for it.
    #[error("a page of the store's file cannot be read, or its disk is full")]
    NoPage,
    /// The file could not be written back.
    #[error("the store's file cannot be written back to its disk")]
    NotWritten,
}

/// Whether a store has failed; shared by all mappings of the store in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health(Arc<AtomicU8>);

impl Health {
    /// The first thing that has made it fail.
    pub(crate) fn failure(&self) -> Option<Failure> {
        match self.load() {
            0 => None,
            1 => Some(Failure::Cut),
            2 => Some(Failure::NoPage),
            _ => Some(Failure::NotWritten),
        }
    }

    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.load() != 0
    }

    /// Behind everything that this thread has loaded and stored.
    #[inline]
    fn load(&self) -> u8 {
        // On x86-64 a page goes away from a running thread by an interrupt: the note was made before, and no load that this thread had
        // begun early outlives the interrupt. Elsewhere a barrier keeps the order.
        #[cfg(not(target_arch = "x86_64"))]
        std::sync::atomic::fence(Ordering::SeqCst);
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn fail(&self, failure: Failure) {
        note(&self.0, failure);
    }
}

/// The first failure counts.
fn note(health: &AtomicU8, failure: Failure) {
    let number = match failure {
        Failure::Cut => 1,
        Failure::NoPage => 2,
        Failure::NotWritten => 3,
    };
    let _ = health.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst);
}

/// The file of a store as a handler of signals may look at it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    health: Health,
    /// -1 where the process keeps no descriptor.
    file: RawFd,
    /// Bytes that were mapped.
    bytes: u64,
    /// The mapping is a copy: what is stored stays in this process.
    is_copy: bool,
}

impl Source {
    /// The file must stay open as long as anything of it is watched.
    pub(crate) fn new(health: Health, file: Option<&File>, bytes: u64, is_copy: bool) -> Self {
        Self { health, file: file.map_or(-1, AsRawFd::as_raw_fd), bytes, is_copy }
    }
}

/// A range of addresses where a store's file is mapped. Ranges are never freed: a handler may be looking at them.
struct Range {
    next: Option<&'static Range>,
    is_used: AtomicBool,
    /// 0 while it is not watched.
    start: AtomicUsize,
    end: AtomicUsize,
    /// Where in the file the range begins; [`SCATTERED`] if its pages lie anywhere.
    offset: AtomicU64,
    file: AtomicI32,
    bytes: AtomicU64,
    is_copy: AtomicBool,
    health: AtomicPtr<AtomicU8>,
}

const SCATTERED: u64 = u64::MAX;

static RANGES: AtomicPtr<Range> = AtomicPtr::new(std::ptr::null_mut());
static CHANGING: Mutex<()> = Mutex::new(());

/// A range that the handler knows; until this is dropped, which comes before the range is unmapped.
#[derive(Debug)]
pub(crate) struct Watched {
    range: &'static Range,
    /// Lives as long as the handler may look at it.
    _source: Source,
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").field("start", &self.start).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Watched {
    /// Watches a range in which the file is mapped from its beginning on, or with its pages anywhere.
    pub(crate) fn new(start: *const u8, bytes: u64, is_scattered: bool, source: &Source) -> Self {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let range = ranges().find(|range| !range.is_used.load(Ordering::Relaxed)).unwrap_or_else(|| {
            let range: &'static mut Range = Box::leak(Box::new(Range {
                next: ranges().next(),
                is_used: AtomicBool::new(false),
                start: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                offset: AtomicU64::new(0),
                file: AtomicI32::new(-1),
                bytes: AtomicU64::new(0),
                is_copy: AtomicBool::new(false),
                health: AtomicPtr::new(std::ptr::null_mut()),
            }));
            RANGES.store(range, Ordering::Release);
            range
        });
        range.is_used.store(true, Ordering::Relaxed);
        range.end.store(start as usize + bytes as usize, Ordering::Relaxed);
        range.offset.store(if is_scattered { SCATTERED } else { 0 }, Ordering::Relaxed);
        range.file.store(source.file, Ordering::Relaxed);
        range.bytes.store(source.bytes, Ordering::Relaxed);
        range.is_copy.store(source.is_copy, Ordering::Relaxed);
        range.health.store(Arc::as_ptr(&source.health.0).cast_mut(), Ordering::Relaxed);
        // The handler looks at nothing else before it has seen this.
        range.start.store(start as usize, Ordering::Release);
        Self { range, _source: source.clone() }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.range.start.store(0, Ordering::Release);
        self.range.is_used.store(false, Ordering::Release);
    }
}

#[allow(unsafe_code)]
fn ranges() -> impl Iterator<Item = &'static Range> {
    // SAFETY: null, or a range that is never freed.
    let first = unsafe { RANGES.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |range| range.next)
}

impl Range {
    /// A thread that faults at an address uses the range meanwhile, so that no other thread drops it.
    fn has(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start != 0 && (start..self.end.load(Ordering::Relaxed)).contains(&address)
    }

    /// Maps zeroes where a page is missing; whether that could be done. Called from a handler of signals.
    #[allow(unsafe_code)]
    fn mend(&self, address: usize) -> bool {
        let page = address / PAGE_BYTES as usize * PAGE_BYTES as usize;
        let start = self.start.load(Ordering::Relaxed);
        let offset = match self.offset.load(Ordering::Relaxed) {
            SCATTERED => None,
            offset => Some(offset + (page - start) as u64),
        };
        let file = self.file.load(Ordering::Relaxed);
        let size = size_of(file);
        let is_hole = self.is_copy.load(Ordering::Relaxed)
            && offset.zip(size).is_some_and(|(offset, size)| offset < size && is_hole(file, offset));
        if !is_hole {
            let is_cut = size.is_some_and(|size| size < self.bytes.load(Ordering::Relaxed));
            // SAFETY: it lives as long as the range is watched.
            let health = unsafe { &*self.health.load(Ordering::Relaxed) };
            // Before the page is there: a thread that stores to it finds the note afterwards.
            note(health, if is_cut { Failure::Cut } else { Failure::NoPage });
        }
        // Behind the file's end everything is missing.
        let is_behind = offset.zip(size).is_some_and(|(offset, size)| offset >= size);
        let end = if is_behind { self.end.load(Ordering::Relaxed) } else { page + PAGE_BYTES as usize };
        // A process that has all mappings it may have gets one in the place of many.
        map_zeroes(page, end) || !is_hole && map_zeroes(start, self.end.load(Ordering::Relaxed))
    }
}

/// Maps zeroes in a part of a range that is watched.
#[allow(unsafe_code)]
fn map_zeroes(start: usize, end: usize) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the pages are a store's mapping's, and pages of zeroes take their place.
    let mapped = unsafe { libc::mmap(start as *mut c_void, end - start, protection, how, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Bytes of a regular file, if there is a descriptor of it. A device is not cut.
#[allow(unsafe_code)]
fn size_of(file: RawFd) -> Option<u64> {
    // SAFETY: (1) zeroes are such a value; (2) there is room for the answer.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        let is_known = file >= 0
            && libc::fstat(file, &raw mut status) == 0
            && status.st_mode & libc::S_IFMT == libc::S_IFREG;
        is_known.then_some(status.st_size as u64)
    }
}

/// Whether a file has no page at an offset, which reads as zeroes. (To read a hole of a file in memory the kernel makes a page, and where
/// no room is left it sends `SIGBUS`.)
#[allow(unsafe_code)]
fn is_hole(file: RawFd, offset: u64) -> bool {
    // SAFETY: it touches no memory; all reads of the file name their offset.
    unsafe { libc::lseek(file, offset as i64, libc::SEEK_HOLE) == offset as i64 }
}

/// Lets a program's thread go on if a fault's address is a store's, for the program's own handler of `SIGBUS`; otherwise nothing changes.
/// May be called in a handler of signals.
#[allow(unsafe_code)]
pub fn recover(address: *const c_void) -> bool {
    let address = address as usize;
    // SAFETY: it is this thread's.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the same.
    let before = unsafe { errno.read() };
    let is_mended = ranges().find(|range| range.has(address)).is_some_and(|range| range.mend(address));
    // SAFETY: the same.
    unsafe { errno.write(before) };
    is_mended
}

static IS_PROGRAMS: AtomicBool = AtomicBool::new(false);
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Lets the program alone have handlers of `SIGBUS`, if no store was opened yet: see the [module](self).
pub fn leave_to_program() {
    IS_PROGRAMS.store(true, Ordering::Relaxed);
}

/// Installs the handler, once in a process.
#[allow(unsafe_code)]
pub(crate) fn watch_for() {
    static INSTALLING: Once = Once::new();
    if IS_PROGRAMS.load(Ordering::Relaxed) {
        return;
    }
    INSTALLING.call_once(|| {
        // SAFETY: (1) zeroes are such a value; (2) the handler does only what one may do.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
                return;
            }
            let _ = BEFORE.set(before);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = arrived as *const () as usize;
            // What the handler before wants to be blocked is, as it may be called.
            action.sa_mask = before.sa_mask;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

/// The handler of `SIGBUS`.
#[allow(unsafe_code)]
unsafe extern "C" fn arrived(signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's.
    let (code, address) = unsafe { ((*information).si_code, (*information).si_addr()) };
    let is_instructions = code > 0;
    if is_instructions && recover(address) {
        return;
    }
    let (handler, flags) =
        BEFORE.get().map_or((libc::SIG_DFL, 0), |before| (before.sa_sigaction, before.sa_flags));
    // SAFETY: (1) zeroes are the default action; (2) the handler is called as the kernel would call it.
    unsafe {
        match handler {
            libc::SIG_IGN if !is_instructions => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // An instruction faults again where it is; a signal that was sent comes again when this returns.
                let action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
                if !is_instructions {
                    libc::raise(signal);
                }
            }
            _ if flags & libc::SA_SIGINFO != 0 => {
                let handler: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                    std::mem::transmute(handler);
                handler(signal, information, context);
            }
            _ => {
                let handler: unsafe extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}
