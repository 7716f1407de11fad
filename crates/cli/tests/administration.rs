//! What administrators do with stores: mounts that only read, larger stores, mounts by `mount` and at boot, block devices.

mod mounted;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use mounted::{Store, name, pagewalk, text};

/// A mount of another kind than ours, which goes with this value.
struct Other(std::path::PathBuf);

impl Other {
    fn mount(arguments: &[&str], at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).expect("a folder");
        let output = Command::new("mount").args(arguments).arg(at).output().expect("there is `mount`");
        if !output.status.success() {
            println!("skipped: mount {arguments:?}: {}", text(&output.stderr));
            return None;
        }
        Some(Self(at.to_owned()))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn changes(at: &Path) -> Vec<(&'static str, io::Result<()>)> {
    let (file, new) = (at.join("file"), at.join("new"));
    let opened = |options: &mut std::fs::OpenOptions| options.open(at.join("file")).map(drop);
    vec![
        ("create", std::fs::write(&new, "x")),
        ("mkdir", std::fs::create_dir(&new)),
        ("symlink", symlink("file", &new)),
        ("link", std::fs::hard_link(&file, &new)),
        ("unlink", std::fs::remove_file(&file)),
        ("rename", std::fs::rename(&file, &new)),
        ("chmod", std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))),
        ("open to write", opened(File::options().write(true))),
        ("truncate", opened(File::options().write(true).truncate(true))),
        ("chown", std::os::unix::fs::chown(&file, Some(1), Some(1))),
    ]
}

#[test]
fn a_mount_that_only_reads_changes_nothing() {
    let store = Store::new("8MiB");
    let Some(mounted) = store.mount() else { return };
    std::fs::write(mounted.point.join("file"), vec![5; 100_000]).expect("written");
    drop(mounted);
    let before = std::fs::read(store.file()).expect("read");
    {
        let Some(mounted) = store.mount_with(&["--read-only"]) else { return };
        let refused = |when| {
            for (what, done) in changes(&mounted.point) {
                let error = done.expect_err(what);
                assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{when}, {what}: {error}");
            }
        };
        refused("as mounted");
        // The kernel forgets that it is not to write; the owner does not.
        let again = Command::new("mount").args(["-i", "-o", "remount,rw", name(&mounted.point)]).status();
        assert!(again.expect("it runs").success());
        refused("mounted again to be written");
        assert_eq!(std::fs::read(mounted.point.join("file")).expect("read"), vec![5; 100_000]);
        // Several may look at it.
        let shown = pagewalk(&["fs", "info", name(&store.file())]);
        assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
        let writer = pagewalk(&["fs", "mount", name(&store.file()), name(store.folder.path())]);
        assert!(text(&writer.stderr).contains("another process has the store"), "{}", text(&writer.stderr));
    }
    assert!(std::fs::read(store.file()).expect("read") == before, "not one byte has changed");
}

/// Beside the mount a program reads in its own memory, and has no way to change the store.
#[test]
fn programs_beside_a_mount_that_only_reads_only_read() {
    let store = Store::new("8MiB");
    let Some(mounted) = store.mount() else { return };
    std::fs::write(mounted.point.join("file"), vec![b'5'; 100_000]).expect("written");
    drop(mounted);
    let before = std::fs::read(store.file()).expect("read");
    let Some(mounted) = store.mount_with(&["--read-only"]) else { return };
    let script = "import os, sys, mmap
path = sys.argv[1]
with open(path, 'rb', buffering=0) as file:
    for _ in range(20):
        os.lseek(file.fileno(), 0, 0)
        assert file.read(200000) == b'5' * 100000
    assert os.pread(file.fileno(), 10, 99995) == b'5' * 5
    assert mmap.mmap(file.fileno(), 100000, prot=mmap.PROT_READ)[:] == b'5' * 100000
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREAT):
        try:
            os.open(path, flags)
            raise SystemExit('it opened')
        except OSError as error:
            assert error.errno == 30, error
    # The store's memory is there, and every mapping of its file is a copy.
    shared = [line for line in open('/proc/self/maps') if sys.argv[2] in line]
    assert shared, 'the library did not use the store'
    assert all(line.split()[1][3] == 'p' for line in shared), shared
    # Of its descriptors none can write the store.
    for number in os.listdir('/proc/self/fd'):
        try:
            if os.readlink('/proc/self/fd/' + number) == sys.argv[2]:
                flags = open('/proc/self/fdinfo/' + number).read().split('flags:')[1].split()[0]
                assert int(flags, 8) & 3 == 0, flags
        except FileNotFoundError:
            pass
print('done')
";
    let real = store.file().canonicalize().expect("there");
    let file = mounted.point.join("file");
    let arguments = ["fs", "run", "--", "python3", "-c", script, name(&file), name(&real)];
    let output = pagewalk(&arguments);
    if text(&output.stderr).contains("cannot run python3") {
        println!("skipped: there is no python3");
        return;
    }
    assert_eq!(text(&output.stdout), "done\n", "{}", text(&output.stderr));
    drop(mounted);
    assert!(std::fs::read(store.file()).expect("read") == before, "not one byte has changed");
}

/// The mount was killed, and a copy is what a power failure leaves: pages are to be put back. The medium cannot be written.
#[test]
fn a_store_on_a_medium_that_only_reads_is_mounted() {
    let store = Store::new("8MiB");
    let Some(mut mounted) = store.mount() else { return };
    std::fs::write(mounted.point.join("file"), vec![5; 100_000]).expect("written");
    File::open(mounted.point.join("file")).and_then(|file| file.sync_all()).expect("synced");
    for number in 0..20 {
        std::fs::create_dir(mounted.point.join(format!("d{number}"))).expect("made");
    }
    mounted.kill();
    drop(mounted);
    let medium = store.folder.path().join("medium");
    let Some(medium) = Other::mount(&["-t", "tmpfs", "none"], &medium) else { return };
    let copy = medium.0.join("store.ctfs");
    std::fs::copy(store.file(), &copy).expect("copied");
    let is_read_only =
        Command::new("mount").args(["-o", "remount,ro", name(&medium.0)]).status().expect("it runs");
    assert!(is_read_only.success());
    let folder = store.mount_point();
    let refused = pagewalk(&["fs", "mount", name(&copy), name(&folder)]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--read-only"), "{}", text(&refused.stderr));
    let mounted = mounted::mount(&copy, &folder, &["--read-only"]);
    assert_eq!(std::fs::read(folder.join("file")).expect("read"), vec![5; 100_000]);
    for (what, done) in changes(&folder) {
        assert_eq!(done.expect_err(what).kind(), ErrorKind::ReadOnlyFilesystem, "{what}");
    }
    assert!(std::fs::metadata(folder.join("file")).expect("there").blocks() > 0);
    drop(mounted);
}
