//! The ratios that users compare: computed from rows alone, each under a name of its own.

use super::names::{self, Name};
use super::result::{Metric, Number};
use super::rows::Rows;

/// TLB levels that a machine file can have, and more.
const MOST_TLB_LEVELS: usize = 8;

/// A value over another, times `scale`.
struct Ratio {
    name: Name,
    above: Name,
    below: Name,
    scale: f64,
}

/// Returns the rows of a phase, or of the whole run, as metrics, and the ratios between them.
pub(crate) fn metrics_of(rows: &Rows, phase: Option<&str>) -> Vec<Metric> {
    let mut metrics: Vec<Metric> =
        rows.iter().map(|row| row.name.metric(phase, Some(Number::Count(row.value)))).collect();
    for Ratio { name, above, below, scale } in ratios() {
        let (Some(above), Some(below)) = (rows.value(&above), rows.value(&below)) else { continue };
        let value = (below > 0).then(|| Number::Ratio(scale * above as f64 / below as f64));
        metrics.push(name.metric(phase, value));
    }
    metrics
}

/// Returns all ratios; those of stages that a machine does not have are left out.
fn ratios() -> Vec<Ratio> {
    use names::{program, time, tlb, tlb_prefetch, walk};
    let ratio = |name, above, below, scale| Ratio { name, above, below, scale };
    let mut ratios = Vec::new();
    for level in 1..=MOST_TLB_LEVELS {
        ratios.push(ratio(tlb::miss_rate(level), tlb::misses(level), tlb::accesses(level), 1.0));
        ratios.push(ratio(
            tlb::misses_per_kilo_instruction(level),
            tlb::misses(level),
            program::INSTRUCTIONS,
            1e3,
        ));
    }
    ratios.extend([
        ratio(tlb_prefetch::COVERAGE, tlb_prefetch::HITS, tlb_prefetch::MISSES, 1.0),
        ratio(tlb_prefetch::ACCURACY, tlb_prefetch::HITS, tlb_prefetch::PREFETCHES, 1.0),
        ratio(walk::REFERENCES_PER_WALK, walk::REFERENCES, walk::WALKS, 1.0),
        ratio(walk::REFERENCES_PER_KILO_INSTRUCTION, walk::REFERENCES, program::INSTRUCTIONS, 1e3),
        ratio(time::ELAPSED_PER_ACCESS, time::ELAPSED, program::ACCESSES, 1.0),
        ratio(time::ELAPSED_PER_INSTRUCTION, time::ELAPSED, program::INSTRUCTIONS, 1.0),
    ]);
    ratios
}
