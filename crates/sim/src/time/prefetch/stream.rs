//! The lines that a page's misses lead to.

use super::wanted::{PAGE_SHIFT, Wanted, want};
use crate::spec::settings::StreamSpec;

/// Misses in one direction after which a stream is believed to go on.
const SURE: u8 = 2;
/// Lines that one miss asks for: the stream gets ahead of the program.
const AT_ONCE: u64 = 4;

/// The stream prefetcher: pages in which misses go up or down, the oldest of which leaves.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pages: Box<[Page]>,
    next: usize,
    distance: u64,
}

/// A page, the line of its last miss, and the line up to which a prefetcher asked for more.
#[derive(Clone, Copy, Debug)]
struct Page {
    number: u64,
    last: u64,
    up_to: u64,
    is_up: bool,
    same: u8,
}

impl Stream {
    pub(super) fn new(spec: &StreamSpec) -> Self {
        let none = Page { number: u64::MAX, last: 0, up_to: 0, is_up: true, same: 0 };
        let pages = vec![none; spec.pages as usize].into_boxed_slice();
        Self { pages, next: 0, distance: spec.distance.into() }
    }

    #[inline]
    pub(super) fn hear(&mut self, line: u64, wanted: &mut Wanted) {
        let number = line >> PAGE_SHIFT;
        let Some(page) = self.pages.iter_mut().find(|page| page.number == number) else {
            self.pages[self.next] = Page { number, last: line, up_to: line, is_up: true, same: 0 };
            self.next = if self.next + 1 == self.pages.len() { 0 } else { self.next + 1 };
            return;
        };
        if line == page.last {
            return;
        }
        let is_up = line > page.last;
        page.last = line;
        if is_up != page.is_up {
            (page.is_up, page.same, page.up_to) = (is_up, 1, line);
            return;
        }
        page.same = SURE.min(page.same + 1);
        if page.same == SURE {
            page.go_on(self.distance, wanted);
        }
    }
}

impl Page {
    /// Asks for some of the lines between the last one that was asked for and the most distant one that is wanted.
    fn go_on(&mut self, distance: u64, wanted: &mut Wanted) {
        let (line, up_to) = (self.last, self.up_to);
        for _ in 0..AT_ONCE {
            // The program may have overtaken the prefetcher.
            let next = match self.is_up {
                true => self.up_to.max(line) + 1,
                false => self.up_to.min(line).wrapping_sub(1),
            };
            if next.abs_diff(line) > distance {
                break;
            }
            self.up_to = next;
            want(wanted, next, line);
        }
        debug_assert!(up_to == self.up_to || self.up_to.abs_diff(line) <= distance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(lines: &[u64]) -> Vec<u64> {
        let mut stream = Stream::new(&StreamSpec { pages: 2, distance: 6 });
        let mut wanted = Wanted::new();
        lines.iter().for_each(|&line| stream.hear(line, &mut wanted));
        wanted.to_vec()
    }

    #[test]
    fn a_stream_is_believed_after_three_misses_and_gets_ahead() {
        assert_eq!(wanted(&[0, 1]), []);
        assert_eq!(wanted(&[0, 1, 2]), [3, 4, 5, 6]);
        assert_eq!(wanted(&[0, 1, 2, 3, 4]), [3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(wanted(&[63, 62, 60, 59]), [59, 58, 57, 56, 55, 54, 53]);
    }

    #[test]
    fn a_page_without_an_order_or_that_left_is_no_stream() {
        assert_eq!(wanted(&[0, 8, 3, 9, 2, 10]), []);
        // Three pages in turn, of which two are remembered.
        assert_eq!(wanted(&[0, 64, 128, 1, 65, 129, 2, 66, 130]), []);
        assert_eq!(wanted(&[61, 62, 63]), [], "not beyond the page");
    }
}
