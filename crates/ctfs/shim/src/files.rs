//! Open files of mounted stores, by descriptor.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use libc::c_int;
use pagewalk_ctfs::faults::Recovery;
use pagewalk_ctfs::single_threaded::Reading;
use pagewalk_ctfs::{LeaseClient, OpenedBeside};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::answers::failed;
use crate::connection::client;
use crate::description::{Description, File, NONE, has_beside};
use crate::limits::limit_may_have_changed;
use crate::own::DESCRIPTORS;
use crate::process::is_our_process;
use crate::threads::{Within, reading, writing};
use crate::{connection, kernel, offsets};

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
/// Whether the kernel was asked to clear them in children.
static ENDS_IN_CHILDREN: AtomicBool = AtomicBool::new(false);
static FILES: Mutex<Option<Files>> = Mutex::new(None);

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
    if is_there && !ENDS_IN_CHILDREN.swap(true, Ordering::Relaxed) {
        IS_OPEN.end_in_children();
    }
    let old = std::mem::replace(&mut *writing(&OPEN[slot]), description);
    IS_OPEN.0[slot].store(is_there, Ordering::Release);
    drop(old);
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
            tell_of_first(&file, client, within);
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
    (client, opened): (&'static LeaseClient, &OpenedBeside),
    within: &Within,
) {
    let mut files = FILES.lock();
    let files = files.get_or_insert_with(FxHashMap::default);
    let place = (connection::our_device(), opened.ino.0);
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
    Some(file.flags() & !OF_OPENING | kernel::LARGE)
}

/// Whether a descriptor is none of ours.
#[inline]
pub(crate) fn is_apart(descriptor: c_int) -> bool {
    slot(descriptor).is_none()
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
        tell_of_first(&description.file, description.client, &within);
        put(to, Some(description), &within);
    }
}

/// Does something with each open file and its descriptor.
fn for_each_open(mut act: impl FnMut(c_int, &Description)) {
    if connection::connection().is_none() {
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

/// Tells the owner that a file's only descriptor is ours.
fn tell_of_first(file: &File, client: &LeaseClient, _: &Within) {
    let Ok(first) = usize::try_from(file.unknown.swap(NONE, Ordering::AcqRel)) else { return };
    // It stays open as long as this is held.
    let slot = reading(&OPEN[first]);
    if slot.as_ref().is_some_and(|description| std::ptr::eq(&*description.file, file)) {
        // What it is refused it asks for again.
        *writing(&file.lease) = client.lease(kernel::borrowed(&(first as c_int)), None).ok();
    }
}

/// A child has no file of ours open.
pub(crate) fn in_child() {
    // Other threads of the parent may have held any of these, and are not here. What they guard is not freed: they were using it.
    for (slot, is_open) in OPEN.iter().zip(&IS_OPEN.0) {
        if is_open.swap(false, Ordering::AcqRel) {
            // SAFETY: (1) no other thread is here, and this one holds none; (2) all of it may be written through a shared reference.
            unsafe { std::ptr::from_ref(slot).cast_mut().write(RwLock::new(None)) };
        }
    }
    // SAFETY: as above.
    unsafe { std::ptr::from_ref(&FILES).cast_mut().write(Mutex::new(None)) };
}
