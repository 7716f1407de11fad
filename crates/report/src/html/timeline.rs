//! Time lines: a lane a row, from spans of time to rectangles and texts in the coordinates of an SVG.

use serde::Serialize;

use super::chart::{AXIS, Bar, GAP, Plot, Series, TICKS_APART, Text, Tick, decimal_step, round, typographic};
use crate::text::{shorten, visible};
use crate::timeline::{StepClass, TimelineRow, TimelineSpan};
use crate::units::{Quantity, grouped, plain, widest};

/// A time line with its legend.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TimelinePlot {
    pub(super) legend: Vec<Series>,
    pub(super) plot: Plot,
}

/// Narrower than other wide charts, so that the texts are large enough for a narrow window.
const WIDTH: f64 = 920.0;
/// Room for half of the last tick's label.
const RIGHT: f64 = 30.0;
const LEFT: f64 = 8.0;
const LANE: f64 = 24.0;
/// A lane's name stands above it.
const LABEL: f64 = 21.0;
const LABEL_COLUMNS: usize = 90;
/// What is narrower is drawn as one with what is beside it, and no bar is drawn narrower.
const LEAST_WIDTH: f64 = 1.0;
/// Left free between two steps, if they are wide enough.
const BETWEEN: f64 = 0.7;
/// Pixels of a character in a bar, on the wide side.
const CHARACTER: f64 = 6.7;
/// More lanes than this are only counted.
const LANES: usize = 24;

/// The length of the shortest axis, in microseconds.
const PICOSECOND_US: f64 = 1e-6;

const CLASSES: [StepClass; 5] =
    [StepClass::Program, StepClass::Device, StepClass::Hardware, StepClass::Kernel, StepClass::Books];

/// How a class is called in the legend.
fn name(class: StepClass) -> &'static str {
    match class {
        StepClass::Program => "the program",
        StepClass::Device => "waiting for the device",
        StepClass::Hardware => "hardware that fetches",
        StepClass::Kernel => "kernel, on the way of a fault",
        StepClass::Books => "bookkeeping and pages that leave",
    }
}

fn style(class: StepClass) -> &'static str {
    match class {
        StepClass::Program => "step-program",
        StepClass::Device => "step-device",
        StepClass::Hardware => "step-hardware",
        StepClass::Kernel => "step-kernel",
        StepClass::Books => "step-books",
    }
}

/// Draws all rows on one axis; none if there is nothing to draw.
pub(super) fn draw(rows: &[TimelineRow]) -> Option<TimelinePlot> {
    let spans: Vec<Vec<&TimelineSpan>> = rows.iter().map(sound).collect();
    let drawn = || spans.iter().flatten();
    let most_us = drawn().map(|span| span.end_us).reduce(f64::max).filter(|&us| us >= PICOSECOND_US)?;
    let scale = Scale { per_us: (WIDTH - LEFT - RIGHT) / most_us };
    let mut plot = Plot {
        width: WIDTH,
        height: 0.0,
        left: LEFT,
        axis_y: 0.0,
        ticks: scale.ticks(most_us),
        bars: Vec::new(),
        texts: Vec::new(),
        words: words(rows, &spans),
    };
    let mut y = 0.0;
    for (row, spans) in rows.iter().zip(&spans).take(LANES) {
        let label = visible(&row.label);
        let text = shorten(&label, LABEL_COLUMNS);
        plot.texts.push(Text::new(LEFT + 4.0, y + LABEL / 2.0 - 1.0, "lane", text));
        y += LABEL;
        lane(&mut plot, &label, spans, &scale, y);
        y += LANE + GAP;
    }
    if let Some(more @ 1..) = rows.len().checked_sub(LANES) {
        plot.texts.push(Text::new(LEFT, y + LABEL / 2.0, "lane faint", format!("{more} more are not drawn")));
        y += LABEL;
    }
    plot.axis_y = y - GAP / 2.0;
    plot.height = plot.axis_y + AXIS;
    let used = CLASSES.into_iter().filter(|&class| drawn().any(|span| span.class == class));
    let legend = used.map(|class| Series { name: name(class).into(), class: style(class).into() });
    Some(TimelinePlot { legend: legend.collect(), plot })
}

/// A row's spans that can be drawn, in the order of time.
fn sound(row: &TimelineRow) -> Vec<&TimelineSpan> {
    let is_sound =
        |span: &&TimelineSpan| span.start_us >= 0.0 && span.start_us < span.end_us && span.end_us.is_finite();
    let mut spans: Vec<&TimelineSpan> = row.spans.iter().filter(is_sound).collect();
    spans.sort_by(|one, other| one.start_us.total_cmp(&other.start_us));
    spans
}

/// A lane's track, its bars, and what is written on them.
fn lane(plot: &mut Plot, label: &str, spans: &[&TimelineSpan], scale: &Scale, y: f64) {
    let middle = y + LANE / 2.0;
    let bar = |x: f64, width: f64, class: &str, tip: String| Bar {
        x: round(x),
        y,
        width: round(width),
        height: LANE,
        class: class.into(),
        tip,
    };
    plot.bars.push(bar(LEFT, WIDTH - LEFT - RIGHT, "track", label.into()));
    if spans.is_empty() {
        plot.texts.push(Text::new(LEFT + 6.0, middle, "inside-start faint", "none".into()));
    }
    let bars = bars(spans, scale);
    for of in &bars {
        let (x, width) = (scale.x(of.start_us), scale.width(of));
        let width = if width > 4.0 * BETWEEN { width - BETWEEN } else { width.max(LEAST_WIDTH) };
        plot.bars.push(bar(x, width, style(of.class), of.tip()));
    }
    let mut write = |from_us: f64, until_us: f64, class: StepClass, text: &str| {
        let room = (until_us - from_us) * scale.per_us;
        let fits = widest([text].into_iter()) as f64 * CHARACTER + 2.0 <= room;
        if fits {
            let class = format!("inside on-{}", style(class));
            plot.texts.push(Text::new(scale.x(from_us) + room / 2.0, middle, &class, visible(text)));
        }
        fits
    };
    // Bars of one class that follow each other have its name, if none of them has room for its own.
    for group in bars.chunk_by(|one, next| one.class == next.class && one.end_us >= next.start_us) {
        let mut written = false;
        for bar in group {
            written |= bar.steps == 1 && write(bar.start_us, bar.end_us, bar.class, bar.step);
        }
        if let ([first, .., last], false) = (group, written) {
            write(first.start_us, last.end_us, first.class, name(first.class));
        }
    }
}

/// Steps that are drawn as one bar.
struct Steps<'a> {
    start_us: f64,
    end_us: f64,
    /// The name of the longest step.
    step: &'a str,
    /// That of the longest.
    class: StepClass,
    longest_us: f64,
    steps: usize,
}

impl Steps<'_> {
    fn tip(&self) -> String {
        let from_for = format!("{}, from {} on", time(self.end_us - self.start_us), time(self.start_us));
        match self.steps {
            1 => format!("{}: {from_for}", visible(self.step)),
            steps => format!("{steps} steps, {} the longest: {from_for}", visible(self.step)),
        }
    }
}

/// A bar for each span that can be seen; those that are too short are drawn together, by the longest of them. However
/// many spans there are, there are not more bars than about two for a pixel.
fn bars<'a>(spans: &[&'a TimelineSpan], scale: &Scale) -> Vec<Steps<'a>> {
    let mut bars: Vec<Steps<'a>> = Vec::new();
    for span in spans {
        let own_us = span.end_us - span.start_us;
        let is_narrow = |us: f64| us * scale.per_us < LEAST_WIDTH;
        match bars.last_mut() {
            Some(bar)
                if is_narrow(own_us)
                    && is_narrow(bar.end_us - bar.start_us)
                    && is_narrow(span.end_us - bar.start_us - own_us) =>
            {
                bar.end_us = bar.end_us.max(span.end_us);
                bar.steps += 1;
                if own_us > bar.longest_us {
                    (bar.step, bar.class, bar.longest_us) = (&span.step, span.class, own_us);
                }
            }
            _ => bars.push(Steps {
                start_us: span.start_us,
                end_us: span.end_us,
                step: &span.step,
                class: span.class,
                longest_us: own_us,
                steps: 1,
            }),
        }
    }
    bars
}

struct Scale {
    per_us: f64,
}

impl Scale {
    fn x(&self, us: f64) -> f64 {
        LEFT + us * self.per_us
    }

    fn width(&self, bar: &Steps<'_>) -> f64 {
        (bar.end_us - bar.start_us) * self.per_us
    }

    fn ticks(&self, most_us: f64) -> Vec<Tick> {
        let step = decimal_step(most_us * TICKS_APART / (WIDTH - LEFT - RIGHT));
        let label = |us: f64| if us == 0.0 { "0".into() } else { format!("{} µs", plain(us, 4)) };
        (0..)
            .map(|number| f64::from(number) * step)
            .take_while(|&us| us <= most_us * (1.0 + 1e-9))
            .map(|us| Tick { x: round(self.x(us)), label: label(us) })
            .collect()
    }
}

fn time(us: f64) -> String {
    if us == 0.0 {
        return "0".into();
    }
    typographic(&Quantity::Time.write((us / PICOSECOND_US).round()))
}

/// How long each lane spends on what.
fn words(rows: &[TimelineRow], spans: &[Vec<&TimelineSpan>]) -> String {
    let of = |(row, spans): (&TimelineRow, &Vec<&TimelineSpan>)| {
        let parts = CLASSES.into_iter().filter_map(|class| {
            let of_class = || spans.iter().filter(|span| span.class == class);
            let us: f64 = of_class().map(|span| span.end_us - span.start_us).sum();
            let times = match of_class().count() {
                0 => return None,
                1 => "once".to_owned(),
                times => format!("{} times", grouped(times as u64)),
            };
            Some(format!("{} {times}, {}", name(class), time(us)))
        });
        let parts: Vec<String> = parts.collect();
        let parts = if parts.is_empty() { "none".into() } else { parts.join("; ") };
        format!("{}: {parts}.", visible(&row.label))
    };
    rows.iter().zip(spans).map(of).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, spans: &[(f64, f64, &str, StepClass)]) -> TimelineRow {
        let span = |&(start_us, end_us, step, class): &(f64, f64, &str, StepClass)| TimelineSpan {
            start_us,
            end_us,
            step: step.into(),
            class,
        };
        TimelineRow { label: label.into(), spans: spans.iter().map(span).collect() }
    }

    fn texts(plot: &Plot, class: &str) -> Vec<String> {
        let of = plot.texts.iter().filter(|text| text.class.split(' ').any(|word| word == class));
        of.map(|text| text.text.clone()).collect()
    }

    #[test]
    fn all_lanes_are_on_one_axis_from_zero() {
        let rows = [
            row(
                "one",
                &[(0.0, 10.0, "read", StepClass::Device), (10.0, 40.0, "program", StepClass::Program)],
            ),
            row("two", &[(10.0, 20.0, "book", StepClass::Books)]),
        ];
        let TimelinePlot { legend, plot } = draw(&rows).unwrap();
        let bars: Vec<&Bar> = plot.bars.iter().filter(|bar| bar.class != "track").collect();
        let [read, program, book] = bars[..] else { panic!("{bars:?}") };
        assert_eq!(read.x, LEFT);
        assert_eq!(program.x, book.x);
        assert!(book.y > program.y && (program.width - 3.0 * book.width).abs() < 2.0);
        assert!((program.x + program.width - (WIDTH - RIGHT)).abs() < 1.0);
        assert_eq!(read.tip, "read: 10.0 µs, from 0 on");
        assert_eq!(plot.ticks[0].label, "0");
        assert_eq!(plot.ticks.last().unwrap().label, "40 µs");
        assert_eq!(legend.len(), 3);
        assert_eq!(texts(&plot, "lane"), ["one", "two"]);
        assert_eq!(texts(&plot, "inside"), ["read", "program", "book"]);
        assert_eq!(
            plot.words,
            "one: the program once, 30.0 µs; waiting for the device once, 10.0 µs. two: bookkeeping and pages that leave once, \
             10.0 µs."
        );
    }

    #[test]
    fn names_stand_where_there_is_room_and_else_the_classs() {
        // A thousand books of 1 us: none is wide enough for its name, all together are.
        let books: Vec<_> = (0..100)
            .map(|at| (f64::from(at), f64::from(at + 1), "book", StepClass::Books))
            .chain([(100.0, 101.0, "trap", StepClass::Kernel), (101.0, 200.0, "program", StepClass::Program)])
            .collect();
        let TimelinePlot { plot, .. } = draw(&[row("books", &books)]).unwrap();
        assert_eq!(texts(&plot, "inside"), ["bookkeeping and pages that leave", "program"]);
    }

    #[test]
    fn thousands_of_steps_are_as_many_bars_as_can_be_seen() {
        let of = |count: u32| {
            let spans: Vec<_> = (0..count)
                .map(|at| {
                    let start = f64::from(at) / f64::from(count) * 1000.0;
                    let end = f64::from(at + 1) / f64::from(count) * 1000.0;
                    let (step, class) = match at % 3 {
                        0 => ("trap", StepClass::Kernel),
                        1 => ("read", StepClass::Device),
                        _ => ("program", StepClass::Program),
                    };
                    (start, end, step, class)
                })
                .collect();
            draw(&[row("many", &spans)]).unwrap().plot
        };
        assert_eq!(of(300).bars.len(), 301);
        let plot = of(50_000);
        assert!((800..1900).contains(&plot.bars.len()), "{}", plot.bars.len());
        let last = plot.bars.last().unwrap();
        assert!(last.x + last.width <= WIDTH && last.x > WIDTH - RIGHT - 5.0);
        assert!(last.tip.contains(" steps, "), "{}", last.tip);
        assert!(plot.words.contains("kernel, on the way of a fault 16,667 times"), "{}", plot.words);
    }

    #[test]
    fn a_short_step_between_long_ones_is_seen() {
        let rows = [row(
            "one",
            &[
                (0.0, 500.0, "read", StepClass::Device),
                (500.0, 500.001, "program", StepClass::Program),
                (500.001, 1000.0, "read", StepClass::Device),
            ],
        )];
        let TimelinePlot { plot, .. } = draw(&rows).unwrap();
        let program = plot.bars.iter().find(|bar| bar.class == "step-program").unwrap();
        assert_eq!(program.width, LEAST_WIDTH);
    }

    #[test]
    fn nothing_to_draw_is_no_plot_and_an_idle_lane_is_one() {
        assert!(draw(&[]).is_none());
        assert!(draw(&[row("idle", &[])]).is_none());
        let unsound = [(f64::NAN, 1.0), (0.0, f64::INFINITY), (-1.0, 1.0), (2.0, 1.0), (1.0, 1.0)];
        let unsound = unsound.map(|(start, end)| (start, end, "read", StepClass::Device));
        assert!(draw(&[row("unsound", &unsound)]).is_none());
        assert!(draw(&[row("tiny", &[(0.0, 1e-310, "read", StepClass::Device)])]).is_none());
        let rows = [row("idle", &[]), row("busy", &[(0.0, 1e-6, "read", StepClass::Device)])];
        let TimelinePlot { plot, legend } = draw(&rows).unwrap();
        assert_eq!(legend.len(), 1);
        assert_eq!(texts(&plot, "faint"), ["none"]);
        assert!(plot.words.starts_with("idle: none."));
    }

    #[test]
    fn more_lanes_than_can_be_looked_at_are_counted() {
        let rows: Vec<TimelineRow> =
            (0..30).map(|at| row(&format!("core {at}"), &[(0.0, 1.0, "read", StepClass::Device)])).collect();
        let TimelinePlot { plot, .. } = draw(&rows).unwrap();
        assert_eq!(plot.bars.len(), 2 * LANES);
        assert_eq!(texts(&plot, "faint"), ["6 more are not drawn"]);
        assert!(plot.texts.iter().all(|text| text.y < plot.height));
    }
}
