//! The place where a curve of rows flattens.

use pagewalk_report::PaperRow;
use serde::Deserialize;

use super::programs::judged;

/// The knee of a curve.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KneeSpec {
    item: String,
    /// The rows, with `{x}` for the part of their name that is a number.
    of: String,
    unit: String,
    published: Option<f64>,
    gate: Option<[f64; 2]>,
    #[serde(default)]
    note: String,
}

impl KneeSpec {
    /// Returns whether its rows begin so.
    pub(super) fn has(&self, prefix: &str) -> bool {
        self.item.starts_with(prefix)
    }

    /// Returns the row, if there is a curve.
    pub(super) fn judge(&self, rows: &[PaperRow], small: bool) -> Option<PaperRow> {
        let (before, after) = self.of.split_once("{x}")?;
        let point = |row: &PaperRow| -> Option<(f64, f64)> {
            let x = row.item.strip_prefix(before)?.strip_suffix(after)?.parse().ok()?;
            Some((x, row.ours?))
        };
        let mut curve: Vec<(f64, f64)> = rows.iter().filter_map(point).collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (gate, note) = judged(small, self.gate, &self.note);
        (!curve.is_empty())
            .then(|| PaperRow::judged(&*self.item, self.published, knee(&curve), &*self.unit, gate, note))
    }
}

/// Returns the place that is furthest below the straight line between the ends: Satopaa et al., "Finding a 'Kneedle' in a
/// Haystack", ICDCS Workshops 2011. Between points, on the parabola through the lowest three.
fn knee(curve: &[(f64, f64)]) -> Option<f64> {
    let (&(first, high), &(last, low)) = (curve.first()?, curve.last()?);
    let depth = |&(x, y): &(f64, f64)| high + (low - high) * (x - first) / (last - first) - y;
    let depths: Vec<f64> = curve.iter().map(depth).collect();
    let at = (0..curve.len()).max_by(|&a, &b| depths[a].total_cmp(&depths[b]))?;
    if at == 0 || at + 1 == curve.len() {
        return None;
    }
    let [(a, fa), (b, fb), (c, fc)] = [at - 1, at, at + 1].map(|at| (curve[at].0, depths[at]));
    let (left, right) = ((b - a) * (fb - fc), (b - c) * (fb - fa));
    Some(b - 0.5 * ((b - a) * left - (b - c) * right) / (left - right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_of_a_power_is_where_its_slope_is_the_chords() {
        let y = |x: f64| x.powf(-0.35);
        let curve: Vec<_> = (4..48).map(|x| 0.2 * f64::from(x)).map(|x| (x, y(x))).collect();
        let (first, last) = (curve[0], curve[curve.len() - 1]);
        let slope = (last.1 - first.1) / (last.0 - first.0);
        let expected = (-slope / 0.35).powf(-1.0 / 1.35);
        assert!((knee(&curve).unwrap() - expected).abs() < 0.02);
        assert_eq!(knee(&[(1.0, 2.0), (2.0, 1.0)]), None, "a line has none");
    }
}
