//! Any bytes as a trace file of which nothing is known: detection, decompression, archives.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), data).expect("room for it");
    pagewalk_fuzz::opened(file.path());
});
