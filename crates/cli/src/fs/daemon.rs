//! A mount that goes on in the background: `fs mount --daemon`, and what tells a service manager that a mount is ready.
//!
//! The command starts itself once more, in a session of its own, and waits for one word on that process's standard output. Until then the
//! other process says on the same terminal why it fails; from then on what it says goes to the log.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::args::MountArguments;
use crate::exit::Done;

/// The message of the process in the background when the file system is mounted.
const READY: &str = "ready\n";

/// Starts the process in the background; answers when the file system is mounted, or is not going to be.
pub(super) fn start(arguments: &MountArguments) -> anyhow::Result<Done> {
    let program = std::env::current_exe().context("where is the executable?")?;
    let mut command = Command::new(program);
    command.args(["fs", "mount", "--detached"]).args(words(arguments));
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut process = started.context("cannot start the process in the background")?;
    let mut said = String::new();
    process.stdout.take().expect("piped").read_to_string(&mut said).context("cannot wait for it")?;
    if said == READY {
        return Ok(Done::Well);
    }
    // It has said why.
    let status = process.wait().context("cannot wait for it")?;
    match status.code() {
        Some(code) => Ok(Done::Program(code.clamp(1, 255) as u8)),
        None => {
            anyhow::bail!("the process in the background ended by signal {}", status.signal().unwrap_or(0))
        }
    }
}

/// Returns the command line that says the same.
fn words(arguments: &MountArguments) -> Vec<OsString> {
    let MountArguments { file, folder, log, daemon: _, detached: _, .. } = arguments;
    let flags = [
        (arguments.power_failure, "--power-failure"),
        (arguments.no_sync, "--no-sync"),
        (arguments.dax, "--dax"),
        (arguments.read_only, "--read-only"),
        (arguments.strict, "--strict"),
        (arguments.write_back, "--write-back"),
        (arguments.allow_other, "--allow-other"),
        (arguments.no_suid, "--no-suid"),
        (arguments.no_dev, "--no-dev"),
        (arguments.no_exec, "--no-exec"),
    ];
    let flags = flags.into_iter().filter(|(is_on, _)| *is_on).map(|(_, flag)| flag.into());
    let log = log.iter().flat_map(|log| ["--log".into(), log.clone().into_os_string()]);
    let places = ["--".into(), file.clone().into_os_string(), folder.clone().into_os_string()];
    flags.chain(log).chain(places).collect()
}

/// The state that a process in the background needs once it has mounted its file system.
#[derive(Debug)]
pub(super) struct Background {
    log: OwnedFd,
    nothing: File,
}

impl Background {
    /// Leaves the session of the terminal, and opens the log: a file, or the system's by `logger`.
    pub(super) fn enter(arguments: &MountArguments) -> anyhow::Result<Self> {
        // A process that already leads a process group, as when a shell has started it alone, stays in its session.
        let _ = rustix::process::setsid();
        let log = match &arguments.log {
            Some(path) => {
                let file = File::options().append(true).create(true).open(path);
                file.with_context(|| format!("cannot open the log {}", path.display()))?.into()
            }
            None => to_system_log()
                .or_else(|_| File::options().write(true).open("/dev/null").map(OwnedFd::from))?,
        };
        let nothing =
            File::options().read(true).write(true).open("/dev/null").context("cannot open /dev/null")?;
        Ok(Self { log, nothing })
    }

    /// Tells the process that waits, and leaves its terminal and its folder.
    pub(super) fn tell_ready(self) -> anyhow::Result<()> {
        rustix::stdio::dup2_stderr(&self.log)?;
        let mut output = io::stdout();
        let told = output.write_all(READY.as_bytes()).and_then(|()| output.flush());
        rustix::stdio::dup2_stdout(&self.nothing)?;
        // Its file system is not to be kept busy.
        std::env::set_current_dir("/")?;
        told.context("the process that started this one is gone")
    }
}

fn to_system_log() -> io::Result<OwnedFd> {
    let mut logger = Command::new("logger");
    logger.args(["--tag", "pagewalk", "--priority", "daemon.info"]);
    let logger = logger.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(logger.stdin.expect("piped").into())
}

/// Tells the service manager that has started this process, if it waits for that, as sd_notify(3) says.
pub(super) fn notify(state: &str) -> io::Result<()> {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}
