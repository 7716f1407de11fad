//! Every operation, interrupted anywhere: what is left is a file system in which it happened or did not.

use std::collections::BTreeMap;

use pagewalk_vm::file::Grain;

use super::*;
use crate::core::extended::{ACCESS_LIST, DEFAULT_LIST};
use crate::core::names::With;

/// What can be seen of a file system: paths, with kind, links and contents.
pub(super) type Tree = BTreeMap<Vec<u8>, (u32, u64, Vec<u8>)>;

pub(super) fn tree(system: &mut FileSystem<Recording>) -> Tree {
    let mut tree = Tree::new();
    let mut open = vec![(Vec::new(), Ino::ROOT)];
    while let Some((path, ino)) = open.pop() {
        let attributes = system.attributes(ino).unwrap();
        let mut bytes = Vec::new();
        match attributes.mode & kind::MASK {
            kind::DIRECTORY => {
                system
                    .list(ino, 2, &mut |name, ino, _, _| {
                        open.push(([&path[..], b"/", name].concat(), ino));
                        true
                    })
                    .unwrap();
            }
            kind::SYMLINK => bytes = system.read_link(ino).unwrap(),
            _ => bytes = contents(system, ino),
        }
        tree.insert(path, (attributes.mode, attributes.links, bytes));
    }
    tree
}

/// Extended attributes of all files, by path and name.
type Extended = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

fn tree_and_extended(system: &mut FileSystem<Recording>) -> (Tree, Extended) {
    let tree = tree(system);
    let mut extended = Extended::new();
    for path in tree.keys() {
        let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
        let ino = ino(system, &names);
        for name in
            system.extended_names(ino).unwrap().split(|&byte| byte == 0).filter(|name| !name.is_empty())
        {
            extended.insert((path.clone(), name.to_vec()), system.extended(ino, name).unwrap());
        }
    }
    (tree, extended)
}

/// A small file system with something of everything.
fn furnished(frames: u64) -> FileSystem<Recording> {
    let mut system = empty(frames);
    let below = system.create(Ino::ROOT, b"dir", DIRECTORY, ME, 0).unwrap();
    system.create(Ino::ROOT, b"empty", DIRECTORY, ME, 0).unwrap();
    let file = make(&mut system, "file");
    system.write(file, 0, &[1; 4_096]).unwrap();
    let other = system.create(below, b"other", FILE, ME, 0).unwrap();
    system.write(other, 0, &[2; 5_000]).unwrap();
    system.link(other, Ino::ROOT, b"hard").unwrap();
    system.create_link_to(Ino::ROOT, b"soft", b"dir/other", ME).unwrap();
    system.set_list(other, ACCESS_LIST, &list(6), SetExtended::Any, false).unwrap();
    system.set_extended(other, b"user.kept", &[3; 300], SetExtended::Any).unwrap();
    system
}

/// An access list by which user 7 may do this, as the kernel writes it: owner, user 7, group, mask, others.
fn list(permissions: u16) -> Vec<u8> {
    let entries = [
        (0x01, 6, u32::MAX),
        (0x02, permissions, 7),
        (0x04, 4, u32::MAX),
        (0x10, permissions, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let entries = entries.iter().flat_map(|&(tag, permissions, id): &(u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    });
    2u32.to_le_bytes().into_iter().chain(entries).collect()
}

fn ino(system: &mut FileSystem<Recording>, path: &[&[u8]]) -> Ino {
    path.iter().fold(Ino::ROOT, |ino, name| system.look_up(ino, name).unwrap())
}

type Operation = (&'static str, fn(&mut FileSystem<Recording>));

/// Operations that happen or do not.
const WHOLE: [Operation; 21] = [
    ("create", |system| {
        make(system, "new");
    }),
    ("create in a directory", |system| {
        let parent = ino(system, &[b"dir"]);
        system.create(parent, &[b'n'; 200], FILE, ME, 0).unwrap();
    }),
    ("mkdir", |system| {
        system.create(Ino::ROOT, b"newdir", DIRECTORY, ME, 0).unwrap();
    }),
    ("symlink", |system| {
        system.create_link_to(Ino::ROOT, b"newlink", b"target", ME).unwrap();
    }),
    ("link", |system| {
        let file = ino(system, &[b"file"]);
        system.link(file, Ino::ROOT, b"newname").unwrap();
    }),
    ("unlink one of two", |system| system.unlink(Ino::ROOT, b"hard").unwrap()),
    ("unlink the last", |system| system.unlink(Ino::ROOT, b"file").unwrap()),
    ("rmdir", |system| system.remove_directory(Ino::ROOT, b"empty").unwrap()),
    ("rename", |system| {
        let to = ino(system, &[b"dir"]);
        system.rename((Ino::ROOT, b"file"), (to, b"moved"), Replace::Yes).unwrap();
    }),
    ("rename over another", |system| {
        let to = ino(system, &[b"dir"]);
        system.rename((Ino::ROOT, b"file"), (to, b"other"), Replace::Yes).unwrap();
    }),
    ("rename a directory over another", |system| {
        system.rename((Ino::ROOT, b"dir"), (Ino::ROOT, b"empty"), Replace::Yes).unwrap();
    }),
    ("rename that leaves a whiteout", |system| {
        let to = ino(system, &[b"dir"]);
        system.rename_and_white_out((Ino::ROOT, b"file"), (to, b"moved"), Replace::Yes, ME).unwrap();
    }),
    ("name for a file without one", |system| {
        let unnamed = system.create_without_name(FILE, ME).unwrap();
        system.write(unnamed, 0, b"written before").unwrap();
        system.link(unnamed, Ino::ROOT, b"named").unwrap();
    }),
    ("exchange", |system| {
        let to = ino(system, &[b"dir"]);
        system.rename((Ino::ROOT, b"file"), (to, b"other"), Replace::Exchange).unwrap();
    }),
    ("first access list", |system| {
        let file = ino(system, &[b"file"]);
        system.set_list(file, ACCESS_LIST, &list(7), SetExtended::Any, false).unwrap();
    }),
    ("another access list", |system| {
        let other = ino(system, &[b"hard"]);
        system.set_list(other, ACCESS_LIST, &list(0), SetExtended::Any, false).unwrap();
    }),
    ("no access list", |system| {
        let other = ino(system, &[b"hard"]);
        system.remove_extended(other, ACCESS_LIST).unwrap();
    }),
    ("mode of a file with an access list", |system| {
        let other = ino(system, &[b"hard"]);
        let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        system.set_attributes(other, &set).unwrap();
    }),
    ("default list", |system| {
        let directory = ino(system, &[b"dir"]);
        system.set_list(directory, DEFAULT_LIST, &list(5), SetExtended::Any, false).unwrap();
    }),
    ("an attribute becomes another one", |system| {
        let other = ino(system, &[b"hard"]);
        system.set_extended(other, b"user.kept", &[4; 900], SetExtended::Replace).unwrap();
    }),
    ("one attribute of two goes", |system| {
        let other = ino(system, &[b"hard"]);
        system.remove_extended(other, b"user.kept").unwrap();
    }),
];

/// A directory's default list is a new file's access list: until it is there, no user may do what it would forbid.
#[test]
fn a_crash_leaves_no_rights_that_a_list_takes_away() {
    let with_list = || {
        let mut system = furnished(640);
        let directory = ino(&mut system, &[b"dir"]);
        system.set_list(directory, DEFAULT_LIST, &list(0), SetExtended::Any, false).unwrap();
        system
    };
    let make = |system: &mut FileSystem<Recording>| {
        let parent = ino(system, &[b"dir"]);
        system.create_for(parent, b"new", (FILE | 0o666, 0o022), ME, With::Nothing).unwrap();
    };
    let mut states = [0, 0, 0];
    crash(with_list(), make, 6, &mut |system| {
        let parent = ino(system, &[b"dir"]);
        match system.look_up(parent, b"new") {
            Err(error) => {
                assert_eq!(error, Errno::NOENT);
                states[0] += 1;
            }
            Ok(new) => {
                let mode = system.attributes(new).unwrap().mode & 0o777;
                let listed = system.extended(new, ACCESS_LIST).is_ok();
                assert!(mode & 0o077 == 0, "{mode:o}, {listed}");
                states[1 + usize::from(listed)] += 1;
            }
        }
    });
    assert!(states.iter().all(|&count| count > 0), "{states:?}");
}

/// Runs an operation and visits what crashes may leave, mounted.
pub(super) fn crash(
    mut system: FileSystem<Recording>,
    operation: impl FnOnce(&mut FileSystem<Recording>),
    some: u64,
    visit: &mut dyn FnMut(&mut FileSystem<Recording>),
) -> u64 {
    let before = system.store.memory().begin();
    operation(&mut system);
    let memory = system.into_memory();
    let mut seen = 0;
    for grain in [Grain::Word, Grain::Page] {
        memory.crashes(&before, grain, some, 3, &mut |image| {
            seen += 1;
            let crashed = Recording::new(image);
            let at_recovery = crashed.begin();
            let (mut system, _) =
                FileSystem::mount(crashed, clock()).unwrap_or_else(|error| panic!("{error}"));
            // Mounting has looked at all of it; what it did then is to be looked at.
            if system.store.commits() > 0 {
                sound(&system);
            }
            if seen % 25 == 0 {
                let memory = system.into_memory();
                memory.crashes(&at_recovery, grain, 2, seen, &mut |image| {
                    let mut system = FileSystem::mount(Recording::new(image), clock()).unwrap().0;
                    sound(&system);
                    visit(&mut system);
                    true
                });
                system = FileSystem::mount(memory, clock()).unwrap().0;
            }
            visit(&mut system);
            true
        });
    }
    seen
}

#[test]
fn names_change_whole_or_not_at_all() {
    for (name, operation) in WHOLE {
        let (mut before, mut after) = (furnished(640), furnished(640));
        let old = tree_and_extended(&mut before);
        operation(&mut after);
        let new = tree_and_extended(&mut after);
        assert_ne!(old, new);
        let mut states = [0, 0];
        let seen = crash(before, operation, 6, &mut |system| {
            let left = tree_and_extended(system);
            let difference = || left.0.iter().find(|(path, what)| old.0.get(*path) != Some(*what));
            assert!(left == old || left == new, "{name}: neither before nor after: {:?}", difference());
            states[usize::from(left == new)] += 1;
            // It goes on.
            let ino = make(system, "later");
            system.write(ino, 0, &[9; 100]).unwrap();
            system.unlink(Ino::ROOT, b"later").unwrap();
        });
        assert!(seen > 30 && states.iter().all(|&count| count > 0), "{name}: {seen}, {states:?}");
    }
}

/// What a write promises: every byte is old or new, and the size never shows what was not written.
#[test]
fn a_crash_shows_no_byte_that_was_not_written() {
    for (offset, bytes) in
        [(0u64, 100usize), (4_000, 200), (4_096, 4_096), (10_000, 5_000), (40_000, 3_000), (200, 60_000)]
    {
        let mut system = furnished(900);
        // What lies in free frames must not be seen.
        let waste = make(&mut system, "waste");
        let _ = system.write(waste, 0, &vec![0xee; 1 << 20]);
        system.unlink(Ino::ROOT, b"waste").unwrap();
        let old = vec![1; 4_096];
        let mut new = old.clone();
        new.resize(new.len().max(offset as usize + bytes), 0);
        new[offset as usize..offset as usize + bytes].fill(5);
        let write = |system: &mut FileSystem<Recording>| {
            let file = ino(system, &[b"file"]);
            assert_eq!(system.write(file, offset, &vec![5; bytes]), Ok(bytes));
        };
        let seen = crash(system, write, 3, &mut |system| {
            let file = ino(system, &[b"file"]);
            let left = contents(system, file);
            assert!(left.len() == old.len() || left.len() == new.len(), "{}", left.len());
            for (at, &byte) in left.iter().enumerate() {
                let is_old = old.get(at) == Some(&byte);
                assert!(is_old || new[at] == byte, "{offset}: byte {at} is {byte:#x}");
            }
            if left.len() > old.len() {
                assert!(left[old.len()..] == new[old.len()..], "behind the old end all is there");
            }
        });
        assert!(seen > 20, "{seen}");
    }
}

/// Where nothing but the bytes and the size changes, and so nothing else is waited for.
#[test]
fn an_append_within_a_page_shows_its_bytes_with_its_size() {
    let mut system = furnished(700);
    let file = make(&mut system, "log");
    for offset in [0, 100] {
        system.write(file, offset, &[1; 100]).unwrap();
    }
    let append = |system: &mut FileSystem<Recording>| {
        assert_eq!(system.write(file, 200, &[5; 300]), Ok(300));
    };
    let mut lengths = std::collections::BTreeSet::new();
    crash(system, append, 20, &mut |system| {
        let left = contents(system, file);
        assert!(left[..200] == [1; 200] && left[200..].iter().all(|&byte| byte == 5), "{left:?}");
        lengths.insert(left.len());
    });
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [200, 500]);
}

#[test]
fn sizes_change_whole_or_not_at_all() {
    for bytes in [0, 1, 4_095, 4_097, 40_000, 3 << 20] {
        let mut system = furnished(800);
        let file = ino(&mut system, &[b"file"]);
        let data: Vec<u8> = (0..300_000u32).map(|at| at as u8 | 1).collect();
        system.write(file, 0, &data).unwrap();
        let mut resized = data.clone();
        resized.resize(bytes, 0);
        let set = SetAttributes { size: Some(bytes as u64), ..Default::default() };
        let seen = crash(system, |system| system.set_attributes(file, &set).unwrap(), 3, &mut |system| {
            let left = contents(system, file);
            assert!(left == data || left == resized, "{bytes}: {}", left.len());
        });
        assert!(seen > 5, "{bytes}: {seen}");
    }
}

/// What lies behind the end goes, and nothing else, whenever a crash comes between.
#[test]
fn slack_is_given_back_whole_or_in_pieces() {
    for is_full in [false, true] {
        let mut system = empty(4_096);
        let file = make(&mut system, "file");
        let mut data = Vec::new();
        for number in 0..53 {
            let part = vec![number | 1; 40_000];
            system.write(file, data.len() as u64, &part).unwrap();
            data.extend(part);
        }
        assert!(system.has_slack(file));
        if is_full {
            // No frame is left for the table of the pages that stay.
            let waste = make(&mut system, "waste");
            while system.write(waste, system.attributes(waste).unwrap().size, &[9; 4_096]).is_ok() {}
        }
        let mut states = [0, 0];
        let seen = crash(system, |system| system.shrink(file).unwrap(), 3, &mut |system| {
            assert!(contents(system, file) == data);
            states[usize::from(system.has_slack(file))] += 1;
            system.shrink(file).unwrap();
            assert!(!system.has_slack(file));
            sound(system);
        });
        assert!(seen > 10 && states.iter().all(|&count| count > 0), "{is_full}: {seen}, {states:?}");
    }
}

/// What the strict mode promises beyond that.
#[test]
fn strict_writes_are_whole_or_not_at_all() {
    for (offset, bytes) in [
        (100usize, 5usize),
        (4_000, 9_000),
        (77, 90_000),
        (0, 300_000),
        (5_000, 290_000),
        (299_000, 40_000),
        (0, 400_000),
    ] {
        let mut system = furnished(1_200);
        let file = ino(&mut system, &[b"file"]);
        let old: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
        system.write(file, 0, &old).unwrap();
        system.set_overwrites(Overwrites::Whole);
        let data: Vec<u8> = (0..bytes as u32).map(|at| (at % 239) as u8 ^ 0x80).collect();
        let mut new = old.clone();
        new.resize(old.len().max(offset + bytes), 0);
        new[offset..offset + bytes].copy_from_slice(&data);
        let free = system.space().free;
        let mut states = [0, 0];
        let seen = crash(
            system,
            |system| {
                assert_eq!(system.write(file, offset as u64, &data), Ok(bytes));
                assert!(contents(system, file) == new);
                assert!(free - system.space().free < 40, "what was replaced came back");
            },
            2,
            &mut |system| {
                let left = contents(system, file);
                assert!(left == old || left == new, "{bytes} at {offset}");
                states[usize::from(left == new)] += 1;
            },
        );
        assert!(seen > 10 && states.iter().all(|&count| count > 0), "{bytes} at {offset}: {states:?}");
    }
}

/// A log that was applied must not be applied again over what was stored since without it.
#[test]
fn what_was_written_behind_a_logged_write_stays() {
    let mut system = furnished(700);
    let [one, two] = ["one", "two"].map(|name| make(&mut system, name));
    system.set_overwrites(Overwrites::Whole);
    for file in [two, one] {
        system.write(file, 0, &[1; 60]).unwrap();
        // Over its end: the log has the new size.
        system.write(file, 50, &[2; 50]).unwrap();
    }
    let append = |system: &mut FileSystem<Recording>| {
        for file in [one, two] {
            assert_eq!(system.write(file, 100, &[3; 100]), Ok(100));
        }
    };
    let mut seen = std::collections::BTreeSet::new();
    crash(system, append, 20, &mut |system| {
        seen.insert([one, two].map(|file| contents(system, file).len()));
    });
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [[100, 100], [200, 100], [200, 200]]);
}

/// Into a hole: what its fresh frames held before must not be seen, whether the write ends or not.
#[test]
fn a_crash_shows_nothing_old_in_a_hole() {
    for (overwrites, offset, bytes) in [
        (Overwrites::InPlace, 50_000usize, 5_000usize),
        (Overwrites::InPlace, 2 << 20, 5_000),
        (Overwrites::Whole, 50_000, 5_000),
        (Overwrites::Whole, 2 << 20, 300_000),
    ] {
        let mut system = furnished(1_500);
        let waste = make(&mut system, "waste");
        while system.write(waste, system.attributes(waste).unwrap().size, &[0xee; 65_536]).is_ok() {}
        system.unlink(Ino::ROOT, b"waste").unwrap();
        let file = ino(&mut system, &[b"file"]);
        let size = (3 << 20) + 100;
        system
            .set_attributes(file, &SetAttributes { size: Some(size as u64), ..Default::default() })
            .unwrap();
        system.set_overwrites(overwrites);
        let mut old = vec![0; size];
        old[..4_096].fill(1);
        let mut new = old.clone();
        new[offset..offset + bytes].fill(5);
        let write = |system: &mut FileSystem<Recording>| {
            assert_eq!(system.write(file, offset as u64, &vec![5; bytes]), Ok(bytes));
        };
        let seen = crash(system, write, 2, &mut |system| {
            let left = contents(system, file);
            assert_eq!(left.len(), size);
            let pages = left.chunks(4_096).zip(old.chunks(4_096)).zip(new.chunks(4_096));
            for (page, ((left, old), new)) in pages.enumerate() {
                // Most pages are one or the other whole, which is known sooner.
                let is_right = |at: usize| left[at] == old[at] || left[at] == new[at];
                assert!(
                    left == old || left == new || (0..left.len()).all(is_right),
                    "page {page}, {bytes} at {offset}"
                );
            }
            assert!(overwrites == Overwrites::InPlace || left == old || left == new);
        });
        assert!(seen > 10, "{seen}");
    }
}
