//! Which process this memory belongs to. A child of `vfork` runs in its parent's memory until it becomes another program, but has
//! handlers of signals of its own: what it sets must not be taken for its parent's.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::kernel;

/// A page with the number of the process that has the memory. The kernel clears the page in a child that gets a copy of the memory
/// (Linux 4.14), so that the child finds no number and writes its own; a child that shares the memory finds its parent's.
#[repr(align(4096))]
struct Page(AtomicU32);

static OWNER: Page = Page(AtomicU32::new(0));
/// Whether the kernel does so. Otherwise a copy could not be told from the same memory.
static IS_CLEARED: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = begin;

extern "C" fn begin() {
    const WIPE_ON_FORK: usize = 18;
    let arguments = [(&raw const OWNER) as usize, size_of::<Page>(), WIPE_ON_FORK];
    // SAFETY: it is a whole page, of this value alone, and keeps what is in it here.
    let is_cleared = unsafe { kernel::call(libc::SYS_madvise, arguments) } == 0;
    IS_CLEARED.store(is_cleared, Ordering::Relaxed);
    shares_memory();
}

/// Whether the calling process uses its parent's memory. The first caller in a memory has it: call this before a child can share it.
pub(crate) fn shares_memory() -> bool {
    // SAFETY: it touches no memory.
    let own = unsafe { kernel::call(libc::SYS_getpid, []) } as u32;
    let owner = OWNER.0.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
    owner.is_err_and(|owner| owner != own) && IS_CLEARED.load(Ordering::Relaxed)
}

/// The process that tables of open files belong to. A child that shares the memory for a while has another number.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Makes the tables this process's: when the program is loaded, and in a child that has a copy of the memory.
pub(crate) fn is_now_ours() {
    // SAFETY: it touches no memory, and always succeeds.
    PROCESS.store(unsafe { kernel::call(libc::SYS_getpid, []) } as u32, Ordering::Relaxed);
}

/// Whether the tables are this process's: a child of `vfork` has the same memory for a while.
pub(crate) fn is_our_process() -> bool {
    // SAFETY: it always succeeds.
    PROCESS.load(Ordering::Relaxed) == unsafe { kernel::call(libc::SYS_getpid, []) } as u32
}
