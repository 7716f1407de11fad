//! Horizontal bar charts: from values to rectangles and texts, in the coordinates of an SVG.

use serde::Serialize;

use crate::text::shorten;
use crate::units::{Quantity, widest};

/// What a bar stands for: a name for the legend and a class for its colour.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) class: String,
}

/// A row's values, usually one machine's.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) label: String,
    /// One a series; none where the machine has no such thing.
    pub(super) values: Vec<Option<f64>>,
}

/// How a row's values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// A bar each, below each other.
    Grouped,
    /// One bar of all, its length their sum.
    Stacked,
}

/// A chart to be drawn.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) series: Vec<Series>,
    pub(super) rows: Vec<Row>,
    pub(super) arrangement: Arrangement,
    pub(super) quantity: Quantity,
    /// Whether the first row is the baseline of the others.
    pub(super) compares: bool,
}

/// A chart, drawn: what the template turns into SVG elements.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Plot {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Where the bars begin and end.
    pub(super) left: f64,
    pub(super) axis_y: f64,
    pub(super) ticks: Vec<Tick>,
    pub(super) bars: Vec<Bar>,
    pub(super) texts: Vec<Text>,
    /// The chart in words, for readers who do not see it.
    pub(super) words: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) label: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Bar {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) class: String,
    pub(super) tip: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Text {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) class: String,
    pub(super) text: String,
    /// Set apart behind the text: a change.
    pub(super) note: String,
    pub(super) tip: String,
}

/// Where a chart's bars begin and end; charts that share a frame are on one scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    width: f64,
    /// Columns of a machine's name.
    label_columns: usize,
    /// Whether changes are written behind the values.
    changes: bool,
    left: f64,
    right: f64,
    /// The value that reaches the right end.
    most: f64,
}

/// Pixels between two ticks at least.
pub(super) const TICKS_APART: f64 = 64.0;
/// Pixels of a character at the charts' font size, on the wide side: fonts differ.
pub(super) const CHARACTER: f64 = 7.5;
/// And of the bold digits behind a bar.
const BOLD_CHARACTER: f64 = 8.6;
/// Room for a bar's share written inside it.
const INSIDE: f64 = 42.0;
pub(super) const GAP: f64 = 10.0;
/// The width of a chart over the whole page.
pub(super) const WIDE: f64 = 1150.0;
pub(super) const AXIS: f64 = 24.0;

impl Frame {
    /// The frame that fits both charts.
    pub(super) fn join(self, other: Self) -> Self {
        Self {
            left: self.left.max(other.left),
            right: self.right.max(other.right),
            most: self.most.max(other.most),
            ..self
        }
    }
}

impl Chart {
    /// Returns the length of the longest bar.
    fn most(&self) -> f64 {
        let lengths = self.rows.iter().flat_map(|row| match self.arrangement {
            Arrangement::Grouped => row.values.iter().flatten().copied().collect(),
            Arrangement::Stacked => vec![row.values.iter().flatten().sum()],
        });
        lengths.fold(0.0, f64::max)
    }

    /// A frame of this width that fits it.
    pub(super) fn frame(&self, width: f64, label_columns: usize, changes: bool) -> Frame {
        let mut frame = Frame { width, label_columns, changes, left: 0.0, right: 0.0, most: self.most() };
        let labels: Vec<String> = self.rows.iter().map(|row| shorten(&row.label, label_columns)).collect();
        frame.left = (widest(labels.iter().map(String::as_str)) as f64 * CHARACTER + GAP).round();
        let ends = self.rows.iter().flat_map(|row| self.ends(row, &frame));
        let pixels =
            ends.map(|end| match (end.value.chars().count() as f64, end.change.chars().count() as f64) {
                (value, 0.0) => value * BOLD_CHARACTER,
                (value, change) => value * BOLD_CHARACTER + GAP + change * CHARACTER,
            });
        frame.right = pixels.fold(0.0, f64::max) + GAP;
        frame
    }

    /// Draws it in `frame`, its own or one that it shares.
    pub(super) fn draw(&self, frame: &Frame) -> Plot {
        let (left, width) = (frame.left, frame.width);
        let labels: Vec<String> =
            self.rows.iter().map(|row| shorten(&row.label, frame.label_columns)).collect();
        let ends: Vec<Vec<End>> = self.rows.iter().map(|row| self.ends(row, frame)).collect();
        let scale = Scale { left, width: (width - left - frame.right).max(40.0), most: frame.most };
        let (thickness, inner) = match self.arrangement {
            Arrangement::Grouped if self.series.len() > 1 => (13.0, 3.0),
            _ => (20.0, 0.0),
        };
        let mut plot = Plot {
            width,
            height: 0.0,
            left,
            axis_y: 0.0,
            ticks: scale.ticks(self.quantity),
            bars: Vec::new(),
            texts: Vec::new(),
            words: self.words(),
        };
        let mut y = 4.0;
        for ((row, label), ends) in self.rows.iter().zip(labels).zip(ends) {
            let place = Lines { y, thickness, inner };
            let lines = ends.len().max(1) as f64;
            let height = lines * thickness + (lines - 1.0) * inner;
            plot.texts.push(Text {
                tip: row.label.clone(),
                ..Text::new(left - GAP, y + height / 2.0, "machine", label)
            });
            match self.arrangement {
                Arrangement::Grouped => self.grouped(&mut plot, row, &ends, &scale, place),
                Arrangement::Stacked => self.stacked(&mut plot, row, &ends, &scale, place),
            }
            y += height + GAP;
        }
        plot.axis_y = y - GAP / 2.0;
        plot.height = plot.axis_y + AXIS;
        plot
    }

    fn grouped(&self, plot: &mut Plot, row: &Row, ends: &[End], scale: &Scale, lines: Lines) {
        let Lines { thickness, inner, .. } = lines;
        for (line, end) in ends.iter().enumerate() {
            let series = &self.series[end.series];
            let y = lines.y + line as f64 * (thickness + inner);
            plot.bars.push(Bar {
                x: scale.left,
                y,
                width: scale.length(end.length),
                height: thickness,
                class: series.class.clone(),
                tip: format!("{}, {}: {}", row.label, series.name, end.value),
            });
            plot.texts.push(end.text(scale, y + thickness / 2.0));
        }
        if ends.is_empty() {
            plot.texts.push(Text::new(scale.left, lines.y + thickness / 2.0, "value faint", "none".into()));
        }
    }

    fn stacked(&self, plot: &mut Plot, row: &Row, ends: &[End], scale: &Scale, lines: Lines) {
        let Lines { y, thickness, .. } = lines;
        let Some(end) = ends.first() else {
            plot.texts.push(Text::new(scale.left, y + thickness / 2.0, "value faint", "none".into()));
            return;
        };
        let mut before = 0.0;
        for (series, value) in self.series.iter().zip(&row.values) {
            let Some(value) = value.filter(|&value| value > 0.0) else { continue };
            let (x, width) = (scale.left + scale.exact(before), scale.exact(value));
            let share = Quantity::Share.write(value / end.length);
            plot.bars.push(Bar {
                x: round(x),
                y,
                width: round(width),
                height: thickness,
                class: series.class.clone(),
                tip: format!("{}, {}: {} ({share})", row.label, series.name, self.quantity.write(value)),
            });
            if width >= INSIDE && self.series.len() > 1 {
                let class = format!("inside on-{}", series.class);
                let share = format!("{:.0} %", 100.0 * value / end.length);
                plot.texts.push(Text::new(x + width / 2.0, y + thickness / 2.0, &class, share));
            }
            before += value;
        }
        plot.texts.push(end.text(scale, y + thickness / 2.0));
    }

    /// What is written behind the bars of a row.
    fn ends(&self, row: &Row, frame: &Frame) -> Vec<End> {
        let first = &self.rows[0];
        let end = |series, length: f64, baseline: Option<f64>| {
            let is_baseline = std::ptr::eq(row, first);
            let change = baseline
                .filter(|_| frame.changes && !is_baseline)
                .and_then(|base| self.quantity.change(length, base));
            End {
                series,
                length,
                value: typographic(&self.quantity.write(length)),
                change: typographic(&change.unwrap_or_default()),
            }
        };
        match self.arrangement {
            Arrangement::Grouped => (0..self.series.len())
                .filter_map(|at| row.values[at].map(|value| end(at, value, first.values[at])))
                .collect(),
            Arrangement::Stacked => {
                let sum = |row: &Row| {
                    row.values.iter().any(Option::is_some).then(|| row.values.iter().flatten().sum())
                };
                sum(row).map(|total| end(0, total, sum(first))).into_iter().collect()
            }
        }
    }

    fn words(&self) -> String {
        let of = |row: &Row| {
            let parts: Vec<String> = self
                .series
                .iter()
                .zip(&row.values)
                .filter_map(|(series, value)| {
                    let written = typographic(&self.quantity.write((*value)?));
                    Some(if self.series.len() > 1 { format!("{} {written}", series.name) } else { written })
                })
                .collect();
            format!("{}: {}", row.label, if parts.is_empty() { "none".into() } else { parts.join(", ") })
        };
        self.rows.iter().map(of).collect::<Vec<_>>().join("; ") + "."
    }
}

/// The lines that a row's bars lie on.
#[derive(Clone, Copy)]
struct Lines {
    y: f64,
    thickness: f64,
    /// The distance between two lines.
    inner: f64,
}

/// The end of a bar.
struct End {
    series: usize,
    length: f64,
    value: String,
    change: String,
}

impl End {
    fn text(&self, scale: &Scale, y: f64) -> Text {
        let x = scale.left + scale.length(self.length) + 6.0;
        Text { note: self.change.clone(), ..Text::new(x, y, "value", self.value.clone()) }
    }
}

impl Text {
    pub(super) fn new(x: f64, y: f64, class: &str, text: String) -> Self {
        // Half the height of the digits below the middle: `dominant-baseline` is not drawn alike everywhere.
        Self {
            x: round(x),
            y: round(y + 4.5),
            class: class.into(),
            text,
            note: String::new(),
            tip: String::new(),
        }
    }
}

struct Scale {
    left: f64,
    width: f64,
    most: f64,
}

impl Scale {
    fn exact(&self, value: f64) -> f64 {
        if self.most > 0.0 { self.width * value / self.most } else { 0.0 }
    }

    /// A bar that stands for something is seen.
    fn length(&self, value: f64) -> f64 {
        let length = round(self.exact(value));
        if value > 0.0 { length.max(1.0) } else { 0.0 }
    }

    fn ticks(&self, quantity: Quantity) -> Vec<Tick> {
        if self.most <= 0.0 {
            return Vec::new();
        }
        let most_steps = (self.width / TICKS_APART).clamp(1.0, 5.0);
        let step =
            if quantity == Quantity::Bytes { binary_step } else { decimal_step }(self.most / most_steps);
        let label =
            |value: f64| if value == 0.0 { "0".into() } else { short(&typographic(&quantity.write(value))) };
        (0..)
            .map(|number| f64::from(number) * step)
            .take_while(|&value| value <= self.most)
            .map(|value| Tick { x: round(self.left + self.exact(value)), label: label(value) })
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
pub(super) fn decimal_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|&step| step >= least).unwrap_or(10.0 * power)
}

/// A power of two, at least `least`.
fn binary_step(least: f64) -> f64 {
    2f64.powf(least.log2().ceil())
}

/// A tick's label without the zeros that a measured value would have: `10.0 M` is `10 M`.
pub(super) fn short(text: &str) -> String {
    let end = text.find(' ').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    match number.split_once('.') {
        Some((whole, fraction)) => match fraction.trim_end_matches('0') {
            "" => format!("{whole}{unit}"),
            fraction => format!("{whole}.{fraction}{unit}"),
        },
        None => text.to_owned(),
    }
}

/// As print writes it: a true minus sign, the micro sign, the multiplication sign.
pub(super) fn typographic(text: &str) -> String {
    let text = text.replace(" us", " µs").replace('~', "≈ ");
    match (text.strip_prefix('-'), text.strip_prefix('x')) {
        (Some(rest), _) => format!("−{rest}"),
        (_, Some(rest)) => format!("×{rest}"),
        _ => text,
    }
}

/// To a tenth of a pixel.
pub(super) fn round(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(arrangement: Arrangement, values: &[&[Option<f64>]]) -> Chart {
        let series = (0..values[0].len())
            .map(|at| Series { name: format!("series {at}"), class: format!("s{at}") })
            .collect();
        let rows = values
            .iter()
            .enumerate()
            .map(|(at, values)| Row { label: format!("machine-{at}"), values: values.to_vec() })
            .collect();
        Chart { series, rows, arrangement, quantity: Quantity::Ratio, compares: true }
    }

    fn draw(chart: &Chart) -> Plot {
        chart.draw(&chart.frame(560.0, 22, true))
    }

    #[test]
    fn charts_in_one_frame_are_on_one_scale() {
        let few = chart(Arrangement::Grouped, &[&[Some(10.0)]]);
        let many = chart(Arrangement::Grouped, &[&[Some(40.0)], &[Some(0.123)]]);
        let frame = few.frame(370.0, 14, false).join(many.frame(370.0, 14, false));
        let (few, many) = (few.draw(&frame), many.draw(&frame));
        assert!((many.bars[0].width - 4.0 * few.bars[0].width).abs() < 0.5);
        assert_eq!(few.bars[0].x, many.bars[0].x);
        let places =
            |plot: &Plot| plot.ticks.iter().map(|tick| (tick.x, tick.label.clone())).collect::<Vec<_>>();
        assert_eq!(places(&few), places(&many));
    }

    #[test]
    fn stacked_segments_touch_and_add_up() {
        let chart = chart(Arrangement::Stacked, &[&[Some(10.0), Some(30.0)], &[Some(5.0), None]]);
        let plot = draw(&chart);
        let [first, second, third] = &plot.bars[..] else { panic!("{:?}", plot.bars) };
        assert!((first.x + first.width - second.x).abs() < 0.11);
        assert!((second.width - 3.0 * first.width).abs() < 0.3);
        assert!((third.width - first.width / 2.0).abs() < 0.1 && third.y > first.y);
        assert!(second.x + second.width < plot.width);
        assert_eq!(plot.words, "machine-0: series 0 10.0, series 1 30.0; machine-1: series 0 5.00.");
    }

    #[test]
    fn everything_stays_inside_whatever_the_values() {
        for arrangement in [Arrangement::Grouped, Arrangement::Stacked] {
            for values in [[0.0, 0.0], [1e-9, 1e12], [3.0, 4.0]] {
                let chart = chart(arrangement, &[&values.map(Some), &[None, None], &[Some(values[0]), None]]);
                let plot = draw(&chart);
                for bar in &plot.bars {
                    assert!(bar.x >= 0.0 && bar.width >= 0.0 && bar.x + bar.width <= plot.width, "{bar:?}");
                    assert!(bar.y + bar.height < plot.axis_y);
                }
                for text in &plot.texts {
                    assert!(text.x.is_finite() && text.x < plot.width && text.y < plot.height, "{text:?}");
                }
                assert!(plot.texts.iter().any(|text| text.text == "none"), "a gap is said to be one");
            }
        }
    }

    #[test]
    fn steps_are_round_and_few() {
        for least in [0.003, 0.9, 1.0, 2.1, 7.0, 42.0, 999.0, 1.1e9] {
            for step in [decimal_step(least), binary_step(least)] {
                assert!(step >= least && step < 2.51 * least, "{least}: {step}");
            }
        }
        assert_eq!(
            [short("10.0 M"), short("1.50 GiB"), short("7"), short("0.200")],
            ["10 M", "1.5 GiB", "7", "0.2"]
        );
    }

    #[test]
    fn small_values_are_seen_and_zeros_are_not() {
        let chart = chart(Arrangement::Grouped, &[&[Some(1e6), Some(1.0), Some(0.0)]]);
        let widths: Vec<_> = draw(&chart).bars.iter().map(|bar| bar.width).collect();
        assert!(widths[0] > 300.0);
        assert_eq!(widths[1..], [1.0, 0.0]);
    }
}
