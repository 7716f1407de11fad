//! A store that grows while its files are open and used.

#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewalk_ctfs::{
    Error, FileSystem, Files, GrowError, Mapped, OpenOptions, Owner, Survives, check, coarse_now,
};

const MIB: u64 = 1 << 20;

fn made(path: &Path, survives: Survives) -> Files<Mapped> {
    let memory = Mapped::create(path, 8 * MIB, survives).expect("made");
    drop(FileSystem::format(memory, Owner::default(), coarse_now).expect("a file system"));
    open(path, survives)
}

fn open(path: &Path, survives: Survives) -> Files<Mapped> {
    let memory = Mapped::open(path, survives).expect("open");
    let (system, _) = FileSystem::mount(memory, coarse_now).expect("mounted");
    assert_eq!(check(&system), [] as [String; 0]);
    Files::new(system)
}

/// On the disk of the folder for temporary files, and in memory, where the hardware finds bytes by itself.
fn everywhere(act: impl Fn(&Path, Survives)) {
    let disk = tempfile::tempdir().expect("a folder");
    for survives in [Survives::ProcessCrash, Survives::PowerFailure, Survives::Synced] {
        act(&disk.path().join(format!("{survives:?}")), survives);
    }
    match tempfile::tempdir_in("/dev/shm") {
        Ok(memory) => act(&memory.path().join("store"), Survives::ProcessCrash),
        Err(error) => println!("skipped in memory: {error}"),
    }
}

#[test]
fn files_stay_open_while_their_store_grows() {
    everywhere(|path, survives| {
        let files = made(path, survives);
        let file = files.open("/f", &OpenOptions::updating()).expect("made");
        let byte = |at: u64| (at / 4_096 % 251) as u8 + 1;
        let mut size = 0;
        let fill = |size: &mut u64| {
            while file.write_at(&[byte(*size); 4_096], *size) == Ok(4_096) {
                *size += 4_096;
            }
        };
        fill(&mut size);
        assert!((4 * MIB..8 * MIB).contains(&size), "{size}");
        // Over a boundary of what a frame of the bitmap is for, at last.
        let steps = [(9 * MIB, 6 * MIB), (40 * MIB, 36 * MIB), (140 * MIB, 130 * MIB)];
        // Where each write waits for the disk, one step is enough.
        let steps = if survives == Survives::PowerFailure { &steps[..1] } else { &steps };
        for &(bytes, least) in steps {
            files.grow(bytes).expect("there is room");
            files.grow(bytes).expect("it has that size");
            fill(&mut size);
            assert!((least..bytes).contains(&size), "{survives:?}: {size} of {bytes}");
        }
        let has = steps.last().expect("some").0;
        assert!(matches!(files.grow(has - MIB), Err(GrowError::Store(_))));
        assert_eq!(files.grow(has - MIB).unwrap_err().errno(), Error::INVAL);
        assert_eq!(files.grow(has + 4_096).unwrap_err().errno(), Error::RANGE);
        assert_eq!(files.grow(u64::MAX).unwrap_err().errno(), Error::RANGE);
        let right = |file: &pagewalk_ctfs::File<Mapped>| {
            let mut page = [0; 4_096];
            for at in (0..size).step_by(4_096) {
                assert_eq!(file.read_at(&mut page, at), Ok(4_096));
                assert!(page == [byte(at); 4_096], "{survives:?}: page at {at}");
            }
        };
        right(&file);
        drop((file, files));
        let files = open(path, survives);
        right(&files.open("/f", &OpenOptions::default()).expect("there"));
    });
}

#[test]
fn threads_go_on_while_their_store_grows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let files = made(&path, Survives::Synced);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..=2u8 {
            let (files, is_over) = (&files, &is_over);
            scope.spawn(move || {
                let name = format!("/{thread}");
                let mut rounds = 0u64;
                while !is_over.load(Ordering::Relaxed) || rounds < 3 {
                    let file = files.open(&name, &OpenOptions::updating()).expect("made");
                    let mut read = vec![0; 50_000];
                    for at in 0..8 {
                        assert_eq!(file.write_at(&vec![thread; 50_000], at * 50_000), Ok(50_000));
                        assert_eq!(file.read_at(&mut read, at * 50_000), Ok(50_000));
                        assert!(read.iter().all(|byte| *byte == thread));
                    }
                    drop(file);
                    files.remove_file(&name).expect("removed");
                    rounds += 1;
                }
            });
        }
        for step in 1..=20 {
            files.grow((8 + step) * MIB).expect("there is room");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(files);
    drop(open(&path, Survives::Synced));
}

/// A full disk, and a store that is only read: it stays as it is, and goes on.
#[test]
fn what_cannot_grow_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let files = made(&path, Survives::ProcessCrash);
    let length = std::fs::metadata(&path).expect("there").len();
    // More than the disk has, which is not filled to find that out: other programs need it.
    let disk = rustix::fs::statvfs(&path).expect("a disk");
    let wanted = length + disk.f_bavail * disk.f_frsize + (4 << 30);
    if wanted < 1 << 40 {
        let error = files.grow(wanted).expect_err("the disk is full");
        assert_eq!(error.errno(), Error::NOSPC, "{error}");
        assert!(error.to_string().contains(" are free"), "{error}");
    } else {
        println!("skipped: the disk has room for every store");
    }
    assert_eq!(std::fs::metadata(&path).expect("there").len(), length, "nothing is left of it");
    files.create_directory("/d", 0o755, Owner::default()).expect("made");
    drop(files);
    let (system, _) =
        FileSystem::mount(Mapped::open_read_only(&path).expect("open"), coarse_now).expect("mounted");
    let files = Files::new(system);
    assert_eq!(files.grow(16 * MIB).unwrap_err().errno(), Error::ROFS);
    drop(files);
    drop(open(&path, Survives::ProcessCrash));
}
