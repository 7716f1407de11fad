//! The calls that make and change mappings.

use libc::{c_int, c_void, off_t, size_t};

use crate::answers;
use crate::files::get;
use crate::mappings;
use crate::real::real;
/// `mmap` under its names.
macro_rules! maps {
    ($($name:ident)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            at: *mut c_void,
            length: size_t,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: off_t,
        ) -> *mut c_void {
            if let Some(open) = get(file) {
                if let Some(start) = open.map(file, (offset, length), protection, flags) {
                    return start;
                }
                open.hand_back(file);
            }
            let map = || real!($name(at => *mut c_void, length => size_t, protection => c_int, flags => c_int, file => c_int, offset => off_t) -> *mut c_void);
            if flags & libc::MAP_FIXED == 0 {
                return map();
            }
            mappings::replacing((at, length), map, |&mapped| mapped != libc::MAP_FAILED)
        }
    )*};
}

maps! { mmap mmap64 __mmap }

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, length: size_t) -> c_int {
    let unmap = || real!(munmap(start => *mut c_void, length => size_t) -> c_int);
    mappings::replacing((start, length), unmap, |&done| done == 0)
}

/// As the C library's.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    start: *mut c_void,
    old: size_t,
    new: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let is_plain = flags & !libc::MREMAP_MAYMOVE == 0;
    match mappings::resized(start, old, new, is_plain) {
        Some(Ok(start)) => return start,
        Some(Err(number)) => {
            answers::refused(number);
            return libc::MAP_FAILED;
        }
        None => {}
    }
    let remap = || real!(mremap(start => *mut c_void, old => size_t, new => size_t, flags => c_int, to => *mut c_void) -> *mut c_void);
    if flags & libc::MREMAP_FIXED == 0 {
        return remap();
    }
    mappings::replacing((to, new), remap, |&moved| moved != libc::MAP_FAILED)
}
