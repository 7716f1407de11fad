//! The gate between the process that owns a store and those that read and write its files' bytes beside it.
//!
//! It is memory that all of them map. A client goes in for the time of one copy, and finds pages and inodes as they are; the owner
//! closes the gate while it changes them, and waits for the clients inside. The owner does not wait for a client that is gone: the owner says
//! so ([`Gate::forget`]).
//!
//! A file may be read and written beside the owner while its *lease* holds: the word that the client was given still stands in its
//! place. The owner changes leases while the gate is closed only, so that a client that is inside and finds the word may go on.
//!
//! A client that goes in stores a word and then looks whether the gate is closed; the owner that closes it stores that and then looks which
//! client is inside. One of them must see the other. A client with one thread goes in and out without a locked instruction: the owner, which
//! closes the gate some hundred thousand times less often, has its processor pass a barrier ([`barrier`]).
//!
//! Linux 6.18 and before may leave out a processor on which the last task of the same memory has ended just before: a thread, or a child
//! of `vfork` that started no program. So a client that has had either makes its own barriers ([`Gate::end_alone`]), and as no process can
//! see all that a kernel does with a process's memory, the owner also waits for longer than any store takes to be seen.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;

use crate::memory::lines::order_stores;
use crate::memory::mailbox::{Bell, Mailbox};
use crate::memory::single_threaded::{barrier, is_single_threaded};

/// "pwgate05".
const MAGIC: u64 = u64::from_le_bytes(*b"pwgate05");
/// The most clients at once.
pub(crate) const CLIENTS: usize = 64;
/// Files at once that clients may read and write.
pub(crate) const LEASES: usize = 4_096;
/// How often a waiting thread looks again, at least.
const LOOK: Duration = Duration::from_millis(1);
/// How long a client that waits looks without letting another thread run: most changes take less, and being woken takes longer.
const SHORTLY: Duration = Duration::from_micros(50);
/// The same for the owner, in looks: most copies take less.
const SPINS: u32 = 200;
/// How long the owner waits for stores of clients that make no barriers.
const SETTLING: Duration = Duration::from_micros(5);
/// How long a client may be inside. Copies take a thousandth of it; one that was stopped there takes for ever.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for a client that was inside for as long, and has not been seen outside since: it was stopped there. Requests of the kernel
/// that can do without an answer wait as long.
pub(crate) const SHORT_PATIENCE: Duration = Duration::from_millis(20);

/// A client's place, a cache line of its own.
#[repr(C, align(64))]
struct ClientWords {
    /// Threads of it that are inside.
    inside: AtomicU32,
    /// Whether it makes no barriers.
    is_alone: AtomicU32,
    /// Which client has the place, of all that there ever were; 0 while it is free. A process whose connection was closed behind its
    /// back finds another number here, and stays outside.
    serial: AtomicU64,
}

#[repr(C)]
struct Words {
    magic: AtomicU64,
    closed: AtomicU32,
    /// Threads that wait for it to open.
    waiting: AtomicU32,
    /// Whether the owner lets clients pass barriers, so that they need none.
    has_barriers: AtomicU32,
    /// How often it was closed, or pages of files moved that no client was using.
    closings: AtomicU64,
    clients: [ClientWords; CLIENTS],
    leases: [AtomicU64; LEASES],
    /// Rings for the owner when a client has asked for something.
    bell: Bell,
    mailboxes: [Mailbox; CLIENTS],
}

/// The gate, mapped into this process's memory.
pub(crate) struct Gate {
    words: NonNull<Words>,
    /// The owner's: to hand it to clients.
    file: Option<File>,
    /// Clients need no barriers of their own: the owner's reach them.
    has_barriers: bool,
    /// The owner's: how long it waits behind one.
    settling: Duration,
    /// The owner's: clients, by bit, that it has waited for in vain and has not seen outside since.
    stopped: AtomicU64,
    /// A client's: it makes no barriers.
    is_alone: AtomicBool,
}

const _: () = assert!(CLIENTS <= u64::BITS as usize, "a bit for each client");

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
    /// A new one, open, with no client inside.
    pub(crate) fn create() -> io::Result<Self> {
        let file =
            rustix::fs::memfd_create("pagewalk-gate", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, size_of::<Words>() as u64)?;
        // No process can take the memory away from one that maps it.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = File::from(file);
        let mut gate = Self::map(&file)?;
        gate.file = Some(file);
        gate.has_barriers = barrier::is_there();
        gate.words().has_barriers.store(u32::from(gate.has_barriers), Ordering::Release);
        gate.bell().begin();
        gate.words().magic.store(MAGIC, Ordering::Release);
        Ok(gate)
    }

    /// Opens the owner's gate. The descriptor is needed no more then.
    pub(crate) fn open(file: &File) -> io::Result<Self> {
        let error = || io::Error::new(io::ErrorKind::InvalidData, "no gate of this version");
        if file.metadata()?.len() != size_of::<Words>() as u64 {
            return Err(error());
        }
        let mut gate = Self::map(file)?;
        if gate.words().magic.load(Ordering::Acquire) != MAGIC {
            return Err(error());
        }
        gate.has_barriers = gate.words().has_barriers.load(Ordering::Acquire) != 0 && barrier::register();
        Ok(gate)
    }

    #[allow(unsafe_code)]
    fn map(file: &File) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), size_of::<Words>(), protection, MapFlags::SHARED, file, 0)?
        };
        let words = NonNull::new(start.cast()).expect("no mapping is at address 0");
        Ok(Self {
            words,
            file: None,
            has_barriers: false,
            settling: SETTLING,
            stopped: AtomicU64::new(0),
            is_alone: AtomicBool::new(false),
        })
    }

    /// The owner's memory, to hand it to a client.
    pub(crate) fn file(&self) -> &File {
        self.file.as_ref().expect("the owner keeps it")
    }

    #[inline]
    #[allow(unsafe_code)]
    fn words(&self) -> &Words {
        // SAFETY: (1) the mapping is as large, aligned, and lives as long as `self`; (2) every value of an atomic word is one.
        unsafe { self.words.as_ref() }
    }

    /// A client has this place from now on.
    pub(crate) fn welcome(&self, client: usize, serial: u64) {
        self.mailbox(client).clear();
        self.words().clients[client].serial.store(serial, Ordering::SeqCst);
    }

    /// Lets a client's thread in, when it is open; never again, if the owner is gone and has left it closed, or takes the client for gone.
    /// The client starts no thread until it is out.
    #[inline]
    pub(crate) fn enter(
        &self,
        (client, serial): (usize, u64),
        is_owner_gone: impl Fn() -> bool,
    ) -> Option<Inside<'_>> {
        if self.words().clients[client].serial.load(Ordering::Relaxed) != serial {
            return None;
        }
        let was_alone = self.is_alone.load(Ordering::Relaxed);
        if was_alone && !is_single_threaded() {
            self.end_alone(client);
        }
        self.enter_as(client, was_alone && is_single_threaded(), is_owner_gone)
    }

    /// A client makes no barriers from now on, if it has one thread and the owner's reach it.
    pub(crate) fn begin_alone(&self, client: usize) {
        if self.has_barriers && is_single_threaded() {
            // The owner sees that, or this client sees that it has closed the gate.
            self.words().clients[client].is_alone.store(1, Ordering::SeqCst);
            self.is_alone.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the client make its own barriers from now on. No thread is inside without.
    #[cold]
    pub(crate) fn end_alone(&self, client: usize) {
        self.is_alone.store(false, Ordering::Relaxed);
        self.words().clients[client].is_alone.store(0, Ordering::SeqCst);
    }

    #[inline]
    fn enter_as(
        &self,
        client: usize,
        is_alone: bool,
        is_owner_gone: impl Fn() -> bool,
    ) -> Option<Inside<'_>> {
        let words = self.words();
        loop {
            let inside = Inside::step_in(words, client, is_alone);
            // Either the owner sees which client is inside, or the client inside sees that it is closed.
            if words.closed.load(Ordering::SeqCst) == 0 {
                return Some(inside);
            }
            drop(inside);
            if !self.wait_until_open(&is_owner_gone) {
                return None;
            }
        }
    }

    /// Whether it is open again, or never will be.
    #[cold]
    fn wait_until_open(&self, is_owner_gone: &dyn Fn() -> bool) -> bool {
        let words = self.words();
        let begun = Instant::now();
        while begun.elapsed() < SHORTLY {
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

    /// Closes the gate and waits until no client is inside. Only the owner does, one thread at a time.
    ///
    /// # Errors
    ///
    /// A client does not come out; the gate is open again.
    pub(crate) fn close(&self) -> Result<(), Errno> {
        self.close_within(PATIENCE)
    }

    /// The same, with so much patience.
    ///
    /// # Errors
    ///
    /// The same.
    pub(crate) fn close_within(&self, patience: Duration) -> Result<(), Errno> {
        let words = self.words();
        words.closed.store(1, Ordering::SeqCst);
        // A client that begins only now sees that it is closed.
        let is_alone = |client: &ClientWords| client.is_alone.load(Ordering::SeqCst) != 0;
        if self.has_barriers && words.clients.iter().any(is_alone) {
            if !barrier::pass() {
                self.reopen();
                return Err(Errno::BUSY);
            }
            let begun = Instant::now();
            while begun.elapsed() < self.settling {
                std::hint::spin_loop();
            }
        }
        for (number, client) in words.clients.iter().enumerate() {
            let patience = self.patience_with(number).min(patience);
            let (mut looks, mut begun) = (0u32, None);
            while client.inside.load(Ordering::SeqCst) != 0 {
                looks += 1;
                if looks < SPINS {
                    std::hint::spin_loop();
                    continue;
                }
                if begun.get_or_insert_with(Instant::now).elapsed() > patience {
                    if patience >= PATIENCE {
                        self.stopped.fetch_or(1 << number, Ordering::Relaxed);
                    }
                    self.reopen();
                    return Err(Errno::BUSY);
                }
                std::thread::sleep(LOOK / 20);
            }
            self.seen_outside(number);
        }
        words.closings.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// How long the owner waits for a client: each of many operations must not wait for one that was stopped.
    fn patience_with(&self, client: usize) -> Duration {
        let is_stopped = self.stopped.load(Ordering::Relaxed) >> client & 1 != 0;
        if is_stopped { SHORT_PATIENCE } else { PATIENCE }
    }

    #[inline]
    fn seen_outside(&self, client: usize) {
        if self.stopped.load(Ordering::Relaxed) != 0 {
            self.stopped.fetch_and(!(1 << client), Ordering::Relaxed);
        }
    }

    /// Opens the gate again.
    pub(crate) fn reopen(&self) {
        let words = self.words();
        words.closed.store(0, Ordering::SeqCst);
        if words.waiting.load(Ordering::SeqCst) > 0 {
            // A thread that was not woken looks again soon.
            let _ = futex::wake(&words.closed, futex::Flags::empty(), i32::MAX as u32);
        }
    }

    /// A client is gone, wherever it was.
    pub(crate) fn forget(&self, client: usize) {
        let words = &self.words().clients[client];
        words.serial.store(0, Ordering::SeqCst);
        words.is_alone.store(0, Ordering::SeqCst);
        words.inside.store(0, Ordering::SeqCst);
        self.seen_outside(client);
    }

    /// How often the owner has had the store to itself: the same as long as a client is inside.
    #[inline]
    pub(crate) fn closings(&self) -> u64 {
        self.words().closings.load(Ordering::Relaxed)
    }

    /// No lease holds any more. Only while the gate is closed, or where the store has failed.
    pub(crate) fn end_leases(&self) {
        self.words().leases.iter().for_each(|lease| lease.store(0, Ordering::SeqCst));
    }

    /// Pages have moved that no client uses now: what clients remember of the page table is not so any more.
    pub(crate) fn pages_moved(&self) {
        self.words().closings.fetch_add(1, Ordering::Release);
    }

    /// What a client asks for by itself, and the answer.
    pub(crate) fn mailbox(&self, client: usize) -> &Mailbox {
        &self.words().mailboxes[client]
    }

    /// The bell of all mailboxes.
    pub(crate) fn bell(&self) -> &Bell {
        &self.words().bell
    }

    /// The serial number of the client that has a place now; 0 for none.
    pub(crate) fn serial(&self, client: usize) -> u64 {
        self.words().clients[client].serial.load(Ordering::SeqCst)
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
        // SAFETY: no thread borrows the mapping any more.
        let unmapped = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), size_of::<Words>()) };
        debug_assert!(unmapped.is_ok());
    }
}

/// A thread that is inside: nothing moves until it is out.
pub(crate) struct Inside<'a> {
    words: &'a Words,
    client: usize,
    /// The client has no other thread, and passes the owner's barriers.
    is_alone: bool,
}

impl<'a> Inside<'a> {
    #[inline]
    fn step_in(words: &'a Words, client: usize, is_alone: bool) -> Self {
        let inside = &words.clients[client].inside;
        if is_alone {
            inside.store(inside.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            // The owner's barrier makes it one for the processor, too.
            compiler_fence(Ordering::SeqCst);
        } else {
            inside.fetch_add(1, Ordering::SeqCst);
        }
        Self { words, client, is_alone }
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        let inside = &self.words.clients[self.client].inside;
        if self.is_alone {
            // Behind the owner's barrier nothing else makes stores past the caches seen before the one that says that this is out.
            if self.words.closed.load(Ordering::Relaxed) != 0 {
                order_stores();
            }
            inside.store(inside.load(Ordering::Relaxed) - 1, Ordering::Release);
        } else {
            inside.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the owner changes while the gate is closed.
    #[derive(Default)]
    struct Changed {
        words: [AtomicU64; 2],
        is_over: AtomicBool,
    }

    /// Looks at what is changed, again and again; whether it never changed while nothing may. It ends inside.
    fn look(gate: &Gate, client: usize, is_alone: bool, changed: &Changed, slow: &[AtomicU64]) -> bool {
        let (mut seen, mut entered) = (0, 0u64);
        let mut is_right = true;
        // Once at least: on a busy machine all may be over before it begins.
        while entered == 0 || !changed.is_over.load(Ordering::Relaxed) {
            // Stores that take long to be seen, so that those behind them do, too.
            for line in 0..32 {
                slow[(entered * 32 + line) as usize * 521 % slow.len()].store(1, Ordering::Relaxed);
            }
            let _inside = gate.enter_as(client, is_alone, || false).expect("the owner is there");
            let first = changed.words[0].load(Ordering::Relaxed);
            is_right &= gate.closings() == first;
            (0..entered % 64).for_each(|_| std::hint::spin_loop());
            is_right &= first == changed.words[1].load(Ordering::Relaxed) && first >= seen;
            seen = first;
            entered += 1;
        }
        // Without being forgotten the owner would wait for it.
        std::mem::forget(gate.enter_as(client, is_alone, || false));
        is_right && entered > 0
    }

    fn change(gate: &Gate, changed: &Changed) {
        for round in 1..=8_000 {
            gate.close().unwrap();
            changed.words[0].store(round, Ordering::Relaxed);
            if round % 64 == 0 {
                std::thread::yield_now();
            }
            changed.words[1].store(round, Ordering::Relaxed);
            gate.reopen();
            if round % 16 == 0 {
                std::thread::yield_now();
            }
        }
        changed.is_over.store(true, Ordering::Relaxed);
    }

    fn slow() -> Vec<AtomicU64> {
        std::iter::repeat_with(AtomicU64::default).take(4 << 20).collect()
    }

    #[test]
    fn no_client_is_inside_while_it_is_closed() {
        let gate = Gate::create().unwrap();
        let (changed, slow) = (Changed::default(), slow());
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..3)
                .map(|client| {
                    let gate = Gate::open(gate.file()).unwrap();
                    let (changed, slow) = (&changed, &slow);
                    scope.spawn(move || look(&gate, client, false, changed, slow))
                })
                .collect();
            change(&gate, &changed);
            for (client, thread) in clients.into_iter().enumerate() {
                assert!(thread.join().unwrap());
                gate.forget(client);
            }
        });
        gate.close().unwrap();
        gate.reopen();
    }

    /// Processes with one thread each.
    #[test]
    #[allow(unsafe_code)]
    fn no_client_is_inside_without_a_barrier_of_its_own_either() {
        const PART: &str = "PAGEWALK_TEST_PART";
        if std::env::var_os(PART).is_none() {
            // A child of `fork` keeps the locks of all stores that are open here, and other tests open theirs again.
            let test = "memory::gate::tests::no_client_is_inside_without_a_barrier_of_its_own_either";
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            let ended = command.args(["--exact", test]).env(PART, "gate").output().unwrap();
            let text = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && text.contains("1 passed"), "{text}");
            return;
        }
        let mut gate = Gate::create().unwrap();
        if !gate.has_barriers {
            return println!("skipped: this kernel has no barriers to pass");
        }
        // The barrier is to be enough.
        gate.settling = Duration::ZERO;
        let slow = slow();
        let memory = rustix::fs::memfd_create("changed", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, size_of::<Changed>() as u64).unwrap();
        let (protection, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: (1) a fresh mapping, which is never unmapped; (2) zeroes are such a value, which is changed by atomic words only.
        let changed: &Changed = unsafe {
            let start =
                rustix::mm::mmap(std::ptr::null_mut(), size_of::<Changed>(), protection, how, &memory, 0);
            &*start.unwrap().cast()
        };
        let clients: Vec<_> = (0..3)
            .map(|client| {
                gate.words().clients[client].is_alone.store(1, Ordering::SeqCst);
                // SAFETY: the child takes no lock and no memory: it looks, and ends.
                match unsafe { libc::fork() } {
                    0 => {
                        let is_right = barrier::register() && look(&gate, client, true, changed, &slow);
                        // SAFETY: it ends here.
                        unsafe { libc::_exit(i32::from(!is_right)) }
                    }
                    child => child,
                }
            })
            .collect();
        change(&gate, changed);
        for (client, child) in clients.into_iter().enumerate() {
            let mut status = -1;
            // SAFETY: the child is this process's.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "client {client} saw something change");
            gate.forget(client);
        }
        gate.close().unwrap();
        gate.reopen();
    }

    /// A client found the gate closed by an owner that was killed, and waited for ever.
    #[test]
    fn no_client_waits_for_an_owner_that_is_gone() {
        let gate = Gate::create().unwrap();
        gate.close().unwrap();
        assert!(gate.enter((0, 0), || true).is_none());
        gate.close().expect("no client is inside");
        gate.reopen();
        assert!(gate.enter((0, 0), || true).is_some(), "what is whole may be read and written");
    }

    /// While one program was stopped in the middle of a copy, each change of another waited for it as long as the first.
    #[test]
    fn the_owner_waits_long_for_a_stopped_client_once() {
        let gate = Gate::create().unwrap();
        let inside = gate.enter((5, 0), || false).expect("it is open");
        assert_eq!(gate.close_within(Duration::ZERO), Err(Errno::BUSY));
        assert_eq!(gate.patience_with(5), PATIENCE, "it may be about to come out");
        assert_eq!(gate.close(), Err(Errno::BUSY));
        assert_eq!((gate.patience_with(5), gate.patience_with(6)), (SHORT_PATIENCE, PATIENCE));
        drop(gate.enter((6, 0), || false).expect("it is open again"));
        assert_eq!(gate.close(), Err(Errno::BUSY));
        drop(inside);
        gate.close().expect("no client is inside");
        gate.reopen();
        assert_eq!(gate.patience_with(5), PATIENCE);
    }

    /// A program closed the connection by a system call of its own: the owner gives the place to another client, and takes what the
    /// program does inside for that one's.
    #[test]
    fn a_client_that_is_forgotten_stays_outside() {
        let gate = Gate::create().unwrap();
        gate.welcome(3, 7);
        drop(gate.enter((3, 7), || false).expect("it is welcome"));
        gate.forget(3);
        assert!(gate.enter((3, 7), || false).is_none());
        gate.welcome(3, 8);
        assert!(gate.enter((3, 7), || false).is_none());
        assert!(gate.enter((3, 8), || false).is_some());
    }

    #[test]
    fn other_memory_is_no_gate() {
        let short: File = rustix::fs::memfd_create("short", MemfdFlags::CLOEXEC).unwrap().into();
        assert!(Gate::open(&short).is_err());
        let blank: File = rustix::fs::memfd_create("blank", MemfdFlags::CLOEXEC).unwrap().into();
        blank.set_len(size_of::<Words>() as u64).unwrap();
        assert!(Gate::open(&blank).is_err());
    }
}
