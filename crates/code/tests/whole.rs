//! What holds for any block, whatever its bytes are.

use pagewalk_code::{Block, Class};

/// Demands that a block's instructions follow one another without gaps up to its end, and that only the last may be unknown.
pub(crate) fn demand_whole(block: &Block) {
    let mut end = 0;
    for instruction in &block.instructions {
        assert_eq!(instruction.offset, end, "{instruction:?}");
        assert!(instruction.bytes > 0, "{instruction:?}");
        end += instruction.bytes;
        assert!(instruction.class != Class::Unknown || end == block.bytes, "{instruction:?}");
    }
    assert_eq!(end, block.bytes);
}
