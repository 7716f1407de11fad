//! Compressed physical frame numbers: which of the frames that a page may have, in a few bits.

use crate::addr::Pfn;

/// The code of one frame among a page's choices, right-aligned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cpfn(pub u16);

/// In a page-table entry or a TLB a code stands where other machines have a frame number. Bit 40 tells them apart: it is
/// above all frame numbers of 52-bit physical addresses.
impl Pfn {
    const CODE: u64 = 1 << 40;

    /// Returns a code in the place of a frame number.
    #[inline]
    pub const fn of_code(code: Cpfn) -> Self {
        Self(Self::CODE | code.0 as u64)
    }

    /// Returns the code in the place of this frame number, if the place holds a code.
    #[inline]
    pub const fn code(self) -> Option<Cpfn> {
        if self.0 & Self::CODE == 0 { None } else { Some(Cpfn(self.0 as u16)) }
    }
}

/// The place of a page among the frames that it may have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Spot {
    /// A frame of the page's front bucket.
    Front {
        /// The number of the frame in the bucket.
        slot: u32,
    },
    /// A frame of one of the page's back buckets.
    Back {
        /// The number of the back bucket among the page's choices.
        choice: u32,
        /// The number of the frame in the bucket.
        slot: u32,
    },
}

/// The rule by which spots become codes.
///
/// ```text
///              6       5      3 2      0
///           +------+-----------+--------+
///  front    |  0   |       slot         |     56 frames: 0 to 55
///           +------+-----------+--------+
///  back     |  1   |  choice   |  slot  |     6 choices of 8 frames
///           +------+-----------+--------+
/// ```
///
/// The widths are those of Mosaic Pages, 56 + 6 * 8 frames in 7 bits; other geometries take as many as they need. All
/// bits set means *not mapped* and is never the code of a spot. (The polarity of the top bit and the code for "not
/// mapped" are not published; these are ours.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpfnCodec {
    front: u32,
    back: u32,
    choices: u32,
    back_bits: u32,
    bits: u32,
}

impl CpfnCodec {
    /// Codes for front buckets of `front` frames and `choices` back buckets of `back` frames.
    pub(super) fn new(front: u32, back: u32, choices: u32) -> Self {
        let width = |values: u32| values.next_power_of_two().trailing_zeros();
        let back_bits = width(back);
        let spot_bits = width(front).max(back_bits + width(choices));
        // The code of the last choice's last frame may have all bits set; then "not mapped" needs one bit more.
        let last = choices.saturating_sub(1) << back_bits | back.saturating_sub(1);
        let full = choices > 0 && last == (1 << spot_bits) - 1;
        Self { front, back, choices, back_bits, bits: spot_bits + 1 + u32::from(full) }
    }

    /// Bits of a code.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the code of a page without a frame.
    pub fn unmapped(&self) -> Cpfn {
        Cpfn(((1u32 << self.bits) - 1) as u16)
    }

    /// Returns the code of a spot.
    pub fn encode(&self, spot: Spot) -> Cpfn {
        let code = match spot {
            Spot::Front { slot } => slot,
            Spot::Back { choice, slot } => 1 << self.yard_bit() | choice << self.back_bits | slot,
        };
        Cpfn(code as u16)
    }

    /// Returns the spot of a code; `None` for "not mapped" and for codes that name nothing.
    pub fn decode(&self, code: Cpfn) -> Option<Spot> {
        let code = u32::from(code.0);
        let rest = code & ((1 << self.yard_bit()) - 1);
        if code >> self.yard_bit() == 0 {
            return (rest < self.front).then_some(Spot::Front { slot: rest });
        }
        let (choice, slot) = (rest >> self.back_bits, rest & ((1 << self.back_bits) - 1));
        let named = code >> self.yard_bit() == 1 && choice < self.choices && slot < self.back;
        (named && Cpfn(code as u16) != self.unmapped()).then_some(Spot::Back { choice, slot })
    }

    fn yard_bit(&self) -> u32 {
        self.bits - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spots(codec: &CpfnCodec) -> Vec<Spot> {
        let front = (0..codec.front).map(|slot| Spot::Front { slot });
        let backs = (0..codec.choices)
            .flat_map(|choice| (0..codec.back).map(move |slot| Spot::Back { choice, slot }));
        front.chain(backs).collect()
    }

    #[test]
    fn the_papers_geometry_has_104_codes_of_7_bits() {
        let codec = CpfnCodec::new(56, 8, 6);
        assert_eq!((codec.bits(), codec.unmapped()), (7, Cpfn(0x7f)));
        let valid = (0..128).filter(|&code| codec.decode(Cpfn(code)).is_some()).count();
        assert_eq!(valid, 104);
        assert_eq!(codec.encode(Spot::Front { slot: 55 }), Cpfn(55));
        assert_eq!(codec.encode(Spot::Back { choice: 5, slot: 7 }), Cpfn(0b110_1111));
    }

    #[test]
    fn every_spot_of_every_geometry_has_a_code_of_its_own() {
        for (front, back, choices) in
            [(56, 8, 6), (48, 16, 5), (60, 4, 16), (64, 8, 8), (1, 1, 1), (3, 0, 0), (7, 5, 2)]
        {
            let codec = CpfnCodec::new(front, back, choices);
            let spots = spots(&codec);
            let valid = (0..1u32 << codec.bits()).filter(|&code| codec.decode(Cpfn(code as u16)).is_some());
            assert_eq!(valid.count(), spots.len(), "{front} {back} {choices}");
            for spot in spots {
                assert_eq!(codec.decode(codec.encode(spot)), Some(spot));
                assert_ne!(codec.encode(spot), codec.unmapped());
            }
            assert_eq!(codec.decode(codec.unmapped()), None);
        }
    }
}
