//! What a prediction is worth: errors, classes of programs, and their summary.

use serde::Serialize;

/// The class of a program, by which its error is judged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Class {
    /// A core waits for memory in less than a quarter of the time.
    CoreBound,
    /// A core waits for memory, of a footprint that a second cache holds or that no third cache does.
    MemoryBound,
    /// A core waits for memory, of a footprint that a third cache may hold, depending on its other users.
    ThirdCache,
    /// A loop that shows one parameter, of which the work alone is timed.
    Micro,
}

/// The share of the time from which on a program is bound by memory.
const MEMORY_BOUND: f64 = 0.25;
/// Footprints within which the share of the third cache that a program gets decides, in bytes.
const BAND_BYTES: std::ops::Range<f64> = 2e6..128e6;

impl Class {
    /// Returns the class of a program by the predicted share of its time that a core waits for memory, and by the bytes that it touches.
    pub(super) fn of(memory_share: f64, footprint_bytes: f64) -> Self {
        match memory_share < MEMORY_BOUND {
            true => Self::CoreBound,
            false if is_of_third_cache(footprint_bytes) => Self::ThirdCache,
            false => Self::MemoryBound,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CoreBound => "core-bound",
            Self::MemoryBound => "memory-bound",
            Self::ThirdCache => "third-cache",
            Self::Micro => "micro",
        }
    }
}

/// Returns whether a program touches so much that the share of the third cache which it gets may decide.
pub(super) fn is_of_third_cache(footprint_bytes: f64) -> bool {
    BAND_BYTES.contains(&footprint_bytes)
}

/// Returns the error of a prediction between two times: 0 if the measured one lies there, and otherwise that of the nearer one.
pub(super) fn error_of_band([least, most]: [f64; 2], measured: f64) -> f64 {
    error(measured.clamp(least, most), measured)
}

/// Returns the error of a prediction: by what factor it is too large or too small, less 1.
pub(super) fn error(predicted: f64, measured: f64) -> f64 {
    let ratio = predicted / measured;
    ratio.max(ratio.recip()) - 1.0
}

/// The errors of several programs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Errors {
    /// How many programs there are.
    pub(super) count: usize,
    /// The median of the errors, a fraction.
    pub(super) median: f64,
    /// The largest of the errors.
    pub(super) worst: f64,
}

impl Errors {
    /// Returns the summary of errors; none for no errors.
    pub(super) fn of(errors: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut errors: Vec<f64> = errors.into_iter().collect();
        errors.sort_by(f64::total_cmp);
        let (count, worst) = (errors.len(), *errors.last()?);
        let median = (errors[(count - 1) / 2] + errors[count / 2]) / 2.0;
        Some(Self { count, median, worst })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_no_direction() {
        assert_eq!((error(2.0, 1.0), error(1.0, 2.0), error(3.0, 3.0)), (1.0, 1.0, 0.0));
    }

    #[test]
    fn a_time_within_a_band_has_no_error() {
        assert_eq!([5.0, 2.0, 8.0].map(|measured| error_of_band([2.0, 8.0], measured)), [0.0; 3]);
        assert_eq!([1.0, 16.0].map(|measured| error_of_band([2.0, 8.0], measured)), [1.0; 2]);
    }

    #[test]
    fn errors_have_a_median_and_a_worst() {
        assert_eq!(Errors::of([0.3, 0.1, 0.2]), Some(Errors { count: 3, median: 0.2, worst: 0.3 }));
        assert_eq!(Errors::of([0.5, 0.25]).expect("two").median, 0.375);
        assert_eq!(Errors::of([]), None);
    }

    #[test]
    fn a_class_is_of_waiting_and_of_the_footprint() {
        assert_eq!(Class::of(0.2, 1e9), Class::CoreBound);
        assert_eq!(Class::of(0.3, 1e9), Class::MemoryBound);
        assert_eq!(Class::of(0.3, 1e6), Class::MemoryBound);
        assert_eq!(Class::of(0.3, 2e7), Class::ThirdCache);
    }
}
