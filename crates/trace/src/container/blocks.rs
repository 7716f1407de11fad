//! The block stream of a chunk: which blocks of instructions a program executed, and where among its accesses.
//!
//! The stream has a code of two bits for each executed block, in order, four to a byte and the first in the lowest bits, and behind
//! all of them the numbers that the codes ask for, LEB128.
//!
//! | code | the block | what follows |
//! |---|---|---|
//! | 0 | the first that is expected | |
//! | 1 | the second that is expected | |
//! | 2 | another | its number |
//! | 3 | that of the code in the low two bits of what follows | its place, shifted up by two bits; behind it the block's number if it is another |
//!
//! A program executes the same blocks in the same order again and again, and each time a block makes as many accesses as the last
//! time. Encoder and decoder therefore keep the two blocks that came last behind each pair of blocks, the later one first (behind a
//! branch that data decides, both come), and how many accesses each block had last; all are 0 at the start of a chunk. A block's
//! place is the number of accesses since the block before it, or since the batch's start for the first block of a batch. It is
//! written if it is not what that block had last, and for the first block of a batch if it is not 0.
//!
//! A table of [`SLOTS`] slots keeps what is expected, and two pairs or two blocks may share a slot: then one more number is written.
//!
//! Up to version 5, each block had a byte instead of a code: bit 0 for a block that is not the first one expected, whose number
//! follows, and bit 1 for a place, which follows behind it. There was no second one.

use std::ops::Range;

use super::varint;
use crate::event::{BlockId, Executed};

/// Slots of each table. A power of two.
const SLOTS: usize = 1 << 13;
/// The codes.
const FIRST: u8 = 0;
const SECOND: u8 = 1;
const NUMBER: u8 = 2;
const PLACE: u8 = 3;
/// The bit for a number in the bytes of earlier versions.
const OLD_NUMBER: u8 = 1;
/// The bit for a place in the bytes of earlier versions.
const OLD_PLACE: u8 = 2;
/// The most bytes that an executed block takes in the stream, of any version: one for its code, five for its number, three for its
/// place.
pub(super) const MAX_BLOCK_BYTES: usize = 9;

/// Codes of executed blocks, and the numbers for which they ask.
#[derive(Default, Debug)]
pub(super) struct BlockStream {
    /// Four codes to a byte.
    codes: Vec<u8>,
    /// The number of codes.
    count: usize,
    numbers: Vec<u8>,
}

impl BlockStream {
    pub(super) fn clear(&mut self) {
        self.codes.clear();
        self.numbers.clear();
        self.count = 0;
    }

    /// Appends a block: `code` is not [`PLACE`], `number` is there with [`NUMBER`].
    #[inline]
    fn push(&mut self, code: u8, number: u32, place: Option<u32>) {
        let in_byte = self.count % 4 * 2;
        if in_byte == 0 {
            self.codes.push(0);
        }
        if let Some(last) = self.codes.last_mut() {
            *last |= if place.is_some() { PLACE } else { code } << in_byte;
        }
        self.count += 1;
        if let Some(place) = place {
            varint::put(&mut self.numbers, u64::from(place) << 2 | u64::from(code));
        }
        if code == NUMBER {
            varint::put(&mut self.numbers, number.into());
        }
    }

    /// Appends the bytes of the stream to `out`.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.codes);
        out.extend_from_slice(&self.numbers);
    }

    /// The bytes that `count` codes take.
    pub(super) fn bytes_of_codes(count: usize) -> usize {
        count.div_ceil(4)
    }

    /// The stream of `count` blocks that an earlier version wrote as `bytes`, at least one for each block. None if no encoder writes that.
    pub(super) fn of_earlier_version(bytes: &[u8], count: usize) -> Option<Self> {
        let (controls, mut numbers) = bytes.split_at_checked(count)?;
        let mut take = || u32::try_from(varint::take(&mut numbers)?).ok();
        let mut stream = Self::default();
        for &control in controls {
            if control & !(OLD_NUMBER | OLD_PLACE) != 0 {
                return None;
            }
            let (mut code, mut number, mut place) = (FIRST, 0, None);
            if control & OLD_NUMBER != 0 {
                (code, number) = (NUMBER, take()?);
            }
            if control & OLD_PLACE != 0 {
                place = Some(take()?);
            }
            stream.push(code, number, place);
        }
        numbers.is_empty().then_some(stream)
    }
}

/// The blocks and places that are expected.
pub(super) struct Expected {
    /// By the pair of blocks before them, the numbers of two blocks.
    successors: Box<[[u32; 2]; SLOTS]>,
    /// By block, its accesses.
    accesses: Box<[u32; SLOTS]>,
    /// The last two blocks, the later one first.
    last: [u32; 2],
}

impl Expected {
    pub(super) fn new() -> Self {
        Self { successors: Box::new([[0; 2]; SLOTS]), accesses: Box::new([0; SLOTS]), last: [0; 2] }
    }

    /// Forgets everything: a chunk begins.
    pub(super) fn clear(&mut self) {
        self.successors.fill([0; 2]);
        self.accesses.fill(0);
        self.last = [0; 2];
    }

    /// The slot of the successors of the last two blocks.
    #[inline]
    fn successors(&mut self) -> &mut [u32; 2] {
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

    /// Appends the blocks of one batch to `out`.
    pub(super) fn encode(&mut self, blocks: &[Executed], out: &mut BlockStream) {
        let mut previous = None;
        for &Executed { at, block } in blocks {
            let successors = self.successors();
            let [first, second] = *successors;
            let mut code = FIRST;
            if block.0 != first {
                *successors = [block.0, first];
                code = if block.0 == second { SECOND } else { NUMBER };
            }
            let distance = at - previous.unwrap_or(0);
            let expected = match previous {
                None => 0,
                Some(_) => std::mem::replace(self.accesses_of_last(), distance),
            };
            out.push(code, block.0, (distance != expected).then_some(distance));
            self.follow(block.0);
            previous = Some(at);
        }
    }

    /// Appends the blocks of one batch to `out`, those of the codes with the numbers `range` in `codes`, and takes their numbers off the
    /// front of `numbers`. None if a code or a number is none that an encoder writes.
    pub(super) fn decode(
        &mut self,
        codes: &[u8],
        range: Range<usize>,
        numbers: &mut &[u8],
        out: &mut Vec<Executed>,
    ) -> Option<()> {
        if range.end > codes.len() * 4 {
            return None;
        }
        out.reserve(range.len());
        let mut previous = None;
        for number in range {
            let code = codes[number / 4] >> (number % 4 * 2) & 3;
            let [mut block, second] = *self.successors();
            let mut distance = if previous.is_some() { *self.accesses_of_last() } else { 0 };
            if code == SECOND {
                *self.successors() = [second, block];
                block = second;
            } else if code != FIRST {
                (block, distance) = self.take(code, distance, previous.is_some(), numbers)?;
            }
            let at = previous.unwrap_or(0_u32).checked_add(distance)?;
            out.push(Executed { at, block: BlockId(block) });
            self.follow(block);
            previous = Some(at);
        }
        Some(())
    }

    /// Takes a block with numbers of its own off their front, and answers the block and its place, of which `expected` was expected.
    fn take(
        &mut self,
        mut code: u8,
        expected: u32,
        has_previous: bool,
        numbers: &mut &[u8],
    ) -> Option<(u32, u32)> {
        let mut distance = expected;
        if code == PLACE {
            let number = varint::take(numbers)?;
            code = number as u8 & 3;
            distance = u32::try_from(number >> 2).ok()?;
            if has_previous {
                *self.accesses_of_last() = distance;
            }
        }
        let [first, second] = *self.successors();
        let block = match code {
            FIRST => return Some((first, distance)),
            SECOND => second,
            NUMBER => u32::try_from(varint::take(numbers)?).ok()?,
            _ => return None,
        };
        *self.successors() = [block, first];
        Some((block, distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(blocks: &[(u32, u32)]) -> Vec<Executed> {
        blocks.iter().map(|&(at, block)| Executed { at, block: BlockId(block) }).collect()
    }

    /// Encodes batches as one chunk, checks that they come back, and answers the codes and the bytes of numbers.
    fn round_trip(batches: &[Vec<Executed>]) -> (Vec<u8>, usize) {
        let (mut stream, mut encoder) = (BlockStream::default(), Expected::new());
        batches.iter().for_each(|blocks| encoder.encode(blocks, &mut stream));
        let (mut decoder, mut numbers, mut read) = (Expected::new(), &stream.numbers[..], 0);
        for blocks in batches {
            let mut out = Vec::new();
            let range = read..read + blocks.len();
            decoder.decode(&stream.codes, range, &mut numbers, &mut out).expect("what an encoder wrote");
            assert_eq!(out, *blocks);
            read += blocks.len();
        }
        assert!(numbers.is_empty());
        assert_eq!(stream.count, read);
        (codes(&stream), stream.numbers.len())
    }

    fn codes(stream: &BlockStream) -> Vec<u8> {
        (0..stream.count).map(|at| stream.codes[at / 4] >> (at % 4 * 2) & 3).collect()
    }

    #[test]
    fn a_loop_costs_nothing_from_its_third_round_on() {
        let once = [(0, 5), (2, 6), (2, 7)];
        let rounds: Vec<_> =
            (0..4).flat_map(|round| once.map(|(at, block)| (at + 3 * round, block))).collect();
        let (codes, numbers) = round_trip(&[executed(&rounds)]);
        // The first round begins without a pair, the second one without the pair at the seam.
        assert_eq!(codes[..3], [NUMBER, PLACE, NUMBER]);
        assert_eq!(codes[5..], [FIRST; 7]);
        assert!(numbers < 16);
    }

    #[test]
    fn either_of_two_blocks_costs_no_number() {
        // Behind 1 and 2 comes 3, or 4: each is there once, and then as data decides.
        let way = [3, 4, 3, 3, 4, 4, 3, 4];
        let blocks: Vec<_> = way.iter().flat_map(|&block| [(0, 1), (0, 2), (0, block)]).collect();
        let (codes, _) = round_trip(&[executed(&blocks)]);
        let at_the_branch: Vec<u8> = codes.into_iter().skip(2).step_by(3).collect();
        assert_eq!(at_the_branch, [NUMBER, NUMBER, SECOND, FIRST, SECOND, FIRST, SECOND, SECOND]);
    }

    #[test]
    fn a_batch_begins_where_it_begins() {
        let (codes, _) = round_trip(&[executed(&[(0, 1), (4, 1)]), executed(&[(0, 1), (4, 1), (9, 1)])]);
        // Only the block whose predecessor had five accesses and not four has a place of its own.
        let places: Vec<bool> = codes.iter().map(|&code| code == PLACE).collect();
        assert_eq!(places, [false, true, false, false, true]);
    }

    #[test]
    fn the_largest_numbers_come_back_in_the_bytes_that_are_allowed() {
        let (codes, numbers) = round_trip(&[executed(&[(65_536, u32::MAX), (65_536, 0)])]);
        assert!(codes.len() + numbers <= 2 * MAX_BLOCK_BYTES);
    }

    #[test]
    fn what_no_encoder_writes_is_refused() {
        let refused = |codes: &[u8], count: usize, mut numbers: &[u8]| {
            let decoded = Expected::new().decode(codes, 0..count, &mut numbers, &mut Vec::new());
            decoded.is_none()
        };
        assert!(!refused(&[FIRST], 1, &[]), "block 0 is expected at the start");
        assert!(refused(&[FIRST], 5, &[]), "more blocks than codes");
        assert!(refused(&[PLACE], 1, &[3]), "a place behind a place");
        assert!(refused(&[NUMBER], 1, &[]), "a number that is not there");
        assert!(refused(&[NUMBER], 1, &[0xff, 0xff, 0xff, 0xff, 0x1f]), "a number of more than 32 bits");
        let far = [0xfc, 0xff, 0xff, 0xff, 0x3f];
        assert!(!refused(&[PLACE], 1, &far), "the farthest place");
        assert!(refused(&[PLACE | PLACE << 2], 2, &[far, far].concat()), "a place beyond 32 bits");
    }

    #[test]
    fn a_stream_of_an_earlier_version_becomes_one_of_this() {
        let bytes =
            [0, OLD_NUMBER, OLD_PLACE, OLD_NUMBER | OLD_PLACE, 0, /* numbers */ 7, 3, 0x80, 1, 2];
        let stream = BlockStream::of_earlier_version(&bytes, 5).unwrap();
        assert_eq!(codes(&stream), [FIRST, NUMBER, PLACE, PLACE, FIRST]);
        // The place in front, with the code in its low bits; then the number.
        assert_eq!(stream.numbers, [7, 3 << 2 | FIRST, 2 << 2 | NUMBER, 0x80, 1]);
        for (bytes, what) in [
            (&[4][..], "an unknown bit"),
            (&[OLD_NUMBER], "a number that is not there"),
            (&[OLD_NUMBER, 0xff, 0xff, 0xff, 0xff, 0x1f], "a number of more than 32 bits"),
            (&[0, 1], "a number that none asks for"),
            (&[], "no byte for the block"),
        ] {
            assert!(BlockStream::of_earlier_version(bytes, 1).is_none(), "{what}");
        }
    }
}
