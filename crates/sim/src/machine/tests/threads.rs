//! Threads that divide a program's work, on cores of their own: they begin where the program has come to, and what is left alone waits
//! for the last of them.

use pagewalk_vm::addr::PAGE_BYTES;

use super::*;

type Timed = Machine<Plain, IntervalClock>;

/// Pages that a thread touches first, each by a page fault, which takes most of the time.
const PAGES: u64 = 100;

/// What a thread does.
enum Does {
    Touches(u32, u64),
    Ends(u32),
}

/// The elapsed time of a program that does all that, each in a batch of its own or all in one.
fn elapsed(program: &[Does], cores: u32, in_one_batch: bool) -> u64 {
    let spec = changed(spec("x86-64"), |spec| spec.core.count = cores);
    let mut machine: Timed = machine(&spec, 1, &announced()).unwrap();
    let mut batch = Batch::new();
    map(&mut batch, BASE, 1 << 30);
    let mut next = BASE;
    for does in program {
        match *does {
            Does::Touches(thread, pages) => {
                batch.mark(Event::Thread(ThreadId(thread)));
                for _ in 0..pages {
                    batch.push(Access::store(VirtAddr(next), 8));
                    next += PAGE_BYTES;
                }
            }
            Does::Ends(thread) => batch.mark(Event::ThreadEnd(ThreadId(thread))),
        }
        if !in_one_batch {
            machine.batch(&std::mem::take(&mut batch)).unwrap();
        }
    }
    machine.batch(&batch).unwrap();
    machine.end().unwrap();
    value(&machine.finish("threads"), "time", "elapsed")
}

#[test]
fn a_program_that_divides_work_and_waits_takes_the_longest_part_of_each() {
    use Does::{Ends, Touches};
    let alone = elapsed(&[Touches(1, PAGES)], 4, true);
    for in_one_batch in [false, true] {
        let ratio = |program: &[Does], cores| elapsed(program, cores, in_one_batch) as f64 / alone as f64;
        let about = |ratio: f64, expected: f64| (ratio - expected).abs() < 0.1;
        // The first goes on while others work.
        let beside =
            ratio(&[Touches(1, PAGES), Touches(2, 3 * PAGES), Touches(3, PAGES), Touches(1, PAGES)], 4);
        assert!(about(beside, 4.0), "{beside}");
        // What it does behind their ends, it does when the last is done, whichever ends first.
        for ends in [[2, 3], [3, 2]] {
            let [first, second] = ends.map(Ends);
            let program = [
                Touches(1, PAGES),
                Touches(2, 3 * PAGES),
                Touches(3, PAGES),
                first,
                second,
                Touches(1, PAGES),
            ];
            let joined = ratio(&program, 4);
            assert!(about(joined, 5.0), "{joined}");
        }
        // A thread that begins late does so where the earliest of the others is.
        let late = ratio(
            &[Touches(1, 2 * PAGES), Touches(2, PAGES), Touches(1, 2 * PAGES), Touches(3, 3 * PAGES)],
            4,
        );
        assert!(about(late, 6.0), "{late}");
        let of_one_core = ratio(&[Touches(1, PAGES), Touches(2, PAGES), Ends(2), Touches(1, PAGES)], 1);
        assert!(about(of_one_core, 3.0), "{of_one_core}");
    }
}
