//! Line charts: from points to polylines and texts, in the coordinates of an SVG.

use std::fmt::Write as _;

use serde::Serialize;

use super::chart::{Series, decimal_step, round, short, typographic};
use crate::units::{Quantity, plain};

/// A line chart, drawn: what the template turns into SVG elements.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LinePlot {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
    /// Where values are zero.
    zero: f64,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    lines: Vec<Line>,
    x_label: String,
    /// The chart in words, for readers who do not see it.
    words: String,
}

#[derive(Clone, Debug, Serialize)]
struct Tick {
    at: f64,
    label: String,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    class: String,
    /// `x,y x,y ...`
    points: String,
    dots: Vec<Dot>,
}

#[derive(Clone, Debug, Serialize)]
struct Dot {
    x: f64,
    y: f64,
    tip: String,
}

const LEFT: f64 = 62.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;
const HEIGHT: f64 = 320.0;
/// A line of more points gets no dots.
const DOTS: usize = 24;

/// Draws one line per series; zero is among the values, `x` goes from its least to its most.
pub(super) fn draw(
    series: &[Series],
    points: &[Vec<[f64; 2]>],
    x_label: &str,
    quantity: Quantity,
    width: f64,
) -> LinePlot {
    let all = || points.iter().flatten();
    let least = all().map(|point| point[0]).fold(f64::INFINITY, f64::min);
    let most = all().map(|point| point[0]).fold(f64::NEG_INFINITY, f64::max);
    let highest = all().map(|point| point[1]).fold(0.0, f64::max);
    let lowest = all().map(|point| point[1]).fold(0.0, f64::min);
    let (bottom, right) = (HEIGHT - BOTTOM, width - RIGHT);
    // One point, or points at one place, stand on the left.
    let x = Axis { from: least, per: pixels(right - LEFT, most - least), start: LEFT };
    let y = Axis { from: lowest, per: -pixels(bottom - TOP, highest - lowest), start: bottom };
    let lines = series.iter().zip(points).map(|(series, points)| {
        let mut line = Line { class: series.class.clone(), points: String::new(), dots: Vec::new() };
        for &[at, value] in points {
            let (x, y) = (x.of(at), y.of(value));
            let space = if line.points.is_empty() { "" } else { " " };
            let _ = write!(line.points, "{space}{x},{y}");
            let written = typographic(&quantity.write(value));
            line.dots.push(Dot { x, y, tip: format!("{}, {}: {written}", series.name, plain(at, 4)) });
        }
        if points.len() > DOTS {
            line.dots.clear();
        }
        line
    });
    let y_label =
        |value: f64| if value == 0.0 { "0".into() } else { short(&typographic(&quantity.write(value))) };
    LinePlot {
        width,
        height: HEIGHT,
        left: LEFT,
        right,
        bottom,
        x_ticks: if all().next().is_some() {
            x.ticks(least, most, 8.0, |value| plain(value, 4))
        } else {
            Vec::new()
        },
        y_ticks: y.ticks(lowest, highest, 6.0, y_label),
        zero: y.of(0.0),
        lines: lines.collect(),
        x_label: x_label.into(),
        words: words(series, points, quantity),
    }
}

/// Pixels for one of `range`.
fn pixels(room: f64, range: f64) -> f64 {
    if range > 0.0 { room / range } else { 0.0 }
}

struct Axis {
    from: f64,
    per: f64,
    start: f64,
}

impl Axis {
    fn of(&self, value: f64) -> f64 {
        round(self.start + (value - self.from) * self.per)
    }

    fn ticks(&self, least: f64, most: f64, count: f64, label: impl Fn(f64) -> String) -> Vec<Tick> {
        if most <= least {
            return vec![Tick { at: self.of(least), label: label(least) }];
        }
        let step = decimal_step((most - least) / count);
        let first = (least / step - 1e-9).ceil();
        (0..)
            .map(|number| (first + f64::from(number)) * step)
            .take_while(|&value| value <= most * (1.0 + 1e-9))
            .map(|value| Tick { at: self.of(value), label: label(value) })
            .collect()
    }
}

fn words(series: &[Series], points: &[Vec<[f64; 2]>], quantity: Quantity) -> String {
    let of = |(series, points): (&Series, &Vec<[f64; 2]>)| match (points.first(), points.last()) {
        (Some(first), Some(last)) => {
            let write = |point: &[f64; 2]| {
                format!("{} at {}", typographic(&quantity.write(point[1])), plain(point[0], 4))
            };
            format!("{}: from {} to {}", series.name, write(first), write(last))
        }
        _ => format!("{}: none", series.name),
    };
    series.iter().zip(points).map(of).collect::<Vec<_>>().join("; ") + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[Vec<[f64; 2]>]) -> LinePlot {
        let series: Vec<Series> = (0..points.len())
            .map(|at| Series { name: format!("series {at}"), class: format!("series-{at}") })
            .collect();
        draw(&series, points, "a number", Quantity::Share, 1000.0)
    }

    #[test]
    fn everything_stays_inside_and_zero_is_where_it_belongs() {
        for points in [
            vec![vec![[1.0, -0.9], [1.5, 0.3], [2.0, 0.0]]],
            vec![vec![[0.0, 1e-9], [1e9, 2e-9]], vec![]],
            vec![vec![[3.0, 0.0]]],
            vec![vec![]],
        ] {
            let plot = plot(&points);
            for dot in plot.lines.iter().flat_map(|line| &line.dots) {
                assert!(
                    (plot.left..=plot.right).contains(&dot.x) && (TOP..=plot.bottom).contains(&dot.y),
                    "{dot:?}"
                );
            }
            for tick in plot.x_ticks.iter().chain(&plot.y_ticks) {
                assert!(tick.at.is_finite() && tick.at >= 0.0 && tick.at <= plot.right, "{tick:?}");
            }
            assert!((TOP..=plot.bottom).contains(&plot.zero));
        }
        let plot = plot(&[vec![[1.0, -0.9], [1.5, 0.3], [2.0, 0.0]]]);
        let [low, high, zero] = &plot.lines[0].dots[..] else { panic!("three dots") };
        assert!(low.y > zero.y && zero.y > high.y && zero.y == plot.zero);
        assert_eq!(plot.words, "series 0: from −90.0 % at 1 to 0 % at 2.");
        assert_eq!(low.tip, "series 0, 1: −90.0 %");
    }
}
