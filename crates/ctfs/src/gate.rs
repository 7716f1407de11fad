//! The gate between the process that owns a store and those that read and write its files' bytes beside it.
//!
//! It is memory that all of them map. A client goes in for the time of one copy, and finds pages and inodes as they are; the owner
//! closes the gate while it changes them, and waits for whoever is inside. Nobody waits for a client that is gone: the owner says
//! so ([`Gate::forget`]).
//!
//! A file may be read and written beside the owner while its *lease* holds: the word that the client was given still stands in its
//! place. The owner changes leases while the gate is closed only, so that a client that is inside and finds the word may go on.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;

/// "pwgate01".
const MAGIC: u64 = u64::from_le_bytes(*b"pwgate01");
/// Clients at once.
pub(crate) const CLIENTS: usize = 64;
/// Files at once that clients may read and write.
pub(crate) const LEASES: usize = 4_096;
/// How often whoever waits looks again, at least.
const LOOK: Duration = Duration::from_millis(1);
/// Looks without letting anybody else run.
const SPINS: u32 = 200;
/// How long a client may be inside. Copies take a thousandth of it; one that was stopped there takes for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client's place, a cache line of its own.
#[repr(C, align(64))]
struct Client {
    /// Threads of it that are inside.
    inside: AtomicU32,
}

#[repr(C)]
struct Words {
    magic: AtomicU64,
    closed: AtomicU32,
    /// Threads that wait for it to open.
    waiting: AtomicU32,
    clients: [Client; CLIENTS],
    leases: [AtomicU64; LEASES],
}

/// The gate, mapped.
pub(crate) struct Gate {
    words: NonNull<Words>,
    file: File,
}

// SAFETY: the memory is this value's for as long as it lives, and consists of atomic words.
#[allow(unsafe_code)]
unsafe impl Send for Gate {}
// SAFETY: as for `Send`.
#[allow(unsafe_code)]
unsafe impl Sync for Gate {}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Gate {
    /// A new one, open, with nobody inside.
    pub(crate) fn create() -> io::Result<Self> {
        let file =
            rustix::fs::memfd_create("pagewalk-gate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, size_of::<Words>() as u64)?;
        // Nobody can take the memory away from whoever maps it.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let gate = Self::map(file.into())?;
        gate.words().magic.store(MAGIC, Ordering::Release);
        Ok(gate)
    }

    /// The owner's gate.
    pub(crate) fn open(file: File) -> io::Result<Self> {
        let error = || io::Error::new(io::ErrorKind::InvalidData, "no gate of this version");
        if file.metadata()?.len() != size_of::<Words>() as u64 {
            return Err(error());
        }
        let gate = Self::map(file)?;
        if gate.words().magic.load(Ordering::Acquire) == MAGIC { Ok(gate) } else { Err(error()) }
    }

    #[allow(unsafe_code)]
    fn map(file: File) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                size_of::<Words>(),
                protection,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        Ok(Self { words: NonNull::new(start.cast()).expect("no mapping is at address 0"), file })
    }

    /// The memory, to hand it to a client.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    #[inline]
    #[allow(unsafe_code)]
    fn words(&self) -> &Words {
        // SAFETY: (1) the mapping is as large, aligned, and lives as long as `self`; (2) every value of an atomic word is one.
        unsafe { self.words.as_ref() }
    }

    /// Lets a client's thread in, when it is open; nobody, if its owner is gone and has left it closed.
    #[inline]
    pub(crate) fn enter(&self, client: usize, is_owner_gone: impl Fn() -> bool) -> Option<Inside<'_>> {
        let words = self.words();
        loop {
            words.clients[client].inside.fetch_add(1, Ordering::SeqCst);
            // Either the owner sees who is inside, or who is inside sees that it is closed.
            if words.closed.load(Ordering::SeqCst) == 0 {
                return Some(Inside { words, client });
            }
            words.clients[client].inside.fetch_sub(1, Ordering::SeqCst);
            if !self.wait_until_open(&is_owner_gone) {
                return None;
            }
        }
    }

    /// Whether it is open again, or never will be.
    #[cold]
    fn wait_until_open(&self, is_owner_gone: &dyn Fn() -> bool) -> bool {
        let words = self.words();
        for _ in 0..SPINS {
            if words.closed.load(Ordering::SeqCst) == 0 {
                return true;
            }
            std::hint::spin_loop();
        }
        let mut is_open = true;
        words.waiting.fetch_add(1, Ordering::SeqCst);
        while words.closed.load(Ordering::SeqCst) != 0 {
            // Pages and inodes stay as they were in the middle of a change: it is for the next mount to end it.
            if is_owner_gone() {
                is_open = false;
                break;
            }
            let time = rustix::time::Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
            // Woken, too late or too early: it looks again.
            let _ = futex::wait(&words.closed, futex::Flags::empty(), 1, Some(&time));
        }
        words.waiting.fetch_sub(1, Ordering::SeqCst);
        is_open
    }

    /// Closes the gate and waits until nobody is inside. Only the owner does, one thread at a time.
    ///
    /// # Errors
    ///
    /// Somebody does not come out; the gate is open again.
    pub(crate) fn close(&self) -> Result<(), Errno> {
        let words = self.words();
        words.closed.store(1, Ordering::SeqCst);
        let mut begun = None;
        for client in &words.clients {
            let mut looks = 0u32;
            while client.inside.load(Ordering::SeqCst) != 0 {
                looks += 1;
                if looks < SPINS {
                    std::hint::spin_loop();
                    continue;
                }
                if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                    self.reopen();
                    return Err(Errno::BUSY);
                }
                std::thread::sleep(LOOK / 20);
            }
        }
        Ok(())
    }

    /// Opens it again.
    pub(crate) fn reopen(&self) {
        let words = self.words();
        words.closed.store(0, Ordering::SeqCst);
        if words.waiting.load(Ordering::SeqCst) > 0 {
            // Who was not woken looks again soon.
            let _ = futex::wake(&words.closed, futex::Flags::empty(), i32::MAX as u32);
        }
    }

    /// A client is gone, wherever it was.
    pub(crate) fn forget(&self, client: usize) {
        self.words().clients[client].inside.store(0, Ordering::SeqCst);
    }

    /// The word of a lease.
    #[inline]
    pub(crate) fn lease(&self, index: usize) -> &AtomicU64 {
        &self.words().leases[index]
    }
}

impl Drop for Gate {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: nobody borrows the mapping any more.
        let unmapped = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), size_of::<Words>()) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A thread that is inside: nothing moves until it is out.
pub(crate) struct Inside<'a> {
    words: &'a Words,
    client: usize,
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.words.clients[self.client].inside.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Clients look at two words that the owner changes while the gate is closed; some of them go away while they are inside.
    #[test]
    fn nobody_is_inside_while_it_is_closed() {
        const ROUNDS: u64 = 20_000;
        let gate = Gate::create().unwrap();
        let words: Arc<[AtomicU64; 2]> = Arc::default();
        let ended = Arc::new(AtomicU32::new(0));
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let gate = Gate::open(gate.file().try_clone().unwrap()).unwrap();
                let (words, ended) = (words.clone(), ended.clone());
                std::thread::spawn(move || {
                    let (mut seen, mut entered) = (0, 0u64);
                    while ended.load(Ordering::Relaxed) == 0 {
                        let _inside = gate.enter(client, || false).unwrap();
                        let (first, second) =
                            (words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed));
                        assert_eq!(first, second);
                        assert!(first >= seen);
                        seen = first;
                        entered += 1;
                    }
                    // It ends inside: without being forgotten the owner would wait for it.
                    std::mem::forget(gate.enter(client, || false));
                    entered
                })
            })
            .collect();
        for round in 1..=ROUNDS {
            gate.close().unwrap();
            words[0].store(round, Ordering::Relaxed);
            if round % 64 == 0 {
                std::thread::yield_now();
            }
            words[1].store(round, Ordering::Relaxed);
            gate.reopen();
            if round % 16 == 0 {
                std::thread::yield_now();
            }
        }
        ended.store(1, Ordering::Relaxed);
        for (client, thread) in clients.into_iter().enumerate() {
            assert!(thread.join().unwrap() > 0);
            gate.forget(client);
        }
        gate.close().unwrap();
        gate.reopen();
    }

    /// A client found the gate closed by an owner that was killed, and waited for ever.
    #[test]
    fn nobody_waits_for_an_owner_that_is_gone() {
        let gate = Gate::create().unwrap();
        gate.close().unwrap();
        assert!(gate.enter(0, || true).is_none());
        gate.close().expect("nobody is inside");
        gate.reopen();
        assert!(gate.enter(0, || true).is_some(), "what is whole may be read and written");
    }

    #[test]
    fn other_memory_is_no_gate() {
        let short: File = rustix::fs::memfd_create("short", MemfdFlags::CLOEXEC).unwrap().into();
        assert!(Gate::open(short).is_err());
        let blank: File = rustix::fs::memfd_create("blank", MemfdFlags::CLOEXEC).unwrap().into();
        blank.set_len(size_of::<Words>() as u64).unwrap();
        assert!(Gate::open(blank).is_err());
    }
}
