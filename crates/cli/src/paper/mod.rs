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
use pagewalk_report::{PaperDocument, paper_page, paper_table};

use crate::args::{FormatArgument, PaperArguments};
use crate::exit::Done;
use crate::run::{prepare_folder, print, style, write_folder};
use experiment::Experiment;

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

/// Runs the command.
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
    if let Some(folder) = &arguments.out {
        prepare_folder(folder)?;
    }
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for experiment in &experiments {
        if item.is_empty() && experiment.is_on_request() {
            continue;
        }
        if arguments.quick && experiment.is_long() && !experiment.is_empty() {
            eprintln!("an experiment that takes minutes is left out");
            continue;
        }
        let outcome = experiment.run(arguments)?;
        rows.extend(outcome.rows);
        figures.extend(outcome.figures);
    }
    let document = PaperDocument::new(name, rows, figures);
    if let Some(folder) = &arguments.out {
        write_folder(folder, &document.to_json(), &paper_page(&document, title))?;
    }
    match arguments.format {
        FormatArgument::Json => print(&document.to_json())?,
        FormatArgument::Table => {
            print(&paper_table(&document, style()))?;
            if let Some(folder) = &arguments.out {
                eprintln!("wrote {}", folder.join("report.html").display());
            }
        }
    }
    Ok(if document.passes() { Done::Well } else { Done::GateFailed })
}
