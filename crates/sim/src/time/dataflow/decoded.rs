//! The cache of decoded instructions.

use pagewalk_vm::sets::LineArray;

use super::plan::Plan;
use crate::spec::settings::DecodedSpec;

/// log2 of the bytes of code that a line is taken for: eight instructions of the usual four bytes.
const LINE_SHIFT: u32 = 5;
/// Bits of an address that tell pieces of code apart.
const ADDRESS_BITS: u32 = 37;

/// The cache of decoded instructions of a core, and its decoders.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    lines: LineArray,
    /// The piece of code that was looked up last.
    last: u64,
    decoders: Decoders,
}

/// What decoders can do in a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoders {
    width: u32,
    bytes: u32,
    /// Instructions that the front end takes in a cycle which are decoded.
    fetch_width: u32,
}

impl Decoders {
    fn new(spec: &DecodedSpec, fetch_width: u32) -> Self {
        Self { width: spec.width, bytes: spec.bytes, fetch_width }
    }

    /// Returns the number of decoded instructions that the front end would take in the time in which so many instructions of so many bytes
    /// are decoded.
    fn takes(self, instructions: u32, bytes: u32) -> u32 {
        let by_width = instructions.saturating_mul(self.fetch_width).div_ceil(self.width);
        let by_bytes = bytes.saturating_mul(self.fetch_width).div_ceil(self.bytes);
        by_width.max(by_bytes).max(instructions)
    }
}

impl Decoded {
    /// Creates an empty one; the front end takes so many instructions from it in a cycle.
    pub(super) fn new(spec: &DecodedSpec, fetch_width: u32) -> Self {
        // A block may end beyond the last address.
        let lines = LineArray::new(spec.instructions / spec.line, spec.ways, ADDRESS_BITS + 1)
            .expect("a machine file has arrays that divide into their ways");
        Self { lines, last: u64::MAX, decoders: Decoders::new(spec, fetch_width) }
    }

    /// Looks up the instructions of a block, which are there from then on; returns the number of decoded instructions that the front end
    /// would take in the same time.
    #[inline]
    pub(super) fn look_up(&mut self, plan: &Plan) -> u32 {
        let [first, last] = plan.pieces;
        let mut is_there = true;
        for piece in first..=last {
            is_there &= piece == self.last || self.find(piece);
            self.last = piece;
        }
        if is_there { plan.dispatched } else { self.decoders.takes(plan.dispatched, plan.bytes) }
    }

    #[inline(always)]
    fn find(&mut self, piece: u64) -> bool {
        self.lines.lookup_newest(piece, false) || self.decode(piece)
    }

    #[inline(never)]
    fn decode(&mut self, piece: u64) -> bool {
        self.lines.insert(piece, false);
        false
    }
}

/// Returns the first and the last piece of code of which a block of so many bytes has instructions.
pub(super) fn pieces(addr: u64, bytes: u32) -> [u64; 2] {
    let low = addr & ((1 << (ADDRESS_BITS + LINE_SHIFT)) - 1);
    [low, low + u64::from(bytes.max(1) - 1)].map(|addr| addr >> LINE_SHIFT)
}
