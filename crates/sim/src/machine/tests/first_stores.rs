//! First stores to pages of private memory that were loaded from before: on Linux such a page shows zeroes up to then, and faults
//! twice.

use super::advice::{every_small, every_table, loads, range, run, stores};
use super::dataflow::{Script, zen3};
use super::fork::counted;
use super::*;

fn with_faults(spec: MachineSpec) -> MachineSpec {
    changed(spec, |spec| spec.kernel.first_stores_fault = true)
}

/// A product of matrices whose sums began in memory of `calloc` had 2,176 of Linux's 2,875 faults.
#[test]
fn the_first_store_to_a_page_that_was_loaded_faults_again() {
    const N: u64 = 300;
    for spec in every_table().into_iter().chain(every_small()).map(with_faults) {
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping::anonymous(range(0, 2 * N))));
        loads(&mut batch, 0..N);
        assert_eq!(counted(&run(&spec, &batch)), (N, 0, N), "{}: loaded", spec.name);
        stores(&mut batch, 0..N);
        stores(&mut batch, 0..N);
        assert_eq!(counted(&run(&spec, &batch)), (2 * N, 0, N), "{}: stored to", spec.name);
        // What is stored to first faults once.
        stores(&mut batch, N..2 * N);
        loads(&mut batch, N..2 * N);
        assert_eq!(counted(&run(&spec, &batch)), (3 * N, 0, 2 * N), "{}: stored to first", spec.name);
        batch.mark(Event::Unmap(range(0, 2 * N)));
        assert_eq!(counted(&run(&spec, &batch)).2, 0, "{}: all frames are free", spec.name);
    }
}

/// Memory that others see, or that may not leave, shows no common page.
#[test]
fn shared_memory_and_locked_memory_fault_once() {
    let spec = with_faults(spec("x86-64"));
    for (shared, locked) in [(true, false), (false, true)] {
        let mut batch = Batch::new();
        batch.mark(Event::Map(Mapping { shared, ..Mapping::anonymous(range(0, 40)) }));
        if locked {
            batch.mark(Event::Advise(range(0, 40), pagewalk_trace::Advice::Lock));
        }
        loads(&mut batch, 0..40);
        stores(&mut batch, 0..40);
        assert_eq!(counted(&run(&spec, &batch)).0, 40, "shared: {shared}, locked: {locked}");
    }
}

/// `add %rax, 8(%rdi)` loads and stores: where the core executes the instruction, the load faults as a store does. Two instructions
/// that do the same fault twice.
#[test]
fn an_instruction_that_loads_and_stores_faults_once() {
    const PAGES: u64 = 20;
    let [modify, apart]: [&[u8]; 2] = [
        &[0x48, 0x01, 0x47, 0x08],
        // mov 8(%rdi), %rcx; mov %rcx, 8(%rdi)
        &[0x48, 0x8b, 0x4f, 0x08, 0x48, 0x89, 0x4f, 0x08],
    ];
    for (code, times) in [(modify, 1), (apart, 2)] {
        let mut script = Script::new(4096);
        map(script.batch(), 0x40_0000, 4096);
        map(script.batch(), BASE + (1 << 30), PAGES * 4096);
        let block = script.block(0x40_0000, code);
        for page in 0..PAGES {
            let addr = VirtAddr(BASE + (1 << 30) + page * 4096 + 8);
            script.execute(block, &[Access::load(addr, 8), Access::store(addr, 8)]);
        }
        // A page for what the script touches at first, and one for its code.
        assert_eq!(value(&script.run(&with_faults(zen3())), "fault", "minor.4KiB"), 2 + times * PAGES);
    }
}
