//! `pagewalk run`: a source and some machines go in, a comparison comes out.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use pagewalk_capture::{Frontend, Outcome, Program, Unobserved};
use pagewalk_report::{
    Document, FailureNote, FramesNote, MachineNote, Manifest, PartNote, RunProgress, SourceNote, Style,
    UnobservedNote, comparison, partial_heading, visible, write_atomically,
};
use pagewalk_sim::machine::{Detail, MachineError, build};
use pagewalk_sim::metrics::Name;
use pagewalk_sim::metrics::names::{frames, reach};
use pagewalk_sim::run::{Length, RunError, RunOptions, RunOutcome, run as run_machines};
use pagewalk_sim::spec::{self, MachineSpec};
use pagewalk_trace::{
    Batch, Partial, Remarks, Sink, Source, SourceError, SourceInfo, Stop, Stoppable, TraceSource, Unfinished,
};
use pagewalk_workload::Workload;

use crate::args::{
    DetailArgument, FormatArgument, FramesArgument, FrontendArgument, HowArguments, RunArguments,
    SourceArguments,
};
use crate::ending::{self, Early, Interrupted};
use crate::exit::Done;
use crate::outputs::{Files, REPORT, RESULTS};
use crate::say::{self, complain, note};
use crate::trace;

/// The source of a command's events, until the command is asked to end.
pub(crate) struct Input {
    events: Events,
    stop: Stop,
    limit: Option<Duration>,
    /// Whether the events of a trace come through a pipe.
    is_piped: bool,
    /// Whether a request to end cut the events of a workload or a trace off.
    is_cut: bool,
    /// The error by which a program could not be observed any further, or a trace be read.
    failure: Option<SourceError>,
}

enum Events {
    /// The source is a built-in workload.
    Workload(Box<Workload>),
    /// The source is a recorded trace.
    Trace(Box<dyn TraceSource>),
    /// The source is a live program.
    Program(Box<Program>),
}

impl Input {
    /// Opens what the arguments ask for, checked as far as possible without running it. `keep_stdout` sends what a program prints
    /// to standard error.
    pub(crate) fn open(
        arguments: &SourceArguments,
        how: &HowArguments,
        seed: u64,
        keep_stdout: bool,
        limit: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let stop = ending::watch()?;
        let events = Events::open(arguments, how, seed, keep_stdout, stop)?;
        let is_file = |path: &PathBuf| path.is_file() || path.is_dir();
        let is_piped = arguments.trace.as_ref().is_some_and(|path| !is_file(path));
        Ok(Self { events, stop: stop.clone(), limit, is_piped, is_cut: false, failure: None })
    }

    /// Lets the source say which blocks of instructions it executes, if it can.
    #[must_use]
    pub(crate) fn with_blocks(mut self) -> Self {
        self.events = match self.events {
            Events::Program(program) => Events::Program(Box::new(program.blocks(true))),
            Events::Workload(workload) => Events::Workload(Box::new(workload.blocks(true))),
            events @ Events::Trace(_) => events,
        };
        self
    }

    /// Spares a trace of another tool the blocks of instructions, of which a run makes no use.
    fn make_no_blocks(&mut self) {
        if let Events::Trace(trace) = &mut self.events {
            trace.make_no_blocks();
        }
    }

    /// Returns whether a program runs beside this command, and perhaps on its terminal: the observed one, or the one at the other
    /// end of a pipe.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.events, Events::Program(_)) || self.is_piped
    }

    /// Returns why the source, which has run, did not run to its end, if it did not. A program that ends in good order after it has
    /// received a signal has run to its end.
    pub(crate) fn early(&self) -> Option<Early> {
        let asked = Early::asked(&self.stop, self.limit);
        let Events::Program(program) = &self.events else {
            let damaged = || Some(Early::Damaged(self.failure.as_ref()?.to_string()));
            return asked.filter(|_| self.is_cut).or_else(damaged);
        };
        if let Some(failure) = &self.failure {
            return Some(asked.unwrap_or_else(|| Early::Failed(failure.to_string())));
        }
        let outcome = program.outcome()?;
        let in_good_order = !outcome.stopped && outcome.status.success();
        let advice = outcome.advice();
        let killed = |signal| Early::Killed { program: self.info().name, signal, advice };
        asked.filter(|_| !in_good_order).or_else(|| outcome.killed_by().map(killed))
    }

    /// Returns how a live program ended, once the source has run.
    fn outcome(&self) -> Option<&Outcome> {
        if let Events::Program(program) = &self.events { program.outcome() } else { None }
    }

    /// Returns what was not observed of a live program, once the source has run.
    pub(crate) fn unobserved(&self) -> &[Unobserved] {
        self.outcome().map_or(&[], |outcome| &outcome.unobserved)
    }

    /// Returns why the events of the source, which has run, are of a part of the work only: by its early end, or by the early end
    /// of a recording that was read to its end.
    pub(crate) fn partial(&self, early: Option<&Early>) -> Option<Partial> {
        early.map(Early::partial).or_else(|| match &self.events {
            Events::Trace(trace) => trace.partial().map(trace::recorded),
            _ => None,
        })
    }

    /// Says what the front-end could not do, and which processes were not observed to their end, once the source has run.
    pub(crate) fn tell_gaps(&self) {
        let Some(outcome) = self.outcome() else { return };
        for line in outcome.log.lines() {
            note!("note: {line}");
        }
        let lines = unobserved_lines(&outcome.unobserved);
        if !lines.is_empty() {
            complain!(
                "warning: not everything was observed, of {} processes (the first is 0):\n{}  = help: docs/capture.md, \
                 Processes",
                outcome.processes,
                lines,
            );
        }
    }

    /// Returns what was left out of a trace or assumed, once the source has run; none for a source that is no trace.
    pub(crate) fn remarks(&self) -> Option<Remarks> {
        if let Events::Trace(trace) = &self.events { Some(trace.remarks()) } else { None }
    }

    /// Returns how the command ends once the source has run to its end: with the program's status.
    pub(crate) fn done(&self) -> Done {
        let outcome = self.outcome().filter(|outcome| !outcome.stopped);
        match outcome.and_then(|outcome| outcome.status.code()) {
            None | Some(0) => Done::Well,
            Some(status) => Done::Program(status as u8),
        }
    }

    /// Explains an error of a run that brought nothing: a command that was asked to end needs no other reason.
    pub(crate) fn explain(&self, error: RunError) -> anyhow::Error {
        let is_empty = matches!(
            error,
            RunError::NoAccesses(_) | RunError::NoSuchPhase { .. } | RunError::TooShort { .. }
        );
        match self.early().filter(|_| is_empty) {
            Some(early) => anyhow::Error::new(Interrupted(early)).context("there is no result yet"),
            None => error.into(),
        }
    }
}

impl Events {
    fn open(
        arguments: &SourceArguments,
        how: &HowArguments,
        seed: u64,
        keep_stdout: bool,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        if how.read.kernel && arguments.trace.is_none() {
            bail!("--kernel is about what a trace has of the kernel, and there is no --trace");
        }
        if let Some(spec) = &arguments.workload {
            return Ok(Self::Workload(Box::new(Workload::parse(spec, seed)?)));
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
        let program = program.until(stop).engine_options(&how.engine_option).guarded(true);
        program.check()?;
        Ok(Self::Program(Box::new(program)))
    }
}

impl Source for Input {
    fn info(&self) -> SourceInfo {
        match &self.events {
            Events::Workload(workload) => workload.info(),
            Events::Trace(trace) => trace.info(),
            Events::Program(program) => program.info(),
        }
    }

    /// Runs the source. What came before a program could not be observed any further, or before the damage of a trace, is a result;
    /// see [`Input::early`].
    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let mut accesses = 0;
        let mut sink = |batch: &mut Batch| {
            accesses += batch.accesses.len();
            sink.batch(batch)
        };
        let mut stoppable = |source: &mut dyn Source| {
            let mut source = Stoppable::new(source, &self.stop);
            let ended = source.run(&mut sink);
            self.is_cut = source.is_cut();
            ended
        };
        let ended = match &mut self.events {
            // One that computed a wrong answer has no result.
            Events::Workload(workload) => return stoppable(&mut **workload),
            Events::Trace(trace) => stoppable(&mut **trace),
            Events::Program(program) => program.run(&mut sink),
        };
        if accesses == 0 {
            return ended;
        }
        self.failure = ended.err();
        Ok(())
    }
}

/// Runs the command `run`.
pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<Done> {
    let json = arguments.format == FormatArgument::Json;
    let specs = spec::load_all(&arguments.machines)?;
    let trace = arguments.source.trace.iter().map(PathBuf::from);
    let machines = arguments.machines.iter().map(PathBuf::from).filter(|file| file.is_file());
    Files::default().reads(trace.chain(machines)).writes_report(arguments.out.as_deref())?;
    if let Some(folder) = &arguments.out {
        prepare_folder(folder)?;
    }
    if arguments.frames == FramesArgument::Own && arguments.source.trace.is_none() {
        bail!("--frames is about the frames that a trace gives, and there is no --trace");
    }
    let mut input =
        Input::open(&arguments.source, &arguments.how, arguments.seed, json, arguments.time_limit)?;
    let fetches = arguments.fetch && arguments.detail == DetailArgument::Counts;
    if fetches && specs.iter().all(|spec| spec.translation.fetch.is_none()) {
        bail!("--fetch, and no machine has a table [fetch]: zen3 has one");
    }
    let executes = arguments.detail == DetailArgument::Timed;
    if fetches || executes && specs.iter().any(|spec| spec.core.dataflow.is_some()) {
        input = input.with_blocks();
    } else {
        input.make_no_blocks();
    }
    let mut info = input.info();
    info.gives_frames &= arguments.frames == FramesArgument::Given;
    // What a run of counts makes of blocks has its price.
    info.gives_blocks &= fetches || executes;
    let outcome = compare(arguments, &specs, &mut input, &info);
    let remarks = input.remarks();
    let is_empty = |error: &anyhow::Error| matches!(error.downcast_ref(), Some(RunError::NoAccesses(_)));
    if outcome.as_ref().is_err_and(is_empty) {
        // Perhaps there was something, and all of it was left out.
        say::write(format_args!("{}", trace::remarks(&remarks.clone().unwrap_or_default())));
    }
    let outcome = outcome?;
    input.tell_gaps();
    tell_bounds(arguments, &specs, &info);
    let early = input.early();
    // A limit lies within what a partial recording holds.
    let partial = input.partial(early.as_ref()).filter(|_| early.is_some() || !outcome.limited);
    let heading = partial.as_ref().map(|partial| partial_heading(partial) + "\n\n").unwrap_or_default();
    let unobserved = input.unobserved();
    let source = SourceNote {
        trace: remarks.clone(),
        unobserved: unobserved.iter().map(unobserved_note).collect(),
        ..SourceNote::from(&SourceInfo { gives_blocks: input.info().gives_blocks, ..info })
    };
    let manifest = manifest(arguments, &specs, source, &outcome, partial)?;
    let document = Document::new(outcome.results.clone(), Some(manifest));
    let text = if json {
        document.to_json()
    } else {
        let tables = comparison(&document.runs, style()) + &reach_table(&document) + &frames_table(&document);
        let remarks = trace::remarks(&remarks.unwrap_or_default());
        let of_trace = if remarks.is_empty() { remarks } else { format!("\nof the trace\n{remarks}") };
        let lines = unobserved_lines(unobserved);
        let gaps = if lines.is_empty() { lines } else { format!("\nnot observed\n{lines}") };
        heading + &tables + &of_trace + &gaps
    };
    deliver(arguments.out.as_deref(), &text, || (document.to_json(), pagewalk_report::page(&document)))?;
    for (_, error) in &outcome.failed {
        complain!("error: {error}");
    }
    Ok(match early {
        None if !outcome.failed.is_empty() => Done::InputWrong,
        None => input.done(),
        Some(early) => {
            early.tell(format_args!("this result, of {} accesses,", outcome.accesses));
            early.done()
        }
    })
}

/// Says which times are bounds, because the source does not say which instructions are executed.
fn tell_bounds(arguments: &RunArguments, specs: &[MachineSpec], info: &SourceInfo) {
    if arguments.fetch && !info.gives_blocks {
        note!("note: {} does not say which instructions are executed; none are fetched", info.name);
    }
    let executing = specs.iter().filter(|spec| spec.core.dataflow.is_some());
    let names: Vec<&str> = executing.map(|spec| spec.name.as_str()).collect();
    if arguments.detail == DetailArgument::Timed && !info.gives_blocks && !names.is_empty() {
        note!(
            "note: {} does not say which instructions are executed; accesses of {} wait only for the window, so more overlaps than \
             in truth, and the time is a lower bound",
            info.name,
            names.join(", "),
        );
    }
}

/// Brings a result to standard output and to the folder, if there is one. Neither waits for the other to succeed.
pub(crate) fn deliver(
    folder: Option<&Path>,
    text: &str,
    files: impl FnOnce() -> (String, String),
) -> anyhow::Result<()> {
    let written = folder.map(|folder| {
        let (results, report) = files();
        write_folder(folder, &results, &report)
    });
    let printed = print(text);
    if let Some(folder) = folder
        && written.as_ref().is_some_and(Result::is_ok)
    {
        note!("wrote {}", folder.join(REPORT).display());
    }
    written.transpose()?;
    printed
}

/// Returns how standard output wants its tables.
pub(crate) fn style() -> Style {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let colour = std::io::stdout().is_terminal() && say::colours();
    Style { columns: columns.unwrap_or(Style::default().columns), colour }
}

fn compare(
    arguments: &RunArguments,
    specs: &[MachineSpec],
    input: &mut Input,
    info: &SourceInfo,
) -> anyhow::Result<RunOutcome> {
    let machines = specs
        .iter()
        .map(|spec| build(spec, detail(arguments.detail), arguments.seed, info))
        .collect::<Result<Vec<_>, _>>()?;
    let options = RunOptions {
        threads: threads(arguments.threads),
        begin: arguments.begin.clone(),
        skip: arguments.skip,
        warm_up: arguments.warm_up,
        limit: arguments.limit,
        reach: arguments.reach,
    };
    let mut progress = RunProgress::new(info, arguments.limit, say::progress(input.is_live()));
    ending::limit_time(arguments.time_limit)?;
    run_machines(input, machines, options, &mut progress).map_err(|error| input.explain(error))
}

fn detail(argument: DetailArgument) -> Detail {
    match argument {
        DetailArgument::Counts => Detail::Counts,
        DetailArgument::Timed => Detail::Timed,
    }
}

/// Returns the number of worker threads to use: all processors, if not told.
pub(crate) fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

/// Fails now, and not after an hour, if results cannot be written.
pub(crate) fn prepare_folder(folder: &Path) -> anyhow::Result<()> {
    let what = || format!("cannot write to the output folder {}", folder.display());
    std::fs::create_dir_all(folder).with_context(what)?;
    // A file without a name, which no signal leaves behind.
    Unfinished::create(&folder.join(RESULTS)).map(drop).with_context(what)
}

/// Writes the results and their report.
pub(crate) fn write_folder(folder: &Path, results: &str, report: &str) -> anyhow::Result<()> {
    write_atomically(&folder.join(RESULTS), results.as_bytes())?;
    write_atomically(&folder.join(REPORT), report.as_bytes())?;
    Ok(())
}

fn manifest(
    arguments: &RunArguments,
    specs: &[MachineSpec],
    source: SourceNote,
    outcome: &RunOutcome,
    partial: Option<Partial>,
) -> anyhow::Result<Manifest> {
    let machines = specs
        .iter()
        .zip(&arguments.machines)
        .map(|(spec, name)| {
            Ok(MachineNote {
                name: spec.name.clone(),
                description: spec.description.clone(),
                resolved: Some(spec::show(name)?),
                frames: outcome.given_frames.then(|| frames(arguments, spec)),
            })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Manifest {
        pagewalk: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(std::env::args_os().skip(1).map(as_text)),
        detail: format!("{:?}", detail(arguments.detail)).to_lowercase(),
        seed: arguments.seed,
        limit: arguments.limit,
        limited: outcome.limited,
        begin: arguments.begin.clone(),
        skip: arguments.skip.map(|length| part(length, outcome.skipped)),
        warm_up: arguments.warm_up.map(|length| part(length, outcome.warm_up)),
        partial,
        failed: outcome.failed.iter().map(|(name, error)| failure(name, error)).collect(),
        source,
        machines,
    })
}

fn part(length: Length, accesses: u64) -> PartNote {
    PartNote { length: length.to_string(), accesses }
}

/// The most of what was not observed that is listed for a reader; documents have all of it.
const UNOBSERVED_LINES: usize = 20;

/// Returns what was not observed, a line for each.
fn unobserved_lines(unobserved: &[Unobserved]) -> String {
    let mut text = String::new();
    for each in unobserved.iter().take(UNOBSERVED_LINES) {
        text += &format!("  {}\n", visible(&each.to_string()));
    }
    match unobserved.len().saturating_sub(UNOBSERVED_LINES) {
        0 => text,
        more => text + &format!("  and {more} more\n"),
    }
}

fn unobserved_note(each: &Unobserved) -> UnobservedNote {
    UnobservedNote {
        process: each.process.0,
        program: each.program.clone(),
        reason: each.reason.name().to_owned(),
        text: each.to_string(),
    }
}

fn failure(machine: &str, error: &MachineError) -> FailureNote {
    FailureNote { machine: machine.to_owned(), error: error.to_string() }
}

/// Returns whose frames the pages of a machine had; the source gives some.
fn frames(arguments: &RunArguments, spec: &MachineSpec) -> FramesNote {
    let asked = (arguments.frames == FramesArgument::Own).then_some("--frames own asks for that");
    match asked.or(spec.places_frames()) {
        None => FramesNote::Given,
        Some(because) => FramesNote::Own { because: because.to_owned() },
    }
}

/// Returns whose frames pages had, if the trace gives some, and how many pages.
fn frames_table(document: &Document) -> String {
    let notes = document.manifest.iter().flat_map(|manifest| &manifest.machines);
    let lines: Vec<String> = notes
        .filter_map(|machine| {
            let frames = machine.frames.as_ref()?;
            let run = document.runs.iter().find(|run| run.machine == machine.name);
            let pages = |name: Name| {
                let mut rows = run?.metrics.iter().filter(|row| row.phase.is_none());
                rows.find(|row| name.is_of(row))?.value.map(|value| value.as_f64())
            };
            let counts = pages(frames::GIVEN_PAGES).zip(pages(frames::OWN_PAGES));
            let counts =
                counts.map_or_else(String::new, |(given, own)| format!(" ({given} pages; {own} of its own)"));
            Some(format!("  {}: {frames}{counts}\n", machine.name))
        })
        .collect();
    if lines.is_empty() { String::new() } else { format!("\nframes of pages\n{}", lines.concat()) }
}

/// Returns the miss curve, if it was measured.
fn reach_table(document: &Document) -> String {
    let rows = document.runs.first().map_or(&[][..], |run| &run.metrics);
    let reach = rows.iter().filter(|row| row.stage == reach::STAGE);
    let lines: Vec<String> = reach
        .filter_map(|row| Some((row.metric.strip_prefix(reach::MISS_RATE)?, row)))
        .map(|(entries, row)| {
            let rate = row.value.map_or("-".to_owned(), |rate| format!("{:.4} %", 100.0 * rate.as_f64()));
            format!("  {entries:>6} entries {rate:>12}\n")
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\nmisses of 8-way TLBs by size, share of all accesses\n{}", lines.concat())
}

/// Returns the command line without what cannot change a number.
fn command(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const NEUTRAL: [&str; 4] = ["--out", "--format", "--threads", "--progress"];
    const NEUTRAL_FLAGS: [&str; 2] = ["--quiet", "-q"];
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
            None if NEUTRAL_FLAGS.contains(&&*argument) => {}
            _ => kept.push(argument),
        }
    }
    kept
}

/// Returns an argument as JSON can hold it: of one that is not UTF-8, all bytes beyond ASCII are escaped, as in `caf\xe9`.
fn as_text(argument: OsString) -> String {
    argument.into_string().unwrap_or_else(|other| other.as_encoded_bytes().escape_ascii().to_string())
}

/// Prints to standard output. A reader that has seen enough, as `head` and pagers do, is no error: the rest is dropped, and
/// the command ends as it would have without that.
///
/// # Errors
///
/// The text cannot be written, as to a full disk.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_leaves_out_what_cannot_change_a_number() {
        let words =
            "run --machine a --out x --format=json -q --threads 2 --progress never --limit 5 -- sort --out y";
        let kept = command(words.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(kept, "pagewalk run --machine a --limit 5 -- sort --out y");
    }

    /// `pagewalk run -- cat caf\xe9` panicked with exit code 101 when the program had ended: the manifest asked for text.
    #[test]
    fn arguments_that_are_not_text_are_escaped() {
        use std::os::unix::ffi::OsStringExt;
        assert_eq!(as_text(OsString::from_vec(b"caf\xe9".to_vec())), "caf\\xe9");
        assert_eq!(as_text("café".into()), "café");
    }
}
