//! Running a program under a front-end.

use std::ffi::{OsStr, OsString, c_int, c_ulong};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewalk_trace::{ProcessId, Sink, Source, SourceError, SourceInfo, Stop, StopRequest};
use rustix::process::{
    Pid, Resource, Signal, WaitId, WaitIdOptions, getrlimit, set_parent_process_death_signal, waitid,
};

use crate::assemble::Assembler;
use crate::channel::{self, Channel, ProgramEnd, Received};
use crate::elf;
use crate::error::CaptureError;
use crate::family::Family;
use crate::frontend::Frontend;
use crate::guard::Guard;
use crate::install::Install;
use crate::protocol::{self, Body, ProtocolError};
use crate::unobserved::{Programs, Reason, Unobserved};

/// How long a program has, after SIGTERM, before SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// The time that a program has to end in good order after a signal that the command received, before it is ended.
pub const SIGNAL_GRACE: Duration = Duration::from_secs(5);
/// While the program is silent: how often it is looked whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// The first look whether a program has ended; later ones are further apart, up to [`LOOK`].
const FIRST_LOOK: Duration = Duration::from_micros(100);
/// How often the program is looked at while no process is connected.
const REJOIN_POLL: Duration = Duration::from_millis(20);
/// The most of Valgrind's own messages that is kept.
const LOG_BYTES_MAX: usize = 4_096;
/// The largest stack of a program's first thread under Valgrind, for which it sets addresses aside. Assumed.
const STACK_BYTES_MAX: u64 = 1 << 30;
/// The most threads at a time under Valgrind, which keeps 7 KiB for each; and the least, Valgrind's own default. Assumed.
const THREADS_MAX: u64 = 4_000;
const THREADS_MIN: u64 = 500;
/// Scripts that are interpreted by scripts: as far as the system follows them, two words each.
const SCRIPT_WORDS_MAX: usize = 8;

/// The end of a run of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The program's exit status, or the signal that ended it.
    pub status: ExitStatus,
    /// Whether the program was ended from here: the sink had enough, or the run was asked to stop.
    pub stopped: bool,
    /// The number of accesses handed over.
    pub accesses: u64,
    /// Instructions counted; 0 under a front-end that does not count them.
    pub instructions: u64,
    /// The number of processes observed.
    pub processes: u32,
    /// The processes that were not observed, the first process's end excepted; empty if the program was ended from
    /// here.
    pub unobserved: Vec<Unobserved>,
    /// Whether the first process had set a filter of system calls for itself, which may have refused those by which it is
    /// observed.
    pub has_filter: bool,
    /// The messages of Valgrind, as a rule none; empty under other front-ends.
    pub log: String,
}

impl Outcome {
    /// Returns advice about a program that was killed by a signal.
    pub fn advice(&self) -> &'static str {
        match self.killed_by() {
            Some(9 | 31) if self.has_filter => {
                "a filter of system calls (seccomp) that the program sets for itself refuses those by which it is observed: \
                 switch its sandbox off, as its options or its configuration allow"
            }
            Some(9) => "it was killed from outside, for want of memory for instance",
            Some(4) => {
                "it uses an instruction that the front-end does not know, AVX-512 for instance, which --frontend callout leaves to \
                 the processor: docs/capture.md, What an engine cannot do"
            }
            _ => {
                "run it without pagewalk to see whether it also dies there; --limit compares up to a number of accesses"
            }
        }
    }

    /// Returns the signal that ended the program, unless it was stopped by us.
    pub fn killed_by(&self) -> Option<i32> {
        if self.stopped { None } else { self.status.signal() }
    }
}

/// A program with its arguments, ready to be run and observed.
///
/// Its standard input, output and error, its environment and its exit status pass through; see
/// [`Program::outcome`] for the latter. Children and programs that it executes are observed too.
#[derive(Clone, Debug)]
pub struct Program {
    program: OsString,
    args: Vec<OsString>,
    frontend: Frontend,
    wants_blocks: bool,
    stdout_to_stderr: bool,
    is_silent: bool,
    engine_options: Vec<OsString>,
    install: Install,
    stop: Stop,
    is_guarded: bool,
    outcome: Option<Outcome>,
}

impl Program {
    /// Creates a run of `program`, looked up in PATH if it has no slash, with `args`, under the Valgrind tool.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            frontend: Frontend::default(),
            wants_blocks: false,
            stdout_to_stderr: false,
            is_silent: false,
            engine_options: Vec::new(),
            install: Install::find(),
            stop: Stop::default(),
            is_guarded: false,
            outcome: None,
        }
    }

    /// Observes it with `frontend` instead.
    #[must_use]
    pub fn frontend(mut self, frontend: Frontend) -> Self {
        self.frontend = frontend;
        self
    }

    /// Lets the front-end, if it can, also observe which blocks of instructions the program executes.
    #[must_use]
    pub fn blocks(mut self, wants_blocks: bool) -> Self {
        self.wants_blocks = wants_blocks;
        self
    }

    /// Sends what the program prints to our standard error, so that standard output stays ours.
    #[must_use]
    pub fn stdout_to_stderr(mut self, redirect: bool) -> Self {
        self.stdout_to_stderr = redirect;
        self
    }

    /// Gives the program `/dev/null` in place of each of its standard streams.
    #[must_use]
    pub fn silent(mut self, is_silent: bool) -> Self {
        self.is_silent = is_silent;
        self
    }

    /// Gives the engine under the front-end options of its own: Valgrind's, as `valgrind --help` lists them. The other
    /// front-ends take none, which [`Program::check`] says.
    #[must_use]
    pub fn engine_options(mut self, options: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.engine_options = options.into_iter().map(Into::into).collect();
        self
    }

    /// Takes the front-end's files from `install`.
    #[must_use]
    pub fn install(mut self, install: Install) -> Self {
        self.install = install;
        self
    }

    /// Ends the program early when `stop` holds a request. A signal is passed on to all of its processes, which then have
    /// [`SIGNAL_GRACE`] to end in good order, and are observed meanwhile.
    #[must_use]
    pub fn until(mut self, stop: &Stop) -> Self {
        self.stop = stop.clone();
        self
    }

    /// Starts this executable a second time for each run, as a process that ends the program and all its processes when this
    /// one is killed. Its `main` must begin with `if is_guard(...) { return guard(); }`. Without, the system kills the first
    /// process of the program only.
    #[must_use]
    pub fn guarded(mut self, is_guarded: bool) -> Self {
        self.is_guarded = is_guarded;
        self
    }

    /// Returns how the last run ended; `None` before a run, and after one that failed.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Checks that the program and the front-end are there and fit: everything that can be said without starting it.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), CaptureError> {
        let path = self.resolve()?;
        match self.frontend {
            Frontend::Valgrind => self.install.valgrind().map(drop),
            Frontend::Callout => Ok(()),
            Frontend::Qemu => self.qemu(path, "").map(drop),
        }
    }

    /// Returns the command that runs the program with every record built and then dropped: what observing it costs
    /// without a reader of the records.
    ///
    /// # Errors
    ///
    /// As [`Program::check`].
    pub fn discarding_command(&self) -> Result<Command, CaptureError> {
        let path = self.resolve()?;
        let mut command = match self.frontend {
            Frontend::Valgrind => self.valgrind(&["--discard=yes".into()])?,
            Frontend::Callout => Command::new(path),
            Frontend::Qemu => self.qemu(path, "")?,
        };
        command.args(&self.args);
        Ok(command)
    }

    /// Whether executed blocks are observed.
    fn gives_blocks(&self) -> bool {
        self.wants_blocks && self.frontend.gives_blocks()
    }

    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    fn resolve(&self) -> Result<PathBuf, CaptureError> {
        if let (Frontend::Callout | Frontend::Qemu, Some(option)) =
            (self.frontend, self.engine_options.first())
        {
            return Err(CaptureError::EngineOption { option: option.to_string_lossy().into_owned() });
        }
        let path = elf::resolve(&self.program, std::env::var_os("PATH").as_deref())?;
        match self.frontend {
            Frontend::Valgrind | Frontend::Callout => elf::check_native(&path)?,
            Frontend::Qemu => drop(elf::kind(&path)?),
        }
        Ok(path)
    }

    /// The Valgrind tool with `options` and the program's name. The tool is started directly: Debian's `valgrind` is a
    /// script that changes the program's environment.
    fn valgrind(&self, options: &[OsString]) -> Result<Command, CaptureError> {
        let (folder, launcher) = self.install.valgrind()?;
        let mut command = Command::new(folder.join("pagewalk-amd64-linux"));
        command.env("VALGRIND_LIB", &folder).env("VALGRIND_LAUNCHER", launcher);
        command.args([
            "--tool=pagewalk",
            "--command-line-only=yes",
            "-q",
            "--vgdb=no",
            "--trace-children=yes",
            // Short loops are translated as up to eight copies (by default mostly two), the next ones with fewer stores.
            "--vex-iropt-unroll-thresh=400",
        ]);
        // Valgrind's own limits, 16 MiB of stack and 500 threads, are lower than the system's.
        let limit = |resource, most: u64| getrlimit(resource).current.unwrap_or(most).min(most);
        command.arg(format!("--main-stacksize={}", limit(Resource::Stack, STACK_BYTES_MAX)));
        command.arg(format!("--max-threads={}", limit(Resource::Nproc, THREADS_MAX).max(THREADS_MIN)));
        if self.gives_blocks() {
            command.arg("--blocks=yes");
        }
        command.args(options).args(&self.engine_options).arg("--").arg(&self.program);
        Ok(command)
    }

    /// QEMU with the plugin, to which `channel` is given as well, and what the program's arguments follow: its file, or
    /// the interpreter of its script. The plugin expects the options in this order.
    fn qemu(&self, path: PathBuf, channel: &str) -> Result<Command, CaptureError> {
        let plugin = self.install.qemu()?;
        let mut before = vec![path.into_os_string()];
        let mut name = self.program.clone();
        let machine = loop {
            let path = Path::new(before.last().expect("one to begin with"));
            match elf::kind(path)? {
                elf::Kind::Program(machine) => break machine,
                _ if before.len() > SCRIPT_WORDS_MAX => {
                    let why = "scripts name each other as interpreters".to_owned();
                    return Err(CaptureError::NotExecutable { path: path.to_owned(), why });
                }
                elf::Kind::Script { interpreter, argument } => {
                    elf::resolve(&interpreter, None)?;
                    name.clone_from(&interpreter);
                    before.extend(argument);
                    before.push(interpreter);
                }
            }
        };
        let emulator = machine.emulator();
        let found = elf::resolve(OsStr::new(emulator), std::env::var_os("PATH").as_deref());
        let mut command = Command::new(found.map_err(|_| CaptureError::NoQemu(emulator))?);
        let mut option = OsString::from("file=");
        option.push(doubled(plugin.as_os_str(), b','));
        let blocks = if self.gives_blocks() { ",blocks=on" } else { "" };
        option.push(format!(",machine={}{blocks}{channel}", machine.number()));
        command.arg("-0").arg(name).arg("-plugin").arg(option).args(before.iter().rev());
        fix_layout(&mut command);
        Ok(command)
    }

    fn command(&self, end: &ProgramEnd, logs: &Path) -> Result<Command, CaptureError> {
        let path = self.resolve()?;
        let mut command = match self.frontend {
            Frontend::Valgrind => {
                let mut log_option = OsString::from("--log-file=");
                log_option.push(doubled(logs.as_os_str(), b'%'));
                log_option.push("/valgrind-%p.log");
                let channel = format!("--channel={:010}", end.number());
                let inode = format!("--channel-inode={}", end.inode);
                self.valgrind(&[log_option, channel.into(), inode.into()])?
            }
            Frontend::Callout => {
                let mut command = Command::new(path);
                command.arg0(&self.program);
                command.env("PAGEWALK_CHANNEL", end.text());
                fix_layout(&mut command);
                command
            }
            Frontend::Qemu => self.qemu(path, &format!(",channel={}", end.text()))?,
        };
        command.args(&self.args);
        if self.stdout_to_stderr {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned();
            command
                .stdout(Stdio::from(stderr.map_err(|e| CaptureError::io("duplicating standard error", e))?));
        }
        if self.is_silent {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        }
        end.inherit_into(&mut command);
        Ok(command)
    }

    fn observe(&mut self, sink: &mut dyn Sink) -> Result<Outcome, CaptureError> {
        let temporary = || tempfile::Builder::new().prefix("pagewalk-").tempdir();
        let logs = temporary().map_err(|e| CaptureError::io("creating a temporary folder", e))?;
        let logs_path =
            logs.path().canonicalize().map_err(|e| CaptureError::io("finding the temporary folder", e))?;
        let (channel, end) = channel::pair().map_err(|e| CaptureError::io("creating a socket", e))?;
        let mut command = self.command(&end, &logs_path)?;
        let guard = || Guard::start(end.inode, end.key(), &logs_path).ok();
        let mut guard = self.is_guarded.then(guard).flatten();
        if guard.is_none() {
            // A guard ends descendants with the program, and must find them before it has ended.
            die_with_observer(&mut command);
        }
        let child =
            command.spawn().map_err(|e| CaptureError::io(format!("starting `{}`", self.name()), e))?;
        let descriptor = end.number();
        let family = Family::observed(child.id(), end.inode, end.key(), &logs_path);
        drop(end);
        if let Some((guard, child)) = guard.as_mut().zip(family.child()) {
            // Without it, the guard knows the program by its socket and its key.
            let _ = guard.watch(child);
        }
        let stop = self.stop.clone();
        let mut running = Running { child, channel, family, stop, deadline: None, reaped: false, guard };
        running.channel.set_patience(LOOK);
        let mut assembler = Assembler::new(self.frontend.counts_instructions());
        let mut programs = Programs::new(self.frontend, &self.program);
        let end = running.forward(&mut assembler, &mut programs, sink, &self.name())?;
        // Processes that were ended from here are not named.
        let unended = if end == End::Ended { assembler.unended() } else { Vec::new() };
        let first_cut_off = unended.contains(&ProcessId(0)).then(|| programs.cut_off(ProcessId(0)));
        let unobserved = programs.finish(unended.into_iter().filter(|&process| process != ProcessId(0)));
        unobserved.iter().for_each(|each| assembler.note(each.process, each.to_string()));
        // What was collected before the end is handed over, unless the sink wants no more.
        let has_enough = end == End::Enough || assembler.finish(sink).is_break();
        let (status, is_killed) = running.wait()?;
        let stopped = has_enough || end == End::Stopped || is_killed;
        let outcome = Outcome {
            status,
            stopped,
            accesses: assembler.accesses(),
            instructions: assembler.instructions(),
            processes: assembler.processes(),
            unobserved,
            has_filter: programs.first_has_filter(status.signal() == Some(Signal::SYS.as_raw())),
            log: read_logs(&logs_path),
        };
        self.judge(&outcome, &assembler, first_cut_off, descriptor)?;
        Ok(outcome)
    }

    /// Tells a program's end from a front-end's failure.
    fn judge(
        &self,
        outcome: &Outcome,
        assembler: &Assembler,
        first_cut_off: Option<Unobserved>,
        fd: i32,
    ) -> Result<(), CaptureError> {
        let program = self.name();
        // A program that was asked to end may have had no time to begin.
        if outcome.stopped || self.stop.requested().is_some() {
            return Ok(());
        }
        let silent = !assembler.first_ended() && outcome.status.signal().is_none();
        if let Some(why) = first_cut_off.filter(|why| silent && why.reason != Reason::Killed) {
            return Err(CaptureError::CutOff { program, why });
        }
        match self.frontend {
            Frontend::Valgrind if silent || outcome.processes == 0 => Err(CaptureError::Valgrind {
                program,
                started: outcome.processes > 0,
                status: outcome.status.to_string(),
                log: outcome.log.clone(),
            }),
            Frontend::Qemu if outcome.accesses == 0 && !outcome.status.success() => {
                Err(CaptureError::Qemu { program, status: outcome.status.to_string() })
            }
            // One that was killed may have had records that it could not send.
            _ if outcome.accesses == 0 && (outcome.processes == 0 || outcome.killed_by().is_none()) => {
                Err(CaptureError::NoRecords { program })
            }
            Frontend::Callout | Frontend::Qemu if silent => Err(CaptureError::ChannelClosed { program, fd }),
            _ => Ok(()),
        }
    }
}

impl Source for Program {
    fn info(&self) -> SourceInfo {
        let mut name = self.name();
        for arg in &self.args {
            name.push(' ');
            name.push_str(&arg.to_string_lossy());
        }
        SourceInfo {
            name,
            expected_accesses: None,
            announces_mappings: self.frontend == Frontend::Valgrind,
            counts_instructions: self.frontend.counts_instructions(),
            gives_frames: false,
            gives_blocks: self.gives_blocks(),
        }
    }

    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.outcome = None;
        self.outcome = Some(self.observe(sink)?);
        Ok(())
    }
}

/// Switches address-space randomisation off for the program, so that two runs see the same pages. (Valgrind gives its
/// programs a layout of its own, which is fixed.) Where a sandbox forbids it, the layout stays random.
#[allow(unsafe_code)]
fn fix_layout(command: &mut Command) {
    const ADDR_NO_RANDOMIZE: c_ulong = 0x004_0000;
    const CURRENT: c_ulong = 0xffff_ffff;
    unsafe extern "C" {
        fn personality(persona: c_ulong) -> c_int;
    }
    let switch_off = || {
        // SAFETY: personality is one system call with plain numbers; it is async-signal-safe and touches no memory.
        // No safe wrapper of it is among our libraries.
        unsafe {
            let current = personality(CURRENT);
            if current >= 0 {
                personality(current as c_ulong | ADDR_NO_RANDOMIZE);
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes async-signal-safe calls only and allocates nothing.
    unsafe { command.pre_exec(switch_off) };
}

/// Lets the system kill the program when the thread that observes it ends, for whatever reason: a command that is killed
/// leaves no program behind.
#[allow(unsafe_code)]
fn die_with_observer(command: &mut Command) {
    let ask = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: the closure makes one prctl call, which is async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

/// A text with every `byte` twice, which is how options of Valgrind and QEMU name one.
fn doubled(text: &OsStr, byte: u8) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    for &each in text.as_bytes() {
        bytes.push(each);
        bytes.extend((each == byte).then_some(byte));
    }
    OsString::from_vec(bytes)
}

/// The reason why [`Running::forward`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Every process has ended, or has closed the channel.
    Ended,
    /// The sink had enough, and the program was ended.
    Enough,
    /// The run was asked to stop, and the program was ended.
    Stopped,
}

/// A started program; ended and reaped whatever happens.
struct Running {
    child: Child,
    channel: Channel,
    family: Arc<Family>,
    stop: Stop,
    /// When the program is ended, once a signal has been passed on.
    deadline: Option<Instant>,
    reaped: bool,
    /// Ends the program if this process is killed; dropped, and ended itself, after all else.
    guard: Option<Guard>,
}

impl Running {
    /// Passes messages on until every process has ended, the sink has enough or the run is to stop; for the latter two
    /// the program is ended.
    fn forward(
        &mut self,
        assembler: &mut Assembler,
        programs: &mut Programs,
        sink: &mut dyn Sink,
        program: &str,
    ) -> Result<End, CaptureError> {
        let damaged = |error: ProtocolError| CaptureError::Protocol { program: program.to_owned(), error };
        loop {
            let received =
                self.channel.receive().map_err(|e| CaptureError::io(format!("observing `{program}`"), e))?;
            match received {
                Received::Message(bytes) => {
                    let message = protocol::decode(bytes).map_err(damaged)?;
                    let before = assembler.process(message.pid);
                    let flow = assembler.take(&message, sink).map_err(damaged)?;
                    if let Some(process) = assembler.process(message.pid).or(before) {
                        programs.hear(process, message.pid, &message.body);
                        if let Body::Fork { .. } = message.body {
                            programs.forked(process, ProcessId(assembler.processes() - 1));
                        }
                    }
                    if flow.is_break() {
                        self.stop();
                        return Ok(End::Enough);
                    }
                }
                Received::Nothing => {}
                // A process that has closed its descriptors comes back when it has something to say.
                Received::End => {
                    let has_exited = self.has_exited()?;
                    let wait = if has_exited { Duration::ZERO } else { REJOIN_POLL };
                    let is_back = self.channel.wait_for_rejoin(wait);
                    if !is_back.map_err(|e| CaptureError::io(format!("observing `{program}`"), e))?
                        && has_exited
                    {
                        return Ok(End::Ended);
                    }
                }
            }
            if self.is_to_end() {
                self.stop();
                return Ok(End::Stopped);
            }
        }
    }

    /// Whether the program has ended. Its number stays its own: it is not waited for.
    fn has_exited(&self) -> Result<bool, CaptureError> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.child)), look);
        Ok(ended.map_err(|e| CaptureError::io("waiting for the program", e))?.is_some())
    }

    /// Whether the program is to be ended now. The first look after a signal passes the signal on.
    fn is_to_end(&mut self) -> bool {
        match (self.deadline, self.stop.requested()) {
            (Some(deadline), _) => Instant::now() >= deadline,
            (None, None) => false,
            (None, Some(StopRequest::Now)) => true,
            (None, Some(StopRequest::Signal { number, is_delivered })) => {
                if let Some(signal) = Signal::from_named_raw(number).filter(|_| !is_delivered) {
                    self.family.signal(signal);
                }
                self.deadline = Some(Instant::now() + SIGNAL_GRACE);
                false
            }
        }
    }

    /// SIGTERM to all of the program's processes, and SIGKILL to those that are still there after the grace time. What
    /// they send meanwhile is dropped.
    fn stop(&mut self) {
        self.family.signal(Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            match self.channel.receive() {
                Ok(Received::Message(_) | Received::Nothing) => {}
                Ok(Received::End) | Err(_) if self.family.has_ended() => break,
                Ok(Received::End) | Err(_) => std::thread::sleep(FIRST_LOOK),
            }
        }
        self.family.kill();
    }

    /// Waits for the program, which may go on after it has closed the channel; its status, and whether it had to be ended.
    fn wait(&mut self) -> Result<(ExitStatus, bool), CaptureError> {
        let (mut pause, mut is_killed) = (FIRST_LOOK, false);
        // The number stays the program's until its family is forgotten.
        while !self.has_exited()? {
            if !is_killed && self.is_to_end() {
                self.stop();
                is_killed = true;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
        self.guard = None;
        self.family.forget();
        let status = self.child.wait().map_err(|e| CaptureError::io("waiting for the program", e))?;
        self.reaped = true;
        Ok((status, is_killed))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            self.family.kill();
            self.family.forget();
            // An error or a panic is already on its way; a second one cannot be reported.
            let _ = self.child.wait();
        }
    }
}

/// What Valgrind wrote, without its line prefixes; the beginning if it is long.
fn read_logs(folder: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(folder) else { return String::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut log = String::new();
    for file in files {
        let Ok(bytes) = std::fs::read(&file) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        for line in text.lines().map(without_prefix).filter(|line| !line.is_empty()) {
            if log.len() + line.len() > LOG_BYTES_MAX {
                return log;
            }
            if !log.is_empty() {
                log.push('\n');
            }
            log.push_str(line);
        }
    }
    log
}

/// `==1234== text` and `--1234-- text` are Valgrind's.
fn without_prefix(line: &str) -> &str {
    for mark in ["==", "--"] {
        let rest = line.strip_prefix(mark).and_then(|rest| rest.split_once(mark));
        if let Some((pid, text)) = rest
            && pid.bytes().all(|b| b.is_ascii_digit() || b == b':')
        {
            return text.trim();
        }
    }
    line.trim()
}
