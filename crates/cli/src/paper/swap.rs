//! Swapping two ranges of pages: entries by the law, and times measured on this machine.

use std::collections::BTreeMap;

use anyhow::Context;
use pagewalk_ctfs::measure::{CopyTwice, TABLE_STORE_BYTES, TableSwap, ViewSwap};
use pagewalk_ctfs::{Mapped, Survives};
use pagewalk_report::PaperRow;
use pagewalk_vm::addr::PAGE_BYTES;
use serde::Deserialize;

use super::programs::judged;
use crate::ending;
use crate::say::Steps;

/// Ranges, and numbers of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwapSpec {
    /// The number of times that each size is swapped; the median counts.
    rounds: usize,
    /// Of copies of more than 256 MiB.
    long_rounds: usize,
    /// With `--small`, no more pages than this are timed.
    small_pages: u64,
    row: Vec<SwapRow>,
}

/// A number about swaps of page ranges.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwapRow {
    item: String,
    value: Value,
    pages: u64,
    /// With fewer pages, for a drop.
    before: Option<u64>,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// Entries of the persistent page table.
    Entries,
    /// Microseconds of swapping these.
    Table,
    /// Microseconds of moving what a process has mapped.
    View,
    /// Microseconds of copying twice.
    Copy,
    /// The time with `before` pages over the one with `pages`.
    TableDrop,
    /// The same of what a process has mapped.
    ViewDrop,
    /// Copying twice over swapping entries and moving what is mapped, one after the other.
    Ratio,
    /// Copying twice over swapping entries alone.
    TableRatio,
}

/// The median times of a swap, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    table: f64,
    view: f64,
    copy: f64,
}

impl SwapSpec {
    pub(super) fn keep(&mut self, prefix: &str) {
        self.row.retain(|row| row.item.starts_with(prefix));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    pub(super) fn run(&self, small: bool, into: &mut Vec<PaperRow>) -> anyhow::Result<()> {
        let most = self.row.iter().map(|row| row.pages).max().unwrap_or(1);
        let mut entries = BTreeMap::new();
        let mut table = table(most)?;
        for row in &self.row {
            let counts = table.swap(row.pages).context("the persistent page table")?.0;
            entries.insert(row.pages, counts.total());
        }
        let timed = self.row.iter().filter(|row| !matches!(row.value, Value::Entries));
        let mut sizes: Vec<u64> = timed.flat_map(|row| row.before.into_iter().chain([row.pages])).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.retain(|&pages| !small || pages <= self.small_pages);
        let (times, ended) = match self.measure(&mut table, &sizes) {
            Ok(times) => (times, Ok(())),
            Err(error) => (BTreeMap::new(), Err(error)),
        };
        let is_timed = |row: &SwapRow| !matches!(row.value, Value::Entries);
        for row in self.row.iter().filter(|row| ended.is_ok() || !is_timed(row)) {
            let ours = match row.value {
                Value::Entries => Some(entries[&row.pages] as f64),
                _ => row.timed(&times),
            };
            let (gate, note) = judged(small && is_timed(row), row.gate, &row.note);
            into.push(PaperRow::judged(&*row.item, row.published, ours, row.value.unit(), gate, note));
        }
        ended
    }

    /// Measures every size in turn, round by round, so that a busy moment meets all.
    fn measure(&self, table: &mut TableSwap<Mapped>, sizes: &[u64]) -> anyhow::Result<BTreeMap<u64, Times>> {
        let Some(&most) = sizes.last() else { return Ok(BTreeMap::new()) };
        let mut view = ViewSwap::new(most).context("two ranges of addresses")?;
        let mut copy = CopyTwice::default();
        let mut taken: BTreeMap<u64, [Vec<f64>; 3]> = BTreeMap::new();
        let steps = Steps::new();
        for round in 0..self.rounds {
            steps.show(format_args!(
                "swapping {} sizes, round {} of {}",
                sizes.len(),
                round + 1,
                self.rounds
            ));
            for &pages in sizes {
                ending::go_on()?;
                let taken = taken.entry(pages).or_default();
                let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
                // There and back: each round begins as the first did.
                for _ in 0..2 {
                    taken[0].push(us(table.swap(pages).context("the persistent page table")?.1));
                }
                view.touch(pages);
                for back in [false, true] {
                    taken[1].push(us(view.swap(pages).context("moving a range of addresses")?));
                    let swapped = view.is_swapped(pages);
                    anyhow::ensure!(swapped == Some(!back), "{pages} pages were not swapped");
                }
                if pages * PAGE_BYTES <= 256 << 20 || round < self.long_rounds {
                    taken[2].push(us(copy.copy(pages)));
                }
            }
        }
        let medians = taken.into_iter().map(|(pages, taken)| {
            let [table, view, copy] = taken.map(median);
            (pages, Times { table, view, copy })
        });
        Ok(medians.collect())
    }
}

/// Returns a store in memory, with two ranges of so many pages.
fn table(most_pages: u64) -> anyhow::Result<TableSwap<Mapped>> {
    let folder = [std::path::PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let folder = folder.into_iter().find(|folder| folder.is_dir()).context("no folder for a store")?;
    let path = folder.join(format!("pagewalk-swap-{}", std::process::id()));
    let memory = Mapped::create(&path, TABLE_STORE_BYTES, Survives::ProcessCrash)
        .with_context(|| format!("cannot make {}", path.display()))?;
    // It stays mapped.
    std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    TableSwap::new(memory, most_pages).context("the persistent page table")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl SwapRow {
    /// Returns the number from the times, as far as they were taken.
    fn timed(&self, times: &BTreeMap<u64, Times>) -> Option<f64> {
        let own = times.get(&self.pages)?;
        let before = self.before.and_then(|pages| times.get(&pages));
        match self.value {
            Value::Entries => None,
            Value::Table => Some(own.table),
            Value::View => Some(own.view),
            Value::Copy => Some(own.copy),
            Value::TableDrop => before.map(|before| before.table / own.table),
            Value::ViewDrop => before.map(|before| before.view / own.view),
            Value::Ratio => Some(own.copy / (own.table + own.view)),
            Value::TableRatio => Some(own.copy / own.table),
        }
    }
}

impl Value {
    fn unit(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Table | Self::View | Self::Copy => "us",
            _ => "times",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_their_times() {
        let times = BTreeMap::from([
            (511, Times { table: 80.0, view: 20.0, copy: 100.0 }),
            (512, Times { table: 0.5, view: 9.5, copy: 110.0 }),
        ]);
        let number = |value, pages, before| {
            let row = SwapRow {
                item: String::new(),
                value,
                pages,
                before,
                published: None,
                gate: None,
                note: String::new(),
            };
            row.timed(&times)
        };
        assert_eq!(number(Value::TableDrop, 512, Some(511)), Some(160.0));
        assert_eq!(number(Value::ViewDrop, 512, Some(511)), Some(20.0 / 9.5));
        assert_eq!(number(Value::Ratio, 512, None), Some(11.0));
        assert_eq!(number(Value::TableRatio, 511, None), Some(1.25));
        assert_eq!(number(Value::ViewDrop, 512, None), None);
        assert_eq!(number(Value::Copy, 1, None), None, "not measured");
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
