//! The place in which a command is tried: its inputs, a folder for its outputs, and what is looked at afterwards.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No command of the matrix takes so long, on a busy machine and with the grace time of an observed program included.
const MOST: Duration = Duration::from_secs(60);
/// The variable by which all processes of one try are found.
const MARK: &str = "PAGEWALK_ENDS_MARK";

pub(crate) const PAGEWALK: &str = env!("CARGO_BIN_EXE_pagewalk");

/// Inputs and outputs of tries, in a folder that goes with the test.
pub(crate) struct World {
    _folder: tempfile::TempDir,
    base: PathBuf,
    /// More variables of every try's environment.
    variables: Vec<(OsString, OsString)>,
    /// A blade that `blade ping` can measure.
    blade: Option<Child>,
}

impl World {
    /// One whose folder, and so every path in it, is called by these bytes.
    pub(crate) fn new(name: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().join(OsStr::from_bytes(name));
        fs::create_dir(&base).expect("a folder");
        let world = Self { _folder: folder, base, variables: Vec::new(), blade: None };
        for part in ["in", "out", "mount"] {
            fs::create_dir(world.path(part)).expect("a folder");
        }
        let lines: String = (0..60_000).map(|n| format!(" L {:x},8\n S {:x},4\n", n * 64, n * 128)).collect();
        // A line and a half too few.
        fs::write(world.path("in/cut.lackey"), &lines[..lines.len() - 20]).expect("written");
        fs::write(world.path("in/t.lackey"), lines).expect("written");
        fs::write(world.path("in/m.toml"), "name = \"m\"\nextends = \"x86-64\"\n").expect("written");
        fs::write(world.path("in/key"), [7; 32]).expect("written");
        fs::set_permissions(world.path("in/key"), fs::Permissions::from_mode(0o600)).expect("set");
        fs::write(world.path("in/loop.elf"), riscv_elf(&RISCV_LOOP)).expect("written");
        let make = |arguments: &[&str], file: &str| {
            let made = Command::new(PAGEWALK).args(arguments).arg(world.path(file)).output();
            assert!(made.expect("it starts").status.success(), "{arguments:?}");
        };
        make(&["record", "--workload", "gups:table=1MiB,updates=20k", "-o"], "in/t.pwt");
        make(&["fs", "mkfs", "--size", "4MiB"], "in/s.ctfs");
        make(&["fs", "mkfs", "--size", "4MiB"], "in/old.ctfs");
        world
    }

    /// Sets a variable of every try.
    pub(crate) fn with(mut self, name: &[u8], value: &[u8]) -> Self {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        self.variables.push((text(name), text(value)));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Where a blade answers, which is started for the first try that asks.
    pub(crate) fn blade(&mut self) -> OsString {
        let ring = self.path("ring");
        let mut name = OsString::from("ring:");
        name.push(&ring);
        if self.blade.is_none() {
            let mut blade = Command::new(PAGEWALK);
            blade.args(["blade", "serve", "--capacity", "64KiB", "--listen"]).arg(&name);
            let blade = blade.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            self.blade = Some(blade);
            let begun = Instant::now();
            while !ring.exists() && begun.elapsed() < MOST {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        name
    }

    /// Empties the folder of outputs.
    pub(crate) fn clear(&self) {
        let out = self.path("out");
        fs::remove_dir_all(&out).expect("removed");
        fs::create_dir(out).expect("a folder");
    }

    /// Starts `program` with everything that a try needs.
    pub(crate) fn start(&self, mut command: Command, stdio: [Stdio; 3]) -> Try {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let [stdin, stdout, stderr] = stdio;
        command.env(MARK, &mark).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let mut process = command.spawn().expect("it starts");
        let stdout = process.stdout.take().map(read);
        let stderr = process.stderr.take().map(read);
        Try { process, mark, stdout, stderr, begun: Instant::now() }
    }

    /// The folder of outputs holds whole files only.
    pub(crate) fn holds_whole_files(&self, what: &str) {
        let mut folders = vec![self.path("out")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    assert!(is_whole(&path), "{what}: {} is not whole", path.display());
                }
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(blade) = &mut self.blade {
            let _ = blade.kill();
            let _ = blade.wait();
        }
        let _ = Command::new("umount").arg("-l").arg(self.path("mount")).stderr(Stdio::null()).status();
    }
}

/// A file of a kind that commands write, readable to its end. Any other kind is one that was to be removed.
fn is_whole(path: &Path) -> bool {
    let reads = |arguments: &[&str]| {
        Command::new(PAGEWALK).args(arguments).arg(path).output().expect("it starts").status.success()
    };
    let name = path.file_name().expect("a name").as_bytes();
    let content = || fs::read(path).expect("read");
    match name.rsplit(|&byte| byte == b'.').next() {
        _ if name.starts_with(b".") => false,
        Some(b"json") => serde_json::from_slice::<serde_json::Value>(&content()).is_ok(),
        Some(b"html") => content().trim_ascii_end().ends_with(b"</html>"),
        Some(b"pwt") => reads(&["trace", "info"]),
        Some(b"ctfs") => reads(&["fs", "fsck"]),
        Some(b"toml") => reads(&["machines", "show"]),
        Some(b"pages" | b"ring") => true,
        _ if name == b"notes" => content().is_empty() || content().ends_with(b"\n"),
        _ => false,
    }
}

/// A running command.
pub(crate) struct Try {
    process: Child,
    mark: String,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    begun: Instant,
}

/// What came of one.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Try {
    pub(crate) fn signal(&self, signal: &str) {
        // It may have ended already.
        let _ = Command::new("kill")
            .args([&format!("-{signal}"), &self.process.id().to_string()])
            .stderr(Stdio::null())
            .status();
    }

    /// Waits for the end, and demands that it was an orderly one.
    pub(crate) fn end(mut self, what: &str) -> Ended {
        while self.process.try_wait().expect("a child").is_none() {
            if self.begun.elapsed() > MOST {
                self.process.kill().expect("killed");
                panic!("{what}: it does not end");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let took = self.begun.elapsed();
        let status = self.process.wait().expect("a child");
        // What it started ends a moment later at most: SIGKILL takes its time.
        let orphans = || marked(&self.mark);
        while !orphans().is_empty() && self.begun.elapsed() < took + Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let orphans = orphans();
        assert!(orphans.is_empty(), "{what}: it left {orphans:?} behind");
        let [stdout, stderr] =
            [self.stdout, self.stderr].map(|read| read.map_or(Vec::new(), |read| read.join().expect("read")));
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        let is_orderly =
            !matches!(status.code(), Some(101 | 134)) && !matches!(status.signal(), Some(4..=11));
        assert!(is_orderly && !stderr.contains("panicked"), "{what}: {status}: {stderr}");
        Ended { status, stdout, stderr, took }
    }
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("read");
        bytes
    })
}

/// Processes with a mark; those that have ended have no environment.
fn marked(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let is_marked = |process: &PathBuf| {
        let variables = fs::read(process.join("environ")).unwrap_or_default();
        variables.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let line = |process: PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        format!("{}: {}", process.display(), String::from_utf8_lossy(&line).replace('\0', " "))
    };
    processes.filter(is_marked).map(line).collect()
}

/// A RISC-V program that loads and stores without end.
const RISCV_LOOP: [u32; 4] = [
    // auipc t0, 1; ld t1, 0(t0); sd t1, 8(t0); j -8
    0x0000_1297,
    0x0002_b303,
    0x0062_b423,
    0xff9f_f06f,
];

/// An ELF file with these instructions in one segment at 0x8000_0000.
pub(crate) fn riscv_elf(code: &[u32]) -> Vec<u8> {
    let code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (entry, header, segment) = (0x8000_0000_u64, 64_u64, 56_u64);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let halves = |elf: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|v| elf.extend(v.to_le_bytes()));
    let words = |elf: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|v| elf.extend(v.to_le_bytes()));
    let longs = |elf: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|v| elf.extend(v.to_le_bytes()));
    // An executable for RISC-V.
    halves(&mut elf, &[2, 243]);
    words(&mut elf, &[1]);
    longs(&mut elf, &[entry, header, 0]);
    words(&mut elf, &[0]);
    halves(&mut elf, &[header as u16, segment as u16, 1, 64, 0, 0]);
    // Loaded, readable and executable.
    words(&mut elf, &[1, 5]);
    longs(&mut elf, &[header + segment, entry, entry, code.len() as u64, code.len() as u64, 4]);
    elf.extend(code);
    elf
}
