//! A file system with any of its words changed: it is refused, or it is sound and stays so while it is used. Repaired, it is
//! always sound, unless no superblock is left.
//!
//! Each change is eleven bytes: which of the words that are not zero, or one near it; how; and a value.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pagewalk_ctfs::{
    Clock, FileSystem, Ino, MountError, Owner, Replace, SetAttributes, SetExtended, check, repair,
};
use pagewalk_vm::file::{Image, Recording, damaged_superblocks};

const FRAMES: usize = 640;
const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o040_755;
const OWNER: Owner = Owner { uid: 0, gid: 0 };

fn clock() -> Clock {
    || 1_700_000_000_000_000_000
}

/// A store with something of everything, and where its words are.
fn base() -> &'static (Image, Vec<usize>) {
    static BASE: OnceLock<(Image, Vec<usize>)> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut system =
            FileSystem::format(Recording::new(vec![0; FRAMES * 4_096]), OWNER, clock()).expect("room");
        let below = system.create(Ino::ROOT, b"dir", DIRECTORY, OWNER, 0).expect("room");
        let inner = system.create(below, b"inner", DIRECTORY, OWNER, 0).expect("room");
        let file =
            system.create(inner, b"a name that takes more than one slot of a directory's", FILE, OWNER, 0);
        let file = file.expect("room");
        system.write(file, 0, &[7; 100]).expect("room");
        system.write(file, 40_000, &[7; 5_000]).expect("room");
        system.link(file, Ino::ROOT, b"hard").expect("room");
        system.set_extended(file, b"user.x", b"value", SetExtended::Any).expect("room");
        let beyond =
            SetAttributes { modified: Some(-(1 << 70)), accessed: Some(1 << 80), ..SetAttributes::default() };
        system.set_attributes(file, &beyond).expect("it is there");
        system.create_link_to(below, b"soft", b"../hard", OWNER).expect("room");
        let gone = system.create(Ino::ROOT, b"gone", FILE, OWNER, 0).expect("room");
        system.open(gone).expect("it is there");
        system.unlink(Ino::ROOT, b"gone").expect("it is there");
        let image = system.into_memory().image();
        let words = (0..image.len()).step_by(8).filter(|&at| image[at..at + 8] != [0; 8]).collect();
        (image, words)
    })
}

/// Visits everything that can be reached, and uses some of it.
fn use_all(system: &mut FileSystem<Recording>) {
    let mut open = vec![Ino::ROOT];
    let mut visited = 0;
    while let Some(ino) = open.pop() {
        visited += 1;
        assert!(visited < 10_000, "directories that do not end");
        let mut entries = Vec::new();
        let listed = system.list(ino, 2, &mut |name, ino, kind, _| {
            entries.push((name.to_vec(), ino, kind));
            true
        });
        listed.expect("a directory");
        for (name, child, kind) in entries {
            if kind == 4 {
                open.push(child);
            } else {
                let _ = system.read(child, 0, &mut [0; 10_000]);
                let _ = system.read_link(child);
                let _ = system.extended_names(child);
                let _ = system.write(child, 3_000, &[1; 5_000]);
                let _ = system.set_extended(child, b"user.y", b"other", SetExtended::Any);
                let _ = system.set_attributes(child, &SetAttributes { size: Some(10), ..Default::default() });
                let _ = system.rename((ino, &name), (Ino::ROOT, b"renamed"), Replace::Yes);
            }
        }
        if let Ok(made) = system.create(ino, b"made", FILE, OWNER, 0) {
            let _ = system.write(made, 0, &[2; 70_000]);
        }
    }
    let _ = system.unlink(Ino::ROOT, b"hard");
    let _ = system.unlink(Ino::ROOT, b"renamed");
}

/// Any content, as a file of any size up to 64 KiB may have: behind what the store begins with, or not.
fn use_raw(data: &[u8]) {
    let Some((&[low, high, kept], content)) = data.split_first_chunk() else { return };
    let pages = usize::from(u16::from_le_bytes([low, high])) % 16 + 1;
    let mut image = base().0[..pages * 4_096].to_vec();
    let kept = usize::from(kept) * 64 % image.len();
    image[kept..].fill(0);
    for (byte, new) in image[kept..].iter_mut().zip(content) {
        *byte = *new;
    }
    let memory = || Recording::new(image.clone());
    let _ = damaged_superblocks(&memory());
    assert!(FileSystem::mount_unchecked(memory(), clock()).is_err(), "it is smaller than every store");
    assert!(FileSystem::mount(memory(), clock()).is_err(), "it is smaller than every store");
    assert!(repair(memory(), clock()).is_err(), "it is smaller than every store");
}

fuzz_target!(|data: &[u8]| {
    use_raw(data);
    let (base, words) = base();
    let mut image = base.clone();
    for change in data.chunks_exact(11).take(64) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let value: [u8; 8] = change[3..].try_into().expect("eight bytes");
        let at = words[place % words.len()] + usize::from(change[2] >> 4) * 8;
        let Some(word) = image.get_mut(at..at + 8) else { continue };
        let old = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        let value = u64::from_le_bytes(value);
        let new = match change[2] & 7 {
            0 => value,
            1 => old ^ 1 << (value & 63),
            2 => old.wrapping_add(value & 0xff),
            3 => old.wrapping_sub(value & 0xff),
            4 => old.wrapping_add((value & 0xff) << 12),
            5 => 0,
            // What another word is.
            _ => {
                let other = words[value as usize % words.len()];
                u64::from_le_bytes(base[other..other + 8].try_into().expect("eight bytes"))
            }
        };
        word.copy_from_slice(&new.to_le_bytes());
    }
    if let Ok((system, _)) = FileSystem::mount_unchecked(Recording::new(image.clone()), clock()) {
        let _ = check(&system);
    }
    let use_soundly = |system: &mut FileSystem<Recording>| {
        use_all(system);
        let problems = check(system);
        assert!(problems.is_empty(), "{problems:?}");
    };
    if let Ok((mut system, _)) = FileSystem::mount(Recording::new(image.clone()), clock()) {
        use_soundly(&mut system);
    }
    match repair(Recording::new(image), clock()) {
        Ok((system, said)) => {
            let problems = check(&system);
            assert!(problems.is_empty(), "{problems:?} after {said:?}");
            let mounted = FileSystem::mount(system.into_memory(), clock());
            use_soundly(&mut mounted.expect("it is sound").0);
        }
        Err(MountError::Store(_)) => {}
        Err(error) => panic!("{error}"),
    }
});
