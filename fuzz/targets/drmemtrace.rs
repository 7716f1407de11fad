//! Any bytes as a trace in the drmemtrace format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_trace::foreign::Format;

fuzz_target!(|data: &[u8]| pagewalk_fuzz::foreign(data, Format::Drmemtrace));
