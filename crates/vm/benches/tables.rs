//! Hashed page tables: how fast lines come in and are found, beside hashbrown with the same keys and 64-byte lines.
//!
//! A table of 1.5 million lines, whose keys come in a random order; look-ups in another. Maps run interleaved; figures
//! are medians of processor time. The target is the laboratory's: what a run that only counts can do with the table of a
//! program of 46 GiB. The first column is the table of the experiments that count lines and nothing else. It and
//! the next two know what comes, as a program that fills a table does: insertions are foreseen, look-ups made many at a time.
//!
//! ```text
//! cargo bench -p pagewalk-vm --bench tables               five rounds
//! cargo bench -p pagewalk-vm --bench tables -- 9 elastic  nine, of one table
//! ```

use std::hint::black_box;
use std::num::NonZeroU64;

use hashbrown::HashMap;
use pagewalk_vm::addr::{Pfn, PhysAddr, Vpn};
use pagewalk_vm::random::{SplitMix64, mix};
use pagewalk_vm::table::cuckoo::{Cuckoo, Keyed, LineHash, NoChunk, Policy, SlotRef};
use pagewalk_vm::table::hashed::{HashedDesign, HashedTable, Line};
use pagewalk_vm::table::{ContiguousMemory, L2p, Leaf, OnePiece};
use rustix::time::{ClockId, clock_gettime};

const LINES: u64 = 1_500_000;
/// Look-ups that are made together.
const TOGETHER: usize = 32;
const CHUNKS: [u64; 4] = [8 << 10, 1 << 20, 8 << 20, 64 << 20];

/// Hands out all there is.
#[derive(Default)]
struct Memory(u64);

impl ContiguousMemory for Memory {
    fn allocate(&mut self, bytes: u64) -> Result<PhysAddr, NoChunk> {
        self.0 += bytes;
        Ok(PhysAddr(self.0 - bytes))
    }

    fn free(&mut self, _base: PhysAddr, _bytes: u64) {}
}

/// A line's number, not 0. 33 bits, as 48-bit addresses have.
fn number(at: u64) -> u64 {
    (mix(at) >> 31).max(1)
}

struct Keys {
    inserted: Vec<u64>,
    looked_up: Vec<u64>,
}

fn keys() -> Keys {
    let mut seen = std::collections::BTreeSet::new();
    let inserted: Vec<u64> = (0..).map(number).filter(|&key| seen.insert(key)).take(LINES as usize).collect();
    let mut looked_up = inserted.clone();
    let mut random = SplitMix64::new(3);
    for at in (1..looked_up.len()).rev() {
        looked_up.swap(at, random.below(at as u64 + 1) as usize);
    }
    Keys { inserted, looked_up }
}

fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Million lines a second.
fn rate(act: impl FnOnce()) -> f64 {
    let start = seconds();
    act();
    LINES as f64 / (seconds() - start) / 1e6
}

/// A table of what `item` makes of a number, for a look-up of which `read` answers 1.
fn cuckoo<T: Keyed>(
    keys: &Keys,
    policy: Policy,
    item: impl Fn(u64) -> T,
    read: impl Fn(&T) -> u64,
) -> [f64; 2] {
    let (mut memory, l2p) = (Memory::default(), L2p::new(&CHUNKS));
    let size = pagewalk_vm::addr::PageSize::Size4K;
    let hashes = LineHash::mixed(1);
    let mut table = Cuckoo::<T, _>::new(policy, hashes, 1, &mut OnePiece(&mut memory)).expect("all memory");
    let ahead = Cuckoo::<T, LineHash>::AHEAD;
    let insert = rate(|| {
        keys.inserted[..ahead].iter().for_each(|&key| table.foresee(key));
        for (at, &key) in keys.inserted.iter().enumerate() {
            if let Some(&later) = keys.inserted.get(at + ahead) {
                table.foresee(later);
            }
            let inserted = match policy.in_place {
                true => table.insert(item(key), &mut l2p.source(size, &mut memory)),
                false => table.insert(item(key), &mut OnePiece(&mut memory)),
            };
            assert!(inserted.is_ok());
        }
    });
    let find = rate(|| {
        let (groups, rest) = keys.looked_up.as_chunks::<TOGETHER>();
        let mut sum = 0;
        let mut add = |at: SlotRef| sum += table.get(at).map_or(0, &read);
        groups.iter().for_each(|group| table.find_all(group).into_iter().flatten().for_each(&mut add));
        rest.iter().filter_map(|&key| table.find(key, |_| true)).for_each(&mut add);
        assert_eq!(black_box(sum), LINES);
    });
    [insert, find]
}

fn numbers(keys: &Keys) -> [f64; 2] {
    let item = |key| NonZeroU64::new(key).expect("a number that is not 0");
    cuckoo(keys, Policy::MEMORY_EFFICIENT, item, |_| 1)
}

fn lines(keys: &Keys, policy: Policy) -> [f64; 2] {
    // What a walk is after: an entry.
    cuckoo(keys, policy, |key| Line::new(key, 0, 1), |line| line.entry(0))
}

/// With walk tables, page sizes and all.
fn whole(keys: &Keys) -> [f64; 2] {
    let mut memory = Memory::default();
    let design = HashedDesign { policy: Policy::MEMORY_EFFICIENT, chunk_bytes: CHUNKS.to_vec(), crc: false };
    let mut table = HashedTable::new(&design, 1, &mut memory).expect("all memory");
    // Lines near each other, as in a heap: the walk tables of a program, not of random addresses.
    let page = |key: &u64| Vpn((key % (4 * LINES)) << 3);
    let insert = rate(|| {
        for key in &keys.inserted {
            let _ = black_box(table.map(page(key), Leaf::data(Pfn(1)), 0, &mut memory));
        }
    });
    let find = rate(|| {
        let found = keys.looked_up.iter().filter(|key| table.find(page(key)).is_some());
        assert_eq!(black_box(found.count()), keys.looked_up.len());
    });
    [insert, find]
}

fn peer(keys: &Keys) -> [f64; 2] {
    let mut map = HashMap::new();
    let insert = rate(|| {
        for &key in &keys.inserted {
            map.insert(key, Line::new(key, 0, 1));
        }
    });
    let find = rate(|| {
        let found =
            keys.looked_up.iter().filter(|&key| map.get(key).is_some_and(|line| line.number() == *key));
        assert_eq!(black_box(found.count()), keys.looked_up.len());
    });
    [insert, find]
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let only = arguments.iter().find(|argument| argument.parse::<usize>().is_err());
    let keys = keys();
    type Run = fn(&Keys) -> [f64; 2];
    let mut tables: Vec<(&str, Run)> = vec![
        ("numbers", numbers),
        ("memory-efficient", |keys| lines(keys, Policy::MEMORY_EFFICIENT)),
        ("elastic", |keys| lines(keys, Policy::ELASTIC)),
        ("with walk tables", whole),
        ("hashbrown", peer),
    ];
    tables.retain(|(name, _)| only.is_none_or(|only| only == name));
    let mut rates = vec![[const { Vec::new() }; 2]; tables.len()];
    for _ in 0..rounds {
        for ((_, run), rates) in tables.iter().zip(&mut rates) {
            for (rates, rate) in rates.iter_mut().zip(run(&keys)) {
                rates.push(rate);
            }
        }
    }
    println!("{LINES} lines; million a second, median of {rounds}        target");
    print!("{:<10}", "");
    tables.iter().for_each(|(name, _)| print!(" {name:>17}"));
    println!();
    for (at, (act, target)) in [("insert", 5.0), ("look up", 20.0)].into_iter().enumerate() {
        print!("{act:<10}");
        for rates in &mut rates {
            rates[at].sort_by(f64::total_cmp);
            print!(" {:>17.2}", rates[at][rates[at].len() / 2]);
        }
        println!(" {target:>8}");
    }
}
