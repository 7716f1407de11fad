//! Tests of what every workload promises: announced memory, determinism, prompt stops, honest estimates, the papers' sizes.

mod blocks;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::ops::ControlFlow;

use pagewalk_trace::{Access, Batch, Event, Source, SourceError};
use pagewalk_vm::addr::{PAGE_BYTES, VirtRange};
use pagewalk_workload::{Workload, catalog};
use rustc_hash::FxHasher;

/// Small, and variants of which no preset for tests has one.
const SPECS: &[&str] = &[
    "graph500:scale=12,roots=3,variant=list",
    "graph500:scale=5,edge-factor=1,roots=1",
    "btree:elements=30,lookups=30",
    "gups-small:pair=on",
    "gups:table=1GiB,updates=20k,init=off",
    "gups-small:pair=on,threads=5",
    "xsbench:grid-points=2,particles=1,lookups=1",
    "graph:algorithm=bc,vertices=1k,degree=10",
    "graph:algorithm=bfs,vertices=16,degree=1",
    "graph:algorithm=bfs,vertices=1k,degree=10",
    "graph:algorithm=bfs,vertices=1k,degree=10,threads=8",
    "graph:algorithm=cc,vertices=1k,degree=10",
    "graph:algorithm=dc,vertices=1k,degree=10",
    "graph:algorithm=dfs,vertices=1k,degree=10",
    "graph:algorithm=pr,vertices=1k,degree=10",
    "graph:algorithm=sssp,vertices=1k,degree=10",
    "graph:algorithm=tc,vertices=1k,degree=10",
    "mummer:reference=100,query=300,min=4",
    "sysbench-small:access=seq",
    "sysbench-small:access=rnd,oper=read",
    "sysbench-small:access=seq,threads=3",
    "sysbench:block=64GiB,total=1MiB,access=rnd,init=off",
    "quicksort:bytes=4KiB,threshold=2",
    "assembler:kmers=30,k=13",
    "assembler:kmers=3k,k=31",
    "objects:bytes=64KiB,operations=5k",
    "linear:n=100",
    "pages-small:fill=random",
    "pages-small:regions=10000",
    "array-swap:dataset=1TiB,skew=0.8,jobs=100,settle=0,warm=0,work=200k",
    "hash-table:dataset=64KiB,updates=1,skew=0,jobs=100,warm=100",
    "red-black-tree:dataset=64KiB,inserts=0.5,updates=0.5,jobs=2k",
    "tatp-small:mix=standard",
    "tatp:dataset=64KiB,mix=standard,skew=2,jobs=10k",
    "tpcc:dataset=1GiB,mix=both,skew=0,jobs=2k",
    "silo:dataset=64KiB,reads=20,writes=20,skew=2,jobs=2k",
    "masstree:dataset=64KiB,puts=1,skew=0,jobs=2k",
];

/// Servers: they have jobs, and touch but a part of their data.
const SERVERS: [&str; 7] = ["array-swap", "hash-table", "red-black-tree", "tatp", "tpcc", "silo", "masstree"];

/// The preset for tests of every workload of the catalogue.
fn small() -> impl Iterator<Item = &'static str> {
    let presets = catalog().iter().flat_map(|entry| entry.presets);
    presets.map(|preset| preset.name).filter(|name| name.ends_with("-small"))
}

/// Every variant of every workload.
fn specs() -> impl Iterator<Item = &'static str> {
    small().chain(SPECS.iter().copied()).filter(|spec| is_wanted(spec))
}

/// Whether the spec is to be tested: all are, unless the environment names a workload.
fn is_wanted(spec: &str) -> bool {
    std::env::var("PAGEWALK_WORKLOAD").map_or(true, |only| spec.starts_with(&only))
}

fn workload(spec: &str, seed: u64) -> Workload {
    Workload::parse(spec, seed).unwrap()
}

/// How many recently touched pages are remembered.
const RECENT: usize = 1 << 14;

/// Everything that a run does, boiled down.
#[derive(Default)]
struct Summary {
    phases: Vec<String>,
    /// Accesses and instructions.
    by_phase: Vec<(u64, u64)>,
    /// Jobs of each phase, and whether one is on.
    jobs: Vec<u64>,
    in_job: bool,
    mapped: MappedRanges,
    peak_bytes: u64,
    touched: BTreeSet<u64>,
    /// Some pages that are in `touched`: most accesses are to them.
    recent: Vec<u64>,
    thread: usize,
    /// Accesses of each thread in the last phase.
    by_thread: Vec<u64>,
}

/// The address ranges that are mapped, by start.
#[derive(Default)]
struct MappedRanges {
    ranges: BTreeMap<u64, VirtRange>,
    heap: VirtRange,
    /// The range of the last access: most accesses are near each other.
    last: VirtRange,
}

impl MappedRanges {
    fn apply(&mut self, event: &Event) {
        self.last = VirtRange::default();
        match event {
            Event::Map(mapping) => {
                assert!(
                    !mapping.range.is_empty() && mapping.range == mapping.range.to_pages(),
                    "{mapping:?}"
                );
                let overlap = self.ranges.values().find(|r| !r.intersect(mapping.range).is_empty());
                assert_eq!(overlap, None, "{mapping:?}");
                self.ranges.insert(mapping.range.start.0, mapping.range);
            }
            Event::Unmap(range) => assert_eq!(self.ranges.remove(&range.start.0), Some(*range)),
            Event::Break(heap) => {
                assert_eq!(heap.end.0 % PAGE_BYTES, 0);
                assert!(self.heap.is_empty() || heap.covers(self.heap));
                self.heap = *heap;
            }
            Event::ThreadStack(stack) => assert!(self.ranges.values().any(|r| r.covers(*stack)), "{stack:?}"),
            Event::Instructions(_)
            | Event::Phase(_)
            | Event::JobBegin { .. }
            | Event::JobEnd
            | Event::Thread(_)
            | Event::ThreadEnd(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }

    fn assert_holds(&mut self, access: Access) {
        let bytes = VirtRange::sized(access.addr(), access.bytes());
        if self.last.covers(bytes) {
            return;
        }
        let below = self.ranges.range(..=access.addr().0).next_back().map(|(_, range)| *range);
        self.last = if self.heap.covers(bytes) { self.heap } else { below.unwrap_or_default() };
        assert!(self.last.covers(bytes), "{access:?} lies in no mapping");
    }

    fn bytes(&self) -> u64 {
        self.heap.bytes() + self.ranges.values().map(|range| range.bytes()).sum::<u64>()
    }
}

impl Summary {
    fn of(spec: &str, seed: u64) -> Self {
        let mut summary = Self { recent: vec![0; RECENT], ..Self::default() };
        let mut sink = |batch: &mut Batch| {
            summary.take(batch);
            // Sinks may keep the buffers.
            *batch = Batch::default();
            ControlFlow::Continue(())
        };
        workload(spec, seed).run(&mut sink).unwrap();
        summary
    }

    fn take(&mut self, batch: &Batch) {
        assert!(batch.accesses.len() <= Batch::FULL && !batch.is_empty());
        if !batch.accesses.is_empty() {
            // Whatever else is marked there.
            let mut first = batch.marks.iter().take_while(|mark| mark.at == 0);
            assert!(first.any(|mark| matches!(mark.event, Event::Instructions(_))), "{:?}", batch.marks);
        }
        let mut marks = batch.marks.iter().peekable();
        for at in 0..=batch.accesses.len() {
            while let Some(mark) = marks.next_if(|mark| mark.at as usize == at) {
                self.mark(&mark.event);
            }
            let Some(&access) = batch.accesses.get(at) else { break };
            assert!(access.is_some() && access.0 & Access::RESERVED == 0);
            self.mapped.assert_holds(access);
            self.by_phase.last_mut().expect("an access before the first phase").0 += 1;
            self.by_thread[self.thread] += 1;
            let page = access.addr().page().0;
            let recent = &mut self.recent[page as usize % RECENT];
            if std::mem::replace(recent, page) != page {
                self.touched.insert(page);
            }
        }
        assert_eq!(marks.next(), None, "marks out of order");
    }

    fn mark(&mut self, event: &Event) {
        self.mapped.apply(event);
        self.peak_bytes = self.peak_bytes.max(self.mapped.bytes());
        match event {
            Event::Instructions(count) => self.by_phase.last_mut().expect("no phase").1 += count,
            Event::Phase(name) => {
                self.phases.push(name.clone());
                self.by_phase.push((0, 0));
                self.jobs.push(0);
                assert!(!self.in_job, "a phase begins within a job");
                assert_eq!(self.thread, 0, "a phase begins with several threads");
                self.by_thread = vec![0];
            }
            Event::JobBegin { .. } => {
                assert!(!std::mem::replace(&mut self.in_job, true), "a job in a job");
                *self.jobs.last_mut().expect("a job before the first phase") += 1;
            }
            Event::Thread(thread) => {
                self.thread = thread.0 as usize - 1;
                self.by_thread.resize(self.by_thread.len().max(self.thread + 1), 0);
            }
            Event::JobEnd => assert!(std::mem::take(&mut self.in_job), "no job to end"),
            _ => {}
        }
    }
}

#[test]
fn each_workload_has_a_preset_for_tests() {
    for entry in catalog() {
        let expected = format!("{}-small", entry.name);
        assert!(small().any(|name| name == expected), "no preset `{expected}`");
    }
}

#[test]
fn runs_are_complete_announced_and_verified() {
    for spec in specs() {
        let summary = Summary::of(spec, 0);
        let name = workload(spec, 0).info().name;
        let entry = catalog().iter().find(|e| name.starts_with(&format!("{}:", e.name))).unwrap();
        // Of an algorithm that is chosen, the phase named after it.
        let chosen = |phase: &&str| name.contains(&format!("algorithm={phase},"));
        let phases =
            entry.phases.iter().filter(|phase| entry.name != "graph" || **phase == "build" || chosen(phase));
        assert_eq!(summary.phases, phases.copied().collect::<Vec<_>>(), "{spec}");
        for (phase, (accesses, instructions)) in summary.phases.iter().zip(summary.by_phase) {
            // Nothing but the call of an allocator.
            if accesses < 10 {
                continue;
            }
            // Compiled code makes one data access in one to ten instructions; generating an edge computes more.
            // So does allocating the six objects of an edge.
            let allowed = match (entry.name, phase.as_str()) {
                (_, "generate") => 50.0..500.0,
                ("graph", "build") => 1.0..25.0,
                // Only pages are touched.
                (_, "warm-up") => 0.0..0.1,
                // Jobs compute much beside, and the longer a job, the less often it touches its stack.
                (server, _) if SERVERS.contains(&server) => 10.0..2000.0,
                // One random number per access.
                ("sysbench", "access") | ("quicksort", "fill") => 1.0..20.0,
                _ => 1.0..10.0,
            };
            let ratio = instructions as f64 / accesses as f64;
            assert!(allowed.contains(&ratio), "{spec}: {ratio} instructions per access in phase {phase}");
        }
    }
}

#[test]
fn threads_divide_the_work_of_one() {
    let algorithms = ["bc", "bfs", "cc", "dc", "pr", "sssp", "tc"];
    let graphs = algorithms.map(|algorithm| format!("graph:algorithm={algorithm},vertices=1k,degree=10"));
    let others =
        ["gups-small", "gups-small:pair=on", "sysbench-small:access=rnd", "sysbench-small:oper=read"];
    for spec in graphs.into_iter().chain(others.map(str::to_owned)).filter(|spec| is_wanted(spec)) {
        let separator = if spec.contains(':') { ',' } else { ':' };
        let [one, four] =
            [1, 4].map(|threads| Summary::of(&format!("{spec}{separator}threads={threads}"), 0));
        assert_eq!((&one.by_phase, one.by_thread.len()), (&four.by_phase, 1), "{spec}");
        // Each thread of sysbench has passes of its own.
        assert!(one.touched == four.touched || spec.starts_with("sysbench"), "{spec}");
        let [least, most] = [four.by_thread.iter().min(), four.by_thread.iter().max()].map(Option::unwrap);
        assert!(four.by_thread.len() == 4 && *least * 3 > *most * 2, "{spec}: {:?}", four.by_thread);
    }
    let error = Workload::parse("graph:algorithm=dfs,threads=2", 0).err().expect("refused").to_string();
    assert!(error.contains("one vertex after the other"), "{error}");
}

/// What a run emits, in order, as one number.
fn digest(spec: &str, seed: u64) -> u64 {
    let mut digest = FxHasher::default();
    let mut sink = |batch: &mut Batch| {
        batch.accesses.iter().for_each(|access| digest.write_u64(access.0));
        for mark in &batch.marks {
            digest.write_u32(mark.at);
            digest.write(format!("{:?}", mark.event).as_bytes());
        }
        ControlFlow::Continue(())
    };
    workload(spec, seed).run(&mut sink).unwrap();
    digest.finish()
}

#[test]
fn the_same_seed_gives_the_same_stream_and_another_seed_another() {
    for spec in specs() {
        let [first, again, other] = [7, 7, 8].map(|seed| digest(spec, seed));
        assert_eq!(first, again, "{spec}");
        // Only this one has nothing random about it.
        let name = workload(spec, 0).info().name;
        assert_eq!(first == other, name.contains("access=seq"), "{spec}");
    }
}

#[test]
fn a_source_can_run_twice() {
    let mut source = workload("btree:elements=1k,lookups=100", 0);
    let mut totals = Vec::new();
    for _ in 0..2 {
        let mut total = 0;
        source
            .run(&mut |batch: &mut Batch| {
                total += batch.accesses.len();
                ControlFlow::Continue(())
            })
            .unwrap();
        totals.push(total);
    }
    assert_eq!(totals[0], totals[1]);
}

#[test]
fn a_break_ends_the_run_at_once_wherever_it_comes() {
    for spec in specs() {
        for breaks_at in [1, 2, 3, 10] {
            let mut batches = 0;
            let answer = workload(spec, 0).run(&mut |_: &mut Batch| {
                batches += 1;
                if batches == breaks_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(matches!(answer, Ok(())), "{spec}");
            assert!(batches <= breaks_at, "{spec}: {batches} batches, break at {breaks_at}");
        }
    }
}

#[test]
fn expected_accesses_are_within_a_fifth() {
    let sizes = [
        "graph500:scale=16,roots=1",
        "graph500:scale=14,edge-factor=4",
        "graph500:scale=15,variant=list",
        "btree:elements=10k,lookups=0",
        "btree:elements=700k,lookups=10k",
        "btree:elements=20k,lookups=100k",
        "gups-small:pair=on",
        "gups:table=64GiB,updates=50k,init=off",
        "xsbench:grid-points=100,particles=10",
        "graph:algorithm=bc,vertices=10k",
        "graph:algorithm=bfs,vertices=10k,degree=10",
        "graph:algorithm=cc,vertices=10k",
        "graph:algorithm=dc,vertices=10k",
        "graph:algorithm=dfs,vertices=10k",
        "graph:algorithm=pr,vertices=10k",
        "graph:algorithm=sssp,vertices=10k",
        "graph:algorithm=tc,vertices=10k",
        "mummer:reference=300k,query=10k",
        "sysbench:block=64GiB,total=5MiB,init=off",
        "quicksort:bytes=4KiB",
        "quicksort:bytes=4MiB,threshold=2",
        "quicksort:bytes=300KiB,threshold=100",
        "assembler:kmers=20k,k=13",
        "assembler:kmers=5k,k=31",
        "objects:bytes=1MiB,operations=100",
        "objects:bytes=64KiB,operations=50k",
        "linear:n=20",
        "pages:pattern=cyclic",
        "tatp:mix=standard",
        "tatp:mix=standard,dataset=1TiB,skew=0.8",
    ];
    let variants =
        ["", ":dataset=1TiB,skew=0.5,work=1M,jobs=1k,settle=0,warm=1k", ":dataset=1TiB,jobs=1k,warm=100k"];
    let servers = SERVERS.iter().flat_map(|server| variants.map(|variant| format!("{server}{variant}")));
    let mut wrong = Vec::new();
    let specs = small().chain(sizes).map(str::to_owned).chain(servers);
    for spec in specs.filter(|spec| is_wanted(spec)) {
        let mut accesses = 0u64;
        let mut source = workload(&spec, 1);
        let expected = source.info().expected_accesses.unwrap();
        source
            .run(&mut |batch: &mut Batch| {
                accesses += batch.accesses.len() as u64;
                ControlFlow::Continue(())
            })
            .unwrap();
        let ratio = accesses as f64 / expected as f64;
        if !(0.8..1.2).contains(&ratio) {
            wrong.push(format!("{spec}: {accesses} accesses, {expected} expected ({ratio:.3})"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// For releases: `cargo test --release -p pagewalk-workload -- --ignored`.
#[test]
#[ignore = "takes minutes and 9 GiB of memory"]
fn the_papers_presets_run_and_verify() {
    let presets = [
        "graph500-paper",
        "btree-paper",
        "gups-paper",
        "gups-64g",
        "xsbench-paper",
        "graph-paper",
        "graph-bc",
        "graph-cc",
        "graph-dc",
        "graph-dfs",
        "graph-pr",
        "graph-sssp",
        "mummer-paper",
        "sysbench-paper",
        "pages-paper",
    ];
    for preset in presets {
        let mut source = workload(preset, 0);
        let expected = source.info().expected_accesses.unwrap();
        let (mut accesses, mut mapped, mut peak_bytes) = (0u64, MappedRanges::default(), 0);
        source
            .run(&mut |batch: &mut Batch| {
                accesses += batch.accesses.len() as u64;
                batch.marks.iter().for_each(|mark| mapped.apply(&mark.event));
                peak_bytes = peak_bytes.max(mapped.bytes());
                ControlFlow::Continue(())
            })
            .unwrap();
        let estimate = accesses as f64 / expected as f64;
        let size = peak_bytes as f64 / source.footprint_bytes() as f64;
        println!(
            "{preset}: {accesses} accesses, {estimate:.3} of the estimate, {peak_bytes} bytes mapped at most"
        );
        assert!((0.8..1.2).contains(&estimate), "{preset}: {estimate}");
        assert!((0.98..1.02).contains(&size), "{preset}: {size}");
    }
}

/// The Mosaic paper's footprints in MiB, and those of its swap experiment, with the spec that gives them here.
#[test]
fn footprints_are_the_papers() {
    let table = [
        ("graph500-paper", 1010.0),
        ("btree-paper", 2618.0),
        ("gups-paper", 8207.0),
        ("xsbench-paper", 1012.0),
        ("graph500:variant=csr,scale=22,edge-factor=31", 4158.0),
        ("graph500:variant=csr,scale=22,edge-factor=49", 6459.0),
        ("btree:elements=41800000", 4154.0),
        ("btree:elements=64930k", 6451.0),
        ("xsbench:grid-points=8313", 4156.0),
        ("xsbench:grid-points=12921", 6459.0),
    ];
    for (spec, mebibytes) in table {
        let ratio = workload(spec, 0).footprint_bytes() as f64 / (1 << 20) as f64 / mebibytes;
        assert!((0.98..1.02).contains(&ratio), "{spec}: {ratio:.4} of the published {mebibytes} MiB");
    }
}

/// The ME-HPT paper's data in GB, where its page tables agree with them, with the preset that stands for it.
#[test]
fn footprints_are_nearly_those_of_the_me_hpt_paper() {
    let table = [
        ("graph-bfs", 9.3),
        ("graph-cc", 9.3),
        ("graph-dc", 9.3),
        ("graph-dfs", 9.0),
        ("graph-pr", 9.3),
        ("graph-sssp", 9.3),
    ];
    for (spec, gigabytes) in table {
        let ratio = workload(spec, 0).footprint_bytes() as f64 / 1e9 / gigabytes;
        assert!((0.96..1.02).contains(&ratio), "{spec}: {ratio:.4} of the published {gigabytes} GB");
    }
    for spec in ["gups-64g", "sysbench-paper", "sysbench-64g"] {
        let footprint = workload(spec, 0).footprint_bytes();
        assert!((64 << 30..(64 << 30) + 2 * PAGE_BYTES).contains(&footprint), "{spec}: {footprint}");
    }
}

/// The footprint by arithmetic is what a run maps, and nearly what it touches.
#[test]
fn footprints_are_real() {
    let mut wrong = Vec::new();
    for spec in [
        "graph500-small",
        "graph500-small:variant=list",
        "btree-small",
        "gups-small",
        "xsbench-small",
        "graph-small",
        "graph:algorithm=bc,vertices=10k",
        "graph:algorithm=pr,vertices=10k,degree=15",
        "graph:algorithm=tc,vertices=20k",
        "mummer-small",
        "mummer:reference=300k,query=200k",
        "sysbench-small",
        "quicksort-small",
        "assembler-small",
        "assembler:kmers=100k,k=31",
        "objects-small",
        "linear-small",
        "linear:n=150",
        "pages-small",
    ] {
        let footprint = workload(spec, 0).footprint_bytes() as f64;
        let summary = Summary::of(spec, 0);
        let touched = summary.touched.len() as f64 * PAGE_BYTES as f64;
        // A stack, the first heap and transient blocks come on top, in part touched.
        let slack = f64::from(512 << 10);
        for (what, bytes) in [("mapped", summary.peak_bytes as f64), ("touched", touched)] {
            let within = (0.98 * footprint..1.02 * footprint + slack).contains(&bytes);
            if !within {
                wrong.push(format!("{spec}: {what} {bytes} bytes, footprint {footprint}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Servers announce their jobs and one stack, and map what they say, at any size.
#[test]
fn servers_have_their_jobs_and_map_what_they_say() {
    for server in SERVERS {
        // One warehouse is the least that there can be.
        let smallest = if server == "tpcc" { "96MiB" } else { "1MiB" };
        for dataset in [smallest, "100MiB", "1TiB"] {
            let spec = format!("{server}:dataset={dataset},jobs=70,settle=20,warm=100");
            let summary = Summary::of(&spec, 3);
            assert_eq!(summary.jobs, [0, 20, 70], "{spec}");
            let footprint = workload(&spec, 3).footprint_bytes() as f64;
            let within = (0.999 * footprint..1.001 * footprint + f64::from(256 << 10))
                .contains(&(summary.peak_bytes as f64));
            assert!(within, "{spec}: {} bytes mapped, footprint {footprint}", summary.peak_bytes);
            let accesses = summary.by_phase[2].0 / 70;
            assert!((30..=200).contains(&accesses), "{spec}: {accesses} accesses a job");
            assert!(workload(&spec, 3).host_bytes() < 2 << 20, "{spec}");
        }
    }
}

/// The accesses of the warm-up, and of each job after it but for those to its stack.
fn jobs_of(spec: &str) -> (Vec<Access>, Vec<Vec<Access>>) {
    let (mut warm_up, mut jobs, mut in_job, mut stack) =
        (Vec::new(), Vec::new(), false, VirtRange::default());
    workload(spec, 0)
        .run(&mut |batch: &mut Batch| {
            let mut marks = batch.marks.iter().peekable();
            for at in 0..=batch.accesses.len() {
                while let Some(mark) = marks.next_if(|mark| mark.at as usize == at) {
                    match mark.event {
                        Event::ThreadStack(range) => stack = range,
                        Event::JobBegin { .. } => {
                            in_job = true;
                            jobs.push(Vec::new());
                        }
                        Event::JobEnd => in_job = false,
                        _ => {}
                    }
                }
                match batch.accesses.get(at) {
                    Some(&access) if !in_job => warm_up.push(access),
                    Some(access) if !stack.contains(access.addr()) => jobs.last_mut().unwrap().push(*access),
                    _ => {}
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    (warm_up, jobs)
}

/// A job of the warm-up is the same job: of its accesses to each page the first, and the first store.
#[test]
fn a_warm_up_touches_the_pages_of_its_jobs() {
    for server in SERVERS {
        let (warm_up, _) = jobs_of(&format!("{server}-small:warm=3k,settle=0,jobs=1"));
        let (nothing, whole) = jobs_of(&format!("{server}-small:warm=0,settle=0,jobs=3001"));
        assert_eq!(nothing, []);
        let mut expected = Vec::new();
        for job in &whole[..3000] {
            let (mut touched, mut stored) = (BTreeSet::new(), BTreeSet::new());
            expected.extend(job.iter().copied().filter(|access| {
                let page = access.addr().page().0;
                let is_first_store = access.is_write() && stored.insert(page);
                touched.insert(page) || is_first_store
            }));
        }
        assert_eq!(warm_up.len(), expected.len(), "{server}");
        assert!(warm_up == expected, "{server}");
    }
}

/// A dataset of any size takes no more memory than what the jobs change.
#[test]
fn a_tebibyte_is_served_in_little_memory() {
    for server in SERVERS {
        let spec = format!("{server}:dataset=1TiB,jobs=1M,settle=0,warm=10M");
        assert!(workload(&spec, 0).host_bytes() < 2 << 30, "{spec}");
    }
}

#[test]
fn gups_initialises_with_one_store_per_word_and_updates_with_four_accesses() {
    let summary = Summary::of("gups:table=1MiB,updates=1000", 0);
    // The header of the table's block is the one access more.
    assert_eq!(summary.by_phase.iter().map(|p| p.0).collect::<Vec<_>>(), [(1 << 20) / 8 + 1, 4000]);
}

#[test]
fn a_workload_beyond_memory_is_refused_before_it_starts() {
    let mut batches = 0;
    let answer = workload("gups:table=1TiB", 0).run(&mut |_: &mut Batch| {
        batches += 1;
        ControlFlow::Continue(())
    });
    assert!(matches!(&answer, Err(SourceError::Input(text)) if text.contains("needs 1.0 TiB")), "{answer:?}");
    assert_eq!(batches, 0);
}

#[test]
fn seed_zero_is_the_original_benchmark() {
    // HPC Challenge's first stream starts with x^0 = 1, so its first update is of word 2.
    let (mut in_updates, mut updates) = (false, Vec::new());
    workload("gups:table=1MiB,updates=1k", 0)
        .run(&mut |batch: &mut Batch| {
            if in_updates && updates.is_empty() {
                updates = batch.accesses.clone();
            }
            in_updates |= batch.marks.iter().any(|m| m.event == Event::Phase("updates".into()));
            ControlFlow::Continue(())
        })
        .unwrap();
    let (init_base, first) = (updates[2].addr().0 & !(PAGE_BYTES - 1), updates[2]);
    assert_eq!(first.addr().0, init_base + 16 + 8 * 2);
    assert!(!first.is_write() && updates[3].is_write() && updates[3].addr() == first.addr());
}
