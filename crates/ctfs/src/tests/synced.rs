//! Programs that ask with `fsync`: whatever pages a power failure leaves between two of them, the file system is sound, and what was
//! there at the last one is there.

use pagewalk_vm::file::{Grain, Recovered, Store};
use pagewalk_vm::random::SplitMix64;

use super::crashes::{Tree, tree};
use super::*;

/// Frames of the store, and behind it for checkpoints.
const FRAMES: usize = 700;
const BEHIND: usize = 512;
/// What the memory is before its power fails, and behind that.
const BEFORE: u64 = 1;
const BEHIND_FAILURE: u64 = 2;

fn mounted(memory: Recording) -> (FileSystem<Recording>, Recovered) {
    FileSystem::mount(memory, clock()).unwrap_or_else(|error| panic!("{error}"))
}

/// An empty file system whose fences do not wait.
fn synced() -> FileSystem<Recording> {
    let mut image = empty(FRAMES as u64).into_memory().image();
    image.resize((FRAMES + BEHIND) * 4_096, 0);
    mounted(Recording::with_checkpoints(image, BEFORE)).0
}

fn sync(system: &mut FileSystem<Recording>) {
    system.store.checkpoint().unwrap();
}

/// Does steps, and says what was there at each `fsync`; then visits what a power failure at any moment may leave, with the number of
/// the first state that it may be.
fn fail_anywhere(
    mut system: FileSystem<Recording>,
    steps: impl FnOnce(&mut FileSystem<Recording>, &mut Vec<Tree>),
    some: u64,
    visit: &mut dyn FnMut(&mut FileSystem<Recording>, &[Tree]),
) -> u64 {
    let mut states = vec![tree(&mut system)];
    let before = system.store.memory().begin();
    steps(&mut system, &mut states);
    sound(&system);
    let memory = system.into_memory();
    let mut seen = 0;
    memory.crashes(&before, Grain::Page, some, 7, &mut |image| {
        seen += 1;
        let failed = Recording::with_checkpoints(image, BEHIND_FAILURE);
        let at_recovery = failed.begin();
        let (mut system, recovered) = mounted(failed);
        assert!(matches!(recovered, Recovered::Restored(_)), "{recovered:?}");
        sound(&system);
        if seen % 40 == 0 {
            // Its power fails again while it is taken back.
            let memory = system.into_memory();
            memory.crashes(&at_recovery, Grain::Page, 2, seen, &mut |image| {
                let mut system = mounted(Recording::with_checkpoints(image, 3)).0;
                sound(&system);
                visit(&mut system, &states);
                true
            });
            return true;
        }
        visit(&mut system, &states);
        true
    });
    seen
}

fn write(system: &mut FileSystem<Recording>, name: &str, bytes: &[u8]) -> Ino {
    let file = make(system, name);
    assert_eq!(system.write(file, 0, bytes), Ok(bytes.len()));
    file
}

fn note(system: &mut FileSystem<Recording>, states: &mut Vec<Tree>) {
    states.push(tree(system));
    sync(system);
}

#[test]
fn a_power_failure_leaves_a_state_that_was_synced() {
    let system = synced();
    let mut found = [0; 4];
    let seen = fail_anywhere(
        system,
        |system, states| {
            // Files of one page and of several, which grow, move, are cut, renamed, linked and removed.
            write(system, "a", &[1; 100]);
            write(system, "b", &[2; 50_000]);
            let below = system.create(Ino::ROOT, b"d", DIRECTORY, ME, 0).unwrap();
            system.create_link_to(below, b"soft", b"../a", ME).unwrap();
            note(system, states);
            system.unlink(Ino::ROOT, b"a").unwrap();
            // Its frame must not be another file's before the removal counts.
            write(system, "c", &[3; 9_000]);
            let b = system.look_up(Ino::ROOT, b"b").unwrap();
            let set = SetAttributes { size: Some(5_000), ..Default::default() };
            system.set_attributes(b, &set).unwrap();
            system.set_extended(b, b"user.x", b"y", SetExtended::Any).unwrap();
            system.rename((Ino::ROOT, b"b"), (below, b"e"), Replace::Yes).unwrap();
            note(system, states);
            for number in 0..40u8 {
                system.create(below, &[b'n'; 100].map(|byte| byte + number % 10), FILE, ME, 0).ok();
            }
            system.unlink(below, b"e").unwrap();
            system.unlink(below, b"soft").unwrap();
            write(system, "f", &[4; 60_000]);
            note(system, states);
        },
        12,
        &mut |system, states| {
            let left = tree(system);
            let state = states.iter().position(|state| *state == left);
            let state = state.unwrap_or_else(|| panic!("none of those that were synced: {:?}", left.keys()));
            found[state] += 1;
            // It goes on.
            let later = write(system, "later", &[9; 5_000]);
            assert_eq!(contents(system, later), [9; 5_000]);
            sync(system);
        },
    );
    assert!(seen > 300 && found.iter().all(|&count| count > 0), "{seen}, {found:?}");
}

/// The pattern by which programs replace a file: the old contents or the new ones, never something else, whenever the power fails.
#[test]
fn a_file_that_is_replaced_is_the_old_one_or_the_new_one() {
    let mut system = synced();
    write(&mut system, "file", &[1; 6_000]);
    sync(&mut system);
    let mut found = [0; 2];
    let seen = fail_anywhere(
        system,
        |system, _| {
            for round in 0..3 {
                let new = write(system, "file.new", &[2; 7_000]);
                sync(system);
                system.rename((Ino::ROOT, b"file.new"), (Ino::ROOT, b"file"), Replace::Yes).unwrap();
                if round > 0 {
                    // Nothing of it is promised, and nothing of the old file may be lost by it.
                    system.write(new, 7_000, &[2; 100]).unwrap();
                    system
                        .set_attributes(new, &SetAttributes { size: Some(7_000), ..Default::default() })
                        .unwrap();
                }
                sync(system);
            }
        },
        12,
        &mut |system, _| {
            let file = system.look_up(Ino::ROOT, b"file").unwrap();
            let bytes = contents(system, file);
            let is_new = bytes.len() == 7_000 && bytes.iter().all(|&byte| byte == 2);
            assert!(is_new || bytes == [1; 6_000], "{}", bytes.len());
            found[usize::from(is_new)] += 1;
        },
    );
    assert!(seen > 100 && found.iter().all(|&count| count > 0), "{seen}, {found:?}");
}

/// What was synced stays, whatever is done behind it without asking: each write persists in part or not.
#[test]
fn what_was_synced_outlives_what_was_not() {
    let mut system = synced();
    let file = write(&mut system, "file", &[1; 3_000]);
    write(&mut system, "other", &[7; 20_000]);
    sync(&mut system);
    let seen = fail_anywhere(
        system,
        |system, _| {
            system.write(file, 3_000, &[5; 2_000]).unwrap();
            system.unlink(Ino::ROOT, b"other").unwrap();
            for number in 0..60 {
                write(system, &format!("waste {number}"), &[6; 4_096]);
            }
            for number in 0..60 {
                system.unlink(Ino::ROOT, format!("waste {number}").as_bytes()).unwrap();
            }
        },
        60,
        &mut |system, _| {
            let bytes = contents(system, file);
            assert!(bytes[..3_000] == [1; 3_000] && bytes[3_000..].is_empty(), "{}", bytes.len());
            let other = system.look_up(Ino::ROOT, b"other").unwrap();
            assert_eq!(contents(system, other), [7; 20_000], "its frames have no other use yet");
        },
    );
    assert!(seen > 30, "{seen}");
}

/// The end of the process is no power failure: everything that was done is there.
#[test]
fn the_end_of_the_process_loses_nothing() {
    let mut system = synced();
    write(&mut system, "a", &[1; 5_000]);
    sync(&mut system);
    write(&mut system, "b", &[2; 5_000]);
    system.unlink(Ino::ROOT, b"a").unwrap();
    let state = tree(&mut system);
    let image = system.into_memory().image();
    for (identity, is_whole) in [(BEFORE, true), (BEHIND_FAILURE, false)] {
        let (mut system, recovered) = mounted(Recording::with_checkpoints(image.clone(), identity));
        assert_eq!(tree(&mut system) == state, is_whole);
        assert_eq!(matches!(recovered, Recovered::Restored(_)), !is_whole);
        sound(&system);
    }
    // By another way, too, which leaves nothing to go back to.
    let memory = Recording::new(image);
    let (mut system, recovered) = mounted(memory);
    assert!(matches!(recovered, Recovered::Restored(_)), "it does not know what it is");
    write(&mut system, "c", &[3; 5_000]);
    let state = tree(&mut system);
    let (mut system, recovered) =
        mounted(Recording::with_checkpoints(system.into_memory().image(), BEHIND_FAILURE));
    assert_eq!((recovered, tree(&mut system)), (Recovered::Nothing, state));
}

/// Frames that wait for a checkpoint are there for an operation that finds no others.
#[test]
fn a_full_store_gets_back_what_was_removed() {
    let mut system = synced();
    for round in 0..6u8 {
        let file = make(&mut system, "file");
        let mut at = 0;
        while let Ok(written) = system.write(file, at, &[round; 16_384]) {
            at += written as u64;
        }
        assert!(at > 1 << 20, "{round}: {at}");
        assert_eq!(system.write(file, at, &[round; 4_096]), Err(Errno::NOSPC));
        system.unlink(Ino::ROOT, b"file").unwrap();
        assert!(system.space().free > 256, "{:?}", system.space());
        sound(&system);
    }
}

/// What a checkpoint gives back need not lie together.
#[test]
fn frames_that_come_back_scattered_do() {
    let mut system = synced();
    let file = make(&mut system, "file");
    // It has its place already, so that the first frames it takes are those of its bytes.
    system.write(file, 131_072, &[2; 4_096]).unwrap();
    scatter_frames(&mut system);
    let data: Vec<u8> = (0..131_072).map(|at| (at / 9) as u8).chain([2; 4_096]).collect();
    assert_eq!(system.write(file, 0, &data[..131_072]), Ok(131_072));
    assert!(contents(&system, file) == data);
    sound(&system);
}

/// One page in each piece of 2 MiB: every one of them has a table of its own, and each is a page of the store's.
#[test]
fn a_file_of_many_tables_goes_piece_by_piece() {
    let mut system = synced();
    let file = make(&mut system, "file");
    let mut pieces = 0;
    while system.write(file, pieces << 21, &[1; 10]).is_ok() {
        pieces += 1;
    }
    assert!(pieces > 180, "{pieces}");
    sync(&mut system);
    system.unlink(Ino::ROOT, b"file").unwrap();
    sound(&system);
    sync(&mut system);
    write(&mut system, "other", &[2; 100_000]);
    let image = system.into_memory().image();
    let (mut system, _) = mounted(Recording::with_checkpoints(image, BEHIND_FAILURE));
    sound(&system);
    assert_eq!(system.look_up(Ino::ROOT, b"file"), Err(Errno::NOENT));
}

/// Random operations, with a power failure now and then, beside what was there at the last `fsync`.
#[test]
fn random_operations_and_power_failures() {
    for seed in 0..6 {
        let mut random = SplitMix64::new(seed);
        let mut system = synced();
        for round in 0..6 {
            let mut last = tree(&mut system);
            sync(&mut system);
            let before = system.store.memory().begin();
            for _ in 0..40 {
                let name = format!("file {}", random.below(6));
                let found = system.look_up(Ino::ROOT, name.as_bytes());
                match (random.below(5), found) {
                    (0, Ok(_)) => system.unlink(Ino::ROOT, name.as_bytes()).unwrap(),
                    (1, Ok(file)) => {
                        // Not shorter: what is written there then is in the place of what was synced.
                        let size = system.attributes(file).unwrap().size + random.below(9_000);
                        let set = SetAttributes { size: Some(size), ..Default::default() };
                        let _ = system.set_attributes(file, &set);
                    }
                    (2, Ok(_)) => {
                        let to = format!("file {}", random.below(6));
                        let _ = system.rename(
                            (Ino::ROOT, name.as_bytes()),
                            (Ino::ROOT, to.as_bytes()),
                            Replace::Yes,
                        );
                    }
                    (_, found) => {
                        let file = found.unwrap_or_else(|_| make(&mut system, &name));
                        let size = system.attributes(file).unwrap().size;
                        // Bytes that are overwritten are promised nothing: only what lies behind the end.
                        let _ = system.write(
                            file,
                            size,
                            &vec![random.below(200) as u8 + 1; random.below(9_000) as usize + 1],
                        );
                    }
                }
                if random.below(25) == 0 {
                    last = tree(&mut system);
                    sync(&mut system);
                }
            }
            // The last moment of it, of which any pages are there.
            let mut left = Vec::new();
            system.into_memory().crashes(&before, Grain::Page, 6, seed, &mut |image| {
                left.push(image);
                true
            });
            let image = left.swap_remove(left.len() - 1 - random.below(6) as usize);
            system = mounted(Recording::with_checkpoints(image, seed * 100 + round + 10)).0;
            sound(&system);
            assert!(tree(&mut system) == last, "seed {seed}, round {round}");
        }
    }
}

/// Growing waits for the disk itself, whatever fences do: a power failure leaves the old size or the new one, and all files.
#[test]
fn a_power_failure_while_a_store_grows_leaves_all_files() {
    const GROWN: u64 = 1_500;
    let mut system = synced();
    write(&mut system, "a", &[1; 100]);
    write(&mut system, "b", &[2; 50_000]);
    sync(&mut system);
    system.unlink(Ino::ROOT, b"a").unwrap();
    write(&mut system, "c", &[3; 9_000]);
    let state = tree(&mut system);
    system.store.settle();
    let memory = system.store.memory();
    memory.checkpoints().unwrap().end(memory).unwrap();
    let mut image = system.into_memory().image();
    image.resize((GROWN as usize + BEHIND) * 4_096, 0);
    let memory = Recording::with_checkpoints(image, BEFORE);
    let before = memory.begin();
    let mut grown = Store::grow(memory, GROWN).unwrap();
    grown.checkpoint().unwrap();
    let memory = grown.into_memory();
    let mut sizes = std::collections::BTreeSet::new();
    memory.crashes(&before, Grain::Page, 12, 7, &mut |image| {
        let (mut system, _) = mounted(Recording::with_checkpoints(image, BEHIND_FAILURE));
        sound(&system);
        assert!(tree(&mut system) == state);
        sizes.insert(system.space().frames);
        let later = write(&mut system, "later", &[9; 5_000]);
        assert_eq!(contents(&system, later), [9; 5_000]);
        sync(&mut system);
        true
    });
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [FRAMES as u64, GROWN]);
}
