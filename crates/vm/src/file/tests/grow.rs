//! A store that gets more frames, and crashes in the middle of that.

use super::*;

/// A store of so many frames in a memory of more, with pages that hold their numbers.
fn filled(frames: u64, memory_frames: u64) -> (Recording, Vec<Vpn>) {
    let mut image = empty(frames).into_memory().image();
    image.resize(memory_frames as usize * 4_096, 0);
    let mut store = reopened(image);
    let partition = allocate(&mut store, 2);
    let pages: Vec<Vpn> = (0..20).map(|at| Vpn(partition.first.0 + at)).collect();
    for &page in &pages {
        let mut transaction = store.begin();
        let frame = transaction.take_frames(0).unwrap();
        transaction.memory().write(frame.addr().0, &page.0.to_le_bytes());
        transaction.memory().flush(frame.addr().0, 8);
        transaction.map(page, frame, false).unwrap();
        transaction.commit().unwrap();
    }
    store.settle();
    (store.into_memory(), pages)
}

/// Every page is there, the store is sound, and all of its frames can be used.
fn is_whole(memory: Recording, pages: &[Vpn]) -> u64 {
    let (mut store, _) = Store::open(memory).unwrap();
    store.check().unwrap();
    for page in pages {
        let frame = store.find(*page).unwrap().frame;
        assert_eq!(store.memory().load(frame.addr().0), page.0);
    }
    let (frames, free) = store.frame_counts();
    let mut transaction = store.begin();
    let taken: Vec<Pfn> = std::iter::from_fn(|| transaction.take_frames(0).ok()).collect();
    drop(transaction);
    assert_eq!(taken.len() as u64, free);
    assert!(taken.iter().all(|frame| !store.layout().is_own(*frame, 1)));
    frames
}

#[test]
fn a_store_grows_whole_or_not_at_all() {
    for grain in [Grain::Word, Grain::Page] {
        let (memory, pages) = filled(700, 1_500);
        let before = memory.begin();
        let grown = Store::grow(memory, 1_400).unwrap();
        grown.check().unwrap();
        let memory = grown.into_memory();
        let mut sizes = std::collections::BTreeMap::new();
        memory.crashes(&before, grain, 20, 3, &mut |image| {
            *sizes.entry(is_whole(Recording::new(image.clone()), &pages)).or_insert(0) += 1;
            // What was interrupted is done by the next one, and a store that has grown grows again.
            let again = Store::grow(Recording::new(image), 1_400).unwrap();
            assert_eq!(again.frame_counts().0, 1_400);
            let more = Store::grow(again.into_memory(), 1_500).unwrap();
            assert_eq!(is_whole(more.into_memory(), &pages), 1_500);
            true
        });
        assert_eq!(sizes.keys().copied().collect::<Vec<_>>(), [700, 1_400], "{sizes:?}");
        assert!(sizes.values().sum::<u32>() > 20, "{sizes:?}");
    }
}

/// A frame of the bitmap is for 128 MiB. What cannot be is refused.
#[test]
fn a_store_grows_beyond_its_bitmap() {
    let (memory, pages) = filled(32_000, 40_000);
    let store = Store::open(memory).unwrap().0;
    assert_eq!(store.can_grow(32_000), Ok(false));
    assert_eq!(store.can_grow(31_999), Err(GrowError::Smaller { frames: 32_000, wanted: 31_999 }));
    assert_eq!(store.can_grow(32_001), Err(GrowError::TooLittle { frames: 32_000, least: 32_002 }));
    assert_eq!(store.can_grow(MOST_FRAMES + 1), Err(GrowError::Size(MOST_FRAMES + 1)));
    assert_eq!(store.can_grow(u64::MAX), Err(GrowError::Size(u64::MAX)));
    let refused = Store::grow(store.into_memory(), 40_001);
    let room = OpenError::Truncated { frames: 40_001, room: 40_000 };
    assert_eq!(refused.map(|store| store.frame_counts()), Err(GrowError::Open(room)));
    let mut memory = filled(32_000, 40_000).0;
    for frames in [32_002, 33_000, 40_000] {
        let free = reopened(memory.image()).frame_counts().1;
        let store = Store::grow(memory, frames).unwrap();
        let (has, now_free) = store.frame_counts();
        // The old bitmap's frames are free but for those that the first one had.
        assert!(has == frames && now_free > free, "{frames}: {now_free} free");
        memory = store.into_memory();
        assert_eq!(is_whole(Recording::new(memory.image()), &pages), frames);
    }
    let mut said = Vec::new();
    let repaired = Store::repair(memory, &mut |line| said.push(line)).unwrap();
    assert_eq!((said, repaired.frame_counts().0), (Vec::new(), 40_000), "nothing is to be repaired");
}

/// Where images of checkpoints lay, files' bytes lie, or other checkpoints: nothing of them is found again.
#[test]
fn a_store_that_grows_forgets_its_checkpoints() {
    const BEHIND: u64 = 2_048;
    let mut image = filled(700, 700 + BEHIND).0.image();
    let store = Store::open(Recording::with_checkpoints(image.clone(), 1)).unwrap().0;
    let page = store.table_root().0;
    let checkpoints = store.memory().checkpoints().unwrap();
    for _ in 0..5 {
        checkpoints.before_change(store.memory(), [page, page + 1, page + 2].into_iter());
        checkpoints.checkpoint(store.memory(), None).unwrap();
        checkpoints.before_change(store.memory(), page + 3..page + 40);
    }
    checkpoints.before_change(store.memory(), page + 100..page + 140);
    checkpoints.end(store.memory()).unwrap();
    image = store.into_memory().image();
    image.resize(6_000 * 4_096, 0);
    let magic = u64::from_le_bytes(*b"pwchkpt1");
    let heads = |image: &[u8]| image.chunks(4_096).filter(|page| page[..8] == magic.to_le_bytes()).count();
    assert!(heads(&image) > 0, "there is something to forget");
    for frames in [702, 1_000, 700 + BEHIND / 2, 700 + BEHIND, 3_000] {
        let store = Store::grow(Recording::new(image.clone()), frames).unwrap();
        assert_eq!(heads(&store.memory().image()), 0, "{frames}");
        // With checkpoints again, which are found behind the new end.
        let memory = Recording::with_checkpoints(store.into_memory().image(), 1);
        let (store, recovered) = Store::open(memory).unwrap();
        assert_eq!(recovered, Recovered::Nothing);
        store.check().unwrap();
    }
}
