//! Which rows a figure is made of: `"tlb/{group}/{series}"` takes each row whose item fits.

use pagewalk_report::{BarGroup, Drawn, Figure, PaperRow};
use serde::Deserialize;

/// A figure of an experiment file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureSpec {
    title: String,
    about: String,
    /// The items, with `{series}` for one part of their name and `{group}` (bars) or `{x}` (lines) for another.
    items: String,
    /// The series in this order, and no others; without it, all as they come.
    #[serde(default)]
    series: Vec<String>,
    /// The meaning of `{x}`, if these are lines.
    x: Option<String>,
}

/// The part of a row that a figure shows.
struct Point<'a> {
    series: &'a str,
    place: &'a str,
    row: &'a PaperRow,
}

impl FigureSpec {
    /// Returns the figure, if there is any row for it.
    pub(super) fn draw(&self, rows: &[PaperRow]) -> Option<Figure> {
        let points: Vec<Point<'_>> = rows.iter().filter_map(|row| self.fit(row)).collect();
        let first = points.first()?;
        let mut series: Vec<&str> = self.series.iter().map(String::as_str).collect();
        if series.is_empty() {
            series = in_order(points.iter().map(|point| point.series));
        }
        // What the paper prints is drawn beside ours.
        let published = self.x.is_none() && points.iter().any(|point| point.row.published.is_some());
        let drawn = match &self.x {
            Some(x) => {
                let points = series.iter().map(|name| line(&points, name)).collect();
                Drawn::Lines { x: x.clone(), points }
            }
            None => Drawn::Bars { groups: groups(&points, &series, published) },
        };
        let names = series.iter().flat_map(|name| {
            std::iter::once((*name).to_owned()).chain(published.then(|| format!("{name}, published")))
        });
        Some(Figure {
            title: self.title.clone(),
            about: self.about.clone(),
            unit: first.row.unit.clone(),
            series: names.collect(),
            drawn,
        })
    }

    fn fit<'a>(&self, row: &'a PaperRow) -> Option<Point<'a>> {
        let (mut series, mut place) = ("Pagewalk", "");
        let (mut wanted, mut parts) = (self.items.split('/'), row.item.split('/'));
        loop {
            match (wanted.next(), parts.next()) {
                (None, None) => break,
                (Some("{series}"), Some(part)) => series = part,
                (Some("{group}" | "{x}"), Some(part)) => place = part,
                (Some(wanted), Some(part)) if wanted == part => {}
                _ => return None,
            }
        }
        let known = self.series.is_empty() || self.series.iter().any(|name| name == series);
        known.then_some(Point { series, place, row })
    }
}

/// Returns each name once, in the order of the first.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    names.for_each(|name| {
        if !seen.contains(&name) {
            seen.push(name);
        }
    });
    seen
}

/// Returns groups by place: ours of each series, and the published number if these are drawn.
fn groups(points: &[Point<'_>], series: &[&str], published: bool) -> Vec<BarGroup> {
    let places = in_order(points.iter().map(|point| point.place));
    let group = |place: &str| {
        let values = series.iter().flat_map(|name| {
            let point = points.iter().find(|point| point.place == place && point.series == *name);
            let row = point.map(|point| point.row);
            std::iter::once(row.and_then(|row| row.ours))
                .chain(published.then(|| row.and_then(|row| row.published)))
        });
        BarGroup { label: place.to_owned(), values: values.collect() }
    };
    places.into_iter().map(group).collect()
}

/// Returns the points of a series whose place is a number and that have a value.
fn line(points: &[Point<'_>], series: &str) -> Vec<[f64; 2]> {
    let of = points.iter().filter(|point| point.series == series);
    of.filter_map(|point| Some([point.place.parse().ok()?, point.row.ours?])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(item: &str, ours: f64, published: Option<f64>) -> PaperRow {
        PaperRow::judged(item, published, Some(ours), "fraction", None, "")
    }

    fn spec(items: &str, series: &[&str], x: Option<&str>) -> FigureSpec {
        FigureSpec {
            title: "a figure".into(),
            about: String::new(),
            items: items.into(),
            series: series.iter().map(|&name| name.to_owned()).collect(),
            x: x.map(str::to_owned),
        }
    }

    #[test]
    fn bars_stand_by_group_and_series() {
        let rows = [
            row("tlb/one/arity-4", 0.1, None),
            row("tlb/one/arity-8", 0.2, None),
            row("tlb/two/arity-8", 0.3, None),
            row("tlb/two/else", 0.9, None),
            row("tlb/two", 0.9, None),
            row("swap/two/arity-8", 0.9, None),
        ];
        let figure = spec("tlb/{group}/{series}", &["arity-8", "arity-4"], None).draw(&rows).unwrap();
        assert_eq!(figure.series, ["arity-8", "arity-4"]);
        let Drawn::Bars { groups } = figure.drawn else { panic!("bars") };
        let groups: Vec<_> = groups.into_iter().map(|group| (group.label, group.values)).collect();
        let expected = [("one", vec![Some(0.2), Some(0.1)]), ("two", vec![Some(0.3), None])];
        assert_eq!(groups, expected.map(|(label, values)| (label.to_owned(), values)));
        assert_eq!(spec("none/{group}", &[], None).draw(&rows), None);
    }

    #[test]
    fn published_numbers_stand_beside_ours() {
        let rows = [row("full/one", 0.97, Some(0.98)), row("full/two", 0.96, None)];
        let figure = spec("full/{group}", &[], None).draw(&rows).unwrap();
        assert_eq!(figure.series, ["Pagewalk", "Pagewalk, published"]);
        let Drawn::Bars { groups } = figure.drawn else { panic!("bars") };
        assert_eq!(groups[0].values, [Some(0.97), Some(0.98)]);
        assert_eq!(groups[1].values, [Some(0.96), None]);
    }

    #[test]
    fn lines_go_through_numbers() {
        let rows =
            [row("swap/lru/1.5", 2.0, None), row("swap/lru/new", 3.0, None), row("swap/clock/2", 4.0, None)];
        let figure = spec("swap/{series}/{x}", &[], Some("footprint")).draw(&rows).unwrap();
        let points = vec![vec![[1.5, 2.0]], vec![[2.0, 4.0]]];
        assert_eq!(figure.drawn, Drawn::Lines { x: "footprint".into(), points });
    }
}
