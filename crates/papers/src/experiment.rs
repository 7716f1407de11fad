//! One experiment file: workloads, machines, and rows of numbers.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::figure::FigureSpec;
use crate::gated::Gated;
use crate::host::Host;
use crate::kinds::circuit::{self, CircuitSpec};
use crate::kinds::counts::{self, RowSpec, WorkloadSpec};
use crate::kinds::files::FilesSpec;
use crate::kinds::knee::KneeSpec;
use crate::kinds::loads::LoadsSpec;
use crate::kinds::measure::MeasureSpec;
use crate::kinds::precision::{AgesSpec, PrecisionSpec};
use crate::kinds::programs::ProgramsSpec;
use crate::kinds::queueing::QueueingSpec;
use crate::kinds::solve::SolveSpec;
use crate::kinds::swap::SwapSpec;
use crate::kinds::tables::TablesSpec;
use crate::kinds::{Context, Kind};
use crate::machines::{Machines, VariantSpec};
use crate::outcome::Outcome;
use crate::settings::Settings;

/// Workloads, and rows to be measured on them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// By the name that rows use.
    #[serde(default)]
    workload: BTreeMap<String, WorkloadSpec>,
    /// Machines of this experiment alone, as machine files, by name; rows may name built-in ones, too.
    #[serde(default)]
    machine: BTreeMap<String, String>,
    /// Machines that differ from others in how much memory there is for the program.
    #[serde(default)]
    variant: BTreeMap<String, VariantSpec>,
    #[serde(default)]
    row: Vec<RowSpec>,
    #[serde(default)]
    precision: Vec<PrecisionSpec>,
    #[serde(default)]
    circuit: Vec<CircuitSpec>,
    /// Page tables by themselves.
    #[serde(default)]
    tables: TablesSpec,
    /// The paper's programs on its machines.
    #[serde(default)]
    programs: ProgramsSpec,
    /// Programs on machines of this file, or built-in ones.
    #[serde(default)]
    measure: MeasureSpec,
    /// A server under load.
    #[serde(default)]
    loads: Vec<LoadsSpec>,
    /// Where curves of rows flatten.
    #[serde(default)]
    knee: Vec<KneeSpec>,
    /// Servers as queues.
    queueing: Option<QueueingSpec>,
    /// Operations on files.
    files: Option<FilesSpec>,
    /// Ranges of pages that are swapped.
    swap: Option<SwapSpec>,
    /// What parameters have to be.
    #[serde(default)]
    solve: Vec<SolveSpec>,
    /// Whether any row was kept.
    #[serde(skip)]
    has_rows: bool,
    /// Whether it takes minutes.
    #[serde(default)]
    long: bool,
    /// Whether it only runs if an item of it is asked for.
    #[serde(default)]
    on_request: bool,
    #[serde(default)]
    figure: Vec<FigureSpec>,
    #[serde(default)]
    ages: Vec<AgesSpec>,
}

impl Experiment {
    /// Reads a file, and keeps the rows whose item begins with `prefix`.
    ///
    /// # Errors
    ///
    /// The text is not an experiment file.
    pub fn parse(text: &str, prefix: &str) -> anyhow::Result<Self> {
        let mut experiment: Self = toml::from_str(text)?;
        experiment.row.retain(|row| row.begins(prefix));
        experiment.circuit.retain(|row| row.begins(prefix));
        experiment.knee.retain(|knee| knee.begins(prefix));
        let kept = experiment.kinds_mut().map(|kind| kind.keep(prefix));
        experiment.has_rows =
            !experiment.row.is_empty() || !experiment.circuit.is_empty() || kept.contains(&true);
        let rows = &experiment.row;
        experiment.workload.retain(|name, _| rows.iter().any(|row| row.workload() == name));
        Ok(experiment)
    }

    /// Returns whether no row was kept.
    pub fn is_empty(&self) -> bool {
        !self.has_rows
    }

    /// Returns whether the experiment takes minutes.
    pub fn is_long(&self) -> bool {
        self.long
    }

    /// Returns whether the experiment only runs if an item of it is asked for.
    pub fn is_on_request(&self) -> bool {
        self.on_request
    }

    /// The kinds of experiments, in the order in which they run.
    fn kinds(&self) -> [&dyn Kind; 9] {
        let Self { precision, tables, programs, measure, loads, solve, queueing, swap, files, .. } = self;
        [precision, tables, programs, measure, loads, solve, queueing, swap, files]
    }

    fn kinds_mut(&mut self) -> [&mut dyn Kind; 9] {
        let Self { precision, tables, programs, measure, loads, solve, queueing, swap, files, .. } = self;
        [precision, tables, programs, measure, loads, solve, queueing, swap, files]
    }

    /// Runs every workload once, on all machines that its rows name, judges the rows and draws them, into `outcome`.
    ///
    /// # Errors
    ///
    /// A mistake in the file, or what ends the run: `outcome` then has the rows whose numbers were there by then, and no figures
    /// of this file.
    pub fn run(&self, host: &dyn Host, settings: &Settings, outcome: &mut Outcome) -> anyhow::Result<()> {
        let machines = Machines { files: &self.machine, variants: &self.variant };
        let cx = Context { host, settings, machines };
        let circuit = circuit::judge(&self.circuit, &cx)?;
        let ready = counts::read(&self.workload, &self.row, &cx)?;
        let (first, first_figure) = (outcome.rows.len(), outcome.figures.len());
        let measured = counts::run(ready, &cx, outcome)
            .and_then(|()| self.kinds().into_iter().try_for_each(|kind| kind.run(&cx, outcome)));
        outcome.rows.extend(circuit);
        if measured.is_err() {
            outcome.figures.truncate(first_figure);
            return measured;
        }
        let own = &outcome.rows[first..];
        let knees = self.knee.iter().filter_map(|knee| knee.judge(own, settings.small)).collect::<Vec<_>>();
        outcome.rows.extend(knees);
        let own = &outcome.rows[first..];
        outcome.figures.extend(self.figure.iter().filter_map(|figure| figure.draw(own)));
        if !self.precision.is_empty() {
            for spec in &self.ages {
                outcome.figures.push(spec.draw(&mut outcome.ages)?);
            }
        }
        Ok(())
    }
}
