//! `pagewalk fs`: a store whose file loses pages while it is used. Programs get errors, and no process ends by a signal.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::mounted::{Mounted, Small, Store, name, pagewalk, text, unmount};

const MIB: u64 = 1 << 20;

fn shell(folder: &Path, script: &str) -> Output {
    let output = Command::new("sh").args(["-c", script]).current_dir(folder).stdin(Stdio::null()).output();
    output.expect("a shell")
}

fn cut(store: &Store, bytes: u64) {
    File::options().write(true).open(store.file()).expect("there").set_len(bytes).expect("cut");
}

/// What fails says `Input/output error`.
fn refuses(folder: &Path, script: &str) {
    let output = shell(folder, script);
    assert!(!output.status.success(), "{script}");
    assert!(text(&output.stderr).contains("Input/output error"), "{script}: {}", text(&output.stderr));
}

/// An error of a call, by its number.
fn number<T>(done: std::io::Result<T>) -> Option<i32> {
    done.err().and_then(|error| error.raw_os_error())
}

/// Unmounts it as programs do, and says how its process ended.
fn ended(mut mounted: Mounted) -> Option<i32> {
    assert!(mounted.process.try_wait().expect("a child").is_none(), "the mount's process has ended");
    unmount(&mounted.point);
    mounted.process.wait().expect("a child").code()
}

#[test]
fn a_mounted_store_that_is_cut_answers_errors_until_it_is_unmounted() {
    for options in [&[][..], &["--power-failure"], &["--no-sync"], &["--no-sync", "--strict"]] {
        let store = Store::new("16MiB");
        let Some(mounted) = store.mount_with(options) else { return };
        let made =
            shell(&mounted.point, "mkdir d; echo x > d/f; head -c 5000000 /dev/urandom > big; touch kept");
        assert!(made.status.success());
        assert_eq!(ended(mounted), Some(0));
        // The kernel has no page of it any more.
        let Some(mounted) = store.mount_with(options) else { return };
        let at = &mounted.point;
        let kept = File::options().read(true).write(true).open(at.join("kept")).expect("open");
        kept.write_at(b"before", 0).expect("written");
        cut(&store, 2 * MIB);
        refuses(at, "cat big");
        for script in [
            "ls d",
            "echo x > new",
            "mkdir new",
            "rm big",
            "mv big small",
            "ln big name",
            "ln -s big link",
            "truncate -s 9 big",
            "chmod 600 big",
            "stat -f .",
            "cat d/f",
            "touch -d @7 big",
        ] {
            refuses(at, script);
        }
        let error = Some(rustix::io::Errno::IO.raw_os_error());
        assert_eq!(number(kept.write_at(b"behind", 100_000)), error, "{options:?}");
        assert_eq!(number(kept.sync_all()), error, "{options:?}");
        drop(kept);
        assert_eq!(ended(mounted), Some(2), "{options:?}");
        let checked = pagewalk(&["fs", "fsck", name(&store.file())]);
        assert_eq!(checked.status.code(), Some(2));
        assert!(text(&checked.stderr).contains("and there is room for"), "{}", text(&checked.stderr));
    }
}

#[test]
fn the_mount_says_what_has_happened_to_its_store() {
    let store = Store::new("16MiB");
    let Some(mut mounted) = store.mount() else { return };
    // Another mount of the same, whose words are heard.
    unmount(&mounted.point);
    assert!(mounted.process.wait().expect("a child").success());
    let mut process = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
        .args(["fs", "mount", name(&store.file()), name(&mounted.point)])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.next().expect("a line").starts_with("mounted "));
    mounted.process = process;
    cut(&store, 0);
    refuses(&mounted.point, "ls");
    let said = lines.next().expect("a line");
    assert!(
        said.ends_with("was cut while it was in use; all operations fail until it is mounted again"),
        "{said}"
    );
    assert_eq!(ended(mounted), Some(2));
    let said = lines.last().expect("a line");
    assert!(said.contains("was cut while it was in use"), "{said}");
}

/// The disk is full before the store is.
#[test]
fn a_sparse_store_is_full_when_its_disk_is() {
    let Some(small) = Small::new("16m") else { return };
    let store = Store::new_in(small.0.path(), &["--sparse", "--size", "256MiB"]);
    assert!(small.free() > 13 * MIB, "{}", small.free());
    let Some(mounted) = store.mount() else { return };
    let at = mounted.point.clone();
    let free = || {
        let room = rustix::fs::statvfs(&at).expect("a file system");
        room.f_bavail * room.f_frsize
    };
    assert!((11 * MIB..15 * MIB).contains(&free()), "{}", free());
    let filled =
        shell(&at, "head -c 4000000 /dev/urandom > kept; sha256sum kept > sum; cat /dev/zero > full");
    assert!(text(&filled.stderr).contains("No space left on device"), "{}", text(&filled.stderr));
    assert!(free() < MIB, "{}", free());
    // All that was there is, and what is given back can be used.
    assert!(shell(&at, "sha256sum -c sum && test $(stat -c %s full) -gt 8000000").status.success());
    assert!(
        shell(&at, "rm full; head -c 5000000 /dev/zero > again && mkdir d && mv kept d").status.success()
    );
    assert_eq!(ended(mounted), Some(0));
    store.is_sound();
    let Some(mounted) = store.mount() else { return };
    assert!(
        shell(&at, "cd d; sha256sum -c ../sum && test $(stat -c %s ../again) = 5000000").status.success()
    );
    drop(mounted);
}

/// `fsck` and `info` are anywhere when the file is cut.
#[test]
fn commands_that_look_at_a_store_say_that_it_was_cut() {
    let store = Store::new("8MiB");
    if let Some(mounted) = store.mount() {
        assert!(shell(&mounted.point, "for i in $(seq 300); do echo $i > $i; done").status.success());
        assert_eq!(ended(mounted), Some(0));
    }
    let whole = std::fs::read(store.file()).expect("read");
    let mut cuts = 0;
    for round in 0..60u64 {
        let command = [&["fsck"][..], &["info"], &["fsck", "--repair"]][round as usize % 3];
        let mut process = Command::new(env!("CARGO_BIN_EXE_pagewalk"));
        process.arg("fs").args(command).arg(store.file()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = process.spawn().expect("the command starts");
        let file = File::options().write(true).open(store.file()).expect("there");
        // It has mapped the file.
        let maps = format!("/proc/{}/maps", process.id());
        let is_mapped = || std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("store.ctfs"));
        while !is_mapped() && process.try_wait().expect("a child").is_none() {}
        std::thread::sleep(Duration::from_micros(round * 40));
        file.set_len([0, 4_096, 3 * 4_096, 262 * 4_096, 270 * 4_096][round as usize % 5]).expect("cut");
        let mut said = String::new();
        process.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
        process.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        let code = process.wait().expect("a child").code();
        assert!(matches!(code, Some(0..=2)) && !said.contains("panicked"), "{command:?}: {code:?} {said}");
        let is_told = ["was cut", "cannot be read", "room for", "less than 4,096"]
            .iter()
            .any(|word| said.contains(word));
        assert!(code != Some(2) || is_told, "{command:?}: {said}");
        cuts += usize::from(is_told);
        std::fs::write(store.file(), &whole).expect("written");
    }
    assert!(cuts > 0);
}

/// A program with the store in its own memory lives on, too.
#[test]
fn a_program_beside_the_mount_gets_an_error() {
    let shim = Path::new(env!("CARGO_BIN_EXE_pagewalk")).with_file_name("libpagewalk_ctfs_shim.so");
    if !shim.is_file() {
        println!("skipped: `cargo build --package pagewalk-ctfs-shim` makes what is preloaded");
        return;
    }
    let store = Store::new("16MiB");
    let Some(mounted) = store.mount() else { return };
    let script = "exec 7>>f; echo one >&7; echo ready; read go; echo two >&7; test $? = 0 && exit 1; exit 42";
    let mut program = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
        .args(["fs", "run", "--", "sh", "-c", script])
        .current_dir(&mounted.point)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut ready = [0; 6];
    program.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("it is ready");
    cut(&store, 0);
    program.stdin.take().expect("piped").write_all(b"go\n").expect("it reads");
    let output = program.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(42), "{said}");
    assert!(said.contains("I/O error") || said.contains("Input/output error"), "{said}");
    assert_eq!(ended(mounted), Some(2));
}

/// A store in a file of another mount, whose disk fails: reads and writes of pages do.
#[test]
fn a_disk_that_refuses_to_write_is_an_error_of_the_program_that_waits() {
    for options in [&["--power-failure"][..], &[]] {
        let disk = Store::new("96MiB");
        let Some(below) = disk.mount_with(&["--no-sync"]) else { return };
        // Only the file lies there: no path leads through what fails.
        let store = Store::new("2MiB");
        let inner = below.point.join("store");
        assert!(pagewalk(&["fs", "mkfs", "--size", "16MiB", name(&inner)]).status.success());
        std::fs::remove_file(store.file()).expect("removed");
        std::os::unix::fs::symlink(&inner, store.file()).expect("linked");
        let Some(mounted) = store.mount_with(options) else { return };
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(mounted.point.join("f"));
        let file = file.expect("made");
        file.write_at(&[1; 10_000], 0).expect("written");
        file.sync_all().expect("on the disk");
        cut(&disk, 0);
        let error = Some(rustix::io::Errno::IO.raw_os_error());
        let written = file.write_at(&[2; 10_000], 0);
        if options.is_empty() {
            assert_eq!(number(file.sync_all()), error);
        } else {
            assert_eq!(number(written), error);
        }
        // Nothing is promised from then on.
        assert_eq!(number(file.write_at(&[3; 10_000], 0)), error, "{options:?}");
        assert_eq!(number(file.sync_all()), error, "{options:?}");
        assert_eq!(number(std::fs::create_dir(mounted.point.join("d"))), error);
        drop(file);
        assert_eq!(ended(mounted), Some(2));
        assert_eq!(ended(below), Some(2));
    }
}
