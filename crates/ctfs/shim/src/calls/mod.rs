//! The functions that stand before the C library's.
//!
//! Those with a variable number of arguments in C take the ones that there may be as if they always were: the calling conventions of
//! the processors that Linux runs on here allow it.
//!
//! What is not here works all the same: the kernel's offset is right whenever a system call is made (`offsets`), and the owner ends a
//! lease before the kernel uses the file's bytes. The functions here are those that are to be fast, and those that change what a
//! descriptor means.

pub mod bytes;
pub mod descriptors;
pub mod memory;
pub mod names;
pub mod processes;

/// What becomes of a call that is not handled here.
macro_rules! or_real {
    ($answer:expr, $real:expr) => {
        match $answer {
            Some(answer) => answer,
            None => $real,
        }
    };
}
use or_real;

/// Makes a call that nothing here has to do with, past the C library while calls are dispatched: what is kept here need not be given
/// back. Descriptors and paths that it names are none of ours.
macro_rules! or_pass {
    ($number:ident $(of ($($descriptor:ident)+))? $(at ($($path:ident)+))? [$($argument:expr),*], $real:expr) => {{
        $($($crate::calls::refuse_own!($descriptor);)+)?
        let is_apart = true
            $($(&& $crate::files::is_apart($descriptor))+)?
            $($(&& !$crate::names::may_lead_to_descriptors($path))+)?;
        let passed = if is_apart { $crate::names::pass(libc::$number, [$($argument as usize),*]) } else { None };
        match passed {
            Some(answer) => answer as _,
            None => $real,
        }
    }};
}
use or_pass;

/// Functions under all their names, which do something first, and are the C library's otherwise.
macro_rules! before {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $act:expr;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            $act;
            $crate::real::real!($name($($argument => $type),*) -> $result)
        }
    )*};
}
use before;

/// The same; they do something with the answer.
macro_rules! behind {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, |$done:ident| $act:expr;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        ///
        /// The same.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            let $done = $crate::real::real!($name($($argument => $type),*) -> $result);
            $act;
            $done
        }
    )*};
}
use behind;

/// Refuses a descriptor of our own to the program.
macro_rules! refuse_own {
    ($($descriptor:expr),*) => {
        $(
            if $crate::kept::is_own($descriptor) {
                return $crate::answers::refused(libc::EBADF) as _;
            }
        )*
    };
}
use refuse_own;
