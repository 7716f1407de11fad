//! Must fail: shows that the harness finds a bug that only coverage can lead to.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((magic, rest)) = data.split_first_chunk::<4>() else { return };
    // One byte after the other, so that each is rewarded.
    if magic[0] == b'P' && magic[1] == b'W' && magic[2] == b'T' && magic[3] == b'!' {
        let Some(word) = rest.first_chunk() else { return };
        assert_ne!(u32::from_le_bytes(*word), 0x0bad_cafe, "the canary sings");
    }
});
