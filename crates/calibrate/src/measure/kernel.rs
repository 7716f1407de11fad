//! What the kernel takes: page faults, unmapping and system calls.

use std::hint::black_box;

use super::bench::Bench;
use super::mapping::{CALLS_OF_A_CHANGE, HUGE_BYTES, Mapping, PAGE_BYTES, Pages, change_mappings};
use super::quantity::Quantity;
use super::samples::quartile;
use super::{Found, Lab};

/// Base pages in a huge one.
const PAGES_IN_HUGE: f64 = (HUGE_BYTES / PAGE_BYTES) as f64;
/// The memory that a sample touches for the first time: 4,096 base pages, or eight huge ones.
const TOUCHED_BYTES: usize = 16 << 20;
/// A first touch of a huge page takes so many times that of a small page at least; less is one of a small page, because the kernel
/// had no huge one.
const HUGE_FAULT_LEAST: f64 = 8.0;
/// System calls in a sample.
const CALLS: usize = 2_000;
/// Areas in a sample that are mapped and unmapped.
const CHANGES: usize = 100;

/// Page faults, divided as the model charges them: a minor fault of either size takes `minor-fault`, and the zeroing of its frame
/// `zero-page` or `zero-huge-page`. Zeroing is proportional to the size.
pub(super) fn faults(lab: &mut Lab<'_>) -> Found {
    let bytes = lab.bench.memory_bytes.min(TOUCHED_BYTES);
    let mut touch = |pages| touched(&mut lab.bench, bytes, pages);
    let Some((small, huge)) = touch(Pages::Small).zip(touch(Pages::Huge)) else { return Vec::new() };
    let Some(zero) = zeroing(small.touched, huge.touched) else { return Vec::new() };
    vec![
        (Quantity::MinorFault, vec![small.touched - zero]),
        (Quantity::ZeroPage, vec![zero]),
        (Quantity::ZeroHugePage, vec![zero * PAGES_IN_HUGE]),
        (Quantity::UnmapPage, vec![small.unmapped]),
        (Quantity::UnmapHugePage, vec![huge.unmapped]),
    ]
}

/// Returns the time to zero a base page, by the first touch of a small page and of a huge one: `small = m + z` and
/// `huge = m + 512 z`. None where no huge page was to be had.
fn zeroing(small: f64, huge: f64) -> Option<f64> {
    (huge > HUGE_FAULT_LEAST * small)
        .then_some((huge - small) / (PAGES_IN_HUGE - 1.0))
        .filter(|zero| *zero < small)
}

/// The nanoseconds of a page.
struct Touched {
    /// Its first touch.
    touched: f64,
    /// Its unmapping.
    unmapped: f64,
}

/// Touches pages for the first time, and unmaps them.
fn touched(bench: &mut Bench<'_>, bytes: usize, pages: Pages) -> Option<Touched> {
    let step = if pages == Pages::Small { PAGE_BYTES } else { HUGE_BYTES };
    let mut unmapped = Vec::new();
    let touched = bench.sample(|bench| {
        // Memory that cannot be had gives no sample.
        let Ok(mut mapping) = Mapping::new(bytes, pages) else { return f64::NAN };
        let words = mapping.words_mut();
        let count = (size_of_val(words) / step) as f64;
        let time =
            bench.time(|_| words.iter_mut().step_by(step / size_of::<u64>()).for_each(|word| *word = 1));
        unmapped.push(bench.time(|_| drop(mapping)) / count);
        time / count
    });
    Some(Touched { touched: quartile(&touched)?, unmapped: quartile(&unmapped)? })
}

/// Returns the nanoseconds of the first touch of a small page.
pub(super) fn first_touches(bench: &mut Bench<'_>, bytes: usize) -> Option<f64> {
    let mut mapping = Mapping::new(bytes, Pages::Small).ok()?;
    let pages = mapping.words_mut().chunks_exact_mut(PAGE_BYTES / size_of::<u64>());
    let count = pages.len() as f64;
    Some(bench.time(|_| pages.for_each(|page| page[0] = 1)) / count)
}

/// System calls: one that does nothing, and those that change mappings.
pub(super) fn calls(bench: &mut Bench<'_>) -> Found {
    let nothing = bench.sample(|bench| {
        let time = bench.time(|_| {
            (0..CALLS).for_each(|_| call());
        });
        time / CALLS as f64
    });
    let changes = bench.sample(|bench| {
        let time = bench.time(|_| (0..CHANGES).for_each(|_| change_mappings()));
        time / (CHANGES * CALLS_OF_A_CHANGE) as f64
    });
    let least = quartile(&nothing).unwrap_or(0.0);
    let changes = changes.into_iter().map(|ns| ns - least).filter(|ns| *ns > 0.0).collect();
    vec![(Quantity::ChangeMapping, changes), (Quantity::SystemCall, nothing)]
}

/// Makes a system call in a function of its own, as programs do: on a kernel that protects its returns, the return behind the call is
/// mispredicted, which takes half as long as the call itself on Zen 3.
#[inline(never)]
fn call() {
    black_box(rustix::process::getppid());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_divided_into_the_kernels_path_and_zeroing() {
        let zero = zeroing(1_000.0 + 400.0, 1_000.0 + 512.0 * 400.0).expect("huge pages");
        assert!((zero - 400.0).abs() < 1e-9, "{zero}");
        assert_eq!(zeroing(1_000.0, 1_000.0), None, "no huge page was to be had");
        assert_eq!(zeroing(100.0, 512.0 * 400.0), None, "zeroing alone would take longer than the fault");
    }
}
