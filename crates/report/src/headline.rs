//! The result of a comparison in one sentence.

use std::cmp::Ordering;

use pagewalk_sim::metrics::RunResult;
use pagewalk_sim::metrics::names::{program, time};
use serde::Serialize;

use crate::measure::{Base, core_time, walks};
use crate::span::{Reading, Span, by_source, spans};
use crate::text::{shorten, visible};
use crate::units::Quantity;

/// A source's name is cut to this many columns.
const SOURCE_COLUMNS: usize = 48;

/// Returns the sentence about `runs`: the time if it was estimated, the page walks otherwise, the first machine being
/// what the others are held against. Runs of several sources get a sentence each.
pub fn headline(runs: &[RunResult]) -> String {
    let sentences: Vec<String> =
        by_source(runs).into_iter().map(|(source, runs)| headline_of(source, &runs)).collect();
    sentences.join(" ")
}

/// The sentence about the runs of one source.
pub(crate) fn headline_of(source: &str, runs: &[&RunResult]) -> String {
    headline_parts(source, runs).into_iter().map(|part| part.text).collect()
}

/// A piece of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Part {
    pub(crate) text: String,
    /// Whether it is a machine's or a source's name, which is better not broken over lines.
    pub(crate) name: bool,
}

/// [`headline_of`] in pieces.
pub(crate) fn headline_parts(source: &str, runs: &[&RunResult]) -> Vec<Part> {
    let machines: Vec<Machine<'_>> = runs
        .iter()
        .map(|run| Machine { name: marked(&visible(&run.machine)), span: spans(run)[0] })
        .collect();
    let source = marked(&shorten(&visible(source), SOURCE_COLUMNS));
    let sentence = sentence(&source, &machines);
    // Every second piece lay between two marks.
    let pieces = sentence.split(MARK).enumerate();
    pieces
        .map(|(at, text)| Part { text: text.into(), name: at % 2 == 1 })
        .filter(|part| !part.text.is_empty())
        .collect()
}

/// Stands before and after a name while a sentence is made; `visible` leaves no such character in a name.
const MARK: char = '\u{1}';

fn marked(name: &str) -> String {
    format!("{MARK}{name}{MARK}")
}

struct Machine<'a> {
    name: String,
    span: Span<'a>,
}

impl Machine<'_> {
    fn elapsed(&self) -> Option<f64> {
        self.span.read(&time::ELAPSED).value()
    }

    fn walks(&self) -> Option<f64> {
        walks(&self.span).value()
    }
}

fn sentence(source: &str, machines: &[Machine<'_>]) -> String {
    let [baseline, others @ ..] = machines else { return String::new() };
    if others.is_empty() {
        return alone(source, baseline);
    }
    if let Some(told) = told_by(source, baseline, others, &|machine| machine.elapsed(), &TIME) {
        return told;
    }
    if let Some(told) = told_by(source, baseline, others, &|machine| machine.walks(), &WALKS) {
        return told;
    }
    format!("{} machines ran {source}.", machines.len())
}

/// How a comparison by one number is put into words.
struct Words {
    /// `best` beats the baseline by so much.
    less: fn(best: &str, source: &str, base: &str, by: &str) -> String,
    /// No machine beats the baseline; the next needs so much more.
    none: fn(source: &str, base: &str, next: &str, more: &str) -> String,
    /// No machine differs from the baseline.
    same: fn(all: &str, source: &str) -> String,
    /// The word after a percentage that is too much, and after a factor.
    more: [&'static str; 2],
}

const TIME: Words = Words {
    less: |best, source, base, by| format!("{best} finishes {source} {by} sooner than {base}"),
    none: |source, base, next, more| {
        format!("No machine finishes {source} sooner than {base}; the nearest, {next}, takes {more}.")
    },
    same: |all, source| format!("{all} finish {source} in the same time."),
    more: ["longer", "as long"],
};

const WALKS: Words = Words {
    less: |best, source, base, by| {
        format!("{best} walks the page table {by} less often than {base} on {source}")
    },
    none: |source, base, next, more| {
        format!(
            "No machine walks the page table less often than {base} on {source}; the nearest, {next}, does so {more}."
        )
    },
    same: |all, source| format!("{all} walk the page table equally often on {source}."),
    more: ["more often", "as often"],
};

/// None if a machine lacks the number, or the baseline's is zero.
fn told_by(
    source: &str,
    baseline: &Machine<'_>,
    others: &[Machine<'_>],
    number: &dyn Fn(&Machine<'_>) -> Option<f64>,
    words: &Words,
) -> Option<String> {
    let base = number(baseline).filter(|&base| base > 0.0)?;
    let numbers: Vec<f64> = others.iter().map(number).collect::<Option<_>>()?;
    if numbers.iter().all(|&other| other == base) {
        let all = if others.len() == 1 {
            "Both machines".into()
        } else {
            format!("All {} machines", others.len() + 1)
        };
        return Some((words.same)(&all, source));
    }
    let least_of =
        |numbers: &mut dyn Iterator<Item = (usize, f64)>| numbers.min_by(|a, b| a.1.total_cmp(&b.1));
    let (at, least) = least_of(&mut numbers.iter().copied().enumerate())?;
    if least >= base {
        let mut worse = numbers.iter().copied().enumerate().filter(|&(_, number)| number > base);
        let (at, next) = least_of(&mut worse)?;
        let more = more(next / base, words.more);
        return Some((words.none)(source, &baseline.name, &others[at].name, &more));
    }
    let best = &others[at];
    let mut told = (words.less)(&best.name, source, &baseline.name, &less(least / base));
    if best.elapsed().is_some()
        && let (Some(base), Some(walks)) = (baseline.walks(), best.walks())
        && base > 0.0
    {
        match walks.total_cmp(&base) {
            Ordering::Less => told += &format!(" and walks the page table {} less often", less(walks / base)),
            Ordering::Greater => {
                told += &format!(", although it walks the page table {}", more(walks / base, WALKS.more));
            }
            Ordering::Equal => {}
        }
    }
    Some(told + ".")
}

/// `46 %` of a factor below 1.
fn less(factor: f64) -> String {
    let change = Quantity::Count.change(factor, 1.0).unwrap_or_default();
    if change == "~0 %" { "less than 0.1 %".into() } else { change.trim_start_matches('-').into() }
}

/// `34 % longer` or `3.20 times as long` of a factor above 1.
fn more(factor: f64, [after_percent, after_factor]: [&str; 2]) -> String {
    if factor >= 2.0 {
        return format!("{} times {after_factor}", Quantity::Ratio.write(factor));
    }
    let change = Quantity::Count.change(factor, 1.0).unwrap_or_default();
    let percent = if change == "~0 %" { "less than 0.1 %" } else { change.trim_start_matches('+') };
    format!("{percent} {after_percent}")
}

fn alone(source: &str, machine: &Machine<'_>) -> String {
    let base = Base::of([machine.span]);
    let Some(walks) = machine.walks() else {
        return match machine.span.read(&program::ACCESSES) {
            Reading::Value(accesses) => {
                format!("{} took {} accesses of {source}.", machine.name, Quantity::Count.write(accesses))
            }
            _ => format!("{} ran {source}.", machine.name),
        };
    };
    let mut told =
        format!("{} walks the page table {} times on {source}", machine.name, Quantity::Count.write(walks));
    if let Reading::Value(rate) = base.rate(&machine.span, Reading::Value(walks)) {
        told += &format!(", {} times per thousand {}", Quantity::Ratio.write(rate), base.name());
    }
    let spent = |name| machine.span.read(name).over(core_time(&machine.span), 1.0).value();
    if let (Some(walk), Some(fault)) = (spent(&time::WALK), spent(&time::FAULT)) {
        told += &format!(
            "; {} of its time goes into walks and {} into page faults",
            Quantity::Share.write(walk),
            Quantity::Share.write(fault)
        );
    }
    told + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{counted, timed, without_stages};

    #[test]
    fn the_sentence_says_who_does_better_and_by_how_much() {
        let lines = [
            headline(&[counted("x86-64", 1.0)]),
            headline(&[timed("x86-64", 1.0)]),
            headline(&[counted("x86-64", 1.0), counted("mosaic-4", 0.54), counted("mosaic-8", 0.3)]),
            headline(&[timed("x86-64", 1.0), timed("mosaic-4", 0.54)]),
            headline(&[counted("x86-64", 1.0), counted("small", 3.0), counted("tiny", 40.0)]),
            headline(&[counted("x86-64", 1.0), counted("tiny", 40.0)]),
            headline(&[timed("x86-64", 1.0), timed("slow", 2.0)]),
            headline(&[counted("a", 1.0), counted("b", 1.0)]),
            headline(&[counted("a", 1.0), counted("b", 1.0), counted("c", 2.0)]),
            headline(&[without_stages("bare")]),
            headline(&[without_stages("a"), without_stages("b")]),
            headline(&[counted("a", 0.0), counted("b", 1.0)]),
            headline(&[]),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }
}
