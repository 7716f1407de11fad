//! Any bytes as a block of instructions of x86-64, of RV64, of A64, and of the model, and as outlines: they cover all bytes, and name registers that there are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_code::{Block, Class, Register, aarch64, model, outline, riscv, x86};

fuzz_target!(|data: &[u8]| {
    let (addr, code) = data.split_at(data.len().min(8));
    let addr = addr.iter().fold(0, |addr, &byte| addr << 8 | u64::from(byte));
    check(&Block::of_x86_64(addr, code), code, x86::X87);
    check(&Block::of_riscv64(addr, code), code, riscv::float(riscv::FLOATS - 1));
    check(&Block::of_aarch64(addr, code), code, aarch64::vector(aarch64::VECTORS - 1));
    check(&Block::of_model(addr, code), code, model::STACK);
    // An outline says how long its instruction is.
    let _ = outline::length(code);
    check_order(&Block::of_outlines(addr, code), Register::new(Register::COUNT as u8 - 1));
});

fn check(block: &Block, code: &[u8], last: Register) {
    check_order(block, last);
    assert_eq!(block.bytes as usize, code.len());
}

fn check_order(block: &Block, last: Register) {
    let mut end = 0;
    for instruction in &block.instructions {
        assert_eq!(instruction.offset, end);
        assert!(instruction.bytes > 0);
        end += instruction.bytes;
        assert!(instruction.class != Class::Unknown || end == block.bytes);
        let used = instruction.reads.union(instruction.writes);
        let all = instruction.operands.iter().fold(used, |all, operand| all.union(operand.address));
        assert!(all.iter().all(|register| register <= last));
        assert!(instruction.operands.is_sorted_by_key(|operand| operand.direction));
    }
    assert_eq!(end, block.bytes);
}
