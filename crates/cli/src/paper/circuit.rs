//! Numbers of the circuit, as `make hardware` has measured them.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use pagewalk_report::PaperRow;
use serde::Deserialize;

use crate::args::PaperArguments;

/// A number of the circuit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CircuitSpec {
    pub(super) item: String,
    /// The name of the figure in the file of figures.
    figure: String,
    unit: String,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

/// The name of the file that `make hardware` leaves in its folder.
const FILE: &str = "figures";

/// Judges what has been measured. If nothing has been, the rows say so, or fail if they alone were asked for.
pub(super) fn judge(rows: &[CircuitSpec], arguments: &PaperArguments) -> anyhow::Result<Vec<PaperRow>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let path = arguments.hardware.join(FILE);
    let figures = match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text).with_context(|| path.display().to_string())?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if arguments.item.as_ref().is_some_and(|item| item.starts_with("circuit")) {
                bail!("there is no {}; `make hardware` measures the circuit first", path.display());
            }
            let unmeasured = |row: &CircuitSpec| {
                let note = "not measured: `make hardware` does it, and takes three minutes";
                PaperRow::judged(row.item.clone(), row.published, None, row.unit.clone(), None, note)
            };
            return Ok(rows.iter().map(unmeasured).collect());
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    rows.iter()
        .map(|row| {
            let missing = || format!("{} has no figure `{}`", path.display(), row.figure);
            let ours = figures.get(&row.figure).copied().with_context(missing)?;
            Ok(PaperRow::judged(
                row.item.clone(),
                row.published,
                Some(ours),
                row.unit.clone(),
                row.gate,
                &row.note,
            ))
        })
        .collect()
}

/// Parses lines of `NAME VALUE`.
fn parse(text: &str) -> anyhow::Result<BTreeMap<String, f64>> {
    text.lines()
        .enumerate()
        .map(|(number, line)| {
            let what = || format!("line {}: expected a name and a number, found `{line}`", number + 1);
            let (name, value) = line.split_once(' ').with_context(what)?;
            Ok((name.to_owned(), value.trim().parse().with_context(what)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_names_and_numbers() {
        let figures = parse("area-1 8.85\nvectors 2000000\n").unwrap();
        assert_eq!(figures["area-1"], 8.85);
        assert_eq!(figures["vectors"], 2_000_000.0);
        for (wrong, line) in [("area-1", 1), ("area-1 8\narea-2 x\n", 2)] {
            let error = format!("{:#}", parse(wrong).unwrap_err());
            assert!(error.contains(&format!("line {line}")), "{error}");
        }
    }
}
