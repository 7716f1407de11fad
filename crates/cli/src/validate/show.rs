//! The result of a validation, as a table and as a document.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::judge::{Class, Errors};

/// A validation.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Validation {
    pub(super) schema: u32,
    /// The name of the machine whose predictions are judged.
    pub(super) machine: String,
    pub(super) programs: Vec<Row>,
    /// Programs that could not be judged, and why.
    pub(super) left_out: Vec<LeftOut>,
    /// Errors by class, and of all programs; of those that count.
    pub(super) summary: BTreeMap<&'static str, Errors>,
    /// Errors without each ingredient of the core model, of all programs that count.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) ablations: BTreeMap<&'static str, Errors>,
    /// Whether the command was ended before all programs had run.
    pub(super) partial: bool,
}

/// A program's row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Row {
    pub(super) program: String,
    pub(super) class: Class,
    /// Whether the model was made without a look at the program.
    #[serde(rename = "held_out")]
    pub(super) is_held_out: bool,
    pub(super) measured_ns: f64,
    pub(super) predicted_ns: f64,
    /// Of the class `third-cache`, the times with as much and as little of the third cache as the looks showed; the error is that of the nearer one
    /// then, if the measured time lies outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) band_ns: Option<[f64; 2]>,
    pub(super) error: f64,
    pub(super) measured_faults: u64,
    pub(super) predicted_faults: u64,
    /// Why the row does not count, if it does not.
    pub(super) void: Option<String>,
    /// What huge pages save, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) huge_pages: Option<Gain>,
    /// Errors without each ingredient.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) without: BTreeMap<&'static str, f64>,
}

/// The share of a program's time that huge pages save.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Gain {
    /// The pairs of runs that count; where none does, all.
    pub(super) pairs: usize,
    /// Of all its time.
    #[serde(flatten)]
    pub(super) whole: Gained,
    /// Of its work alone, behind the first touches of its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) steady: Option<Gained>,
    /// The time without its work, which is that of the first touches for the most part, in nanoseconds.
    #[serde(rename = "first_touches_ns", skip_serializing_if = "Option::is_none")]
    pub(super) first_touches: Option<Times>,
}

/// A share of a time that is saved here, by the median of several pairs of runs, and on the machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Gained {
    pub(super) measured: f64,
    /// How far the middle half of the pairs lie apart.
    pub(super) spread: f64,
    pub(super) predicted: f64,
}

/// A time here and on the machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Times {
    pub(super) measured: f64,
    pub(super) predicted: f64,
}

/// A program that could not be judged.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct LeftOut {
    pub(super) program: String,
    pub(super) reason: String,
}

impl Validation {
    /// Returns the result of rows, with their summaries.
    pub(super) fn new(machine: String, programs: Vec<Row>, left_out: Vec<LeftOut>, partial: bool) -> Self {
        let counted = || programs.iter().filter(|row| row.void.is_none());
        let of_class =
            |class: Class| Errors::of(counted().filter(|row| row.class == class).map(|row| row.error));
        let classes = [Class::CoreBound, Class::MemoryBound, Class::ThirdCache, Class::Micro];
        let by_class = classes.into_iter().map(|class| (class.name(), of_class(class)));
        let others_than_micro = || counted().filter(|row| row.class != Class::Micro);
        let held_out = |class| {
            let rows = others_than_micro().filter(|row| row.is_held_out && row.class == class);
            Errors::of(rows.map(|row| row.error))
        };
        let others = [
            ("core-bound, held out", held_out(Class::CoreBound)),
            ("memory-bound, held out", held_out(Class::MemoryBound)),
            ("all programs", Errors::of(others_than_micro().map(|row| row.error))),
        ];
        let summary = by_class.chain(others).filter_map(|(name, errors)| Some((name, errors?))).collect();
        let names: Vec<&'static str> =
            programs.first().map_or_else(Vec::new, |row| row.without.keys().copied().collect());
        let without = |name: &'static str| {
            Errors::of(others_than_micro().filter_map(|row| row.without.get(name).copied()))
        };
        let ablations = names.into_iter().filter_map(|name| Some((name, without(name)?))).collect();
        Self { schema: 1, machine, programs, left_out, summary, ablations, partial }
    }

    /// Returns the document of `--format json`.
    pub(super) fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("numbers and texts");
        text + "\n"
    }

    /// Returns the table for a reader.
    pub(super) fn to_table(&self) -> String {
        let mut text = format!("Time on {} against the stopwatch, user and system, in ms\n\n", self.machine);
        let _ = writeln!(
            text,
            "{:<14} {:<13} {:>9} {:>9} {:>7} {:>8} {:>9} {:>9}",
            "program", "class", "measured", "predicted", "ratio", "error", "faults", "predicted"
        );
        self.programs.iter().for_each(|row| text += &row.line());
        text += "\nerrors             programs  median    worst\n";
        let errors = self.summary.iter().map(|(name, errors)| ((*name).to_owned(), errors));
        let without = self.ablations.iter().map(|(name, errors)| (format!("without {name}"), errors));
        for (name, Errors { count, median, worst }) in errors.chain(without) {
            let _ =
                writeln!(text, "{name:<22} {count:>4} {:>5.0} % {:>6.0} %", 100.0 * median, 100.0 * worst);
        }
        for LeftOut { program, reason } in &self.left_out {
            let _ = writeln!(text, "left out: {program}: {reason}");
        }
        text
    }
}

impl Row {
    fn line(&self) -> String {
        let ms = |ns: f64| ns / 1e6;
        let mut line = format!(
            "{:<14} {:<13} {:>9.1} {:>9.1} {:>7.2} {:>6.0} % {:>9} {:>9}",
            self.program,
            self.class.name(),
            ms(self.measured_ns),
            ms(self.predicted_ns),
            self.predicted_ns / self.measured_ns,
            100.0 * self.error,
            self.measured_faults,
            self.predicted_faults,
        );
        if let Some([least, most]) = self.band_ns {
            let _ = write!(line, "  {:.1} to {:.1} by the third cache", ms(least), ms(most));
        }
        if let Some(Gain { pairs, whole, steady, first_touches }) = &self.huge_pages {
            let percent = |Gained { measured, spread, predicted }: &Gained| {
                let [measured, spread, predicted] = [measured, spread, predicted].map(|share| 100.0 * share);
                format!("{measured:.1} % (spread {spread:.1}), predicted {predicted:.1} %")
            };
            let _ = write!(line, "  by {pairs} pairs, huge pages save {}", percent(whole));
            if let Some(steady) = steady {
                let _ = write!(line, "; of the work alone {}", percent(steady));
            }
            if let Some(Times { measured, predicted }) = first_touches {
                let _ = write!(
                    line,
                    "; first touches {:.1} ms, predicted {:.1} ms",
                    ms(*measured),
                    ms(*predicted)
                );
            }
        }
        if let Some(why) = &self.void {
            let _ = write!(line, "  void: {why}");
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(program: &str, class: Class, error: f64, void: bool) -> Row {
        Row {
            program: program.to_owned(),
            class,
            is_held_out: program == "gzip",
            measured_ns: 1e8,
            predicted_ns: 1e8 * (1.0 + error),
            band_ns: (class == Class::ThirdCache).then_some([1e8, 2e8]),
            error,
            measured_faults: 100,
            predicted_faults: 90,
            void: void.then(|| "it moved".to_owned()),
            huge_pages: void.then_some(Gain {
                pairs: 5,
                whole: Gained { measured: 0.31, spread: 0.01, predicted: 0.25 },
                steady: Some(Gained { measured: 0.5, spread: 0.04, predicted: 0.45 }),
                first_touches: Some(Times { measured: 2e7, predicted: 2.5e7 }),
            }),
            without: [("branches", 2.0 * error)].into(),
        }
    }

    fn validation() -> Validation {
        let rows = vec![
            row("sort", Class::CoreBound, 0.1, false),
            row("gzip", Class::CoreBound, 0.3, false),
            row("gups", Class::MemoryBound, 0.5, false),
            row("join", Class::MemoryBound, 9.0, true),
            row("bfs", Class::ThirdCache, 0.0, false),
        ];
        let left_out =
            vec![LeftOut { program: "bc".to_owned(), reason: "there is no /usr/bin/bc".to_owned() }];
        Validation::new("here".to_owned(), rows, left_out, false)
    }

    #[test]
    fn void_rows_are_shown_and_do_not_count() {
        let found = validation();
        assert_eq!(found.summary["core-bound"], Errors { count: 2, median: 0.2, worst: 0.3 });
        assert_eq!(found.summary["memory-bound"], Errors { count: 1, median: 0.5, worst: 0.5 });
        assert_eq!(found.summary["all programs"].count, 4);
        assert_eq!(found.summary["core-bound, held out"], Errors { count: 1, median: 0.3, worst: 0.3 });
        assert_eq!(found.ablations["branches"].worst, 1.0);
        assert_eq!(found.summary["third-cache"].worst, 0.0);
        assert!(!found.summary.contains_key("micro"));
        let table = found.to_table();
        assert!(table.contains("100.0 to 200.0 by the third cache\n"), "{table}");
        assert!(
            table.contains(
                "by 5 pairs, huge pages save 31.0 % (spread 1.0), predicted 25.0 %; of the work alone 50.0 % (spread 4.0), \
                 predicted 45.0 %; first touches 20.0 ms, predicted 25.0 ms  void: it moved\n"
            ),
            "{table}"
        );
        assert!(
            table.contains("without branches") && table.contains("left out: bc: there is no /usr/bin/bc"),
            "{table}"
        );
        assert!(table.contains("core-bound                2    20 %     30 %"), "{table}");
    }

    #[test]
    fn the_document_holds_the_same() {
        let document: serde_json::Value = serde_json::from_str(&validation().to_json()).expect("JSON");
        assert_eq!(document["schema"], 1);
        assert_eq!(document["programs"][3]["void"], "it moved");
        assert_eq!(document["programs"][0]["void"], serde_json::Value::Null);
        assert_eq!(document["summary"]["all programs"]["worst"], 0.5);
        assert_eq!(document["programs"][0]["class"], "core-bound");
    }

    #[test]
    fn nothing_at_all_is_a_result() {
        let none = Validation::new("here".to_owned(), vec![], vec![], true);
        assert!(none.summary.is_empty() && none.to_json().contains("\"partial\": true"));
        none.to_table();
    }
}
