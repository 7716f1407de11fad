//! Lines that follow each other, up or down, from page to page.
//!
//! A program that goes from line to line makes the prefetcher ask for more and more lines ahead, two for each that follows, up to a
//! distance. Those that are near come into the level that it belongs to, and those that are farther ahead into the next one: the first cache
//! has no room for them. It knows virtual addresses: where a program goes on into the next page, the lines there were asked for while it was in the one
//! before. Their physical addresses are known here when the program gets there, so the lines are asked for then, as of the times at which
//! they were ahead by as much as the stream is.

use pagewalk_vm::sets::{Replacement, SetArray};

use super::wanted::{Ask, Heard, PAGE_SHIFT, Wanted, push};
use crate::spec::settings::StreamSpec;

/// Lines of a page.
const LINES: i64 = 1 << PAGE_SHIFT;
/// Lines that an access within a page asks for at most: the stream gets ahead of the program.
const AT_ONCE: i64 = 4;
/// Lines ahead for each line that followed another.
const AHEAD: i64 = 2;
/// Lines by which accesses may leave the order: others overtake them.
const LOOSE: i64 = 3;

/// The stream prefetcher: the pages that were accessed last.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// By number, the place of a page among `pages`.
    places: SetArray,
    /// The place of the page that was accessed last.
    newest: usize,
    pages: Box<[Page]>,
    /// By page, when the stream came to each line.
    times: Box<[Times]>,
    reach: Reach,
}

/// How far ahead streams are.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// At most.
    distance: i64,
    /// In the level that the prefetcher belongs to, at most; none if all lines come there.
    near: Option<i64>,
    /// Whether lines of the next page are asked for before the program gets there.
    crosses_pages: bool,
}

impl Reach {
    /// Returns how many lines a stream is ahead.
    fn depth(self, run: i64) -> i64 {
        (AHEAD * run).min(self.distance)
    }

    /// Returns the same of its own level.
    fn near(self, run: i64) -> i64 {
        self.near.map_or(self.depth(run), |near| (run - 1).clamp(0, near))
    }
}

type Times = [u64; LINES as usize];

/// A page, and the stream in it.
#[derive(Clone, Copy, Debug)]
struct Page {
    number: u64,
    /// The place in the page of the line that the stream has come to, of the last one that was asked for, and of the last one that was asked for into
    /// the prefetcher's own level.
    last: i64,
    up_to: i64,
    near_to: i64,
    /// 1 upwards, -1 downwards.
    direction: i64,
    /// How many lines followed each other.
    run: i64,
}

const NO_PAGE: Page = Page { number: u64::MAX, last: 0, up_to: 0, near_to: 0, direction: 1, run: 0 };

impl Stream {
    pub(super) fn new(spec: &StreamSpec) -> Self {
        let places = SetArray::new(spec.pages, spec.pages, Replacement::Lru)
            .expect("any number of entries may be a set of its own");
        let pages = vec![NO_PAGE; spec.pages as usize].into_boxed_slice();
        let times = vec![[0; LINES as usize]; pages.len()].into_boxed_slice();
        let near = (spec.near > 0).then_some(spec.near.into());
        let reach = Reach { distance: spec.distance.into(), near, crosses_pages: spec.crosses_pages };
        Self { places, newest: 0, pages, times, reach }
    }

    /// Hears of an access; returns when its own line was asked for, if that was earlier.
    #[inline]
    pub(super) fn hear(&mut self, heard: &Heard, wanted: &mut Wanted) -> Option<u64> {
        let place = heard.line as i64 % LINES;
        if self.pages[self.newest].number != heard.page {
            match self.places.lookup(0, heard.page) {
                Some(slot) => self.newest = slot,
                None => return self.enter(heard, place, wanted),
            }
        }
        let page = &mut self.pages[self.newest];
        if page.last != place {
            page.go_on(place, heard, (&mut self.times[self.newest], self.reach), wanted);
        }
        None
    }

    /// Comes to a page that is not known: by a stream from one of the pages beside it, or by chance.
    #[inline(never)]
    fn enter(&mut self, heard: &Heard, place: i64, wanted: &mut Wanted) -> Option<u64> {
        let reach = self.reach;
        let from = [(1, heard.page.checked_sub(1)), (-1, heard.page.checked_add(1))];
        let before = from.into_iter().find_map(|(direction, number)| {
            let slot = self.places.peek(0, number?)?;
            let page = self.pages[slot];
            (page.direction == direction && page.run > 0).then_some((page, slot))
        });
        let mut page = Page { number: heard.page, last: place, up_to: place, near_to: place, ..NO_PAGE };
        let mut own = None;
        if let Some((before, slot)) = before {
            (page.direction, page.run) = (before.direction, before.run);
            let near_to = place + page.direction * reach.near(page.run);
            for ahead in 0..reach.depth(before.run) {
                // Lines from the edge of the page on.
                let line = if page.direction > 0 { ahead } else { LINES - 1 - ahead };
                let Some(was_ahead_ps) = before.was_ahead(ahead, (&self.times[slot], reach)) else { break };
                let at_ps = if reach.crosses_pages { was_ahead_ps.min(heard.at_ps) } else { heard.at_ps };
                page.up_to = line;
                let is_far = (line - near_to) * page.direction > 0;
                if !is_far {
                    page.near_to = line;
                }
                match line == place {
                    true => own = reach.crosses_pages.then_some(at_ps),
                    false => {
                        let line = heard.line.wrapping_add_signed(line - place);
                        push(wanted, Ask { line, at_ps, is_far });
                    }
                }
            }
        }
        self.newest = self.places.insert(0, heard.page).slot;
        self.times[self.newest][place as usize] = heard.at_ps;
        self.pages[self.newest] = page;
        own
    }
}

impl Page {
    /// Returns when the stream came to the line from which on it asked for the one that is so far beyond the page; none if it did not.
    fn was_ahead(&self, beyond: i64, (times, reach): (&Times, Reach)) -> Option<u64> {
        let back = reach.depth(self.run) - beyond;
        let place = if self.direction > 0 { LINES - back } else { back - 1 };
        let has_come = (self.last - place) * self.direction >= 0;
        (has_come && (0..LINES).contains(&place)).then(|| times[place as usize])
    }

    fn go_on(&mut self, place: i64, heard: &Heard, (times, reach): (&mut Times, Reach), wanted: &mut Wanted) {
        let step = place - self.last;
        if step.abs() == 1 && (self.run == 0 || step == self.direction) {
            (self.direction, self.run) = (step, (self.run + 1).min(LINES));
        } else if self.run == 0 || step.abs() > LOOSE {
            (self.run, self.up_to, self.near_to) = (0, place, place);
        } else if step.signum() != self.direction {
            // One that was overtaken.
            return;
        }
        if self.run <= 1 {
            (self.up_to, self.near_to) = (place, place);
        }
        // Lines that were left out are as those behind them.
        let mut passed = self.last;
        while passed != place {
            passed += step.signum();
            times[passed as usize] = heard.at_ps;
        }
        self.last = place;
        let mut ask = |to: &mut i64, depth: i64, is_far: bool| {
            for _ in 0..AT_ONCE {
                // The program may have overtaken the prefetcher.
                let ahead = ((*to - place) * self.direction).max(0) + 1;
                let next = place + ahead * self.direction;
                if ahead > depth || !(0..LINES).contains(&next) {
                    break;
                }
                *to = next;
                let line = heard.line.wrapping_add_signed(next - place);
                push(wanted, Ask { line, at_ps: heard.at_ps, is_far });
            }
        };
        if reach.near.is_some() {
            ask(&mut self.near_to, reach.near(self.run), false);
        }
        ask(&mut self.up_to, reach.depth(self.run), reach.near.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Physical pages lie far from each other.
    const APART: u64 = 1 << 20;

    const SPEC: StreamSpec = StreamSpec { pages: 4, distance: 6, near: 0, crosses_pages: true };

    /// What virtual lines, a nanosecond apart, make the prefetcher want: virtual lines, and how many accesses ago. And how many accesses ago
    /// the last one was wanted itself.
    fn wanted(lines: &[u64]) -> (Vec<(u64, u64)>, Option<u64>) {
        wanted_by(&SPEC, lines)
    }

    fn wanted_by(spec: &StreamSpec, lines: &[u64]) -> (Vec<(u64, u64)>, Option<u64>) {
        let mut stream = Stream::new(spec);
        let (mut all, mut own) = (Vec::new(), None);
        for (at, &line) in (1..).zip(lines) {
            let (page, place) = (line >> PAGE_SHIFT, line % LINES as u64);
            let heard = Heard { instruction: 0, page, line: page * APART + place, is_miss: true, at_ps: at };
            let mut wanted = Wanted::new();
            own = stream.hear(&heard, &mut wanted).map(|asked| at - asked);
            for Ask { line, at_ps: asked, .. } in wanted {
                assert_eq!(line / APART, page, "in the page of the access");
                all.push((page * LINES as u64 + line % APART, at - asked));
            }
        }
        (all, own)
    }

    fn now(lines: &[u64]) -> Vec<(u64, u64)> {
        lines.iter().map(|&line| (line, 0)).collect()
    }

    #[test]
    fn a_stream_asks_for_two_more_lines_with_each_one() {
        assert_eq!(wanted(&[0]).0, []);
        assert_eq!(wanted(&[0, 1]).0, now(&[2, 3]));
        assert_eq!(wanted(&[0, 1, 2]).0, now(&[2, 3, 4, 5, 6]));
        assert_eq!(wanted(&[0, 1, 2, 3, 4]).0, now(&[2, 3, 4, 5, 6, 7, 8, 9, 10]));
        assert_eq!(wanted(&[63, 62, 61]).0, now(&[61, 60, 59, 58, 57]));
    }

    #[test]
    fn lines_that_are_far_ahead_come_into_the_next_level_and_on_from_there_when_they_are_near() {
        let mut stream = Stream::new(&StreamSpec { near: 3, ..SPEC });
        let mut asked = |line: u64| {
            let heard = Heard { instruction: 0, page: line >> PAGE_SHIFT, line, is_miss: true, at_ps: 0 };
            let mut wanted = Wanted::new();
            stream.hear(&heard, &mut wanted);
            let of = |far: bool| {
                wanted.iter().filter(|ask| ask.is_far == far).map(|ask| ask.line).collect::<Vec<_>>()
            };
            (of(false), of(true))
        };
        assert_eq!(
            [0, 1, 2].map(&mut asked),
            [(vec![], vec![]), (vec![], vec![2, 3]), (vec![3], vec![4, 5, 6])]
        );
        assert_eq!(
            [3, 4, 5].map(&mut asked),
            [(vec![4, 5], vec![7, 8, 9]), (vec![6, 7], vec![10]), (vec![8], vec![11])]
        );
        // Into the next page: what is near of it, and what is far.
        (6..=63).for_each(|line| drop(asked(line)));
        assert_eq!(asked(64), (vec![65, 66, 67], vec![68, 69]));
        assert_eq!(asked(65), (vec![68], vec![70, 71]));
    }

    #[test]
    fn accesses_without_an_order_are_no_stream() {
        assert_eq!(wanted(&[0, 8, 3, 9, 2, 20, 22, 24, 28, 32]).0, []);
        // One that was overtaken changes nothing.
        assert_eq!(wanted(&[0, 1, 3, 2, 4]).0, now(&[2, 3, 4, 5, 6, 7, 8]));
    }

    #[test]
    fn as_many_streams_as_there_are_pages_go_on_by_turns_wherever_they_are() {
        // Page numbers that are the same in their low bits, as those of large arrays are.
        let by_turns = |streams: u64| -> Vec<u64> {
            (0..4)
                .flat_map(|line| (0..streams).map(move |stream| (stream << 20 << PAGE_SHIFT) + line))
                .collect()
        };
        assert_eq!(wanted(&by_turns(4)).0.len(), 4 * 8);
        assert_eq!(wanted(&by_turns(5)).0.len(), 0, "one more, and each is forgotten before its turn");
    }

    #[test]
    fn a_stream_goes_on_into_the_next_page_wherever_that_is() {
        let up: Vec<u64> = (54..=64).collect();
        let (all, own) = wanted(&up);
        // Six lines ahead: line 64 when the stream came to line 58, and so on.
        assert_eq!(own, Some(6));
        assert_eq!(all[all.len() - 5..], [(65, 5), (66, 4), (67, 3), (68, 2), (69, 1)]);
        let down: Vec<u64> = (63..=74).rev().collect();
        let (all, own) = wanted(&down);
        assert_eq!((own, all.last()), (Some(6), Some(&(58, 1))));
        assert_eq!(wanted(&[10, 11, 64]), (now(&[12, 13]), None), "not from the middle of a page");
        assert_eq!(wanted(&[62, 63, 128]).1, None, "not into another page");
        let (all, own) = wanted_by(&StreamSpec { crosses_pages: false, ..SPEC }, &up);
        assert_eq!(own, None, "its own line is asked for by the access");
        assert_eq!(all[all.len() - 5..], now(&[65, 66, 67, 68, 69]), "the same lines, and not before");
    }
}
