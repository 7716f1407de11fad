//! Bars from 1 to the ratio of a predicted time to a measured one: longer is faster or slower than it should be, by as many times.

use super::chart::{AXIS, Bar, CHARACTER, GAP, Plot, Text, Tick, WIDE, round};
use crate::text::shorten;
use crate::units::widest;

/// A ratio to be drawn.
#[derive(Clone, Debug)]
pub(super) struct Ratio {
    pub(super) label: String,
    pub(super) value: f64,
    /// The class of its colour.
    pub(super) class: String,
    /// Written behind the ratio.
    pub(super) note: String,
}

/// Room for the ratio and its note.
const RIGHT: f64 = 230.0;
const LABEL_COLUMNS: usize = 32;
const THICKNESS: f64 = 13.0;
const APART: f64 = 18.0;
/// What the axis shows at least, and at most: a ratio beyond is drawn up to there.
const LEAST: f64 = 2.0;
const MOST: f64 = 16.0;
const TICKS: [(f64, &str); 11] = [
    (0.0625, "1/16"),
    (0.125, "1/8"),
    (0.25, "1/4"),
    (0.5, "1/2"),
    (0.8, "0.8"),
    (1.0, "1"),
    (1.25, "1.25"),
    (2.0, "2"),
    (4.0, "4"),
    (8.0, "8"),
    (16.0, "16"),
];

/// Draws ratios, from top to bottom, on a logarithmic axis with 1 in its middle.
pub(super) fn draw(ratios: &[Ratio]) -> Plot {
    let reach = |ratio: &Ratio| {
        let factor = ratio.value.max(ratio.value.recip());
        if factor.is_finite() { factor } else { MOST }
    };
    let most = ratios.iter().map(reach).fold(LEAST, f64::max).min(MOST);
    let names: Vec<String> = ratios.iter().map(|ratio| shorten(&ratio.label, LABEL_COLUMNS)).collect();
    let labels = (widest(names.iter().map(String::as_str)) as f64 * CHARACTER + 2.0 * GAP).round();
    let half = (WIDE - labels - RIGHT) / 2.0;
    let middle = labels + half;
    // Of two times that are 0, the ratio is no number.
    let logarithm = |value: f64| if value.is_nan() { 0.0 } else { value.clamp(most.recip(), most).ln() };
    let x = |value: f64| round(middle + half * (logarithm(value) / most.ln()));
    let mut plot = Plot {
        width: WIDE,
        height: 0.0,
        left: round(middle),
        axis_y: 0.0,
        ticks: TICKS
            .into_iter()
            .filter(|(at, _)| at.max(at.recip()) <= most)
            .map(|(at, label)| Tick { x: x(at), label: label.to_owned() })
            .collect(),
        bars: Vec::new(),
        texts: Vec::new(),
        words: String::new(),
    };
    let mut y = 4.0;
    for (Ratio { label, value, class, note }, name) in ratios.iter().zip(names) {
        let (written, centre, end) = (format!("{value:.2}"), y + THICKNESS / 2.0, x(*value));
        plot.texts.push(Text { tip: label.clone(), ..Text::new(labels - GAP, centre, "machine", name) });
        plot.bars.push(Bar {
            x: end.min(plot.left),
            y,
            width: round((end - plot.left).abs()),
            height: THICKNESS,
            class: class.clone(),
            tip: format!("{label}: {written}, {note}"),
        });
        plot.texts.push(Text {
            note: note.clone(),
            ..Text::new(WIDE - RIGHT + GAP, centre, "value", written.clone())
        });
        let separator = if plot.words.is_empty() { "" } else { "; " };
        plot.words += &format!("{separator}{label} {written}");
        y += APART;
    }
    plot.words += ".";
    plot.axis_y = y;
    plot.height = y + AXIS;
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: &[f64]) -> Plot {
        let ratio = |&value: &f64| Ratio {
            label: format!("p{value}"),
            value,
            class: "series-0".into(),
            note: "n".into(),
        };
        draw(&values.iter().map(ratio).collect::<Vec<_>>())
    }

    #[test]
    fn twice_as_long_and_half_as_long_are_as_far_from_the_middle() {
        let plot = plot(&[2.0, 0.5, 1.0]);
        let [longer, shorter, right] = &plot.bars[..] else { panic!("three bars") };
        assert_eq!(longer.x, plot.left);
        assert_eq!(shorter.x + shorter.width, plot.left);
        assert!((longer.width - shorter.width).abs() < 0.2 && longer.width > 300.0);
        assert_eq!(right.width, 0.0);
        assert_eq!(plot.words, "p2 2.00; p0.5 0.50; p1 1.00.");
    }

    #[test]
    fn a_long_name_leaves_room_for_the_bars() {
        let ratio =
            |value: f64| Ratio { label: "x".repeat(250), value, class: String::new(), note: String::new() };
        let plot = draw(&[ratio(2.0), ratio(0.5)]);
        assert!(plot.bars.iter().all(|bar| bar.width > 200.0 && bar.x > 0.0), "{:?}", plot.bars);
        assert!(plot.texts[0].text.chars().count() <= LABEL_COLUMNS && plot.texts[0].tip.len() == 250);
    }

    #[test]
    fn whatever_the_ratios_the_bars_stay_inside() {
        for values in [&[][..], &[1.1], &[0.0, f64::NAN, f64::INFINITY, 1e9], &[1e-9, 30.0, 5.0]] {
            let plot = plot(values);
            for bar in &plot.bars {
                assert!(bar.x >= 0.0 && bar.x + bar.width <= plot.width && bar.width.is_finite(), "{bar:?}");
            }
            assert!(plot.ticks.iter().any(|tick| tick.x == plot.left && tick.label == "1"));
            assert!(plot.ticks.is_sorted_by(|a, b| a.x + 20.0 < b.x), "labels have room");
        }
    }
}
