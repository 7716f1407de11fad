//! `pagewalk trace`: what is in trace files, and conversion to `.pwt`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pagewalk_trace::{Format, TraceSummary, convert, info};

use crate::args::{FormatArgument, TraceArguments, TraceCommand};
use crate::exit::Done;
use crate::run::print;

/// Runs the command.
pub(crate) fn trace(arguments: &TraceArguments) -> anyhow::Result<Done> {
    match &arguments.command {
        TraceCommand::Info { files, input_format, format } => show(files, *input_format, *format),
        TraceCommand::Convert { files, input_format, output, out } => {
            convert_all(files, *input_format, output.as_deref(), out.as_deref())
        }
    }
}

fn show(files: &[PathBuf], input: Format, format: FormatArgument) -> anyhow::Result<Done> {
    let summaries = files.iter().map(|file| info(file, input)).collect::<Result<Vec<_>, _>>()?;
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
    Ok(Done::Well)
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
    line("accesses", summary.accesses.to_string());
    let sizes = |sizes: &std::collections::BTreeMap<u64, u64>| {
        sizes.iter().map(|(bytes, count)| format!("{count} of {bytes} B")).collect::<Vec<_>>().join(", ")
    };
    line("loads", sizes(&summary.loads));
    line("stores", sizes(&summary.stores));
    line("instructions", summary.instructions.map_or("not counted".into(), |count| count.to_string()));
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
    if summary.skipped_kernel_accesses + summary.skipped_prefetches > 0 {
        let (kernel, prefetches) = (summary.skipped_kernel_accesses, summary.skipped_prefetches);
        line("left out", format!("{kernel} kernel accesses, {prefetches} prefetches"));
    }
    let per_access =
        summary.bytes_per_access.map_or(String::new(), |bytes| format!(", {bytes:.2} per access"));
    line("file", format!("{} bytes{per_access}", summary.file_bytes));
    text
}

fn convert_all(
    files: &[PathBuf],
    format: Format,
    output: Option<&Path>,
    folder: Option<&Path>,
) -> anyhow::Result<Done> {
    if output.is_some() && files.len() > 1 {
        bail!(
            "--output names one file, but there are {} inputs; name a folder with --out instead",
            files.len()
        );
    }
    for file in files {
        let target = match output {
            Some(output) => output.to_owned(),
            None => {
                let name = file.with_extension("pwt");
                match (folder, name.file_name()) {
                    (Some(folder), Some(name)) => folder.join(name),
                    _ => name,
                }
            }
        };
        if target == *file {
            bail!("{} is a .pwt file already; name another one with --output", file.display());
        }
        let converted = convert(file, format, &target)?;
        eprintln!(
            "wrote {}: {} accesses from {} records",
            target.display(),
            converted.totals.accesses,
            converted.format
        );
    }
    Ok(Done::Well)
}
