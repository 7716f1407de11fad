//! Mapped files of mounted stores, by address.
//!
//! What is mapped of a file to be read is the store's own memory. The owner leaves it to the file until this process has unmapped
//! all of it, or all are gone who have it: children inherit mappings.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use libc::{c_int, c_void, off_t, size_t};
use pagewalk_ctfs::{Keeper, LeaseClient};
use parking_lot::{Mutex, MutexGuard};
use rustix::mm::{MapFlags, ProtFlags};

use crate::own;
use crate::real::real;

/// Pieces of memory at once, of the some ten thousand that a process may have.
const MOST_PIECES: usize = 16_384;
/// Connections at once that children have inherited.
const MOST_KEPT: usize = 16;
const PAGE: usize = 4_096;

struct Connection {
    keeper: Keeper,
    /// A child has what is mapped, too: the connection's end is what tells.
    is_inherited: AtomicBool,
}

/// What the owner keeps for one mapping, until this is dropped.
struct Pin {
    connection: Arc<Connection>,
    number: u64,
    pieces: usize,
}

impl Drop for Pin {
    fn drop(&mut self) {
        PIECES.fetch_sub(self.pieces, Ordering::Relaxed);
        if !self.connection.is_inherited.load(Ordering::Relaxed) {
            self.connection.keeper.unpin(self.number);
        }
    }
}

struct MappedRange {
    end: usize,
    pin: Arc<Pin>,
}

struct State {
    /// By their first address.
    mapped: BTreeMap<usize, MappedRange>,
    connection: Option<Arc<Connection>>,
}

static STATE: Mutex<State> = Mutex::new(State::new());
/// Whether there is anything: most programs unmap other memory.
static PIECES: AtomicUsize = AtomicUsize::new(0);
/// Descriptors that must stay open.
static KEPT: [AtomicI32; MOST_KEPT] = [const { AtomicI32::new(-1) }; MOST_KEPT];

/// Descriptors that must stay open, and others.
pub(crate) fn kept() -> impl Iterator<Item = c_int> {
    KEPT.iter().map(|descriptor| descriptor.load(Ordering::Relaxed))
}

/// Changes one of these places.
fn replace_kept(old: c_int, new: c_int) {
    if let Some(place) = KEPT.iter().find(|place| place.load(Ordering::Relaxed) == old) {
        place.store(new, Ordering::Relaxed);
    }
}

/// A descriptor that must stay open has another number.
pub(crate) fn moved(old: c_int, new: c_int) {
    replace_kept(old, new);
    let state = STATE.lock();
    if let Some(connection) = &state.connection {
        connection.keeper.descriptor_is_now(old, new);
    }
}

impl State {
    const fn new() -> Self {
        Self { mapped: BTreeMap::new(), connection: None }
    }

    fn connection(&mut self, file: BorrowedFd<'_>) -> Option<Arc<Connection>> {
        if self.connection.is_none() {
            if kept().filter(|&descriptor| descriptor < 0).count() < 2 {
                return None;
            }
            let keeper = Keeper::connect(file).ok()?;
            for descriptor in keeper.descriptors() {
                let moved = own::out_of_the_way(descriptor);
                keeper.descriptor_is_now(descriptor, moved);
                replace_kept(-1, moved);
            }
            self.connection = Some(Arc::new(Connection { keeper, is_inherited: AtomicBool::new(false) }));
        }
        self.connection.clone()
    }

    /// Removes addresses that are unmapped, or are mapped to something else.
    fn remove(&mut self, addresses: Range<usize>) {
        let before = self.mapped.range(..addresses.start).next_back().map(|(&start, _)| start);
        let inside = self.mapped.range(addresses.clone()).map(|(&start, _)| start);
        let touched: Vec<usize> = before.into_iter().chain(inside).collect();
        for start in touched {
            let MappedRange { end, pin } = self.mapped.remove(&start).expect("it was just found");
            for rest in [start..end.min(addresses.start), start.max(addresses.end)..end] {
                if rest.start < rest.end {
                    self.mapped.insert(rest.start, MappedRange { end: rest.end, pin: pin.clone() });
                }
            }
        }
    }

    fn has(&self, addresses: &Range<usize>) -> bool {
        let last = self.mapped.range(..addresses.end).next_back();
        last.is_some_and(|(_, mapped)| mapped.end > addresses.start)
    }
}

/// Maps a file that this process reads, if that can be done here.
pub(crate) fn map(
    client: &LeaseClient,
    file: BorrowedFd<'_>,
    (offset, length): (off_t, size_t),
    protection: c_int,
    flags: c_int,
    is_written: bool,
) -> Option<*mut c_void> {
    const KNOWN: c_int = libc::MAP_TYPE | libc::MAP_POPULATE | libc::MAP_NORESERVE | libc::MAP_NONBLOCK;
    let may_be = match flags & libc::MAP_TYPE {
        // What may be written later, or by others of this process, is left to the kernel.
        libc::MAP_SHARED => protection == libc::PROT_READ && !is_written,
        libc::MAP_PRIVATE => protection & !libc::PROT_WRITE == libc::PROT_READ,
        _ => false,
    };
    let start = u64::try_from(offset).ok().filter(|start| start.is_multiple_of(PAGE as u64))?;
    let length = length.checked_next_multiple_of(PAGE).filter(|&length| length > 0)?;
    if !may_be || flags & !KNOWN != 0 || PIECES.load(Ordering::Relaxed) >= MOST_PIECES {
        return None;
    }
    let mut state = STATE.lock();
    let connection = state.connection(file)?;
    let how = (ProtFlags::from_bits_retain(protection as u32), MapFlags::from_bits_retain(flags as u32));
    let bytes = start..start.checked_add(length as u64)?;
    let mapped = connection.keeper.map(client, file, bytes, how).ok()?;
    PIECES.fetch_add(mapped.pieces, Ordering::Relaxed);
    let pin = Arc::new(Pin { connection, number: mapped.pin, pieces: mapped.pieces });
    let at = mapped.start as usize;
    state.mapped.insert(at, MappedRange { end: at + length, pin });
    Some(mapped.start)
}

fn addresses(start: *mut c_void, length: size_t) -> Range<usize> {
    let start = start as usize;
    start..start.saturating_add(length.next_multiple_of(PAGE))
}

/// Does what unmaps addresses, or maps something else there, without another thread between that and what is known of them.
pub(crate) fn replacing<T>(
    (start, length): (*mut c_void, size_t),
    replace: impl FnOnce() -> T,
    is_done: impl FnOnce(&T) -> bool,
) -> T {
    if PIECES.load(Ordering::Relaxed) == 0 {
        return replace();
    }
    let mut state = STATE.lock();
    let done = replace();
    if is_done(&done) {
        state.remove(addresses(start, length));
    }
    done
}

/// What becomes of addresses that move or change their length, if there is a mapping of ours among them: behind its pages lie those of
/// other files, so that it cannot grow.
pub(crate) fn resized(
    start: *mut c_void,
    old: size_t,
    new: size_t,
    is_plain: bool,
) -> Option<Result<*mut c_void, c_int>> {
    if PIECES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut state = STATE.lock();
    let old_addresses = addresses(start, old.max(1));
    if !state.has(&old_addresses) {
        return None;
    }
    let is_aligned = (start as usize).is_multiple_of(PAGE);
    if !is_plain || !is_aligned || old == 0 || new == 0 || addresses(start, new).end > old_addresses.end {
        return Some(Err(if is_aligned && new > 0 { libc::ENOMEM } else { libc::EINVAL }));
    }
    let rest = addresses(start, new).end..old_addresses.end;
    if !rest.is_empty() {
        let (at, length) = (rest.start as *mut c_void, rest.end - rest.start);
        if real!(munmap(at => *mut c_void, length => size_t) -> c_int) == 0 {
            state.remove(rest);
        }
    }
    Some(Ok(start))
}

/// A child is about to have all mappings, too. No thread maps anything until [`in_parent`] or [`in_child`].
pub(crate) fn before_fork() {
    let mut state = STATE.lock();
    if !state.mapped.is_empty() {
        let inherited = state.connection.take();
        if let Some(connection) = inherited {
            connection.is_inherited.store(true, Ordering::Relaxed);
            // It is never closed: it ends with this process and its children.
            std::mem::forget(connection);
        }
    }
    MutexGuard::leak(state);
}

/// Behind [`before_fork`], in the parent.
pub(crate) fn in_parent() {
    // SAFETY: the thread that has locked it goes on here.
    unsafe { STATE.force_unlock() };
}

/// In a child, behind [`before_fork`] or where nothing was done before. What is mapped stays; its pins are the parent's.
pub(crate) fn in_child() {
    // SAFETY: (1) no other thread is here, and this one does not use it otherwise; (2) all of it may be written through a shared
    // reference.
    let State { mapped, connection } =
        unsafe { std::ptr::from_ref(&STATE).cast_mut().replace(Mutex::new(State::new())) }.into_inner();
    std::mem::forget(mapped);
    PIECES.store(0, Ordering::Relaxed);
    if let Some(connection) = connection {
        // Nothing was mapped by it: it is the parent's.
        for descriptor in connection.keeper.descriptors() {
            replace_kept(descriptor, -1);
            own::close(descriptor);
        }
        std::mem::forget(connection);
    }
}
