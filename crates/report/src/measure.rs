//! The measures that people compare, computed once for the terminal table and the HTML page.

use pagewalk_sim::metrics::names::{
    accelerator, fault, frames, host, kernel, memory, program, reclaim, swap, table, time as times, tlb, walk,
};
use pagewalk_sim::metrics::{KernelStep, Name};

use crate::span::{Reading, Span};
use crate::units::Quantity;

/// Which direction a user wishes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// The smaller number is better.
    Less,
    /// Neither direction is better in general.
    Neither,
}

/// One row of a comparison: a number a machine.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// The heading it stands under.
    pub(crate) group: &'static str,
    /// The name of the measure in tables.
    pub(crate) label: String,
    /// How its values are written.
    pub(crate) quantity: Quantity,
    /// Which change is good.
    pub(crate) better: Better,
    /// One reading a machine.
    pub(crate) readings: Vec<Reading>,
}

/// What rates are per thousand of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// Instructions, where every machine's source counted them.
    Instructions,
    /// Accesses, where a source did not count instructions.
    Accesses,
}

impl Base {
    /// The base that all spans have.
    pub(crate) fn of<'a>(spans: impl IntoIterator<Item = Span<'a>>) -> Self {
        let counted =
            |span: Span<'_>| span.read(&program::INSTRUCTIONS).value().is_some_and(|count| count > 0.0);
        if spans.into_iter().all(counted) { Self::Instructions } else { Self::Accesses }
    }

    /// `instructions` or `accesses`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Accesses => "accesses",
        }
    }

    /// How many there are.
    fn count(self, span: &Span<'_>) -> Reading {
        match self {
            Self::Instructions => span.read(&program::INSTRUCTIONS),
            Self::Accesses => span.read(&program::ACCESSES),
        }
    }

    /// A reading per thousand of it.
    pub(crate) fn rate(self, span: &Span<'_>, reading: Reading) -> Reading {
        reading.over(self.count(span), 1000.0)
    }
}

/// Caches that a machine has at most.
const MOST_CACHES: usize = 4;

/// The parts that a timed run's time is made of, in the order they are shown, with the words for them. Cores that do not execute
/// instructions have neither branches nor instruction fetch.
pub(crate) const TIME_PARTS: [(Name, &str); 6] = [
    (times::COMPUTE, "compute"),
    (times::BRANCH, "mispredicted branches"),
    (times::FETCH, "instruction fetch"),
    (times::MEMORY, "memory"),
    (times::WALK, "page walks"),
    (times::FAULT, "page faults"),
];

/// Returns the parts that the time of machines is shown in: finer ones, as far as all of them that have a part divide that one.
pub(crate) fn time_stack(spans: &[Span<'_>]) -> Vec<(Name, String)> {
    let has = |span: &Span<'_>, name: &Name| span.read(name) != Reading::Absent;
    let mut stack = Vec::new();
    for (part, words) in TIME_PARTS {
        if !spans.iter().any(|span| has(span, &part)) {
            continue;
        }
        let finer = finer(&part);
        let is_divided = |span: &Span<'_>| !has(span, &part) || finer.iter().any(|(name, _)| has(span, name));
        if finer.is_empty() || !spans.iter().all(is_divided) {
            stack.push((part, words.to_owned()));
            continue;
        }
        stack.extend(finer.into_iter().filter(|(name, _)| spans.iter().any(|span| has(span, name))));
    }
    stack
}

/// Returns what a part of the time is divided into by cores that execute instructions.
fn finer(part: &Name) -> Vec<(Name, String)> {
    if *part == times::COMPUTE {
        let (width, dependences) = (times::COMPUTE_WIDTH, times::COMPUTE_DEPENDENCES);
        return vec![(width, "instructions".into()), (dependences, "dependences and units".into())];
    }
    if *part == times::FETCH {
        let (translation, lines) = (times::FETCH_TRANSLATION, times::FETCH_LINES);
        return vec![
            (translation, "translation of instructions".into()),
            (lines, "instruction cache".into()),
        ];
    }
    if *part == times::WALK {
        let (tlb, tables) = (times::WALK_TLB, times::WALK_TABLES);
        return vec![(tlb, "farther TLB levels".into()), (tables, "page walks".into())];
    }
    if *part != times::MEMORY {
        return Vec::new();
    }
    let caches = (1..=MOST_CACHES).map(|level| {
        let words = match level {
            1 => "lines on their way".to_owned(),
            _ => format!("L{level} cache"),
        };
        (times::memory_of_cache(level), words)
    });
    let rest = [
        (times::MEMORY_DRAM, "DRAM"),
        (times::MEMORY_BANDWIDTH, "memory's bandwidth"),
        (times::MEMORY_STORES, "store buffer"),
    ];
    caches.chain(rest.map(|(name, words)| (name, words.to_owned()))).collect()
}

/// The error to expect of times of executed instructions.
const EXPECTED: &str = "On machine files of `pagewalk calibrate`, half of the programs were predicted within 10 % of the stopwatch and most others within 25 %; docs/time.md names those that were not.";

/// Returns a sentence about what the machines' times are made of, and how far to believe them; none without times.
pub(crate) fn time_basis(names: &[String], spans: &[Span<'_>]) -> Option<String> {
    let of = |executes: bool| {
        let runs = names.iter().zip(spans).filter(|(_, span)| span.read(&times::ELAPSED) != Reading::Absent);
        let own = runs.filter(|(_, span)| (span.read(&times::COMPUTE_WIDTH) != Reading::Absent) == executes);
        own.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (executing, waiting) = (of(true), of(false));
    Some(match (executing.is_empty(), waiting.is_empty()) {
        (true, true) => return None,
        (false, true) => format!("Times are those of executed instructions, with their dependences and branches. {EXPECTED}"),
        (true, false) => "Times let accesses overlap as if none needed the data of another: they are lower bounds, and walks and \
                          memory weigh more in truth."
            .into(),
        (false, false) => format!(
            "Times of {executing} are those of executed instructions; those of {waiting} let accesses overlap as if none needed the \
             data of another, and are lower bounds. {EXPECTED}"
        ),
    })
}

/// What page faults spend time on where pages leave and come back.
const PAGING_PARTS: [(&str, &[KernelStep]); 3] = [
    ("waiting for pages", &[KernelStep::Read, KernelStep::Switch]),
    (
        "bringing them back",
        &[
            KernelStep::Trap,
            KernelStep::Find,
            KernelStep::Allocate,
            KernelStep::Request,
            KernelStep::Enter,
            KernelStep::Book,
            KernelStep::Detect,
            KernelStep::Copy,
            KernelStep::Lock,
        ],
    ),
    ("letting others go", &[KernelStep::Evict, KernelStep::Write]),
];

/// Time by part, summed over cores; the sum is the elapsed time on one core.
pub(crate) fn core_time(span: &Span<'_>) -> Reading {
    let parts = TIME_PARTS.map(|(name, _)| span.read(&name));
    if parts.iter().all(|&part| part == Reading::Absent) {
        return Reading::Absent;
    }
    Reading::Value(parts.iter().filter_map(|part| part.value()).sum())
}

/// What the program did, which as a rule is the same on every machine.
pub(crate) fn program_measures(spans: &[Span<'_>]) -> Vec<Measure> {
    let mut rows = Rows { spans, rows: Vec::new() };
    for name in [program::ACCESSES, program::STORES, program::INSTRUCTIONS] {
        rows.row("program", &name.metric, Quantity::Count, Better::Neither, |span| span.read(&name));
    }
    rows.rows
}

/// All measures of the machines' spans that at least one machine has. Rows that only matter when they are not
/// zero are left out when they are.
pub(crate) fn measures(spans: &[Span<'_>]) -> Vec<Measure> {
    let mut rows = Rows { spans, rows: Vec::new() };
    let base = Base::of(spans.iter().copied());
    translation(&mut rows, base);
    paging(&mut rows);
    time(&mut rows, base);
    rows.rows
}

/// The few that machines are chosen by.
pub(crate) fn glance(spans: &[Span<'_>]) -> Vec<Measure> {
    let mut rows = Rows { spans, rows: Vec::new() };
    let base = Base::of(spans.iter().copied());
    let per = |what: &str| format!("{what} / 1000 {}", base.name());
    rows.row("", "time", Quantity::Time, Better::Less, |span| span.read(&times::ELAPSED));
    rows.row("", &per("L1 TLB misses"), Quantity::Ratio, Better::Less, |span| tlb_rate(span, 1, base));
    rows.row("", &per("page walks"), Quantity::Ratio, Better::Less, |span| base.rate(span, walks(span)));
    rows.row("", "references per walk", Quantity::Ratio, Better::Less, references_per_walk);
    rows.row("", "page faults", Quantity::Count, Better::Less, faults);
    rows.row("", "page table", Quantity::Bytes, Better::Less, |span| span.read(&table::BYTES_PEAK));
    rows.row("", "resident memory", Quantity::Bytes, Better::Less, |span| span.read(&frames::RESIDENT_PEAK));
    rows.rows
}

/// The few of [`measures`] that tell phases apart.
pub(crate) fn phase_measures(spans: &[Span<'_>]) -> Vec<Measure> {
    let mut rows = Rows { spans, rows: Vec::new() };
    let base = Base::of(spans.iter().copied());
    rows.row("", "accesses", Quantity::Count, Better::Neither, |span| span.read(&program::ACCESSES));
    tlb_rates(&mut rows, base);
    rows.row("", "references per walk", Quantity::Ratio, Better::Less, references_per_walk);
    rows.row("", "page faults", Quantity::Count, Better::Less, faults);
    rows.row("", "elapsed", Quantity::Time, Better::Less, |span| span.read(&times::ELAPSED));
    rows.rows
}

/// Walks of the page table.
pub(crate) fn walks(span: &Span<'_>) -> Reading {
    span.read(&walk::WALKS)
}

/// Walk references over walks.
pub(crate) fn references_per_walk(span: &Span<'_>) -> Reading {
    span.read(&walk::REFERENCES).over(walks(span), 1.0)
}

/// Faults of all page sizes, minor and major.
pub(crate) fn faults(span: &Span<'_>) -> Reading {
    let minor = minor_faults(span).into_iter().map(|(_, reading)| reading);
    let all = minor.chain([span.read(&fault::MAJOR)]);
    let sizes: Vec<f64> = all.filter_map(|reading| reading.value()).collect();
    if sizes.is_empty() { Reading::Absent } else { Reading::Value(sizes.iter().sum()) }
}

/// Misses of a TLB level per thousand, level 1 the nearest.
pub(crate) fn tlb_rate(span: &Span<'_>, level: usize, base: Base) -> Reading {
    base.rate(span, span.read(&tlb::misses(level)))
}

fn minor_faults<'a>(span: &Span<'a>) -> Vec<(&'a str, Reading)> {
    span.parts(fault::STAGE, fault::MINOR).map(|(size, row)| (size, Reading::of(Some(row)))).collect()
}

struct Rows<'a, 'b> {
    spans: &'b [Span<'a>],
    rows: Vec<Measure>,
}

impl Measure {
    /// Whether every machine has the same number.
    pub(crate) fn is_shared(&self) -> bool {
        self.readings.iter().all(|&reading| reading == self.readings[0])
    }
}

impl<'a> Rows<'a, '_> {
    fn row(
        &mut self,
        group: &'static str,
        label: &str,
        quantity: Quantity,
        better: Better,
        read: impl Fn(&Span<'a>) -> Reading,
    ) {
        let readings: Vec<Reading> = self.spans.iter().map(read).collect();
        if readings.iter().any(|&reading| reading != Reading::Absent) {
            self.rows.push(Measure { group, label: label.to_owned(), quantity, better, readings });
        }
    }

    /// A row that is left out when no machine has anything in it.
    fn rare(&mut self, group: &'static str, label: &str, read: impl Fn(&Span<'a>) -> Reading) {
        if self.spans.iter().any(|span| read(span).value().is_some_and(|value| value > 0.0)) {
            self.row(group, label, Quantity::Count, Better::Less, read);
        }
    }

    fn most(&self, count: impl Fn(&Span<'a>) -> usize) -> usize {
        self.spans.iter().map(count).max().unwrap_or(0)
    }
}

fn translation(rows: &mut Rows<'_, '_>, base: Base) {
    let levels = rows.most(|span| span.tlb_levels());
    for level in 1..=levels {
        let (name, label) = (tlb::misses(level), format!("L{level} TLB misses"));
        rows.row("translation", &label, Quantity::Count, Better::Less, |span| span.read(&name));
    }
    tlb_rates(rows, base);
    let group = "translation";
    rows.row(group, "page walks", Quantity::Count, Better::Less, walks);
    rows.row(group, "references per walk", Quantity::Ratio, Better::Less, references_per_walk);
    let label = format!("walk references / k-{}", short(base));
    rows.row(group, &label, Quantity::Ratio, Better::Less, |span| {
        base.rate(span, span.read(&walk::REFERENCES))
    });
    rows.row(group, "  of which to the host's table", Quantity::Ratio, Better::Less, |span| {
        base.rate(span, span.read(&host::REFERENCES))
    });
    rows.row(group, "host's translations / walk", Quantity::Ratio, Better::Less, |span| {
        span.read(&host::LOOKUPS).over(walks(span), 1.0)
    });
    rows.row(group, "  of which found in the host's TLB", Quantity::Share, Better::Neither, |span| {
        span.read(&host::TLB_HITS).over(span.read(&host::LOOKUPS), 1.0)
    });
    rows.row(group, "walks of the host's table", Quantity::Count, Better::Less, |span| {
        span.read(&host::WALKS)
    });
}

fn tlb_rates(rows: &mut Rows<'_, '_>, base: Base) {
    for level in 1..=rows.most(|span| span.tlb_levels()) {
        let label = format!("L{level} TLB misses / k-{}", short(base));
        rows.row("translation", &label, Quantity::Ratio, Better::Less, |span| tlb_rate(span, level, base));
    }
}

fn short(base: Base) -> &'static str {
    match base {
        Base::Instructions => "instr",
        Base::Accesses => "access",
    }
}

fn paging(rows: &mut Rows<'_, '_>) {
    let mut sizes: Vec<&str> = Vec::new();
    for (size, _) in rows.spans.iter().flat_map(|span| minor_faults(span)) {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    for size in sizes {
        let metric = format!("{}{size}", fault::MINOR);
        rows.rare("paging", &format!("faults, {size}"), |span| Reading::of(span.row(fault::STAGE, &metric)));
    }
    for (name, label) in [
        (fault::MAJOR, "faults, major"),
        (fault::SWAP_CACHE, "faults, swap cache"),
        (fault::PAGE_CACHE, "faults, page cache"),
        (accelerator::FETCHES, "pages fetched by hardware"),
        (accelerator::SERVICE_FAULTS, "faults, accelerator's queues"),
        (swap::PAGES_IN, "pages swapped in"),
        (swap::READ_AHEAD, "pages read ahead"),
        (swap::READ_AHEAD_UNUSED, "pages read ahead in vain"),
        (swap::PAGES_OUT, "pages swapped out"),
        (swap::CLEAN_EVICTIONS, "pages dropped clean"),
        (reclaim::AHEAD, "pages reclaimed ahead"),
        (fault::PROTECTION, "faults, protection"),
        (host::FAULTS, "faults, host"),
        (fault::UNANNOUNCED_PAGES, "pages never announced"),
        (kernel::SHOOTDOWNS, "TLB shootdowns"),
        (kernel::HUGE_PAGE_SPLITS, "huge pages split"),
        (kernel::HUGE_PAGE_COLLAPSES, "huge pages made on request"),
        (kernel::COPIES_ON_WRITE, "pages copied on write"),
        (kernel::REFUSED_CALLS, "system calls refused"),
    ] {
        rows.rare("paging", label, |span| span.read(&name));
    }
    rows.row("paging", "in use at first conflict", Quantity::Share, Better::Neither, |span| {
        match span.read(&reclaim::EVICTIONS).value() > Some(0.0) {
            true => span.read(&frames::FIRST_CONFLICT).over(span.read(&frames::PLACED_TOTAL), 1.0),
            false => Reading::Absent,
        }
    });
    rows.row("paging", "page table, peak", Quantity::Bytes, Better::Less, |span| {
        span.read(&table::BYTES_PEAK)
    });
    rows.row("paging", "resident, peak", Quantity::Bytes, Better::Less, |span| {
        span.read(&frames::RESIDENT_PEAK)
    });
    rows.row("paging", "memory given by the host", Quantity::Bytes, Better::Less, |span| {
        span.read(&host::GIVEN)
    });
}

fn time(rows: &mut Rows<'_, '_>, base: Base) {
    let elapsed = |span: &Span<'_>| span.read(&times::ELAPSED);
    rows.row("time (estimated)", "elapsed", Quantity::Time, Better::Less, elapsed);
    for (name, words) in time_stack(rows.spans) {
        rows.row(
            "time (estimated)",
            &format!("share of {words}"),
            Quantity::Share,
            Better::Neither,
            |span| span.read(&name).over(core_time(span), 1.0),
        );
    }
    for (name, steps) in PAGING_PARTS {
        let spent = |span: &Span<'_>| {
            let times = steps.iter().map(|&step| span.read(&times::step(step)));
            let times: Vec<f64> = times.filter_map(|time| time.value()).collect();
            if times.is_empty() { Reading::Absent } else { Reading::Value(times.iter().sum()) }
        };
        if rows.spans.iter().any(|span| spent(span).value().is_some_and(|value| value > 0.0)) {
            rows.row(
                "time (estimated)",
                &format!("  of which {name}"),
                Quantity::Share,
                Better::Neither,
                |span| spent(span).over(core_time(span), 1.0),
            );
        }
    }
    let label = match base {
        Base::Instructions => "time per instruction",
        Base::Accesses => "time per access",
    };
    rows.row("time (estimated)", label, Quantity::Time, Better::Less, |span| {
        elapsed(span).over(base.count(span), 1.0)
    });
    for (name, label) in [(memory::DATA_READS, "DRAM reads, data"), (memory::WALK_READS, "DRAM reads, walks")]
    {
        rows.row("time (estimated)", label, Quantity::Count, Better::Less, |span| span.read(&name));
    }
}
