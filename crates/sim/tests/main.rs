//! Machines under the streams of real programs.

mod naive;
mod parts;

use std::ops::ControlFlow;

use pagewalk_trace::{Batch, Sink, Source, SourceError, SourceInfo};

/// Hands on some batches of another source.
struct Recorded {
    info: SourceInfo,
    batches: Vec<Batch>,
}

impl Source for Recorded {
    fn info(&self) -> SourceInfo {
        self.info.clone()
    }

    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        for batch in &self.batches {
            if sink.batch(&mut batch.clone()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn record(workload: &str, most: usize) -> Recorded {
    let mut source = pagewalk_workload::parse(workload, 0).expect("a workload");
    let mut batches = Vec::new();
    let mut accesses = 0;
    let taken = source.run(&mut |batch: &mut Batch| {
        accesses += batch.accesses.len();
        batches.push(std::mem::take(batch));
        if accesses >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    taken.expect("the workload runs");
    Recorded { info: source.info(), batches }
}
