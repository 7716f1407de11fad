//! `pagewalk paper`: experiments as data, run and judged beside the published numbers.
//!
//! An experiment file (`papers/NAME/*.toml`) names workloads, machines and rows; a row says how its number comes
//! from the machines' counts. Nothing here knows a published number: they stand in the files, with their sources.

mod circuit;
mod experiment;
mod figure;
mod files;
mod knee;
mod loads;
mod measure;
mod precision;
mod programs;
mod queueing;
mod solve;
mod swap;
mod tables;

use anyhow::bail;
use pagewalk_report::{PaperDocument, paper_page, paper_table, partial_heading};

use crate::args::{FormatArgument, PaperArguments};
use crate::ending::{self, Interrupted};
use crate::exit::Done;
use crate::outputs::Files;
use crate::run::{deliver, prepare_folder, print, style};
use crate::say::note;
use experiment::{Experiment, Outcome};

/// The papers, by the name that the command takes.
const PAPERS: [(&str, &str, &[&str]); 5] = [
    (
        "mosaic",
        "Mosaic Pages: Big TLB Reach With Small Pages (IEEE Micro 2024)",
        &[
            include_str!("../../../../papers/mosaic/tlb.toml"),
            include_str!("../../../../papers/mosaic/frames.toml"),
            include_str!("../../../../papers/mosaic/figures.toml"),
            include_str!("../../../../papers/mosaic/swap.toml"),
            include_str!("../../../../papers/mosaic/circuit.toml"),
        ],
    ),
    (
        "me-hpt",
        "Memory-Efficient Hashed Page Tables (HPCA 2023)",
        &[
            include_str!("../../../../papers/me-hpt/tables.toml"),
            include_str!("../../../../papers/me-hpt/fragmented.toml"),
            include_str!("../../../../papers/me-hpt/speed.toml"),
        ],
    ),
    (
        "pfa",
        "Enabling Efficient and Transparent Remote Memory Access in Disaggregated Datacenters (UCB/EECS-2019-154)",
        &[
            include_str!("../../../../papers/pfa/fetch.toml"),
            include_str!("../../../../papers/pfa/local.toml"),
            include_str!("../../../../papers/pfa/options.toml"),
            include_str!("../../../../papers/pfa/programs.toml"),
        ],
    ),
    (
        "astriflash",
        "AstriFlash: A Flash-Based System for Online Services (HPCA 2023)",
        &[
            include_str!("../../../../papers/astriflash/arithmetic.toml"),
            include_str!("../../../../papers/astriflash/services.toml"),
            include_str!("../../../../papers/astriflash/load.toml"),
            include_str!("../../../../papers/astriflash/capacity.toml"),
            include_str!("../../../../papers/astriflash/flash.toml"),
            include_str!("../../../../papers/astriflash/skew.toml"),
        ],
    ),
    (
        "ctfs",
        "ctFS: Converting File Index Traversals to Hardware Memory Translation (;login: 2022)",
        &[
            include_str!("../../../../papers/ctfs/swap.toml"),
            include_str!("../../../../papers/ctfs/indexing.toml"),
        ],
    ),
];

/// Runs the command `paper`.
pub(crate) fn paper(arguments: &PaperArguments) -> anyhow::Result<Done> {
    let Some(name) = &arguments.name else {
        for (name, title, _) in PAPERS {
            print(&format!("{name:<10} {title}\n"))?;
        }
        return Ok(Done::Well);
    };
    let Some((_, title, files)) = PAPERS.iter().find(|(known, ..)| known == name) else {
        let known: Vec<_> = PAPERS.iter().map(|(name, ..)| *name).collect();
        bail!("there is no paper `{name}`; there are: {}", known.join(", "));
    };
    let item = arguments.item.as_deref().unwrap_or("");
    let experiments =
        files.iter().map(|text| Experiment::parse(text, item)).collect::<anyhow::Result<Vec<_>>>()?;
    if experiments.iter().all(Experiment::is_empty) {
        bail!("paper `{name}` has no item that begins with `{item}`");
    }
    Files::default().writes_report(arguments.out.as_deref())?;
    if let Some(folder) = &arguments.out {
        prepare_folder(folder)?;
    }
    ending::watch()?;
    let (mut outcome, mut early) = (Outcome::default(), None);
    for experiment in &experiments {
        if item.is_empty() && experiment.is_on_request() {
            continue;
        }
        if arguments.quick && experiment.is_long() && !experiment.is_empty() {
            note!("an experiment that takes minutes is left out");
            continue;
        }
        if let Err(error) = experiment.run(arguments, &mut outcome) {
            // Rows that were made before are a result.
            let Interrupted(ended) = error.downcast()?;
            early = Some(ended);
            break;
        }
    }
    let mut document = PaperDocument::new(name, outcome.rows, outcome.figures);
    document.partial = early.as_ref().map(ending::Early::partial);
    let heading =
        document.partial.as_ref().map(|partial| partial_heading(partial) + "\n\n").unwrap_or_default();
    let text = match arguments.format {
        FormatArgument::Json => document.to_json(),
        FormatArgument::Table => heading + &paper_table(&document, style()),
    };
    deliver(arguments.out.as_deref(), &text, || (document.to_json(), paper_page(&document, title)))?;
    Ok(match early {
        Some(early) => {
            early.tell(format_args!("this result, of {} rows,", document.rows.len()));
            early.done()
        }
        None if document.passes() => Done::Well,
        None => Done::GateFailed,
    })
}
