//! `pagewalk run`: a source and some machines go in, a comparison comes out.

use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, bail};
use pagewalk_capture::{Frontend, Program};
use pagewalk_report::{
    Document, MachineNote, Manifest, RunProgress, SourceNote, Style, comparison, write_atomically,
};
use pagewalk_sim::machine::{Detail, build};
use pagewalk_sim::run::{RunOptions, RunOutcome, run as run_machines};
use pagewalk_sim::spec::{self, MachineSpec};
use pagewalk_trace::{Remarks, Source, SourceInfo, TraceSource};

use crate::args::{
    DetailArgument, FormatArgument, FrontendArgument, HowArguments, RunArguments, SourceArguments,
};
use crate::exit::Done;
use crate::trace;

/// Where the events of a command come from.
pub(crate) enum Input {
    /// A built-in workload.
    Source(Box<dyn Source>),
    /// A trace.
    Trace(Box<dyn TraceSource>),
    /// A live program.
    Program(Box<Program>),
}

impl Input {
    /// What the arguments ask for, checked as far as possible without running it. `keep_stdout` sends what a
    /// program prints to standard error.
    pub(crate) fn open(
        arguments: &SourceArguments,
        how: &HowArguments,
        seed: u64,
        keep_stdout: bool,
    ) -> anyhow::Result<Self> {
        if how.read.kernel && arguments.trace.is_none() {
            bail!("--kernel is about what a trace has of the kernel, and there is no --trace");
        }
        if let Some(spec) = &arguments.workload {
            return Ok(Self::Source(pagewalk_workload::parse(spec, seed)?));
        }
        if let Some(path) = &arguments.trace {
            return Ok(Self::Trace(pagewalk_trace::open(path, how.read.options())?));
        }
        let Some((program, rest)) = arguments.program.split_first() else {
            bail!("nothing to run: name a --workload, a --trace, or a program after `--`");
        };
        let frontend = match how.frontend {
            FrontendArgument::Valgrind => Frontend::Valgrind,
            FrontendArgument::Callout => Frontend::Callout,
            FrontendArgument::Qemu => Frontend::Qemu,
        };
        let program = Program::new(program, rest).frontend(frontend).stdout_to_stderr(keep_stdout);
        program.check()?;
        Ok(Self::Program(Box::new(program)))
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Source(source) => &mut **source,
            Self::Trace(trace) => &mut **trace,
            Self::Program(program) => &mut **program,
        }
    }

    /// Once the source has run: what was left out of a trace or assumed; none of what is no trace.
    pub(crate) fn remarks(&self) -> Option<Remarks> {
        if let Self::Trace(trace) = self { Some(trace.remarks()) } else { None }
    }

    /// Once the source has run: how its program ended.
    ///
    /// # Errors
    ///
    /// It was killed by a signal, so what was observed is not a whole run.
    pub(crate) fn ended(&self) -> anyhow::Result<Done> {
        let Self::Program(program) = self else { return Ok(Done::Well) };
        let Some(outcome) = program.outcome() else { return Ok(Done::Well) };
        if outcome.stopped {
            return Ok(Done::Well);
        }
        if let Some(signal) = outcome.killed_by() {
            bail!(
                "{} was killed by signal {signal}{} after {} accesses: nothing was written\n  = help: run it \
                 without pagewalk to see whether it also dies there; --limit compares up to a number of accesses",
                program.info().name,
                signal_name(signal),
                outcome.accesses,
            );
        }
        Ok(match outcome.status.code() {
            None | Some(0) => Done::Well,
            Some(status) => Done::Program(status as u8),
        })
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<Done> {
    let json = arguments.format == FormatArgument::Json;
    let specs = spec::load_all(&arguments.machines)?;
    if let Some(folder) = &arguments.out {
        prepare_folder(folder)?;
    }
    let mut input = Input::open(&arguments.source, &arguments.how, arguments.seed, json)?;
    let info = input.source().info();
    let outcome = compare(arguments, &specs, input.source(), &info)?;
    let done = input.ended()?;
    let remarks = input.remarks();
    let manifest = manifest(arguments, &specs, &info, &outcome, remarks.clone())?;
    let document = Document::new(outcome.results.clone(), Some(manifest));
    if let Some(folder) = &arguments.out {
        write_folder(folder, &document.to_json(), &pagewalk_report::page(&document))?;
    }
    if json {
        print(&document.to_json())?;
    } else {
        print(&comparison(&document.runs, style()))?;
        print(&reach_table(&document))?;
        let remarks = trace::remarks(&remarks.unwrap_or_default());
        if !remarks.is_empty() {
            print(&format!("\nof the trace\n{remarks}"))?;
        }
        if let Some(folder) = &arguments.out {
            eprintln!("wrote {}", folder.join("report.html").display());
        }
    }
    Ok(done)
}

/// How standard output wants its tables.
pub(crate) fn style() -> Style {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Style { columns: columns.unwrap_or(Style::default().columns), colour }
}

fn compare(
    arguments: &RunArguments,
    specs: &[MachineSpec],
    source: &mut dyn Source,
    info: &SourceInfo,
) -> anyhow::Result<RunOutcome> {
    let machines = specs
        .iter()
        .map(|spec| build(spec, detail(arguments.detail), arguments.seed, info))
        .collect::<Result<Vec<_>, _>>()?;
    let options = RunOptions {
        threads: threads(arguments.threads),
        begin: arguments.begin.clone(),
        limit: arguments.limit,
        reach: arguments.reach,
    };
    let mut progress = RunProgress::new(info, arguments.limit);
    Ok(run_machines(source, machines, options, &mut progress)?)
}

fn detail(argument: DetailArgument) -> Detail {
    match argument {
        DetailArgument::Counts => Detail::Counts,
        DetailArgument::Timed => Detail::Timed,
    }
}

/// The worker threads to use: all processors, if not told.
pub(crate) fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

/// Fails now, and not after an hour, if results cannot be written.
pub(crate) fn prepare_folder(folder: &Path) -> anyhow::Result<()> {
    let what = || format!("cannot write to the output folder {}", folder.display());
    std::fs::create_dir_all(folder).with_context(what)?;
    let probe = folder.join(".pagewalk-probe");
    std::fs::write(&probe, b"").with_context(what)?;
    std::fs::remove_file(&probe).with_context(what)
}

/// The results and their report.
pub(crate) fn write_folder(folder: &Path, results: &str, report: &str) -> anyhow::Result<()> {
    write_atomically(&folder.join("results.json"), results.as_bytes())?;
    write_atomically(&folder.join("report.html"), report.as_bytes())?;
    Ok(())
}

fn manifest(
    arguments: &RunArguments,
    specs: &[MachineSpec],
    info: &SourceInfo,
    outcome: &RunOutcome,
    trace: Option<Remarks>,
) -> anyhow::Result<Manifest> {
    let machines = specs
        .iter()
        .zip(&arguments.machines)
        .map(|(spec, name)| {
            Ok(MachineNote {
                name: spec.name.clone(),
                description: spec.description.clone(),
                resolved: Some(spec::show(name)?),
            })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Manifest {
        pagewalk: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(std::env::args().skip(1)),
        detail: format!("{:?}", detail(arguments.detail)).to_lowercase(),
        seed: arguments.seed,
        limit: arguments.limit,
        limited: outcome.limited,
        source: SourceNote { trace, ..info.into() },
        machines,
    })
}

/// The miss curve, if it was measured.
fn reach_table(document: &Document) -> String {
    let rows = document.runs.first().map_or(&[][..], |run| &run.metrics);
    let rates = rows.iter().filter(|row| row.stage == "reach" && row.unit == "fraction");
    let lines: Vec<String> = rates
        .map(|row| {
            let entries = row.metric.trim_start_matches("misses.");
            let rate = row.value.map_or("-".to_owned(), |rate| format!("{:.4} %", 100.0 * rate.as_f64()));
            format!("  {entries:>6} entries {rate:>12}\n")
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\nmisses of 8-way TLBs by size, share of all accesses\n{}", lines.concat())
}

/// The command line without what cannot change a number.
fn command(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const NEUTRAL: [&str; 3] = ["--out", "--format", "--threads"];
    let mut kept = vec!["pagewalk".to_owned()];
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            kept.push(argument);
            kept.extend(arguments);
            break;
        }
        match NEUTRAL.iter().find(|&&neutral| argument.starts_with(neutral)) {
            Some(&neutral) if argument == neutral => drop(arguments.next()),
            Some(_) if argument.contains('=') => {}
            _ => kept.push(argument),
        }
    }
    kept
}

/// Prints to standard output; a closed pipe is an error, not a panic.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_leaves_out_what_cannot_change_a_number() {
        let words = "run --machine a --out x --format=json --threads 2 --limit 5 -- sort --out y";
        let kept = command(words.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(kept, "pagewalk run --machine a --limit 5 -- sort --out y");
    }
}
