//! Fields of an instruction word.

/// Returns bits `high` to `low` of a word.
pub(crate) const fn bits(word: u32, high: u32, low: u32) -> u32 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

/// Returns the lowest `width` bits of a word as a signed number.
pub(crate) const fn signed(word: u32, width: u32) -> i64 {
    ((word << (32 - width)) as i32 >> (32 - width)) as i64
}
