//! Copies into memory and out of it: copies that ask for as many lines of the caches at once as they can, that go past the caches,
//! and lines that are written back.

#[cfg(not(target_arch = "x86_64"))]
use std::sync::atomic::{Ordering, fence};

const LINE_BYTES: usize = 64;

/// Pieces that are read at random, which no prefetcher foresees.
#[cfg(target_arch = "x86_64")]
const UNFORESEEN: std::ops::RangeInclusive<usize> = 512..=8_192;

/// Copies of this many bytes and more go past the caches: what is written is not read soon, and a cache would first read the
/// lines that are written over.
pub(crate) const PAST_CACHES: usize = 1_024;

/// Bytes of an append at most behind which lines are asked for: the processor waits for no more of them at once.
pub(crate) const MOST_FORESEEN: usize = 4_096;

/// Copies bytes that may lie in memory alone. What counts is how many lines are asked for at once. A load of a whole line takes the
/// least room among the instructions that wait; next is the processor's own copy of a string; a plain copy waits for its first lines.
///
/// # Safety
///
/// As [`std::ptr::copy_nonoverlapping`].
#[inline]
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_out(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if UNFORESEEN.contains(&bytes) {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: (1) as the caller's; (2) the processor has the instructions; (3) it is a step and more.
            return unsafe { copy_lines(from, to, bytes) };
        }
        if std::arch::is_x86_feature_detected!("ermsb") {
            // SAFETY: (1) as the caller's; (2) the direction flag is clear, as everywhere.
            unsafe {
                std::arch::asm!(
                    "rep movsb",
                    inout("rcx") bytes => _,
                    inout("rsi") from => _,
                    inout("rdi") to => _,
                    options(nostack, preserves_flags)
                );
            }
            return;
        }
    }
    // SAFETY: as the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// Copies lines, many with each step: any other instruction among them takes the place of one that waits.
///
/// # Safety
///
/// As [`std::ptr::copy_nonoverlapping`]; at least as many bytes as a step copies.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[allow(unsafe_code)]
unsafe fn copy_lines(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_storeu_si512};
    const STEP: usize = 8 * LINE_BYTES;
    let step = |at: usize| {
        for at in (at..at + STEP).step_by(LINE_BYTES) {
            // SAFETY: all of the line lies in what the caller vouches for.
            unsafe { _mm512_storeu_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) };
        }
    };
    let mut at = 0;
    while at + STEP <= bytes {
        step(at);
        at += STEP;
    }
    if at < bytes {
        // It overlaps the one before.
        step(bytes - STEP);
    }
}

/// Copies bytes to where they are to persist.
///
/// # Safety
///
/// As [`std::ptr::copy_nonoverlapping`]. Other threads see it behind a fence or a locked instruction, as every lock has it; an ordinary
/// store that they see does not say that they see this.
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_past_caches(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if bytes >= PAST_CACHES {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = to.align_offset(LINE_BYTES).min(bytes);
        let lines = (bytes - head) / LINE_BYTES;
        let tail = head + lines * LINE_BYTES;
        // SAFETY: (1) head, lines and tail together are the bytes that the caller vouches for; (2) the lines are aligned in
        // the target; (3) every x86-64 has these instructions.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            for at in (head..tail).step_by(LINE_BYTES) {
                let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
                for part in 0..LINE_BYTES / 16 {
                    _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part)));
                }
            }
            std::ptr::copy_nonoverlapping(from.add(tail), to.add(tail), bytes - tail);
        }
        return;
    }
    // SAFETY: as the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// Copies bytes behind which more will be written soon: the lines for as many are asked for, so that they are there then.
///
/// # Safety
///
/// As [`std::ptr::copy_nonoverlapping`].
#[inline]
#[allow(unsafe_code)]
pub(crate) unsafe fn copy_and_ask_for_more(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
    #[cfg(target_arch = "x86_64")]
    for at in (bytes..2 * bytes).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: asking for a line touches nothing, wherever it is.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(to.wrapping_add(at).cast()) }
    }
}

/// Waits for stores past the caches: others are in order anyway.
#[inline]
#[allow(unsafe_code)]
pub(crate) fn order_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has this instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    fence(Ordering::SeqCst);
}

/// Writes lines back to memory; whether they are there says a fence.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) fn write_back(start: *const u8, bytes: usize) {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid_count, _mm_clflush};
    use std::sync::OnceLock;
    // Best first: the line stays in the cache; it goes, beside others; one after the other.
    static BEST: OnceLock<u32> = OnceLock::new();
    let best = *BEST.get_or_init(|| {
        let features = __cpuid_count(7, 0).ebx;
        [24, 23].into_iter().find(|bit| features >> bit & 1 != 0).unwrap_or(0)
    });
    let first = start as usize / LINE_BYTES * LINE_BYTES;
    for line in (first..start as usize + bytes).step_by(LINE_BYTES) {
        // SAFETY: (1) the processor has the instruction; (2) none of them changes what memory holds.
        unsafe {
            match best {
                24 => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                23 => asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)),
                _ => _mm_clflush(line as *const u8),
            }
        }
    }
}

/// Writes lines back to memory; whether they are there says a fence.
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
pub(crate) fn write_back(start: *const u8, bytes: usize) {
    let first = start as usize / LINE_BYTES * LINE_BYTES;
    for line in (first..start as usize + bytes).step_by(LINE_BYTES) {
        // SAFETY: Linux lets programs clean lines, which changes nothing that memory holds.
        unsafe { std::arch::asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
}

/// No way is known here: such a store is not opened.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn write_back(_: *const u8, _: usize) {
    unreachable!("a store in DAX memory was opened");
}
