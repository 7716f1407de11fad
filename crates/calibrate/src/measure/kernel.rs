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
pub(super) const TOUCHED_BYTES: usize = 16 << 20;
/// A first touch of a huge page takes so many times that of a small page at least; less is one of a small page, because the kernel
/// had no huge one.
const HUGE_FAULT_LEAST: f64 = 8.0;
/// System calls in a sample.
const CALLS: usize = 2_000;
/// Areas in a sample that are mapped and unmapped.
const CHANGES: usize = 100;

/// The nanoseconds of a page fault, divided as the model charges them: a minor fault of either size takes `minor-fault`, and the zeroing of
/// its frame `zero-page` or `zero-huge-page`. Zeroing is proportional to the size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultTimes {
    /// The kernel's path, without zeroing.
    pub minor_ns: f64,
    /// The zeroing of a base page.
    pub zero_ns: f64,
    /// The unmapping of a base page.
    pub unmap_ns: f64,
    /// The unmapping of a huge page.
    pub unmap_huge_ns: f64,
}

impl FaultTimes {
    /// Measures them in so much memory, 16 MiB at most; none where no huge page is to be had.
    pub(super) fn measure(bench: &mut Bench<'_>, bytes: usize) -> Option<Self> {
        let bytes = bytes.min(TOUCHED_BYTES);
        let (small, huge) = (touched(bench, bytes, Pages::Small)?, touched(bench, bytes, Pages::Huge)?);
        let zero_ns = zeroing(small.touched, huge.touched)?;
        Some(Self {
            minor_ns: small.touched - zero_ns,
            zero_ns,
            unmap_ns: small.unmapped,
            unmap_huge_ns: huge.unmapped,
        })
    }

    /// Returns the zeroing of a huge page, in nanoseconds.
    pub fn zero_huge_ns(&self) -> f64 {
        self.zero_ns * PAGES_IN_HUGE
    }

    /// Returns the times of the look that shows the shorter first touches.
    pub(super) fn shorter(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).min_by(|one, other| one.touch_ns().total_cmp(&other.touch_ns()))
    }

    /// Returns the first touch of a base page, in nanoseconds.
    fn touch_ns(&self) -> f64 {
        self.minor_ns + self.zero_ns
    }
}

/// Page faults and the unmapping of what they brought.
pub(super) fn faults(lab: &mut Lab<'_>) -> Found {
    let bytes = lab.bench.memory_bytes;
    let Some(times) = FaultTimes::measure(&mut lab.bench, bytes) else { return Vec::new() };
    vec![
        (Quantity::MinorFault, vec![times.minor_ns]),
        (Quantity::ZeroPage, vec![times.zero_ns]),
        (Quantity::ZeroHugePage, vec![times.zero_huge_ns()]),
        (Quantity::UnmapPage, vec![times.unmap_ns]),
        (Quantity::UnmapHugePage, vec![times.unmap_huge_ns]),
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

    #[test]
    fn of_two_looks_the_one_with_the_shorter_touches_stands() {
        let of =
            |minor_ns| Some(FaultTimes { minor_ns, zero_ns: 100.0, unmap_ns: 200.0, unmap_huge_ns: 5e3 });
        assert_eq!(FaultTimes::shorter(of(1_200.0), of(1_000.0)), of(1_000.0));
        assert_eq!(FaultTimes::shorter(None, of(1_000.0)), of(1_000.0), "a look without huge pages");
        assert_eq!(FaultTimes::shorter(None, None), None);
        assert_eq!(of(1_000.0).map(|times| times.zero_huge_ns()), Some(51_200.0));
    }
}
