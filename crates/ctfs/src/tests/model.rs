//! Random operations, the same on the file system and on maps of names and vectors of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::Range;

use pagewalk_vm::random::SplitMix64;

use super::*;

enum Node {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Ino>),
    Link(Vec<u8>),
}

struct Model {
    nodes: BTreeMap<Ino, Node>,
}

impl Model {
    fn directories(&self) -> Vec<Ino> {
        let is_directory = |(ino, node): (&Ino, &Node)| matches!(node, Node::Directory(_)).then_some(*ino);
        self.nodes.iter().filter_map(is_directory).collect()
    }

    fn names(&mut self, ino: Ino) -> &mut BTreeMap<Vec<u8>, Ino> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Directory(names)) => names,
            _ => panic!("no directory"),
        }
    }

    /// What all names name, once for each.
    fn named(&self) -> impl Iterator<Item = Ino> {
        let names = self.nodes.values().filter_map(|node| match node {
            Node::Directory(names) => Some(names),
            _ => None,
        });
        names.flat_map(BTreeMap::values).copied()
    }

    fn is_within(&self, ino: Ino, other: Ino) -> bool {
        let Some(Node::Directory(names)) = self.nodes.get(&other) else { return false };
        ino == other || names.values().any(|&child| self.is_within(ino, child))
    }

    fn forget_unnamed(&mut self, ino: Ino) {
        if !self.named().any(|named| named == ino) {
            self.nodes.remove(&ino);
        }
    }
}

/// Sizes around every boundary of partitions that the store has room for.
fn size(random: &mut SplitMix64) -> u64 {
    let boundary = [0, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20][random.below(6) as usize];
    (boundary + random.below(3)).saturating_sub(1)
}

/// Something was done if it may be, or there is no room for it.
fn is_done<T: std::fmt::Debug>(system: &FileSystem<Recording>, result: &Result<T>, may_be: bool) {
    let is_full = matches!(result, Err(Error::NOSPC)) && system.space().free < 64;
    assert!(result.is_ok() == may_be || is_full, "{result:?}, {:?}", system.space());
}

/// Bytes that are compared at once: they stay in a cache.
const PIECE: u64 = 256 << 10;
/// What is compared at once beside bytes that an operation touched.
const BESIDE: u64 = 5_000;

/// A range of a file is what the model says; what lies behind its end is nothing.
fn compare_bytes(system: &FileSystem<Recording>, ino: Ino, expected: &[u8], range: Range<u64>, when: &str) {
    let mut buffer = vec![0; PIECE.min(range.end - range.start) as usize];
    for start in range.clone().step_by(PIECE as usize) {
        let piece =
            start.min(expected.len() as u64)..(start + PIECE).min(range.end).min(expected.len() as u64);
        let expected = &expected[piece.start as usize..piece.end as usize];
        let found = &mut buffer[..((start + PIECE).min(range.end) - start) as usize];
        assert_eq!(system.read(ino, start, found), Ok(expected.len()), "{when}: {ino:?} from {start} on");
        let found = &found[..expected.len()];
        if found != expected {
            let differs = found.iter().zip(expected).position(|(found, byte)| found != byte);
            panic!("{when}: {ino:?}, byte {} of {range:?}", start + differs.unwrap_or(0) as u64);
        }
    }
}

/// All but the bytes of files that are not `chosen`.
fn compare(system: &mut FileSystem<Recording>, model: &Model, chosen: impl Fn(&Ino) -> bool, when: &str) {
    sound(system);
    let mut links: BTreeMap<Ino, u64> = BTreeMap::new();
    model.named().for_each(|ino| *links.entry(ino).or_default() += 1);
    for (&ino, node) in &model.nodes {
        match node {
            Node::File(bytes) => {
                let attributes = system.attributes(ino).unwrap();
                assert_eq!((attributes.size, attributes.links), (bytes.len() as u64, links[&ino]), "{when}");
                assert_eq!(attributes.blocks * 512, space::counted(system, ino), "{when}");
                space::searches_are_right(system, ino);
                if chosen(&ino) {
                    compare_bytes(system, ino, bytes, 0..bytes.len() as u64, when);
                }
            }
            Node::Link(target) => assert_eq!(system.read_link(ino).as_ref(), Ok(target)),
            Node::Directory(names) => {
                let mut listed = BTreeMap::new();
                system
                    .list(ino, 2, &mut |name, ino, _, _| listed.insert(name.to_vec(), ino).is_none())
                    .unwrap();
                assert_eq!(listed, *names);
            }
        }
    }
}

/// One life of a file system; how many operations were done. What an operation touched is compared at once, every file that has
/// changed and all names after 100 of them, everything before and behind a mount after 500.
fn live(seed: u64, steps: u64) -> u64 {
    let mut random = SplitMix64::new(seed);
    let mut system = empty(1 << 14);
    let overwrites = if seed.is_multiple_of(2) { Overwrites::InPlace } else { Overwrites::Whole };
    system.set_overwrites(overwrites);
    let mut model = Model { nodes: BTreeMap::from([(Ino::ROOT, Node::Directory(BTreeMap::new()))]) };
    let mut done = 0;
    // Files whose bytes are to be compared as a whole.
    let mut changed = BTreeSet::new();
    for step in 0..steps {
        let directories = model.directories();
        let parent = directories[random.below(directories.len() as u64) as usize];
        let other = directories[random.below(directories.len() as u64) as usize];
        let name = |random: &mut SplitMix64| {
            let number = random.below(12);
            format!("{number}{}", "-".repeat((number * number) as usize)).into_bytes()
        };
        let (name, other_name) = (name(&mut random), name(&mut random));
        let named = model.names(parent).get(&name).copied();
        let is_directory = |model: &Model, ino: Ino| matches!(model.nodes[&ino], Node::Directory(_));
        let mut touched = None;
        match random.below(20) {
            0..3 => {
                let made = system.create(parent, &name, FILE, ME, 0);
                is_done(&system, &made, named.is_none());
                if let Ok(ino) = made {
                    model.names(parent).insert(name, ino);
                    model.nodes.insert(ino, Node::File(Vec::new()));
                }
            }
            3 => {
                let made = system.create(parent, &name, DIRECTORY, ME, 0);
                is_done(&system, &made, named.is_none());
                if let Ok(ino) = made {
                    model.names(parent).insert(name, ino);
                    model.nodes.insert(ino, Node::Directory(BTreeMap::new()));
                }
            }
            4 => {
                let made = system.create_link_to(parent, &name, &other_name, ME);
                is_done(&system, &made, named.is_none());
                if let Ok(ino) = made {
                    model.names(parent).insert(name, ino);
                    model.nodes.insert(ino, Node::Link(other_name));
                }
            }
            5..7 => {
                let removed = system.unlink(parent, &name);
                match named {
                    Some(ino) if !is_directory(&model, ino) => {
                        assert_eq!(removed, Ok(()));
                        model.names(parent).remove(&name);
                        model.forget_unnamed(ino);
                    }
                    Some(_) => assert_eq!(removed, Err(Error::ISDIR)),
                    None => assert_eq!(removed, Err(Error::NOENT)),
                }
            }
            7 => {
                let removed = system.remove_directory(parent, &name);
                match named {
                    Some(ino) if is_directory(&model, ino) && model.names(ino).is_empty() => {
                        assert_eq!(removed, Ok(()));
                        model.names(parent).remove(&name);
                        model.nodes.remove(&ino);
                    }
                    Some(ino) if is_directory(&model, ino) => assert_eq!(removed, Err(Error::NOTEMPTY)),
                    Some(_) => assert_eq!(removed, Err(Error::NOTDIR)),
                    None => assert_eq!(removed, Err(Error::NOENT)),
                }
            }
            8 => {
                let taken = model.names(other).contains_key(&other_name);
                let Some(ino) = named else { continue };
                let linked = system.link(ino, other, &other_name);
                is_done(&system, &linked, !taken && !is_directory(&model, ino));
                if linked.is_ok() {
                    model.names(other).insert(other_name, ino);
                }
            }
            9..12 => {
                let renamed = system.rename((parent, &name), (other, &other_name), Replace::Yes);
                let Some(ino) = named else {
                    assert_eq!(renamed, Err(Error::NOENT));
                    continue;
                };
                let target = model.names(other).get(&other_name).copied();
                let allowed = !model.is_within(other, ino)
                    && target.is_none_or(|target| {
                        target == ino
                            || match (is_directory(&model, ino), is_directory(&model, target)) {
                                (true, true) => model.names(target).is_empty(),
                                (false, false) => true,
                                _ => false,
                            }
                    });
                is_done(&system, &renamed, allowed);
                if renamed.is_ok() && target != Some(ino) {
                    model.names(parent).remove(&name);
                    model.names(other).insert(other_name, ino);
                    target.into_iter().for_each(|target| model.forget_unnamed(target));
                }
            }
            12 => {
                let Some(ino) = named else { continue };
                let start = size(&mut random);
                let range = start..start + random.below(10) * random.below(10_000);
                let punches = random.below(2) == 0;
                let keeps_size = random.below(2) == 0;
                let Some(Node::File(contents)) = model.nodes.get_mut(&ino) else {
                    assert!(
                        system.punch(ino, range.clone()).is_err()
                            && system.allocate(ino, range, false).is_err()
                    );
                    continue;
                };
                touched = Some((ino, range.clone()));
                if range.is_empty() {
                    assert_eq!(system.punch(ino, range.clone()), Err(Error::INVAL));
                } else if punches {
                    system.punch(ino, range.clone()).unwrap();
                    let length = contents.len();
                    let inside = (range.start as usize).min(length)..(range.end as usize).min(length);
                    contents[inside].fill(0);
                } else {
                    match system.allocate(ino, range.clone(), keeps_size) {
                        Ok(()) if !keeps_size => contents.resize(contents.len().max(range.end as usize), 0),
                        Ok(()) => {}
                        Err(error) => assert_eq!(error, Error::NOSPC),
                    }
                }
            }
            14 if random.below(3) == 0 => {
                let Some(ino) = named else { continue };
                let Some(Node::File(contents)) = model.nodes.get_mut(&ino) else { continue };
                let unit = [4_096, 65_536, 2 << 20][random.below(3) as usize];
                let start = random.below(contents.len() as u64 + 1) / unit * unit;
                let range = start..start + unit * (1 + random.below(2));
                let (is_there, ends) = (start < contents.len() as u64, range.end >= contents.len() as u64);
                touched = Some((ino, range.start..range.end + unit));
                if random.below(2) == 0 {
                    let shifted = system.collapse(ino, range.clone());
                    match shifted {
                        Ok(()) => drop(contents.drain(range.start as usize..range.end as usize)),
                        Err(error) => assert!(error == if ends { Error::INVAL } else { Error::NOSPC }),
                    }
                } else {
                    match system.insert(ino, range.clone()) {
                        Ok(()) => {
                            let hole = vec![0; (range.end - range.start) as usize];
                            drop(contents.splice(start as usize..start as usize, hole));
                        }
                        Err(error) => assert!(error == if is_there { Error::NOSPC } else { Error::INVAL }),
                    }
                }
            }
            13 if random.below(4) == 0 => {
                let Some(ino) = named else { continue };
                system.shrink(ino).unwrap();
                touched = Some((ino, 0..0));
            }
            13 => {
                let Some(ino) = named else { continue };
                let bytes = size(&mut random);
                touched = Some((ino, bytes..bytes));
                let set =
                    system.set_attributes(ino, &SetAttributes { size: Some(bytes), ..Default::default() });
                match model.nodes.get_mut(&ino) {
                    Some(Node::File(contents)) if set.is_ok() => contents.resize(bytes as usize, 0),
                    Some(Node::File(_)) => assert_eq!(set, Err(Error::NOSPC)),
                    _ => assert!(set.is_err()),
                }
            }
            _ => {
                let Some(ino) = named else { continue };
                let Some(Node::File(contents)) = model.nodes.get_mut(&ino) else { continue };
                let offset = if random.below(2) == 0 { contents.len() as u64 } else { size(&mut random) };
                let bytes = 1 + [random.below(9_000), random.below(300_000), size(&mut random) / 4]
                    [random.below(3) as usize];
                let data: Vec<u8> = (0..bytes).map(|at| (at * 7 + seed + step) as u8).collect();
                touched = Some((ino, offset..offset + bytes));
                match system.write(ino, offset, &data) {
                    Ok(written) => {
                        let end = offset as usize + written;
                        contents.resize(contents.len().max(end), 0);
                        contents[offset as usize..end].copy_from_slice(&data[..written]);
                    }
                    Err(error) => assert_eq!(error, Error::NOSPC),
                }
            }
        }
        done += 1;
        let when = format!("seed {seed}, step {step}");
        if let Some((ino, range)) = touched
            && let Some(Node::File(bytes)) = model.nodes.get(&ino)
        {
            changed.insert(ino);
            compare_bytes(&system, ino, bytes, range.start.saturating_sub(BESIDE)..range.end + BESIDE, &when);
        }
        if done % 500 == 0 {
            compare(&mut system, &model, |_| true, &when);
            system = remounted(system);
            system.set_overwrites(overwrites);
            compare(&mut system, &model, |_| true, &format!("{when}, mounted again"));
            changed.clear();
        } else if done % 100 == 0 {
            compare(&mut system, &model, |ino| changed.contains(ino), &when);
            changed.clear();
        }
    }
    done
}

#[test]
fn random_operations_do_what_the_model_does() {
    let done: u64 = (0..4).map(|seed| live(seed, 1_500)).sum();
    assert!(done > 3_000, "{done}");
}

#[test]
#[ignore = "takes minutes; `make soak`"]
fn a_million_random_operations_do_what_the_model_does() {
    let (mut done, begin) = (0, std::time::Instant::now());
    for seed in 100.. {
        let before = done;
        done += live(seed, 5_000);
        if done / 100_000 > before / 100_000 {
            // Past the capture: the waiting thread sees it.
            let _ = writeln!(std::io::stderr(), "{done} operations, {} s", begin.elapsed().as_secs());
        }
        if done >= 1_000_000 {
            break;
        }
    }
}
