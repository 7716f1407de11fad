//! A machine and a source that the environment names: the toys of `docs/extend.md`, by `scripts/extend.py`.

use std::env;
use std::path::Path;

use pagewalk_trace::Source;

use super::*;
use crate::run::{RunOptions, run};

/// Runs with and without time, and looks whether a metric, written `STAGE METRIC`, is above zero.
#[test]
#[ignore = "PAGEWALK_MACHINE, PAGEWALK_WORKLOAD or PAGEWALK_TRACE, and PAGEWALK_METRIC name what runs"]
fn what_the_environment_names_runs() {
    let machine = env::var("PAGEWALK_MACHINE").unwrap_or("x86-64".into());
    let metric = env::var("PAGEWALK_METRIC").unwrap_or("program accesses".into());
    let (stage, metric) = metric.split_once(' ').expect("a stage and a metric");
    let mut source: Box<dyn Source> = match env::var("PAGEWALK_TRACE") {
        Ok(path) => pagewalk_trace::open(Path::new(&path), pagewalk_trace::Format::Auto).expect("a trace"),
        Err(_) => {
            let workload = env::var("PAGEWALK_WORKLOAD").unwrap_or("gups-small".into());
            Box::new(pagewalk_workload::Workload::parse(&workload, 1).expect("a workload"))
        }
    };
    let spec = spec::load(&machine).unwrap_or_else(|error| panic!("{error}"));
    for detail in [Detail::Counts, Detail::Timed] {
        let built = build(&spec, detail, 1, &source.info()).expect("a machine");
        let outcome = run(&mut *source, vec![built], RunOptions::default(), &mut ()).expect("a run");
        let counted = value(&outcome.results[0], stage, metric);
        println!("{machine}, {detail:?}: {} accesses, {stage} {metric} {counted}", outcome.accesses);
        assert!(counted > 0, "{machine}, {detail:?}: no {stage} {metric}");
    }
}
