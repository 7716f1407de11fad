//! A short look at what moves on a shared host: the clock, the third cache, DRAM, page faults.

use std::io;

use super::bench::Bench;
use super::caches::{least_usable, lines, usable};
use super::chase::{LINE_BYTES, Ring};
use super::kernel::{FaultTimes, TOUCHED_BYTES};
use super::steady::{additions, look};
use super::translation::InHuge;
use crate::host::Host;

/// The sizes at which the third cache is looked at, in bytes; those that a machine's own cache does not have are left out.
const SIZES: [usize; 6] = [2 << 20, 4 << 20, 8 << 20, 12 << 20, 16 << 20, 32 << 20];
/// The memory of the chain that no cache holds.
const DRAM_BYTES: usize = 128 << 20;
/// Chains up to so many bytes are gone around until the cache has taken them in; of longer ones it keeps what it keeps.
const DEFENDED: usize = 12 << 20;
/// A cache that defends itself against scans, in which others have lines, takes in a chain of 8 MiB in about twenty rounds (measured on Zen 4).
/// So many rounds are made at most, and none is begun after so many nanoseconds.
const ROUNDS: usize = 20;
const ROUNDS_NS: f64 = 100e6;
/// Chains that go through the same memory at once, and their rounds: a program whose misses overlap has more of a shared cache than one that waits
/// for each. Eight chains held 12 to 16 MiB where one held 8 (measured on Zen 4).
const DENSE: usize = 8;
const DENSE_ROUNDS: usize = 6;
/// The memory of a chain that hits in the third cache.
const HIT_BYTES: usize = 4 << 20;
/// Samples of what does not move.
const SAMPLES: usize = 10;
/// Steps of a sample.
const STEPS: usize = 4_000;
/// Samples of first touches, of 7 ms each.
const TOUCHES: usize = 5;

/// The quantities that a short look shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Glance {
    /// The time of a cycle, in nanoseconds.
    pub cycle_ns: f64,
    /// The bytes of the third cache that this processor can use, as several chains show at once: misses of most programs overlap; 0 without such
    /// a cache.
    pub third_cache_bytes: f64,
    /// The same as one chain shows.
    pub chain_bytes: f64,
    /// The least that a chain shows which the cache does not hold as a whole, and the most that several show: what others bring into the
    /// cache drives out the more, the longer a line is not used.
    pub third_cache_range: [f64; 2],
    /// The time of a load from DRAM, without translation, in nanoseconds.
    pub dram_ns: f64,
    /// The times of page faults; none where the kernel gave no huge page, by which zeroing is told from the rest.
    pub faults: Option<FaultTimes>,
    /// Additions that this processor makes in a cycle at the beginning and at the end of the look: fewer than its core could, if another
    /// thread of the core takes a part.
    pub additions: [f64; 2],
}

impl Glance {
    /// Returns what several looks show together: the mean of each quantity, but the least times of DRAM and of faults, which others lengthen for
    /// moments, and the range of all; none for no looks.
    pub fn together(looks: &[Self]) -> Option<Self> {
        let (first, count) = (looks.first()?, looks.len() as f64);
        let mean = |of: fn(&Self) -> f64| looks.iter().map(of).sum::<f64>() / count;
        let range = looks.iter().fold(*first, |all, look| all.widened(look)).third_cache_range;
        Some(Self {
            cycle_ns: mean(|look| look.cycle_ns),
            third_cache_bytes: mean(|look| look.third_cache_bytes),
            chain_bytes: mean(|look| look.chain_bytes),
            third_cache_range: range,
            dram_ns: looks.iter().map(|look| look.dram_ns).fold(f64::INFINITY, f64::min),
            faults: looks.iter().map(|look| look.faults).fold(None, FaultTimes::shorter),
            additions: [mean(|look| look.additions[0]), mean(|look| look.additions[1])],
        })
    }

    /// Returns what lies between this look and a later one: what both show together, but the additions next to it on both sides.
    #[must_use]
    pub fn middle(&self, other: &Self) -> Self {
        let additions = [self.additions[1], other.additions[0]];
        Self::together(&[*self, *other]).map_or(*self, |both| Self { additions, ..both })
    }

    /// Returns this look with the range of the third cache that both show.
    #[must_use]
    pub fn widened(self, other: &Self) -> Self {
        let ([least, most], [other_least, other_most]) = (self.third_cache_range, other.third_cache_range);
        Self { third_cache_range: [least.min(other_least), most.max(other_most)], ..self }
    }

    /// Returns the movement of what one chain can use of the third cache to another look: larger over smaller, less 1; 0 if neither shows any.
    pub fn third_cache_moved(&self, other: &Self) -> f64 {
        let (one, two) = (self.chain_bytes, other.chain_bytes);
        if one == two { 0.0 } else { one.max(two) / one.min(two) - 1.0 }
    }
}

/// Chains that are kept for short looks: 200 MiB of memory for a third cache of 32 MiB.
#[derive(Debug)]
pub struct Prober {
    dram: Ring,
    /// By size in bytes.
    chains: Vec<(usize, Ring)>,
    /// The nanoseconds of a hit in the third cache, if they are known.
    hit_ns: Option<f64>,
    in_huge: InHuge,
}

impl Prober {
    /// Returns a prober for this computer, which describes itself as `host`. `hit_ns` are the nanoseconds of a hit in the third cache; without
    /// them, the smallest chain is taken to hit.
    ///
    /// # Errors
    ///
    /// The kernel refuses memory.
    pub fn new(host: &Host, hit_ns: Option<f64>) -> io::Result<Self> {
        let third = host.caches.iter().find(|cache| cache.level == 3).map_or(0, |cache| cache.bytes as usize);
        let sizes = SIZES.into_iter().filter(|bytes| *bytes <= third);
        let chains = sizes.map(|bytes| Ok((bytes, lines(bytes)?))).collect::<io::Result<_>>()?;
        let in_huge = InHuge::measure(&mut Bench::new(SAMPLES, 0, &|| false), HIT_BYTES, DRAM_BYTES);
        Ok(Self { dram: lines(DRAM_BYTES)?, chains, hit_ns, in_huge })
    }

    /// Looks at the host for 0.4 to 0.6 s.
    pub fn probe(&mut self) -> Glance {
        let mut bench = Bench::new(1, 0, &|| false);
        let first = additions(&mut bench).unwrap_or(f64::NAN);
        let mut each = |(bytes, ring): &mut (usize, Ring)| {
            let (mut rounds, mut ns) = (0, 0.0);
            while rounds == 0 || *bytes <= DEFENDED && rounds < ROUNDS && ns < ROUNDS_NS {
                ns += bench.time(|_| ring.warm());
                rounds += 1;
            }
            (*bytes, ring.step(&mut bench, STEPS))
        };
        let steps: Vec<(usize, f64)> = self.chains.iter_mut().map(&mut each).collect();
        let mut each = |(bytes, ring): &mut (usize, Ring)| {
            let steps = *bytes / LINE_BYTES / DENSE;
            let rounds = (0..DENSE_ROUNDS).map(|_| ring.together::<DENSE>(&mut bench, steps));
            (*bytes, rounds.last().unwrap_or_default())
        };
        let dense: Vec<(usize, f64)> = self.chains.iter_mut().map(&mut each).collect();
        let dense_miss = self.dram.together::<DENSE>(&mut bench, STEPS);
        let dense_bytes = dense.first().map_or(0.0, |(_, hit)| usable(&dense, *hit, dense_miss));
        // Last, because it drives out what the third cache has.
        let (cycle, dram) = look(&mut bench, &mut self.dram);
        let InHuge { third_ns, dram_ns: dram_translation_ns } = self.in_huge;
        let hit = self
            .hit_ns
            .map(|hit| hit + third_ns)
            .or(steps.first().map(|(_, step)| *step))
            .unwrap_or_default();
        let dram_ns = dram.unwrap_or(f64::NAN);
        let chain_bytes = usable(&steps, hit, dram_ns);
        let third_cache_bytes = dense_bytes.max(chain_bytes);
        let third_cache_range = [least_usable(&steps, hit, dram_ns), third_cache_bytes];
        let faults = FaultTimes::measure(&mut Bench::new(TOUCHES, 0, &|| false), TOUCHED_BYTES);
        let additions = [first, additions(&mut bench).unwrap_or(f64::NAN)];
        Glance {
            cycle_ns: cycle.unwrap_or(f64::NAN),
            third_cache_bytes,
            chain_bytes,
            third_cache_range,
            dram_ns: dram_ns - dram_translation_ns,
            faults,
            additions,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cpuid::Cpuid;

    #[test]
    fn movement_has_no_direction() {
        let glance = |bytes: f64| Glance {
            cycle_ns: 0.3,
            third_cache_bytes: 2.0 * bytes,
            chain_bytes: bytes,
            third_cache_range: [bytes / 2.0, 2.0 * bytes],
            dram_ns: 100.0,
            faults: None,
            additions: [4.0, 3.0],
        };
        assert_eq!(glance(8.0).third_cache_moved(&glance(10.0)), 0.25);
        assert_eq!(glance(10.0).third_cache_moved(&glance(8.0)), 0.25);
        assert_eq!(glance(0.0).third_cache_moved(&glance(0.0)), 0.0);
        assert_eq!(glance(0.0).third_cache_moved(&glance(1.0)), f64::INFINITY);
        let middle = glance(8.0).middle(&glance(10.0));
        assert_eq!(middle, Glance { third_cache_range: [4.0, 20.0], additions: [3.0, 4.0], ..glance(9.0) });
        let together = Glance::together(&[glance(6.0), glance(8.0), glance(10.0)]).expect("three looks");
        assert_eq!(together, Glance { third_cache_range: [3.0, 20.0], ..glance(8.0) });
        assert_eq!(Glance::together(&[]), None);
        assert_eq!(glance(9.0).widened(&glance(2.0)).third_cache_range, [1.0, 18.0]);
    }

    #[test]
    fn a_look_shows_the_clock_and_dram() {
        let host = Host::read(Path::new("/"), &Cpuid::read()).expect("this computer");
        let glance = Prober::new(&host, None).expect("memory").probe();
        assert!(
            glance.cycle_ns > 0.0 && glance.dram_ns > 0.0 && glance.additions.iter().all(|&each| each > 0.0),
            "{glance:?}"
        );
    }
}
