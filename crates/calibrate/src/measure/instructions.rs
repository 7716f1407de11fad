//! Loops of chosen instructions: chains of dependent ones, and as many independent ones as a core takes.

use std::arch::asm;

/// How often the instructions of a loop's body are repeated before it jumps back.
const REPEATED: u64 = 16;

/// The memory that loads and stores of these loops use.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(super) struct Buffer([u64; 8]);

/// A loop of instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    /// How many instructions its body has.
    count: u64,
    run: fn(u64, &mut Buffer),
}

impl Loop {
    /// Executes about so many instructions; returns how many they were.
    pub(super) fn run(&self, instructions: u64, buffer: &mut Buffer) -> u64 {
        let rounds = (instructions / (self.count * REPEATED)).max(1);
        (self.run)(rounds, buffer);
        rounds * self.count * REPEATED
    }
}

/// Declares loops: their instructions, which may use `rax`, `rcx`, `rdx`, `rsi`, `r8` to `r11` and `xmm0` to `xmm7`, all 0 at the
/// beginning, and eight words of memory at `rdi`.
#[cfg(target_arch = "x86_64")]
macro_rules! loops {
    ($($(#[$doc:meta])* $name:ident = $count:literal: $($line:literal),+;)*) => { $(
        $(#[$doc])*
        pub(super) const $name: Loop = {
            fn run(rounds: u64, buffer: &mut Buffer) {
                // SAFETY: (1) only the eight words at `rdi` are read and written, which are the buffer's; (2) every register that
                // changes is named; (3) the stack is not used; (4) `rounds` is at least 1, so the loop ends.
                unsafe {
                    asm!(
                        "pxor xmm0, xmm0", "pxor xmm1, xmm1", "pxor xmm2, xmm2", "pxor xmm3, xmm3",
                        "pxor xmm4, xmm4", "pxor xmm5, xmm5", "pxor xmm6, xmm6", "pxor xmm7, xmm7",
                        ".p2align 6",
                        "2:",
                        ".rept 16", $($line,)+ ".endr",
                        "dec {rounds}",
                        "jnz 2b",
                        rounds = inout(reg) rounds => _,
                        in("rdi") buffer.0.as_mut_ptr(),
                        inout("rax") 0_u64 => _, inout("rcx") 0_u64 => _, inout("rdx") 0_u64 => _, inout("rsi") 0_u64 => _,
                        inout("r8") 0_u64 => _, inout("r9") 0_u64 => _, inout("r10") 0_u64 => _, inout("r11") 0_u64 => _,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                        out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                        options(nostack),
                    );
                }
            }
            Loop { count: $count, run }
        };
    )* };
}

/// As for x86-64, with the one register `{x}`.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! loops {
    ($($(#[$doc:meta])* $name:ident = $count:literal: $line:literal;)*) => { $(
        $(#[$doc])*
        pub(super) const $name: Loop = {
            fn run(rounds: u64, _: &mut Buffer) {
                for _ in 0..rounds {
                    // SAFETY: one register is changed, which is named; neither memory nor the stack is used.
                    unsafe {
                        asm!(".rept 16", $line, ".endr", x = inout(reg) 0_u64 => _, options(nomem, nostack));
                    }
                }
            }
            Loop { count: $count, run }
        };
    )* };
}

#[cfg(target_arch = "x86_64")]
loops! {
    /// Additions of which each needs the result of the one before: one in a cycle on every processor.
    ADDITIONS = 4: "add rax, 1", "add rax, 1", "add rax, 1", "add rax, 1";
    /// Multiplications of which each needs the one before.
    MULTIPLICATIONS = 2: "imul rax, rax", "imul rax, rax";
    /// Additions of doubles of which each needs the one before.
    FLOAT_ADDITIONS = 2: "addsd xmm0, xmm0", "addsd xmm0, xmm0";
    /// Instructions of several kinds: no unit limits how many are dispatched. Those without an operation would not do, of which some cores
    /// join two.
    MIXED = 6: "add rax, 1", "add rcx, 1", "paddd xmm0, xmm0", "movaps xmm1, xmm2", "mov r8, [rdi]", "mov r9, [rdi + 8]";
    /// Independent additions.
    INTEGERS = 8: "add rax, 1", "add rcx, 1", "add rdx, 1", "add rsi, 1", "add r8, 1", "add r9, 1", "add r10, 1", "add r11, 1";
    /// Independent multiplications.
    MULTIPLIERS = 8: "imul rax, rax", "imul rcx, rcx", "imul rdx, rdx", "imul rsi, rsi", "imul r8, r8", "imul r9, r9",
        "imul r10, r10", "imul r11, r11";
    /// Independent loads that hit in the first cache.
    LOADS = 8: "mov rax, [rdi]", "mov rcx, [rdi + 8]", "mov rdx, [rdi + 16]", "mov rsi, [rdi + 24]", "mov r8, [rdi + 32]",
        "mov r9, [rdi + 40]", "mov r10, [rdi + 48]", "mov r11, [rdi + 56]";
    /// Independent stores to one line.
    STORES = 8: "mov [rdi], rax", "mov [rdi + 8], rax", "mov [rdi + 16], rax", "mov [rdi + 24], rax", "mov [rdi + 32], rax",
        "mov [rdi + 40], rax", "mov [rdi + 48], rax", "mov [rdi + 56], rax";
    /// Independent additions of doubles.
    FLOATS = 8: "addsd xmm0, xmm0", "addsd xmm1, xmm1", "addsd xmm2, xmm2", "addsd xmm3, xmm3", "addsd xmm4, xmm4",
        "addsd xmm5, xmm5", "addsd xmm6, xmm6", "addsd xmm7, xmm7";
    /// Independent multiplications of doubles.
    FLOAT_MULTIPLIERS = 8: "mulsd xmm0, xmm0", "mulsd xmm1, xmm1", "mulsd xmm2, xmm2", "mulsd xmm3, xmm3", "mulsd xmm4, xmm4",
        "mulsd xmm5, xmm5", "mulsd xmm6, xmm6", "mulsd xmm7, xmm7";
    /// Independent permutations.
    SHUFFLES = 8: "shufpd xmm0, xmm0, 1", "shufpd xmm1, xmm1, 1", "shufpd xmm2, xmm2, 1", "shufpd xmm3, xmm3, 1",
        "shufpd xmm4, xmm4, 1", "shufpd xmm5, xmm5, 1", "shufpd xmm6, xmm6, 1", "shufpd xmm7, xmm7, 1";
    /// Copies of a general register to vectors.
    CROSSES = 8: "movq xmm0, rax", "movq xmm1, rax", "movq xmm2, rax", "movq xmm3, rax", "movq xmm4, rax", "movq xmm5, rax",
        "movq xmm6, rax", "movq xmm7, rax";
    /// Independent loads of doubles.
    VECTOR_LOADS = 8: "movsd xmm0, [rdi]", "movsd xmm1, [rdi + 8]", "movsd xmm2, [rdi + 16]", "movsd xmm3, [rdi + 24]",
        "movsd xmm4, [rdi + 32]", "movsd xmm5, [rdi + 40]", "movsd xmm6, [rdi + 48]", "movsd xmm7, [rdi + 56]";
    /// Independent stores of doubles to one line.
    VECTOR_STORES = 8: "movsd [rdi], xmm0", "movsd [rdi + 8], xmm1", "movsd [rdi + 16], xmm2", "movsd [rdi + 24], xmm3",
        "movsd [rdi + 32], xmm4", "movsd [rdi + 40], xmm5", "movsd [rdi + 48], xmm6", "movsd [rdi + 56], xmm7";
    /// Independent shifts.
    SHIFTS = 8: "shl rax, 1", "shl rcx, 1", "shl rdx, 1", "shl rsi, 1", "shl r8, 1", "shl r9, 1", "shl r10, 1", "shl r11, 1";
    /// Branches that are not taken, each with its comparison.
    BRANCHES = 4: "test rax, rax", "js 2b", "test rcx, rcx", "js 2b", "test rdx, rdx", "js 2b", "test rsi, rsi", "js 2b";
    /// Loads of zeroes of which each is the index of the next, scaled.
    SCALED_LOADS = 2: "mov rax, [rdi + rax * 8]", "mov rax, [rdi + rax * 8]";
    /// Additions to a word that is stored and loaded again, the loads always from the store before.
    FORESEEN = 1: "mov [rdi], rax", "mov rax, [rdi]", "add rax, 1";
    /// Independent additions of vectors of integers.
    VECTORS = 8: "paddd xmm0, xmm0", "paddd xmm1, xmm1", "paddd xmm2, xmm2", "paddd xmm3, xmm3", "paddd xmm4, xmm4",
        "paddd xmm5, xmm5", "paddd xmm6, xmm6", "paddd xmm7, xmm7";
}

#[cfg(target_arch = "aarch64")]
loops! {
    /// Additions of which each needs the result of the one before: one in a cycle on every processor.
    ADDITIONS = 1: "add {x}, {x}, #1";
}

#[cfg(target_arch = "riscv64")]
loops! {
    /// Additions of which each needs the result of the one before: one in a cycle on every processor.
    ADDITIONS = 1: "addi {x}, {x}, 1";
}

/// Executes a conditional branch for each bit of some words, taken where the bit is 0. Each branch needs the shift before it, which
/// needs the one before that: a branch is done three cycles after its dispatch.
#[cfg(target_arch = "x86_64")]
pub(super) fn branches(words: &[u64]) {
    if words.is_empty() {
        return;
    }
    // SAFETY: (1) `count` words from `words` on are read, which the slice has, and it has one at least; (2) every register that
    // changes is named; (3) the stack is not used.
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            "mov rax, [{words}]",
            "add {words}, 8",
            ".rept 64",
            "shr rax, 1",
            "jnc 3f",
            "add rdx, 1",
            "3:",
            ".endr",
            "dec {count}",
            "jnz 2b",
            words = inout(reg) words.as_ptr() => _,
            count = inout(reg) words.len() => _,
            out("rax") _,
            inout("rdx") 0_u64 => _,
            options(readonly, nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_execute_what_they_say() {
        let mut buffer = Buffer::default();
        assert_eq!(ADDITIONS.run(0, &mut buffer), ADDITIONS.count * REPEATED);
        assert_eq!(ADDITIONS.run(6_400, &mut buffer), 6_400);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_loop_ends_and_stores_stay_in_the_buffer() {
        let mut buffers = [Buffer([5; 8]), Buffer([5; 8]), Buffer([5; 8])];
        for each in [
            MULTIPLICATIONS,
            FLOAT_ADDITIONS,
            MIXED,
            INTEGERS,
            MULTIPLIERS,
            LOADS,
            FLOATS,
            VECTORS,
            FLOAT_MULTIPLIERS,
            SHUFFLES,
            CROSSES,
            VECTOR_LOADS,
            SHIFTS,
            BRANCHES,
        ] {
            each.run(1_000, &mut buffers[1]);
        }
        assert_eq!(buffers[1].0, [5; 8]);
        for stores in [STORES, VECTOR_STORES] {
            buffers[1] = Buffer([5; 8]);
            stores.run(1_000, &mut buffers[1]);
            assert_eq!(buffers[1].0, [0; 8]);
        }
        SCALED_LOADS.run(1_000, &mut buffers[1]);
        assert_eq!(buffers[1].0, [0; 8]);
        assert_eq!((buffers[0].0, buffers[2].0), ([5; 8], [5; 8]));
        branches(&[]);
        branches(&[0, u64::MAX, 5]);
    }
}
