//! `pagewalk riscv`: bare-metal programs on the RISC-V machine.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, LineWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::Context;
use pagewalk_blade::{Client, ClientDesign, Open};
use pagewalk_report::{SCHEMA, write_atomically};
use pagewalk_riscv::{
    Config, Counts, DeviceTimes, End, Host, Image, InProcess, Input, MOST_STUCK, Machine, Marking,
    Misaligned, RemoteMemory,
};
use pagewalk_trace::{Batch, Recorder, Sink, SourceInfo, StopRequest, Unfinished};
use serde_json::json;
use signal_hook::consts::SIGPIPE;

use crate::args::{FormatArgument, MarkingArgument, MisalignedArgument, RiscvArguments};
use crate::blade::key;
use crate::distant::Distant;
use crate::ending::{self, Early};
use crate::exit::Done;
use crate::outputs::Files;
use crate::run::print;
use crate::say::{self, complain, note};

/// Instructions between two looks at the limit.
const SLICE: u64 = 1 << 24;

/// Runs the command `riscv`.
pub(crate) fn riscv(arguments: &RiscvArguments) -> anyhow::Result<Done> {
    let path = &arguments.image;
    let files = Files::default().reads([path]).reads(&arguments.key);
    let told = arguments.trace.iter().filter(|path| !is_stderr(path));
    told.chain(&arguments.record).try_fold(files, Files::writes)?;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let image = Image::parse(&bytes).with_context(|| path.display().to_string())?;
    let image = image.with_host_words(arguments.tohost, arguments.fromhost);
    if image.tohost().is_none() && arguments.limit.is_none() {
        anyhow::bail!(
            "{}: no symbol `tohost`, by which a program prints and ends\n   = help: say with --tohost where that word is, \
             or bound the run with --limit",
            path.display()
        );
    }
    let signature = arguments.signature.as_deref().map(|to| signature(&image, path, to)).transpose()?;
    let mut config = Config::default();
    config.memory = arguments.memory;
    config.marking = match arguments.marking {
        MarkingArgument::Faults => Marking::Faults,
        MarkingArgument::Hardware => Marking::Hardware,
    };
    config.misaligned = match arguments.misaligned {
        MisalignedArgument::Native => Misaligned::Native,
        MisalignedArgument::Trap => Misaligned::Trap,
    };
    config.keeps_invalid = arguments.keep_invalid;
    config.accelerator = (!arguments.no_pfa).then_some(arguments.pfa_queues);
    config.times = DeviceTimes { fetch: arguments.fetch_latency, eviction: arguments.evict_latency };
    config.remote_pages = arguments.remote_pages;
    let remote: Box<dyn RemoteMemory> = match &arguments.blade {
        None if arguments.strict => Box::new(InProcess::new().strict()),
        None => Box::new(InProcess::new()),
        Some(blade) => {
            let Open { transport, blade } = blade.connect(key(arguments.key.as_deref())?)?;
            let mut distant = Distant::new(Client::new(transport, blade, ClientDesign::default())?);
            distant.check().with_context(|| format!("cannot use the blade at {}", blade_name(arguments)))?;
            Box::new(distant)
        }
    };
    // One document on standard output, and nothing else there.
    let output: Box<dyn Write> = match arguments.format {
        FormatArgument::Json => Box::new(std::io::stderr()),
        FormatArgument::Table => Box::new(BufWriter::new(Output(std::io::stdout()))),
    };
    let mut host = Host::new(Box::new(Keyboard::new()), output, Box::new(std::io::stderr()));
    if let Some(folder) = &arguments.files {
        host = host.with_files(folder).with_context(|| format!("cannot open {}", folder.display()))?;
    }
    let mut machine =
        Machine::new(&config, &image, remote, host).with_context(|| path.display().to_string())?;
    let notes = arguments.trace.as_deref().map(Notes::open).transpose()?;
    if let Some(notes) = &notes {
        let notes = notes.clone();
        machine.listen(Box::new(move |note| notes.borrow_mut().write(format_args!("{note}\n"))));
    }
    // A run that brings nothing but what the program does ends as the program would: at once.
    let writes = arguments.record.is_some() || arguments.trace.is_some();
    if writes || arguments.stats || arguments.format == FormatArgument::Json {
        ending::watch()?;
    }
    let recorder = arguments.record.as_deref().map(|to| record(&mut machine, path, to)).transpose()?;
    let end = run(&mut machine, arguments.limit).filter(|end| *end != End::Interrupted);
    machine.flush();
    machine.finish_recording();
    // What it has to say of its run is kept, whatever becomes of the other files.
    let early = if end.is_none() { Early::asked(ending::stop(), None) } else { None };
    let noted = notes.map_or(Ok(()), |notes| {
        let mut notes = notes.borrow_mut();
        if let Some(early) = &early {
            notes.write(format_args!("partial: {early}\n"));
        }
        notes.finish()
    });
    if let Some(recorder) = recorder.and_then(Rc::into_inner) {
        let mut recorder = recorder.into_inner();
        early.iter().for_each(|early| recorder.mark_partial(early.partial()));
        let totals = recorder.finish()?;
        let to = arguments.record.as_deref().unwrap_or(Path::new(""));
        note!("wrote {}: {} accesses, {} instructions", to.display(), totals.accesses, totals.instructions);
    }
    if let Some(refusal) = machine.first_refusal() {
        complain!("warning: {refusal}");
    }
    let unfinished = match end {
        // Said below.
        Some(End::Failed(_)) => None,
        _ => machine.finish_evictions().err(),
    };
    if let Some(Signature { to, from, bytes }) = signature {
        let memory = machine.memory(from, bytes).context("the signature does not lie in memory")?;
        write_atomically(to, lines_of_words(&memory).as_bytes())?;
    }
    let counts = machine.counts();
    match arguments.format {
        FormatArgument::Json => print(&format!("{:#}\n", document(path, &counts, end.as_ref())))?,
        FormatArgument::Table if arguments.stats => say::write(format_args!("{}", table(&counts))),
        FormatArgument::Table => {}
    }
    if let Some(error) = unfinished {
        complain!("error: pages that were to leave may be lost: {error}");
        return Ok(Done::GateFailed);
    }
    noted?;
    Ok(match end {
        Some(End::Exit(code)) => Done::Program(u8::try_from(code).unwrap_or(u8::MAX)),
        Some(End::WaitsForever { pc }) => {
            complain!("the program waits for an interrupt that cannot come, at {}", place(&image, pc));
            Done::GateFailed
        }
        Some(End::HandlerTraps { pc, cause }) => {
            complain!("the handler at {} traps itself: {cause:?}", place(&image, pc));
            Done::GateFailed
        }
        Some(End::TrapLoop { pc, cause, value }) => {
            complain!(
                "the program makes no progress: {cause:?} at {}, value {value:#x}, again and again for {MOST_STUCK} \
                 instructions",
                place(&image, pc)
            );
            Done::GateFailed
        }
        // Why has been said; an interrupted wait is no end of the program.
        Some(End::RecordingStopped | End::Interrupted) => Done::GateFailed,
        Some(End::Failed(error)) => {
            complain!("error: {error}; the blade was {}", blade_name(arguments));
            Done::GateFailed
        }
        None if let Some(early) = early => {
            // A reader of its output that has seen enough is told nothing.
            if early != Early::Signal(SIGPIPE) {
                let (pc, _) = machine.registers();
                complain!("{early}, at {}", place(&image, pc));
            }
            early.done()
        }
        None => {
            let (pc, _) = machine.registers();
            complain!(
                "the limit of {} instructions is reached, at {}",
                arguments.limit.unwrap_or(0),
                place(&image, pc)
            );
            Done::GateFailed
        }
    })
}

/// The part of memory that RISCOF compares, and the file that gets it.
struct Signature<'a> {
    to: &'a Path,
    from: u64,
    bytes: u64,
}

fn signature<'a>(image: &Image, path: &Path, to: &'a Path) -> anyhow::Result<Signature<'a>> {
    let [from, end] = ["begin_signature", "end_signature"].map(|name| {
        let addr = image.addr_of(name);
        addr.with_context(|| format!("{}: no symbol `{name}`, which --signature needs", path.display()))
    });
    let (from, end) = (from?, end?);
    let bytes = end.checked_sub(from).filter(|bytes| bytes.is_multiple_of(4));
    let bytes = bytes.with_context(|| {
        format!("{}: the signature from {from:#x} to {end:#x} is no number of 4-byte words", path.display())
    })?;
    Ok(Signature { to, from, bytes })
}

/// Words of four bytes in hexadecimal, a line each, the highest digit first.
fn lines_of_words(memory: &[u8]) -> String {
    memory.as_chunks().0.iter().fold(String::new(), |mut text, &word| {
        let _ = writeln!(text, "{:08x}", u32::from_le_bytes(word));
        text
    })
}

/// Returns where remote memory is, as the command was told.
fn blade_name(arguments: &RiscvArguments) -> String {
    arguments.blade.as_ref().map_or("in this process".to_owned(), ToString::to_string)
}

fn run(machine: &mut Machine, limit: Option<u64>) -> Option<End> {
    loop {
        let left =
            limit.map_or(SLICE, |limit| limit.saturating_sub(machine.counts().instructions).min(SLICE));
        if left == 0 || ending::stop().requested().is_some() {
            return None;
        }
        if let Some(end) = machine.run(left) {
            return Some(end);
        }
    }
}

/// Returns an address as people know it.
fn place(image: &Image, addr: u64) -> String {
    match image.symbol(addr) {
        Some((name, offset)) => format!("{addr:#x} ({name}+{offset:#x})"),
        None => format!("{addr:#x}"),
    }
}

/// Standard output of the program. A reader that has seen enough ends the program, as SIGPIPE ends others.
struct Output(io::Stdout);

impl Output {
    fn watched<T>(result: io::Result<T>) -> io::Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
            ending::stop().request(StopRequest::Signal { number: SIGPIPE, is_delivered: true });
        }
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::watched(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::watched(self.0.flush())
    }
}

/// Returns whether a path stands for standard error.
fn is_stderr(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The destination of the machine's notes, a line each.
struct Notes {
    /// None once it is finished.
    file: Option<NotesFile>,
    path: PathBuf,
    /// Notes that cannot be written do not change what the program does, and are missed at the end.
    failure: Option<io::Error>,
}

enum NotesFile {
    /// Standard error, a terminal or a pipe.
    Shared(Box<dyn Write>),
    /// A file, which appears when it is complete.
    Whole(BufWriter<Unfinished>),
}

impl Notes {
    /// Opens the file, or standard error for `-`.
    fn open(path: &Path) -> anyhow::Result<Rc<RefCell<Self>>> {
        let cannot_write = || format!("cannot write {}", path.display());
        let is_shared = std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        let file = if is_stderr(path) {
            // Whole lines: a note is written in many pieces.
            NotesFile::Shared(Box::new(LineWriter::new(io::stderr())))
        } else if is_shared {
            let file = std::fs::File::options().write(true).open(path).with_context(cannot_write)?;
            NotesFile::Shared(Box::new(LineWriter::new(file)))
        } else {
            NotesFile::Whole(BufWriter::new(Unfinished::create(path).with_context(cannot_write)?))
        };
        Ok(Rc::new(RefCell::new(Self { file: Some(file), path: path.to_owned(), failure: None })))
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let written = match (&mut self.file, &self.failure) {
            (Some(NotesFile::Shared(file)), None) => file.write_fmt(text),
            (Some(NotesFile::Whole(file)), None) => file.write_fmt(text),
            _ => return,
        };
        self.failure = written.err();
    }

    /// Writes what is left; the first failure is the error, unless the notes go to standard error.
    fn finish(&mut self) -> anyhow::Result<()> {
        let finished = match (self.failure.take(), self.file.take()) {
            (Some(failure), _) => Err(failure),
            (None, Some(NotesFile::Shared(mut file))) => file.flush(),
            (None, Some(NotesFile::Whole(file))) => {
                file.into_inner().map_err(io::IntoInnerError::into_error).and_then(Unfinished::finish)
            }
            (None, None) => Ok(()),
        };
        match finished {
            Err(failure) if !is_stderr(&self.path) => {
                Err(failure).with_context(|| format!("cannot write {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Lets the machine write its executed blocks and its accesses to a trace file, which is complete when the recorder is finished.
fn record(machine: &mut Machine, image: &Path, to: &Path) -> anyhow::Result<Rc<RefCell<Recorder>>> {
    let info = SourceInfo {
        name: image.display().to_string(),
        expected_accesses: None,
        announces_mappings: false,
        counts_instructions: true,
        gives_frames: false,
        gives_blocks: true,
    };
    let recorder = Rc::new(RefCell::new(Recorder::create(to, &info)?));
    let sink = recorder.clone();
    machine.record(Box::new(move |batch: &mut Batch| sink.borrow_mut().batch(batch)));
    Ok(recorder)
}

/// Names and numbers, in the order of the machine's parts.
fn rows(counts: &Counts) -> Vec<(&'static str, &'static str, u64)> {
    let Counts { instructions, cycles, traps, fetches, data, walks, accelerator } = *counts;
    vec![
        ("hart", "instructions", instructions),
        ("hart", "cycles", cycles),
        ("hart", "exceptions", traps),
        ("tlb.instructions", "accesses", fetches.accesses),
        ("tlb.instructions", "misses", fetches.misses),
        ("tlb.data", "accesses", data.accesses),
        ("tlb.data", "misses", data.misses),
        ("walk", "walks", walks.walks),
        ("walk", "references", walks.references),
        ("walk", "faults-of-entries-kept-invalid", walks.kept_invalid),
        ("accelerator", "fetches", accelerator.fetches),
        ("accelerator", "evictions", accelerator.evictions),
        ("accelerator", "faults-without-frame", accelerator.without_frame),
        ("accelerator", "faults-new-queue-full", accelerator.new_queue_full),
        ("accelerator", "waits-for-eviction", accelerator.after_eviction),
        ("accelerator", "refused", accelerator.refused),
    ]
}

fn table(counts: &Counts) -> String {
    rows(counts).iter().fold(String::new(), |mut text, (stage, metric, value)| {
        let _ = writeln!(text, "{:<40} {value:>16}", format!("{stage} {metric}"));
        text
    })
}

fn document(path: &Path, counts: &Counts, end: Option<&End>) -> serde_json::Value {
    let metrics: Vec<_> = rows(counts)
        .into_iter()
        .map(|(stage, metric, value)| {
            json!({ "stage": stage, "metric": metric, "unit": "count", "value": value, "fidelity": "modelled" })
        })
        .collect();
    let exit = match end {
        Some(End::Exit(code)) => json!(code),
        _ => json!(null),
    };
    let run =
        json!({ "machine": "riscv", "source": path.display().to_string(), "exit": exit, "metrics": metrics });
    json!({ "schema": SCHEMA, "runs": [run] })
}

/// The number of bytes of standard input that may wait for the program.
const AHEAD_BYTES: usize = 4096;
/// The time after which a wait for a byte ends after a signal.
const LOOK: Duration = Duration::from_millis(20);

/// Standard input, which is read beside: a program that only asks a terminal whether there is a byte goes on, and a signal ends a
/// wait for one.
struct Keyboard {
    /// None before the program asks for the first byte: until then the bytes are other programs'.
    bytes: Option<Receiver<u8>>,
    /// Whether the program waits for its input: what a file or a pipe has does not depend on how fast it comes, and the program
    /// gets it, however long that takes.
    always_waits: bool,
    is_interrupted: bool,
}

impl Keyboard {
    fn new() -> Self {
        Self { bytes: None, always_waits: !std::io::stdin().is_terminal(), is_interrupted: false }
    }
}

/// Returns the bytes of standard input, as a thread reads them.
fn read_beside() -> Receiver<u8> {
    let (sender, bytes) = sync_channel(AHEAD_BYTES);
    std::thread::spawn(move || {
        for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
            if sender.send(byte).is_err() {
                break;
            }
        }
    });
    bytes
}

impl Input for Keyboard {
    fn byte(&mut self, wait: bool) -> Option<u8> {
        let bytes = self.bytes.get_or_insert_with(read_beside);
        if !wait && !self.always_waits {
            return bytes.try_recv().ok();
        }
        loop {
            match bytes.recv_timeout(LOOK) {
                Ok(byte) => return Some(byte),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if ending::stop().requested().is_some() => {
                    self.is_interrupted = true;
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }
}
