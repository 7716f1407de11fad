// 12,345 stores and 6,789 loads of two bytes each: no other code of a small program makes so many.
fn main() {
    let mut memory = [0u16; 512];
    let place = memory.as_mut_ptr();
    for i in 0..12_345 {
        // SAFETY: the index stays below 512, and nothing else uses the array meanwhile.
        unsafe { place.add(i % 512).write_volatile(i as u16) };
    }
    let mut sum = 0u64;
    for i in 0..6_789 {
        // SAFETY: as above.
        sum += u64::from(unsafe { place.add(i % 512).read_volatile() });
    }
    std::process::exit(i32::from(sum == 0));
}
