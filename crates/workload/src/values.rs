//! Values for a workload's parameters.

use crate::entry::{Entry, Parameter};

/// The key that every workload takes beside its own parameters, so that a canonical spec can be run again.
const SEED: &str = "seed";

/// The reason why a spec names no workload. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No workload or preset of this name.
    #[error("unknown workload `{name}`{}; there are {allowed}", did_you_mean(.nearest))]
    UnknownWorkload {
        /// The name that was given.
        name: String,
        /// The name it may have meant.
        nearest: Option<String>,
        /// The names of all workloads.
        allowed: String,
    },
    /// The workload has no such parameter.
    #[error("workload `{workload}` has no parameter `{key}`{}; it has {allowed}", did_you_mean(.nearest))]
    UnknownParameter {
        /// The name of the workload.
        workload: &'static str,
        /// The parameter that was given.
        key: String,
        /// The parameter it may have meant.
        nearest: Option<String>,
        /// The parameters of the workload.
        allowed: String,
    },
    /// The parameter does not take this value.
    #[error("workload `{workload}`: {key} = `{value}` is not {allowed}")]
    BadValue {
        /// The name of the workload.
        workload: &'static str,
        /// The name of the parameter.
        key: String,
        /// The value that was given.
        value: String,
        /// The values that the parameter takes.
        allowed: String,
    },
    /// The text between two commas is not `key=value`.
    #[error("workload `{workload}`: `{given}` is not of the form key=value, for example {example}")]
    NotKeyValue {
        /// The name of the workload.
        workload: &'static str,
        /// The text that was given.
        given: String,
        /// A correct pair of key and value.
        example: String,
    },
    /// A parameter was given twice.
    #[error("workload `{workload}`: parameter `{key}` is given twice")]
    Repeated {
        /// The name of the workload.
        workload: &'static str,
        /// The name of the parameter.
        key: String,
    },
    /// Each value is allowed, but not together.
    #[error("workload `{workload}`: {problem}")]
    Combination {
        /// The name of the workload.
        workload: &'static str,
        /// The problem, and what would be right.
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

    pub(crate) fn defaults(entry: &Entry, seed: u64) -> Self {
        let mut values =
            Self { workload: entry.name, parameters: entry.parameters, values: Vec::new(), seed };
        values.values = entry.parameters.iter().map(|p| built_in(entry, p, p.default)).collect();
        values
    }

    pub(crate) fn set(&mut self, key: &str, text: &str) -> Result<(), SpecError> {
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

/// A default of the catalogue; a test reads them all.
fn built_in(entry: &Entry, parameter: &Parameter, text: &str) -> u64 {
    match parameter.kind.parse(text) {
        Some(value) => value,
        None => panic!("workload {}: bad default {}={text}", entry.name, parameter.name),
    }
}

/// The closest of `names`, if it is close enough to have been meant.
pub(crate) fn nearest<'n>(given: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let (distance, name) = names.map(|name| (strsim::damerau_levenshtein(given, name), name)).min()?;
    (distance <= name.len() / 3 + 1).then(|| name.to_owned())
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}
