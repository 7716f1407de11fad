//! Any bytes as a trace in the pinatrace format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_trace::foreign::Format;

fuzz_target!(|data: &[u8]| pagewalk_fuzz::foreign(data, Format::Pinatrace));
