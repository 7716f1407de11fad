//! How fast events become results, in million references a second on one core.
//!
//! Streams are recorded into memory first, so that only the consumer is timed; the rows run interleaved, and each
//! row's figure is the median. The read-only scan of the same records is the limit that nothing can pass: each rate
//! also stands as a share of it, which compares across machines as the rates themselves do not. The targets were set
//! on a machine whose scan ran at 3,900 million records a second; a target stands as a rate and as the share that it
//! was there.
//!
//! `cargo bench -p pagewalk-sim -- [ROUNDS] [MILLION-ACCESSES] [ROW...]`: a text that stands for no number selects
//! the rows whose names contain it, `paging`, `executing` and `serving` the tables behind.

use std::collections::HashSet;
use std::hint::black_box;
use std::ops::ControlFlow;

use pagewalk_sim::machine::{Detail, build};
use pagewalk_sim::spec;
use pagewalk_sim::spec::settings::MachineSpec;
use pagewalk_trace::{Batch, Event, Source, SourceInfo};
use pagewalk_vm::addr::Vpn;
use pagewalk_vm::tlb::LruBank;
use pagewalk_workload::Workload;
use rustix::time::{ClockId, clock_gettime};

struct Stream {
    name: &'static str,
    info: SourceInfo,
    /// What comes before the measured phase: run once, not timed.
    before: Vec<Batch>,
    measured: Vec<Batch>,
    accesses: u64,
}

/// Records `most` accesses of a workload from `phase` on, and everything before; without a phase, from its beginning.
fn record(name: &'static str, workload: &str, phase: Option<&str>, most: u64) -> Stream {
    record_from(Workload::parse(workload, 1).expect("a workload"), name, phase, most)
}

fn record_from(mut source: Workload, name: &'static str, phase: Option<&str>, most: u64) -> Stream {
    let info = source.info();
    let (mut before, mut measured, mut accesses) = (Vec::new(), Vec::new(), 0);
    let mut inside = phase.is_none();
    let mut touched = HashSet::new();
    let end = source.run(&mut |batch: &mut Batch| {
        inside |= batch
            .marks
            .iter()
            .any(|mark| matches!(&mark.event, Event::Phase(name) if Some(&name[..]) == phase));
        let taken = std::mem::take(batch);
        if inside {
            accesses += taken.accesses.len() as u64;
            measured.push(taken);
        } else {
            before.push(first_touches(&taken, &mut touched));
        }
        if accesses >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    end.expect("a workload that runs");
    Stream { name, info, before, measured, accesses }
}

/// What is left of a batch for the pages to be there: its mappings, and the first access to each page.
fn first_touches(batch: &Batch, touched: &mut HashSet<Vpn>) -> Batch {
    let mut kept = Batch::new();
    let mut marks =
        batch.marks.iter().filter(|mark| !matches!(mark.event, Event::Instructions(_))).peekable();
    for (number, &access) in batch.accesses.iter().enumerate() {
        while let Some(mark) = marks.next_if(|mark| mark.at as usize <= number) {
            kept.mark(mark.event.clone());
        }
        if touched.insert(access.addr().page()) {
            kept.push(access);
        }
    }
    marks.for_each(|mark| kept.mark(mark.event.clone()));
    kept
}

const SCAN: &str = "read-only scan";

type Row = (String, Option<f64>, Box<dyn Fn(&Stream) -> f64>);

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = vec![
        (SCAN.into(), None, Box::new(scan)),
        ("one TLB, 1024 entries, 8-way".into(), Some(300.0), Box::new(one_tlb)),
        ("eight TLBs, 128 to 16,384 entries".into(), Some(150.0), Box::new(eight_tlbs)),
    ];
    for machine in ["gem5-plain", "x86-64", "mosaic-8", "x86-64-thp"] {
        for detail in [Detail::Counts, Detail::Timed] {
            rows.push((
                format!("{detail:?} {machine}"),
                None,
                Box::new(move |s| simulate(s, machine, detail)),
            ));
        }
    }
    rows
}

/// The scan of the machine that the targets were set on, in million records a second.
const REFERENCE_SCAN: f64 = 3_900.0;

/// What a whole machine should reach.
fn target(row: &str, stream: &str) -> Option<f64> {
    match (row, stream) {
        ("Counts x86-64", "gups updates") => Some(8.0),
        ("Counts x86-64", "graph500 bfs" | "graph500 whole") => Some(60.0),
        // Hash-placed frames and Horizon LRU: half of a machine without.
        ("Counts mosaic-8", "gups updates") => Some(4.0),
        ("Counts mosaic-8", "graph500 bfs" | "graph500 whole") => Some(30.0),
        ("Timed x86-64", "gups updates") => Some(4.0),
        ("Timed x86-64", "graph500 bfs" | "graph500 whole") => Some(15.0),
        _ => None,
    }
}

/// The processor time that `act` takes: on a shared machine the clock on the wall also counts the neighbours.
fn seconds(act: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let start = now();
    act();
    now() - start
}

fn scan(stream: &Stream) -> f64 {
    seconds(|| {
        let sum = stream
            .measured
            .iter()
            .flat_map(|batch| &batch.accesses)
            .fold(0u64, |sum, a| sum.wrapping_add(a.0));
        black_box(sum);
    })
}

fn one_tlb(stream: &Stream) -> f64 {
    bank(stream, LruBank::with_entries([1024]))
}

fn eight_tlbs(stream: &Stream) -> f64 {
    bank(stream, LruBank::new())
}

fn bank<const TLBS: usize>(stream: &Stream, mut bank: LruBank<TLBS>) -> f64 {
    seconds(|| {
        for batch in &stream.measured {
            bank.access(&batch.accesses, |access| access.addr().page());
        }
        black_box(bank.curve());
    })
}

fn simulate(stream: &Stream, machine: &str, detail: Detail) -> f64 {
    run(stream, &spec::load(machine).expect("a built-in machine"), detail)
}

fn run(stream: &Stream, spec: &MachineSpec, detail: Detail) -> f64 {
    let mut machine = build(spec, detail, 1, &stream.info).expect("a machine");
    for batch in &stream.before {
        machine.batch(batch).expect("memory enough");
    }
    let time = seconds(|| {
        for batch in &stream.measured {
            machine.batch(batch).expect("memory enough");
        }
    });
    black_box(machine.finish("bench"));
    time
}

/// Quicksort with half of its memory, where pages come and go all the time.
fn paging(rounds: usize, most: u64) {
    let stream = record("quicksort", "quicksort", Some("sort"), 3 * most);
    let machines =
        ["rocket-swap", "rocket-accelerator", "linux-zram", "linux-nvme", "lru-swap"].map(|name| {
            let mut spec = spec::load(name).expect("a built-in machine");
            spec.paging.reclaim = spec.paging.reclaim.and_then(|policy| policy.limited(32 << 20));
            spec
        });
    let mut times = machines.each_ref().map(|_| Vec::new());
    for _ in 0..rounds {
        for (spec, times) in machines.iter().zip(&mut times) {
            times.push(run(&stream, spec, Detail::Timed));
        }
    }
    println!("quicksort of 64 MiB in 32 MiB, timed: million references per CPU second, median of {rounds}");
    for (spec, times) in machines.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let rate = stream.accesses as f64 / times[times.len() / 2] / 1e6;
        println!("{:<34} {:>25}", spec.name, format!("{rate:.1}/3"));
    }
}

/// Sixteen cores with requests always waiting, over DRAM and flash. The cache is warm; only jobs count.
fn serving(rounds: usize) {
    const JOBS: &str = "dataset=1GiB,warm=300k,settle=0,jobs=100k";
    println!("jobs on 16 cores, timed: million references per CPU second, median of {rounds}");
    for (workload, skew) in
        [("tatp", "1.226,work=20k"), ("array-swap", "1.312,work=8k"), ("tpcc", "1.652,work=24k")]
    {
        let stream = record(workload, &format!("{workload}:{JOBS},skew={skew}"), Some("serve"), u64::MAX);
        for name in ["flash-dram-only", "astriflash", "os-swap"] {
            let mut spec = spec::load(name).expect("a built-in machine");
            if let Some(tier) = &mut spec.tier {
                // 3 % of the data.
                tier.design.sets = 512;
            }
            let mut rates: Vec<f64> = (0..rounds)
                .map(|_| stream.accesses as f64 / run(&stream, &spec, Detail::Timed) / 1e6)
                .collect();
            rates.sort_by(f64::total_cmp);
            println!(
                "{:<34} {:>25}",
                format!("{workload} {name}"),
                format!("{:.1}/1.5", rates[rates.len() / 2])
            );
        }
    }
}

/// Cores that execute instructions: bound by the core, and by memory; several machines in one pass; and instruction fetch without time.
fn executing(rounds: usize, most: u64) {
    let zen3 = || spec::load("zen3").expect("a built-in machine");
    let (mut fetches, mut counts) = (zen3(), zen3());
    fetches.name = "zen3, counts with fetch".into();
    counts.name = "zen3, counts".into();
    counts.translation.fetch = None;
    let variants = [64, 32, 128, 16].map(|entries| {
        let mut spec = zen3();
        spec.translation.tlb[0].arrays[0].entries = entries;
        spec.translation.tlb[0].arrays[0].ways = entries;
        spec
    });
    println!("zen3, million instructions per CPU second, median of {rounds}");
    for (name, workload, phase, target) in [
        ("quicksort", "quicksort:bytes=4MiB", "sort", 25.0),
        ("btree", "btree:elements=20k,lookups=2M", "lookup", 25.0),
        ("gups", "gups:table=256MiB,updates=20M", "updates", 15.0),
    ] {
        let source = Workload::parse(workload, 1).expect("a workload").blocks(true);
        let stream = record_from(source, name, Some(phase), most / 2);
        let marks = stream.measured.iter().flat_map(|batch| &batch.marks);
        let instructions: u64 = marks
            .map(|mark| match mark.event {
                Event::Instructions(count) => count,
                _ => 0,
            })
            .sum();
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            times[0].push(run(&stream, &variants[0], Detail::Timed));
            times[1].push(variants.iter().map(|spec| run(&stream, spec, Detail::Timed)).sum());
            times[2].push(run(&stream, &counts, Detail::Counts));
            times[3].push(run(&stream, &fetches, Detail::Counts));
        }
        let [one, four, counts, fetched] = times.map(|mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        println!(
            "{name:<12} timed {:.1}/{target}; four TLBs {:.2}/2 of one; counts {:.1}, with instruction fetch {:.1}",
            instructions as f64 / one / 1e6,
            four / one,
            instructions as f64 / counts / 1e6,
            instructions as f64 / fetched / 1e6,
        );
    }
}

fn main() {
    let arguments: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let rounds = arguments.first().copied().unwrap_or(5) as usize;
    let most = arguments.get(1).copied().unwrap_or(20) * 1_000_000;
    // The whole programs are what the TLBs' targets were measured with: initialisation and construction, too.
    let streams = [
        record("gups updates", "gups:table=256MiB,updates=20M", Some("updates"), most),
        record("graph500 bfs", "graph500:scale=18,edge-factor=16,roots=1", Some("bfs"), most),
        record("gups whole", "gups:table=256MiB,updates=20M", None, 3 * most),
        record("graph500 whole", "graph500:scale=18,edge-factor=16,roots=8", None, 3 * most),
    ];
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-') && argument.parse::<u64>().is_err())
        .collect();
    let mut rows = rows();
    rows.retain(|(name, ..)| {
        wanted.is_empty() || name == SCAN || wanted.iter().any(|part| name.contains(part.as_str()))
    });
    println!("million references per CPU second, median of {rounds}; in brackets, percent of the scan");
    print!("{:<34}", "rate/target (share/target)");
    streams.iter().for_each(|stream| print!(" {:>25}", stream.name));
    println!();
    let mut times = vec![[const { Vec::new() }; 4]; rows.len()];
    for _ in 0..rounds {
        for (row, (_, _, measure)) in rows.iter().enumerate() {
            for (stream, times) in streams.iter().zip(&mut times[row]) {
                times.push(measure(stream));
            }
        }
    }
    let mut scans = [f64::NAN; 4];
    for ((name, everywhere, _), times) in rows.iter().zip(&mut times) {
        print!("{name:<34}");
        for ((stream, times), scan) in streams.iter().zip(times).zip(&mut scans) {
            times.sort_by(f64::total_cmp);
            let rate = stream.accesses as f64 / times[times.len() / 2] / 1e6;
            if name == SCAN {
                *scan = rate;
            }
            let share = 100.0 * rate / *scan;
            let target = everywhere.or_else(|| target(name, stream.name));
            let text = match target {
                None => format!("{rate:.1} ({share:.2})"),
                Some(target) => {
                    format!("{rate:.1}/{target:.0} ({share:.2}/{:.2})", 100.0 * target / REFERENCE_SCAN)
                }
            };
            print!(" {text:>25}");
        }
        println!();
    }
    if wanted.is_empty() || wanted.iter().any(|part| "paging".contains(part.as_str())) {
        paging(rounds, most);
    }
    if wanted.is_empty() || wanted.iter().any(|part| "executing".contains(part.as_str())) {
        executing(rounds, most);
    }
    if wanted.is_empty() || wanted.iter().any(|part| "serving".contains(part.as_str())) {
        serving(rounds);
    }
}
