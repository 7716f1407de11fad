//! A program's forms: as it is, without its work, and both with huge pages; and what their differences tell.

use pagewalk_report::{Gain, Gained, Times};

use super::native::Native;
use super::predict::Predicted;
use super::programs::Runnable;

/// Something of each form of a program.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Forms<T> {
    /// As the program is.
    pub(super) whole: T,
    /// Without its work: it touches its memory, and ends.
    pub(super) idle: Option<T>,
    /// With huge pages.
    pub(super) huge: Option<T>,
    /// With huge pages, without its work.
    pub(super) huge_idle: Option<T>,
}

impl<T> Forms<T> {
    /// Returns something else of each form, or the first error.
    pub(super) fn try_map<U>(
        &self,
        mut each: impl FnMut(&T) -> anyhow::Result<U>,
    ) -> anyhow::Result<Forms<U>> {
        Ok(Forms {
            whole: each(&self.whole)?,
            idle: self.idle.as_ref().map(&mut each).transpose()?,
            huge: self.huge.as_ref().map(&mut each).transpose()?,
            huge_idle: self.huge_idle.as_ref().map(&mut each).transpose()?,
        })
    }

    /// Returns what there is, the whole first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.whole).chain(&self.idle).chain(&self.huge).chain(&self.huge_idle)
    }

    /// As [`Self::iter`], to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.whole)
            .chain(&mut self.idle)
            .chain(&mut self.huge)
            .chain(&mut self.huge_idle)
    }
}

impl Forms<Runnable> {
    /// Returns the forms in which a program is run: without its work if the work alone is to be seen, and with huge pages if these are
    /// wanted, but for loops that show one parameter.
    pub(super) fn of(program: &Runnable, wants_huge_pages: bool) -> Self {
        let huge = (wants_huge_pages && !program.is_micro).then(|| program.with_huge_pages());
        let wants_idle = program.is_micro || wants_huge_pages;
        Self {
            whole: program.clone(),
            idle: program.idle().filter(|_| wants_idle),
            huge_idle: huge.as_ref().and_then(Runnable::idle),
            huge,
        }
    }

    /// Returns the forms that run on this computer: those with their work, which tell its time.
    pub(super) fn timed(&self) -> Self {
        Self { idle: None, huge_idle: None, ..self.clone() }
    }
}

/// What huge pages save here of a program's time, and of its work alone if it tells the time of that.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Saved {
    /// The pairs of runs by which it is told.
    pub(super) pairs: usize,
    pub(super) whole: Share,
    pub(super) steady: Option<Share>,
}

/// A share that was measured several times: the median, and how far the middle half of the values lie apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Share {
    pub(super) share: f64,
    pub(super) spread: f64,
}

impl Saved {
    /// Returns what is saved by pairs of runs without and with huge pages; none for no pairs.
    pub(super) fn of(pairs: &[(Native, Native)]) -> Option<Self> {
        let share = |huge: f64, small: f64| 1.0 - huge / small;
        let whole = pairs.iter().map(|(small, huge)| share(huge.cpu_ns, small.cpu_ns)).collect();
        let work = pairs.iter().map(|(small, huge)| Some(share(huge.work_ns?, small.work_ns?)));
        let steady = work.collect::<Option<_>>().and_then(Share::of);
        Some(Self { pairs: pairs.len(), whole: Share::of(whole)?, steady })
    }
}

impl Share {
    fn of(mut shares: Vec<f64>) -> Option<Self> {
        shares.sort_by(f64::total_cmp);
        let last = shares.len().checked_sub(1)?;
        let at = |percent: usize| shares[(last * percent + 50) / 100];
        Some(Self { share: at(50), spread: at(75) - at(25) })
    }
}

/// A program, or a part of it, here and on the machine.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Both {
    pub(super) native: Native,
    /// On the machine, and then without each ingredient.
    pub(super) predicted: Vec<Predicted>,
}

impl Both {
    /// Returns the part without that of another run.
    pub(super) fn less(&self, other: &Self) -> Self {
        let without =
            |(all, other): (&Predicted, &Predicted)| Predicted { cpu_ns: all.cpu_ns - other.cpu_ns, ..*all };
        Self {
            native: Native { cpu_ns: self.native.cpu_ns - other.native.cpu_ns, ..self.native },
            predicted: self.predicted.iter().zip(&other.predicted).map(without).collect(),
        }
    }

    /// Returns the times on this computer and on the complete machine.
    pub(super) fn times(&self) -> Times {
        Times { measured: self.native.cpu_ns, predicted: self.predicted[0].cpu_ns }
    }

    /// Returns the share of the time that others save: here, and on the machine.
    fn saved(&self, others: &Self, here: Share) -> Gained {
        let Share { share: measured, spread } = here;
        Gained { measured, spread, predicted: 1.0 - others.times().predicted / self.times().predicted }
    }
}

impl Forms<Both> {
    /// Returns what is judged: of a loop that shows one parameter, the work alone.
    pub(super) fn judged(&self, is_micro: bool) -> Both {
        match &self.idle {
            Some(idle) if is_micro => self.whole.less(idle),
            _ => self.whole.clone(),
        }
    }

    /// Returns what huge pages save of a program's time, where they saved so much here; and of its work alone, without its first touches, if it
    /// can do without the work.
    pub(super) fn gain(&self, here: Option<Saved>) -> Option<Gain> {
        let (huge, here) = self.huge.as_ref().zip(here)?;
        let idle = self.idle.as_ref().zip(self.huge_idle.as_ref());
        let steady = |(idle, huge_idle): (&Both, &Both)| {
            Some(self.whole.less(idle).saved(&huge.less(huge_idle), here.steady?))
        };
        Some(Gain {
            pairs: here.pairs,
            whole: self.whole.saved(huge, here.whole),
            steady: idle.and_then(steady),
            first_touches: idle.map(|(idle, _)| idle.times()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(native: f64, predicted: f64) -> Both {
        let native = Native { cpu_ns: native, work_ns: None, minor_faults: 5 };
        Both { native, predicted: vec![Predicted { cpu_ns: predicted, ..Predicted::default() }] }
    }

    #[test]
    fn a_program_has_the_forms_that_are_wanted() {
        let program = Runnable::of_user("sort".as_ref(), &["TEXT".into()]);
        assert_eq!(Forms::of(&program, false).iter().count(), 1);
        assert_eq!(Forms::of(&program, true).iter().count(), 2, "with huge pages");
        let program = Runnable { idle: Some(vec!["x".into()]), ..program };
        assert_eq!(Forms::of(&program, false).iter().count(), 1);
        let all = Forms::of(&program, true);
        let paths: Vec<_> = all.iter().map(|form| form.path.to_str()).collect();
        assert_eq!(paths, [Some("sort"), Some("sort"), Some("/usr/bin/env"), Some("/usr/bin/env")]);
        let micro = Forms::of(&Runnable { is_micro: true, ..program }, true);
        assert!(micro.idle.is_some() && micro.huge.is_none());
    }

    #[test]
    fn the_work_alone_is_what_is_without_the_first_touches() {
        let forms = Forms {
            whole: both(100.0, 120.0),
            idle: Some(both(60.0, 70.0)),
            huge: Some(both(40.0, 60.0)),
            huge_idle: Some(both(20.0, 20.0)),
        };
        assert_eq!(forms.judged(true).times(), Times { measured: 40.0, predicted: 50.0 });
        assert_eq!(forms.judged(false).times(), Times { measured: 100.0, predicted: 120.0 });
        let here = Saved {
            pairs: 5,
            whole: Share { share: 0.6, spread: 0.1 },
            steady: Some(Share { share: 0.5, spread: 0.2 }),
        };
        let gain = forms.gain(Some(here)).expect("with huge pages");
        assert_eq!(gain.pairs, 5);
        assert_eq!(gain.whole, Gained { measured: 0.6, spread: 0.1, predicted: 0.5 });
        assert_eq!(gain.steady, Some(Gained { measured: 0.5, spread: 0.2, predicted: 1.0 - 40.0 / 50.0 }));
        assert_eq!(gain.first_touches, Some(Times { measured: 60.0, predicted: 70.0 }));
    }

    #[test]
    fn pairs_of_runs_tell_what_is_saved() {
        let run = |cpu_ns, work_ns| Native { cpu_ns, work_ns, minor_faults: 0 };
        let pair = |huge, work| (run(100.0, Some(50.0)), run(huge, Some(work)));
        let saved = Saved::of(&[pair(80.0, 25.0), pair(60.0, 25.0), pair(70.0, 50.0)]).expect("pairs");
        let [whole, steady] = [Some(saved.whole), saved.steady].map(|share| share.expect("a share"));
        assert!((whole.share - 0.3).abs() < 1e-9 && (whole.spread - 0.1).abs() < 1e-9, "{whole:?}");
        assert_eq!(steady, Share { share: 0.5, spread: 0.0 });
        assert_eq!(Saved::of(&[(run(100.0, None), run(50.0, None))]).expect("a pair").steady, None);
        assert_eq!(Saved::of(&[]), None);
    }

    #[test]
    fn a_program_without_an_idle_form_has_no_work_alone() {
        let forms =
            Forms { whole: both(100.0, 120.0), idle: None, huge: Some(both(40.0, 60.0)), huge_idle: None };
        let here = Some(Saved { pairs: 1, whole: Share { share: 0.6, spread: 0.0 }, steady: None });
        let gain = forms.gain(here).expect("with huge pages");
        assert_eq!((gain.steady, gain.first_touches), (None, None));
        assert_eq!(Forms { huge: None, ..forms }.gain(here), None);
    }
}
