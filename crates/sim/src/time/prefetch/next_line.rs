//! The lines behind the one that is used.

use super::wanted::{Heard, Wanted, want};
use crate::spec::settings::NextLineSpec;

/// The next-line prefetcher.
#[derive(Clone, Debug)]
pub(super) struct NextLine {
    last: u64,
    lines: u64,
    by_neighbours: bool,
    uses: Option<Uses>,
}

impl NextLine {
    pub(super) fn new(spec: &NextLineSpec) -> Self {
        let uses = (spec.remembered > 0).then(|| Uses::new(spec.remembered));
        Self { last: u64::MAX, lines: spec.lines.into(), by_neighbours: spec.by_neighbours, uses }
    }

    #[inline]
    pub(super) fn hear(&mut self, heard: &Heard, mut has: impl FnMut(u64) -> bool, wanted: &mut Wanted) {
        let line = heard.line;
        if std::mem::replace(&mut self.last, line) == line {
            return;
        }
        if let Some(uses) = &mut self.uses {
            uses.used(line);
        }
        let up = !self.by_neighbours
            || match [line.wrapping_sub(1), line + 1].map(&mut has) {
                [true, false] => true,
                [false, true] => false,
                [false, false] if heard.is_miss => true,
                _ => return,
            };
        let away = |by: u64| if up { line + by } else { line.wrapping_sub(by) };
        if self.uses.as_mut().is_none_or(|uses| uses.is_worth_it(heard.instruction, away(1))) {
            (1..=self.lines).for_each(|by| want(wanted, away(by), heard));
        }
    }
}

/// Instructions whose worth is known apart.
const INSTRUCTIONS: usize = 256;
/// The worth of an instruction of which all lines behind are used, and the least with which it gets them.
const SURE: u8 = 15;
const LEAST: u8 = 8;

/// What is known of the use of lines beside others, by the instruction that used the one before; both tables are direct-mapped.
#[derive(Clone, Debug)]
struct Uses {
    remembered: Box<[Remembered]>,
    worth: Box<[u8; INSTRUCTIONS]>,
}

/// A line beside one that an instruction has used.
#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    line: u64,
    instruction: u8,
    is_waiting: bool,
}

impl Uses {
    fn new(remembered: u32) -> Self {
        let remembered = vec![Remembered::default(); remembered.next_power_of_two() as usize];
        Self { remembered: remembered.into_boxed_slice(), worth: Box::new([LEAST; INSTRUCTIONS]) }
    }

    fn slot(&mut self, line: u64) -> &mut Remembered {
        let slot = (line ^ (line >> 12)) as usize & (self.remembered.len() - 1);
        &mut self.remembered[slot]
    }

    /// Hears of a line that is used.
    #[inline]
    fn used(&mut self, line: u64) {
        let found = self.slot(line);
        if found.is_waiting && found.line == line {
            found.is_waiting = false;
            let instruction = usize::from(found.instruction);
            self.worth[instruction] = SURE.min(self.worth[instruction] + 1);
        }
    }

    /// Remembers the line beside one that an instruction has used; returns whether it is likely to be used.
    #[inline]
    fn is_worth_it(&mut self, instruction: u64, beside: u64) -> bool {
        let instruction = (instruction ^ (instruction >> 8)) as u8;
        let new = Remembered { line: beside, instruction, is_waiting: true };
        let old = std::mem::replace(self.slot(beside), new);
        if old.is_waiting && old.line != new.line {
            let worth = &mut self.worth[usize::from(old.instruction)];
            *worth = worth.saturating_sub(1);
        }
        self.worth[usize::from(instruction)] >= LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(instruction: u64, line: u64) -> Heard {
        Heard { instruction, page: 0, line, is_miss: true, at_ps: line }
    }

    #[test]
    fn the_lines_behind_are_wanted_once_and_within_the_page() {
        let mut next_line = NextLine::new(&NextLineSpec { lines: 2, by_neighbours: false, remembered: 0 });
        let mut wanted = Wanted::new();
        [7, 7, 62, 63].into_iter().for_each(|line| next_line.hear(&heard(0, line), |_| true, &mut wanted));
        let wanted: Vec<_> = wanted.iter().map(|ask| (ask.line, ask.at_ps)).collect();
        assert_eq!(wanted, [(8, 7), (9, 7), (63, 62)]);
    }

    #[test]
    fn neighbours_tell_the_direction_and_a_line_alone_that_is_missed_goes_up() {
        let mut next_line = NextLine::new(&NextLineSpec { lines: 1, by_neighbours: true, remembered: 0 });
        let wanted: Vec<_> = [[false, false], [true, false], [false, true], [true, true]]
            .into_iter()
            .flat_map(|neighbours| [true, false].map(|is_miss| (neighbours, is_miss)))
            .zip((8..).step_by(8))
            .filter_map(|((neighbours, is_miss), line)| {
                let mut wanted = Wanted::new();
                let has = |beside: u64| neighbours[usize::from(beside > line)];
                next_line.hear(&Heard { is_miss, ..heard(0, line) }, has, &mut wanted);
                wanted.first().map(|ask| ask.line as i64 - line as i64)
            })
            .collect();
        assert_eq!(wanted, [1, 1, 1, -1, -1]);
    }

    #[test]
    fn lines_beside_others_are_remembered_in_both_directions() {
        let spec = NextLineSpec { lines: 1, by_neighbours: true, remembered: 64 };
        // Places far from each other, of one line each or of two, the upper one first; each line beside the one before is there.
        let wanted = |steps: &[u64]| {
            let mut next_line = NextLine::new(&spec);
            let (mut wanted, mut last) = (Wanted::new(), 0);
            for place in (1..200).map(|place| 1_000 * place) {
                for step in steps {
                    wanted.clear();
                    let has = |line| line == last;
                    next_line.hear(&heard(1, place - step), has, &mut wanted);
                    last = place - step;
                }
            }
            wanted.len()
        };
        assert_eq!(wanted(&[0]), 0, "none of a line alone");
        assert_eq!(wanted(&[0, 1]), 0, "none of two");
        assert_eq!(
            wanted(&[0, 1, 2, 3, 4]),
            1,
            "most of five are worth it, and the last one asks for another"
        );
    }

    #[test]
    fn an_instruction_whose_lines_behind_are_not_used_gets_none_and_another_one_does() {
        let mut next_line = NextLine::new(&NextLineSpec { lines: 1, by_neighbours: false, remembered: 64 });
        let mut count = |instruction, lines: &mut dyn Iterator<Item = u64>| {
            let mut wanted = Wanted::new();
            lines.for_each(|line| {
                wanted.clear();
                next_line.hear(&heard(instruction, line), |_| true, &mut wanted);
            });
            wanted.len()
        };
        // Every fourth line, then all lines of another instruction, then all lines of the first.
        assert_eq!(count(1, &mut (0..1_000).map(|step| 4 * step)), 0);
        assert_eq!(count(2, &mut (10_001..10_010)), 1);
        assert_eq!(count(1, &mut (4_000..4_007)), 0, "it is not believed at once");
        assert_eq!(count(1, &mut (4_007..4_030)), 1);
    }
}
