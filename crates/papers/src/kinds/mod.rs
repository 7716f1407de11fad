//! The kinds of experiments: a file each, with its rows.

pub(crate) mod application;
pub(crate) mod circuit;
pub(crate) mod counts;
pub(crate) mod files;
pub(crate) mod knee;
pub(crate) mod loads;
pub(crate) mod measure;
pub(crate) mod precision;
pub(crate) mod programs;
pub(crate) mod queueing;
pub(crate) mod solve;
pub(crate) mod swap;
pub(crate) mod tables;

use crate::host::Host;
use crate::machines::Machines;
use crate::outcome::Outcome;
use crate::settings::Settings;

/// A kind of experiment, as an experiment file has it.
pub(crate) trait Kind {
    /// Keeps what makes rows whose item begins with `prefix`. Returns whether anything is left.
    fn keep(&mut self, prefix: &str) -> bool;

    /// Makes the rows. Each goes into `out` as soon as its number is known: those of an interrupted run count.
    ///
    /// # Errors
    ///
    /// A mistake in the file, or what ends the run.
    fn run(&self, cx: &Context<'_>, out: &mut Outcome) -> anyhow::Result<()>;
}

/// What all kinds of experiments work with.
pub(crate) struct Context<'a> {
    pub(crate) host: &'a dyn Host,
    pub(crate) settings: &'a Settings,
    pub(crate) machines: Machines<'a>,
}

impl Context<'_> {
    /// Whether inputs are small, so that nothing is judged.
    pub(crate) fn small(&self) -> bool {
        self.settings.small
    }
}

/// Several experiments of a kind.
impl<K: Kind> Kind for Vec<K> {
    fn keep(&mut self, prefix: &str) -> bool {
        self.retain_mut(|kind| kind.keep(prefix));
        !self.is_empty()
    }

    fn run(&self, cx: &Context<'_>, out: &mut Outcome) -> anyhow::Result<()> {
        self.iter().try_for_each(|kind| kind.run(cx, out))
    }
}

/// An experiment that a file may have.
impl<K: Kind> Kind for Option<K> {
    fn keep(&mut self, prefix: &str) -> bool {
        if self.as_mut().is_some_and(|kind| !kind.keep(prefix)) {
            *self = None;
        }
        self.is_some()
    }

    fn run(&self, cx: &Context<'_>, out: &mut Outcome) -> anyhow::Result<()> {
        self.iter().try_for_each(|kind| kind.run(cx, out))
    }
}

/// Runs an experiment of a file that has no machines, silently.
#[cfg(test)]
fn run_alone(kind: &impl Kind) -> anyhow::Result<Outcome> {
    use std::collections::BTreeMap;
    use std::fmt::Arguments;

    use pagewalk_report::ProgressShown;
    use pagewalk_trace::Stop;

    use crate::host::Steps;

    #[derive(Default)]
    struct Silent(Stop);

    impl Host for Silent {
        fn note(&self, _: Arguments<'_>) {}

        fn progress(&self) -> ProgressShown {
            ProgressShown::Nothing
        }

        fn steps(&self) -> Box<dyn Steps> {
            Box::new(Silent::default())
        }

        fn stop(&self) -> &Stop {
            &self.0
        }

        fn go_on(&self) -> anyhow::Result<()> {
            Ok(())
        }
    }

    impl Steps for Silent {
        fn show(&self, _: Arguments<'_>) {}
    }

    let settings = Settings {
        item: String::new(),
        small: false,
        quick: false,
        threads: 1,
        hardware: std::path::PathBuf::new(),
    };
    let (files, variants) = (BTreeMap::new(), BTreeMap::new());
    let machines = Machines { files: &files, variants: &variants };
    let (host, mut outcome) = (Silent::default(), Outcome::default());
    kind.run(&Context { host: &host, settings: &settings, machines }, &mut outcome)?;
    Ok(outcome)
}
