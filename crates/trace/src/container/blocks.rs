//! The block stream of a chunk: which blocks of instructions a program executed, and where among its accesses.
//!
//! The stream has one control byte for each executed block, in order, and behind all of them the numbers that the controls
//! ask for, LEB128.
//!
//! ```text
//!   7       2     1        0
//! +-----------+-------+---------+
//! |     0     | place | number  |     control byte
//! +-----------+-------+---------+
//! ```
//!
//! A program executes the same blocks in the same order again and again, and each time a block makes as many accesses as the last
//! time. Encoder and decoder therefore keep the block that came last behind each pair of blocks, and how many accesses each
//! block had last; both are 0 at the start of a chunk. `number` = 1: the block is not the one that the pair before it tells, and
//! its number follows. `place` = 1: the accesses since the block before it (since the batch's start for the first block of a
//! batch, which is expected there) are not as many as that block had last, and their number follows. A number comes before a
//! place.
//!
//! A table of [`SLOTS`] slots keeps what is expected, and two pairs or two blocks may share a slot: then one more number is written.

use super::varint;
use crate::event::{BlockId, Executed};

/// Slots of each table; 32 KiB for each, as much as a first-level cache has. A power of two.
const SLOTS: usize = 1 << 13;
/// The control's bit for a number that follows.
const NUMBER: u8 = 1;
/// The control's bit for a place that follows.
const PLACE: u8 = 2;
/// The most bytes that an executed block takes in the stream: its control, five for its number, three for its place.
pub(super) const MAX_BLOCK_BYTES: usize = 9;

/// The blocks and places that are expected.
pub(super) struct Expected {
    /// By the pair of blocks before it, the number of a block.
    successors: Box<[u32]>,
    /// By block, its accesses.
    accesses: Box<[u32]>,
    /// The last two blocks, the later one first.
    last: [u32; 2],
}

impl Expected {
    pub(super) fn new() -> Self {
        let zeros = || vec![0; SLOTS].into_boxed_slice();
        Self { successors: zeros(), accesses: zeros(), last: [0; 2] }
    }

    /// Forgets everything: a chunk begins.
    pub(super) fn clear(&mut self) {
        self.successors.fill(0);
        self.accesses.fill(0);
        self.last = [0; 2];
    }

    /// The slot of the successor of the last two blocks.
    #[inline]
    fn successor(&mut self) -> &mut u32 {
        let [last, before] = self.last;
        let hash = (last ^ before.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        &mut self.successors[hash as usize >> (32 - SLOTS.ilog2())]
    }

    /// The slot of the accesses of the last block.
    #[inline]
    fn accesses_of_last(&mut self) -> &mut u32 {
        &mut self.accesses[self.last[0] as usize % SLOTS]
    }

    #[inline]
    fn follow(&mut self, block: u32) {
        self.last = [block, self.last[0]];
    }

    /// Appends the controls and numbers of the blocks of one batch.
    pub(super) fn encode(&mut self, blocks: &[Executed], controls: &mut Vec<u8>, numbers: &mut Vec<u8>) {
        let mut previous = None;
        for &Executed { at, block } in blocks {
            let mut control = 0;
            let successor = self.successor();
            if *successor != block.0 {
                *successor = block.0;
                control |= NUMBER;
                varint::put(numbers, block.0.into());
            }
            let distance = at - previous.unwrap_or(0);
            let expected = match previous {
                None => 0,
                Some(_) => std::mem::replace(self.accesses_of_last(), distance),
            };
            if distance != expected {
                control |= PLACE;
                varint::put(numbers, distance.into());
            }
            controls.push(control);
            self.follow(block.0);
            previous = Some(at);
        }
    }

    /// Appends the blocks of one batch to `out`, one for each of `controls`, and takes their numbers off the front of `numbers`.
    /// None if a control or a number is none that an encoder writes.
    pub(super) fn decode(
        &mut self,
        controls: &[u8],
        numbers: &mut &[u8],
        out: &mut Vec<Executed>,
    ) -> Option<()> {
        let mut previous = None;
        for &control in controls {
            if control & !(NUMBER | PLACE) != 0 {
                return None;
            }
            if control & NUMBER != 0 {
                *self.successor() = u32::try_from(varint::take(numbers)?).ok()?;
            }
            let block = *self.successor();
            let mut distance = 0;
            if control & PLACE != 0 {
                distance = u32::try_from(varint::take(numbers)?).ok()?;
                if previous.is_some() {
                    *self.accesses_of_last() = distance;
                }
            } else if previous.is_some() {
                distance = *self.accesses_of_last();
            }
            let at = previous.unwrap_or(0_u32).checked_add(distance)?;
            out.push(Executed { at, block: BlockId(block) });
            self.follow(block);
            previous = Some(at);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(blocks: &[(u32, u32)]) -> Vec<Executed> {
        blocks.iter().map(|&(at, block)| Executed { at, block: BlockId(block) }).collect()
    }

    /// Encodes batches as one chunk, checks that they come back, and answers the controls and the bytes of numbers.
    fn round_trip(batches: &[Vec<Executed>]) -> (Vec<u8>, usize) {
        let (mut controls, mut numbers) = (Vec::new(), Vec::new());
        let mut encoder = Expected::new();
        batches.iter().for_each(|blocks| encoder.encode(blocks, &mut controls, &mut numbers));
        let (mut decoder, mut rest, mut left) = (Expected::new(), &numbers[..], &controls[..]);
        for blocks in batches {
            let (own, others) = left.split_at(blocks.len());
            let mut out = Vec::new();
            decoder.decode(own, &mut rest, &mut out).expect("what an encoder wrote");
            assert_eq!(out, *blocks);
            left = others;
        }
        assert!(rest.is_empty());
        (controls, numbers.len())
    }

    #[test]
    fn a_loop_costs_nothing_from_its_third_round_on() {
        let once = [(0, 5), (2, 6), (2, 7)];
        let rounds: Vec<_> =
            (0..4).flat_map(|round| once.map(|(at, block)| (at + 3 * round, block))).collect();
        let (controls, numbers) = round_trip(&[executed(&rounds)]);
        // The first round begins without a pair, the second one without the pair at the seam.
        assert_eq!(controls[..3], [NUMBER, NUMBER | PLACE, NUMBER]);
        assert_eq!(controls[5..], [0; 7]);
        assert!(numbers < 16);
    }

    #[test]
    fn a_batch_begins_where_it_begins() {
        let (controls, _) = round_trip(&[executed(&[(0, 1), (4, 1)]), executed(&[(0, 1), (4, 1), (9, 1)])]);
        // Only the block whose predecessor had five accesses and not four has a place of its own.
        assert_eq!(controls.iter().map(|control| control & PLACE).collect::<Vec<_>>(), [0, 2, 0, 0, 2]);
    }

    #[test]
    fn the_largest_numbers_come_back_in_the_bytes_that_are_allowed() {
        let (controls, numbers) = round_trip(&[executed(&[(65_536, u32::MAX), (65_536, 0)])]);
        assert!(controls.len() + numbers <= 2 * MAX_BLOCK_BYTES);
    }

    #[test]
    fn what_no_encoder_writes_is_refused() {
        let refused = |controls: &[u8], mut numbers: &[u8]| {
            Expected::new().decode(controls, &mut numbers, &mut Vec::new()).is_none()
        };
        assert!(!refused(&[0], &[]), "block 0 is expected at the start");
        assert!(refused(&[4], &[]), "an unknown bit");
        assert!(refused(&[NUMBER], &[]), "a number that is not there");
        assert!(refused(&[NUMBER], &[0xff, 0xff, 0xff, 0xff, 0x1f]), "a number of more than 32 bits");
        let far = [0xff, 0xff, 0xff, 0xff, 0x0f];
        assert!(refused(&[PLACE, PLACE], &[far, far].concat()), "a place beyond 32 bits");
    }
}
