//! `pagewalk record`: a source's events into a `.pwt` file.

use std::ops::ControlFlow;

use anyhow::bail;
use pagewalk_report::RunProgress;
use pagewalk_sim::run::Progress;
use pagewalk_trace::{Batch, Recorder, Sink};

use crate::args::RecordArguments;
use crate::exit::Done;
use crate::run::Input;
use crate::trace;

/// Runs the command. The file appears under its name only when it is complete.
pub(crate) fn record(arguments: &RecordArguments) -> anyhow::Result<Done> {
    let mut input = Input::open(&arguments.source, &arguments.how, arguments.seed, false)?;
    let info = input.source().info();
    let mut recorder = Recorder::create(&arguments.output, &info)?;
    let mut progress = RunProgress::new(&info, arguments.limit);
    let mut taken = 0;
    input.source().run(&mut |batch: &mut Batch| {
        if let Some(limit) = arguments.limit {
            pagewalk_sim::run::truncate(batch, limit - taken);
        }
        taken += batch.accesses.len() as u64;
        progress.advance(taken, None);
        let recorded = recorder.batch(batch);
        if arguments.limit.is_some_and(|limit| taken >= limit) { ControlFlow::Break(()) } else { recorded }
    })?;
    drop(progress);
    let done = input.ended()?;
    if taken == 0 {
        bail!("{} produced no memory access at all; nothing was written", info.name);
    }
    let totals = recorder.finish()?;
    let bytes = std::fs::metadata(&arguments.output)?.len();
    eprintln!(
        "wrote {}: {} accesses, {} instructions, {bytes} bytes ({:.2} per access)",
        arguments.output.display(),
        totals.accesses,
        totals.instructions,
        bytes as f64 / totals.accesses as f64,
    );
    eprint!("{}", trace::remarks(&input.remarks().unwrap_or_default()));
    Ok(done)
}
