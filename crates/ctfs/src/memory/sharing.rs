//! The threads that may share a store: those of one process, and not its children.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewalk_vm::file::PersistentMemory;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::memory::mapped::Mapped;

/// A memory that threads may share by a [`Volume`](crate::Volume).
///
/// The locks of a volume are the only thing that keeps two threads from using the same bytes, and a process with one thread does not
/// even take them (`alone`). [`PersistentMemory`] is a safe trait, so that tests and tools may implement it, and unsafe code cannot rely on
/// what a safe trait promises: an implementation that threads may share makes the promises here. Without them there is no volume, and no
/// memory is shared by itself:
///
/// ```compile_fail
/// # use pagewalk_vm::file::Recording;
/// # fn files(memory: Recording) {
/// pagewalk_ctfs::Volume::new(pagewalk_ctfs::FileSystem::format(memory, Default::default(), || 0).unwrap());
/// # }
/// ```
///
/// ```compile_fail
/// fn used_by_threads<T: Sync>() {}
/// used_by_threads::<pagewalk_ctfs::Mapped>();
/// ```
///
/// # Safety
///
/// 1. Each method does only what [`PersistentMemory`] says, and returns: it calls nothing that could use the same memory or a volume of it,
///    and starts no thread.
/// 2. Threads may call methods at the same time if no two of them use the same bytes, unless both read. Words may be loaded and stored by
///    several at once.
#[allow(unsafe_code)]
pub unsafe trait SharedMemory: PersistentMemory + Send {}

// SAFETY: (1) it copies, stores, and makes system calls; (2) it is one mapping, whose words are atomic and whose bytes are copied, and
// what it counts is atomic or behind locks.
#[allow(unsafe_code)]
unsafe impl SharedMemory for Mapped {}

/// A word that children of the process find cleared, and the number of the process that has set it, of all that this memory was in.
struct Mark(&'static AtomicU64);

/// The processes that this memory has been in, one the child of the other.
static PROCESSES: AtomicU64 = AtomicU64::new(1);
static MARK: OnceLock<Mark> = OnceLock::new();

impl Mark {
    /// A page that the kernel clears in children (Linux 4.14), however these are made; where it cannot, the C library tells of its own.
    #[allow(unsafe_code)]
    fn new() -> Self {
        const PAGE: usize = 4_096;
        static ORDINARY: AtomicU64 = AtomicU64::new(0);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: (1) a fresh page at an address of the kernel's choice, which is never unmapped; (2) zeroes are such a word; (3) the
        // handler only stores a word.
        unsafe {
            let page = rustix::mm::mmap_anonymous(std::ptr::null_mut(), PAGE, protection, MapFlags::PRIVATE);
            let page =
                page.ok().filter(|&page| rustix::mm::madvise(page, PAGE, Advice::LinuxWipeOnFork).is_ok());
            let Some(page) = page else {
                libc::pthread_atfork(None, None, Some(Self::is_child));
                return Self(&ORDINARY);
            };
            Self(&*page.cast())
        }
    }

    extern "C" fn is_child() {
        if let Some(mark) = MARK.get() {
            mark.0.store(0, Ordering::Relaxed);
        }
    }
}

/// The process that has a store: a child that inherits its memory is another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    mark: &'static AtomicU64,
    number: u64,
}

impl Process {
    /// Returns the calling process.
    pub(crate) fn this() -> Self {
        let mark = MARK.get_or_init(Mark::new).0;
        if mark.load(Ordering::Relaxed) == 0 {
            let number = PROCESSES.fetch_add(1, Ordering::Relaxed);
            // Of two threads that are the first one's number counts.
            let _ = mark.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
        }
        Self { mark, number: mark.load(Ordering::Relaxed) }
    }

    /// Whether this is the one.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.mark.load(Ordering::Relaxed) == self.number
    }
}
