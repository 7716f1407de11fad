//! The parts that the tests of this crate share: the built front-ends, compiled test programs, and a sink that keeps count.
#![allow(unreachable_pub)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use pagewalk_capture::{Frontend, Install, Outcome, Program};
use pagewalk_trace::{Access, Batch, Event, ProcessId, Source, ThreadId};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// Runs `command`; its output if it failed.
fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed:\n{text}");
    text
}

/// Returns the front-ends, built once per test binary.
pub fn install() -> Install {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = Path::new(TMP).join("pagewalk");
        let mut out = OsString::from("OUT=");
        out.push(&folder);
        must(Command::new("make").args(["-C", CRATE]).arg(out));
        folder
    });
    Install::at(folder)
}

/// Returns whether a program is installed; prints why a test is skipped if not.
pub fn is_installed(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// The way in which a test program is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    /// Built by gcc -O2.
    Plain,
    /// Built by gcc -O2 -static.
    Static,
    /// Built by gcc with the call-out runtime, inlined by its assembler.
    GccCallout,
    /// Built by gcc with the call-out runtime, called.
    GccCalled,
    /// Built by clang with the call-out runtime, inlined by its assembler.
    ClangCallout,
    /// Built by clang, inlined at linking.
    ClangInlined,
    /// Built by gcc -O2, under QEMU.
    Qemu,
    /// Built by gcc -O2 without the C library, at a fixed address.
    Freestanding,
}

impl Build {
    pub fn frontend(self) -> Frontend {
        match self {
            Self::Plain | Self::Static | Self::Freestanding => Frontend::Valgrind,
            Self::GccCallout | Self::GccCalled | Self::ClangCallout | Self::ClangInlined => Frontend::Callout,
            Self::Qemu => Frontend::Qemu,
        }
    }
}

/// Returns the installed clang, newest known first.
pub fn clang() -> Option<&'static str> {
    ["clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang"].into_iter().find(
        |name| {
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .any(|folder| folder.join(name).is_file())
        },
    )
}

/// Returns every build that this machine can make.
pub fn builds() -> Vec<Build> {
    let mut builds = vec![Build::Plain, Build::GccCallout, Build::GccCalled];
    if clang().is_some() {
        builds.extend([Build::ClangCallout, Build::ClangInlined]);
    } else {
        println!("clang left out: it is not installed");
    }
    if is_installed("qemu-x86_64") {
        builds.push(Build::Qemu);
    }
    builds
}

/// Returns the builds that are observed unmodified.
pub fn unmodified() -> Vec<Build> {
    builds().into_iter().filter(|&build| build.frontend() != Frontend::Callout).collect()
}

/// The variable by which a test that runs itself as another process tells that process from itself.
pub const HELPER: &str = "PAGEWALK_TEST_HELPER";

/// Copies a program that is started soon. Another process copies: a child that another test starts meanwhile would have a descriptor of
/// this one's that writes the program, and the kernel starts no program that is being written.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().expect("cp").success());
}

/// Compiles `tests/c/NAME.c` or `programs/NAME.c`, once: another test may be running it. A helper process has programs of its own.
pub fn compile(name: &str, build: Build) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let of = if std::env::var_os(HELPER).is_some() { "helper" } else { "test" };
    let program = Path::new(TMP).join(format!("{name}-{build:?}-{of}"));
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.contains(&program) {
        return program;
    }
    let source = ["tests/c", "programs"]
        .map(|folder| Path::new(CRATE).join(folder).join(name).with_extension("c"))
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no test program {name}"));
    let by_clang = matches!(build, Build::ClangCallout | Build::ClangInlined);
    let compiler = if by_clang { clang().expect("clang") } else { "gcc" };
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-pthread", "-o"]).arg(&program).arg(source);
    match build {
        Build::Plain | Build::Qemu => {}
        Build::Static => {
            command.arg("-static");
        }
        Build::Freestanding => {
            command.args([
                "-ffreestanding",
                "-fno-stack-protector",
                "-mgeneral-regs-only",
                "-fno-pie",
                "-no-pie",
            ]);
            command.args(["-nostdlib", "-static", "-Wl,-e,start"]);
        }
        Build::GccCallout | Build::GccCalled => {
            command.args(["-fsanitize=thread", "-DCALLOUT"]).args(link_flags());
            if build == Build::GccCallout {
                command.arg(assembler_flag());
            }
        }
        Build::ClangCallout | Build::ClangInlined => {
            command.args([
                "-fsanitize=thread",
                "-DCALLOUT",
                "-mllvm",
                "-tsan-instrument-read-before-write=1",
            ]);
            command.args(["-mllvm", "-tsan-instrument-func-entry-exit=0"]);
            if build == Build::ClangInlined {
                command.args(["-flto", "-ltsan-inlined"]);
            } else {
                command.args(["-fno-integrated-as", "-ltsan"]).arg(assembler_flag());
            }
            command.arg("-fno-sanitize-link-runtime").args(link_flags());
        }
    }
    must(&mut command);
    compiled.insert(program.clone());
    program
}

/// Compiles a file of `tests/c` for another instruction set; none if something for it is not installed.
pub fn compile_for(source: &str, target: &str, march: &str) -> Option<PathBuf> {
    let clang = clang().filter(|_| is_installed(&format!("qemu-{target}")) && is_installed("ld.lld-19"))?;
    let program = Path::new(TMP).join(format!("{source}-{target}"));
    let mut command = Command::new(clang);
    command.arg(format!("--target={target}-linux-gnu")).arg(march).args(["-O2", "-Wall", "-Wextra"]);
    command.args(["-ffreestanding", "-fno-stack-protector", "-nostdlib", "-static", "-fuse-ld=lld-19", "-o"]);
    must(command.arg(&program).arg(Path::new(CRATE).join("tests/c").join(source)));
    Some(program)
}

fn assembler_flag() -> OsString {
    let mut text = OsString::from("-B");
    text.push(install().callout().expect("runtime").join("inline"));
    text
}

fn link_flags() -> [OsString; 2] {
    let folder = install().callout().expect("runtime");
    let with = |flag: &str| {
        let mut text = OsString::from(flag);
        text.push(&folder);
        text
    };
    [with("-L"), with("-Wl,-rpath,")]
}

/// The content of a stream, in order.
#[derive(Default)]
pub struct Stream {
    /// Each access with its process and thread.
    pub accesses: Vec<(ProcessId, ThreadId, Access)>,
    /// Each other event with its process, thread and the number of accesses before it.
    pub events: Vec<(usize, ProcessId, ThreadId, Event)>,
    pub instructions: u64,
}

impl Stream {
    /// Accesses inside `[start, start + bytes)`, counted by size and direction.
    pub fn counts(&self, start: u64, bytes: u64) -> BTreeMap<(u64, bool), u64> {
        let mut counts = BTreeMap::new();
        for (_, _, access) in &self.accesses {
            if access.addr().0.wrapping_sub(start) < bytes {
                *counts.entry((access.bytes(), access.is_write())).or_default() += 1;
            }
        }
        counts
    }
}

/// Checks the contract of a batch and unrolls it.
#[derive(Default)]
pub struct Unroll {
    pub stream: Stream,
    process: ProcessId,
    thread: Option<ThreadId>,
    counts_instructions: bool,
}

impl Unroll {
    pub fn new(counts_instructions: bool) -> Self {
        Self { counts_instructions, thread: Some(ThreadId(1)), ..Self::default() }
    }

    pub fn batch(&mut self, batch: &Batch) {
        batch.check().expect("a batch as its contract says");
        if self.counts_instructions && !batch.accesses.is_empty() {
            let first = batch.marks.first().map(|mark| (mark.at, &mark.event));
            assert!(matches!(first, Some((0, Event::Instructions(_)))), "begins with {first:?}");
        }
        let mut marks = batch.marks.iter().peekable();
        for i in 0..=batch.accesses.len() {
            while let Some(mark) = marks.next_if(|mark| mark.at as usize == i) {
                self.mark(&mark.event);
            }
            if let Some(&access) = batch.accesses.get(i) {
                assert!(access.is_some(), "a record of no access came through");
                self.stream.accesses.push((self.process, self.thread.expect("thread"), access));
            }
        }
    }

    fn mark(&mut self, event: &Event) {
        match event {
            Event::Instructions(count) => self.stream.instructions += count,
            Event::Process(process) => {
                self.process = *process;
                self.thread = None;
            }
            Event::Thread(thread) => self.thread = Some(*thread),
            _ => {
                let thread = self.thread.unwrap_or_default();
                self.stream.events.push((self.stream.accesses.len(), self.process, thread, event.clone()));
            }
        }
    }
}

/// Returns a program of ours, ready to be observed.
pub fn program(path: &Path, args: &[&str], frontend: Frontend) -> Program {
    Program::new(path, args).frontend(frontend).install(install())
}

/// Runs it to the end and keeps everything.
pub fn record(program: Program) -> (Stream, Outcome) {
    let name = program.info().name;
    let (stream, ended) = observe(program);
    (stream, ended.unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// Runs it as far as it can be observed, and keeps everything.
pub fn observe(mut program: Program) -> (Stream, Result<Outcome, String>) {
    let mut unroll = Unroll::new(program.info().counts_instructions);
    let run = program.run(&mut |batch: &mut Batch| {
        unroll.batch(batch);
        ControlFlow::Continue(())
    });
    let ended = run.map(|()| program.outcome().expect("an outcome").clone());
    (unroll.stream, ended.map_err(|error| error.to_string()))
}

/// Runs it and expects an error; its text.
pub fn refuse(mut program: Program) -> String {
    match program.run(&mut |_: &mut Batch| ControlFlow::Continue(())) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("{} ran", program.info().name),
    }
}
