//! The file system against a naive model of files and directories, and what crashes leave of every operation.

mod crashes;
mod failing;
mod model;
mod repair;
mod shift;
mod space;
mod synced;
mod view;

use pagewalk_vm::file::{LARGE_ORDER, PersistentMemory, Recording};

use rustix::io::Errno;

use super::*;
use crate::core::bytes;
use crate::core::bytes::LARGE_BYTES;
use crate::core::inode::{self, Field, kind};

const FILE: u32 = kind::FILE | 0o644;
const DIRECTORY: u32 = kind::DIRECTORY | 0o755;
const ME: Owner = Owner { uid: 1_000, gid: 100 };

/// A clock that stands still.
fn clock() -> Clock {
    || 1_700_000_000_000_000_000
}

fn empty(frames: u64) -> FileSystem<Recording> {
    FileSystem::format(Recording::new(vec![0; (frames * 4_096) as usize]), ME, clock()).unwrap()
}

fn remounted(system: FileSystem<Recording>) -> FileSystem<Recording> {
    FileSystem::mount(system.into_memory(), clock()).unwrap().0
}

fn sound(system: &FileSystem<Recording>) {
    assert_eq!(check(system), Vec::<String>::new());
}

fn make(system: &mut FileSystem<Recording>, name: &str) -> Ino {
    system.create(Ino::ROOT, name.as_bytes(), FILE, ME, 0).unwrap()
}

fn contents(system: &FileSystem<Recording>, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; system.attributes(ino).unwrap().size as usize];
    assert_eq!(system.read(ino, 0, &mut bytes), Ok(bytes.len()));
    bytes
}

#[test]
fn bytes_come_back_at_every_offset_and_growth_moves_few_entries() {
    let mut system = empty(1 << 14);
    let ino = make(&mut system, "file");
    let mut expected = Vec::new();
    let mut number = 0u8;
    for size in
        [1, 4_095, 4_096, 4_097, 32_769, 262_144, 262_145, (2 << 20) - 1, (2 << 20) + 1, (16 << 20) + 1]
    {
        number += 1;
        let part = vec![number; size - expected.len()];
        assert_eq!(system.write(ino, expected.len() as u64, &part), Ok(part.len()));
        expected.extend(part);
        assert!(contents(&system, ino) == expected, "{size}");
        sound(&system);
    }
    assert!(system.counts().moves >= 5 && system.counts().most_entries_moved <= 64, "{:?}", system.counts());
    let system = remounted(system);
    assert!(contents(&system, ino) == expected);
    let attributes = system.attributes(ino).unwrap();
    assert_eq!((attributes.size, attributes.uid, attributes.links), (expected.len() as u64, 1_000, 1));
    assert!(attributes.blocks * 512 >= attributes.size);
}

#[test]
fn what_was_never_written_is_zero_whatever_was_there() {
    let mut system = empty(1 << 13);
    // Fill all frames with something, and give them back.
    let ino = make(&mut system, "old");
    let mut at = 0;
    while let Ok(written) = system.write(ino, at, &[0xff; 65_536]) {
        at += written as u64;
    }
    assert!(at > 20 << 20, "{at}");
    system.unlink(Ino::ROOT, b"old").unwrap();
    let ino = make(&mut system, "new");
    for (offset, bytes) in [(10, 5), (5_000, 3), (300_000, 10), (3 << 20, 5_000), ((9 << 20) + 77, 2 << 20)] {
        let before = contents(&system, ino);
        system.write(ino, offset as u64, &vec![1; bytes]).unwrap();
        let after = contents(&system, ino);
        assert!(after[..before.len()] == before);
        assert!(after[before.len()..offset].iter().all(|&byte| byte == 0), "before {offset}");
        assert!(after[offset..].iter().all(|&byte| byte == 1));
    }
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    for (short, long) in
        [((9 << 20) + 100, 12 << 20), (3 << 20, (3 << 20) + 70_000), (300_005, 400_000), (7, 5_000)]
    {
        system.set_attributes(ino, &size(short)).unwrap();
        system.set_attributes(ino, &size(long)).unwrap();
        let bytes = contents(&system, ino);
        assert!(bytes[short as usize..].iter().all(|&byte| byte == 0), "{short} to {long}");
        sound(&system);
    }
    // Into holes, of which fresh frames are a part now.
    for offset in [10_000, 300_000, 5 << 20] {
        system.set_attributes(ino, &size(0)).unwrap();
        system.set_attributes(ino, &size(8 << 20)).unwrap();
        system.write(ino, offset, &[1; 10]).unwrap();
        let written = offset as usize..offset as usize + 10;
        let is_right = |(at, &byte): (usize, &u8)| byte == u8::from(written.contains(&at));
        assert!(contents(&system, ino).iter().enumerate().all(is_right), "{offset}");
    }
}

#[test]
fn space_comes_back() {
    let mut system = empty(1 << 13);
    // The inode table and the directory have their frames then.
    make(&mut system, "first");
    system.unlink(Ino::ROOT, b"first").unwrap();
    let free = system.space().free;
    for round in 0..40 {
        let ino = make(&mut system, "file");
        for offset in [0, 5 << 10, 300 << 10, 3 << 20] {
            system.write(ino, offset, &[7; 9_000]).unwrap();
        }
        if round % 2 == 0 {
            system.set_attributes(ino, &SetAttributes { size: Some(0), ..Default::default() }).unwrap();
            assert_eq!(system.attributes(ino).unwrap().blocks, 0);
        }
        system.unlink(Ino::ROOT, b"file").unwrap();
        let below = system.create(Ino::ROOT, b"d", DIRECTORY, ME, 0).unwrap();
        for name in 0..200 {
            system
                .create(
                    below,
                    format!("a name that takes two slots, or even more of them: {name:040}").as_bytes(),
                    FILE,
                    ME,
                    0,
                )
                .unwrap();
        }
        assert_eq!(system.remove_directory(Ino::ROOT, b"d"), Err(Error::NOTEMPTY));
        for name in 0..200 {
            system
                .unlink(
                    below,
                    format!("a name that takes two slots, or even more of them: {name:040}").as_bytes(),
                )
                .unwrap();
        }
        system.remove_directory(Ino::ROOT, b"d").unwrap();
    }
    sound(&system);
    // The table of inodes has grown by what 200 of them take.
    assert!(free - system.space().free <= 8, "{} of {free}", system.space().free);
}

#[test]
fn a_file_without_a_name_stays_as_long_as_it_is_used() {
    let mut system = empty(1 << 12);
    let ino = make(&mut system, "file");
    system.write(ino, 0, b"still there").unwrap();
    system.open(ino).unwrap();
    system.open(ino).unwrap();
    system.unlink(Ino::ROOT, b"file").unwrap();
    sound(&system);
    assert_eq!(contents(&system, ino), b"still there");
    system.close(ino).unwrap();
    assert_eq!(system.attributes(ino).unwrap().links, 0);
    system.close(ino).unwrap();
    assert_eq!(system.attributes(ino), Err(Error::STALE));
    assert_eq!(system.close(ino), Err(Error::BADF));
    // Users are gone with a crash.
    let ino = make(&mut system, "other");
    system.open(ino).unwrap();
    system.unlink(Ino::ROOT, b"other").unwrap();
    let system = remounted(system);
    assert_eq!(system.attributes(ino), Err(Error::STALE));
    sound(&system);
}

#[test]
fn renames_keep_one_name_and_make_no_circles() {
    let mut system = empty(1 << 12);
    let [a, b] = [b"a", b"b"].map(|name| system.create(Ino::ROOT, name, DIRECTORY, ME, 0).unwrap());
    let inner = system.create(a, b"inner", DIRECTORY, ME, 0).unwrap();
    let file = make(&mut system, "file");
    let rename = |system: &mut FileSystem<Recording>, from: (Ino, &str), to: (Ino, &str), replace| {
        system.rename((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()), replace)
    };
    assert_eq!(rename(&mut system, (Ino::ROOT, "a"), (inner, "x"), Replace::Yes), Err(Error::INVAL));
    assert_eq!(rename(&mut system, (Ino::ROOT, "a"), (a, "x"), Replace::Yes), Err(Error::INVAL));
    assert_eq!(rename(&mut system, (Ino::ROOT, "file"), (Ino::ROOT, "a"), Replace::Yes), Err(Error::ISDIR));
    assert_eq!(rename(&mut system, (Ino::ROOT, "a"), (Ino::ROOT, "file"), Replace::Yes), Err(Error::NOTDIR));
    assert_eq!(rename(&mut system, (Ino::ROOT, "b"), (Ino::ROOT, "a"), Replace::Yes), Err(Error::NOTEMPTY));
    assert_eq!(rename(&mut system, (Ino::ROOT, "b"), (Ino::ROOT, "file"), Replace::No), Err(Error::EXIST));
    assert_eq!(rename(&mut system, (Ino::ROOT, "b"), (Ino::ROOT, "c"), Replace::Exchange), Err(Error::NOENT));
    assert_eq!(rename(&mut system, (Ino::ROOT, "a"), (inner, "x"), Replace::Exchange), Err(Error::INVAL));
    rename(&mut system, (a, "inner"), (Ino::ROOT, "b"), Replace::Yes).unwrap();
    assert_eq!(system.look_up(Ino::ROOT, b"b"), Ok(inner));
    assert_eq!(system.look_up(inner, b".."), Ok(Ino::ROOT));
    assert_eq!(system.attributes(b), Err(Error::STALE), "it was replaced");
    rename(&mut system, (Ino::ROOT, "file"), (inner, "file"), Replace::Yes).unwrap();
    rename(&mut system, (inner, "file"), (Ino::ROOT, "a"), Replace::Exchange).unwrap();
    assert_eq!((system.look_up(Ino::ROOT, b"a"), system.look_up(inner, b"file")), (Ok(file), Ok(a)));
    assert_eq!(system.look_up(a, b".."), Ok(inner));
    system.link(file, a, b"second").unwrap();
    rename(&mut system, (Ino::ROOT, "a"), (a, "second"), Replace::Yes).unwrap();
    assert_eq!(system.attributes(file).unwrap().links, 2, "two names of one file: nothing is done");
    assert_eq!(system.link(a, Ino::ROOT, b"dir"), Err(Error::PERM));
    sound(&system);
    sound(&remounted(system));
}

/// 65,000 links were once the end.
#[test]
fn a_directory_has_as_many_directories_as_there_is_room_for() {
    let mut system = empty(1 << 14);
    let parent = system.create(Ino::ROOT, b"parent", DIRECTORY, ME, 0).unwrap();
    let links = |system: &FileSystem<Recording>| system.attributes(parent).unwrap().links;
    for number in 0..MOST_LINKS + 5 {
        // The last count that is said is one below.
        let expected = if number + 2 < MOST_LINKS { number + 2 } else { 1 };
        if number % 1_000 == 0 || number + 10 > MOST_LINKS {
            assert_eq!(links(&system), expected);
        }
        system.create(parent, format!("{number}").as_bytes(), DIRECTORY, ME, 0).unwrap();
    }
    let beside = system.create(Ino::ROOT, b"beside", DIRECTORY, ME, 0).unwrap();
    system.rename((Ino::ROOT, b"beside"), (parent, b"moved"), Replace::Yes).unwrap();
    assert_eq!(system.look_up(parent, b"moved"), Ok(beside));
    sound(&system);
    for number in 0..10 {
        system.remove_directory(parent, format!("{number}").as_bytes()).unwrap();
    }
    let mut system = remounted(system);
    assert_eq!(links(&system), MOST_LINKS - 2);
    assert_eq!(system.look_up(parent, b"..").unwrap(), Ino::ROOT);
    sound(&system);
}

#[test]
fn a_whiteout_is_left_where_a_name_was() {
    let mut system = empty(1 << 11);
    let below = system.create(Ino::ROOT, b"below", DIRECTORY, ME, 0).unwrap();
    let (file, taken) = (make(&mut system, "file"), make(&mut system, "taken"));
    let used = system.space().used_inodes;
    let (from, to) = ((Ino::ROOT, &b"file"[..]), (below, &b"file"[..]));
    assert_eq!(system.rename_and_white_out(from, to, Replace::Exchange, ME), Err(Errno::INVAL));
    let over = (Ino::ROOT, &b"taken"[..]);
    assert_eq!(system.rename_and_white_out(from, over, Replace::No, ME), Err(Errno::EXIST));
    assert_eq!(system.space().used_inodes, used);
    system.rename_and_white_out(from, to, Replace::No, ME).unwrap();
    assert_eq!((system.look_up(below, b"file"), system.space().used_inodes), (Ok(file), used + 1));
    let is_whiteout = |system: &mut FileSystem<Recording>, parent, name: &[u8]| {
        let ino = system.look_up(parent, name).unwrap();
        let known = system.attributes(ino).unwrap();
        (known.mode & kind::MASK, known.device, known.links) == (kind::CHARACTERS, 0, 1)
    };
    assert!(is_whiteout(&mut system, Ino::ROOT, b"file"));
    system.rename_and_white_out(to, over, Replace::Yes, ME).unwrap();
    assert!(is_whiteout(&mut system, below, b"file"));
    assert_eq!(system.attributes(taken), Err(Errno::STALE));
    sound(&system);
    let mut system = remounted(system);
    assert!(is_whiteout(&mut system, Ino::ROOT, b"file") && is_whiteout(&mut system, below, b"file"));
    assert_eq!(system.look_up(Ino::ROOT, b"taken"), Ok(file));
    // Whiteouts are removed as files are.
    system.unlink(Ino::ROOT, b"file").unwrap();
    sound(&system);
}

/// Times before 1677 and behind 2262 were clamped.
#[test]
fn times_are_what_they_were_set_to() {
    const SECOND: i128 = 1_000_000_000;
    let mut system = empty(1 << 11);
    let file = make(&mut system, "file");
    let seconds =
        [i64::MIN, -1 << 40, -9_300_000_000, -1, 0, 9_223_372_036, 15_000_000_000, 253_402_300_799, i64::MAX];
    let times = seconds.iter().flat_map(|&seconds| {
        [0, 1, SECOND / 2, SECOND - 1].map(|nanoseconds| i128::from(seconds) * SECOND + nanoseconds)
    });
    let times: Vec<i128> = times.collect();
    for (&accessed, &modified) in times.iter().zip(times.iter().rev()) {
        let set = SetAttributes { accessed: Some(accessed), modified: Some(modified), ..Default::default() };
        system.set_attributes(file, &set).unwrap();
        let known = system.attributes(file).unwrap();
        assert_eq!((known.accessed, known.modified), (accessed, modified));
        sound(&system);
        system = remounted(system);
        let known = system.attributes(file).unwrap();
        assert_eq!((known.accessed, known.modified), (accessed, modified));
        // What is written has the clock's time, in place and in a transaction; the other time stays.
        let now = i128::from(clock()());
        for round in 0..2 {
            system.set_attributes(file, &set).unwrap();
            match round {
                0 => assert_eq!(system.write(file, 0, b"written"), Ok(7)),
                _ => system
                    .set_attributes(file, &SetAttributes { size: Some(3), ..Default::default() })
                    .unwrap(),
            }
            let known = system.attributes(file).unwrap();
            assert_eq!((known.accessed, known.modified, known.changed), (accessed, now, now));
        }
    }
    for beyond in
        [(i128::from(i64::MAX) + 1) * SECOND, i128::from(i64::MIN) * SECOND - 1, i128::MIN, i128::MAX]
    {
        let set = SetAttributes { accessed: Some(beyond), ..Default::default() };
        assert_eq!(system.set_attributes(file, &set), Err(Errno::INVAL));
        let set = SetAttributes { modified: Some(beyond), ..Default::default() };
        assert_eq!(system.set_attributes(file, &set), Err(Errno::INVAL));
    }
    // A new file in the same place has none of it.
    let set = SetAttributes { accessed: Some(times[0]), modified: Some(times[0]), ..Default::default() };
    system.set_attributes(file, &set).unwrap();
    system.unlink(Ino::ROOT, b"file").unwrap();
    assert_eq!(make(&mut system, "other"), file);
    let known = system.attributes(file).unwrap();
    assert_eq!((known.accessed, known.modified), (i128::from(clock()()), i128::from(clock()())));
    // A directory's time is the clock's, too, when a name comes.
    system.set_attributes(Ino::ROOT, &set).unwrap();
    make(&mut system, "more");
    assert_eq!(system.attributes(Ino::ROOT).unwrap().modified, i128::from(clock()()));
}

/// What only damage can set is found, and repaired.
#[test]
fn times_that_cannot_be_are_damage() {
    for (shift, is_possible) in [(0, false), (32, false), (1, true)] {
        let mut system = empty(1 << 11);
        let file = make(&mut system, "file");
        let at = inode::address(&system.store, file).unwrap() + 8 * Field::Epochs as u64;
        system.store.settle();
        let epoch = if is_possible { 5 } else { u64::from(i32::MAX as u32) };
        system.store.memory().store(at, epoch << (shift & 32));
        assert_eq!(check(&system).is_empty(), is_possible);
        let (system, said) = repair(system.into_memory(), clock()).unwrap();
        assert_eq!(said.is_empty(), is_possible, "{said:?}");
        sound(&system);
    }
}

#[test]
fn names_are_what_they_may_be() {
    let mut system = empty(1 << 12);
    let long = vec![b'x'; 255];
    let ino = system.create(Ino::ROOT, &long, FILE, ME, 0).unwrap();
    assert_eq!(system.look_up(Ino::ROOT, &long), Ok(ino));
    for (name, error) in [
        (&b""[..], Error::NOENT),
        (b".", Error::EXIST),
        (b"a/b", Error::INVAL),
        (&vec![b'x'; 256], Error::NAMETOOLONG),
        (&long, Error::EXIST),
    ] {
        assert_eq!(system.create(Ino::ROOT, name, FILE, ME, 0), Err(error), "{name:?}");
    }
    assert_eq!(system.create(ino, b"x", FILE, ME, 0), Err(Error::NOTDIR));
    assert_eq!(system.look_up(ino, b"x"), Err(Error::NOTDIR));
    let link = system.create_link_to(Ino::ROOT, b"link", b"to/somewhere", ME).unwrap();
    assert_eq!(system.read_link(link).unwrap(), b"to/somewhere");
    assert_eq!(system.read_link(ino), Err(Error::INVAL));
    assert_eq!(system.create_link_to(Ino::ROOT, b"link2", &[b'y'; 4_096], ME), Err(Error::NAMETOOLONG));
    sound(&system);
}

#[test]
fn listings_go_on_where_they_were() {
    let mut system = empty(1 << 13);
    let names: Vec<String> =
        (0..1_000).map(|number| format!("{number}-{}", "n".repeat(number % 250))).collect();
    for name in &names {
        system.create(Ino::ROOT, name.as_bytes(), FILE, ME, 0).unwrap();
    }
    let (mut cookie, mut listed) = (0, Vec::new());
    loop {
        let mut some = 0;
        system
            .list(Ino::ROOT, cookie, &mut |name, _, _, next| {
                some += 1;
                listed.push(String::from_utf8(name.to_vec()).unwrap());
                cookie = next;
                some < 7
            })
            .unwrap();
        if some == 0 {
            break;
        }
        // What goes meanwhile does not disturb the rest.
        if let Some(last) = listed.last().filter(|name| name.len() > 100) {
            system.unlink(Ino::ROOT, last.as_bytes()).unwrap();
        }
    }
    let mut expected: Vec<String> = names.into_iter().chain([".".to_owned(), "..".to_owned()]).collect();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    sound(&system);
}

#[test]
fn a_full_store_says_so_and_goes_on() {
    let mut system = empty(700);
    let mut made = 0;
    let full = loop {
        match system.create(Ino::ROOT, format!("{made}").as_bytes(), FILE, ME, 0) {
            Ok(ino) => {
                made += 1;
                if let Err(error) = system.write(ino, 0, &[1; 3_000]) {
                    break error;
                }
            }
            Err(error) => break error,
        }
    };
    assert_eq!(full, Error::NOSPC);
    assert!(made > 50, "{made}");
    sound(&system);
    let mut system = remounted(system);
    for name in 0..10 {
        system.unlink(Ino::ROOT, format!("{name}").as_bytes()).unwrap();
    }
    let ino = system.create(Ino::ROOT, b"again", FILE, ME, 0).unwrap();
    assert_eq!(system.write(ino, 0, &[1; 3_000]), Ok(3_000));
    // As much of it as there is room for.
    let some = system.write(ino, 3_000, &vec![2; 1 << 20]).unwrap();
    assert!(some > 0 && some < 1 << 20, "{some}");
    assert_eq!(system.attributes(ino).unwrap().size, 3_000 + some as u64);
    assert_eq!(system.write(ino, 1 << 39, b"x"), Err(Error::FBIG));
    sound(&system);
}

/// Free frames, but no 2 MiB of them in one piece.
/// Fills a store with files of one page, and removes every second one.
fn scatter_frames(system: &mut FileSystem<Recording>) {
    let mut made = 0u32;
    while let Ok(ino) = system.create(Ino::ROOT, made.to_string().as_bytes(), FILE, ME, 0) {
        made += 1;
        if system.write(ino, 0, &[1; 4_096]).is_err() {
            break;
        }
    }
    for name in (0..made).step_by(2) {
        system.unlink(Ino::ROOT, name.to_string().as_bytes()).unwrap();
    }
}

#[test]
fn scattered_frames_do() {
    let mut system = empty(2_000);
    scatter_frames(&mut system);
    let free = system.space().free;
    assert!(free > 600, "{free}");
    let ino = make(&mut system, "large");
    let data: Vec<u8> = (0..2 << 20).map(|at| (at / 9) as u8).collect();
    assert_eq!(system.write(ino, 0, &data), Ok(data.len()));
    assert!(contents(&system, ino) == data);
    sound(&system);
}

#[test]
fn extended_attributes_are_replaced_as_a_whole() {
    let mut system = empty(1 << 12);
    let ino = make(&mut system, "file");
    let free = |system: &FileSystem<Recording>| system.space().used_inodes;
    let used = free(&system);
    assert_eq!(system.extended(ino, b"user.a"), Err(Error::NODATA));
    assert_eq!(system.set_extended(ino, b"user.a", b"1", SetExtended::Replace), Err(Error::NODATA));
    system.set_extended(ino, b"user.a", b"1", SetExtended::Create).unwrap();
    assert_eq!(system.set_extended(ino, b"user.a", b"2", SetExtended::Create), Err(Error::EXIST));
    system.set_extended(ino, b"user.b", &[b'x'; 60_000], SetExtended::Any).unwrap();
    system.set_extended(ino, b"user.a", b"", SetExtended::Any).unwrap();
    assert_eq!(system.extended(ino, b"user.a").unwrap(), b"");
    assert_eq!(system.extended(ino, b"user.b").unwrap().len(), 60_000);
    assert_eq!(system.extended_names(ino).unwrap(), b"user.a\0user.b\0");
    assert_eq!(system.set_extended(ino, &[b'n'; 256], b"", SetExtended::Any), Err(Error::RANGE));
    assert_eq!(system.set_extended(ino, b"user.c", &[0; 70_000], SetExtended::Any), Err(Error::TOOBIG));
    sound(&system);
    let mut system = remounted(system);
    system.remove_extended(ino, b"user.b").unwrap();
    assert_eq!(system.remove_extended(ino, b"user.b"), Err(Error::NODATA));
    system.remove_extended(ino, b"user.a").unwrap();
    assert_eq!((system.extended_names(ino).unwrap(), free(&system)), (Vec::new(), used));
    system.set_extended(ino, b"user.a", b"1", SetExtended::Any).unwrap();
    system.unlink(Ino::ROOT, b"file").unwrap();
    assert_eq!(free(&system), used - 1, "they go with their file");
    sound(&system);
}

#[test]
fn a_full_store_can_be_overwritten_whole() {
    let mut system = empty(1 << 10);
    system.set_overwrites(Overwrites::Whole);
    let ino = make(&mut system, "file");
    let mut end = 0;
    while let Ok(written) = system.write(ino, end, &[1; 10_000]) {
        end += written as u64;
    }
    assert_eq!(system.space().free, 0);
    let mut expected = vec![1; end as usize];
    for (number, (offset, length)) in [(5, 10), (4_096, 4_096), (9_000, 200_000)].into_iter().enumerate() {
        let part = vec![number as u8 + 2; length];
        assert_eq!(system.write(ino, offset as u64, &part), Ok(length));
        expected[offset..offset + length].copy_from_slice(&part);
    }
    // More than the log takes at once.
    assert_eq!(system.write(ino, 0, &vec![9; 600_000]), Err(Errno::NOSPC));
    assert!(contents(&system, ino) == expected);
    sound(&system);
}

/// Runs of small pages once crossed into the place of the next large one, and there was none from then on.
#[test]
fn what_grows_piece_by_piece_gets_large_pages() {
    let mut system = empty(1 << 14);
    let ino = make(&mut system, "file");
    let (mut end, step, whole) = (0, 300 << 10, 32 << 20);
    while end < whole {
        end = system.reserve(ino, end..end + step).unwrap();
        system.store_fields(ino, [(Field::Size, end)]).unwrap();
    }
    let partition = system.inode(ino).unwrap().partition().unwrap();
    let mut small = 0;
    bytes::runs(system.store.memory(), partition, 0..whole, |range, place| {
        assert!(place.is_some(), "{range:?}");
        small += u64::from(range.end - range.start < LARGE_BYTES);
    });
    assert!(small <= 1 << LARGE_ORDER, "{small} small pages");
}

#[test]
fn frames_of_a_mapped_file_stay_where_they_are() {
    let mut system = empty(1 << 10);
    let fill = |system: &mut FileSystem<Recording>| {
        let filler = make(system, "filler");
        while system.write(filler, system.attributes(filler).unwrap().size, &[9; 30_000]).is_ok() {}
    };
    // Frames hold something.
    fill(&mut system);
    system.unlink(Ino::ROOT, b"filler").unwrap();
    let free = system.space().free;
    let ino = make(&mut system, "mapped");
    system.write(ino, 0, &[7; 100_000]).unwrap();
    let pieces = |system: &FileSystem<Recording>, bytes: u64| {
        let at = crate::core::inode::address(&system.store, ino).unwrap();
        bytes::Bytes::new(system.store.memory(), at).pieces(0..bytes.next_multiple_of(4_096)).unwrap()
    };
    let mapped = |system: &FileSystem<Recording>, pieces: &[std::ops::Range<u64>]| {
        let mut seen = Vec::new();
        for piece in pieces {
            let mut part = vec![0; (piece.end - piece.start) as usize];
            system.store.memory().read(piece.start, &mut part);
            seen.extend(part);
        }
        seen
    };
    let is_all = |bytes: &[u8], byte| bytes.iter().all(|&other| other == byte);
    system.pin(ino).unwrap();
    system.pin(ino).unwrap();
    let places = pieces(&system, 100_000);
    assert!(is_all(&mapped(&system, &places)[100_000..], 0), "behind the end");
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    system.set_attributes(ino, &size(10_000)).unwrap();
    let seen = mapped(&system, &places);
    assert!(is_all(&seen[..10_000], 7) && is_all(&seen[10_000..], 0));
    system.punch(ino, 0..8_192).unwrap();
    system.write(ino, 50_000, &[8; 50_000]).unwrap();
    assert_eq!(pieces(&system, 100_000), places);
    let seen = mapped(&system, &places);
    assert!(is_all(&seen[..8_192], 0) && is_all(&seen[8_192..10_000], 7) && is_all(&seen[10_000..50_000], 0));
    assert!(is_all(&seen[50_000..100_000], 8));
    sound(&system);
    // Neither a name nor room that others need takes them away.
    system.unlink(Ino::ROOT, b"mapped").unwrap();
    system.unpin(ino).unwrap();
    fill(&mut system);
    assert!(mapped(&system, &places) == seen);
    system.unpin(ino).unwrap();
    assert_eq!(system.attributes(ino), Err(Error::STALE));
    system.unlink(Ino::ROOT, b"filler").unwrap();
    assert_eq!(system.space().free, free);
    sound(&system);
    // Whole overwrites take other frames.
    let ino = make(&mut system, "strict");
    system.set_overwrites(Overwrites::Whole);
    assert_eq!(system.pin(ino), Err(Errno::NODEV));
}

#[test]
fn attributes_that_lie_nowhere_are_a_problem_and_no_end() {
    let mut system = empty(1 << 10);
    let ino = make(&mut system, "file");
    system.set_extended(ino, b"user.a", b"1", SetExtended::Any).unwrap();
    let holder = Ino(system.inode(ino).unwrap().get(Field::Attributes));
    let at = crate::core::inode::address(&system.store, holder).unwrap() + 8 * Field::First as u64;
    for word in [0xaa00_0000_00ca_2640, u64::MAX, 1 << 36, (1 << 36) - 1] {
        system.store.memory().store(at, word);
        assert_ne!(check(&system), Vec::<String>::new(), "{word:#x}");
    }
}
