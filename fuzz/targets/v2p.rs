//! Any text as the mapping beside a trace.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_trace::foreign::parse_translations;

fuzz_target!(|text: &str| {
    match parse_translations(text, "fuzz") {
        Ok(pages) => assert!(pages.iter().all(|page| page.page_bytes.is_power_of_two())),
        Err(error) => assert!(error.to_string().starts_with("fuzz: line "), "no place in `{error}`"),
    }
});
