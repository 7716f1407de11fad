//! What a machine counted, as rows; sums over phases and ratios come from the rows alone.

use pagewalk_vm::addr::PageSize;
use pagewalk_vm::reclaim::PlacedOrder;
use pagewalk_vm::table::{PageTable, WalkCaching};
use pagewalk_vm::tlb::LevelCounts;

use super::Machine;
use crate::metrics::{Fidelity, Metric, Number, RunResult};
use crate::spec::settings::TableSpec;
use crate::time::Clock;

/// Events that no mechanism counts by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct EventCounts {
    pub(super) stores: u64,
    /// Accesses that were made again because a page was not in DRAM.
    pub(super) repeated: u64,
    pub(super) instructions: u64,
    pub(super) walks: u64,
    /// By level, leaf first.
    pub(super) walk_references: [u64; 5],
    /// Lines of walk tables fetched for walk caches.
    pub(super) walk_cache_refills: u64,
    /// By page size.
    pub(super) faults: [u64; 3],
    pub(super) major_faults: u64,
    /// Faults for pages that had left, and were in memory again or still.
    pub(super) swap_cache_hits: u64,
    /// Faults for pages of files and shared memory that another mapping had.
    pub(super) page_cache_hits: u64,
    /// Pages read because another's copy lay beside theirs, and how many of them nobody wanted.
    pub(super) read_ahead: u64,
    pub(super) read_ahead_unused: u64,
    /// Pages that left before somebody needed their frame.
    pub(super) reclaimed_ahead: u64,
    /// Pages copied because their frame was not one of theirs any more.
    pub(super) copied_pages: u64,
    pub(super) protection_faults: u64,
    pub(super) unannounced_pages: u64,
    pub(super) refused_calls: u64,
    pub(super) dirty_updates: u64,
    pub(super) shootdowns: u64,
    pub(super) dropped_pages: u64,
    pub(super) splits: u64,
    /// Pages copied because one of those that shared a frame was written to.
    pub(super) copies_on_write: u64,
    /// Huge pages made of small ones because the program asked for it.
    pub(super) collapses: u64,
    /// By page size, now.
    pub(super) resident_pages: [u64; 3],
    /// First touches of pages of which the trace says where they are.
    pub(super) given_pages: u64,
    /// First touches of pages for which the machine chose a frame.
    pub(super) own_pages: u64,
    pub(super) resident_bytes_peak: u64,
    /// What page tables took of the kernel's time, beside entering pages.
    pub(super) table_upkeep_ps: u64,
    pub(super) lines_visited: u64,
    pub(super) lines_moved: u64,
    /// Rows of chunk tables saved and restored at switches between processes.
    pub(super) chunk_rows_switched: u64,
}

/// Whether a row grows by events or is a level at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountKind {
    /// Counts events: a phase's share is the difference of two snapshots.
    Sum,
    /// A state: a phase reports its value at the end.
    Level,
}

/// One count, before it becomes a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct CountRow {
    stage: String,
    metric: String,
    unit: &'static str,
    value: u64,
    kind: CountKind,
    fidelity: Fidelity,
}

impl CountRow {
    /// A count of events.
    pub fn sum(stage: &str, metric: &str, unit: &'static str, value: u64, fidelity: Fidelity) -> Self {
        Self { stage: stage.into(), metric: metric.into(), unit, value, kind: CountKind::Sum, fidelity }
    }

    /// Whether this is the row of `metric` at `stage`.
    pub fn is(&self, stage: &str, metric: &str) -> bool {
        self.stage == stage && self.metric == metric
    }

    /// The count.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// A state.
    pub fn level(stage: &str, metric: &str, unit: &'static str, value: u64, fidelity: Fidelity) -> Self {
        Self { kind: CountKind::Level, ..Self::sum(stage, metric, unit, value, fidelity) }
    }
}

impl<T: PageTable, C: Clock> Machine<T, C> {
    pub(super) fn begin_phase(&mut self, name: &str) {
        // Otherwise a wait that this snapshot counts could still be hidden by what comes after it.
        self.clock.settle();
        let rows = self.rows();
        self.phases.push((name.to_owned(), rows));
    }

    pub(super) fn result(&self, source: &str) -> RunResult {
        let end = self.rows();
        let mut metrics = metrics_of(&end, None);
        let latencies = self.serving.as_ref().filter(|_| C::TIMED).map(|serving| &serving.latencies);
        metrics.extend(latencies.map(|of| of.metrics(None)).into_iter().flatten());
        for (number, (name, start)) in self.phases.iter().enumerate() {
            let end = self.phases.get(number + 1).map_or(&end, |(_, next)| next);
            let share: Vec<CountRow> = start
                .iter()
                .zip(end)
                .map(|(start, end)| {
                    let before = if end.kind == CountKind::Sum { start.value } else { 0 };
                    CountRow { value: end.value - before, ..end.clone() }
                })
                .collect();
            metrics.extend(metrics_of(&share, Some(name)));
            // Before the first phase is number 0.
            metrics.extend(latencies.map(|of| of.metrics(Some((number + 1, name)))).into_iter().flatten());
        }
        let machine = self.spec.name.clone();
        RunResult { machine, source: source.to_owned(), metrics, spans: self.clock.spans() }
    }

    /// All counts now, always the same rows in the same order.
    pub(super) fn rows(&self) -> Vec<CountRow> {
        let mut rows = Vec::new();
        self.program_rows(&mut rows);
        self.translation_rows(&mut rows);
        self.paging_rows(&mut rows);
        if let Some(serving) = self.serving.as_ref().filter(|_| C::TIMED) {
            serving.latencies.rows(&mut rows);
        }
        self.clock.rows(&mut rows);
        rows
    }

    fn program_rows(&self, rows: &mut Vec<CountRow>) {
        let made: u64 = self.cores.iter().map(|core| core.accesses).sum();
        let accesses = made - self.counts.repeated;
        let mut program = |metric: &str, value| {
            rows.push(CountRow::sum("program", metric, "count", value, Fidelity::Observed));
        };
        program("accesses", accesses);
        program("loads", accesses - self.counts.stores);
        program("stores", self.counts.stores);
        program("instructions", self.counts.instructions);
    }

    fn translation_rows(&self, rows: &mut Vec<CountRow>) {
        for (at, level) in self.tlb_counts().iter().enumerate() {
            let stage = format!("tlb.l{}", at + 1);
            let mut tlb = |metric: &str, value| {
                rows.push(CountRow::sum(&stage, metric, "count", value, Fidelity::Modelled));
            };
            tlb("accesses", level.hits + level.misses);
            tlb("hits", level.hits);
            tlb("misses", level.misses);
            tlb("sub-entry-misses", level.sub_entry_misses);
        }
        let mut walk = |metric: &str, value| {
            rows.push(CountRow::sum("walk", metric, "count", value, Fidelity::Modelled));
        };
        walk("walks", self.counts.walks);
        walk("references", self.counts.walk_references.iter().sum());
        for level in 0..T::LEVELS as usize {
            walk(&format!("references.level{level}"), self.counts.walk_references[level]);
        }
        walk("dirty-updates", self.counts.dirty_updates);
        let caches = || self.cores.iter().filter_map(|core| core.walk_cache.as_ref());
        let Some(first) = caches().next() else { return };
        let mut row = |stage: &str, metric: &str, value| {
            rows.push(CountRow::sum(stage, metric, "count", value, Fidelity::Modelled));
        };
        for (at, (kind, _)) in first.kinds().into_iter().enumerate() {
            row("walk", &format!("kind.{kind}"), caches().map(|cache| cache.kinds()[at].1).sum());
        }
        row("walk-cache", "lookups", caches().map(|cache| cache.lookups()).sum());
        for (at, (part, _)) in first.hits().into_iter().enumerate() {
            row("walk-cache", &format!("hits.{part}"), caches().map(|cache| cache.hits()[at].1).sum());
        }
        if !first.kinds().is_empty() {
            row("walk-cache", "refills", self.counts.walk_cache_refills);
        }
    }

    fn paging_rows(&self, rows: &mut Vec<CountRow>) {
        let counts = &self.counts;
        let mut fault = |metric: &str, value| {
            rows.push(CountRow::sum("fault", metric, "count", value, Fidelity::Modelled));
        };
        for size in PageSize::ALL {
            fault(&format!("minor.{size}"), counts.faults[size as usize]);
        }
        fault("page-cache", counts.page_cache_hits);
        fault("protection", counts.protection_faults);
        fault("unannounced-pages", counts.unannounced_pages);
        let mut kernel = |metric: &str, value| {
            rows.push(CountRow::sum("kernel", metric, "count", value, Fidelity::Modelled));
        };
        kernel("shootdowns", counts.shootdowns);
        kernel("dropped-pages", counts.dropped_pages);
        kernel("huge-page-splits", counts.splits);
        kernel("huge-page-collapses", counts.collapses);
        kernel("copies-on-write", counts.copies_on_write);
        kernel("refused-calls", counts.refused_calls);
        let mut bytes = |stage: &str, metric: &str, value| {
            rows.push(CountRow::level(stage, metric, "bytes", value, Fidelity::Modelled));
        };
        bytes("frames", "resident", self.resident_bytes());
        bytes("frames", "resident-peak", counts.resident_bytes_peak);
        let resident = self.resident_pages();
        let large = |size: PageSize| resident[size as usize] * size.bytes();
        bytes("frames", "resident-huge", large(PageSize::Size2M) + large(PageSize::Size1G));
        bytes("frames", "memory", self.spec.frames.memory_bytes());
        if self.frames.takes_given() {
            let mut pages = |metric: &str, value| {
                rows.push(CountRow::sum("frames", metric, "count", value, Fidelity::Modelled));
            };
            pages("given-pages", counts.given_pages);
            pages("own-pages", counts.own_pages);
        }
        if let Some(counts) = self.frames.crowd_counts() {
            let mut crowd = |metric: &str, value| {
                rows.push(CountRow::sum("frames", metric, "count", value, Fidelity::Modelled));
            };
            crowd("compactions", counts.compactions);
            crowd("compaction-failures", counts.failures);
            crowd("migrated-pages", counts.migrated);
            crowd("others-reclaimed-pages", counts.reclaimed);
        }
        if self.tier_by_kernel {
            rows.push(CountRow::sum("fault", "major", "count", counts.major_faults, Fidelity::Modelled));
        }
        self.reclaim_rows(rows);
        let mut bytes = |stage: &str, metric: &str, value| {
            rows.push(CountRow::level(stage, metric, "bytes", value, Fidelity::Modelled));
        };
        bytes("table", "bytes", self.tables.bytes);
        bytes("table", "bytes-peak", self.tables.bytes_peak);
        bytes("table", "contiguous", self.tables.largest_bytes);
        rows.push(CountRow::sum("table", "upkeep", "ps", counts.table_upkeep_ps, Fidelity::Estimated));
        if matches!(self.spec.table, TableSpec::Radix { .. } | TableSpec::Toc) {
            return;
        }
        let chunk_rows = self.processes.iter().map(|process| process.table.chunk_rows() as u64).sum();
        rows.push(CountRow::level("table", "chunk-rows", "count", chunk_rows, Fidelity::Modelled));
        let mut table = |metric: &str, value| {
            rows.push(CountRow::sum("table", metric, "count", value, Fidelity::Modelled));
        };
        table("chunk-rows-switched", counts.chunk_rows_switched);
        table("lines-visited", counts.lines_visited);
        table("lines-moved", counts.lines_moved);
    }

    /// Hash-placed frames, and pages that left; nothing for a machine without them.
    fn reclaim_rows(&self, rows: &mut Vec<CountRow>) {
        if let Some(placed) = self.frames.hash_placed() {
            let mut count = |metric: &str, value| {
                rows.push(CountRow::level("frames", metric, "count", value, Fidelity::Modelled));
            };
            count("placed", placed.used());
            count("placed-peak", self.frames.most_placed());
            count("placed-total", placed.shape().frames());
            // All of memory before there was one: the first conflict lies above what was reached.
            count("first-conflict", self.frames.first_conflict().unwrap_or(placed.shape().frames()));
        }
        if self.spec.reclaim.is_none() {
            return;
        }
        let mut count = |stage: &str, metric: &str, value| {
            rows.push(CountRow::sum(stage, metric, "count", value, Fidelity::Modelled));
        };
        count("fault", "major", self.counts.major_faults);
        count("fault", "swap-cache", self.counts.swap_cache_hits);
        count("reclaim", "evictions", self.frames.evictions());
        count("reclaim", "copied-pages", self.counts.copied_pages);
        if let Some(PlacedOrder::Horizon(lru) | PlacedOrder::SampledHorizon(lru, _)) =
            self.frames.placed_order()
        {
            count("reclaim", "horizon-advances", lru.advances());
        }
        if let Some(PlacedOrder::SampledHorizon(_, daemon)) = self.frames.placed_order() {
            count("reclaim", "scans", daemon.scans());
            count("reclaim", "accessed-bits-read", daemon.asked());
        }
        if let Some(PlacedOrder::Iceberg(lru)) = self.frames.placed_order() {
            count("reclaim", "forced-evictions", lru.forced());
        }
        count("swap", "pages-in", self.swap.pages_in());
        count("swap", "pages-out", self.swap.pages_out());
        count("swap", "clean-evictions", self.swap.clean());
        count("swap", "read-ahead", self.counts.read_ahead);
        count("swap", "read-ahead-unused", self.counts.read_ahead_unused);
        count("reclaim", "ahead", self.counts.reclaimed_ahead);
        if let Some(accelerated) = &self.accelerated {
            let counts = accelerated.counts;
            count("accelerator", "fetches", counts.fetches);
            count("accelerator", "service-faults", counts.services);
            count("accelerator", "booked", counts.booked);
            count("accelerator", "early-drains", counts.early_drains);
            count("accelerator", "evictions", counts.evictions);
            count("accelerator", "daemon-runs", counts.daemon_runs);
            let sleep_ps = counts.sleep_ps;
            rows.push(CountRow::level("accelerator", "daemon-sleep", "ps", sleep_ps, Fidelity::Modelled));
        }
    }

    /// The TLB levels' counts over all cores, the front filter's known hits included.
    fn tlb_counts(&self) -> Vec<LevelCounts> {
        let mut sums = vec![LevelCounts::default(); self.spec.tlb.len()];
        for core in &self.cores {
            for (sum, level) in sums.iter_mut().zip(core.tlbs.levels()) {
                let level = level.counts();
                sum.hits += level.hits;
                sum.misses += level.misses;
                sum.sub_entry_misses += level.sub_entry_misses;
            }
            if let Some(first) = sums.first_mut() {
                first.hits += core.accesses - core.looked_up;
            }
        }
        sums
    }
}

/// The rows as metrics, followed by the ratios that users compare.
fn metrics_of(rows: &[CountRow], phase: Option<&str>) -> Vec<Metric> {
    let metric = |stage: &str, metric: &str, unit: &str, value, fidelity| Metric {
        stage: stage.into(),
        phase: phase.map(str::to_owned),
        metric: metric.into(),
        unit: unit.into(),
        value,
        fidelity,
    };
    let value = |stage: &str, name: &str| rows.iter().find(|row| row.is(stage, name)).map(|row| row.value);
    let mut metrics: Vec<Metric> = rows
        .iter()
        .map(|row| metric(&row.stage, &row.metric, row.unit, Some(Number::Count(row.value)), row.fidelity))
        .collect();
    let mut ratio =
        |stage: &str, name: &str, unit: &str, top: Option<u64>, bottom: Option<u64>, scale: f64, fidelity| {
            let (Some(top), Some(bottom)) = (top, bottom) else { return };
            let value = (bottom > 0).then(|| Number::Ratio(scale * top as f64 / bottom as f64));
            metrics.push(metric(stage, name, unit, value, fidelity));
        };
    let instructions = value("program", "instructions");
    for level in 1..=3 {
        let stage = format!("tlb.l{level}");
        let misses = value(&stage, "misses");
        ratio(&stage, "miss-rate", "fraction", misses, value(&stage, "accesses"), 1.0, Fidelity::Modelled);
        ratio(&stage, "misses", "per-kilo-instruction", misses, instructions, 1e3, Fidelity::Modelled);
    }
    let walks = value("walk", "walks");
    ratio("walk", "references", "per-walk", value("walk", "references"), walks, 1.0, Fidelity::Modelled);
    ratio(
        "walk",
        "references",
        "per-kilo-instruction",
        value("walk", "references"),
        instructions,
        1e3,
        Fidelity::Modelled,
    );
    if let Some(cycle_count) = value("time", "elapsed") {
        let accesses = value("program", "accesses");
        ratio("time", "elapsed", "ps-per-access", Some(cycle_count), accesses, 1.0, Fidelity::Estimated);
        ratio(
            "time",
            "elapsed",
            "ps-per-instruction",
            Some(cycle_count),
            instructions,
            1.0,
            Fidelity::Estimated,
        );
    }
    metrics
}
