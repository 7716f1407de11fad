//! Hashed page tables by themselves, filled with as many lines as an application maps.

use std::collections::BTreeMap;

use anyhow::Context;
use pagewalk_report::PaperRow;
use pagewalk_sim::tables::{Lines, TableDesign, TableFigures};
use pagewalk_vm::table::cuckoo::{FirstWay, Policy, Scope};
use serde::Deserialize;

use crate::ending;
use crate::say::note;

/// The tables of an experiment file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TablesSpec {
    /// By name, what an application maps.
    application: BTreeMap<String, LinesSpec>,
    /// Applications by the name of what they have in common.
    #[serde(default)]
    group: BTreeMap<String, Vec<String>>,
    /// The designs of page tables, by name.
    design: BTreeMap<String, DesignSpec>,
    row: Vec<TableRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinesSpec {
    /// Of eight 4 KiB pages.
    lines: u64,
    /// Of eight 2 MiB pages.
    #[serde(default)]
    large_lines: u64,
}

/// The settings of a design; what is left out is as in elastic cuckoo page tables that keep their hash.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct DesignSpec {
    /// In bytes, smallest first; empty for ways in one piece.
    chunks: Vec<u64>,
    in_place: bool,
    way_by_way: bool,
    /// Ways that may change size at once, if they do so one by one.
    at_once: usize,
    rekey: bool,
    growth: usize,
    steps: u32,
    ways: usize,
    upsize_above: u32,
}

impl Default for DesignSpec {
    fn default() -> Self {
        let Policy { growth, steps, ways, upsize_above, .. } = Policy::ELASTIC;
        Self {
            chunks: Vec::new(),
            in_place: false,
            way_by_way: false,
            at_once: 1,
            rekey: false,
            growth,
            steps,
            ways,
            upsize_above,
        }
    }
}

impl DesignSpec {
    fn design(&self) -> anyhow::Result<TableDesign> {
        let policy = Policy {
            scope: if self.way_by_way { Scope::Way { at_once: self.at_once } } else { Scope::Table },
            first_way: if self.way_by_way { FirstWay::ByFreeSlots } else { FirstWay::Uniform },
            in_place: self.in_place,
            rekey: self.rekey,
            growth: self.growth,
            steps: self.steps,
            ways: self.ways,
            upsize_above: self.upsize_above,
            ..Policy::ELASTIC
        };
        policy.check()?;
        Ok(TableDesign { policy, chunk_bytes: self.chunks.clone() })
    }
}

/// One number about page tables, and the published one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableRow {
    item: String,
    /// An application or a group of them.
    of: String,
    design: String,
    /// The design that `design` is compared with.
    baseline: Option<String>,
    figure: String,
    #[serde(default)]
    value: Value,
    /// Of several applications' numbers.
    #[serde(default)]
    mean: Mean,
    /// The number is in so many units.
    #[serde(default = "one")]
    per: f64,
    #[serde(default)]
    unit: Option<String>,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

fn one() -> f64 {
    1.0
}

/// An application's number, from its figures with the design and the baseline.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// The figure of the design.
    #[default]
    Plain,
    /// 1 - design / baseline.
    Reduction,
    /// The figure of `design` over that of `baseline`.
    Ratio,
    /// The figure of `baseline` less that of `design`.
    Saved,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mean {
    #[default]
    Arithmetic,
    Geometric,
    Largest,
    Smallest,
}

impl Mean {
    fn of(self, values: &[f64]) -> f64 {
        let count = values.len() as f64;
        match self {
            Self::Arithmetic => values.iter().sum::<f64>() / count,
            Self::Geometric => (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp(),
            Self::Largest => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Self::Smallest => values.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }
}

/// The order in which tables are filled.
const SEED: u64 = 1;

impl TablesSpec {
    pub(super) fn keep(&mut self, prefix: &str) {
        self.row.retain(|row| row.item.starts_with(prefix));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// Fills every table that a row needs once, on so many threads, and judges the rows.
    pub(super) fn run(&self, small: bool, threads: usize, into: &mut Vec<PaperRow>) -> anyhow::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut needed = BTreeMap::new();
        for row in &self.row {
            for application in row.applications(self) {
                for design in row.baseline.iter().chain([&row.design]) {
                    let key = (application.as_str(), design.as_str());
                    let lines = self.application.get(application);
                    let lines =
                        lines.with_context(|| format!("{}: no application {application}", row.item))?;
                    let design = self.design.get(design);
                    let design = design.with_context(|| format!("{}: no design {}", row.item, key.1))?;
                    let shrink = if small { 16 } else { 1 };
                    let lines = Lines { small: lines.lines / shrink, large: lines.large_lines / shrink };
                    needed.insert(key, (design.design()?, lines));
                }
            }
        }
        note!("filling {} page tables", needed.len());
        let filled = fill(&needed, threads);
        let has = |application: &String, design: &String| filled.contains_key(&(&**application, &**design));
        let is_filled = |row: &&TableRow| {
            let mut designs = row.baseline.iter().chain([&row.design]);
            designs.all(|design| row.applications(self).iter().all(|application| has(application, design)))
        };
        for row in self.row.iter().filter(is_filled) {
            into.push(row.judge(self, &filled, small).with_context(|| format!("item {}", row.item))?);
        }
        ending::go_on()
    }
}

type Key<'a> = (&'a str, &'a str);

/// Fills the tables, the largest first, so that no thread is left with one of them at the end. Some are missing if the command is
/// to end.
fn fill<'a>(
    needed: &BTreeMap<Key<'a>, (TableDesign, Lines)>,
    threads: usize,
) -> BTreeMap<Key<'a>, TableFigures> {
    let mut work: Vec<_> = needed.iter().collect();
    work.sort_by_key(|(_, (_, lines))| lines.small);
    let work = std::sync::Mutex::new(work);
    let filled = std::sync::Mutex::new(BTreeMap::new());
    let next = || ending::go_on().ok().and_then(|()| work.lock().expect("no thread has panicked").pop());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some((key, (design, lines))) = next() {
                    let Some(figures) = design.fill(*lines, SEED, ending::stop()) else { return };
                    filled.lock().expect("no thread has panicked").insert(*key, figures);
                }
            });
        }
    });
    filled.into_inner().expect("no thread has panicked")
}

impl TableRow {
    fn applications<'a>(&'a self, tables: &'a TablesSpec) -> &'a [String] {
        tables.group.get(&self.of).map_or(std::slice::from_ref(&self.of), Vec::as_slice)
    }

    fn judge(
        &self,
        tables: &TablesSpec,
        filled: &BTreeMap<Key<'_>, TableFigures>,
        small: bool,
    ) -> anyhow::Result<PaperRow> {
        let figure = |application: &str, design: &str| {
            let figures = &filled[&(application, design)];
            let names = || {
                format!("no figure `{}`; there are: {:?}", self.figure, figures.names().collect::<Vec<_>>())
            };
            figures.get(&self.figure).with_context(names)
        };
        let mut values = Vec::new();
        for application in self.applications(tables) {
            let ours = figure(application, &self.design)?;
            let baseline =
                self.baseline.as_ref().map(|baseline| figure(application, baseline)).transpose()?;
            let baseline = baseline.context("it is compared with nothing: no baseline");
            values.push(match self.value {
                Value::Plain => ours / self.per,
                Value::Reduction => 1.0 - ours / baseline?,
                Value::Ratio => ours / baseline?,
                Value::Saved => (baseline? - ours) / self.per,
            });
        }
        let unit = match (self.value, &self.unit) {
            (_, Some(unit)) => unit.as_str(),
            (Value::Reduction, None) => "fraction",
            (Value::Ratio, None) => "ratio",
            _ => "count",
        };
        let (gate, note) = match small {
            true => (None, format!("small tables, not judged. {}", self.note)),
            false => (self.gate, self.note.clone()),
        };
        let ours = Some(self.mean.of(&values));
        Ok(PaperRow::judged(self.item.clone(), self.published, ours, unit, gate, note.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_what_their_names_say() {
        let values = [1.0, 2.0, 4.0];
        for (mean, expected) in [
            (Mean::Arithmetic, 7.0 / 3.0),
            (Mean::Geometric, 2.0),
            (Mean::Largest, 4.0),
            (Mean::Smallest, 1.0),
        ] {
            assert!((mean.of(&values) - expected).abs() < 1e-12, "{mean:?}");
        }
    }

    #[test]
    fn a_row_that_names_nothing_is_an_error_that_says_what_there_is() {
        let text =
            |row: &str| format!("[application.a]\nlines = 10\n[design.d]\n[[row]]\nitem = \"i\"\n{row}");
        let run = |row: &str| {
            let mut rows = Vec::new();
            toml::from_str::<TablesSpec>(&text(row)).unwrap().run(false, 1, &mut rows).map(|()| rows)
        };
        let error = |row: &str| format!("{:#}", run(row).unwrap_err());
        assert!(error("of = \"a\"\ndesign = \"x\"\nfigure = \"peak\"").contains("no design x"));
        assert!(error("of = \"b\"\ndesign = \"d\"\nfigure = \"peak\"").contains("no application b"));
        let unknown = error("of = \"a\"\ndesign = \"d\"\nfigure = \"p\"");
        assert!(unknown.contains("no figure `p`") && unknown.contains("\"peak\""), "{unknown}");
        assert!(
            error("of = \"a\"\ndesign = \"d\"\nfigure = \"peak\"\nvalue = \"ratio\"").contains("no baseline")
        );
        let rows = run("of = \"a\"\ndesign = \"d\"\nfigure = \"peak\"\nper = 1024").unwrap();
        assert_eq!(rows[0].ours, Some(48.0), "two tables of three ways of 128 lines");
    }
}
