//! Quicksort of random 32-bit integers (Hoare, Computer Journal 1962; median of three and insertion sort of short
//! ranges after Singleton, CACM 1969): the benchmark Qsort of the page-fault accelerator.
//!
//! ```text
//!   lo               i ->            <- j               hi
//!   | <= pivot          | not seen yet |          >= pivot |
//! ```
//!
//! The first, the middle and the last element of a range are put in order; the middle one is the pivot, and both others
//! end the scans without a test of bounds. The longer part waits on a stack of ranges while the shorter is sorted, so 64
//! of them suffice. What a compiled program keeps in registers is not loaded again: the pivot, and the two elements of an
//! exchange, which the scans have just loaded.

use crate::code::{Op, STACK, Site, r};
use crate::emit::{Emitter, Halt, Stop};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::program::Program;
use crate::random::{SplitMix64, mix};
use crate::space::AddressSpace;
use crate::traced::Traced;
use crate::values::Values;
use pagewalk_code::{Class, Register};
use pagewalk_vm::addr::PAGE_BYTES;

pub(crate) const ENTRY: Entry = Entry {
    name: "quicksort",
    summary: "random integers, sorted in place (Qsort of the page-fault accelerator)",
    phases: &["fill", "sort"],
    parameters: &[
        Parameter {
            name: "bytes",
            summary: "bytes of the array, of 4-byte integers",
            kind: Kind::Size { min: 4 << 10, max: 1 << 40, power_of_two: false },
            default: "64MiB",
        },
        Parameter {
            name: "threshold",
            summary: "elements of the longest range that insertion sort gets",
            kind: Kind::Count { min: 2, max: 100 },
            default: "16",
        },
    ],
    presets: &[Preset { name: "quicksort-small", summary: "1 MiB, for tests", values: &[("bytes", "1MiB")] }],
    make: |values| Ok(Box::new(Quicksort::new(values))),
};

/// Bytes of an element, and of a waiting range: two pointers.
const ELEMENT_BYTES: u64 = 4;
const RANGE_BYTES: u64 = 16;
/// Ranges that can wait: each is at least as long as all behind it together.
const WAITING: usize = 64;

/// Instructions per element filled, random number included; per element that the scan upwards or downwards looks at; per
/// exchange; per range partitioned besides; per element inserted, and per element that makes room for it.
const FILL_INSTRUCTIONS: u64 = 17;
const UP_INSTRUCTIONS: u64 = 4;
const DOWN_INSTRUCTIONS: u64 = 5;
const EXCHANGE_INSTRUCTIONS: u64 = 6;
const PARTITION_INSTRUCTIONS: u64 = 49;
const INSERT_INSTRUCTIONS: u64 = 11;
const MOVE_INSTRUCTIONS: u64 = 7;

/// The array and the range at hand, the places of both scans with their elements, the pivot, and a random number.
const ARRAY: Register = r(0);
const RANGE: Register = r(1);
const UP: Register = r(2);
const DOWN: Register = r(3);
const LOW: Register = r(4);
const HIGH: Register = r(5);
const PIVOT: Register = r(6);
const DRAWN: Register = r(7);

/// Fills an element with a random number.
static FILL: Site = Site::new(&[
    Op::integer(DRAWN, &[DRAWN]),
    Op::new(Class::Multiply, LOW, &[DRAWN]),
    Op::new(Class::Shift, LOW, &[LOW]),
    Op::new(Class::Multiply, LOW, &[LOW]),
    Op::new(Class::Shift, LOW, &[LOW]),
    Op::store(4, &[ARRAY, UP], &[LOW]),
    Op::integer(UP, &[UP]),
    Op::compare(&[UP]),
])
.repeats()
.of(FILL_INSTRUCTIONS);
/// Orders the first, the middle and the last element of a range; the middle one is the pivot.
static MEDIAN: Site = Site::new(&[
    Op::load(LOW, 4, &[ARRAY, RANGE]),
    Op::load(PIVOT, 4, &[ARRAY, RANGE]),
    Op::load(HIGH, 4, &[ARRAY, RANGE]),
    Op::new(Class::Condition, PIVOT, &[LOW, PIVOT, HIGH]),
    Op::store(4, &[ARRAY, RANGE], &[LOW]),
    Op::store(4, &[ARRAY, RANGE], &[PIVOT]),
    Op::store(4, &[ARRAY, RANGE], &[HIGH]),
    Op::new(Class::Move, UP, &[RANGE]),
    Op::new(Class::Move, DOWN, &[RANGE]),
])
.of(PARTITION_INSTRUCTIONS - WAIT.instructions() - NEXT.instructions());
/// Looks at an element from below, and from above.
static SCAN_UP: Site =
    Site::new(&[Op::integer(UP, &[UP]), Op::load(LOW, 4, &[ARRAY, UP]), Op::compare(&[LOW, PIVOT])])
        .repeats()
        .of(UP_INSTRUCTIONS);
static SCAN_DOWN: Site =
    Site::new(&[Op::integer(DOWN, &[DOWN]), Op::load(HIGH, 4, &[ARRAY, DOWN]), Op::compare(&[HIGH, PIVOT])])
        .repeats()
        .of(DOWN_INSTRUCTIONS);
/// Have the scans met? If not, exchanges two elements.
static MET: Site = Site::new(&[Op::compare(&[UP, DOWN])]).branches(&EXCHANGE);
static EXCHANGE: Site =
    Site::new(&[Op::store(4, &[ARRAY, UP], &[HIGH]), Op::store(4, &[ARRAY, DOWN], &[LOW])])
        .jumps(&SCAN_UP)
        .of(EXCHANGE_INSTRUCTIONS - MET.instructions());
/// Lets the longer part wait; goes on with one that waits.
static WAIT: Site = Site::new(&[
    Op::store(8, &[STACK], &[UP]),
    Op::store(8, &[STACK], &[DOWN]),
    Op::new(Class::Move, RANGE, &[DOWN]),
    Op::compare(&[UP, DOWN]),
])
.branches(&MEDIAN);
static NEXT: Site =
    Site::new(&[Op::load(RANGE, 8, &[STACK]), Op::load(HIGH, 8, &[STACK]), Op::compare(&[RANGE, HIGH])])
        .branches(&MEDIAN);
/// Begins to insert an element; compares it with one before it, which moves up; stores it.
static INSERT: Site = Site::new(&[Op::load(LOW, 4, &[ARRAY, UP]), Op::new(Class::Move, DOWN, &[UP])])
    .of(INSERT_INSTRUCTIONS - BEFORE.instructions() - INTO.instructions());
static BEFORE: Site =
    Site::new(&[Op::load(HIGH, 4, &[ARRAY, DOWN]), Op::compare(&[HIGH, LOW])]).branches(&INTO);
static MOVE: Site = Site::new(&[
    Op::store(4, &[ARRAY, DOWN], &[HIGH]),
    Op::integer(DOWN, &[DOWN]),
    Op::compare(&[DOWN, RANGE]),
])
.branches(&BEFORE)
.of(MOVE_INSTRUCTIONS - BEFORE.instructions());
static INTO: Site =
    Site::new(&[Op::store(4, &[ARRAY, DOWN], &[LOW]), Op::integer(UP, &[UP]), Op::compare(&[UP, RANGE])])
        .branches(&INSERT);

type Array = Traced<i32, ELEMENT_BYTES>;

/// Elements `lo` to `hi`, inclusive.
#[derive(Clone, Copy, Default)]
struct Range {
    lo: usize,
    hi: usize,
}

impl Range {
    fn len(self) -> usize {
        self.hi - self.lo + 1
    }
}

struct Quicksort {
    len: usize,
    threshold: usize,
    seed: u64,
}

impl Quicksort {
    fn new(values: &Values) -> Self {
        Self {
            len: (values.get("bytes") / ELEMENT_BYTES) as usize,
            threshold: values.get("threshold") as usize,
            seed: values.seed,
        }
    }

    /// The integers as they come.
    fn integers(&self) -> impl Iterator<Item = i32> {
        let mut random = SplitMix64::of_item(self.seed, 0);
        (0..self.len).map(move |_| (random.next() >> 32) as i32)
    }

    fn fill(&self, array: &mut Array, out: &mut Emitter<'_>) -> Result<(), Stop> {
        for (index, integer) in self.integers().enumerate() {
            out.block(&FILL)?;
            array.store(index, integer, out)?;
        }
        Ok(())
    }

    fn sort(
        &self,
        array: &mut Array,
        waiting: &mut Traced<Range, RANGE_BYTES>,
        out: &mut Emitter<'_>,
    ) -> Result<(), Stop> {
        let mut depth = 0;
        let mut range = Range { lo: 0, hi: self.len - 1 };
        loop {
            while range.len() > self.threshold {
                let [lower, upper] = partition(array, range, out)?;
                let shorter = lower.len() < upper.len();
                let (now, later) = if shorter { (lower, upper) } else { (upper, lower) };
                out.enter(&WAIT)?;
                *waiting.store_part(depth, 0, 8, out)? = later;
                waiting.store_part(depth, 8, 8, out)?;
                depth += 1;
                range = now;
            }
            insertion_sort(array, range, out)?;
            if depth == 0 {
                return Ok(());
            }
            depth -= 1;
            out.enter(&NEXT)?;
            range = waiting.load_part(depth, 0, 8, out)?;
            waiting.touch_part(depth, 8, 8, out)?;
        }
    }

    /// In order, and the same integers as before: by number, sum and sum of their mixes.
    fn verify(&self, sorted: &[i32]) -> Result<(), Halt> {
        if let Some(at) = sorted.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(Halt::Wrong(format!("element {at} is {}, the next {}", sorted[at], sorted[at + 1])));
        }
        let (before, after) = (digest(self.integers()), digest(sorted.iter().copied()));
        match before == after {
            true => Ok(()),
            false => Err(Halt::Wrong(format!(
                "the sorted integers' number, sum and mixed sum are {after:?}, not {before:?}"
            ))),
        }
    }
}

/// What does not depend on the order of integers.
fn digest(integers: impl Iterator<Item = i32>) -> (u64, i64, u64) {
    integers.fold((0, 0, 0), |(count, sum, mixed), integer| {
        (count + 1, sum + i64::from(integer), mix(integer as u64).wrapping_add(mixed))
    })
}

/// Parts a range of three elements at least in two, the first of which has no element greater than any of the second.
fn partition(array: &mut Array, range: Range, out: &mut Emitter<'_>) -> Result<[Range; 2], Stop> {
    let Range { lo, hi } = range;
    out.work(PARTITION_INSTRUCTIONS);
    out.enter(&MEDIAN)?;
    let pivot = order_three(array, [lo, lo + (hi - lo) / 2, hi], out)?;
    let (mut i, mut j) = (lo, hi);
    loop {
        let low = loop {
            i += 1;
            out.block(&SCAN_UP)?;
            let element = array.load(i, out)?;
            if element >= pivot {
                break element;
            }
        };
        let high = loop {
            j -= 1;
            out.block(&SCAN_DOWN)?;
            let element = array.load(j, out)?;
            if element <= pivot {
                break element;
            }
        };
        out.enter(&MET)?;
        if i >= j {
            return Ok([Range { lo, hi: j }, Range { lo: j + 1, hi }]);
        }
        out.work(EXCHANGE_INSTRUCTIONS);
        out.enter(&EXCHANGE)?;
        array.store(i, high, out)?;
        array.store(j, low, out)?;
    }
}

/// Puts the elements at three places in order; answers the middle one.
fn order_three(array: &mut Array, places: [usize; 3], out: &mut Emitter<'_>) -> Result<i32, Stop> {
    let mut three = [0; 3];
    for (element, place) in three.iter_mut().zip(places) {
        *element = array.load(place, out)?;
    }
    three.sort_unstable();
    for (element, place) in three.into_iter().zip(places) {
        array.store(place, element, out)?;
    }
    Ok(three[1])
}

fn insertion_sort(array: &mut Array, range: Range, out: &mut Emitter<'_>) -> Result<(), Stop> {
    for next in range.lo + 1..=range.hi {
        out.work(INSERT_INSTRUCTIONS);
        out.enter(&INSERT)?;
        let element = array.load(next, out)?;
        let mut place = next;
        while place > range.lo {
            out.enter(&BEFORE)?;
            let before = array.load(place - 1, out)?;
            if before <= element {
                break;
            }
            out.work(MOVE_INSTRUCTIONS);
            out.enter(&MOVE)?;
            array.store(place, before, out)?;
            place -= 1;
        }
        out.enter(&INTO)?;
        array.store(place, element, out)?;
    }
    Ok(())
}

impl Program for Quicksort {
    fn footprint_bytes(&self) -> u64 {
        (self.len as u64 * ELEMENT_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn host_bytes(&self) -> u64 {
        self.footprint_bytes() + (4 << 20)
    }

    fn expected_accesses(&self) -> u64 {
        let (len, threshold) = (self.len as f64, self.threshold as f64);
        // A pass of the whole array with medians of three, 12/7 ln 2 of which halve it, looks at each element once and
        // exchanges two fifths of them (Sedgewick, Acta Informatica 1977). The ends were counted on runs.
        let passes = 12.0 / 7.0 * std::f64::consts::LN_2 * (len / threshold).log2();
        let ends = 3.3 + 0.345 * threshold + 4.0 / threshold;
        (len * (1.0 + 1.4 * passes + ends)) as u64
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        out.phase("fill")?;
        let mut space = AddressSpace::new(out);
        let mut array = Array::mapped(self.len, 0, &mut space, out);
        self.fill(&mut array, out)?;
        out.phase("sort")?;
        let mut waiting = Traced::local(vec![Range::default(); WAITING], &mut space);
        self.sort(&mut array, &mut waiting, out)?;
        self.verify(array.untraced())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;

    fn sorted(quicksort: &Quicksort, mut integers: Vec<i32>) -> Vec<i32> {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        let mut array = Array::mapped(integers.len(), 0, &mut space, &mut out);
        array.untraced_mut().swap_with_slice(&mut integers);
        let mut waiting = Traced::local(vec![Range::default(); WAITING], &mut space);
        quicksort.sort(&mut array, &mut waiting, &mut out).unwrap();
        array.untraced().to_vec()
    }

    #[test]
    fn any_length_and_any_order_is_sorted() {
        for len in (1..70).chain([1000]) {
            let orders: [&dyn Fn(usize) -> i32; 5] =
                [&|i| i as i32, &|i| -(i as i32), &|_| 7, &|i| (i % 3) as i32, &|i| mix(i as u64) as i32];
            for (number, order) in orders.iter().enumerate() {
                for threshold in [2, 3, 16] {
                    let integers: Vec<i32> = (0..len).map(order).collect();
                    let mut expected = integers.clone();
                    expected.sort_unstable();
                    let answer = sorted(&Quicksort { len, threshold, seed: 0 }, integers);
                    assert_eq!(answer, expected, "{len} in order {number}, threshold {threshold}");
                }
            }
        }
    }

    #[test]
    fn disorder_and_a_changed_element_are_found() {
        let quicksort = Quicksort { len: 5000, threshold: 16, seed: 3 };
        let good = sorted(&quicksort, quicksort.integers().collect());
        assert_eq!(quicksort.verify(&good), Ok(()));
        let wrong = |change: &dyn Fn(&mut [i32])| {
            let mut array = good.clone();
            change(&mut array);
            match quicksort.verify(&array) {
                Err(Halt::Wrong(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert!(wrong(&|array| array.swap(17, 18)).contains("element 17 is"));
        assert!(wrong(&|array| array[17] = array[18]).contains("mixed sum"));
        // The sum alone would not tell.
        assert!(
            wrong(&|array| {
                array[0] -= 1;
                array[4999] += 1
            })
            .contains("mixed sum")
        );
    }
}
