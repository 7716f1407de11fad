//! Operations that a processor does in an instruction or two and for which the language has no words.

/// Asks the caches for the line where a value begins, and does not wait for it.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        // SAFETY: (1) SSE is part of x86-64; (2) a prefetch reads nothing that could be seen.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// A bit for each of eight bytes: whether it is equal to `sought`. The bits of `one` are the lower four.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn equal_bytes(one: [u8; 4], other: [u8; 4], sought: u8) -> u8 {
    use std::arch::x86_64::*;
    let [one, other] = [one, other].map(i32::from_le_bytes);
    // SAFETY: SSE2 is part of x86-64, and these instructions touch no memory.
    unsafe {
        let bytes = _mm_unpacklo_epi32(_mm_cvtsi32_si128(one), _mm_cvtsi32_si128(other));
        let sought = _mm_cvtsi32_si128(i32::from(sought));
        let sought = _mm_shufflelo_epi16::<0>(_mm_unpacklo_epi8(sought, sought));
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, sought)) as u8
    }
}

/// Returns the equal bytes of two words, as above.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn equal_bytes(one: [u8; 4], other: [u8; 4], sought: u8) -> u8 {
    equal_bytes_in_words(one, other, sought)
}

/// Does the same as [`equal_bytes`], on any processor.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn equal_bytes_in_words(one: [u8; 4], other: [u8; 4], sought: u8) -> u8 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let [one, other] = [one, other].map(|bytes| u64::from(u32::from_le_bytes(bytes)));
    let different = (one | other << 32) ^ (u64::from(sought) * EACH);
    // The top bit of each byte that is zero: adding to the lower bits of a byte carries into its own top bit at most.
    let zero = !(((different & !(EACH << 7)) + !(EACH << 7)) | different) & (EACH << 7);
    // The product's top byte has the bits side by side.
    ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn equal_bytes_are_those_that_a_loop_finds() {
        let mut random = SplitMix64::new(7);
        for _ in 0..20_000 {
            // Few different bytes, so that many are equal, zero and neighbours in value.
            let bytes = (random.next() & random.next() & 0x8383_8383_8383_8383).to_le_bytes();
            let sought = bytes[random.below(8) as usize] ^ random.below(2) as u8;
            let expected = (0..8).fold(0, |bits, at| bits | u8::from(bytes[at] == sought) << at);
            let (one, other) = (*bytes.first_chunk().unwrap(), *bytes.last_chunk().unwrap());
            assert_eq!(equal_bytes(one, other, sought), expected, "{bytes:?}, {sought}");
            assert_eq!(equal_bytes_in_words(one, other, sought), expected, "{bytes:?}, {sought}");
        }
    }
}
