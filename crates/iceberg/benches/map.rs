//! The map beside hashbrown (behind a lock), dashmap and scc, with 16-byte items and one hasher for all.
//!
//! Three questions, asked with two numbers of items: throughput with as many items as the Iceberg map holds at load
//! 0.95 (the others are made with room for the same items), bytes per item then, and the longest that one insertion
//! takes while a map grows from empty. Maps run interleaved; figures are medians, and ratios, to the better of dashmap
//! and scc, medians of each round's. One thread is measured in processor time, two in time on the wall; an insertion's
//! pause in processor time, which leaves out other programs' turns but not the kernel's work for this one.
//!
//! Throughput is that of memory that the process has touched before: what a first touch costs is up to the kernel, and
//! in a virtual machine to its host (with large pages from 0.1 to 4 ms each, by whether the host had it at hand), and
//! is a third of an insertion. A row of its own has insertions into fresh memory, and the pauses are with it.
//!
//! `cargo bench -p pagewalk-iceberg -- [ROUNDS] [MILLION-ITEMS...] [MAP...]`

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use pagewalk_iceberg::{DefaultHasher, IcebergMap};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// Item counts. dashmap and hashbrown double at 7/8: with 4 million items they are about half full, with 3.6 million
/// nearly as full as they get. The Iceberg map is at load 0.95 with both.
const ITEMS: [usize; 2] = [4_000_000, 3_600_000];

/// Counts the bytes that are allocated, and where told to, keeps large blocks that are given back for the next map.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Whether blocks are kept.
static KEEPING: AtomicBool = AtomicBool::new(false);

/// The kept blocks, addresses beside layouts. A map has a few large blocks; one too many goes back to the system.
static KEPT: Mutex<[Option<(Layout, usize)>; 256]> = Mutex::new([None; 256]);

/// Only blocks from this size are kept: the C library has them from the kernel and gives them back to it at once.
const LARGE: usize = 128 << 10;

/// A kept block with this layout.
fn kept(layout: Layout) -> Option<*mut u8> {
    if layout.size() < LARGE || !KEEPING.load(Ordering::Relaxed) {
        return None;
    }
    let mut kept = KEPT.lock();
    let block = kept.iter_mut().find(|block| block.is_some_and(|(its, _)| its == layout))?;
    block.take().map(|(_, memory)| memory as *mut u8)
}

/// Keeps a block, or says that it does not.
fn keep(memory: *mut u8, layout: Layout) -> bool {
    if layout.size() < LARGE || !KEEPING.load(Ordering::Relaxed) {
        return false;
    }
    match KEPT.lock().iter_mut().find(|block| block.is_none()) {
        Some(block) => {
            *block = Some((layout, memory as usize));
            true
        }
        None => false,
    }
}

// SAFETY: (1) a block comes from the system, or is one that it gave for the same layout and that was given back
// since; it is in the array once and leaves it under the lock.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: (1) the caller's conditions are the callee's.
        kept(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        match kept(layout) {
            Some(memory) => {
                // SAFETY: (1) the block has this size and no other owner.
                unsafe { memory.write_bytes(0, layout.size()) };
                memory
            }
            // SAFETY: (1) the caller's conditions are the callee's.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        if !keep(memory, layout) {
            // SAFETY: (1) the caller's conditions are the callee's.
            unsafe { System.dealloc(memory, layout) }
        }
    }
}

/// All of it is compiled into the loops, as it would be where a program calls the map itself.
trait Map: Sync {
    fn insert(&self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    fn remove(&self, key: u64) -> Option<u64>;
}

impl Map for IcebergMap<u64, u64> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        assert!(self.try_insert(key, value).is_ok(), "a place for every item");
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&key)
    }
}

impl Map for dashmap::DashMap<u64, u64, DefaultHasher> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|value| *value)
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&key).map(|(_, value)| value)
    }
}

impl Map for scc::HashMap<u64, u64, DefaultHasher> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        let _ = self.insert_sync(key, value);
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.read_sync(&key, |_, value| *value)
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        self.remove_sync(&key).map(|(_, value)| value)
    }
}

type Locked = parking_lot::RwLock<hashbrown::HashMap<u64, u64, DefaultHasher>>;

impl Map for Locked {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        self.write().insert(key, value);
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.read().get(&key).copied()
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        self.write().remove(&key)
    }
}

/// Makes an empty map with room for so many items, or one that grows for `None`.
type Make = fn(Option<usize>) -> Box<dyn Run>;

const MAPS: [(&str, Make); 4] = [
    ("iceberg", |room| match room {
        // Its slots are `room / 0.95`; it is asked for at its own measure of full, 0.96.
        Some(items) => Box::new(IcebergMap::<u64, u64>::fixed(items * 96 / 95)),
        None => Box::new(IcebergMap::<u64, u64>::new()),
    }),
    ("dashmap", |room| {
        Box::new(dashmap::DashMap::with_capacity_and_hasher(room.unwrap_or(0), DefaultHasher::default()))
    }),
    ("scc", |room| {
        Box::new(scc::HashMap::with_capacity_and_hasher(room.unwrap_or(0), DefaultHasher::default()))
    }),
    ("hashbrown + lock", |room| {
        let hasher = DefaultHasher::default();
        Box::new(Locked::new(hashbrown::HashMap::with_capacity_and_hasher(room.unwrap_or(0), hasher)))
    }),
];

/// What is done to a map, compiled for each.
trait Run {
    /// Million operations a second.
    fn rate(&self, act: Act, threads: usize, keys: &Keys) -> f64;
    /// The longest insertion, in microseconds of processor time.
    fn longest_insert(&self, items: usize) -> f64;
}

#[derive(Clone, Copy, PartialEq)]
enum Act {
    Insert,
    Find,
    Miss,
    Remove,
}

const ACTS: [(Act, &str, bool); 4] = [
    (Act::Insert, "insert", true),
    (Act::Find, "look up, present", true),
    (Act::Miss, "look up, absent", true),
    (Act::Remove, "remove", false),
];

struct Keys {
    present: Vec<u64>,
    /// The same in another order.
    shuffled: Vec<u64>,
    absent: Vec<u64>,
}

impl Keys {
    fn new(items: usize) -> Self {
        let present: Vec<u64> = (0..items as u64).map(scramble).collect();
        let mut shuffled = present.clone();
        for at in (1..items).rev() {
            shuffled.swap(at, scramble(at as u64 ^ 0xabcd) as usize % (at + 1));
        }
        let absent = (items as u64..2 * items as u64).map(scramble).collect();
        Self { present, shuffled, absent }
    }
}

/// A bijection (Sebastiano Vigna's SplitMix64 step): keys that repeat for no two numbers.
fn scramble(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl<M: Map> Run for M {
    fn rate(&self, act: Act, threads: usize, keys: &Keys) -> f64 {
        let keys = match act {
            Act::Insert => &keys.present,
            Act::Find | Act::Remove => &keys.shuffled,
            Act::Miss => &keys.absent,
        };
        let run = |keys: &[u64]| {
            // A loop for each, as a program would have it.
            let done = match act {
                Act::Insert => {
                    keys.iter().for_each(|&key| self.insert(key, !key));
                    keys.len()
                }
                Act::Find => keys.iter().filter(|&&key| self.get(key) == Some(!key)).count(),
                Act::Miss => keys.iter().filter(|&&key| self.get(key).is_some()).count(),
                Act::Remove => keys.iter().filter(|&&key| self.remove(key) == Some(!key)).count(),
            };
            assert_eq!(black_box(done), if act == Act::Miss { 0 } else { keys.len() });
        };
        let seconds = if threads == 1 {
            let start = processor_seconds();
            run(keys);
            processor_seconds() - start
        } else {
            let (ready, done) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
            std::thread::scope(|scope| {
                for keys in keys.chunks(keys.len().div_ceil(threads)) {
                    let (run, ready, done) = (&run, &ready, &done);
                    scope.spawn(move || {
                        ready.wait();
                        run(keys);
                        done.wait();
                    });
                }
                ready.wait();
                let start = Instant::now();
                done.wait();
                start.elapsed().as_secs_f64()
            })
        };
        keys.len() as f64 / seconds / 1e6
    }

    fn longest_insert(&self, items: usize) -> f64 {
        let mut longest = 0f64;
        let mut before = processor_seconds();
        for key in 0..items as u64 {
            self.insert(scramble(key), key);
            let after = processor_seconds();
            longest = longest.max(after - before);
            before = after;
        }
        1e6 * longest
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<f64>().ok());
    let rounds = numbers.next().unwrap_or(5.0) as usize;
    let counts: Vec<usize> = numbers.map(|millions| (millions * 1e6) as usize).collect();
    let names: Vec<&String> = arguments.iter().filter(|text| text.parse::<f64>().is_err()).collect();
    let maps: Vec<(&str, Make)> = MAPS
        .into_iter()
        .filter(|(map, _)| names.is_empty() || names.iter().any(|name| map.contains(name.as_str())))
        .collect();
    for items in if counts.is_empty() { ITEMS.to_vec() } else { counts } {
        table(items, rounds, &maps);
    }
}

/// Measures maps with so many items.
fn table(items: usize, rounds: usize, maps: &[(&str, Make)]) {
    let keys = Keys::new(items);
    println!("{items} items of 16 bytes, the Iceberg map at load 0.95; median of {rounds}");
    print!("{:<34}", "million operations a second");
    maps.iter().for_each(|(map, _)| print!(" {map:>17}"));
    println!("   ratio/target");
    let mut bytes = vec![0.0; maps.len()];
    KEEPING.store(true, Ordering::Relaxed);
    for (_, make) in maps {
        // What is kept after this has been touched.
        make(Some(items)).rate(Act::Insert, 1, &keys);
    }
    for threads in [1, 2] {
        let mut rates = vec![[const { Vec::new() }; ACTS.len()]; maps.len()];
        for _ in 0..rounds {
            for (map, (_, make)) in maps.iter().enumerate() {
                let before = ALLOCATED.load(Ordering::Relaxed);
                let made = make(Some(items));
                for ((act, ..), rates) in ACTS.iter().zip(&mut rates[map]) {
                    rates.push(made.rate(*act, threads, &keys));
                    if *act == Act::Insert {
                        bytes[map] = (ALLOCATED.load(Ordering::Relaxed) - before) as f64 / items as f64;
                    }
                }
            }
        }
        for (at, (_, act, gate)) in ACTS.iter().enumerate() {
            let rates: Vec<&Vec<f64>> = rates.iter().map(|rates| &rates[at]).collect();
            row(&format!("{act}, {threads} thread{}", if threads == 1 { "" } else { "s" }), &rates, *gate);
        }
    }
    KEEPING.store(false, Ordering::Relaxed);
    let mut fresh = vec![Vec::new(); maps.len()];
    for _ in 0..rounds {
        for ((_, make), rates) in maps.iter().zip(&mut fresh) {
            rates.push(make(Some(items)).rate(Act::Insert, 1, &keys));
        }
    }
    row("insert, 1 thread, fresh memory", &fresh.iter().collect::<Vec<_>>(), false);
    print!("{:<34}", "bytes per item");
    bytes.iter().for_each(|bytes| print!(" {bytes:>17.2}"));
    println!("   {:.3}/1.200 of 16", bytes[0] / 16.0);
    let mut longest = vec![Vec::new(); maps.len()];
    for _ in 0..rounds {
        for ((_, make), longest) in maps.iter().zip(&mut longest) {
            longest.push(make(None).longest_insert(items));
        }
    }
    print!("{:<34}", "longest insertion when growing, us");
    longest.into_iter().for_each(|longest| print!(" {:>17.1}", median(longest)));
    println!();
}

/// Prints the median rate of each map, and where all are there, the first's ratio to the better of the two after it.
fn row(name: &str, rates: &[&Vec<f64>], gate: bool) {
    print!("{name:<34}");
    rates.iter().for_each(|rates| print!(" {:>17.2}", median((*rates).clone())));
    if rates.len() == MAPS.len() {
        // The machine has faster and slower minutes; a round is short.
        let ratio =
            |to: usize| median(rates[0].iter().zip(rates[to]).map(|(ours, its)| ours / its).collect());
        print!("   {:.2}", ratio(1).min(ratio(2)));
        print!("{}", if gate { "/0.80" } else { "" });
    }
    println!();
}
