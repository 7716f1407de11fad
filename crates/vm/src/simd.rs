//! Vector kernels, the one file of this crate with unsafe code.
//!
//! [`equal_16`] and [`equal_32`] find a tag among the sixteen of a set ([`sets`](crate::sets)). They need SSE2, which
//! every x86-64 processor has; the compiler turns the portable loop into 40 instructions instead of 5.
//!
//! [`run`] is the kernel of [`LruBank`](crate::tlb::LruBank) for AVX2. A set of eight ways is one 256-bit register of
//! 32-bit tags in LRU order. Comparing, finding the place and moving the tag to the front are a handful of
//! instructions without a branch, so the look-ups of several pages overlap; safe code that the compiler vectorises
//! for the baseline processor branches per way and is about three times slower.

use crate::tlb::tag;

/// Bit `n` tells whether `lanes[n]` equals `wanted`.
#[inline(always)]
pub(crate) fn equal_16(lanes: &[u16; 16], wanted: u16) -> u32 {
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
        portable(lanes, wanted)
    }
}

/// Bit `n` tells whether `lanes[n]` equals `wanted`.
#[inline(always)]
pub(crate) fn equal_32(lanes: &[u32; 16], wanted: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        let lanes: *const __m128i = lanes.as_ptr().cast();
        // SAFETY: (1) SSE2 is part of x86-64; (2) `lanes` is 64 live bytes, read by four unaligned loads of 16.
        unsafe {
            let wanted = _mm_set1_epi32(wanted as i32);
            let equal = |at| _mm_cmpeq_epi32(_mm_loadu_si128(lanes.add(at)), wanted);
            let low = _mm_packs_epi32(equal(0), equal(1));
            let high = _mm_packs_epi32(equal(2), equal(3));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        portable(lanes, wanted)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn portable<T: Copy + PartialEq>(lanes: &[T; 16], wanted: T) -> u32 {
    lanes.iter().enumerate().fold(0, |mask, (lane, &value)| mask | u32::from(value == wanted) << lane)
}

/// Rows of eight 32-bit tags, newest first.
pub(crate) type Row = [u32; 8];

/// Marks a page that was the most recently used of its set. Neither a set's number nor a tag reaches this bit.
pub(crate) const RECENT: u64 = 1 << 63;

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

/// Runs `pages` (page numbers) through the TLB whose sets are `rows`, and marks the pages that were the most recently
/// used of their set with [`RECENT`]. Returns (misses, pages marked).
///
/// # Panics
///
/// If the processor lacks AVX2, or the number of rows is not a power of two.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run(pages: &mut [u64], rows: &mut [Row]) -> (u64, u64) {
    assert!(available(), "AVX2 is not available");
    // SAFETY: (1) the processor has AVX2, asserted above; that is the only condition of `run_avx2`.
    unsafe { run_avx2(pages, rows) }
}

/// Without AVX2 this is never called.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn run(_: &mut [u64], _: &mut [Row]) -> (u64, u64) {
    unreachable!("AVX2 is not available")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1")]
fn run_avx2(pages: &mut [u64], rows: &mut [Row]) -> (u64, u64) {
    use std::arch::x86_64::*;
    assert!(rows.len().is_power_of_two(), "{} sets", rows.len());
    let set_mask = rows.len() - 1;
    let (mut misses, mut recent) = (0, 0);
    for page in pages {
        let row = &mut rows[*page as usize & set_mask];
        let tag = _mm256_set1_epi32(tag(*page) as i32);
        // SAFETY: (1) `row` is a live array of 32 bytes; (2) the load and the store are the unaligned ones.
        let before = unsafe { _mm256_loadu_si256(std::ptr::from_ref(row).cast()) };
        // Four bits a lane; none set gives 32, the place behind the last.
        let equal = _mm256_movemask_epi8(_mm256_cmpeq_epi32(before, tag)) as u32;
        let place = equal.trailing_zeros() as usize / 4;
        // SAFETY: (1) a row of `MOVES` is 32 bytes, and `place` is at most 8; (2) unaligned load.
        let moves = unsafe { _mm256_loadu_si256(MOVES[place].as_ptr().cast()) };
        let moved = _mm256_blend_epi32::<1>(_mm256_permutevar8x32_epi32(before, moves), tag);
        // SAFETY: as for the load of `row`.
        unsafe { _mm256_storeu_si256(std::ptr::from_mut(row).cast(), moved) };
        misses += u64::from(equal == 0);
        recent += u64::from(equal & 1);
        *page |= u64::from(equal & 1) * RECENT;
    }
    (misses, recent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_equal_lane_is_named() {
        let mut lanes = ([7; 16], [7; 16]);
        assert_eq!((equal_16(&lanes.0, 7), equal_32(&lanes.1, 7)), (0xffff, 0xffff));
        assert_eq!((equal_16(&lanes.0, 8), equal_32(&lanes.1, 8)), (0, 0));
        for lane in 0..16 {
            let (short, long) = (0x8001 + lane as u16, 0x8000_0001 + lane as u32);
            (lanes.0[lane], lanes.1[lane]) = (short, long);
            assert_eq!((equal_16(&lanes.0, short), equal_32(&lanes.1, long)), (1 << lane, 1 << lane));
        }
    }
}
