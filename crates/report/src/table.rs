//! The terminal's comparison table: machines side by side, the first the baseline of the others.

use pagewalk_sim::metrics::RunResult;

use crate::headline::headline_of;
use crate::measure::{Better, Measure, measures, phase_measures, program_measures, time_basis};
use crate::span::{Reading, Span, by_source, phases, spans};
use crate::text::{left, right, shorten, visible, width, wrap};
use crate::units::{Quantity, widest};

/// The style in which the table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use terminal colours.
    pub colour: bool,
    /// The most columns a line may take; more machines than fit are wrapped into further blocks.
    pub columns: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, columns: 100 }
    }
}

/// Longer names are cut.
const NAME_COLUMNS: usize = 26;
/// The space between two columns, in characters.
const GAP: usize = 2;
/// More phases than this are counted, not shown.
const PHASES: usize = 8;

/// Returns the comparison of `runs`, ending in a newline: the headline, a row per measure, then the phases.
pub fn comparison(runs: &[RunResult], style: Style) -> String {
    let mut out = String::new();
    for (source, runs) in by_source(runs) {
        if !out.is_empty() {
            out.push('\n');
        }
        group(&mut out, source, &runs, style);
    }
    out
}

fn group(out: &mut String, source: &str, runs: &[&RunResult], style: Style) {
    let names: Vec<String> = runs.iter().map(|run| shorten(&visible(&run.machine), NAME_COLUMNS)).collect();
    let cut: Vec<Vec<Span<'_>>> = runs.iter().map(|run| spans(run)).collect();
    let whole: Vec<Span<'_>> = cut.iter().map(|spans| spans[0]).collect();
    let table = Table { names: &names, style };
    *out += &table.paint(Paint::Strong, &shorten(&visible(source), style.columns));
    out.push('\n');
    for line in wrap(&headline_of(source, runs), style.columns) {
        *out += &line;
        out.push('\n');
    }
    for line in time_basis(&names, &whole).iter().flat_map(|basis| wrap(basis, style.columns)) {
        *out += &table.paint(Paint::Faint, &line);
        out.push('\n');
    }
    let mut rows = program_measures(&whole);
    if rows.iter().all(Measure::is_shared) {
        let facts: Vec<String> = rows.iter().map(|row| format!("{} {}", cell(row, 0).0, row.label)).collect();
        *out += &table.paint(Paint::Faint, &facts.join(", "));
        out.push('\n');
        rows.clear();
    }
    out.push('\n');
    rows.extend(measures(&whole));
    if !rows.is_empty() {
        table.blocks(out, "", &rows);
    }

    let phases = phases(&cut);
    for (name, spans) in phases.iter().take(PHASES) {
        let empty = Span { phase: None, metrics: &[] };
        let spans: Vec<Span<'_>> = spans.iter().map(|span| span.unwrap_or(empty)).collect();
        out.push('\n');
        table.blocks(out, &format!("phase {}", visible(name)), &phase_measures(&spans));
    }
    if let Some(more) = phases.len().checked_sub(PHASES).filter(|&more| more > 0) {
        *out += &format!("\n{more} more phases are in the JSON document.\n");
    }
    notes(out, &table, &rows, names.len());
}

fn notes(out: &mut String, table: &Table<'_>, rows: &[Measure], machines: usize) {
    let undefined = rows.iter().any(|row| row.readings.contains(&Reading::Undefined));
    let mut notes = Vec::new();
    if machines > 1 {
        notes.push(format!("changes are against {}", table.names[0]));
    }
    if undefined {
        notes.push("-: nothing to divide by".to_owned());
    }
    if !notes.is_empty() {
        out.push('\n');
        *out += &table.paint(Paint::Faint, &notes.join("; "));
        out.push('\n');
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paint {
    Strong,
    Faint,
    Good,
    Bad,
}

struct Table<'a> {
    names: &'a [String],
    style: Style,
}

/// A machine's column, written out.
struct Column {
    name: String,
    /// Value, change, and how the change is painted.
    cells: Vec<(String, String, Option<Paint>)>,
    change_columns: usize,
    columns: usize,
}

impl Table<'_> {
    /// One block, or several when the machines do not fit side by side; every block starts with the baseline.
    fn blocks(&self, out: &mut String, title: &str, rows: &[Measure]) {
        let label_columns = widest(rows.iter().map(|row| row.label.as_str())).max(width(title)) + 2;
        let columns: Vec<Column> = (0..self.names.len()).map(|at| self.column(at, rows)).collect();
        let Some((baseline, mut others)) = columns.split_first() else { return };
        loop {
            let mut used = label_columns + GAP + baseline.columns;
            let fits = others
                .iter()
                .take_while(|column| {
                    used += GAP + column.columns;
                    used <= self.style.columns
                })
                .count()
                .max(1)
                .min(others.len());
            let (here, rest) = others.split_at(fits);
            let block: Vec<&Column> = std::iter::once(baseline).chain(here).collect();
            self.block(out, title, label_columns, rows, &block);
            if rest.is_empty() {
                return;
            }
            out.push('\n');
            others = rest;
        }
    }

    fn column(&self, at: usize, rows: &[Measure]) -> Column {
        let cells: Vec<_> = rows.iter().map(|row| cell(row, at)).collect();
        let value_columns = widest(cells.iter().map(|(value, ..)| value.as_str()));
        let change_columns = widest(cells.iter().map(|(_, change, _)| change.as_str()));
        let change_columns = if change_columns > 0 { 1 + change_columns } else { 0 };
        let name = self.names[at].clone();
        Column { columns: (value_columns + change_columns).max(width(&name)), name, cells, change_columns }
    }

    fn block(
        &self,
        out: &mut String,
        title: &str,
        label_columns: usize,
        rows: &[Measure],
        block: &[&Column],
    ) {
        let gap = " ".repeat(GAP);
        let mut head = self.paint(Paint::Strong, title) + &" ".repeat(label_columns - width(title));
        for column in block {
            head += &gap;
            head += &self.paint(Paint::Strong, &right(&column.name, column.columns));
        }
        *out += head.trim_end();
        out.push('\n');
        let mut heading = "";
        for (at, row) in rows.iter().enumerate() {
            if title.is_empty() && row.group != heading {
                heading = row.group;
                *out += &self.paint(Paint::Faint, heading);
                out.push('\n');
            }
            let mut line = format!("  {}", left(&row.label, label_columns - 2));
            for column in block {
                line += &gap;
                line += &self.cell(column, at);
            }
            *out += line.trim_end();
            out.push('\n');
        }
    }

    fn cell(&self, column: &Column, at: usize) -> String {
        let (value, change, paint) = &column.cells[at];
        let change = right(change, column.change_columns);
        let change = paint.map_or(change.clone(), |paint| self.paint(paint, &change));
        right(value, column.columns - column.change_columns) + &change
    }

    fn paint(&self, paint: Paint, text: &str) -> String {
        if !self.style.colour || text.trim().is_empty() {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Strong => 1,
            Paint::Faint => 2,
            Paint::Good => 32,
            Paint::Bad => 31,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

fn cell(row: &Measure, at: usize) -> (String, String, Option<Paint>) {
    match row.readings[at] {
        Reading::Absent => (String::new(), String::new(), None),
        Reading::Undefined => ("-".into(), String::new(), None),
        Reading::Value(value) => {
            let written = row.quantity.write(value);
            let baseline = if at > 0 { row.readings[0].value() } else { None };
            let Some(baseline) = baseline else { return (written, String::new(), None) };
            let change = row.quantity.change(value, baseline).unwrap_or("-".into());
            (written, change, verdict(row, value, baseline))
        }
    }
}

/// Whether a change is for the better, in colour.
fn verdict(row: &Measure, value: f64, baseline: f64) -> Option<Paint> {
    if row.better == Better::Neither || value == baseline || row.quantity == Quantity::Share {
        return None;
    }
    Some(if value < baseline { Paint::Good } else { Paint::Bad })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use pagewalk_sim::metrics::Metric;

    fn plain(runs: &[RunResult]) -> String {
        let text = comparison(runs, Style::default());
        for line in text.lines() {
            assert!(width(line) <= 100, "{} columns: {line}", width(line));
            assert_eq!(line, line.trim_end());
        }
        text
    }

    #[test]
    fn two_machines_with_time_and_phases() {
        insta::assert_snapshot!(plain(&samples::pair()));
    }

    /// Which times are lower bounds, and the parts that all machines' times have.
    #[test]
    fn a_comparison_says_what_its_times_are_made_of() {
        let executing = |name: &str| {
            let mut run = samples::timed(name, 1.0);
            let compute = run.metrics.iter().find(|row| row.stage == "time" && row.metric == "compute");
            let compute = compute.expect("a timed run").clone();
            for metric in ["compute.width", "compute.dependences"] {
                run.metrics.push(Metric { metric: metric.into(), ..compute.clone() });
            }
            run
        };
        let (both, mixed) =
            (plain(&[executing("a"), executing("b")]), plain(&[executing("a"), samples::timed("b", 1.0)]));
        assert!(both.contains("are those of executed instructions, with their"), "{both}");
        assert!(
            both.contains("dependences and units") && !mixed.contains("dependences and units"),
            "{mixed}"
        );
        assert!(mixed.contains("Times of a are those of executed instructions; those of b let"), "{mixed}");
        assert!(!plain(&[samples::counted("c", 1.0)]).contains("Times"));
    }

    #[test]
    fn one_machine_has_no_changes() {
        insta::assert_snapshot!(plain(&[samples::counted("x86-64", 1.0)]));
    }

    #[test]
    fn twelve_machines_wrap_and_the_baseline_comes_again() {
        let text = plain(&samples::many(12));
        insta::assert_snapshot!(text);
        let heads = text.lines().filter(|line| line.trim_start().starts_with("machine-number-0 ")).count();
        let blocks = text.lines().filter(|line| line.starts_with("  page walks ")).count();
        assert!(blocks > 1 && heads >= blocks);
        for at in 0..12 {
            assert!(text.contains(&format!("machine-number-{at}")));
        }
    }

    #[test]
    fn missing_stages_are_gaps_and_zero_denominators_dashes() {
        let still = RunResult { machine: "still".into(), ..samples::counted("still", 0.0) };
        insta::assert_snapshot!(plain(&[
            samples::without_tlb("no-tlb"),
            still,
            samples::without_stages("bare")
        ]));
    }

    #[test]
    fn a_guest_shows_what_its_host_adds() {
        insta::assert_snapshot!(plain(&[samples::counted("x86-64", 1.0), samples::guest("x86-64-guest")]));
    }

    #[test]
    fn without_instructions_rates_are_per_access() {
        let text = plain(&[samples::without_instructions("a"), samples::counted("b", 0.5)]);
        assert!(text.contains("L2 TLB misses / k-access") && !text.contains("k-instr"), "{text}");
    }

    #[test]
    fn colour_only_when_asked_and_hostile_names_are_spelled_out() {
        let mut runs = samples::pair();
        runs[0].machine = "\u{1b}[31mred\r".into();
        for run in &mut runs {
            run.source = "rm \u{202e}x\n".into();
        }
        assert!(!plain(&runs).contains('\u{1b}'));
        let coloured = comparison(&runs, Style { colour: true, ..Style::default() });
        assert!(coloured.contains("\u{1b}[32m"));
        assert!(!coloured.contains("\u{1b}[31mred") && coloured.contains("\\u{1b}[31mred\\r"));
    }

    #[test]
    fn colour_does_not_change_the_layout() {
        let coloured = comparison(&samples::pair(), Style { colour: true, ..Style::default() });
        let mut bare = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            bare += before;
            rest = after.split_once('m').unwrap().1;
        }
        bare += rest;
        let bare: Vec<_> = bare.lines().map(str::trim_end).collect();
        assert_eq!(bare, plain(&samples::pair()).lines().collect::<Vec<_>>());
    }

    #[test]
    fn runs_of_two_sources_do_not_compare() {
        let mut other = samples::counted("x86-64", 0.1);
        other.source = "sort".into();
        let text = plain(&[samples::counted("x86-64", 1.0), other]);
        assert!(!text.contains('%'), "{text}");
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(plain(&[]), "");
    }
}
