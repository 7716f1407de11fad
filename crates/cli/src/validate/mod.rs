//! `pagewalk validate`: predicted time against the stopwatch.
//!
//! Each program runs on this computer between two short looks at its clock, its third cache and DRAM, and then on the simulated machine,
//! with what the looks have shown in place of the machine's own. A run whose looks differ does not count, and is repeated.

mod judge;
mod native;
mod predict;
mod programs;
mod show;

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, anyhow};
use pagewalk_calibrate::{Cpuid, Glance, Host, Prober, calibrated_file, recalibrated};
use pagewalk_sim::spec::{self, MachineSpec};

use crate::args::{FormatArgument, ValidateArguments};
use crate::calibrate::measured;
use crate::ending::{self, Early, Interrupted};
use crate::exit::Done;
use crate::list::HERE;
use crate::run::print;
use crate::say::{Steps, note};
use judge::{Class, error};
use native::Native;
use predict::{INGREDIENTS, Predicted, machines, predict};
use programs::{Entry, Folder, Runnable, chosen};
use show::{Gain, LeftOut, Row, Times, Validation};

/// The largest movement of the usable third cache between two looks with which a run counts.
const MOVED: f64 = 0.25;
/// The least share of a core's additions per cycle, at both looks, with which a run counts: with less, another thread has a part of it.
const OWN: f64 = 0.8;
/// How often a run that does not count is repeated.
const TRIES: usize = 4;
/// The rounds of the calibration that comes first, without `--machine`.
const ROUNDS: usize = 10;
/// The memory of that calibration.
const MEMORY: u64 = 1 << 30;
/// The size of a page that a minor fault brings.
const PAGE_BYTES: f64 = 4096.0;

/// Runs the command `validate`.
pub(crate) fn validate(arguments: &ValidateArguments) -> anyhow::Result<Done> {
    if arguments.list {
        print(&list())?;
        return Ok(Done::Well);
    }
    let entries = chosen(&arguments.programs)?;
    ending::watch()?;
    let host = Host::read(Path::new("/"), &Cpuid::read())?;
    let machine = machine(arguments, &host)?;
    let prober = (!arguments.fixed).then(|| Prober::new(&host)).transpose();
    let prober = prober.context("cannot get memory to look at the third cache")?;
    let folder = Folder::new()?;
    let mut left_out = Vec::new();
    let programs = match arguments.command.split_first() {
        Some((program, rest)) => vec![Runnable::of_user(program, rest)],
        None => runnable(&folder, &entries, &mut left_out),
    };
    let mut judge = Judge { prober, machine, arguments };
    let rows = judge.rows(&programs, &mut left_out);
    let early = Early::asked(ending::stop(), None);
    if rows.is_empty() {
        return Err(nothing(early, &left_out));
    }
    let result = Validation::new(judge.machine.name, rows, left_out, early.is_some());
    print(&match arguments.format {
        FormatArgument::Json => result.to_json(),
        FormatArgument::Table => result.to_table(),
    })?;
    Ok(early.map_or(Done::Well, |early| {
        early.tell(format_args!("this result"));
        early.done()
    }))
}

/// Returns the programs that can be started; the others are left out.
fn runnable(folder: &Folder, entries: &[&Entry], left_out: &mut Vec<LeftOut>) -> Vec<Runnable> {
    let each = |entry: &&Entry| match entry.missing() {
        Some(why) => Err(LeftOut { program: entry.name.to_owned(), reason: why }),
        None => folder.runnable(entry).map_err(|error| left(entry.name, &error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        match each(entry) {
            Ok(program) => found.push(program),
            Err(left) => left_out.push(left),
        }
    }
    found
}

/// Returns why there is no result.
fn nothing(early: Option<Early>, left_out: &[LeftOut]) -> anyhow::Error {
    match (early, left_out.first()) {
        (Some(early), _) => anyhow::Error::new(Interrupted(early)).context("there is no result yet"),
        (None, Some(LeftOut { program, reason })) => {
            anyhow!("no program could be judged; {program}: {reason}")
        }
        (None, None) => anyhow!("there is no program to judge by"),
    }
}

fn left(program: &str, error: &anyhow::Error) -> LeftOut {
    LeftOut { program: program.to_owned(), reason: format!("{error:#}") }
}

/// Returns the programs that there are, and those that cannot be had here.
fn list() -> String {
    let mut text = String::new();
    for entry in programs::PROGRAMS {
        let missing = entry.missing().map(|why| format!("  (skipped: {why})")).unwrap_or_default();
        let _ = writeln!(text, "{:<14} {}{missing}", entry.name, entry.shown());
    }
    text
}

/// A machine file.
struct Machine {
    name: String,
    /// The complete text, as `pagewalk machines show` prints it.
    text: String,
    /// The additions that a core makes in a cycle, if it executes instructions.
    integer_units: Option<u32>,
}

impl Machine {
    fn new(text: String) -> anyhow::Result<Self> {
        let spec = spec::parse(&text, "the machine file")?;
        let integer_units = spec.core.dataflow.map(|core| core.integer_units);
        Ok(Self { name: spec.name, text, integer_units })
    }
}

/// Returns the machine that is judged: the one that is named, or this computer after a short calibration.
fn machine(arguments: &ValidateArguments, host: &Host) -> anyhow::Result<Machine> {
    if let Some(machine) = &arguments.machine {
        return Machine::new(spec::show(machine)?);
    }
    note!("measuring this computer; --machine FILE takes a file of `pagewalk calibrate` instead");
    let measured = measured(host, ROUNDS, MEMORY)?;
    ending::go_on()?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let file = folder.path().join("here.toml");
    std::fs::write(&file, calibrated_file(host, HERE, &measured)).context("cannot write the machine file")?;
    Machine::new(spec::show(file)?)
}

/// What judges a machine by programs.
struct Judge<'a> {
    /// Without it, the machine is taken as it is, and every run counts.
    prober: Option<Prober>,
    machine: Machine,
    arguments: &'a ValidateArguments,
}

impl Judge<'_> {
    /// Runs programs, until the command is to end; those that fail are left out.
    fn rows(&mut self, programs: &[Runnable], left_out: &mut Vec<LeftOut>) -> Vec<Row> {
        let (steps, mut rows) = (Steps::new(), Vec::new());
        for (program, number) in programs.iter().zip(1..) {
            steps.show(format_args!("{number} of {}: {}", programs.len(), program.name));
            match self.row(program) {
                Ok(row) => rows.push(row),
                Err(_) if ending::stop().requested().is_some() => break,
                Err(error) => left_out.push(left(&program.name, &error)),
            }
        }
        rows
    }

    /// Runs a program here and on the machine.
    fn row(&mut self, program: &Runnable) -> anyhow::Result<Row> {
        let (native, looks) = self.native(program)?;
        let moved = looks.map_or(0.0, |(before, after)| before.third_cache_moved(&after));
        let moved =
            (moved > MOVED).then(|| format!("the usable third cache moved by {:.0} %", 100.0 * moved));
        let (spec, strange) = self.spec(looks.map(|(before, after)| before.middle(&after)))?;
        let void = moved.or(strange);
        let machines = machines(&spec, self.arguments.ablate);
        let mut predictions = predict(program, &machines)?;
        let whole = predictions[0];
        let huge_pages =
            self.arguments.huge_pages.then(|| self.gain(program, &spec, &native, &whole)).transpose()?;
        let mut measured_ns = native.cpu_ns;
        if program.is_micro
            && let Some(idle) = program.idle()
        {
            // What is to be seen is the work alone.
            measured_ns -= native::least(&idle, self.arguments.runs as usize)?.cpu_ns;
            let without = predict(&idle, &machines)?;
            predictions.iter_mut().zip(without).for_each(|(all, idle)| all.cpu_ns -= idle.cpu_ns);
        }
        let errors = predictions[1..].iter().map(|predicted| error(predicted.cpu_ns, measured_ns));
        let class = match program.is_micro {
            true => Class::Micro,
            false => Class::of(whole.memory_share, native.minor_faults as f64 * PAGE_BYTES),
        };
        Ok(Row {
            program: program.name.clone(),
            class,
            is_held_out: program.is_held_out,
            measured_ns,
            predicted_ns: predictions[0].cpu_ns,
            error: error(predictions[0].cpu_ns, measured_ns),
            measured_faults: native.minor_faults,
            predicted_faults: whole.minor_faults,
            void,
            huge_pages,
            without: INGREDIENTS.iter().map(|ingredient| ingredient.name).zip(errors).collect(),
        })
    }

    /// Returns what huge pages save of a program's time, here and on the machine; and of its work alone, without its first touches, if it
    /// can do without the work.
    fn gain(
        &self,
        program: &Runnable,
        spec: &MachineSpec,
        native: &Native,
        predicted: &Predicted,
    ) -> anyhow::Result<Gain> {
        let runs = self.arguments.runs as usize;
        let here = |program: &Runnable| anyhow::Ok(native::least(program, runs)?.cpu_ns);
        let there = |program: &Runnable| anyhow::Ok(predict(program, std::slice::from_ref(spec))?[0].cpu_ns);
        let huge = program.with_huge_pages();
        let [small, large] = [
            Times { measured: native.cpu_ns, predicted: predicted.cpu_ns },
            Times { measured: here(&huge)?, predicted: there(&huge)? },
        ];
        let idle = program.idle().zip(huge.idle());
        let steady = idle.map(|(idle, idle_huge)| {
            let idle = Times { measured: here(&idle)?, predicted: there(&idle)? };
            let idle_huge = Times { measured: here(&idle_huge)?, predicted: there(&idle_huge)? };
            anyhow::Ok(saved(&small.less(&idle), &large.less(&idle_huge)))
        });
        Ok(Gain { whole: saved(&small, &large), steady: steady.transpose()? })
    }

    /// Returns the least time of several runs, and the looks before and after them: the first try that counts, or the last one.
    fn native(&mut self, program: &Runnable) -> anyhow::Result<(Native, Option<(Glance, Glance)>)> {
        let runs = self.arguments.runs as usize;
        let Some(mut before) = self.look() else { return Ok((native::least(program, runs)?, None)) };
        let mut tries = 0;
        loop {
            let native = native::least(program, runs)?;
            let Some(after) = self.look() else { return Ok((native, None)) };
            tries += 1;
            let looks = (before, after);
            if tries == TRIES || self.disturbed(&looks).is_none() {
                return Ok((native, Some(looks)));
            }
            before = after;
        }
    }

    fn look(&mut self) -> Option<Glance> {
        self.prober.as_mut().map(Prober::probe)
    }

    /// Returns why a run between two looks does not count, if it does not.
    fn disturbed(&self, (before, after): &(Glance, Glance)) -> Option<String> {
        let moved = before.third_cache_moved(after);
        if moved > MOVED {
            return Some(format!("the usable third cache moved by {:.0} %", 100.0 * moved));
        }
        let own = before.additions.min(after.additions) / f64::from(self.machine.integer_units?);
        (own < OWN).then(|| {
            format!("another thread had a part of the core, which made {:.0} % of its additions", 100.0 * own)
        })
    }

    /// Returns the machine, with what a look has shown in place of its own. A look at a host that stood still meanwhile may show what no
    /// machine has: then the machine comes as it is, with what is wrong.
    fn spec(&self, look: Option<Glance>) -> anyhow::Result<(MachineSpec, Option<String>)> {
        let Machine { name, text, .. } = &self.machine;
        let unchanged = || spec::parse(text, name);
        Ok(match look.map(|look| recalibrated(text, &look)).transpose()? {
            None => (unchanged()?, None),
            Some(now) => match spec::parse(&now, name) {
                Ok(spec) => (spec, None),
                Err(_) => (unchanged()?, Some("the host moved too much to be measured".to_owned())),
            },
        })
    }
}

/// Returns the share of times that others save.
fn saved(all: &Times, others: &Times) -> Times {
    Times {
        measured: 1.0 - others.measured / all.measured,
        predicted: 1.0 - others.predicted / all.predicted,
    }
}
