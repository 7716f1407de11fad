//! A paper's figures and rows, as the template needs them.

use serde::Serialize;

use super::chart::{Arrangement, Chart, Plot, Row, Series, WIDE};
use super::lines::{self, LinePlot};
use super::timeline;
use crate::papers::{Drawn, Figure, PaperDocument, PaperRow, Verdict};
use crate::text::visible;
use crate::units::{Quantity, plain};

/// A figure with its words.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FigureCard {
    title: String,
    about: String,
    legend: Vec<Series>,
    bars: Option<Plot>,
    lines: Option<LinePlot>,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PaperLine {
    item: String,
    published: String,
    ours: String,
    gate: String,
    unit: String,
    verdict: &'static str,
    note: String,
}

const LABEL_COLUMNS: usize = 26;
/// Colours that there are.
const COLOURS: usize = 7;
/// Digits of published numbers that matter at most.
const DIGITS: usize = 5;

/// How many rows pass, miss and only report, in words.
pub(super) fn counts(document: &PaperDocument) -> Vec<String> {
    [(Verdict::Pass, "pass"), (Verdict::Miss, "miss"), (Verdict::Report, "report only")]
        .into_iter()
        .map(|(verdict, word)| (document.rows.iter().filter(|row| row.verdict == verdict).count(), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect()
}

/// The document's figures, drawn.
pub(super) fn cards(document: &PaperDocument) -> Vec<FigureCard> {
    document.figures.iter().map(card).collect()
}

fn card(figure: &Figure) -> FigureCard {
    let quantity = match figure.unit.as_str() {
        "fraction" => Quantity::Share,
        "ratio" => Quantity::Ratio,
        _ => Quantity::Count,
    };
    let named = figure.series.iter().enumerate();
    let series: Vec<Series> = named
        .map(|(at, name)| Series { name: visible(name), class: format!("series-{}", at % COLOURS) })
        .collect();
    let (mut bars, mut plotted) = (None, None);
    let mut legend = if series.len() > 1 { series.clone() } else { Vec::new() };
    match &figure.drawn {
        Drawn::Bars { groups } => {
            let rows = groups.iter().map(|group| {
                let mut values = group.values.clone();
                values.resize(series.len(), None);
                Row { label: visible(&group.label), values }
            });
            let chart = Chart {
                series: series.clone(),
                rows: rows.collect(),
                arrangement: Arrangement::Grouped,
                quantity,
                compares: false,
            };
            if !chart.rows.is_empty() {
                bars = Some(chart.draw(&chart.frame(WIDE, LABEL_COLUMNS, false)));
            }
        }
        Drawn::Lines { x, points } => {
            plotted = Some(lines::draw(&series, points, &visible(x), quantity, WIDE));
        }
        Drawn::Timeline { rows } => {
            if let Some(drawn) = timeline::draw(rows) {
                (bars, legend) = (Some(drawn.plot), drawn.legend);
            }
        }
    }
    FigureCard { title: visible(&figure.title), about: visible(&figure.about), legend, bars, lines: plotted }
}

/// The document's rows, in words.
pub(super) fn rows(document: &PaperDocument) -> Vec<PaperLine> {
    document.rows.iter().map(line).collect()
}

fn line(row: &PaperRow) -> PaperLine {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| plain(value, DIGITS));
    PaperLine {
        item: visible(&row.item),
        published: number(row.published),
        ours: number(row.ours),
        gate: row.gate.map_or(String::new(), |[least, most]| {
            format!("{} to {}", plain(least, DIGITS), plain(most, DIGITS))
        }),
        unit: visible(&row.unit),
        verdict: row.verdict.name(),
        note: visible(&row.note),
    }
}
