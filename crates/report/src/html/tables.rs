//! The tables of a report: a few numbers at a glance, and all of them.

use std::collections::BTreeSet;

use pagewalk_sim::metrics::{Fidelity, Number};
use serde::Serialize;

use super::chart::typographic;
use crate::measure::{Better, Measure, glance};
use crate::span::{Reading, Span, key};
use crate::text::visible;
use crate::units::{grouped, plain};

/// A table with a row a machine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Glance {
    heads: Vec<String>,
    rows: Vec<GlanceRow>,
}

#[derive(Clone, Debug, Serialize)]
struct GlanceRow {
    machine: String,
    description: String,
    cells: Vec<GlanceCell>,
}

#[derive(Clone, Debug, Serialize)]
struct GlanceCell {
    value: String,
    change: String,
    /// `better`, `worse` or nothing.
    verdict: &'static str,
    best: bool,
}

/// The few numbers that machines are chosen by.
pub(super) fn at_a_glance(
    names: &[String],
    describe: &dyn Fn(usize) -> String,
    spans: &[Span<'_>],
) -> Glance {
    let measures = glance(spans);
    let rows = names
        .iter()
        .enumerate()
        .map(|(at, machine)| GlanceRow {
            machine: machine.clone(),
            description: describe(at),
            cells: measures.iter().map(|measure| cell(measure, at)).collect(),
        })
        .collect();
    Glance { heads: measures.into_iter().map(|measure| measure.label).collect(), rows }
}

fn cell(measure: &Measure, at: usize) -> GlanceCell {
    let empty = GlanceCell { value: String::new(), change: String::new(), verdict: "", best: false };
    let value = match measure.readings[at] {
        Reading::Absent => return empty,
        Reading::Undefined => return GlanceCell { value: "–".into(), ..empty },
        Reading::Value(value) => value,
    };
    let others = measure.readings.iter().enumerate().filter(|&(other, _)| other != at);
    let least = others.filter_map(|(_, reading)| reading.value()).fold(f64::INFINITY, f64::min);
    let baseline = measure.readings[0].value().filter(|_| at > 0);
    let change = baseline.and_then(|baseline| measure.quantity.change(value, baseline)).unwrap_or_default();
    let verdict = match baseline {
        Some(baseline) if measure.better == Better::Less && value < baseline => "better",
        Some(baseline) if measure.better == Better::Less && value > baseline => "worse",
        _ => "",
    };
    let verdict = if change.starts_with('~') { "" } else { verdict };
    GlanceCell {
        value: typographic(&measure.quantity.write(value)),
        change: typographic(&change),
        verdict,
        best: measure.better == Better::Less && least.is_finite() && value < least,
    }
}

/// All numbers of the whole run or of a phase.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Numbers {
    title: String,
    rows: Vec<NumbersRow>,
}

#[derive(Clone, Debug, Serialize)]
struct NumbersRow {
    stage: String,
    metric: String,
    unit: String,
    fidelity: &'static str,
    /// Whether the stage's name is to be written: it is not repeated.
    first: bool,
    values: Vec<String>,
}

/// Every row that any machine has, in the order of the first that has it.
pub(super) fn numbers(title: String, spans: &[Span<'_>]) -> Numbers {
    let mut rows: Vec<NumbersRow> = Vec::new();
    let mut seen = BTreeSet::new();
    for row in spans.iter().flat_map(|span| span.metrics) {
        if !seen.insert(key(row)) {
            continue;
        }
        let (stage, metric) = key(row);
        let values = spans
            .iter()
            .map(|span| match span.row(stage, metric).map(|row| row.value) {
                None => String::new(),
                Some(None) => "–".into(),
                Some(Some(Number::Count(count))) => grouped(count),
                Some(Some(Number::Ratio(ratio))) => plain(ratio, 6),
            })
            .collect();
        let stage = visible(stage);
        let first = rows.last().is_none_or(|last| last.stage != stage);
        let fidelity = match row.fidelity {
            Fidelity::Observed => "observed",
            Fidelity::Modelled => "modelled",
            Fidelity::Estimated => "estimated",
        };
        rows.push(NumbersRow {
            stage,
            metric: visible(metric),
            unit: visible(&row.unit),
            fidelity,
            first,
            values,
        });
    }
    Numbers { title, rows }
}
