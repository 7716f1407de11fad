//! As whom this process uses files, as the owner's service has to know it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pagewalk_ctfs::Caller;

use crate::kernel;

const NO_UMASK: u32 = u32::MAX;

static UMASK: AtomicU32 = AtomicU32::new(NO_UMASK);
static UID: AtomicU32 = AtomicU32::new(0);
static GID: AtomicU32 = AtomicU32::new(0);
static IS_ROOT: AtomicBool = AtomicBool::new(false);
static HAS_GROUPS: AtomicBool = AtomicBool::new(false);

/// Looks who it is; whether that is one whom the owner's service knows.
pub(crate) fn remember() -> bool {
    // What cannot be set is answered with what is set: as whom this process uses files.
    let number = |number| kernel::checked(number, [usize::MAX]).unwrap_or(0) as u32;
    let (uid, gid) = (number(libc::SYS_setfsuid), number(libc::SYS_setfsgid));
    /// Changing owners, all that modes forbid, and what only owners may do.
    const ALL: u32 = 0b1_1111;
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let mut sets = [0u32; 6];
    if kernel::checked(libc::SYS_capget, [header.as_ptr() as usize, sets.as_mut_ptr() as usize]).is_err() {
        return false;
    }
    let is_root = uid == 0 && sets[0] & ALL == ALL;
    // Of a user who may do only a part of that the kernel decides.
    if !is_root && (uid == 0 || sets[0] & ALL != 0) {
        return false;
    }
    let has_groups = kernel::checked(libc::SYS_getgroups, [0, 0]).map_or(true, |groups| groups > 0);
    UID.store(uid, Ordering::Relaxed);
    GID.store(gid, Ordering::Relaxed);
    IS_ROOT.store(is_root, Ordering::Relaxed);
    HAS_GROUPS.store(has_groups, Ordering::Relaxed);
    UMASK.store(NO_UMASK, Ordering::Relaxed);
    true
}

/// The permissions that new files do not get.
pub(crate) fn know_umask() {
    if UMASK.load(Ordering::Relaxed) == NO_UMASK {
        let umask = kernel::checked(libc::SYS_umask, [0o777]).unwrap_or(0);
        let _ = kernel::checked(libc::SYS_umask, [umask]);
        UMASK.store(umask as u32, Ordering::Relaxed);
    }
}

/// The user that this process was when that was looked at.
pub(crate) fn caller() -> Caller {
    Caller {
        uid: UID.load(Ordering::Relaxed),
        gid: GID.load(Ordering::Relaxed),
        umask: UMASK.load(Ordering::Relaxed),
        is_root: IS_ROOT.load(Ordering::Relaxed),
        has_groups: HAS_GROUPS.load(Ordering::Relaxed),
    }
}
