//! Workload specs: `gups`, `gups-small`, `gups:table=64MiB,updates=4M`.

use crate::catalog::{Entry, Parameter, catalog};
use crate::source::Workload;

/// The key that every workload takes beside its own parameters, so that a canonical spec can be run again.
const SEED: &str = "seed";

/// The reason why a spec names no workload. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No workload or preset of this name.
    #[error("unknown workload `{name}`{}; there are {allowed}", did_you_mean(.nearest))]
    UnknownWorkload {
        /// What was given.
        name: String,
        /// The name it may have meant.
        nearest: Option<String>,
        /// All names.
        allowed: String,
    },
    /// The workload has no such parameter.
    #[error("workload `{workload}` has no parameter `{key}`{}; it has {allowed}", did_you_mean(.nearest))]
    UnknownParameter {
        /// The workload.
        workload: &'static str,
        /// What was given.
        key: String,
        /// The parameter it may have meant.
        nearest: Option<String>,
        /// All parameters.
        allowed: String,
    },
    /// The parameter does not take this value.
    #[error("workload `{workload}`: {key} = `{value}` is not {allowed}")]
    BadValue {
        /// The workload.
        workload: &'static str,
        /// The parameter.
        key: String,
        /// What was given.
        value: String,
        /// What it takes.
        allowed: String,
    },
    /// The text between two commas is not `key=value`.
    #[error("workload `{workload}`: `{given}` is not of the form key=value, for example {example}")]
    NotKeyValue {
        /// The workload.
        workload: &'static str,
        /// What was given.
        given: String,
        /// A correct pair.
        example: String,
    },
    /// A parameter was given twice.
    #[error("workload `{workload}`: parameter `{key}` is given twice")]
    Repeated {
        /// The workload.
        workload: &'static str,
        /// The parameter.
        key: String,
    },
    /// Each value is allowed, but not together.
    #[error("workload `{workload}`: {problem}")]
    Combination {
        /// The workload.
        workload: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// A value for every parameter of a workload, and the seed.
#[derive(Clone)]
pub(crate) struct Values {
    workload: &'static str,
    parameters: &'static [Parameter],
    values: Vec<u64>,
    pub(crate) seed: u64,
}

impl Values {
    /// The value of a parameter of this workload; of a choice, its index.
    pub(crate) fn get(&self, name: &str) -> u64 {
        match self.parameters.iter().position(|p| p.name == name) {
            Some(i) => self.values[i],
            None => panic!("workload {} declares no parameter {name}", self.workload),
        }
    }

    /// The spec that gives these values, with nothing left to defaults.
    pub(crate) fn canonical(&self) -> String {
        let mut spec = format!("{}:", self.workload);
        for (parameter, &value) in self.parameters.iter().zip(&self.values) {
            spec += &format!("{}={},", parameter.name, parameter.kind.format(value));
        }
        spec + &format!("{SEED}={}", self.seed)
    }

    fn defaults(entry: &Entry, seed: u64) -> Self {
        let mut values =
            Self { workload: entry.name, parameters: entry.parameters, values: Vec::new(), seed };
        values.values = entry.parameters.iter().map(|p| built_in(entry, p, p.default)).collect();
        values
    }

    fn set(&mut self, key: &str, text: &str) -> Result<(), SpecError> {
        let bad = |allowed: String| SpecError::BadValue {
            workload: self.workload,
            key: key.to_owned(),
            value: text.to_owned(),
            allowed,
        };
        if key == SEED {
            self.seed = text.parse().map_err(|_| bad("a whole number below 2^64".to_owned()))?;
            return Ok(());
        }
        let Some(i) = self.parameters.iter().position(|p| p.name == key) else {
            let names = || self.parameters.iter().map(|p| p.name).chain([SEED]);
            return Err(SpecError::UnknownParameter {
                workload: self.workload,
                key: key.to_owned(),
                nearest: nearest(key, names()),
                allowed: names().collect::<Vec<_>>().join(", "),
            });
        };
        let kind = self.parameters[i].kind;
        self.values[i] = kind.parse(text).ok_or_else(|| bad(kind.to_string()))?;
        Ok(())
    }
}

/// Reads a spec. `seed` holds unless the spec itself sets one.
pub(crate) fn parse(spec: &str, seed: u64) -> Result<Workload, SpecError> {
    let (name, pairs) = match spec.split_once(':') {
        Some((name, pairs)) => (name, Some(pairs)),
        None => (spec, None),
    };
    let (entry, mut values) = named(name, seed)?;
    let mut given: Vec<&str> = Vec::new();
    for pair in pairs.into_iter().flat_map(|pairs| pairs.split(',')) {
        let Some((key, value)) = pair.split_once('=') else {
            let first = &entry.parameters[0];
            return Err(SpecError::NotKeyValue {
                workload: entry.name,
                given: pair.to_owned(),
                example: format!("{}={}", first.name, first.default),
            });
        };
        if given.contains(&key) {
            return Err(SpecError::Repeated { workload: entry.name, key: key.to_owned() });
        }
        given.push(key);
        values.set(key, value)?;
    }
    let program =
        (entry.make)(&values).map_err(|problem| SpecError::Combination { workload: entry.name, problem })?;
    Ok(Workload::new(values.canonical(), program))
}

/// The workload or preset of a name, with its values.
fn named(name: &str, seed: u64) -> Result<(&'static Entry, Values), SpecError> {
    for entry in catalog() {
        let mut values = Values::defaults(entry, seed);
        if entry.name == name {
            return Ok((entry, values));
        }
        if let Some(preset) = entry.presets.iter().find(|p| p.name == name) {
            for (key, text) in preset.values {
                values.set(key, text)?;
            }
            return Ok((entry, values));
        }
    }
    let names =
        || catalog().iter().flat_map(|e| [e.name].into_iter().chain(e.presets.iter().map(|p| p.name)));
    Err(SpecError::UnknownWorkload {
        name: name.to_owned(),
        nearest: nearest(name, names()),
        allowed: names().collect::<Vec<_>>().join(", "),
    })
}

/// A default of the catalogue; a test reads them all.
fn built_in(entry: &Entry, parameter: &Parameter, text: &str) -> u64 {
    match parameter.kind.parse(text) {
        Some(value) => value,
        None => panic!("workload {}: bad default {}={text}", entry.name, parameter.name),
    }
}

/// The closest of `names`, if it is close enough to have been meant.
fn nearest<'n>(given: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let (distance, name) = names.map(|name| (strsim::damerau_levenshtein(given, name), name)).min()?;
    (distance <= name.len() / 3 + 1).then(|| name.to_owned())
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pagewalk_trace::Source;

    use super::*;

    fn error(spec: &str) -> String {
        match parse(spec, 0) {
            Ok(_) => panic!("`{spec}` was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_name_of_the_catalogue_is_a_spec_and_its_canonical_form_means_the_same() {
        for entry in catalog() {
            let presets = entry.presets.iter().map(|p| p.name);
            for name in presets.chain([entry.name]) {
                let canonical = parse(name, 42).unwrap().info().name;
                assert!(canonical.starts_with(&format!("{}:", entry.name)), "{canonical}");
                assert!(canonical.ends_with(",seed=42"), "{canonical}");
                // The canonical spec carries its seed; another default does not matter.
                assert_eq!(parse(&canonical, 7).unwrap().info().name, canonical);
            }
            // These have a paper's size by default, or there is none to repeat.
            let no_paper = ["quicksort", "assembler", "objects", "linear"].contains(&entry.name)
                || entry.phases == crate::jobs::PHASES;
            for suffix in if no_paper { &["small"][..] } else { &["small", "paper"] } {
                let name = format!("{}-{suffix}", entry.name);
                assert!(entry.presets.iter().any(|p| p.name == name), "no preset {name}");
            }
        }
    }

    #[test]
    fn values_override_presets_and_defaults() {
        let name = |spec| parse(spec, 1).unwrap().info().name;
        assert_eq!(
            name("gups:table=64MiB,updates=4M"),
            "gups:table=64MiB,updates=4M,pair=off,init=on,seed=1"
        );
        assert_eq!(
            name("gups-paper:updates=1000k,seed=9"),
            "gups:table=8GiB,updates=1M,pair=on,init=on,seed=9"
        );
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let text = error("gusp");
        assert!(
            text.starts_with("unknown workload `gusp` (did you mean `gups`?); there are graph500, "),
            "{text}"
        );
        assert!(!error("firefox").contains("did you mean"));
        assert_eq!(
            error("gups:tabel=64MiB"),
            "workload `gups` has no parameter `tabel` (did you mean `table`?); it has table, updates, pair, init, seed"
        );
        assert_eq!(
            error("gups:table=64M"),
            "workload `gups`: table = `64M` is not a size from 4KiB to 1TiB, a power of two"
        );
        assert!(error("gups:table=96MiB").contains("a power of two"));
        assert_eq!(error("gups:pair=maybe"), "workload `gups`: pair = `maybe` is not off or on");
        assert_eq!(
            error("gups:updates"),
            "workload `gups`: `updates` is not of the form key=value, for example table=256MiB"
        );
        assert!(error("gups:").contains("not of the form"));
        assert_eq!(
            error("gups:updates=1k,updates=2k"),
            "workload `gups`: parameter `updates` is given twice"
        );
        assert!(error("gups:seed=-1").contains("seed = `-1` is not a whole number"));
        assert!(error("graph500:scale=30,edge-factor=64").contains("edges"));
    }
}
