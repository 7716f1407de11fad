use std::io::{Read, Seek, SeekFrom, Write};

use rustix::io::Errno;

use super::*;
use crate::core::error::Result;
use crate::core::inode::kind;
use crate::core::system::FileSystem;
use crate::core::types::{Owner, Replace, SetAttributes};
use crate::memory::mapped::Mapped;
use crate::memory::survives::Survives;

fn files() -> Files<Mapped> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let memory = Mapped::create(file.path(), 16 << 20, Survives::ProcessCrash).unwrap();
    Files::new(FileSystem::format(memory, Owner::default(), || 0).unwrap())
}

fn put(files: &Files<Mapped>, path: &str, bytes: &[u8]) {
    let file = files.open(path, &OpenOptions::creating()).unwrap();
    assert_eq!(file.write_at(bytes, 0), Ok(bytes.len()));
}

fn got(files: &Files<Mapped>, path: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    (&files.open(path, &OpenOptions::default())?).read_to_end(&mut bytes).unwrap();
    Ok(bytes)
}

#[test]
fn paths_lead_through_directories_and_links() {
    let files = files();
    let me = Owner::default();
    for directory in ["/a", "a/b/", "//a//b/c"] {
        files.create_directory(directory, 0o755, me).unwrap();
    }
    put(&files, "/a/b/c/file", b"here");
    files.create_link_to("b/c", "/a/short", me).unwrap();
    files.create_link_to("/a/short/file", "/to-file", me).unwrap();
    files.create_link_to("../..", "/a/b/up", me).unwrap();
    files.create_link_to("round", "/round", me).unwrap();
    files.create_link_to("made", "/dangling", me).unwrap();
    for path in ["a/b/c/file", "/a/short/file", "/to-file", "a/b/up/to-file", "/a/./b/../short/file"] {
        assert_eq!(got(&files, path).as_deref(), Ok(&b"here"[..]), "{path}");
    }
    for (path, error) in [
        ("", Errno::NOENT),
        ("/nothing", Errno::NOENT),
        ("/a/nothing/file", Errno::NOENT),
        ("/a/b/c/file/", Errno::NOTDIR),
        ("/a/b/c/file/x", Errno::NOTDIR),
        ("/a", Errno::ISDIR),
        ("/round", Errno::LOOP),
        ("/dangling", Errno::NOENT),
        ("/a\0b", Errno::INVAL),
    ] {
        assert_eq!(got(&files, path), Err(error), "{path}");
    }
    assert_eq!(got(&files, &"x/".repeat(2_100)), Err(Errno::NAMETOOLONG));
    // Opening to create follows a link that leads nowhere; `create_new` does not.
    let new = OpenOptions { create_new: true, ..OpenOptions::creating() };
    assert_eq!(files.open("/dangling", &new).err(), Some(Errno::EXIST));
    put(&files, "/dangling", b"made");
    assert_eq!(got(&files, "/made").as_deref(), Ok(&b"made"[..]));
    assert_eq!(files.link_attributes("/dangling").unwrap().mode & kind::MASK, kind::SYMLINK);
    assert_eq!(files.attributes("/a/short/").unwrap().mode & kind::MASK, kind::DIRECTORY);
    assert_eq!(files.attributes("/made/"), Err(Errno::NOTDIR));
    assert_eq!(files.read_link("/a/short").as_deref(), Ok(&b"b/c"[..]));
}

#[test]
fn names_come_and_go() {
    let files = files();
    let me = Owner::default();
    files.create_directory("/d", 0o700, me).unwrap();
    assert_eq!(files.create_directory("/d/", 0o700, me), Err(Errno::EXIST));
    put(&files, "/d/one", b"1");
    files.link("/d/one", "/two").unwrap();
    assert_eq!(files.attributes("/two").unwrap().links, 2);
    assert_eq!(files.remove_directory("/d"), Err(Errno::NOTEMPTY));
    assert_eq!(files.remove_directory("/"), Err(Errno::BUSY));
    assert_eq!(files.remove_file("/d"), Err(Errno::ISDIR));
    assert_eq!(files.rename("/d", "/d/within", Replace::Yes), Err(Errno::INVAL));
    assert_eq!(files.rename("/two", "/three/", Replace::Yes), Err(Errno::NOTDIR));
    files.rename("/d/one", "/three", Replace::No).unwrap();
    assert_eq!(files.rename("/two", "/three", Replace::No), Err(Errno::EXIST));
    let names: Vec<_> = files.list("/").unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [b"d".to_vec(), b"two".to_vec(), b"three".to_vec()]);
    files.remove_directory("/d").unwrap();
    // A file that is open outlives its names.
    let kept = files.open("/two", &OpenOptions::default()).unwrap();
    files.remove_file("/two").unwrap();
    files.remove_file("/three").unwrap();
    let mut byte = [0];
    assert_eq!((kept.read_at(&mut byte, 0), byte), (Ok(1), *b"1"));
    let free = files.shared().space().free;
    drop(kept);
    assert!(files.shared().space().free > free);
    assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
}

#[test]
fn a_file_without_a_name_can_get_one() {
    let files = files();
    let free = files.shared().space();
    let unnamed = files.open_unnamed(0o600, Owner { uid: 7, gid: 8 }).unwrap();
    assert_eq!(unnamed.write_at(b"secret", 0), Ok(6));
    assert_eq!((unnamed.attributes().unwrap().links, files.list("/").unwrap().len()), (0, 0));
    assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
    drop(unnamed);
    assert_eq!(files.shared().space(), free);
    let named = files.open_unnamed(0o600, Owner { uid: 7, gid: 8 }).unwrap();
    assert_eq!(named.write_at(b"public", 0), Ok(6));
    put(&files, "/taken", b"");
    assert_eq!(named.link("/taken"), Err(Errno::EXIST));
    named.link("/name").unwrap();
    drop(named);
    assert_eq!(got(&files, "/name").as_deref(), Ok(&b"public"[..]));
    let known = files.attributes("/name").unwrap();
    assert_eq!((known.links, known.mode & 0o7777, known.uid), (1, 0o600, 7));
    assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
}

#[test]
fn a_handle_that_only_reads_moves_nothing() {
    let files = files();
    put(&files, "/f", &[1; 20_000]);
    let reader = files.open("/f", &OpenOptions::default()).unwrap();
    assert_eq!((reader.collapse(0..4_096), reader.insert(0..4_096)), (Err(Errno::BADF), Err(Errno::BADF)));
    let writer = files.open("/f", &OpenOptions::appending()).unwrap();
    assert_eq!((writer.collapse(0..8_192), reader.size()), (Ok(()), Ok(11_808)));
}

#[test]
fn what_a_file_was_opened_for_it_can_do() {
    let files = files();
    let file = files.open("/f", &OpenOptions::appending()).unwrap();
    (&file).write_all(b"one ").unwrap();
    assert_eq!(file.write_at(b"two", 0), Ok(3));
    assert_eq!(file.read_at(&mut [0], 0), Err(Errno::BADF));
    assert_eq!(got(&files, "/f").as_deref(), Ok(&b"one two"[..]));
    let reader = files.open("/f", &OpenOptions::default()).unwrap();
    assert_eq!((reader.write_at(b"x", 0), reader.set_len(0)), (Err(Errno::BADF), Err(Errno::BADF)));
    let both = files.open("/f", &OpenOptions::updating()).unwrap();
    assert_eq!((&both).seek(SeekFrom::End(-3)).unwrap(), 4);
    (&both).write_all(b"three").unwrap();
    assert_eq!((&both).seek(SeekFrom::Current(-9)).unwrap(), 0);
    assert!((&both).seek(SeekFrom::Current(-1)).is_err());
    let mut text = String::new();
    (&both).read_to_string(&mut text).unwrap();
    assert_eq!(text, "one three");
    both.set_len(3).unwrap();
    assert_eq!(reader.size(), Ok(3));
    files.open("/f", &OpenOptions::creating()).unwrap();
    assert_eq!(reader.size(), Ok(0));
    let neither = OpenOptions { read: false, ..OpenOptions::default() };
    assert_eq!(files.open("/f", &neither).err(), Some(Errno::INVAL));
}

#[test]
fn what_is_known_of_a_file_is_what_was_said() {
    let files = files();
    let owner = Owner { uid: 7, gid: 8 };
    let options = OpenOptions { read: false, mode: 0o4_610, owner, ..OpenOptions::updating() };
    let file = files.open("/f", &options).unwrap();
    let known = file.attributes().unwrap();
    assert_eq!((known.mode, known.uid, known.gid), (kind::FILE | 0o4_610, 7, 8));
    let set = SetAttributes {
        mode: Some(0o1_751),
        uid: Some(9),
        accessed: Some(-5),
        modified: Some(1 << 40),
        ..SetAttributes::default()
    };
    files.set_attributes("/f", &set).unwrap();
    files.set_attributes("/f", &SetAttributes { gid: Some(10), ..SetAttributes::default() }).unwrap();
    let known = file.attributes().unwrap();
    assert_eq!((known.mode, known.uid, known.gid), (kind::FILE | 0o1_751, 9, 10));
    assert_eq!((known.accessed, known.modified), (-5, 1 << 40));
    // Beyond 32 bits.
    let far = (5 << 30) + 3;
    assert_eq!((&file).seek(SeekFrom::Start(far)).unwrap(), far);
    (&file).write_all(b"far").unwrap();
    assert_eq!((file.size(), (&file).stream_position().unwrap()), (Ok(far + 3), far + 3));
    let reader = files.open("/f", &OpenOptions::default()).unwrap();
    let mut bytes = [0; 4];
    assert_eq!((reader.read_at(&mut bytes, far), &bytes), (Ok(3), b"far\0"));
}

#[test]
fn holes_are_found() {
    let files = files();
    let file = files.open("/f", &OpenOptions::updating()).unwrap();
    let seek = |offset, to| files.shared().seek(file.opened.ino(), offset, to);
    assert_eq!(seek(0, crate::Seek::Hole), Err(Errno::NXIO));
    file.write_at(&[1; 5_000], 100_000).unwrap();
    file.set_len(1 << 20).unwrap();
    let begin = 100_000 / 4_096 * 4_096;
    let end = 105_000u64.next_multiple_of(4_096);
    assert_eq!((seek(0, crate::Seek::Hole), seek(0, crate::Seek::Data)), (Ok(0), Ok(begin)));
    assert_eq!(
        (seek(begin + 9, crate::Seek::Data), seek(begin, crate::Seek::Hole)),
        (Ok(begin + 9), Ok(end))
    );
    assert_eq!((seek(end, crate::Seek::Data), seek(end, crate::Seek::Hole)), (Err(Errno::NXIO), Ok(end)));
    file.set_len(105_000).unwrap();
    assert_eq!(seek(begin, crate::Seek::Hole), Ok(105_000));
    assert_eq!(seek(105_000, crate::Seek::Data), Err(Errno::NXIO));
}

/// Threads write and read records of a few files beside others that make, rename and remove some.
#[test]
fn threads_share_files() {
    const RECORD: usize = 3_000;
    let files = files();
    let writers = (0..4u64).map(|thread| {
        let files = files.clone();
        std::thread::spawn(move || {
            let file = files.open("/shared", &OpenOptions::updating()).unwrap();
            for round in 0..200u64 {
                let bytes = vec![(thread * 50 + round % 50) as u8; RECORD];
                let offset = (thread * 8 + round % 8) * RECORD as u64;
                assert_eq!(file.write_at(&bytes, offset), Ok(RECORD));
                let mut read = vec![0; RECORD];
                assert_eq!(file.read_at(&mut read, offset), Ok(RECORD));
                assert_eq!(read, bytes);
                // No thread sees half of another's record.
                let other = ((thread + 1) % 4 * 8 + round % 8) * RECORD as u64;
                let length = file.read_at(&mut read, other).unwrap();
                assert!(read[..length].iter().all(|&byte| byte == read[0]), "{thread} {round}");
                let own = format!("/own-{thread}");
                put(&files, &own, &vec![thread as u8; (round * 977 % 60_000) as usize]);
                files.rename(&own, format!("/done-{thread}"), Replace::Yes).unwrap();
                assert_eq!(
                    got(&files, &format!("/done-{thread}")).unwrap().len() as u64,
                    round * 977 % 60_000
                );
                let log = files.open("/log", &OpenOptions::appending()).unwrap();
                assert_eq!(log.write_at(&[b'0' + thread as u8; 100], 0), Ok(100));
            }
        })
    });
    writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().unwrap());
    let log = got(&files, "/log").unwrap();
    assert_eq!(log.len(), 4 * 200 * 100);
    assert!(log.chunks(100).all(|line| line.iter().all(|byte| *byte == line[0])));
    assert_eq!(crate::check(&files.shared()), Vec::<String>::new());
}
