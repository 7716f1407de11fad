//! A store that is open to be read only: every change is refused, and not one byte of its file changes, whatever state a crash left it in.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use pagewalk_ctfs::{
    Error, FileSystem, Files, Ino, Mapped, OpenOptions, Owner, Place, Replace, SetAttributes, Survives,
    coarse_now,
};
use pagewalk_vm::file::Recovered;

const FILE: u32 = 0o100_644;

fn made(path: &Path) -> FileSystem<Mapped> {
    let memory = Mapped::create(path, 8 << 20, Survives::ProcessCrash).expect("made");
    FileSystem::format(memory, Owner::default(), coarse_now).expect("a file system")
}

/// A copy of a store as a crash leaves it: its last change is in the log alone, and a file without a name is still there.
fn crashed(folder: &Path) -> PathBuf {
    let mut system = made(&folder.join("before"));
    let root = Ino::ROOT;
    let gone = system.create(root, b"gone", FILE, Owner::default(), 0).expect("made");
    system.open(gone).expect("open");
    system.unlink(root, b"gone").expect("unlinked");
    let file = system.create(root, b"file", FILE, Owner::default(), 0).expect("made");
    system.set_attributes(file, &SetAttributes { size: Some(100_000), ..Default::default() }).expect("set");
    system.create(root, b"last", FILE, Owner::default(), 0).expect("made");
    let path = folder.join("crashed");
    std::fs::copy(folder.join("before"), &path).expect("copied");
    path
}

#[test]
fn every_change_is_refused_and_the_file_stays_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let files = Files::new(made(&path));
    files.create_directory("/d", 0o755, Owner::default()).expect("made");
    files.create_link_to("/f", "/link", Owner::default()).expect("made");
    let file = files.open("/f", &OpenOptions::updating()).expect("made");
    file.write_at(&[7; 50_000], 0).expect("written");
    drop((file, files));
    let before = std::fs::read(&path).expect("read");

    let (system, recovered) =
        FileSystem::mount(Mapped::open_read_only(&path).expect("open"), coarse_now).expect("mounted");
    assert_eq!(recovered, Recovered::Nothing);
    let files = Files::new(system);
    let me = Owner::default();
    let set = |set: SetAttributes| files.set_attributes("/f", &set);
    let refused = [
        files.create_directory("/new", 0o755, me),
        files.remove_directory("/d"),
        files.remove_file("/f"),
        files.rename("/f", "/g", Replace::Yes),
        files.link("/f", "/g"),
        files.create_link_to("/f", "/other", me),
        set(SetAttributes { mode: Some(0o600), ..Default::default() }),
        // Within the file's frames nothing is mapped or unmapped.
        set(SetAttributes { size: Some(49_999), ..Default::default() }),
        set(SetAttributes { modified: Some(1), ..Default::default() }),
        files.open("/f", &OpenOptions::updating()).map(drop),
        files.open("/new", &OpenOptions::creating()).map(drop),
        files.open_unnamed(0o600, me).map(drop),
    ];
    assert_eq!(refused, [Err(Error::ROFS); 12]);
    let file = files.open("/f", &OpenOptions::default()).expect("open");
    let mut bytes = vec![0; 60_000];
    assert_eq!(file.read_at(&mut bytes, 0), Ok(50_000));
    assert_eq!(bytes[..50_000], [7; 50_000]);
    // A handle that is not asked what for.
    let ino = file.attributes().expect("known").ino;
    let opened = pagewalk_ctfs::Volume::open(&files, ino).expect("open");
    for place in [Place::At(0), Place::At(70_000), Place::End] {
        assert_eq!(files.write(&opened, place, b"x"), Err(Error::ROFS), "{place:?}");
    }
    files.close(opened).expect("closed");
    drop((file, files));
    assert!(std::fs::read(&path).expect("read") == before, "not one byte has changed");
}

#[test]
fn a_store_that_crashed_is_recovered_in_memory_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = crashed(folder.path());
    let before = std::fs::read(&path).expect("read");
    let (system, recovered) =
        FileSystem::mount(Mapped::open_read_only(&path).expect("open"), coarse_now).expect("mounted");
    assert!(matches!(recovered, Recovered::Applied(_)), "{recovered:?}");
    assert_eq!(pagewalk_ctfs::check(&system), [] as [String; 0]);
    let files = Files::new(system);
    assert_eq!(files.attributes("/file").expect("there").size, 100_000);
    assert!(files.attributes("/last").is_ok() && files.attributes("/gone").is_err());
    drop(files);
    assert!(std::fs::read(&path).expect("read") == before, "not one byte has changed");
    // It is still to be recovered.
    let (_, recovered) =
        FileSystem::mount(Mapped::open(&path, Survives::ProcessCrash).expect("open"), coarse_now)
            .expect("mounted");
    assert!(matches!(recovered, Recovered::Applied(_)), "{recovered:?}");
}

#[test]
fn readers_share_a_store_and_keep_writers_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let busy = |opened: io::Result<Mapped>| {
        assert_eq!(opened.map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::ResourceBusy));
    };
    let system = made(&path);
    busy(Mapped::open_read_only(&path));
    drop(system);
    let readers = [(); 2].map(|()| Mapped::open_read_only(&path).expect("open"));
    busy(Mapped::open(&path, Survives::ProcessCrash));
    drop(readers);
    Mapped::open(&path, Survives::ProcessCrash).expect("nothing has it any more");
}
