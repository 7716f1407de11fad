//! Tests of what programs can do with the registers, and what misses do to them.

use super::*;

fn with_handler() -> MissRegisters {
    let mut registers = MissRegisters::default();
    registers.set_handler(Privilege::Supervisor, Some(0x4000)).unwrap();
    registers
}

#[test]
fn only_the_kernel_writes_the_handlers_address() {
    let mut registers = with_handler();
    assert_eq!(registers.set_handler(Privilege::User, Some(0x6666)), Err(NotPrivileged));
    assert_eq!(registers.set_handler(Privilege::User, None), Err(NotPrivileged));
    assert_eq!(registers.handler(), Some(0x4000));
    registers.resume = Resume { at: 8, must_complete: true };
    assert!(registers.completes(8), "programs write the resume register");
}

#[test]
fn without_a_handler_misses_are_waited_for_and_change_nothing() {
    let mut registers = MissRegisters::default();
    assert!(registers.completes(4));
    assert_eq!(registers.miss(4), None);
    assert_eq!(registers, MissRegisters::default());
}

#[test]
fn a_miss_says_where_it_was() {
    let mut registers = with_handler();
    assert_eq!(registers.miss(100), Some(0x4000));
    assert_eq!(registers.resume, Resume { at: 100, must_complete: false });
    // Made again without the bit, it misses again.
    assert_eq!(registers.miss(100), Some(0x4000));
}

#[test]
fn the_bit_is_for_one_instruction_until_it_retires() {
    let mut registers = with_handler();
    registers.resume_at(100);
    assert!(registers.completes(100) && !registers.completes(104));
    assert_eq!(registers.miss(100), None, "it is completed");
    registers.retire(96);
    assert!(registers.completes(100), "another one retired");
    registers.retire(100);
    assert!(!registers.completes(100), "in a loop, the next time is another one");
    assert_eq!(registers.miss(100), Some(0x4000));
}

#[test]
fn threads_and_processes_have_their_own() {
    let mut registers = with_handler();
    let _ = registers.miss(100);
    let thread = registers.resume;
    let _ = registers.miss(200);
    registers.resume_at(thread.at);
    assert!(registers.completes(100) && !registers.completes(200));
    let process = registers;
    registers = MissRegisters::default();
    assert!(registers.completes(200), "another process, without a handler");
    registers = process;
    assert_eq!((registers.handler(), registers.resume.at), (Some(0x4000), 100));
}
