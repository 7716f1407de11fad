//! `pagewalk fs` as a process: what it refuses, programs on a mount, and mounts that are killed.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::mounted::{Store, name, pagewalk, text};

#[test]
fn a_benchmark_measures_every_target_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments =
        ["fs", "bench", name(folder.path()), "--size", "1MiB", "--rounds", "2", "--items", "append,sr"];
    let output = pagewalk(&[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 5);
    for row in rows {
        for number in ["gigabytes_per_second", "microseconds", "over_calls", "over_copy"] {
            assert!(row[number].as_f64().is_some_and(|number| number > 0.0), "{row}");
        }
        let is_library = row["target"] == "ctfs";
        let share = row["data_share"].as_f64();
        assert_eq!(share.is_some(), is_library, "{row}");
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{row}");
        if row["target"] == "system calls" {
            assert_eq!(row["over_calls"], 1.0);
        }
    }
    let table = pagewalk(&arguments);
    assert!(text(&table.stdout).contains("of the calls"), "{}", text(&table.stdout));
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "nothing is left");
    for (arguments, word) in [
        (["--size", "3MiB"], "powers of two"),
        (["--rounds", "0"], "0 rounds"),
        (["--items", "append,none"], "none"),
    ] {
        let refused = pagewalk(&[&["fs", "bench", name(folder.path())][..], &arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(text(&refused.stderr).contains(word), "{}", text(&refused.stderr));
    }
}

#[test]
fn what_is_no_store_is_refused() {
    let store = Store::new("4MiB");
    let (file, folder) = (store.file(), store.folder.path().to_owned());
    let other = folder.join("other");
    std::fs::write(&other, vec![7; 1 << 20]).expect("written");
    for (arguments, code, word) in [
        (&["fs", "mkfs", name(&file)][..], 2, "--force overwrites it"),
        (&["fs", "mkfs", "--size", "8KiB", name(&folder.join("small"))], 2, "allowed: 512 to"),
        (&["fs", "fsck", name(&other)], 2, "no store here"),
        (&["fs", "fsck", "--repair", name(&other)], 2, "no store here"),
        (&["fs", "info", name(&folder.join("nowhere"))], 2, "nowhere"),
        (&["fs", "mount", name(&other), name(&folder)], 2, "no store here"),
        (&["fs", "mount", name(&file), name(&folder.join("nowhere"))], 2, "nowhere"),
    ] {
        let output = pagewalk(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(word), "{arguments:?}: {}", text(&output.stderr));
    }
    store.is_sound();
}

#[test]
fn damage_is_named() {
    let store = Store::new("4MiB");
    let file = File::options().read(true).write(true).open(store.file()).expect("it is there");
    // The root of the page table: its frame is behind the log and the bitmap.
    let table = (3 + 256 + 1) * 4_096;
    let mut entry = [0; 8];
    file.read_exact_at(&mut entry, table).expect("read");
    for (bits, word) in
        [(0xffff_ffff_f001u64, "not for that"), (0x7, "means nothing"), (0x10_4001, "used twice")]
    {
        file.write_all_at(&bits.to_le_bytes(), table).expect("written");
        let checked = pagewalk(&["fs", "fsck", name(&store.file())]);
        assert_eq!(checked.status.code(), Some(1), "{}", text(&checked.stderr));
        assert!(text(&checked.stdout).contains(word), "{bits:#x}: {}", text(&checked.stdout));
        let mounted = pagewalk(&["fs", "info", name(&store.file())]);
        assert_eq!(mounted.status.code(), Some(2));
        assert!(text(&mounted.stderr).contains("damaged"), "{}", text(&mounted.stderr));
    }
    file.write_all_at(&entry, table).expect("written");
    store.is_sound();
}

#[test]
fn damage_is_repaired() {
    let store = Store::new("4MiB");
    let file = File::options().read(true).write(true).open(store.file()).expect("it is there");
    // The list of inodes without a name, in the root frame; the page table's first entry: all inodes.
    for (at, bits, word) in [
        (2 * 4_096 + 8 * 65, 77u64, "inode 77 is not among those without a name any more"),
        ((3 + 256 + 1) * 4_096, 0xffff_ffff_f001, "unmapped 134217728 pages from page 0x0 on"),
    ] {
        store.is_sound();
        file.write_all_at(&bits.to_le_bytes(), at).expect("written");
        let damaged = std::fs::read(store.file()).expect("read");
        let checked = pagewalk(&["fs", "fsck", name(&store.file())]);
        assert_eq!(checked.status.code(), Some(1), "{}", text(&checked.stderr));
        assert!(std::fs::read(store.file()).expect("read") == damaged, "nothing was written");
        let repaired = pagewalk(&["fs", "fsck", "--repair", name(&store.file())]);
        assert_eq!(repaired.status.code(), Some(0), "{}", text(&repaired.stderr));
        assert!(text(&repaired.stdout).contains(word), "{}", text(&repaired.stdout));
        assert!(text(&repaired.stdout).contains("sound: 1 inodes"), "{}", text(&repaired.stdout));
    }
    store.is_sound();
    let shown = pagewalk(&["fs", "info", name(&store.file())]);
    assert_eq!(shown.status.code(), Some(0), "it can be mounted: {}", text(&shown.stderr));
}

#[test]
fn programs_use_a_mount() {
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let at = |path: &str| mounted.point.join(path);
    let busy = pagewalk(&["fs", "info", name(&store.file())]);
    assert!(text(&busy.stderr).contains("another process has the store"), "{}", text(&busy.stderr));
    std::fs::create_dir_all(at("a/b/c")).expect("made");
    std::fs::write(at("a/b/file"), vec![3; 300_000]).expect("written");
    std::fs::hard_link(at("a/b/file"), at("hard")).expect("linked");
    symlink("a/b/file", at("soft")).expect("linked");
    assert_eq!(std::fs::read(at("soft")).expect("read"), vec![3; 300_000]);
    assert_eq!(std::fs::metadata(at("hard")).expect("there").nlink(), 2);
    std::fs::set_permissions(at("hard"), std::fs::Permissions::from_mode(0o600)).expect("set");
    assert_eq!(std::fs::metadata(at("a/b/file")).expect("there").mode() & 0o7777, 0o600);
    std::fs::rename(at("hard"), at("a/moved")).expect("renamed");
    assert_eq!(std::fs::rename(at("a"), at("a/b/c/d")).unwrap_err().raw_os_error(), Some(22), "a circle");
    assert_eq!(std::fs::remove_dir(at("a")).unwrap_err().raw_os_error(), Some(39), "not empty");
    // A file without a name, and one that is longer than what was written.
    let mut open =
        File::options().read(true).write(true).create(true).truncate(true).open(at("gone")).expect("made");
    std::fs::remove_file(at("gone")).expect("removed");
    open.write_all(b"still there").expect("written");
    open.set_len(100_000).expect("set");
    let mut bytes = [1; 20];
    open.read_exact_at(&mut bytes, 5).expect("read");
    assert_eq!(&bytes, b" there\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    drop(open);
    // A user that runs a program that others have changed does not become its owner.
    let mode = || std::fs::metadata(at("run")).expect("there").mode() & 0o7777;
    let set_mode =
        || std::fs::set_permissions(at("run"), std::fs::Permissions::from_mode(0o6755)).expect("set");
    std::fs::write(at("run"), "a program").expect("written");
    let kept = if rustix::process::geteuid().is_root() { 0o6755 } else { 0o755 };
    type Change = fn(&File) -> std::io::Result<()>;
    let changes: [(Change, u32); 3] = [
        (|run| run.write_all_at(b"another", 0), kept),
        (|run| run.set_len(5), kept),
        (|run| std::os::unix::fs::fchown(run, Some(run.metadata()?.uid()), None), 0o755),
    ];
    for (change, expected) in changes {
        set_mode();
        assert_eq!(mode(), 0o6755);
        change(&File::options().write(true).open(at("run")).expect("open")).expect("changed");
        assert_eq!(mode(), expected);
    }
    // More than there is room for.
    let full = std::fs::write(at("large"), vec![1; 80 << 20]).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(28), "{full}");
    std::fs::remove_file(at("large")).expect("removed");
    for number in 0..500 {
        std::fs::write(at(&format!("a/b/c/{number}")), format!("{number}")).expect("written");
    }
    assert_eq!(std::fs::read_dir(at("a/b/c")).expect("read").count(), 500);
    drop(mounted);
    store.is_sound();
    let Some(mounted) = store.mount() else { return };
    assert_eq!(std::fs::read(mounted.point.join("a/moved")).expect("read"), vec![3; 300_000]);
    assert_eq!(std::fs::read_to_string(mounted.point.join("a/b/c/77")).expect("read"), "77");
}

/// A program that lists a directory gets names and attributes from the owner in one answer. The owner counts each such name as known to the
/// kernel, so that files which the program removes give back their frames.
#[test]
fn files_that_were_listed_are_what_they_are_and_go() {
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let folder = mounted.point.join("folder");
    let free = || rustix::fs::statvfs(&folder).expect("a file system").f_bfree;
    std::fs::create_dir(&folder).expect("made");
    let before = free();
    for number in 0..200usize {
        std::fs::write(folder.join(format!("{number}")), vec![7; 40_000 + number]).expect("written");
    }
    // The kernel knows nothing of what it is told the first time.
    drop(mounted);
    let Some(mounted) = store.mount() else { return };
    for _ in 0..3 {
        let mut listed = 0;
        for entry in std::fs::read_dir(&folder).expect("read") {
            let entry = entry.expect("an entry");
            let number: u64 = entry.file_name().to_str().expect("text").parse().expect("a number");
            assert_eq!(entry.metadata().expect("there").len(), 40_000 + number);
            listed += 1;
        }
        assert_eq!(listed, 200);
    }
    assert!(free() < before);
    std::fs::remove_dir_all(&folder).expect("removed");
    std::fs::create_dir(&folder).expect("made");
    // The kernel says by and by what it has forgotten. The table of inodes keeps its pages.
    let begun = std::time::Instant::now();
    while free() + 20 < before {
        assert!(begun.elapsed().as_secs() < 20, "{} of {before} are free", free());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(mounted);
    store.is_sound();
}

/// The kernel passes on what is written by a descriptor that only writes, and keeps none of it. Another program that reads at the same
/// time, by calls or by a mapping, sees all that had been written before.
#[test]
fn readers_see_what_was_written_before() {
    const WORDS: usize = 1 << 10;
    const WRITES: u64 = 5_000;
    let store = Store::new("64MiB");
    let Some(mounted) = store.mount() else { return };
    let path = mounted.point.join("file");
    let written: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default).take(WORDS).collect();
    let (length, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let random = |state: &mut u64, below: usize| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % below
    };
    let is_as_written = |from: usize, words: &[u64], known: &[u64]| {
        for (at, (word, known)) in words.iter().zip(known).enumerate() {
            assert!(word >= known, "word {}: {word} behind {known}", from + at);
        }
    };
    let known = |range: std::ops::Range<usize>| -> Vec<u64> {
        written[range].iter().map(|word| word.load(Ordering::SeqCst)).collect()
    };
    let part = |state: &mut u64| {
        let length = length.load(Ordering::SeqCst);
        let from = if length == 0 { 0 } else { random(state, length) };
        from..length.min(from + 1 + random(state, 200))
    };
    let whole_words = |bytes: &[u8]| -> Vec<u64> {
        bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    };
    let writes = |appends: bool| File::options().append(appends).write(!appends).open(&path).expect("open");
    File::create(&path).expect("made");
    let file = File::open(&path).expect("open");
    // SAFETY: a mapping of its own, of a file that never becomes shorter; only what lies before its end is read.
    #[allow(unsafe_code)]
    let mapped = unsafe {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        mmap(std::ptr::null_mut(), 8 * WORDS, ProtFlags::READ, MapFlags::SHARED, &file, 0).expect("mapped")
    } as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut state = 1;
            while !is_over.load(Ordering::SeqCst) {
                let range = part(&mut state);
                let known = known(range.clone());
                let mut bytes = vec![0; 8 * range.len()];
                file.read_exact_at(&mut bytes, 8 * range.start as u64).expect("read");
                is_as_written(range.start, &whole_words(&bytes), &known);
            }
        });
        scope.spawn(|| {
            let mut state = 2;
            while !is_over.load(Ordering::SeqCst) {
                let range = part(&mut state);
                let known = known(range.clone());
                // SAFETY: as above.
                #[allow(unsafe_code)]
                let words: Vec<u64> = range
                    .clone()
                    .map(|word| unsafe { (mapped as *const u64).add(word).read_volatile() })
                    .collect();
                is_as_written(range.start, &words, &known);
            }
        });
        let mut state = 3;
        let (in_place, at_end) = (writes(false), writes(true));
        for stamp in 1..=WRITES {
            let end = length.load(Ordering::SeqCst);
            let count = 1 + random(&mut state, 200);
            let appends = end == 0 || random(&mut state, 20) == 0;
            let from = if appends { end } else { random(&mut state, end) };
            let range = from..WORDS.min(from + count);
            let bytes: Vec<u8> = range.clone().flat_map(|_| stamp.to_ne_bytes()).collect();
            match appends {
                true => (&at_end).write_all(&bytes).expect("written"),
                false => in_place.write_all_at(&bytes, 8 * from as u64).expect("written"),
            }
            written[range.clone()].iter().for_each(|word| word.store(stamp, Ordering::SeqCst));
            length.fetch_max(range.end, Ordering::SeqCst);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let length = length.into_inner();
    assert_eq!(whole_words(&std::fs::read(&path).expect("read")), known(0..length));
    // SAFETY: as above.
    #[allow(unsafe_code)]
    unsafe {
        assert_eq!(std::slice::from_raw_parts(mapped as *const u64, length), known(0..length));
        rustix::mm::munmap(mapped as *mut _, 8 * WORDS).expect("it is mapped");
    }
}

/// On a disk, and where nothing else is asked for: a copy of the store's file, which is not in the memory that held the original, is
/// what a power failure leaves.
#[test]
fn what_was_synced_outlives_a_power_failure() {
    let store = Store::new("16MiB");
    let Some(mut mounted) = store.mount() else { return };
    let in_memory = rustix::fs::statfs(store.folder.path()).expect("known").f_type == 0x0102_1994;
    if in_memory {
        println!("skipped: the folder for temporary files lies in memory");
        return;
    }
    let at = |name: &str| mounted.point.join(name);
    for name in ["old", "synced", "by descriptor", "by mapping", "removed"] {
        std::fs::write(at(name), format!("first {name}")).expect("written");
    }
    let file = File::open(at("synced")).expect("there");
    file.sync_all().expect("synced");
    // A write that says that it is to persist, and one that the kernel has in a mapping. Each needs what only a sync keeps: a longer
    // file, a page for a hole.
    let options = || File::options().read(true).write(true).clone();
    use std::os::unix::fs::OpenOptionsExt;
    let by_write = options().custom_flags(libc::O_DSYNC).open(at("by descriptor")).expect("opened");
    by_write.write_all_at(b" then", 19).expect("written");
    let failed = || {
        let failed = Store::new("4MiB");
        std::fs::copy(store.file(), failed.file()).expect("copied");
        failed
    };
    let behind_write = failed();
    let by_mapping = options().open(at("by mapping")).expect("opened");
    by_mapping.set_len(8_192).and_then(|()| by_mapping.sync_all()).expect("longer");
    // SAFETY: the mapping is this block's alone, and long enough.
    #[allow(unsafe_code)]
    unsafe {
        use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let start =
            mmap(std::ptr::null_mut(), 4_096, both, MapFlags::SHARED, &by_mapping, 4_096).expect("mapped");
        std::ptr::copy_nonoverlapping(b" then".as_ptr(), start.cast(), 5);
        msync(start, 4_096, MsyncFlags::SYNC).expect("synced");
        munmap(start, 4_096).expect("it is mapped");
    }
    let behind_msync = failed();
    let replaced = at("new");
    std::fs::write(&replaced, vec![7; 100_000]).expect("written");
    File::open(&replaced).and_then(|file| file.sync_data()).expect("synced");
    std::fs::rename(&replaced, at("old")).expect("renamed");
    File::open(&mounted.point).and_then(|folder| folder.sync_all()).expect("synced");
    for number in 0..50 {
        std::fs::write(at(&format!("later {number}")), vec![9; 3_000]).expect("written");
    }
    std::fs::remove_file(at("removed")).expect("removed");
    drop((file, by_write, by_mapping));
    mounted.kill();
    drop(mounted);
    for (store, name, offset) in [(behind_write, "by descriptor", 19), (behind_msync, "by mapping", 4_096)] {
        let mounted = store.mount_with(&[]).expect("as before");
        let bytes = std::fs::read(mounted.point.join(name)).expect("there");
        assert_eq!(bytes.get(offset..offset + 5), Some(&b" then"[..]), "{name}");
    }
    for (store, is_whole) in [(&failed(), false), (&store, true)] {
        let mounted = store.mount_with(&[]).expect("as before");
        let read = |name: &str| std::fs::read(mounted.point.join(name));
        assert_eq!(read("synced").expect("there"), b"first synced");
        assert_eq!(read("by descriptor").expect("there"), b"first by descriptor then");
        assert!(read("old").expect("there") == vec![7; 100_000]);
        // No program asked for these, and nothing has written them back within the five seconds.
        assert!(!is_whole || read("removed").is_err() && read("later 49").is_ok());
        drop(mounted);
        store.is_sound();
    }
}

/// Containers and services have mounts of their own, and others when they are started again; the disk is the same.
#[test]
fn what_was_done_outlives_a_kill_wherever_its_disk_is_mounted() {
    let store = Store::new("16MiB");
    let Some(mut mounted) = store.mount() else { return };
    // The mount knows a file system that lies on no disk of this machine by its mount alone.
    let device = std::fs::metadata(store.file()).expect("there").dev();
    if rustix::fs::major(device) == 0 || !rustix::process::geteuid().is_root() {
        println!("skipped: it takes root, and a folder for temporary files on a disk");
        return;
    }
    std::fs::write(mounted.point.join("file"), "no program synced it").expect("written");
    mounted.kill();
    drop(mounted);
    let mut elsewhere = std::process::Command::new("unshare");
    elsewhere.args(["--mount", env!("CARGO_BIN_EXE_pagewalk"), "fs", "fsck"]).arg(store.file());
    let said = elsewhere.output().expect("unshare");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("sound: 2 inodes") && !said.contains("power"), "{said}");
}

/// Kills a mount while a program makes, fills, renames and removes files; what was done before is there.
fn killed(rounds: u64) {
    let store = Store::new("64MiB");
    let mut expected = 0;
    for round in 0..rounds {
        let Some(mut mounted) = store.mount() else { return };
        // All that earlier rounds have finished; the step that was interrupted may have removed the one before these.
        for number in expected.max(19) - 19..expected {
            let bytes = std::fs::read(mounted.point.join(format!("done-{number}"))).expect("it was finished");
            assert!(
                bytes == vec![number as u8; 1_000 + 977 * (number % 40) as usize],
                "round {round}, file {number}"
            );
        }
        let (point, begin) = (mounted.point.clone(), expected);
        let writer = std::thread::spawn(move || {
            let mut done = begin;
            let step = |number: u64| -> std::io::Result<()> {
                let temporary = point.join("temporary");
                std::fs::write(&temporary, vec![number as u8; 1_000 + 977 * (number % 40) as usize])?;
                File::open(&temporary)?.sync_all()?;
                std::fs::rename(&temporary, point.join(format!("done-{number}")))?;
                match number.checked_sub(20) {
                    Some(old) => match std::fs::remove_file(point.join(format!("done-{old}"))) {
                        // It went before the last kill.
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                        other => other,
                    },
                    None => Ok(()),
                }
            };
            while step(done).is_ok() {
                done += 1;
            }
            done
        });
        std::thread::sleep(std::time::Duration::from_millis(5 + round * 37 % 90));
        mounted.kill();
        // Until the dead mount is gone every step fails; what lies below it is not the store.
        expected = writer.join().expect("it ended");
        drop(mounted);
        store.is_sound();
    }
    assert!(expected > rounds, "{expected} files in {rounds} rounds");
}

#[test]
fn what_was_done_outlives_a_killed_mount() {
    killed(8);
}

#[test]
#[ignore = "takes minutes; `make soak`"]
fn what_was_done_outlives_a_thousand_killed_mounts() {
    killed(1_000);
}
