//! Repeated string instructions, in closed forms: so many bytes are executed together.

use super::dataflow::{assert_near, cycles_of_loop, zen3};
use super::*;

/// rep stosb, rep movsb and rep stosq: each repetition executes the instruction again.
const STORE_BYTES: &[u8] = &[0xf3, 0xaa];
const MOVE_BYTES: &[u8] = &[0xf3, 0xa4];
const STORE_WORDS: &[u8] = &[0xf3, 0x48, 0xab];
/// Bytes that the first cache has.
const BYTES: u64 = 2 << 10;

#[test]
fn so_many_bytes_of_a_repeated_store_leave_in_a_cycle() {
    let spec = zen3();
    let bytes = |round: u64| vec![Access::store(VirtAddr(BASE + round % BYTES), 1)];
    assert_near(cycles_of_loop(&spec, BYTES, STORE_BYTES, bytes), 1.0 / 32.0, "bytes");
    let words = |round: u64| vec![Access::store(VirtAddr(BASE + 8 * round % BYTES), 8)];
    assert_near(cycles_of_loop(&spec, BYTES, STORE_WORDS, words), 8.0 / 32.0, "words");
    let moves = |round: u64| {
        let place = BASE + round % BYTES;
        vec![Access::load(VirtAddr(place), 1), Access::store(VirtAddr(place + BYTES), 1)]
    };
    assert_near(cycles_of_loop(&spec, 2 * BYTES, MOVE_BYTES, moves), 1.0 / 32.0, "from place to place");
}

/// Where 32 bytes lie in two lines, the first access to the second line is one that is executed together with others: it takes a place of its own in the
/// store buffer, so that three of these places, and not two, are a line.
#[test]
fn a_repetition_waits_for_its_line_wherever_it_begins() {
    let spec = zen3();
    let stored_from = |begin: u64| {
        let byte = |round: u64| vec![Access::store(VirtAddr(BASE + begin + round), 1)];
        cycles_of_loop(&spec, 12 * BYTES, STORE_BYTES, byte)
    };
    let from_line = stored_from(0);
    assert!(from_line > 2.0 / 32.0, "new lines cost more than what the buffer takes: {from_line}");
    let ratio = stored_from(16) / from_line;
    assert!((1.3..=1.5).contains(&ratio), "{ratio}");
}
