//! `pagewalk fs`: what a mount keeps other users from, how a mount ends, and what commands that fail leave.

use std::fs::{File, Metadata, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::mounted::{Mounted, Small, Store, name, pagewalk, text};

/// Runs a shell's script in a folder; what it says, on either way.
fn said(folder: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.expect("a shell");
    text(&output.stdout) + &text(&output.stderr)
}

/// In front of a command that another user runs.
const OTHER: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

fn has(program: &str) -> bool {
    let is_there = said(Path::new("/"), &format!("command -v {program}")).contains(program);
    if !is_there {
        println!("skipped: `scripts/setup.sh` installs {program}");
    }
    is_there
}

/// Ways to mount, between which the kernel's part in what follows differs.
const HOW: [&[&str]; 2] = [&[], &["--write-back"]];

/// A mount that every user may use.
fn mount_for_all(store: &Store, options: &[&str]) -> Option<Mounted> {
    let mounted = store.mount_with(&[&["--allow-other"], options].concat())?;
    for folder in [store.folder.path(), &mounted.point] {
        std::fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("its owner may");
    }
    Some(mounted)
}

/// The kernel keeps modes for an hour: a file of root's that another user had changed still ran as root.
#[test]
fn rights_of_programs_end_when_another_user_changes_them() {
    HOW.into_iter().for_each(rights_end_when_another_user_changes_them);
}

fn rights_end_when_another_user_changes_them(how: &[&str]) {
    let store = Store::new("64MiB");
    let Some(mounted) = mount_for_all(&store, how) else { return };
    let at = &mounted.point;
    for (change, is_changed) in [
        ("printf a >> x", true),
        ("dd if=/dev/zero of=x bs=1 count=1 seek=100 conv=notrunc status=none", true),
        ("dd if=/dev/zero of=x bs=4096 count=1 seek=900 conv=notrunc status=none", true),
        ("truncate -s 200000 x", true),
        ("fallocate -l 300000 x", true),
        ("cat x", false),
    ] {
        let script = format!(
            "cp /usr/bin/id x; chown 0:0 x; chmod 6777 x; {OTHER} ./x -u; stat -c %a x; {OTHER} sh -c '{change}' >/dev/null
             stat -c %a x"
        );
        let mode = if is_changed { "777" } else { "6777" };
        assert_eq!(said(at, &script), format!("0\n6777\n{mode}\n"), "{change}");
    }
    // The last change but one ran through the kernel; root's own writes keep the bits.
    assert_eq!(said(at, "printf a >> x; stat -c %a x"), "6777\n");
    assert_eq!(said(at, &format!("{OTHER} sh -c 'printf a >> x'; {OTHER} ./x -u")), "65534\n");
}

/// A program under `fs run` writes without the kernel, which takes a file's rights away: it gets no lease of such a file.
#[test]
fn rights_of_programs_end_beside_the_kernel() {
    let shim = Path::new(env!("CARGO_BIN_EXE_pagewalk")).with_file_name("libpagewalk_ctfs_shim.so");
    if !shim.is_file() || !has("setcap") || !has("getcap") {
        println!("skipped: this takes setcap, and `cargo build --package pagewalk-ctfs-shim`");
        return;
    }
    let store = Store::new("64MiB");
    let Some(mounted) = mount_for_all(&store, &[]) else { return };
    let run = format!("{} fs run --", env!("CARGO_BIN_EXE_pagewalk"));
    // Without truncation, which the kernel does.
    for write in ["", &run] {
        let script = format!(
            "cp /usr/bin/id x; setcap cap_net_raw+ep x; getcap x
             {write} dd if=/dev/zero of=x bs=4096 count=8 conv=notrunc status=none; getcap x"
        );
        assert_eq!(said(&mounted.point, &script), "x cap_net_raw=ep\n", "{write}");
    }
    // A lease that was given before ends, also when no process opens the file: `setcap` would.
    let file = mounted.point.join("y");
    std::fs::write(&file, "").expect("written");
    let mut writer = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
        .args(["fs", "run", "--", "dd", "bs=1", "oflag=append", "conv=notrunc", "status=none"])
        .arg(format!("of={}", name(&file)))
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = writer.stdin.take().expect("piped");
    input.write_all(b"a").expect("read");
    while std::fs::metadata(&file).expect("there").len() == 0 {
        std::thread::yield_now();
    }
    // Revision 2, effective; one that is permitted, and none inherited.
    let capabilities: Vec<u8> =
        [0x0200_0001, 1 << 13, 0, 0, 0u32].into_iter().flat_map(u32::to_le_bytes).collect();
    let (attribute, no_flags) = ("security.capability", rustix::fs::XattrFlags::empty());
    rustix::fs::setxattr(&file, attribute, &capabilities, no_flags).expect("root may");
    let has_some = || rustix::fs::getxattr(&file, attribute, &mut [0; 64][..]).is_ok();
    assert!(has_some());
    input.write_all(b"b").expect("read");
    drop(input);
    assert!(writer.wait().expect("a child").success());
    assert_eq!(std::fs::read(&file).expect("read"), b"ab");
    assert!(!has_some(), "the second write was another process's");
}

/// Each line of the script says the same in a folder of the mount as in one of another file system.
#[test]
fn access_lists_are_as_on_another_file_system() {
    HOW.into_iter().for_each(access_lists_are_the_same);
}

fn access_lists_are_the_same(how: &[&str]) {
    let other = Path::new("/dev/shm");
    if !has("setfacl") || !other.is_dir() {
        return;
    }
    let store = Store::new("64MiB");
    let Some(mounted) = mount_for_all(&store, how) else { return };
    let other = tempfile::tempdir_in(other).expect("a folder");
    std::fs::set_permissions(other.path(), Permissions::from_mode(0o777)).expect("its owner may");
    if said(other.path(), "touch t; setfacl -m u:1:r t").contains("not supported") {
        println!("skipped: /dev/shm has no access control lists");
        return;
    }
    let files = "$(ls -d f d g d/f d/s d/s/f d/l d/p made 2>/dev/null)";
    let show = format!("getfacl -pn {files}; stat -c '%n %A' {files}");
    for step in [
        "echo hi > f; chmod 644 f; setfacl -m u:nobody:--- f",
        "OTHER cat f; OTHER sh -c 'echo no >> f'",
        "setfacl -m u:nobody:rw f; OTHER sh -c 'echo yes >> f'; OTHER cat f",
        "chmod 604 f; OTHER cat f",
        "chmod 664 f; OTHER cat f",
        "setfacl -m m::x f; OTHER cat f",
        "setfacl -x u:nobody f",
        "setfacl -b f",
        "mkdir d; chmod 711 d; setfacl -d -m u:nobody:rwx,g:7:r,o::--- d",
        "umask 077; touch d/f; mkdir d/s; touch d/s/f; ln -s f d/l; mkfifo d/p",
        "OTHER sh -c 'cat d/f; touch d/s/made; echo x > d/s/f'; ls d/s",
        "chmod 640 d/f; OTHER sh -c 'echo x > d/f'; OTHER cat d/f",
        "OTHER setfacl -m u:1:r d/f",
        "setfacl -k d; umask 022; touch d/g; mkdir d/h; stat -c %A d/g d/h",
        "umask 007; touch g; mkdir made; umask 0; mknod made/n p; stat -c %A made/n",
        "chmod 2755 f; setfacl -m u:1:r f",
        "chown 65534:0 f; chmod 2750 f; OTHER setfacl -m u:1:r f",
        "mv d made/moved; getfacl -pn made/moved/f",
        "setfacl -d -m u:1:r f; setfacl -m u:1:r made/moved/l; getfattr -d -m - made/moved/f | grep -c posix",
    ] {
        let script = format!("{}; {show}", step.replace("OTHER", OTHER));
        let [ours, theirs] = [&mounted.point, other.path()].map(|folder| said(folder, &script));
        assert_eq!(ours, theirs, "{step}");
    }
    // What the kernel keeps of lists is what the store holds.
    let before = said(&mounted.point, &format!("getfacl -Rpn . ; {OTHER} cat f"));
    drop(mounted);
    store.is_sound();
    let Some(mounted) = store.mount_with(&["--allow-other"]) else { return };
    assert_eq!(said(&mounted.point, &format!("getfacl -Rpn . ; {OTHER} cat f")), before);
}

/// Times before 1970 were off by twice their fraction, and those behind 2262 were clamped.
#[test]
fn times_are_those_that_programs_set() {
    let store = Store::new("64MiB");
    let Some(mut mounted) = store.mount() else { return };
    let other = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let times = [
        "-1.5",
        "-0.5",
        "-0.000000001",
        "0",
        "-11644473600.25",
        "9223372036.9",
        "9223372037.5",
        "15032385536.125",
        "253370764800.999999999",
    ];
    let set = |time: &str| {
        format!("touch -d @{time} f{time}; touch -m -d @7.5 f{time}; touch -m -d @{time} f{time}")
    };
    let set = times.map(set).join(";");
    let show = "TZ=UTC0 stat -c '%n %.9X %.9Y' f*";
    let expected = said(other.path(), &format!("{set}; {show}"));
    assert!(expected.contains("f-1.5 -1.500000000 -1.500000000\n"), "{expected}");
    assert_eq!(said(&mounted.point, &format!("{set}; {show}")), expected);
    // Not what the kernel remembers.
    drop(mounted);
    store.is_sound();
    let Some(again) = store.mount() else { return };
    mounted = again;
    assert_eq!(said(&mounted.point, show), expected);
    let shim = Path::new(env!("CARGO_BIN_EXE_pagewalk")).with_file_name("libpagewalk_ctfs_shim.so");
    if !shim.is_file() {
        println!("skipped in part: `cargo build --package pagewalk-ctfs-shim` makes what is preloaded");
        return;
    }
    // Beside the owner, writes included: these have the time of now.
    let run = format!("{} fs run -- sh -c", env!("CARGO_BIN_EXE_pagewalk"));
    let written = times.map(|time| format!("echo x >> f{time}; echo y >> f{time}")).join(";");
    let recent = "find . -name 'f*' -newermt '-1 hour' ! -newermt '+1 hour' | wc -l";
    assert_eq!(said(&mounted.point, &format!("{run} \"{written}\"; {recent}")), format!("{}\n", times.len()));
    let beside = said(&mounted.point, &format!("{run} \"{set}; {show}\""));
    assert_eq!(beside, expected);
    drop(mounted);
    store.is_sound();
}

/// `tar --acls` sets an empty default list on folders that have none, which the kernel tells the mount as a removal.
#[test]
fn a_list_that_is_not_there_can_be_removed() {
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let folder = mounted.point.join("d");
    std::fs::create_dir(&folder).expect("made");
    let no_entries = 2u32.to_le_bytes();
    for list in ["system.posix_acl_access", "system.posix_acl_default"] {
        assert_eq!(rustix::fs::removexattr(&folder, list), Ok(()), "{list}");
        let no_flags = rustix::fs::XattrFlags::empty();
        assert_eq!(rustix::fs::setxattr(&folder, list, &no_entries, no_flags), Ok(()), "{list}");
    }
    assert_eq!(rustix::fs::removexattr(&folder, "user.x"), Err(rustix::io::Errno::NODATA));
}

/// `touch` took the exact time and everything else the clock's last tick: what was written afterwards was older, and `make` built it again.
#[test]
fn what_is_written_after_a_touch_is_not_older() {
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let [touched, written] = ["touched", "written"].map(|name| mounted.point.join(name));
    for file in [&touched, &written] {
        std::fs::write(file, "x").expect("written");
    }
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let now = rustix::fs::Timestamps { last_access: now, last_modification: now };
    for _ in 0..100 {
        let no_flags = rustix::fs::AtFlags::empty();
        rustix::fs::utimensat(rustix::fs::CWD, &touched, &now, no_flags).expect("its owner may");
        std::fs::write(&written, "y").expect("written");
        let [touched, written] =
            [&touched, &written].map(|file| std::fs::metadata(file).expect("it is there"));
        let times = |file: &Metadata| (file.mtime(), file.mtime_nsec());
        assert!(times(&written) >= times(&touched), "{written:?} {touched:?}");
        let changed = (touched.ctime(), touched.ctime_nsec());
        assert!(
            times(&touched) <= changed && (touched.atime(), touched.atime_nsec()) <= changed,
            "{touched:?}"
        );
    }
}

/// What the kernel keeps for itself under these names would be accepted and mean nothing.
#[test]
fn attributes_that_mean_nothing_here_are_refused() {
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let file = mounted.point.join("f");
    std::fs::write(&file, "x").expect("written");
    let set = |attribute: &str| {
        let no_flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&file, attribute, b"1", no_flags).map_err(|error| error.raw_os_error())
    };
    for attribute in ["system.nfs4_acl", "system.x", "other.x", "user."] {
        assert!(set(attribute).is_err(), "{attribute}");
        let mut value = [0; 8];
        assert!(rustix::fs::getxattr(&file, attribute, &mut value[..]).is_err(), "{attribute}");
    }
    for attribute in ["user.x", "trusted.x", "security.x"] {
        assert_eq!(set(attribute), Ok(()), "{attribute}");
    }
    let immutable = Command::new("chattr").args(["+i", name(&file)]).stderr(Stdio::null()).status();
    if let Ok(status) = immutable {
        assert!(!status.success(), "there is no such flag here");
    }
}

/// A copy asks where data is before the kernel has written what a program stored in its mapping.
#[test]
#[allow(unsafe_code)]
fn a_store_in_a_mapping_is_data_at_once() {
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let file = File::options().read(true).write(true).create_new(true).open(mounted.point.join("f"));
    let file = file.expect("made");
    let bytes = 1 << 20;
    file.set_len(bytes).expect("sized");
    let no_data = || rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0));
    assert_eq!(no_data(), Err(rustix::io::Errno::NXIO));
    let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    let shared = rustix::mm::MapFlags::SHARED;
    // SAFETY: (1) a fresh mapping, which nothing else uses; (2) the stored byte lies in it.
    let start = unsafe {
        let start = rustix::mm::mmap(std::ptr::null_mut(), bytes as usize, protection, shared, &file, 0);
        let start = start.expect("mapped");
        start.cast::<u8>().add(500_000).write_volatile(7);
        start
    };
    let found = no_data();
    let script = "cp --sparse=auto f copy; cmp f copy && tr -d '\\0' < copy | od -An -tu1";
    let copied = said(&mounted.point, script);
    // Before anything fails: the mount lasts as long as the mapping.
    // SAFETY: the mapping from above, which nothing uses any more.
    unsafe { rustix::mm::munmap(start, bytes as usize).expect("unmapped") };
    assert_eq!(found, Ok(500_000 / 4_096 * 4_096));
    assert_eq!(copied.trim(), "7");
}

/// A mount whose process ended while files were open was dead: the kernel answered ENOTCONN for all of them.
#[test]
fn a_busy_mount_ends_with_its_last_file() {
    use rustix::process::{Pid, Signal, kill_process};
    let store = Store::new("64MiB");
    // As under `nohup`: the mount ignores it, too.
    let status = std::fs::read_to_string("/proc/self/status").expect("read");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).expect("a line");
    let ignored = u64::from_str_radix(ignored, 16).expect("a number");
    let signals = [Signal::HUP, Signal::INT, Signal::TERM].into_iter();
    let signals = signals.filter(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0);
    for (round, signal) in signals.enumerate() {
        let Some(mut mounted) = store.mount() else { return };
        let path = mounted.point.join("f");
        let mut file = File::options().append(true).create(true).open(&path).expect("opened");
        file.write_all(b"before ").expect("written");
        let process = Pid::from_child(&mounted.process);
        kill_process(process, signal).expect("it runs");
        while path.exists() {
            std::thread::yield_now();
        }
        // The folder is an empty one again, and the file goes on.
        assert_eq!(std::fs::read_dir(&mounted.point).expect("a folder").count(), 0);
        file.write_all(b"after ").expect("its mount still serves it");
        assert!(mounted.process.try_wait().expect("a child").is_none(), "{signal:?}");
        drop(file);
        assert_eq!(mounted.process.wait().expect("a child").code(), Some(0), "{signal:?}");
        store.is_sound();
        let Some(mounted) = store.mount() else { return };
        assert_eq!(std::fs::read(mounted.point.join("f")).expect("read"), b"before after ".repeat(round + 1));
    }
    // The second signal does not wait.
    let Some(mut mounted) = store.mount() else { return };
    let path = mounted.point.join("f");
    let file = File::open(&path).expect("opened");
    let process = Pid::from_child(&mounted.process);
    kill_process(process, Signal::TERM).expect("it runs");
    while path.exists() {
        std::thread::yield_now();
    }
    kill_process(process, Signal::TERM).expect("it runs");
    assert_eq!(mounted.process.wait().expect("a child").code(), Some(128 + Signal::TERM.as_raw()));
    drop(file);
    store.is_sound();
}

#[test]
fn folders_that_cannot_be_mounted_at_are_named() {
    let store = Store::new("64MiB");
    let refused = |at: &Path, word: &str| {
        let output = pagewalk(&["fs", "mount", name(&store.file()), name(at)]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    };
    let Some(mut mounted) = store.mount() else { return };
    mounted.kill();
    refused(&mounted.point, "whose process has ended; `umount ");
    drop(mounted);
    refused(&store.file(), "it is not a folder");
    refused(&store.folder.path().join("none"), "No such file");
    let Some(mounted) = store.mount() else { return };
    let point = name(&mounted.point);
    std::fs::write(mounted.point.join("f"), "x").expect("written");
    assert_eq!(said(Path::new("/"), &format!("mount -o remount,ro {point} && echo done")), "done\n");
    let error = std::fs::write(mounted.point.join("f"), "y").expect_err("it is read-only now");
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(std::fs::read(mounted.point.join("f")).expect("read"), b"x");
}

/// `--force` with a size that was refused had destroyed the store already, and one that failed left the disk full.
#[test]
fn a_store_that_cannot_be_made_leaves_what_was_there() {
    let Some(small) = Small::new("10m") else { return };
    let file = small.0.path().join("store");
    let listed = || std::fs::read_dir(small.0.path()).expect("the folder").count();
    let free = small.free();
    let make = |options: &[&str]| pagewalk(&[&["fs", "mkfs"], options, &[name(&file)]].concat());
    let refused = |options: &[&str], word: &str| {
        let made = make(options);
        assert_eq!(made.status.code(), Some(2), "{options:?}");
        assert!(text(&made.stderr).contains(word), "{options:?}: {}", text(&made.stderr));
    };
    refused(&["--size", "64MiB"], "No space");
    assert_eq!((listed(), small.free()), (0, free), "nothing is left");
    assert_eq!(make(&["--size", "4MiB"]).status.code(), Some(0));
    std::fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("set");
    let before = std::fs::read(&file).expect("read");
    let free = small.free();
    for (options, word) in [
        (&["--size", "4MiB"][..], "--force overwrites it"),
        (&["--force", "--size", "8KiB"], "allowed: 512 to"),
        (&["--force", "--size", "2TiB"], "allowed: 512 to"),
        (&["--force", "--size", "64MiB"], "stays as it was"),
    ] {
        refused(options, word);
        assert!(std::fs::read(&file).expect("read") == before, "{options:?}");
        assert_eq!((listed(), small.free()), (1, free), "{options:?}");
    }
    let used = File::open(&file).expect("there");
    rustix::fs::flock(&used, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    refused(&["--force", "--size", "4MiB"], "another process has the store");
    drop(used);
    assert_eq!(make(&["--force", "--size", "3MiB"]).status.code(), Some(0));
    let metadata = std::fs::metadata(&file).expect("there");
    assert_eq!((metadata.len(), metadata.mode() & 0o777, listed()), (3 << 20, 0o640, 1));
    let folder = pagewalk(&["fs", "mkfs", "--force", name(small.0.path())]);
    assert!(text(&folder.stderr).contains("neither a regular file"), "{}", text(&folder.stderr));
}

/// A store's file holds the bytes of all users.
#[test]
fn only_the_owner_may_open_a_store() {
    let store = Store::new("4MiB");
    assert_eq!(std::fs::metadata(store.file()).expect("there").mode() & 0o777, 0o600);
}

/// Files with room for one superblock, but not for the mirror, made every command panic.
#[test]
fn short_files_are_no_stores() {
    let store = Store::new("4MiB");
    let whole = std::fs::read(store.file()).expect("read");
    let file = store.folder.path().join("short");
    for bytes in [0, 1, 100, 4_095, 4_096, 4_097, 8_191, 8_192, 12_288, 65_536] {
        for content in [vec![0; bytes], vec![0xff; bytes], whole[..bytes].to_vec()] {
            std::fs::write(&file, &content).expect("written");
            for command in [&["fsck"][..], &["fsck", "--repair"], &["info"]] {
                let output = pagewalk(&[&["fs"], command, &[name(&file)]].concat());
                assert_eq!(output.status.code(), Some(2), "{command:?} {bytes}: {}", text(&output.stderr));
                assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
            }
            assert!(std::fs::read(&file).expect("read") == content, "nothing was written");
        }
    }
}

/// Opening a store made the damaged superblock good in memory before the check looked.
#[test]
fn a_damaged_superblock_is_named_and_repaired() {
    let store = Store::new("4MiB");
    let whole = std::fs::read(store.file()).expect("read");
    for (at, word) in [(0, "the superblock (frame 0)"), (4_096, "the superblock's mirror (frame 1)")] {
        let file = File::options().write(true).open(store.file()).expect("there");
        file.write_all_at(&[0x55; 40], at).expect("written");
        let damaged = std::fs::read(store.file()).expect("read");
        let checked = pagewalk(&["fs", "fsck", name(&store.file())]);
        assert_eq!(checked.status.code(), Some(1), "{}", text(&checked.stdout));
        assert_eq!(text(&checked.stdout), format!("{word} is damaged\n"));
        assert!(std::fs::read(store.file()).expect("read") == damaged, "nothing was written");
        let repaired = pagewalk(&["fs", "fsck", "--repair", name(&store.file())]);
        assert_eq!(repaired.status.code(), Some(0), "{}", text(&repaired.stderr));
        assert!(text(&repaired.stdout).starts_with(&format!("{word} is written again")));
        store.is_sound();
        assert!(std::fs::read(store.file()).expect("read") == whole, "as it was");
    }
}
