//! A program on simulated machines: as `pagewalk run --detail timed` runs it, with the blocks that it executes.

use anyhow::bail;
use pagewalk_capture::Program;
use pagewalk_sim::machine::{Detail, build};
use pagewalk_sim::metrics::names::{fault, time};
use pagewalk_sim::metrics::{Name, RunResult};
use pagewalk_sim::run::{RunOptions, run as run_machines};
use pagewalk_sim::spec::MachineSpec;
use pagewalk_sim::spec::settings::{DataflowSpec, LineIndexing, Replacement, SlotsSpec};
use pagewalk_trace::Source;

use super::programs::Runnable;
use crate::ending;

/// An ingredient of the model.
pub(super) struct Ingredient {
    pub(super) name: &'static str,
    switch_off: fn(&mut MachineSpec),
}

/// The ingredients that can be switched off.
pub(super) const INGREDIENTS: &[Ingredient] = &[
    Ingredient {
        name: "dependences",
        switch_off: |machine| of_core(machine, |core| core.are_dependences_followed = false),
    },
    Ingredient {
        name: "branches",
        switch_off: |machine| of_core(machine, |core| core.are_branches_predicted = false),
    },
    Ingredient {
        name: "wrong ways",
        switch_off: |machine| of_core(machine, |core| core.are_wrong_ways_followed = false),
    },
    Ingredient { name: "branch targets", switch_off: |machine| of_core(machine, |core| core.targets = None) },
    Ingredient {
        name: "decoders",
        switch_off: |machine| {
            machine.translation.fetch.iter_mut().for_each(|fetch| fetch.decoded = None);
        },
    },
    Ingredient { name: "slots", switch_off: |machine| of_core(machine, |core| core.slots = SlotsSpec::ONE) },
    Ingredient {
        name: "schedulers",
        switch_off: |machine| {
            of_core(machine, |core| {
                (core.scheduler, core.vector_scheduler, core.load_scheduler) = (0, 0, 0);
                core.have_schedulers_own_units = false;
            });
        },
    },
    Ingredient {
        name: "registers",
        switch_off: |machine| of_core(machine, |core| (core.registers, core.vector_registers) = (0, 0)),
    },
    Ingredient {
        name: "foreseen loads",
        switch_off: |machine| {
            of_core(machine, |core| (core.renamed_stores, core.foreseen_loads) = (0, 0));
        },
    },
    Ingredient {
        name: "units",
        switch_off: |machine| of_core(machine, |core| core.are_units_limited = false),
    },
    Ingredient {
        name: "line fills",
        switch_off: |machine| of_core(machine, |core| (core.line_fill, core.set_fill) = (0, 0)),
    },
    Ingredient {
        name: "prefetchers",
        switch_off: |machine| {
            machine.hierarchy.caches.iter_mut().for_each(|cache| cache.prefetch = None);
        },
    },
    Ingredient {
        name: "pages ahead",
        switch_off: |machine| {
            let prefetchers = machine.hierarchy.caches.iter_mut().filter_map(|cache| cache.prefetch.as_mut());
            prefetchers.flat_map(|own| &mut own.stream).for_each(|stream| stream.crosses_pages = false);
        },
    },
    Ingredient {
        name: "replacement",
        switch_off: |machine| {
            machine.hierarchy.caches.iter_mut().for_each(|cache| cache.replacement = Replacement::Lru);
        },
    },
    Ingredient {
        name: "sets",
        switch_off: |machine| {
            machine.hierarchy.caches.iter_mut().for_each(|cache| cache.indexing = LineIndexing::Modulo);
        },
    },
    Ingredient { name: "bandwidth", switch_off: |machine| machine.hierarchy.memory.line_ps = None },
    Ingredient { name: "refresh", switch_off: |machine| machine.hierarchy.memory.refresh = None },
    Ingredient { name: "waiting walks", switch_off: |machine| machine.translation.walker.retry_ps = 0 },
    Ingredient { name: "fetch", switch_off: |machine| machine.translation.fetch = None },
    Ingredient { name: "kernel writes", switch_off: |machine| machine.kernel.writes_are_cached = false },
];

fn of_core(machine: &mut MachineSpec, change: fn(&mut DataflowSpec)) {
    machine.core.dataflow.iter_mut().for_each(change);
}

/// What a machine predicts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Predicted {
    /// The time of all cores, in nanoseconds.
    pub(super) cpu_ns: f64,
    /// The share of it in which a core waits for memory or a walk.
    pub(super) memory_share: f64,
    /// Pages that were touched for the first time, or again.
    pub(super) minor_faults: u64,
}

/// Returns a machine, and the same without each ingredient in turn if that is wanted.
pub(super) fn machines(spec: &MachineSpec, ablate: bool) -> Vec<MachineSpec> {
    let without = INGREDIENTS.iter().filter(|_| ablate).map(|Ingredient { name, switch_off }| {
        let mut spec = spec.clone();
        switch_off(&mut spec);
        spec.name = format!("without {name}");
        spec
    });
    std::iter::once(spec.clone()).chain(without).collect()
}

/// Runs a program on machines, in one pass.
///
/// # Errors
///
/// It cannot be observed, a machine cannot go on, or the command is to end.
pub(super) fn predict(program: &Runnable, specs: &[MachineSpec]) -> anyhow::Result<Vec<Predicted>> {
    let observed = Program::new(&program.path, &program.arguments).blocks(true).silent(true);
    let mut observed = observed.until(ending::watch()?).guarded(true);
    observed.check()?;
    let info = observed.info();
    let machines =
        specs.iter().map(|spec| build(spec, Detail::Timed, 0, &info)).collect::<Result<Vec<_>, _>>()?;
    let options = RunOptions { threads: crate::run::threads(None), ..RunOptions::default() };
    let outcome = run_machines(&mut observed, machines, options, &mut ());
    ending::go_on()?;
    let outcome = outcome?;
    if let Some((machine, error)) = outcome.failed.first() {
        bail!("{machine}: {error}");
    }
    if let Some(signal) = observed.outcome().and_then(|outcome| outcome.killed_by()) {
        bail!("{} was killed by signal {signal} while it was observed", program.name);
    }
    Ok(outcome.results.iter().map(predicted).collect())
}

/// Returns what a result says of the whole run.
fn predicted(result: &RunResult) -> Predicted {
    let whole = || result.metrics.iter().filter(|row| row.phase.is_none());
    let value = |name: Name| {
        whole().find(|row| name.is_of(row)).and_then(|row| row.value).map_or(0.0, |value| value.as_f64())
    };
    let waiting = value(time::WALK) + value(time::MEMORY);
    let front_end = value(time::BRANCH) + value(time::FETCH);
    let all = waiting + value(time::COMPUTE) + front_end + value(time::FAULT);
    let faults = whole().filter(|row| row.stage == fault::STAGE && row.metric.starts_with(fault::MINOR));
    let minor_faults = faults.filter_map(|row| row.value).map(|value| value.as_f64() as u64).sum();
    Predicted { cpu_ns: all / 1e3, memory_share: waiting / all, minor_faults }
}
