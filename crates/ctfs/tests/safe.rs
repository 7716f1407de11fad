//! Tests of what safe code can do with the library: none of it reaches another file's bytes, tears what the library keeps whole, or
//! hangs.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use pagewalk_ctfs::{
    Error, FileSystem, Files, Mapped, OpenOptions, Owner, Place, Survives, Volume, coarse_now,
};

fn mapped(folder: &tempfile::TempDir, name: &str) -> FileSystem<Mapped> {
    let memory = Mapped::create(&folder.path().join(name), 16 << 20, Survives::ProcessCrash).expect("made");
    FileSystem::format(memory, Owner::default(), coarse_now).expect("a file system")
}

/// Paths of the standard library were no paths here, files had to be borrowed to be read, and options had no `new`.
#[test]
fn files_are_opened_read_and_written_as_the_standard_librarys() {
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::path::{Path, PathBuf};
    let folder = tempfile::tempdir().expect("a folder");
    let files = Files::new(mapped(&folder, "store"));
    let mut file = files
        .open(Path::new("/f"), OpenOptions::new().read(true).write(true).create_new(true))
        .expect("open");
    file.write_all(b"written as text").expect("room");
    assert_eq!(file.seek(SeekFrom::Start(8)).expect("a place"), 8);
    let mut text = String::new();
    file.read_to_string(&mut text).expect("text");
    assert_eq!(text, "as text");
    assert!(format!("{file:?} {files:?}").starts_with("File { ino: "));
    drop(file);
    assert_eq!(
        files.open("/f", &OpenOptions::new()).err(),
        Some(Error::INVAL),
        "neither to read nor to write"
    );
    let unread = files.open("/f", OpenOptions::new().write(true)).expect("open");
    assert_eq!(unread.read_at(&mut [0], 0), Err(Error::BADF));
    let mut end = files.open(b"/f", OpenOptions::new().append(true)).expect("open");
    end.write_all(b" twice").expect("room");
    let names = [PathBuf::from("/f")];
    assert_eq!(files.attributes(&names[0]).expect("there").size, 21);
    assert_eq!(files.attributes(String::from("/f")).expect("there").size, 21);
    let mut cut = files.open("/f", OpenOptions::new().write(true).truncate(true)).expect("open");
    cut.write_all(b"anew").expect("room");
    assert_eq!(files.attributes(b"/f".to_vec()).expect("there").size, 4);
}

/// A whole record is read or none of it, however many threads read and write.
#[test]
fn threads_read_whole_records() {
    const RECORD: usize = 40_000;
    let folder = tempfile::tempdir().expect("a folder");
    let files = Files::new(mapped(&folder, "store"));
    let writer = files.open("/f", &OpenOptions::updating()).expect("open");
    writer.write_at(&[0; RECORD], 0).expect("written");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..2_000u32 {
                writer.write_at(&[round as u8; RECORD], 0).expect("written");
            }
            is_over.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            let reader = files.open("/f", &OpenOptions::default()).expect("open");
            let is_over = &is_over;
            scope.spawn(move || {
                let mut bytes = vec![1; RECORD];
                while !is_over.load(Ordering::Acquire) {
                    assert_eq!(reader.read_at(&mut bytes, 0), Ok(RECORD));
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn record");
                }
            });
        }
    });
}

/// Inodes have the same numbers in both.
#[test]
fn a_handle_is_of_its_own_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, other] = ["one", "other"].map(|name| Files::new(mapped(&folder, name)));
    let file = one.open("/f", &OpenOptions::updating()).expect("open");
    file.write_at(b"one's", 0).expect("written");
    let ino = file.attributes().expect("known").ino;
    other.open("/f", &OpenOptions::updating()).and_then(|file| file.write_at(b"other", 0)).expect("written");
    let opened = one.open_ino(ino);
    let mut bytes = [0; 5];
    assert_eq!(one.read(&opened, 0, &mut bytes), Ok(5));
    assert_eq!(other.read(&opened, 0, &mut bytes), Err(Error::BADF));
    assert_eq!(other.write(&opened, Place::End, b"x"), Err(Error::BADF));
    assert_eq!(other.size(&opened), Err(Error::BADF));
    assert_eq!(&bytes, b"one's");
    assert_eq!(one.close(opened), Ok(()));
}

trait OpenIno {
    fn open_ino(&self, ino: pagewalk_ctfs::Ino) -> pagewalk_ctfs::Opened;
}

impl OpenIno for Files<Mapped> {
    fn open_ino(&self, ino: pagewalk_ctfs::Ino) -> pagewalk_ctfs::Opened {
        Volume::open(self, ino).expect("it is there")
    }
}

/// What is opened while a file is in use, on the same thread, does not wait for itself.
#[test]
fn one_thread_uses_everything_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Files::new(mapped(&folder, "store"));
    let first = files.open("/first", &OpenOptions::updating()).expect("open");
    let attributes = first.attributes().expect("known");
    let second = files.open("/second", &OpenOptions::updating()).expect("open");
    second.write_at(b"second", 0).expect("written");
    for entry in files.list("/").expect("listed") {
        let path = [b"/", &entry.name[..]].concat();
        let file = files.open(&path, &OpenOptions::updating()).expect("open");
        file.write_at(b"more", 6).expect("written");
        files.rename(&path, [&path[..], b".new"].concat(), pagewalk_ctfs::Replace::No).expect("renamed");
    }
    assert_eq!(second.size(), Ok(10));
    assert_eq!(first.attributes().expect("known").ino, attributes.ino);
    drop((first, second));
    drop(files);
}
