//! The piece of a file whose recording was ended early: why. See the [module](super) for the layout.

use xxhash_rust::xxh3::xxh3_64;

use crate::partial::{Partial, PartialReason};

const MAGIC: [u8; 4] = *b"PART";
/// Bytes in front of the text.
const FRONT_BYTES: usize = 16;
/// The longest text in bytes; a longer one is cut.
const MAX_TEXT_BYTES: usize = 4096;
/// The length of the longest piece, in bytes.
pub(super) const MAX_BYTES: u64 = (FRONT_BYTES + MAX_TEXT_BYTES + 8) as u64;

/// The piece, checksum included.
pub(super) fn piece(partial: &Partial) -> Vec<u8> {
    let text = &partial.text[..partial.text.floor_char_boundary(MAX_TEXT_BYTES)];
    let known = PartialReason::ALL.iter().position(|&reason| reason == partial.reason);
    let reason = known.expect("every reason is in the list") as u32 + 1;
    let mut out = MAGIC.to_vec();
    for field in [reason, text.len() as u32, 0] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(text.as_bytes());
    let checksum = xxh3_64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// What a whole piece says; none if it is no such piece, or a damaged one.
pub(super) fn parse(piece: &[u8]) -> Option<Partial> {
    let (covered, checksum) = piece.split_last_chunk::<8>()?;
    let (front, text) = covered.split_at_checked(FRONT_BYTES)?;
    let field = |at: usize| u32::from_le_bytes(front[at..at + 4].try_into().expect("four bytes"));
    let is_whole = front.starts_with(&MAGIC)
        && field(8) as usize == text.len()
        && xxh3_64(covered).to_le_bytes() == *checksum;
    let reason = PartialReason::ALL.get((field(4) as usize).checked_sub(1)?).filter(|_| is_whole)?;
    Some(Partial { reason: *reason, text: std::str::from_utf8(text).ok()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_comes_back_and_a_flipped_bit_does_not() {
        for reason in PartialReason::ALL {
            let partial = Partial { reason, text: "ended by SIGTERM — é".to_owned() };
            let whole = piece(&partial);
            assert_eq!(parse(&whole), Some(partial));
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[at] ^= 4;
                assert_eq!(parse(&damaged), None, "byte {at}");
                assert_eq!(parse(&whole[..at]), None, "cut at {at}");
            }
        }
        let long = Partial { reason: PartialReason::Signal, text: "é".repeat(MAX_TEXT_BYTES) };
        assert_eq!(parse(&piece(&long)).unwrap().text.len(), MAX_TEXT_BYTES);
        assert_eq!(piece(&long).len() as u64, MAX_BYTES);
    }
}
