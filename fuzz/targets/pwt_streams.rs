//! Any bytes as the uncompressed streams of a chunk. What can be read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_fuzz::Claims;
use pagewalk_trace::SourceInfo;
use pagewalk_trace::container::Writer;

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<12>() else { return };
    let [controls, near, far, block, blocks] =
        [0, 1, 2, 3, 4].map(|at| usize::from(u16::from_le_bytes([head[at * 2], head[at * 2 + 1]])));
    let mut rest = rest;
    let mut take = |length: usize| {
        let (stream, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        stream
    };
    let [controls, near, far, block] = [controls, near, far, block].map(&mut take);
    let side = take(usize::MAX);
    let blocks = if block.is_empty() { 0 } else { blocks as u32 };
    let claims = Claims { is_of_version_5: head[10] & 16 != 0, ..shape(side, u32::from(head[10] & 15), blocks) };
    let file = pagewalk_fuzz::pwt_of_streams([controls, near, far, side, block], &claims);
    if let Some(read) = pagewalk_fuzz::read_pwt(&file) {
        // Once in a while, because it goes through the file system.
        if head[11] < 4 {
            let path = std::env::temp_dir().join(format!("pagewalk-fuzz-{}.pwt", std::process::id()));
            let mut writer = Writer::create(&path, &SourceInfo::default()).expect("a temporary file");
            read.iter().for_each(|batch| writer.write(batch).expect("a sound batch"));
            writer.finish().expect("room on the disk");
            // Its name in messages is not "fuzz", but there must be no message.
            let bytes = std::fs::read(&path).expect("just written");
            std::fs::remove_file(&path).expect("our own file");
            assert_eq!(pagewalk_fuzz::read_pwt(&bytes), Some(read));
        }
    }
});

/// What a header must say so that `batches` batches of the side stream fit it, in a chunk with so many executed blocks.
/// Follows the stream only as far as it holds instruction counts, which are enough to get deep.
fn shape(side: &[u8], batches: u32, blocks: u32) -> Claims {
    let mut rest = side.iter().copied();
    let mut number = move || {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = rest.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    };
    let (mut marks, mut instructions) = (0_u32, 0_u64);
    for _ in 0..batches {
        let (Some(_), Some(count)) = (number(), number()) else { break };
        if blocks > 0 {
            number();
        }
        marks = marks.saturating_add(count as u32);
        for _ in 0..count {
            let Some(_) = number() else { break };
            if blocks > 0 {
                number();
            }
            let Some(tag) = number() else { break };
            match tag {
                0 => instructions = instructions.saturating_add(number().unwrap_or(0)),
                1..=4 => drop(number()),
                8 | 12 => drop((number(), number())),
                7 | 9 | 10 => drop((number(), number(), number())),
                11 => drop((number(), number(), number(), number())),
                _ => {}
            }
        }
    }
    Claims { batches, marks, instructions, blocks, is_of_version_5: false }
}
