//! The widths, units and latencies of a core.

use super::Found;
use super::bench::Bench;
use super::instructions::{self as code, Loop};
use super::quantity::Quantity;

/// Instructions in a sample: 30 to 300 us.
const INSTRUCTIONS: u64 = 400_000;

/// The cycle time.
pub(super) fn cycle(bench: &mut Bench<'_>) -> Found {
    vec![(Quantity::Cycle, bench.sample(Bench::cycle))]
}

/// Returns the cycles of an addition, where many are independent; 0 on instruction sets whose additions are not known here.
pub(super) fn addition(bench: &mut Bench<'_>) -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        let cycle = bench.cycle();
        per_instruction(bench, code::INTEGERS) / cycle
    }
    #[cfg(not(target_arch = "x86_64"))]
    0.0
}

/// Returns the nanoseconds of an instruction of a loop.
fn per_instruction(bench: &mut Bench<'_>, code: Loop) -> f64 {
    let mut done = 1;
    bench.time(|buffer| done = code.run(INSTRUCTIONS, buffer)) / done as f64
}

/// What a loop measures: the cycles of its instructions, or how many of them a cycle takes.
enum Kind {
    Latency,
    Rate,
}

#[rustfmt::skip]
const LOOPS: &[(Quantity, Loop, Kind)] = &[
    (Quantity::Width,              code::MIXED,             Kind::Rate),
    (Quantity::LoadUnits,          code::LOADS,             Kind::Rate),
    (Quantity::StoreUnits,         code::STORES,            Kind::Rate),
    (Quantity::IntegerUnits,       code::INTEGERS,          Kind::Rate),
    (Quantity::MultiplyUnits,      code::MULTIPLIERS,       Kind::Rate),
    (Quantity::FloatUnits,         code::FLOATS,            Kind::Rate),
    (Quantity::VectorUnits,        code::VECTORS,           Kind::Rate),
    (Quantity::VectorLoadUnits,    code::VECTOR_LOADS,      Kind::Rate),
    (Quantity::VectorStoreUnits,   code::VECTOR_STORES,     Kind::Rate),
    (Quantity::ShiftUnits,         code::SHIFTS,            Kind::Rate),
    (Quantity::BranchUnits,        code::BRANCHES,          Kind::Rate),
    (Quantity::FloatMultiplyUnits, code::FLOAT_MULTIPLIERS, Kind::Rate),
    (Quantity::ShuffleUnits,       code::SHUFFLES,          Kind::Rate),
    (Quantity::CrossUnits,         code::CROSSES,           Kind::Rate),
    (Quantity::ScaledLoad,         code::SCALED_LOADS,      Kind::Latency),
    (Quantity::Foreseen,           code::FORESEEN,          Kind::Latency),
    (Quantity::Multiplication,     code::MULTIPLICATIONS,   Kind::Latency),
    (Quantity::FloatAddition,      code::FLOAT_ADDITIONS,   Kind::Latency),
];

/// Widths, units and latencies.
pub(super) fn units(bench: &mut Bench<'_>) -> Found {
    let mut each = |&(quantity, code, ref kind): &(Quantity, Loop, Kind)| {
        let samples = bench.sample_cycles(|bench| per_instruction(bench, code));
        let value = |cycles: f64| match kind {
            Kind::Latency => cycles,
            Kind::Rate => 1.0 / cycles,
        };
        (quantity, samples.into_iter().map(value).collect())
    };
    LOOPS.iter().map(&mut each).collect()
}

/// Words whose bits decide branches: more than a predictor can learn.
const WORDS: usize = 2_048;

/// The cost of a misprediction.
///
/// In the loop of [`code::branches`] a branch is done three cycles after its dispatch: dispatch, shift, branch. With branches of
/// `p` cycles where all are predicted, and every other one mispredicted at random, there are two branches from a misprediction to the
/// next one, which take `m + 3 + p`. So `m` is `2 r - 3 - p` where a random branch takes `r`.
pub(super) fn misprediction(bench: &mut Bench<'_>) -> Found {
    let mut random = pagewalk_cuckoo::random::SplitMix64::new(1);
    let predictable = vec![0; WORDS];
    let samples = bench.sample(|bench| {
        let unpredictable: Vec<u64> = (0..WORDS).map(|_| random.next()).collect();
        let per_branch = |time: f64| time / (WORDS * 64) as f64;
        let cycle = bench.cycle();
        let known = per_branch(bench.time(|_| code::branches(&predictable))) / cycle;
        let unknown = per_branch(bench.time(|_| code::branches(&unpredictable))) / cycle;
        2.0 * unknown - 3.0 - known
    });
    vec![(Quantity::Misprediction, samples)]
}
