//! The two access streams of a chunk: one control byte per access, and the significant bytes of its address
//! difference.
//!
//! ```text
//!   7   6      4   3   2       0
//! +---+----------+---+-----------+
//! | 0 |  length  | W | log2 size |     control byte
//! +---+----------+---+-----------+
//! ```
//!
//! The difference to the address before it (0 at the start of a chunk) is taken modulo 2^48, sign-extended,
//! zigzagged (0, -1, 1, -2, ... become 0, 1, 2, 3, ...) and cut to its `length` significant bytes, 0 to 6, low
//! byte first. This is a variable-length integer whose length sits in the other stream: compared with LEB128 the
//! decoder has no branch to mispredict, and zstd sees bytes on byte boundaries.

use crate::event::Access;

const ADDR_MASK: u64 = (1 << 48) - 1;
/// The longest address difference in bytes.
pub(super) const MAX_DELTA_BYTES: usize = 6;
/// Bytes behind the address stream that the decoder may look at.
pub(super) const PADDING: usize = 8;
/// By length: which bits of an 8-byte word belong to the difference. The last length is not a legal one.
const LENGTH_MASK: [u64; 8] = [0, 0xff, 0xffff, 0xff_ffff, 0xffff_ffff, 0xff_ffff_ffff, 0xffff_ffff_ffff, 0];

/// Appends both streams of `accesses`, which must have no [`Access::RESERVED`] bit set.
pub(super) fn encode(accesses: &[Access], controls: &mut Vec<u8>, deltas: &mut Vec<u8>) {
    controls.clear();
    controls.resize(accesses.len(), 0);
    deltas.clear();
    deltas.resize(accesses.len() * MAX_DELTA_BYTES + PADDING, 0);
    let mut end = 0;
    let mut previous = 0;
    for (access, control) in accesses.iter().zip(controls.iter_mut()) {
        let address = access.0 & ADDR_MASK;
        let zigzag = zigzag(address.wrapping_sub(previous));
        previous = address;
        let length = (71 - (zigzag | 1).leading_zeros() as usize) / 8 * usize::from(zigzag != 0);
        *control = (length << 4) as u8 | (access.0 >> 48) as u8 & 0xf;
        deltas[end..end + 8].copy_from_slice(&zigzag.to_le_bytes());
        end += length;
    }
    deltas.truncate(end);
}

/// Where a decoder stands in a chunk's access streams.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Position {
    /// Controls read.
    pub(super) access: usize,
    /// Bytes of the address stream read.
    pub(super) delta: usize,
    /// The address before.
    previous: u64,
}

/// Appends the next `count` accesses to `out`. `deltas` ends with [`PADDING`] zero bytes. None if a stream ends
/// early or a control byte is not legal.
pub(super) fn decode(
    controls: &[u8],
    deltas: &[u8],
    position: &mut Position,
    count: usize,
    out: &mut Vec<Access>,
) -> Option<()> {
    let controls = controls.get(position.access..)?.get(..count)?;
    let start = out.len();
    out.resize(start + count, Access::NONE);
    let Position { mut delta, mut previous, .. } = *position;
    let mut illegal = 0;
    for (&control, access) in controls.iter().zip(&mut out[start..]) {
        let word = u64::from_le_bytes(deltas.get(delta..delta + 8)?.try_into().ok()?);
        let length = usize::from(control >> 4 & 7);
        let zigzag = word & LENGTH_MASK[length];
        // Length 7 and a set top bit carry into bit 7 here; nothing else does.
        illegal |= control | control.wrapping_add(0x10);
        delta += length;
        previous = previous.wrapping_add(unzigzag(zigzag)) & ADDR_MASK;
        *access = Access(previous | u64::from(control & 0xf) << 48);
    }
    if illegal & 0x80 != 0 || delta + PADDING > deltas.len() {
        return None;
    }
    *position = Position { access: position.access + count, delta, previous };
    Some(())
}

/// A difference modulo 2^48 as a number of at most 48 bits that is small if the difference is near zero.
#[inline]
fn zigzag(difference: u64) -> u64 {
    let signed = (difference << 16) as i64 >> 16;
    ((signed << 1) ^ (signed >> 63)) as u64
}

#[inline]
fn unzigzag(zigzag: u64) -> u64 {
    (zigzag >> 1) ^ (zigzag & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(accesses: &[Access]) -> usize {
        let (mut controls, mut deltas) = (Vec::new(), Vec::new());
        encode(accesses, &mut controls, &mut deltas);
        let bytes = deltas.len();
        deltas.resize(bytes + PADDING, 0);
        let mut position = Position::default();
        let mut out = Vec::new();
        decode(&controls, &deltas, &mut position, accesses.len(), &mut out).unwrap();
        assert_eq!(out, accesses);
        assert_eq!((position.access, position.delta), (accesses.len(), bytes));
        bytes
    }

    #[test]
    fn extreme_differences_come_back_and_take_the_bytes_they_need() {
        let at = |address: u64| Access(address & ADDR_MASK);
        assert_eq!(round_trip(&[at(0), at(0)]), 0);
        assert_eq!(round_trip(&[at(127), at(0), at(127)]), 3);
        assert_eq!(round_trip(&[at(128)]), 2);
        assert_eq!(round_trip(&[at(u64::MAX)]), 1, "a wrap-around is a difference of -1");
        assert_eq!(round_trip(&[at(1 << 47), at(0), at((1 << 47) - 1)]), 18);
        assert_eq!(round_trip(&[Access(0xf_ffff_ffff_ffff), Access::NONE]), 2);
    }

    #[test]
    fn every_length_of_difference_comes_back() {
        let mut accesses = Vec::new();
        for bit in 0..48 {
            for around in [-1_i64, 0, 1] {
                let address = (1_u64 << bit).wrapping_add_signed(around) & ADDR_MASK;
                accesses.extend([Access(address), Access::NONE, Access(address | 0xb << 48)]);
            }
        }
        round_trip(&accesses);
    }

    #[test]
    fn illegal_controls_and_short_streams_are_refused() {
        let deltas = [0; 32];
        for control in [0x70, 0x7f, 0x80, 0xf0] {
            let mut position = Position::default();
            assert_eq!(decode(&[control], &deltas, &mut position, 1, &mut Vec::new()), None, "{control:#x}");
        }
        let mut position = Position::default();
        assert_eq!(decode(&[0x60], &deltas[..13], &mut position, 1, &mut Vec::new()), None);
        assert_eq!(decode(&[0x60], &deltas[..14], &mut position, 1, &mut Vec::new()), Some(()));
        assert_eq!(decode(&[0x60], &deltas, &mut Position::default(), 2, &mut Vec::new()), None);
    }
}
