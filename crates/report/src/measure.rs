//! The measures that people compare, computed once for the terminal table and the HTML page.

use crate::span::{Reading, Span};
use crate::units::Quantity;

/// Which direction a user wishes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// Fewer, smaller, sooner.
    Less,
    /// Neither direction is better in general.
    Neither,
}

/// One row of a comparison: a number a machine.
#[derive(Clone, Debug)]
pub(crate) struct Measure {
    /// The heading it stands under.
    pub(crate) group: &'static str,
    /// Its name.
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
    /// Accesses otherwise.
    Accesses,
}

impl Base {
    /// The base that all spans have.
    pub(crate) fn of<'a>(spans: impl IntoIterator<Item = Span<'a>>) -> Self {
        let counted =
            |span: Span<'_>| span.count("program", "instructions").value().is_some_and(|count| count > 0.0);
        if spans.into_iter().all(counted) { Self::Instructions } else { Self::Accesses }
    }

    /// `instructions` or `accesses`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Accesses => "accesses",
        }
    }

    /// A reading per thousand of it.
    pub(crate) fn rate(self, span: &Span<'_>, reading: Reading) -> Reading {
        reading.over(span.count("program", self.name()), 1000.0)
    }
}

/// The parts that a timed run's time is made of, in the order they are shown: metric and name.
pub(crate) const TIME_PARTS: [(&str, &str); 4] =
    [("compute", "compute"), ("memory", "memory"), ("walk", "page walks"), ("fault", "page faults")];

/// What page faults spend time on where pages leave and come back, by the names of the steps.
const PAGING_PARTS: [(&str, &[&str]); 3] = [
    ("waiting for pages", &["read", "switch"]),
    (
        "bringing them back",
        &["trap", "find", "allocate", "request", "enter", "book", "detect", "copy", "lock"],
    ),
    ("letting others go", &["evict", "write"]),
];

/// Time by part, summed over cores; the sum is the elapsed time on one core.
pub(crate) fn core_time(span: &Span<'_>) -> Reading {
    let parts = TIME_PARTS.map(|(metric, _)| span.read("time", metric, "ps"));
    if parts.iter().all(|&part| part == Reading::Absent) {
        return Reading::Absent;
    }
    Reading::Value(parts.iter().filter_map(|part| part.value()).sum())
}

/// What the program did, which as a rule is the same on every machine.
pub(crate) fn program_measures(spans: &[Span<'_>]) -> Vec<Measure> {
    let mut rows = Rows { spans, rows: Vec::new() };
    for metric in ["accesses", "stores", "instructions"] {
        rows.row("program", metric, Quantity::Count, Better::Neither, |span| span.count("program", metric));
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
    rows.row("", "time", Quantity::Time, Better::Less, |span| span.read("time", "elapsed", "ps"));
    rows.row("", &per("L1 TLB misses"), Quantity::Ratio, Better::Less, |span| tlb_rate(span, 1, base));
    rows.row("", &per("page walks"), Quantity::Ratio, Better::Less, |span| base.rate(span, walks(span)));
    rows.row("", "references per walk", Quantity::Ratio, Better::Less, references_per_walk);
    rows.row("", "page faults", Quantity::Count, Better::Less, faults);
    rows.row("", "page table", Quantity::Bytes, Better::Less, |span| {
        span.read("table", "bytes-peak", "bytes")
    });
    rows.row("", "resident memory", Quantity::Bytes, Better::Less, |span| {
        span.read("frames", "resident-peak", "bytes")
    });
    rows.rows
}

/// The few of [`measures`] that tell phases apart.
pub(crate) fn phase_measures(spans: &[Span<'_>]) -> Vec<Measure> {
    let mut rows = Rows { spans, rows: Vec::new() };
    let base = Base::of(spans.iter().copied());
    rows.row("", "accesses", Quantity::Count, Better::Neither, |span| span.count("program", "accesses"));
    tlb_rates(&mut rows, base);
    rows.row("", "references per walk", Quantity::Ratio, Better::Less, references_per_walk);
    rows.row("", "page faults", Quantity::Count, Better::Less, faults);
    rows.row("", "elapsed", Quantity::Time, Better::Less, |span| span.read("time", "elapsed", "ps"));
    rows.rows
}

/// Walks of the page table.
pub(crate) fn walks(span: &Span<'_>) -> Reading {
    span.count("walk", "walks")
}

/// Walk references over walks.
pub(crate) fn references_per_walk(span: &Span<'_>) -> Reading {
    span.count("walk", "references").over(walks(span), 1.0)
}

/// Faults of all page sizes, minor and major.
pub(crate) fn faults(span: &Span<'_>) -> Reading {
    let minor = minor_faults(span).into_iter().map(|(_, reading)| reading);
    let all = minor.chain([span.count("fault", "major")]);
    let sizes: Vec<f64> = all.filter_map(|reading| reading.value()).collect();
    if sizes.is_empty() { Reading::Absent } else { Reading::Value(sizes.iter().sum()) }
}

/// Misses of a TLB level per thousand, level 1 the nearest.
pub(crate) fn tlb_rate(span: &Span<'_>, level: usize, base: Base) -> Reading {
    base.rate(span, span.count(&format!("tlb.l{level}"), "misses"))
}

fn minor_faults<'a>(span: &Span<'a>) -> Vec<(&'a str, Reading)> {
    span.metrics
        .iter()
        .filter(|row| row.stage == "fault" && row.unit == "count")
        .filter_map(|row| row.metric.strip_prefix("minor."))
        .map(|size| (size, span.count("fault", &format!("minor.{size}"))))
        .collect()
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
        let stage = format!("tlb.l{level}");
        let label = format!("L{level} TLB misses");
        rows.row("translation", &label, Quantity::Count, Better::Less, |span| span.count(&stage, "misses"));
    }
    tlb_rates(rows, base);
    let group = "translation";
    rows.row(group, "page walks", Quantity::Count, Better::Less, walks);
    rows.row(group, "references per walk", Quantity::Ratio, Better::Less, references_per_walk);
    let label = format!("walk references / k-{}", short(base));
    rows.row(group, &label, Quantity::Ratio, Better::Less, |span| {
        base.rate(span, span.count("walk", "references"))
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
        let metric = format!("minor.{size}");
        rows.rare("paging", &format!("faults, {size}"), |span| span.count("fault", &metric));
    }
    for (stage, metric, label) in [
        ("fault", "major", "faults, major"),
        ("fault", "swap-cache", "faults, swap cache"),
        ("fault", "page-cache", "faults, page cache"),
        ("accelerator", "fetches", "pages fetched by hardware"),
        ("accelerator", "service-faults", "faults, accelerator's queues"),
        ("swap", "pages-in", "pages swapped in"),
        ("swap", "read-ahead", "pages read ahead"),
        ("swap", "read-ahead-unused", "pages read ahead in vain"),
        ("swap", "pages-out", "pages swapped out"),
        ("swap", "clean-evictions", "pages dropped clean"),
        ("reclaim", "ahead", "pages reclaimed ahead"),
        ("fault", "protection", "faults, protection"),
        ("fault", "unannounced-pages", "pages never announced"),
        ("kernel", "shootdowns", "TLB shootdowns"),
        ("kernel", "huge-page-splits", "huge pages split"),
        ("kernel", "huge-page-collapses", "huge pages made on request"),
        ("kernel", "copies-on-write", "pages copied on write"),
        ("kernel", "refused-calls", "system calls refused"),
    ] {
        rows.rare("paging", label, |span| span.count(stage, metric));
    }
    rows.row("paging", "in use at first conflict", Quantity::Share, Better::Neither, |span| {
        match span.count("reclaim", "evictions").value() > Some(0.0) {
            true => span.count("frames", "first-conflict").over(span.count("frames", "placed-total"), 1.0),
            false => Reading::Absent,
        }
    });
    rows.row("paging", "page table, peak", Quantity::Bytes, Better::Less, |span| {
        span.read("table", "bytes-peak", "bytes")
    });
    rows.row("paging", "resident, peak", Quantity::Bytes, Better::Less, |span| {
        span.read("frames", "resident-peak", "bytes")
    });
}

fn time(rows: &mut Rows<'_, '_>, base: Base) {
    let elapsed = |span: &Span<'_>| span.read("time", "elapsed", "ps");
    rows.row("time (estimated)", "elapsed", Quantity::Time, Better::Less, elapsed);
    for (metric, name) in TIME_PARTS {
        rows.row("time (estimated)", &format!("share of {name}"), Quantity::Share, Better::Neither, |span| {
            span.read("time", metric, "ps").over(core_time(span), 1.0)
        });
    }
    for (name, steps) in PAGING_PARTS {
        let spent = |span: &Span<'_>| {
            let times = steps.iter().map(|step| span.read("time", &format!("fault.{step}"), "ps"));
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
        elapsed(span).over(span.count("program", base.name()), 1.0)
    });
    for (metric, label) in [("data-reads", "DRAM reads, data"), ("walk-reads", "DRAM reads, walks")] {
        rows.row("time (estimated)", label, Quantity::Count, Better::Less, |span| {
            span.count("memory", metric)
        });
    }
}
