//! Vector kernels, the one file of this crate with unsafe code.
//!
//! [`equal_lanes`] finds a digest among the sixteen of a set ([`sets`](crate::sets)). It needs SSE2, which every
//! x86-64 processor has; the compiler turns the portable loop into 40 instructions instead of 5.
//!
//! [`run`] is the kernel of [`LruBank`](crate::tlb::LruBank) for AVX2. A set of eight ways is one 256-bit register of
//! 32-bit tags in LRU order. Comparing, finding the place and moving the tag to the front are a handful of
//! instructions without a branch, so the look-ups of one page in several TLBs overlap; safe code that the compiler
//! vectorises for the baseline processor branches per way and is about three times slower.

use crate::tlb::split;

/// Bit `n` tells whether `lanes[n]` equals `wanted`.
#[inline(always)]
pub(crate) fn equal_lanes(lanes: &[u16; 16], wanted: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        let lanes: *const __m128i = lanes.as_ptr().cast();
        // SAFETY: (1) SSE2 is part of x86-64; (2) `lanes` is 32 live bytes, read by two unaligned loads of 16.
        unsafe {
            let wanted = _mm_set1_epi16(wanted as i16);
            let low = _mm_cmpeq_epi16(_mm_loadu_si128(lanes), wanted);
            let high = _mm_cmpeq_epi16(_mm_loadu_si128(lanes.add(1)), wanted);
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        lanes.iter().enumerate().fold(0, |mask, (lane, &value)| mask | u32::from(value == wanted) << lane)
    }
}

/// Rows of eight 32-bit tags, newest first.
pub(crate) type Row = [u32; 8];

/// By place of the hit (8 = a miss): which lane each lane takes. Lane 0 takes the new tag by a blend.
const MOVES: [[i32; 8]; 9] = [
    [0, 1, 2, 3, 4, 5, 6, 7],
    [1, 0, 2, 3, 4, 5, 6, 7],
    [2, 0, 1, 3, 4, 5, 6, 7],
    [3, 0, 1, 2, 4, 5, 6, 7],
    [4, 0, 1, 2, 3, 5, 6, 7],
    [5, 0, 1, 2, 3, 4, 6, 7],
    [6, 0, 1, 2, 3, 4, 5, 7],
    [7, 0, 1, 2, 3, 4, 5, 6],
    [7, 0, 1, 2, 3, 4, 5, 6],
];

/// Whether this processor runs the kernel.
pub(crate) fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Runs `pages` (page numbers) through every TLB of `rows`. TLB `t` has `1 << log2_sets[t]` sets; its
/// rows start at `first_row[t]`. Adds the misses to `misses[t]`.
///
/// # Panics
///
/// If the processor lacks AVX2.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run<const TLBS: usize>(
    pages: &[u64],
    rows: &mut [Row],
    first_row: &[u32; TLBS],
    log2_sets: &[u32; TLBS],
    misses: &mut [u64; TLBS],
) {
    assert!(available(), "AVX2 is not available");
    // SAFETY: (1) the processor has AVX2, asserted above; that is the only condition of `run_avx2`.
    unsafe { run_avx2(pages, rows, first_row, log2_sets, misses) }
}

/// Without AVX2 this is never called.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn run<const TLBS: usize>(
    _: &[u64],
    _: &mut [Row],
    _: &[u32; TLBS],
    _: &[u32; TLBS],
    _: &mut [u64; TLBS],
) {
    unreachable!("AVX2 is not available")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1")]
fn run_avx2<const TLBS: usize>(
    pages: &[u64],
    rows: &mut [Row],
    first_row: &[u32; TLBS],
    log2_sets: &[u32; TLBS],
    misses: &mut [u64; TLBS],
) {
    use std::arch::x86_64::*;
    let mut counts = *misses;
    for &page in pages {
        for tlb in 0..TLBS {
            let (tag, set) = split(page, log2_sets[tlb]);
            let tag = _mm256_set1_epi32(tag as i32);
            let row: &mut Row = &mut rows[first_row[tlb] as usize + set];
            // SAFETY: (1) `row` is a live array of 32 bytes; (2) the load and the store are the unaligned ones.
            let before = unsafe { _mm256_loadu_si256(std::ptr::from_ref(row).cast()) };
            let equal = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(before, tag))) as u32;
            let place = (equal | 0x100).trailing_zeros() as usize;
            counts[tlb] += u64::from(place == 8);
            // SAFETY: (1) a row of `MOVES` is 32 bytes, and `place` is at most 8; (2) unaligned load.
            let moves = unsafe { _mm256_loadu_si256(MOVES[place].as_ptr().cast()) };
            let moved = _mm256_blend_epi32::<1>(_mm256_permutevar8x32_epi32(before, moves), tag);
            // SAFETY: as for the load of `row`.
            unsafe { _mm256_storeu_si256(std::ptr::from_mut(row).cast(), moved) };
        }
    }
    *misses = counts;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lanes_names_every_equal_lane() {
        let mut lanes = [7; 16];
        assert_eq!(equal_lanes(&lanes, 7), 0xffff);
        assert_eq!(equal_lanes(&lanes, 8), 0);
        for (lane, bit) in (0..16).map(|lane| (lane, 1 << lane)) {
            lanes[lane] = 0x8001 + lane as u16;
            assert_eq!(equal_lanes(&lanes, 0x8001 + lane as u16), bit);
        }
    }
}
