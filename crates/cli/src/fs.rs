//! `pagewalk fs`: a file system whose index is the page table, made, mounted, checked, shown and measured.

mod bench;
mod daemon;
mod grow;
pub(crate) mod helper;
mod make;
mod target;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use pagewalk_ctfs::{
    Clock, FileSystem, Mapped, MountRules, Overwrites, Survives, check, coarse_now, mount, partition_counts,
    repair,
};
use pagewalk_vm::addr::PAGE_BYTES;
use pagewalk_vm::file::{Level, Recovered, damaged_superblocks};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::daemon::Background;
use crate::args::{FormatArgument, FsArguments, FsCommand, InfoArguments, MountArguments};
use crate::ending::is_ignored;
use crate::exit::Done;
use crate::outputs::Files;
use crate::run::print;
use crate::say::{complain, note};

/// The time between two reports of work that takes long.
const SAY: Duration = Duration::from_secs(5);
/// Parts of the addresses that hold a file of more than 64 GiB, or smaller ones.
const MOST_LARGEST: u64 = 511;
/// The time that a mount in the background waits for the store of another one that may be about to end.
const MOST_WAIT: Duration = Duration::from_secs(5);
/// The time between two looks of a mount whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the command `fs`.
pub(crate) fn fs(arguments: &FsArguments) -> anyhow::Result<Done> {
    match &arguments.command {
        FsCommand::Mkfs(arguments) => make::mkfs(arguments),
        FsCommand::Mount(arguments) => mount_file(arguments),
        FsCommand::Grow(arguments) => grow::grow(arguments),
        FsCommand::Run { command } => run_beside(command),
        FsCommand::Fsck { repair: false, file } => fsck(file),
        FsCommand::Fsck { repair: true, file } => repair_file(file),
        FsCommand::Info(arguments) => info(arguments),
        FsCommand::Bench(arguments) => bench::bench(arguments),
    }
}

fn clock() -> Clock {
    coarse_now
}

/// Mounts the file system of a memory, and says what a crash had left.
fn recovered(file: &Path, memory: std::io::Result<Mapped>) -> anyhow::Result<FileSystem<Mapped>> {
    let memory = memory.map_err(|error| cannot_open(file, error))?;
    let mounted = FileSystem::mount(memory, clock());
    let (system, recovered) = mounted.with_context(|| file.display().to_string())?;
    let how = if system.is_read_only() { ", in memory alone" } else { "" };
    match recovered {
        Recovered::Nothing => {}
        Recovered::Applied(words) => {
            note!("{}: {words} words of its log were applied{how}", file.display());
        }
        Recovered::Restored(pages) => note!(
            "{}: its power failed; {pages} pages are what they were at the last checkpoint{how}",
            file.display()
        ),
    }
    Ok(system)
}

fn cannot_open(file: &Path, error: std::io::Error) -> anyhow::Error {
    let may_be_read = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
        && std::fs::File::open(file).is_ok();
    let help =
        if may_be_read { "; it can be read: `--read-only` mounts it without writing to it" } else { "" };
    anyhow::Error::new(error).context(format!("cannot open {}{help}", file.display()))
}

fn mount_file(arguments: &MountArguments) -> anyhow::Result<Done> {
    let MountArguments { file, folder, power_failure, no_sync, dax, read_only, strict, .. } = arguments;
    anyhow::ensure!(
        arguments.log.is_none() || arguments.daemon || arguments.detached,
        "--log is for a mount in the background: --daemon"
    );
    arguments.log.iter().try_fold(Files::default().reads([file]), Files::writes)?;
    if arguments.daemon {
        return daemon::start(arguments);
    }
    let background = arguments.detached.then(|| Background::enter(arguments)).transpose()?;
    let survives = match (power_failure, no_sync, dax) {
        (true, ..) => Survives::PowerFailure,
        (_, true, _) => Survives::ProcessCrash,
        (.., true) => Survives::PowerFailureOfDax,
        _ => Survives::usual(file).with_context(|| format!("cannot open {}", file.display()))?,
    };
    // Before this process opens the store: it would have to end the store again.
    check_mount_point(folder)?;
    let open = || if *read_only { Mapped::open_read_only(file) } else { Mapped::open(file, survives) };
    // `umount` does not wait for the process that it takes a mount from, and scripts mount again at once.
    let until = Instant::now() + if arguments.detached { MOST_WAIT } else { Duration::ZERO };
    let mut memory = open();
    while memory.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
        && Instant::now() < until
    {
        std::thread::sleep(LOOK);
        memory = open();
    }
    let mut system = recovered(file, memory)?;
    if *strict {
        system.set_overwrites(Overwrites::Whole);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal)) {
        // The second one ends the process at once, and its mount as a crash does.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .context("cannot watch for signals")?;
    }
    let mut rules = MountRules::default();
    rules.allow_other = arguments.allow_other;
    rules.no_suid = arguments.no_suid;
    rules.no_dev = arguments.no_dev;
    rules.no_exec = arguments.no_exec;
    rules.write_back = arguments.write_back;
    let session = mount(system, folder, &file.display().to_string(), rules).with_context(|| {
        let may_lack = !rustix::process::geteuid().is_root() && !is_in_path("fusermount3");
        let why = if may_lack { ": users other than root need fusermount3 (Debian: fuse3)" } else { "" };
        format!("cannot mount at {}{why}", folder.display())
    })?;
    if let Some(background) = background {
        background.tell_ready()?;
    }
    daemon::notify("READY=1").context("cannot tell the service manager")?;
    let what = if arguments.write_back { "what was written and closed" } else { "what was written" };
    let promise = match survives {
        _ if *read_only => "nothing is written to it".to_owned(),
        Survives::ProcessCrash => format!("{what} survives the end of this process, but no power failure"),
        Survives::Synced => format!(
            "{what} survives the end of this process, and power failures from the next `fsync` on, or five seconds"
        ),
        Survives::PowerFailure | Survives::PowerFailureOfDax => format!("{what} survives power failures"),
    };
    note!("mounted {} at {}; {promise}", file.display(), folder.display());
    let mut failure = None;
    while !stop.load(Ordering::Relaxed) && !session.is_finished() {
        std::thread::sleep(LOOK);
        if failure.is_none() {
            failure = session.failure();
            if let Some(failure) = failure {
                complain!("{}: {failure}; all operations fail until it is mounted again", file.display());
            }
        }
    }
    if !session.is_finished()
        && session.detach().with_context(|| format!("cannot unmount {}", folder.display()))?
    {
        note!(
            "{} is unmounted; its open files are served until they are closed, a second signal ends that",
            folder.display()
        );
        while !session.is_finished() {
            std::thread::sleep(LOOK);
        }
    }
    session.end().with_context(|| format!("{} failed", folder.display()))?;
    Ok(Done::Well)
}

/// Looks at what the kernel would refuse later, or not at all, with a message that says less.
fn check_mount_point(folder: &Path) -> anyhow::Result<()> {
    let device = Path::new("/dev/fuse");
    anyhow::ensure!(
        device.exists(),
        "there is no /dev/fuse: load the kernel's module fuse, or give the container the device"
    );
    // The kernel may still know a dead mount's attributes, but not how much room it has.
    let asked = rustix::fs::statfs(folder).map_err(std::io::Error::from);
    match asked.and_then(|_| std::fs::metadata(folder)) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => anyhow::bail!("cannot mount at {}: it is not a folder", folder.display()),
        Err(error) if error.kind() == ErrorKind::NotConnected => anyhow::bail!(
            "cannot mount at {0}: a mount is there whose process has ended; `umount {0}` removes it",
            folder.display()
        ),
        Err(error) => Err(error).with_context(|| format!("cannot mount at {}", folder.display())),
    }
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The name of the library that is preloaded into programs.
const SHIM: &str = "libpagewalk_ctfs_shim.so";

/// Looks where the front-ends for capture are looked for, and beside the executable.
fn shim() -> anyhow::Result<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os("PAGEWALK_LIB").map(PathBuf::from).into_iter().collect();
    let executable = std::env::current_exe().context("where is the executable?")?;
    if let Some(folder) = executable.parent() {
        folders.extend(["", "../lib/pagewalk", "..", "../pagewalk"].map(|way| folder.join(way)));
    }
    let found = folders.iter().map(|folder| folder.join(SHIM)).find(|file| file.is_file());
    let found = found.with_context(|| {
        let looked: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!("no {SHIM} in {}; `make build` makes it", looked.join(", "))
    })?;
    found.canonicalize().with_context(|| found.display().to_string())
}

/// Options of the address sanitizer.
const SANITIZER: &str = "ASAN_OPTIONS";

/// Returns the options with which the sanitizer's library need not be the first one; without them it ends the program if it is not.
/// What is preloaded calls it as programs do.
fn sanitizer_options() -> OsString {
    let mut options = std::env::var_os(SANITIZER).unwrap_or_default();
    if !options.is_empty() {
        options.push(":");
    }
    options.push("verify_asan_link_order=0");
    options
}

fn run_beside(command: &[OsString]) -> anyhow::Result<Done> {
    let (program, arguments) = command.split_first().context("no program")?;
    let mut preloaded = shim()?.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preloaded.push(":");
        preloaded.push(others);
    }
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", preloaded).env(SANITIZER, sanitizer_options());
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", program.to_string_lossy()))
}

fn fsck(file: &Path) -> anyhow::Result<Done> {
    let memory = Mapped::open_read_only(file).with_context(|| format!("cannot open {}", file.display()))?;
    // Before the store is opened, which writes both again.
    let superblocks = damaged_superblocks(&memory).with_context(|| file.display().to_string())?;
    let damaged: Vec<String> = superblocks.into_iter().map(|name| format!("{name} is damaged")).collect();
    let (system, recovered) =
        FileSystem::mount_unchecked(memory, clock()).with_context(|| file.display().to_string())?;
    match recovered {
        Recovered::Nothing => {}
        Recovered::Applied(words) => {
            print(&format!("{words} words of its log are to be applied when it is mounted\n"))?;
        }
        Recovered::Restored(pages) => print(&format!(
            "its power failed: {pages} pages are to be what they were at the last checkpoint when it is mounted\n"
        ))?,
    }
    is_sound(&system, damaged, file)
}

/// Returns whether the file was there while it was looked at: what was found means nothing otherwise.
fn was_there(system: &FileSystem<Mapped>, file: &Path) -> anyhow::Result<()> {
    match system.store().memory().failure() {
        Some(failure) => Err(failure).with_context(|| file.display().to_string()),
        None => Ok(()),
    }
}

fn repair_file(file: &Path) -> anyhow::Result<Done> {
    let memory = Mapped::open(file, Survives::PowerFailure)
        .with_context(|| format!("cannot open {}", file.display()))?;
    let (system, said) = repair(memory, clock()).with_context(|| file.display().to_string())?;
    for line in said {
        print(&format!("{line}\n"))?;
    }
    is_sound(&system, Vec::new(), file)
}

/// Says what is wrong with a file system, beside what was found before it was opened.
fn is_sound(system: &FileSystem<Mapped>, found: Vec<String>, file: &Path) -> anyhow::Result<Done> {
    let mut problems = found;
    problems.extend(check(system));
    was_there(system, file)?;
    for problem in &problems {
        print(&format!("{problem}\n"))?;
    }
    let counts = system.space();
    match problems.len() {
        0 => {
            print(&format!("sound: {} inodes, {} frames free\n", counts.used_inodes, counts.free))?;
            Ok(Done::Well)
        }
        some => {
            complain!("{}: {some} problems", file.display());
            Ok(Done::GateFailed)
        }
    }
}

fn info(arguments: &InfoArguments) -> anyhow::Result<Done> {
    let file = &arguments.file;
    let memory = Mapped::open_read_only(file).with_context(|| format!("cannot open {}", file.display()))?;
    let (system, _) = FileSystem::mount(memory, clock()).with_context(|| file.display().to_string())?;
    let (space, counts) = (system.space(), partition_counts(&system));
    was_there(&system, file)?;
    let taken: u64 =
        counts.iter().filter(|(level, ..)| *level == Level::L9).map(|(_, files, cut)| files + cut).sum();
    let largest_left = MOST_LARGEST.saturating_sub(taken);
    if arguments.format == FormatArgument::Json {
        let levels: Vec<_> = counts
            .iter()
            .map(|(level, allocated, cut)| {
                serde_json::json!({ "level": level.number(), "bytes": level.bytes(), "allocated": allocated, "cut": cut })
            })
            .collect();
        let document = serde_json::json!({
            "schema": 1,
            "store": file.display().to_string(),
            "bytes": space.frames * PAGE_BYTES,
            "free_bytes": space.free * PAGE_BYTES,
            "inodes": space.used_inodes,
            "partitions": levels,
            "piece_bytes": PAGE_BYTES,
            "largest_files_left": largest_left,
        });
        print(&format!("{document:#}\n"))?;
        return Ok(Done::Well);
    }
    let used = space.frames - space.free;
    let mut text = format!(
        "{} bytes, {} free; {} inodes\n[{}]\n\nlevel       size   files     cut\n",
        space.frames * PAGE_BYTES,
        space.free * PAGE_BYTES,
        space.used_inodes,
        bar(used, space.frames)
    );
    let most = counts.iter().map(|&(_, allocated, _)| allocated).max().unwrap_or(0);
    for (level, allocated, cut) in counts.iter().rev() {
        let _ = writeln!(
            text,
            "L{}    {:>8} {allocated:>7} {cut:>7}  {}",
            level.number(),
            size(level.bytes()),
            bar(*allocated, most).trim_end_matches('.')
        );
    }
    let _ = write!(
        text,
        "\nA file takes\n  up to 256 KiB   its bytes, in pieces of 4 KiB\n  more            the same, and a table of 4 KiB for each 2 MiB that \
         lie in such pieces\n  addresses       a part of the smallest level that holds it, holes included: {largest_left} more files of \
         more than 64 GiB\n"
    );
    print(&text)?;
    Ok(Done::Well)
}

/// Returns a part of a whole as forty characters.
fn bar(part: u64, whole: u64) -> String {
    let filled = (part * 40).checked_div(whole).unwrap_or(0) as usize;
    format!(
        "{}{}",
        "#".repeat(filled.max(usize::from(part > 0))),
        ".".repeat(40 - filled.max(usize::from(part > 0)))
    )
}

fn size(bytes: u64) -> String {
    let (shift, unit) =
        [(30, "GiB"), (20, "MiB")].into_iter().find(|(shift, _)| bytes >> shift > 0).unwrap_or((10, "KiB"));
    format!("{} {unit}", bytes >> shift)
}
