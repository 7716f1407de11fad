//! Time lines: what cores and daemons did about pages, cut from a run's last steps.

use std::collections::BTreeMap;

use pagewalk_sim::metrics::{KernelStep, Lane, Span};
use serde::{Deserialize, Serialize};

/// The steps of a core, or of a machine's daemons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// The name of the core or daemon: `accelerator: core 0`.
    pub label: String,
    /// The spans, in the order in which they begin.
    pub spans: Vec<TimelineSpan>,
}

/// A stretch of time, in microseconds from the time line's beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineSpan {
    /// The time at which the span begins, in microseconds.
    pub start_us: f64,
    /// The time at which the span ends, in microseconds.
    pub end_us: f64,
    /// The name of the step: `find`, `read`, ..., `program`.
    pub step: String,
    /// The class of work that the step belongs to.
    pub class: StepClass,
}

/// The class of work that a step belongs to, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepClass {
    /// The program itself runs.
    Program,
    /// The program waits for a page that is on its way.
    Device,
    /// Hardware brings a page.
    Hardware,
    /// The kernel, before the program can go on.
    Kernel,
    /// Books of pages that have come, and pages that leave: work that can wait.
    Books,
}

/// The part of a machine's steps that is drawn. It begins at a fault, if there is one in the right place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// Up to the last step.
    End,
    /// The window with the most faults.
    Faults,
    /// Around the last time that several pages were booked at one go, if there is one; else as [`Faults`](Self::Faults).
    Batch,
}

/// The steps of a machine, by lane.
struct Lanes {
    /// Each in order of time.
    lanes: BTreeMap<Lane, Vec<Span>>,
    /// When each fault began, on whatever core.
    faults_ps: Vec<u64>,
    /// Until when steps are known.
    end_ps: u64,
}

/// Returns a row for each core and for the daemons of the machine that is called `name`: `window_ps` of its steps.
/// Between two steps of a core the program runs. No rows without steps.
pub fn timeline_rows(name: &str, steps: &[Span], window_ps: u64, moment: Moment) -> Vec<TimelineRow> {
    let lanes = Lanes::new(steps);
    let Some(start_ps) = lanes.start(window_ps, moment) else { return Vec::new() };
    let end_ps = lanes.end_ps.min(start_ps.saturating_add(window_ps));
    let row = |(&lane, steps): (&Lane, &Vec<Span>)| {
        let label = match lane {
            Lane::Core(core) => format!("{name}: core {core}"),
            Lane::Daemon => format!("{name}: daemon"),
        };
        TimelineRow { label, spans: cut(lane, steps, start_ps, end_ps) }
    };
    lanes.lanes.iter().map(row).collect()
}

/// Time in which the last faults of all these machines can be seen: 100 us, or ten, a hundred, ... times as long.
pub(crate) fn window_ps<'a>(machines: impl Iterator<Item = &'a [Span]>) -> u64 {
    const LEAST_PS: u64 = 100_000_000;
    let mut window_ps = LEAST_PS;
    for steps in machines {
        let lanes = Lanes::new(steps);
        let shown_ps = lanes.faults_ps.last().map_or(0, |&last_ps| lanes.end_ps - last_ps);
        while window_ps < shown_ps {
            window_ps = window_ps.saturating_mul(10);
        }
    }
    window_ps
}

impl Lanes {
    fn new(steps: &[Span]) -> Self {
        let mut lanes: BTreeMap<Lane, Vec<Span>> = BTreeMap::new();
        for step in steps.iter().filter(|step| step.start_ps < step.end_ps) {
            lanes.entry(step.lane).or_default().push(*step);
        }
        lanes.values_mut().for_each(|steps| steps.sort_by_key(|step| step.start_ps));
        let cores = lanes.iter().filter(|(lane, _)| **lane != Lane::Daemon);
        let chains = cores.flat_map(|(_, steps)| steps.chunk_by(touch));
        let faults = chains.flat_map(|chain| {
            let begins = |&at: &usize| begins_fault(chain[at].step, at == 0, chain.get(at + 1));
            (0..chain.len()).filter(begins).map(|at| chain[at].start_ps)
        });
        let mut faults_ps: Vec<u64> = faults.collect();
        faults_ps.sort_unstable();
        let end_ps = lanes.values().flatten().map(|step| step.end_ps).max().unwrap_or(0);
        Self { lanes, faults_ps, end_ps }
    }

    /// Where a window begins; none without any step.
    fn start(&self, window_ps: u64, moment: Moment) -> Option<u64> {
        let first_ps = self.lanes.values().flatten().map(|step| step.start_ps).min()?;
        let latest_ps = self.end_ps.saturating_sub(window_ps).max(first_ps);
        let start_ps = match (moment, self.batch(window_ps)) {
            // Rather from the middle of something than half empty.
            (Moment::End, _) => self
                .faults_ps
                .iter()
                .find(|&&start_ps| (latest_ps..=latest_ps.saturating_add(window_ps / 2)).contains(&start_ps)),
            (Moment::Batch, Some(middle_ps)) => {
                let wanted_ps = middle_ps.saturating_sub(window_ps / 2);
                self.faults_ps.iter().rfind(|&&start_ps| start_ps <= wanted_ps).or(self.faults_ps.first())
            }
            (Moment::Faults | Moment::Batch, _) => {
                let faults = |start_ps: u64| {
                    let end_ps = start_ps.saturating_add(window_ps);
                    let before = |limit_ps| self.faults_ps.partition_point(|&fault_ps| fault_ps < limit_ps);
                    before(end_ps) - before(start_ps)
                };
                let whole = self.faults_ps.iter().filter(|&&start_ps| start_ps <= latest_ps);
                whole.max_by_key(|&&start_ps| faults(start_ps)).or(self.faults_ps.first())
            }
        };
        Some(start_ps.copied().unwrap_or(latest_ps))
    }

    /// The middle of the last time that several pages were booked at one go, with a window around it if possible.
    fn batch(&self, window_ps: u64) -> Option<u64> {
        let mut middles: Vec<u64> = Vec::new();
        for (&lane, steps) in &self.lanes {
            let is_books = |step: &Span| class(lane, None, step.step) == StepClass::Books;
            for batch in steps.chunk_by(|a, b| touch(a, b) && is_books(a) && is_books(b)) {
                if batch.iter().filter(|step| step.step == KernelStep::Book).count() > 1 {
                    middles.push(batch[0].start_ps.midpoint(batch[batch.len() - 1].end_ps));
                }
            }
        }
        middles.sort_unstable();
        let fits = |&&middle_ps: &&u64| middle_ps.saturating_add(window_ps / 2) <= self.end_ps;
        middles.iter().rfind(fits).or(middles.last()).copied()
    }
}

/// Whether there is no time between two steps.
fn touch(one: &Span, next: &Span) -> bool {
    one.end_ps >= next.start_ps
}

/// Whether a fault begins with it, `first` after the program. Steps without a price are not there, so that it may be a
/// later one; a daemon that borrows a core begins otherwise. An accelerator whose queues are full calls the kernel before
/// it fetches: that is no fault of its own.
fn begins_fault(step: KernelStep, first: bool, next: Option<&Span>) -> bool {
    match step {
        KernelStep::Detect | KernelStep::Miss => true,
        KernelStep::Trap => {
            next.is_none_or(|next| class(next.lane, Some(step), next.step) != StepClass::Books)
        }
        KernelStep::FirstTouch
        | KernelStep::Signal
        | KernelStep::Zero
        | KernelStep::Find
        | KernelStep::Allocate => first,
        KernelStep::Request | KernelStep::Read | KernelStep::Lock => first,
        KernelStep::Switch
        | KernelStep::Enter
        | KernelStep::Book
        | KernelStep::Evict
        | KernelStep::Write
        | KernelStep::Copy => false,
        KernelStep::Shootdown
        | KernelStep::Map
        | KernelStep::Unmap
        | KernelStep::Table
        | KernelStep::Flush
        | KernelStep::Stall
        | KernelStep::Idle => false,
    }
}

/// The class of a step after another on the same lane.
fn class(lane: Lane, before: Option<KernelStep>, step: KernelStep) -> StepClass {
    match step {
        _ if lane == Lane::Daemon => StepClass::Books,
        KernelStep::Read | KernelStep::Stall | KernelStep::Idle => StepClass::Device,
        KernelStep::Detect | KernelStep::Miss | KernelStep::Flush => StepClass::Hardware,
        // The accelerator's own; otherwise a driver asks.
        KernelStep::Request if before == Some(KernelStep::Detect) => StepClass::Hardware,
        KernelStep::Book | KernelStep::Evict | KernelStep::Write | KernelStep::Copy => StepClass::Books,
        KernelStep::FirstTouch
        | KernelStep::Signal
        | KernelStep::Zero
        | KernelStep::Trap
        | KernelStep::Find
        | KernelStep::Allocate => StepClass::Kernel,
        KernelStep::Request
        | KernelStep::Switch
        | KernelStep::Enter
        | KernelStep::Shootdown
        | KernelStep::Map
        | KernelStep::Unmap
        | KernelStep::Table
        | KernelStep::Lock => StepClass::Kernel,
    }
}

/// A lane's steps from `start_ps` to `end_ps`.
fn cut(lane: Lane, steps: &[Span], start_ps: u64, end_ps: u64) -> Vec<TimelineSpan> {
    let us = |ps: u64| (ps - start_ps) as f64 / 1e6;
    let mut spans = Vec::new();
    let mut add = |from_ps: u64, until_ps: u64, step: &str, class| {
        let (from_ps, until_ps) = (from_ps.max(start_ps), until_ps.min(end_ps));
        if from_ps < until_ps {
            let (start_us, end_us) = (us(from_ps), us(until_ps));
            spans.push(TimelineSpan { start_us, end_us, step: step.into(), class });
        }
    };
    let is_core = lane != Lane::Daemon;
    // What was before the first step is not known.
    let mut done_ps = steps.first().map_or(end_ps, |step| step.start_ps);
    let mut before = None;
    for step in steps {
        if is_core {
            add(done_ps, step.start_ps, "program", StepClass::Program);
        }
        if done_ps < step.start_ps {
            before = None;
        }
        add(step.start_ps, step.end_ps, step.step.name(), class(lane, before, step.step));
        done_ps = done_ps.max(step.end_ps);
        before = Some(step.step);
    }
    if is_core {
        add(done_ps, end_ps, "program", StepClass::Program);
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;

    /// Steps that follow each other on a core, in microseconds.
    fn steps(start: u64, steps: &[(KernelStep, u64)]) -> Vec<Span> {
        let mut now_ps = start * US;
        let step = |&(step, us): &(KernelStep, u64)| {
            let start_ps = now_ps;
            now_ps += us * US;
            Span { lane: Lane::Core(0), step, start_ps, end_ps: now_ps }
        };
        steps.iter().map(step).collect()
    }

    fn fetch(start: u64) -> Vec<Span> {
        steps(start, &[(KernelStep::Detect, 1), (KernelStep::Request, 1), (KernelStep::Read, 4)])
    }

    /// Ten fetches of 6 us, one every 10 us; books of 3 pages, and a fetch; and so twice more.
    fn accelerated() -> Vec<Span> {
        let round = |start: u64| {
            let mut all: Vec<Span> = (0..10).flat_map(|number| fetch(start + 10 * number)).collect();
            let books = [
                KernelStep::Evict,
                KernelStep::Book,
                KernelStep::Evict,
                KernelStep::Book,
                KernelStep::Evict,
                KernelStep::Book,
            ];
            all.extend(steps(
                start + 100,
                &[&[(KernelStep::Trap, 1)][..], &books.map(|step| (step, 10))].concat(),
            ));
            all.extend(fetch(start + 161));
            all
        };
        [1000, 1170, 1340].into_iter().flat_map(round).collect()
    }

    fn written(row: &TimelineRow) -> String {
        let span = |span: &TimelineSpan| {
            format!("{} to {} {} ({:?})", span.start_us, span.end_us, span.step, span.class)
        };
        row.spans.iter().map(span).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn between_a_cores_steps_the_program_runs() {
        let mut all = steps(
            100,
            &[(KernelStep::Trap, 1), (KernelStep::Request, 2), (KernelStep::Read, 3), (KernelStep::Book, 1)],
        );
        all.push(Span { lane: Lane::Daemon, step: KernelStep::Evict, start_ps: 104 * US, end_ps: 109 * US });
        all.extend(fetch(110));
        let rows = timeline_rows("m", &all, 20 * US, Moment::End);
        let [core, daemon] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!([&*core.label, &*daemon.label], ["m: core 0", "m: daemon"]);
        insta::assert_snapshot!(
            written(core),
            @"0 to 1 trap (Kernel), 1 to 3 request (Kernel), 3 to 6 read (Device), 6 to 7 book (Books), 7 to 10 program (Program), 10 to 11 detect (Hardware), 11 to 12 request (Hardware), 12 to 16 read (Device)"
        );
        insta::assert_snapshot!(written(daemon), @"4 to 9 evict (Books)");
    }

    #[test]
    fn a_window_begins_at_a_fault_and_cuts_what_crosses_its_end() {
        let all = accelerated();
        let of = |us, moment| {
            let rows = timeline_rows("m", &all, us * US, moment);
            written(&rows[0])
        };
        // The end is a fetch of 6 us, after a batch of 61: in the second half of the window.
        insta::assert_snapshot!(
            of(20, Moment::End),
            @"0 to 4 evict (Books), 4 to 14 book (Books), 14 to 15 detect (Hardware), 15 to 16 request (Hardware), 16 to 20 read (Device)"
        );
        assert!(of(80, Moment::End).starts_with("0 to 1 detect (Hardware)"));
        // Two fetches, and the beginning of a third.
        insta::assert_snapshot!(
            of(21, Moment::Faults),
            @"0 to 1 detect (Hardware), 1 to 2 request (Hardware), 2 to 6 read (Device), 6 to 10 program (Program), 10 to 11 detect (Hardware), 11 to 12 request (Hardware), 12 to 16 read (Device), 16 to 20 program (Program), 20 to 21 detect (Hardware)"
        );
        // The batch is in the middle: the last whose surroundings are there, which is not the last.
        let rows = timeline_rows("m", &all, 100 * US, Moment::Batch);
        let books: Vec<&TimelineSpan> =
            rows[0].spans.iter().filter(|span| span.class == StepClass::Books).collect();
        assert_eq!(books.len(), 6);
        assert_eq!((books[0].start_us, books[5].end_us), (21.0, 81.0));
        assert_eq!(rows[0].spans.last().map(|span| span.end_us), Some(100.0));
        // A machine without batches has the window with most faults instead.
        let fetches: Vec<Span> = (0..9).flat_map(|number| fetch(10 * number)).collect();
        assert_eq!(
            timeline_rows("m", &fetches, 30 * US, Moment::Batch),
            timeline_rows("m", &fetches, 30 * US, Moment::Faults)
        );
    }

    #[test]
    fn nothing_and_almost_nothing_are_no_trouble() {
        for moment in [Moment::End, Moment::Faults, Moment::Batch] {
            assert_eq!(timeline_rows("m", &[], US, moment), []);
            assert_eq!(timeline_rows("m", &steps(7, &[(KernelStep::Trap, 0)]), US, moment), []);
            // No fault: an eviction alone.
            let rows = timeline_rows("m", &steps(7, &[(KernelStep::Evict, 2)]), US, moment);
            assert_eq!(written(&rows[0]), "0 to 1 evict (Books)");
            // Windows longer than all that is known, and as long as can be written.
            for window_ps in [0, 100 * US, u64::MAX] {
                let rows = timeline_rows("m", &accelerated(), window_ps, moment);
                assert!(rows[0].spans.iter().all(|span| span.start_us < span.end_us));
            }
        }
    }

    #[test]
    fn a_report_shows_the_whole_of_the_last_fault() {
        let short = fetch(0);
        let long = steps(0, &[(KernelStep::Trap, 1), (KernelStep::Read, 4000)]);
        assert_eq!(window_ps([].into_iter()), 100 * US);
        assert_eq!(window_ps([&short[..]].into_iter()), 100 * US);
        assert_eq!(window_ps([&short[..], &long[..]].into_iter()), 10_000 * US);
    }
}
