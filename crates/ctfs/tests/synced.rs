//! Programs that have a store themselves and ask for what they did to persist. A copy of the store's file, which is not in the memory that
//! held the original, is what a power failure leaves where the kernel has written everything back.

#![forbid(unsafe_code)]

use std::path::Path;

use pagewalk_ctfs::{FileSystem, Files, Mapped, OpenOptions, Owner, Survives, check, coarse_now};
use pagewalk_vm::file::Recovered;

fn made(path: &Path) {
    let memory = Mapped::create(path, 8 << 20, Survives::PowerFailure).expect("made");
    FileSystem::format(memory, Owner::default(), coarse_now).expect("a file system");
}

fn opened(path: &Path) -> (Files<Mapped>, Recovered) {
    let memory = Mapped::open(path, Survives::Synced).expect("there");
    let (system, recovered) = FileSystem::mount(memory, coarse_now).expect("sound");
    assert_eq!(check(&system), Vec::<String>::new());
    (Files::new(system), recovered)
}

/// What a power failure now leaves of a store.
fn failed(path: &Path) -> (Files<Mapped>, Recovered) {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).expect("copied");
    opened(&copy)
}

fn write(files: &Files<Mapped>, name: &str, data: &[u8]) {
    let file = files.open(name, &OpenOptions::creating()).expect("made");
    assert_eq!(file.write_at(data, 0), Ok(data.len()));
}

#[test]
fn what_was_synced_outlives_a_power_failure_and_what_was_closed_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    made(&path);
    let (files, recovered) = opened(&path);
    assert_eq!(recovered, Recovered::Nothing);
    write(&files, "/first", &[1; 50_000]);
    files.sync().expect("synced");
    write(&files, "/second", &[2; 50_000]);
    let (left, recovered) = failed(&path);
    assert!(matches!(recovered, Recovered::Restored(_)), "{recovered:?}");
    assert_eq!(left.attributes("/first").expect("synced").size, 50_000);
    assert!(left.attributes("/second").is_err(), "no program asked for it");
    drop(left);

    let second = files.open("/second", &OpenOptions::updating()).expect("there");
    second.sync().expect("synced");
    assert_eq!(failed(&path).0.attributes("/second").expect("synced").size, 50_000);
    write(&files, "/third", &[3; 50_000]);
    // A file keeps its store.
    drop(files);
    assert_eq!(second.write_at(&[4; 10], 0), Ok(10));
    drop(second);
    let (left, recovered) = failed(&path);
    assert_eq!(recovered, Recovered::Nothing, "it ended in good order");
    assert_eq!(left.attributes("/third").expect("there").size, 50_000);
    let (files, recovered) = opened(&path);
    assert_eq!((recovered, files.attributes("/third").expect("there").size), (Recovered::Nothing, 50_000));
}

/// The last to sync has everything of all of them, with nothing done behind it.
#[test]
fn threads_wait_for_the_disk_together() {
    const THREADS: usize = 4;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    made(&path);
    let (files, _) = opened(&path);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let files = files.clone();
            scope.spawn(move || {
                for round in 1..=60u8 {
                    write(&files, &format!("/{thread}-{round}"), &[round; 3_000]);
                    files.sync().expect("synced");
                }
            });
        }
    });
    let (left, recovered) = failed(&path);
    assert!(matches!(recovered, Recovered::Restored(_)), "{recovered:?}");
    for thread in 0..THREADS {
        for round in 1..=60u8 {
            let file = left.open(format!("/{thread}-{round}"), &OpenOptions::default()).expect("synced");
            let mut bytes = [0; 4_000];
            assert_eq!(file.read_at(&mut bytes, 0), Ok(3_000));
            assert!(bytes[..3_000] == [round; 3_000]);
        }
    }
}
