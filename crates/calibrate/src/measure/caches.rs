//! The caches and DRAM: latencies, the part of the third cache that is ours, misses at a time, bandwidth.

use std::hint::black_box;
use std::io;

use super::bench::Bench;
use super::chase::{IN_LINES, LINE_BYTES, Ring};
use super::mapping::{Mapping, Pages};
use super::quantity::Quantity;
use super::samples::quartile;
use super::translation::InHuge;
use super::{Found, Lab};

/// Steps of a chain in a sample: 0.1 to 3 ms.
const STEPS: usize = 20_000;
/// The sizes of the sweep over the third cache, in MiB.
const SWEEP_MIB: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Returns a cycle through the lines of so many bytes, in huge pages.
///
/// # Errors
///
/// The kernel refuses the memory.
pub(super) fn lines(bytes: usize) -> io::Result<Ring> {
    Ring::new(bytes / LINE_BYTES, IN_LINES, Pages::Huge)
}

/// The latencies of the caches: chains over half of the first, over four times the first but at most half of the second, of which another
/// thread of the core may use a part, and over four times the second.
pub(super) fn latencies(lab: &mut Lab<'_>) -> Found {
    let size = |level| lab.caches.iter().find(|cache| cache.level == level).map(|cache| cache.bytes as usize);
    let third = size(3).and(size(2)).map(|_| lab.third_bytes());
    let sizes = [
        (Quantity::FirstCache, size(1).map(|bytes| bytes / 2)),
        (
            Quantity::SecondCache,
            size(2).map(|bytes| size(1).map_or(bytes / 2, |first| (bytes / 2).min(first * 4))),
        ),
        (Quantity::ThirdCache, third),
    ];
    let mut each = |(quantity, bytes): (Quantity, Option<usize>)| {
        let ring = bytes.filter(|bytes| *bytes <= lab.bench.memory_bytes).and_then(|bytes| lines(bytes).ok());
        let translation_ns = if quantity == Quantity::ThirdCache { lab.in_huge.third_ns } else { 0.0 };
        let latencies = |mut ring: Ring| latency(&mut lab.bench, &mut ring, translation_ns);
        (quantity, ring.map_or_else(Vec::new, latencies))
    };
    sizes.map(&mut each).into()
}

/// Returns the cycles of a step without its translation, once the caches hold of the cycle what they can.
fn latency(bench: &mut Bench<'_>, ring: &mut Ring, translation_ns: f64) -> Vec<f64> {
    ring.warm();
    bench.sample_cycles(|bench| ring.step(bench, STEPS) - translation_ns)
}

/// The latency of DRAM, without the translation of the chain's pages.
pub(super) fn dram(lab: &mut Lab<'_>) -> Found {
    let translation_ns = lab.in_huge.dram_ns;
    vec![(Quantity::Dram, lab.bench.sample(|bench| lab.dram.step(bench, STEPS) - translation_ns))]
}

/// Returns the bytes that a cache holds of chains of several sizes (bytes, and the time of a step): of each, the part whose steps are
/// hits; the most of them counts. `hit` is the time of a hit, `miss` that of a miss.
pub(super) fn usable(steps: &[(usize, f64)], hit: f64, miss: f64) -> f64 {
    steps.iter().map(|step| held(step, hit, miss)).fold(0.0, f64::max)
}

/// The part of a chain from which on the cache holds it as a whole; noise lets a few steps look like misses.
const WHOLE: f64 = 0.9;

/// Returns the least bytes that a cache holds of those chains that it does not hold as a whole; as [`usable`] if it holds all.
pub(super) fn least_usable(steps: &[(usize, f64)], hit: f64, miss: f64) -> f64 {
    let parts = steps.iter().map(|step| (step.0 as f64, held(step, hit, miss)));
    let least = parts
        .filter(|(bytes, held)| *held < WHOLE * bytes)
        .map(|(_, held)| held)
        .fold(f64::INFINITY, f64::min);
    least.min(usable(steps, hit, miss))
}

/// Returns the bytes of a chain, of so many bytes with so long a step, that a cache holds.
fn held(&(bytes, step): &(usize, f64), hit: f64, miss: f64) -> f64 {
    bytes as f64 * ((miss - step) / (miss - hit)).clamp(0.0, 1.0)
}

/// The bytes of the third cache that this processor can use now.
pub(super) fn third_cache(lab: &mut Lab<'_>) -> Found {
    let Some(third) = lab.caches.iter().find(|cache| cache.level == 3).copied() else { return Vec::new() };
    let most = lab.bench.memory_bytes.min(third.bytes as usize);
    let now = |quantity| lab.now.get(&quantity).copied();
    let (Some(hit), Some(miss), Some(cycle)) =
        (now(Quantity::ThirdCache), now(Quantity::Dram), now(Quantity::Cycle))
    else {
        return Vec::new();
    };
    let Some(steps) = sweep(&mut lab.bench, most) else { return Vec::new() };
    let InHuge { third_ns, dram_ns } = lab.in_huge;
    vec![(Quantity::ThirdCacheBytes, vec![usable(&steps, hit * cycle + third_ns, miss + dram_ns)])]
}

/// Returns the time of a step by size of the chain; none if the bench is to end.
fn sweep(bench: &mut Bench<'_>, most: usize) -> Option<Vec<(usize, f64)>> {
    let sizes = SWEEP_MIB.iter().map(|mib| mib << 20).filter(|bytes| *bytes <= most);
    let mut each = |bytes: usize| {
        let mut ring = lines(bytes).ok()?;
        ring.warm();
        (!bench.is_stopped()).then(|| (bytes, ring.step(bench, STEPS)))
    };
    sizes.map(&mut each).collect()
}

/// Misses at a time: the latency of one chain over the time of a load in the best number of independent ones.
pub(super) fn outstanding(lab: &mut Lab<'_>) -> Found {
    let Lab { bench, dram, in_huge, .. } = lab;
    let all = [
        together::<8>(bench, dram),
        together::<12>(bench, dram),
        together::<16>(bench, dram),
        together::<24>(bench, dram),
        together::<32>(bench, dram),
    ];
    // Walks overlap, too: what counts is how many lines are under way.
    let translation_ns = in_huge.dram_ns;
    let one = quartile(&bench.sample(|bench| dram.step(bench, STEPS / 4) - translation_ns));
    let best = all.into_iter().flatten().min_by(f64::total_cmp);
    vec![(Quantity::Outstanding, one.zip(best).map(|(one, best)| one / best).into_iter().collect())]
}

/// Returns the time of a load of so many independent chains.
fn together<const CHAINS: usize>(bench: &mut Bench<'_>, dram: &mut Ring) -> Option<f64> {
    quartile(&bench.sample(|bench| dram.together::<CHAINS>(bench, STEPS / CHAINS)))
}

/// The bandwidth of DRAM: the memory of the chain read in order, and other memory written.
pub(super) fn bandwidth(lab: &mut Lab<'_>) -> Found {
    let Lab { bench, dram, .. } = lab;
    let words = dram.words();
    let bytes = size_of_val(words) as f64;
    let read = bench.sample(|bench| bytes / bench.time(|_| sum(words)));
    let Ok(mut mapping) = Mapping::new(size_of_val(words), Pages::Huge) else { return Vec::new() };
    let written = mapping.words_mut();
    written.fill(1);
    let write = bench.sample(|bench| bytes / bench.time(|_| black_box(&mut *written).fill(2)));
    vec![(Quantity::ReadBandwidth, read), (Quantity::WriteBandwidth, write)]
}

#[inline(never)]
fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usable_bytes_are_the_most_that_hit() {
        // A cache of 12 MiB of which longer chains hit in 12 MiB still: replacement at random.
        let hits = |mib: usize| (12.0 / mib as f64).min(1.0);
        let steps = SWEEP_MIB.map(|mib| (mib << 20, 100.0 - 80.0 * hits(mib)));
        let found = usable(&steps, 20.0, 100.0);
        assert!((found - 12.0 * 1_048_576.0).abs() < 1.0, "{found}");
        // The same with the oldest line replaced: a longer chain hits nowhere.
        let steps = SWEEP_MIB.map(|mib| (mib << 20, if mib <= 12 { 20.0 } else { 100.0 }));
        assert_eq!(usable(&steps, 20.0, 100.0), 12.0 * 1_048_576.0);
        assert_eq!(usable(&[(1 << 20, 150.0)], 20.0, 100.0), 0.0, "slower than DRAM");
        assert_eq!(usable(&[], 20.0, 100.0), 0.0);
    }

    #[test]
    fn the_least_usable_bytes_are_those_of_a_chain_that_is_not_held() {
        // Of 4 MiB all steps hit, of 8 half, of 16 three eighths.
        let steps = [(4, 20.0), (8, 60.0), (16, 70.0)].map(|(mib, step)| (mib << 20, step));
        assert_eq!([least_usable, usable].map(|of| of(&steps, 20.0, 100.0)), [4_194_304.0, 6_291_456.0]);
        assert_eq!(least_usable(&steps[..1], 20.0, 100.0), 4_194_304.0, "all is held");
        assert_eq!(least_usable(&[], 20.0, 100.0), 0.0);
    }
}
