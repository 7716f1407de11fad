//! Ranges that are taken out of files and put into files, against vectors of bytes.

use pagewalk_vm::random::SplitMix64;

use super::*;

const PAGE: u64 = 4_096;
const MIB: u64 = 1 << 20;

fn patterned(system: &mut FileSystem<Recording>, name: &str, bytes: u64) -> (Ino, Vec<u8>) {
    let ino = make(system, name);
    let data: Vec<u8> = (0..bytes).map(|at| (at / 997 + at) as u8 | 1).collect();
    assert_eq!(system.write(ino, 0, &data), Ok(data.len()));
    (ino, data)
}

fn collapse(data: &mut Vec<u8>, range: std::ops::Range<u64>) {
    data.drain(range.start as usize..range.end as usize);
}

fn insert(data: &mut Vec<u8>, range: std::ops::Range<u64>) {
    let hole = vec![0; (range.end - range.start) as usize];
    data.splice(range.start as usize..range.start as usize, hole);
}

#[test]
fn ranges_that_cannot_move_are_refused() {
    let mut system = empty(1 << 12);
    let (ino, data) = patterned(&mut system, "file", 5 * PAGE + 10);
    for range in [0..0, 0..PAGE + 1, 1..PAGE, PAGE..2 * PAGE + 7] {
        assert_eq!(system.collapse(ino, range.clone()), Err(Errno::INVAL), "{range:?}");
        assert_eq!(system.insert(ino, range.clone()), Err(Errno::INVAL), "{range:?}");
    }
    assert_eq!(system.collapse(ino, PAGE..6 * PAGE), Err(Errno::INVAL), "it would be cut short");
    assert_eq!(system.insert(ino, 6 * PAGE..7 * PAGE), Err(Errno::INVAL), "behind the end");
    assert_eq!(system.insert(ino, 0..MOST_FILE_BYTES), Err(Errno::FBIG));
    assert_eq!(system.collapse(Ino::ROOT, 0..PAGE), Err(Errno::NODEV));
    system.pin(ino).unwrap();
    assert_eq!(system.collapse(ino, 0..PAGE), Err(Errno::BUSY));
    assert_eq!(system.insert(ino, 0..PAGE), Err(Errno::BUSY));
    system.unpin(ino).unwrap();
    assert!(contents(&system, ino) == data);
    sound(&system);
}

/// Small pages and large ones, by whole large pages and not, across the borders of tables and partitions.
#[test]
fn what_lies_behind_moves_and_comes_back() {
    for (bytes, start, length) in [
        (5 * PAGE + 10, PAGE, 2 * PAGE),
        (300 * PAGE + 1, 0, 299 * PAGE),
        (9 * MIB + 77, 2 * MIB, 4 * MIB),
        (9 * MIB + 77, MIB, 2 * MIB),
        (9 * MIB + 77, 0, PAGE),
        (9 * MIB + 77, 3 * MIB + PAGE, 5 * MIB - 3 * PAGE),
        (17 * MIB, 8 * MIB, 8 * MIB),
    ] {
        let mut system = empty(1 << 14);
        // A neighbour in the same table of entries.
        let (other, others) = patterned(&mut system, "other", 8 * PAGE);
        let (ino, mut data) = patterned(&mut system, "file", bytes);
        system.shrink(ino).unwrap();
        let (old, free) = (data.clone(), system.space().free);
        let range = start..start + length;
        system.collapse(ino, range.clone()).unwrap();
        collapse(&mut data, range.clone());
        assert!(contents(&system, ino) == data, "{bytes} without {range:?}");
        let freed = length / PAGE;
        assert!(system.space().free + 8 >= free + freed, "{free} {} {freed}", system.space().free);
        assert_eq!(system.attributes(ino).unwrap().blocks * 512, space::counted(&system, ino));
        sound(&system);
        if start < data.len() as u64 {
            system.insert(ino, range.clone()).unwrap();
            insert(&mut data, range.clone());
            assert!(contents(&system, ino) == data, "{bytes} with {range:?}");
            assert_eq!(system.seek(ino, start, Seek::Hole), Ok(start));
            assert_eq!(system.seek(ino, start, Seek::Data), Ok(range.end));
            sound(&system);
            // What is written into the hole is the file's as everything else is.
            system.write(ino, start, &old[start as usize..range.end as usize]).unwrap();
            assert!(contents(&system, ino) == old);
        }
        assert!(contents(&system, other) == others);
        sound(&system);
        let system = remounted(system);
        assert!(contents(&system, other) == others);
        sound(&system);
    }
}

/// Moved by two thousand pages and moved back, a large page is one entry again.
#[test]
fn pages_that_lie_together_become_large_again() {
    let mut system = empty(1 << 13);
    let (ino, data) = patterned(&mut system, "file", 8 * MIB);
    let is_large = |system: &FileSystem<Recording>, at: u64| {
        let first = system.inode(ino).unwrap().partition().unwrap().first;
        system.store.find(pagewalk_vm::addr::Vpn(first.0 + at / PAGE)).unwrap().large
    };
    assert!(is_large(&system, 4 * MIB));
    system.insert(ino, 0..PAGE).unwrap();
    assert!(!is_large(&system, 4 * MIB));
    system.collapse(ino, 0..PAGE).unwrap();
    assert!(is_large(&system, 4 * MIB) && contents(&system, ino) == data);
    sound(&system);
}

#[test]
fn a_long_range_goes_in_pieces() {
    let mut system = empty(1 << 16);
    let (ino, mut data) = patterned(&mut system, "file", 150 * MIB);
    let commits = system.store.commits();
    system.collapse(ino, MIB..141 * MIB).unwrap();
    collapse(&mut data, MIB..141 * MIB);
    assert!(contents(&system, ino) == data);
    assert!(system.store.commits() - commits >= 3, "one transaction cannot hold that");
    sound(&system);
}

#[test]
fn without_frames_nothing_moves() {
    let mut system = empty(1 << 12);
    let (ino, data) = patterned(&mut system, "file", 8 * MIB);
    let waste = make(&mut system, "waste");
    while system.write(waste, system.attributes(waste).unwrap().size, &[9; 4_096]).is_ok() {}
    assert_eq!(system.insert(ino, PAGE..2 * PAGE), Err(Errno::NOSPC));
    assert!(contents(&system, ino) == data);
    sound(&system);
    system.unlink(Ino::ROOT, b"waste").unwrap();
    system.insert(ino, PAGE..2 * PAGE).unwrap();
    sound(&system);
}

#[test]
fn random_shifts_do_what_vectors_do() {
    for seed in 0..6 {
        let mut random = SplitMix64::new(seed);
        let mut system = empty(1 << 13);
        let (ino, mut data) = patterned(&mut system, "file", 1 + random.below(5 * MIB));
        for step in 0..120 {
            let pages = data.len() as u64 / PAGE;
            let unit = [1, 1, 64, 512][random.below(4) as usize];
            let start = random.below(pages + 1) / unit * unit * PAGE;
            let range = start..start + (1 + random.below(4)) * unit * PAGE;
            let when = format!("seed {seed}, step {step}, {range:?} of {}", data.len());
            match random.below(3) {
                0 => match system.collapse(ino, range.clone()) {
                    Ok(()) => collapse(&mut data, range),
                    Err(error) => assert!(error == Errno::INVAL && range.end >= data.len() as u64, "{when}"),
                },
                1 if data.len() as u64 > 10 * MIB => {}
                1 => match system.insert(ino, range.clone()) {
                    Ok(()) => insert(&mut data, range),
                    Err(error) => assert!(error == Errno::INVAL && start >= data.len() as u64, "{when}"),
                },
                _ => {
                    let bytes = vec![step as u8 | 1; random.below(200_000) as usize + 1];
                    let at = random.below(data.len() as u64 + 1);
                    let end = at as usize + bytes.len();
                    assert_eq!(system.write(ino, at, &bytes), Ok(bytes.len()), "{when}");
                    data.resize(data.len().max(end), 0);
                    data[at as usize..end].copy_from_slice(&bytes);
                }
            }
            assert!(contents(&system, ino) == data, "{when}");
            sound(&system);
            assert_eq!(system.attributes(ino).unwrap().blocks * 512, space::counted(&system, ino), "{when}");
        }
        // Everything comes back, but for tables that lead nowhere now.
        system.unlink(Ino::ROOT, b"file").unwrap();
        let system = remounted(system);
        let fresh = empty(1 << 13).space().free;
        assert!(system.space().free + 8 >= fresh, "{} of {fresh} frames are free", system.space().free);
        sound(&system);
    }
}

#[test]
fn a_crash_leaves_the_old_file_or_the_new_one() {
    for (bytes, start, length) in
        [(6 * PAGE + 9, PAGE, 2 * PAGE), (5 * MIB, 2 * MIB, 2 * MIB), (5 * MIB, 3 * PAGE, 700 * PAGE)]
    {
        for inserts in [false, true] {
            let mut system = empty(1 << 12);
            let (ino, old) = patterned(&mut system, "file", bytes);
            system.shrink(ino).unwrap();
            let range = start..start + length;
            let mut new = old.clone();
            if inserts {
                insert(&mut new, range.clone())
            } else {
                collapse(&mut new, range.clone())
            }
            let mut states = [0, 0];
            let seen = crashes::crash(
                system,
                |system| match inserts {
                    true => system.insert(ino, range.clone()).unwrap(),
                    false => system.collapse(ino, range.clone()).unwrap(),
                },
                2,
                &mut |system| {
                    let left = contents(system, ino);
                    assert!(left == old || left == new, "{bytes}, {range:?}: {}", left.len());
                    states[usize::from(left == new)] += 1;
                    system.write(ino, 0, &[1; 5_000]).unwrap();
                },
            );
            assert!(seen > 10 && states.iter().all(|&count| count > 0), "{seen}: {states:?}");
        }
    }
}
