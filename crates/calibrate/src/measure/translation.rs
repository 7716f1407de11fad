//! TLBs and walks: the reach of each level, what a hit costs, and a walk.

use super::bench::Bench;
use super::chase::{IN_LINES, IN_PAGES, IN_SIXTEENTH_PAGES, Place, Ring};
use super::mapping::{PAGE_BYTES, Pages};
use super::quantity::Quantity;
use super::{Found, Lab};

/// Numbers of pages, of which one line each is read in turn.
const PAGES: [usize; 24] = [
    16, 24, 32, 48, 64, 72, 96, 112, 128, 160, 192, 256, 384, 512, 768, 1024, 1280, 1536, 1792, 2048, 2304,
    2560, 3072, 4096,
];
/// The number of pages whose translations the second TLB holds and the first does not, on all processors known to the built-in machines.
const HITS_SECOND: usize = 512;
/// What stands for no cycles: noise has both signs.
const LEAST_CYCLES: f64 = 0.01;
/// Steps in a sample: 0.1 ms and more.
const STEPS: usize = 20_000;

/// What the translation of huge pages adds to chains through them: nothing but hits in the second TLB where a TLB has an entry for a huge
/// page, more where the host of a virtual machine has it in pages of 4 KiB.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct InHuge {
    /// Nanoseconds of a step through the memory of a chain that hits in the third cache.
    pub(super) third_ns: f64,
    /// Nanoseconds of a step through the memory of a chain that hits in no cache.
    pub(super) dram_ns: f64,
}

impl InHuge {
    /// Measures chains through so many bytes; nothing is added where memory is refused.
    pub(super) fn measure(bench: &mut Bench<'_>, third_bytes: usize, dram_bytes: usize) -> Self {
        let third = cost(bench, third_bytes / PAGE_BYTES, IN_PAGES, Pages::Huge);
        // As far apart as the links of the chain, but few enough for the second cache: what is measured is translation, not data.
        let dram = cost(bench, dram_bytes / (16 * PAGE_BYTES), IN_SIXTEENTH_PAGES, Pages::Huge);
        let [third_ns, dram_ns] = [third, dram].map(|cycles| cycles.unwrap_or(0.0).max(0.0) * bench.cycle());
        Self { third_ns, dram_ns }
    }
}

/// The pages of the host, as they show in huge pages of ours; and what these add to the chains of the other probes.
pub(super) fn in_huge(lab: &mut Lab<'_>) -> Found {
    let cost = cost(&mut lab.bench, HITS_SECOND, IN_PAGES, Pages::Huge);
    let (third_bytes, dram_bytes) = (lab.third_bytes(), lab.dram.bytes());
    lab.in_huge = InHuge::measure(&mut lab.bench, third_bytes, dram_bytes);
    vec![(Quantity::HostPages, cost.into_iter().map(|cost| cost.max(LEAST_CYCLES)).collect())]
}

/// The TLBs and walks. Each round has memory of its own: frames differ, and so do the conflicts in the caches.
pub(super) fn tlbs(lab: &mut Lab<'_>) -> Found {
    let Some(costs) = costs(&mut lab.bench) else { return Vec::new() };
    let levels = levels(&costs);
    let samples = |value: Option<f64>| value.into_iter().collect();
    vec![
        (Quantity::SecondTlb, samples(levels.second_hit)),
        (Quantity::Walk, samples(levels.walk)),
        (Quantity::FirstTlbReach, samples(levels.first_reach)),
        (Quantity::SecondTlbReach, samples(levels.second_reach)),
    ]
}

/// Returns, by number of pages, the cycles that translation adds to a load; none if the bench is to end.
fn costs(bench: &mut Bench<'_>) -> Option<Vec<(usize, f64)>> {
    let most = bench.memory_bytes / PAGE_BYTES;
    let counts = PAGES.into_iter().filter(|count| *count <= most);
    counts.map(|count| Some((count, cost(bench, count, IN_PAGES, Pages::Small)?))).collect()
}

/// Returns the cycles by which a step between places far apart, in pages of this size, takes longer than one between as many lines of a huge page.
fn cost(bench: &mut Bench<'_>, count: usize, place: Place, pages: Pages) -> Option<f64> {
    let mut apart = Ring::new(count, place, pages).ok()?;
    let mut together = Ring::new(count, IN_LINES, Pages::Huge).ok()?;
    let mut least = |ring: &mut Ring| {
        ring.warm();
        (0..bench.samples).map(|_| ring.step(bench, STEPS)).fold(f64::INFINITY, f64::min)
    };
    let (apart, together) = (least(&mut apart), least(&mut together));
    (!bench.is_stopped()).then(|| (apart - together) / bench.cycle())
}

/// What a table of costs shows of the levels.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Levels {
    second_hit: Option<f64>,
    walk: Option<f64>,
    first_reach: Option<f64>,
    second_reach: Option<f64>,
}

/// Returns the levels: a reach ends where a load costs more than half of the way to the next level.
fn levels(costs: &[(usize, f64)]) -> Levels {
    let at = |wanted: usize| costs.iter().find(|(count, _)| *count == wanted).map(|(_, cost)| *cost);
    let second_hit = at(HITS_SECOND).filter(|cost| *cost > 0.0);
    let walk = at(PAGES[PAGES.len() - 1]).zip(second_hit).filter(|(walk, second)| walk > second);
    let reach = |limit: f64| {
        let within = costs.iter().take_while(|(_, cost)| *cost < limit);
        within.last().map(|(count, _)| *count as f64)
    };
    Levels {
        second_hit,
        walk: walk.map(|(walk, _)| walk),
        first_reach: second_hit.and_then(|second| reach(second / 2.0)),
        second_reach: walk.and_then(|(walk, second)| reach((walk + second) / 2.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_are_the_steps_of_the_costs() {
        let cost = |count: usize| match count {
            0..=64 => 0.1,
            65..=2048 => 7.0,
            _ => 60.0,
        };
        let found = levels(&PAGES.map(|count| (count, cost(count))));
        let expected = Levels {
            second_hit: Some(7.0),
            walk: Some(60.0),
            first_reach: Some(64.0),
            second_reach: Some(2048.0),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_table_that_is_cut_short_has_no_walk() {
        let found = levels(&[(16, 0.0), (512, 7.0), (1024, 7.0)]);
        assert_eq!((found.second_hit, found.walk, found.second_reach), (Some(7.0), None, None));
        assert_eq!(levels(&[]).first_reach, None);
    }
}
