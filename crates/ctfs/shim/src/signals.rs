//! Handlers of signals: the program's run when nothing here is in its middle, and two of our own.
//!
//! A handler may read and write files, or never come back to where it was (`siglongjmp`). Had it interrupted a copy, the file would be
//! locked and the gate entered. So every handler is called by `arrived`, which lets it wait until the thread is out, a copy of 1 MiB at
//! most. What the program asks of its handlers it is told as it has set it.
//!
//! `SIGSEGV` and `SIGBUS` tell that a copy's memory is not there (see `pagewalk_ctfs::faults`), `SIGSYS` that the kernel needs offsets. The
//! program's own such signals go to its handlers.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, siginfo_t, sigset_t};
use pagewalk_ctfs::missing;

use crate::kernel;
use crate::offsets;
use crate::process::shares_memory;
use crate::real::real;
use crate::threads::{Deferred, Thread, this};

/// Signals, from 1 on.
const SIGNALS: usize = 65;
/// The kernel's word that it has dispatched a system call.
const SYS_USER_DISPATCH: c_int = 2;

/// What the program wants to be done at a signal whose handler is one of ours.
struct Wanted {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

static WANTED: [Wanted; SIGNALS] = [const {
    Wanted { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0), mask: AtomicU64::new(0) }
}; SIGNALS];

/// Whether the handlers of faults, and of dispatched calls, are ours.
static OWNS_FAULTS: AtomicBool = AtomicBool::new(false);
static OWNS_DISPATCHES: AtomicBool = AtomicBool::new(false);

/// A signal in the kernel's set.
pub(crate) const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Those that an instruction causes: they cannot wait.
const INSTRUCTIONS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGSYS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP);

fn kernels_set(set: &sigset_t) -> u64 {
    // SAFETY: a set is larger, and begins with the kernel's.
    unsafe { std::ptr::from_ref(set).cast::<u64>().read() }
}

fn set_of(signals: u64) -> sigset_t {
    // SAFETY: (1) zeroes are an empty set; (2) as in `kernels_set`.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        (&raw mut set).cast::<u64>().write(signals);
        set
    }
}

fn is_ours(handler: usize) -> bool {
    [arrived as *const () as usize, owned as *const () as usize].contains(&handler)
}

/// Whether the handler stays ours, whatever the program wants.
fn is_owned(signal: c_int) -> bool {
    match signal {
        libc::SIGSEGV | libc::SIGBUS => OWNS_FAULTS.load(Ordering::Relaxed),
        libc::SIGSYS => OWNS_DISPATCHES.load(Ordering::Relaxed),
        _ => false,
    }
}

/// What the kernel is to do at a signal for which the program wants this.
fn installed(signal: c_int, wanted: &libc::sigaction) -> libc::sigaction {
    let mut action = *wanted;
    let has_handler = ![libc::SIG_DFL, libc::SIG_IGN].contains(&wanted.sa_sigaction);
    if is_owned(signal) {
        action.sa_sigaction = owned as *const () as usize;
        // It is there as long as the program runs.
        action.sa_flags = wanted.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO;
        if !has_handler {
            action.sa_flags |= libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
            action.sa_mask = set_of(0);
        }
    } else if has_handler {
        action.sa_sigaction = arrived as *const () as usize;
        action.sa_flags = wanted.sa_flags | libc::SA_SIGINFO;
    }
    if is_ours(action.sa_sigaction) {
        // What a handler does that puts a signal off, its end above all, may be dispatched: the kernel ends a process that blocks this then.
        action.sa_mask = set_of(kernels_set(&action.sa_mask) & !bit(libc::SIGSYS));
        if signal == libc::SIGSYS {
            action.sa_flags |= libc::SA_NODEFER;
        }
    }
    action
}

impl Wanted {
    fn get(&self) -> (usize, c_int, u64) {
        let Self { handler, flags, mask } = self;
        (handler.load(Ordering::Relaxed), flags.load(Ordering::Relaxed), mask.load(Ordering::Relaxed))
    }

    fn set(&self, (handler, flags, mask): (usize, c_int, u64)) {
        self.mask.store(mask, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.handler.store(handler, Ordering::Relaxed);
    }
}

fn wanted(signal: c_int) -> Option<&'static Wanted> {
    usize::try_from(signal).ok().filter(|&signal| signal > 0).and_then(|signal| WANTED.get(signal))
}

/// Sets what the kernel does at a signal; what it did before.
fn exchange_by_libraries(signal: c_int, new: Option<libc::sigaction>) -> Option<libc::sigaction> {
    let new = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: zeroes are such a value.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    let done = real!(sigaction(signal => c_int, new => *const libc::sigaction, &raw mut found => *mut libc::sigaction) -> c_int);
    (done == 0).then_some(found)
}

/// The same past all libraries: what is ours must be called at once, which those that look for errors do not promise.
#[cfg(target_arch = "x86_64")]
fn exchange(signal: c_int, new: Option<libc::sigaction>) -> Option<libc::sigaction> {
    let new = new.map(|new| kernel::Action::new(new.sa_sigaction, new.sa_flags, kernels_set(&new.sa_mask)));
    let found = kernel::Action::exchange(signal, new.as_ref())?;
    Some(libc::sigaction {
        sa_sigaction: found.handler,
        sa_mask: set_of(found.mask),
        sa_flags: found.flags as c_int,
        sa_restorer: None,
    })
}

/// The same where the kernel is told what a handler returns to in another way.
#[cfg(not(target_arch = "x86_64"))]
fn exchange(signal: c_int, new: Option<libc::sigaction>) -> Option<libc::sigaction> {
    exchange_by_libraries(signal, new)
}

/// Sets what the kernel does at a signal; what it did before, as the program has set it. A child of `vfork` gets its handlers as they
/// are: those that are known here are its parent's, and it makes no calls in whose middle a signal could arrive.
fn set_action(signal: c_int, new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let wanted = wanted(signal);
    let before = wanted.map(Wanted::get);
    let is_known = new.is_some() && !shares_memory();
    let to_install = new.map(|new| if is_known { installed(signal, new) } else { *new });
    if let (true, Some(wanted), Some(new)) = (is_known, wanted, new) {
        // Before the kernel calls it.
        wanted.set((new.sa_sigaction, new.sa_flags, kernels_set(&new.sa_mask)));
    }
    let found = if is_owned(signal) {
        exchange(signal, to_install)
    } else {
        exchange_by_libraries(signal, to_install)
    };
    let Some(mut found) = found else {
        if let (true, Some(wanted), Some(before)) = (is_known, wanted, before) {
            wanted.set(before);
        }
        return None;
    };
    if let Some((handler, flags, mask)) = before.filter(|_| is_ours(found.sa_sigaction)) {
        // Others may have changed the kernel's flags (`siginterrupt`).
        let kernels = libc::SA_RESTART;
        found.sa_sigaction = handler;
        found.sa_flags =
            flags & !kernels | found.sa_flags & kernels & if is_owned(signal) { flags } else { !0 };
        found.sa_mask = set_of(mask);
    } else if let Some((handler, flags, _)) = before
        && ![libc::SIG_DFL, libc::SIG_IGN].contains(&handler)
        && flags & libc::SA_RESETHAND != 0
        && found.sa_sigaction == libc::SIG_DFL
    {
        // The handler was used, and what the kernel keeps of its flags is what was set here.
        found.sa_flags = flags;
    }
    Some(found)
}

/// From now on faults of copies are known here.
pub(crate) fn own_faults() {
    if !OWNS_FAULTS.swap(true, Ordering::Relaxed) {
        own(libc::SIGSEGV);
        own(libc::SIGBUS);
    }
}

/// From now on system calls can be dispatched; whether that is so.
pub(crate) fn own_dispatches() -> bool {
    !kernel::is_valgrinds() && (OWNS_DISPATCHES.swap(true, Ordering::Relaxed) || own(libc::SIGSYS))
}

/// Puts our handler in the place of the program's.
fn own(signal: c_int) -> bool {
    let Some(found) = set_action(signal, None) else { return false };
    set_action(signal, Some(&found)).is_some()
}

/// The handler of all signals that the program has a handler for, and cannot be waited for by an instruction.
unsafe extern "C" fn arrived(signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    if this(Thread::is_within) {
        // SAFETY: the kernel's, of this thread.
        return unsafe { defer(signal, information, context) };
    }
    // It makes its calls as if nothing had been before it, and blocks what it wants.
    offsets::settle();
    let Some((handler, ..)) = wanted(signal).map(Wanted::get) else { return };
    // SAFETY: the program's handler, as the kernel would call it.
    unsafe { call(handler, signal, information, context) }
}

unsafe fn call(handler: usize, signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&handler) {
        // SAFETY: as the caller's; a handler of one argument leaves the others alone.
        unsafe {
            let handler: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(handler);
            handler(signal, information, context);
        }
    }
}

/// Lets a signal wait until this thread is out, and blocks all others until then.
///
/// # Safety
///
/// Both are the kernel's, of this thread.
unsafe fn defer(signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: (1) the caller's; (2) the kernel's set lies where the C library's begins.
    unsafe {
        let blocked = (&raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>();
        let before = blocked.replace(!INSTRUCTIONS);
        this(|thread| {
            thread.defer(Deferred { number: signal, information: *information, blocked: before, deliver });
        });
    }
}

fn process_and_thread() -> [usize; 2] {
    // SAFETY: both touch no memory.
    [libc::SYS_getpid, libc::SYS_gettid].map(|number| unsafe { kernel::call(number, []) as usize })
}

/// Lets a signal that has waited arrive.
fn deliver(deferred: &Deferred) {
    let signal = deferred.number;
    if let Some((handler, flags, mask)) = wanted(signal).map(Wanted::get)
        && flags & libc::SA_RESETHAND != 0
    {
        // The kernel believes that the handler has run.
        set_action(
            signal,
            Some(&libc::sigaction {
                sa_sigaction: handler,
                sa_mask: set_of(mask),
                sa_flags: flags,
                sa_restorer: None,
            }),
        );
    }
    let [process, thread] = process_and_thread();
    // SAFETY: (1) so much is read there; (2) it touches no other memory.
    unsafe {
        let information = (&raw const deferred.information) as usize;
        let queued =
            kernel::call(libc::SYS_rt_tgsigqueueinfo, [process, thread, signal as usize, information]);
        if queued < 0 {
            kernel::call(libc::SYS_tgkill, [process, thread, signal as usize]);
        }
    }
    kernel::block_signals(deferred.blocked);
}

/// The handler of faults and of dispatched calls.
unsafe extern "C" fn owned(signal: c_int, information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's.
    let (code, address) = unsafe { ((*information).si_code, (*information).si_addr() as usize) };
    let is_instructions = code > 0;
    if signal == libc::SIGSYS && code == SYS_USER_DISPATCH {
        // SAFETY: the kernel's, of this thread.
        return unsafe { offsets::dispatched(information, context) };
    }
    let recover = |thread: &Thread| {
        // SAFETY: (1) the kernel's, of this thread; (2) an instruction's fault.
        unsafe { thread.recovery.recover(context, address) }
    };
    if signal != libc::SIGSYS && is_instructions && this(recover) {
        return;
    }
    // Where no copy is made, a word of the store is missing.
    if signal == libc::SIGBUS && is_instructions && missing::recover(address as *const c_void) {
        return;
    }
    let Some(wanted) = wanted(signal) else { return };
    let (handler, flags, _) = wanted.get();
    match handler {
        libc::SIG_IGN if !is_instructions => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // As if we had never been here: an instruction faults again where it is, another process's signal comes again.
            // SAFETY: zeroes are such a value, the default.
            exchange(signal, Some(unsafe { std::mem::zeroed() }));
            if !is_instructions {
                let [process, thread] = process_and_thread();
                // SAFETY: it touches no memory.
                unsafe { kernel::call(libc::SYS_tgkill, [process, thread, signal as usize]) };
            }
        }
        // SAFETY: the kernel's, of this thread.
        _ if !is_instructions && this(Thread::is_within) => unsafe {
            defer(signal, information, context);
        },
        _ => {
            if flags & libc::SA_RESETHAND != 0 {
                wanted.handler.store(libc::SIG_DFL, Ordering::Relaxed);
            }
            offsets::settle();
            // SAFETY: the program's handler, as the kernel would call it.
            unsafe { call(handler, signal, information, context) }
        }
    }
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's.
    let new = unsafe { new.as_ref() };
    match set_action(signal, new) {
        None => -1,
        Some(found) => {
            if !old.is_null() {
                // SAFETY: the caller's.
                unsafe { old.write(found) };
            }
            0
        }
    }
}

/// Sets a handler as `signal` and its kin do; the one before.
fn set_handler(signal: c_int, handler: usize, flags: c_int, mask: u64) -> usize {
    let action =
        libc::sigaction { sa_sigaction: handler, sa_mask: set_of(mask), sa_flags: flags, sa_restorer: None };
    match wanted(signal).filter(|_| handler != libc::SIG_ERR) {
        Some(_) => set_action(signal, Some(&action)).map_or(libc::SIG_ERR, |before| before.sa_sigaction),
        None => {
            crate::answers::refused(libc::EINVAL);
            libc::SIG_ERR
        }
    }
}

/// Signals whose handlers interrupt system calls, as `siginterrupt` has set it.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// `signal` under its names.
macro_rules! signals {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
            if wanted(signal).is_none() {
                return set_handler(signal, handler, 0, 0);
            }
            let interrupts = INTERRUPTING.load(Ordering::Relaxed) & bit(signal) != 0;
            set_handler(signal, handler, if interrupts { 0 } else { libc::SA_RESTART }, bit(signal))
        }
    )*};
}

signals! { signal bsd_signal ssignal }

/// The same of System V: the handler is used once.
macro_rules! signals_once {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
            set_handler(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, 0)
        }
    )*};
}

signals_once! { sysv_signal __sysv_signal }

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    let Some(mut action) = wanted(signal).and_then(|_| set_action(signal, None)) else {
        return crate::answers::refused(libc::EINVAL);
    };
    action.sa_flags =
        action.sa_flags & !libc::SA_RESTART | if interrupts == 0 { libc::SA_RESTART } else { 0 };
    match interrupts {
        _ if shares_memory() => {}
        0 => drop(INTERRUPTING.fetch_and(!bit(signal), Ordering::Relaxed)),
        _ => drop(INTERRUPTING.fetch_or(bit(signal), Ordering::Relaxed)),
    }
    if set_action(signal, Some(&action)).is_some() { 0 } else { -1 }
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigset(signal: c_int, handler: usize) -> usize {
    const SIG_HOLD: usize = 2;
    if wanted(signal).is_none() {
        return set_handler(signal, handler, 0, 0);
    }
    let change = |how: c_int| {
        let (set, mut before) = (set_of(bit(signal)), set_of(0));
        // SAFETY: both sets live.
        unsafe { libc::pthread_sigmask(how, &raw const set, &raw mut before) };
        kernels_set(&before) & bit(signal) != 0
    };
    let (before, was_blocked) = if handler == SIG_HOLD {
        (
            set_action(signal, None).map_or(libc::SIG_ERR, |action| action.sa_sigaction),
            change(libc::SIG_BLOCK),
        )
    } else {
        let before = set_handler(signal, handler, 0, 0);
        if before == libc::SIG_ERR {
            return before;
        }
        (before, change(libc::SIG_UNBLOCK))
    };
    if was_blocked { SIG_HOLD } else { before }
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigignore(signal: c_int) -> c_int {
    if set_handler(signal, libc::SIG_IGN, 0, 0) == libc::SIG_ERR { -1 } else { 0 }
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int {
    const ASYNCHRONOUS: c_int = 1;
    let error = real!(pthread_setcanceltype(new => c_int, old => *mut c_int) -> c_int);
    if error == 0 {
        this(|thread| thread.is_cancelled_anywhere.set(new == ASYNCHRONOUS));
    }
    error
}
