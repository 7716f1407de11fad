//! Numbers of the circuit, as `make hardware` has measured them.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use pagewalk_report::PaperRow;

use super::Context;
use crate::gated::{Gated, gated};

gated! {
    /// A number of the circuit.
    pub(crate) struct CircuitSpec {
        /// Its name in the file of figures.
        figure: String,
        unit: String,
    }
}

/// What `make hardware` leaves in its folder.
const FILE: &str = "figures";

/// Judges what has been measured. If nothing has been, the rows say so, or fail if they alone were asked for.
pub(crate) fn judge(rows: &[CircuitSpec], cx: &Context<'_>) -> anyhow::Result<Vec<PaperRow>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let path = cx.settings.hardware.join(FILE);
    let figures = match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text).with_context(|| path.display().to_string())?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if cx.settings.item.starts_with("circuit") {
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
            Ok(row.judge_number(Some(ours), &row.unit, false))
        })
        .collect()
}

/// `NAME VALUE`, a line each.
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
