//! The numbers that a paper computes before it builds anything: servers as queues, and sums on paper.

use anyhow::Context;
use pagewalk_report::PaperRow;
use pagewalk_sim::queueing::{CoreOverFlash, Servers};
use pagewalk_vm::sched::SchedulerDesign;
use serde::Deserialize;

use super::programs::judged;
use crate::ending;

/// Servers, and numbers of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueingSpec {
    /// The mean work of a job; loads are shares of what a core does that does nothing else.
    work_us: f64,
    /// An access to flash.
    access_us: f64,
    /// From a job to another, in the simulation.
    switch_us: f64,
    /// Jobs that may wait for flash, in the simulation.
    pending: u32,
    row: Vec<QueueRow>,
}

/// A number about servers as queues.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueRow {
    item: String,
    value: Value,
    /// Servers of a formula: how many, and the mean time of a job on one.
    #[serde(default)]
    servers: u32,
    #[serde(default)]
    service_us: f64,
    /// A limit of the 99th percentile, in works.
    #[serde(default)]
    limit: f64,
    #[serde(default)]
    load: f64,
    /// The summands of a sum on paper.
    #[serde(default)]
    of: Vec<f64>,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Value {
    /// The highest throughput, as a load.
    Cap,
    /// The highest load with the percentile within the limit.
    LoadWithin,
    /// The percentile at the load, in works.
    Percentile,
    /// The same of a simulated core that runs other jobs while it waits for flash; median of seven runs.
    SimulatedPercentile,
    /// The same of a simulated core without flash.
    SimulatedPercentileInMemory,
    /// The load that the simulated core serves with jobs always waiting.
    SimulatedCap,
    /// The flash bandwidth in bytes a second that `[DRAM bandwidth, line, miss rate, page, cores]` make (equation 1).
    FlashBandwidth,
    /// The miss rate at which `[flash bandwidth, DRAM bandwidth, line, page, cores]` go together (equation 1).
    MissRate,
    /// `[share of DRAM, price ratio]`: how many times cheaper than DRAM alone.
    TimesCheaper,
}

impl QueueingSpec {
    pub(super) fn keep(&mut self, prefix: &str) {
        self.row.retain(|row| row.item.starts_with(prefix));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    pub(super) fn run(&self, small: bool, rows: &mut Vec<PaperRow>) -> anyhow::Result<()> {
        for row in &self.row {
            ending::go_on()?;
            let ours = self.value(row, small).with_context(|| format!("item {}", row.item))?;
            let simulated = matches!(
                row.value,
                Value::SimulatedPercentile | Value::SimulatedPercentileInMemory | Value::SimulatedCap
            );
            let (gate, note) = judged(small && simulated, row.gate, &row.note);
            let (published, unit) = (row.published, row.value.unit());
            rows.push(PaperRow::judged(&*row.item, published, Some(ours), unit, gate, note));
        }
        Ok(())
    }

    fn value(&self, row: &QueueRow, small: bool) -> anyhow::Result<f64> {
        let servers = Servers { count: row.servers, service: row.service_us };
        let jobs = if small { 20_000 } else { 200_000 };
        Ok(match row.value {
            Value::Cap => servers.capacity() * self.work_us,
            Value::LoadWithin => servers.rate_within(0.99, row.limit * self.work_us) * self.work_us,
            Value::Percentile => servers.percentile(row.load / self.work_us, 0.99) / self.work_us,
            Value::SimulatedPercentile => self.simulated(self.access_us, row.load, jobs),
            Value::SimulatedPercentileInMemory => self.simulated(0.0, row.load, jobs),
            Value::SimulatedCap => {
                let served = self.core(self.access_us).serve(f64::INFINITY, jobs, 1);
                jobs as f64 * self.work_us * 1e3 / served.end as f64
            }
            Value::FlashBandwidth => {
                let [dram, line, rate, page, cores] = row.of[..] else {
                    anyhow::bail!("five numbers make a bandwidth");
                };
                dram / line * rate * page * cores
            }
            Value::MissRate => {
                let [flash, dram, line, page, cores] = row.of[..] else {
                    anyhow::bail!("five numbers make a miss rate");
                };
                flash / (dram / line * page * cores)
            }
            Value::TimesCheaper => {
                let [share, price] = row.of[..] else { anyhow::bail!("two numbers make a price") };
                1.0 / (share + 1.0 / price)
            }
        })
    }

    /// Returns the median over seven seeds; one run is up to a quarter off.
    fn simulated(&self, access_us: f64, load: f64, jobs: usize) -> f64 {
        let core = self.core(access_us);
        let rate = load / (self.work_us * 1e3);
        let mut percentiles: Vec<u64> =
            (0..7).map(|seed| core.serve(rate, jobs, seed).percentile(0.99)).collect();
        percentiles.sort_unstable();
        percentiles[3] as f64 / (self.work_us * 1e3)
    }

    /// Returns the core, with times in nanoseconds.
    fn core(&self, access_us: f64) -> CoreOverFlash {
        let ns = |us: f64| (us * 1e3) as u64;
        let mut scheduler = SchedulerDesign::of_threads(self.pending + 1, ns(self.access_us));
        // All jobs of a run at once.
        scheduler.new_capacity = 1 << 20;
        CoreOverFlash {
            work: ns(self.work_us),
            interval: ns(self.work_us),
            access: ns(access_us),
            switch: ns(self.switch_us),
            waits: false,
            scheduler,
        }
    }
}

impl Value {
    fn unit(self) -> &'static str {
        match self {
            Self::Cap | Self::LoadWithin | Self::SimulatedCap => "load",
            Self::Percentile | Self::SimulatedPercentile | Self::SimulatedPercentileInMemory => "works",
            Self::FlashBandwidth => "bytes/s",
            Self::MissRate => "fraction",
            Self::TimesCheaper => "times",
        }
    }
}
