//! Any text as a machine file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = pagewalk_sim::spec::parse(text, "fuzz.toml") {
        assert!(error.to_string().contains("fuzz.toml"), "no file in `{error}`");
    }
});
