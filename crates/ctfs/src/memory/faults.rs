//! Copies that end where memory is not there, instead of ending the process.
//!
//! A system call answers `EFAULT` for a bad pointer; a copy in the process itself faults. [`Recovery::run`] notes where a copy was
//! called from, and a handler of `SIGSEGV` and `SIGBUS` goes on from there ([`Recovery::recover`]). The note is two stores: the handler
//! is needed in the rare case only.

use std::cell::Cell;
use std::ffi::c_void;

/// The place where one thread goes on when the copy that it makes faults.
#[derive(Debug)]
#[repr(C)]
pub struct Recovery {
    /// The stack's pointer in [`Recovery::run`]; 0 while no copy is made.
    stack: Cell<usize>,
    /// Behind a fault: one more than the address that was not there.
    fault: Cell<usize>,
}

impl Recovery {
    /// Creates the state of a thread that makes no copy.
    pub const fn new() -> Self {
        Self { stack: Cell::new(0), fault: Cell::new(0) }
    }

    /// Returns whether a copy is being made.
    pub fn is_running(&self) -> bool {
        self.stack.get() != 0
    }
}

impl Default for Recovery {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod processor {
    use super::{Recovery, c_void};

    std::arch::global_asm!(
        // Calls rdi(rsi), and answers what that answers; rdx points to the recovery's first word, which holds the stack's pointer
        // meanwhile. A handler that recovers goes on at the second entry. Whatever a called function must keep lies on the stack.
        ".p2align 4",
        ".hidden pagewalk_run_copy",
        ".globl pagewalk_run_copy",
        ".type pagewalk_run_copy, @function",
        "pagewalk_run_copy:",
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdx",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "2:",
        "pop rdx",
        "mov qword ptr [rdx], 0",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        ".hidden pagewalk_copy_faulted",
        ".globl pagewalk_copy_faulted",
        "pagewalk_copy_faulted:",
        "cld",
        "jmp 2b",
        ".size pagewalk_run_copy, . - pagewalk_run_copy",
    );

    unsafe extern "C" {
        fn pagewalk_run_copy(
            act: extern "C" fn(*const c_void) -> usize,
            on: *const c_void,
            stack: *const Recovery,
        ) -> usize;
        fn pagewalk_copy_faulted();
    }

    impl Recovery {
        /// Calls a function; what it answers means nothing behind a fault.
        ///
        /// # Safety
        ///
        /// As for [`Recovery::run`].
        #[inline]
        #[allow(unsafe_code)]
        pub(super) unsafe fn call(
            &self,
            act: extern "C" fn(*const c_void) -> usize,
            on: *const c_void,
        ) -> usize {
            // SAFETY: (1) the caller's; (2) the recovery's first word is the stack's pointer.
            unsafe { pagewalk_run_copy(act, on, self) }
        }

        /// Lets this thread go on behind its copy, if it makes one: for a handler of `SIGSEGV` or `SIGBUS`.
        ///
        /// # Safety
        ///
        /// 1. The context is the one that the kernel gave the handler, of the thread that this value belongs to.
        /// 2. The fault is one that an instruction made, at this address.
        #[allow(unsafe_code)]
        pub unsafe fn recover(&self, context: *mut c_void, address: usize) -> bool {
            if !self.is_running() {
                return false;
            }
            self.fault.set(address.wrapping_add(1));
            // SAFETY: the caller's.
            let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
            registers[libc::REG_RSP as usize] = self.stack.get() as i64;
            registers[libc::REG_RIP as usize] = pagewalk_copy_faulted as *const () as i64;
            true
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod processor {
    use super::{Recovery, c_void};

    impl Recovery {
        /// Calls a function, and always comes back: no way to go on behind a fault is known for this processor.
        ///
        /// # Safety
        ///
        /// As for [`Recovery::run`].
        #[allow(unsafe_code)]
        pub(super) unsafe fn call(
            &self,
            act: extern "C" fn(*const c_void) -> usize,
            on: *const c_void,
        ) -> usize {
            act(on)
        }

        /// Changes nothing on this processor.
        ///
        /// # Safety
        ///
        /// None.
        #[allow(unsafe_code)]
        pub unsafe fn recover(&self, _: *mut c_void, _: usize) -> bool {
            false
        }
    }
}

impl Recovery {
    /// Makes a copy without recovery.
    ///
    /// # Errors
    ///
    /// The address that was not there, if the process's handler calls [`Recovery::recover`].
    ///
    /// # Safety
    ///
    /// 1. `act` only copies: it takes no lock, and nothing that it makes needs to be dropped. A fault leaves it in its middle.
    /// 2. This thread makes no other copy with the same value meanwhile.
    #[inline]
    #[allow(unsafe_code)]
    pub unsafe fn run<A: Fn() -> usize>(&self, act: A) -> Result<usize, usize> {
        extern "C" fn call<A: Fn() -> usize>(on: *const c_void) -> usize {
            // SAFETY: it is the closure below.
            let act = unsafe { &*on.cast::<A>() };
            act()
        }
        self.fault.set(0);
        // SAFETY: the caller's.
        let answer = unsafe { self.call(call::<A>, (&raw const act).cast()) };
        match self.fault.get() {
            0 => Ok(answer),
            fault => Err(fault - 1),
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    thread_local! {
        static RECOVERY: Recovery = const { Recovery::new() };
    }

    extern "C" fn handle(_: libc::c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: (1) what the kernel gave this handler; (2) the only faults of this test are copies'.
        let is_recovered =
            RECOVERY.with(|recovery| unsafe { recovery.recover(context, (*information).si_addr() as usize) });
        assert!(is_recovered);
    }

    #[test]
    fn a_copy_ends_where_memory_does() {
        const PAGE: usize = 4_096;
        // SAFETY: (1) zeroes are such a value; (2) a fresh mapping, of which the second half is given back.
        let start: *mut u8 = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()), 0);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), 2 * PAGE, protection, how, -1, 0);
            assert_eq!(libc::munmap(start.byte_add(PAGE), PAGE), 0);
            start.cast()
        };
        let mut target = vec![0u8; 2 * PAGE];
        for (length, expected) in
            [(PAGE, Ok(PAGE)), (PAGE + 1, Err(start as usize + PAGE)), (0, Ok(0)), (8, Ok(8))]
        {
            let to = target.as_mut_ptr();
            let kept = length as u64 * 3;
            // Byte by byte, so that the first that is not there is known.
            let copied = RECOVERY.with(|recovery| {
                // SAFETY: (1) it copies to where there is room; (2) this thread's.
                unsafe {
                    recovery.run(|| {
                        for at in 0..length {
                            to.add(at).write_volatile(start.add(at).read_volatile());
                        }
                        length
                    })
                }
            });
            assert_eq!(copied, expected);
            assert_eq!(kept, length as u64 * 3, "what the caller had in registers is there again");
            assert!(RECOVERY.with(|recovery| !recovery.is_running()));
        }
    }
}
