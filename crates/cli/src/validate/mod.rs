//! `pagewalk validate`: predicted time against the stopwatch.
//!
//! Each program runs on this computer between two short looks at its clock, its third cache, DRAM and page faults, and then on the simulated machine,
//! with what the looks have shown in place of the machine's own. A run whose looks show a host that was not quiet does not count, and is
//! repeated.

mod forms;
mod judge;
mod native;
mod predict;
mod programs;
mod quiet;

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, anyhow};
use pagewalk_calibrate::{Cpuid, Glance, Host, calibrated_file, recalibrated};
use pagewalk_report::{Class, LeftOut, Validation, ValidationRow, validation_page};
use pagewalk_sim::spec::{self, MachineSpec};

use crate::args::{FormatArgument, ValidateArguments};
use crate::calibrate::measured;
use crate::ending::{self, Early, Interrupted};
use crate::exit::Done;
use crate::list::HERE;
use crate::outputs::Files;
use crate::run::{deliver, prepare_folder, print};
use crate::say::{Steps, note};
use forms::{Both, Forms, Saved};
use judge::{class_of, error, error_of_band, is_of_third_cache};
use native::Native;
use predict::{INGREDIENTS, machines, predict};
use programs::{Entry, Folder, Runnable, chosen};
use quiet::{Best, Known, Watch, best};

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
    Files::default().reads(&arguments.machine).writes_report(arguments.out.as_deref())?;
    if let Some(folder) = &arguments.out {
        prepare_folder(folder)?;
    }
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
    let is_table = matches!(arguments.format, FormatArgument::Table);
    let mut judge = Judge { watch, machine, arguments };
    // All programs take more than an hour: each is shown as soon as it has run.
    let mut heading = Validation::heading(&judge.machine.name);
    let rows = judge.rows(&programs, &mut left_out, |row| match is_table {
        true => print(&(std::mem::take(&mut heading) + &row.line())),
        false => Ok(()),
    })?;
    let early = Early::asked(ending::stop(), None);
    if rows.is_empty() {
        return Err(nothing(early, &left_out));
    }
    let result = Validation::new(judge.machine.name, rows, left_out, early.is_some());
    let text = if is_table { result.conclusion() } else { result.to_json() };
    deliver(arguments.out.as_deref(), &text, || (result.to_json(), validation_page(&result)))?;
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
    /// Runs programs and hands on the row of each, until the command is to end; those that fail are left out.
    fn rows(
        &mut self,
        programs: &[Runnable],
        left_out: &mut Vec<LeftOut>,
        mut each: impl FnMut(&ValidationRow) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<ValidationRow>> {
        let (steps, mut rows) = (Steps::new(), Vec::new());
        for (program, number) in programs.iter().zip(1..) {
            steps.show(format_args!("{number} of {}: {}", programs.len(), program.name));
            match self.row(program) {
                Ok(row) => {
                    steps.clear();
                    each(&row)?;
                    rows.push(row);
                }
                Err(_) if ending::stop().requested().is_some() => break,
                Err(error) => left_out.push(left(&program.name, &error)),
            }
        }
        steps.clear();
        Ok(rows)
    }

    /// Judges the machine by a program.
    fn row(&mut self, program: &Runnable) -> anyhow::Result<ValidationRow> {
        let Found { forms, saved, band, void } =
            self.found(&Forms::of(program, self.arguments.huge_pages))?;
        let whole = &forms.whole;
        let class = match program.is_micro {
            true => Class::Micro,
            false => class_of(whole.predicted[0].memory_share, footprint_bytes(&whole.native)),
        };
        let Both { native, predicted } = forms.judged(program.is_micro);
        let errors = predicted[1..].iter().map(|predicted| error(predicted.cpu_ns, native.cpu_ns));
        let band_ns = band.filter(|_| class == Class::ThirdCache);
        let error_here = match band_ns {
            Some(band) => error_of_band(band, native.cpu_ns),
            None => error(predicted[0].cpu_ns, native.cpu_ns),
        };
        Ok(ValidationRow {
            program: program.name.clone(),
            class,
            is_held_out: program.is_held_out,
            measured_ns: native.cpu_ns,
            predicted_ns: predicted[0].cpu_ns,
            band_ns,
            error: error_here,
            measured_faults: whole.native.minor_faults,
            predicted_faults: whole.predicted[0].minor_faults,
            void,
            huge_pages: forms.gain(saved),
            without: INGREDIENTS.iter().map(|ingredient| ingredient.name).zip(errors).collect(),
        })
    }

    /// Runs a program's forms here and on the machine, as it was meanwhile; and on the machine without each ingredient, if that is wanted.
    fn found(&mut self, programs: &Forms<Runnable>) -> anyhow::Result<Found> {
        let Best { natives, saved, look, void } = best(self.watch.as_mut(), programs, self.arguments.runs)?;
        let (spec, strange) = self.spec(look)?;
        let specs = machines(&spec, self.arguments.ablate);
        let mut ends = Vec::new();
        if let Some(look) = look.filter(|_| strange.is_none())
            && is_of_third_cache(footprint_bytes(&natives.whole))
        {
            // The look in the middle is the machine itself.
            for third_cache_bytes in look.third_cache_range {
                ends.push(self.spec(Some(Glance { third_cache_bytes, ..look }))?.0);
            }
        }
        let (mut natives, mut band) = (natives.iter(), None);
        let forms = programs.try_map(|program| {
            let native = *natives.next().context("each form has run")?;
            // The whole program comes first, and the band is that of its time.
            let all = [specs.as_slice(), &std::mem::take(&mut ends)].concat();
            let mut predicted = predict(program, &all)?;
            let at_ends = predicted.split_off(specs.len());
            if !at_ends.is_empty() {
                let times = at_ends.iter().chain(&predicted[..1]).map(|predicted| predicted.cpu_ns);
                band =
                    Some(times.fold([f64::INFINITY, 0.0], |[least, most]: [f64; 2], ns| {
                        [least.min(ns), most.max(ns)]
                    }));
            }
            Ok(Both { native, predicted })
        })?;
        Ok(Found { forms, saved, band, void: void.or(strange) })
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

/// A program's forms here and on the machine.
struct Found {
    forms: Forms<Both>,
    /// What huge pages save here, if that is asked for.
    saved: Option<Saved>,
    /// Where the third cache decides, the shortest and the longest time of the whole program, in nanoseconds, on the machine with as much of
    /// it as the looks showed.
    band: Option<[f64; 2]>,
    /// Why it does not count, if it does not.
    void: Option<String>,
}

/// Returns the bytes that a program touches.
fn footprint_bytes(native: &Native) -> f64 {
    native.minor_faults as f64 * PAGE_BYTES
}
