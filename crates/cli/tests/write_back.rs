//! `pagewalk fs mount --write-back`: the kernel keeps what programs write, and no program sees a difference.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use pagewalk_vm::random::SplitMix64;
use rustix::fs::{FallocateFlags, SeekFrom};

use crate::mounted::{self, Mounted, Store, mount, name};

fn mount_back(store: &Store) -> Option<Mounted> {
    store.mount_with(&["--write-back"])
}

/// Unmounts, as `umount` does, and mounts again.
fn again(store: &Store, mounted: Mounted) -> Mounted {
    drop(mounted);
    mount(&store.file(), &store.mount_point(), &["--write-back"])
}

/// One file by four descriptors: one that reads and writes, one that writes, two that append.
struct Ways {
    both: File,
    writes: File,
    appends: File,
    /// With `O_DIRECT`, the kernel does not keep what this one writes, but passes it on at once.
    appends_past: File,
}

impl Ways {
    fn of(path: &Path, flags: i32) -> Self {
        let mut both = File::options();
        Self {
            both: both.read(true).write(true).create(true).truncate(false).open(path).expect("made"),
            writes: File::options().write(true).open(path).expect("there"),
            appends: File::options().append(true).open(path).expect("there"),
            appends_past: File::options().append(true).custom_flags(flags).open(path).expect("there"),
        }
    }

    /// What a program sees of the file: its bytes, and how long it is.
    fn seen(&self) -> (Vec<u8>, u64) {
        let mut bytes = vec![0; 1 << 20];
        let read = self.both.read_at(&mut bytes, 0).expect("read");
        bytes.truncate(read);
        (bytes, self.both.metadata().expect("there").len())
    }

    /// The bytes that `SEEK_DATA` finds.
    fn copied(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.both.metadata().expect("there").len() as usize];
        let mut at = 0;
        while let Ok(data) = rustix::fs::seek(&self.both, SeekFrom::Data(at)) {
            let hole = rustix::fs::seek(&self.both, SeekFrom::Hole(data)).expect("an end");
            self.both.read_exact_at(&mut bytes[data as usize..hole as usize], data).expect("read");
            at = hole;
        }
        bytes
    }

    fn act(&mut self, random: &mut SplitMix64) {
        // An end inside of a page lets the kernel pass that page on before what is appended past it.
        let (at, bytes) = match random.below(2) {
            0 => (random.below(75) * 4_096, (random.below(5) + 1) * 4_096),
            _ => (random.below(300_000), random.below(20_000) + 1),
        };
        let data = vec![random.below(256) as u8; bytes as usize];
        match random.below(10) {
            0 | 1 => self.both.write_all_at(&data, at).expect("written"),
            2 | 3 => self.writes.write_all_at(&data, at).expect("written"),
            4 | 5 => self.appends.write_all(&data).expect("written"),
            6 => self.appends_past.write_all(&data).expect("written"),
            7 => self.both.set_len(at).expect("cut"),
            8 => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.both, flags, at, bytes).expect("punched");
            }
            _ => self.both.sync_data().expect("synced"),
        }
    }
}

#[test]
fn bytes_are_as_on_another_file_system() {
    let store = Store::new("64MiB");
    let Some(mut mounted) = mount_back(&store) else { return };
    let other = tempfile::tempdir().expect("a folder");
    for seed in 0..4 {
        let mut random = SplitMix64::new(seed);
        let path = mounted.point.join(format!("file-{seed}"));
        let (mut here, mut there) =
            (Ways::of(&path, libc::O_DIRECT), Ways::of(&other.path().join(format!("file-{seed}")), 0));
        for number in 0..300 {
            here.act(&mut random.clone());
            there.act(&mut random);
            assert!(here.seen() == there.seen(), "seed {seed}, operation {number}");
            if number % 16 == 0 {
                assert!(here.copied() == there.seen().0, "seed {seed}, operation {number}: holes");
            }
        }
        let expected = there.seen();
        drop(here);
        mounted = again(&store, mounted);
        assert!(Ways::of(&path, 0).seen() == expected, "seed {seed}, mounted again");
    }
    drop(mounted);
    store.is_sound();
}

/// The kernel knows when a program wrote, and tells the owner, whose own clock would give a later time.
#[test]
fn times_are_those_of_the_writes() {
    let store = Store::new("64MiB");
    let Some(mut mounted) = mount_back(&store) else { return };
    let path = mounted.point.join("file");
    let mut file = File::create(&path).expect("made");
    let times = |path: &Path| {
        let known = std::fs::metadata(path).expect("there");
        (known.mtime(), known.mtime_nsec(), known.ctime(), known.ctime_nsec(), known.len())
    };
    let empty = times(&path);
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.write_all(&[1; 10_000]).expect("written");
    let written = times(&path);
    assert!(written > empty && written.4 == 10_000, "{written:?}");
    std::thread::sleep(std::time::Duration::from_millis(20));
    drop(file);
    assert_eq!(times(&path), written, "closing changes nothing");
    mounted = again(&store, mounted);
    assert_eq!(times(&path), written, "mounted again");
    // The program sets a time behind its write: the kernel must not pass the write's time on after that.
    let mut file = File::options().append(true).open(&path).expect("there");
    file.write_all(b"more").expect("written");
    let set = std::time::UNIX_EPOCH + std::time::Duration::new(86_400, 5);
    file.set_modified(set).expect("set");
    drop(file);
    let expected = times(&path);
    assert_eq!((expected.0, expected.1, expected.4), (86_400, 5, 10_004));
    let _mounted = again(&store, mounted);
    assert_eq!(times(&path), expected, "mounted again");
}

#[test]
fn what_was_closed_or_synced_survives_the_end_of_the_owner() {
    let store = Store::new("64MiB");
    let Some(mut mounted) = mount_back(&store) else { return };
    let bytes: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
    std::fs::write(mounted.point.join("closed"), &bytes).expect("written");
    let mut synced = File::create(mounted.point.join("synced")).expect("made");
    synced.write_all(&bytes).expect("written");
    synced.sync_all().expect("synced");
    mounted.kill();
    drop((synced, mounted));
    let mounted = mount(&store.file(), &store.mount_point(), &[]);
    for name in ["closed", "synced"] {
        assert!(std::fs::read(mounted.point.join(name)).expect("there") == bytes, "{name}");
    }
    drop(mounted);
    store.is_sound();
}

/// The kernel accepts a write before it knows whether the store has room: the program learns from `close` or `fsync` that there is none.
#[test]
fn a_full_store_is_said_by_sync_at_the_latest() {
    let store = Store::new("8MiB");
    let Some(mounted) = mount_back(&store) else { return };
    let path = mounted.point.join("large");
    let mut file = File::create(&path).expect("made");
    let piece = vec![7; 1 << 20];
    let written = (0..32).try_for_each(|_| file.write_all(&piece)).and_then(|()| file.sync_all());
    assert_eq!(written.map_err(|error| error.kind()), Err(std::io::ErrorKind::StorageFull));
    drop(file);
    std::fs::remove_file(&path).expect("removed");
    std::fs::write(mounted.point.join("small"), "fits").expect("there is room again");
    assert_eq!(std::fs::read_to_string(mounted.point.join("small")).expect("read"), "fits");
    drop(mounted);
    store.is_sound();
}

/// No program has the store in its memory; it runs all the same.
#[test]
fn programs_under_run_use_the_kernel() {
    let store = Store::new("64MiB");
    let Some(mounted) = mount_back(&store) else { return };
    let shim = Path::new(env!("CARGO_BIN_EXE_pagewalk")).with_file_name("libpagewalk_ctfs_shim.so");
    if !shim.is_file() {
        println!("skipped: this takes `cargo build --package pagewalk-ctfs-shim`");
        return;
    }
    let script = "echo one > f; echo two >> f; exec 3<f; read -r a <&3; echo $a; mkdir d; mv f d; cat d/f; exec 3>>d/f; \
                  grep -c 'pagewalk-ctfs\\|store.ctfs' /proc/self/maps";
    let said = Command::new(env!("CARGO_BIN_EXE_pagewalk"))
        .args(["fs", "run", "--", "sh", "-c", script])
        .current_dir(&mounted.point)
        .output()
        .expect("it runs");
    assert_eq!(mounted::text(&said.stdout), "one\none\ntwo\n0\n", "{}", mounted::text(&said.stderr));
    let mut read = String::new();
    File::open(mounted.point.join("d/f")).expect("there").read_to_string(&mut read).expect("read");
    assert_eq!(read, "one\ntwo\n");
}

#[test]
fn it_promises_nothing_that_it_cannot_keep() {
    let store = Store::new("64MiB");
    for other in ["--strict", "--power-failure", "--read-only", "--dax"] {
        let (file, point) = (store.file(), store.mount_point());
        let refused = mounted::pagewalk(&["fs", "mount", "--write-back", other, name(&file), name(&point)]);
        assert_eq!(refused.status.code(), Some(2), "{other}");
    }
}
