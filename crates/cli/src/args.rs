//! The command line and its options.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use pagewalk_blade::Endpoint;
use pagewalk_sim::run::Length;
use pagewalk_sim::spec::quantity::parse_bytes;
use pagewalk_trace::{Format, ReadOptions};
use pagewalk_vm::fault::Depths;

/// Run a real program on memory systems that do not exist yet, and see what it gains and what it costs.
#[derive(Debug, Parser)]
#[command(name = "pagewalk", version, max_term_width = 100)]
#[command(after_help = "\
EXIT CODES:
  0      done, also with --limit and --time-limit
  1      a gate or a check failed
  2      the input is wrong, or a result could not be written
  3      a trace is damaged, or a program could not be observed any further: the result so far is written, and marked as
         partial
  129, 130, 143
         ended early by SIGHUP, SIGINT (Ctrl-C) or SIGTERM; the result so far is written, and marked as partial.
         The same signal once more ends the command at once
  other  the observed program's own; 128 and a signal's number if a signal killed the program")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) say: SayArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The amount of text that a command prints on standard error.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct SayArguments {
    /// Print only errors and warnings: no progress, no notes.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Show the progress of a command: `auto` shows it where no observed program uses the same terminal.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ProgressArgument::Auto)]
    pub(crate) progress: ProgressArgument,
}

/// The cases in which progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressArgument {
    /// Never show progress.
    Never,
    /// Show progress where it cannot disturb another program's output.
    #[default]
    Auto,
    /// Always show progress; beside an observed program in whole lines.
    Always,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare memory systems on a program, a workload or a trace, in one pass.
    Run(RunArguments),
    /// Record a program's or a workload's events into a .pwt file.
    Record(RecordArguments),
    /// Look into trace files, or convert them to .pwt.
    Trace(TraceArguments),
    /// List the built-in machines, or show one with every default and source.
    Machines(MachinesArguments),
    /// Measure this computer, and write a machine file of it.
    Calibrate(CalibrateArguments),
    /// Compare predicted times of programs with those that they take on this computer.
    Validate(ValidateArguments),
    /// List the built-in workloads, their parameters and presets.
    Workloads,
    /// Reproduce a paper's figures beside the published ones; exit 1 if a gate fails.
    Paper(PaperArguments),
    /// Run a bare-metal RISC-V program on a machine with a page fault accelerator and remote memory.
    Riscv(RiscvArguments),
    /// Serve pages of memory to other machines, or measure a blade that does.
    Blade(BladeArguments),
    /// Make, mount, check and show file systems whose index is the page table.
    Fs(FsArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  pagewalk fs mkfs --size 4GiB files.ctfs
  pagewalk fs mount files.ctfs /mnt
  pagewalk fs run -- sqlite3 /mnt/data.db
  pagewalk fs grow files.ctfs 8GiB
  pagewalk fs fsck files.ctfs
  pagewalk fs info files.ctfs
  pagewalk fs bench /dev/shm /home")]
pub(crate) struct FsArguments {
    #[command(subcommand)]
    pub(crate) command: FsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FsCommand {
    /// Make an empty file system in a file.
    Mkfs(MkfsArguments),
    /// Mount a file system for every program, until SIGINT, SIGTERM, SIGHUP or umount, and the last file is closed.
    Mount(MountArguments),
    /// Enlarge a file system, whether it is mounted or not. After a crash it has its old size or the new one.
    Grow(GrowArguments),
    /// Run a program that reads and writes files of mounted file systems in its own memory, instead of by system calls.
    #[command(after_help = "\
The program's files are opened, named and locked through the kernel as always; only their bytes are not. A file that others use,
too, or that is mapped or inherited, is used through the kernel. Statically linked programs and streams of the C library are as
without.")]
    Run {
        /// The program and its arguments.
        #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Print everything that is wrong with a file system; exit 0 if nothing is, or all was repaired, and 1 otherwise.
    Fsck {
        /// Repair the file system, and print a line for each repair; without this option nothing is written. Files without a name
        /// go to /lost+found.
        #[arg(long)]
        repair: bool,
        /// The file that holds the file system.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Show what a file system holds, by partitions.
    Info(InfoArguments),
    /// Measure six patterns of reads and writes in folders: the file system, system calls, a mapped file, copies.
    Bench(BenchArguments),
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// The folders in which the store and the files that it is compared with are made; they are removed afterwards.
    #[arg(value_name = "FOLDER", default_value = "/dev/shm")]
    pub(crate) folders: Vec<PathBuf>,
    /// The size of each file, a power of two; a folder needs room for three of them and a quarter.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = bytes)]
    pub(crate) size: u64,
    /// The number of runs of each pattern; the median counts.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Measure system calls alone. In a folder of a mounted store these go through the kernel, and under `pagewalk fs run` through
    /// the preloaded library.
    #[arg(long)]
    pub(crate) calls_alone: bool,
    /// The patterns to measure: 4 KiB at a time to the end of an empty file, or anywhere; 64 MiB at a time to an empty file, or in
    /// order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = BenchItem::ALL)]
    pub(crate) items: Vec<BenchItem>,
    /// The format of standard output.
    #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
    pub(crate) format: FormatArgument,
}

/// A pattern of `fs bench`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum BenchItem {
    /// 4 KiB at a time to an empty file.
    Append,
    /// 64 MiB at a time to an empty file.
    Swe,
    /// Random reads of 4 KiB.
    Rr,
    /// Random writes of 4 KiB.
    Rw,
    /// Reads of 64 MiB in order.
    Sr,
    /// Writes of 64 MiB in order, over what is there.
    Sw,
}

impl BenchItem {
    const ALL: [Self; 6] = [Self::Append, Self::Swe, Self::Rr, Self::Rw, Self::Sr, Self::Sw];
}

#[derive(Debug, Args)]
pub(crate) struct MkfsArguments {
    /// The file that will hold the file system, or a block device, or persistent memory (/dev/dax).
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The size of the file system, 1GiB by default; the disk must have room for all of it. On a device the default is the whole
    /// device, less some room for checkpoints.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) size: Option<u64>,
    /// Let the file take room on its disk only as files in the store need it, not all at once. When the disk is full, so is the
    /// store. A device has its room anyway.
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Replace an existing file; it stays as it is if the new one cannot be made. The contents of a device are overwritten.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct MountArguments {
    /// The file that holds the file system.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The folder at which the file system is mounted.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Let every write survive power failures, too; a write then takes as long as the disk needs for that.
    #[arg(long)]
    pub(crate) power_failure: bool,
    /// Let `fsync` and related calls return without waiting for the disk: what was written survives the end of this process, but no
    /// power failure. This is always so if the file lies in memory (tmpfs).
    #[arg(long, conflicts_with_all = ["power_failure", "dax"])]
    pub(crate) no_sync: bool,
    /// Use a file in persistent memory (a DAX file system): every write survives power failures, and no disk is waited for.
    #[arg(long, conflicts_with = "power_failure")]
    pub(crate) dax: bool,
    /// Write nothing to the file, which need not be writable nor lie on a writable medium: every change fails with EROFS. What a
    /// crash left in the file's log is applied in memory alone.
    #[arg(long, conflicts_with_all = ["power_failure", "no_sync", "dax", "strict"])]
    pub(crate) read_only: bool,
    /// Make each write atomic: if it is interrupted, overwritten bytes are all old or all new.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Let the kernel keep what programs write until they close or sync the file, and pass it on in large pieces: small writes take
    /// about as long as on ext4. If this process is killed, what the kernel has not passed on is lost. A program may learn only
    /// from `close` or `fsync` that the disk is full. Programs under `fs run` use the files through the kernel.
    #[arg(long, conflicts_with_all = ["power_failure", "dax", "read_only", "strict"])]
    pub(crate) write_back: bool,
    /// Let all users use the file system, as permissions say; otherwise only the user of this command can.
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Ignore set-user and set-group bits and capabilities. This is always so for users other than root.
    #[arg(long)]
    pub(crate) no_suid: bool,
    /// Let device files lead to no devices. This is always so for users other than root.
    #[arg(long)]
    pub(crate) no_dev: bool,
    /// Forbid to run programs of the file system.
    #[arg(long)]
    pub(crate) no_exec: bool,
    /// Go on in the background: the command ends when the file system is mounted, or with an error when it cannot be.
    #[arg(long)]
    pub(crate) daemon: bool,
    /// Write messages of the background process to this file; otherwise they go to the system's log.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Run as the process in the background.
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GrowArguments {
    /// The file that holds the file system, or the folder at which it is mounted. Programs that were started under `fs run` before
    /// then use the files of a mounted one through the kernel.
    #[arg(value_name = "FILE|FOLDER")]
    pub(crate) store: PathBuf,
    /// The new size of the file system; the disk must have room for all of it.
    #[arg(value_name = "SIZE", value_parser = bytes)]
    pub(crate) size: u64,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArguments {
    /// The file that holds the file system.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The format of standard output.
    #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
    pub(crate) format: FormatArgument,
}

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  pagewalk run -- sort words.txt
  pagewalk run --machine x86-64 --machine mosaic-4 --detail timed --out result -- sort words.txt
  pagewalk run --workload gups:table=256MiB,updates=8M --machine x86-64 --machine x86-64-thp
  pagewalk run --trace program.pwt --machine my-machine.toml --format json")]
pub(crate) struct RunArguments {
    /// A built-in machine's name, or a machine file; may be repeated. The first is the baseline.
    #[arg(long = "machine", value_name = "NAME|FILE", default_values = DEFAULT_MACHINES)]
    pub(crate) machines: Vec<OsString>,
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) how: HowArguments,
    /// The frames that pages have, if the trace says which they had: `given` uses those, with their page sizes, on machines that
    /// can; `own` lets every machine choose.
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = FramesArgument::Given)]
    pub(crate) frames: FramesArgument,
    /// The parts that are modelled: translation and paging only, or also caches, DRAM, cores and time.
    #[arg(long, value_enum, default_value_t = DetailArgument::Counts)]
    pub(crate) detail: DetailArgument,
    /// Also model instruction fetch in a run of counts, on machines with `[fetch]`: instruction TLBs, their walks, page faults of code. A
    /// timed run models it by itself. The source has to say which instructions are executed; machines take up to twice as long.
    #[arg(long)]
    pub(crate) fetch: bool,
    /// Begin to measure at this phase of the program; before it, only bring the program's pages in: see `pagewalk workloads` for
    /// phases.
    #[arg(long, value_name = "PHASE")]
    pub(crate) begin: Option<String>,
    /// Skip so much of the program, counted from there on: before it ends, only bring the program's pages in, and count nothing.
    /// `100M` are accesses; '100M instructions' are that.
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub(crate) skip: Option<Length>,
    /// Run so much of the program on the machines, counted from there on, and count nothing of it: TLBs, caches and the recency of
    /// pages are warm when measuring begins.
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub(crate) warm_up: Option<Length>,
    /// Stop after so many accesses (k, M, G), counted from there on; a live program is ended then.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub(crate) limit: Option<u64>,
    /// Stop after this time (500ms, 60s, 5min, 2h), with the result so far, marked as partial.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) time_limit: Option<Duration>,
    /// The seed of every random generator.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Write results.json, report.html and the machines as run into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The format of standard output.
    #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
    pub(crate) format: FormatArgument,
    /// Also measure the program's TLB miss curve: eight TLBs of 128 to 16,384 entries.
    #[arg(long)]
    pub(crate) reach: bool,
    /// The number of worker threads that the machines are divided among; results do not depend on it.
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: Option<usize>,
}

/// The frames that pages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FramesArgument {
    /// Those that the trace gives.
    Given,
    /// Those that the machine chooses.
    Own,
}

/// The comparison that a newcomer wants to see.
const DEFAULT_MACHINES: [&str; 4] = ["x86-64", "x86-64-thp", "mosaic-4", "mosaic-64"];

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct SourceArguments {
    /// A built-in workload: a name, a preset or name:key=value,... (see `pagewalk workloads`).
    #[arg(long, value_name = "SPEC")]
    pub(crate) workload: Option<String>,
    /// A trace: .pwt, ChampSim, CloudSuite, drmemtrace (a file or a folder), lackey, gem5 or pinatrace; compressed or not
    /// (.gz .xz .zst .bz2 .lz4 .sz); a file, a pipe, or - for standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Your program and its arguments, as you would type them, after `--`.
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    pub(crate) program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct HowArguments {
    /// The way in which a program is observed: unmodified; built with the call-out runtime; unmodified, of another instruction set,
    /// or with its threads in parallel (docs/capture.md).
    #[arg(long, value_enum, default_value_t = FrontendArgument::Valgrind)]
    pub(crate) frontend: FrontendArgument,
    /// An option for Valgrind itself, such as `--engine-option=--max-threads=9000`; may be given more than once.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub(crate) engine_option: Vec<OsString>,
    #[command(flatten)]
    pub(crate) read: ReadArguments,
}

/// The way in which a trace is read.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ReadArguments {
    /// The trace's format, if its name and content do not tell it.
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    input_format: Format,
    /// Include the kernel's instructions and accesses that the trace has; otherwise they are counted and left out.
    #[arg(long)]
    pub(crate) kernel: bool,
}

impl ReadArguments {
    pub(crate) fn options(self) -> ReadOptions {
        ReadOptions { format: self.input_format, kernel: self.kernel }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// The file to write.
    #[arg(short, long, value_name = "FILE.pwt", value_parser = recording())]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) how: HowArguments,
    /// Leave out which blocks of instructions the program or the workload executes: the file is smaller.
    #[arg(long)]
    pub(crate) no_blocks: bool,
    /// The seed of a workload's random generators.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Stop after so many accesses (k, M, G).
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub(crate) limit: Option<u64>,
    /// Stop after this time (500ms, 60s, 5min, 2h); the file then holds the events so far.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) time_limit: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArguments {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Read traces to their end and print what they hold.
    Info {
        /// The files; folders of drmemtrace, pipes, and - for standard input.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        read: ReadArguments,
        /// The format of standard output.
        #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
        format: FormatArgument,
    },
    /// Convert traces to .pwt files of the same name beside them, or in --out.
    Convert {
        /// The files; folders of drmemtrace, pipes, and - for standard input.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        read: ReadArguments,
        /// The file to write (for one input only).
        #[arg(short, long, value_name = "FILE.pwt", conflicts_with = "out", value_parser = recording())]
        output: Option<PathBuf>,
        /// The folder to write to.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct MachinesArguments {
    #[command(subcommand)]
    pub(crate) command: Option<MachinesCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachinesCommand {
    /// Print a machine with every value, where the value comes from, and its source.
    Show {
        /// A built-in machine's name, or a machine file.
        #[arg(value_name = "NAME|FILE")]
        machine: OsString,
    },
    /// Print this computer as a machine file: its TLBs, caches and memory, as processor and kernel describe them.
    #[command(after_help = "\
EXAMPLE:
  pagewalk machines detect > here.toml
  pagewalk run --machine here.toml --machine mosaic-4 -- sort words.txt")]
    Detect,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The computer should do nothing else meanwhile. The file begins with what it says of itself, `pagewalk machines detect`; each measured
value has its spread. What is measured while another thread has a part of the core does not count, as far as there is enough else. The
file names the values of which the two halves of the run differ by more than a tenth: they are not precise.

EXAMPLE:
  pagewalk calibrate -o here.toml
  pagewalk run --machine here.toml --detail timed -- sort words.txt")]
pub(crate) struct CalibrateArguments {
    /// The machine file to write, instead of standard output.
    #[arg(short, long, value_name = "FILE.toml")]
    pub(crate) output: Option<PathBuf>,
    /// The rounds over all measurements; each takes one to two seconds. On a busy host there are up to twice as many.
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
    /// The most memory to use, at least 8MiB; a quarter of what is free, and 1GiB, at most. Less than 512MiB measures caches in place
    /// of DRAM.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = bytes)]
    pub(crate) memory: u64,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each program runs here, between two short looks at the clock, the third cache, DRAM and the core's additions per cycle, and then on the
machine, with what the looks have shown in place of the machine's own. A run counts if the usable third cache moved by less than a
quarter between its looks, and no other thread took more than a fifth of the core. A program runs until --runs of its runs count, at
most eight times as often; if none counts, it is shown as void. The error of a ratio r is max(r, 1/r) - 1.

EXAMPLES:
  pagewalk calibrate -o here.toml
  pagewalk validate --machine here.toml
  pagewalk validate --machine here.toml --out results
  pagewalk validate --machine here.toml --ablate gzip quicksort chase-256
  pagewalk validate --machine here.toml -- sort words.txt")]
pub(crate) struct ValidateArguments {
    /// The names of programs; without any, all of them.
    #[arg(value_name = "PROGRAM", conflicts_with = "command")]
    pub(crate) programs: Vec<String>,
    /// Your own program and its arguments, after `--`; both run silently.
    #[arg(last = true, value_name = "COMMAND ARGS")]
    pub(crate) command: Vec<OsString>,
    /// The machine to judge, a file of `pagewalk calibrate` as a rule; without it, this computer is measured first, for 20 s or so.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<OsString>,
    /// Take the machine as it is, whatever clock, third cache, DRAM and page faults do meanwhile; every run counts.
    #[arg(long)]
    pub(crate) fixed: bool,
    /// Also show the errors without each ingredient of the core model.
    #[arg(long)]
    pub(crate) ablate: bool,
    /// Also run each program with huge pages for what it allocates (GLIBC_TUNABLES=glibc.malloc.hugetlb=1), here and on the machine, and
    /// show what they save of its time: here, the median of at least five pairs of runs.
    #[arg(long)]
    pub(crate) huge_pages: bool,
    /// The runs of each program on this computer that are to count; the shortest of them is compared.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,
    /// List the programs.
    #[arg(long)]
    pub(crate) list: bool,
    /// Write results.json and report.html into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The format of standard output.
    #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
    pub(crate) format: FormatArgument,
}

#[derive(Debug, Args)]
pub(crate) struct PaperArguments {
    /// The name of the paper; without it, the papers are listed.
    pub(crate) name: Option<String>,
    /// Run only the rows whose item begins with this text.
    pub(crate) item: Option<String>,
    /// Write results.json and report.html, with the paper's figures, into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The format of standard output.
    #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
    pub(crate) format: FormatArgument,
    /// The folder in which `make hardware` has left the circuit's figures.
    #[arg(long, value_name = "DIR", default_value = "target/hardware")]
    pub(crate) hardware: PathBuf,
    /// Leave out experiments that take many minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run small inputs instead of the published footprints, to see that everything works; the results are not judged.
    #[arg(long)]
    pub(crate) small: bool,
    /// The number of worker threads.
    #[arg(long, value_name = "COUNT")]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The program is an ELF file for a bare RV64IMAC machine: memory at 0x80000000, entry there, console and exit through the words
`tohost` and `fromhost`, a device tree in a1, the accelerator's registers at 0x10017000. Its exit code is the command's.

EXAMPLES:
  pagewalk riscv program.elf
  pagewalk riscv --stats --trace faults.txt program.elf
  pagewalk riscv --pfa-queues 256 --fetch-latency 4000 program.elf
  pagewalk riscv --record program.pwt program.elf && pagewalk run --trace program.pwt")]
pub(crate) struct RiscvArguments {
    /// The program to run, an ELF file.
    #[arg(value_name = "IMAGE.elf")]
    pub(crate) image: PathBuf,
    /// The size of the machine's memory; memory that the program does not touch takes none here.
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = bytes)]
    pub(crate) memory: u64,
    /// The capacity of the accelerator's queues: one number for all, or numbers for free frames, new pages and evictions.
    #[arg(long, value_name = "N|FREE,NEW,EVICT", default_value = "64", value_parser = depths)]
    pub(crate) pfa_queues: Depths,
    /// Leave out the accelerator: an access to a remote page is a page fault.
    #[arg(long)]
    pub(crate) no_pfa: bool,
    /// The place of remote pages: inproc, udp:HOST:PORT, eth:INTERFACE/ADDRESS or ring:FILE. With eth:INTERFACE the program sets
    /// the address.
    #[arg(long, value_name = "WHERE", default_value = "inproc", value_parser = OsStringValueParser::new().try_map(blade))]
    pub(crate) blade: Blade,
    /// The blade's key, if it has one.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Let remote memory in this process refuse pages that were never written, instead of giving zeroes.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Limit remote memory to so many pages.
    #[arg(long, value_name = "COUNT")]
    pub(crate) remote_pages: Option<u32>,
    /// The cycles that a fetch takes.
    #[arg(long, value_name = "CYCLES", default_value_t = 0)]
    pub(crate) fetch_latency: u64,
    /// The cycles that an eviction takes, in parallel with the program.
    #[arg(long, value_name = "CYCLES", default_value_t = 0)]
    pub(crate) evict_latency: u64,
    /// How the accessed and dirty bits are set: by the kernel, in page faults, or by the walker.
    #[arg(long = "ad", value_enum, default_value_t = MarkingArgument::Faults)]
    pub(crate) marking: MarkingArgument,
    /// The handling of a load or store whose address is not a multiple of its size: it is done, or it is a misaligned exception.
    #[arg(long, value_enum, default_value_t = MisalignedArgument::Native)]
    pub(crate) misaligned: MisalignedArgument,
    /// The address at which the program writes to the host, instead of the symbol `tohost`.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) tohost: Option<u64>,
    /// The address at which the host answers, instead of the symbol `fromhost`.
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) fromhost: Option<u64>,
    /// At the end write the memory between the symbols `begin_signature` and `end_signature` to this file, four bytes a line in
    /// hexadecimal, as RISCOF compares it.
    #[arg(long, value_name = "FILE")]
    pub(crate) signature: Option<PathBuf>,
    /// Write exceptions, page faults, fetches, device accesses and changes of entries to this file (- for standard error).
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Let the TLB keep entries that are not valid until SFENCE.VMA, as some cores do: this finds handlers that forget it.
    #[arg(long)]
    pub(crate) keep_invalid: bool,
    /// Let the program open the files of this folder, and nothing outside of it.
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Record the program's loads and stores in this trace file (.pwt), for `pagewalk run --trace`.
    #[arg(long, value_name = "FILE.pwt", value_parser = recording())]
    pub(crate) record: Option<PathBuf>,
    /// Print the counts of hart, TLBs, walker and accelerator on standard error.
    #[arg(long)]
    pub(crate) stats: bool,
    /// Stop after so many instructions (k, M, G).
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub(crate) limit: Option<u64>,
    /// The format of standard output: the program's own output, or one document with the counts.
    #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
    pub(crate) format: FormatArgument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MarkingArgument {
    Faults,
    Hardware,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MisalignedArgument {
    Native,
    Trap,
}

#[derive(Debug, Args)]
pub(crate) struct BladeArguments {
    #[command(subcommand)]
    pub(crate) command: BladeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BladeCommand {
    /// Serve pages until SIGINT or SIGTERM; then print what was done and refused.
    Serve(ServeArguments),
    /// Measure round trips of page reads.
    Ping(PingArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  pagewalk blade serve
  pagewalk blade serve --listen udp:127.0.0.1:0 --capacity 4GiB --store pages.blade --sync")]
pub(crate) struct ServeArguments {
    /// The endpoint to listen at: udp:ADDRESS:PORT, eth:INTERFACE or ring:FILE. With port 0 the system chooses the port, which is
    /// printed on standard error.
    #[arg(long, value_name = "WHERE", default_value = "udp:127.0.0.1:7400", value_parser = endpoint())]
    pub(crate) listen: Endpoint,
    /// The most bytes that may be stored, under any page numbers of 28 bits; memory is taken only for pages that were written.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = pages)]
    pub(crate) capacity: u64,
    /// The most bytes that one machine may write.
    #[arg(long, value_name = "SIZE", value_parser = pages)]
    pub(crate) quota: Option<u64>,
    /// The number of clients that the blade remembers.
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) clients: u32,
    /// Refuse to read pages that were never written, which are all zeroes otherwise.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Keep the pages in this file, which is created if it does not exist: they outlive the process.
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// Answer a change only when it is on the disk: pages outlive a power failure as well.
    #[arg(long, requires = "store")]
    pub(crate) sync: bool,
    /// Serve only clients that have this key, a file of 32 bytes, and encrypt the messages with it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The format of standard output at the end.
    #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
    pub(crate) format: FormatArgument,
}

#[derive(Debug, Args)]
pub(crate) struct PingArguments {
    /// The endpoint at which the blade listens: udp:HOST:PORT, eth:INTERFACE/ADDRESS, eth:INTERFACE for the first blade that
    /// answers, or ring:FILE.
    #[arg(long, value_name = "WHERE", default_value = "udp:127.0.0.1:7400", value_parser = endpoint())]
    pub(crate) blade: Endpoint,
    /// The blade's key, if it has one.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The number of page reads, one after the other.
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = count)]
    pub(crate) count: u64,
    /// The format of standard output.
    #[arg(long, value_enum, default_value_t = FormatArgument::Table)]
    pub(crate) format: FormatArgument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetailArgument {
    Counts,
    Timed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArgument {
    Table,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FrontendArgument {
    Valgrind,
    Callout,
    Qemu,
}

/// Reads a count: digits, and k, M or G for thousands, millions or thousand millions.
fn count(text: &str) -> Result<u64, String> {
    let (digits, scale) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    number.filter(|&number| number > 0).ok_or_else(|| {
        "a count is a whole number above 0, with k, M or G for thousands, millions or thousand millions: 250k, 100M"
            .to_owned()
    })
}

/// Reads a length of a program: a count, of accesses if it does not say that it is of instructions.
fn length(text: &str) -> Result<Length, String> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, "accesses"));
    let of_unit = match unit {
        "accesses" => Length::Accesses,
        "instructions" => Length::Instructions,
        _ => {
            return Err(
                "a length is a count of accesses or instructions: 100M, '100M instructions'".to_owned()
            );
        }
    };
    count(number).map(of_unit)
}

/// Returns the parser of a file that will be a recording. Its index is written last and read first, so it cannot go to a pipe.
fn recording() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|name| match name.as_encoded_bytes() {
        b"-" => Err("a .pwt file cannot go to standard output; name a file (./- for one with this name)"),
        _ => Ok(PathBuf::from(name)),
    })
}

/// Reads a time: 500ms, 60s, 5min, 2h.
fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let scale_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let milliseconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale_ms));
    milliseconds.filter(|&number| number > 0).map(Duration::from_millis).ok_or_else(|| {
        "a time is a whole number above 0 with its unit, ms, s, min or h: 500ms, 60s, 5min, 2h".to_owned()
    })
}

/// Reads a size: 4KiB, 1.5GiB.
fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

/// A blade elsewhere, or none: remote memory is in this process.
pub(crate) type Blade = Option<Endpoint>;

fn blade(text: OsString) -> Result<Blade, String> {
    if text == "inproc" { Ok(None) } else { Endpoint::parse(&text).map(Some) }
}

/// Reads an endpoint, whose file need not be UTF-8.
fn endpoint() -> impl TypedValueParser<Value = Endpoint> {
    OsStringValueParser::new().try_map(|text| Endpoint::parse(&text))
}

/// Reads an address: hexadecimal behind 0x, or decimal.
fn address(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "an address such as 0x80001000".to_owned())
}

/// Depths of the accelerator's queues.
fn depths(text: &str) -> Result<Depths, String> {
    let numbers: Option<Vec<usize>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    if let Some(wrong) = numbers.iter().flatten().find(|depth| !(1..=1 << 16).contains(*depth)) {
        return Err(format!("a queue holds 1 to 65536, not {wrong}"));
    }
    match numbers.as_deref() {
        Some(&[all]) => Ok(Depths { free: all, new: all, evict: all }),
        Some(&[free, new, evict]) => Ok(Depths { free, new, evict }),
        _ => Err("one number, or three: free frames, new pages, evictions".to_owned()),
    }
}

/// Reads a size in whole pages of 4 KiB.
fn pages(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    let page = pagewalk_blade::codec::PAGE_BYTES as u64;
    if bytes > 0 && bytes.is_multiple_of(page) {
        Ok(bytes / page)
    } else {
        Err(format!("{bytes} bytes are not a whole number of 4KiB pages above 0"))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_are_whole_pages() {
        assert_eq!(pages("1GiB"), Ok(1 << 18));
        for wrong in ["0B", "1B", "6KiB", "1GB", ""] {
            assert!(pages(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!([duration("5min"), duration("2h")], [300, 7_200].map(|s| Ok(Duration::from_secs(s))));
        for wrong in ["", "60", "0s", "s", "1.5s", "-1s", "1 s", "60S", "99999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_have_decimal_suffixes() {
        assert_eq!(count("100M"), Ok(100_000_000));
        assert_eq!(count("17"), Ok(17));
        for wrong in ["", "0", "1.5M", "10m", "k", "99999999999G", "-3"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
