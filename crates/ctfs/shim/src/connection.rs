//! The connection of this process to the owner of one mount.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use libc::c_int;
use pagewalk_ctfs::{Ask, LeaseClient, Sleep};
use parking_lot::Mutex;

use crate::process::is_our_process;
use crate::{kernel, own, process, signals, user};

/// Names that a program uses before the mount is looked for the first time.
pub(crate) const FIRST_LOOK: u32 = 8;
/// The number of names that a program uses before the mount is looked for.
pub(crate) static NEXT_LOOK: AtomicU32 = AtomicU32::new(FIRST_LOOK);

/// The owner of one mount; a process uses one.
static CLIENT: AtomicPtr<LeaseClient> = AtomicPtr::new(std::ptr::null_mut());
static CONNECTING: Mutex<()> = Mutex::new(());
/// The mount's device, and one that is known to be none.
static OURS: AtomicU64 = AtomicU64::new(u64::MAX);
static OTHER: AtomicU64 = AtomicU64::new(u64::MAX);

/// Returns the client of a device's mount, which is connected if there is none yet.
pub(crate) fn client(descriptor: c_int, device: u64) -> Option<&'static LeaseClient> {
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
    let Ok(client) = LeaseClient::connect(kernel::borrowed(&descriptor)) else {
        OTHER.store(device, Ordering::Relaxed);
        return None;
    };
    client.descriptor_is_now(own::out_of_the_way(client.descriptor()));
    signals::own_faults();
    OURS.store(device, Ordering::Relaxed);
    let client = Box::leak(Box::new(client));
    CLIENT.store(client, Ordering::Release);
    // This process is a client now: the next name shows where the mount is.
    NEXT_LOOK.store(0, Ordering::Relaxed);
    Some(client)
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

/// Returns the connection's client and descriptor.
pub(crate) fn connection() -> Option<(&'static LeaseClient, c_int)> {
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

/// The owner's service, asked as the user that this process is.
pub(crate) fn ask(client: &LeaseClient) -> Ask<'_> {
    client.ask(user::caller(), Sleep { wait: kernel::wait, wake: kernel::wake })
}

/// A child is another process: the owner does not know it yet.
pub(crate) fn in_child() {
    // SAFETY: (1) no other thread is here, and this one holds none; (2) all of it may be written through a shared reference.
    unsafe { std::ptr::from_ref(&CONNECTING).cast_mut().write(Mutex::new(())) };
    let client = CLIENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !client.is_null() {
        // SAFETY: clients are never freed, and this one is used no more.
        own::close(unsafe { &*client }.descriptor());
    }
}
