//! Loops of two misses, with more and more instructions between them.
//!
//! Both loads miss at a time if the core has room for what is between them.

use std::arch::asm;

/// A loop: two chains, which it follows in turn, and rounds; it returns where they end. Unsafe for addresses that are not those of links.
pub(super) type TwoMisses = unsafe fn([u64; 2], usize) -> [u64; 2];
/// Loops by the instructions from one miss to the next; no window reaches as far as the last.
pub(super) type Distances = [(usize, TwoMisses)];

/// Declares a loop with so many of one instruction after each load.
macro_rules! two_misses {
    ($(#[$doc:meta])* $name:ident, $filler:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// Each address is that of a readable word which holds such an address.
        unsafe fn $name<const FILLERS: usize>([mut one, mut two]: [u64; 2], rounds: usize) -> [u64; 2] {
            for _ in 0..rounds {
                // SAFETY: (1) the caller vouches for both addresses, and for those that are read there; (2) the registers that change are
                // named; (3) the stack is not used.
                unsafe {
                    asm!(
                        "mov {one}, [{one}]", ".rept {fillers}", $filler, ".endr",
                        "mov {two}, [{two}]", ".rept {fillers}", $filler, ".endr",
                        one = inout(reg) one,
                        two = inout(reg) two,
                        fillers = const FILLERS,
                        out("rax") _,
                        in("rdx") 0_u64,
                        out("xmm0") _,
                        options(readonly, nostack, preserves_flags),
                    );
                }
            }
            [one, two]
        }
    };
}

two_misses! {
    /// Copies of vector registers: renaming does them, so that they take a place in the window, and neither a register nor a place in a
    /// scheduler. Of instructions without an operation some cores join two.
    with_copies, "movaps xmm0, xmm1"
}
two_misses! {
    /// Results in a general register, for which nothing waits.
    with_results, "lea eax, [rdx + 1]"
}
two_misses! {
    /// Results in a vector register, for which nothing waits.
    with_vectors, "pshufd xmm0, xmm1, 0"
}

/// Declares tables of loops, all of the same distances.
macro_rules! distances {
    ($($name:ident $of:ident,)+) => {
        $(distances!($name $of: 32 64 96 112 128 136 144 152 160 168 176 184 192 200 208 216 224 240 256 272 288 304 320 352 384 416 448
            480 512 544 576 640 704 768 1024);)+
    };
    ($name:ident $of:ident: $($fillers:literal)+) => {
        pub(super) const $name: &Distances = &[$(($fillers, $of::<$fillers>)),+];
    };
}

distances! {
    COPIES with_copies,
    RESULTS with_results,
    VECTOR_RESULTS with_vectors,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_grow() {
        assert!(COPIES.is_sorted_by(|(one, _), (two, _)| one < two));
    }
}
