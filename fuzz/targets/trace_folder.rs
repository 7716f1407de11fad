//! Any bytes as a folder of drmemtrace: two files and a schedule, whose lengths are the first six bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((lengths, mut rest)) = data.split_first_chunk::<6>() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let names = ["a.trace", "b.trace", "serial_schedule.bin"];
    for (name, length) in names.iter().zip(lengths.as_chunks::<2>().0) {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (content, behind) = rest.split_at(length);
        rest = behind;
        std::fs::write(folder.path().join(name), content).expect("room for it");
    }
    pagewalk_fuzz::opened(folder.path());
});
