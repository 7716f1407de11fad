//! A validation's pictures and rows, as the template needs them.

use serde::Serialize;

use super::chart::{Arrangement, Chart, Plot, Row, Series, WIDE};
use super::ratios::{self, Ratio};
use crate::text::visible;
use crate::units::Quantity;
use crate::validation::{Class, Errors, Validation, ValidationRow};

const LABEL_COLUMNS: usize = 32;

/// What the page shows of a validation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    machine: String,
    facts: Vec<String>,
    ratios: Option<Plot>,
    classes: Vec<Series>,
    has_void: bool,
    errors: Vec<ErrorLine>,
    gains: Option<Plot>,
    gain_series: Vec<Series>,
    ablations: Option<Plot>,
    lines: Vec<Line>,
    left_out: Vec<(String, String)>,
}

/// Errors of some programs, in words.
#[derive(Clone, Debug, Serialize)]
struct ErrorLine {
    name: String,
    count: usize,
    median: String,
    worst: String,
}

/// A program's row, in words.
#[derive(Clone, Debug, Serialize)]
struct Line {
    program: String,
    about: String,
    class: &'static str,
    measured: String,
    predicted: String,
    ratio: String,
    error: String,
    measured_faults: u64,
    predicted_faults: u64,
    void: String,
}

/// Returns what the page shows.
pub(super) fn shown(validation: &Validation) -> Shown {
    let rows = &validation.programs;
    let colour = |class: Class| format!("series-{}", class as usize);
    let classes = Class::ALL.into_iter().filter(|class| rows.iter().any(|row| row.class == *class));
    let classes: Vec<Series> =
        classes.map(|class| Series { name: class.name().to_owned(), class: colour(class) }).collect();
    let gain_series: Vec<Series> = ["measured", "predicted"]
        .into_iter()
        .zip(0..)
        .map(|(name, at)| Series { name: name.to_owned(), class: format!("series-{at}") })
        .collect();
    let mut sorted: Vec<&ValidationRow> = rows.iter().collect();
    sorted.sort_by(|a, b| {
        (a.class, a.void.is_some()).cmp(&(b.class, b.void.is_some())).then(b.ratio().total_cmp(&a.ratio()))
    });
    let ratio = |row: &&ValidationRow| Ratio {
        label: visible(&row.program),
        value: row.ratio(),
        class: colour(row.class) + if row.void.is_some() { " void" } else { "" },
        note: format!("{} of {} ms", ms(row.predicted_ns), ms(row.measured_ns)),
    };
    Shown {
        machine: visible(&validation.machine),
        facts: facts(validation),
        ratios: (!rows.is_empty()).then(|| ratios::draw(&sorted.iter().map(ratio).collect::<Vec<_>>())),
        classes,
        has_void: rows.iter().any(|row| row.void.is_some()),
        errors: validation.summary.iter().map(|(name, errors)| error_line(name, errors)).collect(),
        gains: gains(rows, &gain_series),
        gain_series,
        ablations: ablations(validation),
        lines: rows.iter().map(line).collect(),
        left_out: validation
            .left_out
            .iter()
            .map(|left| (visible(&left.program), visible(&left.reason)))
            .collect(),
    }
}

fn facts(validation: &Validation) -> Vec<String> {
    let rows = &validation.programs;
    let void = rows.iter().filter(|row| row.void.is_some()).count();
    let mut facts = vec![format!("{} programs", rows.len())];
    if void > 0 {
        facts.push(format!("{void} void"));
    }
    if !validation.left_out.is_empty() {
        facts.push(format!("{} left out", validation.left_out.len()));
    }
    if let Some(errors) = validation.summary.get("all programs") {
        facts.push(format!("median error {}", percent(errors.median)));
    }
    facts
}

/// What huge pages save, where that was asked for.
fn gains(rows: &[ValidationRow], series: &[Series]) -> Option<Plot> {
    let rows: Vec<Row> = rows
        .iter()
        .filter_map(|row| {
            let gain = row.huge_pages.as_ref()?;
            let gained = gain.steady.unwrap_or(gain.whole);
            let of = if gain.steady.is_some() { ", its work" } else { "" };
            let label = format!("{}{of}", visible(&row.program));
            Some(Row { label, values: vec![Some(gained.measured), Some(gained.predicted)] })
        })
        .collect();
    bars(series.to_vec(), rows, false)
}

/// The median error without each ingredient, below the one with all of them.
fn ablations(validation: &Validation) -> Option<Plot> {
    let all = validation.summary.get("all programs").filter(|_| !validation.ablations.is_empty())?;
    let row = |label: String, errors: &Errors| Row { label, values: vec![Some(errors.median)] };
    let without = validation.ablations.iter().map(|(name, errors)| row(format!("without {name}"), errors));
    let rows = std::iter::once(row("with all ingredients".to_owned(), all)).chain(without).collect();
    bars(vec![Series { name: "median error".to_owned(), class: "one".to_owned() }], rows, true)
}

fn bars(series: Vec<Series>, rows: Vec<Row>, compares: bool) -> Option<Plot> {
    if rows.is_empty() {
        return None;
    }
    let chart =
        Chart { series, rows, arrangement: Arrangement::Grouped, quantity: Quantity::Share, compares };
    Some(chart.draw(&chart.frame(WIDE, LABEL_COLUMNS, compares)))
}

fn error_line(name: &str, &Errors { count, median, worst }: &Errors) -> ErrorLine {
    ErrorLine { name: name.to_owned(), count, median: percent(median), worst: percent(worst) }
}

fn line(row: &ValidationRow) -> Line {
    let band =
        row.band_ns.map(|[least, most]| format!("{} to {} ms by the third cache", ms(least), ms(most)));
    let held_out = row.is_held_out.then(|| "held out".to_owned());
    let about: Vec<String> = held_out.into_iter().chain(band).collect();
    Line {
        program: visible(&row.program),
        about: about.join("; "),
        class: row.class.name(),
        measured: ms(row.measured_ns),
        predicted: ms(row.predicted_ns),
        ratio: format!("{:.2}", row.ratio()),
        error: percent(row.error),
        measured_faults: row.measured_faults,
        predicted_faults: row.predicted_faults,
        void: row.void.as_deref().map_or(String::new(), visible),
    }
}

fn ms(ns: f64) -> String {
    format!("{:.1}", ns / 1e6)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
