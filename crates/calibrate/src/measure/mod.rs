//! Micro-benchmarks of this computer.
//!
//! A probe is a small piece of work that shows one parameter of the model, repeated in short pieces. [`measure`] runs them all; the
//! table `PROBES` has a row for each.

mod bench;
mod caches;
#[allow(unsafe_code)] // Loads from addresses that memory holds, and nothing else.
mod chase;
mod core;
#[allow(unsafe_code)] // Memory, and nothing else.
mod files;
#[allow(unsafe_code)] // Instructions that no compiler chooses, and nothing else.
mod instructions;
mod kernel;
#[allow(unsafe_code)] // Memory, and nothing else.
mod mapping;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // Instructions that no compiler chooses, and nothing else.
mod misses;
mod probe;
mod quantity;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // Instructions that no compiler chooses, and nothing else.
mod refresh;
mod samples;
mod sets;
mod steady;
mod translation;
#[cfg(target_arch = "x86_64")]
mod window;

use std::collections::BTreeMap;
use std::io;

use crate::host::{Cache, Host};
use bench::Bench;
use chase::Ring;
pub use kernel::FaultTimes;
pub use probe::{Glance, Prober};
pub use quantity::{Measured, Measurements, NOISY, Quantity, Steadiness};
pub use samples::Statistic;
use samples::quartile;
pub use sets::OWN;
use sets::Sets;
use steady::{Watch, additions};
use translation::InHuge;

/// The samples of a probe in one round, by quantity; none of a quantity that could not be measured.
type Found = Vec<(Quantity, Vec<f64>)>;

/// What probes work with.
struct Lab<'a> {
    bench: Bench<'a>,
    caches: Vec<Cache>,
    /// A chain through memory that no cache holds.
    dram: Ring,
    in_huge: InHuge,
    /// The lower quartiles of the round so far.
    now: BTreeMap<Quantity, f64>,
}

/// A probe.
struct Probe {
    /// What it measures, for a reader who waits.
    name: &'static str,
    run: fn(&mut Lab<'_>) -> Found,
}

/// All probes, in the order in which they run: some use what earlier ones have found.
#[rustfmt::skip]
const PROBES: &[Probe] = &[
    Probe { name: "cycle time",                 run: |lab| core::cycle(&mut lab.bench) },
    #[cfg(target_arch = "x86_64")]
    Probe { name: "widths and units",           run: |lab| core::units(&mut lab.bench) },
    #[cfg(target_arch = "x86_64")]
    Probe { name: "mispredictions",             run: |lab| core::misprediction(&mut lab.bench) },
    Probe { name: "pages of the host",          run: translation::in_huge },
    Probe { name: "latencies of the caches",    run: caches::latencies },
    Probe { name: "latency of DRAM",            run: caches::dram },
    #[cfg(target_arch = "x86_64")]
    Probe { name: "refreshing of DRAM",         run: refresh::refresh },
    Probe { name: "usable third cache",         run: caches::third_cache },
    Probe { name: "misses at a time",           run: caches::outstanding },
    #[cfg(target_arch = "x86_64")]
    Probe { name: "window",                     run: window::window },
    Probe { name: "bandwidth of DRAM",          run: caches::bandwidth },
    Probe { name: "TLBs and walks",             run: translation::tlbs },
    Probe { name: "page faults",                run: kernel::faults },
    Probe { name: "pages of files",             run: files::files },
    Probe { name: "system calls",               run: |lab| kernel::calls(&mut lab.bench) },
];

/// The memory of the chain that no cache holds, in bytes.
const DRAM_BYTES: u64 = 256 << 20;
/// The samples that a probe takes in a round, of a quantity that takes no more than milliseconds.
const SAMPLES: usize = 10;
/// The least memory that measurements need.
pub const LEAST_MEMORY_BYTES: u64 = 8 << 20;

/// The thoroughness of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// The rounds over all probes, at least 1; one takes a few seconds. If another thread has a part of the core in more than half of them,
    /// there are up to twice as many.
    pub rounds: usize,
    /// The most memory to take, in bytes, [`LEAST_MEMORY_BYTES`] at least; with 512 MiB and more, DRAM is measured in 256 MiB.
    pub memory_bytes: u64,
}

/// A step of a run, for a reader who waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The number of the round, from 1.
    pub round: usize,
    /// The name of the probe that begins.
    pub probe: &'static str,
}

/// Measures this computer, which describes itself as `host`. `progress` is told of each probe before it begins; the run ends early, with
/// what there is, once `is_stopped` says so.
///
/// # Errors
///
/// The kernel refuses memory.
pub fn measure(
    host: &Host,
    effort: Effort,
    is_stopped: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Step),
) -> io::Result<Measurements> {
    let memory_bytes = effort.memory_bytes.max(LEAST_MEMORY_BYTES);
    let mut lab = Lab {
        bench: Bench::new(SAMPLES, memory_bytes as usize, is_stopped),
        caches: host.caches.clone(),
        dram: caches::lines(DRAM_BYTES.min(memory_bytes / 2) as usize)?,
        in_huge: InHuge::default(),
        now: BTreeMap::new(),
    };
    let (mut watch, mut sets) = (Watch::begin(), Sets::default());
    let (wanted, mut rounds) = (effort.rounds.max(1), 0);
    let goes_on =
        |rounds, sets: &Sets| rounds < wanted || rounds < 2 * wanted && sets.counting() < wanted / 2;
    while goes_on(rounds, &sets) && !lab.bench.is_stopped() {
        rounds += 1;
        watch.look(&mut lab.bench, &mut lab.dram);
        lab.round(&mut sets, &mut |probe| progress(Step { round: rounds, probe }));
    }
    watch.look(&mut lab.bench, &mut lab.dram);
    Ok(Measurements {
        values: sets.measured(),
        rounds,
        steadiness: watch.end(&lab.bench, sets.shared()),
        is_partial: lab.bench.is_stopped(),
    })
}

impl Lab<'_> {
    /// Returns the bytes of a chain that hits in the third cache, four times the second; 0 if that is not known.
    fn third_bytes(&self) -> usize {
        self.caches.iter().find(|cache| cache.level == 2).map_or(0, |cache| cache.bytes as usize * 4)
    }

    /// Runs every probe once, or as many as there is time for.
    fn round(&mut self, sets: &mut Sets, progress: &mut dyn FnMut(&'static str)) {
        // Where nothing is known, all is alike.
        let look = |lab: &mut Self| additions(&mut lab.bench).unwrap_or(0.0);
        let mut before = look(self);
        sets.look(before);
        for probe in PROBES {
            if self.bench.is_stopped() {
                break;
            }
            progress(probe.name);
            let found = (probe.run)(self);
            let after = look(self);
            sets.look(after);
            for (quantity, samples) in found {
                if let Some(now) = quartile(&samples) {
                    self.now.insert(quantity, now);
                }
                sets.add(quantity, [before, after], samples);
            }
            before = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cpuid::Cpuid;

    const EFFORT: Effort = Effort { rounds: 1, memory_bytes: LEAST_MEMORY_BYTES };

    fn host() -> Host {
        Host::read(Path::new("/"), &Cpuid::read()).expect("this computer")
    }

    /// The numbers of one round on a busy host mean nothing; that there are some does.
    #[test]
    fn every_probe_runs() {
        let mut told = Vec::new();
        let found = measure(&host(), EFFORT, &|| false, &mut |step| told.push(step.probe));
        let found = found.expect("memory");
        assert_eq!(told.len(), PROBES.len());
        assert!(!found.is_partial && found.value(Quantity::Cycle).is_some(), "{found:?}");
        assert!(
            found.value(Quantity::Dram).is_some() && found.value(Quantity::SystemCall).is_some(),
            "{found:?}"
        );
        assert!(found.values.values().all(|each| each.value.is_finite() && each.value > 0.0), "{found:?}");
    }

    #[test]
    fn a_run_that_is_stopped_keeps_what_it_has() {
        let begun = std::cell::Cell::new(0);
        let found = measure(&host(), EFFORT, &|| begun.get() == 2, &mut |_| begun.set(begun.get() + 1));
        let found = found.expect("memory");
        assert!(found.is_partial);
        assert_eq!(found.values.keys().collect::<Vec<_>>(), [&Quantity::Cycle]);
    }
}
