//! Vector kernels, the one file of this crate with unsafe code.
//!
//! [`equal_16`] and [`equal_32`] find a tag among the sixteen of a set ([`sets`](crate::sets)). They need SSE2, which
//! every x86-64 processor has; the compiler turns the portable loop into 40 instructions instead of 5. [`prefetch`] brings a set nearer
//! before it is searched.
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

/// Asks the processor for the line where a value begins, which is used soon. Without effect on the result.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: (1) SSE is part of x86-64; (2) a prefetch changes nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

#[cfg(not(target_arch = "x86_64"))]
fn portable<T: Copy + PartialEq>(lanes: &[T; 16], wanted: T) -> u32 {
    lanes.iter().enumerate().fold(0, |mask, (lane, &value)| mask | u32::from(value == wanted) << lane)
}

/// Rows of eight 32-bit tags, newest first.
pub(crate) type Row = [u32; 8];

/// The lanes that stay where they are, by the bit set of the lanes that equal the tag. The lanes behind the hit stay;
/// after a miss, none does. One bit at most is ever set, so nine rows are in use; an index that needs no further steps is worth
/// the room.
static STAY: [[i32; 8]; 256] = {
    let mut stay = [[0; 8]; 256];
    let mut hit = 0;
    while hit < 8 {
        let mut lane = hit + 1;
        while lane < 8 {
            stay[1 << hit][lane] = -1;
            lane += 1;
        }
        hit += 1;
    }
    stay
};

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

/// Runs `pages` (page numbers) through TLBs whose sets are `rows`, and adds to their `misses`. Moves the pages that
/// were not the most recently used of their set in the last TLB to the front; returns how many these are.
///
/// # Panics
///
/// If the processor lacks AVX2, or a number of rows is not a power of two.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run<const TLBS: usize>(
    pages: &mut [u64],
    rows: [&mut [Row]; TLBS],
    misses: &mut [u64; TLBS],
) -> usize {
    assert!(available(), "AVX2 is not available");
    // SAFETY: (1) the processor has AVX2, and POPCNT with it, asserted above; that is the only condition of
    // `run_avx2`.
    unsafe { run_avx2(pages, rows, misses) }
}

/// Panics: without AVX2 this function is never called.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn run<const TLBS: usize>(_: &mut [u64], _: [&mut [Row]; TLBS], _: &mut [u64; TLBS]) -> usize {
    unreachable!("AVX2 is not available")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn run_avx2<const TLBS: usize>(
    pages: &mut [u64],
    rows: [&mut [Row]; TLBS],
    misses: &mut [u64; TLBS],
) -> usize {
    use std::arch::x86_64::*;
    let set_masks = rows.each_ref().map(|rows| {
        assert!(rows.len().is_power_of_two(), "{} sets", rows.len());
        rows.len() - 1
    });
    let (mut kept, mut hits) = (0, [0; TLBS]);
    let one_back = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
    for at in 0..pages.len() {
        let page = pages[at];
        // Written always and counted if it is to stay: a branch would be hard to predict.
        pages[kept] = page;
        let tag = _mm256_set1_epi32(tag(page) as i32);
        let mut recent = false;
        for tlb in 0..TLBS {
            let row = &mut rows[tlb][page as usize & set_masks[tlb]];
            // SAFETY: (1) `row` is a live array of 32 bytes; (2) the load and the store are the unaligned ones.
            let before = unsafe { _mm256_loadu_si256(std::ptr::from_ref(row).cast()) };
            // All lanes one further and the tag in front is right up to the place of the hit. That it waits for no
            // comparison counts: it is the way from a set's use to its next that limits the loop.
            let moved = _mm256_blend_epi32::<1>(_mm256_permutevar8x32_epi32(before, one_back), tag);
            let equal = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(before, tag)));
            // SAFETY: (1) eight lanes give an index below 256, and a row of `STAY` is 32 bytes; (2) unaligned load.
            let stay = unsafe { _mm256_loadu_si256(STAY.as_ptr().add(equal as usize).cast()) };
            let after = _mm256_blendv_epi8(moved, before, stay);
            // SAFETY: as for the load of `row`.
            unsafe { _mm256_storeu_si256(std::ptr::from_mut(row).cast(), after) };
            // One lane at most is equal.
            hits[tlb] += u64::from(equal.count_ones());
            recent = equal & 1 == 1;
        }
        kept += usize::from(!recent);
    }
    for (misses, hits) in misses.iter_mut().zip(hits) {
        *misses += pages.len() as u64 - hits;
    }
    kept
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
