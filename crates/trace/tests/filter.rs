//! The exact filter: misses with it equal misses without it, and where they would not, it refuses.

use std::sync::OnceLock;

use pagewalk_trace::filter::{Admission, Classes, FilterOptions, FilterPolicy, SetIndex};
use pagewalk_trace::{
    Access, Batch, Event, ExactFilter, FilterRefusal, Format, ThreadId, TlbDescription, open,
};
use pagewalk_vm::addr::VirtAddr;

use crate::common;

/// A TLB as plain as it can be: each set a list, in the order that its policy wants.
struct ListTlb {
    description: TlbDescription,
    sets: Vec<Vec<Entry>>,
    random: u64,
    misses: u64,
    hits: u64,
}

#[derive(Clone)]
struct Entry {
    page: u64,
    /// Of NRU and Clock.
    referenced: bool,
    /// Of LFU and SRRIP.
    count: u32,
}

impl ListTlb {
    fn new(description: &TlbDescription) -> Self {
        let sets = vec![Vec::new(); description.sets as usize];
        Self { description: description.clone(), sets, random: 0x1234_5678_9abc_def1, misses: 0, hits: 0 }
    }

    fn access(&mut self, access: Access) {
        let first = access.addr().0 >> 12;
        let last = (access.addr().0 + access.bytes() - 1) >> 12;
        for page in first..=last {
            self.touch(page << 12);
        }
    }

    fn touch(&mut self, address: u64) {
        let page = address >> self.description.page_shift;
        let number = address >> self.description.index_shift;
        let index = match self.description.index {
            SetIndex::LowBits => number,
            // Any hash will do; this one mixes well.
            SetIndex::Hashed => number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32,
            SetIndex::MixedSizes => unreachable!("the lists hold one size"),
        } % self.description.sets;
        let ways = self.description.ways as usize;
        let set = &mut self.sets[index as usize];
        let found = set.iter().position(|entry| entry.page == page);
        if found.is_some() {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        match self.description.policy {
            FilterPolicy::Lru => {
                if let Some(at) = found {
                    let entry = set.remove(at);
                    set.push(entry);
                } else {
                    if set.len() == ways {
                        set.remove(0);
                    }
                    set.push(Entry { page, referenced: true, count: 0 });
                }
            }
            FilterPolicy::Fifo => {
                if found.is_none() {
                    if set.len() == ways {
                        set.remove(0);
                    }
                    set.push(Entry { page, referenced: true, count: 0 });
                }
            }
            FilterPolicy::Random => {
                if found.is_none() {
                    if set.len() == ways {
                        self.random ^= self.random << 13;
                        self.random ^= self.random >> 7;
                        self.random ^= self.random << 17;
                        set.swap_remove((self.random % ways as u64) as usize);
                    }
                    set.push(Entry { page, referenced: true, count: 0 });
                }
            }
            FilterPolicy::Nru => {
                let at = found.unwrap_or_else(|| {
                    let entry = Entry { page, referenced: false, count: 0 };
                    if set.len() < ways {
                        set.push(entry);
                        set.len() - 1
                    } else {
                        let victim = set.iter().position(|entry| !entry.referenced).unwrap_or(0);
                        set[victim] = entry;
                        victim
                    }
                });
                set[at].referenced = true;
                if set.iter().all(|entry| entry.referenced) {
                    set.iter_mut().enumerate().for_each(|(other, entry)| entry.referenced = other == at);
                }
            }
            FilterPolicy::Lfu => {
                if let Some(at) = found {
                    set[at].count += 1;
                } else {
                    if set.len() == ways {
                        let victim = (0..ways).min_by_key(|&at| set[at].count).unwrap();
                        set.remove(victim);
                    }
                    set.push(Entry { page, referenced: true, count: 1 });
                }
            }
            policy => unreachable!("{policy:?} has no list"),
        }
    }
}

/// Misses of every TLB, and hits of the first, over `stream`; through the filter if there is one.
fn run(tlbs: &[TlbDescription], stream: &[Access], mut filter: Option<ExactFilter>) -> (Vec<u64>, u64) {
    let mut lists: Vec<ListTlb> = tlbs.iter().map(ListTlb::new).collect();
    let mut hits = 0;
    for part in stream.chunks(1000) {
        let mut kept = Vec::new();
        match &mut filter {
            Some(filter) => {
                filter.filter(part, &mut kept);
                hits += filter.take_dropped().0;
            }
            None => kept.extend_from_slice(part),
        }
        for access in kept.iter().filter(|access| access.is_some()) {
            lists.iter_mut().for_each(|list| list.access(*access));
        }
    }
    (lists.iter().map(|list| list.misses).collect(), lists[0].hits + hits)
}

/// Asserts that a filter with these classes changes no miss and no hit.
fn assert_exact(tlbs: &[TlbDescription], options: FilterOptions, classes: Classes, stream: &[Access]) {
    let filter = ExactFilter::with_classes(tlbs, options, classes).unwrap();
    let (expected, expected_hits) = run(tlbs, stream, None);
    let (found, hits) = run(tlbs, stream, Some(filter));
    assert_eq!(found, expected, "{classes:?}");
    assert_eq!(hits, expected_hits, "{classes:?}");
}

// ---- streams ----

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Runs of repeated, neighbouring and random pages; some accesses cross a page, some records are none.
fn random_stream(count: usize, pages: u64, seed: u64) -> Vec<Access> {
    let mut random = Random(seed);
    let mut page = 0;
    (0..count)
        .map(|_| {
            match random.below(4) {
                0 => page = random.below(pages),
                1 => page = (page + 1) % pages,
                2 => page = (page + random.below(3) * 16) % pages,
                _ => {}
            }
            if random.below(50) == 0 {
                return Access::NONE;
            }
            let address = 0x10_0000_0000 + page * 4096 + random.below(4096);
            Access::new(VirtAddr(address), 1 << random.below(7), random.below(3) == 0)
        })
        .collect()
}

/// Memory whose uses are written down: what real algorithms run on. Its words are the keys of larger records.
struct Memory {
    record_bytes: u64,
    words: Vec<u64>,
    trace: Vec<Access>,
}

impl Memory {
    fn new(words: usize, record_bytes: u64) -> Self {
        Self { record_bytes, words: vec![0; words], trace: Vec::new() }
    }

    fn get(&mut self, at: usize) -> u64 {
        self.trace.push(Access::load(VirtAddr(0x7f00_0000_0000 + at as u64 * self.record_bytes), 8));
        self.words[at]
    }

    fn set(&mut self, at: usize, value: u64) {
        self.trace.push(Access::store(VirtAddr(0x7f00_0000_0000 + at as u64 * self.record_bytes), 8));
        self.words[at] = value;
    }
}

/// Heap sort of random numbers, checked.
fn sort_stream() -> Vec<Access> {
    const COUNT: usize = 12_000;
    let mut memory = Memory::new(COUNT, 512);
    let mut random = Random(7);
    for at in 0..COUNT {
        memory.set(at, random.below(1 << 40));
    }
    let sift = |memory: &mut Memory, mut root: usize, end: usize| {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && memory.get(child) < memory.get(child + 1) {
                child += 1;
            }
            let (parent, largest) = (memory.get(root), memory.get(child));
            if parent >= largest {
                return;
            }
            memory.set(root, largest);
            memory.set(child, parent);
            root = child;
        }
    };
    (0..COUNT / 2).rev().for_each(|root| sift(&mut memory, root, COUNT));
    for end in (1..COUNT).rev() {
        let (first, last) = (memory.get(0), memory.get(end));
        memory.set(0, last);
        memory.set(end, first);
        sift(&mut memory, 0, end);
    }
    assert!(memory.words.is_sorted());
    memory.trace
}

/// Breadth-first search of a random graph in compressed rows, checked.
fn search_stream() -> Vec<Access> {
    const VERTICES: usize = 20_000;
    const DEGREE: usize = 8;
    let (edges, seen, queue) = (0, VERTICES * DEGREE, VERTICES * (DEGREE + 1));
    let mut memory = Memory::new(VERTICES * (DEGREE + 2), 64);
    let mut random = Random(9);
    for edge in 0..VERTICES * DEGREE {
        memory.set(edges + edge, random.below(VERTICES as u64));
    }
    memory.set(seen, 1);
    let (mut head, mut tail) = (0, 1);
    while head < tail {
        let vertex = memory.get(queue + head) as usize;
        head += 1;
        for edge in vertex * DEGREE..(vertex + 1) * DEGREE {
            let target = memory.get(edges + edge);
            if memory.get(seen + target as usize) == 0 {
                memory.set(seen + target as usize, 1);
                memory.set(queue + tail, target);
                tail += 1;
            }
        }
    }
    assert!(tail > VERTICES * 99 / 100, "the graph hangs together");
    memory.trace
}

/// A real program, if Valgrind is here to watch it.
fn captured_stream() -> Option<Vec<Access>> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let run = std::process::Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .args(["sort", "/proc/self/maps"])
        .stdout(std::process::Stdio::null())
        .status();
    if !run.is_ok_and(|status| status.success()) {
        println!("no captured stream: valgrind is not installed or cannot run here");
        return None;
    }
    let (batches, result) = common::collect(&mut *open(&log, Format::Lackey).unwrap());
    result.unwrap();
    Some(batches.into_iter().flat_map(|batch| batch.accesses).collect())
}

fn streams() -> &'static [Vec<Access>] {
    static STREAMS: OnceLock<Vec<Vec<Access>>> = OnceLock::new();
    STREAMS.get_or_init(|| {
        let mut streams = vec![sort_stream(), search_stream()];
        streams.extend((1..4).map(|seed| random_stream(120_000, 600, seed * 77)));
        streams.extend(captured_stream());
        streams
    })
}

fn lru(sets: u64, ways: u64) -> TlbDescription {
    TlbDescription::lru("t", sets, ways, 12)
}

// ---- exact ----

#[test]
fn misses_and_hits_are_the_same_with_and_without_the_filter() {
    let low: Vec<TlbDescription> = [16, 32, 64, 128, 256, 512, 1024, 2048].map(|sets| lru(sets, 8)).to_vec();
    let odd = [lru(48, 4), lru(16, 1), lru(80, 3)];
    let any = [
        lru(1, 64),
        lru(8, 8),
        TlbDescription { index: SetIndex::Hashed, ..lru(64, 8) },
        TlbDescription::lru("2m", 16, 2, 21),
        lru(128, 8),
    ];
    for stream in streams() {
        assert!(stream.len() > 100_000, "long enough to evict");
        for classes in [Classes::Sixteen, Classes::One] {
            assert_exact(&low, FilterOptions::default(), classes, stream);
            assert_exact(&odd, FilterOptions::default(), classes, stream);
        }
        assert_exact(&any, FilterOptions::default(), Classes::One, stream);
    }
}

#[test]
fn entries_of_several_pages_are_filtered_exactly() {
    // An entry of 4 pages with a valid bit each behaves, as far as repeats go, like its sub-pages; here the
    // index lies above 16 KiB while hits are told apart by 4 KiB.
    let wide = TlbDescription { index_shift: 14, ..lru(128, 8) };
    for stream in streams() {
        assert_exact(&[wide.clone(), lru(128, 8)], FilterOptions::default(), Classes::Sixteen, stream);
    }
    let filter = ExactFilter::new(&[wide, lru(128, 8)], FilterOptions::default()).unwrap();
    assert_eq!(filter.classes(), Classes::Sixteen);
    // 32 sets of single pages do not determine address bits 14 to 17.
    let wide = TlbDescription { index_shift: 14, ..lru(128, 8) };
    let filter = ExactFilter::new(&[wide, lru(32, 8)], FilterOptions::default()).unwrap();
    assert_eq!(filter.classes(), Classes::One);
}

#[test]
fn policies_with_idle_repeats_are_exact_when_asked_for() {
    let options = FilterOptions { admission: Admission::IdleRepeats, dirty_bits: false };
    let tlbs: Vec<TlbDescription> = [FilterPolicy::Fifo, FilterPolicy::Nru, FilterPolicy::Random]
        .into_iter()
        .flat_map(|policy| [16, 32].map(|sets| TlbDescription { policy, ..lru(sets, 8) }))
        .collect();
    for stream in streams() {
        for classes in [Classes::Sixteen, Classes::One] {
            assert_exact(&tlbs, options, classes, stream);
        }
    }
}

#[test]
fn the_filter_drops_what_it_should() {
    let stream: Vec<Access> =
        (0..1000).map(|at| Access::load(VirtAddr(0x7000_0000 + at % 2 * 4096), 8)).collect();
    let mut kept = Vec::new();
    let mut filter = ExactFilter::new(&[lru(16, 4)], FilterOptions::default()).unwrap();
    filter.filter(&stream, &mut kept);
    assert_eq!((kept.len(), filter.take_dropped()), (2, (998, 0)));
    assert_eq!(filter.take_dropped(), (0, 0));
    let mut one = ExactFilter::new(&[lru(8, 4)], FilterOptions::default()).unwrap();
    kept.clear();
    one.filter(&stream, &mut kept);
    assert_eq!((one.classes(), kept.len()), (Classes::One, 1000));
}

#[test]
fn the_first_store_to_a_page_is_kept_for_dirty_bits() {
    let at = |write| Access::new(VirtAddr(0x7000), 8, write);
    let options = FilterOptions { dirty_bits: true, ..FilterOptions::default() };
    let mut filter = ExactFilter::new(&[lru(16, 4)], options).unwrap();
    let admitted: Vec<bool> =
        [false, false, true, true, false, true].into_iter().map(|write| filter.admits(at(write))).collect();
    assert_eq!(admitted, [true, false, true, false, false, false]);
    assert_eq!(filter.take_dropped(), (4, 2));
    let mut filter = ExactFilter::new(&[lru(16, 4)], FilterOptions::default()).unwrap();
    assert!(filter.admits(at(false)) && !filter.admits(at(true)));
}

#[test]
fn events_that_change_translations_empty_the_filter() {
    let access = Access::load(VirtAddr(0x7000), 8);
    let range = pagewalk_vm::addr::VirtRange::sized(VirtAddr(0x7000), 4096);
    for (event, flushes) in [
        (Event::Instructions(5), false),
        (Event::Phase("p".to_owned()), false),
        (Event::Thread(ThreadId(2)), true),
        (Event::Unmap(range), true),
        (Event::Break(range), true),
        (Event::Exec, true),
    ] {
        let mut filter = ExactFilter::new(&[lru(16, 4)], FilterOptions::default()).unwrap();
        assert!(filter.admits(access));
        filter.observe(&event);
        assert_eq!(filter.admits(access), flushes, "{event:?}");
    }
}

#[test]
fn an_access_over_a_page_end_is_always_passed_and_remembered() {
    let mut filter = ExactFilter::new(&[lru(1, 4)], FilterOptions::default()).unwrap();
    let crossing = Access::load(VirtAddr(0x1ffc), 8);
    let second = Access::load(VirtAddr(0x2000), 8);
    let first = Access::load(VirtAddr(0x1000), 8);
    assert_eq!(
        [crossing, crossing, second, first].map(|access| filter.admits(access)),
        [true, true, false, true]
    );
}

// ---- refused ----

fn refusal(tlb: TlbDescription, classes: Classes) -> FilterRefusal {
    ExactFilter::with_classes(&[lru(128, 8), tlb], FilterOptions::default(), classes).unwrap_err()
}

#[test]
fn sixteen_classes_are_refused_where_they_are_not_exact_and_one_is_taken() {
    for tlb in [
        TlbDescription { index: SetIndex::Hashed, ..lru(128, 8) },
        TlbDescription { index: SetIndex::MixedSizes, ..lru(128, 8) },
        lru(8, 8),
        lru(1, 64),
        lru(24, 4),
        TlbDescription::lru("2m", 128, 8, 21),
        TlbDescription::lru("1g", 16, 4, 30),
    ] {
        let message = refusal(tlb.clone(), Classes::Sixteen).to_string();
        assert!(message.contains("16 classes") && message.contains("use 1 class"), "{message}");
        let filter = ExactFilter::new(&[lru(128, 8), tlb], FilterOptions::default()).unwrap();
        assert_eq!(filter.classes(), Classes::One);
    }
    // Alone, a TLB of large pages gets classes of large pages.
    let filter = ExactFilter::new(&[TlbDescription::lru("2m", 16, 8, 21)], FilterOptions::default()).unwrap();
    assert_eq!(filter.classes(), Classes::Sixteen);
}

#[test]
fn what_no_filter_is_exact_for_is_refused() {
    for classes in [Classes::Sixteen, Classes::One] {
        for policy in [FilterPolicy::Lfu, FilterPolicy::Srrip, FilterPolicy::ClockClearOnFill] {
            let tlb = TlbDescription { policy, ..lru(128, 8) };
            let message = refusal(tlb.clone(), classes).to_string();
            assert!(message.contains("counts repeated touches; run it without the filter"), "{message}");
            let admission = Admission::IdleRepeats;
            let options = FilterOptions { admission, ..FilterOptions::default() };
            assert!(ExactFilter::new(&[tlb], options).is_err(), "{policy:?}");
        }
        for policy in [
            FilterPolicy::Fifo,
            FilterPolicy::TreePlru,
            FilterPolicy::Nru,
            FilterPolicy::Random,
            FilterPolicy::Clock,
        ] {
            let message = refusal(TlbDescription { policy, ..lru(128, 8) }, classes).to_string();
            assert!(message.contains("it is allowed for Lru only"), "{message}");
        }
        let message = refusal(TlbDescription { other_inputs: true, ..lru(128, 8) }, classes).to_string();
        assert!(message.contains("fill it too, which the filter does not see"), "{message}");
        assert!(matches!(refusal(lru(0, 8), classes), FilterRefusal::Impossible(..)));
        assert!(matches!(
            refusal(TlbDescription { index_shift: 10, ..lru(16, 8) }, classes),
            FilterRefusal::Impossible(..)
        ));
    }
    assert_eq!(ExactFilter::new(&[], FilterOptions::default()).unwrap_err(), FilterRefusal::NoTlb);
}

/// Shows that the refusals are not idle: where the filter refuses, it would indeed change the misses.
#[test]
fn the_refused_cells_really_differ() {
    let stream = random_stream(120_000, 600, 99);
    let sixteen = || {
        Some(ExactFilter::with_classes(&[lru(16, 4)], FilterOptions::default(), Classes::Sixteen).unwrap())
    };
    for tlb in [
        TlbDescription { index: SetIndex::Hashed, ..lru(32, 8) },
        lru(8, 8),
        lru(1, 16),
        TlbDescription { policy: FilterPolicy::Lfu, ..lru(16, 4) },
    ] {
        let without = run(std::slice::from_ref(&tlb), &stream, None);
        let with = run(std::slice::from_ref(&tlb), &stream, sixteen());
        assert_ne!(without.0, with.0, "{tlb:?}");
    }
}

#[test]
fn batches_pass_with_their_dropped_accesses_counted() {
    let mut batch = Batch::new();
    batch.accesses.extend(sort_stream().into_iter().take(Batch::FULL));
    let mut filter = ExactFilter::new(&[lru(16, 4)], FilterOptions::default()).unwrap();
    let mut kept = vec![Access::NONE];
    filter.filter(&batch.accesses, &mut kept);
    let (dropped, _) = filter.take_dropped();
    assert_eq!(
        kept.len() as u64 - 1 + dropped,
        Batch::FULL as u64,
        "nothing is lost, and what was there stays"
    );
}
