//! `pagewalk record`: a source's events into a `.pwt` file.

use std::ops::ControlFlow;

use anyhow::bail;
use pagewalk_report::RunProgress;
use pagewalk_sim::run::Progress;
use pagewalk_trace::{Batch, Recorder, Sink, Source};

use crate::args::RecordArguments;
use crate::ending::{self, Interrupted};
use crate::exit::Done;
use crate::outputs::Files;
use crate::run::Input;
use crate::say::{self, note};
use crate::trace;

/// Runs the command `record`. The file appears under its name only when it is complete, or holds all events until an early end.
pub(crate) fn record(arguments: &RecordArguments) -> anyhow::Result<Done> {
    Files::default().reads(&arguments.source.trace).writes(&arguments.output)?;
    let mut input =
        Input::open(&arguments.source, &arguments.how, arguments.seed, false, arguments.time_limit)?;
    if !arguments.no_blocks {
        input = input.with_blocks();
    }
    let info = input.info();
    let mut recorder = Recorder::create(&arguments.output, &info)?;
    let mut progress = RunProgress::new(&info, arguments.limit, say::progress(input.is_live()));
    let mut taken = 0;
    ending::limit_time(arguments.time_limit)?;
    input.run(&mut |batch: &mut Batch| {
        if let Some(limit) = arguments.limit {
            pagewalk_sim::run::truncate(batch, limit - taken);
        }
        taken += batch.accesses.len() as u64;
        progress.advance(taken, None);
        let recorded = recorder.batch(batch);
        if arguments.limit.is_some_and(|limit| taken >= limit) { ControlFlow::Break(()) } else { recorded }
    })?;
    drop(progress);
    input.tell_gaps();
    let early = input.early();
    match &early {
        Some(early) if taken == 0 => {
            return Err(anyhow::Error::new(Interrupted(early.clone())).context("nothing was recorded yet"));
        }
        None if taken == 0 => bail!("{} produced no memory access at all; nothing was written", info.name),
        _ => {}
    }
    let is_limited = arguments.limit.is_some_and(|limit| taken >= limit);
    if let Some(partial) = input.partial(early.as_ref()).filter(|_| early.is_some() || !is_limited) {
        recorder.mark_partial(partial);
    }
    let totals = recorder.finish()?;
    let bytes = std::fs::metadata(&arguments.output)?.len();
    note!(
        "wrote {}: {} accesses, {} instructions, {bytes} bytes ({:.2} per access)",
        arguments.output.display(),
        totals.accesses,
        totals.instructions,
        bytes as f64 / totals.accesses as f64,
    );
    say::write(format_args!("{}", trace::remarks(&input.remarks().unwrap_or_default())));
    Ok(match early {
        None => input.done(),
        Some(early) => {
            early.tell(format_args!("{}", arguments.output.display()));
            early.done()
        }
    })
}
