use std::collections::BTreeMap;

use super::*;
use crate::addr::{Asid, Pfn, PhysAddr};
use crate::random::SplitMix64;

/// Memory of which there is so much.
struct Memory {
    next: u64,
    left: u64,
    given: BTreeMap<u64, u64>,
}

impl Memory {
    fn new() -> Self {
        Self { next: 1 << 20, left: u64::MAX / 2, given: BTreeMap::new() }
    }
}

impl ContiguousMemory for Memory {
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk> {
        if bytes > self.left {
            return Err(NoChunk { bytes });
        }
        self.left -= bytes;
        self.given.insert(self.next, bytes);
        self.next += bytes;
        Ok(PhysAddr(self.next - bytes))
    }

    fn free(&mut self, base: PhysAddr, bytes: u64) {
        assert_eq!(self.given.remove(&base.0), Some(bytes));
        self.left += bytes;
    }
}

fn designs() -> Vec<HashedDesign> {
    let small = |policy| Policy { first_slots: 8, ..policy };
    vec![
        HashedDesign { policy: small(Policy::ELASTIC), chunk_bytes: Vec::new(), crc: false },
        HashedDesign { policy: small(Policy::MEMORY_EFFICIENT), chunk_bytes: vec![512, 1 << 16], crc: true },
        HashedDesign {
            policy: Policy { ways: 4, ..small(Policy::MEMORY_EFFICIENT) },
            chunk_bytes: vec![1 << 16],
            crc: false,
        },
    ]
}

fn leaf(frame: u64) -> Leaf {
    Leaf::data(Pfn(frame))
}

const ASID: Asid = Asid(3);

fn caches() -> WalkCaches {
    WalkCaches::new(16, 2, false).unwrap()
}

/// What has been mapped: by first page, leaf and level.
type Model = BTreeMap<u64, (Leaf, u32)>;

fn model_find(model: &Model, vpn: u64) -> Option<(u64, Leaf, u32)> {
    let (&first, &(leaf, level)) = model.range(..=vpn).next_back()?;
    (vpn < first + (1 << size_at(level).order())).then_some((first, leaf, level))
}

fn model_is_vacant(model: &Model, first: u64, level: u32) -> bool {
    let end = first + (1 << size_at(level).order());
    model_find(model, first).is_none() && model.range(first..end).next().is_none()
}

/// A page among some that share lines, sections and gigabytes, far apart as a program's parts are.
fn page(random: &mut SplitMix64) -> u64 {
    let area = [0, 0x1000_0000, 0x7_ffff_0000][random.below(3) as usize];
    let section = random.below(3) << 18;
    area + section + random.below(6_000)
}

#[test]
fn a_hashed_table_maps_what_a_map_would_map() {
    for (number, design) in designs().into_iter().enumerate() {
        let mut memory = Memory::new();
        let mut table = HashedTable::new(&design, 7, &mut memory).unwrap();
        let (mut model, mut random) = (Model::new(), SplitMix64::new(number as u64));
        let mut caches = caches();
        for step in 0..60_000u64 {
            let page = page(&mut random);
            let level = [0, 0, 0, 0, 0, 0, 1, 1, 2][random.below(9) as usize];
            let size = size_at(level);
            let first = page >> size.order() << size.order();
            match random.below(20) {
                // More is mapped than unmapped.
                0..12 => {
                    let frame = (1 + random.below(1 << 20)) << 18;
                    let is_vacant = model_is_vacant(&model, first, level);
                    assert_eq!(table.is_vacant(Vpn(first), level), is_vacant, "step {step}");
                    let mapped = table.map(Vpn(first), leaf(frame), level, &mut memory);
                    match is_vacant {
                        true => {
                            mapped.unwrap();
                            model.insert(first, (leaf(frame), level));
                        }
                        false => {
                            assert_eq!(mapped, Err(MapError::Occupied { vpn: Vpn(first) }));
                        }
                    }
                }
                12..14 => {
                    let before = table.update(Vpn(page), |leaf| leaf.dirty = true);
                    let found = model_find(&model, page);
                    assert_eq!(before, found.map(|(_, leaf, level)| (leaf, level)), "step {step}");
                    if let Some((first, ..)) = found {
                        model.get_mut(&first).unwrap().0.dirty = true;
                    }
                }
                14 => {
                    let is_large = model_find(&model, page).is_some_and(|(.., level)| level > 0);
                    // A gigabyte would be half a million pages.
                    if model_find(&model, page).is_some_and(|(.., level)| level == 2) && random.below(20) > 0
                    {
                        continue;
                    }
                    assert_eq!(table.split(Vpn(page), &mut memory), Ok(is_large), "step {step}");
                    if let Some((first, leaf, level @ 1..)) = model_find(&model, page) {
                        model.remove(&first);
                        for piece in 0..512u64 {
                            let offset = piece << size_at(level - 1).order();
                            let leaf = Leaf { frame: leaf.frame.add(offset), ..leaf };
                            model.insert(first + offset, (leaf, level - 1));
                        }
                    }
                }
                15 => {
                    // Unmaps a range, and protects every third page of it.
                    let end = page + random.below(3_000);
                    let mut seen = Vec::new();
                    table.visit(Vpn(page), Vpn(end), &mut memory, |vpn, leaf, level| {
                        seen.push((vpn.0, (leaf, level)));
                        (seen.len() % 3 == 0).then_some(Leaf { writable: false, ..leaf })
                    });
                    let start = model_find(&model, page).map_or(page, |(first, ..)| first);
                    let range: Vec<_> = match start < end {
                        true => model.range(start..end).map(|(&vpn, &mapped)| (vpn, mapped)).collect(),
                        false => Vec::new(),
                    };
                    let range = if page < end { range } else { Vec::new() };
                    assert_eq!(seen, range, "step {step}");
                    for (at, (vpn, (leaf, level))) in range.into_iter().enumerate() {
                        model.remove(&vpn);
                        if (at + 1) % 3 == 0 {
                            model.insert(vpn, (Leaf { writable: false, ..leaf }, level));
                        }
                    }
                }
                _ => {}
            }
            let expected = model_find(&model, page).map(|(_, leaf, level)| (leaf, level));
            assert_eq!(table.find(Vpn(page)), expected, "step {step}");
            let walk = table.walk(ASID, Vpn(page), Some(&mut caches));
            assert_eq!(walk.end, expected, "step {step}: {walk:?}");
            assert!(walk.probes.len() <= 3 * design.policy.ways);
            if random.below(50) == 0 {
                caches.flush(None);
            }
        }
        for (&vpn, &mapped) in &model {
            assert_eq!(table.find(Vpn(vpn)), Some(mapped));
        }
        let moved = table.counts(PageSize::Size4K).unwrap();
        assert!(moved.upsizes.iter().sum::<u32>() > 3, "{moved:?}");
        table.visit(Vpn(0), HASHED_END, &mut memory, |vpn, leaf, level| {
            assert_eq!(model.remove(&vpn.0), Some((leaf, level)));
            None
        });
        assert!(model.is_empty());
        let walk = table.walk(ASID, Vpn(0), Some(&mut WalkCaches::new(16, 2, true).unwrap()));
        assert_eq!(walk.end, None);
        table.release(&mut memory);
        assert!(memory.given.is_empty(), "{:?}", memory.given);
    }
}

#[test]
fn walks_probe_as_much_as_they_must() {
    let design =
        HashedDesign { policy: Policy::MEMORY_EFFICIENT, chunk_bytes: vec![8 << 10, 1 << 20], crc: true };
    let mut memory = Memory::new();
    let mut table = HashedTable::new(&design, 1, &mut memory).unwrap();
    let mut map = |table: &mut HashedTable, vpn, level| {
        table.map(Vpn(vpn), leaf(1 << 18), level, &mut memory).unwrap();
    };
    // Sections of 16 MiB, by what is in them; all in the first gigabyte.
    let (small, large, both, nothing) = (0x1000, 0x2000, 0x3000, 0x4000);
    map(&mut table, small, 0);
    map(&mut table, large, 1);
    map(&mut table, both, 1);
    map(&mut table, both + 512, 0);
    let walk = |table: &HashedTable, vpn, caches: &mut WalkCaches| {
        let walk = table.walk(ASID, Vpn(vpn), Some(caches));
        let found = table.find(Vpn(vpn));
        assert_eq!(walk.end, found);
        assert_eq!(walk.probes.iter().filter(|probe| probe.hit).count(), usize::from(found.is_some()));
        (walk.kind, walk.probes.len(), walk.refills.len())
    };
    let cold = caches;
    // Without 1 GiB pages there is no table of them. Each cache fetches a line, which may be in two places.
    assert_eq!(walk(&table, small, &mut cold()), (WalkKind::Complete, 6, 4));
    let mut caches = cold();
    walk(&table, small, &mut caches);
    for (vpn, kind, probes) in [
        (small, WalkKind::Size, 3),
        (large, WalkKind::Direct, 1),
        (both, WalkKind::Mixed, 4),
        (both + 512, WalkKind::Mixed, 4),
        (nothing, WalkKind::Fault, 0),
    ] {
        assert_eq!(walk(&table, vpn, &mut caches), (kind, probes, 0), "{vpn:#x}");
    }
    // Another gigabyte of the same 512: the PUD cache knows, the PMD cache does not.
    let other = small + (1 << 18);
    map(&mut table, other, 0);
    assert_eq!(walk(&table, other, &mut caches), (WalkKind::Partial, 6, 2));
    assert_eq!(walk(&table, other, &mut caches), (WalkKind::Size, 3, 0));
    // With a 1 GiB page anywhere there is a third table.
    let huge = 1 << 30;
    map(&mut table, huge, 2);
    assert_eq!(walk(&table, small, &mut cold()), (WalkKind::Complete, 9, 4));
    assert_eq!(walk(&table, huge, &mut cold()), (WalkKind::Complete, 9, 4));
    let mut caches = cold();
    walk(&table, huge, &mut caches);
    // There is no line of the PMD walk table for it: that cache never knows, the PUD cache names the way.
    assert_eq!(walk(&table, huge, &mut caches), (WalkKind::Partial, 7, 2));
    assert_eq!((caches.lookups(), caches.hits()), (2, [0, 1]));
}

#[test]
fn an_entry_of_the_pmd_cache_is_a_gigabyte_or_a_section() {
    let mut memory = Memory::new();
    let mut table = HashedTable::new(&designs()[0], 1, &mut memory).unwrap();
    for section in 0..4 {
        table.map(Vpn(section << PMD_SECTION), leaf(1), 0, &mut memory).unwrap();
    }
    for (by_section, hits) in [(false, 3), (true, 0)] {
        let mut caches = WalkCaches::new(16, 2, by_section).unwrap();
        for section in 0..4 {
            table.walk(ASID, Vpn(section << PMD_SECTION), Some(&mut caches));
        }
        assert_eq!(caches.hits()[0], hits);
        table.walk(Asid(4), Vpn(0), Some(&mut caches));
        assert_eq!(caches.hits()[0], hits, "another address space");
    }
}

#[test]
fn without_memory_nothing_that_was_mapped_is_lost() {
    for design in designs() {
        let mut memory = Memory::new();
        let mut table = HashedTable::new(&design, 5, &mut memory).unwrap();
        memory.left = 200_000;
        let mut stalled = false;
        let mut error = None;
        for number in 0u64.. {
            match table.map(Vpn(number * 8), leaf(number + 1), 0, &mut memory) {
                Ok(mapped) => stalled |= mapped.is_some(),
                Err(failed) => {
                    error = Some((number, failed));
                    break;
                }
            }
        }
        let (mapped, error) = error.unwrap();
        assert!(stalled, "it was too full before it was full");
        assert!(matches!(error, MapError::NoMemory(_)), "{error}");
        for number in 0..mapped {
            assert_eq!(table.find(Vpn(number * 8)), Some((leaf(number + 1), 0)));
        }
        assert_eq!(table.find(Vpn(mapped * 8)), None);
        // A large page whose pieces have no place stays one.
        memory.left = 1 << 30;
        table.map(Vpn(1 << 20), leaf(512), 1, &mut memory).unwrap();
        memory.left = 0;
        let split = table.split(Vpn(1 << 20), &mut memory);
        let expected = if split.is_err() { Some((leaf(512), 1)) } else { Some((leaf(512), 0)) };
        assert_eq!(table.find(Vpn(1 << 20)), expected);
        let walk = table.walk(ASID, Vpn(1 << 20), Some(&mut caches()));
        assert_eq!(walk.end, expected);
    }
}

#[test]
fn a_line_is_64_bytes_with_its_tag_and_entries_that_come_and_go() {
    assert_eq!(size_of::<Option<Line>>(), 64);
    let mut random = SplitMix64::new(1);
    for _ in 0..2_000 {
        let number = random.next() >> 29;
        let entry = |random: &mut SplitMix64| random.next() & !(0x1f << 52) | 1;
        let mut entries = [0; LINE_ENTRIES];
        let start = random.below(8) as usize;
        entries[start] = entry(&mut random);
        let mut line = Line::new(number, start, entries[start]);
        for _ in 0..30 {
            let index = random.below(8) as usize;
            let new = if random.below(2) == 0 { 0 } else { entry(&mut random) };
            let mut after = entries;
            after[index] = new;
            let is_left = after.iter().any(|&entry| entry != 0);
            assert_eq!(line.set(index, new), is_left);
            if is_left {
                entries = after;
            }
            assert_eq!(line.number(), number);
            assert_eq!(std::array::from_fn(|index| line.entry(index)), entries);
            assert_eq!(line.used() as usize, entries.iter().filter(|&&entry| entry != 0).count());
            assert_eq!(line.entries().count(), line.used() as usize);
        }
    }
}

#[test]
fn a_table_that_cannot_be_made_takes_nothing() {
    let pieces = {
        let mut memory = Memory::new();
        HashedTable::new(&designs()[0], 1, &mut memory).unwrap();
        memory.given.values().copied().collect::<Vec<_>>()
    };
    for some in 0..pieces.len() {
        let mut memory = Memory { left: pieces[..some].iter().sum(), ..Memory::new() };
        assert!(HashedTable::new(&designs()[0], 1, &mut memory).is_err());
        assert!(memory.given.is_empty(), "{some} pieces");
    }
}
