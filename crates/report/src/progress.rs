//! The progress of a run on standard error: a bar on a terminal, a line now and then elsewhere, or nothing.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use pagewalk_sim::run::Progress;
use pagewalk_trace::SourceInfo;

use crate::text::{shorten, visible};
use crate::units::Quantity;

/// The clock is asked once in so many accesses at most.
const ACCESSES_PER_LOOK: u64 = 1 << 16;
/// Short runs show nothing.
const QUIET: Duration = Duration::from_secs(1);
/// Time between two drawings of the bar, and between two lines without one.
const REDRAW: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(10);

/// Reports a run's progress on standard error. The bar disappears when this is dropped.
pub struct RunProgress {
    meter: Meter,
    started: Instant,
    /// The count of accesses at which the clock is asked again.
    look_at: u64,
    shown: Option<Duration>,
    output: Output,
}

enum Output {
    Bar(ProgressBar),
    Lines,
    Nothing,
}

/// The way in which progress may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressShown {
    /// A bar where standard error is a terminal, which is drawn and erased in place; lines elsewhere.
    Bar {
        /// Whether the bar has colours.
        colour: bool,
    },
    /// Whole lines only, which erase nothing that another program has written to the terminal.
    Lines,
    /// Show no progress at all.
    Nothing,
}

impl RunProgress {
    /// Creates the display of a run of `source` that ends after `limit` accesses at the latest.
    pub fn new(source: &SourceInfo, limit: Option<u64>, choice: ProgressShown) -> Self {
        let meter = Meter::new(expected(source.expected_accesses, limit));
        let output = match choice {
            ProgressShown::Nothing => Output::Nothing,
            ProgressShown::Bar { colour } if std::io::stderr().is_terminal() => {
                // Throttled here: the bar is only touched when it is drawn.
                let target = FromCursor { term: Term::stderr(), is_placed: AtomicBool::new(false) };
                let target = ProgressDrawTarget::term_like(Box::new(target));
                let bar = ProgressBar::with_draw_target(meter.expected, target);
                let template = match (meter.expected.is_some(), colour) {
                    (true, true) => "{bar:20.cyan/dim} {wide_msg}",
                    (true, false) => "{bar:20} {wide_msg}",
                    (false, _) => "{spinner} {wide_msg}",
                };
                Output::Bar(bar.with_style(ProgressStyle::with_template(template).expect("a valid template")))
            }
            ProgressShown::Bar { .. } | ProgressShown::Lines => Output::Lines,
        };
        Self { meter, started: Instant::now(), look_at: 0, shown: None, output }
    }

    fn show(&mut self, now: Duration) {
        let (pause, first) = match self.output {
            Output::Bar(_) => (REDRAW, QUIET),
            Output::Lines => (LINE, LINE),
            Output::Nothing => return,
        };
        if now < self.shown.map_or(first, |shown| shown + pause) {
            return;
        }
        self.shown = Some(now);
        match &self.output {
            Output::Bar(bar) => {
                bar.set_message(self.meter.text());
                bar.set_position(self.meter.accesses);
            }
            Output::Lines => {
                // Progress is no result: when standard error is gone, the run goes on.
                let _ = writeln!(std::io::stderr().lock(), "pagewalk: {}", self.meter.text());
            }
            Output::Nothing => {}
        }
    }
}

impl Progress for RunProgress {
    fn advance(&mut self, accesses: u64, phase: Option<&str>) {
        if let Some(phase) = phase {
            self.meter.phase = Some(shorten(&visible(phase), 24));
        } else if accesses < self.look_at {
            return;
        }
        self.look_at = accesses + ACCESSES_PER_LOOK;
        let now = self.started.elapsed();
        self.meter.observe(accesses, now);
        self.show(now);
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        if let Output::Bar(bar) = &self.output {
            bar.finish_and_clear();
        }
    }
}

/// The terminal's line from the cursor on: the bar is drawn there and erased again, and what a program has written in front of it
/// stays.
#[derive(Debug)]
struct FromCursor {
    term: Term,
    /// Whether the terminal has been told to keep the cursor's place.
    is_placed: AtomicBool,
}

impl TermLike for FromCursor {
    fn width(&self) -> u16 {
        self.term.size().1
    }

    /// Cut at the edge: a line that goes on in the next one would move the place.
    fn write_str(&self, text: &str) -> io::Result<()> {
        let keep = if self.is_placed.swap(true, Ordering::Relaxed) { "" } else { "\x1b7" };
        self.term.write_str(&format!("{keep}\x1b[?7l{text}\x1b[?7h"))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.term.write_str("\x1b8\x1b[K")
    }

    fn flush(&self) -> io::Result<()> {
        self.term.flush()
    }

    // A bar is one line.

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
}

fn expected(source: Option<u64>, limit: Option<u64>) -> Option<u64> {
    match (source, limit) {
        (Some(source), Some(limit)) => Some(source.min(limit)),
        (source, limit) => source.or(limit),
    }
}

/// Rate and time left, apart from any clock.
#[derive(Debug)]
struct Meter {
    expected: Option<u64>,
    accesses: u64,
    phase: Option<String>,
    /// Accesses a second of late.
    rate: Option<f64>,
    measured: (u64, Duration),
}

impl Meter {
    /// The rate is taken over at least this long, and forgets what is a few times [`Self::MEMORY`] ago.
    const STEP: Duration = Duration::from_millis(500);
    const MEMORY: Duration = Duration::from_secs(5);

    fn new(expected: Option<u64>) -> Self {
        Self { expected, accesses: 0, phase: None, rate: None, measured: (0, Duration::ZERO) }
    }

    fn observe(&mut self, accesses: u64, now: Duration) {
        self.accesses = accesses;
        let (before, then) = self.measured;
        let passed = now.saturating_sub(then);
        if passed < Self::STEP {
            return;
        }
        let rate = accesses.saturating_sub(before) as f64 / passed.as_secs_f64();
        let old = (-passed.as_secs_f64() / Self::MEMORY.as_secs_f64()).exp();
        self.rate = Some(self.rate.map_or(rate, |average| old * average + (1.0 - old) * rate));
        self.measured = (accesses, now);
    }

    fn text(&self) -> String {
        let count = |value: u64| Quantity::Count.write(value as f64);
        let mut text = count(self.accesses);
        if let Some(expected) = self.expected {
            text += &format!(" of {}", count(expected));
        }
        text += " accesses";
        if let Some(rate) = self.rate {
            text += &format!(", {:.1} M/s", rate / 1e6);
        }
        if let (Some(expected), Some(rate)) = (self.expected, self.rate)
            && rate > 0.0
        {
            let left = expected.saturating_sub(self.accesses) as f64 / rate;
            text += &format!(", {} left", duration(left));
        }
        if let Some(phase) = &self.phase {
            text += &format!(", phase {phase}");
        }
        text
    }
}

/// `37 s`, `4 min 05 s`, `2 h 10 min`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_tells_rate_time_left_and_phase() {
        let mut meter = Meter::new(Some(1_000_000_000));
        assert_eq!(meter.text(), "0 of 1.00 G accesses");
        for second in 1..=10 {
            meter.observe(second * 24_000_000, Duration::from_secs(second));
        }
        meter.phase = Some("update".into());
        assert_eq!(meter.text(), "240 M of 1.00 G accesses, 24.0 M/s, 32 s left, phase update");
    }

    #[test]
    fn the_rate_follows_a_slower_phase_and_survives_a_stall() {
        let mut meter = Meter::new(None);
        meter.observe(100_000_000, Duration::from_secs(1));
        for second in 2..40 {
            meter.observe(100_000_000 + second * 1_000_000, Duration::from_secs(second));
        }
        let rate = meter.rate.unwrap();
        assert!((0.9e6..1.2e6).contains(&rate), "{rate}");
        for second in 40..400 {
            meter.observe(139_000_000, Duration::from_secs(second));
        }
        assert!(meter.rate.unwrap() < 1.0);
        assert_eq!(meter.text(), "139 M accesses, 0.0 M/s");
    }

    #[test]
    fn a_limit_bounds_what_is_expected_and_durations_read_well() {
        assert_eq!(expected(Some(10), Some(5)), Some(5));
        assert_eq!(expected(None, Some(5)), Some(5));
        assert_eq!(expected(Some(10), None), Some(10));
        assert_eq!([0.0, 36.2, 245.0, 7800.0].map(duration), ["0 s", "37 s", "4 min 05 s", "2 h 10 min"]);
    }

    #[test]
    fn between_looks_nothing_is_measured() {
        let mut progress = RunProgress::new(&SourceInfo::default(), None, ProgressShown::Lines);
        progress.advance(10, None);
        progress.advance(1000, None);
        assert_eq!(progress.meter.accesses, 10);
        progress.advance(10 + ACCESSES_PER_LOOK, None);
        assert_eq!(progress.meter.accesses, 10 + ACCESSES_PER_LOOK);
        progress.advance(10 + ACCESSES_PER_LOOK + 1, Some("update\u{1b}"));
        assert_eq!(progress.meter.phase.as_deref(), Some("update\\u{1b}"));
    }
}
