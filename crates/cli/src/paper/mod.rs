//! `pagewalk paper`: experiments as data, run and judged beside the published numbers.
//!
//! An experiment file (`papers/NAME/*.toml`) names workloads, machines and rows; a row says how its number comes
//! from the machines' counts. Nothing here knows a published number: they stand in the files, with their sources.

mod experiment;
mod precision;

use anyhow::bail;
use pagewalk_report::Style;
use pagewalk_report::{PaperDocument, paper_table};

use crate::args::{FormatArgument, PaperArguments};
use crate::exit::Done;
use crate::run::print;
use experiment::Experiment;

/// The papers, by the name that the command takes.
const PAPERS: [(&str, &str, &[&str]); 1] = [(
    "mosaic",
    "Mosaic Pages: Big TLB Reach With Small Pages (IEEE Micro 2024)",
    &[
        include_str!("../../../../papers/mosaic/tlb.toml"),
        include_str!("../../../../papers/mosaic/frames.toml"),
        include_str!("../../../../papers/mosaic/figures.toml"),
        include_str!("../../../../papers/mosaic/swap.toml"),
    ],
)];

/// Runs the command.
pub(crate) fn paper(arguments: &PaperArguments) -> anyhow::Result<Done> {
    let Some(name) = &arguments.name else {
        for (name, title, _) in PAPERS {
            print(&format!("{name:<10} {title}\n"))?;
        }
        return Ok(Done::Well);
    };
    let Some((_, _, files)) = PAPERS.iter().find(|(known, ..)| known == name) else {
        let known: Vec<_> = PAPERS.iter().map(|(name, ..)| *name).collect();
        bail!("there is no paper `{name}`; there are: {}", known.join(", "));
    };
    let mut rows = Vec::new();
    for text in *files {
        let experiment = Experiment::parse(text, arguments.item.as_deref().unwrap_or(""))?;
        rows.extend(experiment.run(arguments.small, crate::run::threads(arguments.threads))?);
    }
    if rows.is_empty() {
        bail!("paper `{name}` has no item that begins with `{}`", arguments.item.as_deref().unwrap_or(""));
    }
    let document = PaperDocument::new(name, rows);
    match arguments.format {
        FormatArgument::Json => print(&document.to_json())?,
        FormatArgument::Table => print(&paper_table(&document, Style::default()))?,
    }
    Ok(if document.passes() { Done::Well } else { Done::GateFailed })
}
