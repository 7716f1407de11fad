//! What a prediction is worth: its error, and the class of its program.

use pagewalk_report::Class;

/// The share of the time from which on a program is bound by memory.
const MEMORY_BOUND: f64 = 0.25;
/// Footprints within which the share of the third cache that a program gets decides, in bytes.
const BAND_BYTES: std::ops::Range<f64> = 2e6..128e6;

/// Returns the class of a program by the predicted share of its time that a core waits for memory, and by the bytes that it touches.
pub(super) fn class_of(memory_share: f64, footprint_bytes: f64) -> Class {
    match memory_share < MEMORY_BOUND {
        true => Class::CoreBound,
        false if is_of_third_cache(footprint_bytes) => Class::ThirdCache,
        false => Class::MemoryBound,
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
    fn a_class_is_of_waiting_and_of_the_footprint() {
        assert_eq!(class_of(0.2, 1e9), Class::CoreBound);
        assert_eq!(class_of(0.3, 1e9), Class::MemoryBound);
        assert_eq!(class_of(0.3, 1e6), Class::MemoryBound);
        assert_eq!(class_of(0.3, 2e7), Class::ThirdCache);
    }
}
