//! Open files of mounted stores, by descriptor.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use libc::c_int;
use pagewalk_ctfs::faults::Recovery;
use pagewalk_ctfs::single_threaded::Reading;
use pagewalk_ctfs::{Client, OpenedBeside};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::answers::failed;
use crate::description::{Description, File, NONE, has_beside};
use crate::threads::{Within, reading, writing};
use crate::{kernel, mappings, names, offsets, own, process, signals};

/// Descriptors from this one on are the kernel's alone.
pub(crate) const DESCRIPTORS: usize = 4_096;
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

/// What is behind a descriptor below [`DESCRIPTORS`].
pub(crate) fn behind(descriptor: usize) -> Reading<'static, Option<Arc<Description>>> {
    reading(&OPEN[descriptor])
}

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

/// A file that a call uses; a thread that closes its descriptor waits. Until it is dropped, other calls of the thread are the kernel's.
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
    let Ok(client) = Client::connect(kernel::borrowed(&descriptor)) else {
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
            *writing(&file.lease) = client.lease(kernel::borrowed(&descriptor), None).ok();
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

/// The mount's device, where this process is known to be a client of it.
pub(crate) fn our_device() -> u64 {
    OURS.load(Ordering::Relaxed)
}

/// The device of the mount that this process is a client of.
pub(crate) fn device() -> Option<u64> {
    connection().map(|_| our_device())
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
    Some(file.flags() & !OF_OPENING | names::LARGE)
}

/// Whether a descriptor is none of ours.
#[inline]
pub(crate) fn is_apart(descriptor: c_int) -> bool {
    slot(descriptor).is_none()
}

/// Looks again whether the program has a limit of how long files may get.
pub(crate) fn limit_may_have_changed() {
    let mut limit = [0u64; 2];
    let arguments = [0, libc::RLIMIT_FSIZE as usize, 0, limit.as_mut_ptr() as usize];
    // SAFETY: both words are written.
    let failed = unsafe { kernel::call(libc::SYS_prlimit64, arguments) } < 0;
    HAS_SIZE_LIMIT.store(failed || limit[0] != u64::MAX, Ordering::Relaxed);
}

/// Whether the program may have a limit of how long files may get.
#[inline]
pub(crate) fn has_size_limit() -> bool {
    HAS_SIZE_LIMIT.load(Ordering::Relaxed)
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
            let flags = rustix::io::fcntl_getfd(kernel::borrowed(&descriptor));
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
