//! The report: one HTML page that needs no network, no script and no other file.
//!
//! Values become words and coordinates here; the template only places them, and escapes every one.

mod cards;
mod chart;
mod figures;
mod lines;
mod ratios;
mod tables;
mod timeline;
mod validation;

use minijinja::{Environment, context};
use pagewalk_sim::metrics::RunResult;
use pagewalk_trace::Remarks;
use serde::Serialize;

use self::cards::{Card, Machines, Multiples, cards, multiples};
use self::tables::{Glance, Numbers, at_a_glance, numbers};
use self::timeline::TimelinePlot;
use crate::document::{Document, Manifest, partial_heading};
use crate::headline::{Part, headline_parts};
use crate::measure::{Base, program_measures, time_basis};
use crate::papers::PaperDocument;
use crate::span::{Span, by_source, phases, spans};
use crate::text::visible;
use crate::timeline::{Moment, timeline_rows, window_ps};
use crate::validation::Validation;

/// Returns the report of `document`, ready to be written to a file.
pub fn page(document: &Document) -> String {
    let groups: Vec<Group> =
        by_source(&document.runs).into_iter().map(|(source, runs)| group(document, source, &runs)).collect();
    render(
        "page.html",
        context! {
            style => include_str!("style.css"),
            groups,
            partial => document.manifest.as_ref().and_then(|manifest| manifest.partial.as_ref()).map(partial_heading),
            manifest => document.manifest.as_ref().map(Provenance::of),
        },
    )
}

/// Returns the report of a paper's numbers beside ours; `title` is the paper's.
pub fn paper_page(document: &PaperDocument, title: &str) -> String {
    render(
        "paper.html",
        context! {
            style => include_str!("style.css"),
            title => visible(title),
            paper => visible(&document.paper),
            partial => document.partial.as_ref().map(partial_heading),
            counts => figures::counts(document),
            cards => figures::cards(document),
            rows => figures::rows(document),
        },
    )
}

/// Returns the report of predicted times beside those of the stopwatch.
pub fn validation_page(validation: &Validation) -> String {
    render(
        "validation.html",
        context! {
            style => include_str!("style.css"),
            partial => validation.partial,
            shown => validation::shown(validation),
        },
    )
}

fn render(name: &str, values: minijinja::Value) -> String {
    let mut environment = Environment::new();
    // The templates are part of this crate, and every test renders them.
    for (name, text) in [
        ("macros.html", include_str!("macros.html")),
        ("page.html", include_str!("page.html")),
        ("paper.html", include_str!("paper.html")),
        ("validation.html", include_str!("validation.html")),
    ] {
        environment.add_template(name, text).expect("the template parses");
    }
    let template = environment.get_template(name).expect("it was just added");
    template.render(values).expect("the template only uses what it is given")
}

/// The runs of one source.
#[derive(Serialize)]
struct Group {
    source: String,
    headline: Vec<Part>,
    facts: Vec<String>,
    machines: Vec<String>,
    glance: Glance,
    cards: Vec<Card>,
    multiples: Vec<Multiples>,
    timeline: Option<TimelinePlot>,
    numbers: Vec<Numbers>,
    basis: Option<String>,
}

fn group(document: &Document, source: &str, runs: &[&RunResult]) -> Group {
    let names: Vec<String> = runs.iter().map(|run| visible(&run.machine)).collect();
    let cut: Vec<Vec<Span<'_>>> = runs.iter().map(|run| spans(run)).collect();
    let whole: Vec<Span<'_>> = cut.iter().map(|spans| spans[0]).collect();
    let base = Base::of(whole.iter().copied());
    let phases = phases(&cut);
    let describe = |at: usize| {
        let notes = document.manifest.as_ref().map_or(&[][..], |manifest| &manifest.machines);
        let note = notes.iter().find(|note| note.name == runs[at].machine);
        note.map_or(String::new(), |note| visible(&note.description))
    };
    let mut all = vec![numbers("The whole run".into(), &whole)];
    for (name, spans) in &phases {
        let empty = Span { phase: None, metrics: &[] };
        let spans: Vec<Span<'_>> = spans.iter().map(|span| span.unwrap_or(empty)).collect();
        all.push(numbers(format!("Phase {}", visible(name)), &spans));
    }
    Group {
        source: visible(source),
        headline: headline_parts(source, runs),
        facts: facts(&whole),
        glance: at_a_glance(&names, &describe, &whole),
        multiples: multiples(&names, &phases, base),
        timeline: last_faults(runs),
        basis: time_basis(&names, &whole),
        cards: cards(&Machines { names: names.clone(), spans: whole, base }),
        machines: names,
        numbers: all,
    }
}

/// The last page faults of every machine that has any, one below the other.
fn last_faults(runs: &[&RunResult]) -> Option<TimelinePlot> {
    let window_ps = window_ps(runs.iter().map(|run| &run.spans[..]));
    let rows = runs.iter().flat_map(|run| timeline_rows(&run.machine, &run.spans, window_ps, Moment::End));
    timeline::draw(&rows.collect::<Vec<_>>())
}

/// What the program did, where all machines agree on it.
fn facts(spans: &[Span<'_>]) -> Vec<String> {
    let rows = program_measures(spans);
    rows.iter()
        .filter(|row| row.is_shared())
        .filter_map(|row| Some(format!("{} {}", row.quantity.write(row.readings[0].value()?), row.label)))
        .collect()
}

/// A manifest, in words.
#[derive(Serialize)]
struct Provenance {
    rows: Vec<(&'static str, String)>,
    machines: Vec<(String, String)>,
}

impl Provenance {
    fn of(manifest: &Manifest) -> Self {
        let arguments: Vec<String> =
            manifest.command.iter().map(|argument| quoted(&visible(argument))).collect();
        let limit = match (manifest.limit, manifest.limited) {
            (None, _) if manifest.partial.is_some() => "none".into(),
            (None, _) => "none: the source ran to its end".into(),
            (Some(limit), true) => format!("{} accesses; it ended the run", crate::units::grouped(limit)),
            (Some(limit), false) => {
                format!("{} accesses; the run ended before", crate::units::grouped(limit))
            }
        };
        let source = &manifest.source;
        let yes = |is: bool, yes: &str, no: &str| if is { yes.to_owned() } else { no.to_owned() };
        let known = [
            yes(source.counts_instructions, "counts instructions", "does not count instructions"),
            yes(
                source.announces_mappings,
                "announces its mappings",
                "does not announce its mappings: a page is mapped when it is first touched",
            ),
        ];
        let remarks = source.trace.iter().flat_map(Remarks::lines);
        let remarks: Vec<String> =
            remarks.map(|(heading, text)| format!("{heading}: {}", visible(&text))).collect();
        let mut rows = vec![
            ("Pagewalk", visible(&manifest.pagewalk)),
            ("Command", arguments.join(" ")),
            ("Detail", visible(&manifest.detail)),
            ("Seed", manifest.seed.to_string()),
            ("Limit", limit),
            ("Source", format!("{}; {}", visible(&source.name), known.join(", "))),
        ];
        if !remarks.is_empty() {
            rows.push(("Trace", remarks.join("; ")));
        }
        if !source.unobserved.is_empty() {
            let all: Vec<String> = source.unobserved.iter().map(|each| visible(&each.text)).collect();
            rows.push(("Not observed", all.join("; ")));
        }
        let frames = manifest.machines.iter().filter_map(|machine| {
            Some(format!("{}: {}", visible(&machine.name), visible(&machine.frames.as_ref()?.to_string())))
        });
        let frames: Vec<String> = frames.collect();
        if !frames.is_empty() {
            rows.push(("Frames", frames.join("; ")));
        }
        Self {
            rows,
            machines: manifest
                .machines
                .iter()
                .filter_map(|machine| Some((visible(&machine.name), lines(machine.resolved.as_ref()?))))
                .collect(),
        }
    }
}

/// [`visible`], line by line.
fn lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// An argument as a shell would need it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
