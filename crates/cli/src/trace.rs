//! `pagewalk trace`: what is in trace files, and conversion to `.pwt`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pagewalk_trace::{
    Batch, Partial, ReadOptions, Recorder, Remarks, Sink, Source, Stoppable, TraceSummary, info,
};

use crate::args::{FormatArgument, TraceArguments, TraceCommand};
use crate::ending::{self, Early, Interrupted};
use crate::exit::Done;
use crate::outputs::Files;
use crate::run::{prepare_folder, print};
use crate::say::{self, complain, note};

/// Runs the command `trace`.
pub(crate) fn trace(arguments: &TraceArguments) -> anyhow::Result<Done> {
    match &arguments.command {
        TraceCommand::Info { files, read, format } => show(files, read.options(), *format),
        TraceCommand::Convert { files, read, output, out } => {
            convert_all(files, read.options(), output.as_deref(), out.as_deref())
        }
    }
}

fn show(files: &[PathBuf], options: ReadOptions, format: FormatArgument) -> anyhow::Result<Done> {
    let (mut summaries, mut failed) = (Vec::new(), Vec::new());
    for file in files {
        match info(file, options) {
            Ok(summary) => summaries.push(summary),
            // What the others hold is shown.
            Err(error) => failed.push(error),
        }
    }
    if summaries.is_empty()
        && let Some(error) = failed.pop().filter(|_| failed.is_empty())
    {
        return Err(error.into());
    }
    match format {
        FormatArgument::Json => {
            let document = serde_json::json!({ "schema": 1, "traces": summaries });
            print(&format!("{document:#}\n"))?;
        }
        FormatArgument::Table => {
            for (number, summary) in summaries.iter().enumerate() {
                let gap = if number == 0 { "" } else { "\n" };
                print(&format!("{gap}{}", describe(summary)))?;
            }
        }
    }
    for error in &failed {
        complain!("error: {error}");
    }
    let mut done = Done::Well;
    for summary in &summaries {
        if let Some(damage) = &summary.damage {
            Early::Damaged(damage.clone()).tell(format_args!("what is shown of {}", summary.file));
            done = Done::SourceBroken;
        }
    }
    Ok(if failed.is_empty() { done } else { Done::InputWrong })
}

fn describe(summary: &TraceSummary) -> String {
    let mut text = format!("{}\n", summary.file);
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<16} {value}");
    };
    let version = summary.version.map_or(String::new(), |version| format!(", version {version}"));
    line("format", format!("{}{version}", summary.format));
    line("source", summary.source.clone());
    if let Some(partial) = &summary.partial {
        line("partial", partial.text.clone());
    }
    if let Some(damage) = &summary.damage {
        line("damaged", damage.clone());
    }
    line("accesses", summary.accesses.to_string());
    let sizes = |sizes: &std::collections::BTreeMap<u64, u64>| {
        sizes.iter().map(|(bytes, count)| format!("{count} of {bytes} B")).collect::<Vec<_>>().join(", ")
    };
    line("loads", sizes(&summary.loads));
    line("stores", sizes(&summary.stores));
    line("instructions", summary.instructions.map_or("not counted".into(), |count| count.to_string()));
    if let (Some(executed), Some(blocks), Some(bytes)) =
        (summary.executed_blocks, summary.code_blocks, summary.code_bytes)
    {
        line("blocks", format!("{executed} executed, of {blocks} with {bytes} bytes of instructions"));
    }
    line("threads", summary.threads.to_string());
    line("processes", summary.processes.to_string());
    line("footprint", format!("{} pages, {} bytes", summary.pages, summary.footprint_bytes));
    let mappings = if summary.announces_mappings { "announced" } else { "not announced" };
    line("mappings", mappings.into());
    if !summary.marks.is_empty() {
        let marks = summary.marks.iter().map(|(kind, count)| format!("{count} {kind}"));
        line("other events", marks.collect::<Vec<_>>().join(", "));
    }
    if !summary.phases.is_empty() {
        line("phases", summary.phases.join(", "));
    }
    for (name, value) in &summary.remarks.facts {
        line(name, value.clone());
    }
    for (heading, text) in summary.remarks.lines() {
        line(heading, text);
    }
    let per_access =
        summary.bytes_per_access.map_or(String::new(), |bytes| format!(", {bytes:.2} per access"));
    line("file", format!("{} bytes{per_access}", summary.file_bytes));
    text
}

/// Returns what a reader left out or assumed, a line for each.
pub(crate) fn remarks(remarks: &Remarks) -> String {
    remarks.lines().into_iter().map(|(heading, text)| format!("  {heading}: {text}\n")).collect()
}

fn convert_all(
    files: &[PathBuf],
    options: ReadOptions,
    output: Option<&Path>,
    folder: Option<&Path>,
) -> anyhow::Result<Done> {
    if output.is_some() && files.len() > 1 {
        bail!(
            "--output names one file, but there are {} inputs; name a folder with --out instead",
            files.len()
        );
    }
    let target = |file: &PathBuf| match output {
        Some(output) => Ok(output.to_owned()),
        None if file != Path::new("-") && (!file.exists() || file.is_file() || file.is_dir()) => {
            let name = file.with_extension("pwt");
            Ok(match (folder, name.file_name()) {
                (Some(folder), Some(name)) => folder.join(name),
                _ => name,
            })
        }
        None => Err(anyhow::anyhow!(
            "{} is no file or folder to name a .pwt file after\n  = help: name one with --output",
            file.display()
        )),
    };
    let targets = files.iter().map(target).collect::<anyhow::Result<Vec<PathBuf>>>()?;
    let mut all = Files::default().reads(files);
    for (file, target) in files.iter().zip(&targets) {
        if target == file {
            bail!("{} is a .pwt file already; name another one with --output", file.display());
        }
        all = all.writes(target)?;
    }
    folder.map(prepare_folder).transpose()?;
    let mut done = Done::Well;
    for (number, (file, target)) in files.iter().zip(&targets).enumerate() {
        let damaged = convert(file, options, target).with_context(|| {
            let done = if number == 0 { String::new() } else { format!("; {number} files before it were") };
            format!("{} was not written{done}", target.display())
        })?;
        if let Some(early) = damaged {
            early.tell(format_args!("{}", target.display()));
            done = early.done();
        }
    }
    Ok(done)
}

/// Returns the mark of what comes of a recording that was ended early.
pub(crate) fn recorded(partial: &Partial) -> Partial {
    const PREFIX: &str = "the recording is partial: ";
    let text = partial.text.strip_prefix(PREFIX).unwrap_or(&partial.text);
    Partial { reason: partial.reason, text: format!("{PREFIX}{text}") }
}

/// Converts one trace; of a damaged one what comes before the damage, which is answered. The input is still there after a signal,
/// so half of a conversion is not kept then.
fn convert(file: &Path, options: ReadOptions, target: &Path) -> anyhow::Result<Option<Early>> {
    let stop = ending::watch()?;
    let mut source = pagewalk_trace::open(file, options)?;
    let mut recorder = Recorder::create(target, &source.info())?;
    let mut stoppable = Stoppable::new(&mut *source, stop);
    let mut accesses = 0;
    let ended = stoppable.run(&mut |batch: &mut Batch| {
        accesses += batch.accesses.len();
        recorder.batch(batch)
    });
    if let Some(early) = Early::asked(stop, None).filter(|_| stoppable.is_cut()) {
        return Err(Interrupted(early).into());
    }
    let damaged = match ended {
        Err(error) if accesses == 0 => return Err(error.into()),
        ended => ended.err().map(|error| Early::Damaged(error.to_string())),
    };
    let partial = damaged.as_ref().map(Early::partial).or_else(|| source.partial().map(recorded));
    if let Some(partial) = partial {
        recorder.mark_partial(partial);
    }
    let totals = recorder.finish()?;
    let format = source.format();
    note!("wrote {}: {} accesses from {format} records", target.display(), totals.accesses);
    say::write(format_args!("{}", remarks(&source.remarks())));
    Ok(damaged)
}
