//! The three access streams of a chunk: one control byte per access, and the bytes of its address difference.
//!
//! ```text
//!   7  6   5    4   3   2       0
//! +------+--------+---+-----------+
//! | slot | length | W | log2 size |     control byte
//! +------+--------+---+-----------+
//! ```
//!
//! A program's accesses are several streams woven together (an array, another, the stack), so a difference to
//! the access just before is large although each stream's is small. Encoder and decoder therefore keep the last
//! address of four streams, all 0 at the start of a chunk. An access names one, the `slot`, is stored as the
//! difference to its address, and becomes its address. Any choice decodes; the encoder takes the nearest, and if
//! none is within 3 bytes it reuses the slot that was named longest ago.
//!
//! The difference is taken modulo 2^48, sign-extended and zigzagged (0, -1, 1, -2, ... become 0, 1, 2, 3, ...).
//! `length` 0 is a difference of 0 and has no bytes; 1 is one byte, 2 three bytes in the *near* stream; 3 is six
//! bytes, the low four in the near and the high two in the *far* stream. Low byte first. This is a
//! variable-length integer whose length sits in another stream: compared with LEB128 the decoder has no branch
//! to mispredict, and zstd sees bytes on byte boundaries, random low bytes apart from regular high ones.

use crate::event::Access;

/// Bits of a word above an address.
const UNUSED_BITS: u32 = 16;
const SLOTS: usize = 4;
/// The most bytes that an access has in the near stream.
pub(super) const MAX_NEAR_BYTES: usize = 4;
/// The most bytes that an access has in the far stream.
pub(super) const MAX_FAR_BYTES: usize = 2;
/// Bytes behind the near and the far stream that the decoder may look at.
pub(super) const PADDING: usize = 4;
/// By length code: bytes in the near stream, and the bits of a word that they make.
const NEAR: [(usize, u64); 4] = [(0, 0), (1, 0xff), (3, 0xff_ffff), (4, 0xffff_ffff)];
/// By length code: bytes in the far stream, and the bits of a word that they make.
const FAR: [(usize, u64); 4] = [(0, 0), (0, 0), (0, 0), (2, 0xffff)];

/// The encoded streams.
#[derive(Default, Debug)]
pub(super) struct Streams {
    /// A byte per access.
    pub(super) controls: Vec<u8>,
    /// Low bytes of differences.
    pub(super) near: Vec<u8>,
    /// High bytes of long differences.
    pub(super) far: Vec<u8>,
}

impl Streams {
    /// Writes the streams of `accesses`, which must have no [`Access::RESERVED`] bit set, over the front of these
    /// and answers how many bytes the near and the far stream have. The buffers only grow: to clear them for every
    /// chunk would cost as much as to compress them.
    pub(super) fn encode(&mut self, accesses: &[Access]) -> (usize, usize) {
        let Self { controls, near, far } = self;
        controls.resize(accesses.len(), 0);
        for (stream, bytes) in [(&mut *near, MAX_NEAR_BYTES), (&mut *far, MAX_FAR_BYTES)] {
            stream.resize(stream.len().max(accesses.len() * bytes + PADDING), 0);
        }
        let (mut near_end, mut far_end) = (0, 0);
        let mut heads = Heads::default();
        for (access, control) in accesses.iter().zip(controls.iter_mut()) {
            let (slot, zigzag) = heads.choose(access.0);
            let length = length_code(zigzag);
            *control = (slot << 6 | length << 4) as u8 | (access.0 >> 48) as u8 & 0xf;
            near[near_end..near_end + 4].copy_from_slice(&(zigzag as u32).to_le_bytes());
            far[far_end..far_end + 4].copy_from_slice(&((zigzag >> 32) as u32).to_le_bytes());
            near_end += NEAR[length].0;
            far_end += FAR[length].0;
        }
        (near_end, far_end)
    }
}

/// The last addresses of the streams, on the encoder's side; shifted up like the decoder's.
#[derive(Default)]
struct Heads {
    address: [u64; SLOTS],
    /// When each slot was named last.
    named: [u32; SLOTS],
    now: u32,
}

impl Heads {
    /// Chooses the slot for `address` and takes it; answers it with the zigzagged difference.
    #[inline]
    fn choose(&mut self, address: u64) -> (usize, u64) {
        let address = address << UNUSED_BITS;
        let [a, b, c, d] = self.address.map(|head| {
            let difference = address.wrapping_sub(head) as i64;
            (difference ^ difference >> 63) as u64 & !3
        });
        // The slot rides in the low bits, so that the least distance brings it along.
        let mut slot = (a.min(b | 1).min((c | 2).min(d | 3)) & 3) as usize;
        let mut zigzagged = zigzag(address.wrapping_sub(self.head(slot)));
        if zigzagged > 0xff_ffff {
            slot = (0..SLOTS).min_by_key(|&slot| self.named[slot]).unwrap_or(0);
            zigzagged = zigzag(address.wrapping_sub(self.head(slot)));
        }
        self.now += 1;
        self.named[slot] = self.now;
        for (number, head) in self.address.iter_mut().enumerate() {
            *head = std::hint::select_unpredictable(number == slot, address, *head);
        }
        (slot, zigzagged)
    }

    /// By selection, not by indexing: so the addresses stay in registers, and the next access need not wait for
    /// a store to find out which of them it changed.
    #[inline]
    fn head(&self, slot: usize) -> u64 {
        use std::hint::select_unpredictable as select;
        let [a, b, c, d] = self.address;
        select(slot & 2 == 0, select(slot & 1 == 0, a, b), select(slot & 1 == 0, c, d))
    }
}

#[inline]
fn length_code(zigzag: u64) -> usize {
    usize::from(zigzag > 0) + usize::from(zigzag > 0xff) + usize::from(zigzag > 0xff_ffff)
}

/// Where a decoder stands in a chunk's access streams.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Position {
    /// The number of controls that were read.
    pub(super) access: usize,
    /// Bytes of the near stream read.
    pub(super) near: usize,
    /// Bytes of the far stream read.
    pub(super) far: usize,
    /// The last addresses of the streams, shifted up to the top of the word so that sums wrap where they should.
    heads: [u64; SLOTS],
}

/// Appends the next `count` accesses to `out`. The near and the far stream end with [`PADDING`] bytes that belong
/// to neither. None if a stream ends early.
pub(super) fn decode(
    streams: &Streams,
    position: &mut Position,
    count: usize,
    out: &mut Vec<Access>,
) -> Option<()> {
    let controls = streams.controls.get(position.access..)?.get(..count)?;
    let (near_bytes, far_bytes) = (streams.near.as_slice(), streams.far.as_slice());
    let start = out.len();
    out.resize(start + count, Access::NONE);
    let Position { mut near, mut far, mut heads, .. } = *position;
    for (&control, access) in controls.iter().zip(&mut out[start..]) {
        let length = usize::from(control >> 4 & 3);
        let low = u32::from_le_bytes(near_bytes.get(near..near + 4)?.try_into().ok()?);
        let high = u32::from_le_bytes(far_bytes.get(far..far + 4)?.try_into().ok()?);
        let zigzag = u64::from(low) & NEAR[length].1 | (u64::from(high) & FAR[length].1) << 32;
        near += NEAR[length].0;
        far += FAR[length].0;
        let head = &mut heads[usize::from(control >> 6)];
        *head = head.wrapping_add(unzigzag(zigzag) << UNUSED_BITS);
        *access = Access(*head >> UNUSED_BITS | u64::from(control & 0xf) << 48);
    }
    if near + PADDING > near_bytes.len() || far + PADDING > far_bytes.len() {
        return None;
    }
    *position = Position { access: position.access + count, near, far, heads };
    Some(())
}

/// A difference modulo 2^48, shifted up, as a number of at most 48 bits that is small if the difference is near
/// zero.
#[inline]
fn zigzag(shifted_difference: u64) -> u64 {
    let signed = shifted_difference as i64 >> UNUSED_BITS;
    ((signed << 1) ^ (signed >> 63)) as u64
}

#[inline]
fn unzigzag(zigzag: u64) -> u64 {
    (zigzag >> 1) ^ (zigzag & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDR_MASK: u64 = (1 << 48) - 1;

    fn padded(mut streams: Streams) -> Streams {
        // Not zero, to show that the decoder does not depend on it.
        streams.near.extend([0xa5; PADDING]);
        streams.far.extend([0xa5; PADDING]);
        streams
    }

    /// Encodes and cuts the streams to their lengths.
    fn encoded(streams: &mut Streams, accesses: &[Access]) -> (usize, usize) {
        let (near, far) = streams.encode(accesses);
        streams.near.truncate(near);
        streams.far.truncate(far);
        (near, far)
    }

    /// Answers the bytes in the near and in the far stream.
    fn round_trip(accesses: &[Access]) -> (usize, usize) {
        let mut streams = Streams::default();
        let bytes = encoded(&mut streams, accesses);
        let mut position = Position::default();
        let mut out = Vec::new();
        decode(&padded(streams), &mut position, accesses.len(), &mut out).unwrap();
        assert_eq!(out, accesses);
        assert_eq!((position.access, position.near, position.far), (accesses.len(), bytes.0, bytes.1));
        bytes
    }

    #[test]
    fn extreme_differences_come_back_and_take_the_bytes_they_need() {
        let at = |address: u64| Access(address & ADDR_MASK);
        assert_eq!(round_trip(&[at(0), at(0)]), (0, 0));
        assert_eq!(round_trip(&[at(127)]), (1, 0));
        assert_eq!(round_trip(&[at(128)]), (3, 0));
        assert_eq!(round_trip(&[at(u64::MAX)]), (1, 0), "a wrap-around is a difference of -1");
        assert_eq!(round_trip(&[at(1 << 47), at((1 << 47) - 1)]), (5, 2));
        assert_eq!(round_trip(&[Access(0xf_ffff_ffff_ffff), Access::NONE]), (1, 0));
    }

    #[test]
    fn woven_streams_cost_what_each_costs_alone() {
        let woven: Vec<Access> = (0..300)
            .map(|at| Access([0x1000_0000_0000, 0x2000_0000_0000, 0x3000_0000_0000][at % 3] + at as u64))
            .collect();
        // Each stream begins with a long difference; after that a byte each.
        assert_eq!(round_trip(&woven), (3 * 4 + 297, 3 * 2));
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
    fn streams_that_end_early_are_refused() {
        let accesses = [Access(1 << 40), Access(5)];
        let mut whole = Streams::default();
        encoded(&mut whole, &accesses);
        let cut = |controls: usize, near: usize, far: usize| {
            padded(Streams {
                controls: whole.controls[..controls].to_vec(),
                near: whole.near[..near].to_vec(),
                far: whole.far[..far].to_vec(),
            })
        };
        let (near, far) = (whole.near.len(), whole.far.len());
        let decoded = |streams: &Streams| decode(streams, &mut Position::default(), 2, &mut Vec::new());
        assert_eq!(decoded(&cut(2, near, far)), Some(()));
        assert_eq!(decoded(&cut(1, near, far)), None);
        assert_eq!(decoded(&cut(2, near - 1, far)), None);
        assert_eq!(decoded(&cut(2, near, far - 1)), None);
    }
}
