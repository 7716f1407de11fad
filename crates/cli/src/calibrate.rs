//! `pagewalk calibrate`: this computer, measured, as a machine file.

use std::fs;
use std::path::Path;

use anyhow::Context;
use pagewalk_calibrate::{
    Cpuid, Effort, Host, LEAST_MEMORY_BYTES, Measurements, Step, calibrated_file, imprecise, measure,
};
use pagewalk_report::write_atomically;
use pagewalk_sim::spec;

use crate::args::CalibrateArguments;
use crate::ending::{self, Early};
use crate::exit::Done;
use crate::list::HERE;
use crate::outputs::Files;
use crate::run::print;
use crate::say::{Steps, complain, note};

/// The most memory that measurements use, in bytes; more would change nothing.
const MOST_MEMORY_BYTES: u64 = 1 << 30;

/// Runs the command `calibrate`.
pub(crate) fn calibrate(arguments: &CalibrateArguments) -> anyhow::Result<Done> {
    if let Some(output) = &arguments.output {
        Files::default().writes(output)?;
        // A folder that is not there is said now, and not after a minute.
        pagewalk_trace::Unfinished::create(output)
            .map(drop)
            .with_context(|| format!("cannot write {}", output.display()))?;
    }
    let stop = ending::watch()?;
    let host = Host::read(Path::new("/"), &Cpuid::read())?;
    let measured = measured(&host, arguments.rounds as usize, arguments.memory)?;
    let text = calibrated_file(&host, HERE, &measured);
    spec::parse(&text, "the measured machine file").context(
        "what was measured makes no machine: the host is too noisy; `pagewalk machines detect` prints what it says of itself",
    )?;
    match &arguments.output {
        Some(output) => write_atomically(output, text.as_bytes())?,
        None => print(&text)?,
    }
    tell(&measured, arguments.output.as_deref());
    match Early::asked(stop, None).filter(|_| measured.is_partial) {
        Some(early) => {
            early.tell(format_args!("the machine file"));
            Ok(early.done())
        }
        None => Ok(Done::Well),
    }
}

/// Measures this computer until the command is to end, and shows how far that is.
///
/// # Errors
///
/// The kernel refuses memory, or there is too little.
pub(crate) fn measured(host: &Host, rounds: usize, memory: u64) -> anyhow::Result<Measurements> {
    let free = free_bytes().unwrap_or(host.memory_bytes);
    let memory_bytes = memory.min(free / 4).min(MOST_MEMORY_BYTES);
    if memory_bytes < LEAST_MEMORY_BYTES {
        anyhow::bail!(
            "measuring takes {LEAST_MEMORY_BYTES} bytes of memory at least, and there are {memory_bytes}: --memory, or a quarter of \
             the {free} bytes that are free"
        );
    }
    let steps = Steps::new();
    let mut progress = |Step { round, probe }: Step| match round <= rounds {
        true => steps.show(format_args!("round {round} of {rounds}: {probe}")),
        // Too often another thread had a part of the core.
        false => steps.show(format_args!("round {round} of at most {}: {probe}", 2 * rounds)),
    };
    let is_stopped = || ending::stop().requested().is_some();
    measure(host, Effort { rounds, memory_bytes }, &is_stopped, &mut progress)
        .context("cannot get memory to measure")
}

/// Returns the bytes of memory that programs can have without swapping, if the kernel says it.
fn free_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Says where the file is, and whether the host was too noisy.
fn tell(measured: &Measurements, output: Option<&Path>) {
    if let Some(output) = output {
        note!("wrote {}", output.display());
    }
    if let Some(imprecise) = imprecise(measured) {
        complain!(
            "warning: not all values are precise: {imprecise}\n  = help: repeat it when other programs, and other guests of the host, are \
             quieter"
        );
    }
}
