//! Any bytes as a `.pwt` file: as they are, and again with right checksums, whole and without their end.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    pagewalk_fuzz::read_pwt(data);
    let mut sealed = data.to_vec();
    if pagewalk_fuzz::seal(&mut sealed).is_some() {
        pagewalk_fuzz::read_pwt(&sealed);
        pagewalk_fuzz::salvage_pwt(&sealed);
    }
});
