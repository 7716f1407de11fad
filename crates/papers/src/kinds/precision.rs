//! LRU precision: the ages of evicted pages, without a machine around the policy.

use std::collections::BTreeMap;

use pagewalk_report::{Drawn, Figure};
use serde::Deserialize;

use super::{Context, Kind};
use crate::ages::{Ages, Policy};
use crate::gated::{Gated, gated};
use crate::outcome::Outcome;

gated! {
    /// A number out of the ages of all pages that a policy evicted.
    pub(crate) struct PrecisionSpec {
        policy: Policy,
        /// A power of two, at least 2^9.
        frames: u32,
        /// New pages placed.
        pages: u32,
        value: Value,
        /// Which evictions count, as shares of all: the second half is the steady state.
        #[serde(default = "all")]
        part: [f64; 2],
    }
}

fn all() -> [f64; 2] {
    [0.0, 1.0]
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

impl Kind for PrecisionSpec {
    fn keep(&mut self, prefix: &str) -> bool {
        self.begins(prefix)
    }

    fn run(&self, cx: &Context<'_>, out: &mut Outcome) -> anyhow::Result<()> {
        cx.host.go_on()?;
        let ages = out.ages.of(self.policy, self.frames, self.pages)?;
        let [from, to] = self.part.map(|share| (share * ages.len() as f64) as usize);
        let ours = self.value.of(&ages[from..to]);
        out.rows.push(self.judge_number(ours, "fraction", false));
        Ok(())
    }
}

/// A figure of ages in the order of the evictions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgesSpec {
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
    /// Mean and maximum of each policy, over windows of whole thousands of evictions.
    pub(crate) fn draw(&self, ages: &mut Ages) -> anyhow::Result<Figure> {
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
