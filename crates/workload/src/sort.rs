//! Merge sort of a traced array, the algorithm of glibc's `qsort` up to 2.36: bottom-up here, one spare array.

use pagewalk_code::{Class, Register};

use crate::code::{FLAGS, Op, SHARED, Site, r};
use crate::emit::{Emitter, Stop};
use crate::space::AddressSpace;
use crate::traced::Traced;

/// Instructions per element and pass: compare, choose, advance.
const ELEMENT_INSTRUCTIONS: u64 = 18;
/// Instructions per piece of an element that is copied.
const COPY_INSTRUCTIONS: u64 = 2;
/// The widest single access of a copy loop (SSE).
const COPY_BYTES: u64 = 16;

/// The next elements of both runs, their keys, the place where the lesser goes, and what is copied.
const LEFT: Register = r(SHARED);
const RIGHT: Register = r(SHARED + 1);
const LEFT_KEY: Register = r(SHARED + 2);
const RIGHT_KEY: Register = r(SHARED + 3);
const TO: Register = r(SHARED + 4);
const FROM: Register = r(SHARED + 5);
const COPIED: Register = r(SHARED + 6);

/// Compares the next elements of two runs; there is only one run left.
static COMPARE: Site = Site::new(&[
    Op::load(LEFT_KEY, 8, &[LEFT]),
    Op::load(RIGHT_KEY, 8, &[RIGHT]),
    Op::new(Class::FloatCompare, FLAGS, &[LEFT_KEY, RIGHT_KEY]),
])
.branches(&TAKE_LEFT)
.of(ELEMENT_INSTRUCTIONS - TAKE_LEFT.instructions());
static REST: Site = Site::new(&[]).of(COMPARE.instructions());
/// Chooses an element.
static TAKE_LEFT: Site =
    Site::new(&[Op::new(Class::Move, FROM, &[LEFT]), Op::integer(LEFT, &[LEFT]), Op::integer(TO, &[TO])])
        .of(5);
static TAKE_RIGHT: Site =
    Site::new(&[Op::new(Class::Move, FROM, &[RIGHT]), Op::integer(RIGHT, &[RIGHT]), Op::integer(TO, &[TO])])
        .of(TAKE_LEFT.instructions());
/// Copies a piece of 16 bytes, or of 8.
static COPY: Site = Site::new(&[Op::load(COPIED, 16, &[FROM]), Op::store(16, &[TO], &[COPIED])]);
static COPY_HALF: Site = Site::new(&[Op::load(COPIED, 8, &[FROM]), Op::store(8, &[TO], &[COPIED])]);

/// Sorts `array[first..first + len]` by `key`, stably, with `spare` of at least that length. An element counts as
/// one 8-byte load of each compared key, and a copy in 16-byte pieces.
pub(crate) fn merge_sort<T: Copy, const STRIDE: u64>(
    array: &mut Traced<T, STRIDE>,
    first: usize,
    len: usize,
    spare: &mut Traced<T, STRIDE>,
    key: impl Fn(&T) -> f64,
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    let mut width = 1;
    // Whether the sorted runs are in `spare` at present.
    let mut swapped = false;
    while width < len {
        for start in (0..len).step_by(2 * width) {
            let run = Run { start, middle: (start + width).min(len), end: (start + 2 * width).min(len) };
            match swapped {
                false => merge(array, first, spare, 0, run, &key, out)?,
                true => merge(spare, 0, array, first, run, &key, out)?,
            }
        }
        swapped = !swapped;
        width *= 2;
    }
    if swapped {
        for i in 0..len {
            copy(spare, i, array, first + i, out)?;
        }
    }
    Ok(())
}

/// The passes over an array of `len` that [`merge_sort`] makes, a last one back from the spare array included.
pub(crate) fn passes(len: usize) -> u64 {
    let merges = len.next_power_of_two().trailing_zeros() as u64;
    merges + merges % 2
}

/// About how many accesses a pass makes per element of `stride` bytes.
pub(crate) const fn accesses_per_element(stride: u64) -> u64 {
    2 + 2 * stride.div_ceil(COPY_BYTES)
}

/// Allocates the spare array.
pub(crate) fn spare<T: Copy + Default, const STRIDE: u64>(
    len: usize,
    space: &mut AddressSpace,
    out: &mut Emitter<'_>,
) -> Result<Traced<T, STRIDE>, Stop> {
    Traced::new(len, T::default(), space, out)
}

#[derive(Clone, Copy)]
struct Run {
    start: usize,
    middle: usize,
    end: usize,
}

fn merge<T: Copy, const STRIDE: u64>(
    from: &Traced<T, STRIDE>,
    from_first: usize,
    to: &mut Traced<T, STRIDE>,
    to_first: usize,
    run: Run,
    key: &impl Fn(&T) -> f64,
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    let (mut left, mut right) = (run.start, run.middle);
    for i in run.start..run.end {
        out.work(ELEMENT_INSTRUCTIONS);
        let take_left = if right == run.end || left == run.middle {
            out.enter(&REST)?;
            right == run.end
        } else {
            out.enter(&COMPARE)?;
            let a = key(&from.load_part(from_first + left, 0, 8, out)?);
            let b = key(&from.load_part(from_first + right, 0, 8, out)?);
            a <= b
        };
        out.enter(if take_left { &TAKE_LEFT } else { &TAKE_RIGHT })?;
        let source = if take_left { &mut left } else { &mut right };
        copy(from, from_first + *source, to, to_first + i, out)?;
        *source += 1;
    }
    Ok(())
}

#[inline(always)]
fn copy<T: Copy, const STRIDE: u64>(
    from: &Traced<T, STRIDE>,
    source: usize,
    to: &mut Traced<T, STRIDE>,
    target: usize,
    out: &mut Emitter<'_>,
) -> Result<(), Stop> {
    for offset in (0..STRIDE).step_by(COPY_BYTES as usize) {
        out.work(COPY_INSTRUCTIONS);
        let bytes = COPY_BYTES.min(STRIDE - offset) as u32;
        out.enter(if bytes == 8 { &COPY_HALF } else { &COPY })?;
        let element = from.load_part(source, offset, bytes, out)?;
        *to.store_part(target, offset, bytes, out)? = element;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn any_length_is_sorted_inside_its_bounds_only() {
        for len in [0, 1, 2, 3, 7, 8, 9, 100, 255] {
            let mut emitted = 0;
            let mut sink = |batch: &mut Batch| {
                emitted += batch.accesses.len() as u64;
                ControlFlow::Continue(())
            };
            let mut out = Emitter::new(&mut sink);
            let mut space = AddressSpace::new(&mut out);
            let mut array = Traced::<[f64; 2], 16>::new(len + 2, [0.0; 2], &mut space, &mut out).unwrap();
            let mut random = SplitMix64::of_item(len as u64, 0);
            array.untraced_mut().iter_mut().for_each(|e| *e = [random.unit(), 0.0]);
            array.untraced_mut()[0][0] = 9.0;
            array.untraced_mut()[len + 1][0] = -9.0;
            let mut expected = array.untraced().to_vec();
            expected[1..=len].sort_by(|a, b| a[0].total_cmp(&b[0]));

            let mut spare = spare(len, &mut space, &mut out).unwrap();
            merge_sort(&mut array, 1, len, &mut spare, |e| e[0], &mut out).unwrap();
            out.finish().unwrap();
            assert_eq!(array.untraced(), expected);
            let bound = len as u64 * passes(len) * accesses_per_element(16) + 16;
            assert!(emitted <= bound, "{len}: {emitted} > {bound}");
        }
    }
}
