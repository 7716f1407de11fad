//! The parts that the tests of blades share: the command, blades that end with their test, a cable between two networks.

#[path = "../../../riscv/tests/common/mod.rs"]
mod programs;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use pagewalk_blade::codec::MacAddress;
use pagewalk_blade::{Client, ClientDesign, Endpoint, Open, Transport};

pub(crate) type AnyClient = Client<Box<dyn Transport + Send>>;

/// The folder of the programs of `examples/riscv`; `None`, with the reason printed, where they cannot be built.
pub(crate) fn built() -> Option<&'static Path> {
    programs::built()
}

/// The command, with nothing to read.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
    command.stdin(Stdio::null());
    command
}

pub(crate) fn pagewalk(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("the command starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Sends a signal as the shell does, by the process' number.
pub(crate) fn signal(process: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.id().to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Returns an address on loopback that no other process has: a port that a blade leaves is not given to another that would
/// answer for it.
pub(crate) fn loopback() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    let number = 1 + LAST.fetch_add(1, Ordering::Relaxed) % 254;
    format!("udp:127.{}.{}.{number}:0", process >> 8 & 0xff, process & 0xff)
}

/// A blade that runs, and is ended with the test.
pub(crate) struct Blade {
    process: Child,
    /// Open for as long as it may say something.
    #[allow(dead_code, reason = "it is held, not read")]
    stderr: BufReader<ChildStderr>,
    pub(crate) at: String,
    arguments: Vec<String>,
}

impl Blade {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_at(&loopback(), arguments)
    }

    pub(crate) fn start_at(listen: &str, arguments: &[&str]) -> Self {
        Self::start_with(command(), listen, arguments)
    }

    /// With the command as it is to be run.
    pub(crate) fn start_with(mut command: Command, listen: &str, arguments: &[&str]) -> Self {
        let mut process = command
            .args(["blade", "serve", "--listen", listen])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        let mut stderr = BufReader::new(process.stderr.take().expect("piped"));
        stderr.read_line(&mut line).expect("a line");
        let at = line.trim_end().split(" at ").nth(1).unwrap_or_else(|| panic!("{line}")).to_owned();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { process, stderr, at, arguments }
    }

    pub(crate) fn client(&self, design: ClientDesign) -> AnyClient {
        let Open { transport, blade } =
            self.at.parse::<Endpoint>().expect("an address").connect(None).expect("a socket");
        Client::new(transport, blade, design).expect("a client")
    }

    /// As by `kill -9`; returns when it is gone.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Kills it, and starts it again at the same place with the same arguments.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        *self = Self::start_at(&self.at, &arguments);
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.process, name);
    }

    /// Tells it to end; what it printed.
    pub(crate) fn end(mut self) -> String {
        self.signal("TERM");
        let mut text = String::new();
        self.process.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        assert!(self.process.wait().expect("it ends").success());
        text
    }
}

impl Drop for Blade {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two networks, each in a namespace of its own, and a cable between them. The namespaces have no names and live as long as a
/// process in each, which ends when this is dropped or the test is, in whatever way.
pub(crate) struct Cable {
    ends: [Child; 2],
}

impl Cable {
    pub(crate) const CARDS: [MacAddress; 2] =
        [MacAddress([2, 0, 0, 0, 0, 2]), MacAddress([2, 0, 0, 0, 0, 3])];
    /// The interface at either end.
    pub(crate) const INTERFACE: &str = "cable";

    /// `None`, with the reason printed, where this cannot be made.
    pub(crate) fn new() -> Option<Self> {
        Self::make().inspect_err(|reason| println!("skipped: no network namespaces: {reason}")).ok()
    }

    fn make() -> Result<Self, String> {
        let cable = Self { ends: [namespace()?, namespace()?] };
        let [a, b] = Self::CARDS;
        let name = Self::INTERFACE;
        let other = cable.ends[1].id();
        let link =
            format!("link add {name} address {a} type veth peer name {name} address {b} netns {other}");
        cable.ip(0, &link)?;
        cable.switch(0, "up")?;
        cable.switch(1, "up")?;
        Ok(cable)
    }

    fn ip(&self, end: usize, arguments: &str) -> Result<(), String> {
        let output = self.within(end, "ip").args(arguments.split(' ')).output();
        let output = output.map_err(|error| format!("nsenter cannot be run: {error}"))?;
        if output.status.success() { Ok(()) } else { Err(text(&output.stderr).trim().to_owned()) }
    }

    /// Sets an end's interface `up` or `down`.
    pub(crate) fn switch(&self, end: usize, how: &str) -> Result<(), String> {
        self.ip(end, &format!("link set {} {how}", Self::INTERFACE))
    }

    fn within(&self, end: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([&format!("--net=/proc/{}/ns/net", self.ends[end].id()), "--", program]);
        command.stdin(Stdio::null());
        command
    }

    /// The command at an end. nsenter becomes it, so that the process is the command's.
    pub(crate) fn command(&self, end: usize) -> Command {
        self.within(end, env!("CARGO_BIN_EXE_pagewalk"))
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in &mut self.ends {
            let _ = end.kill();
            let _ = end.wait();
        }
    }
}

/// A process in a network namespace of its own, which ends with its standard input.
fn namespace() -> Result<Child, String> {
    let mut process = Command::new("unshare")
        .args(["--net", "sh", "-c", "echo made; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("unshare cannot be run: {error}"))?;
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    if line.is_empty() {
        let output = process.wait_with_output().expect("it ended");
        return Err(text(&output.stderr).trim().to_owned());
    }
    Ok(process)
}
