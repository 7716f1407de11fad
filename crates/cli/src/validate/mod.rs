//! `pagewalk validate`: predicted time against the stopwatch.
//!
//! Each program runs on this computer between two short looks at its clock, its third cache and DRAM, and then on the simulated machine,
//! with what the looks have shown in place of the machine's own. A run whose looks show a host that was not quiet does not count, and is
//! repeated.

mod judge;
mod native;
mod predict;
mod programs;
mod quiet;
mod show;

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, anyhow};
use pagewalk_calibrate::{Cpuid, Glance, Host, calibrated_file, recalibrated};
use pagewalk_sim::spec::{self, MachineSpec};

use crate::args::{FormatArgument, ValidateArguments};
use crate::calibrate::measured;
use crate::ending::{self, Early, Interrupted};
use crate::exit::Done;
use crate::list::HERE;
use crate::run::print;
use crate::say::{Steps, note};
use judge::{Class, error, error_of_band, is_of_third_cache};
use native::Native;
use predict::{INGREDIENTS, Predicted, machines, predict};
use programs::{Entry, Folder, Runnable, chosen};
use quiet::{Best, Known, Watch, best};
use show::{Gain, LeftOut, Row, Times, Validation};

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
    let watch = (!arguments.fixed).then(|| Watch::new(&host, &machine.core)).transpose()?;
    let folder = Folder::new()?;
    let mut left_out = Vec::new();
    let programs = match arguments.command.split_first() {
        Some((program, rest)) => vec![Runnable::of_user(program, rest)],
        None => runnable(&folder, &entries, &mut left_out),
    };
    let mut judge = Judge { watch, machine, arguments };
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
    core: Known,
}

impl Machine {
    fn new(text: String) -> anyhow::Result<Self> {
        let spec = spec::parse(&text, "the machine file")?;
        let core = Known {
            integer_units: spec.core.dataflow.map(|core| core.integer_units),
            third_cache_ns: spec.hierarchy.caches.get(2).map(|cache| cache.latency_ps as f64 / 1e3),
        };
        Ok(Self { name: spec.name, text, core })
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
    watch: Option<Watch>,
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

    /// Judges the machine by a program.
    fn row(&mut self, program: &Runnable) -> anyhow::Result<Row> {
        let ablate = self.arguments.ablate;
        let mut both = self.both(program, ablate)?;
        let huge_pages = self.arguments.huge_pages.then(|| self.gain(program, &both)).transpose()?;
        let (faults, whole) = (both.native.minor_faults, both.predicted[0]);
        if program.is_micro
            && let Some(idle) = program.idle()
        {
            // What is to be seen is the work alone.
            both = both.less(&self.both(&idle, ablate)?);
        }
        let Both { native, predicted, band, void } = both;
        let errors = predicted[1..].iter().map(|predicted| error(predicted.cpu_ns, native.cpu_ns));
        let class = match program.is_micro {
            true => Class::Micro,
            false => Class::of(whole.memory_share, faults as f64 * PAGE_BYTES),
        };
        let band_ns = band.filter(|_| class == Class::ThirdCache);
        let error_here = match band_ns {
            Some(band) => error_of_band(band, native.cpu_ns),
            None => error(predicted[0].cpu_ns, native.cpu_ns),
        };
        Ok(Row {
            program: program.name.clone(),
            class,
            is_held_out: program.is_held_out,
            measured_ns: native.cpu_ns,
            predicted_ns: predicted[0].cpu_ns,
            band_ns,
            error: error_here,
            measured_faults: faults,
            predicted_faults: whole.minor_faults,
            void,
            huge_pages,
            without: INGREDIENTS.iter().map(|ingredient| ingredient.name).zip(errors).collect(),
        })
    }

    /// Runs a program here and on the machine, as it was meanwhile; and on the machine without each ingredient, if that is wanted.
    fn both(&mut self, program: &Runnable, ablate: bool) -> anyhow::Result<Both> {
        let Best { native, look, void } = best(self.watch.as_mut(), program, self.arguments.runs)?;
        let (spec, strange) = self.spec(look)?;
        let mut specs = machines(&spec, ablate);
        let wants_band = is_of_third_cache(native.minor_faults as f64 * PAGE_BYTES);
        let wanted = specs.len();
        if let Some(look) = look.filter(|_| wants_band && strange.is_none()) {
            // The look in the middle is the machine itself.
            for third_cache_bytes in look.third_cache_range {
                specs.push(self.spec(Some(Glance { third_cache_bytes, ..look }))?.0);
            }
        }
        let mut predicted = predict(program, &specs)?;
        let ends = predicted.split_off(wanted);
        let band = (!ends.is_empty()).then(|| {
            let times = ends.iter().chain(&predicted[..1]).map(|predicted| predicted.cpu_ns);
            times.fold([f64::INFINITY, 0.0], |[least, most]: [f64; 2], ns| [least.min(ns), most.max(ns)])
        });
        Ok(Both { native, predicted, band, void: void.or(strange) })
    }

    /// Returns what huge pages save of a program's time, here and on the machine; and of its work alone, without its first touches, if it
    /// can do without the work.
    fn gain(&mut self, program: &Runnable, small: &Both) -> anyhow::Result<Gain> {
        let huge = program.with_huge_pages();
        let large = self.both(&huge, false)?;
        let whole = saved(&small.times(), &large.times());
        let mut void = small.void.clone().or(large.void.clone());
        let mut steady = None;
        if let Some((idle, idle_huge)) = program.idle().zip(huge.idle()) {
            let (idle, idle_huge) = (self.both(&idle, false)?, self.both(&idle_huge, false)?);
            let (small, large) = (small.less(&idle), large.less(&idle_huge));
            steady = Some(saved(&small.times(), &large.times()));
            void = small.void.or(large.void);
        }
        Ok(Gain { whole, steady, void })
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

/// A program, or a part of it, here and on the machine.
struct Both {
    native: Native,
    /// On the machine, and then without each ingredient.
    predicted: Vec<Predicted>,
    /// Where the third cache decides, the shortest and the longest time on the machine with as much of it as the looks showed.
    band: Option<[f64; 2]>,
    /// Why it does not count, if it does not.
    void: Option<String>,
}

impl Both {
    /// Returns the part without that of another run.
    fn less(&self, other: &Self) -> Self {
        let without =
            |(all, other): (&Predicted, &Predicted)| Predicted { cpu_ns: all.cpu_ns - other.cpu_ns, ..*all };
        Self {
            native: Native { cpu_ns: self.native.cpu_ns - other.native.cpu_ns, ..self.native },
            predicted: self.predicted.iter().zip(&other.predicted).map(without).collect(),
            band: None,
            void: self.void.clone().or(other.void.clone()),
        }
    }

    /// Returns the times on this computer and on the complete machine.
    fn times(&self) -> Times {
        Times { measured: self.native.cpu_ns, predicted: self.predicted[0].cpu_ns }
    }
}

/// Returns the share of times that others save.
fn saved(all: &Times, others: &Times) -> Times {
    Times {
        measured: 1.0 - others.measured / all.measured,
        predicted: 1.0 - others.predicted / all.predicted,
    }
}
