//! Which charts a report has, and what they say.

use pagewalk_sim::metrics::Name;
use pagewalk_sim::metrics::names::{frames, reach, table, time, walk};
use serde::Serialize;

use super::chart::{Arrangement, Chart, Frame, Plot, Row, Series, WIDE};
use crate::measure::{Base, core_time, time_stack, tlb_rate, walks};
use crate::span::{Reading, Span};
use crate::text::visible;
use crate::units::Quantity;

/// A chart with its words.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Card {
    title: String,
    lead: String,
    legend: Vec<Series>,
    plot: Plot,
    wide: bool,
}

/// A chart for every phase, all on one scale.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Multiples {
    title: String,
    lead: String,
    legend: Vec<Series>,
    phases: Vec<(String, Plot)>,
}

const WIDTH: f64 = 560.0;
const SMALL: f64 = 370.0;
/// Columns of a machine's name in the charts.
const LABEL_COLUMNS: usize = 22;
const SMALL_LABEL_COLUMNS: usize = 16;
/// More phases than this are only in the table of all numbers.
const PHASES: usize = 12;

/// The machines of a report, over the whole run.
pub(super) struct Machines<'a> {
    pub(super) names: Vec<String>,
    pub(super) spans: Vec<Span<'a>>,
    pub(super) base: Base,
}

/// The charts of a whole run; those of stages that no machine has are left out.
pub(super) fn cards(machines: &Machines<'_>) -> Vec<Card> {
    let base = machines.base.name();
    let elapsed = |span: &Span<'_>| span.read(&time::ELAPSED);
    let summed = machines.spans.iter().any(|span| core_time(span) != elapsed(span));
    let mut cards = Vec::new();
    let mut add = |chart: Option<Chart>, title: &str, lead: String, wide: bool| {
        let Some(chart) = chart else { return };
        let legend = if chart.series.len() > 1 { chart.series.clone() } else { Vec::new() };
        let plot = chart.draw(&chart.frame(if wide { WIDE } else { WIDTH }, LABEL_COLUMNS, chart.compares));
        cards.push(Card { title: title.into(), lead, legend, plot, wide });
    };
    add(
        time_chart(machines),
        "Where the time goes",
        format!(
            "{}, by what the cores were doing or waiting for. Walks and faults are the price of virtual memory. \
             Shorter is better.",
            if summed { "Estimated time of all cores together" } else { "Estimated time of the run" }
        ),
        true,
    );
    add(
        tlb_chart(machines),
        &format!("TLB misses per thousand {base}"),
        "Each level is asked when the one before it misses; a miss of the last level walks the page table. \
         Shorter is better."
            .into(),
        false,
    );
    add(
        references_chart(machines),
        &format!("What walks read, per thousand {base}"),
        "Memory references of page walks by level of the page table; walk caches skip the upper levels. Shorter \
         is better."
            .into(),
        false,
    );
    add(
        bytes_chart(machines, &table::BYTES_PEAK),
        "Page-table size",
        "Memory that holds the page table itself, at its largest.".into(),
        false,
    );
    add(
        bytes_chart(machines, &frames::RESIDENT_PEAK),
        "Resident memory",
        "Memory in use by the program's pages, at its largest; large pages may use more than was touched."
            .into(),
        false,
    );
    add(
        reach_chart(machines),
        "How much TLB the program wants",
        "Accesses that miss in 8-way TLBs for 4 KiB pages, by number of entries: a property of the program, the same \
         for all machines."
            .into(),
        false,
    );
    cards
}

/// The charts by phase; `phases` has a span a machine, none where the machine's run lacks the phase.
pub(super) fn multiples(
    names: &[String],
    phases: &[(String, Vec<Option<Span<'_>>>)],
    base: Base,
) -> Vec<Multiples> {
    let shown: Vec<(String, Machines<'_>)> = phases
        .iter()
        .take(PHASES)
        .map(|(name, spans)| {
            let empty = Span { phase: None, metrics: &[] };
            let spans = spans.iter().map(|span| span.unwrap_or(empty)).collect();
            (visible(name), Machines { names: names.to_vec(), spans, base })
        })
        .collect();
    let more = match phases.len().saturating_sub(PHASES) {
        0 => String::new(),
        more => format!(" {more} more phases are in the table of all numbers."),
    };
    let charts = |chart: fn(&Machines<'_>) -> Option<Chart>| -> Vec<(String, Chart)> {
        shown.iter().filter_map(|(name, machines)| Some((name.clone(), chart(machines)?))).collect()
    };
    let draw = |title: String, lead: &str, charts: Vec<(String, Chart)>| {
        let frames = charts.iter().map(|(_, chart)| chart.frame(SMALL, SMALL_LABEL_COLUMNS, false));
        let frame = frames.reduce(Frame::join);
        let series = charts.first().map_or(Vec::new(), |(_, chart)| chart.series.clone());
        Multiples {
            title,
            lead: lead.to_owned() + &more,
            legend: if series.len() > 1 { series } else { Vec::new() },
            phases: frame.map_or(Vec::new(), |frame| {
                charts.into_iter().map(|(name, chart)| (name, chart.draw(&frame))).collect()
            }),
        }
    };
    [
        draw("Time by phase".into(), "Estimated, all phases on one scale.", charts(time_chart)),
        draw(
            format!("Page walks per thousand {}, by phase", base.name()),
            "All phases on one scale.",
            charts(walk_chart),
        ),
    ]
    .into_iter()
    .filter(|multiples| !multiples.phases.is_empty())
    .collect()
}

fn chart(
    machines: &Machines<'_>,
    arrangement: Arrangement,
    quantity: Quantity,
    series: Vec<Series>,
    read: impl Fn(&Span<'_>, usize) -> Reading,
) -> Option<Chart> {
    let rows: Vec<Row> = machines
        .names
        .iter()
        .zip(&machines.spans)
        .map(|(name, span)| Row {
            label: name.clone(),
            values: (0..series.len()).map(|at| read(span, at).value()).collect(),
        })
        .collect();
    let drawn = rows.iter().flat_map(|row| &row.values).any(Option::is_some);
    drawn.then_some(Chart { series, rows, arrangement, quantity, compares: true })
}

fn one() -> Vec<Series> {
    vec![Series { name: String::new(), class: "one".into() }]
}

fn time_chart(machines: &Machines<'_>) -> Option<Chart> {
    let parts = time_stack(&machines.spans);
    let class = |name: &Name| format!("time-{}", name.metric.replace('.', "-"));
    let series = parts.iter().map(|(name, words)| Series { name: words.clone(), class: class(name) });
    chart(machines, Arrangement::Stacked, Quantity::Time, series.collect(), |span, at| {
        span.read(&parts[at].0)
    })
}

fn tlb_chart(machines: &Machines<'_>) -> Option<Chart> {
    let levels = machines.spans.iter().map(|span| span.tlb_levels()).max().unwrap_or(0);
    let series = (1..=levels)
        .map(|level| Series { name: format!("level {level}"), class: format!("tlb-{}", level.min(3)) });
    chart(machines, Arrangement::Grouped, Quantity::Ratio, series.collect(), |span, at| {
        tlb_rate(span, at + 1, machines.base)
    })
}

fn references_chart(machines: &Machines<'_>) -> Option<Chart> {
    let read = |span: &Span<'_>, level: usize| {
        machines.base.rate(span, span.read(&walk::references_of_level(level)))
    };
    let levels = machines.spans.iter().map(|span| span.numbered(0, read)).max().unwrap_or(0);
    if levels == 0 {
        // A page table without levels: all its references are alike.
        return chart(machines, Arrangement::Stacked, Quantity::Ratio, one(), |span, _| {
            machines.base.rate(span, span.read(&walk::REFERENCES))
        });
    }
    let series = (0..levels).map(|level| Series {
        name: if level == 0 { "leaf (level 0)".into() } else { format!("level {level}") },
        class: format!("walk-{}", level.min(4)),
    });
    chart(machines, Arrangement::Stacked, Quantity::Ratio, series.collect(), read)
}

/// The miss curve, if it was measured: a bar a size, read from the first machine because all have the same.
fn reach_chart(machines: &Machines<'_>) -> Option<Chart> {
    let rows: Vec<Row> = machines
        .spans
        .first()?
        .parts(reach::STAGE, reach::MISS_RATE)
        .map(|(entries, row)| Row {
            label: format!("{entries} entries"),
            values: vec![row.value.map(|rate| rate.as_f64())],
        })
        .collect();
    let drawn = rows.iter().any(|row| row.values[0].is_some());
    drawn.then_some(Chart {
        series: one(),
        rows,
        arrangement: Arrangement::Grouped,
        quantity: Quantity::Share,
        compares: false,
    })
}

fn walk_chart(machines: &Machines<'_>) -> Option<Chart> {
    chart(machines, Arrangement::Grouped, Quantity::Ratio, one(), |span, _| {
        machines.base.rate(span, walks(span))
    })
}

fn bytes_chart(machines: &Machines<'_>, name: &Name) -> Option<Chart> {
    chart(machines, Arrangement::Grouped, Quantity::Bytes, one(), |span, _| span.read(name))
}
