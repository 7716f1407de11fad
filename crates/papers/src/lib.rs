//! The papers' experiments: run, and judged beside the published numbers.
//!
//! An experiment file (`papers/NAME/*.toml`) names workloads, machines and rows; a row says how its number comes
//! from the machines' counts. Nothing here knows a published number: they stand in the files, with their sources.
//!
//! Each kind of experiment is a file of `kinds/` with its own rows; all implement `Kind`, and every row has the same
//! four fields beside those of its kind: its item, the published number, the gate and a note (`gated.rs`).

mod ages;
mod experiment;
mod figure;
mod files;
mod gated;
mod host;
mod kinds;
mod machines;
mod outcome;
mod settings;
mod tables;

pub use experiment::Experiment;
pub use host::{Host, Steps};
pub use outcome::Outcome;
pub use settings::Settings;

/// A paper: its name for the command, its title, and its experiment files.
pub struct Paper {
    /// The name that the command takes.
    pub name: &'static str,
    /// The title, with the place and year of publication.
    pub title: &'static str,
    /// The texts of its experiment files, in order.
    pub files: &'static [&'static str],
}

/// Returns the papers, in the order in which the command lists them.
pub fn papers() -> &'static [Paper] {
    &PAPERS
}

macro_rules! files {
    ($paper:literal: $($file:literal),*) => {
        &[$(include_str!(concat!("../../../papers/", $paper, "/", $file, ".toml"))),*]
    };
}

static PAPERS: [Paper; 5] = [
    Paper {
        name: "mosaic",
        title: "Mosaic Pages: Big TLB Reach With Small Pages (IEEE Micro 2024)",
        files: files!("mosaic": "tlb", "time", "frames", "figures", "swap", "circuit"),
    },
    Paper {
        name: "me-hpt",
        title: "Memory-Efficient Hashed Page Tables (HPCA 2023)",
        files: files!("me-hpt": "tables", "fragmented", "speed"),
    },
    Paper {
        name: "pfa",
        title: "Enabling Efficient and Transparent Remote Memory Access in Disaggregated Datacenters (UCB/EECS-2019-154)",
        files: files!("pfa": "fetch", "local", "options", "programs"),
    },
    Paper {
        name: "astriflash",
        title: "AstriFlash: A Flash-Based System for Online Services (HPCA 2023)",
        files: files!("astriflash": "arithmetic", "services", "load", "capacity", "flash", "skew"),
    },
    Paper {
        name: "ctfs",
        title: "ctFS: Converting File Index Traversals to Hardware Memory Translation (;login: 2022)",
        files: files!("ctfs": "swap", "indexing"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_file_can_be_read_and_has_rows() {
        for paper in papers() {
            for text in paper.files {
                let experiment = Experiment::parse(text, "");
                let experiment = experiment.unwrap_or_else(|error| panic!("{}: {error:#}", paper.name));
                assert!(!experiment.is_empty(), "{}: a file without rows", paper.name);
                assert!(Experiment::parse(text, "no such item").unwrap().is_empty(), "{}", paper.name);
            }
        }
    }

    #[test]
    fn a_misspelt_key_of_a_row_is_an_error() {
        let text = "[[precision]]\nitem = \"x\"\npolicy = \"horizon-lru\"\nframes = 512\npages = 1\nvalue = \"mean\"\n";
        assert!(Experiment::parse(text, "").is_ok());
        let Err(error) = Experiment::parse(&format!("{text}gaet = [0, 1]\n"), "") else { panic!("accepted") };
        assert!(format!("{error:#}").contains("gaet"), "{error:#}");
    }
}
