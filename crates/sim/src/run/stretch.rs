//! Stretches at a program's beginning that are not measured.

use std::fmt;

use pagewalk_trace::{Batch, Event};

use super::cut::{self, Place};

/// A length of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many accesses, page-crossing ones counted once.
    Accesses(u64),
    /// So many instructions; those between two counts of the source are spread over the accesses between them.
    Instructions(u64),
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accesses(count) => write!(f, "{count} accesses"),
            Self::Instructions(count) => write!(f, "{count} instructions"),
        }
    }
}

/// The end of a stretch.
#[derive(Debug)]
pub(super) enum End {
    /// The first phase of this name.
    Phase(String),
    /// So much of the program later.
    Length(Length),
}

impl End {
    /// Returns the place in a batch at which the stretch ends, if it ends there; otherwise the batch belongs to it.
    pub(super) fn place_in(&mut self, batch: &Batch) -> Option<Place> {
        match self {
            Self::Phase(name) => {
                let marks = batch.marks.iter().position(|mark| is_phase(&mark.event, name))?;
                Some(Place::before_mark(batch, marks))
            }
            Self::Length(Length::Accesses(left)) => {
                let (wanted, there) = (*left, batch.accesses.len() as u64);
                *left = wanted.saturating_sub(there);
                (wanted < there).then(|| Place::before_access(batch, wanted as usize))
            }
            Self::Length(Length::Instructions(left)) => {
                for part in cut::segments(batch) {
                    if *left < part.instructions {
                        let accesses = (part.end - part.start) as u64;
                        let before = cut::share(accesses, *left as usize, part.instructions as usize);
                        return Some(Place::before_access(batch, part.start + before as usize));
                    }
                    *left -= part.instructions;
                }
                None
            }
        }
    }
}

fn is_phase(event: &Event, wanted: &str) -> bool {
    matches!(event, Event::Phase(name) if name == wanted)
}

#[cfg(test)]
mod tests {
    use pagewalk_trace::Access;
    use pagewalk_vm::addr::VirtAddr;

    use super::*;

    /// Two segments: 100 instructions hold 10 accesses, 60 hold 20.
    fn batch() -> Batch {
        let mut batch = Batch::new();
        for (instructions, accesses) in [(100, 10), (60, 20)] {
            batch.mark(Event::Instructions(instructions));
            (0..accesses).for_each(|at| batch.push(Access::load(VirtAddr(at), 1)));
        }
        batch
    }

    fn accesses_before(length: Length) -> Option<usize> {
        End::Length(length).place_in(&batch()).map(|place| place.accesses)
    }

    #[test]
    fn a_stretch_of_accesses_ends_before_the_next_one() {
        assert_eq!(accesses_before(Length::Accesses(0)), Some(0));
        assert_eq!(accesses_before(Length::Accesses(29)), Some(29));
        assert_eq!(accesses_before(Length::Accesses(30)), None);
        let mut end = End::Length(Length::Accesses(70));
        let places = [(); 3].map(|()| end.place_in(&batch()).map(|place| place.accesses));
        assert_eq!(places, [None, None, Some(10)]);
    }

    #[test]
    fn instructions_are_spread_over_their_accesses() {
        let before = |count| accesses_before(Length::Instructions(count));
        assert_eq!([0, 50, 99, 100, 130, 159].map(before), [0, 5, 9, 10, 20, 29].map(Some));
        assert_eq!(before(160), None);
    }

    #[test]
    fn a_phase_ends_a_stretch_before_its_mark() {
        let mut batch = batch();
        batch.mark(Event::Phase("build".into()));
        batch.mark(Event::Phase("work".into()));
        let place = End::Phase("work".into()).place_in(&batch);
        assert_eq!(place, Some(Place { marks: 3, accesses: 30, blocks: 0 }));
        assert_eq!(End::Phase("other".into()).place_in(&batch), None);
    }
}
