//! Predicted times beside those of the stopwatch.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::document::to_json;
use crate::text::visible;

/// The class of a program, by which its error is judged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A core waits for memory in little of the time.
    CoreBound,
    /// A core waits for memory, of a footprint that a second cache holds or that no third cache does.
    MemoryBound,
    /// A core waits for memory, of a footprint that a third cache may hold, depending on its other users.
    ThirdCache,
    /// A loop that shows one parameter, of which the work alone is timed.
    Micro,
}

impl Class {
    /// All classes, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::CoreBound, Self::MemoryBound, Self::ThirdCache, Self::Micro];

    /// Returns the name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::CoreBound => "core-bound",
            Self::MemoryBound => "memory-bound",
            Self::ThirdCache => "third-cache",
            Self::Micro => "micro",
        }
    }
}

/// The errors of several programs. The error of a ratio r of times is max(r, 1/r) - 1.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Errors {
    /// The number of programs.
    pub count: usize,
    /// The median of the errors, a fraction.
    pub median: f64,
    /// The largest of the errors.
    pub worst: f64,
}

impl Errors {
    /// Returns the summary of errors; none for no errors.
    pub fn of(errors: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut errors: Vec<f64> = errors.into_iter().collect();
        errors.sort_by(f64::total_cmp);
        let (count, worst) = (errors.len(), *errors.last()?);
        let median = (errors[(count - 1) / 2] + errors[count / 2]) / 2.0;
        Some(Self { count, median, worst })
    }
}

/// A validation: `{"schema": 1, "machine": "here", "programs": [...]}`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Validation {
    /// The version of the document's shape: 1.
    pub schema: u32,
    /// The name of the machine whose predictions are judged.
    pub machine: String,
    /// A row per program.
    pub programs: Vec<ValidationRow>,
    /// Programs that could not be judged, and why.
    pub left_out: Vec<LeftOut>,
    /// Errors by class, and of all programs; of those that count.
    pub summary: BTreeMap<&'static str, Errors>,
    /// Errors without each ingredient of the core model, of all programs that count.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ablations: BTreeMap<&'static str, Errors>,
    /// Whether the command was ended before all programs had run.
    pub partial: bool,
}

/// A program's times here and on the machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ValidationRow {
    /// The name of the program.
    pub program: String,
    /// The class of the program.
    pub class: Class,
    /// Whether the model was made without a look at the program.
    #[serde(rename = "held_out")]
    pub is_held_out: bool,
    /// Processor time here, in nanoseconds.
    pub measured_ns: f64,
    /// Processor time on the machine, in nanoseconds.
    pub predicted_ns: f64,
    /// Of the class `third-cache`, the times with as much and as little of the third cache as the looks showed; the error is that of the nearer one
    /// then, if the measured time lies outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band_ns: Option<[f64; 2]>,
    /// The error of the prediction, a fraction.
    pub error: f64,
    /// Minor page faults here.
    pub measured_faults: u64,
    /// Minor page faults on the machine.
    pub predicted_faults: u64,
    /// The reason why the row does not count, if it does not.
    pub void: Option<String>,
    /// The share of the time that huge pages save, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<Gain>,
    /// The error without each ingredient of the core model, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub without: BTreeMap<&'static str, f64>,
}

/// The share of a program's time that huge pages save.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Gain {
    /// The pairs of runs that count; where none does, all.
    pub pairs: usize,
    /// Of all its time.
    #[serde(flatten)]
    pub whole: Gained,
    /// Of its work alone, behind the first touches of its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steady: Option<Gained>,
    /// The time without its work, which is that of the first touches for the most part, in nanoseconds.
    #[serde(rename = "first_touches_ns", skip_serializing_if = "Option::is_none")]
    pub first_touches: Option<Times>,
}

/// A share of a time that is saved here, by the median of several pairs of runs, and on the machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Gained {
    /// The share here, by the median of the pairs.
    pub measured: f64,
    /// The distance between the ends of the middle half of the pairs.
    pub spread: f64,
    /// The share on the machine.
    pub predicted: f64,
}

/// A time here and on the machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Times {
    /// The time on this computer.
    pub measured: f64,
    /// The time on the simulated machine.
    pub predicted: f64,
}

/// A program that could not be judged.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LeftOut {
    /// The name of the program.
    pub program: String,
    /// The reason, a sentence without a full stop.
    pub reason: String,
}

impl Validation {
    /// Returns the result of rows, with their summaries.
    pub fn new(machine: String, programs: Vec<ValidationRow>, left_out: Vec<LeftOut>, partial: bool) -> Self {
        let counted = || programs.iter().filter(|row| row.void.is_none());
        let of_class =
            |class: Class| Errors::of(counted().filter(|row| row.class == class).map(|row| row.error));
        let by_class = Class::ALL.into_iter().map(|class| (class.name(), of_class(class)));
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

    /// Returns the document as JSON, indented, with a newline at the end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Returns what comes before a terminal's lines of programs.
    pub fn heading(machine: &str) -> String {
        format!(
            "Time on {} against the stopwatch, user and system, in ms\n\n\
             {:<14} {:<13} {:>9} {:>9} {:>7} {:>8} {:>9} {:>9}\n",
            visible(machine),
            "program",
            "class",
            "measured",
            "predicted",
            "ratio",
            "error",
            "faults",
            "predicted"
        )
    }

    /// Returns what comes behind the lines of programs.
    pub fn conclusion(&self) -> String {
        let mut text = "\nerrors             programs  median    worst\n".to_owned();
        let errors = self.summary.iter().map(|(name, errors)| ((*name).to_owned(), errors));
        let without = self.ablations.iter().map(|(name, errors)| (format!("without {name}"), errors));
        for (name, Errors { count, median, worst }) in errors.chain(without) {
            let _ =
                writeln!(text, "{name:<22} {count:>4} {:>5.0} % {:>6.0} %", 100.0 * median, 100.0 * worst);
        }
        for LeftOut { program, reason } in &self.left_out {
            let _ = writeln!(text, "left out: {}: {}", visible(program), visible(reason));
        }
        text
    }
}

impl ValidationRow {
    /// Returns the predicted time over the measured one.
    pub fn ratio(&self) -> f64 {
        self.predicted_ns / self.measured_ns
    }

    /// Returns the program's line for a terminal, ending in a newline.
    pub fn line(&self) -> String {
        let ms = |ns: f64| ns / 1e6;
        let mut line = format!(
            "{:<14} {:<13} {:>9.1} {:>9.1} {:>7.2} {:>6.0} % {:>9} {:>9}",
            visible(&self.program),
            self.class.name(),
            ms(self.measured_ns),
            ms(self.predicted_ns),
            self.ratio(),
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
            let _ = write!(line, "  void: {}", visible(why));
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::validation;

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
        let lines: String = found.programs.iter().map(ValidationRow::line).collect();
        let table = Validation::heading(&found.machine) + &lines + &found.conclusion();
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
    fn errors_have_a_median_and_a_worst() {
        assert_eq!(Errors::of([0.3, 0.1, 0.2]), Some(Errors { count: 3, median: 0.2, worst: 0.3 }));
        assert_eq!(Errors::of([0.5, 0.25]).expect("two").median, 0.375);
        assert_eq!(Errors::of([]), None);
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
        assert!(none.conclusion().contains("errors"));
    }
}
