use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Multiplications and shifts: all bits mixed into all.
#[derive(Debug)]
pub(crate) struct LineHash(u64);

impl LineHash {
    pub(crate) fn mixed(seed: u64) -> Self {
        Self(crate::random::mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }
}

impl WayHashes for LineHash {
    fn word(&self, key: u64) -> u64 {
        crate::random::mix(key ^ self.0)
    }
}

/// Hands out memory up to a limit, and remembers which pieces are in use.
struct Memory {
    chunk: Option<u64>,
    /// No piece may be larger.
    largest: u64,
    left: u64,
    given: BTreeMap<u64, u64>,
    next: u64,
}

impl Memory {
    fn contiguous() -> Self {
        Self { chunk: None, largest: u64::MAX, left: u64::MAX, given: BTreeMap::new(), next: 0 }
    }

    /// 64 chunks of 8 KiB at most, then chunks of 1 MiB.
    fn chunks() -> Self {
        Self { chunk: Some(8 << 10), ..Self::contiguous() }
    }

    fn bytes(&self) -> u64 {
        self.given.values().sum()
    }
}

impl ChunkSource for Memory {
    fn chunk_bytes(&self, _way: usize, bytes: u64) -> Option<u64> {
        Some(self.chunk.map_or(bytes, |chunk| if bytes <= 64 * chunk { chunk } else { 128 * chunk }))
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, NoChunk> {
        if bytes > self.largest || bytes > self.left {
            return Err(NoChunk { bytes });
        }
        self.left -= bytes;
        let base = self.next;
        self.next += bytes;
        self.given.insert(base, bytes);
        Ok(base)
    }

    fn free(&mut self, base: u64, bytes: u64) {
        assert_eq!(self.given.remove(&base), Some(bytes), "free of what was not given");
        self.left += bytes;
    }
}

/// A table of numbers.
type Numbers = Cuckoo<u64, LineHash>;

fn find(table: &Numbers, key: u64) -> Option<SlotRef> {
    table.find(key, |_| true)
}

fn insert(table: &mut Numbers, key: u64, memory: &mut Memory) -> Result<Inserted, Rejected<u64>> {
    table.insert(key, memory)
}

fn table(policy: Policy, seed: u64, memory: &mut Memory) -> Numbers {
    Cuckoo::new(policy, LineHash::mixed(seed), seed, memory).unwrap()
}

/// Every design that differs.
fn policies() -> Vec<(&'static str, Policy, bool)> {
    let small = |policy| Policy { first_slots: 8, ..policy };
    let (elastic, efficient) = (small(Policy::ELASTIC), small(Policy::MEMORY_EFFICIENT));
    let by_buckets = Policy {
        ways: 2,
        bucket_slots: BUCKET_SLOTS,
        upsize_above: 800,
        downsize_below: 400,
        scope: Scope::Bucket,
        first_way: FirstWay::Free,
        steps: 1,
        ..efficient
    };
    let by_slots = Policy { bucket_slots: 1, ..by_buckets };
    vec![
        ("elastic", elastic, false),
        ("elastic, four times", Policy { growth: 4, ..elastic }, false),
        ("elastic, same hashes", Policy { rekey: false, ..elastic }, false),
        ("elastic, in chunks", elastic, true),
        ("memory-efficient", efficient, true),
        ("memory-efficient, one piece", efficient, false),
        ("in place alone", Policy { scope: Scope::Table, ..efficient }, true),
        ("way by way alone", Policy { in_place: false, ..efficient }, true),
        ("way by way, hashed anew", Policy { in_place: false, rekey: true, ..efficient }, true),
        ("two at once", Policy { scope: Scope::Way { at_once: 2 }, ..efficient }, true),
        ("two ways", Policy { ways: 2, upsize_above: 400, downsize_below: 100, ..efficient }, true),
        ("by buckets", by_buckets, true),
        ("by buckets, any way", Policy { first_way: FirstWay::Uniform, ..by_buckets }, true),
        ("by buckets, one try", Policy { tries: 1, first_slots: 12, ..by_buckets }, true),
        ("by slots, four ways", Policy { ways: 4, first_slots: 5, steps: 4, ..by_slots }, true),
        ("by slots", Policy { scope: Scope::Bucket, downsize_below: 300, ..efficient }, true),
        ("one try", Policy { tries: 1, ..efficient }, true),
    ]
}

fn memory(chunks: bool) -> Memory {
    // Small chunks, so that small tables come to the larger ones.
    if chunks { Memory { chunk: Some(512), ..Memory::chunks() } } else { Memory::contiguous() }
}

#[test]
fn whatever_happens_the_table_holds_what_a_set_would_hold() {
    for (name, policy, chunks) in policies() {
        let mut memory = memory(chunks);
        let mut table = table(policy, 3, &mut memory);
        let mut model = BTreeSet::new();
        let mut random = SplitMix64::new(17);
        // Grows, shrinks and grows again: three times in four insertions, then removals, then insertions.
        for step in 0..120_000u64 {
            let key = random.below(6_000);
            let grows = !(30_000..90_000).contains(&step);
            let inserts = random.below(4) < if grows { 3 } else { 1 };
            let found = find(&table, key);
            assert_eq!(found.is_some(), model.contains(&key), "{name}, step {step}: key {key}");
            match (inserts, found) {
                (true, None) => {
                    let inserted = insert(&mut table, key, &mut memory);
                    let inserted = inserted.unwrap_or_else(|error| panic!("{name}, step {step}: {error}"));
                    assert!(inserted.stalled.is_none());
                    model.insert(key);
                }
                (false, Some(at)) => {
                    assert_eq!(table.remove(at, &mut memory), Some(key));
                    model.remove(&key);
                }
                _ => {}
            }
            assert_eq!(table.len(), model.len());
            if step % 10_000 == 0 {
                check(&table, &model, &memory, name);
            }
        }
        let counts = *table.counts();
        assert!(counts.upsizes.iter().sum::<u32>() > 6, "{name}: {counts:?}");
        assert!(counts.downsizes.iter().sum::<u32>() > 0, "{name}: {counts:?}");
        table.finish_changes(&mut memory);
        check(&table, &model, &memory, name);
        let mut rest = table.release(&mut memory);
        rest.sort_unstable();
        assert!(rest.iter().eq(&model), "{name}");
        assert_eq!(memory.bytes(), 0, "{name}");
    }
}

fn check(table: &Numbers, model: &BTreeSet<u64>, memory: &Memory, name: &str) {
    assert_eq!(table.way_items().sum::<usize>(), model.len(), "{name}");
    assert_eq!(table.iter().count(), model.len(), "{name}");
    for &key in model {
        let at = find(table, key).unwrap_or_else(|| panic!("{name}: key {key} is lost"));
        let addr = table.addr(at);
        let (base, bytes) = memory.given.range(..=addr).next_back().expect("a chunk at or below");
        assert!(addr + 64 <= base + bytes, "{name}: a slot outside of all chunks");
    }
    let ways: Vec<usize> = table.way_slots().collect();
    if !matches!(table.policy.scope, Scope::Way { at_once: 2 }) {
        assert!(ways.iter().max() <= ways.iter().min().map(|least| 2 * least).as_ref(), "{name}: {ways:?}");
    }
}

#[test]
fn a_look_up_makes_one_probe_in_each_way_while_ways_change_too() {
    let mut memory = Memory::chunks();
    let mut table = table(Policy::MEMORY_EFFICIENT, 1, &mut memory);
    let mut changing = 0;
    for key in 0..20_000 {
        insert(&mut table, key, &mut memory).unwrap();
        changing += u64::from(table.is_changing());
        let probes: Vec<_> = table.probes(key).collect();
        assert_eq!(probes.iter().map(|at| at.way()).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(probes.iter().all(|&at| table.probe(key, at.way()) == at), "one way is probed as all are");
        let hits = probes.iter().filter(|&&at| table.get(at) == Some(&key));
        assert_eq!(hits.count(), 1, "an item is in one way");
    }
    assert!(changing > 10_000);
}

/// 0.6 of the slots, and one: as the public implementation of elastic cuckoo hashing does.
#[test]
fn many_look_ups_at_a_time_find_what_one_by_one_do() {
    for (name, policy, chunks) in policies().into_iter().chain([
        ("five ways", Policy { ways: 5, ..Policy::MEMORY_EFFICIENT }, true),
        ("eight ways", Policy { ways: MAX_WAYS, ..Policy::ELASTIC }, false),
    ]) {
        let mut memory = memory(chunks);
        let mut table = table(policy, 7, &mut memory);
        for key in 0..3_000 {
            insert(&mut table, 2 * key, &mut memory).unwrap();
            // Present ones and absent ones, the newest and the oldest.
            let keys: [u64; 10] = std::array::from_fn(|at| (2 * key + 3).saturating_sub(at as u64 * key / 3));
            assert_eq!(table.find_all(&keys), keys.map(|key| find(&table, key)), "{name}, {keys:?}");
        }
    }
}

#[test]
fn what_is_foreseen_rightly_or_wrongly_changes_nothing() {
    for (name, policy, chunks) in policies() {
        let (mut memory, mut other_memory) = (memory(chunks), memory(chunks));
        let mut one = table(policy, 5, &mut memory);
        let mut other = table(policy, 5, &mut other_memory);
        let mut random = SplitMix64::new(9);
        for key in 0..10_000u64 {
            if random.below(8) > 0 {
                other.foresee(key + Numbers::AHEAD as u64);
            }
            let inserted = insert(&mut one, key, &mut memory).unwrap();
            assert_eq!(inserted, insert(&mut other, key, &mut other_memory).unwrap(), "{name}");
            if random.below(3) == 0
                && let Some(at) = find(&one, random.below(key + 1))
            {
                assert_eq!(one.remove(at, &mut memory), other.remove(at, &mut other_memory), "{name}");
            }
        }
        assert_eq!(one.counts(), other.counts(), "{name}");
        assert!((0..10_000).all(|key| find(&one, key) == find(&other, key)), "{name}");
    }
}

#[test]
fn a_doubling_table_grows_at_exactly_the_published_numbers_of_insertions() {
    let mut memory = Memory::contiguous();
    let mut table = table(Policy { steps: 4, ..Policy::ELASTIC }, 5, &mut memory);
    let mut triggers = Vec::new();
    for key in 0..120_000 {
        let before = table.counts().upsizes[0];
        insert(&mut table, key, &mut memory).unwrap();
        if table.counts().upsizes[0] > before {
            triggers.push(key + 1);
        }
    }
    assert_eq!(triggers, [231, 461, 922, 1844, 3687, 7373, 14746, 29492, 58983, 117_965]);
}

/// Statistics of the public implementation of elastic cuckoo hashing, three of its runs; `pagewalk paper me-hpt` has more.
#[test]
fn re_insertions_are_as_frequent_as_in_the_reference() {
    for (growth, steps, none, mean) in [(2, 2, 0.466, 1.527), (2, 4, 0.511, 1.256), (4, 4, 0.637, 0.775)] {
        let mut memory = Memory::contiguous();
        let mut table = table(Policy { growth, steps, ..Policy::ELASTIC }, 11, &mut memory);
        for key in 0..1_800_000 {
            insert(&mut table, key, &mut memory).unwrap();
        }
        let Moves { moves, sum } = table.counts().inserted;
        let ours = (moves[0] as f64 / 1.8e6, sum as f64 / 1.8e6);
        assert!((ours.0 - none).abs() < 0.005 && (ours.1 - mean).abs() < 0.02, "{growth}, {steps}: {ours:?}");
    }
}

/// That nothing is in the way is asserted in the table itself.
#[test]
fn half_of_the_items_of_an_in_place_upsize_move() {
    let mut memory = Memory { chunk: Some(1 << 20), ..Memory::chunks() };
    let policy = Policy { first_slots: 1 << 14, ..Policy::MEMORY_EFFICIENT };
    let mut table = table(policy, 2, &mut memory);
    for key in 0..300_000 {
        insert(&mut table, key, &mut memory).unwrap();
    }
    let counts = table.counts();
    assert_eq!((counts.out_of_place, counts.rehashed.sum), (0, 0));
    let moved = counts.moved_in_place as f64 / (counts.moved_in_place + counts.stayed) as f64;
    assert!((moved - 0.5).abs() < 0.01, "{moved}");
}

/// With one visit per insertion a doubling table cannot keep up; it grows by force.
#[test]
fn at_one_visit_per_insertion_nothing_is_lost_either() {
    let mut memory = Memory::contiguous();
    let mut table = table(Policy { steps: 1, ..Policy::ELASTIC }, 3, &mut memory);
    for key in 0..200_000 {
        insert(&mut table, key, &mut memory).unwrap();
    }
    let counts = table.counts();
    assert!(counts.forced > 0 && counts.inserted.sum > 3 * 200_000, "it does not keep up: {counts:?}");
    assert!((0..200_000).all(|key| find(&table, key).is_some()));
}

#[test]
fn without_memory_an_item_comes_back_and_none_is_lost() {
    for (name, policy, chunks) in policies() {
        let mut memory = memory(chunks);
        memory.left = 100_000;
        let mut table = table(policy, 9, &mut memory);
        let mut stalled = None;
        let rejected = (0..).find_map(|key| match insert(&mut table, key, &mut memory) {
            Ok(inserted) => {
                stalled = stalled.or(inserted.stalled);
                None
            }
            Err(rejected) => Some((key, rejected)),
        });
        let (key, rejected) = rejected.expect("memory ends");
        assert_eq!(rejected.item, key, "{name}");
        assert!(matches!(rejected.reason, RejectReason::NoChunk(_)), "{name}: {rejected}");
        if policy.tries > 1 {
            assert!(
                stalled.is_some(),
                "{name}: {:?} {key} it went on, fuller than it should be",
                table.counts()
            );
        }
        assert!((0..key).all(|key| find(&table, key).is_some()), "{name}");
        assert!(find(&table, key).is_none(), "{name}");
        // With memory it goes on.
        memory.left = u64::MAX / 2;
        (key..2 * key).for_each(|key| assert!(insert(&mut table, key, &mut memory).is_ok(), "{name}"));
        assert!((0..2 * key).all(|key| find(&table, key).is_some()), "{name}");
    }
}

/// A shrink takes as many insertions and removals as the table has slots; a program can fill it faster than that.
#[test]
fn a_table_that_fills_up_while_it_shrinks_keeps_its_size() {
    for (name, policy, chunks) in policies() {
        let mut memory = memory(chunks);
        let mut table = table(policy, 4, &mut memory);
        (0..20_000).for_each(|key| assert!(insert(&mut table, key, &mut memory).is_ok()));
        table.finish_changes(&mut memory);
        let before: Vec<usize> = table.way_slots().collect();
        let mut gone = 0;
        while table.counts().downsizes == [0; MAX_WAYS] {
            let at = find(&table, gone).unwrap();
            table.remove(at, &mut memory);
            gone += 1;
        }
        (0..gone).for_each(|key| assert!(insert(&mut table, key, &mut memory).is_ok(), "{name}: {key}"));
        assert!((0..20_000).all(|key| find(&table, key).is_some()), "{name}");
        assert_eq!(table.way_items().sum::<usize>(), 20_000, "{name}");
        table.finish_changes(&mut memory);
        assert!((0..20_000).all(|key| find(&table, key).is_some()), "{name}");
        if policy.scope == Scope::Table {
            assert!(table.counts().turned_round > 0, "{name}: {:?}", table.counts());
            assert_eq!(table.way_slots().collect::<Vec<_>>(), before, "{name}");
        }
    }
}

#[test]
fn items_of_equal_hashes_are_refused_in_time() {
    struct Same;
    impl WayHashes for Same {
        fn word(&self, _: u64) -> u64 {
            7
        }
    }
    let mut memory = Memory::contiguous();
    let mut table = Cuckoo::new(Policy::MEMORY_EFFICIENT, Same, 0, &mut memory).unwrap();
    assert!((0..3).all(|item| table.insert(item, &mut memory).is_ok()));
    let rejected = table.insert(3, &mut memory).unwrap_err();
    assert_eq!((rejected.item, rejected.reason), (3, RejectReason::EqualHashes));
    assert_eq!(table.len(), 3);
}

/// A chunk is taken when it is needed, and given back one by one.
#[test]
fn gradual_tables_handle_no_more_chunks_at_a_time_than_they_visit_slots() {
    let (_, policy, _) = policies().into_iter().find(|(name, ..)| *name == "by buckets").unwrap();
    let mut memory = Memory { chunk: Some(512), ..Memory::contiguous() };
    // Of one size, whatever the way's.
    memory.largest = 512;
    let mut table = table(policy, 6, &mut memory);
    let mut bytes = memory.bytes();
    let mut step = |memory: &Memory, most: u64, what: &str| {
        let change = memory.bytes().abs_diff(bytes);
        assert!(change <= most, "{what}: {change} bytes at once");
        bytes = memory.bytes();
    };
    for key in 0..700 {
        assert!(table.try_insert(key, &mut memory).is_ok());
        step(&memory, 512, "grows");
    }
    for key in 0..700 {
        let at = find(&table, key).unwrap();
        table.remove(at, &mut memory);
        step(&memory, 512, "shrinks");
    }
    table.finish_changes(&mut memory);
    assert!(table.counts().downsizes.iter().sum::<u32>() >= 3, "{:?}", table.counts());
}

#[test]
fn impossible_policies_are_named() {
    let efficient = Policy::MEMORY_EFFICIENT;
    let by_buckets = Policy { ways: 2, bucket_slots: BUCKET_SLOTS, scope: Scope::Bucket, ..efficient };
    for (field, policy) in [
        ("ways", Policy { ways: 1, ..efficient }),
        ("ways", Policy { ways: 9, ..efficient }),
        ("bucket_slots", Policy { bucket_slots: 2, ..by_buckets }),
        ("bucket_slots", Policy { ways: 3, ..by_buckets }),
        ("bucket_slots", Policy { scope: Scope::Table, ..by_buckets }),
        ("first_slots", Policy { first_slots: 6, ..by_buckets }),
        ("first_slots", Policy { first_slots: 0, ..by_buckets }),
        ("downsize_below", Policy { downsize_below: 600, ..by_buckets }),
        ("in_place", Policy { in_place: false, ..by_buckets }),
        ("in_place", Policy { rekey: true, ..by_buckets }),
        ("first_slots", Policy { first_slots: 100, ..efficient }),
        ("slot_bytes", Policy { slot_bytes: 0, ..efficient }),
        ("upsize_above", Policy { upsize_above: 0, ..efficient }),
        ("downsize_below", Policy { downsize_below: 301, ..efficient }),
        ("growth", Policy { growth: 3, ..efficient }),
        ("growth", Policy { growth: 4, ..efficient }),
        ("steps", Policy { steps: 0, ..efficient }),
        ("at_once", Policy { scope: Scope::Way { at_once: 0 }, ..efficient }),
        ("tries", Policy { tries: 0, ..efficient }),
    ] {
        assert_eq!(policy.check().unwrap_err().field, field);
    }
    assert!(Policy::ELASTIC.check().is_ok() && efficient.check().is_ok());
}

/// A random function leaves 1/e of as many slots as keys empty.
#[test]
fn every_ways_hash_fills_its_slots_like_a_random_function() {
    let slots = 1 << 14;
    for hash in [LineHash::mixed(1), LineHash::mixed(2)] {
        for way in 0..MAX_WAYS {
            for generation in [0, 5] {
                let mut hit = vec![false; slots];
                let (mut ones, mut zeros) = (0, 0);
                for line in 0..slots as u64 {
                    let value = way::way_hash(hash.word(line), way, generation);
                    hit[value as usize % slots] = true;
                    (ones, zeros) = (ones | value, zeros | !value);
                }
                let filled = hit.iter().filter(|&&hit| hit).count() as f64 / slots as f64;
                assert!((filled - 0.632).abs() < 0.01, "way {way}: {filled}");
                assert_eq!((ones, zeros), (u64::MAX, u64::MAX), "no bit is constant");
            }
        }
    }
}

/// Of the designs as published, through growing, shrinking and removals while both are under way.
#[test]
#[ignore = "minutes: `make soak`"]
fn a_hundred_million_operations_lose_nothing() {
    const KEYS: u64 = 1 << 21;
    for (name, policy, mut memory) in [
        ("elastic", Policy::ELASTIC, Memory::contiguous()),
        ("memory-efficient", Policy::MEMORY_EFFICIENT, Memory::chunks()),
    ] {
        let mut table = table(policy, 21, &mut memory);
        let mut model = vec![false; KEYS as usize];
        let (mut random, mut used) = (SplitMix64::new(5), 0);
        for step in 0..100_000_000u64 {
            // Five times to nearly all keys and down to an eighth.
            let inserts = random.below(8) < if step / 10_000_000 % 2 == 0 { 7 } else { 1 };
            let key = random.below(KEYS);
            let is_there = &mut model[key as usize];
            let found = find(&table, key);
            assert_eq!(found.is_some(), *is_there, "{name}, step {step}: key {key}");
            match (inserts, found) {
                (true, None) => {
                    insert(&mut table, key, &mut memory).unwrap();
                    (*is_there, used) = (true, used + 1);
                }
                (false, Some(at)) => {
                    assert_eq!(table.remove(at, &mut memory), Some(key), "{name}, step {step}");
                    (*is_there, used) = (false, used - 1);
                }
                _ => {}
            }
            assert_eq!(table.len(), used);
        }
        for key in 0..KEYS {
            assert_eq!(find(&table, key).is_some(), model[key as usize], "{name}: key {key} at the end");
        }
        let counts = table.counts();
        println!("{name}: {counts:?}");
        let changes = |changes: [u32; MAX_WAYS]| changes.iter().sum::<u32>();
        assert!(changes(counts.upsizes) > 50 && changes(counts.downsizes) > 10);
    }
}
