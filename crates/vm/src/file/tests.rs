//! The laws of partitions and swaps, against naive models, and what crashes leave.

use std::collections::BTreeMap;

use super::*;
use crate::addr::{PAGE_BYTES, Pfn, Vpn};
use crate::random::SplitMix64;

mod grow;

const FRAMES: u64 = 2_048;

fn empty(frames: u64) -> Store<Recording> {
    Store::format(Recording::new(vec![0; (frames * PAGE_BYTES) as usize])).unwrap()
}

fn reopened(image: impl Into<Snapshot>) -> Store<Recording> {
    Store::open(Recording::new(image)).unwrap().0
}

fn level(number: u8) -> Level {
    Level::new(number).unwrap()
}

/// A partition of its own, which is committed.
fn allocate(store: &mut Store<Recording>, number: u8) -> Partition {
    let mut transaction = store.begin();
    let partition = transaction.allocate(level(number)).unwrap();
    transaction.commit().unwrap();
    partition
}

/// Maps fresh frames at pages, small ones.
fn map(store: &mut Store<Recording>, pages: impl IntoIterator<Item = u64>) -> Vec<Pfn> {
    let mut transaction = store.begin();
    let map_one = |page| {
        let frame = transaction.take_frames(0).unwrap();
        transaction.map(Vpn(page), frame, false).unwrap();
        frame
    };
    let frames = pages.into_iter().map(map_one).collect();
    transaction.commit().unwrap();
    frames
}

#[test]
fn the_smallest_partition_that_fits_is_used() {
    assert_eq!(Level::of_bytes(0), Level::new(0));
    for number in 0..=9 {
        let bytes = 4_096 * 8u64.pow(number.into());
        let level = level(number);
        assert_eq!(level.bytes(), bytes);
        assert_eq!(Level::of_bytes(bytes - 1), Some(level));
        assert_eq!(Level::of_bytes(bytes), Some(level));
        assert_eq!(Level::of_bytes(bytes + 1), Level::new(number + 1));
    }
}

/// Entries of 4 KiB, 2 MiB and 1 GiB, by the published rule written down again.
fn law(a: u64, b: u64, pages: u64) -> [u64; 3] {
    let (mut counts, mut done) = ([0; 3], 0);
    while done < pages {
        let step = [262_144, 512, 1].into_iter().position(|step| {
            (a + done).is_multiple_of(step) && (b + done).is_multiple_of(step) && step <= pages - done
        });
        let step = step.unwrap();
        counts[2 - step] += 1;
        done += [262_144, 512, 1][step];
    }
    counts
}

#[test]
fn swaps_take_as_few_entries_as_published() {
    let giga = 262_144;
    let mut store = empty(FRAMES);
    for (pages, expected) in [
        (1, [1, 0, 0]),
        (8, [8, 0, 0]),
        (64, [64, 0, 0]),
        (511, [511, 0, 0]),
        (512, [0, 1, 0]),
        (262_143, [511, 511, 0]),
        (262_144, [0, 0, 1]),
        (262_658, [2, 1, 1]),
        (1_048_576, [0, 0, 4]),
    ] {
        let swapped = store.begin().swap(Vpn(8 * giga), Vpn(16 * giga), pages).unwrap();
        assert_eq!(swapped, SwapCounts(expected), "{pages} pages");
        assert_eq!(law(8 * giga, 16 * giga, pages), expected);
    }
    let mut random = SplitMix64::new(1);
    for _ in 0..200 {
        let near = |random: &mut SplitMix64| random.below(3) * giga + random.below(3) * 512 + random.below(3);
        let (a, b) = (near(&mut random), 8 * giga + near(&mut random));
        let pages = 1 + random.below(2) * giga + random.below(3) * 512 + random.below(700);
        let swapped = store.begin().swap(Vpn(a), Vpn(b), pages).unwrap();
        assert_eq!(swapped, SwapCounts(law(a, b, pages)), "{a} {b} {pages}");
    }
    let mut transaction = store.begin();
    assert_eq!(transaction.swap(Vpn(0), Vpn(511), 512), Err(StoreError::Overlap));
    assert_eq!(transaction.swap(Vpn(0), Vpn(SPACE_END.0 - 1), 2), Err(StoreError::Range));
    assert_eq!(transaction.swap(Vpn(0), Vpn(u64::MAX), 2), Err(StoreError::Range));
}

#[test]
fn moving_a_partition_takes_eight_to_the_level_modulo_three() {
    for number in 0..9 {
        let mut store = empty(FRAMES);
        let (old, new) = (allocate(&mut store, number), allocate(&mut store, number + 1));
        let last = old.end().0 - 1;
        let frames = map(&mut store, if number == 0 { vec![last] } else { vec![old.first.0, last] });
        let mut transaction = store.begin();
        let counts = transaction.swap(new.first, old.first, old.level.pages()).unwrap();
        assert_eq!(counts.total(), 8u64.pow(u32::from(number) % 3), "level {number}");
        assert_eq!(counts.0[usize::from(number) / 3], counts.total(), "at one level of the table");
        transaction.free_partition(old).unwrap();
        transaction.commit().unwrap();
        let moved = store.find(Vpn(new.first.0 + old.level.pages() - 1)).unwrap();
        assert_eq!(moved.frame, frames[frames.len() - 1], "the very frame");
        assert_eq!(store.find(Vpn(last)), None);
    }
}

#[test]
fn swapped_pages_have_each_others_frames() {
    let mut store = empty(1 << 13);
    let mut random = SplitMix64::new(7);
    let mut model: BTreeMap<u64, Pfn> = BTreeMap::new();
    // Pages of both sizes in the first 16 MiB of two partitions.
    let (first, second) = (allocate(&mut store, 4).first.0, allocate(&mut store, 5).first.0);
    for base in [first, second] {
        for chunk in 0..8 {
            let page = base + chunk * 512;
            let mut transaction = store.begin();
            if random.below(2) == 0 {
                let frame = transaction.take_frames(LARGE_ORDER).unwrap();
                transaction.map(Vpn(page), frame, true).unwrap();
                model.extend((0..512).map(|at| (page + at, frame.add(at))));
            } else {
                for _ in 0..20 {
                    let page = page + random.below(512);
                    if let std::collections::btree_map::Entry::Vacant(entry) = model.entry(page) {
                        let frame = transaction.take_frames(0).unwrap();
                        transaction.map(Vpn(page), frame, false).unwrap();
                        entry.insert(frame);
                    }
                }
            }
            transaction.commit().unwrap();
        }
    }
    for _ in 0..60 {
        let is_aligned = random.below(2) == 0;
        let offset = |random: &mut SplitMix64| {
            if is_aligned { random.below(4) * 512 } else { random.below(2_048) }
        };
        let (a, b) = (first + offset(&mut random), second + offset(&mut random));
        let pages = 1 + random.below(if is_aligned { 2_048 } else { 700 });
        store.swap(Vpn(a), Vpn(b), pages, None).unwrap();
        for at in 0..pages {
            let (of_a, of_b) = (model.remove(&(a + at)), model.remove(&(b + at)));
            of_a.map(|frame| model.insert(b + at, frame));
            of_b.map(|frame| model.insert(a + at, frame));
        }
        for base in [first, second] {
            for page in base..base + 4_096 {
                assert_eq!(store.find(Vpn(page)).map(|mapped| mapped.frame), model.get(&page).copied());
            }
        }
    }
    assert_eq!(store.check(), Ok(()));
}

/// The cache of translations answers as a walk does: inside a transaction, behind one that was dropped, and behind one that counts.
#[test]
fn cached_translations_end_with_their_mappings() {
    let mut store = empty(FRAMES);
    let (a, b) = (allocate(&mut store, 1).first, allocate(&mut store, 1).first);
    let frames = map(&mut store, [a.0, b.0]);
    let of = |store: &Store<Recording>| [a, b].map(|page| store.frame_of(page));
    assert_eq!(of(&store), [Some(frames[0]), Some(frames[1])]);
    {
        let mut dropped = store.begin();
        assert_eq!(dropped.frame_of(a), Some(frames[0]));
        assert_eq!(dropped.unmap(a, Vpn(a.0 + 1)), Vpn(a.0 + 1));
        assert_eq!([a, b].map(|page| dropped.frame_of(page)), [None, Some(frames[1])]);
        let other = dropped.take_frames(0).unwrap();
        dropped.map(a, other, false).unwrap();
        assert_eq!(dropped.frame_of(a), Some(other));
    }
    assert_eq!(of(&store), [Some(frames[0]), Some(frames[1])]);
    store.swap(a, b, 1, None).unwrap();
    assert_eq!(of(&store), [Some(frames[1]), Some(frames[0])]);
    let mut transaction = store.begin();
    transaction.unmap(a, Vpn(a.0 + 1));
    transaction.commit().unwrap();
    assert_eq!(of(&store), [None, Some(frames[0])]);
    let [again] = map(&mut store, [a.0])[..] else { panic!("one page") };
    assert_eq!(of(&store), [Some(again), Some(frames[0])]);
}

/// Every partition of a store, as its headers say.
fn partitions(store: &Store<Recording>) -> (Vec<Partition>, Vec<(Partition, Part)>) {
    let mut all = Vec::new();
    store.visit_partitions(&mut |partition, part| all.push((partition, part))).unwrap();
    let allocated = all.iter().filter(|(_, part)| *part == Part::Allocated).map(|&(partition, _)| partition);
    (allocated.collect(), all)
}

#[test]
fn partitions_have_one_owner_and_come_back() {
    for seed in 0..12 {
        let mut store = empty(FRAMES);
        let (_, free_before) = store.frame_counts();
        let mut random = SplitMix64::new(seed);
        let mut held: Vec<Partition> = Vec::new();
        for step in 0..400 {
            if random.below(5) < if step < 250 { 3 } else { 1 } || held.is_empty() {
                // Small ones are more frequent.
                let number = random.below(10).min(random.below(10)) as u8;
                let partition = allocate(&mut store, number);
                assert!(partition.first.0.is_multiple_of(partition.level.pages()));
                assert!(partition.first.0 >= Level::L9.pages(), "the first 512 GiB are not for files");
                let overlaps =
                    |other: &&Partition| other.first < partition.end() && partition.first < other.end();
                assert_eq!(held.iter().find(overlaps), None, "{partition:?}");
                held.push(partition);
            } else {
                let partition = held.swap_remove(random.below(held.len() as u64) as usize);
                let mut transaction = store.begin();
                transaction.free_partition(partition).unwrap();
                transaction.commit().unwrap();
                assert!(store.begin().free_partition(partition).is_err(), "once");
            }
            if step % 20 == 0 {
                let (mut allocated, all) = partitions(&store);
                let mut expected = held.clone();
                allocated.sort();
                expected.sort();
                assert_eq!(allocated, expected);
                assert_eq!(store.wrong_availability(), Ok(None), "seed {seed}, step {step}");
                // Whatever is cut has its header mapped, and nothing else is.
                for &(partition, part) in all.iter().filter(|(_, part)| *part != Part::Empty) {
                    assert_eq!(store.find(partition.first).is_some(), part == Part::Cut, "{partition:?}");
                }
                assert_eq!(store.check(), Ok(()));
            }
        }
        for partition in held.drain(..) {
            let mut transaction = store.begin();
            transaction.free_partition(partition).unwrap();
            transaction.commit().unwrap();
        }
        let (_, all) = partitions(&store);
        assert!(all.iter().all(|(partition, part)| partition.level == Level::L9 && *part == Part::Empty));
        assert_eq!(store.frame_counts().1, free_before, "every header and table came back");
    }
}

#[test]
fn a_small_partitions_first_part_is_its_header() {
    for (number, usable) in [(0, 511), (1, 63), (2, 7)] {
        let mut store = empty(FRAMES);
        let mut by_l3: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..3 * usable {
            let partition = allocate(&mut store, number);
            *by_l3.entry(partition.first.0 / 512).or_default() += 1;
        }
        assert!(by_l3.values().all(|&count| count <= usable), "{by_l3:?}");
        assert!(by_l3.values().filter(|&&count| count == usable).count() >= 2, "{by_l3:?}");
    }
}

#[test]
fn large_partitions_run_out_one_by_one() {
    let mut store = empty(FRAMES);
    for number in 1..512 {
        assert_eq!(allocate(&mut store, 9).first, Vpn(number << 27));
    }
    for number in [9, 8, 3, 0] {
        assert_eq!(store.begin().allocate(level(number)), Err(StoreError::NoPartition));
    }
    let given = Partition { level: Level::L9, first: Vpn(77 << 27) };
    let mut transaction = store.begin();
    transaction.free_partition(given).unwrap();
    transaction.commit().unwrap();
    assert_eq!(allocate(&mut store, 8).first, Vpn((77 << 27) + (1 << 24)), "behind the header's part");
}

#[test]
fn without_frames_nothing_changes() {
    let mut store = empty(LEAST_FRAMES);
    let taken: Vec<Pfn> = {
        let mut transaction = store.begin();
        let taken = std::iter::from_fn(|| transaction.take_frames(0).ok()).collect();
        transaction.commit().unwrap();
        taken
    };
    let image = store.memory().image();
    assert_eq!(store.begin().allocate(Level::L0), Err(StoreError::NoFrames));
    // Headers and tables on the way fail one after the other.
    for frames in 1..8u64 {
        let mut transaction = store.begin();
        transaction.give_frames(taken[0], frames);
        transaction.commit().unwrap();
        assert_eq!(store.frame_counts().1, frames);
        let allocated = store.begin().allocate(Level::L0);
        assert!(allocated.is_ok() || allocated == Err(StoreError::NoFrames));
        assert_eq!(store.frame_counts().1, frames, "what was taken came back");
        let mut transaction = store.begin();
        (0..frames).for_each(|_| assert!(transaction.take_frames(0).is_ok()));
        transaction.commit().unwrap();
    }
    assert_eq!(store.begin().allocate(Level::L9).map(|partition| partition.level), Ok(Level::L9));
    assert_eq!(reopened(image).frame_counts().1, 0);
}

#[test]
fn unmapping_gives_frames_back_and_keeps_what_lies_there_in_part() {
    let mut store = empty(1 << 13);
    let base = allocate(&mut store, 5).first.0;
    let free = store.frame_counts().1;
    let mut transaction = store.begin();
    for chunk in [0, 2, 40] {
        let frame = transaction.take_frames(LARGE_ORDER).unwrap();
        transaction.map(Vpn(base + chunk * 512), frame, true).unwrap();
    }
    transaction.commit().unwrap();
    map(&mut store, [base + 512, base + 600, base + 1_023]);
    let mut transaction = store.begin();
    assert_eq!(transaction.unmap(Vpn(base + 100), Vpn(base + 512 + 88)), Vpn(base + 512 + 88));
    transaction.commit().unwrap();
    let is_mapped = |store: &Store<Recording>, page: u64| store.find(Vpn(base + page)).is_some();
    assert!(is_mapped(&store, 100), "a part of a page of 2 MiB");
    assert!(!is_mapped(&store, 512) && is_mapped(&store, 600) && is_mapped(&store, 1_024));
    let mut transaction = store.begin();
    let end = Vpn(base + Level::new(5).unwrap().pages());
    assert_eq!(transaction.unmap(Vpn(base), end), end);
    transaction.commit().unwrap();
    assert_eq!(store.frame_counts().1, free, "tables, too");
    assert_eq!(store.check(), Ok(()));
}

/// Runs an operation on a store that a crash may interrupt anywhere, and looks at everything that may be left; then again
/// with crashes in the recovery. `is_right` tells whether a state is one of those that may be.
fn crash(
    mut store: Store<Recording>,
    operation: impl FnOnce(&mut Store<Recording>),
    is_right: impl Fn(&Store<Recording>) -> bool,
) -> u64 {
    let before = store.memory().begin();
    operation(&mut store);
    let memory = store.into_memory();
    let mut seen = 0;
    for grain in [Grain::Word, Grain::Page] {
        memory.crashes(&before, grain, 40, 1, &mut |image| {
            seen += 1;
            let crashed = Recording::new(image);
            let at_recovery = crashed.begin();
            let (store, _) = Store::open(crashed).expect("a store");
            assert_eq!(store.check(), Ok(()));
            assert_eq!(store.wrong_availability(), Ok(None));
            assert!(is_right(&store), "neither before nor after");
            if seen % 16 == 0 {
                let memory = store.into_memory();
                memory.crashes(&at_recovery, grain, 4, seen, &mut |image| {
                    let store = reopened(image);
                    assert_eq!(store.check(), Ok(()));
                    assert!(is_right(&store), "after a crash in recovery");
                    true
                });
            }
            true
        });
    }
    seen
}

#[test]
fn a_swap_is_whole_or_not_at_all_for_both_ranges_and_its_flag_tells() {
    for (offset, flag_before) in [(0, 0), (5, 1), (0, 7)] {
        let mut store = empty(LEAST_FRAMES);
        let (a, b) = (allocate(&mut store, 4).first.0, allocate(&mut store, 5).first.0 + offset);
        let of_a = map(&mut store, [a, a + 3, a + 520]);
        let of_b = map(&mut store, [b, b + 1, b + 519]);
        // A word in some frame of the layer above.
        let flag = {
            let mut transaction = store.begin();
            let frame = transaction.take_frames(0).unwrap();
            let page = transaction.allocate(Level::L0).unwrap().first;
            transaction.map(page, frame, false).unwrap();
            transaction.commit().unwrap();
            frame.addr().0 + 64
        };
        store.settle();
        store.memory().store(flag, flag_before);
        let frame = |store: &Store<Recording>, page: u64| store.find(Vpn(page)).map(|mapped| mapped.frame);
        let seen = crash(
            store,
            |store| assert!(store.swap(Vpn(a), Vpn(b), 530, Some(flag)).is_ok()),
            |store| {
                let pages = [a, a + 1, a + 3, a + 519, a + 520, b, b + 1, b + 3, b + 519, b + 520];
                let found = pages.map(|page| frame(store, page));
                let old = [Some(of_a[0]), None, Some(of_a[1]), None, Some(of_a[2])];
                let other = [Some(of_b[0]), Some(of_b[1]), None, Some(of_b[2]), None];
                let is_swapped = found[..5] == other && found[5..] == old;
                let is_old = found[..5] == old && found[5..] == other;
                let flag = store.memory().load(flag);
                is_swapped && flag == 1 || is_old && (flag == 0 || flag == flag_before)
            },
        );
        assert!(seen > 100, "{seen}");
    }
}

#[test]
fn allocations_are_whole_or_not_at_all() {
    for number in [0, 2, 3, 6, 9] {
        let mut store = empty(LEAST_FRAMES);
        let first = allocate(&mut store, 1);
        let seen = crash(
            store,
            |store| {
                let partition = allocate(store, number);
                map(store, [partition.first.0]);
                let mut transaction = store.begin();
                transaction.free_partition(first).unwrap();
                transaction.commit().unwrap();
            },
            |store| partitions(store).0.len() <= 2,
        );
        assert!(seen > 100, "{seen}");
    }
}

#[test]
fn superblocks_are_made_good_from_each_other() {
    let store = empty(FRAMES);
    let image = store.memory().image();
    for (damaged, at) in [(0, 16), (1, 16), (0, 0), (1, 0)] {
        let mut image = image.clone();
        image[damaged * 4_096 + at] ^= 0x40;
        let store = reopened(image);
        assert_eq!(store.memory().image()[..4_096], store.memory().image()[4_096..8_192]);
    }
    let mut both = image.clone();
    (both[0], both[4_096]) = (0, 0);
    assert_eq!(Store::open(Recording::new(both)).err(), Some(OpenError::NoStore));
    for found in [1, 9] {
        let mut other = image.clone();
        (other[8], other[4_096 + 8]) = (found, found);
        let refused = OpenError::Version { found: found.into() };
        assert_eq!(Store::open(Recording::new(other)).err(), Some(refused));
    }
    let short = image[..image.len() / 2].to_vec();
    let truncated = OpenError::Truncated { frames: FRAMES, room: FRAMES / 2 };
    assert_eq!(Store::open(Recording::new(short)).err(), Some(truncated));
    let small = Store::format(Recording::new(vec![0; 8_192])).err();
    assert_eq!(small, Some(OpenError::Size { frames: 2 }));
}

#[test]
fn a_transaction_that_is_dropped_changes_nothing() {
    let mut store = empty(FRAMES);
    let image = store.memory().image();
    let free = store.frame_counts();
    {
        let mut transaction = store.begin();
        let partition = transaction.allocate(Level::L3).unwrap();
        let frame = transaction.take_frames(LARGE_ORDER).unwrap();
        transaction.map(partition.first, frame, true).unwrap();
        assert!(transaction.find(partition.first).is_some_and(|mapped| mapped.large));
        transaction.set_root_word(3, 9);
        assert_eq!(transaction.root_word(3), 9);
    }
    assert_eq!((store.frame_counts(), store.root_word(3), store.commits()), (free, 0, 0));
    // Frames that were to be its tables hold something else, and are still free.
    let used = (store.table_root().0 + 1) as usize * 4_096;
    assert_eq!(store.memory().image()[..used], image[..used]);
}

/// Takes frames for the layer above, which no page is mapped to.
fn take(store: &mut Store<Recording>, order: u32) -> u64 {
    let page = allocate(store, 4).first;
    let mut transaction = store.begin();
    let frame = transaction.take_frames(order).unwrap();
    for at in 0..1 << order {
        transaction.map(Vpn(page.0 + at), frame.add(at), false).unwrap();
    }
    transaction.commit().unwrap();
    frame.addr().0
}

#[test]
fn bytes_and_words_of_a_transaction_may_lie_over_each_other() {
    const BYTES: u64 = 3 * PAGE_BYTES;
    let mut store = empty(LEAST_FRAMES);
    let base = take(&mut store, 2);
    let mut expected = vec![0; BYTES as usize];
    let mut random = SplitMix64::new(5);
    for round in 0..400u64 {
        let before = store.memory().image();
        let mut transaction = store.begin();
        for _ in 0..random.below(12) {
            // Dense in some rounds.
            let reach = if round % 2 == 0 { 200 } else { BYTES };
            let at = random.below(reach / 8) * 8;
            if random.below(3) == 0 {
                let word = random.next();
                transaction.set(base + at, word);
                expected[at as usize..at as usize + 8].copy_from_slice(&word.to_le_bytes());
            } else {
                let at = at + random.below(2) * random.below(8);
                let most = if random.below(4) == 0 { BYTES } else { 40 };
                let length = random.below(most).min(BYTES - at);
                let bytes: Vec<u8> = (0..length).map(|byte| (byte + random.below(2)) as u8).collect();
                transaction.set_bytes(base + at, &bytes);
                expected[at as usize..(at + length) as usize].copy_from_slice(&bytes);
            }
            let at = random.below(BYTES / 8) * 8;
            for at in [at, at.min(reach - 8)] {
                let word = expected[at as usize..].first_chunk().unwrap();
                assert_eq!(transaction.load(base + at), u64::from_le_bytes(*word), "{round}");
            }
        }
        assert!(transaction.room() <= 65_532 - transaction.changed() / 2);
        if random.below(4) == 0 {
            drop(transaction);
            assert!(store.memory().image() == before);
            store.memory().read(base, &mut expected);
            continue;
        }
        transaction.commit().unwrap();
        let image = store.memory().image();
        let range = base as usize..(base + BYTES) as usize;
        assert!(image[range.clone()] == expected, "{round}");
        // What lies around has not changed, and the log alone says the same.
        assert!(image[range.end..] == before[range.end..]);
        if round % 4 == 0 {
            let mut crashed = image;
            crashed[range.clone()].copy_from_slice(&before[range.clone()]);
            assert!(reopened(crashed).into_memory().image()[range] == expected, "{round}");
        }
    }
}

#[test]
fn bytes_change_with_words_whole_or_not_at_all() {
    for (at, length) in [(0, 8), (5, 90), (64, 4_096), (4_090, 300), (100, 9_000)] {
        let mut store = empty(LEAST_FRAMES);
        let base = take(&mut store, 2);
        store.memory().write(base, &[1; 12_000]);
        let write = |store: &mut Store<Recording>| {
            let mut transaction = store.begin();
            transaction.set_bytes(base + at, &vec![2; length]);
            transaction.set_root_word(3, 9);
            transaction.commit().unwrap();
        };
        let mut states = [0, 0].map(std::cell::Cell::new);
        let seen = crash(store, write, |store| {
            let mut bytes = vec![0; 12_000];
            store.memory().read(base, &mut bytes);
            let is_new = store.root_word(3) == 9;
            let state = &states[usize::from(is_new)];
            state.set(state.get() + 1);
            let inside = at as usize..at as usize + length;
            let is_right =
                |(place, byte): (usize, &u8)| *byte == 1 + u8::from(is_new && inside.contains(&place));
            bytes.iter().enumerate().all(is_right)
        });
        assert!(seen > 30 && states.iter_mut().all(|count| *count.get_mut() > 0), "{seen}, {states:?}");
    }
}

/// Bytes of a fresh frame that a transaction makes visible. It was once one fence with the records, which could persist before
/// them, whenever the log had been cleared before.
#[test]
fn what_was_flushed_persists_before_the_transaction_that_shows_it() {
    let mut store = empty(LEAST_FRAMES);
    let page = allocate(&mut store, 0).first;
    store.settle();
    let show = |store: &mut Store<Recording>| {
        let mut transaction = store.begin();
        let frame = transaction.take_frames(0).unwrap();
        transaction.memory().write(frame.addr().0, &[7; 64]);
        transaction.memory().flush(frame.addr().0, 64);
        transaction.map(page, frame, false).unwrap();
        transaction.commit().unwrap();
    };
    crash(store, show, |store| {
        let mut bytes = [0; 64];
        if let Some(mapped) = store.find(page) {
            store.memory().read(mapped.frame.addr().0, &mut bytes);
        }
        store.find(page).is_none() || bytes == [7; 64]
    });
}

/// Places that files say they have, some of which cannot be, become what the headers say, over any headers before.
#[test]
fn headers_follow_the_places_of_files() {
    for seed in 0..40 {
        let mut store = empty(FRAMES);
        let mut random = SplitMix64::new(seed);
        for _ in 0..random.below(20) {
            let partition = allocate(&mut store, random.below(9) as u8);
            map(&mut store, [partition.first.0]);
        }
        let (mut places, mut expected) = (Places::default(), Vec::<Partition>::new());
        for _ in 0..40 {
            let level = level(random.below(10).min(random.below(10)) as u8);
            let near = Level::L9.pages() * random.below(4)
                + random.below(40) * level.pages()
                + random.below(20) / 19;
            let partition = Partition { level, first: Vpn(near) };
            let is_small = level < Level::L3;
            let around = 8u64.pow(if is_small { 3 } else { u32::from(level.number()) + 1 });
            let is_first = level < Level::L9 && near.is_multiple_of(around);
            let meets = expected.iter().any(|other| {
                let is_beside = is_small && other.level < Level::L3 && other.first.0 / 512 == near / 512;
                other.first < partition.end() && partition.first < other.end()
                    || is_beside && other.level != level
            });
            let can_be =
                near >= Level::L9.pages() && near.is_multiple_of(level.pages()) && !is_first && !meets;
            assert_eq!(places.claim(partition), can_be, "{partition:?} beside {expected:?}");
            expected.extend(can_be.then_some(partition));
        }
        expected.sort_by_key(|partition| partition.first);
        assert_eq!(store.rebuild_partitions(&places), Ok((Vec::new(), true)));
        assert_eq!(partitions(&store).0, expected);
        assert_eq!((store.wrong_availability(), store.stray_page()), (Ok(None), Ok(None)));
        assert_eq!(store.check(), Ok(()));
        assert!(expected.iter().all(|&partition| store.is_allocated(partition)));
        assert_eq!(store.rebuild_partitions(&places), Ok((Vec::new(), false)), "nothing to do");
        // They are partitions like any others.
        for partition in expected {
            let mut transaction = store.begin();
            assert!(transaction.unmap(partition.first, partition.end()) == partition.end());
            transaction.free_partition(partition).unwrap();
            transaction.commit().unwrap();
            assert!(!store.is_allocated(partition));
        }
        assert_eq!(partitions(&store).0, []);
    }
}

#[test]
fn every_page_of_a_repaired_store_has_its_own_frame() {
    let mut store = empty(FRAMES);
    let first = allocate(&mut store, 5).first.0;
    let frames = map(&mut store, (0..60).map(|page| first + 37 * page));
    let data = |page: u64| [page as u8; 8];
    for (page, frame) in (0..).zip(&frames) {
        store.memory().write(frame.addr().0, &data(page));
    }
    let image = reopened(store.into_memory().image()).into_memory().image();
    let tables: Vec<usize> = (0..FRAMES as usize * 512)
        .map(|word| 8 * word)
        .filter(|at| *at >= 260 * 4_096 && image[*at] & 1 == 1 && image[*at + 7] == 0)
        .collect();
    let mut copies = 0;
    for seed in 0..300 {
        let (mut image, mut random) = (image.clone(), SplitMix64::new(seed));
        for _ in 0..1 + random.below(4) {
            let [at, other] = [0; 2].map(|_| tables[random.below(tables.len() as u64) as usize]);
            let new = random.below(FRAMES + 20) << 12 | random.below(4);
            if random.below(2) == 0 {
                image.copy_within(other..other + 8, at);
            } else {
                image[at..at + 8].copy_from_slice(&new.to_le_bytes());
            }
        }
        let mut said = Vec::new();
        let store = Store::repair(Recording::new(image), &mut |line| said.push(line)).unwrap();
        assert_eq!(store.check(), Ok(()), "seed {seed}: {said:?}");
        copies += said.iter().filter(|line| line.contains("has a copy now")).count();
        let image = store.into_memory().image();
        let mut again = Vec::new();
        let store = Store::repair(Recording::new(image), &mut |line| again.push(line)).unwrap();
        assert_eq!((store.check(), again), (Ok(()), Vec::new()), "seed {seed}");
    }
    assert!(copies > 20, "{copies}");
}
