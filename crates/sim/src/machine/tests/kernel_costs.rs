//! What calls and faults take that do more than enter a page of zeroes.

use pagewalk_trace::Advice;

use super::advice::{loads, range, stores};
use super::*;
use crate::spec::settings::KernelSpec;

const STEP_PS: u64 = 1_000_000_000;

/// The time of faults, by what changes in the kernel of a machine that faults for each page of a file.
fn fault_ps(batch: &Batch, change: impl Fn(&mut KernelSpec)) -> u64 {
    let spec = changed(spec("x86-64"), |spec| {
        spec.kernel.fault_around_bytes = 4096;
        change(&mut spec.kernel);
    });
    let mut machine: Machine<Plain, IntervalClock> = machine(&spec, 1, &announced()).unwrap();
    machine.batch(batch).unwrap();
    value(&machine.finish("kernel"), "time", "fault")
}

fn of_file(first: u64, pages: u64, shared: bool) -> Event {
    Event::Map(Mapping { backing: Backing::File, shared, ..Mapping::anonymous(range(first, pages)) })
}

#[test]
fn a_call_that_changes_mappings_takes_its_time() {
    let mut batch = Batch::new();
    let read_only = Protection { write: false, ..Protection::READ_WRITE };
    for event in [
        Event::Map(Mapping::anonymous(range(0, 8))),
        Event::Protect(range(0, 2), read_only),
        Event::Remap { from: range(4, 4), to: range(16, 4) },
        Event::Unmap(range(0, 32)),
        Event::Break(range(64, 4)),
    ] {
        batch.mark(event);
    }
    // Neither of these is such a call.
    batch.mark(Event::Advise(range(64, 4), Advice::HugePage));
    batch.mark(Event::Phase("end".into()));
    let free = fault_ps(&batch, |_| {});
    let changed = fault_ps(&batch, |kernel| kernel.change_mapping_ps = STEP_PS);
    assert_eq!(changed - free, 5 * STEP_PS);
}

#[test]
fn a_page_that_is_copied_is_read_as_well() {
    // Stores to pages of a private mapping of a file, of which none, the others, and all have been loaded from.
    for loaded in [0, 3, 10] {
        let mut batch = Batch::new();
        batch.mark(of_file(0, 10, false));
        loads(&mut batch, 0..loaded);
        stores(&mut batch, 0..10);
        let free = fault_ps(&batch, |_| {});
        assert_eq!(fault_ps(&batch, |kernel| kernel.copy_page_ps = STEP_PS) - free, 10 * STEP_PS, "{loaded}");
    }
    // Anonymous memory, and pages that all mappings share, are not copied.
    let mut batch = Batch::new();
    batch.mark(of_file(0, 10, true));
    batch.mark(Event::Map(Mapping::anonymous(range(16, 10))));
    stores(&mut batch, (0..10).chain(16..26));
    let free = fault_ps(&batch, |_| {});
    assert_eq!(fault_ps(&batch, |kernel| kernel.copy_page_ps = STEP_PS), free);
    // A child's stores copy what its parent wrote.
    let mut batch = Batch::new();
    batch.mark(Event::Map(Mapping::anonymous(range(0, 10))));
    stores(&mut batch, 0..10);
    batch.mark(Event::Fork { child: ProcessId(1) });
    batch.mark(Event::Process(ProcessId(1)));
    stores(&mut batch, 0..4);
    let free = fault_ps(&batch, |_| {});
    assert_eq!(fault_ps(&batch, |kernel| kernel.copy_page_ps = STEP_PS) - free, 4 * STEP_PS);
}

#[test]
fn a_page_of_a_file_that_is_not_copied_is_only_entered() {
    let of = |file_fault_ps| {
        move |kernel: &mut KernelSpec| {
            (kernel.minor_fault_ps, kernel.zero_page_ps, kernel.file_fault_ps) = (100, 10, file_fault_ps);
        }
    };
    let mut batch = Batch::new();
    batch.mark(of_file(0, 10, false));
    batch.mark(of_file(16, 10, true));
    loads(&mut batch, 0..7);
    stores(&mut batch, 16..19);
    let all = fault_ps(&batch, of(None));
    // Pages for page tables are zeroed in either case.
    assert_eq!(all - fault_ps(&batch, of(Some(0))), 10 * 110, "ten pages");
    assert_eq!(fault_ps(&batch, of(Some(STEP_PS))) - fault_ps(&batch, of(Some(0))), 10 * STEP_PS);
    // Copies are no matter of it.
    let mut batch = Batch::new();
    batch.mark(of_file(0, 10, false));
    stores(&mut batch, 0..10);
    assert_eq!(fault_ps(&batch, of(Some(STEP_PS))), fault_ps(&batch, of(None)));
}
