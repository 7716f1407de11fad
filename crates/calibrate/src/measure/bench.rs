//! The bench on which probes run: the thread's clock, repetitions, and the host's own disturbances.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

use super::instructions::{ADDITIONS, Buffer};

/// Additions in a row that give one sample of the cycle time: 30 us at 3 GHz, more than a hundred times what reading the clock takes.
const CYCLE_SAMPLE: u64 = 100_000;

/// A bench: measures pieces of work by the time of its thread.
pub(super) struct Bench<'a> {
    /// The samples that a probe takes in a round.
    pub(super) samples: usize,
    /// The most memory to take, in bytes.
    pub(super) memory_bytes: usize,
    /// Whether the caller wants an end.
    is_stopped: &'a dyn Fn() -> bool,
    buffer: Buffer,
    pieces: u64,
    disturbed: u64,
}

impl<'a> Bench<'a> {
    /// Returns a bench that ends its work when the caller says so.
    pub(super) fn new(samples: usize, memory_bytes: usize, is_stopped: &'a dyn Fn() -> bool) -> Self {
        let buffer = Buffer::default();
        Self { samples, memory_bytes, is_stopped, buffer, pieces: 0, disturbed: 0 }
    }

    /// Returns whether the caller wants an end.
    pub(super) fn is_stopped(&self) -> bool {
        (self.is_stopped)()
    }

    /// Returns the share of the pieces of work in which another thread had the processor.
    pub(super) fn disturbed(&self) -> f64 {
        self.disturbed as f64 / self.pieces.max(1) as f64
    }

    /// Returns the time that work took its thread, in nanoseconds. The compiler takes its result as used.
    pub(super) fn time<T>(&mut self, work: impl FnOnce(&mut Buffer) -> T) -> f64 {
        /// A thread that waits for a processor waits at least so much longer than it computes, in nanoseconds.
        const WAITED: f64 = 20_000.0;
        let (wall, cpu) = (now(ClockId::Monotonic), now(ClockId::ThreadCPUTime));
        black_box(work(&mut self.buffer));
        let cpu = now(ClockId::ThreadCPUTime) - cpu;
        let wall = now(ClockId::Monotonic) - wall;
        self.pieces += 1;
        self.disturbed += u64::from(wall > cpu + WAITED);
        cpu
    }

    /// Returns the time of a cycle now, in nanoseconds.
    pub(super) fn cycle(&mut self) -> f64 {
        let mut done = 1;
        self.time(|buffer| done = ADDITIONS.run(CYCLE_SAMPLE, buffer)) / done as f64
    }

    /// Returns samples of a quantity; fewer if they are to end before.
    pub(super) fn sample(&mut self, mut piece: impl FnMut(&mut Self) -> f64) -> Vec<f64> {
        let mut samples = Vec::with_capacity(self.samples);
        while samples.len() < self.samples && !self.is_stopped() {
            samples.push(piece(self));
        }
        samples
    }

    /// Returns samples of nanoseconds in cycles, each by the cycle time just before it: the clock of a core changes.
    pub(super) fn sample_cycles(&mut self, mut piece: impl FnMut(&mut Self) -> f64) -> Vec<f64> {
        self.sample(|bench| {
            let cycle = bench.cycle();
            piece(bench) / cycle
        })
    }
}

/// Returns what a clock says, in nanoseconds.
fn now(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_takes_as_many_samples_as_it_is_told() {
        let mut bench = Bench::new(3, 0, &|| false);
        let mut samples = [5.0, 3.0, 4.0].into_iter();
        assert_eq!(bench.sample(|_| samples.next().expect("no fourth")), [5.0, 3.0, 4.0]);
    }

    #[test]
    fn a_bench_that_is_to_end_takes_no_further_sample() {
        let count = std::cell::Cell::new(0);
        let is_stopped = || count.get() == 2;
        let mut bench = Bench::new(5, 0, &is_stopped);
        let piece = |_: &mut Bench<'_>| {
            count.set(count.get() + 1);
            1.0
        };
        assert_eq!(bench.sample(piece), [1.0; 2]);
        assert!(bench.sample(piece).is_empty());
    }

    #[test]
    fn work_takes_time() {
        let mut bench = Bench::new(1, 0, &|| false);
        assert!(bench.cycle() > 0.0);
        assert!((0.0..=1.0).contains(&bench.disturbed()));
    }
}
