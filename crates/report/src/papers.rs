//! A paper's numbers beside ours.

use pagewalk_trace::Partial;
use serde::{Deserialize, Serialize};

use crate::document::to_json;
use crate::table::Style;
use crate::text::{left, right, shorten, visible, width, wrap};
use crate::timeline::TimelineRow;
use crate::units::{plain, widest};

/// The version of the document's shape.
const SCHEMA: u32 = 1;

/// The document of a paper: `{"schema": 1, "paper": "mosaic", "rows": [...]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperDocument {
    /// The version of the document's shape: 1.
    pub schema: u32,
    /// The paper, as its folder under `papers/` is called.
    pub paper: String,
    /// The reason why rows are missing; absent if all were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// A row per number.
    pub rows: Vec<PaperRow>,
    /// The figures that draw the rows.
    #[serde(default)]
    pub figures: Vec<Figure>,
}

/// A picture of several numbers, as the paper draws them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The title of the figure.
    pub title: String,
    /// The text of the figure, in a sentence or two.
    pub about: String,
    /// The unit of all values: `fraction`, `ratio`, `count`, or `us` of a time line.
    pub unit: String,
    /// Names of what is drawn in one colour.
    pub series: Vec<String>,
    /// The values that are drawn.
    pub drawn: Drawn,
}

/// The way in which a figure's values are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Drawn {
    /// Bars in groups, one bar a series.
    Bars {
        /// From top to bottom.
        groups: Vec<BarGroup>,
    },
    /// Lines over a number.
    Lines {
        /// The meaning of the number.
        x: String,
        /// Of each series, points in the order in which they are joined.
        points: Vec<Vec<[f64; 2]>>,
    },
    /// A time line: the series are the classes of steps, and have no other names.
    Timeline {
        /// From top to bottom, all on one axis from 0.
        rows: Vec<TimelineRow>,
    },
}

/// Bars that stand together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BarGroup {
    /// The label of the group.
    pub label: String,
    /// The values, one for each series.
    pub values: Vec<Option<f64>>,
}

/// A published number, ours, and how far they may differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperRow {
    /// The name of the item: `first-conflict`.
    pub item: String,
    /// The published number; none where the paper gives none, or only in words.
    pub published: Option<f64>,
    /// Our number; none where it could not be had.
    pub ours: Option<f64>,
    /// The unit of both: `fraction`, `%`, `count`, ...
    pub unit: String,
    /// The least and the most that passes; none for a row that only reports.
    pub gate: Option<[f64; 2]>,
    /// Whether ours lies within the gate.
    pub verdict: Verdict,
    /// The remark that stands below the row.
    pub note: String,
}

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The number is within the gate.
    Pass,
    /// Outside, or without a number.
    Miss,
    /// The row has no gate.
    Report,
}

impl Verdict {
    /// Returns the verdict on `ours`: the gate's ends pass, a missing number does not.
    pub fn of(ours: Option<f64>, gate: Option<[f64; 2]>) -> Self {
        match (gate, ours) {
            (None, _) => Self::Report,
            (Some([least, most]), Some(ours)) if (least..=most).contains(&ours) => Self::Pass,
            (Some(_), _) => Self::Miss,
        }
    }

    /// Returns the verdict as the document writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Miss => "miss",
            Self::Report => "report",
        }
    }
}

impl PaperRow {
    /// Returns a row with its verdict.
    pub fn judged(
        item: impl Into<String>,
        published: Option<f64>,
        ours: Option<f64>,
        unit: impl Into<String>,
        gate: Option<[f64; 2]>,
        note: impl Into<String>,
    ) -> Self {
        let verdict = Verdict::of(ours, gate);
        Self { item: item.into(), published, ours, unit: unit.into(), gate, verdict, note: note.into() }
    }
}

impl PaperDocument {
    /// Returns the document of a paper.
    pub fn new(paper: impl Into<String>, rows: Vec<PaperRow>, figures: Vec<Figure>) -> Self {
        Self { schema: SCHEMA, paper: paper.into(), partial: None, rows, figures }
    }

    /// Returns the document as JSON, indented, with a newline at the end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Returns whether no row misses its gate.
    pub fn passes(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::Miss)
    }
}

const HEADS: [&str; 6] = ["item", "published", "ours", "gate", "unit", "verdict"];
const ITEM_COLUMNS: usize = 44;
const UNIT_COLUMNS: usize = 22;
/// Digits of published numbers that matter at most.
const DIGITS: usize = 5;

/// Returns the rows for a terminal, ending in a newline: `published | ours | gate | verdict`, notes below their row,
/// a count of verdicts at the end.
pub fn paper_table(document: &PaperDocument, style: Style) -> String {
    let number = |value: Option<f64>| value.map_or("-".into(), |value| plain(value, DIGITS));
    let rows: Vec<[String; 6]> = document
        .rows
        .iter()
        .map(|row| {
            let gate = row.gate.map_or("-".into(), |[least, most]| {
                format!("{} to {}", plain(least, DIGITS), plain(most, DIGITS))
            });
            [
                shorten(&visible(&row.item), ITEM_COLUMNS),
                number(row.published),
                number(row.ours),
                gate,
                shorten(&visible(&row.unit), UNIT_COLUMNS),
                row.verdict.name().to_owned(),
            ]
        })
        .collect();
    let columns: [usize; 6] =
        std::array::from_fn(|at| widest(rows.iter().map(|row| row[at].as_str())).max(width(HEADS[at])));
    let line = |cells: [&str; 6]| {
        let mut parts = std::array::from_fn::<String, 6, _>(|at| match at {
            1..=3 => right(cells[at], columns[at]),
            _ => left(cells[at], columns[at]),
        });
        parts[5] = cells[5].to_owned();
        parts.join("  ")
    };
    let paint = |code: &str, text: &str| {
        if style.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    };
    let mut out = paint("1", &line(HEADS)) + "\n";
    for (row, cells) in document.rows.iter().zip(&rows) {
        let verdict = match row.verdict {
            Verdict::Pass => paint("32", "pass"),
            Verdict::Miss => paint("31", "MISS"),
            Verdict::Report => paint("2", "report"),
        };
        let cells: [&str; 6] =
            std::array::from_fn(|at| if at == 5 { verdict.as_str() } else { cells[at].as_str() });
        out += &line(cells);
        out.push('\n');
        for note in wrap(&visible(&row.note), style.columns.saturating_sub(4)) {
            out += &paint("2", &format!("    {note}"));
            out.push('\n');
        }
    }
    let count = |verdict| document.rows.iter().filter(|row| row.verdict == verdict).count();
    let (pass, miss, report) = (count(Verdict::Pass), count(Verdict::Miss), count(Verdict::Report));
    out + &format!("\n{}: {pass} pass, {miss} miss, {report} report only\n", visible(&document.paper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> PaperDocument {
        let rows = vec![
            PaperRow::judged(
                "first-conflict",
                Some(0.9803),
                Some(0.980_512),
                "fraction",
                Some([0.975, 0.985]),
                "",
            ),
            PaperRow::judged(
                "misses.xsbench",
                Some(123_456_789.0),
                Some(99_000_000.0),
                "count",
                Some([1.2e8, 1.3e8]),
                "The paper does not say which grid it used; ours is the unionised one with 355 nuclides and \
                 11,303 grid points a nuclide, as in the benchmark's default of 2014.",
            ),
            PaperRow::judged("gups.reduction", Some(25.0), Some(0.15), "%", None, "cause open"),
            PaperRow::judged("no-number", None, None, "%", Some([1.0, 2.0]), ""),
        ];
        PaperDocument::new("mosaic", rows, vec![])
    }

    #[test]
    fn the_json_has_the_promised_shape() {
        insta::assert_snapshot!(document().to_json());
        let read: PaperDocument = serde_json::from_str(&document().to_json()).unwrap();
        assert_eq!(read, document());
    }

    #[test]
    fn the_table_fits_and_shouts_misses() {
        let text = paper_table(&document(), Style::default());
        insta::assert_snapshot!(text);
        assert!(text.lines().all(|line| width(line) <= 100));
    }

    #[test]
    fn a_gate_includes_its_ends_and_refuses_what_is_no_number() {
        let gate = Some([1.0, 2.0]);
        let verdict = |ours| Verdict::of(ours, gate);
        assert_eq!([verdict(Some(1.0)), verdict(Some(2.0))], [Verdict::Pass; 2]);
        let outside = [Some(0.999), Some(2.001), Some(f64::NAN), None].map(verdict);
        assert_eq!(outside, [Verdict::Miss; 4]);
        assert_eq!(Verdict::of(None, None), Verdict::Report);
        assert!(!document().passes());
        assert!(PaperDocument::new("empty", vec![], vec![]).passes());
    }
}
