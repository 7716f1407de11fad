//! LEB128 integers: seven bits a byte, low bits first, the top bit set on all bytes but the last.

/// Appends `value` to `out`.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a value off the front of `input`; none if it ends early or does not fit into 64 bits.
pub(super) fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_come_back() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), 1 << 63, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut input = bytes.as_slice();
            assert_eq!(take(&mut input), Some(value));
            assert!(input.is_empty());
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None, "{value} cut short");
        }
    }

    #[test]
    fn more_than_64_bits_is_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(0x02);
        assert_eq!(take(&mut bytes.as_slice()), None);
        assert_eq!(take(&mut [0x80; 11].as_slice()), None);
    }
}
