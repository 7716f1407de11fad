//! Growing from a thousand items to millions, beside hashbrown, dashmap and the Iceberg map: 16-byte items, one hasher for
//! all, one thread.
//!
//! Each run is a process of its own, so that its peak memory is the kernel's figure (`VmHWM`, the most pages it ever had)
//! and no map inherits another's heap. Maps run interleaved; figures are medians. Rates are of processor time. Insertions
//! are timed one by one in runs of their own, in processor time as well: that leaves out other programs' turns, but not
//! the kernel's work for this one, and adds the clock's call to each.
//!
//! `cargo bench -p pagewalk-elastic -- [ROUNDS] [MILLION-ITEMS...]`

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;

use pagewalk_elastic::{DefaultHasher, ElasticMap};
use pagewalk_iceberg::IcebergMap;
use rustix::time::{ClockId, clock_gettime};

/// Items in all maps before anything is measured.
const FIRST: u64 = 1000;

trait Map: Default {
    fn insert(&mut self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
}

impl Map for ElasticMap<u64, u64> {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).copied()
    }
}

impl Map for hashbrown::HashMap<u64, u64, DefaultHasher> {
    fn insert(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).copied()
    }
}

impl Map for dashmap::DashMap<u64, u64, DefaultHasher> {
    fn insert(&mut self, key: u64, value: u64) {
        (*self).insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|value| *value)
    }
}

impl Map for IcebergMap<u64, u64> {
    fn insert(&mut self, key: u64, value: u64) {
        (*self).insert(key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }
}

/// What a run prints: figures by name.
type Run = fn(items: u64, pauses: bool) -> Vec<(&'static str, f64)>;

const MAPS: [(&str, Run); 4] = [
    ("elastic", run::<ElasticMap<u64, u64>>),
    ("hashbrown", run::<hashbrown::HashMap<u64, u64, DefaultHasher>>),
    ("dashmap", run::<dashmap::DashMap<u64, u64, DefaultHasher>>),
    ("iceberg", run::<IcebergMap<u64, u64>>),
];

/// The figures in the order of the table, and what the elastic map should reach of hashbrown's.
const FIGURES: [(&str, &str); 6] = [
    ("insert, M/s", ""),
    ("look up, present, M/s", ""),
    ("look up, absent, M/s", ""),
    ("peak bytes per item", "< 0.80"),
    ("longest insertion, us", "< 0.05"),
    ("99.99 % of insertions, us", ""),
];

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

/// A line of what the kernel says about this process, in bytes.
fn kernel_bytes(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    1024.0 * kilobytes.expect("a line with kilobytes")
}

/// Million operations a second.
fn rate(count: u64, act: impl FnOnce()) -> f64 {
    let start = processor_seconds();
    act();
    count as f64 / (processor_seconds() - start) / 1e6
}

fn run<M: Map>(items: u64, pauses: bool) -> Vec<(&'static str, f64)> {
    let before = kernel_bytes("VmRSS");
    let mut map = M::default();
    (0..FIRST).for_each(|key| map.insert(scramble(key), key));
    if pauses {
        return longest(&mut map, items);
    }
    let insert = rate(items - FIRST, || (FIRST..items).for_each(|key| map.insert(scramble(key), key)));
    let peak = (kernel_bytes("VmHWM") - before) / items as f64;
    // An odd step goes through as many numbers as a power of two, in another order than they came in.
    let span = items.next_power_of_two();
    let order = |from: u64| {
        let all = (0..span).map(move |at| at.wrapping_mul(0x9e37_79b1) & (span - 1));
        all.filter(move |&key| key < items).map(move |key| scramble(key + from))
    };
    let found = |from: u64| order(from).filter(|&key| map.get(key).is_some()).count() as u64;
    let hits = rate(items, || assert_eq!(black_box(found(0)), items));
    let misses = rate(items, || assert_eq!(black_box(found(items)), 0));
    [insert, hits, misses, peak].into_iter().zip(FIGURES).map(|(figure, (name, _))| (name, figure)).collect()
}

fn longest<M: Map>(map: &mut M, items: u64) -> Vec<(&'static str, f64)> {
    let mut pauses: Vec<f32> = Vec::with_capacity((items - FIRST) as usize);
    let mut before = processor_seconds();
    for key in FIRST..items {
        map.insert(scramble(key), key);
        let after = processor_seconds();
        pauses.push((1e6 * (after - before)) as f32);
        before = after;
    }
    let late = pauses.len() - 1 - pauses.len() / 10_000;
    let (_, &mut most, longer) = pauses.select_nth_unstable_by(late, f32::total_cmp);
    let longest = longer.iter().copied().fold(most, f32::max);
    vec![(FIGURES[4].0, f64::from(longest)), (FIGURES[5].0, f64::from(most))]
}

/// The figures of one run in a process of its own.
fn in_child(map: &str, items: u64, pauses: bool) -> Vec<(String, f64)> {
    let own = std::env::current_exe().expect("the benchmark's own path");
    let what = if pauses { "pauses" } else { "rates" };
    let child = Command::new(own).args(["run", map, &items.to_string(), what]).output();
    let output = child.expect("the benchmark starts itself");
    assert!(output.status.success(), "{map}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names and numbers");
    let figure = |line: &str| {
        let (name, figure) = line.split_once('\t')?;
        Some((name.to_string(), figure.parse().ok()?))
    };
    text.lines().filter_map(figure).collect()
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|text| !text.starts_with('-')).collect();
    if let [run, map, items, what] = &arguments[..]
        && run == "run"
    {
        let (_, run) = MAPS.into_iter().find(|(name, _)| name == map).expect("a map of the table");
        for (name, figure) in run(items.parse().expect("items"), what == "pauses") {
            println!("{name}\t{figure}");
        }
        return;
    }
    let mut numbers = arguments.iter().filter_map(|text| text.parse::<f64>().ok());
    let rounds = numbers.next().unwrap_or(3.0) as usize;
    let counts: Vec<u64> = numbers.map(|millions| (millions * 1e6) as u64).collect();
    for items in if counts.is_empty() { vec![5_000_000] } else { counts } {
        table(items, rounds);
    }
}

fn table(items: u64, rounds: usize) {
    let mut figures: BTreeMap<(&str, String), Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for pauses in [false, true] {
            for (map, _) in MAPS {
                for (name, figure) in in_child(map, items, pauses) {
                    figures.entry((map, name)).or_default().push(figure);
                }
            }
        }
    }
    println!(
        "from {FIRST} to {items} items of 16 bytes; median of {rounds}, and the range of the elastic map's"
    );
    print!("{:<28}", "");
    MAPS.iter().for_each(|(map, _)| print!(" {map:>11}"));
    println!(" {:>21}   elastic / hashbrown", "range");
    for (name, target) in FIGURES {
        let of =
            |map: &str| figures.get(&(map, name.to_string())).cloned().expect("every map has every figure");
        let medians = MAPS.map(|(map, _)| median(&mut of(map)));
        print!("{name:<28}");
        medians.iter().for_each(|figure| print!(" {figure:>11.2}"));
        let mut own = of("elastic");
        own.sort_by(f64::total_cmp);
        print!(" {:>10.2}{:>11.2}", own[0], own[own.len() - 1]);
        println!("   {:.3} {target}", medians[0] / medians[1]);
    }
}
