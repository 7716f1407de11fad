//! LRU precision: the ages of evicted pages, without a machine around the policy.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pagewalk_report::{Drawn, Figure, PaperRow};
use pagewalk_vm::addr::Pfn;
use pagewalk_vm::frame::{Iceberg, IcebergShape};
use pagewalk_vm::hash::Xxh64;
use pagewalk_vm::reclaim::{HorizonLru, IcebergLru, Ripeness, evicted_ages};
use serde::Deserialize;

use crate::ending;

/// A number out of the ages of all pages that a policy evicted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PrecisionSpec {
    pub(super) item: String,
    policy: Policy,
    /// A power of two, at least 2^9.
    frames: u32,
    /// The number of new pages that are placed.
    pages: u32,
    value: Value,
    /// Which evictions count, as shares of all: the second half is the steady state.
    #[serde(default = "all")]
    part: [f64; 2],
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

fn all() -> [f64; 2] {
    [0.0, 1.0]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    HorizonLru,
    IcebergLru,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    Mean,
    Maximum,
    /// The share of windows of 1000 evictions whose maximum lies above 13 %.
    #[serde(rename = "windows-above-13")]
    WindowsAbove13,
}

/// Evictions that Figure 4 draws as one point.
const WINDOW: usize = 1_000;
/// The share of memory that Iceberg LRU keeps for pages that must stay, in percent.
const LIVE_PERCENT: u64 = 87;

impl Policy {
    fn ages(self, frames: u32, pages: u32) -> anyhow::Result<Vec<f64>> {
        let shape = IcebergShape::mosaic(frames / 64);
        let mut place = Iceberg::new(shape, Pfn(1), Xxh64::new(0))?;
        let frames = shape.frames();
        Ok(match self {
            Self::HorizonLru => {
                let mut policy = HorizonLru::new(frames);
                evicted_ages(pages, frames, |page| policy.place(&mut place, page))
            }
            Self::IcebergLru => {
                let mut policy = IcebergLru::new(frames, frames * LIVE_PERCENT / 100, Ripeness::Lazy);
                evicted_ages(pages, frames, |page| policy.place(&mut place, page))
            }
        })
    }
}

impl Value {
    fn of(self, ages: &[f64]) -> Option<f64> {
        let maximum = |ages: &[f64]| ages.iter().copied().fold(0.0, f64::max);
        (!ages.is_empty()).then(|| match self {
            Self::Mean => ages.iter().sum::<f64>() / ages.len() as f64,
            Self::Maximum => maximum(ages),
            Self::WindowsAbove13 => {
                let windows = ages.chunks_exact(WINDOW);
                let above = windows.clone().filter(|window| maximum(window) > 0.13).count();
                above as f64 / windows.len() as f64
            }
        })
    }
}

/// The ages of what policies have evicted, each computed once.
#[derive(Default)]
pub(super) struct Ages(BTreeMap<(Policy, u32, u32), Vec<f64>>);

impl Ages {
    fn of(&mut self, policy: Policy, frames: u32, pages: u32) -> anyhow::Result<&[f64]> {
        Ok(match self.0.entry((policy, frames, pages)) {
            Entry::Occupied(done) => done.into_mut(),
            Entry::Vacant(new) => new.insert(policy.ages(frames, pages)?),
        })
    }
}

/// Judges the rows by the published numbers.
pub(super) fn run(rows: &[PrecisionSpec], ages: &mut Ages, into: &mut Vec<PaperRow>) -> anyhow::Result<()> {
    for row in rows {
        ending::go_on()?;
        let ages = ages.of(row.policy, row.frames, row.pages)?;
        let [from, to] = row.part.map(|share| (share * ages.len() as f64) as usize);
        let ours = row.value.of(&ages[from..to]);
        into.push(PaperRow::judged(row.item.clone(), row.published, ours, "fraction", row.gate, &row.note));
    }
    Ok(())
}

/// A figure of ages in the order of the evictions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgesSpec {
    title: String,
    about: String,
    x: String,
    /// Names for the legend.
    policies: BTreeMap<String, Policy>,
    frames: u32,
    pages: u32,
}

/// Points of a line at most.
const POINTS: usize = 250;

impl AgesSpec {
    /// Draws mean and maximum of each policy, over windows of whole thousands of evictions.
    pub(super) fn draw(&self, ages: &mut Ages) -> anyhow::Result<Figure> {
        let (mut series, mut points) = (Vec::new(), Vec::new());
        for (name, &policy) in &self.policies {
            let ages = ages.of(policy, self.frames, self.pages)?;
            let window = WINDOW * (ages.len() / WINDOW).div_ceil(POINTS).max(1);
            for (what, value) in [("mean", Value::Mean), ("maximum", Value::Maximum)] {
                series.push(format!("{name}, {what}"));
                let windows = ages.chunks_exact(window).enumerate();
                let point = |(at, ages): (usize, &[f64])| Some([((at + 1) * window) as f64, value.of(ages)?]);
                points.push(windows.filter_map(point).collect());
            }
        }
        Ok(Figure {
            title: self.title.clone(),
            about: self.about.clone(),
            unit: "fraction".into(),
            series,
            drawn: Drawn::Lines { x: self.x.clone(), points },
        })
    }
}
