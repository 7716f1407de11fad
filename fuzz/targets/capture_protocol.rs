//! Any bytes as the messages of a front-end.
//!
//! The input is a row of packets. Each begins with a byte that says what it is: below 240, a message with a right
//! header whose kind, process and size the next bytes give; else a packet of raw bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_capture::Assembler;
use pagewalk_capture::protocol::{self, HEADER_BYTES};
use pagewalk_fuzz::Checker;

fuzz_target!(|data: &[u8]| {
    let mut assembler = Assembler::new(true);
    let mut checker = Checker { counts_instructions: true, ..Checker::default() };
    let mut rest = data;
    while let Some(packet) = packet(&mut rest) {
        let Ok(message) = protocol::decode(&packet) else { continue };
        if assembler.take(&message, &mut checker).is_err() {
            break;
        }
    }
    let _ = assembler.finish(&mut checker);
    assert_eq!(checker.accesses as u64, assembler.accesses());
});

fn packet(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (&[selector, who, size], after) = rest.split_first_chunk()?;
    let bytes = if selector < 240 { usize::from(size % 8) * 8 } else { usize::from(size) };
    let (payload, after) = after.split_at(bytes.min(after.len()));
    *rest = after;
    if selector >= 240 {
        return Some(payload.to_vec());
    }
    let mut packet = vec![0; HEADER_BYTES];
    packet[..4].copy_from_slice(&protocol::MAGIC.to_le_bytes());
    packet[4..6].copy_from_slice(&protocol::VERSION.to_le_bytes());
    packet[6..8].copy_from_slice(&u16::from(selector % 20).to_le_bytes());
    packet[8..12].copy_from_slice(&u32::from(who & 3).to_le_bytes());
    packet[12..16].copy_from_slice(&u32::from(who >> 2 & 3).to_le_bytes());
    packet[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    packet[24..28].copy_from_slice(&u32::from(who >> 4).to_le_bytes());
    packet.extend_from_slice(payload);
    Some(packet)
}
