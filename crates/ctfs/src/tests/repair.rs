//! Damaged stores, repaired: sound always, and what was not damaged is as it was.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pagewalk_vm::addr::{PAGE_BYTES, Pfn, Vpn};
use pagewalk_vm::file::{Grain, Image, LOG_FRAMES, PersistentMemory, Snapshot};
use pagewalk_vm::random::SplitMix64;

use super::*;
use crate::core::inode::{self, Field};
use crate::tests::crashes::{Tree, tree};

/// A store with something of everything: files of several sizes, directories in directories, links, attributes, an inode
/// without a name.
fn furnished() -> FileSystem<Recording> {
    let mut system = empty(1_200);
    let below = system.create(Ino::ROOT, b"dir", DIRECTORY, ME, 0).unwrap();
    let inner = system.create(below, b"inner", DIRECTORY, ME, 0).unwrap();
    let deep = system.create(inner, b"deep", DIRECTORY, ME, 0).unwrap();
    for (at, (parent, bytes)) in [
        (Ino::ROOT, 10),
        (below, 5_000),
        (inner, 40_000),
        (deep, 300_000),
        (Ino::ROOT, 2_200_000),
        (deep, 4_000),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("file {at} {}", "with a long name ".repeat(at));
        let file = system.create(parent, name.as_bytes(), FILE, ME, 0).unwrap();
        let data: Vec<u8> = (0..bytes as u32).map(|byte| (byte / 7 + at as u32) as u8 | 1).collect();
        system.write(file, 0, &data).unwrap();
        if at % 2 == 0 {
            system.link(file, below, format!("link {at}").as_bytes()).unwrap();
            system.set_extended(file, b"user.x", &[b'v'; 100], SetExtended::Any).unwrap();
        }
    }
    system.create_link_to(inner, b"soft", b"../file", ME).unwrap();
    for number in 0..60 {
        system.create(below, format!("small {number}").as_bytes(), FILE, ME, 0).unwrap();
    }
    for number in (0..60).step_by(3) {
        system.unlink(below, format!("small {number}").as_bytes()).unwrap();
    }
    let gone = make(&mut system, "gone");
    system.write(gone, 0, &[3; 9_000]).unwrap();
    system.open(gone).unwrap();
    system.unlink(Ino::ROOT, b"gone").unwrap();
    sound(&system);
    settled(system)
}

/// With nothing in its log that would be applied over a damage.
fn settled(system: FileSystem<Recording>) -> FileSystem<Recording> {
    FileSystem::mount_unchecked(system.into_memory(), clock()).unwrap().0
}

fn repaired(image: impl Into<Snapshot>) -> (FileSystem<Recording>, Vec<String>) {
    repair(Recording::new(image), clock()).unwrap()
}

/// Repairs, and sees to it that the result is sound, stays so when it is repaired again, and can be mounted.
fn mended(image: impl Into<Snapshot>, what: &dyn Fn() -> String) -> (FileSystem<Recording>, Vec<String>) {
    let (system, said) = repaired(image);
    assert_eq!(check(&system), Vec::<String>::new(), "{}: {said:#?}", what());
    let image = system.into_memory().image();
    let (again, nothing) = repaired(image.clone());
    assert_eq!(nothing, Vec::<String>::new(), "{}: the second time; the first {said:#?}", what());
    assert!(again.into_memory().image() == image, "{}: nothing to do", what());
    let mounted = FileSystem::mount(Recording::new(image), clock());
    (mounted.unwrap_or_else(|error| panic!("{}: {error}", what())).0, said)
}

/// Makes, fills and removes files.
fn use_some(system: &mut FileSystem<Recording>) {
    let made = system.create(Ino::ROOT, b"made", DIRECTORY, ME, 0);
    let Ok(made) = made else {
        assert!(matches!(made, Err(Error::NOSPC | Error::EXIST)), "{made:?}");
        return;
    };
    for number in 0..20u64 {
        let Ok(file) = system.create(made, format!("{number}").as_bytes(), FILE, ME, 0) else { break };
        let _ = system.write(file, number * 3_000, &vec![7; 1 << (number % 20)]);
        if number % 3 == 0 {
            system.unlink(made, format!("{number}").as_bytes()).unwrap();
        }
    }
    sound(system);
}

#[test]
fn what_is_sound_stays_as_it_is() {
    let image = furnished().into_memory().image();
    let (system, said) = repaired(image.clone());
    assert_eq!(said, Vec::<String>::new());
    assert!(system.into_memory().image() == image);
}

fn word(image: &Image, at: u64) -> u64 {
    u64::from_le_bytes(image[at as usize..at as usize + 8].try_into().unwrap())
}

fn set(image: &mut Image, at: u64, word: u64) {
    image[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
}

/// What a damage touches: nothing that can be seen, or these paths, or what is in a directory by its names only.
#[derive(Clone, Debug)]
enum Touches {
    Nothing,
    Paths(BTreeSet<Vec<u8>>),
    Names(BTreeSet<Vec<u8>>),
}

/// Paths by inode.
fn paths(system: &mut FileSystem<Recording>) -> Vec<(Vec<u8>, Ino)> {
    let (mut all, mut open) = (Vec::new(), vec![(Vec::new(), Ino::ROOT)]);
    while let Some((path, ino)) = open.pop() {
        if system.attributes(ino).unwrap().mode & kind::MASK == kind::DIRECTORY {
            system
                .list(ino, 2, &mut |name, ino, _, _| {
                    open.push(([&path[..], b"/", name].concat(), ino));
                    true
                })
                .unwrap();
        }
        all.push((path, ino));
    }
    all
}

fn within(paths: &[(Vec<u8>, Ino)], top: &[u8]) -> BTreeSet<Vec<u8>> {
    let below = [top, b"/"].concat();
    paths
        .iter()
        .map(|(path, _)| path)
        .filter(|path| *path == top || path.starts_with(&below))
        .cloned()
        .collect()
}

/// Words of the store that mean something, and what is touched when one is wrong.
fn places(system: &mut FileSystem<Recording>) -> Vec<(u64, Touches, &'static str)> {
    let all = paths(system);
    let mut places: Vec<(u64, Touches, &'static str)> = Vec::new();
    let mut add = |at: u64, touches: Touches, what| places.push((at, touches, what));
    for at in (0..40).step_by(8).flat_map(|at| [at, 4_096 + at]) {
        add(at, Touches::Nothing, "superblock");
    }
    // The page table's root, the largest partitions', the file system's words.
    for index in [0, 1, 5, 64, 65] {
        add(2 * PAGE_BYTES + 8 * index, Touches::Nothing, "roots");
    }
    let bitmap = (3 + LOG_FRAMES) * PAGE_BYTES;
    for index in [0, 3, 4, 5, 8, 20, 31] {
        add(bitmap + 8 * index, Touches::Nothing, "bitmap of frames");
    }
    let store = &system.store;
    for number in [2u64, 10, 30, 70] {
        add(inode::bit_address(store, Ino(number)).unwrap().0, Touches::Nothing, "bitmap of inodes");
    }
    // Headers: of the first L9 and all that are nested in it.
    let mut cut = BTreeSet::new();
    store
        .visit_partitions(&mut |partition, part| {
            if part == pagewalk_vm::file::Part::Cut {
                cut.insert(partition.first);
            }
        })
        .unwrap();
    for first in cut {
        let at = store.find(first).unwrap().frame.addr().0;
        for offset in [0, 32, 64, 96, 128, 160, 256, 264, 272, 320] {
            add(at + offset, Touches::Nothing, "header");
        }
    }
    for (path, ino) in &all {
        let names: BTreeSet<Vec<u8>> =
            all.iter().filter(|(_, other)| other == ino).flat_map(|(path, _)| within(&all, path)).collect();
        let at = inode::address(store, *ino).unwrap();
        let inode = system.inode(*ino).unwrap();
        let is_directory = inode.is(kind::DIRECTORY);
        for field in 0..13u64 {
            // The list of inodes without a name ends with what is not on it; a parent is found again.
            let touches = match field {
                3 | 5..=7 | 9..=12 => Touches::Nothing,
                _ if path.is_empty() => continue,
                0..=2 if is_directory => Touches::Names(names.clone()),
                _ => Touches::Paths(names.clone()),
            };
            add(at + 8 * field, touches, "inode");
        }
        let Some(partition) = inode.partition().filter(|_| is_directory) else { continue };
        let slots = store.find(partition.first).unwrap().frame.addr().0;
        for slot in 0..6 {
            for offset in [0, 8, 16] {
                let touches = Touches::Names(within(&all, path));
                add(slots + slot * 64 + offset, touches, "directory");
            }
        }
    }
    places
}

fn wrong(random: &mut SplitMix64, old: u64) -> u64 {
    match random.below(7) {
        0 => 0,
        1 => random.next(),
        2 => old.wrapping_add(1 + random.below(255)),
        3 => old ^ 0xff << (8 * random.below(8)),
        4 => random.below(1_200) << 12 | random.below(4),
        5 => random.below(100),
        _ => old ^ 1 << random.below(64),
    }
}

/// One word is wrong: what it does not belong to keeps its name and its bytes.
fn one_wrong_word(values: u64) {
    let mut system = furnished();
    let places = places(&mut system);
    let before: Tree = tree(&mut system);
    let image = system.into_memory().image();
    let mut random = SplitMix64::new(5);
    let mut tried = 0;
    for (at, touches, what) in places {
        for _ in 0..values {
            let mut image = image.clone();
            let (old, new) = (word(&image, at), wrong(&mut random, word(&image, at)));
            set(&mut image, at, new);
            tried += 1;
            let story = || format!("{what} {at:#x}: {old:#x} to {new:#x}, {touches:?}");
            let (mut system, said) = mended(image, &story);
            let after = tree(&mut system);
            let contents: BTreeSet<&Vec<u8>> = after.values().map(|(_, _, bytes)| bytes).collect();
            for (path, (mode, links, bytes)) in &before {
                let is_touched = match &touches {
                    Touches::Nothing => false,
                    Touches::Paths(paths) => paths.contains(path),
                    Touches::Names(paths) => {
                        // The bytes are there by another name.
                        assert!(
                            mode & kind::MASK != kind::FILE || contents.contains(bytes),
                            "{}: {:?}: {said:#?}",
                            story(),
                            String::from_utf8_lossy(path)
                        );
                        paths.contains(path)
                    }
                };
                let is_same = after.get(path).is_some_and(|(now, _, left)| now == mode && left == bytes);
                assert!(
                    is_touched || is_same || path.is_empty(),
                    "{}: {:?} with {links} links, {:?}: {said:#?}",
                    story(),
                    String::from_utf8_lossy(path),
                    after.get(path).map(|(mode, links, bytes)| (mode, links, bytes.len()))
                );
            }
        }
    }
    assert!(tried > 700 * values, "{tried}");
}

#[test]
fn one_wrong_word_costs_no_more_than_it_touches() {
    one_wrong_word(1);
}

#[test]
#[ignore = "takes minutes; `make soak`"]
fn one_wrong_word_of_many_values_costs_no_more_than_it_touches() {
    one_wrong_word(60);
}

/// Frames of the store that are in use, but for bytes of files.
fn metadata(system: &FileSystem<Recording>) -> Vec<u64> {
    let (frames, _) = system.store.frame_counts();
    (0..3).chain(3 + LOG_FRAMES..frames).filter(|&frame| system.store.is_used(Pfn(frame))).collect()
}

/// Damages many things at once.
fn damage(image: &mut Image, frames: &[u64], random: &mut SplitMix64) {
    for _ in 0..1 + random.below(6) * random.below(6) {
        // The superblock's mirror stays.
        let pick = |random: &mut SplitMix64| match frames[random.below(frames.len() as u64) as usize] {
            1 => 2,
            frame => frame,
        };
        let (frame, other) = (pick(random) as usize * 4_096, pick(random) as usize * 4_096);
        match random.below(16) {
            0 => image[frame..frame + 4_096].fill(0),
            1 => image[frame..frame + 4_096].fill(random.next() as u8),
            2 => image.copy_within(other..other + 4_096, frame),
            3 => image[frame..frame + 4_096].iter_mut().for_each(|byte| *byte = random.next() as u8),
            4 => {
                for at in 0..4_096 {
                    image.swap(frame + at, other + at);
                }
            }
            _ => {
                // A word that is not zero, as most are, or the one of another place.
                let words: Vec<u64> = (frame as u64..frame as u64 + 4_096)
                    .step_by(8)
                    .filter(|&at| word(image, at) != 0)
                    .collect();
                let Some(&at) = words.get(random.below(words.len().max(1) as u64) as usize) else { continue };
                let at = at + 8 * random.below(3).min((frame as u64 + 4_088 - at) / 8);
                let from = other as u64 + 8 * random.below(512);
                let new = match random.below(4) {
                    0 => word(image, from),
                    _ => wrong(random, word(image, at)),
                };
                set(image, at, new);
            }
        }
    }
}

fn broken(images: u64, first_seed: u64) {
    let system = furnished();
    let frames = metadata(&system);
    let image = system.into_memory().image();
    for seed in first_seed..first_seed + images {
        let mut image = image.clone();
        damage(&mut image, &frames, &mut SplitMix64::of_item(1, seed));
        let (mut system, _) = mended(image, &|| format!("seed {seed}"));
        tree(&mut system);
        use_some(&mut system);
    }
}

#[test]
fn whatever_is_damaged_ends_sound() {
    broken(700, 0);
}

#[test]
#[ignore = "takes minutes; `make soak`"]
fn whatever_is_damaged_ends_sound_a_hundred_thousand_times() {
    broken(100_000, 1 << 32);
}

/// Without a free frame: whatever is needed takes the place of something else.
#[test]
fn full_stores_are_repaired() {
    let mut system = furnished();
    let file = make(&mut system, "fills");
    let mut at = 0;
    while let Ok(written) = system.write(file, at, &[9; 65_536]) {
        at += written as u64;
    }
    assert_eq!(system.space().free, 0);
    let system = settled(system);
    let frames = metadata(&system);
    let image = system.into_memory().image();
    for seed in 0..300 {
        let mut image = image.clone();
        damage(&mut image, &frames, &mut SplitMix64::of_item(2, seed));
        let (mut system, _) = mended(image, &|| format!("seed {seed}"));
        use_some(&mut system);
    }
}

/// Memory that ends the repair at some store.
struct Failing<'a>(&'a Recording, Cell<u64>);

impl Failing<'_> {
    fn count(&self) {
        match self.1.get().checked_sub(1) {
            Some(left) => self.1.set(left),
            None => std::panic::resume_unwind(Box::new("interrupted")),
        }
    }
}

impl PersistentMemory for Failing<'_> {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn load(&self, at: u64) -> u64 {
        self.0.load(at)
    }
    fn store(&self, at: u64, word: u64) {
        self.count();
        self.0.store(at, word);
    }
    fn read(&self, at: u64, into: &mut [u8]) {
        self.0.read(at, into);
    }
    fn write(&self, at: u64, bytes: &[u8]) {
        self.count();
        self.0.write(at, bytes);
    }
    fn zero(&self, at: u64, bytes: u64) {
        self.count();
        self.0.zero(at, bytes);
    }
    fn flush(&self, at: u64, bytes: u64) {
        self.0.flush(at, bytes);
    }
    fn fence(&self) {
        self.0.fence();
    }
}

/// What a mount gives back would be lost to a repair.
#[test]
fn a_damaged_store_is_refused_and_stays_as_it_was() {
    let mut system = furnished();
    let open = make(&mut system, "open");
    system.write(open, 0, &[1; 50_000]).unwrap();
    system.open(open).unwrap();
    system.unlink(Ino::ROOT, b"open").unwrap();
    let file = make(&mut system, "file without links");
    let links = inode::address(&system.store, file).unwrap() + 8 * Field::Links as u64;
    system.store.settle();
    let memory = system.into_memory();
    memory.store(links, 7);
    let image = memory.image();
    let refused = FileSystem::mount(Failing(&memory, Cell::new(u64::MAX)), clock()).err();
    assert!(matches!(refused, Some(crate::MountError::Damaged(_))), "{refused:?}");
    assert!(memory.image() == image);
}

#[test]
fn a_repair_that_was_interrupted_is_done_by_the_next() {
    let system = furnished();
    let frames = metadata(&system);
    let image = system.into_memory().image();
    let mut interrupted = 0;
    for seed in 0..60 {
        let mut image = image.clone();
        damage(&mut image, &frames, &mut SplitMix64::of_item(3, seed));
        // After so many stores, ever more of them.
        let mut stores = 0;
        loop {
            let memory = Recording::new(image.clone());
            let ended = catch_unwind(AssertUnwindSafe(|| {
                repair(Failing(&memory, Cell::new(stores)), clock()).map(|_| ())
            }));
            if ended.is_ok() {
                break;
            }
            interrupted += 1;
            mended(memory.image(), &|| format!("seed {seed}, {stores} stores"));
            stores += 1 + stores / 16;
        }
        // And with what a power failure may leave of them.
        let memory = Recording::new(image);
        let before = memory.begin();
        let (system, _) = repair(memory, clock()).unwrap();
        let mut left = 20;
        system.into_memory().crashes(&before, Grain::Word, 1, seed, &mut |image| {
            interrupted += 1;
            mended(image, &|| format!("seed {seed}"));
            left -= 1;
            left > 0
        });
    }
    assert!(interrupted > 600, "{interrupted}");
}

/// Two files with one partition: both have the bytes.
#[test]
fn a_partition_of_two_files_becomes_two() {
    let mut system = furnished();
    let [first, second] = [&b"file 0 "[..], b"small 1"].map(|name| name.to_vec());
    let first = system.look_up(Ino::ROOT, &first).unwrap();
    let below = system.look_up(Ino::ROOT, b"dir").unwrap();
    let second = system.look_up(below, &second).unwrap();
    let expected = contents(&system, first);
    let [from, to] = [first, second].map(|ino| inode::address(&system.store, ino).unwrap());
    let mut image = system.into_memory().image();
    for field in [Field::Mode, Field::Size, Field::First] {
        let at = 8 * field as u64;
        let copied = word(&image, from + at);
        set(&mut image, to + at, copied);
    }
    let (system, said) = mended(image, &|| "two files with one partition".to_owned());
    assert!(said.iter().any(|line| line.contains("has a copy of")), "{said:?}");
    assert!(contents(&system, first) == expected && contents(&system, second) == expected);
}

/// A file with a low number says that it has a part of another one's partition: the headers know better.
#[test]
fn a_partition_that_the_headers_know_is_kept() {
    let mut system = furnished();
    let name = format!("file 4 {}", "with a long name ".repeat(4));
    let large = system.look_up(Ino::ROOT, name.as_bytes()).unwrap();
    let small = system.look_up(Ino::ROOT, b"file 0 ").unwrap();
    assert!(small < large);
    let expected = contents(&system, large);
    let first = system.inode(large).unwrap().partition().unwrap().first;
    let at = inode::address(&system.store, small).unwrap();
    let mut image = system.into_memory().image();
    set(&mut image, at, u64::from(FILE) | 4 << 32);
    set(&mut image, at + 16, first.0 + 512);
    let (system, _) = mended(image, &|| "a part of another partition".to_owned());
    assert!(contents(&system, large) == expected);
    assert_eq!(contents(&system, small), b"");
}

/// Directories in a circle, and one with two names.
#[test]
fn every_directory_has_one_name_and_leads_to_the_root() {
    let mut system = empty(1 << 12);
    let [a, b] = [b"a", b"b"].map(|name| system.create(Ino::ROOT, name, DIRECTORY, ME, 0).unwrap());
    let inner = system.create(a, b"inner", DIRECTORY, ME, 0).unwrap();
    let file = system.create(inner, b"file", FILE, ME, 0).unwrap();
    system.create(b, b"other", DIRECTORY, ME, 0).unwrap();
    system.create(inner, b"loop", DIRECTORY, ME, 0).unwrap();
    let system = settled(system);
    let slot = |system: &FileSystem<Recording>, ino: Ino, slot: u64| {
        let first = system.inode(ino).unwrap().partition().unwrap().first;
        system.store.find(Vpn(first.0)).unwrap().frame.addr().0 + 64 * slot
    };
    // b/other is a/inner, too.
    let mut image = system.store.memory().image();
    set(&mut image, slot(&system, b, 0), inner.0);
    let (mut two, said) = mended(image.clone(), &|| "two names".to_owned());
    assert!(said.iter().any(|line| line.contains("lost the name \"other\"")), "{said:?}");
    assert_eq!(two.look_up(a, b"inner"), Ok(inner));
    assert_eq!(two.look_up(b, b"other"), Err(Error::NOENT));
    let lost = two.look_up(Ino::ROOT, b"lost+found").unwrap();
    assert!(two.look_up(lost, format!("#{}", inner.0 + 2).as_bytes()).is_ok(), "what had the name b/other");
    // And a/inner is b/other, which does not say that it lies in a.
    let other = two.look_up(lost, format!("#{}", inner.0 + 2).as_bytes()).unwrap();
    let mut image = system.store.memory().image();
    set(&mut image, slot(&system, a, 0), other.0);
    let (mut two, _) = mended(image, &|| "two names".to_owned());
    assert_eq!((two.look_up(b, b"other"), two.look_up(a, b"inner")), (Ok(other), Err(Error::NOENT)));
    // a/inner/loop is a, which the root does not name any more.
    let mut image = system.store.memory().image();
    set(&mut image, slot(&system, inner, 1), a.0);
    set(&mut image, slot(&system, Ino::ROOT, 0), 0);
    let (mut circle, said) = mended(image, &|| "a circle".to_owned());
    assert!(said.iter().any(|line| line.contains("is /lost+found/#")), "{said:?}");
    let lost = circle.look_up(Ino::ROOT, b"lost+found").unwrap();
    let top = circle.look_up(lost, format!("#{}", a.0).as_bytes()).unwrap();
    assert_eq!((top, circle.look_up(a, b".."), circle.look_up(a, b"inner")), (a, Ok(lost), Ok(inner)));
    assert_eq!(circle.look_up(inner, b"file"), Ok(file));
    assert_eq!(circle.look_up(inner, b"loop"), Err(Error::NOENT));
}
