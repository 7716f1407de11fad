//! Tests of what administrators do with stores: mounts that only read, larger stores, mounts by `mount` and at boot, block devices.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::mounted::{self, Store, name, pagewalk, text, unmount};

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

fn free_bytes(at: &Path) -> u64 {
    let room = rustix::fs::statfs(at).expect("known");
    room.f_bfree * 4_096
}

/// Writes files of 1 MiB until the store is full; how many.
fn fill(at: &Path, from: usize) -> usize {
    let write = |number: &usize| std::fs::write(at.join(format!("{number}")), vec![*number as u8; 1 << 20]);
    let written = (from..).take_while(|number| write(number).is_ok()).count();
    let _ = std::fs::remove_file(at.join(format!("{}", from + written)));
    written
}

fn has_files(at: &Path, count: usize) {
    for number in 0..count {
        let bytes = std::fs::read(at.join(format!("{number}"))).expect("there");
        assert!(bytes == vec![number as u8; 1 << 20], "file {number}");
    }
}

#[test]
fn a_store_grows_in_its_file() {
    let store = Store::new("8MiB");
    let grow = |size: &str| pagewalk(&["fs", "grow", name(&store.file()), size]);
    for (size, word) in [("4MiB", "cannot become smaller"), ("2TiB", "allowed"), ("8200KiB", "")] {
        let grown = grow(size);
        assert_eq!(grown.status.success(), word.is_empty(), "{size}: {}", text(&grown.stderr));
        assert!(text(&grown.stderr).contains(word), "{size}: {}", text(&grown.stderr));
    }
    let mut files = 0;
    if let Some(mounted) = store.mount() {
        files = fill(&mounted.point, 0);
        assert!((4..8).contains(&files), "{files}");
        let busy = grow("16MiB");
        assert_eq!(busy.status.code(), Some(2));
        assert!(text(&busy.stderr).contains("where it is mounted"), "{}", text(&busy.stderr));
    }
    let grown = grow("150MiB");
    assert_eq!(grown.status.code(), Some(0), "{}", text(&grown.stderr));
    assert!(text(&grown.stderr).contains("has got 157286400 bytes"), "{}", text(&grown.stderr));
    store.is_sound();
    assert!(text(&grow("150MiB").stderr).contains(" has 157286400 bytes"));
    let shown = pagewalk(&["fs", "info", "--format", "json", name(&store.file())]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("one document");
    assert_eq!(shown["bytes"], 150 << 20);
    if let Some(mounted) = store.mount() {
        has_files(&mounted.point, files);
        let more = fill(&mounted.point, files);
        assert!(more > 130, "{more}");
        has_files(&mounted.point, files + more);
    }
    store.is_sound();
}

#[test]
fn a_store_grows_where_it_is_mounted() {
    for options in [&[][..], &["--no-sync"], &["--power-failure"], &["--strict"]] {
        let store = Store::new("8MiB");
        let Some(mut mounted) = store.mount_with(options) else { return };
        let grow = |size: &str| pagewalk(&["fs", "grow", name(&mounted.point), size]);
        let files = fill(&mounted.point, 0);
        let open = File::options().read(true).write(true).open(mounted.point.join("0")).expect("open");
        for (size, word) in [("4MiB", "cannot become smaller"), ("2TiB", "allowed")] {
            let refused = grow(size);
            assert_eq!(refused.status.code(), Some(2), "{size}");
            assert!(text(&refused.stderr).contains(word), "{size}: {}", text(&refused.stderr));
        }
        for size in ["12MiB", "40MiB"] {
            let grown = grow(size);
            assert_eq!(grown.status.code(), Some(0), "{options:?}: {}", text(&grown.stderr));
        }
        assert!(free_bytes(&mounted.point) > 30 << 20);
        let more = fill(&mounted.point, files);
        assert!(more >= 30, "{more}");
        has_files(&mounted.point, files + more);
        use std::os::unix::fs::FileExt;
        open.write_all_at(b"still open", 100).expect("written");
        open.sync_all().expect("synced");
        mounted.kill();
        drop(mounted);
        // A copy of a file on a disk is what a power failure leaves.
        let copy = Store::new("4MiB");
        std::fs::copy(store.file(), copy.file()).expect("copied");
        for store in [&copy, &store] {
            let Some(mounted) = store.mount_with(options) else { return };
            let bytes = std::fs::read(mounted.point.join("0")).expect("there");
            assert_eq!((&bytes[100..110], bytes.len()), (&b"still open"[..], 1 << 20));
            std::fs::write(mounted.point.join("0"), vec![0; 1 << 20]).expect("written");
            has_files(&mounted.point, files + more);
            drop(mounted);
            store.is_sound();
        }
    }
}

#[test]
fn only_mounts_grow_by_their_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = pagewalk(&["fs", "grow", name(folder.path()), "8MiB"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("lies on no mounted store"), "{}", text(&refused.stderr));
    let refused = pagewalk(&["fs", "grow", name(&folder.path().join("nowhere")), "8MiB"]);
    assert_eq!(refused.status.code(), Some(2));
}

/// A program that has mapped the old store goes on, and so does one that begins later.
#[test]
fn programs_beside_a_store_that_grows_go_on() {
    let store = Store::new("8MiB");
    let Some(mounted) = store.mount() else { return };
    let script = "import mmap, os, subprocess, sys
grow, folder = sys.argv[1], sys.argv[2]
page = lambda number: bytes([number % 251 + 1]) * 4096
with open(folder + '/mapped', 'wb') as file:
    file.write(b'm' * 100000)
log = open(folder + '/log', 'w+b', buffering=0)
kept = open(folder + '/mapped', 'rb')
shown = mmap.mmap(kept.fileno(), 100000, prot=mmap.PROT_READ)
written = 0
for size in (0, 24, 32):
    if size:
        subprocess.run([grow, 'fs', 'grow', folder, str(size) + 'MiB'], check=True,
                       env={k: v for k, v in os.environ.items() if k != 'LD_PRELOAD'})
    for _ in range(1000):
        assert log.write(page(written)) == 4096
        written += 1
    for number in range(written):
        assert os.pread(log.fileno(), 4096, number * 4096) == page(number), number
    assert shown[:] == b'm' * 100000
    with open(folder + '/mapped', 'rb') as again:
        assert mmap.mmap(again.fileno(), 100000, prot=mmap.PROT_READ)[:] == b'm' * 100000
# What a program sees that begins now.
child = 'import sys; sys.exit(open(sys.argv[1], \"rb\").read() != open(sys.argv[2], \"rb\").read())'
with open('/tmp/pagewalk-grow-' + str(os.getpid()), 'w+b') as expected:
    for number in range(written):
        expected.write(page(number))
    expected.flush()
    subprocess.run([sys.executable, '-c', child, folder + '/log', expected.name], check=True)
    os.unlink(expected.name)
print('done')
";
    let arguments =
        ["fs", "run", "--", "python3", "-c", script, env!("CARGO_BIN_EXE_pagewalk"), name(&mounted.point)];
    let output = pagewalk(&arguments);
    if text(&output.stderr).contains("cannot run python3") {
        println!("skipped: there is no python3");
        return;
    }
    assert_eq!(text(&output.stdout), "done\n", "{}", text(&output.stderr));
    assert_eq!(std::fs::metadata(mounted.point.join("log")).expect("there").len(), 3_000 * 4_096);
    drop(mounted);
    store.is_sound();
}

/// Waits until a store that was unmounted is no process's any more.
fn is_free(store: &Store) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let lock = || {
        let file = File::open(store.file()).expect("there");
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
    };
    while lock().is_err() {
        assert!(std::time::Instant::now() < until, "the store is not free");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    store.is_sound();
}

fn mounted_as(at: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/mounts").expect("read");
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    lines.find(|words| words[1] == name(at)).map(|words| format!("{} {}", words[2], words[3]))
}

/// Removes a mount that the test has not removed.
struct Unmounted<'a>(&'a Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        if mounted_as(self.0).is_some() {
            let _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
}

#[test]
fn a_mount_goes_on_in_the_background() {
    let store = Store::new("8MiB");
    let Some(mounted) = store.mount() else { return };
    assert!(mounted_as(&mounted.point).expect("mounted").starts_with("fuse.pagewalk rw,"));
    drop(mounted);
    let (point, log) = (store.mount_point(), store.folder.path().join("log"));
    let _unmounted = Unmounted(&point);
    let start = |more: &[&str], point: &Path| {
        let mut words = vec!["fs", "mount", "--daemon", name(point)];
        let file = store.file();
        words.insert(3, name(&file));
        pagewalk(&[&words[..], more].concat())
    };
    let started = start(&["--log", name(&log), "--allow-other", "--no-exec"], &point);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started.stderr));
    assert_eq!((text(&started.stdout), text(&started.stderr)), (String::new(), String::new()));
    let how = mounted_as(&point).expect("mounted when the command has ended");
    assert!(how.contains("noexec") && how.contains("allow_other") && !how.contains("nosuid"), "{how}");
    std::fs::write(point.join("file"), "kept").expect("written");
    unmount(&point);
    is_free(&store);
    assert!(std::fs::read_to_string(&log).expect("written").starts_with("mounted "));
    // What fails is said by the command, with the code of the other process.
    let failed = start(&[], &store.folder.path().join("nowhere"));
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("nowhere"), "{}", text(&failed.stderr));
    let failed = start(&["--log", name(&store.folder.path().join("no/log"))], &point);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("cannot open the log"), "{}", text(&failed.stderr));
    is_free(&store);
}

/// The command by the names that mount(8) calls, as `make install` makes them, and the unit for systemd.
#[test]
fn what_is_installed_mounts() {
    let store = Store::new("8MiB");
    let Some(mounted) = store.mount() else { return };
    std::fs::write(mounted.point.join("file"), "kept").expect("written");
    drop(mounted);
    let built = Path::new(env!("CARGO_BIN_EXE_pagewalk")).parent().expect("a folder");
    let prefix = store.folder.path().join("usr");
    let (sbin, units) = (store.folder.path().join("sbin"), store.folder.path().join("units"));
    let installed = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install.sh"))
        .args([built.parent().expect("a folder"), &prefix])
        .env("PROFILE", built.file_name().expect("a name"))
        .env("SBIN", &sbin)
        .env("UNITS", &units)
        .output()
        .expect("a shell");
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    let point = store.mount_point();
    let _unmounted = Unmounted(&point);
    let helper = |options: &str| {
        let mut command = Command::new(sbin.join("mount.fuse.pagewalk"));
        command.arg(store.file()).arg(&point).args(["-o", options]).output().expect("it starts")
    };
    for (options, how) in [
        ("rw,noauto,user,_netdev,x-systemd.automount", "rw,"),
        ("ro,nosuid,nodev,noexec,allow_other", "ro,nosuid,nodev,noexec,"),
        ("sync,strict", "rw,"),
        ("nosync", "rw,"),
    ] {
        let done = helper(options);
        assert_eq!(done.status.code(), Some(0), "{options}: {}", text(&done.stderr));
        let found = mounted_as(&point).expect("mounted");
        assert!(found.starts_with(&format!("fuse.pagewalk {how}")), "{options}: {found}");
        assert_eq!(std::fs::read_to_string(point.join("file")).expect("read"), "kept");
        // The next one follows at once.
        unmount(&point);
    }
    is_free(&store);
    let refused = helper("rw,uid=1000");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("`uid=1000`"), "{}", text(&refused.stderr));
    std::fs::write(store.folder.path().join("none"), "no store").expect("written");
    let failed = Command::new(sbin.join("mount.pagewalk"))
        .arg(store.folder.path().join("none"))
        .arg(&point)
        .output()
        .expect("it starts");
    assert_eq!(failed.status.code(), Some(32), "{}", text(&failed.stderr));

    // mount(8) itself looks in /sbin alone: the test has one of its own, in a name space of mounts.
    let table = store.folder.path().join("fstab");
    let line =
        format!("{} {} fuse.pagewalk ro,noauto,x-systemd.automount 0 0\n", name(&store.file()), name(&point));
    std::fs::write(&table, line).expect("written");
    let script = "set -e
mount -t overlay overlay -o lowerdir=\"$1\":/usr/sbin /usr/sbin 2>/dev/null || exit 77
mount -t fuse.pagewalk \"$2\" \"$3\"
grep -q \" $3 fuse.pagewalk rw\" /proc/mounts
cat \"$3/file\"
umount \"$3\"
mount --fstab \"$4\" \"$3\"
grep -q \" $3 fuse.pagewalk ro\" /proc/mounts
cat \"$3/file\"
umount \"$3\"";
    let output = Command::new("unshare")
        .args([
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            name(&sbin),
            name(&store.file()),
            name(&point),
            name(&table),
        ])
        .output()
        .expect("it starts");
    if output.status.code() == Some(77) {
        println!("skipped: mount(8) with a helper of its own: there is no overlay file system");
    } else {
        assert_eq!(text(&output.stdout), "keptkept", "{:?} {}", output.status, text(&output.stderr));
    }
    is_free(&store);

    let unit = units.join("pagewalk@.service");
    assert!(std::fs::read_to_string(&unit).expect("installed").contains(name(&prefix)));
    let verified = units.join("pagewalk@mnt-data.service");
    std::fs::copy(&unit, &verified).expect("copied");
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&verified).output() {
        Ok(output) => {
            // Services that this one depends on may be incomplete in a container.
            let said = text(&output.stderr);
            assert!(!said.lines().any(|line| line.contains("pagewalk")), "{said}");
        }
        Err(error) => println!("skipped: systemd-analyze: {error}"),
    }
}

#[test]
fn a_service_manager_hears_when_the_mount_is_ready() {
    let store = Store::new("8MiB");
    let Some(mounted) = store.mount() else { return };
    drop(mounted);
    let place = store.folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&place).expect("bound");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("set");
    let mut process = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
        .args(["fs", "mount", name(&store.file()), name(&store.mount_point())])
        .env("NOTIFY_SOCKET", &place)
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let mut said = [0; 64];
    let bytes = socket.recv(&mut said).expect("it says something");
    assert_eq!(&said[..bytes], b"READY=1");
    assert!(mounted_as(&store.mount_point()).is_some());
    unmount(&store.mount_point());
    assert!(process.wait().expect("it ends").success());
}

/// What `fs info` and the manual say that files take.
#[test]
fn files_take_what_is_said() {
    const PAGE: u64 = 4_096;
    let store = Store::new("64MiB");
    let shown = pagewalk(&["fs", "info", name(&store.file())]);
    for line in ["up to 256 KiB", "each 2 MiB", "511 more files of more than 64 GiB"] {
        assert!(text(&shown.stdout).contains(line), "{line}: {}", text(&shown.stdout));
    }
    let Some(mounted) = store.mount() else { return };
    let at = |name: &str| mounted.point.join(name);
    std::fs::write(at("first"), "x").expect("written");
    for bytes in [1u64, 4_096, 4_097, 100_000, 256 << 10, 300_000, 2 << 20, (2 << 20) + 1, 10 << 20] {
        let (free, file) = (free_bytes(&mounted.point), at(&format!("of {bytes} bytes")));
        std::fs::write(&file, vec![7; bytes as usize]).expect("written");
        let pages = bytes.div_ceil(PAGE) * PAGE;
        // Small ones share tables, which the first of a size may need; a directory, an inode or a header takes a page now and then.
        let tables = bytes.div_ceil(2 << 20) * PAGE;
        let allowed = pages..=pages + tables + 3 * PAGE;
        // The kernel says that a file is closed when the program goes on already.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let taken = || free - free_bytes(&mounted.point);
        while !allowed.contains(&taken()) && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(allowed.contains(&taken()), "{bytes} bytes take {}", taken());
        assert_eq!(std::fs::metadata(&file).expect("there").blocks() * 512, pages, "{bytes}");
    }
    // Addresses: of 511 parts, one is cut for the smaller files.
    let mut large = 0;
    let error = loop {
        let file = File::create(at(&format!("{large}"))).expect("made");
        match file.set_len(100 << 30) {
            Ok(()) => large += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((large, error.raw_os_error()), (510, Some(28)), "{error}");
    std::fs::write(at("small"), vec![1; 100_000]).expect("smaller ones have room");
    // The kernel says behind a removal that the file is forgotten: what was made at once found no room now and then.
    for _ in 0..300 {
        std::fs::remove_file(at("7")).expect("removed");
        File::create(at("7")).and_then(|file| file.set_len(100 << 30)).expect("there is room again");
    }
    drop(mounted);
    store.is_sound();
    let shown = pagewalk(&["fs", "info", name(&store.file())]);
    assert!(text(&shown.stdout).contains(" 0 more files"), "{}", text(&shown.stdout));
}

/// A file as a block device.
struct Loop(String);

impl Loop {
    fn new(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match output {
            Ok(output) if output.status.success() => Some(Self(text(&output.stdout).trim().to_owned())),
            other => {
                println!("skipped: losetup: {other:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_store_lies_in_a_block_device() {
    let store = Store::new("4MiB");
    let Some(mounted) = store.mount() else { return };
    drop(mounted);
    let (image, point) = (store.folder.path().join("image"), store.mount_point());
    let lengthen = |bytes: u64| {
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&image)
            .and_then(|file| file.set_len(bytes))
    };
    lengthen(32 << 20).expect("made");
    let Some(device) = Loop::new(&image) else { return };
    let device = device.0.as_str();
    let run = |words: &[&str]| {
        let output = pagewalk(&[&["fs"], words].concat());
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let is = |(code, said): (Option<i32>, String), expected: i32, word: &str| {
        assert!(code == Some(expected) && said.contains(word), "{code:?}: {said}");
    };
    // What holds something, or is too small, stays as it is.
    std::os::unix::fs::FileExt::write_all_at(
        &File::options().write(true).open(device).expect("open"),
        b"something",
        1_080,
    )
    .expect("written");
    is(run(&["mkfs", device]), 2, "--force overwrites it");
    is(run(&["mkfs", "--force", "--size", "32MiB", device]), 2, "allowed: up to 25165824");
    let mut held = [0; 9];
    std::os::unix::fs::FileExt::read_exact_at(&File::open(device).expect("open"), &mut held, 1_080)
        .expect("read");
    assert_eq!(&held, b"something");
    is(run(&["mkfs", "--force", device]), 0, "of 25165824 bytes are free");
    is(run(&["mkfs", device]), 2, "--force overwrites it");
    is(run(&["fsck", device]), 0, "sound");
    let mut mounted = mounted::mount(Path::new(device), &point, &[]);
    std::fs::write(point.join("file"), vec![5; 3 << 20]).expect("written");
    File::open(point.join("file")).and_then(|file| file.sync_all()).expect("synced");
    for number in 0..30 {
        std::fs::create_dir(point.join(format!("{number}"))).expect("made");
    }
    // Others are kept away: by the kernel from the device, and by the lock.
    is(run(&["mount", device, name(store.folder.path())]), 2, "cannot open");
    is(run(&["mkfs", "--force", device]), 2, device);
    is(run(&["fsck", device]), 2, "another process has the store");
    mounted.kill();
    drop(mounted);
    // The process has ended and the device is the same: all is there.
    let mut mounted = mounted::mount(Path::new(device), &point, &[]);
    assert_eq!(std::fs::read_dir(&point).expect("read").count(), 31);
    // The device gets larger, and then the store.
    is(run(&["grow", name(&point), "40MiB"]), 2, "stays as it was");
    lengthen(64 << 20).expect("longer");
    assert!(Command::new("losetup").args(["--set-capacity", device]).status().expect("it runs").success());
    is(run(&["grow", name(&point), "48MiB"]), 0, "has got 50331648 bytes");
    std::fs::write(point.join("more"), vec![6; 30 << 20]).expect("written");
    File::open(point.join("more")).and_then(|file| file.sync_all()).expect("synced");
    mounted.kill();
    drop(mounted);
    // The same disk, attached again, has lost what the kernel had not written: as after a power failure.
    let copy = store.folder.path().join("copy");
    std::fs::copy(&image, &copy).expect("copied");
    {
        let Some(other) = Loop::new(&copy) else { return };
        let mounted = mounted::mount(Path::new(&other.0), &point, &["--read-only"]);
        assert!(std::fs::read(point.join("more")).expect("there") == vec![6; 30 << 20]);
        drop(mounted);
        is(run(&["fsck", "--repair", &other.0]), 0, "sound");
    }
    is(run(&["info", device]), 0, "50331648 bytes");
    // A device that another file system has.
    if let Some(ext4) =
        Command::new("mkfs.ext4").args(["-q", "-F", device]).status().ok().filter(|status| status.success())
    {
        assert!(ext4.success());
        let Some(_other) = Other::mount(&[device], &store.folder.path().join("other")) else { return };
        is(run(&["mkfs", "--force", device]), 2, "busy");
    }
}

#[test]
fn what_is_neither_file_nor_device_holds_no_store() {
    let folder = tempfile::tempdir().expect("a folder");
    for what in ["/dev/null", "/dev/zero"] {
        for words in
            [&["mkfs", what][..], &["mkfs", "--force", what], &["fsck", what], &["grow", what, "8MiB"]]
        {
            let refused = pagewalk(&[&["fs"], words].concat());
            assert_eq!(refused.status.code(), Some(2), "{words:?}");
            assert!(
                text(&refused.stderr).contains("neither a regular file"),
                "{words:?}: {}",
                text(&refused.stderr)
            );
        }
    }
    let refused = pagewalk(&["fs", "mkfs", "--force", name(folder.path())]);
    assert!(text(&refused.stderr).contains("neither a regular file"), "{}", text(&refused.stderr));
}
