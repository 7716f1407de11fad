//! The C library's own functions, behind the ones that stand before them.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    /// One of the three functions that POSIX lets a thread call which can be cancelled anywhere.
    fn pthread_setcancelstate(new: c_int, old: *mut c_int) -> c_int;
}

/// One function, found when it is first called.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Returns the address of the function.
    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        const DISABLE: c_int = 1;
        let mut before = 0;
        // A thread that is cancelled in the middle would leave the loader's lock taken for ever.
        // SAFETY: the name is a string of C's, and `before` lives.
        let found = unsafe {
            pthread_setcancelstate(DISABLE, &raw mut before);
            let found = libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr());
            pthread_setcancelstate(before, std::ptr::null_mut());
            found
        };
        if found.is_null() {
            // There is nothing that could be called instead.
            std::process::abort();
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls the C library's function of this name and type. What it does inside with a file's offset must be right.
macro_rules! real {
    ($name:ident($($argument:expr => $type:ty),* $(,)?) -> $result:ty) => {{
        const NAME: &std::ffi::CStr =
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without zeroes"),
            };
        static REAL: $crate::real::Real = $crate::real::Real::new(NAME);
        $crate::offsets::settle();
        // SAFETY: this is the function of that name, and the caller's arguments are passed on.
        let answer = unsafe {
            let function: unsafe extern "C" fn($($type),*) -> $result = std::mem::transmute(REAL.get());
            function($($argument),*)
        };
        $crate::offsets::watch_again();
        answer
    }};
}
pub(crate) use real;
