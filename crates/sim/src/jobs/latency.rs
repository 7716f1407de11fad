//! The latencies of jobs.

use hdrhistogram::Histogram;

use crate::metrics::names::jobs;
use crate::metrics::{Metric, Number, Parts, Rows};

/// Significant digits that a histogram keeps.
const DIGITS: u8 = 3;

/// Of all jobs, by the part of the run that they started in.
#[derive(Default)]
pub(crate) struct Latencies {
    /// Pages that were prepared.
    pub(crate) prepared: u64,
    /// Jobs for which there was no room.
    pub(crate) refused: u64,
    /// Times that a job waited for a page, and its core did something else.
    pub(crate) misses: u64,
    finished: u64,
    parts: Vec<Part>,
}

/// Of one part of the run, in nanoseconds.
struct Part {
    /// From a job's start to its end, waits for pages included.
    service: Histogram<u64>,
    /// From a job's arrival to its end.
    response: Histogram<u64>,
}

impl Latencies {
    /// Records a job that is done and started in this part of the run.
    pub(crate) fn record(&mut self, part: usize, service_ps: u64, response_ps: u64) {
        let histogram = || Histogram::new(DIGITS).expect("a number of digits that there may be");
        while self.parts.len() <= part {
            self.parts.push(Part { service: histogram(), response: histogram() });
        }
        self.finished += 1;
        let Part { service, response } = &mut self.parts[part];
        for (histogram, ps) in [(service, service_ps), (response, response_ps)] {
            *histogram += ps.div_ceil(1_000);
        }
    }

    pub(crate) fn rows(&self, rows: &mut Rows) {
        rows.sum(jobs::FINISHED, self.finished);
        rows.sum(jobs::REFUSED, self.refused);
        rows.sum(jobs::MISSES, self.misses);
        rows.sum(jobs::PREPARED_PAGES, self.prepared);
    }

    /// Means and percentiles of the jobs of some parts, under the name of a phase.
    pub(crate) fn metrics(&self, parts: &Parts, phase: Option<&str>) -> Vec<Metric> {
        let merged = |pick: fn(&Part) -> &Histogram<u64>| {
            let mut sum = Histogram::new(DIGITS).expect("a number of digits that there may be");
            let all = self.parts.iter().enumerate();
            for (_, of) in all.filter(|(part, _)| parts.contain(*part)) {
                sum.add(pick(of)).expect("histograms that grow");
            }
            sum
        };
        let mut metrics = Vec::new();
        for (name, histogram) in
            [("service", merged(|of| &of.service)), ("response", merged(|of| &of.response))]
        {
            let some = !histogram.is_empty();
            let mut row = |statistic: &str, value: Number| {
                metrics.push(jobs::latency(name, statistic).metric(phase, some.then_some(value)));
            };
            row("mean", Number::Ratio(histogram.mean()));
            for (label, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
                row(label, Number::Count(histogram.value_at_quantile(quantile)));
            }
            row("max", Number::Count(histogram.max()));
        }
        metrics
    }
}
