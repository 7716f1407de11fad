//! The parts that the tests of mounts share: stores that go with their test, mounted where they may be.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub(crate) fn pagewalk(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the command starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn name(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Unmounts a store as programs do. The child of another test that is not its program yet has the files open that this process has, and the mount is busy
/// for so long.
pub(crate) fn unmount(point: &Path) {
    for _ in 0..100 {
        if Command::new("umount").arg(point).status().expect("a command").success() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{} does not come off", point.display());
}

/// A store in a folder that goes with the test.
pub(crate) struct Store {
    pub(crate) folder: tempfile::TempDir,
}

impl Store {
    pub(crate) fn new(size: &str) -> Self {
        Self::new_in(&std::env::temp_dir(), &["--size", size])
    }

    /// The same in a folder that is there, with options of `mkfs`.
    pub(crate) fn new_in(folder: &Path, options: &[&str]) -> Self {
        let store = Self { folder: tempfile::tempdir_in(folder).expect("a folder") };
        std::fs::create_dir(store.mount_point()).expect("a folder");
        let made = pagewalk(&[&["fs", "mkfs"], options, &[name(&store.file())]].concat());
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
        store
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("store.ctfs")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    pub(crate) fn is_sound(&self) {
        let checked = pagewalk(&["fs", "fsck", name(&self.file())]);
        assert_eq!(checked.status.code(), Some(0), "{}{}", text(&checked.stdout), text(&checked.stderr));
    }

    /// Mounts it; `None`, with the reason, where that is impossible.
    pub(crate) fn mount(&self) -> Option<Mounted> {
        self.mount_with(&[])
    }

    /// The same with more options.
    pub(crate) fn mount_with(&self, options: &[&str]) -> Option<Mounted> {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0);
        // Root of a container may not mount.
        let may_mount = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
        let may_mount = is_root && may_mount.is_ok_and(|status| status.success());
        if !may_mount || File::options().read(true).write(true).open("/dev/fuse").is_err() {
            println!("skipped: mounting takes the right to, and /dev/fuse");
            return None;
        }
        Some(mount(&self.file(), &self.mount_point(), options))
    }
}

/// Mounts a store where that is possible.
pub(crate) fn mount(file: &Path, point: &Path, options: &[&str]) -> Mounted {
    let mut process = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
        .args(["fs", "mount", name(file), name(point)])
        .args(options)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
    let said = lines
        .by_ref()
        .map_while(Result::ok)
        .find(|line| !["of its log", "its power failed"].iter().any(|said| line.contains(said)));
    let said = said.unwrap_or_default();
    assert!(said.starts_with("mounted "), "{said}");
    // Later lines are read, so that the pipe does not fill, and ignored.
    std::thread::spawn(move || lines.for_each(drop));
    Mounted { process, point: point.to_owned() }
}

pub(crate) struct Mounted {
    pub(crate) process: Child,
    pub(crate) point: PathBuf,
}

impl Mounted {
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ended");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", name(&self.point)]).stderr(Stdio::null()).status();
        let _ = self.process.wait();
    }
}

/// A file system of a few MiB that goes with the test; `None` where that is impossible.
pub(crate) struct Small(pub(crate) tempfile::TempDir);

impl Small {
    pub(crate) fn new(bytes: &str) -> Option<Self> {
        let small = Self(tempfile::tempdir().expect("a folder"));
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none", name(small.0.path())]);
        if !command.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            println!("skipped: mounting takes the right to");
            return None;
        }
        Some(small)
    }

    pub(crate) fn free(&self) -> u64 {
        let room = rustix::fs::statvfs(self.0.path()).expect("a file system");
        room.f_bavail * room.f_bsize
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
