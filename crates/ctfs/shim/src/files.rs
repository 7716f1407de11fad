//! Open files of mounted stores, by descriptor.

use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use libc::{c_int, iovec, off_t, ssize_t};
use pagewalk_ctfs::alone::{self, Reading, Writing};
use pagewalk_ctfs::faults::Recovery;
use pagewalk_ctfs::{Client, Lease, OpenedBeside, Place, ReadDone, Written};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::offsets::{Growth, Sequence};
use crate::threads::Within;
use crate::{kernel, mappings, names, offsets, own, process, signals};

/// Descriptors from this one on are the kernel's alone.
pub(crate) const DESCRIPTORS: usize = 4_096;
/// Bytes that get frames ahead of a file's end: so many times its size, at least and at most. Closing it gives back what it did not
/// need.
const AHEAD: u64 = 16;
const LEAST_AHEAD: u64 = 128 << 10;
const MOST_AHEAD: u64 = 16 << 20;
/// Attempts to write where there are frames now.
const MOST_ATTEMPTS: u32 = 100;
/// Operations between two attempts to get a lease back, at most.
const MOST_SKIPPED: u32 = 1_024;

/// Offsets of files that the kernel does not know, at most.
const MOST_OFFSET: i64 = 1 << 40;

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
    growth: Growth,
}

/// What descriptors that are copies of each other share.
pub(crate) struct Description {
    file: Arc<File>,
    client: &'static Client,
    /// Reads and writes from the offset on come one after the other.
    sequence: RwLock<Sequence>,
    appends: AtomicBool,
    reads: bool,
    writes: bool,
    /// What the kernel does from now on.
    kernels: AtomicU8,
    beside: Beside,
}

/// A file that was opened without the kernel: behind its descriptor is nothing that could be used. It becomes the kernel's before anything
/// that is not done here could meet it.
struct Beside {
    /// Its number at the owner's service; 0 for none.
    handle: AtomicU64,
    offset: AtomicU64,
    /// How the program has opened it.
    flags: c_int,
}

/// How many there are.
static BESIDE: AtomicU32 = AtomicU32::new(0);

impl Beside {
    fn new(handle: u64, flags: c_int) -> Self {
        if handle != 0 {
            BESIDE.fetch_add(1, Ordering::Relaxed);
        }
        Self { handle: AtomicU64::new(handle), offset: AtomicU64::new(0), flags }
    }

    #[inline]
    fn handle(&self) -> Option<u64> {
        Some(self.handle.load(Ordering::Relaxed)).filter(|&handle| handle != 0)
    }

    #[inline]
    fn offset(&self) -> Option<u64> {
        self.handle().map(|_| self.offset.load(Ordering::Relaxed))
    }

    /// It is one no more.
    fn ends(&self) -> Option<u64> {
        let handle = Some(self.handle.swap(0, Ordering::Relaxed)).filter(|&handle| handle != 0)?;
        BESIDE.fetch_sub(1, Ordering::Relaxed);
        Some(handle)
    }
}

impl Drop for Description {
    /// The thread that drops it is within a call.
    fn drop(&mut self) {
        if let Some(handle) = self.beside.ends() {
            names::ask(self.client).close(handle);
        }
    }
}

/// Whether any file was opened without the kernel.
#[inline]
pub(crate) fn has_beside() -> bool {
    BESIDE.load(Ordering::Relaxed) > 0
}

/// All files that were opened without the kernel become the kernel's.
pub(crate) fn make_all_real(_: &Within) {
    if !has_beside() {
        return;
    }
    for (descriptor, (slot, is_open)) in (0..).zip(OPEN.iter().zip(&IS_OPEN.0)) {
        if is_open.load(Ordering::Acquire)
            && let Some(description) = &*reading(slot)
        {
            description.make_real(descriptor);
        }
    }
}

/// Reads and writes from the offset on: other processes have it, too, and move it.
const OFFSET: u8 = 1;
/// Everything.
const ALL: u8 = 2;

/// Pages of their own. The kernel clears them in children: a child that no function here has seen begin, as the program made it by a
/// system call of its own, has no file of ours open, and uses the kernel.
#[repr(align(4096))]
struct Pages([AtomicBool; DESCRIPTORS]);

impl Pages {
    /// Has the kernel clear them in children, where it can (Linux 4.14). Those that are seen begin clear them by themselves.
    fn end_in_children(&self) {
        let start = self.0.as_ptr().cast_mut().cast();
        // SAFETY: they are whole pages, of this value alone, and its parent's stay as they are.
        let _ = unsafe { rustix::mm::madvise(start, size_of::<Self>(), rustix::mm::Advice::LinuxWipeOnFork) };
    }
}

type Slot = RwLock<Option<Arc<Description>>>;
/// By device and inode.
type Files = FxHashMap<(u64, u64), Weak<File>>;

static OPEN: [Slot; DESCRIPTORS] = [const { RwLock::new(None) }; DESCRIPTORS];
/// Whether there is anything in the slot: most descriptors are no files of ours.
static IS_OPEN: Pages = Pages([const { AtomicBool::new(false) }; DESCRIPTORS]);
static FILES: Mutex<Option<Files>> = Mutex::new(None);
/// The owner of one mount; a process uses one.
static CLIENT: AtomicPtr<Client> = AtomicPtr::new(std::ptr::null_mut());
static CONNECTING: Mutex<()> = Mutex::new(());
/// The mount's device, and one that is known to be none.
static OURS: AtomicU64 = AtomicU64::new(u64::MAX);
static OTHER: AtomicU64 = AtomicU64::new(u64::MAX);
/// The process that the tables belong to. A child that shares the memory for a while has another number.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The kernel would end a program that writes beyond its limit.
static HAS_SIZE_LIMIT: AtomicBool = AtomicBool::new(false);

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

/// When the program is loaded: there is no child of `vfork` yet that could be taken for it.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn begin() {
        // SAFETY: handlers of ours, for as long as the program runs; the call touches no memory.
        unsafe {
            PROCESS.store(kernel::call(libc::SYS_getpid, []) as u32, Ordering::Relaxed);
            libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child));
        }
    }
    begin
};

/// Whether the tables are this process's: a child of `vfork` has the same memory for a while.
pub(crate) fn is_our_process() -> bool {
    // SAFETY: it always succeeds.
    PROCESS.load(Ordering::Relaxed) == unsafe { kernel::call(libc::SYS_getpid, []) } as u32
}

#[inline]
fn slot(descriptor: c_int) -> Option<usize> {
    let slot = usize::try_from(descriptor).ok()?;
    (slot < DESCRIPTORS && IS_OPEN.0[slot].load(Ordering::Acquire)).then_some(slot)
}

/// A file that a call uses; who closes its descriptor waits. Until it is dropped, other calls of the thread are the kernel's.
pub(crate) struct Used {
    slot: Reading<'static, Option<Arc<Description>>>,
    within: Within,
}

impl Used {
    /// Where this thread goes on if a copy that it makes faults.
    #[inline]
    pub(crate) fn recovery(&self) -> &Recovery {
        self.within.recovery()
    }
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
    let is_ours = slot.as_ref().is_some_and(|description| !description.is_kernels());
    is_ours.then_some(Used { slot, within })
}

/// From now on this is behind a descriptor.
fn put(descriptor: c_int, description: Option<Arc<Description>>, _: &Within) {
    let Some(slot) = usize::try_from(descriptor).ok().filter(|&slot| slot < DESCRIPTORS) else { return };
    let is_there = description.is_some();
    let old = std::mem::replace(&mut *writing(&OPEN[slot]), description);
    IS_OPEN.0[slot].store(is_there, Ordering::Release);
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
    // The connection, and handlers of faults, would be the child's.
    if process::shares_memory() || !own::has_room() {
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
    client.descriptor_is_now(own::out_of_the_way(client.descriptor()));
    signals::own_faults();
    IS_OPEN.end_in_children();
    OURS.store(device, Ordering::Relaxed);
    let client = Box::leak(Box::new(client));
    CLIENT.store(client, Ordering::Release);
    names::look_soon();
    Some(client)
}

/// A file was opened: from now on its bytes may be used here.
pub(crate) fn opened(descriptor: c_int, flags: c_int) {
    let kept = [libc::O_PATH, libc::O_DIRECTORY].iter().all(|&flag| flags & flag != flag);
    if descriptor as usize >= DESCRIPTORS || !kept {
        return;
    }
    let Some(within) = Within::new() else { return };
    let error = std::io::Error::last_os_error();
    track(descriptor, flags, &within);
    // What the call says of itself stays.
    failed(error.raw_os_error().unwrap_or(0));
}

fn track(descriptor: c_int, flags: c_int, within: &Within) {
    let Some(status) = kernel::status(descriptor) else { return };
    if status.st_mode & libc::S_IFMT != libc::S_IFREG {
        return;
    }
    let Some(client) = client(descriptor, status.st_dev) else { return };
    if !is_our_process() {
        return;
    }
    limit_may_have_changed();
    let known = {
        let mut files = FILES.lock();
        let files = files.get_or_insert_with(FxHashMap::default);
        let known = files.get(&(status.st_dev, status.st_ino)).and_then(Weak::upgrade);
        known.ok_or_else(|| {
            let file = Arc::new(File::new(descriptor));
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
    put(descriptor, Some(Arc::new(Description::new(file, client, flags, 0))), within);
}

/// A file was opened without the kernel, behind a descriptor that stands for it.
pub(crate) fn opened_beside(
    descriptor: c_int,
    flags: c_int,
    (client, opened): (&'static Client, &OpenedBeside),
    within: &Within,
) {
    let mut files = FILES.lock();
    let files = files.get_or_insert_with(FxHashMap::default);
    let place = (OURS.load(Ordering::Relaxed), opened.ino.0);
    let file = files.get(&place).and_then(Weak::upgrade).unwrap_or_else(|| {
        let file = Arc::new(File::new(NONE));
        if files.len() > DESCRIPTORS {
            files.retain(|_, file| file.strong_count() > 0);
        }
        files.insert(place, Arc::downgrade(&file));
        file
    });
    *writing(&file.lease) = Some(opened.lease);
    put(descriptor, Some(Arc::new(Description::new(file, client, flags, opened.handle))), within);
}

/// Connects to the owner of a directory's file system; whether this process is its client then.
pub(crate) fn connect(descriptor: c_int, device: u64) -> bool {
    client(descriptor, device).is_some()
}

/// The device of the mount that this process is a client of.
pub(crate) fn device() -> Option<u64> {
    connection().map(|_| OURS.load(Ordering::Relaxed))
}

/// Whether a descriptor stands for a file that was opened without the kernel.
#[inline]
pub(crate) fn is_beside(descriptor: c_int) -> bool {
    has_beside() && handle_of(descriptor).is_some()
}

/// The number at the owner's service of such a file. Within a call.
pub(crate) fn handle_of(descriptor: c_int) -> Option<u64> {
    reading(&OPEN[slot(descriptor)?]).as_ref()?.beside()
}

/// What `fcntl` answers for a file that was opened without the kernel, if that is known here.
pub(crate) fn control(descriptor: c_int, command: c_int) -> Option<c_int> {
    const OF_OPENING: c_int = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOCTTY | libc::O_CLOEXEC;
    if command != libc::F_GETFL || !has_beside() {
        return None;
    }
    let file = get(descriptor)?;
    file.beside()?;
    Some(file.beside.flags & !OF_OPENING | names::LARGE)
}

/// Whether a descriptor is none of ours.
#[inline]
pub(crate) fn is_apart(descriptor: c_int) -> bool {
    slot(descriptor).is_none()
}

/// The program may have a limit of how long files may get.
pub(crate) fn limit_may_have_changed() {
    let mut limit = [0u64; 2];
    let arguments = [0, libc::RLIMIT_FSIZE as usize, 0, limit.as_mut_ptr() as usize];
    // SAFETY: both words are written.
    let failed = unsafe { kernel::call(libc::SYS_prlimit64, arguments) } < 0;
    HAS_SIZE_LIMIT.store(failed || limit[0] != u64::MAX, Ordering::Relaxed);
}

/// A descriptor is closed, or becomes another one.
pub(crate) fn closed(descriptor: c_int) {
    // While calls are dispatched, no child of `vfork` is here.
    let is_ours = || offsets::is_watching() || is_our_process();
    let Some(slot) = slot(descriptor).filter(|_| is_ours()) else { return };
    offsets::give_back();
    match Within::new() {
        Some(within) => put(descriptor, None, &within),
        // A function that this one was called from may use it still.
        None => IS_OPEN.0[slot].store(false, Ordering::Release),
    }
}

/// A descriptor is a copy of another one.
pub(crate) fn copied(from: c_int, to: c_int) {
    if from == to {
        return;
    }
    // Not both slots at once: another thread may copy the other way round.
    let Some(description) = get(from).and_then(|used| used.slot.clone()) else { return closed(to) };
    if to as usize >= DESCRIPTORS || !is_our_process() {
        description.is_shared(from);
        closed(to);
    } else if let Some(within) = Within::new() {
        offsets::give_back();
        // One of the two may be closed.
        description.file.tell_of_first(description.client, &within);
        put(to, Some(description), &within);
    }
}

/// The connection's descriptor.
pub(crate) fn connection() -> Option<(&'static Client, c_int)> {
    // SAFETY: clients are never freed.
    unsafe { CLIENT.load(Ordering::Acquire).as_ref() }.map(|client| (client, client.descriptor()))
}

/// A call's result if it is not done, with the error's number in its place.
pub(crate) fn refused(number: c_int) -> c_int {
    failed(number);
    -1
}

/// A child that shares this process's memory ends without having become another program.
pub(crate) fn ends_with_our_memory() {
    if let Some((client, _)) = connection() {
        client.end_alone();
    }
}

/// The same if it is this one that ends.
pub(crate) fn ends() {
    if !is_our_process() {
        ends_with_our_memory();
    }
}

/// Does something with each open file and its descriptor.
fn for_each_open(mut act: impl FnMut(c_int, &Description)) {
    if CLIENT.load(Ordering::Acquire).is_null() {
        return;
    }
    for (descriptor, is_open) in (0..).zip(&IS_OPEN.0) {
        if is_open.load(Ordering::Acquire)
            && let Some(description) = get(descriptor)
        {
            act(descriptor, &description);
        }
    }
}

/// Other processes get open files, and move their offsets: those that a program inherits, or all.
pub(crate) fn shared(all: bool) {
    offsets::settle();
    for_each_open(|descriptor, description| {
        let is_inherited = || {
            let flags = rustix::io::fcntl_getfd(borrowed(&descriptor));
            flags.is_ok_and(|flags| !flags.contains(rustix::io::FdFlags::CLOEXEC))
        };
        if all || is_inherited() {
            description.is_shared(descriptor);
        }
    });
}

/// Another process gets an open file.
pub(crate) fn sent(descriptor: c_int) {
    if let Some(file) = get(descriptor) {
        file.is_shared(descriptor);
    }
}

/// The kernel learns how long files are: for calls that do not ask the owner.
pub(crate) fn lengths_are_needed() {
    for_each_open(|descriptor, description| description.length_is_needed(descriptor));
}

/// The same of one.
pub(crate) fn length_is_needed(descriptor: c_int) {
    if let Some(file) = get(descriptor) {
        file.length_is_needed(descriptor);
    }
}

/// What the program's own system calls change here, before they are made.
pub(crate) fn about_to_call(number: i64, arguments: [usize; 6]) {
    let descriptor = |index: usize| arguments[index] as c_int;
    match number {
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            process::shares_memory();
            let shares_memory = number == libc::SYS_clone && descriptor(0) & libc::CLONE_VM != 0;
            if !shares_memory || descriptor(0) & libc::CLONE_FILES == 0 {
                shared(true);
            }
        }
        libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_io_uring_setup => shared(true),
        libc::SYS_close => closed(descriptor(0)),
        libc::SYS_dup2 | libc::SYS_dup3 => {
            own::make_way(descriptor(1));
            closed(descriptor(1));
        }
        libc::SYS_close_range => {
            (arguments[0]..=arguments[1].min(DESCRIPTORS)).for_each(|descriptor| closed(descriptor as c_int));
        }
        libc::SYS_fcntl if descriptor(1) == libc::F_SETFL => {
            if let Some(file) = get(descriptor(0)) {
                file.set_flags(arguments[2] as c_int);
            }
        }
        libc::SYS_setrlimit | libc::SYS_prlimit64 => HAS_SIZE_LIMIT.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// What they change here, behind them: those that make a copy of a descriptor.
pub(crate) fn has_called(number: i64, arguments: [usize; 6], answer: isize) {
    let is_copy = match number {
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => true,
        libc::SYS_fcntl => [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(arguments[1] as c_int)),
        _ => false,
    };
    if is_copy && answer >= 0 {
        copied(arguments[0] as c_int, answer as c_int);
    }
}

/// A child has the same descriptors, and the kernel's offsets.
extern "C" fn before_fork() {
    shared(true);
    mappings::before_fork();
}

extern "C" fn in_parent() {
    mappings::in_parent();
}

/// A child is another process: the owner does not know it yet.
extern "C" fn in_child() {
    mappings::in_child();
    offsets::in_child();
    // Other threads of the parent may have held any of these, and are not here. What they guard is not freed: they were using it.
    for (slot, is_open) in OPEN.iter().zip(&IS_OPEN.0) {
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
        // SAFETY: clients are never freed, and this one is used no more.
        own::close(unsafe { &*client }.descriptor());
    }
    names::in_child();
    // SAFETY: it always succeeds.
    PROCESS.store(unsafe { kernel::call(libc::SYS_getpid, []) } as u32, Ordering::Relaxed);
}

impl File {
    fn new(unknown: c_int) -> Self {
        Self {
            lease: RwLock::new(None),
            unknown: AtomicI32::new(unknown),
            skips: AtomicU32::new(0),
            skipped: AtomicU32::new(0),
            growth: Growth::new(),
        }
    }

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

/// What one call reads or writes, in parts. All of it can be addressed: the kernel answers what cannot.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    parts: &'a [iovec],
    bytes: usize,
}

impl<'a> Parts<'a> {
    /// Nothing if the kernel is to say what is wrong with them, or does only a part.
    #[inline]
    pub(crate) fn new(parts: &'a [iovec]) -> Option<Self> {
        /// Bytes of one call at most.
        const MOST_BYTES: usize = 0x7fff_f000;
        /// No program's memory lies behind this, on any processor with four levels of page tables.
        const END: usize = 1 << 47;
        let mut bytes = 0;
        for part in parts {
            let is_there = part.iov_len <= MOST_BYTES
                && !part.iov_base.is_null()
                && (part.iov_base as usize).checked_add(part.iov_len).is_some_and(|end| end <= END);
            bytes += if is_there { part.iov_len } else { return None };
        }
        (bytes <= MOST_BYTES).then_some(Self { parts, bytes })
    }
}

impl Description {
    fn new(file: Arc<File>, client: &'static Client, flags: c_int, handle: u64) -> Self {
        let access = flags & libc::O_ACCMODE;
        Self {
            file,
            client,
            sequence: RwLock::new(Sequence::new()),
            appends: AtomicBool::new(flags & libc::O_APPEND != 0),
            reads: access != libc::O_WRONLY,
            writes: access != libc::O_RDONLY,
            kernels: AtomicU8::new(0),
            beside: Beside::new(handle, flags),
        }
    }

    /// The number at the owner's service of a file that was opened without the kernel.
    pub(crate) fn beside(&self) -> Option<u64> {
        self.beside.handle()
    }

    /// It becomes the kernel's, if it was opened without it.
    pub(crate) fn make_real(&self, descriptor: c_int) {
        let Some(handle) = self.beside.handle() else { return };
        let ask = names::ask(self.client);
        let open = || names::open_again(&ask, handle, self.beside.flags, OURS.load(Ordering::Relaxed));
        let is_open = match open() {
            Some(opened) => {
                kernel::replace(opened, descriptor);
                true
            }
            None => kernel::open_in_place(descriptor, names::stands_in(), open),
        };
        if is_open {
            let offset = self.beside.offset.load(Ordering::Relaxed) as off_t;
            let _ = kernel::seek(descriptor, offset, libc::SEEK_SET);
        } else {
            // The descriptor stays one that nothing can be done with.
            self.kernels.fetch_or(ALL, Ordering::AcqRel);
        }
        self.beside.ends();
        // The lease ends with this, if it did not when the file was opened.
        ask.close(handle);
    }

    #[inline]
    fn is_kernels(&self) -> bool {
        self.kernels.load(Ordering::Acquire) & ALL != 0
    }

    /// The kernel does everything with the file from now on.
    pub(crate) fn hand_back(&self, descriptor: c_int) {
        let _sequence = writing(&self.sequence);
        if self.is_kernels() {
            return;
        }
        offsets::settle();
        let mut lease = writing(&self.file.lease);
        // Otherwise nothing was done with it here, and as long as the owner does not hear of it no other client will.
        if self.file.unknown.swap(NONE, Ordering::AcqRel) == NONE {
            *lease = None;
            self.file.skipped.store(MOST_SKIPPED, Ordering::Relaxed);
            // The kernel must not keep bytes of a file that is written beside it. While a program is stopped in the middle of a copy
            // the owner cannot end leases; if the owner is gone there is nothing to keep apart.
            while Client::bar(borrowed(&descriptor)) == Err(rustix::io::Errno::BUSY) {}
            // The kernel learns how long the file is: it would not let the program see a mapping beyond what it knows.
            kernel::look_at(descriptor);
        }
        // Only now: a thread that sees this goes on through the kernel.
        self.kernels.fetch_or(ALL, Ordering::AcqRel);
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
        // No thread hands it back meanwhile.
        let _lease = reading(&self.file.lease);
        if self.is_kernels() {
            return None;
        }
        self.make_real(descriptor);
        self.file.unknown.store(NONE, Ordering::Release);
        mappings::map(self.client, borrowed(&descriptor), bytes, protection, flags, self.writes)
    }

    /// Asks for a lease: there was none yet, or another process has used the file, and perhaps that is over. A program that is about to
    /// write says where and how much.
    fn gain(&self, descriptor: c_int, written: Option<(Place, u64)>) -> bool {
        use rustix::io::Errno;
        let file = &self.file;
        if file.skips.load(Ordering::Relaxed) > 0 {
            file.skips.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let mut lease = writing(&file.lease);
        if self.is_kernels() {
            return false;
        }
        self.make_real(descriptor);
        file.unknown.store(NONE, Ordering::Release);
        if lease.is_none() {
            match self.client.lease(borrowed(&descriptor), written) {
                Ok(gained) => *lease = Some(gained),
                // The number is another file's, closed and opened again where nothing here could see it; or the connection is.
                Err(Errno::NOTTY | Errno::BADF | Errno::INVAL) => {
                    self.kernels.fetch_or(ALL, Ordering::AcqRel);
                }
                Err(_) => {}
            }
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

    /// Whether there is a lease now.
    fn has_lease(&self, descriptor: c_int) -> bool {
        // In two steps: asking for one changes what is looked at.
        let has_one = reading(&self.file.lease).is_some();
        has_one || self.gain(descriptor, None)
    }

    /// Does something under the lease, or otherwise without one: no thread of this process gets it meanwhile, so that the kernel keeps
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

    /// What is left of a part before memory that is not there, or the error's number: as the kernel has it, whatever lies before is done.
    #[cold]
    fn before_fault(&self, address: usize, part: &iovec) -> Result<usize, c_int> {
        let before = address.wrapping_sub(part.iov_base as usize);
        match before {
            _ if self.client.is_stores(address) => Err(libc::EIO),
            1.. if before < part.iov_len => Ok(before),
            _ => Err(libc::EFAULT),
        }
    }

    /// Reads at an offset into one part: how much that was, or the error's number.
    #[inline]
    fn read_part(
        &self,
        descriptor: c_int,
        at: u64,
        part: &iovec,
        recovery: &Recovery,
    ) -> Result<usize, c_int> {
        let mut length = part.iov_len;
        loop {
            let into = (part.iov_base.cast(), length);
            let read = self.leased(
                descriptor,
                |lease| {
                    // SAFETY: (1) the program's own, and faults are known here; (2) this thread's; (3) the lease is held.
                    match unsafe { self.client.read(lease, at, into, recovery) } {
                        ReadDone::Bytes(read) => Some(Ok(read)),
                        ReadDone::Fault(address) => Some(Err(self.before_fault(address, part))),
                        ReadDone::Ended => None,
                    }
                },
                || {
                    self.make_real(descriptor);
                    // SAFETY: as the program's own call.
                    let read = unsafe {
                        let arguments = [descriptor as usize, into.0 as usize, length, at as usize];
                        kernel::call(libc::SYS_pread64, arguments)
                    };
                    usize::try_from(read).map_err(|_| Err(-read as c_int))
                },
            );
            match read {
                Ok(read) => return Ok(read),
                Err(Ok(before)) => length = before,
                Err(Err(number)) => return Err(number),
            }
        }
    }

    /// Reads at an offset into all parts.
    #[inline]
    fn read_parts(
        &self,
        descriptor: c_int,
        offset: u64,
        Parts { parts, .. }: Parts<'_>,
        recovery: &Recovery,
    ) -> Result<usize, c_int> {
        let mut done = 0;
        for part in parts {
            match self.read_part(descriptor, offset + done as u64, part, recovery) {
                Ok(read) => {
                    done += read;
                    if read < part.iov_len {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(number) => return Err(number),
            }
        }
        Ok(done)
    }

    /// Writes all parts, at an offset or behind the end: how much, and where that ended.
    fn write_parts(
        &self,
        descriptor: c_int,
        place: Place,
        Parts { parts, bytes }: Parts<'_>,
        recovery: &Recovery,
    ) -> Result<(usize, u64), c_int> {
        let mut end = None;
        let mut done = 0;
        // One after the other, without another thread between.
        let mut lease = writing(&self.file.lease);
        if lease.is_none() {
            drop(lease);
            self.gain(descriptor, Some((place, (bytes as u64).clamp(LEAST_AHEAD, MOST_AHEAD))));
            lease = writing(&self.file.lease);
        }
        'parts: for part in parts {
            let mut left = *part;
            while left.iov_len > 0 {
                let piece = iovec { iov_len: left.iov_len.min(Client::most_at_once()), ..left };
                let at = match place {
                    Place::At(offset) => Place::At(offset + done as u64),
                    Place::End => end.map_or(Place::End, Place::At),
                };
                match self.write_piece(descriptor, &mut lease, at, piece, recovery) {
                    Ok((offset, written)) => {
                        done += written;
                        end = Some(offset + written as u64);
                        if written < piece.iov_len {
                            break 'parts;
                        }
                    }
                    Err(_) if done > 0 => break 'parts,
                    Err(number) => return Err(number),
                }
                left.iov_base = left.iov_base.wrapping_byte_add(piece.iov_len);
                left.iov_len -= piece.iov_len;
            }
        }
        let nothing = match place {
            Place::At(offset) => offset,
            Place::End => 0,
        };
        Ok((done, end.unwrap_or(nothing)))
    }

    fn write_piece(
        &self,
        descriptor: c_int,
        lease: &mut Option<Lease>,
        place: Place,
        piece: iovec,
        recovery: &Recovery,
    ) -> Result<(u64, usize), c_int> {
        let mut length = piece.iov_len;
        let mut attempts = 0;
        while let Some(held) = lease.filter(|lease| lease.writes) {
            let from = (piece.iov_base.cast_const().cast(), length);
            // SAFETY: (1) the program's own, and faults are known here; (2) this thread's; (3) the lease is held.
            match unsafe { self.client.write(&held, place, from, recovery, attempts > 0) } {
                Written::At(offset) => return Ok((offset, length)),
                Written::Behind(offset) => {
                    if self.beside.handle().is_none() {
                        self.file.growth.begins();
                    }
                    return Ok((offset, length));
                }
                Written::Ended => *lease = None,
                Written::NoFrames(offset) => {
                    attempts += 1;
                    // Others may have given frames back meanwhile, but not for ever: another program has written to our memory.
                    if attempts > MOST_ATTEMPTS {
                        return Err(libc::EIO);
                    }
                    limit_may_have_changed();
                    if HAS_SIZE_LIMIT.load(Ordering::Relaxed) {
                        break;
                    }
                    let reached = self.reserve(descriptor, &held, offset, length as u64)?;
                    length = length.min(reached.saturating_sub(offset) as usize);
                }
                Written::Fault(address) => length = self.before_fault(address, &piece)?,
            }
        }
        self.make_real(descriptor);
        // The kernel appends behind the length that it knows.
        self.length_is_needed(descriptor);
        let (start, here) = (piece.iov_base as usize, descriptor as usize);
        // SAFETY: as the program's own call.
        let written = unsafe {
            match place {
                Place::At(offset) => kernel::call(libc::SYS_pwrite64, [here, start, length, offset as usize]),
                Place::End => kernel::call(libc::SYS_write, [here, start, length]),
            }
        };
        let Ok(written) = usize::try_from(written) else { return Err(-written as c_int) };
        let offset = match place {
            Place::At(offset) => offset,
            Place::End => kernel::seek(descriptor, 0, libc::SEEK_CUR)?.saturating_sub(written as u64),
        };
        Ok((offset, written))
    }

    /// Gets frames; for a file that grows, more than it needs now.
    fn reserve(&self, descriptor: c_int, lease: &Lease, offset: u64, bytes: u64) -> Result<u64, c_int> {
        let file = borrowed(&descriptor);
        let size = self.client.size(lease).unwrap_or(0);
        let ahead =
            if offset == size { size.saturating_mul(AHEAD).clamp(LEAST_AHEAD, MOST_AHEAD) } else { 0 };
        if let Some(handle) = self.beside.handle() {
            let ask = names::ask(self.client);
            let reserved = ask.reserve(handle, offset, bytes.max(ahead.min(size)));
            if let Ok(reached) = reserved.or_else(|_| ask.reserve(handle, offset, bytes)) {
                return Ok(reached);
            }
            // Frames that others have ahead of what they write are for the kernel's requests to find.
            self.make_real(descriptor);
        }
        let reserved = match Client::reserve(file, offset, bytes.max(ahead)) {
            Err(_) if ahead > bytes => Client::reserve(file, offset, bytes),
            reserved => reserved,
        };
        reserved.map_err(|error| error.raw_os_error())
    }

    /// Reads from the offset on. Nothing if the kernel is to do that.
    pub(crate) fn read(&self, descriptor: c_int, parts: Parts<'_>, recovery: &Recovery) -> Answer {
        let mut sequence = writing(&self.sequence);
        // Other processes would see an offset behind the end for a moment.
        if !self.reads || self.kernels.load(Ordering::Acquire) != 0 {
            return None;
        }
        if let Some(at) = self.beside.offset() {
            let read = self.read_parts(descriptor, at, parts, recovery);
            if let Ok(read) = read {
                self.move_to(&sequence, descriptor, at + read as u64);
            }
            return answer(read);
        }
        if let Some(at) = sequence.borrowed(descriptor) {
            let read = self.read_parts(descriptor, at, parts, recovery);
            if let Ok(read) = read {
                sequence.move_to(descriptor, at + read as u64);
            }
            return answer(read);
        }
        if !self.has_lease(descriptor) {
            return None;
        }
        let (at, claimed) = claim(descriptor, parts.bytes)?;
        let read = self.read_parts(descriptor, at, parts, recovery);
        let end = at + read.unwrap_or(0) as u64;
        if end != claimed {
            sequence.move_to(descriptor, end);
        }
        answer(read)
    }

    /// Moves the offset to another place, of a file that may have become the kernel's just now.
    fn move_to(&self, sequence: &Sequence, descriptor: c_int, offset: u64) {
        match self.beside.handle() {
            Some(_) => self.beside.offset.store(offset, Ordering::Relaxed),
            None => sequence.move_to(descriptor, offset),
        }
    }

    /// Reads at an offset. Nothing if the kernel is to do that.
    #[inline]
    pub(crate) fn read_at(
        &self,
        descriptor: c_int,
        offset: off_t,
        parts: Parts<'_>,
        recovery: &Recovery,
    ) -> Answer {
        let offset = u64::try_from(offset).ok().filter(|_| self.reads)?;
        answer(self.read_parts(descriptor, offset, parts, recovery))
    }

    /// Whether writes are the kernel's: it says what is wrong, or ends the program.
    #[inline]
    fn may_write(&self) -> bool {
        self.writes && !HAS_SIZE_LIMIT.load(Ordering::Relaxed)
    }

    /// Writes from the offset on, or behind the end. Nothing if the kernel is to do that.
    pub(crate) fn write(&self, descriptor: c_int, parts: Parts<'_>, recovery: &Recovery) -> Answer {
        let written = self.write_here(descriptor, parts, recovery);
        if written.is_none() {
            self.length_is_needed(descriptor);
        }
        written
    }

    #[inline]
    fn write_here(&self, descriptor: c_int, parts: Parts<'_>, recovery: &Recovery) -> Answer {
        let mut sequence = writing(&self.sequence);
        let appends = self.appends.load(Ordering::Relaxed);
        // Other processes see each write at once, and where it ended.
        if !self.may_write() || self.kernels.load(Ordering::Acquire) != 0 || parts.bytes == 0 {
            return None;
        }
        let borrowed = self.beside.offset().or_else(|| sequence.borrowed(descriptor));
        if borrowed.is_none() && self.file.skips.load(Ordering::Relaxed) > 0 {
            self.file.skips.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        if appends {
            let written = self.write_parts(descriptor, Place::End, parts, recovery);
            if let Ok((_, end)) = written {
                self.move_to(&sequence, descriptor, end);
            }
            return answer(written.map(|(written, _)| written));
        }
        let (at, claimed) = match borrowed {
            Some(at) => (at, at),
            None => claim(descriptor, parts.bytes)?,
        };
        let written = self.write_parts(descriptor, Place::At(at), parts, recovery);
        let end = written.map_or(at, |(_, end)| end);
        if end != claimed {
            self.move_to(&sequence, descriptor, end);
        }
        answer(written.map(|(written, _)| written))
    }

    /// Writes at an offset. Nothing if the kernel is to do that.
    pub(crate) fn write_at(
        &self,
        descriptor: c_int,
        offset: off_t,
        parts: Parts<'_>,
        recovery: &Recovery,
    ) -> Answer {
        let Some(offset) = u64::try_from(offset).ok().filter(|_| self.may_write() && parts.bytes > 0) else {
            self.length_is_needed(descriptor);
            return None;
        };
        // As Linux does, whatever POSIX says.
        let place = if self.appends.load(Ordering::Relaxed) { Place::End } else { Place::At(offset) };
        let written = self.write_parts(descriptor, place, parts, recovery).map(|(written, _)| written);
        if self.kernels.load(Ordering::Acquire) & OFFSET != 0 {
            self.length_is_needed(descriptor);
        }
        answer(written)
    }

    /// Moves the offset. Nothing if the kernel is to do that.
    pub(crate) fn seek(&self, descriptor: c_int, by: off_t, whence: c_int) -> Answer {
        let sequence = writing(&self.sequence);
        let at = self.beside.offset().or_else(|| sequence.offset());
        let from = match (whence, at) {
            (libc::SEEK_SET, Some(_)) => 0,
            (libc::SEEK_CUR, Some(at)) => at as off_t,
            (libc::SEEK_END, _) if !self.is_kernels() => {
                // The owner need not be asked.
                let lease = reading(&self.file.lease);
                lease.as_ref().and_then(|lease| self.client.size(lease))? as off_t
            }
            _ => return None,
        };
        let to = from.checked_add(by).and_then(|to| u64::try_from(to).ok())?;
        if at.is_some() {
            // The kernel says what is too large for it.
            let to =
                i64::try_from(to).ok().filter(|&to| self.beside.handle().is_none() || to <= MOST_OFFSET)?;
            self.move_to(&sequence, descriptor, to as u64);
            return Some(to as ssize_t);
        }
        answer(kernel::seek(descriptor, to as off_t, libc::SEEK_SET).map(|at| at as usize))
    }

    /// Takes a range out of the file, or puts one in, if the mode says so.
    pub(crate) fn shift(&self, descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> Answer {
        let shift = match mode {
            libc::FALLOC_FL_COLLAPSE_RANGE => pagewalk_ctfs::collapse_on_mount,
            libc::FALLOC_FL_INSERT_RANGE => pagewalk_ctfs::insert_on_mount,
            _ => return None,
        };
        let (Ok(start), Ok(bytes)) = (u64::try_from(offset), u64::try_from(length)) else {
            return failed(libc::EINVAL);
        };
        let shifted = shift(borrowed(&descriptor), start..start.saturating_add(bytes));
        kernel::look_at(descriptor);
        answer(shifted.map(|()| 0).map_err(|error| error.raw_os_error()))
    }

    /// What was written persists.
    pub(crate) fn sync(&self) -> Option<c_int> {
        if reading(&self.file.lease).is_none() || self.beside.handle().is_some() {
            return None;
        }
        match self.client.fence() {
            Ok(persists) => persists.then_some(0),
            Err(error) => failed(error.raw_os_error()).map(|failed| failed as c_int),
        }
    }

    /// Other processes get it, with the kernel's offset, and see how long it is.
    fn is_shared(&self, descriptor: c_int) {
        self.make_real(descriptor);
        self.kernels.fetch_or(OFFSET, Ordering::AcqRel);
        self.length_is_needed(descriptor);
    }

    /// The kernel learns how long the file is.
    pub(crate) fn length_is_needed(&self, descriptor: c_int) {
        if self.file.growth.ends() {
            kernel::look_at(descriptor);
        }
    }

    /// The program has changed its flags.
    pub(crate) fn set_flags(&self, flags: c_int) {
        self.appends.store(flags & libc::O_APPEND != 0, Ordering::Relaxed);
    }
}

/// Moves the kernel's offset over bytes that are about to be read or written: from where to where. Whatever reads or writes from the
/// offset on meanwhile, a handler of a signal or another process, does so behind them.
fn claim(descriptor: c_int, bytes: usize) -> Option<(u64, u64)> {
    let claimed = kernel::seek(descriptor, bytes as off_t, libc::SEEK_CUR).ok()?;
    Some((claimed - bytes as u64, claimed))
}

/// A call's result as C has it.
#[inline]
fn answer(done: Result<usize, c_int>) -> Answer {
    match done {
        Ok(done) => Some(done as ssize_t),
        Err(number) => failed(number),
    }
}
